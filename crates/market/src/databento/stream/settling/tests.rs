use super::*;
use crate::ingest::Ingest;
use crate::market::MarketConfig;
use std::sync::Arc;
use tidewire_dbn::databento::{Names, Request};
use tidewire_dbn::{Record, RecordRef};
use tidewire_feed::client::Sink;
use tidewire_feed::wire::{Definition, Message, Name, Quote, Trade};

/// A board of many symbols, and its source.
struct Feed {
    market: Arc<Market>,
    ingest: Ingest,
}

impl Feed {
    fn new(names: impl Iterator<Item = String>) -> Self {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = Ingest::new(market.clone(), 1, "test");
        let mut batch = ingest.begin(1);
        for (number, name) in names.enumerate() {
            let name = Name::new(&name).unwrap();
            batch.definition(1, &Definition::new(number as u32, name));
        }
        batch.finish();
        Self { market, ingest }
    }

    fn of_many() -> Self {
        Self::new((0..COUNT).map(|number| format!("S{number}")))
    }

    fn quote(&mut self, symbol: u32) {
        self.send(&Message::Quote(Quote {
            symbol,
            source: 7,
            source_time_ns: T,
            bid: 10,
            ask: 11,
            bid_size: 5,
            ask_size: 6,
            bid_orders: 7,
            ask_orders: 8,
        }));
    }

    fn trade(&mut self, symbol: u32) {
        self.send(&Message::Trade(Trade {
            symbol,
            source: 7,
            source_time_ns: T,
            price: 10,
            size: 1,
            condition: 0,
        }));
    }

    fn send(&mut self, message: &Message) {
        let mut batch = self.ingest.begin(T);
        batch.message(1, message);
        batch.finish();
    }

    fn stream(&self, lines: &[&str]) -> Stream {
        let mut stream = Stream::default();
        lines
            .iter()
            .for_each(|line| take(&mut stream, &self.market, line));
        stream
    }

    /// Returns what each further call sends, until there is no more.
    fn produce(&self, stream: &mut Stream) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut more = true;
        while more {
            let mut out = Vec::new();
            more = stream.produce(&self.market, T, &mut out);
            all.push(out);
            assert!(all.len() < 10 * COUNT, "it ends");
        }
        all
    }
}

fn take(stream: &mut Stream, market: &Market, line: &str) {
    match Request::parse(line) {
        Ok(Request::Subscribe(wanted)) => {
            stream.subscribe(market, &wanted, Names::parse(&wanted).unwrap());
        }
        Ok(Request::Unsubscribe(ended)) => {
            stream.unsubscribe(market, &ended, &Names::parse(&ended).unwrap());
        }
        other => panic!("{other:?}"),
    }
}

/// Calls `visit` with each record.
fn records(parts: &[Vec<u8>], mut visit: impl FnMut(Record<'_>)) {
    for part in parts {
        let mut rest = &part[..];
        while let Some(&words) = rest.first() {
            let (record, behind) = rest.split_at(4 * usize::from(words));
            visit(RecordRef::new(record).unwrap().decode());
            rest = behind;
        }
    }
}

fn errors(parts: &[Vec<u8>]) -> Vec<String> {
    let mut all = Vec::new();
    records(parts, |record| {
        if let Record::Error(error) = record {
            all.push(error.message.to_owned());
        }
    });
    all
}

#[test]
fn a_walk_visits_what_is_listed_and_all() {
    let mut walk = Walk::default();
    assert!(walk.is_over() && walk.next(9).is_none());
    walk.add(Concerned::Listed(vec![7, 3]));
    assert_eq!(walk.next(9), Some(3));
    // Several subscriptions name the same.
    walk.add(Concerned::Listed(vec![8, 7]));
    assert_eq!((walk.next(9), walk.next(9)), (Some(7), Some(8)));
    assert_eq!(walk.next(9), None);
    walk.add(Concerned::Listed(vec![1]));
    walk.add(Concerned::All);
    walk.add(Concerned::Listed(vec![1]));
    let visited: Vec<u32> = std::iter::from_fn(|| walk.next(2)).collect();
    assert_eq!(visited, [0, 1]);
    assert!(walk.is_over());
}

#[test]
fn a_thousand_subscriptions_to_all_symbols_cost_what_one_does() {
    let feed = Feed::new(["A".to_owned()].into_iter());
    let mut stream = feed.stream(&[ALL]);
    let lookups = stream.selection.lookups();
    for _ in 1..1_000 {
        take(&mut stream, &feed.market, ALL);
    }
    assert_eq!(
        (stream.selection.lookups(), stream.selection.len()),
        (lookups, 1_000)
    );
    take(&mut stream, &feed.market, ALL);
    assert_eq!(stream.selection.len(), 1_000, "the limit");
    // Lines that were taken back do not count.
    for name in ["A", "B", "A", "B"] {
        let line = format!("schema=mbp-1|symbols={name}");
        take(&mut stream, &feed.market, &format!("unsubscribe|{ALL}"));
        take(&mut stream, &feed.market, &line);
        assert_eq!(stream.selection.len(), 1);
        take(&mut stream, &feed.market, &format!("unsubscribe|{line}"));
        assert_eq!(stream.selection.len(), 0);
    }
}

#[test]
fn a_symbol_costs_the_same_with_one_and_with_many_parents() {
    let feed = Feed::new(["R7".to_owned()].into_iter());
    let many: Vec<String> = (1_000..9_000).map(|root| format!("R{root}.OPT")).collect();
    let line = format!("schema=trades|stype_in=parent|symbols={}", many.join(","));
    let one = feed.stream(&["schema=trades|stype_in=parent|symbols=R1000.OPT"]);
    let all = feed.stream(&[&line, &line]);
    assert_eq!(all.selection.lookups(), one.selection.lookups());
}

#[test]
fn a_large_board_is_settled_in_slices_and_each_symbol_is_mapped_once() {
    let mut feed = Feed::of_many();
    let last = COUNT as u32 - 1;
    feed.quote(last);
    let mut stream = feed.stream(&[ALL, "schema=trades|symbols=ALL_SYMBOLS"]);
    stream.begin(&feed.market, T);
    assert!(!stream.settling.walk.is_over(), "a slice is done at once");
    feed.trade(last);
    let mut slices = 0;
    while stream.settle(&feed.market) {
        slices += 1;
    }
    let per_slice = SLICE_LOOKUPS / (TOPIC_LOOKUPS + 2);
    assert_eq!(slices, (COUNT - 1) / per_slice - 1);
    let parts = feed.produce(&mut stream);
    assert!(parts.iter().all(|part| part.len() < 80 * 1024));
    let (mut mapped, mut traded) = (Vec::new(), Vec::new());
    records(&parts, |record| match record {
        Record::SymbolMapping(mapping) => mapped.push(mapping.header.instrument_id),
        Record::Mbp1(record) => {
            let id = record.event.header.instrument_id;
            traded.push((id, record.top.bid_orders, record.top.ask_orders));
        }
        _ => {}
    });
    assert_eq!(mapped, (1..=COUNT as u32).collect::<Vec<_>>());
    assert_eq!(
        traded,
        [(last + 1, 7, 8)],
        "with the quote before the client"
    );
}

#[test]
fn named_symbols_of_a_large_board_are_settled_at_once() {
    let feed = Feed::of_many();
    let mut stream = feed.stream(&["schema=mbp-1|symbols=S9,S7,none"]);
    stream.begin(&feed.market, T);
    assert!(stream.settling.walk.is_over());
    let mut mapped = Vec::new();
    records(&feed.produce(&mut stream), |record| {
        if let Record::SymbolMapping(mapping) = record {
            mapped.push(mapping.header.instrument_id);
        }
    });
    mapped.sort_unstable();
    assert_eq!(mapped, [8, 10]);
    take(&mut stream, &feed.market, "schema=mbp-1|symbols=S5");
    assert!(!stream.settle(&feed.market), "one topic");
    assert_eq!(feed.produce(&mut stream).len(), 1);
    assert!(stream.selection.of(5).schemas != 0 && stream.selection.of(6).schemas == 0);
}

#[test]
fn symbols_defined_between_a_subscription_and_its_start_are_found_and_after_a_gap_too() {
    let mut feed = Feed::new(["A".to_owned()].into_iter());
    let mut stream = feed.stream(&["schema=mbp-1|symbols=A,B,C"]);
    let define = |feed: &mut Feed, number: u32, name: &str| {
        let mut batch = feed.ingest.begin(1);
        batch.definition(1, &Definition::new(number, Name::new(name).unwrap()));
        batch.finish();
        feed.quote(number);
    };
    define(&mut feed, 1, "B");
    stream.begin(&feed.market, T);
    let ids = |parts: &[Vec<u8>]| {
        let mut ids = Vec::new();
        records(parts, |record| match record {
            Record::SymbolMapping(mapping) => ids.push(mapping.header.instrument_id),
            Record::Mbp1(record) => ids.push(100 + record.event.header.instrument_id),
            _ => {}
        });
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(&feed.produce(&mut stream)), [1, 2]);
    define(&mut feed, 2, "C");
    stream.skips = true;
    stream.fall_behind();
    stream.catch_up(&feed.market);
    assert_eq!(ids(&feed.produce(&mut stream)), [3, 102, 103], "one is new");
    assert!(stream.selection.of(2).schemas != 0);
}

#[test]
fn parents_and_continuous_symbols_without_instruments_are_named_after_the_last_slice() {
    let names = (0..COUNT).map(|number| format!("S{number}"));
    let feed = Feed::new(names.chain(["ESH4", "NQH4 C100"].map(str::to_owned)));
    let mut stream = feed.stream(&[
        "schema=trades|stype_in=parent|symbols=ES.FUT,NQ.OPT,GC.FUT",
        "schema=trades|stype_in=continuous|symbols=ES.c.0",
    ]);
    stream.begin(&feed.market, T);
    let parts = feed.produce(&mut stream);
    let text = "2 symbols are not known yet; records follow once they are: ES.c.0, GC.FUT";
    assert_eq!(errors(&parts), [text]);
    take(
        &mut stream,
        &feed.market,
        "schema=tbbo|stype_in=parent|symbols=ES.FUT",
    );
    assert!(errors(&feed.produce(&mut stream)).is_empty());
}

#[test]
fn a_snapshot_has_the_order_counts_of_the_hub() {
    let mut feed = Feed::new(["A".to_owned()].into_iter());
    feed.quote(0);
    for schema in ["mbp-1", "tbbo"] {
        let mut stream = feed.stream(&[&format!("schema={schema}|symbols=A|snapshot=1")]);
        stream.begin(&feed.market, T);
        let mut counts = Vec::new();
        records(&feed.produce(&mut stream), |record| {
            if let Record::Mbp1(record) = record {
                counts.push((record.top.bid_orders, record.top.ask_orders));
            }
        });
        assert_eq!(counts, [(7, 8)], "{schema}");
    }
}

#[test]
fn a_bar_is_not_continued_after_the_symbol_was_left_and_taken_again() {
    let mut feed = Feed::of_many();
    let line = "schema=ohlcv-1s|symbols=ALL_SYMBOLS";
    let mut stream = feed.stream(&[line]);
    stream.begin(&feed.market, T);
    feed.produce(&mut stream);
    feed.trade(9);
    feed.produce(&mut stream);
    take(&mut stream, &feed.market, &format!("unsubscribe|{line}"));
    take(&mut stream, &feed.market, line);
    feed.produce(&mut stream);
    assert!(
        !stream.bars.pass(7, u64::MAX) && stream.bars.has_closed(),
        "it goes on"
    );
    stream.bars.take_closed();
    feed.trade(9);
    feed.produce(&mut stream);
    take(&mut stream, &feed.market, &format!("unsubscribe|{line}"));
    feed.produce(&mut stream);
    assert!(!stream.bars.pass(7, u64::MAX) && !stream.bars.has_closed());
}

const ALL: &str = "schema=mbp-1|symbols=ALL_SYMBOLS";
const COUNT: usize = 10_000;
const T: u64 = 1_704_205_800_000_000_000;
