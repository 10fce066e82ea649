//! The records of one client: the initial values, then the journal from the client's position.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_dbn::databento::{
    Event, NAMES_MAX, Names, RecordWriter, Schema, Subscription, error_code, system_code,
};
use tidewire_dbn::{BidAsk, action, flag, side};
use tidewire_feed::journal::Journal;
use tidewire_feed::server::Board;
use tidewire_feed::wire::{LastValue, Message, Quote, Trade, UNDEFINED_PRICE};
use tidewire_lastvalue::PRICE_UNDEFINED;

use super::intervals::Intervals;
use super::past::{Next, Past};
use super::selection::{Chosen, Selection, instrument_id};
use crate::market::Market;

/// The output of one client.
#[derive(Debug, Default)]
pub(super) struct Stream {
    selection: Selection,
    ts_out: bool,
    /// Whether records are skipped when the client falls behind, in addition to the warning.
    skips: bool,
    /// The next sequence of the journal.
    cursor: u64,
    /// Records from this sequence on are live; earlier ones were requested with `start`.
    live_from: u64,
    /// The part before the journal, from the recording.
    past: Option<Past>,
    /// Messages of the gateway that are sent before anything else.
    words: VecDeque<Word>,
    /// The next topic in the initial values: its mapping, definition and value.
    opening: Option<u32>,
    /// The schemas of the initial values.
    opening_schemas: u8,
    /// Whether the values are being resent because messages were skipped.
    is_refresh: bool,
    /// By topic number, as of `cursor`; empty while no schema needs them.
    prices: Vec<BidAsk>,
    intervals: Intervals,
    /// Whether the client has left more unread than is allowed.
    is_behind: bool,
    /// Whether the client was warned and has not caught up since.
    is_warned: bool,
    has_begun: bool,
    /// Whether the end of the replay has been announced.
    is_complete: bool,
}

#[derive(Debug)]
enum Word {
    System(u8, String),
    Error(u8, String),
}

impl Stream {
    pub(super) fn set_up(&mut self, ts_out: bool, skips: bool) {
        (self.ts_out, self.skips) = (ts_out, skips);
    }

    /// Returns a writer with this session's settings.
    pub(super) fn writer<'a>(&self, out: &'a mut Vec<u8>, unix_ns: u64) -> RecordWriter<'a> {
        RecordWriter::new(out, self.ts_out.then_some(unix_ns))
    }

    /// Sends the client an error before the next record.
    pub(super) fn note_error(&mut self, code: u8, text: String) {
        if self.words.len() < WORDS_MAX {
            self.words.push_back(Word::Error(code, text));
        }
    }

    fn note(&mut self, code: u8, text: String) {
        if self.words.len() < WORDS_MAX {
            self.words.push_back(Word::System(code, text));
        }
    }

    pub(super) fn subscribe(&mut self, market: &Market, wanted: &Subscription<'_>, names: Names) {
        if self.selection.len() == SUBSCRIPTIONS_MAX {
            let text = format!("more than {SUBSCRIPTIONS_MAX} subscriptions");
            return self.note_error(error_code::INVALID_SUBSCRIPTION, text);
        }
        if self.selection.names(wanted.schema) + names.len() > NAMES_MAX {
            let schema = wanted.schema.name();
            let text = format!("more than {NAMES_MAX} symbols in all subscriptions of {schema}");
            return self.note_error(error_code::INVALID_SUBSCRIPTION, text);
        }
        let (unknown, count) = names.unknown(|name| market.board.find(name.as_bytes()).is_some());
        if count > 0 {
            let text = format!(
                "{count} symbols are not known yet, and follow when they are: {}",
                unknown.join(", ")
            );
            self.note_error(error_code::SYMBOL_RESOLUTION_FAILED, text);
        }
        let number = wanted.id.map_or_else(String::new, |id| format!(" {id}"));
        let schema = wanted.schema.name();
        self.note(
            system_code::SUBSCRIPTION_ACK,
            format!("Subscription request{number} for {schema} data succeeded"),
        );
        self.selection.add(&market.board, wanted, names);
        if self.has_begun {
            // Prices that were not followed so far start with their current values.
            self.take_prices(market, &market.journal.lock());
            let still = self.opening.map_or(0, |_| self.opening_schemas);
            self.opening_schemas = still | wanted.schema.bit();
            self.opening = Some(0);
        }
    }

    pub(super) fn unsubscribe(&mut self, market: &Market, ended: &Subscription<'_>, names: &Names) {
        self.selection.remove(&market.board, ended, names);
        let schema = ended.schema.name();
        let text = format!("Unsubscription request for {schema} data succeeded");
        self.note(system_code::UNSUBSCRIBE_ACK, text);
    }

    /// Starts the session. Returns the time from which there will be records.
    pub(super) fn begin(&mut self, market: &Arc<Market>, unix_ns: u64) -> u64 {
        debug_assert!(!self.has_begun, "a session starts once");
        let journal = market.journal.lock();
        self.has_begun = true;
        self.live_from = journal.next_sequence();
        self.cursor = self.live_from;
        (self.opening, self.opening_schemas) = (Some(0), u8::MAX);
        self.take_prices(market, &journal);
        let Some(start_ns) = self.selection.start_ns() else {
            return unix_ns;
        };
        self.cursor = journal.oldest_sequence();
        debug_assert!(
            self.cursor <= self.live_from,
            "a replay ends where live data begins"
        );
        let kept = journal.len();
        let oldest_ns = journal.source_times_ns().map_or(u64::MAX, |times| times.0);
        drop(journal);
        self.past = self.open_past(market, start_ns, oldest_ns);
        // A replay computes its own prices.
        for (number, prices) in self.prices.iter_mut().enumerate() {
            if self.selection.of(number as u32).replayed != 0 {
                *prices = BidAsk::EMPTY;
            }
        }
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

    /// Opens the recording, if there is one and the journal does not go back far enough.
    fn open_past(&mut self, market: &Arc<Market>, start_ns: u64, oldest_ns: u64) -> Option<Past> {
        let path = market
            .recording
            .path
            .get()
            .filter(|_| start_ns < oldest_ns)?;
        match Past::open(market, path.clone(), start_ns) {
            Ok(past) => Some(past),
            Err(error) => {
                let text = format!("the recording cannot be read: {error}");
                self.note_error(error_code::SKIPPED_RECORDS, text);
                None
            }
        }
    }

    /// Notes that the client leaves its records unread.
    pub(super) fn fall_behind(&mut self) {
        self.is_behind = true;
        if !self.skips && !std::mem::replace(&mut self.is_warned, true) {
            self.note(
                system_code::SLOW_READER_WARNING,
                "The client is slow: records wait for it".to_owned(),
            );
        }
    }

    /// Notes that the client has read its backlog. A client that skips continues with the newest
    /// message.
    pub(super) fn catch_up(&mut self, market: &Market) {
        if std::mem::take(&mut self.is_behind) && self.skips {
            let journal = market.journal.lock();
            if journal.next_sequence() > self.cursor {
                self.skip(market, &journal);
            }
        }
    }

    /// Appends the next records, some tens of kilobytes. Returns whether there is more.
    pub(super) fn produce(&mut self, market: &Market, unix_ns: u64, out: &mut Vec<u8>) -> bool {
        let end = out.len() + PRODUCE_BYTES;
        self.say(unix_ns, out);
        let known = self.selection.look(&market.board);
        if let Some(first) = self.opening {
            self.open(market, unix_ns, first, known as u32, out, end);
            if self.opening.is_some() {
                return true;
            }
        }
        if self.intervals.telling_ns().is_some() {
            self.tell_interval(market, unix_ns, out, end);
            if self.intervals.telling_ns().is_some() {
                return true;
            }
        }
        if self.past.is_some() {
            return self.follow_past(market, unix_ns, out, end);
        }
        self.follow(market, unix_ns, out, end)
    }

    /// Sends records from the recording while there is room. Then the journal continues.
    fn follow_past(
        &mut self,
        market: &Market,
        unix_ns: u64,
        out: &mut Vec<u8>,
        end: usize,
    ) -> bool {
        let mut records = 0;
        let more = loop {
            if out.len() >= end || self.intervals.telling_ns().is_some() {
                break true;
            }
            let next_ns = self.past.as_ref().and_then(Past::next_time_ns);
            if next_ns.is_some_and(|time_ns| self.begins_interval(time_ns)) {
                break true;
            }
            let Some(past) = &mut self.past else {
                break true;
            };
            match past.next(market) {
                Next::Message(told) => {
                    let is_live = told.is_of_this_run && told.sequence >= self.live_from;
                    records +=
                        self.tell(market, told.sequence, &told.message, is_live, unix_ns, out);
                    if told.is_of_this_run {
                        self.advance(told.sequence + 1, unix_ns, out);
                    }
                }
                Next::Gap(from, until) => {
                    let last = until.saturating_sub(1);
                    let text = format!("sequences {from} to {last} are not in the recording");
                    self.note_error(error_code::SKIPPED_RECORDS, text);
                    self.say(unix_ns, out);
                }
                Next::Journal(next) => {
                    self.past = None;
                    self.advance(next, unix_ns, out);
                }
                Next::Nothing => break false,
            }
        };
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
        more
    }

    fn say(&mut self, unix_ns: u64, out: &mut Vec<u8>) {
        let ts_out = self.ts_out.then_some(unix_ns);
        let mut writer = RecordWriter::new(out, ts_out);
        for word in self.words.drain(..) {
            match word {
                Word::System(code, text) => writer.system(unix_ns, code, &text),
                Word::Error(code, text) => writer.error(unix_ns, code, &text),
            }
        }
    }

    /// Sends topics from `first` on: each mapping, and its value if that is wanted.
    fn open(
        &mut self,
        market: &Market,
        unix_ns: u64,
        first: u32,
        known: u32,
        out: &mut Vec<u8>,
        end: usize,
    ) {
        let mut number = first;
        while number < known && out.len() < end {
            let chosen = self.selection.of(number);
            if chosen.schemas & self.opening_schemas != 0 {
                self.introduce(market, unix_ns, number, chosen, out);
            }
            number += 1;
        }
        self.opening = (number < known).then_some(number);
        self.is_refresh &= self.opening.is_some();
    }

    fn introduce(
        &self,
        market: &Market,
        unix_ns: u64,
        number: u32,
        chosen: Chosen,
        out: &mut Vec<u8>,
    ) {
        let Some(topic) = market.board.topic(number) else {
            return;
        };
        let definition = topic.definition();
        let id = instrument_id(number);
        let schemas = chosen.schemas & self.opening_schemas;
        let snapshots = match self.is_refresh {
            true => schemas,
            false => schemas & chosen.snapshots,
        };
        let mut writer = self.writer(out, unix_ns);
        if let Some(asked) = self.selection.asked(&topic)
            && !self.is_refresh
        {
            let name = definition.name.as_str();
            writer.mapping(id, definition.source, unix_ns, asked, name);
            market.databento.records.fetch_add(1, Ordering::Relaxed);
        }
        if schemas & Schema::Definition.bit() != 0 && !self.is_refresh {
            writer.definition(&definition, id, unix_ns);
            market.databento.records.fetch_add(1, Ordering::Relaxed);
        }
        if snapshots != 0
            && let Some(value) = Board::last_value(&*market.board, number as usize)
        {
            self.snapshot(market, unix_ns, snapshots, &value, out);
        }
    }

    /// Sends the current value, marked as a snapshot, in each schema of `schemas`.
    fn snapshot(
        &self,
        market: &Market,
        unix_ns: u64,
        schemas: u8,
        value: &LastValue,
        out: &mut Vec<u8>,
    ) {
        let number = value.symbol;
        let prices = self.prices.get(number as usize).copied();
        let prices = prices.unwrap_or(BidAsk::EMPTY);
        let event = Event {
            instrument_id: instrument_id(number),
            publisher_id: value.source,
            ts_event: value.source_time_ns,
            ts_recv: unix_ns,
            sequence: value.sequence,
            price: value.last,
            size: value.last_size,
            side: side::NONE,
            action: action::NONE,
            flags: flag::SNAPSHOT | flag::TOP_OF_BOOK,
        };
        let mut writer = self.writer(out, unix_ns);
        let wants = |schema: Schema| schemas & schema.bit() != 0;
        let mut records = 0;
        if wants(Schema::Mbp1) || wants(Schema::Tbbo) {
            writer.best_prices(&event, &prices);
            records += 1;
        }
        if wants(Schema::Bbo1s) {
            writer.interval(&event, &prices);
            records += 1;
        }
        if wants(Schema::Trades) && value.last != UNDEFINED_PRICE {
            let action = action::TRADE;
            writer.trade(&Event { action, ..event });
            records += 1;
        }
        if wants(Schema::Status) {
            writer.status(&event, value.state, 0);
            records += 1;
        }
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
    }

    /// Sends new messages of the journal while there is room.
    fn follow(&mut self, market: &Market, unix_ns: u64, out: &mut Vec<u8>, end: usize) -> bool {
        let journal = market.journal.lock();
        if self.cursor < journal.oldest_sequence() {
            self.skip(market, &journal);
            return true;
        }
        let until = journal.next_sequence().min(self.cursor + SCAN_MESSAGES_MAX);
        let was_replay = self.cursor < self.live_from;
        let mut records = 0;
        while self.cursor < until && out.len() < end && self.intervals.telling_ns().is_none() {
            let sequence = self.cursor;
            let Some(message) = journal.message(sequence) else {
                self.cursor += 1;
                continue;
            };
            let is_live = sequence >= self.live_from;
            let now_ns = if is_live { unix_ns } else { time_ns(&message) };
            if self.begins_interval(now_ns) {
                break;
            }
            records += self.tell(market, sequence, &message, is_live, unix_ns, out);
            self.cursor += 1;
        }
        debug_assert!(
            self.cursor <= journal.next_sequence(),
            "only existing messages are sent"
        );
        let more = self.cursor < journal.next_sequence();
        drop(journal);
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
        if was_replay {
            self.complete(unix_ns, out);
        }
        if !more {
            self.is_warned = false;
            self.begins_interval(unix_ns);
        }
        more || self.intervals.telling_ns().is_some()
    }

    /// Notes that a replay has reached this sequence.
    fn advance(&mut self, next: u64, unix_ns: u64, out: &mut Vec<u8>) {
        self.cursor = next;
        self.complete(unix_ns, out);
    }

    /// Announces the end of the replay, once it is reached.
    fn complete(&mut self, unix_ns: u64, out: &mut Vec<u8>) {
        if self.cursor >= self.live_from && !std::mem::replace(&mut self.is_complete, true) {
            let text = format!("Replay completed at sequence {}", self.live_from - 1);
            self.note(system_code::REPLAY_COMPLETED, text);
            self.say(unix_ns, out);
        }
    }

    /// Sends one message to the subscriptions that match. Returns the number of records.
    fn tell(
        &mut self,
        market: &Market,
        sequence: u64,
        message: &Message,
        is_live: bool,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let Some(number) = message.symbol() else {
            return 0;
        };
        if let Message::Definition(_) = message {
            self.selection.look(&market.board);
        }
        let chosen = self.selection.of(number);
        if chosen.schemas == 0 {
            return 0;
        }
        let reached = match is_live {
            true => chosen.schemas,
            false => self.selection.reaching(chosen.replayed, time_ns(message)),
        };
        if !is_live && chosen.replayed == 0 {
            return 0;
        }
        let stamp = Stamp {
            number,
            sequence,
            ts_recv: is_live.then_some(unix_ns),
        };
        match message {
            Message::Quote(quote) => self.tell_quote(quote, reached, stamp, unix_ns, out),
            Message::Trade(trade) => self.tell_trade(trade, reached, stamp, unix_ns, out),
            Message::Status(status) => {
                let event = stamp.event(status.source_time_ns, status.source);
                let wanted = reached & Schema::Status.bit() != 0;
                if wanted {
                    let mut writer = self.writer(out, unix_ns);
                    writer.status(&event, status.state, status.reason);
                }
                u64::from(wanted)
            }
            Message::Definition(definition) => {
                let ts_recv = stamp.ts_recv.unwrap_or(definition.source_time_ns);
                let id = instrument_id(number);
                let topic = market.board.topic(number);
                let asked = topic.as_ref().and_then(|topic| self.selection.asked(topic));
                let mut writer = self.writer(out, unix_ns);
                let name = definition.name.as_str();
                writer.mapping(
                    id,
                    definition.source,
                    unix_ns,
                    asked.unwrap_or((1, name)),
                    name,
                );
                let wanted = reached & Schema::Definition.bit() != 0;
                if wanted {
                    writer.definition(definition, id, ts_recv);
                }
                1 + u64::from(wanted)
            }
            Message::LastValue(value) => {
                let quote = quote_of(value);
                self.tell_quote(&quote, reached, stamp, unix_ns, out)
            }
            _ => 0,
        }
    }

    fn tell_quote(
        &mut self,
        quote: &Quote,
        reached: u8,
        stamp: Stamp,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let now = BidAsk {
            bid: quote.bid,
            ask: quote.ask,
            bid_size: quote.bid_size,
            ask_size: quote.ask_size,
            bid_orders: quote.bid_orders,
            ask_orders: quote.ask_orders,
        };
        let Some(prices) = self.prices_of(stamp.number) else {
            return 0;
        };
        let before = std::mem::replace(prices, now);
        self.note_change(reached, stamp.number);
        if reached & Schema::Mbp1.bit() == 0 {
            return 0;
        }
        let bid_same = (before.bid, before.bid_size) == (now.bid, now.bid_size);
        let ask_same = (before.ask, before.ask_size) == (now.ask, now.ask_size);
        let (side, price, size) = match (bid_same, ask_same) {
            (false, true) => (side::BID, now.bid, now.bid_size),
            (true, false) => (side::ASK, now.ask, now.ask_size),
            _ => (side::NONE, UNDEFINED_PRICE, 0),
        };
        let event = Event {
            price,
            size,
            side,
            action: action::MODIFY,
            flags: flag::TOP_OF_BOOK,
            ..stamp.event(quote.source_time_ns, quote.source)
        };
        self.writer(out, unix_ns).best_prices(&event, &now);
        1
    }

    fn tell_trade(
        &mut self,
        trade: &Trade,
        reached: u8,
        stamp: Stamp,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let event = Event {
            price: trade.price,
            size: trade.size,
            // As DBN files were played into the hub.
            side: match trade.condition {
                1 => side::BID,
                2 => side::ASK,
                _ => side::NONE,
            },
            action: action::TRADE,
            ..stamp.event(trade.source_time_ns, trade.source)
        };
        if reached & Schema::Bbo1s.bit() != 0 {
            self.intervals.trade(stamp.number, event);
        }
        self.note_change(reached, stamp.number);
        let prices = self.prices_of(stamp.number).map(|prices| *prices);
        let prices = prices.unwrap_or(BidAsk::EMPTY);
        let mut writer = self.writer(out, unix_ns);
        let mut records = 0;
        if reached & Schema::Trades.bit() != 0 {
            writer.trade(&event);
            records += 1;
        }
        if reached & (Schema::Mbp1.bit() | Schema::Tbbo.bit()) != 0 {
            let flags = flag::TOP_OF_BOOK;
            writer.best_prices(&Event { flags, ..event }, &prices);
            records += 1;
        }
        records
    }

    /// Returns the prices of a topic, if a subscription needs them.
    fn prices_of(&mut self, number: u32) -> Option<&mut BidAsk> {
        if !self.selection.wants(PRICED) {
            return None;
        }
        let index = number as usize;
        if index >= self.prices.len() {
            self.prices.resize(index + 1, BidAsk::EMPTY);
        }
        self.prices.get_mut(index)
    }

    /// Takes the current prices while the journal is locked.
    fn take_prices(&mut self, market: &Market, _: &Journal) {
        if !self.selection.wants(PRICED) {
            return;
        }
        let known = self.selection.look(&market.board);
        let followed = self.prices.len();
        self.prices.resize(known.max(followed), BidAsk::EMPTY);
        for (number, prices) in self.prices.iter_mut().enumerate() {
            if self.selection.of(number as u32).schemas & PRICED == 0 {
                continue;
            }
            if let Some(value) = market.board.value(number as u32) {
                *prices = BidAsk {
                    bid: price(value.bid),
                    ask: price(value.ask),
                    bid_size: value.bid_size,
                    ask_size: value.ask_size,
                    bid_orders: 0,
                    ask_orders: 0,
                };
            }
        }
    }

    /// Skips everything before the newest message: announces how much, and starts again with the
    /// current values.
    #[cold]
    fn skip(&mut self, market: &Market, journal: &Journal) {
        let (from, next) = (self.cursor, journal.next_sequence());
        debug_assert!(from <= next, "the journal only grows");
        let skipped = next - from;
        market
            .databento
            .skipped
            .fetch_add(skipped, Ordering::Relaxed);
        self.note_error(
            error_code::SKIPPED_RECORDS,
            format!(
                "{skipped} messages, sequences {from} to {}, were skipped: the client was slow",
                next - 1
            ),
        );
        self.cursor = next;
        self.past = None;
        self.live_from = self.live_from.min(next);
        self.take_prices(market, journal);
        // A skipped trade is not sent later; only values are.
        self.opening_schemas = PRICED | Schema::Status.bit();
        (self.opening, self.is_refresh) = (Some(0), true);
    }

    fn note_change(&mut self, reached: u8, number: u32) {
        if reached & Schema::Bbo1s.bit() != 0 {
            self.intervals.note(number);
        }
    }

    /// Returns whether a second with changes has ended by `now_ns`. It is then sent before anything
    /// else.
    fn begins_interval(&mut self, now_ns: u64) -> bool {
        self.selection.wants(Schema::Bbo1s.bit()) && self.intervals.turn(now_ns)
    }

    fn tell_interval(&mut self, market: &Market, unix_ns: u64, out: &mut Vec<u8>, end: usize) {
        let Some(ended_ns) = self.intervals.telling_ns() else {
            return;
        };
        let mut records = 0;
        while out.len() < end {
            let Some((number, trade)) = self.intervals.take_next() else {
                let mut writer = self.writer(out, unix_ns);
                let text = "End of interval for bbo-1s";
                writer.system(ended_ns, system_code::END_OF_INTERVAL, text);
                break;
            };
            let prices = self.prices.get(number as usize).copied();
            let event = Event {
                ts_recv: ended_ns,
                flags: flag::TOP_OF_BOOK,
                ..trade.unwrap_or_else(|| Stamp::none(number).event(ended_ns, 0))
            };
            let prices = prices.unwrap_or(BidAsk::EMPTY);
            self.writer(out, unix_ns).interval(&event, &prices);
            records += 1;
        }
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
    }
}

/// The position and times of a message.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    number: u32,
    sequence: u64,
    /// `None` for a message of a replay, whose time of receipt is not stored.
    ts_recv: Option<u64>,
}

impl Stamp {
    fn none(number: u32) -> Self {
        Self {
            number,
            sequence: 0,
            ts_recv: None,
        }
    }

    fn event(self, ts_event: u64, publisher_id: u16) -> Event {
        Event {
            instrument_id: instrument_id(self.number),
            publisher_id,
            ts_event,
            ts_recv: self.ts_recv.unwrap_or(ts_event),
            sequence: self.sequence,
            price: UNDEFINED_PRICE,
            size: 0,
            side: side::NONE,
            action: action::NONE,
            flags: 0,
        }
    }
}

pub(super) fn quote_of(value: &LastValue) -> Quote {
    Quote {
        symbol: value.symbol,
        source: value.source,
        source_time_ns: value.source_time_ns,
        bid: value.bid,
        ask: value.ask,
        bid_size: value.bid_size,
        ask_size: value.ask_size,
        bid_orders: value.bid_orders,
        ask_orders: value.ask_orders,
    }
}

/// Returns the source's time of a message, or 0 if it has none.
pub(super) fn time_ns(message: &Message) -> u64 {
    match message {
        Message::Trade(trade) => trade.source_time_ns,
        Message::Quote(quote) => quote.source_time_ns,
        Message::Status(status) => status.source_time_ns,
        Message::Definition(definition) => definition.source_time_ns,
        Message::LastValue(value) => value.source_time_ns,
        _ => 0,
    }
}

fn price(price: i64) -> i64 {
    match price {
        PRICE_UNDEFINED => UNDEFINED_PRICE,
        price => price,
    }
}

/// Schemas that need the best prices.
const PRICED: u8 =
    (1 << Schema::Mbp1 as u8) | (1 << Schema::Tbbo as u8) | (1 << Schema::Bbo1s as u8);
/// Maximum number of bytes written between two checks for waiting input.
const PRODUCE_BYTES: usize = 64 * 1024;
/// Maximum number of messages read under one lock of the journal.
const SCAN_MESSAGES_MAX: u64 = 4_096;
/// Maximum number of subscriptions of one client.
const SUBSCRIPTIONS_MAX: usize = 1_000;
/// Maximum number of errors and acknowledgements that wait for the session to start.
const WORDS_MAX: usize = 4_096;

#[cfg(test)]
mod tests;
