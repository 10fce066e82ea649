//! Sessions: how they begin, and how files of a day go on with them.

use super::*;
use crate::bars::Interval;

#[test]
fn a_session_rolls_and_says_what_the_change_is_measured_from() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let value = || market.board.value(0).unwrap();
    let mut batch = ingest.begin(2);
    batch.message(2, &trade(0, 0, 100, 7));
    batch.message(3, &start(0, 90, ReferenceKind::NONE, 0));
    batch.message(3, &trade(0, 0, 110, 3));
    batch.finish();
    assert_eq!((value().volume, value().change_base()), (10, 100));
    let mut batch = ingest.begin(3);
    batch.message(4, &start(0, 105, ReferenceKind::PREVIOUS_SETTLEMENT, 1));
    batch.message(5, &trade(0, 0, 210, 1));
    batch.finish();
    assert_eq!((value().volume, value().trades), (1, 1));
    assert_eq!((value().session_open, value().high), (210, 210));
    assert_eq!(value().change_ppm(), Some(1_000_000));
    let mut batch = ingest.begin(4);
    batch.message(6, &start(0, 200, ReferenceKind::OPEN, 0));
    batch.finish();
    assert_eq!((value().session_open, value().volume), (200, 1));
}

/// One venue's forged trading day emptied the volume of all others, also after it had left.
#[test]
fn a_trading_day_that_is_no_date_or_of_who_has_left_ends_no_session() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut honest = source(&market, "honest", 0, "A");
    send(&mut honest, &[quote(0, 7, 10, 20), trade(0, 7, 10, 5)]);
    let mut forger = source(&market, "forger", 0, "A");
    send(&mut forger, &[quote(0, 8, 9, 21)]);
    let day = |trading_day| {
        Message::SessionStart(SessionStart {
            symbol: 0,
            source: 8,
            trading_day,
            rolls: 1,
            ..SessionStart::default()
        })
    };
    send(
        &mut forger,
        &[day(u32::MAX), day(99_999_999), day(20_240_102)],
    );
    assert_eq!(value_of(&market, "A").volume, 5, "nothing near 1970");
    send(&mut forger, &[day(19_700_105)]);
    assert_eq!(value_of(&market, "A").volume, 0, "a plausible day counts");
    forger.lose(2);
    assert_eq!(value_of(&market, "A").volume, 5);
}

/// The lowest price was shown as the previous close, and the change from it.
#[test]
fn a_reference_of_an_unknown_kind_or_with_the_lowest_price_is_none() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let close = ReferenceKind::PREVIOUS_CLOSE;
    let refused = [
        start(0, 90, ReferenceKind(9), 1),
        start(0, 90, close, 9),
        start(0, i64::MIN, close, 1),
    ];
    let mut batch = ingest.begin(2);
    batch.message(1, &trade(0, 0, 100, 7));
    refused.iter().for_each(|start| batch.message(2, start));
    assert_eq!(batch.take_refused(), 3);
    batch.finish();
    let value = || value_of(&market, "A");
    assert_eq!(
        (value().volume, value().reference.price),
        (7, PRICE_UNDEFINED)
    );
    let record = |reference, reference_kind, open| {
        Message::LastValue(LastValue {
            last: 100,
            volume: 7,
            open,
            figures: Some(Figures {
                reference,
                reference_kind,
                ..Figures::default()
            }),
            ..LastValue::new(0)
        })
    };
    for (reference, kind) in [(90, ReferenceKind(9)), (i64::MIN, close)] {
        send(&mut ingest, &[record(reference, kind, i64::MIN)]);
        let base = (value().reference.price, value().session_open);
        assert_eq!(base, (PRICE_UNDEFINED, PRICE_UNDEFINED));
    }
    let mut batch = ingest.begin(3);
    batch.definition(
        3,
        &Definition {
            open: i64::MIN,
            ..definition(1, "B")
        },
    );
    batch.message(4, &trade(1, 0, 100, 7));
    batch.finish();
    assert_eq!(value_of(&market, "B").session_open, 100, "the first trade");
}

/// A trade of A at venue 7, at a source time in ns.
fn trade_at(time_ns: u64, price: i64, size: u32) -> Message {
    Message::Trade(TradeMessage {
        source: 7,
        source_time_ns: time_ns,
        price,
        size,
        ..TradeMessage::default()
    })
}

fn quote_at(time_ns: u64) -> Message {
    Message::Quote(QuoteMessage {
        source: 7,
        source_time_ns: time_ns,
        bid: 9,
        ask: 11,
        ..QuoteMessage::default()
    })
}

/// A start of a session of A at venue 7, with a previous close if it is not 0.
fn start_at(time_ns: u64, trading_day: u32, rolls: u8, close: i64) -> Message {
    let (reference, kind) = match close {
        0 => (PRICE_UNDEFINED, ReferenceKind::NONE),
        close => (close, ReferenceKind::PREVIOUS_CLOSE),
    };
    Message::SessionStart(SessionStart {
        source: 7,
        source_time_ns: time_ns,
        trading_day,
        rolls,
        reference,
        kind,
        ..SessionStart::default()
    })
}

const DAY: u8 = SessionStart::BEGINS_DAY;
const AGAIN: u8 = SessionStart::BEGINS_DAY_OR_AGAIN;
const FRIDAY: u32 = 19_700_102;
const MONDAY: u32 = 19_700_105;

/// Plays files of A one after the other, each from a source of its own. Returns the value, and that
/// of a reader of the hub's own feed.
fn after_files(files: &[&[Message]]) -> (MarketValue, LastValue) {
    let market = Market::of_one_lane(MarketConfig::default());
    for file in files {
        let mut ingest = source(&market, "replay", 0, "A");
        send(&mut ingest, file);
        ingest.lose(3);
    }
    let value = value_of(&market, "A");
    let mut reader = LastValue {
        figures: Some(Figures::default()),
        ..LastValue::new(0)
    };
    let journal = market.journal.lock();
    for sequence in 1..journal.next_sequence() {
        let message = journal.message(sequence).expect("kept");
        if let Message::SessionStart(start) = &message {
            assert!(start.rolls <= SessionStart::BEGINS, "the hub has decided");
        }
        reader.apply(sequence, &message);
    }
    drop(journal);
    let figures = reader.figures.unwrap();
    assert_eq!(
        (reader.volume, figures.trades),
        (value.volume, value.trades)
    );
    assert_eq!(
        (reader.open, figures.high),
        (value.session_open, value.high)
    );
    assert_eq!(figures.reference, value.reference.price);
    assert_eq!(figures.trading_day, value.trading_day);
    (value, reader)
}

/// A file whose last trade is older than its first one counted all of them again with each replay.
#[test]
fn a_file_with_an_old_last_trade_is_the_same_again() {
    let file = [
        start_at(10, FRIDAY, AGAIN, 0),
        trade_at(10, 100, 5),
        trade_at(20, 102, 5),
        trade_at(5, 101, 1),
    ];
    let later = [start_at(30, FRIDAY, AGAIN, 0), trade_at(30, 103, 7)];
    for times in 1..4 {
        let mut files = vec![&file[..]; times];
        let (value, _) = after_files(&files);
        assert_eq!((value.volume, value.trades), (11, 3), "{times}");
        files.push(&later);
        let (value, _) = after_files(&files);
        assert_eq!((value.volume, value.trades), (18, 4), "{times}");
    }
}

/// A later trade of the day before is none of this day's.
#[test]
fn an_earlier_day_that_comes_later_goes_on_by_its_own_trades() {
    let monday = [start_at(50, MONDAY, AGAIN, 0), trade_at(50, 100, 5)];
    let friday = [start_at(10, FRIDAY, AGAIN, 0), trade_at(10, 100, 5)];
    let later = [start_at(30, FRIDAY, AGAIN, 0), trade_at(30, 103, 7)];
    let (value, _) = after_files(&[&monday, &friday, &later]);
    assert_eq!((value.volume, value.trades), (12, 2));
}

/// Databento gives one schema a file: a second file of a day emptied the day's figures.
#[test]
fn a_second_file_of_a_day_goes_on_with_it() {
    let trades = [
        start_at(10, FRIDAY, AGAIN, 0),
        trade_at(10, 100, 5),
        trade_at(20, 102, 5),
    ];
    let later = [start_at(30, FRIDAY, AGAIN, 0), trade_at(30, 103, 7)];
    let quotes = [start_at(5, FRIDAY, DAY, 0), quote_at(5), quote_at(15)];
    let close = [start_at(1, FRIDAY, DAY, 90)];
    let volume = |files: &[&[Message]]| after_files(files).0.volume;
    assert_eq!(volume(&[&trades, &later]), 17);
    assert_eq!(volume(&[&trades, &quotes]), 10);
    // The quotes have gone back in time; the trades before them still are before the later ones.
    assert_eq!(volume(&[&trades, &quotes, &later]), 17);
    assert_eq!(volume(&[&quotes, &trades, &later]), 17);
    for files in [
        &[&close[..], &trades, &later][..],
        &[&trades, &later, &close],
    ] {
        let (value, _) = after_files(files);
        assert_eq!(
            (value.volume, value.session_open, value.high),
            (17, 100, 103)
        );
        assert_eq!(value.reference.price, 90);
    }
}

#[test]
fn the_same_trades_again_count_once() {
    let trades = [
        start_at(10, FRIDAY, AGAIN, 0),
        trade_at(10, 100, 5),
        trade_at(20, 102, 5),
    ];
    let both = [
        start_at(5, FRIDAY, DAY, 0),
        quote_at(5),
        start_at(10, FRIDAY, AGAIN, 0),
        trade_at(10, 100, 5),
        trade_at(20, 102, 5),
        quote_at(21),
    ];
    let status = [start_at(1, FRIDAY, DAY, 90), quote_at(1)];
    let volume = |files: &[&[Message]]| after_files(files).0.volume;
    assert_eq!(volume(&[&trades, &trades]), 10);
    assert_eq!(volume(&[&both, &both, &both]), 10);
    assert_eq!(volume(&[&trades, &both]), 10);
    assert_eq!(volume(&[&both, &trades]), 10);
    let (value, _) = after_files(&[&trades, &status, &both]);
    assert_eq!(
        (value.volume, value.reference.price),
        (10, 90),
        "the close stays"
    );
}

/// The venue's own topic began without the time of the trades it had: a quote of an earlier time
/// was behind them, and the day's trades counted twice.
#[test]
fn trades_that_come_again_count_once_if_a_second_venue_came_just_before_them() {
    let of_second = |mut message: Message| {
        match &mut message {
            Message::Quote(quote) => quote.source = 8,
            Message::SessionStart(start) => start.source = 8,
            other => panic!("{other:?}"),
        }
        message
    };
    let trades = [
        start_at(10, FRIDAY, AGAIN, 0),
        trade_at(10, 100, 5),
        trade_at(20, 102, 7),
    ];
    let second = [
        of_second(start_at(6, FRIDAY, DAY, 0)),
        of_second(quote_at(6)),
    ];
    let first = [start_at(5, FRIDAY, DAY, 0), quote_at(5)];
    let later = [start_at(30, FRIDAY, AGAIN, 0), trade_at(30, 103, 4)];
    let again = [&first[..], &second, &trades].concat();
    for (files, expected) in [
        (vec![trades.to_vec(), again.clone()], (12, 2)),
        (vec![again.clone(), again.clone()], (12, 2)),
        (
            vec![trades.to_vec(), second.to_vec(), trades.to_vec()],
            (12, 2),
        ),
        (
            vec![trades.to_vec(), [&first[..], &second, &later].concat()],
            (16, 3),
        ),
    ] {
        let market = Market::of_one_lane(MarketConfig::default());
        let subscriptions = &market.post.subscriptions;
        subscriptions.add(0, Kind::Pattern, b"bar:1h:*");
        market.bars.prepare(b"bar:1h:", false);
        for file in &files {
            let mut ingest = source(&market, "replay", 0, "A");
            let mut batch = ingest.begin(1);
            batch.venue(&venue(7, "XNAS"));
            batch.venue(&venue(8, "ARCX"));
            batch.finish();
            send(&mut ingest, file);
            ingest.lose(3);
        }
        for name in ["A", "A@XNAS"] {
            let value = value_of(&market, name);
            assert_eq!((value.volume, value.trades), expected, "{name}");
            let topic = market.board.find(name.as_bytes()).unwrap();
            let state = market.bars.bars_of(&topic, Interval::Hour).state.lock();
            let bar = state.shown().expect("a bar").bar;
            assert_eq!(
                (bar.volume, bar.trades),
                (expected.0, expected.1.into()),
                "{name}"
            );
        }
    }
}

#[test]
fn files_of_two_days_begin_each_day_in_both_orders() {
    let day_ns = 3 * 86_400_000_000_000;
    let friday = [start_at(10, FRIDAY, AGAIN, 90), trade_at(10, 100, 5)];
    let monday = [start_at(day_ns, MONDAY, AGAIN, 0), trade_at(day_ns, 103, 7)];
    for (files, day, volume, close) in [
        ([&friday, &monday], MONDAY, 7, PRICE_UNDEFINED),
        ([&monday, &friday], FRIDAY, 5, 90),
    ] {
        let (value, _) = after_files(&files.map(|file| &file[..]));
        assert_eq!((value.trading_day, value.volume), (day, volume));
        assert_eq!(value.reference.price, close);
    }
}

/// Returns a message of A at venue 7 that gives the price of a kind, or takes it back.
fn price(kind: ReferenceKind, reference: i64) -> Message {
    Message::SessionStart(SessionStart {
        source: 7,
        source_time_ns: 15,
        trading_day: FRIDAY,
        reference,
        kind,
        ..SessionStart::default()
    })
}

/// An opening price or settlement that a venue took back stayed in the value.
#[test]
fn a_price_that_is_taken_back_leaves_the_first_trade_and_the_other_price() {
    const ABSENT: i64 = PRICE_UNDEFINED;
    let (open, settlement) = (ReferenceKind::OPEN, ReferenceKind::PREVIOUS_SETTLEMENT);
    let trades = [
        start_at(10, FRIDAY, AGAIN, 0),
        trade_at(10, 100, 5),
        price(settlement, 187),
        price(open, 182),
        trade_at(20, 102, 5),
    ];
    let after = |files: &[&[Message]]| {
        let (value, reader) = after_files(files);
        let figures = reader.figures.unwrap();
        assert_eq!(figures.first_trade, value.first_trade);
        (
            value.session_open,
            value.reference.price,
            value.change_base(),
        )
    };
    assert_eq!(after(&[&trades]), (182, 187, 187));
    assert_eq!(after(&[&trades, &[price(open, ABSENT)]]), (100, 187, 187));
    assert_eq!(
        after(&[&trades, &[price(settlement, ABSENT)]]),
        (182, ABSENT, 182)
    );
    let close = price(ReferenceKind::PREVIOUS_CLOSE, ABSENT);
    assert_eq!(after(&[&trades, &[close]]), (182, 187, 187));
    let none = price(ReferenceKind::NONE, ABSENT);
    assert_eq!(
        after(&[&trades, &[none, price(open, ABSENT)]]),
        (100, ABSENT, 100)
    );
    // An open before the first trade.
    let early = [
        start_at(1, FRIDAY, DAY, 0),
        price(open, 182),
        start_at(10, FRIDAY, AGAIN, 0),
        trade_at(10, 100, 5),
    ];
    assert_eq!(after(&[&early]), (182, ABSENT, 182));
    assert_eq!(after(&[&early, &[price(open, ABSENT)]]), (100, ABSENT, 100));
    let untraded = [start_at(1, FRIDAY, DAY, 0), price(open, 182)];
    let gone = [price(open, ABSENT), trade_at(20, 102, 5)];
    assert_eq!(after(&[&untraded, &gone]), (102, ABSENT, 102));
}

/// The open of a message that begins the day again was lost where the session had a previous close.
#[test]
fn an_open_is_beside_the_reference_that_a_day_keeps_when_it_begins_again() {
    let again = |opens: i64| {
        Message::SessionStart(SessionStart {
            source: 7,
            source_time_ns: 15,
            trading_day: FRIDAY,
            reference: opens,
            kind: ReferenceKind::OPEN,
            rolls: AGAIN,
            ..SessionStart::default()
        })
    };
    for close in [0, 90] {
        let reference = if close == 0 { PRICE_UNDEFINED } else { close };
        let day = [start_at(1, FRIDAY, DAY, close), trade_at(20, 102, 5)];
        let (value, reader) = after_files(&[&day, &[again(99)]]);
        assert_eq!((value.session_open, value.volume), (99, 0));
        assert_eq!(value.reference.price, reference);
        assert_eq!(value.sequence, reader.sequence);
        let (value, _) = after_files(&[&day, &[again(99), trade_at(20, 102, 5)]]);
        assert_eq!((value.session_open, value.volume), (99, 5));
        let (value, _) = after_files(&[&day, &[again(PRICE_UNDEFINED)]]);
        assert_eq!(value.session_open, PRICE_UNDEFINED);
        assert_eq!(value.reference.price, reference);
    }
}

/// A hub behind this one gets the open that it decided, also where a value came from a record.
#[test]
fn a_hub_behind_this_one_follows_an_open_that_is_taken_back() {
    let (first, second) = (
        Market::of_one_lane(MarketConfig::default()),
        Market::of_one_lane(MarketConfig::default()),
    );
    let mut ingest = source(&first, "replay", 0, "A");
    let mut behind = source(&second, "hub", 0, "A");
    let pass = |from: u64, behind: &mut Ingest| {
        let journal = first.journal.lock();
        let until = journal.next_sequence();
        let messages: Vec<_> = (from..until)
            .map(|sequence| journal.message(sequence).expect("kept"))
            .filter(|message| !matches!(message, Message::Definition(_)))
            .collect();
        drop(journal);
        send(behind, &messages);
        until
    };
    send(
        &mut ingest,
        &[
            start_at(10, FRIDAY, AGAIN, 0),
            trade_at(10, 100, 5),
            price(ReferenceKind::OPEN, 182),
        ],
    );
    let from = pass(1, &mut behind);
    assert_eq!(value_of(&second, "A").session_open, 182);
    send(&mut ingest, &[price(ReferenceKind::OPEN, PRICE_UNDEFINED)]);
    pass(from, &mut behind);
    assert_eq!(value_of(&second, "A").session_open, 100);
    // The record of a snapshot has the first trade too.
    send(&mut ingest, &[price(ReferenceKind::OPEN, 182)]);
    let topic = first.board.find(b"A").unwrap();
    let record = tidewire_feed::server::Board::last_value(&*first.board, topic.number as usize);
    let third = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&third, "recording", 0, "A");
    let open = price(ReferenceKind::OPEN, PRICE_UNDEFINED);
    send(&mut ingest, &[Message::LastValue(record.unwrap()), open]);
    assert_eq!(value_of(&third, "A").session_open, 100);
}

/// The open of a symbol of several venues stayed where its venue gave another one.
#[test]
fn a_consolidated_open_is_that_of_a_venue() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let mut other = source(&market, "other", 0, "A");
    send(
        &mut ingest,
        &[start_at(10, FRIDAY, AGAIN, 0), trade_at(10, 100, 5)],
    );
    let (mut day, mut traded) = (start_at(11, FRIDAY, AGAIN, 0), trade_at(11, 101, 5));
    if let (Message::SessionStart(day), Message::Trade(traded)) = (&mut day, &mut traded) {
        (day.source, traded.source) = (8, 8);
    }
    send(&mut other, &[day, traded]);
    let open = || value_of(&market, "A").session_open;
    assert_eq!(open(), 100);
    for (reference, expected) in [(182, 182), (183, 183), (PRICE_UNDEFINED, 100)] {
        send(&mut ingest, &[price(ReferenceKind::OPEN, reference)]);
        assert_eq!(open(), expected);
    }
}

/// A trade in 2100 began that day, and no real day after it.
#[test]
fn a_trading_day_of_the_far_future_is_none() {
    let far_ns = 76 * 365 * 86_400_000_000_000;
    let far_day = date_of(far_ns);
    let file = [
        start_at(far_ns, far_day, SessionStart::BEGINS, 0),
        trade_at(far_ns, 100, 5),
    ];
    assert_eq!(after_files(&[&file]).0.trading_day, 0);
    let next = [start_at(10, FRIDAY, AGAIN, 0), trade_at(10, 100, 1)];
    let (value, _) = after_files(&[&file, &next]);
    assert_eq!((value.trading_day, value.volume), (FRIDAY, 1));
}

/// A time of the far future left the day at the first hub, and none at the hub behind it.
#[test]
fn the_day_of_a_value_whose_time_is_no_time_is_the_same_at_the_hub_behind() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = source(&market, "hub", 0, "A");
    for (time_ns, symbol_day, expected) in [
        (u64::MAX, 19_700_102, 19_700_102),
        (1, 19_700_102, 19_700_102),
        (u64::MAX, 19_700_301, 0),
        (u64::MAX, 19_700_132, 0),
        (u64::MAX, date_of(u64::MAX), 0),
    ] {
        let value = LastValue {
            source: 7,
            source_time_ns: time_ns,
            bid: 9,
            figures: Some(tidewire_feed::wire::Figures {
                trading_day: symbol_day,
                ..tidewire_feed::wire::Figures::default()
            }),
            ..LastValue::new(0)
        };
        send(&mut hub, &[Message::LastValue(value)]);
        assert_eq!(value_of(&market, "A").trading_day, expected, "{symbol_day}");
    }
}

fn date_of(time_ns: u64) -> u32 {
    tidewire_calendar::date_number((time_ns / 86_400_000_000_000) as i64)
}

/// A symbol that was paused when the session before ended stayed so.
#[test]
fn a_trading_state_of_another_session_ends_with_the_first_value() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let begin = |ingest: &mut Ingest| {
        let mut batch = ingest.begin(2);
        batch.session_changed(1, 2);
        batch.definition(1, &definition(0, "A"));
        batch.finish();
    };
    let state = || value_of(&market, "A").status.state;
    let halted = status(0, 0, TradingState::HALTED);
    send(&mut ingest, &[quote(0, 0, 10, 20), halted]);
    begin(&mut ingest);
    assert_eq!(state(), TradingState::HALTED.0, "stale, as the quote is");
    let from = market.journal.lock().next_sequence();
    send(&mut ingest, &[trade(0, 0, 15, 1)]);
    let value = value_of(&market, "A");
    assert_eq!((value.status.state, value.flags), (0, 0));
    let journal = market.journal.lock();
    let told = (from..journal.next_sequence()).filter_map(|at| journal.message(at));
    let told: Vec<Message> = told.collect();
    drop(journal);
    let is_told = |message: &Message| matches!(message, Message::Status(told) if told.state.0 == 0);
    assert!(told.iter().any(is_told), "{told:?}");
    // What a session says before its first value stays, also when its publisher continues.
    begin(&mut ingest);
    send(&mut ingest, &[halted]);
    ingest.lose(3);
    let state_of_source = ingest.take_state();
    drop(ingest);
    let number = market.next_source_number() as u32;
    let mut ingest = Ingest::new(market.clone(), number, "test");
    ingest.begin(4).resume(state_of_source);
    send(&mut ingest, &[quote(0, 0, 10, 20)]);
    assert_eq!(state(), TradingState::HALTED.0);
    // Another source says nothing of it.
    ingest.lose(5);
    drop(ingest);
    let mut other = source(&market, "other", 0, "A");
    send(&mut other, &[quote(0, 0, 10, 20)]);
    assert_eq!(value_of(&market, "A").flags & FLAG_HALTED, 0);
    assert_eq!(state(), 0);
}
