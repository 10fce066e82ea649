//! Replays: from the recording, if there is one, then from the journal.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_dbn::databento::{Schema, error_code, system_code};
use tidewire_feed::wire::Message;

use super::super::past::{FromBefore, Next, Past, Told};
use super::values::Stamp;
use super::{SCAN_MESSAGES_MAX, Stream, time_ns};
use crate::market::Market;
use crate::venues::CONSOLIDATED;

impl Stream {
    /// Starts the session. Returns the time from which there will be records.
    pub(in super::super) fn begin(&mut self, market: &Arc<Market>, unix_ns: u64) -> u64 {
        debug_assert!(!self.has_begun, "a session starts once");
        self.has_begun = true;
        self.opening_schemas = u16::MAX;
        let Some(start_ns) = self.selection.start_ns() else {
            let journal = market.journal.lock();
            self.live_from = journal.next_sequence();
            self.cursor = self.live_from;
            self.is_complete = true;
            self.settle_at_start(market, None, &journal);
            return unix_ns;
        };
        let journal = market.journal.lock();
        self.cursor = journal.oldest_sequence();
        let oldest_ns = journal.source_times_ns().map_or(u64::MAX, |times| times.0);
        drop(journal);
        self.past = self.open_past(market, start_ns, oldest_ns);
        self.runs.are_many = self.past.is_some();
        let known_from_ns = match self.past {
            None if self.cursor > 1 => oldest_ns.max(start_ns),
            _ => start_ns,
        };
        if let Some(start_ns) = self.selection.start_ns_of(Schema::Definition) {
            self.definitions.begin(start_ns);
        }
        let first_sequence = self.past.as_ref().map_or(self.cursor, |_| 0);
        self.selection.go_back(start_ns, first_sequence);
        let journal = market.journal.lock();
        self.live_from = journal.next_sequence();
        debug_assert!(
            self.cursor <= self.live_from,
            "a replay ends where live data begins"
        );
        self.settle_at_start(market, Some(known_from_ns), &journal);
        let kept = self.live_from - self.cursor;
        drop(journal);
        let before = self
            .past
            .as_ref()
            .map_or("", |_| "the recording, and from ");
        self.note(
            system_code::SUBSCRIPTION_ACK,
            format!(
                "Replay from {before}the {kept} latest messages, sequences {} to {}",
                self.cursor,
                self.live_from.saturating_sub(1)
            ),
        );
        start_ns
    }

    /// Opens the recording, if there is one and the journal does not go back far enough. A journal
    /// whose oldest message has no time may not.
    fn open_past(&mut self, market: &Arc<Market>, start_ns: u64, oldest_ns: u64) -> Option<Past> {
        let with_levels = self.selection.wants(Schema::Mbp10.bit());
        let definitions =
            self.selection.has_chains() || self.selection.start_ns_of(Schema::Definition).is_some();
        // A book, a future or a definition may be older than the journal.
        let is_older = start_ns < oldest_ns || oldest_ns == 0 || with_levels || definitions;
        let path = market.recording.path.get().filter(|_| is_older)?;
        let from_before = FromBefore {
            levels: with_levels,
            definitions,
        };
        match Past::open(market, path.clone(), start_ns, from_before) {
            Ok(past) => Some(past),
            Err(error) => {
                let text = format!("the recording cannot be read: {error}");
                self.note_error(error_code::SKIPPED_RECORDS, text);
                None
            }
        }
    }

    /// Sends records from the recording while there is room. Then the journal continues.
    pub(super) fn follow_past(
        &mut self,
        market: &Market,
        unix_ns: u64,
        out: &mut Vec<u8>,
        end: usize,
    ) -> bool {
        let (mut records, mut left) = (0, SCAN_MESSAGES_MAX);
        let more = loop {
            // Most messages may have no record, and the reader may be as fast as the lane.
            if out.len() >= end || left == 0 || self.is_due() {
                break true;
            }
            left -= 1;
            let live_from = self.live_from;
            let is_live = move |told: &Told| told.is_of_this_run && told.sequence >= live_from;
            let Some(past) = &mut self.past else {
                break true;
            };
            if let Some(told) = past.peek(market)
                && !told.is_state
            {
                let (publisher, time_ns) = (told.message.source(), time_ns(&told.message));
                let now_ns = if is_live(told) { unix_ns } else { time_ns };
                if self.passes(publisher, time_ns, now_ns) {
                    break true;
                }
            }
            let Some(past) = &mut self.past else {
                break true;
            };
            match past.next(market) {
                Next::Message(told) if self.repeats(market, &told) => {}
                Next::Message(told) if told.is_state => self.take_state(market, &told),
                Next::Message(told) => {
                    let is_live = is_live(&told);
                    self.runs.go_on(told.run, told.is_of_this_run);
                    if told.repeats {
                        self.runs.note_repeating();
                    }
                    let sent_ns = match is_live {
                        true => unix_ns.max(tidewire_lane::unix_ns()),
                        false => unix_ns,
                    };
                    records +=
                        self.tell(market, told.sequence, &told.message, is_live, sent_ns, out);
                    if told.is_of_this_run {
                        self.advance(told.sequence + 1, unix_ns, out);
                    }
                }
                Next::Gap(from, until) => {
                    let last = until.saturating_sub(1);
                    let text = format!("sequences {from} to {last} are not in the recording");
                    self.lose_derived();
                    self.note_error(error_code::SKIPPED_RECORDS, text);
                    self.say(unix_ns, out);
                }
                Next::LeftOut(count) => {
                    let text = format!(
                        "{count} symbols of the recording are left out: their symbol has another \
                         venue, or market-topics-max is near"
                    );
                    self.note_error(error_code::SYMBOL_RESOLUTION_FAILED, text);
                    self.say(unix_ns, out);
                }
                Next::Journal(next) => {
                    self.past = None;
                    self.advance(next, unix_ns, out);
                }
                Next::Nothing => break !self.unknown_books.is_empty(),
            }
        };
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
        more
    }

    /// Returns whether a message of an earlier run is not for this client. A symbol had several
    /// venues there and has one here, whose topic has the consolidated values too: those are for a
    /// client that names it, and the venue's own for others.
    fn repeats(&mut self, market: &Market, told: &Told) -> bool {
        let is_consolidated = told.message.source() == CONSOLIDATED;
        let is_value = matches!(
            told.message,
            Message::Quote(_) | Message::Trade(_) | Message::Status(_) | Message::LastValue(_)
        );
        if told.is_of_this_run || !is_value || !is_consolidated && !told.is_of_venue {
            return false;
        }
        if told.repeats && told.is_of_venue {
            // Both were one topic's values, and are so here.
            return true;
        }
        let Some(number) = told.message.symbol() else {
            return false;
        };
        if market
            .board
            .topic(number)
            .is_none_or(|topic| topic.is_consolidated())
        {
            return false;
        }
        self.selection.see(&market.board, number);
        self.split_upstream(market, &told.message);
        let is_named = self.selection.of(number).named != 0;
        told.is_of_venue == is_named
    }

    /// Takes the state of a topic, which no record shows.
    fn take_state(&mut self, market: &Market, told: &Told) {
        let Some(number) = told.message.symbol() else {
            return;
        };
        self.selection.see(&market.board, number);
        let chosen = self.selection.of(number);
        // What the replay does not concern has its current values.
        if chosen.replayed | chosen.watched != 0 {
            let stamp = Stamp {
                number,
                sequence: told.sequence,
                ts_recv: None,
            };
            self.runs.go_on(told.run, told.is_of_this_run);
            if self.runs.enters(number) {
                self.bars.trades_may_repeat(number);
                self.intervals.forget_trade(number);
            }
            self.follow_value(&told.message, chosen.schemas | chosen.watched, stamp);
        }
    }

    /// Notes that a replay has reached this sequence.
    fn advance(&mut self, next: u64, unix_ns: u64, out: &mut Vec<u8>) {
        self.cursor = next;
        self.complete(unix_ns, out);
    }

    /// Announces the end of the replay, once it is reached.
    pub(super) fn complete(&mut self, unix_ns: u64, out: &mut Vec<u8>) {
        if self.cursor >= self.live_from && !std::mem::replace(&mut self.is_complete, true) {
            // Books are followed ahead of a roll in a replay only.
            self.leave_books();
            self.definitions.reach_start();
            self.bars.end_replay();
            self.unknown_books = self.depth.unknown();
            let text = format!("Replay completed at sequence {}", self.live_from - 1);
            self.note(system_code::REPLAY_COMPLETED, text);
            self.say(unix_ns, out);
        }
    }

    /// Returns whether the client's position is in a replay.
    pub(super) fn is_replaying(&self) -> bool {
        self.past.is_some() || self.cursor < self.live_from
    }
}
