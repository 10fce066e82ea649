//! Compares the order book with an independent, deliberately simple one, over a recorded session
//! of the E-mini S&P 500 future: every order of 25 December 2023.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use dbn::decode::{DbnDecoder, DecodeRecord};
use tidewire_dbn::book::{Book, Books, Unused};
use tidewire_dbn::{BidAsk, Kind, Reader, RecordRef, UNDEFINED_PRICE};
use tidewire_feed::wire::Tick;
use tidewire_feed::wire::Trade;

const RECORDS: u64 = 68_792;

/// Size and number of orders.
type Level = (u64, u32);

/// A book with every order in one map and every level in another, without any optimisation.
#[derive(Default)]
struct SimpleBook {
    orders: HashMap<u64, (char, i64, u32)>,
    /// Levels by side and price.
    levels: BTreeMap<(char, i64), Level>,
    last_trade: Option<(i64, u32)>,
}

impl SimpleBook {
    fn apply(&mut self, message: &dbn::MboMsg) {
        let (side, id) = (message.side as u8 as char, message.order_id);
        match message.action as u8 as char {
            'A' => assert!(self.put(id, side, message.price, message.size).is_none()),
            'M' => {
                let (old_side, price, size) = self.orders[&id];
                self.take(old_side, price, size, true);
                self.put(id, side, message.price, message.size);
            }
            'C' => {
                let (side, price, size) = self.orders[&id];
                assert!(message.size <= size, "a cancel of more than there is");
                self.take(side, price, message.size, message.size == size);
                if message.size == size {
                    self.orders.remove(&id);
                } else {
                    self.orders.insert(id, (side, price, size - message.size));
                }
            }
            'R' => *self = Self::default(),
            'T' => self.last_trade = Some((message.price, message.size)),
            'F' | 'N' => {}
            other => panic!("action {other}"),
        }
    }

    fn put(&mut self, id: u64, side: char, price: i64, size: u32) -> Option<(char, i64, u32)> {
        let level = self.levels.entry((side, price)).or_default();
        *level = (level.0 + u64::from(size), level.1 + 1);
        self.orders.insert(id, (side, price, size))
    }

    fn take(&mut self, side: char, price: i64, size: u32, gone: bool) {
        let level = self.levels.get_mut(&(side, price)).unwrap();
        *level = (level.0 - u64::from(size), level.1 - u32::from(gone));
        if level.1 == 0 {
            self.levels.remove(&(side, price));
        }
    }

    fn top(&self) -> BidAsk {
        let side = |side| self.levels.range((side, i64::MIN)..=(side, i64::MAX));
        let flat = |(&(_, price), &(size, orders)): (&(char, i64), &Level)| (price, size, orders);
        let none = (UNDEFINED_PRICE, 0, 0);
        let (bid, bid_size, bid_orders) = side('B').next_back().map_or(none, flat);
        let (ask, ask_size, ask_orders) = side('A').next().map_or(none, flat);
        BidAsk {
            bid,
            ask,
            bid_size: bid_size as u32,
            ask_size: ask_size as u32,
            bid_orders,
            ask_orders,
        }
    }
}

#[test]
fn a_whole_session_agrees_with_a_simple_book_at_every_event_end() {
    let Some(path) = session() else { return };
    let packed = std::fs::read(&path).unwrap();
    let mut reader = Reader::open(&packed[..]).unwrap();
    let mut theirs = DbnDecoder::from_zstd_file(&path).unwrap();

    let mut books = Books::default();
    books.add_metadata(reader.metadata().unwrap()).unwrap();
    let mut book = Book::default();
    let mut simple = SimpleBook::default();
    let (mut published, mut last_trade) = (BidAsk::EMPTY, None);
    let (mut event_ends, mut crossed, mut quotes, mut trades) = (0, 0, 0, 0);
    while let Some(message) = theirs.decode_record::<dbn::MboMsg>().unwrap() {
        simple.apply(message);
        let record = reader.next_record().unwrap().expect("as many records");
        let change = book.apply(&record.mbo().unwrap()).unwrap();
        quotes += u64::from(change.quote);
        trades += u64::from(change.trade);
        books.apply(&record, |tick| match tick {
            Tick::Quote(quote) => {
                published = BidAsk {
                    bid: quote.bid,
                    ask: quote.ask,
                    bid_size: quote.bid_size,
                    ask_size: quote.ask_size,
                    bid_orders: quote.bid_orders,
                    ask_orders: quote.ask_orders,
                }
            }
            Tick::Trade(Trade { price, size, .. }) => last_trade = Some((price, size)),
        });
        assert_eq!(last_trade, simple.last_trade);
        if message.flags.is_last() {
            event_ends += 1;
            let top = simple.top();
            assert_eq!(published, top, "event {event_ends}: {message:?}");
            assert_eq!(book.top(), top);
            crossed += u64::from(top.bid >= top.ask);
        }
    }
    assert!(
        reader.next_record().unwrap().is_none(),
        "no more records than theirs"
    );
    assert_eq!(book.top(), simple.top());
    assert_eq!(book.order_count(), simple.orders.len());
    let (bids, asks) = book.level_counts();
    assert_eq!(bids + asks, simple.levels.len());
    assert_eq!(books.symbol_name(0), Some("ESH4"));
    println!("{event_ends} events, {crossed} of them crossed, {quotes} quotes, {trades} trades");

    let accounting = books.accounting();
    assert_eq!((accounting.read(), accounting.used()), (RECORDS, RECORDS));
    assert_eq!(accounting.read_of(Kind::Mbo), RECORDS);
    assert_eq!(
        accounting.unused().collect::<Vec<(Kind, Unused, u64)>>(),
        []
    );
    assert_eq!((accounting.quotes, accounting.trades), (quotes, trades));
    assert_eq!(trades, 2_973);
    let times = accounting.source_times_ns().unwrap();
    assert_eq!(
        times,
        (1_703_462_400_000_000_000, 1_703_548_799_446_724_905)
    );
}

/// Covers what the recorded session lacks: changes of side, levels far from the top, clears, and
/// orders so dense that numbers and prices often collide.
#[test]
fn a_random_market_agrees_with_a_simple_book_after_every_record() {
    for seed in 1..=20 {
        let mut state: u64 = seed;
        let mut random = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut book, mut simple) = (Book::default(), SimpleBook::default());
        let width = [3, 40, 2_000][seed as usize % 3];
        for number in 0..5_000 {
            let mut message = dbn::MboMsg {
                hd: dbn::RecordHeader::new::<dbn::MboMsg>(0xA0, 1, 2, number),
                order_id: random(300),
                price: 1_000 + random(width) as i64,
                size: 1 + random(9) as u32,
                flags: dbn::FlagSet::empty().set_last(),
                side: if random(2) == 0 { b'A' } else { b'B' } as _,
                ..Default::default()
            };
            let action = match (simple.orders.contains_key(&message.order_id), random(10)) {
                (false, _) => b'A',
                (true, 0..3) => b'M',
                (true, 3..9) => b'C',
                (true, _) => [b'R', b'T', b'F', b'N'][random(40).min(3) as usize],
            };
            message.action = action as _;
            if action == b'C' {
                let (_, _, size) = simple.orders[&message.order_id];
                message.size = message.size.min(size);
            }
            simple.apply(&message);
            let record = RecordRef::new(message.as_ref()).unwrap().mbo().unwrap();
            book.apply(&record).unwrap();
            assert_eq!(
                book.top(),
                simple.top(),
                "seed {seed}, record {number}: {message:?}"
            );
            assert_eq!(book.order_count(), simple.orders.len());
            let (bids, asks) = book.level_counts();
            assert_eq!(bids + asks, simple.levels.len());
        }
    }
}

/// Returns the recorded session; `None`, and prints a line, if it is missing.
fn session() -> Option<PathBuf> {
    let folder = std::env::var_os("TIDEWIRE_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let path = folder.join("esh4-glbx-mdp3-20231225.mbo.dbn.zst");
    if !path.exists() {
        eprintln!("skipped: no recorded session at {}", path.display());
        return None;
    }
    Some(path)
}
