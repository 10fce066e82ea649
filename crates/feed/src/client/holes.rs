//! The missing ranges of a stream, and packets that arrived early.

use std::collections::{BTreeMap, VecDeque};

/// Maximum holes known at once; beyond that the last one grows to cover new ones.
pub const HOLES_MAX: usize = 1_024;
/// Unanswered requests for a hole before it is given up.
pub const REQUEST_ATTEMPTS_MAX: u32 = 10;
/// Maximum ranges requested at once; the rest waits for the next time.
pub const REQUEST_RANGES_MAX: usize = 16;
/// Maximum doublings of the delay between two requests for the same hole.
const RETRY_DOUBLINGS_MAX: u32 = 4;

/// A range missing from the stream.
#[derive(Clone, Copy, Debug)]
pub struct Hole {
    /// Its first sequence.
    pub from: u64,
    /// The first sequence after it.
    pub until: u64,
    next_request_ns: u64,
    /// When it is first requested.
    first_request_ns: u64,
    /// Whether it has been missing for so long that the values count as in doubt.
    is_overdue: bool,
    attempts: u32,
    /// Missing sequences when the hole was last requested.
    missing: u64,
}

/// The body of a packet that arrived early.
#[derive(Debug)]
pub struct EarlyPacket {
    /// The first sequence after it.
    pub until: u64,
    /// Number of messages.
    pub message_count: u16,
    /// The encoded messages.
    pub body: Vec<u8>,
}

/// Holes in ascending order, and the early packets by first sequence.
#[derive(Debug, Default)]
pub struct Holes {
    /// In ascending order.
    pub list: VecDeque<Hole>,
    early: BTreeMap<u64, EarlyPacket>,
    early_bytes: usize,
}

impl Holes {
    /// Returns whether nothing is missing or early.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.early.is_empty()
    }

    /// Removes all holes and early packets.
    pub fn clear(&mut self) {
        self.list.clear();
        self.early.clear();
        self.early_bytes = 0;
    }

    /// Adds a hole after all others; its first request is at `request_ns`.
    pub fn open(&mut self, from: u64, until: u64, request_ns: u64) {
        let crowded = self.list.len() == HOLES_MAX;
        if let Some(last) = self.list.back_mut()
            && (crowded || (last.until == from && last.attempts == 0))
        {
            last.until = until;
            return;
        }
        self.list.push_back(Hole {
            from,
            until,
            next_request_ns: request_ns,
            first_request_ns: request_ns,
            is_overdue: false,
            attempts: 0,
            missing: u64::MAX,
        });
    }

    /// Marks the holes that are still open `delay_ns` after their first request was due.
    pub fn mark_overdue(&mut self, now_ns: u64, delay_ns: u64) {
        for hole in &mut self.list {
            if hole.first_request_ns.saturating_add(delay_ns) > now_ns {
                // Later holes were opened later.
                break;
            }
            hole.is_overdue = true;
        }
    }

    /// Returns whether a hole is marked as overdue.
    pub fn is_overdue(&self) -> bool {
        self.list.front().is_some_and(|hole| hole.is_overdue)
    }

    /// Returns when the first hole becomes overdue, if it is not marked yet.
    pub fn overdue_ns(&self, delay_ns: u64) -> Option<u64> {
        let first = self.list.front().filter(|hole| !hole.is_overdue)?;
        Some(first.first_request_ns.saturating_add(delay_ns))
    }

    /// Keeps an early packet; returns false if that would exceed the limit.
    pub fn keep(
        &mut self,
        first: u64,
        until: u64,
        message_count: u16,
        body: &[u8],
        limit_bytes: usize,
    ) -> bool {
        if self
            .early
            .get(&first)
            .is_some_and(|known| known.until >= until)
        {
            return true;
        }
        if self.early_bytes + body.len() > limit_bytes {
            return false;
        }
        self.early_bytes += body.len();
        let packet = EarlyPacket {
            until,
            message_count,
            body: body.to_vec(),
        };
        if let Some(shorter) = self.early.insert(first, packet) {
            self.early_bytes -= shorter.body.len();
        }
        true
    }

    /// Removes and returns the first early packet if it is due at `expected` or earlier.
    pub fn take_due(&mut self, expected: u64) -> Option<(u64, EarlyPacket)> {
        let entry = self.early.first_entry()?;
        if *entry.key() > expected {
            return None;
        }
        let (first, packet) = entry.remove_entry();
        self.early_bytes -= packet.body.len();
        Some((first, packet))
    }

    /// Returns the number of early packets.
    pub fn early_packets(&self) -> usize {
        self.early.len()
    }

    /// Returns the first sequence of the first early packet.
    pub fn first_early(&self) -> Option<u64> {
        self.early.first_key_value().map(|(&first, _)| first)
    }

    /// Returns when the next hole must be requested.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.list.iter().map(|hole| hole.next_request_ns).min()
    }

    /// Postpones all requests, because a new connection sends everything from `expected` anyway.
    pub fn postpone(&mut self, until_ns: u64) {
        for hole in &mut self.list {
            hole.next_request_ns = until_ns;
            hole.first_request_ns = until_ns;
            hole.attempts = 0;
            hole.missing = u64::MAX;
        }
    }

    /// Calls `ask` with each due range.
    pub fn request_due(
        &mut self,
        expected: u64,
        now_ns: u64,
        retry_ns: u64,
        mut ask: impl FnMut(u64, u64),
    ) {
        let mut ranges_left = REQUEST_RANGES_MAX;
        for hole in &mut self.list {
            if hole.next_request_ns > now_ns {
                continue;
            }
            if ranges_left == 0 {
                break;
            }
            let from = hole.from.max(expected);
            let missing: u64 = missing(&self.early, from, hole.until, |_, _| {});
            if missing == 0 || (hole.attempts > 0 && missing < hole.missing) {
                // An answer is arriving, or only an earlier hole blocks this one.
                hole.next_request_ns = now_ns.saturating_add(retry_ns);
                hole.attempts = hole.attempts.min(1);
                hole.missing = missing;
                continue;
            }
            hole.missing = missing;
            hole.attempts += 1;
            let doublings = (hole.attempts - 1).min(RETRY_DOUBLINGS_MAX);
            hole.next_request_ns = now_ns.saturating_add(retry_ns << doublings);
            if hole.attempts <= REQUEST_ATTEMPTS_MAX {
                self::missing(&self.early, from, hole.until, |from, until| {
                    if ranges_left > 0 {
                        ranges_left -= 1;
                        ask(from, until);
                    }
                });
            }
        }
    }

    /// Requests the first hole again as soon as possible, because all requested data has arrived.
    pub fn hasten(&mut self, now_ns: u64) {
        if let Some(hole) = self.list.front_mut() {
            hole.next_request_ns = now_ns;
            hole.attempts = 0;
            hole.missing = u64::MAX;
        }
    }

    /// Removes and returns the first hole if all of it has arrived.
    pub fn take_closed(&mut self, expected: u64) -> Option<(u64, u64)> {
        let hole = self.list.pop_front_if(|hole| hole.until <= expected)?;
        Some((hole.from, hole.until))
    }

    /// Removes what is missing from `expected` up to `until`, which will never arrive. Returns
    /// the parts of the holes before `expected`, which did arrive.
    pub fn lose(&mut self, expected: u64, until: u64) -> Vec<(u64, u64)> {
        let mut recovered = Vec::new();
        while let Some(hole) = self.list.front_mut() {
            if hole.from >= until {
                break;
            }
            recovered.push((hole.from, expected.min(hole.until)));
            hole.from = until;
            if hole.until > until {
                break;
            }
            self.list.pop_front();
        }
        recovered
    }

    /// Returns the end of the first hole after too many unanswered requests.
    pub fn given_up(&self) -> Option<u64> {
        self.given_up_after(REQUEST_ATTEMPTS_MAX)
    }

    /// Returns the end of the first hole if it was requested more than `attempts_max` times.
    pub fn given_up_after(&self, attempts_max: u32) -> Option<u64> {
        self.list
            .front()
            .filter(|hole| hole.attempts > attempts_max)
            .map(|hole| hole.until)
    }
}

/// Calls `each` with the ranges of `from..until` that no early packet covers. Returns the number
/// of missing sequences.
fn missing(
    early: &BTreeMap<u64, EarlyPacket>,
    from: u64,
    until: u64,
    mut each: impl FnMut(u64, u64),
) -> u64 {
    let mut next = from;
    let mut count = 0;
    for (&first, packet) in early.range(..until) {
        if packet.until <= next {
            continue;
        }
        if first > next {
            each(next, first);
            count += first - next;
        }
        next = packet.until;
    }
    if next < until {
        each(next, until);
        count += until - next;
    }
    count
}
