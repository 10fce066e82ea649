//! Records of a hub that follows another one, or plays its recording.

use super::starts::seen_in;
use super::*;
use tidewire_feed::wire::LastValue;

/// Gives symbols 0 to 2: `A` of one venue, with a quote and a trade, which gets a second one.
fn split_upstream(feed: &mut Feed) {
    feed.ingest.name_venue(CONSOLIDATED, "consolidated");
    feed.quote_of(0, 9, T + 1, 50, 1);
    feed.trade(0, 9, T + 2, 5);
    split_upstream_of(feed);
}

/// Gives `A` its second venue.
fn split_upstream_of(feed: &mut Feed) {
    define(feed, 1, "A@XNYS", 9);
    for (symbol, source) in [(1, 9), (0, CONSOLIDATED)] {
        feed.send(Message::LastValue(LastValue {
            source,
            source_time_ns: T + 2,
            bid: 50,
            ask: 100,
            bid_size: 1,
            ask_size: 1,
            bid_orders: 1,
            ask_orders: 1,
            last: 5,
            last_size: 1,
            volume: 1,
            ..LastValue::new(symbol)
        }));
    }
    define(feed, 2, "A@XNAS", 2);
    feed.quote_of(2, 2, T + 3, 60, 1);
    feed.quote_of(0, CONSOLIDATED, T + 3, 60, 1);
    feed.trade(1, 9, T + 4, 7);
    feed.trade(0, CONSOLIDATED, T + 4, 7);
    for second in 1..=2 {
        feed.quote_of(1, 9, T + second * SECOND, 51, 1);
    }
}

fn define(feed: &mut Feed, symbol: u32, name: &str, source: u16) {
    let mut batch = feed.ingest.begin(RECEIVED);
    let name = Name::new(name).unwrap();
    let definition = Definition {
        source,
        ..Definition::new(symbol, name)
    };
    batch.definition(1, &definition);
    batch.finish();
}

/// It came once more as one of `A`, with the prices of both venues.
#[test]
fn an_interval_in_which_a_hub_finds_a_second_venue_comes_once_behind_it() {
    let mut feed = Feed::new(&["A"]);
    split_upstream(&mut feed);
    let told = feed.records(&["schema=bbo-1s|symbols=ALL_SYMBOLS|start=0"]);
    let told = seen_in(&told, T + SECOND);
    let [first, second] = ["A@XNYS", "A@XNAS"].map(|name| feed.id(name));
    let expected = [
        (first, 9, T + 4, 7, 50),
        (second, 2, u64::MAX, i64::MAX, 60),
    ];
    assert_eq!(told, expected);
}

/// A client of the native feed that selected the only venue behind a hub gave all other clients
/// each record twice.
#[test]
fn a_topic_that_a_native_client_behind_a_hub_wants_comes_to_those_that_name_it() {
    let schemas = ["trades", "mbp-1", "ohlcv-1s", "bbo-1s"];
    let lines = |symbols: &str, start: &str| {
        schemas.map(|schema| format!("schema={schema}|symbols={symbols}{start}"))
    };
    let ids_of = |told: &[Vec<u8>]| {
        let kinds = [0, 1, 32, 33, 195, 196];
        let records = told.iter().filter(|record| kinds.contains(&record[1]));
        records.map(|record| id_of(record)).collect::<Vec<_>>()
    };
    let told = |is_wanted: bool| {
        let mut feed = Feed::new(&["A"]);
        feed.ingest.name_venue(CONSOLIDATED, "consolidated");
        feed.quote_of(0, 9, T + 1, 50, 1);
        let live = lines("ALL_SYMBOLS", "").map(|line| feed.session(&[&line]));
        if is_wanted {
            let board: &dyn tidewire_feed::server::Board = &*feed.market.board;
            assert_eq!(board.find("A@XNYS"), None);
        }
        for second in 0..3 {
            feed.quote_of(0, 9, T + second * SECOND + 2, 51, 1);
            feed.trade(0, 9, T + second * SECOND + 3, 5);
        }
        // A second venue ends it.
        split_upstream_of(&mut feed);
        let live = live.map(|mut stream| ids_of(&stream.records(&feed.market)));
        let past = lines("ALL_SYMBOLS", "|start=0").map(|line| ids_of(&feed.records(&[&line])));
        let named = lines("A@XNYS", "|start=0").map(|line| ids_of(&feed.records(&[&line])));
        (live, past, named)
    };
    let (without, with) = (told(false), told(true));
    assert_eq!((&with.0, &with.1), (&without.0, &without.1));
    let trades = [&with.0, &with.1, &with.2].map(|told| told[0].len());
    assert_eq!(trades, [4, 4, 4], "{with:?}");
}

/// The trades of before the second venue were a bar of their own.
#[test]
fn a_bar_in_which_a_hub_finds_a_second_venue_comes_once_behind_it() {
    let mut feed = Feed::new(&["A"]);
    split_upstream(&mut feed);
    let told = feed.records(&["schema=ohlcv-1s|symbols=ALL_SYMBOLS|start=0"]);
    let told: Vec<_> = told
        .iter()
        .map(|record| (id_of(record), number(record, 8), number(record, 48)))
        .collect();
    assert_eq!(told, [(feed.id("A@XNYS"), T, 2)]);
}

/// Lets a hub read the whole feed of another one.
fn read_all(from: &Feed, to: &mut Feed) {
    let journal = from.market.journal.lock();
    let mut batch = to.ingest.begin(RECEIVED);
    for sequence in 1..journal.next_sequence() {
        match journal.message(sequence).unwrap() {
            Message::Definition(definition) => batch.definition(sequence, &definition),
            Message::Venue(venue) => batch.venue(&venue),
            message => batch.message(sequence, &message),
        }
    }
    batch.finish();
}

/// At a hub that follows two hubs with several venues each, all trades of the second one came as
/// those of `A@consolidated#2`, too. So they did at hubs behind.
#[test]
fn all_symbols_have_each_trade_once_at_a_hub_that_follows_two_with_several_venues() {
    let mut feed = Feed::new(&["A", "A@XNAS", "A@XNYS"]);
    feed.ingest.name_venue(CONSOLIDATED, "consolidated");
    let mut other = Feed {
        market: feed.market.clone(),
        ingest: Ingest::new(feed.market.clone(), 2, "other"),
    };
    other.ingest.name_venue(CONSOLIDATED, "consolidated");
    other.ingest.name_venue(3, "XBOS");
    other.ingest.name_venue(4, "XPHL");
    for (symbol, (name, source)) in (0..).zip([("A", 0), ("A@XBOS", 3), ("A@XPHL", 4)]) {
        define(&mut other, symbol, name, source);
    }
    let schemas = ["trades", "tbbo", "mbp-1", "ohlcv-1s", "bbo-1s"];
    let lines =
        |start: &str| schemas.map(|schema| format!("schema={schema}|symbols=ALL_SYMBOLS{start}"));
    let mut live = lines("").map(|line| feed.session(&[&line]));
    let mut told = schemas.map(|_| Vec::new());
    for second in 0..4 {
        for (hub, venues) in [
            (&mut feed, [(1, 2), (2, 9)]),
            (&mut other, [(1, 3), (2, 4)]),
        ] {
            for (symbol, source) in venues {
                let time_ns = T + second * SECOND + u64::from(source);
                for (symbol, source) in [(symbol, source), (0, CONSOLIDATED)] {
                    hub.quote_of(symbol, source, time_ns, 50 + second as i64, 1);
                    hub.trade(symbol, source, time_ns, 60);
                }
            }
        }
        for (told, stream) in told.iter_mut().zip(&mut live) {
            told.extend(stream.records(&feed.market));
        }
    }
    let mut behind = Feed::new(&[]);
    behind.ingest.name_venue(CONSOLIDATED, "consolidated");
    read_all(&feed, &mut behind);
    let past = lines("|start=0").map(|line| feed.records(&[&line]));
    let past_behind = lines("|start=0").map(|line| behind.records(&[&line]));
    for (hub, told) in [(&feed, told), (&feed, past), (&behind, past_behind)] {
        let venues = ["A@XNAS", "A@XNYS", "A@XBOS", "A@XPHL"].map(|name| hub.id(name));
        let is_own = |record: &Vec<u8>| venues.contains(&id_of(record));
        assert!(told.iter().flatten().all(is_own), "only records of venues");
        assert_eq!((told[0].len(), told[1].len()), (4 * 4, 4 * 4));
        // Live intervals end by the clock, which stands still.
        assert!(told[..4].iter().all(|told| !told.is_empty()));
    }
    for hub in [&feed, &behind] {
        let now = hub.records(&["schema=trades|symbols=ALL_SYMBOLS|snapshot=1"]);
        assert_eq!(now.len(), 4, "one for each venue");
    }
    let named = feed.records(&["schema=trades|symbols=A@consolidated#2|start=0"]);
    assert_eq!(named.len(), 2 * 4, "to those that name it");
}
