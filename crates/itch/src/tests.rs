//! Meaning of ITCH messages, and their effect on books.

use proptest::prelude::*;

use super::*;
use tidewire_feed::client::Sink;
use tidewire_feed::wire::{self, Definition, UNDEFINED_PRICE};
use tidewire_feed::wire::{AGGRESSOR_BUY, AGGRESSOR_SELL, CROSS, NOT_SHOWN};

/// The output that a sink received.
#[derive(Default)]
struct Seen {
    messages: Vec<(u64, wire::Message)>,
    definitions: Vec<Definition>,
}

impl Sink for Seen {
    fn message(&mut self, sequence: u64, message: &wire::Message) {
        self.messages.push((sequence, *message));
    }

    fn definition(&mut self, _: u64, definition: &Definition) {
        self.definitions.push(*definition);
    }
}

fn head(time_ns: u64) -> Head {
    Head {
        locate: 7,
        tracking: 2,
        time: DayTime::new(time_ns),
    }
}

fn add(reference: u64, side: u8, shares: u32, price: u32) -> Message {
    Message::AddOrder(AddOrder {
        head: head(5),
        reference,
        side,
        shares,
        stock: Letters::new("ZVZZT"),
        price: Price(price),
    })
}

fn apply(books: &mut Books, message: Message) -> Seen {
    let (mut seen, mut bytes) = (Seen::default(), Vec::new());
    message.encode(&mut bytes);
    books.apply(1, &bytes, &mut seen);
    seen
}

fn quote(seen: &Seen) -> (i64, u32, i64, u32) {
    match seen.messages.last() {
        Some((_, wire::Message::Quote(quote))) => {
            (quote.bid, quote.bid_size, quote.ask, quote.ask_size)
        }
        other => panic!("no quote: {other:?}"),
    }
}

fn trade(seen: &Seen) -> (i64, u32, u32) {
    match seen.messages.first() {
        Some((_, wire::Message::Trade(trade))) => (trade.price, trade.size, trade.condition),
        other => panic!("no trade: {other:?}"),
    }
}

const CENT_NANOS: i64 = 10_000_000;

#[test]
fn a_known_order_has_known_bytes() {
    let message = Message::AddAttributedOrder(AddAttributedOrder {
        head: Head {
            locate: 0x0102,
            tracking: 0x0304,
            time: DayTime::new(0x0506_0708_090a),
        },
        reference: 0x0b0c_0d0e_0f10_1112,
        side: b'S',
        shares: 0x1314_1516,
        stock: Letters::new("AAPL"),
        price: Price(0x1718_191a),
        attribution: Letters::new("NSDQ"),
    });
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let golden = b"F\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12S\
        \x13\x14\x15\x16AAPL    \x17\x18\x19\x1aNSDQ";
    assert_eq!(bytes, golden);
    assert_eq!(Message::decode(golden), Ok(message));
}

#[test]
fn every_type_has_the_length_that_nasdaq_gives_it() {
    let lengths: Vec<(u8, usize)> = Message::KINDS.iter().map(|kind| (kind.0, kind.2)).collect();
    let published = b"S\x0cR\x27H\x19Y\x14L\x1aV\x23W\x0cK\x1cJ\x23h\x15A\x24F\x28E\x1fC\x24X\x17\
        D\x13U\x23P\x2cQ\x28B\x13I\x32N\x14O\x30";
    let published: Vec<(u8, usize)> = published
        .chunks(2)
        .map(|pair| (pair[0], usize::from(pair[1])))
        .collect();
    assert_eq!(lengths, published);
}

#[test]
fn wrong_lengths_are_told_and_unknown_types_are_not_errors() {
    assert_eq!(Message::decode(b""), Err(MessageError::Empty));
    let error = MessageError::WrongLength {
        kind: b'D',
        length: 18,
        expected: 19,
    };
    assert_eq!(Message::decode(&[b'D'; 18]), Err(error));
    assert_eq!(error.to_string(), "message 'D' of 18 bytes has 19");
    assert_eq!(Message::decode(b"z12"), Ok(Message::Unknown(b'z')));
}

#[test]
fn letters_lose_their_padding_and_nothing_else() {
    assert_eq!(Letters::<8>::new("ZVZZT").as_str(), "ZVZZT");
    assert_eq!(Letters::<4>::new("LONGER").as_str(), "LONG");
    assert_eq!(Letters::from(*b"A B     ").as_str(), "A B");
    assert_eq!(Letters::from([0xff; 8]).as_str(), "");
    assert_eq!(Letters::<2>::default().as_str(), "");
}

#[test]
fn an_order_lives_through_execution_cancel_replace_and_delete() {
    let mut books = Books::new(BooksConfig {
        midnight_unix_ns: 1_000,
        ..BooksConfig::default()
    });
    let seen = apply(&mut books, add(1, b'B', 500, 10_000));
    assert_eq!(seen.definitions[0].name.as_str(), "ZVZZT");
    assert_eq!(quote(&seen), (100 * CENT_NANOS, 500, UNDEFINED_PRICE, 0));
    assert!(
        matches!(seen.messages[0], (1, wire::Message::SessionStart(start)) if start.rolls == 1)
    );
    assert!(matches!(seen.messages[1], (1, wire::Message::Quote(quote))
        if (quote.symbol, quote.source_time_ns) == (7, 1_005)));
    let seen = apply(&mut books, add(2, b'S', 300, 10_100));
    assert!(seen.definitions.is_empty());

    let executed = OrderExecuted {
        head: head(6),
        reference: 1,
        shares: 200,
        match_number: 9,
    };
    let seen = apply(&mut books, Message::OrderExecuted(executed));
    assert_eq!(trade(&seen), (100 * CENT_NANOS, 200, AGGRESSOR_SELL));
    assert_eq!(quote(&seen).1, 300);
    let cancel = OrderCancel {
        head: head(7),
        reference: 1,
        shares: 100,
    };
    assert_eq!(
        quote(&apply(&mut books, Message::OrderCancel(cancel))).1,
        200
    );
    let replace = OrderReplace {
        head: head(8),
        original: 1,
        reference: 3,
        shares: 50,
        price: Price(10_050),
    };
    let seen = apply(&mut books, Message::OrderReplace(replace));
    assert_eq!(quote(&seen), (10_050 * 100_000, 50, 101 * CENT_NANOS, 300));
    let gone = |reference| {
        Message::OrderDelete(OrderDelete {
            head: head(9),
            reference,
        })
    };
    assert!(apply(&mut books, gone(1)).messages.is_empty());
    assert_eq!(books.counters().unknown_orders, 1);
    assert_eq!(quote(&apply(&mut books, gone(3))).0, UNDEFINED_PRICE);
    let at_price = OrderExecutedAtPrice {
        head: head(10),
        reference: 2,
        shares: 300,
        match_number: 10,
        printable: b'Y',
        price: Price(10_200),
    };
    let seen = apply(&mut books, Message::OrderExecutedAtPrice(at_price));
    assert_eq!(trade(&seen), (102 * CENT_NANOS, 300, AGGRESSOR_BUY));
    assert_eq!(books.order_count(), 0);
    assert_eq!(books.counters().messages(), 8);
}

#[test]
fn what_a_cross_counts_is_not_counted_twice() {
    let mut books = Books::default();
    apply(&mut books, add(1, b'S', 300, 10_100));
    let executed = OrderExecutedAtPrice {
        head: head(10),
        reference: 1,
        shares: 300,
        match_number: 10,
        printable: b'N',
        price: Price(10_000),
    };
    let seen = apply(&mut books, Message::OrderExecutedAtPrice(executed));
    assert_eq!(quote(&seen), (UNDEFINED_PRICE, 0, UNDEFINED_PRICE, 0));
    assert_eq!((seen.messages.len(), books.counters().trades), (1, 0));
    let cross = |shares| {
        Message::CrossTrade(CrossTrade {
            head: head(11),
            shares,
            stock: Letters::new("ZVZZT"),
            price: Price(10_000),
            match_number: 10,
            cross: b'O',
        })
    };
    assert_eq!(
        trade(&apply(&mut books, cross(700))),
        (100 * CENT_NANOS, 700, CROSS)
    );
    assert!(apply(&mut books, cross(0)).messages.is_empty());
    let hidden = Message::Trade(Trade {
        head: head(12),
        reference: 0,
        side: b'B',
        shares: 5,
        stock: Letters::new("ZVZZT"),
        price: Price(10_150),
        match_number: 11,
    });
    assert_eq!(
        trade(&apply(&mut books, hidden)),
        (10_150 * 100_000, 5, NOT_SHOWN)
    );
}

#[test]
fn limits_of_orders_hold_over_all_books() {
    let mut books = Books::new(BooksConfig {
        orders_max: 2,
        ..BooksConfig::default()
    });
    for reference in 1..=4 {
        apply(&mut books, add(reference, b'B', 1, 10_000));
    }
    assert_eq!(books.counters().refused_orders, 2);
    apply(
        &mut books,
        Message::OrderDelete(OrderDelete {
            head: head(1),
            reference: 1,
        }),
    );
    assert_eq!(quote(&apply(&mut books, add(5, b'B', 3, 10_000))).1, 4);
    assert_eq!(books.counters().refused_orders, 2);
    apply(&mut books, add(6, b'?', 3, 10_000));
    assert_eq!(books.counters().senseless_orders, 1);
}

/// They changed the book, gave trades of any size, and two orders had one number.
#[test]
fn a_quantity_or_number_that_cannot_be_changes_nothing_and_is_counted() {
    let mut books = Books::default();
    apply(&mut books, add(1, b'B', 100, 10_000));
    apply(&mut books, add(2, b'S', 100, 10_100));
    apply(&mut books, add(3, b'B', 30, 10_000));
    let top = books.book(head(1).locate).unwrap().top();
    let executed = |reference, shares| {
        Message::OrderExecuted(OrderExecuted {
            head: head(4),
            reference,
            shares,
            match_number: 9,
        })
    };
    let cancel = |reference, shares| {
        Message::OrderCancel(OrderCancel {
            head: head(4),
            reference,
            shares,
        })
    };
    let replace = |original, reference, shares| {
        Message::OrderReplace(OrderReplace {
            head: head(4),
            original,
            reference,
            shares,
            price: Price(10_050),
        })
    };
    let wrong = [
        add(4, b'B', 0, 10_050),
        add(1, b'B', 10, 10_050),
        add(2, b'B', 10, 10_050),
        executed(1, 101),
        executed(3, u32::MAX),
        executed(1, 0),
        cancel(1, 101),
        cancel(1, u32::MAX),
        cancel(1, 0),
        replace(1, 4, 0),
        replace(1, 1, 50),
        replace(1, 2, 50),
        replace(1, 3, 50),
    ];
    for (number, message) in (1..).zip(wrong) {
        assert!(
            apply(&mut books, message).messages.is_empty(),
            "{message:?}"
        );
        assert_eq!(books.counters().senseless_orders, number);
        assert_eq!(books.book(head(1).locate).unwrap().top(), top);
        assert_eq!(books.order_count(), 3);
    }
    assert_eq!(books.counters().trades, 0);
    // All of it is as before.
    apply(&mut books, executed(1, 40));
    apply(&mut books, cancel(1, 60));
    apply(&mut books, replace(3, 4, 5));
    let top = books.book(head(1).locate).unwrap().top();
    assert_eq!(
        (top.bid, top.bid_size, top.bid_orders),
        (Price(10_050).nanos(), 5, 1)
    );
    assert_eq!((top.ask_size, books.order_count()), (100, 2));
    assert_eq!(books.counters().faults(), 13);
}

/// A simple book: every order in one map.
#[derive(Default)]
struct Simple(std::collections::HashMap<u64, (u16, u8, u32, u32)>);

impl Simple {
    fn apply(&mut self, message: &Message) {
        match *message {
            Message::AddOrder(m) => {
                self.add(m.reference, m.head.locate, m.side, m.shares, m.price);
            }
            Message::AddAttributedOrder(m) => {
                self.add(m.reference, m.head.locate, m.side, m.shares, m.price);
            }
            Message::OrderExecuted(m) => self.take(m.reference, m.shares),
            Message::OrderExecutedAtPrice(m) => self.take(m.reference, m.shares),
            Message::OrderCancel(m) => self.take(m.reference, m.shares),
            Message::OrderDelete(m) => drop(self.0.remove(&m.reference).unwrap()),
            Message::OrderReplace(m) => {
                let (locate, side, _, _) = self.0.remove(&m.original).unwrap();
                self.add(m.reference, locate, side, m.shares, m.price);
            }
            _ => {}
        }
    }

    fn add(&mut self, reference: u64, locate: u16, side: u8, shares: u32, price: Price) {
        let order = (locate, side, shares, price.0);
        assert_eq!(
            self.0.insert(reference, order),
            None,
            "a number comes once a day"
        );
    }

    fn take(&mut self, reference: u64, shares: u32) {
        let order = self
            .0
            .get_mut(&reference)
            .expect("the order is in the book");
        order.2 = order
            .2
            .checked_sub(shares)
            .expect("it has that many shares");
        if order.2 == 0 {
            self.0.remove(&reference);
        }
    }

    /// Returns the best price and its shares.
    fn best(&self, locate: u16, side: u8) -> Option<(u32, u64)> {
        let orders = || {
            let all = self.0.values();
            all.filter(|order| (order.0, order.1) == (locate, side))
        };
        let prices = orders().map(|order| order.3);
        let best = if side == b'B' {
            prices.max()
        } else {
            prices.min()
        }?;
        let shares = orders().filter(|order| order.3 == best);
        Some((best, shares.map(|order| u64::from(order.2)).sum()))
    }
}

#[test]
fn a_generated_day_is_whole_valid_and_followed_by_the_books() {
    let config = GeneratorConfig {
        messages: 20_000,
        symbols: 7,
        depth: 8,
        seed: 3,
    };
    let (mut simple, mut books, mut bytes) = (Simple::default(), Books::default(), Vec::new());
    let mut last_ns = 0;
    let mut seen = Seen::default();
    let day: Vec<Message> = Generator::new(config).unwrap().collect();
    assert_eq!(day.len() as u64, config.messages);
    for (number, message) in day.iter().enumerate() {
        let head = message.head().unwrap();
        assert!(head.time.ns() >= last_ns, "time goes on");
        last_ns = head.time.ns();
        bytes.clear();
        message.encode(&mut bytes);
        assert_eq!(Message::decode(&bytes), Ok(*message));
        simple.apply(message);
        books.apply(number as u64, &bytes, &mut seen);
        if head.locate == 0 {
            continue;
        }
        let (bid, ask) = (
            simple.best(head.locate, b'B'),
            simple.best(head.locate, b'S'),
        );
        if let (Some(bid), Some(ask)) = (bid, ask) {
            assert!(bid.0 < ask.0, "the book is not crossed");
        }
        let top = books.book(head.locate).unwrap().top();
        let expected = |best: Option<(u32, u64)>| match best {
            Some((price, shares)) => (Price(price).nanos(), shares as u32),
            None => (UNDEFINED_PRICE, 0),
        };
        assert_eq!((top.bid, top.bid_size), expected(bid));
        assert_eq!((top.ask, top.ask_size), expected(ask));
    }
    assert!(books.is_ended());
    let counters = books.counters();
    assert_eq!((counters.messages(), counters.malformed), (20_000, 0));
    assert_eq!((counters.unknown_orders, counters.refused_orders), (0, 0));
    for (kind, name, _) in Message::KINDS {
        let count = counters.kinds[usize::from(*kind)];
        assert_eq!(count > 0, !b"WO".contains(kind), "{name}: {count}");
    }
    let sessions = 7;
    let given = counters.quotes + counters.trades + counters.statuses + sessions;
    assert_eq!(
        (given, seen.definitions.len()),
        (seen.messages.len() as u64, 7)
    );
    let again: Vec<Message> = Generator::new(config).unwrap().collect();
    assert_eq!(day, again, "same seed, same day");
}

#[test]
fn days_that_cannot_be_are_refused() {
    let config = GeneratorConfig {
        messages: 10,
        symbols: 3,
        ..GeneratorConfig::default()
    };
    let error = Generator::new(config).unwrap_err();
    assert_eq!(error, GeneratorError::TooFewMessages(43));
    for (symbols, depth) in [(0, 1), (1, 0), (1, 5_000)] {
        let config = GeneratorConfig {
            symbols,
            depth,
            ..config
        };
        assert!(Generator::new(config).is_err());
    }
    let least = GeneratorConfig {
        messages: 43,
        ..config
    };
    assert_eq!(Generator::new(least).unwrap().count(), 43);
}

proptest! {
    #[test]
    fn whatever_is_read_is_written_as_it_was(
        kind in 0..Message::KINDS.len(),
        random in proptest::collection::vec(any::<u8>(), 50),
    ) {
        let (kind, _, length) = Message::KINDS[kind];
        let mut bytes = random[..length].to_vec();
        bytes[0] = kind;
        let message = Message::decode(&bytes).unwrap();
        prop_assert_eq!(message.kind(), kind);
        let mut written = Vec::new();
        message.encode(&mut written);
        prop_assert_eq!(written, bytes);
    }

    #[test]
    fn books_take_anything(
        messages in proptest::collection::vec(
            (0..24_usize, proptest::collection::vec(0..4_u8, 50), any::<bool>()), 1..200),
    ) {
        let mut books = Books::default();
        for (kind, mut bytes, cut) in messages {
            let (kind, _, length) = Message::KINDS.get(kind).copied().unwrap_or((b'?', "", 9));
            bytes[0] = kind;
            books.apply(1, &bytes[..length - usize::from(cut)], &mut Seen::default());
        }
    }
}
