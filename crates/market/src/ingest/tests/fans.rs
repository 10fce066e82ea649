//! A hub that follows several hubs, of which more than one has several venues of a symbol.

use super::bars::{ask, bar, define, trade_at};
use super::*;
use crate::venues::CONSOLIDATED_NAME;

/// Returns a source that is a hub, with these names of its venues 1 and 2. It has defined `A` as
/// number 0, and the topics of its venues as 1 and 2.
fn hub(market: &Arc<Market>, feed: &str, venues: [&str; 2]) -> Ingest {
    let mut hub = source(market, feed, 0, "A");
    let mut batch = hub.begin(1);
    for (number, name) in (1..).zip(venues) {
        batch.venue(&venue(number, name));
    }
    batch.venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
    batch.finish();
    let names = venues.map(|venue| format!("A@{venue}"));
    define(&mut hub, &["A", &names[0], &names[1]]);
    hub
}

/// The second hub's consolidated values had a number of their own, like those of a venue: native
/// clients and Databento's took them for one.
#[test]
fn the_consolidated_values_of_both_hubs_are_told_as_such() {
    let hubs = [(); 2].map(|()| Market::of_one_lane(MarketConfig::default()));
    let mut one = hub(&hubs[0], "one", ["V1", "V2"]);
    let mut two = hub(&hubs[0], "two", ["V3", "V4"]);
    for round in 1..4 {
        for hub in [&mut one, &mut two] {
            let trades = [(1, 1), (0, CONSOLIDATED), (2, 2), (0, CONSOLIDATED)];
            let trades = trades.map(|(symbol, source)| trade(symbol, source, 10, round));
            send(hub, &trades);
        }
    }
    chains::read_all(&hubs[0], &mut Ingest::new(hubs[1].clone(), 1, "hub"));
    for (place, hub) in hubs.iter().enumerate() {
        let own = chains::journal(hub).into_iter().filter_map(|message| {
            let Message::Trade(trade) = message else {
                return None;
            };
            let topic = hub.board.topic(trade.symbol).unwrap();
            let name = String::from_utf8_lossy(topic.symbol()).into_owned();
            (trade.source != CONSOLIDATED).then_some(name)
        });
        let own: Vec<_> = own.collect();
        assert_eq!(
            own.len(),
            4 * 3,
            "one of each trade at hub {place}: {own:?}"
        );
        assert!(own.iter().all(|name| name.starts_with("A@V")), "{own:?}");
        let venue = hub.board.find(b"A@consolidated#2").unwrap().facts().venue;
        assert_eq!(venue, Some(CONSOLIDATED), "hub {place}");
    }
    let value = value_of(&hubs[0], "A");
    assert_eq!(value.volume, 2 * 2 * (1 + 2 + 3), "each trade counts once");
}

/// Bars of the symbol had each trade of the second hub's first venue twice.
#[test]
fn bars_have_each_trade_of_a_hub_once_that_finds_its_second_venue_beside_another_one() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = hub(&market, "one", ["V1", "V2"]);
    send(&mut one, &[trade_at(1, 1, 1), trade_at(0, CONSOLIDATED, 1)]);
    // The second hub has one venue, which is one of those of the symbol.
    let mut two = source(&market, "two", 0, "A");
    let mut batch = two.begin(1);
    batch.venue(&venue(1, "V3"));
    batch.venue(&venue(2, "V4"));
    batch.venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
    batch.finish();
    send(&mut two, &[trade_at(0, 1, 1)]);
    ask(&market, "A");
    define(&mut two, &["A", "A@V3", "A@V4"]);
    send(&mut two, &[trade_at(2, 2, 2), trade_at(0, CONSOLIDATED, 2)]);
    send(&mut two, &[trade_at(1, 1, 2), trade_at(0, CONSOLIDATED, 2)]);
    let (second, trades, ..) = bar(&market, "A");
    assert_eq!((second, trades), (2, 2));
}
