//! Trading states from the bytes of messages.

use super::*;
use crate::BooksConfig;
use tidewire_feed::wire::Message;

/// Each status that a sink received: symbol, state, reason.
#[derive(Default)]
struct Statuses(Vec<(u32, TradingState, [u8; 4])>);

impl Sink for Statuses {
    fn message(&mut self, _: u64, message: &Message) {
        if let Message::Status(status) = message {
            let reason = status.reason.to_le_bytes();
            self.0.push((status.symbol, status.state, reason));
        }
    }
}

/// Applies a message: its type, a head of security `locate` at 09:30:00.000000001, and `body`.
fn apply(books: &mut Books, kind: u8, locate: u16, body: &[u8]) -> Statuses {
    let mut message = vec![kind];
    message.extend(locate.to_be_bytes());
    message.extend(b"\x00\x02\x1f\x1a\xce\xd9\xf0\x01");
    message.extend(body);
    let (mut statuses, malformed) = (Statuses::default(), books.counters().malformed);
    books.apply(1, &message, &mut statuses);
    assert_eq!(books.counters().malformed, malformed, "{message:?}");
    statuses
}

/// Applies a message of security 7 and returns its state and reason.
fn state(books: &mut Books, kind: u8, body: &[u8]) -> (TradingState, [u8; 4]) {
    match apply(books, kind, 7, body).0[..] {
        [(7, state, reason)] => (state, reason),
        ref other => panic!("one status of one security: {other:?}"),
    }
}

const NO_REASON: [u8; 4] = [0; 4];

#[test]
fn trading_actions_are_states_with_their_reason() {
    let mut books = Books::default();
    for (body, expected) in [
        (b"ZVZZT   H T1  ", (TradingState::HALTED, *b"T1  ")),
        (b"ZVZZT   P LUDP", (TradingState::PAUSED, *b"LUDP")),
        (b"ZVZZT   Q R4  ", (TradingState::AUCTION, *b"R4  ")),
        (b"ZVZZT   T     ", (TradingState::OPEN, NO_REASON)),
        (b"ZVZZT   ?     ", (TradingState::UNKNOWN, NO_REASON)),
    ] {
        assert_eq!(state(&mut books, b'H', body), expected);
    }
    assert_eq!(books.counters().definitions, 1);
    assert_eq!(books.counters().statuses, 5);
}

#[test]
fn a_status_has_the_time_of_its_message() {
    let mut books = Books::new(BooksConfig {
        midnight_unix_ns: 1_000,
        symbol_first: 100,
        source: 9,
        ..BooksConfig::default()
    });
    struct One(Option<TradingStatus>);
    impl Sink for One {
        fn message(&mut self, sequence: u64, message: &Message) {
            assert_eq!(sequence, 5);
            if let Message::Status(status) = message {
                self.0 = Some(*status);
            }
        }
    }
    let mut one = One(None);
    let golden = b"H\x00\x07\x00\x02\x1f\x1a\xce\xd9\xf0\x01ZVZZT   H T12 ";
    books.apply(5, golden, &mut one);
    let expected = TradingStatus {
        symbol: 107,
        source: 9,
        source_time_ns: 1_000 + (9 * 3_600 + 30 * 60) * 1_000_000_000 + 1,
        state: TradingState::HALTED,
        reason: u32::from_le_bytes(*b"T12 "),
    };
    assert_eq!(one.0, Some(expected));
}

#[test]
fn only_this_markets_operational_halt_is_a_state() {
    let mut books = Books::default();
    assert_eq!(
        state(&mut books, b'h', b"ZVZZT   QH"),
        (TradingState::HALTED, NO_REASON)
    );
    assert_eq!(
        state(&mut books, b'h', b"ZVZZT   QT"),
        (TradingState::OPEN, NO_REASON)
    );
    for other in [b"ZVZZT   BH", b"ZVZZT   XH"] {
        assert!(apply(&mut books, b'h', 7, other).0.is_empty());
    }
}

#[test]
fn the_end_of_an_operational_halt_does_not_end_a_regulatory_one() {
    let mut books = Books::default();
    state(&mut books, b'H', b"ZVZZT   H T1  ");
    state(&mut books, b'h', b"ZVZZT   QH");
    let resumed = state(&mut books, b'h', b"ZVZZT   QT");
    assert_eq!(resumed, (TradingState::HALTED, *b"T1  "));
    state(&mut books, b'h', b"ZVZZT   QH");
    let released = state(&mut books, b'H', b"ZVZZT   T     ");
    assert_eq!(released, (TradingState::HALTED, NO_REASON));
}

#[test]
fn an_operational_halt_is_shown_also_in_an_auction_a_pause_and_the_pre_open() {
    let interruptions: [(u8, &[u8], TradingState); 4] = [
        (b'H', b"ZVZZT   Q T1  ", TradingState::AUCTION),
        (b'H', b"ZVZZT   P LUDP", TradingState::PAUSED),
        (b'J', COLLAR, TradingState::AUCTION),
        (
            b'K',
            b"ZVZZT   \0\0\x85\xfcA\0\0\0\0",
            TradingState::PRE_OPEN,
        ),
    ];
    for (kind, body, expected) in interruptions {
        let mut books = Books::default();
        let halted = TradingState::HALTED;
        assert_eq!(state(&mut books, kind, body).0, expected);
        assert_eq!(state(&mut books, b'h', b"ZVZZT   QH"), (halted, NO_REASON));
        assert_eq!(state(&mut books, b'h', b"ZVZZT   QT").0, expected);
        let mut books = Books::default();
        assert_eq!(state(&mut books, b'h', b"ZVZZT   QH"), (halted, NO_REASON));
        assert_eq!(state(&mut books, kind, body).0, halted);
        assert_eq!(state(&mut books, b'h', b"ZVZZT   QT").0, expected);
    }
}

const COLLAR: &[u8] = b"ZVZZT   \0\0\x27\x10\0\0\x28\x10\0\0\x26\x10\0\0\0\0";

#[test]
fn a_collar_begins_the_auction_after_a_pause() {
    let mut books = Books::default();
    state(&mut books, b'H', b"ZVZZT   P LUDP");
    let collar = b"ZVZZT   \0\0\x27\x10\0\0\x28\x10\0\0\x26\x10\0\0\0\0";
    assert_eq!(
        state(&mut books, b'J', collar),
        (TradingState::AUCTION, *b"LUDP")
    );
}

#[test]
fn a_new_listing_accepts_orders_before_its_auction() {
    let mut books = Books::default();
    state(&mut books, b'H', b"ZVZZT   H IPO1");
    let anticipated = b"ZVZZT   \0\0\x85\xd4A\0\0\x27\x10";
    assert_eq!(
        state(&mut books, b'K', anticipated),
        (TradingState::PRE_OPEN, *b"IPO1")
    );
    let cancelled = b"ZVZZT   \0\0\0\0C\0\0\0\0";
    assert_eq!(
        state(&mut books, b'K', cancelled),
        (TradingState::HALTED, *b"IPO1")
    );
}

#[test]
fn a_short_sale_restriction_is_no_state() {
    let mut books = Books::default();
    for (action, is_restricted) in [(b'1', true), (b'0', false), (b'2', true)] {
        let body = [b"ZVZZT   ".as_slice(), &[action]].concat();
        assert!(apply(&mut books, b'Y', 7, &body).0.is_empty());
        assert_eq!(books.is_short_sale_restricted(7), is_restricted);
    }
    assert!(!books.is_short_sale_restricted(8));
}

#[test]
fn the_hours_are_the_state_of_all_securities_that_may_trade() {
    let mut books = Books::default();
    apply(&mut books, b'S', 0, b"O");
    for (locate, body) in [(1, b"A       T     "), (2, b"B       H T1  ")] {
        apply(&mut books, b'H', locate, body);
    }
    // The third has no message about its state.
    let told = apply(&mut books, b'Y', 3, b"C       0").0;
    assert_eq!(told, [(3, TradingState::PRE_OPEN, NO_REASON)]);
    let mut hours = |event: u8| apply(&mut books, b'S', 0, &[event]).0;
    assert_eq!(hours(b'S'), []);
    for (event, state) in [(b'Q', TradingState::OPEN), (b'M', TradingState::CLOSED)] {
        assert_eq!(hours(event), [(1, state, NO_REASON), (3, state, NO_REASON)]);
        assert_eq!(hours(event), [], "nothing has changed");
    }
    for event in *b"EC?" {
        assert_eq!(hours(event), []);
    }
    assert!(books.is_ended());
    let released = apply(&mut books, b'H', 2, b"B       T     ").0;
    assert_eq!(released, [(2, TradingState::CLOSED, NO_REASON)]);
}

#[test]
fn another_session_begins_without_states() {
    let mut books = Books::default();
    apply(&mut books, b'S', 0, b"M");
    apply(&mut books, b'H', 7, b"ZVZZT   H T1  ");
    books.clear();
    assert!(apply(&mut books, b'S', 0, b"Q").0.is_empty());
    let mut books = Books::default();
    apply(&mut books, b'H', 7, b"ZVZZT   T     ");
    assert_eq!(books.counters().statuses, 1);
}

#[test]
fn a_symbol_defined_after_the_market_opened_has_the_state_of_the_hours() {
    let mut books = Books::default();
    assert_eq!(apply(&mut books, b'S', 0, b"Q").0, []);
    let directory = b"LATE    Q N\0\0\0\x64NC  P N1N\0\0\0\0N";
    let told = apply(&mut books, b'R', 7, &directory[..28]).0;
    assert_eq!(told, [(7, TradingState::OPEN, NO_REASON)]);
    let again = apply(&mut books, b'R', 7, &directory[..28]).0;
    assert_eq!(again, [], "it is told once");
    // Without a directory entry, the first message about it defines it.
    let order = b"\0\0\0\0\0\0\0\x01B\0\0\0\x05NODIR   \0\0\0\x64";
    let told = apply(&mut books, b'A', 8, order).0;
    assert_eq!(told, [(8, TradingState::OPEN, NO_REASON)]);
    let told = apply(&mut books, b'H', 9, b"HALTED  H T1  ").0;
    assert_eq!(told, [(9, TradingState::HALTED, *b"T1  ")]);
}

#[test]
fn a_new_day_begins_the_sessions_of_its_securities() {
    #[derive(Default)]
    struct Starts(Vec<(u32, u32, u8)>);
    impl Sink for Starts {
        fn message(&mut self, _: u64, message: &Message) {
            if let Message::SessionStart(start) = message {
                self.0.push((start.symbol, start.trading_day, start.rolls));
            }
        }
    }
    let mut books = Books::default();
    let mut starts = Starts::default();
    let mut trade = b"P\0\x07\0\0\0\0\0\0\0\x01".to_vec();
    trade.extend(b"\0\0\0\0\0\0\0\0B\0\0\0\x05AA      \0\0\0\x64");
    trade.extend(1u64.to_be_bytes());
    for (month, day, number) in [(11, 18, 20_261_118), (11, 19, 20_261_119)] {
        books.clear();
        books.set_midnight(crate::midnight_unix_ns(2026, month, day).unwrap());
        for _ in 0..2 {
            books.apply(1, &trade, &mut starts);
        }
        assert_eq!(std::mem::take(&mut starts.0), [(7, number, 1)]);
    }
    assert_eq!(
        (books.counters().trades, books.counters().malformed),
        (4, 0)
    );
}
