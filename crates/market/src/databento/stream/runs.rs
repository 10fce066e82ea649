//! What ends for a client where a symbol begins in another run of the hub, and its trading state.
//!
//! A hub begins each symbol with nothing. In a recording of several runs, that is the symbol's
//! first message of a run.

use std::collections::{BTreeSet, HashMap};

use tidewire_dbn::book::ClearRecord;
use tidewire_dbn::databento::Schema;
use tidewire_feed::wire::{LastValue, Level, Message, TradingState};

use super::super::intervals::BBO;
use super::super::selection::instrument_id;
use super::values::Stamp;
use super::{Stream, status_of, time_ns};

/// The runs of the hub in a replay.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Whether the replay may have messages of several runs.
    pub(super) are_many: bool,
    /// The run of the current message.
    now: u32,
    /// Whether it is that of this hub, whose sequences the message has.
    is_own: bool,
    /// Whether the current message only repeats another topic's, if it is of an earlier run.
    repeats: bool,
    /// By topic number: the run of its newest message.
    newest: HashMap<u32, u32>,
    /// By topic number: the publishers of the orders that the client has, and their run.
    orders: HashMap<u32, (u32, BTreeSet<u16>)>,
}

impl Runs {
    /// Notes the run of the next message, and whether it is that of this hub.
    pub(super) fn go_on(&mut self, run: u32, is_own: bool) {
        (self.now, self.is_own, self.repeats) = (run, is_own, false);
    }

    /// Notes that the topic of the next message, which is of an earlier run, only repeated another
    /// one.
    pub(super) fn note_repeating(&mut self) {
        self.repeats = true;
    }

    /// Returns whether the message only repeats another topic's in an earlier run.
    pub(super) fn is_repeating(&self) -> bool {
        self.repeats
    }

    /// Returns whether the message is of this hub's own run.
    pub(super) fn is_of_this_hub(&self) -> bool {
        self.is_own
    }

    /// Notes a message of a topic. Returns whether its last one was of an earlier run.
    pub(super) fn enters(&mut self, number: u32) -> bool {
        let before = match self.are_many {
            true => self.newest.insert(number, self.now),
            false => None,
        };
        before.is_some_and(|before| before != self.now)
    }

    /// Notes that the client has got an order of this publisher.
    pub(super) fn note_orders(&mut self, number: u32, publisher: u16) {
        if self.are_many {
            let (run, publishers) = self.orders.entry(number).or_default();
            *run = self.now;
            publishers.insert(publisher);
        }
    }

    /// Takes the publishers of those orders that a topic has from an earlier run.
    fn take_void(&mut self, number: u32) -> BTreeSet<u16> {
        let is_void = |&(run, _): &(u32, _)| run != self.now;
        match self.orders.get(&number).is_some_and(is_void) {
            true => self.orders.remove(&number).unwrap_or_default().1,
            false => BTreeSet::new(),
        }
    }
}

impl Stream {
    /// Ends what a topic has from an earlier run of the hub, if `message` is its first one in
    /// another: orders, price levels and the last trade. Returns the number of records.
    pub(super) fn begin_in_run(
        &mut self,
        message: &Message,
        (followed, reached): (u16, u16),
        stamp: Stamp,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        // A definition may come long before the symbol begins.
        if !self.runs.are_many || matches!(message, Message::Definition(_) | Message::Record(_)) {
            return 0;
        }
        let (number, source_time_ns) = (stamp.number, time_ns(message));
        let is_reached = reached & Schema::Mbo.bit() != 0;
        let mut records = self.clear_orders((number, source_time_ns), is_reached, unix_ns, out);
        if self.runs.enters(number) {
            self.bars.trades_may_repeat(number);
            if followed & BBO != 0 {
                self.intervals.forget_trade(number);
            }
            if followed & Schema::Mbp10.bit() != 0 && self.depth.levels(number).is_some() {
                let end = Level {
                    symbol: number,
                    source: message.source(),
                    source_time_ns,
                    action: Level::END,
                    is_last: 1,
                    ..Level::default()
                };
                records += self.tell_level(&end, reached, stamp, unix_ns, out);
            }
        }
        records
    }

    /// Clears the orders that a topic has from an earlier run of the hub, in a record for each
    /// publisher if that `is_reached`. Returns the number of records.
    pub(super) fn clear_orders(
        &mut self,
        (number, source_time_ns): (u32, u64),
        is_reached: bool,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let publishers = self.runs.take_void(number);
        if !is_reached {
            return 0;
        }
        for &publisher in &publishers {
            let clear = ClearRecord::at(publisher, source_time_ns);
            let id = instrument_id(number);
            let mut writer = self.writer(out, unix_ns);
            writer.record(&clear.bytes, id, publisher, "");
        }
        publishers.len() as u64
    }

    /// Notes a topic's trading state, if it is followed for `status`. Returns whether it is another
    /// one.
    pub(super) fn note_state(&mut self, number: u32, state: TradingState, schemas: u16) -> bool {
        if schemas & Schema::Status.bit() == 0 {
            return false;
        }
        let before = match state {
            TradingState::UNKNOWN => self.states.remove(&number),
            state => self.states.insert(number, state),
        };
        before.unwrap_or(TradingState::UNKNOWN) != state
    }

    /// Takes the trading state of a whole value, which repeats what has happened. It is a record
    /// only if the client has another one. Returns the number of records.
    pub(super) fn tell_state(
        &mut self,
        value: &LastValue,
        reached: u16,
        stamp: Stamp,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let schemas = self.selection.of(stamp.number).schemas;
        if !self.note_state(stamp.number, value.state, schemas)
            || reached & Schema::Status.bit() == 0
        {
            return 0;
        }
        let status = status_of(value);
        let event = stamp.event(status.source_time_ns, status.source);
        self.writer(out, unix_ns)
            .status(&event, status.state, status.reason);
        1
    }
}
