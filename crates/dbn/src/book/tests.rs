//! The rules of the order book, one test per rule.

use tidewire_feed::wire::{AGGRESSOR_SELL, Tick};

use super::*;
use crate::{RecordHeader, RecordRef};

const LAST: u8 = flag::LAST;

fn record(action: u8, side: u8, order_id: u64, price: i64, size: u32, flags: u8) -> MboRecord {
    MboRecord {
        header: RecordHeader {
            rtype: 0xA0,
            publisher_id: 1,
            instrument_id: 17_077,
            ts_event: 1_000 + order_id,
        },
        order_id,
        price,
        size,
        flags,
        action,
        side,
        ts_recv: 5_000,
        ..Default::default()
    }
}

fn apply(book: &mut Book, action: u8, side: u8, order_id: u64, price: i64, size: u32) -> Change {
    book.apply(&record(action, side, order_id, price, size, LAST))
        .unwrap()
}

const QUOTE: Change = Change {
    trade: false,
    quote: true,
};
const NOTHING: Change = Change {
    trade: false,
    quote: false,
};

#[test]
fn orders_of_one_price_add_up_and_cancels_take_parts() {
    let mut book = Book::default();
    assert_eq!(apply(&mut book, b'A', b'B', 1, 100, 5), QUOTE);
    assert_eq!(apply(&mut book, b'A', b'B', 2, 100, 7), QUOTE);
    assert_eq!(apply(&mut book, b'A', b'B', 3, 99, 1), NOTHING);
    assert_eq!(apply(&mut book, b'A', b'A', 4, 101, 2), QUOTE);
    let top = book.top();
    assert_eq!((top.bid, top.bid_size, top.bid_orders), (100, 12, 2));
    assert_eq!((top.ask, top.ask_size, top.ask_orders), (101, 2, 1));
    assert_eq!(apply(&mut book, b'C', b'B', 1, 100, 3), QUOTE);
    assert_eq!((book.top().bid_size, book.top().bid_orders), (9, 2));
    apply(&mut book, b'C', b'B', 1, 100, 2);
    apply(&mut book, b'C', b'B', 2, 100, 99);
    assert_eq!(
        book.top().bid,
        99,
        "a cancel of more than is there takes all"
    );
    assert_eq!((book.order_count(), book.level_counts()), (2, (1, 1)));
}

#[test]
fn modify_moves_an_order_and_adds_an_unknown_one() {
    let mut book = Book::default();
    apply(&mut book, b'M', b'A', 1, 105, 4);
    assert_eq!((book.top().ask, book.top().ask_size), (105, 4));
    apply(&mut book, b'M', b'A', 1, 105, 9);
    assert_eq!((book.top().ask, book.top().ask_size), (105, 9));
    apply(&mut book, b'M', b'A', 1, 103, 6);
    assert_eq!((book.top().ask, book.top().ask_size), (103, 6));
    apply(&mut book, b'M', b'B', 1, 90, 6);
    assert_eq!((book.top().ask, book.top().bid), (UNDEFINED_PRICE, 90));
    assert_eq!((book.order_count(), book.level_counts()), (1, (1, 0)));
}

#[test]
fn trades_and_fills_leave_the_book_to_the_cancel_that_follows() {
    let mut book = Book::default();
    apply(&mut book, b'A', b'B', 1, 100, 5);
    let trade = Change {
        trade: true,
        quote: false,
    };
    let apply_part = |book: &mut Book, action| book.apply(&record(action, b'B', 1, 100, 5, 0));
    assert_eq!(apply_part(&mut book, b'T'), Ok(trade));
    assert_eq!(apply_part(&mut book, b'F'), Ok(NOTHING));
    assert_eq!(apply_part(&mut book, b'N'), Ok(NOTHING));
    assert_eq!(book.top().bid_size, 5);
    assert_eq!(apply(&mut book, b'C', b'B', 1, 100, 5), QUOTE);
    assert_eq!(book.top(), BidAsk::EMPTY);
}

#[test]
fn nothing_shows_before_the_end_of_an_event() {
    let mut book = Book::default();
    assert_eq!(book.apply(&record(b'A', b'B', 1, 100, 5, 0)), Ok(NOTHING));
    assert_eq!(
        book.apply(&record(b'A', b'A', 2, 99, 5, 0)),
        Ok(NOTHING),
        "crossed inside"
    );
    assert_eq!(book.apply(&record(b'C', b'B', 1, 100, 5, LAST)), Ok(QUOTE));
    assert_eq!(apply(&mut book, b'N', b'N', 0, UNDEFINED_PRICE, 0), NOTHING);
    // An event that ends with the top it began with publishes nothing.
    book.apply(&record(b'A', b'A', 3, 98, 5, 0)).unwrap();
    assert_eq!(apply(&mut book, b'C', b'A', 3, 98, 5), NOTHING);
}

#[test]
fn clear_empties_the_book_and_its_suspicion() {
    let mut book = Book::default();
    book.apply(&record(b'A', b'B', 1, 100, 5, LAST | flag::MAYBE_BAD_BOOK))
        .unwrap();
    assert!(book.is_suspect());
    assert_eq!(apply(&mut book, b'R', b'N', 0, UNDEFINED_PRICE, 0), QUOTE);
    assert!(!book.is_suspect());
    assert_eq!((book.top(), book.order_count()), (BidAsk::EMPTY, 0));
    assert_eq!(
        book.apply(&record(b'C', b'B', 1, 100, 5, LAST)),
        Err(BookError::UnknownOrder)
    );
}

#[test]
fn a_top_of_book_record_replaces_its_side() {
    let mut book = Book::default();
    apply(&mut book, b'A', b'B', 1, 100, 5);
    apply(&mut book, b'A', b'A', 2, 101, 5);
    let top_of_book = LAST | flag::TOP_OF_BOOK;
    let applied = book.apply(&record(b'A', b'B', 0, 97, 40, top_of_book));
    assert_eq!(applied, Ok(QUOTE));
    let top = book.top();
    assert_eq!(
        (top.bid, top.bid_size, top.bid_orders),
        (97, 40, 0),
        "not an order"
    );
    assert_eq!((top.ask, book.order_count()), (101, 1));
    book.apply(&record(b'A', b'B', 0, UNDEFINED_PRICE, 0, top_of_book))
        .unwrap();
    assert_eq!(book.top().bid, UNDEFINED_PRICE);
}

#[test]
fn the_same_number_twice_keeps_the_newer_order() {
    let mut book = Book::default();
    apply(&mut book, b'A', b'B', 1, 100, 5);
    apply(&mut book, b'A', b'A', 1, 101, 6);
    assert_eq!((book.top().bid, book.top().ask_size), (UNDEFINED_PRICE, 6));
    assert_eq!(book.order_count(), 1);
}

#[test]
fn limits_refuse_and_leave_the_book_whole() {
    let mut book = Book::new(BookLimits {
        orders_max: 3,
        levels_max: 2,
    });
    apply(&mut book, b'A', b'B', 1, 100, 1);
    apply(&mut book, b'A', b'B', 2, 99, 1);
    let add = |book: &mut Book, order_id, price| {
        book.apply(&record(b'A', b'B', order_id, price, 1, LAST))
    };
    assert_eq!(add(&mut book, 3, 98), Err(BookError::LevelsFull));
    let moved = book.apply(&record(b'M', b'B', 1, 98, 1, LAST));
    assert_eq!(moved, Err(BookError::LevelsFull));
    assert_eq!(add(&mut book, 3, 99), Ok(NOTHING));
    assert_eq!(add(&mut book, 4, 99), Err(BookError::OrdersFull));
    assert_eq!(
        add(&mut book, 1, 99),
        Ok(QUOTE),
        "its number is in the book"
    );
    let top = book.top();
    assert_eq!((top.bid, top.bid_size, top.bid_orders), (99, 3, 3));
    assert_eq!(book.level_counts(), (1, 0));
}

#[test]
fn records_that_make_no_sense_are_told_apart() {
    let mut book = Book::default();
    let mut error = |action, side, price| {
        book.apply(&record(action, side, 1, price, 1, LAST))
            .unwrap_err()
    };
    assert_eq!(error(b'A', b'N', 100), BookError::NoSide);
    assert_eq!(error(b'A', b'B', UNDEFINED_PRICE), BookError::NoPrice);
    assert_eq!(error(b'A', b'A', i64::MIN), BookError::NoPrice);
    assert_eq!(error(b'M', b'?', 100), BookError::NoSide);
    assert_eq!(error(b'?', b'B', 100), BookError::UnknownAction);
    assert_eq!(error(b'C', b'B', 100), BookError::UnknownOrder);
    assert_eq!(book.top(), BidAsk::EMPTY);
}

/// Encodes an order event as on the wire.
pub(super) fn bytes(record: &MboRecord) -> [u8; 56] {
    let mut bytes = [0; 56];
    bytes[0] = 14;
    bytes[1] = record.header.rtype;
    bytes[2..4].copy_from_slice(&record.header.publisher_id.to_le_bytes());
    bytes[4..8].copy_from_slice(&record.header.instrument_id.to_le_bytes());
    bytes[8..16].copy_from_slice(&record.header.ts_event.to_le_bytes());
    bytes[16..24].copy_from_slice(&record.order_id.to_le_bytes());
    bytes[24..32].copy_from_slice(&record.price.to_le_bytes());
    bytes[32..36].copy_from_slice(&record.size.to_le_bytes());
    bytes[36] = record.flags;
    bytes[38] = record.action;
    bytes[39] = record.side;
    bytes[40..48].copy_from_slice(&record.ts_recv.to_le_bytes());
    bytes
}

fn publish(books: &mut Books, record: &MboRecord) -> Vec<Tick> {
    let mut ticks = Vec::new();
    let bytes = bytes(record);
    books.apply(&RecordRef::new(&bytes).unwrap(), |tick| ticks.push(tick));
    ticks
}

#[test]
fn books_publish_quotes_at_event_ends_and_trades_at_once() {
    let mut books = Books::new(BooksConfig {
        symbol_first: 7,
        ..Default::default()
    });
    assert_eq!(publish(&mut books, &record(b'A', b'B', 1, 100, 5, 0)), []);
    let [Tick::Quote(quote)] = publish(&mut books, &record(b'A', b'A', 2, 101, 6, LAST))[..] else {
        panic!("no quote");
    };
    assert_eq!(
        (quote.symbol, quote.source, quote.source_time_ns),
        (7, 1, 1_002)
    );
    assert_eq!((quote.bid, quote.ask, quote.ask_size), (100, 101, 6));
    let [Tick::Trade(trade)] = publish(&mut books, &record(b'T', b'A', 0, 100, 2, 0))[..] else {
        panic!("no trade");
    };
    assert_eq!(
        (trade.price, trade.size, trade.condition),
        (100, 2, AGGRESSOR_SELL)
    );
    assert_eq!(books.instrument_id(7), Some(17_077));
    assert_eq!(
        (books.instrument_id(6), books.instrument_id(8)),
        (None, None)
    );
}

#[test]
fn an_order_of_a_snapshot_has_the_time_of_the_snapshot() {
    let mut books = Books::default();
    let snapshot = record(b'A', b'B', 1, 100, 5, LAST | flag::SNAPSHOT);
    let [Tick::Quote(quote)] = publish(&mut books, &snapshot)[..] else {
        panic!("no quote");
    };
    assert_eq!(quote.source_time_ns, 5_000);
}

#[test]
fn everything_unused_is_counted_by_kind_and_reason() {
    let mut books = Books::new(BooksConfig {
        instruments_max: 1,
        ..Default::default()
    });
    publish(&mut books, &record(b'A', b'B', 1, 100, 5, 0));
    // The end of an event counts even if its own record cannot be used.
    let failed = record(b'C', b'B', 9, 100, 5, LAST);
    assert_eq!(publish(&mut books, &failed).len(), 1);
    publish(&mut books, &record(b'T', b'B', 9, UNDEFINED_PRICE, 5, 0));
    let mut other = record(b'A', b'B', 1, 100, 5, LAST);
    other.header.instrument_id = 2;
    publish(&mut books, &other);
    let mut unknown = [0; 16];
    (unknown[0], unknown[1]) = (4, 0x99);
    books.apply(&RecordRef::new(&unknown).unwrap(), |_| panic!("published"));
    let mut status = [0; 40];
    (status[0], status[1]) = (10, 0x12);
    books.apply(&RecordRef::new(&status).unwrap(), |_| panic!("published"));

    let accounting = books.accounting();
    let unused: Vec<_> = accounting
        .unused()
        .map(|(kind, reason, count)| (kind.name(), reason, count))
        .collect();
    assert_eq!(
        unused,
        [
            ("status", Unused::NoPrices, 1),
            ("mbo", Unused::UnknownOrder, 1),
            ("mbo", Unused::NoPrice, 1),
            ("mbo", Unused::TooManyInstruments, 1),
            ("unknown", Unused::UnknownKind, 1),
        ]
    );
    assert_eq!(accounting.unknown_types().collect::<Vec<_>>(), [(0x99, 1)]);
    assert_eq!((accounting.read(), accounting.used()), (6, 1));
    assert_eq!(accounting.published(), 1);
    assert_eq!(accounting.source_times_ns(), Some((1_001, 1_009)));
}
