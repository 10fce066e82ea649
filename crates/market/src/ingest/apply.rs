//! What a message does: to the last value, to the hub's own feed, and to subscribers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::MutexGuard;
use tidewire_calendar::{date_number, days_of_number};
use tidewire_fanout::Dispatch;
use tidewire_feed::journal::Journal;
use tidewire_feed::server;
use tidewire_feed::wire::{self, Definition, Figures, LastValue, Message, REPEATED, TradingState};
use tidewire_lastvalue::{
    FLAG_DOUBT, FLAG_HALTED, FLAG_STALE, FLAG_UPSTREAM_DOUBT, FLAG_UPSTREAM_STALE, FLAGS_DOUBT,
    FLAGS_STALE, LATENCY_MAX_NS, LatencyRecorder, MarketValue, NewSession, NumberSet,
    PRICE_UNDEFINED, Quote, Reference, SlotWriter, Stamp, Status, TURNOVER_UNKNOWN, Trade, Writer,
};

use super::certainty::{Certainties, Doubt};
use super::prices::{has_lowest, lowest_of_quote, without_lowest};
use super::publishing::Unheard;
use super::repetition::NewestTrade;
use super::sessions::{
    forget_times, is_again, is_other_session, leave_out_unknown, session_state, store_session,
};
use super::times::{possible_until_ns, without_impossible_time};
use super::venues::source_time_ns;
use super::whole::Traded;
use crate::board::{figures, staleness_of};
use crate::clocks::Ahead;
use crate::consolidated::VenueValue;
use crate::market::Market;
use crate::symbols::DeclaredOpen;
use crate::topic::Topic;

/// What a batch works with.
pub(super) struct Work<'a> {
    pub(super) market: &'a Market,
    pub(super) source: u32,
    pub(super) writer: &'a mut Writer,
    pub(super) apart: &'a mut HashMap<u32, u32>,
    pub(super) hub_traded: &'a mut HashMap<u32, u64>,
    pub(super) unheard: &'a mut Vec<Unheard>,
    /// Values of a symbol's venues; kept to allocate once.
    pub(super) members: &'a mut Vec<VenueValue>,
    pub(super) latency: &'a mut Option<LatencyRecorder>,
    pub(super) newest_trade: &'a mut NewestTrade,
    /// Whether bars have had the last trade that was applied.
    pub(super) is_repeated: bool,
    /// Whether the message is part of a snapshot, and those before it are lost.
    pub(super) is_snapshot: bool,
    pub(super) certainties: &'a mut Certainties,
    /// Topics marked as in doubt in this batch, and not yet published: their values may be right
    /// again at its end.
    pub(super) marked: NumberSet,
    /// Maximum topics that an event reaches in its own batch.
    pub(super) at_once: usize,
    pub(super) session: &'a mut u64,
    /// Whether the source is a hub that this one follows.
    pub(super) is_hub: bool,
    /// Number of venues that the source may still give a number of their own.
    pub(super) venues_left: &'a mut u32,
    pub(super) ahead: Ahead,
    pub(super) journal: MutexGuard<'a, Journal>,
    pub(super) dispatch: Dispatch,
    pub(super) receive_time_ns: u64,
    /// The last source time that can be, ns since the UNIX epoch.
    pub(super) possible_until_ns: u64,
    /// Whether the readers of the hub's own feed were told of the last trade of a whole value as
    /// one of the symbol.
    pub(super) is_last_told: bool,
    /// Number of the topic to which a whole value is applied, and what it has traded before.
    pub(super) whole_before: Option<(u32, Traded)>,
    /// Number of a topic that begins, and the source time until which its bars lack trades, which
    /// the hubs behind this one do not know yet.
    pub(super) untold_loss: Option<(u32, u64)>,
    /// Source time of the message that a topic begins or moves with, ns since the UNIX epoch.
    pub(super) happens_ns: u64,
    /// Messages of the source's stream in this batch, and how many of them were refused.
    pub(super) received: u64,
    pub(super) refused: u64,
}

impl Work<'_> {
    /// Returns a message without its time if that cannot be; `None` if it keeps its time.
    #[inline]
    pub(super) fn without_impossible_time(&mut self, message: &Message) -> Option<Message> {
        let found = without_impossible_time(message, self.possible_until_ns);
        let (timeless, beyond_ns) = found?;
        // The operator sees that the source's clock is wrong.
        let until_ns = self.possible_until_ns.max(self.receive_time_ns);
        self.ahead
            .note((until_ns - self.receive_time_ns).saturating_add(beyond_ns));
        Some(timeless)
    }

    /// Returns a message without a time and prices that cannot be; `None` if it keeps all.
    #[inline]
    pub(super) fn without_impossible(&mut self, message: &Message) -> Option<Message> {
        // Almost all messages are of these two kinds: one look at each is enough.
        let (time_ns, has_lowest) = match message {
            Message::Quote(quote) => (quote.source_time_ns, lowest_of_quote(quote)),
            Message::Trade(trade) => (trade.source_time_ns, trade.price == i64::MIN),
            _ => return self.without_any_impossible(message),
        };
        match (time_ns > self.possible_until_ns) | has_lowest {
            false => None,
            true => self.without_any_impossible(message),
        }
    }

    #[inline(never)]
    fn without_any_impossible(&mut self, message: &Message) -> Option<Message> {
        let timeless = self.without_impossible_time(message);
        match has_lowest(message) {
            false => timeless,
            true => Some(without_lowest(timeless.as_ref().unwrap_or(message))),
        }
    }

    /// Applies a message about `topic`. Returns false if another writer has the topic now.
    #[inline]
    pub(super) fn apply(&mut self, topic: &Arc<Topic>, message: &Message) -> bool {
        let number = topic.number;
        let again;
        let message = match message {
            Message::Trade(trade) if self.is_repetition(topic, trade) => {
                again = Message::Trade(wire::Trade {
                    condition: trade.condition | REPEATED,
                    ..*trade
                });
                &again
            }
            message => message,
        };
        let is_value = matches!(
            message,
            Message::Quote(_) | Message::Trade(_) | Message::LastValue(_)
        );
        let may_end_doubt = self.certainties.doubt == Doubt::Messages && is_value;
        if may_end_doubt && self.writer.slot(number).is_some() && self.is_doubtful(number) {
            self.tell_lost(topic, source_time_ns(message));
        }
        // What a hub says of a value's certainty may be known.
        let is_certainty = matches!(message, Message::Certainty(_));
        let before = is_certainty.then(|| self.flags(number));
        let Some(mut slot) = self.writer.slot(number) else {
            return false;
        };
        let Some(source_time_ns) = store(
            &mut slot,
            message,
            Address {
                number,
                venue: topic.venue(),
                receive_time_ns: self.receive_time_ns,
            },
            (topic, self.market),
            &mut self.journal,
        ) else {
            drop(slot);
            // It changes nothing, but the symbol may have got this venue with it.
            self.follow(topic, None);
            return true;
        };
        let ends_doubt = may_end_doubt && end_doubt(self.market, &mut slot, number);
        drop(slot);
        if ends_doubt {
            self.tell_certainty(topic);
        }
        if let Message::Certainty(told) = message {
            self.note_event(topic, told);
            let ended = before.unwrap_or(0) & !self.flags(number);
            if ended & FLAG_UPSTREAM_STALE != 0 {
                topic.trades_may_repeat_again();
            }
        }
        let is_record = matches!(message, Message::LastValue(_));
        if is_record || matches!(message, Message::Status(_)) {
            topic.status_of(*self.session);
        }
        if is_record || matches!(message, Message::Certainty(_)) {
            self.publish_book_again(topic);
        }
        if ends_doubt || is_record {
            self.note_certain(number);
        }
        let latency = recorder(self.market, self.latency);
        match self.receive_time_ns.checked_sub(source_time_ns) {
            Some(latency_ns) if latency_ns < LATENCY_MAX_NS => latency.record(latency_ns),
            // A message older than a minute is replayed history and not latency.
            Some(_) => {}
            None => self.ahead.note(source_time_ns - self.receive_time_ns),
        }
        let is_other = |before| staleness_of(before) != staleness_of(self.flags(number));
        if before.is_none_or(is_other) {
            self.publish(topic);
        }
        if topic.has_links() {
            self.follow_links(topic, message);
        }
        true
    }

    /// Notes what a hub says has happened to a topic's trades.
    #[cold]
    fn note_event(&mut self, topic: &Topic, told: &wire::Certainty) {
        if told.flags & wire::Certainty::OTHER != 0 {
            self.forget_bars(topic);
        }
        if told.flags & wire::Certainty::LOST != 0 {
            self.miss_trades(topic, told.source_time_ns, told.lost_trades);
            self.tell_lost_of_links(topic, told.source_time_ns, told.lost_trades);
        }
    }

    /// Tells the hub's own feed, and those who follow the book, how certain a topic's value is.
    #[cold]
    pub(super) fn tell_certainty(&mut self, topic: &Topic) {
        if let Some(slot) = self.market.board.slots().slot(topic.number) {
            let top = slot.quote();
            topic.told_at(self.journal.append(&Message::Certainty(wire::Certainty {
                symbol: topic.number,
                source: topic.venue(),
                source_time_ns: top.source_time_ns,
                flags: self.market.board.certainty(topic, top.flags),
                lost_trades: 0,
            })));
        }
        self.publish_book_again(topic);
    }

    /// Tells the readers of the hub's own feed that messages about a topic are lost, before the one
    /// of `source_time_ns` that ends the doubt: trades may be among them.
    #[cold]
    pub(super) fn tell_lost(&mut self, topic: &Topic, source_time_ns: u64) {
        self.miss_trades(topic, source_time_ns, 0);
        self.append_lost(topic, source_time_ns, 0);
        self.tell_lost_of_links(topic, source_time_ns, 0);
    }

    /// Tells the same of the topics that have a topic's trades too.
    fn tell_lost_of_links(&mut self, topic: &Topic, source_time_ns: u64, lost_trades: u32) {
        let links = [topic.parent().cloned(), topic.namesake()];
        for topic in links.into_iter().flatten() {
            self.append_lost(&topic, source_time_ns, lost_trades);
        }
    }

    #[cold]
    pub(super) fn append_lost(&mut self, topic: &Topic, source_time_ns: u64, lost_trades: u32) {
        self.append_certainty(topic, source_time_ns, wire::Certainty::LOST, lost_trades);
    }

    /// Tells the readers of the hub's own feed that something has happened to a topic's trades.
    pub(super) fn append_certainty(
        &mut self,
        topic: &Topic,
        source_time_ns: u64,
        event: u8,
        lost_trades: u32,
    ) {
        if let Some(slot) = self.market.board.slots().slot(topic.number) {
            let told = wire::Certainty {
                symbol: topic.number,
                source: topic.venue(),
                source_time_ns,
                flags: self.market.board.certainty(topic, slot.flags()) | event,
                lost_trades,
            };
            topic.told_at(self.journal.append(&Message::Certainty(told)));
        }
    }

    fn is_doubtful(&self, number: u32) -> bool {
        let slot = self.market.board.slots().slot(number);
        slot.is_some_and(|slot| slot.flags() & FLAG_DOUBT != 0)
    }

    /// Makes a topic as certain as this source is, whose first value in its session comes now, with
    /// `source_time_ns`; `upstream` is what the source said of the value before. What another
    /// source or session left ends: a topic that was stale is not, and its quote is void, also
    /// while messages are missing. What is void has the first value's time, unless that is a whole
    /// value (`is_replaced`): its time may be later than that of other whole values behind it.
    pub(super) fn revive(
        &mut self,
        topic: &Topic,
        upstream: u32,
        (source_time_ns, is_replaced): (u64, bool),
    ) {
        self.end_wait(topic, source_time_ns);
        let Some(value) = self.market.board.value(topic.number) else {
            return;
        };
        let own = match self.certainties.doubt {
            Doubt::None => 0,
            Doubt::Records | Doubt::Messages => FLAG_DOUBT,
        };
        let (all, now) = (FLAGS_STALE | FLAGS_DOUBT, own | upstream);
        debug_assert_eq!(now & !all, 0, "only what is said of a value's certainty");
        let has_old_status =
            value.status != Status::default() && topic.status_session() != *self.session;
        if value.flags & all == now && !has_old_status {
            return;
        }
        let time_ns = match source_time_ns {
            0 => value.source_time_ns,
            time_ns => time_ns,
        };
        // What the source was asked for before it left does not come any more.
        if value.flags & FLAG_DOUBT != 0 && self.certainties.doubt != Doubt::Records {
            self.tell_lost(topic, time_ns);
        }
        let time_ns = if is_replaced {
            value.source_time_ns
        } else {
            time_ns
        };
        if has_old_status {
            self.forget_status(topic, time_ns);
        }
        let Some(mut slot) = self.writer.slot(topic.number) else {
            return;
        };
        if value.flags & FLAG_STALE != 0 && value.quote() != Quote::EMPTY {
            let quote = quote_message(topic.number, topic.venue(), time_ns, Quote::EMPTY);
            let stamp = Stamp {
                source_time_ns: time_ns,
                receive_time_ns: self.receive_time_ns,
                sequence: self.journal.append(&quote),
            };
            topic.told_at(stamp.sequence);
            slot.update_fresh(Quote::EMPTY, stamp, all);
        }
        slot.update_flags(now, all & !now);
        drop(slot);
        self.tell_certainty(topic);
    }

    /// Voids the trading state of a topic, which another session or source has given.
    #[cold]
    fn forget_status(&mut self, topic: &Topic, source_time_ns: u64) {
        let address = Address {
            number: topic.number,
            venue: topic.venue(),
            receive_time_ns: self.receive_time_ns,
        };
        let Some(mut slot) = self.writer.slot(topic.number) else {
            return;
        };
        let unknown = Message::Status(wire::TradingStatus {
            source_time_ns,
            ..wire::TradingStatus::default()
        });
        let of = (topic, self.market);
        let _ = store(&mut slot, &unknown, address, of, &mut self.journal);
        topic.status_of(*self.session);
    }

    /// Tells the readers of the hub's own feed that a topic begins with nothing, before its first
    /// message. What they know of it is of a hub that ran before: its volume must not be added to,
    /// and its state and last trade are not what this hub says.
    pub(super) fn begin_empty(&mut self, topic: &Topic) {
        if topic.begin() {
            // Who has only defined it may have left, perhaps in doubt. A venue may have begun with
            // the value that its symbol had: that waits for the new session's first one.
            let value = self.market.board.value(topic.number).unwrap_or_default();
            let says_nothing = value.quote() == Quote::EMPTY && value.last == PRICE_UNDEFINED;
            let old = match self.certainties.doubt {
                Doubt::None => FLAG_STALE | FLAG_DOUBT,
                Doubt::Records | Doubt::Messages => FLAG_STALE,
            };
            let is_changed = value.flags & old != 0 && says_nothing;
            let before = staleness_of(value.flags);
            if is_changed && let Some(mut slot) = self.writer.slot(topic.number) {
                slot.update_flags(0, old);
            }
            self.tell_record_or_nothing(topic);
            if is_changed && value.flags & old & FLAG_DOUBT != 0 {
                // Its session has ended before what it has missed came.
                self.tell_lost(topic, self.happens_ns);
            }
            if is_changed {
                // The message that it begins with may change nothing.
                if staleness_of(self.flags(topic.number)) != before {
                    self.publish(topic);
                }
                self.follow(topic, None);
            }
        }
    }

    /// Tells the readers of the hub's own feed all that is known of a topic, also if that is
    /// nothing. Nothing has no time, and is as certain as its source says.
    pub(super) fn tell_record_or_nothing(&mut self, topic: &Topic) {
        // One that was only marked has nothing either.
        if !self.tell_record(topic) {
            let value = self.market.board.value(topic.number).unwrap_or_default();
            let nothing = MarketValue {
                flags: value.flags,
                ..MarketValue::EMPTY
            };
            let record = LastValue {
                source: topic.venue(),
                figures: Some(Figures {
                    traded_until_ns: topic.newest_trade_ns(),
                    ..figures(&nothing)
                }),
                ..LastValue::new(topic.number)
            };
            topic.told_at(self.journal.append(&Message::LastValue(record)));
        }
    }

    /// Tells the readers of the hub's own feed all that is known of a topic. Returns whether there
    /// is anything.
    pub(super) fn tell_record(&mut self, topic: &Topic) -> bool {
        let board = &*self.market.board;
        let record = server::Board::last_value(board, topic.number as usize);
        if let Some(record) = record {
            topic.told_at(self.journal.append(&Message::LastValue(record)));
        }
        record.is_some()
    }

    /// Begins a session with the open that the source's definition declares, unless the last one
    /// that declared an open has declared the same: a definition that is repeated says nothing of
    /// the session, which may have begun since.
    pub(super) fn declare_open(&mut self, topic: &Arc<Topic>, open: DeclaredOpen) {
        debug_assert_ne!(open.price, PRICE_UNDEFINED, "an open is declared");
        let Some(mut slot) = self.writer.slot(topic.number) else {
            return;
        };
        let value = self.market.board.value(topic.number).unwrap_or_default();
        if !topic.declare_open(open.price) || open.price == value.session_open {
            return;
        }
        let stamp = Stamp {
            // The definition may be older than what the topic has.
            source_time_ns: open.source_time_ns.max(value.source_time_ns),
            receive_time_ns: self.receive_time_ns,
            // That of the record which tells it.
            sequence: self.journal.next_sequence(),
        };
        let session = NewSession {
            open: open.price,
            reference: value.reference,
            trading_day: value.trading_day,
        };
        slot.start_session(session, stamp);
        drop(slot);
        topic.session_begins();
        // Snapshots give the definition together with the value.
        topic.redefine(&Definition {
            open: open.price,
            ..topic.definition()
        });
        // A reader that has had a record before knows of no session that begins now.
        self.tell_record(topic);
        self.publish(topic);
        if let Some(namesake) = topic.namesake() {
            self.copy_to_namesake(topic, &namesake);
        }
        self.follow(topic, None);
    }
}

/// Where a message goes, and when it came.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub(super) number: u32,
    pub(super) venue: u16,
    pub(super) receive_time_ns: u64,
}

/// Appends a message to the journal, as the hub numbers it, and stores it. Returns its source time;
/// `None` if it is not stored.
#[inline]
fn store(
    slot: &mut SlotWriter<'_>,
    message: &Message,
    address: Address,
    of: (&Topic, &Market),
    journal: &mut Journal,
) -> Option<u64> {
    match message {
        Message::Quote(quote) => {
            let own = wire::Quote {
                symbol: address.number,
                source: address.venue,
                ..*quote
            };
            let stamp = address.stamp(quote.source_time_ns, journal.append(&Message::Quote(own)));
            slot.update_quote(quote_of(quote), stamp);
            Some(quote.source_time_ns)
        }
        Message::Trade(trade) => {
            let own = wire::Trade {
                symbol: address.number,
                source: address.venue,
                ..*trade
            };
            let stamp = address.stamp(trade.source_time_ns, journal.append(&Message::Trade(own)));
            of.0.traded_at(trade.source_time_ns, stamp.sequence);
            slot.update_trade(trade_of(trade), stamp);
            Some(trade.source_time_ns)
        }
        _ => store_rare(slot, message, address, of, journal),
    }
}

#[inline(never)]
fn store_rare(
    slot: &mut SlotWriter<'_>,
    message: &Message,
    address: Address,
    (topic, market): (&Topic, &Market),
    journal: &mut Journal,
) -> Option<u64> {
    match message {
        Message::Status(status) => {
            let own = wire::TradingStatus {
                symbol: address.number,
                source: address.venue,
                ..*status
            };
            let sequence = journal.append(&Message::Status(own));
            let stamp = address.stamp(status.source_time_ns, sequence);
            let value = Status {
                state: status.state.0,
                reason: status.reason,
            };
            slot.update_status(value, stamp);
            topic.status_at(status.source_time_ns);
            let (set, clear) = match status.state {
                TradingState::HALTED => (FLAG_HALTED, 0),
                _ => (0, FLAG_HALTED),
            };
            slot.update_flags(set, clear);
            Some(status.source_time_ns)
        }
        Message::Certainty(told) => {
            let flags = upstream_flags(told.flags);
            let all = FLAG_UPSTREAM_STALE | FLAG_UPSTREAM_DOUBT;
            if slot.flags() & all != flags {
                slot.update_flags(flags, all & !flags);
            }
            topic.away_upstream(told.flags & Figures::AWAY != 0);
            let own = market.board.certainty(topic, slot.flags());
            topic.told_at(journal.append(&Message::Certainty(wire::Certainty {
                symbol: address.number,
                source: address.venue,
                flags: own | told.flags & (wire::Certainty::LOST | wire::Certainty::OTHER),
                ..*told
            })));
            // It is no event at the source, and has no latency.
            Some(0)
        }
        Message::SessionStart(start) => {
            let own = wire::SessionStart {
                symbol: address.number,
                source: address.venue,
                trading_day: address.plausible_day(start.trading_day, start.source_time_ns),
                ..*start
            };
            let value = market.board.value(address.number)?;
            let decided = own.decide(&session_state(topic, &value))?;
            if decided.rolls != wire::SessionStart::KEEPS {
                if is_again(&decided, topic, &value) {
                    topic.trades_may_repeat();
                }
                topic.session_begins();
            }
            let mut sequence = journal.append(&Message::SessionStart(decided));
            let open = own.open_beside(&decided);
            if let Some(open) = open {
                sequence = journal.append(&Message::SessionStart(open));
            }
            let stamp = address.stamp(start.source_time_ns, sequence);
            store_session(slot, &decided, open, stamp);
            Some(start.source_time_ns)
        }
        Message::LastValue(value) => {
            let mut own = LastValue {
                symbol: address.number,
                source: address.venue,
                ..*value
            };
            leave_out_unknown(&mut own);
            if let Some(figures) = &mut own.figures {
                let day = figures.trading_day;
                figures.trading_day = address.plausible_day(day, value.source_time_ns);
                figures.traded_until_ns = address.possible(figures.traded_until_ns);
            }
            let flags = own.figures.map_or(0, |figures| figures.flags);
            topic.away_upstream(flags & Figures::AWAY != 0);
            let sequence = journal.append(&Message::LastValue(own));
            forget_times(topic, market, &own, sequence);
            let stamp = address.stamp(value.source_time_ns, sequence);
            let new = market_value(&own, stamp);
            if topic.parent().is_some() && is_other_session(market, &new, address.number) {
                topic.session_begins();
            }
            slot.replace(&new);
            Some(value.source_time_ns)
        }
        _ => None,
    }
}

impl Address {
    /// Returns a trading day as a source gives it; 0 for a number that is no date, or one far from
    /// the time of the message and from its receipt, or far in the future. A later day than that
    /// of the other venues would end their session, and no real day would begin one after it.
    fn plausible_day(self, day: u32, source_time_ns: u64) -> u32 {
        if day == 0 {
            return 0;
        }
        let days = days_of_number(day);
        let received = (self.receive_time_ns / DAY_NS) as i64;
        let said = match source_time_ns {
            0 => received,
            time_ns => (time_ns / DAY_NS) as i64,
        };
        // The time may be that of a later message of the source, and no time at all: the day was
        // plausible where it was first told, and it must be the same at the hubs behind that one.
        let distance = days.abs_diff(said).min(days.abs_diff(received));
        let ahead = days.saturating_sub(received);
        let is_near = distance <= TRADING_DAY_DISTANCE_MAX && ahead <= TRADING_DAYS_AHEAD_MAX;
        match date_number(days) == day && is_near {
            true => day,
            false => 0,
        }
    }

    /// Returns a time of the source, or 0 if it cannot be.
    fn possible(self, time_ns: u64) -> u64 {
        let until_ns = possible_until_ns(self.receive_time_ns);
        if time_ns > until_ns { 0 } else { time_ns }
    }

    pub(super) fn stamp(self, source_time_ns: u64, sequence: u64) -> Stamp {
        Stamp {
            source_time_ns,
            receive_time_ns: self.receive_time_ns,
            sequence,
        }
    }
}

/// Ends the doubt about a topic. Returns whether there was one.
#[cold]
fn end_doubt(market: &Market, writer: &mut SlotWriter<'_>, number: u32) -> bool {
    let slot = market.board.slots().slot(number);
    let is_doubtful = slot.is_some_and(|slot| slot.quote().flags & FLAG_DOUBT != 0);
    if is_doubtful {
        writer.update_flags(0, FLAG_DOUBT);
    }
    is_doubtful
}

/// Returns the source's latency recorder.
#[inline]
fn recorder<'a>(
    market: &Market,
    latency: &'a mut Option<LatencyRecorder>,
) -> &'a mut LatencyRecorder {
    latency.get_or_insert_with(|| market.latency.recorder())
}

/// Returns a quote as the hub's own feed has it.
pub(super) fn quote_message(
    symbol: u32,
    source: u16,
    source_time_ns: u64,
    quote: Quote,
) -> Message {
    Message::Quote(wire::Quote {
        symbol,
        source,
        source_time_ns,
        bid: quote.bid,
        ask: quote.ask,
        bid_size: quote.bid_size,
        ask_size: quote.ask_size,
        bid_orders: quote.bid_orders,
        ask_orders: quote.ask_orders,
    })
}

#[inline]
fn quote_of(quote: &wire::Quote) -> Quote {
    Quote {
        bid: quote.bid,
        ask: quote.ask,
        bid_size: quote.bid_size,
        ask_size: quote.ask_size,
        bid_orders: quote.bid_orders,
        ask_orders: quote.ask_orders,
    }
}

#[inline]
fn trade_of(trade: &wire::Trade) -> Trade {
    Trade {
        price: trade.price,
        size: trade.size,
        // It is about the message, not about the trade.
        condition: trade.condition & !REPEATED,
    }
}

fn market_value(value: &LastValue, stamp: Stamp) -> MarketValue {
    let short = short_value(value, stamp);
    let Some(figures) = &value.figures else {
        return short;
    };
    MarketValue {
        flags: short.flags | upstream_flags(figures.flags),
        first_trade: figures.first_trade,
        high: figures.high,
        low: figures.low,
        turnover: figures.turnover,
        trades: figures.trades,
        condition: figures.condition,
        reference: Reference {
            price: figures.reference,
            kind: figures.reference_kind.0,
        },
        status: Status {
            reason: figures.reason,
            ..short.status
        },
        trading_day: figures.trading_day,
        ..short
    }
}

/// Returns the flags of a value for what its source says of it.
pub(super) fn upstream_flags(certainty: u8) -> u32 {
    let flag = |bit: u8, own: u32| if certainty & bit == 0 { 0 } else { own };
    flag(Figures::STALE, FLAG_UPSTREAM_STALE) | flag(Figures::IN_DOUBT, FLAG_UPSTREAM_DOUBT)
}

fn short_value(value: &LastValue, stamp: Stamp) -> MarketValue {
    MarketValue {
        bid: value.bid,
        ask: value.ask,
        bid_size: value.bid_size,
        ask_size: value.ask_size,
        bid_orders: value.bid_orders,
        ask_orders: value.ask_orders,
        last: value.last,
        last_size: value.last_size,
        volume: value.volume,
        turnover: match value.volume {
            0 => 0,
            _ => TURNOVER_UNKNOWN,
        },
        session_open: value.open,
        status: Status {
            state: value.state.0,
            reason: 0,
        },
        flags: match value.state {
            TradingState::HALTED => FLAG_HALTED,
            _ => 0,
        },
        source_time_ns: stamp.source_time_ns,
        receive_time_ns: stamp.receive_time_ns,
        sequence: stamp.sequence,
        ..MarketValue::EMPTY
    }
}

const DAY_NS: u64 = 86_400_000_000_000;
/// Maximum days between a trading day and the time of a message that names it: over holidays the
/// next trading day begins early.
const TRADING_DAY_DISTANCE_MAX: u64 = 14;
/// Maximum days from the receipt of a message to the trading day that it names.
const TRADING_DAYS_AHEAD_MAX: i64 = 14;
