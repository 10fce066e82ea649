//! Losses, snapshots and resets of a channel.
//!
//! After a loss each instrument is doubtful. If the next entry about it follows in the instrument's
//! own sequence (`RptSeq`), nothing about it was lost. Otherwise its entries wait for a snapshot
//! that is newer than the loss, and those after the snapshot are applied to it.
//!
//! Trading states have no number in that sequence. After a loss each is doubtful until the
//! instrument's next status, its next snapshot, or its next definition on the definition feed.

use tidewire_book::Order;
use tidewire_feed::client::Sink;
use tidewire_feed::wire::TradingState;
use tidewire_sbe::{DecodeError, Message};

use crate::channel::{Channel, size_of_wire};
use crate::instrument::State;
use crate::packet::Packet;
use crate::reference::GroupStatus;
use crate::schema::*;
use crate::snapshot::{SnapshotEntry, SnapshotHead, fill, fill_figures};

/// One run through the snapshots of all instruments, which the recovery feed repeats.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loop {
    /// Counts the loops.
    pub(crate) number: u64,
    next_sequence: u64,
    reports: u32,
    /// The incremental feed's sequence at the first snapshot.
    as_of: u64,
    /// Its highest sequence at any snapshot of the loop.
    as_of_max: u64,
    /// Whether every packet of the loop has arrived so far.
    is_whole: bool,
    /// Whether the current packet was counted before: the other line has brought it.
    is_copy: bool,
}

impl Loop {
    fn begin_packet(&mut self, sequence: u64) {
        self.is_copy = sequence != 1 && sequence < self.next_sequence;
        if sequence == 1 {
            *self = Self {
                number: self.number + 1,
                is_whole: true,
                ..Self::default()
            };
        } else if sequence > self.next_sequence {
            self.is_whole = false;
        }
        self.next_sequence = self.next_sequence.max(sequence + 1);
    }

    /// Counts a snapshot. Returns whether the loop is complete with it.
    fn count(&mut self, total: u32, as_of: u64) -> bool {
        if self.is_copy {
            return false;
        }
        self.reports += 1;
        if self.reports == 1 {
            self.as_of = as_of;
        }
        self.as_of_max = self.as_of_max.max(as_of);
        self.is_whole && self.reports == total
    }
}

/// Index of [`Channel::loops`].
const BY_PRICE: usize = 0;
const BY_ORDER: usize = 1;

impl Channel {
    /// The incremental feed is known from its packet `first` on.
    pub fn join<S: Sink>(&mut self, first: u64, sink: &mut S) {
        self.known_from = first;
        match first {
            1 => {
                self.doubt_states(false);
                self.reset(true, sink);
            }
            _ => self.lose(first, sink),
        }
    }

    /// The incremental feed's sequence started again, at `first`, with a packet sent at
    /// `begin_time_ns`. Snapshots sent before it are of the old sequence.
    pub fn restart<S: Sink>(&mut self, first: u64, begin_time_ns: u64, sink: &mut S) {
        self.begin_time_ns = begin_time_ns;
        self.discard_changes();
        self.sequence = first;
        for instrument in &mut self.instruments {
            instrument.details.forget_sequences();
        }
        self.group_statuses
            .values_mut()
            .for_each(GroupStatus::forget_sequences);
        self.doubt_states(first != 1);
        self.reset(first == 1, sink);
        self.known_from = first;
    }

    /// Packets before `known_from` were lost.
    ///
    /// The end of the current event may be among them. Its changes so far are a state that never
    /// was, so they are not published; the record that ends the doubt has them.
    pub fn packets_lost<S: Sink>(&mut self, known_from: u64, sink: &mut S) {
        self.discard_changes();
        self.lose(known_from, sink);
    }

    fn discard_changes(&mut self) {
        for index in self.dirty.drain(..) {
            self.instruments[index as usize].is_dirty = false;
        }
    }

    #[cold]
    pub(crate) fn lose<S: Sink>(&mut self, known_from: u64, sink: &mut S) {
        self.doubt_states(true);
        self.doubt_books(known_from, sink);
    }

    /// Notes whether changes of trading states may be lost.
    fn doubt_states(&mut self, is_doubtful: bool) {
        self.states_known_ns = if is_doubtful { u64::MAX } else { 0 };
        for instrument in &mut self.instruments {
            instrument.is_state_doubtful = is_doubtful;
        }
    }

    /// Notes that entries may be lost. Trading states are as right as before.
    #[cold]
    pub(crate) fn doubt_books<S: Sink>(&mut self, known_from: u64, sink: &mut S) {
        self.from_start = false;
        self.known_from = known_from;
        self.recovering = self.instruments.len();
        for instrument in &mut self.instruments {
            instrument.is_confirming = false;
            match instrument.state {
                State::Live => instrument.state = State::Doubtful,
                State::LiveAnyNext => {
                    instrument.state = State::Recovering;
                    instrument.details.clear_queue();
                }
                State::Doubtful | State::Recovering => {}
            }
        }
        for book in self.order_books.iter_mut().flatten() {
            book.lose(known_from);
        }
        self.orders_wanted = self.config.order_books;
        self.in_doubt = true;
        self.followed.renew();
        sink.values_doubtful();
    }

    /// Begins the recovery of an instrument whose book was built with another depth. It waits for a
    /// snapshot of after this packet.
    pub(crate) fn recover_one(&mut self, index: u32) {
        let instrument = &mut self.instruments[index as usize];
        if instrument.is_right() {
            self.recovering += 1;
        }
        instrument.state = State::Recovering;
        instrument.is_confirming = false;
        instrument.book.clear();
        instrument.details.clear_queue();
        self.followed.renew_one(index);
        self.from_start = false;
        self.known_from = self.known_from.max(self.sequence + 1);
    }

    /// The exchange has emptied all books. What was lost before, such as a trade, the reset does
    /// not bring back: then snapshots are needed for the figures of the session.
    pub(crate) fn reset_by_exchange<S: Sink>(&mut self, sink: &mut S) {
        let is_proven = self.recovering == 0;
        if !is_proven {
            self.needs_snapshots = true;
            self.known_from = self.sequence + 1;
        }
        self.reset(is_proven, sink);
    }

    /// Empties all books. With `is_start`, nothing came before; otherwise snapshots are needed.
    #[cold]
    pub(crate) fn reset<S: Sink>(&mut self, is_start: bool, sink: &mut S) {
        let state = if is_start {
            State::Live
        } else {
            State::Recovering
        };
        for instrument in &mut self.instruments {
            instrument.reset(state);
        }
        self.followed.renew();
        for book in self.order_books.iter_mut().flatten() {
            book.reset(is_start, self.sequence);
        }
        self.from_start = is_start;
        self.orders_wanted = self.config.order_books && !is_start;
        let all = self.instruments.iter();
        self.recovering = all.filter(|instrument| !instrument.is_right()).count();
        if !is_start {
            self.in_doubt = true;
            return sink.values_doubtful();
        }
        for index in 0..self.instruments.len() {
            self.publish_record(index as u32, sink);
        }
        self.tell_if_right(sink);
    }

    /// An instrument's book is right again.
    pub(crate) fn confirm<S: Sink>(&mut self, index: u32, state: State, sink: &mut S) {
        assert!(state.is_live(), "only a live state is confirmed");
        let instrument = &mut self.instruments[index as usize];
        debug_assert!(!instrument.state.is_live(), "it was counted as recovering");
        instrument.state = state;
        instrument.details.clear_queue();
        self.recovering -= usize::from(instrument.is_right());
        self.publish_record(index, sink);
        self.tell_if_right(sink);
    }

    /// An entry has proven an instrument's book. Its event is not over, so that a record of now
    /// would show a state between two levels.
    pub(crate) fn confirm_with_event(&mut self, index: u32) {
        let instrument = &mut self.instruments[index as usize];
        debug_assert!(!instrument.state.is_live(), "it was counted as recovering");
        instrument.state = State::Live;
        instrument.is_confirming = true;
        instrument.details.clear_queue();
        if !std::mem::replace(&mut instrument.is_dirty, true) {
            self.dirty.push(index);
        }
    }

    /// The event that has proven an instrument's book is over.
    pub(crate) fn confirm_event<S: Sink>(&mut self, index: u32, sink: &mut S) {
        let instrument = &mut self.instruments[index as usize];
        debug_assert!(instrument.state.is_live(), "the event has proven the book");
        instrument.is_confirming = false;
        self.recovering -= usize::from(instrument.is_right());
        self.publish_record(index, sink);
        self.tell_if_right(sink);
    }

    /// An instrument's trading state is right again.
    pub(crate) fn confirm_state<S: Sink>(&mut self, index: u32, sink: &mut S) {
        let instrument = &mut self.instruments[index as usize];
        let was_doubtful = std::mem::take(&mut instrument.is_state_doubtful);
        if was_doubtful && instrument.is_right() {
            self.recovering -= 1;
            self.publish_record(index, sink);
            self.tell_if_right(sink);
        }
    }

    /// Takes the trading state of a snapshot that is newer than the last loss. Without one, the
    /// state is unknown.
    fn restore_state<S: Sink>(
        &mut self,
        index: u32,
        status: Option<SecurityTradingStatus>,
        sink: &mut S,
    ) {
        let details = &self.instruments[index as usize].details;
        let state = status.and_then(crate::reference::trading_state);
        let state = state.unwrap_or(TradingState::UNKNOWN);
        if state != details.trading_state {
            self.set_state(index, state, 0, sink);
        }
        self.confirm_state(index, sink);
    }

    fn tell_if_right<S: Sink>(&mut self, sink: &mut S) {
        self.needs_snapshots &= self.recovering > 0;
        if self.recovering == 0 && std::mem::take(&mut self.in_doubt) {
            sink.values_right();
        }
    }

    /// Applies a packet of the recovery feed. It is skipped while nothing is to be recovered.
    pub fn apply_snapshot_packet<S: Sink>(&mut self, packet: &Packet<'_>, sink: &mut S) {
        let is_old = packet.header.sending_time_ns < self.begin_time_ns;
        if is_old || (self.recovering == 0 && !self.orders_wanted) {
            return;
        }
        let mut begun = [false; 2];
        for message in packet.messages() {
            let applied = match message {
                Ok(message) if message.header().schema_id == SCHEMA_ID => {
                    self.apply_snapshot(packet, &message, &mut begun, sink)
                }
                Ok(_) => Ok(()),
                Err(_) => {
                    self.counters.malformed += 1;
                    return;
                }
            };
            if applied.is_err() {
                self.counters.malformed += 1;
            }
        }
    }

    fn apply_snapshot<S: Sink>(
        &mut self,
        packet: &Packet<'_>,
        message: &Message<'_>,
        begun: &mut [bool; 2],
        sink: &mut S,
    ) -> Result<(), DecodeError> {
        let template_id = message.template_id();
        let kind = match template_id {
            SnapshotFullRefresh52::TEMPLATE_ID | SnapshotFullRefreshLongQty69::TEMPLATE_ID => {
                BY_PRICE
            }
            SnapshotFullRefreshOrderBook53::TEMPLATE_ID => BY_ORDER,
            // Heartbeats between the loops.
            _ => return Ok(()),
        };
        if !std::mem::replace(&mut begun[kind], true) {
            self.loops[kind].begin_packet(packet.header.sequence.into());
        }
        self.counters.messages += 1;
        let (as_of, total) = match template_id {
            SnapshotFullRefresh52::TEMPLATE_ID => self.restore_short(message, sink)?,
            SnapshotFullRefreshLongQty69::TEMPLATE_ID => self.restore_long(message, sink)?,
            _ => self.restore_orders(message)?,
        };
        if self.loops[kind].count(total, as_of.into()) {
            self.complete_loop(kind, sink);
        }
        Ok(())
    }

    /// Applies a snapshot by price. Returns its sequence, and the number of messages of the loop.
    fn restore_short<S: Sink>(
        &mut self,
        message: &Message<'_>,
        sink: &mut S,
    ) -> Result<(u32, u32), DecodeError> {
        let snapshot = SnapshotFullRefresh52::decode(message)?;
        let entries = snapshot.md_entries.iter().map(|entry| SnapshotEntry {
            kind: entry.md_entry_type().0,
            price: entry.md_entry_px(),
            size: u64::from(size_of_wire(entry.md_entry_size())),
            orders: size_of_wire(entry.number_of_orders()),
            number: u8::try_from(entry.md_price_level().unwrap_or(0)).unwrap_or(0),
            open_flag: entry.open_close_settl_flag(),
            reference_date: entry.trading_reference_date(),
        });
        let as_of = snapshot.last_msg_seq_num_processed();
        let head = SnapshotHead {
            security_id: snapshot.security_id(),
            as_of: as_of.into(),
            rpt_seq: snapshot.rpt_seq(),
            time_ns: snapshot.transact_time(),
            status: snapshot.md_security_trading_status(),
            trade_date: snapshot.trade_date(),
            limits: (snapshot.high_limit_price(), snapshot.low_limit_price()),
        };
        self.restore(&head, entries, sink);
        Ok((as_of, snapshot.tot_num_reports()))
    }

    /// Applies a snapshot with long quantities, as [`Channel::restore_short`].
    fn restore_long<S: Sink>(
        &mut self,
        message: &Message<'_>,
        sink: &mut S,
    ) -> Result<(u32, u32), DecodeError> {
        let snapshot = SnapshotFullRefreshLongQty69::decode(message)?;
        let entries = snapshot.md_entries.iter().map(|entry| SnapshotEntry {
            kind: entry.md_entry_type().0,
            price: entry.md_entry_px(),
            size: entry.md_entry_size().unwrap_or(0),
            orders: size_of_wire(entry.number_of_orders()),
            number: entry.md_price_level().unwrap_or(0),
            open_flag: entry.open_close_settl_flag(),
            // These entries have none.
            reference_date: None,
        });
        let as_of = snapshot.last_msg_seq_num_processed();
        let head = SnapshotHead {
            security_id: snapshot.security_id(),
            as_of: as_of.into(),
            rpt_seq: snapshot.rpt_seq(),
            time_ns: snapshot.transact_time(),
            status: snapshot.md_security_trading_status(),
            trade_date: snapshot.trade_date(),
            limits: (snapshot.high_limit_price(), snapshot.low_limit_price()),
        };
        self.restore(&head, entries, sink);
        Ok((as_of, snapshot.tot_num_reports()))
    }

    /// Replaces the book and statistics of an instrument by its snapshot, if it is newer than what
    /// was lost, and applies the entries that have waited.
    ///
    /// A snapshot ahead of the incremental feed is left to the next loop: it may be of the sequence
    /// before a restart, which has higher numbers.
    fn restore<S: Sink>(
        &mut self,
        head: &SnapshotHead,
        entries: impl Iterator<Item = SnapshotEntry>,
        sink: &mut S,
    ) {
        let Some(index) = self.find(head.security_id) else {
            return;
        };
        let (number, known_from) = (self.loops[BY_PRICE].number, self.known_from);
        let instrument = &mut self.instruments[index as usize];
        instrument.details.seen_in_loop = number;
        let is_early = head.as_of.saturating_add(1) < known_from;
        if instrument.is_right() || is_early || head.as_of > self.sequence {
            return;
        }
        if instrument.state.is_live() && !instrument.is_state_doubtful {
            return; // the end of its event confirms it
        }
        if instrument.state.is_live() {
            // A lost status may have begun a session, too.
            fill_figures(&mut instrument.details, head, entries, known_from);
            return self.restore_state(index, head.status, sink);
        }
        let details = &mut instrument.details;
        let is_after =
            |left: u32, right: u32| left.wrapping_sub(right).wrapping_sub(1) < u32::MAX / 2;
        // After a reset that was lost, too, the numbers of the queue are of the sequence before it.
        let has_all = head.as_of >= details.queue_at;
        if has_all {
            details.clear_queue();
        }
        if !details.queue.is_empty() && is_after(details.queue_first, head.rpt_seq.wrapping_add(1))
        {
            return; // entries between the snapshot and the queue are missing
        }
        if fill(instrument, head, entries, known_from).is_err() {
            instrument.book.clear();
            self.counters.contradictions += 1;
            return;
        }
        let mut rpt_seq = head.rpt_seq;
        let queue = std::mem::take(&mut instrument.details.queue);
        for entry in &queue {
            if !is_after(entry.rpt_seq, rpt_seq) {
                continue;
            }
            rpt_seq = entry.rpt_seq;
            if instrument.book.apply(entry).is_err() {
                self.counters.contradictions += 1;
                instrument.state = State::Recovering;
                instrument.details.clear_queue();
                return;
            }
        }
        instrument.rpt_seq = rpt_seq;
        self.counters.recoveries += 1;
        self.confirm(index, State::Live, sink);
    }

    /// Applies a chunk of a snapshot by order, as [`Channel::restore_short`].
    fn restore_orders(&mut self, message: &Message<'_>) -> Result<(u32, u32), DecodeError> {
        let snapshot = SnapshotFullRefreshOrderBook53::decode(message)?;
        let as_of = snapshot.last_msg_seq_num_processed();
        let result = Ok((as_of, snapshot.tot_num_reports()));
        if !self.config.order_books || u64::from(as_of) > self.sequence {
            return result;
        }
        let Some(index) = self.find(snapshot.security_id()) else {
            return result;
        };
        let orders = snapshot.md_entries.iter().filter_map(|entry| {
            let is_bid = match entry.md_entry_type() {
                MDEntryTypeBook::BID => true,
                MDEntryTypeBook::OFFER => false,
                _ => return None,
            };
            let order = Order {
                price: entry.md_entry_px(),
                size: size_of_wire(Some(entry.md_display_qty())),
                book: 0,
                is_bid,
            };
            let is_price = order.price != i64::MIN && order.price != i64::MAX;
            is_price.then_some((entry.order_id(), order))
        });
        let chunk = (snapshot.current_chunk(), snapshot.no_chunks());
        let number = self.loops[BY_ORDER].number;
        let book = self.order_book_mut(index);
        book.seen_in_loop = number;
        if book.snapshot(as_of.into(), chunk, orders) {
            self.counters.recoveries += 1;
        }
        result
    }

    /// All snapshots of a loop have arrived. Instruments without one have an empty book.
    fn complete_loop<S: Sink>(&mut self, kind: usize, sink: &mut S) {
        let Loop {
            number,
            as_of,
            as_of_max,
            ..
        } = self.loops[kind];
        if as_of.saturating_add(1) < self.known_from || as_of_max > self.sequence {
            return;
        }
        if kind == BY_ORDER {
            self.orders_wanted = false;
            for book in self.order_books.iter_mut().flatten() {
                if !book.is_live() && book.seen_in_loop != number {
                    // It had no orders then; the changes since are its own.
                    book.snapshot(as_of, (1, 1), std::iter::empty());
                }
                self.orders_wanted |= !book.is_live();
            }
            return;
        }
        for index in 0..self.instruments.len() {
            let instrument = &mut self.instruments[index];
            // What waits came before the loop, and a reset after it, which was lost.
            let is_quiet =
                instrument.details.queue.is_empty() || instrument.details.queue_at <= as_of;
            let is_left_out = instrument.details.seen_in_loop != number;
            if instrument.is_right() || !is_left_out {
                continue;
            }
            if !instrument.state.is_live() && is_quiet {
                instrument.book.clear();
                self.confirm(index as u32, State::LiveAnyNext, sink);
            }
            if self.instruments[index].is_state_doubtful {
                self.restore_state(index as u32, None, sink);
            }
        }
    }
}
