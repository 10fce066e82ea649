//! Hubs behind one at which a native client has given the only venue of a symbol a topic.

use super::*;

/// Lets a native client of a hub select a name.
fn select(hub: &Market, name: &str) {
    let feed: &dyn tidewire_feed::server::Board = &*hub.board;
    assert_eq!(feed.find(name), None);
}

/// Returns how many trades a hub has told of topics that only have their own.
fn own_trades(hub: &Market) -> usize {
    let messages = chains::journal(hub).into_iter().zip(1..);
    let own = messages.filter(|(message, sequence)| {
        let Message::Trade(trade) = message else {
            return false;
        };
        trade.source != CONSOLIDATED && !hub.board.repeats_at(trade.symbol, *sequence)
    });
    own.count()
}

/// Returns best bid, volume and staleness.
fn shown(hub: &Market, name: &str) -> (i64, u64, u64) {
    let topic = hub.board.find(name.as_bytes()).unwrap();
    let value = hub.board.value(topic.number).unwrap();
    (value.bid, value.volume, staleness(&value))
}

/// The hub behind took the topic for a symbol of its own: it had each trade twice, in its feed and
/// its recording.
#[test]
fn a_topic_that_only_repeats_its_symbol_is_left_out_by_the_hub_behind() {
    let hubs = [(); 4].map(|()| Market::of_one_lane(MarketConfig::default()));
    let mut one = named_source(&hubs[0], "one", "V1");
    let mut two = source(&hubs[0], "two", 0, "A");
    two.begin(1).venue(&venue(2, "V2"));
    let mut readers = [1, 2, 3].map(|place: usize| Ingest::new(hubs[place].clone(), 1, "hub"));
    let mut next = [1; 3];
    let mut read = || {
        for place in 1..hubs.len() {
            let reader = &mut readers[place - 1];
            chains::read_on(&hubs[place - 1], reader, &mut next[place - 1]);
        }
    };
    for round in 0..4 {
        if round == 1 {
            select(&hubs[1], "A@V1");
        }
        let values = [quote(0, 1, 10 + round, 20), trade(0, 1, 15, 5)];
        send(&mut one, &values);
        send(&mut one, &[clear(0, 1), set_level(0, 1, 10 + round)]);
        read();
    }
    assert!(hubs[1].board.named("A@V1").unwrap().is_repeating());
    // One that comes late has a part of the stream only behind a snapshot with the definitions.
    let late = Market::of_one_lane(MarketConfig::default());
    chains::read_all(&hubs[1], &mut Ingest::new(late.clone(), 1, "hub"));
    for (place, hub) in hubs.iter().chain([&late]).enumerate() {
        assert_eq!(own_trades(hub), 4, "hub {place}");
        assert_eq!(hub.board.named("A@V1").is_some(), place == 1, "hub {place}");
        for name in ["A", "A@V1"] {
            assert_eq!(shown(hub, name), (13, 20, 0), "hub {place}");
            assert_eq!(best_bids(hub, name), [13], "hub {place}");
        }
        assert_eq!(hub.ingest.refused.load(Ordering::Relaxed), 0, "hub {place}");
    }
    // With a second venue it is a symbol of its own at all hubs.
    send(&mut two, &[quote(0, 2, 11, 19), trade(0, 2, 16, 3)]);
    send(&mut one, &[trade(0, 1, 17, 1)]);
    read();
    for (place, hub) in hubs.iter().enumerate() {
        let all = ["A", "A@V1", "A@V2"].map(|name| shown(hub, name));
        assert_eq!(all, [(13, 24, 0), (13, 21, 0), (11, 3, 0)], "hub {place}");
        assert!(!hub.board.named("A@V1").unwrap().is_repeating());
        assert_eq!(own_trades(hub), 6, "hub {place}");
        assert_eq!(hub.ingest.refused.load(Ordering::Relaxed), 0, "hub {place}");
    }
}

/// The first hub restarts, and has one of its venues left: its topic repeats the symbol then.
#[test]
fn a_symbol_that_repeats_another_one_from_now_on_has_its_values_at_the_hub_behind() {
    let hubs = [(); 2].map(|()| Market::of_one_lane(MarketConfig::default()));
    let mut first = chains::hub(&hubs[0], "hub");
    let mut batch = first.begin(1);
    batch.definition(1, &definition(1, "A@V1"));
    batch.definition(1, &definition(2, "A@V2"));
    batch.finish();
    send(&mut first, &[quote(1, 1, 10, 20), quote(2, 2, 9, 21)]);
    send(&mut first, &[quote(0, CONSOLIDATED, 10, 20)]);
    let (mut reader, mut next) = (Ingest::new(hubs[1].clone(), 1, "hub"), 1);
    chains::read_on(&hubs[0], &mut reader, &mut next);
    chains::restart(&mut first);
    for round in 1..3 {
        send(&mut first, &[quote(0, 2, 30, 40), trade(0, 2, 35, 5)]);
        chains::read_on(&hubs[0], &mut reader, &mut next);
        for (place, hub) in hubs.iter().enumerate() {
            for name in ["A", "A@V2"] {
                assert_eq!(shown(hub, name), (30, 5 * round, 0), "hub {place} {name}");
            }
            assert_eq!(shown(hub, "A@V1"), (10, 0, 1), "hub {place}");
            assert!(hub.board.named("A@V2").unwrap().is_repeating());
            assert_eq!(own_trades(hub) as u64, round, "hub {place}");
            assert_eq!(hub.ingest.refused.load(Ordering::Relaxed), 0, "hub {place}");
        }
    }
    // The second venue is back.
    let mut batch = first.begin(1);
    batch.definition(1, &definition(1, "A@V1"));
    batch.definition(1, &definition(2, "A@V2"));
    batch.finish();
    send(&mut first, &[quote(2, 2, 31, 40), quote(1, 1, 11, 21)]);
    send(&mut first, &[quote(0, CONSOLIDATED, 31, 21)]);
    chains::read_on(&hubs[0], &mut reader, &mut next);
    for (place, hub) in hubs.iter().enumerate() {
        let bids = ["A", "A@V1", "A@V2"].map(|name| (shown(hub, name).0, shown(hub, name).2));
        assert_eq!(bids, [(31, 0), (11, 0), (31, 0)], "hub {place}");
        assert!(!hub.board.named("A@V2").unwrap().is_repeating());
    }
}
