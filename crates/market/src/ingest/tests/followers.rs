//! Sources that follow one that has left, or that has only restarted.

use super::*;

/// A venue number of a source, and its name if the source gives it one.
type Number<'a> = (u16, Option<&'a str>);

/// Returns a source that has defined the symbol `A` as number 0.
fn publisher(market: &Arc<Market>, feed: &str, (number, name): Number<'_>) -> Ingest {
    let mut ingest = source(market, feed, 0, "A");
    if let Some(name) = name {
        ingest.begin(1).venue(&venue(number, name));
    }
    ingest
}

/// Returns a hub at which a source, `first`, has traded twice, with a volume of 3, and has left.
fn left_by(first: Number<'_>) -> Arc<Market> {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = publisher(&market, "first", first);
    send(
        &mut one,
        &[trade(0, first.0, 10, 1), trade(0, first.0, 10, 2)],
    );
    one.lose(2);
    market
}

/// Returns volume, trades and staleness.
fn shown(market: &Market, name: &str) -> (u64, u64, u64) {
    let value = value_of(market, name);
    (value.volume, value.trades.into(), staleness(&value))
}

fn is_consolidated(market: &Market) -> bool {
    market.board.find(b"A").unwrap().is_consolidated()
}

/// Numbers of two sources, and the names of their venues.
const PAIRS: [(Number<'_>, Number<'_>, [&str; 2]); 6] = [
    ((501, None), (500, Some("V10")), ["A@501", "A@V10"]),
    ((501, Some("XA")), (500, None), ["A@XA", "A@500"]),
    ((501, None), (500, None), ["A@501", "A@500"]),
    ((0, None), (500, Some("V10")), ["A@first", "A@V10"]),
    ((501, Some("XA")), (0, None), ["A@XA", "A@second"]),
    ((501, Some("XA")), (500, Some("XB")), ["A@XA", "A@XB"]),
];

/// The other source went on with the figures of the one that had restarted, which began with none.
#[test]
fn a_source_that_has_only_restarted_keeps_its_figures_when_another_one_has_a_value_first() {
    for (first, second, names) in PAIRS {
        for says_state in [false, true] {
            let market = left_by(first);
            let mut one = publisher(&market, "first", first);
            if says_state {
                send(&mut one, &[status(0, first.0, TradingState::OPEN)]);
            }
            let mut two = publisher(&market, "second", second);
            send(&mut two, &[trade(0, second.0, 9, 4)]);
            assert_eq!(shown(&market, names[0]), (3, 2, 1), "{names:?}");
            assert_eq!(shown(&market, names[1]), (4, 1, 0), "{names:?}");
            send(&mut one, &[trade(0, first.0, 11, 8)]);
            assert_eq!(shown(&market, names[0]), (11, 3, 0), "{names:?}");
            assert_eq!(shown(&market, names[1]), (4, 1, 0), "{names:?}");
            assert_eq!(shown(&market, "A"), (15, 4, 0), "{names:?}");
            assert_eq!(market.ingest.refused.load(Ordering::Relaxed), 0);
        }
    }
}

/// Values of the number 501 were shown as those of V10.
#[test]
fn a_named_venue_does_not_go_on_with_the_topic_of_another_number_without_a_name() {
    for first in [(501, None), (0, None)] {
        let market = left_by(first);
        let mut two = publisher(&market, "second", (500, Some("V10")));
        send(&mut two, &[trade(0, 500, 9, 4)]);
        let left = if first.0 == 0 { "A@first" } else { "A@501" };
        assert_eq!(shown(&market, left), (3, 2, 1));
        assert_eq!(shown(&market, "A@V10"), (4, 1, 0));
    }
    // The number that had no name has one now.
    let market = left_by((501, None));
    let mut two = publisher(&market, "second", (501, Some("V10")));
    send(&mut two, &[trade(0, 501, 9, 4)]);
    assert!(!is_consolidated(&market));
    assert_eq!(shown(&market, "A@V10"), (7, 3, 0));
}

#[test]
fn a_source_without_venue_names_goes_on_with_the_topic_of_one_that_has_left() {
    for restarts in [false, true] {
        for first in [(501, Some("XA")), (501, None), (0, None)] {
            let market = left_by(first);
            if restarts {
                // It leaves again without a value.
                publisher(&market, "first", first).lose(3);
            }
            let mut two = publisher(&market, "second", (500, None));
            send(&mut two, &[trade(0, 500, 9, 4)]);
            assert!(!is_consolidated(&market), "{first:?}");
            assert_eq!(shown(&market, "A@500"), (7, 3, 0), "{first:?}");
        }
    }
}

/// Its next connection goes on with the session, in which it has given no value.
#[test]
fn a_restarted_source_that_loses_its_connection_is_not_awaited_until_it_is_back() {
    for is_back in [true, false] {
        let market = left_by((501, None));
        let mut one = publisher(&market, "first", (501, None));
        one.lose(3);
        let state = one.take_state();
        let number = market.next_source_number() as u32;
        let mut again = Ingest::new(market.clone(), number, "first");
        if is_back {
            again.begin(4).resume(state);
        }
        drop(one);
        let mut two = publisher(&market, "second", (500, None));
        send(&mut two, &[trade(0, 500, 9, 4)]);
        assert_eq!(is_consolidated(&market), is_back);
        if is_back {
            send(&mut again, &[trade(0, 501, 11, 8)]);
            assert_eq!(shown(&market, "A@501"), (11, 3, 0));
        }
    }
}
