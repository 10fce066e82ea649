//! The records of one client: the initial values, then the journal from the client's position.

mod definitions;
mod derived;
mod opening;
mod records;
mod replay;
mod runs;
mod settling;
mod skipping;
mod values;
mod watch;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_dbn::BidAsk;
use tidewire_dbn::databento::{
    Authentication, NAMES_MAX, Names, RecordWriter, Schema, Subscription, error_code, publisher_of,
    system_code,
};
use tidewire_feed::server::Readable;
use tidewire_feed::wire::{LastValue, Message, Quote, RecordJoin, TradingState, TradingStatus};

use super::bars::ClientBars;
use super::depth::DepthBooks;
use super::intervals::{BBO, Intervals};
use super::pages::Pages;
use super::past::Past;
use super::selection::{Chosen, Selection};
use super::untimed::{is_untimed, set_time, time_behind};
use crate::market::Market;
use crate::topic::Topic;
use crate::venues::CONSOLIDATED;
use definitions::Definitions;
use records::CARRIED;
use runs::Runs;
use settling::{Settling, Walk};
use skipping::ToldUntil;
use values::Stamp;

pub(super) use records::is_definition;

/// The output of one client.
#[derive(Debug, Default)]
pub(super) struct Stream {
    selection: Selection,
    ts_out: bool,
    /// Whether the client gets version 2 of DBN instead of 3.
    is_version_2: bool,
    /// Publisher of the client's dataset, for sources without a number.
    publisher: u16,
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
    /// Topics that are to be resolved after a change of the subscriptions.
    settling: Settling,
    /// The topics of the initial values: the mapping, definition and value of each.
    opening: Walk,
    /// Topics from this one on may have been defined by messages that the client does not get.
    looked_until: Option<u32>,
    /// The schemas of the initial values.
    opening_schemas: u16,
    /// Whether the values are being resent because messages were skipped.
    is_refresh: bool,
    /// By topic number, as of `cursor`; empty while no schema needs them.
    prices: Pages<BidAsk>,
    intervals: Intervals,
    depth: DepthBooks,
    /// After a replay: books whose current state is to be taken.
    unknown_books: Vec<u32>,
    bars: ClientBars,
    /// By symbol: the topics that may be its venues in a hub before this one, and their publishers.
    upstream_venues: HashMap<u32, BTreeMap<u32, u16>>,
    definitions: Definitions,
    /// The newest source time of a message of the replay, ns since the UNIX epoch.
    replayed_ns: u64,
    /// The parts of a DBN record so far.
    join: RecordJoin,
    /// Whether they are the whole record.
    is_joined: bool,
    told_until: ToldUntil,
    /// The first of the messages that are skipped, until the client is told.
    skipped_from: Option<u64>,
    /// One past the last message of which the client was told that it was skipped.
    skipped_until: u64,
    runs: Runs,
    /// By topic number: its trading state as the client has it, unless that is unknown.
    states: HashMap<u32, TradingState>,
    /// Symbols in all lines of the client so far.
    symbols_named: u64,
    /// Whether the client has left more unread than is allowed.
    is_behind: bool,
    /// Whether the client was warned and has not caught up since.
    is_warned: bool,
    has_begun: bool,
    /// Whether the end of the replay has been announced.
    is_complete: bool,
    /// Whether the client was told that it follows too many books.
    has_too_many_books: bool,
}

#[derive(Debug)]
enum Word {
    System(u8, String),
    Error(u8, String),
}

impl Stream {
    pub(super) fn set_up(&mut self, authentication: &Authentication<'_>) {
        self.ts_out = authentication.ts_out;
        self.skips = authentication.skips;
        self.publisher = publisher_of(authentication.dataset);
        self.is_version_2 = authentication.dbn_version() < 3;
    }

    /// Returns a writer with this session's settings.
    pub(super) fn writer<'a>(&self, out: &'a mut Vec<u8>, unix_ns: u64) -> RecordWriter<'a> {
        let version = if self.is_version_2 { 2 } else { 3 };
        RecordWriter::new(out, self.ts_out.then_some(unix_ns), version, self.publisher)
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

    /// Returns the number of symbols in all lines of the client so far.
    pub(super) fn symbols_named(&self) -> u64 {
        self.symbols_named
    }

    pub(super) fn subscribe(&mut self, market: &Market, wanted: &Subscription<'_>, names: Names) {
        self.symbols_named += names.len() as u64;
        if self.selection.len() == SUBSCRIPTIONS_MAX {
            let text = format!("more than {SUBSCRIPTIONS_MAX} subscriptions");
            return self.note_error(error_code::INVALID_SUBSCRIPTION, text);
        }
        if self.selection.names(wanted.schema) + names.len() > NAMES_MAX {
            let schema = wanted.schema.name();
            let text = format!("more than {NAMES_MAX} symbols in all subscriptions of {schema}");
            return self.note_error(error_code::INVALID_SUBSCRIPTION, text);
        }
        if let Some(text) = self.unknown(market, &names) {
            self.note_error(error_code::SYMBOL_RESOLUTION_FAILED, text);
        }
        let number = wanted.id.map_or_else(String::new, |id| format!(" {id}"));
        let schema = wanted.schema.name();
        self.note(
            system_code::SUBSCRIPTION_ACK,
            format!("Subscription request{number} for {schema} data succeeded"),
        );
        // Symbols that are defined until the start are not in the session's messages.
        self.looked_until.get_or_insert(market.board.count());
        let concerned = self.selection.add(&market.board, wanted, names);
        // What was not followed so far starts with its current values. The rest goes on from the
        // client's position, which may be in a replay.
        self.settle_later(concerned.clone(), true);
        if self.opening.is_over() {
            self.opening_schemas = 0;
        }
        self.opening_schemas |= wanted.schema.bit();
        self.opening.add(concerned);
    }

    /// Returns the text on names that stand for no topic that the client may read.
    fn unknown(&self, market: &Market, names: &Names) -> Option<String> {
        let may_read = |topic: Arc<Topic>| self.selection.may_read(&topic);
        let is_known = |name: &str| market.board.find(name.as_bytes()).is_some_and(may_read);
        let has_id = |id: u32| {
            let number = id.checked_sub(1);
            number.is_some_and(|number| market.board.topic(number).is_some_and(may_read))
        };
        names.unknown(is_known, has_id).text()
    }

    /// Limits the client to what it may read.
    pub(super) fn restrict(&mut self, readable: Readable) {
        self.selection.restrict(readable);
    }

    pub(super) fn unsubscribe(&mut self, market: &Market, ended: &Subscription<'_>, names: &Names) {
        self.symbols_named += names.len() as u64;
        let concerned = self.selection.remove(&market.board, ended, names);
        self.settle_later(concerned, false);
        let schema = ended.schema.name();
        let text = format!("Unsubscription request for {schema} data succeeded");
        self.note(system_code::UNSUBSCRIBE_ACK, text);
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
        // While it gets its first values, or those after a skip, the rest of them comes first.
        let is_opening = !self.opening.is_over() || self.skipped_from.is_some();
        if std::mem::take(&mut self.is_behind) && self.skips && !is_opening {
            let journal = market.journal.lock();
            if journal.next_sequence() > self.cursor {
                self.skip(market, &journal);
            }
        }
    }

    /// Appends the next records, some tens of kilobytes. Returns whether there is more.
    pub(super) fn produce(&mut self, market: &Market, unix_ns: u64, out: &mut Vec<u8>) -> bool {
        let end = out.len() + PRODUCE_BYTES;
        if self.settle(market) {
            self.say(unix_ns, out);
            return true;
        }
        self.say(unix_ns, out);
        if !self.opening.is_over() || self.skipped_from.is_some() {
            self.open(market, unix_ns, out, end);
            if !self.opening.is_over() {
                return true;
            }
        }
        if !self.unknown_books.is_empty() {
            self.follow_unknown_books(market);
            return true;
        }
        if self.is_due() {
            self.tell_due(market, unix_ns, out, end);
            if self.is_due() {
                return true;
            }
        }
        if self.past.is_some() {
            return self.follow_past(market, unix_ns, out, end);
        }
        self.follow(market, unix_ns, out, end)
    }

    fn say(&mut self, unix_ns: u64, out: &mut Vec<u8>) {
        let mut writer = self.writer(out, unix_ns);
        for word in self.words.drain(..) {
            match word {
                Word::System(code, text) => writer.system(unix_ns, code, &text),
                Word::Error(code, text) => writer.error(unix_ns, code, &text),
            }
        }
    }

    /// Sends new messages of the journal while there is room.
    fn follow(&mut self, market: &Market, unix_ns: u64, out: &mut Vec<u8>, end: usize) -> bool {
        let journal = market.journal.lock();
        self.runs.go_on(journal.session(), true);
        if self.cursor < journal.oldest_sequence() {
            self.skip(market, &journal);
            return true;
        }
        // The turn began before another lane, or this one, applied the newest messages. No record
        // may be sent before its event.
        let unix_ns = unix_ns.max(tidewire_lane::unix_ns());
        let newest = journal.next_sequence();
        // The end of the replay is announced before the first live record.
        let newest = match self.is_complete {
            true => newest,
            false => newest.min(self.live_from.max(self.cursor)),
        };
        let until = newest.min(self.cursor + SCAN_MESSAGES_MAX);
        let mut records = 0;
        while self.cursor < until && out.len() < end && !self.is_due() {
            let sequence = self.cursor;
            let Some(mut message) = journal.message(sequence) else {
                self.cursor += 1;
                continue;
            };
            if is_untimed(&message) {
                let behind = sequence + 1..journal.next_sequence();
                let behind = behind.filter_map(|sequence| journal.message(sequence));
                set_time(&mut message, time_behind(behind).unwrap_or(0));
            }
            let is_live = sequence >= self.live_from;
            let time_ns = time_ns(&message);
            let now_ns = if is_live { unix_ns } else { time_ns };
            if self.passes(message.source(), time_ns, now_ns) {
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
        self.told_until.pass(self.cursor);
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
        self.complete(unix_ns, out);
        let mut has_more = more;
        if !more {
            self.is_warned = false;
            self.begins_interval(unix_ns);
            has_more = self.check_replayed_bars(market) | self.bars.tick(unix_ns);
        }
        has_more || self.is_due() || !self.unknown_books.is_empty()
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
        self.selection.see(&market.board, number);
        self.split_upstream(market, message);
        let stamp = Stamp {
            number,
            sequence,
            ts_recv: is_live.then_some(unix_ns),
        };
        let repeats = self.repeats_topic(market, message, stamp);
        if let Message::LastValue(value) = message
            && !(repeats && self.selection.of(number).named & derived::BARS == 0)
        {
            self.note_trades_of_value(market, value, stamp);
        }
        if !is_live {
            self.replayed_ns = self.replayed_ns.max(time_ns(message));
        }
        let has_chains = self.selection.has_chains();
        if let Message::Record(part) = message
            && (has_chains || self.selection.of(number).schemas & CARRIED != 0)
        {
            self.is_joined = self.join.push(part).is_some();
        }
        let mut rolled = 0;
        if has_chains {
            rolled = self.roll(market, message, stamp, unix_ns, out);
        }
        let chosen = match repeats {
            true => self.selection.of(number).by_name(),
            false => self.selection.of(number),
        };
        let mut reached = self.reached(chosen, message, is_live);
        if is_live {
            reached &= !self.told_until.includes(number, sequence);
        }
        let followed = match is_live {
            true => chosen.schemas,
            false => chosen.replayed | chosen.watched,
        };
        if followed != 0 {
            let schemas = (followed, reached);
            rolled += self.begin_in_run(message, schemas, stamp, unix_ns, out);
        }
        let watched = chosen.watched & !chosen.schemas;
        if watched != 0 {
            self.watch(market, message, watched, stamp);
        }
        if chosen.schemas == 0 || !is_live && chosen.replayed == 0 {
            return rolled;
        }
        let records = match message {
            Message::Quote(quote) => self.tell_quote(quote, reached, stamp, unix_ns, out),
            Message::Trade(trade) => {
                self.follow_trade(trade, chosen.schemas, stamp);
                self.tell_trade(market, trade, reached, stamp, unix_ns, out)
            }
            Message::Status(status) => {
                let event = stamp.event(status.source_time_ns, status.source);
                let wanted = reached & Schema::Status.bit() != 0;
                self.note_state(stamp.number, status.state, chosen.schemas);
                if wanted {
                    let mut writer = self.writer(out, unix_ns);
                    writer.status(&event, status.state, status.reason);
                }
                u64::from(wanted)
            }
            Message::Definition(definition) => {
                self.tell_definition(market, definition, reached, stamp, unix_ns, out)
            }
            Message::Record(part) => self.tell_record(market, part, reached, stamp, unix_ns, out),
            Message::Level(level) => self.tell_level(level, reached, stamp, unix_ns, out),
            Message::LastValue(value) => {
                self.follow_last(value, chosen.schemas, stamp);
                self.tell_state(value, reached, stamp, unix_ns, out)
                    + self.tell_value(value, reached, stamp, unix_ns, out)
            }
            _ => 0,
        };
        rolled + records
    }

    /// Returns whether a message repeats another topic's. It is then for those that name its topic:
    /// all symbols have each trade once.
    fn repeats_topic(&self, market: &Market, message: &Message, stamp: Stamp) -> bool {
        let Stamp {
            number, sequence, ..
        } = stamp;
        // Definitions are those of symbols.
        let is_own = self.runs.is_of_this_hub();
        !matches!(message, Message::Definition(_))
            && (self.runs.is_repeating() || is_own && market.board.repeats_at(number, sequence))
    }

    /// Returns the schemas in which a message is told. A replay leaves out what is older than its
    /// start, but an interval shows what happens in it, also if it comes late.
    fn reached(&self, chosen: Chosen, message: &Message, is_live: bool) -> u16 {
        let reached = match is_live {
            true => chosen.schemas,
            false => {
                let (intervals, others) = (chosen.replayed & BBO, chosen.replayed & !BBO);
                let mut reached = self.selection.reaching(others, time_ns(message));
                if intervals != 0 {
                    reached |= self.selection.reaching(intervals, self.replayed_ns);
                }
                reached
            }
        };
        // All symbols include each venue's own topic, so a consolidated value would tell each
        // trade twice.
        match message {
            Message::Definition(_) => reached,
            _ if message.source() == CONSOLIDATED => reached & chosen.named,
            _ => reached,
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

pub(super) fn status_of(value: &LastValue) -> TradingStatus {
    TradingStatus {
        symbol: value.symbol,
        source: value.source,
        source_time_ns: value.source_time_ns,
        state: value.state,
        reason: value.figures.map_or(0, |figures| figures.reason),
    }
}

/// Returns the source's time of a message, or 0 if it has none.
pub(super) fn time_ns(message: &Message) -> u64 {
    match message {
        Message::Trade(trade) => trade.source_time_ns,
        Message::Quote(quote) => quote.source_time_ns,
        Message::Status(status) => status.source_time_ns,
        Message::Definition(definition) => definition.source_time_ns,
        Message::Record(part) => part.source_time_ns,
        Message::Level(level) => level.source_time_ns,
        Message::LastValue(value) => value.source_time_ns,
        _ => 0,
    }
}

/// Schemas that need the best prices.
const PRICED: u16 = Schema::Mbp1.bit() | Schema::Tbbo.bit() | BBO;
/// Schemas whose current values a client gets after messages were skipped.
const REFRESHED: u16 = PRICED
    | Schema::Status.bit()
    | Schema::Statistics.bit()
    | Schema::Imbalance.bit()
    | Schema::Mbo.bit()
    | Schema::Mbp10.bit();
/// Maximum number of bytes written between two checks for waiting input.
const PRODUCE_BYTES: usize = 64 * 1024;
/// Maximum number of messages read under one lock of the journal, or from a recording in a slice.
const SCAN_MESSAGES_MAX: u64 = 4_096;
/// Maximum number of subscriptions of one client.
const SUBSCRIPTIONS_MAX: usize = 1_000;
/// Maximum number of errors and acknowledgements that wait for the session to start.
const WORDS_MAX: usize = 4_096;

#[cfg(test)]
mod tests;
