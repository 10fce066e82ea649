//! All instruments of a channel: messages in; quotes, trades, states and definitions out.

use std::collections::BTreeMap;

use tidewire_feed::client::Sink;
use tidewire_feed::wire::UNDEFINED_PRICE;
use tidewire_feed::wire::{self, AGGRESSOR_BUY, AGGRESSOR_SELL};
use tidewire_sbe::{DecodeError, Message};

use crate::day::Event;
use crate::definition::InstrumentDefinition;
use crate::depth::Followed;
use crate::figures::{Scale, Statistics};
use crate::index::SecurityIndex;
use crate::instrument::{BookEntry, Instrument, State};
use crate::levels::{Contradiction, PriceLevel};
use crate::orders::OrderBook;
use crate::packet::Packet;
use crate::recovery::Loop;
use crate::schema::*;
use crate::settings::{ChannelConfig, ChannelCounters};
use crate::standstill::Standstill;
use crate::statuses::GroupStatus;

/// The instruments of a channel.
#[derive(Debug)]
pub struct Channel {
    pub(crate) config: ChannelConfig,
    pub(crate) instruments: Vec<Instrument>,
    /// Books by order, by the same index; empty without them.
    pub(crate) order_books: Vec<Option<Box<OrderBook>>>,
    index: SecurityIndex,
    /// The instrument of the last entry: the next one is often the same.
    last_found: (i32, u32),
    /// Instruments by their group.
    pub(crate) groups: BTreeMap<[u8; 6], Vec<u32>>,
    /// The last statuses of each group and product, for instruments that are defined later.
    pub(crate) group_statuses: BTreeMap<([u8; 6], [u8; 6]), GroupStatus>,
    /// Number of statuses so far.
    pub(crate) status_number: u64,
    /// Instruments whose book has changed in the current event.
    pub(crate) dirty: Vec<u32>,
    /// Instruments whose price levels are given too.
    pub(crate) followed: Followed,
    pub(crate) event_time_ns: u64,
    /// Sequence of the current packet.
    pub(crate) sequence: u64,
    /// Everything from the beginning of the sequence is known, so that a new instrument has had
    /// nothing.
    pub(crate) from_start: bool,
    /// The first packet of which all later ones are known; `u64::MAX` before the first.
    pub(crate) known_from: u64,
    /// Instruments that are not right: their book or their trading state is in doubt.
    pub(crate) recovering: usize,
    /// Sending time of the first packet after the last loss: definitions sent since show the
    /// trading states; `u64::MAX` before that packet, 0 without a loss.
    pub(crate) states_known_ns: u64,
    /// Sending time of the first packet after a restart of the sequence; 0 before one.
    pub(crate) begin_time_ns: u64,
    /// The packet after the last channel reset, if one came after a late start or a loss: of a new
    /// instrument, entries of before it may be missing. 0 for none.
    pub(crate) reset_from: u64,
    /// Whether the sink was told that values are doubtful.
    pub(crate) in_doubt: bool,
    /// Whether books by order wait for a loop of their snapshots.
    pub(crate) orders_wanted: bool,
    /// The loops of snapshots by price, and by order.
    pub(crate) loops: [Loop; 2],
    pub(crate) standstill: Standstill,
    pub(crate) counters: ChannelCounters,
    pub(crate) number: Option<i16>,
}

/// Whether an entry is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acceptance {
    Apply,
    Queued,
    Old,
}

impl Channel {
    /// Creates a channel without instruments.
    pub fn new(config: ChannelConfig) -> Self {
        Self {
            config,
            instruments: Vec::new(),
            order_books: Vec::new(),
            index: SecurityIndex::default(),
            last_found: (0, u32::MAX),
            groups: BTreeMap::new(),
            group_statuses: BTreeMap::new(),
            status_number: 0,
            dirty: Vec::new(),
            followed: Followed::default(),
            event_time_ns: 0,
            sequence: 0,
            from_start: false,
            known_from: u64::MAX,
            recovering: 0,
            states_known_ns: 0,
            begin_time_ns: 0,
            reset_from: 0,
            in_doubt: false,
            orders_wanted: false,
            loops: [Loop::default(), Loop::default()],
            standstill: Standstill::default(),
            counters: ChannelCounters::default(),
            number: None,
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &ChannelCounters {
        &self.counters
    }

    /// Returns the number of instruments.
    pub fn len(&self) -> usize {
        self.instruments.len()
    }

    /// Returns whether no instrument is known.
    pub fn is_empty(&self) -> bool {
        self.instruments.is_empty()
    }

    /// Returns the number of instruments whose values may be wrong.
    pub fn doubtful_count(&self) -> usize {
        match self.is_behind() {
            true => self.instruments.len(),
            false => self.recovering,
        }
    }

    /// Returns the channel's number, if a definition or reset gave it.
    pub fn number(&self) -> Option<i16> {
        self.number
    }

    /// Returns the number of an instrument in the output.
    pub fn symbol_of(&self, security_id: i32) -> Option<u32> {
        let index = self.index.find(security_id)?;
        Some(self.config.symbol_first + index)
    }

    /// Returns the levels of one side of an instrument's real book, the best first, if the book is
    /// right. Prices are the wire's.
    pub fn levels(&self, security_id: i32, is_bid: bool) -> Option<&[PriceLevel]> {
        Some(self.live(security_id)?.book.levels(is_bid))
    }

    /// Returns the levels of one side of its implied book.
    pub fn implied_levels(&self, security_id: i32, is_bid: bool) -> Option<&[PriceLevel]> {
        Some(self.live(security_id)?.book.implied_levels(is_bid))
    }

    /// Returns an instrument's book by order, if such books are kept and it had an order.
    pub fn order_book(&self, security_id: i32) -> Option<&OrderBook> {
        let index = self.index.find(security_id)?;
        self.order_books.get(index as usize)?.as_deref()
    }

    /// Returns the statistics of an instrument's session, and the scale of their prices.
    pub fn statistics(&self, security_id: i32) -> Option<(&Statistics, Scale)> {
        let index = self.index.find(security_id)?;
        let details = &self.instruments[index as usize].details;
        Some((&details.day.statistics, details.scale))
    }

    fn live(&self, security_id: i32) -> Option<&Instrument> {
        let index = self.index.find(security_id)?;
        let instrument = &self.instruments[index as usize];
        instrument.state.is_live().then_some(instrument)
    }

    /// Applies the next packet of the incremental feed. What cannot be decoded is lost.
    #[inline]
    pub fn apply_packet<S: Sink>(&mut self, packet: &Packet<'_>, sink: &mut S) {
        self.sequence = packet.header.sequence.into();
        if self.standstill.is_behind {
            self.end_standstill(sink);
        }
        if self.states_known_ns == u64::MAX {
            self.states_known_ns = packet.header.sending_time_ns;
            // The sequence before the restart may have come back.
            self.begin_time_ns = self.begin_time_ns.min(self.states_known_ns);
        }
        let mut faults = 0;
        for message in packet.messages() {
            let is_applied =
                message.is_ok_and(|message| self.apply_message(&message, sink).is_ok());
            if !is_applied {
                self.counters.malformed += 1;
                faults += 1;
                // The doubt comes before the rest of the packet, which may end the event.
                if faults == 1 {
                    self.packets_lost(self.sequence + 1, sink);
                }
            }
        }
        if faults > 1 {
            self.packets_lost(self.sequence + 1, sink);
        }
    }

    #[inline]
    fn apply_message<S: Sink>(
        &mut self,
        message: &Message<'_>,
        sink: &mut S,
    ) -> Result<(), DecodeError> {
        if message.header().schema_id != SCHEMA_ID {
            self.counters.unknown += 1;
            return Ok(());
        }
        self.counters.messages += 1;
        match message.template_id() {
            MDIncrementalRefreshBook46::TEMPLATE_ID => self.refresh_book(message, sink),
            MDIncrementalRefreshOrderBook47::TEMPLATE_ID => self.refresh_orders(message, sink),
            MDIncrementalRefreshTradeSummary48::TEMPLATE_ID => self.refresh_trades(message, sink),
            MDIncrementalRefreshVolume37::TEMPLATE_ID => {
                let refresh = MDIncrementalRefreshVolume37::decode(message)?;
                self.begin_event(refresh.transact_time(), sink);
                for entry in refresh.md_entries.iter() {
                    let size = u64::try_from(entry.md_entry_size()).unwrap_or(0);
                    self.volume(entry.security_id(), entry.rpt_seq(), size, sink);
                }
                self.end_event(refresh.match_event_indicator(), sink);
                Ok(())
            }
            _ => self.apply_rare(message, sink),
        }
    }

    #[inline(never)]
    fn apply_rare<S: Sink>(
        &mut self,
        message: &Message<'_>,
        sink: &mut S,
    ) -> Result<(), DecodeError> {
        match message.template_id() {
            MDIncrementalRefreshBookLongQty64::TEMPLATE_ID => self.refresh_long(message, sink)?,
            MDIncrementalRefreshTradeSummaryLongQty65::TEMPLATE_ID => {
                let refresh = MDIncrementalRefreshTradeSummaryLongQty65::decode(message)?;
                self.begin_event(refresh.transact_time(), sink);
                for entry in refresh.md_entries.iter() {
                    let trade = TradeEntry {
                        security_id: entry.security_id(),
                        rpt_seq: entry.rpt_seq(),
                        price: entry.md_entry_px(),
                        size: clamp(entry.md_entry_size()),
                        side: entry.aggressor_side(),
                        action: entry.md_update_action(),
                    };
                    self.trade(&trade, sink);
                }
                self.end_event(refresh.match_event_indicator(), sink);
            }
            MDIncrementalRefreshVolumeLongQty66::TEMPLATE_ID => {
                let refresh = MDIncrementalRefreshVolumeLongQty66::decode(message)?;
                self.begin_event(refresh.transact_time(), sink);
                for entry in refresh.md_entries.iter() {
                    let size = entry.md_entry_size();
                    self.volume(entry.security_id(), entry.rpt_seq(), size, sink);
                }
                self.end_event(refresh.match_event_indicator(), sink);
            }
            SecurityStatus30::TEMPLATE_ID => {
                let status = SecurityStatus30::decode(message)?;
                self.begin_event(status.transact_time(), sink);
                self.security_status(&status, sink);
                self.end_event(status.match_event_indicator(), sink);
            }
            ChannelReset4::TEMPLATE_ID => {
                let reset = ChannelReset4::decode(message)?;
                self.begin_event(reset.transact_time(), sink);
                self.number = reset.md_entries.entry(0).map(|entry| entry.appl_id());
                self.counters.resets += 1;
                self.reset_by_exchange(sink);
            }
            AdminHeartbeat12::TEMPLATE_ID => {}
            _ if self.apply_statistics(message, sink)? => {}
            _ => match InstrumentDefinition::decode(message)? {
                Some(definition) => self.define(&definition, true, sink),
                None => {
                    self.counters.messages -= 1;
                    self.counters.unknown += 1;
                }
            },
        }
        Ok(())
    }

    #[inline]
    fn refresh_book<S: Sink>(
        &mut self,
        message: &Message<'_>,
        sink: &mut S,
    ) -> Result<(), DecodeError> {
        let refresh = MDIncrementalRefreshBook46::decode(message)?;
        self.begin_event(refresh.transact_time(), sink);
        for entry in refresh.md_entries.iter() {
            let book_entry = BookEntry {
                level: PriceLevel {
                    price: entry.md_entry_px().unwrap_or(UNDEFINED_PRICE),
                    size: size_of_wire(entry.md_entry_size()),
                    orders: size_of_wire(entry.number_of_orders()),
                },
                rpt_seq: entry.rpt_seq(),
                number: entry.md_price_level(),
                action: match entry.md_entry_size() {
                    Some(..0) => IMPOSSIBLE,
                    _ => entry.md_update_action(),
                },
                kind: entry.md_entry_type(),
            };
            self.update_book(entry.security_id(), &book_entry, sink);
        }
        if self.config.order_books {
            let levels = |number: usize| {
                let entry = refresh.md_entries.entry(number)?;
                let price = entry.md_entry_px();
                Some((entry.security_id(), price, entry.md_entry_type()))
            };
            for entry in refresh.order_id_entries.iter() {
                self.order_entry(
                    entry.reference_id(),
                    (entry.order_id(), entry.md_display_qty()),
                    entry.order_update_action(),
                    levels,
                );
            }
        }
        self.end_event(refresh.match_event_indicator(), sink);
        Ok(())
    }

    fn refresh_long<S: Sink>(
        &mut self,
        message: &Message<'_>,
        sink: &mut S,
    ) -> Result<(), DecodeError> {
        let refresh = MDIncrementalRefreshBookLongQty64::decode(message)?;
        self.begin_event(refresh.transact_time(), sink);
        for entry in refresh.md_entries.iter() {
            let book_entry = BookEntry {
                level: PriceLevel {
                    price: entry.md_entry_px().unwrap_or(UNDEFINED_PRICE),
                    size: entry.md_entry_size().map_or(0, clamp),
                    orders: size_of_wire(entry.number_of_orders()),
                },
                rpt_seq: entry.rpt_seq(),
                number: entry.md_price_level(),
                action: entry.md_update_action(),
                kind: entry.md_entry_type(),
            };
            self.update_book(entry.security_id(), &book_entry, sink);
        }
        if self.config.order_books {
            let levels = |number: usize| {
                let entry = refresh.md_entries.entry(number)?;
                let price = entry.md_entry_px();
                Some((entry.security_id(), price, entry.md_entry_type()))
            };
            for entry in refresh.order_id_entries.iter() {
                self.order_entry(
                    entry.reference_id(),
                    (entry.order_id(), entry.md_display_qty()),
                    entry.order_update_action(),
                    levels,
                );
            }
        }
        self.end_event(refresh.match_event_indicator(), sink);
        Ok(())
    }

    /// Applies an entry of the book by price.
    #[inline]
    fn update_book<S: Sink>(&mut self, security_id: i32, entry: &BookEntry, sink: &mut S) {
        self.counters.entries += 1;
        let Some(index) = self.find(security_id) else {
            return;
        };
        if self.accept(index, entry, sink) != Acceptance::Apply {
            return;
        }
        let instrument = &mut self.instruments[index as usize];
        match instrument.book.apply(entry) {
            Ok(()) => {
                if !std::mem::replace(&mut instrument.is_dirty, true) {
                    self.dirty.push(index);
                }
            }
            Err(Contradiction) => {
                self.counters.contradictions += 1;
                // The snapshot must have this entry, too.
                self.recover_one(index, self.sequence + 1, sink);
            }
        }
    }

    /// Compares an entry with the instrument's own sequence.
    #[inline(always)]
    fn accept<S: Sink>(&mut self, index: u32, entry: &BookEntry, sink: &mut S) -> Acceptance {
        let instrument = &mut self.instruments[index as usize];
        let next = instrument.rpt_seq.wrapping_add(1);
        if instrument.state == State::Live && entry.rpt_seq == next {
            instrument.rpt_seq = next;
            return Acceptance::Apply;
        }
        self.accept_other(index, entry, sink)
    }

    /// Handles an entry that is not the next one of a live instrument.
    #[inline(never)]
    fn accept_other<S: Sink>(&mut self, index: u32, entry: &BookEntry, sink: &mut S) -> Acceptance {
        let instrument = &mut self.instruments[index as usize];
        let ahead = entry.rpt_seq.wrapping_sub(instrument.rpt_seq);
        match instrument.state {
            State::LiveAnyNext => {
                instrument.state = State::Live;
                instrument.rpt_seq = entry.rpt_seq;
                return Acceptance::Apply;
            }
            // The packets are consecutive, so no entry of a later one can be older: the number is
            // wrong, or the instrument's sequence began again in a lost packet.
            State::Live | State::Doubtful if ahead == 0 || ahead > u32::MAX / 2 => {
                self.counters.old += 1;
                self.counters.contradictions += 1;
                // The snapshot must have this entry, too.
                self.recover_one(index, self.sequence + 1, sink);
                return Acceptance::Old;
            }
            State::Doubtful if ahead == 1 => {
                instrument.rpt_seq = entry.rpt_seq;
                // A first entry may follow a reset that was lost, with figures before it.
                instrument.is_session_doubtful |= entry.rpt_seq == 1;
                instrument.details.needs_snapshot |= entry.rpt_seq == 1;
                self.confirm_with_event(index);
                return Acceptance::Apply;
            }
            State::Live => {
                self.counters.instrument_gaps += 1;
                self.recover_one(index, self.sequence, sink);
            }
            // The known loss explains the hole, so that a snapshot of after the loss is enough.
            State::Doubtful => {
                self.counters.instrument_gaps += 1;
                instrument.state = State::Recovering;
                instrument.details.clear_queue();
            }
            // The first entry of the instrument's own sequence: its book was empty. Figures of
            // before a channel reset that was not received may be missing. Of an instrument with a
            // history it tells of a lost reset, and not of what else was lost.
            State::Recovering
                if entry.rpt_seq == 1
                    && !instrument.details.needs_snapshot
                    && instrument.is_blank() =>
            {
                instrument.reset(State::Recovering);
                instrument.rpt_seq = 1;
                instrument.is_session_doubtful = true;
                instrument.details.needs_snapshot = true;
                self.confirm_with_event(index);
                return Acceptance::Apply;
            }
            State::Recovering => {}
        }
        self.instruments[index as usize]
            .details
            .keep(entry, self.sequence);
        self.counters.queued += 1;
        Acceptance::Queued
    }

    #[inline]
    fn refresh_trades<S: Sink>(
        &mut self,
        message: &Message<'_>,
        sink: &mut S,
    ) -> Result<(), DecodeError> {
        let refresh = MDIncrementalRefreshTradeSummary48::decode(message)?;
        self.begin_event(refresh.transact_time(), sink);
        for entry in refresh.md_entries.iter() {
            let trade = TradeEntry {
                security_id: entry.security_id(),
                rpt_seq: entry.rpt_seq(),
                price: entry.md_entry_px(),
                size: u32::try_from(entry.md_entry_size()).unwrap_or(0),
                side: entry.aggressor_side(),
                action: entry.md_update_action(),
            };
            self.trade(&trade, sink);
        }
        self.end_event(refresh.match_event_indicator(), sink);
        Ok(())
    }

    #[inline]
    fn trade<S: Sink>(&mut self, entry: &TradeEntry, sink: &mut S) {
        let Some(index) = self.note(entry.security_id, entry.rpt_seq, sink) else {
            return;
        };
        let instrument = &mut self.instruments[index as usize];
        let &TradeEntry { price, size, .. } = entry;
        if entry.action != MDUpdateAction::NEW {
            self.counters.trade_corrections += 1;
            if entry.action == MDUpdateAction::DELETE {
                instrument.apply(self.sequence, Event::Cancel { price, size });
            }
            return;
        }
        let condition = match entry.side {
            Some(AggressorSide::BUY) => AGGRESSOR_BUY,
            Some(AggressorSide::SELL) => AGGRESSOR_SELL,
            _ => 0,
        };
        let event = Event::Trade {
            price,
            size,
            condition,
        };
        instrument.apply(self.sequence, event);
        let details = &mut instrument.details;
        details.time_ns = self.event_time_ns;
        details.volume_shown += u64::from(size);
        if details.symbol.is_none() {
            return;
        }
        self.counters.trades += 1;
        let trade = wire::Trade {
            symbol: self.config.symbol_first + index,
            source: self.config.source,
            source_time_ns: self.event_time_ns,
            price: details.scale.nanos(price),
            size,
            condition,
        };
        sink.message(self.sequence, &wire::Message::Trade(trade));
    }

    /// Applies the volume of the session. Trades usually add up to it; if not, a record says so.
    fn volume<S: Sink>(&mut self, security_id: i32, rpt_seq: u32, volume: u64, sink: &mut S) {
        let Some(index) = self.note(security_id, rpt_seq, sink) else {
            return;
        };
        let instrument = &mut self.instruments[index as usize];
        instrument.apply(self.sequence, Event::Volume(volume));
        if instrument.details.volume_shown != volume {
            instrument.details.time_ns = self.event_time_ns;
            self.publish_record(index, sink);
        }
    }

    /// Compares an entry that is not of the book with the instrument's sequence. Returns the
    /// instrument, if the entry is new. It is valid during a recovery, too.
    #[inline]
    pub(crate) fn note<S: Sink>(
        &mut self,
        security_id: i32,
        rpt_seq: u32,
        sink: &mut S,
    ) -> Option<u32> {
        self.counters.entries += 1;
        let index = self.find(security_id)?;
        let entry = BookEntry {
            level: PriceLevel::NONE,
            rpt_seq,
            number: 0,
            action: MDUpdateAction::NEW,
            kind: MDEntryTypeBook::default(),
        };
        (self.accept(index, &entry, sink) != Acceptance::Old).then_some(index)
    }

    /// Begins an event: what an earlier one has changed is published, if its end was lost.
    #[inline(always)]
    pub(crate) fn begin_event<S: Sink>(&mut self, time_ns: u64, sink: &mut S) {
        if time_ns != self.event_time_ns {
            if !self.dirty.is_empty() {
                self.publish_changes(sink);
            }
            self.event_time_ns = time_ns;
        }
    }

    #[inline(always)]
    pub(crate) fn end_event<S: Sink>(&mut self, indicator: MatchEventIndicator, sink: &mut S) {
        if indicator.contains(MatchEventIndicator::END_OF_EVENT) {
            self.publish_changes(sink);
        }
    }

    /// Returns an instrument's index; makes the instrument if it is new.
    #[inline(always)]
    pub(crate) fn find(&mut self, security_id: i32) -> Option<u32> {
        if self.last_found.0 == security_id && self.last_found.1 != u32::MAX {
            return Some(self.last_found.1);
        }
        let index = match self.index.find(security_id) {
            Some(index) => index,
            None => self.make_instrument(security_id)?,
        };
        self.last_found = (security_id, index);
        Some(index)
    }

    #[cold]
    fn make_instrument(&mut self, security_id: i32) -> Option<u32> {
        if self.instruments.len() >= self.config.instruments_max {
            self.counters.refused += 1;
            return None;
        }
        let index = self.instruments.len() as u32;
        let state = match self.from_start {
            true => State::Live,
            false => {
                self.recovering += 1;
                State::Recovering
            }
        };
        let mut instrument = Instrument::new(state);
        // Not to the exchange: its snapshot may be of any time since the loss.
        instrument.details.made_at = match self.from_start {
            true => self.sequence,
            false => self.sequence.min(self.known_from),
        };
        instrument.details.needs_snapshot = self.reset_from > 0;
        instrument.details.snapshot_from = self.reset_from;
        self.instruments.push(instrument);
        self.index.insert(security_id, index);
        Some(index)
    }
}

/// A trade of any template.
#[derive(Clone, Copy, Debug)]
struct TradeEntry {
    security_id: i32,
    rpt_seq: u32,
    price: i64,
    size: u32,
    side: Option<AggressorSide>,
    action: MDUpdateAction,
}

/// The action of an entry with a negative quantity: none, so that the book contradicts.
const IMPOSSIBLE: MDUpdateAction = MDUpdateAction(u8::MAX);

/// Returns a quantity of the wire; 0 for none and for negative ones.
#[inline(always)]
pub(crate) fn size_of_wire(size: Option<i32>) -> u32 {
    size.map_or(0, |size| u32::try_from(size).unwrap_or(0))
}

/// Returns a quantity as the native feed has it.
#[inline(always)]
pub(crate) fn clamp(size: u64) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
