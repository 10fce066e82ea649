//! Losses, snapshots and resets of a channel.
//!
//! After a loss each instrument is doubtful. If the next entry about it follows in the instrument's
//! own sequence (`RptSeq`), nothing about it was lost. Otherwise its entries wait for a snapshot
//! that is newer than the loss, and those after the snapshot are applied to it.
//!
//! Statuses have no number in that sequence. After a loss each trading state is doubtful until the
//! instrument's next status, its next snapshot, or its next definition on the definition feed. The
//! session, which a status may have begun, is doubtful until the next one begins, or a snapshot.
//!
//! An entry that contradicts what is known puts only its instrument in doubt.

use tidewire_book::Order;
use tidewire_feed::client::Sink;
use tidewire_feed::wire::TradingState;
use tidewire_sbe::{DecodeError, Message};

use crate::channel::{Channel, size_of_wire};
use crate::day::SnapshotFigures;
use crate::instrument::State;
use crate::packet::Packet;
use crate::schema::*;
use crate::snapshot::{SnapshotEntry, SnapshotHead, read};
use crate::statuses::GroupStatus;

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
        if first != 1 {
            return self.lose(first, sink);
        }
        // Instruments that are defined so far have had nothing yet.
        self.states_known_ns = 0;
        for instrument in &mut self.instruments {
            instrument.state = State::Live;
            instrument.is_state_doubtful = false;
            instrument.is_session_doubtful = false;
        }
        self.begin_sequence(sink);
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
        (self.known_from, self.reset_from) = (first, 0);
        if first == 1 {
            return self.begin_sequence(sink);
        }
        for instrument in &mut self.instruments {
            instrument.reset(State::Recovering);
        }
        for book in self.order_books.iter_mut().flatten() {
            book.reset(false, self.sequence);
        }
        self.lose(first, sink);
    }

    /// The sequence begins with its first packet: all books are empty. What was in doubt of states
    /// and sessions stays so.
    fn begin_sequence<S: Sink>(&mut self, sink: &mut S) {
        for instrument in &mut self.instruments {
            if !instrument.has_all_entries() {
                instrument.is_session_doubtful |= !instrument.state.is_live();
                instrument.details.forget_settlements();
            }
            instrument.details.needs_snapshot = false;
            instrument.reset(State::Live);
            instrument.settle_figures();
        }
        (self.from_start, self.reset_from) = (true, 0);
        self.empty_books(sink);
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

    /// Entries and statuses of before `known_from` may be lost.
    #[cold]
    pub(crate) fn lose<S: Sink>(&mut self, known_from: u64, sink: &mut S) {
        self.states_known_ns = u64::MAX;
        self.from_start = false;
        self.known_from = known_from;
        self.recovering = self.instruments.len();
        for instrument in &mut self.instruments {
            instrument.is_state_doubtful = true;
            instrument.is_session_doubtful = true;
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

    /// Begins the recovery of one instrument, of which all is known again from the packet
    /// `known_from` on: it waits for a snapshot. The others are as right as before.
    #[cold]
    pub(crate) fn recover_one<S: Sink>(&mut self, index: u32, known_from: u64, sink: &mut S) {
        let instrument = &mut self.instruments[index as usize];
        self.recovering += usize::from(instrument.is_right());
        instrument.state = State::Recovering;
        instrument.is_confirming = false;
        instrument.book.clear();
        let details = &mut instrument.details;
        details.clear_queue();
        details.snapshot_from = details.snapshot_from.max(known_from);
        if let Some(Some(book)) = self.order_books.get_mut(index as usize) {
            book.lose(known_from);
            self.orders_wanted = true;
        }
        self.end_levels(index, sink);
        self.publish_doubt(index, sink);
    }

    /// A session of one instrument may have begun, or its figures are of two sessions: they wait
    /// for a snapshot of the current packet or later. The book is as right as before.
    pub(crate) fn doubt_session(&mut self, index: u32) {
        let instrument = &mut self.instruments[index as usize];
        self.recovering += usize::from(instrument.is_right());
        instrument.is_session_doubtful = true;
        let details = &mut instrument.details;
        details.snapshot_from = details.snapshot_from.max(self.sequence + 1);
    }

    /// The exchange has emptied all books. What was lost before, such as a trade, the reset does
    /// not bring back: instruments that wait for entries need a snapshot of after it.
    pub(crate) fn reset_by_exchange<S: Sink>(&mut self, sink: &mut S) {
        for instrument in &mut self.instruments {
            let is_known = instrument.state.is_live();
            instrument.reset(match is_known {
                true => State::Live,
                false => State::Recovering,
            });
            if !is_known {
                instrument.details.needs_snapshot = true;
                instrument.details.snapshot_from = self.sequence + 1;
            }
        }
        // Of an instrument that is new, but not to the exchange, nothing is known.
        if !self.from_start {
            self.reset_from = self.sequence + 1;
        }
        self.empty_books(sink);
    }

    /// All books are empty.
    #[cold]
    fn empty_books<S: Sink>(&mut self, sink: &mut S) {
        self.followed.renew();
        for book in self.order_books.iter_mut().flatten() {
            book.reset(true, self.sequence);
        }
        self.orders_wanted = false;
        let all = self.instruments.iter();
        self.recovering = all.filter(|instrument| !instrument.is_right()).count();
        for index in 0..self.instruments.len() {
            self.publish_record(index as u32, sink);
        }
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
        if instrument.has_all_entries() {
            instrument.details.prove();
        }
        instrument.settle_figures();
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

    /// Notes that an instrument's trading state is right again, or that its session is known.
    /// Returns whether all of it is right with that, which a record must tell.
    pub(crate) fn settle(&mut self, index: u32, is_state: bool, is_session: bool) -> bool {
        let instrument = &mut self.instruments[index as usize];
        let was_right = instrument.is_right();
        instrument.is_state_doubtful &= !is_state;
        instrument.is_session_doubtful &= !is_session;
        instrument.settle_figures();
        let is_right_again = !was_right && instrument.is_right();
        self.recovering -= usize::from(is_right_again);
        is_right_again
    }

    /// Tells the sink that all values are right, if they are and it knows of a doubt.
    pub(crate) fn tell_if_right<S: Sink>(&mut self, sink: &mut S) {
        if self.recovering == 0 && !self.is_behind() && std::mem::take(&mut self.in_doubt) {
            sink.values_right();
        }
    }

    /// Applies a packet of the recovery feed. While nothing is to be recovered, it is only compared
    /// with the incremental feed.
    pub fn apply_snapshot_packet<S: Sink>(&mut self, packet: &Packet<'_>, sink: &mut S) {
        let is_old = packet.header.sending_time_ns < self.begin_time_ns;
        if is_old {
            return;
        }
        if let Some(Ok(message)) = packet.messages().next()
            && message.header().schema_id == SCHEMA_ID
        {
            self.compare_progress(packet.header, &message, sink);
        }
        if self.recovering == 0 && !self.orders_wanted {
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
            settlement_type: entry.settl_price_type(),
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
            settlement_type: SettlPriceType::default(),
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

    /// Replaces what is in doubt of an instrument by its snapshot, if that is newer than what was
    /// lost, and applies the entries that have waited.
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
        let number = self.loops[BY_PRICE].number;
        let known_from = self.snapshot_from(index);
        let instrument = &mut self.instruments[index as usize];
        instrument.details.seen_in_loop = number;
        let is_early = head.as_of.saturating_add(1) < known_from;
        let has_doubt = instrument.has_doubtful_figures() || instrument.is_state_doubtful;
        // The end of its event confirms a book.
        if !has_doubt || is_early || head.as_of > self.sequence {
            return;
        }
        let was_live = instrument.state.is_live();
        if !was_live && !instrument.details.queue_follows(head.as_of, head.rpt_seq) {
            return;
        }
        let book = (!was_live).then_some(&mut instrument.book);
        let Ok(figures) = read(book, head, entries) else {
            self.counters.contradictions += 1;
            return;
        };
        if !was_live {
            let Ok(rpt_seq) = instrument.apply_queue(head.rpt_seq) else {
                self.counters.contradictions += 1;
                return;
            };
            instrument.rpt_seq = rpt_seq;
            self.counters.recoveries += 1;
        }
        self.finish_recovery(index, State::Live, (head, &figures), sink);
    }

    /// Returns the packet as of which a snapshot of an instrument must be at least, plus one.
    fn snapshot_from(&self, index: u32) -> u64 {
        let details = &self.instruments[index as usize].details;
        self.known_from.max(details.snapshot_from)
    }

    /// Takes figures and trading state of a snapshot where they are in doubt. The book is right: it
    /// is the snapshot's, or its own. Without a state, the state is unknown.
    fn finish_recovery<S: Sink>(
        &mut self,
        index: u32,
        state: State,
        (head, figures): (&SnapshotHead, &SnapshotFigures),
        sink: &mut S,
    ) {
        assert!(state.is_live(), "a recovery makes the book right");
        let known_from = self.snapshot_from(index);
        let instrument = &mut self.instruments[index as usize];
        debug_assert!(!instrument.is_right(), "it was counted as recovering");
        let was_live = instrument.state.is_live();
        let is_complete = instrument.has_all_entries();
        let mut is_session = true;
        if instrument.has_doubtful_figures() {
            let details = &mut instrument.details;
            is_session = details.restore(figures, head.as_of, known_from, is_complete);
            details.time_ns = details.time_ns.max(head.time_ns);
        }
        if !was_live {
            instrument.state = state;
            instrument.details.clear_queue();
            // Its figures were those of a book that is right now.
            instrument.is_session_doubtful |= !is_session;
        }
        if instrument.is_state_doubtful {
            let state = head.status.and_then(crate::statuses::trading_state);
            let state = state.unwrap_or(TradingState::UNKNOWN);
            instrument.details.state_at = (head.as_of, self.status_number);
            if state != instrument.details.trading_state {
                self.set_state(index, state, 0, sink);
            }
        }
        let instrument = &mut self.instruments[index as usize];
        instrument.is_state_doubtful = false;
        instrument.is_session_doubtful &= !is_session;
        instrument.details.needs_snapshot &= !is_session;
        instrument.settle_figures();
        self.recovering -= usize::from(instrument.is_right());
        self.publish_record(index, sink);
        self.tell_if_right(sink);
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
        for index in 0..self.instruments.len() as u32 {
            self.leave_out(index, as_of, sink);
        }
    }

    /// A whole loop of snapshots has left an instrument out, if it is in doubt: as of its beginning
    /// it had no book and no figures.
    fn leave_out<S: Sink>(&mut self, index: u32, as_of: u64, sink: &mut S) {
        let number = self.loops[BY_PRICE].number;
        let is_early = as_of.saturating_add(1) < self.snapshot_from(index);
        let instrument = &mut self.instruments[index as usize];
        let details = &instrument.details;
        let has_doubt = instrument.has_doubtful_figures() || instrument.is_state_doubtful;
        if !has_doubt || is_early || details.seen_in_loop == number {
            return;
        }
        // What waits came before the loop, and a reset after it, which was lost.
        let is_quiet = details.queue.is_empty() || details.queue_at <= as_of;
        if !instrument.state.is_live() {
            if !is_quiet {
                return;
            }
            instrument.book.clear();
        }
        let head = SnapshotHead {
            security_id: 0,
            as_of,
            rpt_seq: 0,
            time_ns: 0,
            status: None,
            trade_date: None,
            limits: (None, None),
        };
        let state = match instrument.state {
            state if state.is_live() => state,
            _ => State::LiveAnyNext,
        };
        let figures = SnapshotFigures::default();
        self.finish_recovery(index, state, (&head, &figures), sink);
    }
}
