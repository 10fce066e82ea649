//! Whose clock closes a bar, and which messages move it.

use super::bars::{START, ask, bar, define, quote_at, trade_at};
use super::*;
use tidewire_feed::wire::RecordPart;

/// Returns a source of one venue, number 1, that defines A and B as 0 and 1.
fn at_venue(market: &Arc<Market>, source: u32, venue: &str) -> Ingest {
    let mut ingest = Ingest::new(market.clone(), source, "test");
    ingest.name_venue(1, venue);
    define(&mut ingest, &["A", "B"]);
    ingest
}

fn leave(mut ingest: Ingest) {
    ingest.lose(2);
}

/// A source that had never traded in the bar closed it with its first value, because another one,
/// which had traded before the bar, had left. A trade of the bar was late.
#[test]
fn a_source_that_left_before_the_bar_began_lets_no_other_one_close_it() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut other = at_venue(&market, 1, "V0");
    let mut first = at_venue(&market, 2, "V1");
    let mut last = at_venue(&market, 3, "V2");
    ask(&market, "A");
    send(&mut first, &[trade_at(0, 1, 4)]);
    leave(first);
    send(&mut last, &[trade_at(0, 1, 7)]);
    ask(&market, "A@V2");
    send(&mut other, &[quote_at(0, 1, 9), quote_at(1, 1, 9)]);
    assert_eq!(bar(&market, "A"), (7, 1, false, false));
    send(&mut last, &[trade_at(0, 1, 7)]);
    assert_eq!(bar(&market, "A"), (7, 2, false, false));
    send(&mut last, &[quote_at(1, 1, 9)]);
    assert_eq!(bar(&market, "A"), (7, 2, true, false));
}

/// The same where the source that had left had traded in the bar, and where all of them had.
#[test]
fn a_source_of_another_venue_is_in_no_place_of_one_that_has_left() {
    for is_alone in [true, false] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut other = at_venue(&market, 1, "V0");
        let mut first = at_venue(&market, 2, "V1");
        let mut last = at_venue(&market, 3, "V2");
        send(&mut last, &[quote_at(0, 1, 1)]);
        ask(&market, "A");
        send(&mut first, &[trade_at(0, 1, 7)]);
        if is_alone {
            leave(last);
        } else {
            send(&mut last, &[trade_at(0, 1, 7)]);
        }
        leave(first);
        send(&mut other, &[quote_at(0, 1, 9)]);
        define(&mut other, &["A", "B"]);
        send(&mut other, &[quote_at(1, 1, 9)]);
        let before = 2 - u64::from(is_alone);
        assert_eq!(bar(&market, "A"), (7, before, false, false));
        let mut back = at_venue(&market, 4, "V1");
        send(&mut back, &[trade_at(0, 1, 7)]);
        assert_eq!(bar(&market, "A"), (7, before + 1, false, false));
        send(&mut back, &[quote_at(1, 1, 9)]);
        assert_eq!(bar(&market, "A"), (7, before + 1, true, false));
    }
}

/// The source of a further venue that only defined the symbol closed the bar of its only venue.
#[test]
fn a_source_of_another_venue_closes_no_bar_of_a_symbol_of_one() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut first = at_venue(&market, 1, "V1");
    send(&mut first, &[quote_at(0, 1, 1)]);
    ask(&market, "A");
    send(&mut first, &[trade_at(0, 1, 7)]);
    leave(first);
    let mut other = at_venue(&market, 2, "V0");
    send(&mut other, &[quote_at(1, 1, 9)]);
    assert_eq!(bar(&market, "A"), (7, 1, false, false));
    let mut back = at_venue(&market, 3, "V1");
    send(&mut back, &[quote_at(1, 1, 9)]);
    assert_eq!(bar(&market, "A"), (7, 1, true, false));
}

/// A source that had been in the place of another one closed the bar after that one was back.
#[test]
fn a_place_is_lost_when_another_source_writes_to_the_venue() {
    for venues in [1, 2] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut first = at_venue(&market, 1, "V1");
        send(&mut first, &[quote_at(0, 1, 1)]);
        let mut second = at_venue(&market, 2, "V2");
        if venues == 2 {
            send(&mut second, &[quote_at(0, 1, 1)]);
        }
        ask(&market, "A");
        send(&mut first, &[trade_at(0, 1, 7)]);
        leave(first);
        let mut heir = at_venue(&market, 3, "V1");
        let mut back = at_venue(&market, 4, "V1");
        send(&mut back, &[trade_at(0, 1, 7)]);
        send(&mut heir, &[quote_at(1, 1, 9)]);
        assert_eq!(bar(&market, "A"), (7, 2, false, false), "{venues}");
        send(&mut back, &[trade_at(0, 1, 7), quote_at(1, 1, 9)]);
        assert_eq!(bar(&market, "A"), (7, 3, true, false), "{venues}");
    }
}

/// It stayed open until the venue's next trade: the second venue's trade, which made the topic, had
/// begun the symbol's next bar.
#[test]
fn the_first_venues_bar_is_closed_if_the_second_venue_comes_in_a_later_interval() {
    for is_back in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        market.bars.prepare(b"bar:1s:", false);
        let subscriptions = &market.post.subscriptions;
        subscriptions.add(0, Kind::Prefix, b"bar:1s:");
        let mut first = at_venue(&market, 1, "V1");
        let mut second = at_venue(&market, 2, "V2");
        send(&mut first, &[trade_at(0, 1, 1)]);
        if is_back {
            first.lose(2);
            let state = first.take_state();
            first = Ingest::new(market.clone(), 3, "test");
            first.begin(3).resume(state);
        }
        send(&mut second, &[trade_at(0, 1, 2)]);
        assert_eq!(bar(&market, "A@V1"), (1, 1, false, false));
        send(&mut second, &[quote_at(1, 1, 9)]);
        assert_eq!(bar(&market, "A@V1"), (1, 1, false, false));
        let mut batch = first.begin(4);
        batch.message(1, &quote_at(1, 1, 9));
        let news = batch.finish();
        assert_eq!(bar(&market, "A@V1"), (1, 1, true, false));
        assert!(names(&news).contains(&b"bar:1s:A@V1".to_vec()), "{news:?}");
    }
}

/// The same bar under a name that an earlier topic of the venue has.
#[test]
fn the_bar_of_a_namesake_is_closed_with_that_of_its_symbol() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = super::chains::hub(&market, "hub");
    let mut batch = hub.begin(1);
    batch.definition(1, &definition(0, "A"));
    batch.definition(1, &definition(1, "B"));
    batch.finish();
    ask(&market, "A");
    send(&mut hub, &[trade_at(0, 1, 1)]);
    market.board.find(b"A").unwrap().want_venue();
    send(&mut hub, &[quote_at(0, 1, 1)]);
    ask(&market, "A@V1");
    send(&mut hub, &[trade_at(0, 1, 1)]);
    let trades = bar(&market, "A@V1").1;
    send(&mut hub, &[quote_at(1, 1, 9)]);
    assert_eq!(bar(&market, "A"), (1, 2, true, false));
    assert_eq!(bar(&market, "A@V1").1, trades);
    assert!(bar(&market, "A@V1").2);
}

/// Only quotes, trades and statuses did.
#[test]
fn each_message_with_a_time_closes_the_bars_of_its_source() {
    let now_ns = START + 9_000_000_000;
    let timed = |is_timed: bool| if is_timed { now_ns } else { 0 };
    let kinds = 8;
    for (kind, is_timed) in (0..kinds).flat_map(|kind| [(kind, false), (kind, true)]) {
        let source_time_ns = timed(is_timed);
        let market = Market::of_one_lane(MarketConfig::default());
        let mut source = at_venue(&market, 1, "V1");
        ask(&market, "A");
        send(&mut source, &[trade_at(0, 1, 1), quote_at(1, 1, 1)]);
        let mut batch = source.begin(2);
        let message = match kind {
            0 => Some(Message::Level(Level {
                symbol: 1,
                source: 1,
                source_time_ns,
                action: Level::CLEAR,
                ..Level::default()
            })),
            1 => Some(Message::SessionStart(SessionStart {
                symbol: 1,
                source: 1,
                source_time_ns,
                rolls: SessionStart::BEGINS,
                ..SessionStart::default()
            })),
            2 => Some(Message::Certainty(Certainty {
                symbol: 1,
                source: 1,
                source_time_ns,
                ..Certainty::default()
            })),
            3 => Some(Message::LastValue(LastValue {
                source: 1,
                source_time_ns,
                ..LastValue::new(1)
            })),
            4 => {
                let mut parts = RecordPart::split(1, 1, source_time_ns, &[0; 16]);
                parts.next().map(Message::Record)
            }
            5 => Some(Message::Status(TradingStatus {
                symbol: 1,
                source: 1,
                source_time_ns,
                ..TradingStatus::default()
            })),
            6 => {
                let named = venue(2, "V2");
                batch.venue(&Venue {
                    source_time_ns,
                    ..named
                });
                None
            }
            _ => {
                batch.definition(
                    1,
                    &Definition {
                        source_time_ns,
                        ..definition(2, "C")
                    },
                );
                None
            }
        };
        if let Some(message) = message {
            batch.message(1, &message);
        }
        batch.finish();
        // Whole values and certainties are of other times than the stream.
        let is_closed = is_timed && !matches!(kind, 2 | 3);
        assert_eq!(bar(&market, "A"), (1, 1, is_closed, false), "{kind}");
    }
    let market = Market::of_one_lane(MarketConfig::default());
    let mut source = at_venue(&market, 1, "V1");
    ask(&market, "A");
    send(&mut source, &[trade_at(0, 1, 1)]);
    let mut batch = source.begin(START);
    batch.venue(&Venue {
        source_time_ns: u64::MAX,
        ..venue(2, "V2")
    });
    // What a snapshot repeats is of an earlier time of the stream, or of none.
    batch.snapshot_record(
        1,
        &LastValue {
            source_time_ns: now_ns,
            ..LastValue::new(1)
        },
    );
    batch.finish();
    assert_eq!(bar(&market, "A"), (1, 1, false, false));
}
