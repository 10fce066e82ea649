//! The sequenced output of a sender: live packets, retransmissions, heartbeats.

use std::collections::VecDeque;

use crate::journal::{Cursor, Filter, Journal, PacketOptions};
use crate::wire::{Control, Flags, PacketWriter, Request, TooOld};

use super::Steps;

/// Maximum requested ranges not yet sent. Further requests are dropped and counted, and the
/// receiver requests again.
pub const REQUESTS_MAX: usize = 64;
/// Delay of the first heartbeat after the last packet: a lost last packet is noticed soon. The
/// delay then doubles up to the interval.
pub const HEARTBEAT_DELAY_NS_FIRST: u64 = 10_000_000;
/// Longest silence of a sender.
pub const HEARTBEAT_INTERVAL_NS_MAX: u64 = 1_000_000_000;

/// Counters of a sender; every field only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Stream messages sent for the first time (in a selection, skipped sequences too).
    pub messages: u64,
    /// Sequences sent again on request.
    pub retransmitted: u64,
    /// Requests for messages that are no longer kept.
    pub too_old: u64,
    /// Requests dropped because [`REQUESTS_MAX`] were waiting.
    pub requests_dropped: u64,
    /// Heartbeats sent.
    pub heartbeats: u64,
    /// Snapshots begun.
    pub snapshots: u64,
    /// Snapshot records sent.
    pub snapshot_records: u64,
    /// Times that a snapshot replaced messages because the receiver was too slow.
    pub conflations: u64,
    /// Sequences replaced by snapshots.
    pub conflated: u64,
    /// Times that a part of the stream was left out because the receiver was too slow.
    pub drops: u64,
    /// Sequences left out.
    pub dropped: u64,
    /// Times that the receiver was disconnected as too slow: at most 1.
    pub cut_offs: u64,
}

/// A requested range.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: u64,
    until: u64,
}

/// The cursor, requests and heartbeats of one receiver.
#[derive(Debug)]
pub(crate) struct StreamSender {
    pub(crate) cursor: Cursor,
    pub(crate) counters: SenderCounters,
    requests: VecDeque<Range>,
    packet_limit_bytes: usize,
    heartbeat_interval_ns: u64,
    heartbeat_delay_ns: u64,
    next_heartbeat_ns: u64,
    end_acknowledged: bool,
    /// Whether the receiver gets values for messages that cannot be sent again, without a
    /// request.
    pub(crate) recovers: bool,
    /// First requested sequence that is no longer kept and that no snapshot covers yet.
    pub(crate) too_old_since: Option<u64>,
}

impl StreamSender {
    pub(crate) fn new(
        packet_limit_bytes: usize,
        heartbeat_interval_ns: u64,
        now_ns: u64,
    ) -> StreamSender {
        let interval_ns = heartbeat_interval_ns.clamp(1, HEARTBEAT_INTERVAL_NS_MAX);
        StreamSender {
            cursor: Cursor::at(0),
            counters: SenderCounters::default(),
            requests: VecDeque::with_capacity(REQUESTS_MAX),
            packet_limit_bytes,
            heartbeat_interval_ns: interval_ns,
            heartbeat_delay_ns: HEARTBEAT_DELAY_NS_FIRST.min(interval_ns),
            next_heartbeat_ns: now_ns.saturating_add(interval_ns),
            end_acknowledged: false,
            recovers: false,
            too_old_since: None,
        }
    }

    pub(crate) fn heartbeat_interval_ns(&self) -> u64 {
        self.heartbeat_interval_ns
    }

    pub(crate) fn next_heartbeat_ns(&self) -> u64 {
        self.next_heartbeat_ns
    }

    pub(crate) fn end_acknowledged(&self) -> bool {
        self.end_acknowledged
    }

    pub(crate) fn acknowledge_end(&mut self) {
        self.end_acknowledged = true;
    }

    /// Handles a new connection of the same receiver, which wants `next_sequence` first.
    pub(crate) fn restart(&mut self, next_sequence: u64, now_ns: u64) {
        self.cursor = Cursor::at(next_sequence);
        self.requests.clear();
        self.next_heartbeat_ns = now_ns;
    }

    /// Moves the cursor past the messages that the journal no longer keeps, and returns their
    /// number. The receiver notices the gap, requests it, and is told that it is too old.
    pub(crate) fn pass_what_is_gone(&mut self, journal: &Journal) -> u64 {
        let oldest = journal.oldest_sequence();
        let gone = oldest.saturating_sub(self.cursor.scanned);
        if gone > 0 {
            self.cursor = Cursor::at(oldest);
        }
        gone
    }

    pub(crate) fn request(&mut self, request: &Request) {
        if self.requests.len() == REQUESTS_MAX {
            self.counters.requests_dropped += 1;
            return;
        }
        let until = request.from.saturating_add(request.count);
        self.requests.push_back(Range {
            from: request.from,
            until,
        });
    }

    /// Answers requests within the budget, looking at as many messages of others as `steps`
    /// allows. Returns whether more is ready.
    pub(crate) fn produce_retransmissions(
        &mut self,
        journal: &Journal,
        filter: &impl Filter,
        out: &mut Vec<u8>,
        end_bytes: usize,
        steps: &mut Steps,
    ) -> bool {
        while let Some(range) = self.requests.front_mut() {
            if out.len() >= end_bytes || steps.are_used_up() {
                return true;
            }
            // Messages that were never sent are not retransmissions: the live stream brings them.
            let until = range.until.min(self.cursor.sent);
            let oldest = journal.oldest_sequence();
            if range.from < oldest && range.from < until {
                let too_old = TooOld {
                    wanted: range.from,
                    oldest,
                    recovers: self.recovers,
                    ..TooOld::default()
                };
                PacketWriter::control(out, journal.session(), &Control::TooOld(too_old));
                self.counters.too_old += 1;
                if self.recovers {
                    let since = self.too_old_since.unwrap_or(range.from);
                    self.too_old_since = Some(since.min(range.from));
                }
                range.from = oldest;
            }
            if range.from >= until {
                self.requests.pop_front();
                continue;
            }
            let options = PacketOptions {
                packet_limit_bytes: self.packet_limit_bytes,
                // The `TooOld` control may have used up the budget.
                budget_bytes: end_bytes.saturating_sub(out.len()),
                flags: Flags::RETRANSMISSION,
            };
            let mut cursor = Cursor::at(range.from);
            journal.write_packets(&mut cursor, until, &options, filter, out);
            journal.write_skipped(&mut cursor, Flags::RETRANSMISSION, out);
            if !filter.passes_all() {
                steps.spend(cursor.sent - range.from);
            }
            self.counters.retransmitted += cursor.sent - range.from;
            range.from = cursor.sent;
        }
        false
    }

    /// Sends the live stream within the budget. Returns whether more is ready.
    #[inline]
    pub(crate) fn produce_live(
        &mut self,
        journal: &Journal,
        filter: &impl Filter,
        out: &mut Vec<u8>,
        end_bytes: usize,
    ) -> bool {
        if self.cursor.scanned >= journal.next_sequence() {
            return false;
        }
        if out.len() >= end_bytes {
            return true;
        }
        let options = PacketOptions {
            packet_limit_bytes: self.packet_limit_bytes,
            budget_bytes: end_bytes - out.len(),
            flags: Flags::NONE,
        };
        let before = self.cursor.scanned;
        journal.write_packets(&mut self.cursor, u64::MAX, &options, filter, out);
        self.counters.messages += self.cursor.scanned - before;
        self.cursor.scanned < journal.next_sequence()
    }

    /// Sends an end of session or a heartbeat after enough silence.
    pub(crate) fn produce_idle(
        &mut self,
        journal: &Journal,
        joined: bool,
        now_ns: u64,
        said_something: bool,
        out: &mut Vec<u8>,
    ) {
        if said_something {
            self.heartbeat_delay_ns = HEARTBEAT_DELAY_NS_FIRST.min(self.heartbeat_interval_ns);
            self.next_heartbeat_ns = now_ns.saturating_add(self.heartbeat_delay_ns);
        }
        let complete = joined && self.cursor.scanned >= journal.next_sequence();
        let end = complete && journal.is_ended() && !self.end_acknowledged;
        // The end of session is sent at once, and again with every heartbeat until acknowledged.
        if now_ns < self.next_heartbeat_ns && !(end && said_something) {
            return;
        }
        journal.write_skipped(&mut self.cursor, Flags::NONE, out);
        let flags = if end {
            Flags::END_OF_SESSION
        } else {
            Flags::HEARTBEAT
        };
        let sequence = if joined { self.cursor.sent } else { 0 };
        PacketWriter::bare(out, journal.session(), flags, sequence);
        self.counters.heartbeats += 1;
        self.heartbeat_delay_ns = (self.heartbeat_delay_ns * 2).min(self.heartbeat_interval_ns);
        self.next_heartbeat_ns = now_ns.saturating_add(self.heartbeat_delay_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Everything;
    use crate::wire::{Message, Trade};

    #[test]
    fn a_word_of_age_that_uses_up_the_budget_is_followed_by_the_rest_later() {
        let mut journal = Journal::new(1, 64);
        (0..200).for_each(|_| assert!(journal.append(&Message::Trade(Trade::default())) > 0));
        let mut sender = StreamSender::new(1_472, HEARTBEAT_INTERVAL_NS_MAX, 0);
        sender.cursor = Cursor::at(201);
        sender.request(&Request {
            from: 1,
            count: 200,
            snapshot: false,
        });
        let mut out = Vec::new();
        let steps = &mut Steps::new(1);
        assert!(sender.produce_retransmissions(&journal, &Everything, &mut out, 10, steps));
        assert_eq!(
            (sender.counters.too_old, sender.counters.retransmitted),
            (1, 0)
        );
        let end_bytes = out.len() + 100_000;
        assert!(!sender.produce_retransmissions(&journal, &Everything, &mut out, end_bytes, steps));
        assert_eq!(
            (sender.counters.too_old, sender.counters.retransmitted),
            (1, 64)
        );
    }
}
