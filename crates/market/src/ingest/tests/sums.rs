//! Symbols with the names of values that a hub has consolidated, and of symbols' venues.

use super::bars::{ask, bar, define, trade_at};
use super::*;
use crate::cluster::own::REMOTE;
use crate::venues::CONSOLIDATED_NAME;

/// Defines a symbol, and gives it a quote. Returns whether both were taken.
fn takes(market: &Arc<Market>, ingest: &mut Ingest, name: &str) -> bool {
    let refused = || market.ingest.refused.load(Ordering::Relaxed);
    let before = refused();
    define(ingest, &[name]);
    send(ingest, &[quote(0, 7, 10, 20)]);
    let is_taken = market.board.named(name).is_some();
    assert_eq!(refused() - before, if is_taken { 0 } else { 2 }, "{name}");
    is_taken
}

/// After a restart of the hub behind, it was taken for the hub's own sum.
#[test]
fn a_symbol_with_the_name_of_a_hubs_sum_is_refused_unless_a_hub_gives_it() {
    let sums = ["A@consolidated", "A@consolidated#2", "A@B@consolidated#2#2"];
    let others = [
        "A@consolidated-2",
        "consolidated",
        "A@XA",
        "A@consolidatedB",
    ];
    for name in sums.into_iter().chain(others) {
        let market = Market::of_one_lane(MarketConfig::default());
        let new = |bits: u32| {
            let number = market.next_source_number() as u32 | bits;
            Ingest::new(market.clone(), number, "test")
        };
        let is_other = others.contains(&name);
        let mut publisher = new(0).of_publisher("test".to_owned());
        assert_eq!(takes(&market, &mut publisher, name), is_other, "{name}");
        assert_eq!(takes(&market, &mut new(0), name), is_other, "{name}");
        // A recording of a hub is played by a publisher.
        publisher.name_venue(CONSOLIDATED, CONSOLIDATED_NAME);
        assert!(takes(&market, &mut publisher, name), "{name}");
        publisher.lose(2);
        drop(publisher);
        let mut hub = new(0);
        hub.name_venue(CONSOLIDATED, CONSOLIDATED_NAME);
        assert!(takes(&market, &mut hub, name), "{name}");
        hub.lose(2);
        drop(hub);
        assert!(takes(&market, &mut new(REMOTE), name), "{name}");
    }
}

/// The bar went on with that of the symbol.
#[test]
fn the_bars_of_a_venue_have_no_trades_of_a_symbol_that_had_its_name() {
    for is_second in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut own = source(&market, "own", 0, "A@V1");
        own.name_venue(5, "XZ");
        ask(&market, "A@V1");
        send(&mut own, &[trade_at(0, 5, 1)]);
        assert_eq!(bar(&market, "A@V1"), (1, 1, false, false));
        own.lose(2);
        drop(own);
        if is_second {
            send(
                &mut named_source(&market, "two", "V2"),
                &[trade_at(0, 1, 1)],
            );
        }
        let mut one = named_source(&market, "one", "V1");
        send(&mut one, &[trade_at(0, 1, 1)]);
        assert_eq!(bar(&market, "A@V1"), (1, 1, false, true), "{is_second}");
        send(&mut one, &[trade_at(0, 1, 2)]);
        assert_eq!(bar(&market, "A@V1"), (2, 1, false, false), "{is_second}");
        // It is another symbol's again.
        one.lose(3);
        drop(one);
        let mut own = source(&market, "own", 0, "A@V1");
        own.name_venue(5, "XZ");
        send(&mut own, &[trade_at(0, 5, 2)]);
        if !is_second {
            assert_eq!(bar(&market, "A@V1"), (2, 1, false, true));
        }
    }
}

/// The venue of another source took the topic over, with the trades of the hub's venues in it.
#[test]
fn the_sum_of_a_hub_that_has_left_is_continued_by_that_hub_alone() {
    for is_named in [true, false] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut hub = source(&market, "hub", 0, "A");
        hub.name_venue(CONSOLIDATED, CONSOLIDATED_NAME);
        send(&mut hub, &[trade(0, CONSOLIDATED, 100, 3)]);
        hub.lose(2);
        drop(hub);
        let mut other = source(&market, "other", 0, "A");
        if is_named {
            other.name_venue(3, "XC");
        }
        send(&mut other, &[trade(0, 3, 200, 4)]);
        let own = if is_named { "A@XC" } else { "A@3" };
        assert_eq!(value_of(&market, own).volume, 4, "{own}");
        assert_eq!(value_of(&market, "A@consolidated").volume, 3, "{own}");
        assert!(is_stale(&market, "A@consolidated"));
        assert!(!is_stale(&market, "A"));
    }
}

/// The sum of a recorded hub took the topic of the sum of the hub that it had followed.
#[test]
fn the_sums_of_a_recording_keep_a_topic_each_when_another_source_comes() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut player = Ingest::new(market.clone(), 1, "replay");
    player.name_venue(CONSOLIDATED, CONSOLIDATED_NAME);
    let mut batch = player.begin(1);
    batch.definition(1, &definition(0, "A"));
    batch.definition(1, &definition(1, "A@consolidated"));
    batch.finish();
    send(
        &mut player,
        &[
            trade(1, CONSOLIDATED, 100, 5),
            trade(0, CONSOLIDATED, 101, 7),
        ],
    );
    player.lose(2);
    drop(player);
    let mut other = source(&market, "other", 0, "A");
    other.name_venue(3, "XZ");
    send(&mut other, &[trade(0, 3, 200, 4)]);
    for (name, volume) in [("A@XZ", 4), ("A@consolidated", 5), ("A@consolidated#2", 7)] {
        assert_eq!(value_of(&market, name).volume, volume, "{name}");
    }
}
