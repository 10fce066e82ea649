//! The levels that a receiver gets, against the best levels of the books.

use std::collections::BTreeMap;

use super::*;
use crate::book::{BookLimits, BooksConfig};
use crate::{MboRecord, RecordHeader, action, side};

/// Sizes and orders by price.
type Side = BTreeMap<i64, (u32, u32)>;

/// What a receiver of levels knows: asks and bids by symbol.
#[derive(Default)]
struct Receiver {
    books: HashMap<u32, [Side; 2]>,
    messages: usize,
}

impl Receiver {
    fn take(&mut self, levels: &[Level]) {
        self.messages += levels.len();
        for (number, level) in levels.iter().enumerate() {
            let is_last = number + 1 == levels.len();
            assert_eq!(level.is_last, u8::from(is_last), "one event");
            if level.action == Level::CLEAR {
                self.books.insert(level.symbol, Default::default());
                continue;
            }
            let sides = self.books.get_mut(&level.symbol);
            let sides = sides.expect("a book begins with a clear");
            let side = &mut sides[usize::from(level.side == Level::BID)];
            let before = match level.size {
                0 => side.remove(&level.price),
                _ => side.insert(level.price, (level.size, level.orders)),
            };
            let after = side.get(&level.price).copied();
            assert_ne!(before, after, "each message changes something");
        }
    }
}

fn order(action: u8, side: u8, order_id: u64, price: i64, size: u32) -> MboRecord {
    MboRecord {
        header: RecordHeader {
            rtype: 0xA0,
            publisher_id: 1,
            instrument_id: 42,
            ts_event: 1_000,
        },
        order_id,
        price,
        size,
        flags: flag::LAST,
        action,
        side,
        ts_recv: 5_000,
        ..Default::default()
    }
}

/// Applies an order and returns what changes among the best levels.
fn levels<'a>(books: &mut Books, depth: &'a mut Depth, order: &MboRecord) -> &'a [Level] {
    let bytes = crate::book::tests::bytes(order);
    let record = RecordRef::new(&bytes).expect("a whole record");
    books.apply(&record, |_| {});
    depth.after(&record, books)
}

#[test]
fn random_orders_give_the_best_levels_of_their_book() {
    for (levels_max, prices) in [(1, 8), (3, 8), (10, 40), (70, 300)] {
        let mut books = Books::new(BooksConfig {
            book: BookLimits {
                orders_max: 1_000,
                levels_max: 200,
            },
            ..Default::default()
        });
        let mut depth = Depth::new(levels_max);
        let mut receiver = Receiver::default();
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..20_000 {
            let action = match draw(1_000) {
                0 => action::CLEAR,
                1..500 => action::ADD,
                500..800 => action::CANCEL,
                _ => action::MODIFY,
            };
            let side = [side::BID, side::ASK][draw(2) as usize];
            let price = draw(prices) as i64;
            let mut order = order(action, side, draw(400), price, 1 + draw(3) as u32);
            order.flags = match draw(100) {
                0..40 => 0,
                40..98 => flag::LAST,
                _ => flag::LAST | flag::TOP_OF_BOOK,
            };
            receiver.take(levels(&mut books, &mut depth, &order));
            if order.flags & flag::LAST == 0 {
                continue;
            }
            let book = books.book(1, 42).expect("a book");
            let known = &receiver.books[&0];
            for is_bid in [true, false] {
                let best = book.levels(is_bid).take(levels_max.into());
                let best = best.map(|level| (level.price, (level.size as u32, level.orders)));
                assert!(
                    known[usize::from(is_bid)].clone().into_iter().eq({
                        let mut best = Vec::from_iter(best);
                        best.sort_unstable();
                        best
                    }),
                    "{levels_max} levels"
                );
            }
        }
    }
}

#[test]
fn an_event_costs_what_it_changes_and_not_the_depth() {
    let (mut books, mut depth) = (Books::default(), Depth::new(u16::MAX));
    let mut receiver = Receiver::default();
    for number in 0..5_000 {
        let add = order(action::ADD, side::BID, number, 1_000 + number as i64, 1);
        receiver.take(levels(&mut books, &mut depth, &add));
    }
    assert_eq!(receiver.messages, 5_001);
    assert!(depth.places.capacity() < 16 && depth.changes.capacity() < 16);
    let cancel = order(action::CANCEL, side::BID, 2_500, 0, 1);
    assert_eq!(levels(&mut books, &mut depth, &cancel).len(), 1);
}

#[test]
fn a_level_that_comes_into_sight_is_told_and_one_that_leaves_it_too() {
    let (mut books, mut depth) = (Books::default(), Depth::new(2));
    let mut say = |action, order_id, price| {
        let order = order(action, side::ASK, order_id, price, 5);
        let levels = levels(&mut books, &mut depth, &order);
        let parts = levels
            .iter()
            .map(|level| (level.action, level.price, level.size));
        Vec::from_iter(parts)
    };
    let (set, clear) = (Level::SET, Level::CLEAR);
    assert_eq!(say(action::ADD, 1, 101), [(clear, 0, 0), (set, 101, 5)]);
    assert_eq!(say(action::ADD, 2, 102), [(set, 102, 5)]);
    assert_eq!(say(action::ADD, 3, 103), []);
    assert_eq!(say(action::ADD, 4, 100), [(set, 102, 0), (set, 100, 5)]);
    assert_eq!(say(action::CANCEL, 1, 101), [(set, 101, 0), (set, 102, 5)]);
    assert_eq!(say(action::MODIFY, 4, 104), [(set, 100, 0), (set, 103, 5)]);
}
