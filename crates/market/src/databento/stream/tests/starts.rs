//! Replays from a start on: what they show is what a replay of everything shows.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::recording::Recorder;
use tidewire_dbn::{Record, RecordRef, UNDEFINED_TIME};

/// A hub, and the file that it records if it does.
pub(super) struct Hub {
    pub(super) feed: Feed,
    recorder: Option<Recorder>,
    path: PathBuf,
}

impl Hub {
    pub(super) fn new(name: &str, journal_messages: usize, records: bool) -> Self {
        let file = format!("tidewire-starts-{name}-{}.rec", std::process::id());
        let path = std::env::temp_dir().join(file);
        let _ = std::fs::remove_file(&path);
        let feed = Feed::with_journal(&["A", "B"], journal_messages);
        let recorder = records.then(|| Recorder::start(&feed.market, &path).unwrap());
        Self {
            feed,
            recorder,
            path,
        }
    }

    /// Ends the hub, and starts it again with the same recording.
    pub(super) fn restart(&mut self, journal_messages: usize) {
        self.restart_with(&["A", "B"], journal_messages);
    }

    /// Does the same with a source that has not come back.
    pub(super) fn restart_without_symbols(&mut self, journal_messages: usize) {
        self.restart_with(&[], journal_messages);
    }

    fn restart_with(&mut self, symbols: &[&str], journal_messages: usize) {
        self.settle();
        self.feed = Feed::with_journal(symbols, journal_messages);
        self.recorder = Some(Recorder::start(&self.feed.market, &self.path).unwrap());
    }

    /// Waits until all messages are in the file.
    pub(super) fn settle(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.finish().unwrap();
        }
    }

    /// Returns the records of a session at the end of its replay.
    pub(super) fn replay(&self, lines: &[&str]) -> Vec<Vec<u8>> {
        self.replayed(lines).1
    }

    /// Returns a session at the end of its replay, and its records.
    pub(super) fn replayed(&self, lines: &[&str]) -> (Stream, Vec<Vec<u8>>) {
        let mut stream = self.feed.session(lines);
        let mut records = stream.records(&self.feed.market);
        while !stream.is_complete {
            std::thread::sleep(Duration::from_millis(1));
            records.extend(stream.records(&self.feed.market));
        }
        (stream, records)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sends quotes and trades of two symbols, the second one later at a second venue too. Some are
/// late. The first one has the number `first`.
fn send_all(feed: &mut Feed, (first, count): (u64, u64), seed: u64) {
    let mut random = seed;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005) + 1;
        (random >> 33) % below
    };
    for number in first..first + count {
        let late_ns = if next(9) == 0 { next(3 * SECOND) } else { 0 };
        let time_ns = T + number * SECOND / 5 - late_ns.min(number * SECOND / 5);
        let symbol = next(2) as u32;
        let is_second = symbol == 1 && number > first + count / 2 && next(2) == 0;
        let (source, price) = (if is_second { 9 } else { 2 }, 50 + next(40) as i64);
        match next(3) {
            0 => feed.trade(symbol, source, time_ns, price),
            _ => feed.quote_of(symbol, source, time_ns, price, 1),
        }
    }
}

/// Returns those records of an interval, by its end, each without its times of sending and of the
/// interval, in order: instrument, publisher, time, price, bid.
pub(super) fn seen_in(records: &[Vec<u8>], end_ns: u64) -> Vec<(u32, u16, u64, i64, i64)> {
    let all = records.iter().map(|record| seen(record));
    let of_interval = all.filter(|one| one.2 == end_ns);
    let mut told: Vec<_> = of_interval
        .map(|one| (one.0, one.1, one.3, one.4, one.5))
        .collect();
    told.sort_unstable();
    told
}

/// Returns a record without its time of sending: instrument, publisher, times, price, bid.
pub(super) fn seen(record: &[u8]) -> (u32, u16, u64, u64, i64, i64) {
    let id = id_of(record);
    match RecordRef::new(record).unwrap().decode() {
        Record::Mbp1(mbp) => {
            let event = mbp.event;
            (
                id,
                event.header.publisher_id,
                event.header.ts_event,
                event.header.ts_event,
                event.price,
                mbp.top.bid,
            )
        }
        Record::Bbo(bbo) => (
            id,
            bbo.header.publisher_id,
            bbo.ts_recv,
            bbo.header.ts_event,
            number(record, 16) as i64,
            bbo.top.bid,
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn with_a_start_prices_last_trades_and_publishers_are_those_of_a_replay_of_everything() {
    const LARGE: usize = 1 << 18;
    let cases = [
        (LARGE, false, 1),
        (LARGE, true, 2),
        (64, true, 1),
        (64, true, 2),
    ];
    for (seed, (journal_messages, records, runs)) in (1..).zip(cases) {
        let mut hub = Hub::new("all", journal_messages, records);
        let count = 300 / runs;
        send_all(&mut hub.feed, (0, count), seed);
        if runs == 2 {
            hub.restart(journal_messages);
            send_all(&mut hub.feed, (count, count), seed);
        }
        hub.settle();
        for (schema, symbols) in [
            ("tbbo", "ALL_SYMBOLS"),
            ("mbp-1", "ALL_SYMBOLS"),
            ("mbp-1", "A,B"),
            ("bbo-1s", "ALL_SYMBOLS"),
            ("bbo-1s", "B"),
            ("bbo-1s", "B@XNAS"),
        ] {
            let line = |start| format!("schema={schema}|symbols={symbols}|start={start}");
            let all = hub.replay(&[&line(0)]);
            let all: Vec<_> = all.iter().map(|record| seen(record)).collect();
            assert!(all.len() > 5, "{schema} {symbols} {all:?}");
            for second in [1, 13, 29, 31, 47] {
                let start = T + second * SECOND;
                let told = hub.replay(&[&line(start + 1)]);
                let told: Vec<_> = told.iter().map(|record| seen(record)).collect();
                // An interval is of the start if it has begun before it.
                let is_interval = schema.starts_with("bbo");
                let from_ns = if is_interval { start + SECOND } else { start };
                let after = |all: &[(u32, u16, u64, u64, i64, i64)]| {
                    let mut all = all.to_vec();
                    all.retain(|one| one.2 > from_ns);
                    all
                };
                let place = (
                    schema,
                    symbols,
                    second,
                    seed,
                    journal_messages,
                    records,
                    runs,
                );
                assert_eq!(after(&told), after(&all), "{place:?}");
                let begin = told.iter().filter(|one| one.2 <= from_ns);
                for one in begin {
                    assert!(all.contains(one), "{place:?}: {one:?}");
                }
            }
        }
    }
}

/// The trade of before the start was in no interval, and the publisher that of the dataset.
#[test]
fn an_interval_has_the_last_trade_of_before_the_start_and_the_publisher_of_its_quote() {
    for records in [false, true] {
        let mut hub = Hub::new("last", 1 << 18, records);
        hub.feed.trade(0, 9, T, 7);
        hub.feed.quote_of(0, 9, T + 5 * SECOND, 10, 1);
        hub.feed.quote_of(1, 9, T + 5 * SECOND, 20, 1);
        hub.feed.quote_of(1, 9, T + 6 * SECOND, 21, 1);
        hub.settle();
        let start = T + SECOND;
        let line = format!("schema=bbo-1s|symbols=ALL_SYMBOLS|start={start}");
        let told = hub.replay(&[&line]);
        let mut told: Vec<_> = told.iter().map(|record| seen(record)).collect();
        told.sort_unstable();
        let (a, b) = (hub.feed.id("A"), hub.feed.id("B"));
        let end = T + 6 * SECOND;
        let none = i64::MAX;
        assert_eq!(
            told,
            [
                (a, 9, end, T, 7, 10),
                (b, 9, end, UNDEFINED_TIME, none, 20),
                (b, 9, end + SECOND, UNDEFINED_TIME, none, 21),
            ]
        );
    }
}

/// A late quote was left out, so the prices of a trade depended on the start.
#[test]
fn a_late_quote_behind_the_start_counts_for_the_trades_after_it() {
    for records in [false, true] {
        let mut hub = Hub::new("late", 1 << 18, records);
        hub.feed.quote(0, T, 10, 1);
        hub.feed.quote(0, T + 5 * SECOND, 11, 1);
        hub.feed.quote(0, T + 4 * SECOND, 12, 1);
        hub.feed.trade(0, 2, T + 4 * SECOND, 6);
        hub.feed.trade(0, 2, T + 6 * SECOND, 7);
        hub.settle();
        let line = format!("schema=tbbo|symbols=A|start={}", T + 5 * SECOND);
        let told = hub.replay(&[&line]);
        let told: Vec<_> = told.iter().map(|record| shape(record)).collect();
        let id = hub.feed.id("A");
        assert_eq!(told, [(id, T + 6 * SECOND, 7, Some(12))], "{records}");
    }
}

/// The whole value that a source sends at its begin has no trade.
#[test]
fn a_value_without_a_last_trade_leaves_the_one_that_was() {
    let mut feed = Feed::new(&["A"]);
    feed.trade(0, 2, T, 7);
    feed.send(Message::LastValue(LastValue {
        source: 2,
        source_time_ns: T + SECOND,
        bid: 10,
        ..LastValue::new(0)
    }));
    feed.send(Message::LastValue(LastValue {
        source: 2,
        source_time_ns: T + 2 * SECOND,
        bid: 10,
        last: 8,
        last_size: 1,
        ..LastValue::new(0)
    }));
    feed.quote(0, T + 3 * SECOND, 11, 1);
    feed.quote(0, T + 4 * SECOND, 12, 1);
    let told = feed.records(&["schema=bbo-1s|symbols=A|start=0"]);
    let last: Vec<_> = told.iter().map(|record| seen(record)).collect();
    let last: Vec<_> = last.iter().map(|one| (one.3, one.4)).collect();
    let expected = [(T, 7), (T, 7), (UNDEFINED_TIME, 8), (UNDEFINED_TIME, 8)];
    assert_eq!(last, expected);
}

#[test]
fn without_a_recording_what_has_not_changed_within_the_journal_is_known_at_its_begin() {
    let mut hub = Hub::new("kept", 64, false);
    hub.feed.quote(0, T, 10, 1);
    hub.feed.trade(0, 2, T, 7);
    hub.feed.trade(1, 2, T, 8);
    for number in 0..200 {
        hub.feed.quote(1, T + SECOND, 20 + number % 2, 1);
    }
    hub.feed.trade(0, 2, T + 2 * SECOND, 9);
    hub.feed.quote(0, T + 3 * SECOND, 11, 1);
    // The quote of A has not changed before its trade, but A has changed since.
    let told = hub.replay(&["schema=bbo-1s|symbols=A,B|start=0"]);
    let told: Vec<_> = told.iter().map(|record| seen(record)).collect();
    let (a, b) = (hub.feed.id("A"), hub.feed.id("B"));
    let expected = [
        (b, 2, T + 2 * SECOND, T, 8, 21),
        (a, 2, T + 3 * SECOND, T + 2 * SECOND, 9, i64::MAX),
        (a, 2, T + 4 * SECOND, T + 2 * SECOND, 9, 11),
    ];
    assert_eq!(told, expected);
    let mut hub = Hub::new("quiet", 64, false);
    hub.feed.quote(0, T, 10, 1);
    for _ in 0..200 {
        hub.feed.trade(1, 2, T + SECOND, 5);
    }
    let mut stream = hub.feed.session(&["schema=tbbo|symbols=A|start=0"]);
    stream.records(&hub.feed.market);
    hub.feed.trade(0, 2, T + 2 * SECOND, 9);
    let told = stream.records(&hub.feed.market);
    assert_eq!(
        shape(&told[0]),
        (hub.feed.id("A"), T + 2 * SECOND, 9, Some(10))
    );
}

fn definitions(records: &[Vec<u8>]) -> Vec<u64> {
    let all = records.iter().filter(|record| record[1] == 0x13);
    all.map(|record| number(record, 8)).collect()
}

/// At the start came nothing where the replay has a newer one, and twice the same where two
/// subscriptions name the symbol.
#[test]
fn a_replay_begins_with_the_definition_of_its_start() {
    for (journal_messages, records) in [(1 << 18, false), (1 << 18, true), (64, true)] {
        let mut hub = Hub::new("defined", journal_messages, records);
        for second in [0, 1, 6] {
            hub.feed.define(0, "ESH4", T + second * SECOND);
            hub.feed.trade(0, 2, T + (second + 1) * SECOND, 5);
        }
        for _ in 0..100 {
            hub.feed.quote(1, T + 8 * SECOND, 20, 1);
        }
        hub.settle();
        let times = |start: u64| {
            let one = format!("schema=definition|symbols=A|start={start}");
            let other = format!("schema=trades|symbols=A|start={start}");
            definitions(&hub.replay(&[&one, &other]))
        };
        let second = |number: u64| T + number * SECOND;
        let place = (journal_messages, records);
        assert_eq!(times(0), [T, second(1), second(6)], "{place:?}");
        assert_eq!(times(second(4)), [second(1), second(6)], "{place:?}");
        assert_eq!(times(second(9)), [second(6)], "{place:?}");
        // It precedes what follows the start.
        let start = second(3);
        let one = format!("schema=definition|symbols=A|start={start}");
        let other = format!("schema=mbp-1|symbols=A,B|start={start}");
        let told = hub.replay(&[&one, &other]);
        let kinds: Vec<u8> = told.iter().take(3).map(|record| record[1]).collect();
        assert_eq!(kinds, [0x13, 0x13, 0x01], "{place:?}");
    }
}

#[test]
fn a_definition_that_is_sent_again_without_its_record_is_not_told_again() {
    let mut feed = Feed::new(&["A", "B"]);
    feed.define(0, "A", T);
    let mut live = feed.session(&["schema=definition|symbols=A,B"]);
    assert_eq!(live.records(&feed.market).len(), 2);
    let again = |feed: &mut Feed, price_tick: i64| {
        let mut batch = feed.ingest.begin(1);
        for (number, name) in ["A", "B"].into_iter().enumerate() {
            let definition = Definition {
                price_tick,
                ..Definition::new(number as u32, Name::new(name).unwrap())
            };
            batch.definition(1, &definition);
        }
        batch.finish();
    };
    again(&mut feed, 0);
    assert_eq!(live.records(&feed.market), Vec::<Vec<u8>>::new());
    again(&mut feed, 5);
    let ids: Vec<u32> = live
        .records(&feed.market)
        .iter()
        .map(|one| id_of(one))
        .collect();
    assert_eq!(ids, [feed.id("B")], "the hub made the definition");
    feed.define(0, "A", T + SECOND);
    assert_eq!(definitions(&live.records(&feed.market)), [T + SECOND]);
}

#[test]
fn the_snapshot_of_a_symbol_that_two_subscriptions_name_comes_once() {
    let mut feed = Feed::new(&["A"]);
    feed.quote(0, T, 10, 1);
    feed.trade(0, 2, T, 7);
    let lines = ["trades", "mbp-1"].map(|schema| format!("schema={schema}|symbols=A|snapshot=1"));
    let told = feed.records(&[&lines[0], &lines[1]]);
    let kinds: Vec<u8> = told.iter().map(|record| record[1]).collect();
    assert_eq!(kinds, [0x01, 0x00]);
}

#[test]
fn a_book_that_a_new_session_ends_has_the_time_of_its_last_event() {
    let mut feed = Feed::new(&["A"]);
    let mut live = feed.session(&["schema=mbp-10|symbols=A"]);
    live.records(&feed.market);
    feed.level(2, Level::CLEAR, 0, 0);
    feed.level(2, Level::SET, 5, 1);
    live.records(&feed.market);
    feed.ingest = Ingest::new(feed.market.clone(), 2, "test");
    feed.ingest.name_venue(2, "XNAS");
    let mut batch = feed.ingest.begin(1);
    batch.definition(1, &Definition::new(0, Name::new("A").unwrap()));
    batch.finish();
    feed.trade(0, 2, T + SECOND, 6);
    let told = live.records(&feed.market);
    let clear = told.iter().find(|record| record[28] == b'R').unwrap();
    assert_eq!(number(clear, 8), T);
}

/// A trade came twice: as one of the venue, and as one of all venues.
#[test]
fn a_symbol_that_had_a_second_venue_before_a_restart_has_each_trade_once() {
    let mut hub = Hub::new("restart", 1 << 18, true);
    for (source, price) in [(2, 50), (9, 60), (2, 51), (9, 61)] {
        hub.feed.trade(0, source, T, price);
    }
    hub.restart(1 << 18);
    hub.feed.trade(0, 2, T + SECOND, 52);
    hub.settle();
    let prices = |symbols: &str, start: u64| {
        let line = format!("schema=trades|symbols={symbols}|start={start}");
        let told = hub.replay(&[&line]);
        let prices = told.iter().map(|record| number(record, 16));
        prices.collect::<Vec<_>>()
    };
    assert_eq!(prices("A", 0), [50, 60, 51, 61, 52]);
    let of_the_venue = prices("ALL_SYMBOLS", 0);
    assert_eq!(
        of_the_venue,
        [50, 51, 52],
        "the other one is not known here"
    );
    let last = |symbols: &str| {
        let line = format!("schema=bbo-1s|symbols={symbols}|start={}", T + 1);
        let told = hub.replay(&[&line]);
        told.iter()
            .map(|record| number(record, 16))
            .collect::<Vec<_>>()
    };
    assert_eq!((last("A"), last("ALL_SYMBOLS")), (vec![52], vec![52]));
}

/// The record was of an earlier run, and the gateway made a definition instead.
#[test]
fn a_definition_of_an_earlier_run_holds_at_the_start() {
    let mut hub = Hub::new("runs", 1 << 18, true);
    hub.feed.define(0, "ESH4", T);
    hub.feed.define(0, "ESH4", T + SECOND);
    hub.restart(1 << 18);
    hub.feed.trade(0, 2, T + 3 * SECOND, 5);
    hub.feed.trade(1, 2, T + 3 * SECOND, 5);
    hub.settle();
    let line = format!("schema=definition|symbols=A,B|start={}", T + 2 * SECOND);
    assert_eq!(definitions(&hub.replay(&[&line])), [T + SECOND, 0]);
}

/// The value that the first venue got again under its own name was in an interval of another
/// symbol, in which the venue had said nothing.
#[test]
fn a_second_venue_puts_the_first_one_into_no_interval() {
    for journal_messages in [64, 1 << 18] {
        let mut hub = Hub::new("second", journal_messages, true);
        hub.feed.quote_of(0, 2, T + SECOND / 2, 50, 1);
        hub.feed.quote(1, T + 10 * SECOND, 60, 1);
        hub.feed.quote_of(0, 9, T + 20 * SECOND, 51, 1);
        for second in 30..100 {
            hub.feed.quote(1, T + second * SECOND, second as i64, 1);
        }
        hub.settle();
        let told = hub.replay(&["schema=bbo-1s|symbols=ALL_SYMBOLS|start=0"]);
        let told = told.iter().map(|record| seen(record));
        let told: Vec<_> = told.map(|one| (one.0, one.2, one.5)).collect();
        let [symbol, second] = ["A", "A@XNYS"].map(|name| hub.feed.id(name));
        let b = hub.feed.id("B");
        let expected = [
            (symbol, T + SECOND, 50),
            (b, T + 11 * SECOND, 60),
            (second, T + 21 * SECOND, 51),
        ];
        assert_eq!(told[..3], expected, "{journal_messages}");
    }
}
