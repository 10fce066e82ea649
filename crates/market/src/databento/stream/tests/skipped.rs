//! Clients that fell out of the journal.

use super::*;

const ERROR: u8 = 0x15;
const MBP1: u8 = 1;
const MBP10: u8 = 10;
const SNAPSHOT: u8 = 32;

/// Returns the kind and the instrument of each record that there is now.
fn all(stream: &mut Stream, market: &Market) -> Vec<(u8, u32)> {
    let mut out = Vec::new();
    while stream.produce(market, RECEIVED, &mut out) {}
    let (mut found, mut rest) = (Vec::new(), &out[..]);
    while let Some(&length) = rest.first() {
        let (record, others) = rest.split_at(usize::from(length) * 4);
        found.push((record[1], id_of(record)));
        rest = others;
    }
    found
}

/// A client of trades alone has no current values to get, and got no mapping either.
#[test]
fn a_symbol_defined_within_skipped_messages_is_mapped_before_its_records() {
    const MAPPING: u8 = 0x16;
    for schema in ["trades", "ohlcv-1s", "mbp-1"] {
        let mut feed = Feed::with_journal(&["A"], 16);
        feed.trade(0, 2, T, 1);
        let mut stream = feed.session(&[&format!("schema={schema}|symbols=ALL_SYMBOLS")]);
        all(&mut stream, &feed.market);
        let mut batch = feed.ingest.begin(1);
        batch.definition(2, &Definition::new(1, Name::new("B").unwrap()));
        batch.finish();
        feed.trade(1, 2, T + 1, 1);
        for number in 0..64 {
            feed.trade(0, 2, T + 2 + number, 1);
        }
        let skipped = all(&mut stream, &feed.market);
        assert!(skipped.iter().any(|one| one.0 == ERROR), "{skipped:?}");
        // The first bar is not whole.
        for second in [1, 3, 5] {
            feed.trade(1, 2, T + second * SECOND, 2);
        }
        let told = [skipped, all(&mut stream, &feed.market)].concat();
        let b = feed.id("B");
        let of_b: Vec<u8> = told
            .iter()
            .filter(|one| one.1 == b)
            .map(|one| one.0)
            .collect();
        assert_eq!(of_b.first(), Some(&MAPPING), "{schema}: {of_b:?}");
        assert!(of_b.len() > 1, "{schema}: {of_b:?}");
        let mappings = of_b.iter().filter(|kind| **kind == MAPPING).count();
        assert_eq!(mappings, 1, "{schema}: {of_b:?}");
    }
}

/// Sends event `i` of a symbol: the book's best bid gets the size `i`, the quote the bid `i`, and a
/// trade has the price `i`.
fn event(feed: &mut Feed, symbol: u32, i: u64) {
    if i == 1 {
        let clear = level(symbol, T, Level::CLEAR, 0);
        feed.send(clear);
    }
    feed.send(level(symbol, T + i, Level::SET, i as u32));
    feed.quote(symbol, T + i, i as i64, 1);
    feed.trade(symbol, 2, T + i, i as i64);
}

fn level(symbol: u32, source_time_ns: u64, action: u8, size: u32) -> Message {
    Message::Level(Level {
        symbol,
        source: 2,
        source_time_ns,
        action,
        price: 5,
        size,
        side: if action == Level::CLEAR {
            0
        } else {
            Level::BID
        },
        is_last: 1,
        ..Level::default()
    })
}

/// Reads the next records, at most some tens of kilobytes. Returns whether there is more.
fn read(stream: &mut Stream, market: &Market, records: &mut Vec<Vec<u8>>) -> bool {
    let mut out = Vec::new();
    let more = stream.produce(market, RECEIVED, &mut out);
    let mut rest = &out[..];
    while let Some(&length) = rest.first() {
        let (record, others) = rest.split_at(usize::from(length) * 4);
        records.push(record.to_vec());
        rest = others;
    }
    more
}

fn read_all(stream: &mut Stream, market: &Market) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while read(stream, market, &mut records) {}
    records
}

/// A client that skips reads its outbox, after messages that it does not get.
fn skip(stream: &mut Stream, market: &Market) {
    stream.skips = true;
    stream.fall_behind();
    stream.catch_up(market);
}

/// Returns the last sequence that an error says was skipped.
fn skipped_to(record: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(&record[16..]);
    let (_, last) = text.split_once(" to ").expect("a range of sequences");
    let digits: String = last.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

fn sequence(record: &[u8]) -> u64 {
    u32::from_le_bytes(record[44..48].try_into().unwrap()).into()
}

/// Checks that prices, books and times belong together, that snapshots are of the place that the
/// newest error names, and that each symbol's stream goes on right behind. Returns the number of
/// snapshots and of trades.
fn check(records: &[Vec<u8>], mut end: u64) -> (usize, usize) {
    let (mut snapshots, mut trades) = (0, 0);
    let mut told: HashMap<(u32, u8), u64> = HashMap::new();
    for record in records {
        if record[1] == ERROR {
            end = skipped_to(record);
        }
        if !matches!(record[1], MBP1 | MBP10) {
            continue;
        }
        let key = (id_of(record), record[1]);
        let (shown, at) = match record[1] {
            MBP1 => (number(record, 48), sequence(record)),
            _ => (number(record, 64) as u32 as u64, sequence(record)),
        };
        let before = told.get(&key).copied().unwrap_or(0);
        if record[30] & SNAPSHOT != 0 {
            snapshots += 1;
            assert!(at <= end, "a snapshot of {at} behind {end}: {record:?}");
            assert_eq!(number(record, 8), T + shown, "its time: {record:?}");
            told.insert(key, end);
            continue;
        }
        assert!(at > before, "{at} is in the snapshot of {before}");
        told.insert(key, at);
        if record[28] == b'T' {
            trades += 1;
            assert_eq!(number(record, 16), shown, "a trade with other prices");
        }
    }
    (snapshots, trades)
}

/// The position was that of the end of the outbox, and the values those of the next turn: another
/// lane's messages came in between.
#[test]
fn values_and_books_after_a_skip_are_of_the_place_that_the_error_names() {
    let mut feed = Feed::new(&["A"]);
    let lines = ["mbp-1", "mbp-10"].map(|schema| format!("schema={schema}|symbols=ALL_SYMBOLS"));
    let mut stream = feed.session(&[&lines[0], &lines[1]]);
    let market = feed.market.clone();
    read_all(&mut stream, &market);
    (1..10).for_each(|i| event(&mut feed, 0, i));
    check(&read_all(&mut stream, &market), 0);
    (10..20).for_each(|i| event(&mut feed, 0, i));
    skip(&mut stream, &market);
    (20..30).for_each(|i| event(&mut feed, 0, i));
    let mut records = Vec::new();
    read(&mut stream, &market, &mut records);
    (30..40).for_each(|i| event(&mut feed, 0, i));
    records.extend(read_all(&mut stream, &market));
    assert_eq!(
        check(&records, 0),
        (2, 20),
        "a snapshot and ten trades each"
    );
    let errors = records.iter().filter(|record| record[1] == ERROR);
    assert_eq!(errors.count(), 1);
    let skipped = market.databento.skipped.load(Ordering::Relaxed);
    assert_eq!(skipped, 60, "20 events");
}

/// Where the values take several turns, those of the later ones are newer than the client's place.
#[test]
fn the_values_of_many_symbols_after_a_skip_are_each_where_their_stream_goes_on() {
    let names: Vec<String> = (0..2_000).map(|number| format!("S{number}")).collect();
    let mut feed = Feed::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let market = feed.market.clone();
    let lines = ["mbp-1", "mbp-10"].map(|schema| format!("schema={schema}|symbols=ALL_SYMBOLS"));
    let mut stream = feed.session(&[&lines[0], &lines[1]]);
    read_all(&mut stream, &market);
    (0..2_000).for_each(|symbol| event(&mut feed, symbol, 1));
    check(&read_all(&mut stream, &market), 0);
    (0..2_000).for_each(|symbol| event(&mut feed, symbol, 2));
    skip(&mut stream, &market);
    let (mut records, mut i) = (Vec::new(), 3);
    while read(&mut stream, &market, &mut records) {
        if i < 30 {
            for symbol in [0, 1_000, 1_999] {
                event(&mut feed, symbol, i);
            }
            i += 1;
        }
    }
    let (snapshots, trades) = check(&records, 0);
    assert_eq!(snapshots, 4_000);
    let errors = records.iter().filter(|record| record[1] == ERROR).count();
    assert!(errors > 2, "{errors} slices");
    let first = feed.id("S0");
    let of_first = |record: &&Vec<u8>| id_of(record) == first && record[28] == b'T';
    let of_first = records.iter().filter(of_first).count();
    assert_eq!(of_first, 2 * (i as usize - 3), "each event in two schemas");
    assert!(trades > of_first && trades < 3 * of_first, "{trades}");
}

/// A client that skips began with the first symbol again each time that it had read its outbox.
#[test]
fn a_client_that_skips_gets_the_values_of_the_last_symbol_of_a_large_board() {
    let names: Vec<String> = (0..2_000).map(|number| format!("S{number}")).collect();
    let mut feed = Feed::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let market = feed.market.clone();
    (0..2_000).for_each(|symbol| feed.quote(symbol, T + 1, 1, 1));
    let lines =
        ["definition", "mbp-1"].map(|schema| format!("schema={schema}|symbols=ALL_SYMBOLS"));
    let mut stream = feed.session(&[&lines[0], &lines[1]]);
    let mut records = Vec::new();
    for _ in 0..100 {
        read(&mut stream, &market, &mut records);
        feed.quote(0, T + 1, 1, 1);
        skip(&mut stream, &market);
    }
    let of = |kind: u8| records.iter().filter(|record| record[1] == kind).count();
    assert_eq!(of(0x13), 2_000, "definitions of the start");
    let last = feed.id("S1999");
    let values = records.iter().filter(|record| record[1] == MBP1);
    assert!(values.filter(|record| id_of(record) == last).count() > 0);
}

/// The prices were those of the client's place, the time and the sequence those of now.
#[test]
fn a_snapshot_at_the_start_is_of_one_place_and_the_stream_goes_on_behind_it() {
    let mut feed = Feed::new(&["A"]);
    let market = feed.market.clone();
    (1..10).for_each(|i| event(&mut feed, 0, i));
    let lines =
        ["mbp-1", "mbp-10", "trades"].map(|schema| format!("schema={schema}|symbols=A|snapshot=1"));
    // The source's book is asked for by another client.
    let mut other = feed.session(&["schema=mbp-10|symbols=A"]);
    read_all(&mut other, &market);
    let mut stream = feed.session(&[&lines[0], &lines[1], &lines[2]]);
    event(&mut feed, 0, 1);
    (11..20).for_each(|i| event(&mut feed, 0, i));
    let newest = market.journal.lock().next_sequence() - 1;
    let mut records = Vec::new();
    read(&mut stream, &market, &mut records);
    event(&mut feed, 0, 20);
    records.extend(read_all(&mut stream, &market));
    assert_eq!(check(&records, newest), (2, 2));
    let trades = records.iter().filter(|record| record[1] == 0);
    let trades: Vec<u64> = trades.map(|record| number(record, 16)).collect();
    assert_eq!(trades, [19, 20]);
}

/// The prices were those of the subscription, and the records those of before.
#[test]
fn a_symbol_that_a_slow_client_subscribes_to_begins_there() {
    let mut feed = Feed::new(&["A", "B"]);
    let market = feed.market.clone();
    // The source's book is asked for by another client.
    let mut other = feed.session(&["schema=mbp-10|symbols=B"]);
    read_all(&mut other, &market);
    let mut stream = feed.session(&["schema=trades|symbols=ALL_SYMBOLS"]);
    (1..10).for_each(|i| event(&mut feed, 1, i));
    for schema in ["mbp-1", "mbp-10", "tbbo"] {
        stream.ask(&market, &format!("schema={schema}|symbols=B"));
    }
    let mut records = Vec::new();
    while read(&mut stream, &market, &mut records) {}
    assert_eq!(check(&records, 0), (0, 0));
    let trades = records.iter().filter(|record| record[1] == 0);
    assert_eq!(trades.count(), 9, "of the subscription before");
    (10..20).for_each(|i| event(&mut feed, 1, i));
    assert_eq!(check(&read_all(&mut stream, &market), 0), (0, 20));
}

/// A client gets a trade of before the book that it begins with, but not with that book.
#[test]
fn a_trade_has_no_levels_of_a_later_book() {
    let mut feed = Feed::new(&["A", "ESH4", "ESM4"]);
    let market = feed.market.clone();
    feed.define(1, "ESH4", T);
    feed.define(2, "ESM4", T);
    let mut other = feed.session(&["schema=mbp-10|symbols=ALL_SYMBOLS"]);
    read_all(&mut other, &market);
    (0..3).for_each(|symbol| event(&mut feed, symbol, 1));
    let mut stream = feed.session(&["schema=mbp-10|symbols=A"]);
    (2..9).for_each(|i| event(&mut feed, 0, i));
    let records = read_all(&mut stream, &market);
    assert_eq!(check(&records, 0), (0, 1), "the newest trade has its book");
    // A roll, of which the client reads later.
    let mut rolls = feed.session(&["schema=mbp-10|stype_in=continuous|symbols=ES.c.0"]);
    read_all(&mut rolls, &market);
    let late = T + 100 * DAY;
    feed.trade(1, 2, late, 30);
    (2..9).for_each(|i| event(&mut feed, 2, i));
    let records = read_all(&mut rolls, &market);
    let second = feed.id("ESM4");
    let of_second = records.iter().filter(|record| id_of(record) == second);
    let of_second: Vec<Vec<u8>> = of_second.cloned().collect();
    assert_eq!(check(&of_second, 0), (0, 1), "{of_second:?}");
}
