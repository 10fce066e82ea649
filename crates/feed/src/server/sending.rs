//! What a session sends to a subscriber: snapshots, retransmissions and the live stream.

use std::sync::Arc;

use crate::journal::{Cursor, Journal};
use crate::wire::{
    Control, PacketWriter, RefusalReason, RefusalText, Refused, Role, SlowPolicy, SnapshotNotice,
    TooOld,
};

use super::snapshot::{self, Board, Scope, SnapshotJob};
use super::{SNAPSHOTS_KEPT_MAX, Session, SessionState, Steps};

impl Session {
    /// Appends sequenced messages and snapshots. Returns whether more is ready.
    pub(super) fn produce_stream<B: Board>(
        &mut self,
        journal: &Journal,
        board: &B,
        out: &mut Vec<u8>,
        end_bytes: usize,
        steps: &mut Steps,
    ) -> bool {
        let joins = self.state == SessionState::Waiting;
        self.begin(journal, board);
        let recovers = self.login.role == Role::Recovery;
        if recovers && !joins && self.state == SessionState::Joined {
            // The live stream reaches this client in datagrams.
            self.stream.cursor = Cursor::at(journal.next_sequence());
        }
        if self.is_behind(journal) && !self.snapshot_first {
            match self.slow_policy() {
                SlowPolicy::Conflate => self.snapshot_first = true,
                SlowPolicy::Drop => self.leave_out(journal, out),
                SlowPolicy::Disconnect => {
                    let text = "too slow: the next message is no longer kept";
                    let refused = Refused {
                        reason: RefusalReason::TOO_SLOW,
                        text: RefusalText::truncated(text),
                    };
                    self.state = SessionState::Refused;
                    self.stream.counters.cut_offs += 1;
                    PacketWriter::control(out, journal.session(), &Control::Refused(refused));
                    return false;
                }
            }
        }
        self.begin_snapshot(journal, board, out, steps);
        if recovers && self.state == SessionState::Joined && !self.snapshot_first {
            self.stream.cursor = Cursor::at(journal.next_sequence());
        }
        // Neither recovery nor a snapshot may stall the live stream: each gets half of the rest.
        let half = |out: &Vec<u8>| out.len() + end_bytes.saturating_sub(out.len()).div_ceil(2);
        let recovery_end = half(out);
        let mut more = false;
        let is_current = self.selection.is_current(board.len());
        if is_current {
            let selection = &self.selection;
            let stream = &mut self.stream;
            more = stream.produce_retransmissions(journal, selection, out, recovery_end, steps);
        }
        if let Some(since) = self.stream.too_old_since.take() {
            self.request_changes(since);
            self.begin_snapshot(journal, board, out, steps);
        }
        let snapshot_end = if self.live_waits {
            end_bytes
        } else {
            half(out)
        };
        more |= self.produce_snapshot(journal, board, out, snapshot_end, steps);
        let is_live = is_current && !recovers && !self.live_waits && !self.snapshot_first;
        if self.state == SessionState::Joined && is_live {
            more |= self
                .stream
                .produce_live(journal, &self.selection, out, end_bytes);
        }
        more
    }

    /// Starts the stream once the login's subscriptions have arrived and their symbols are known.
    fn begin<B: Board>(&mut self, journal: &Journal, board: &B) {
        let ready = self.state == SessionState::Waiting
            && self.subscriptions_due == 0
            && !self.selection.is_empty()
            && self.selection.is_settled(board.len());
        if !ready {
            return;
        }
        self.state = SessionState::Joined;
        if self.resumes(journal) {
            self.stream.cursor = Cursor::at(self.login.next_sequence);
            // A client that was disconnected is not slow: it gets what it needs at any
            // policy.
            self.snapshot_first = self.is_behind(journal);
            if self.login.next_sequence <= board.rights_changed() {
                self.snapshot_patterns = self.selection.patterns().to_vec();
            }
        } else {
            self.stream.cursor = Cursor::at(0);
            self.snapshot_first = true;
        }
    }

    /// Returns whether the client's next message is no longer kept, or too far behind.
    pub(super) fn is_behind(&self, journal: &Journal) -> bool {
        let oldest = journal
            .next_sequence()
            .saturating_sub(self.config.lag_messages_max)
            .max(journal.oldest_sequence());
        // While a snapshot replaces the stream's past, the cursor is at the snapshot's end.
        self.state == SessionState::Joined && self.stream.cursor.scanned < oldest
    }

    /// Moves the cursor to the middle of the kept messages and marks the gap. Gaps are then rare
    /// and large rather than frequent and small.
    fn leave_out(&mut self, journal: &Journal, out: &mut Vec<u8>) {
        let next = journal.next_sequence();
        let room = self
            .config
            .lag_messages_max
            .min(next - journal.oldest_sequence());
        let (wanted, oldest) = (self.stream.cursor.sent, next - room / 2);
        let too_old = TooOld {
            wanted,
            oldest,
            dropped: true,
            ..TooOld::default()
        };
        PacketWriter::control(out, journal.session(), &Control::TooOld(too_old));
        self.stream.counters.drops += 1;
        self.stream.counters.dropped += oldest.saturating_sub(wanted);
        self.stream.cursor = Cursor::at(oldest);
    }

    /// Begins the next due snapshot, if none is being sent.
    ///
    /// It waits until the selection is settled. Messages of a symbol that is not found yet are
    /// skipped, so its value must not be sent before.
    fn begin_snapshot<B: Board>(
        &mut self,
        journal: &Journal,
        board: &B,
        out: &mut Vec<u8>,
        steps: &mut Steps,
    ) {
        let is_ready = self.snapshot.is_none()
            && self.state == SessionState::Joined
            && self.selection.is_settled(board.len());
        if !is_ready {
            return;
        }
        let mut since = 0;
        let (patterns, restriction) = if self.snapshot_first {
            since = self.changes_wanted_since();
            self.snapshot_patterns.clear();
            self.snapshot_requests.clear();
            (self.selection.patterns().to_vec(), None)
        } else if !self.snapshot_patterns.is_empty() {
            (std::mem::take(&mut self.snapshot_patterns), None)
        } else if let Some((pattern, wanted)) = self.snapshot_requests.pop() {
            since = wanted;
            (self.selection.patterns().to_vec(), Some(pattern))
        } else {
            return;
        };
        let readable = self.selection.readable().clone();
        let scope = Scope::new((&patterns, readable), restriction, board, steps);
        let as_of = journal.next_sequence() - 1;
        if self.snapshot_first {
            self.jump(journal, out);
        }
        self.live_waits = std::mem::take(&mut self.snapshot_first);
        self.snapshot_number += 1;
        self.stream.counters.snapshots += 1;
        let notice = SnapshotNotice {
            number: self.snapshot_number,
            as_of,
            since,
        };
        // The messages that the snapshot replaces may have named others.
        self.venues_told = snapshot::tell_venues(board, self.venues_told, journal.session(), out);
        PacketWriter::control(out, journal.session(), &Control::SnapshotNotice(notice));
        let mut job = SnapshotJob::new(notice, Arc::new(scope), board.len());
        job.with_figures = self.login.reads_figures;
        self.snapshot = Some(job);
    }

    /// Returns the sequence since which a snapshot of the whole selection needs changes: the
    /// client has all values before it. 0 if it needs all values.
    fn changes_wanted_since(&self) -> u64 {
        if !self.login.partial_snapshots || !self.snapshot_patterns.is_empty() {
            return 0;
        }
        let requests = self.snapshot_requests.iter().map(|&(_, since)| since);
        requests.fold(self.stream.cursor.sent, u64::min)
    }

    /// Moves the cursor to the stream's end: a snapshot replaces the messages in between.
    fn jump(&mut self, journal: &Journal, out: &mut Vec<u8>) {
        let (wanted, oldest) = (self.stream.cursor.sent, journal.next_sequence());
        if wanted > 0 && wanted < oldest {
            let too_old = TooOld {
                wanted,
                oldest,
                conflated: true,
                ..TooOld::default()
            };
            PacketWriter::control(out, journal.session(), &Control::TooOld(too_old));
            self.stream.counters.conflations += 1;
            self.stream.counters.conflated += oldest - wanted;
        }
        self.stream.cursor = Cursor::at(oldest);
    }

    fn produce_snapshot<B: Board>(
        &mut self,
        journal: &Journal,
        board: &B,
        out: &mut Vec<u8>,
        end_bytes: usize,
        steps: &mut Steps,
    ) -> bool {
        let limit_bytes = self.config.packet_limit_bytes;
        while let Some(range) = self.snapshot_ranges.front_mut() {
            if out.len() >= end_bytes || steps.are_used_up() {
                return true;
            }
            range.produce(board, journal.session(), limit_bytes, out, end_bytes, steps);
            if !range.is_done() {
                return true;
            }
            self.snapshot_ranges.pop_front();
        }
        let Some(job) = &mut self.snapshot else {
            return false;
        };
        if out.len() >= end_bytes || steps.are_used_up() {
            return true;
        }
        let records = job.produce(board, journal.session(), limit_bytes, out, end_bytes, steps);
        self.stream.counters.snapshot_records += records;
        if !job.is_done() {
            return true;
        }
        if self.snapshots_kept.len() == SNAPSHOTS_KEPT_MAX {
            self.snapshots_kept.pop_front();
        }
        self.snapshots_kept.extend(self.snapshot.take());
        self.live_waits = false;
        self.snapshot_first
            || !self.snapshot_patterns.is_empty()
            || !self.snapshot_requests.is_empty()
    }
}
