//! What is missing of a stream, and packets that came before it.

use std::collections::{BTreeMap, VecDeque};

/// Holes known at once; when there are more, the last one grows over what lies between.
pub const HOLES_MAX: usize = 1_024;
/// Times that a hole is asked for without any answer before it is given up.
pub const REQUEST_ATTEMPTS_MAX: u32 = 10;
/// Ranges asked for in one go; the rest waits for the next.
pub const REQUEST_RANGES_MAX: usize = 16;
/// Doublings of the delay between two requests for the same hole.
const RETRY_DOUBLINGS_MAX: u32 = 4;

/// A range that did not come in its turn.
#[derive(Clone, Copy, Debug)]
pub struct Hole {
    /// Its first sequence.
    pub from: u64,
    /// The first sequence behind it.
    pub until: u64,
    next_request_ns: u64,
    attempts: u32,
    /// Missing sequences when it was last asked for.
    missing: u64,
}

/// A packet's body that came too early.
#[derive(Debug)]
pub struct EarlyPacket {
    /// The first sequence behind it.
    pub until: u64,
    /// How many messages.
    pub message_count: u16,
    /// Their bytes.
    pub body: Vec<u8>,
}

/// Holes in ascending order and the early packets, by their first sequence.
#[derive(Debug, Default)]
pub struct Holes {
    /// In ascending order.
    pub list: VecDeque<Hole>,
    early: BTreeMap<u64, EarlyPacket>,
    early_bytes: usize,
}

impl Holes {
    /// Whether nothing is missing or early.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.early.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.list.clear();
        self.early.clear();
        self.early_bytes = 0;
    }

    /// Adds a hole behind all others; it is asked for at `request_ns` first.
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
            attempts: 0,
            missing: u64::MAX,
        });
    }

    /// Keeps an early packet; false where the limit forbids it.
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

    /// Takes the first early packet out if it is due at `expected` or earlier.
    pub fn take_due(&mut self, expected: u64) -> Option<(u64, EarlyPacket)> {
        let entry = self.early.first_entry()?;
        if *entry.key() > expected {
            return None;
        }
        let (first, packet) = entry.remove_entry();
        self.early_bytes -= packet.body.len();
        Some((first, packet))
    }

    /// Early packets kept.
    pub fn early_packets(&self) -> usize {
        self.early.len()
    }

    /// First sequence of the first early packet.
    pub fn first_early(&self) -> Option<u64> {
        self.early.first_key_value().map(|(&first, _)| first)
    }

    /// When a hole is to be asked for next.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.list.iter().map(|hole| hole.next_request_ns).min()
    }

    /// Puts all requests off, because a new connection sends everything from `expected` anyway.
    pub fn postpone(&mut self, until_ns: u64) {
        for hole in &mut self.list {
            hole.next_request_ns = until_ns;
            hole.attempts = 0;
            hole.missing = u64::MAX;
        }
    }

    /// Calls `ask` with each range that is due.
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
                // An answer is on its way, or only an earlier hole is in the way.
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

    /// Asks for the first hole again as soon as can be: all that was asked for has come.
    pub fn hasten(&mut self, now_ns: u64) {
        if let Some(hole) = self.list.front_mut() {
            hole.next_request_ns = now_ns;
            hole.attempts = 0;
            hole.missing = u64::MAX;
        }
    }

    /// Takes the first hole out if all of it came.
    pub fn take_closed(&mut self, expected: u64) -> Option<(u64, u64)> {
        let hole = self.list.pop_front_if(|hole| hole.until <= expected)?;
        Some((hole.from, hole.until))
    }

    /// Takes out what is missing from `expected` up to `until`, which never comes: the parts of
    /// the holes before `expected`, which did come.
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

    /// Returns the end of the first hole, after too many requests without an answer.
    pub fn given_up(&self) -> Option<u64> {
        self.given_up_after(REQUEST_ATTEMPTS_MAX)
    }

    /// End of the first hole, if it was asked for more than so many times.
    pub fn given_up_after(&self, attempts_max: u32) -> Option<u64> {
        self.list
            .front()
            .filter(|hole| hole.attempts > attempts_max)
            .map(|hole| hole.until)
    }
}

/// Calls `each` with the ranges of `from..until` that no early packet covers; how many sequences.
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
