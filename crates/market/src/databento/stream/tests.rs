mod bars;
mod chains;
mod moves;
mod restarts;
mod skipped;
mod starts;

use std::sync::Arc;

use super::*;
use crate::ingest::Ingest;
use crate::market::MarketConfig;
use tidewire_dbn::databento::Request;
use tidewire_feed::client::Sink;
use tidewire_feed::wire::{
    Definition, Level, Name, RecordPart, Trade, TradingState, TradingStatus,
};

#[test]
fn many_subscriptions_name_no_more_symbols_than_one_may() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut stream = Stream::default();
    for batch in 0..=10 {
        let symbols: Vec<String> = (0..NAMES_MAX / 10)
            .map(|number| format!("{batch}-{number}"))
            .collect();
        let line = format!("schema=trades|symbols={}", symbols.join(","));
        let Ok(Request::Subscribe(wanted)) = Request::parse(&line) else {
            panic!("no subscription");
        };
        stream.subscribe(&market, &wanted, Names::parse(&wanted).unwrap());
    }
    assert_eq!(stream.selection.names(Schema::Trades), NAMES_MAX);
    assert_eq!(stream.selection.names(Schema::Mbp1), 0);
    let last = stream.words.back();
    assert!(matches!(last, Some(Word::Error(_, text)) if text.contains("symbols in all")));
}

const T: u64 = 1_704_205_800_000_000_000;
const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// When messages come: they are old data.
const RECEIVED: u64 = T + 1_000 * DAY;

/// A source of the hub, which gives messages of two venues.
struct Feed {
    market: Arc<Market>,
    ingest: Ingest,
}

impl Feed {
    fn new(symbols: &[&str]) -> Self {
        Self::with_journal(symbols, MarketConfig::default().journal_messages)
    }

    fn with_journal(symbols: &[&str], journal_messages: usize) -> Self {
        let market = Market::of_one_lane(MarketConfig {
            journal_messages,
            ..MarketConfig::default()
        });
        let mut ingest = Ingest::new(market.clone(), 1, "test");
        ingest.name_venue(2, "XNAS");
        ingest.name_venue(9, "XNYS");
        let mut batch = ingest.begin(1);
        for (number, name) in symbols.iter().enumerate() {
            let name = Name::new(name).unwrap();
            batch.definition(1, &Definition::new(number as u32, name));
        }
        batch.finish();
        Self { market, ingest }
    }

    fn send(&mut self, message: Message) {
        let mut batch = self.ingest.begin(RECEIVED);
        batch.message(1, &message);
        batch.finish();
        self.wait_for_recorder();
    }

    /// Waits while the recorder may miss messages.
    fn wait_for_recorder(&self) {
        let recording = &self.market.recording;
        let written = || recording.messages.load(Ordering::Relaxed);
        let next = self.market.journal.lock().next_sequence();
        while recording.path.get().is_some() && written() + 32 < next {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }

    fn trade(&mut self, symbol: u32, source: u16, source_time_ns: u64, price: i64) {
        self.send(Message::Trade(Trade {
            symbol,
            source,
            source_time_ns,
            price,
            size: 1,
            condition: 0,
        }));
    }

    fn quote(&mut self, symbol: u32, source_time_ns: u64, bid: i64, bid_orders: u32) {
        self.quote_of(symbol, 2, source_time_ns, bid, bid_orders);
    }

    fn quote_of(
        &mut self,
        symbol: u32,
        source: u16,
        source_time_ns: u64,
        bid: i64,
        bid_orders: u32,
    ) {
        self.send(Message::Quote(Quote {
            symbol,
            source,
            source_time_ns,
            bid,
            ask: 100,
            bid_size: 1,
            ask_size: 1,
            bid_orders,
            ask_orders: 1,
        }));
    }

    fn level(&mut self, source: u16, action: u8, price: i64, size: u32) {
        self.send(Message::Level(Level {
            source,
            source_time_ns: T,
            action,
            price,
            size,
            side: if action == Level::CLEAR {
                0
            } else {
                Level::BID
            },
            is_last: 1,
            ..Level::default()
        }));
    }

    /// Sends the record of an order that is added.
    fn order(&mut self, symbol: u32, source: u16, source_time_ns: u64, id: u64, price: i64) {
        let mut record = [0; 56];
        (record[0], record[1], record[38], record[39]) = (14, 0xA0, b'A', b'B');
        record[8..16].copy_from_slice(&source_time_ns.to_le_bytes());
        record[16..24].copy_from_slice(&id.to_le_bytes());
        record[24..32].copy_from_slice(&price.to_le_bytes());
        record[32] = 1;
        record[40..48].copy_from_slice(&source_time_ns.to_le_bytes());
        for part in RecordPart::split(symbol, source, source_time_ns, &record) {
            self.send(Message::Record(part));
        }
    }

    fn status(&mut self, source: u16, source_time_ns: u64, state: TradingState) {
        self.send(Message::Status(TradingStatus {
            source,
            source_time_ns,
            state,
            ..TradingStatus::default()
        }));
    }

    /// Sends the definition record of a future, whose name has its expiration.
    fn define(&mut self, symbol: u32, name: &str, source_time_ns: u64) {
        let definition = Definition {
            source_time_ns,
            ..Definition::new(symbol, Name::new(name).unwrap())
        };
        let mut record = Vec::new();
        RecordWriter::new(&mut record, None, 3, 2).definition(&definition, 1, source_time_ns);
        for part in RecordPart::split(symbol, 2, source_time_ns, &record) {
            self.send(Message::Record(part));
        }
    }

    fn session(&self, lines: &[&str]) -> Stream {
        let mut stream = Stream::default();
        for line in lines {
            stream.ask(&self.market, line);
        }
        stream.begin(&self.market, 1);
        stream
    }

    fn records(&self, lines: &[&str]) -> Vec<Vec<u8>> {
        self.session(lines).records(&self.market)
    }

    fn id(&self, symbol: &str) -> u32 {
        self.market.board.named(symbol).unwrap().number + 1
    }
}

impl Stream {
    fn ask(&mut self, market: &Market, line: &str) {
        let Ok(Request::Subscribe(wanted)) = Request::parse(line) else {
            panic!("no subscription");
        };
        self.subscribe(market, &wanted, Names::parse(&wanted).unwrap());
    }

    /// Returns all records of data that there are now.
    fn records(&mut self, market: &Market) -> Vec<Vec<u8>> {
        self.records_at(market, T)
    }

    fn records_at(&mut self, market: &Market, unix_ns: u64) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        while self.produce(market, unix_ns, &mut out) {}
        let (mut records, mut rest) = (Vec::new(), &out[..]);
        while let Some(&length) = rest.first() {
            let (record, others) = rest.split_at(usize::from(length) * 4);
            // Not the errors, mappings and system messages.
            if !matches!(record[1], 0x15..=0x17) {
                records.push(record.to_vec());
            }
            rest = others;
        }
        records
    }
}

fn number(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().unwrap())
}

fn id_of(record: &[u8]) -> u32 {
    u32::from_le_bytes(record[4..8].try_into().unwrap())
}

/// Returns instrument, time of the event, price, and best bid if the record has one.
fn shape(record: &[u8]) -> (u32, u64, u64, Option<u64>) {
    let bid = (record.len() >= 80).then(|| number(record, 48));
    (id_of(record), number(record, 8), number(record, 16), bid)
}

/// Returns action, time, instrument and number of each order.
fn orders(told: &[Vec<u8>]) -> Vec<(char, u64, u32, u64)> {
    let shape = |record: &Vec<u8>| {
        let action = char::from(record[38]);
        (action, number(record, 8), id_of(record), number(record, 16))
    };
    told.iter().map(shape).collect()
}

/// Returns instrument, action and time of each status.
fn statuses(told: &[Vec<u8>]) -> Vec<(u32, u16, u64)> {
    let shape = |record: &Vec<u8>| {
        let action = u16::from_le_bytes([record[24], record[25]]);
        (id_of(record), action, number(record, 8))
    };
    told.iter().map(shape).collect()
}

#[test]
fn with_a_start_a_continuous_symbol_stands_for_the_future_of_then() {
    let mut feed = Feed::new(&["ESH4", "ESM4", "ESU4"]);
    for (number, name) in ["ESH4", "ESM4", "ESU4"].into_iter().enumerate() {
        feed.define(number as u32, name, T + number as u64);
    }
    // Both contracts have prices before the roll, and others after it.
    let late = T + 100 * DAY;
    for number in [0, 1, 2] {
        feed.quote(number, T + SECOND, 10 + i64::from(number), 1);
        feed.trade(number, 2, T + 2 * SECOND, 20 + i64::from(number));
    }
    feed.trade(0, 2, late, 30);
    feed.trade(1, 2, late + 1, 31);
    feed.quote(1, late + 2, 90, 1);
    feed.trade(1, 2, late + 100 * DAY, 32);
    let symbols = "stype_in=continuous|symbols=ES.c.0";
    let start = format!("schema=tbbo|{symbols}|start=0");
    let told = feed.records(&[&start]);
    let told: Vec<_> = told.iter().map(|record| shape(record)).collect();
    let (first, second) = (feed.id("ESH4"), feed.id("ESM4"));
    let expected = [
        (first, T + 2 * SECOND, 20, Some(10)),
        (second, late + 1, 31, Some(11)),
    ];
    assert_eq!(told, expected);
    let bars = format!("schema=ohlcv-1s|{symbols}|start=0");
    let bars = feed.records(&[&bars]);
    let bars: Vec<_> = bars
        .iter()
        .map(|bar| (id_of(bar), number(bar, 8)))
        .collect();
    let expected = [(first, T + 2 * SECOND), (second, late)];
    assert_eq!(bars, expected, "none of before the roll");
    let now = feed.records(&[&format!("schema=trades|{symbols}|snapshot=1")]);
    assert_eq!(
        now.iter().map(|one| id_of(one)).collect::<Vec<_>>(),
        [feed.id("ESU4")]
    );
}

#[test]
fn with_a_start_a_definition_comes_once_and_in_its_place() {
    let mut feed = Feed::new(&["ESH4", "ESM4"]);
    feed.define(0, "ESH4", T);
    feed.quote(0, T + SECOND, 10, 1);
    feed.define(0, "ESH4", T + 2 * SECOND);
    let all = feed.records(&["schema=definition|symbols=ESH4|start=0"]);
    let times: Vec<u64> = all.iter().map(|record| number(record, 8)).collect();
    assert_eq!(times, [T, T + 2 * SECOND]);
    let start = format!("schema=definition|symbols=ESH4|start={}", T + 3 * SECOND);
    let before = feed.records(&[&start]);
    assert_eq!(
        before.len(),
        1,
        "the newest, which the replay does not have"
    );
    assert_eq!(feed.records(&["schema=definition|symbols=ESH4"]).len(), 1);
}

#[test]
fn a_value_that_changes_no_quote_is_no_quote() {
    let mut feed = Feed::new(&["A"]);
    feed.quote(0, T, 10, 1);
    feed.quote(0, T + 1, 10, 2);
    let value = LastValue {
        source: 2,
        source_time_ns: T + 2,
        bid: 11,
        ..LastValue::new(0)
    };
    feed.send(Message::LastValue(value));
    feed.send(Message::LastValue(value));
    let told = feed.records(&["schema=mbp-1|symbols=A|start=0"]);
    let times: Vec<u64> = told.iter().map(|record| number(record, 8)).collect();
    assert_eq!(
        times,
        [T, T + 1, T + 2],
        "nothing at the begin, and a new quote once"
    );
    let sides: Vec<u8> = told.iter().map(|record| record[29]).collect();
    assert_eq!(sides, *b"NBN", "a number of orders is of a side");
    assert_eq!(number(&told[1], 16), 10, "and has that side's price");
}

#[test]
fn a_snapshot_has_the_time_of_each_part() {
    let mut feed = Feed::new(&["A", "B"]);
    feed.send(Message::Status(TradingStatus {
        source: 2,
        source_time_ns: T,
        state: TradingState::OPEN,
        ..TradingStatus::default()
    }));
    feed.trade(0, 2, T + 1, 7);
    feed.quote(0, T + 2, 10, 1);
    feed.quote(1, T + 3, 10, 1);
    let time = |schema: &str, symbol: &str| {
        let line = format!("schema={schema}|symbols={symbol}|snapshot=1");
        let records = feed.records(&[&line]);
        records.first().map(|record| number(record, 8))
    };
    for schema in ["trades", "tbbo", "bbo-1s", "bbo-1m"] {
        assert_eq!(time(schema, "A"), Some(T + 1), "{schema}");
    }
    assert_eq!(time("mbp-1", "A"), Some(T + 2));
    assert_eq!(time("status", "A"), Some(T));
    assert_eq!((time("trades", "B"), time("status", "B")), (None, None));
    assert_eq!(time("bbo-1s", "B"), Some(u64::MAX), "no trade");
    // A record with another last trade does not give its time.
    feed.send(Message::LastValue(LastValue {
        source: 2,
        source_time_ns: T + 5,
        last: 8,
        last_size: 1,
        ..LastValue::new(0)
    }));
    let lines = ["schema=trades|symbols=A|snapshot=1"];
    let last = feed.records(&lines);
    assert_eq!((number(&last[0], 8), number(&last[0], 16)), (u64::MAX, 8));
}

#[test]
fn a_subscription_within_a_replay_leaves_the_prices_of_then() {
    let mut feed = Feed::new(&["A", "B"]);
    feed.quote(0, T, 10, 1);
    for number in 0..SCAN_MESSAGES_MAX {
        feed.trade(1, 2, T + number, 5);
    }
    feed.trade(0, 2, T + SECOND, 7);
    feed.quote(0, T + 2 * SECOND, 90, 1);
    let mut stream = feed.session(&["schema=tbbo|symbols=A|start=0"]);
    assert!(stream.produce(&feed.market, T, &mut Vec::new()));
    stream.ask(&feed.market, "schema=tbbo|symbols=B");
    let told = stream.records(&feed.market);
    assert_eq!(
        told.iter().map(|record| shape(record)).collect::<Vec<_>>(),
        [(1, T + SECOND, 7, Some(10))]
    );
}

#[test]
fn a_bar_goes_on_under_the_topic_of_its_venue_live_and_with_a_start() {
    let mut feed = Feed::new(&["A"]);
    let lines = |symbol: &str, start: &str| format!("schema=ohlcv-1s|symbols={symbol}{start}");
    let all = ["ALL_SYMBOLS", "A", "A@XNAS", "A@XNYS"];
    let live = all.map(|symbol| feed.session(&[&lines(symbol, "")]));
    feed.trade(0, 2, T, 100);
    feed.trade(0, 9, T + 1, 101);
    feed.trade(0, 2, T + 2, 102);
    feed.trade(0, 2, T + SECOND, 103);
    feed.trade(0, 9, T + SECOND, 103);
    let (nasdaq, nyse) = (feed.id("A@XNAS"), feed.id("A@XNYS"));
    let expected = [
        vec![(nasdaq, 100, 102, 2), (nyse, 101, 101, 1)],
        vec![(feed.id("A"), 100, 102, 3)],
        vec![(nasdaq, 100, 102, 2)],
        vec![(nyse, 101, 101, 1)],
    ];
    for ((mut live, symbol), expected) in live.into_iter().zip(all).zip(expected) {
        let late = feed.records(&[&lines(symbol, "|start=0")]);
        for bars in [live.records(&feed.market), late] {
            let bars = bars.iter().map(|bar| {
                let (open, close) = (number(bar, 16), number(bar, 40));
                (id_of(bar), open, close, number(bar, 48))
            });
            assert_eq!(bars.collect::<Vec<_>>(), expected, "{symbol}");
        }
    }
}

#[test]
fn with_a_start_the_book_of_a_venue_is_not_that_of_now() {
    let mut feed = Feed::new(&["A"]);
    feed.level(2, Level::CLEAR, 0, 0);
    feed.level(2, Level::SET, 5, 1);
    feed.trade(0, 9, T, 100);
    feed.level(2, Level::SET, 6, 1);
    feed.level(2, Level::SET, 7, 1);
    let told = feed.records(&["schema=mbp-10|symbols=A@XNAS|start=0"]);
    let bids: Vec<_> = told.iter().map(|record| number(record, 48)).collect();
    assert_eq!(bids, [5, 6, 7]);
}
