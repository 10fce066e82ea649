//! Bars of a symbol's first venue go on where a second venue comes: here, at a hub behind this one,
//! and in a replay.

use super::chains::read_all;
use super::*;
use crate::bars::{BarMount, Interval};
use crate::venues::{CONSOLIDATED, CONSOLIDATED_NAME};
use tidewire_keyspace::Mount;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_400 * SECOND;
const NAMES: [&str; 3] = ["A", "A@V1", "A@V2"];

fn trade_at(source: u16, second: u64) -> Message {
    Message::Trade(TradeMessage {
        source,
        source_time_ns: START + second * SECOND,
        price: 1_000_000_000,
        size: 1,
        ..TradeMessage::default()
    })
}

/// Returns a hub of which a client subscribes to all bars of a minute.
fn asked() -> Arc<Market> {
    let market = Market::of_one_lane(MarketConfig::default());
    market.bars.prepare(b"bar:1m:", false);
    let subscriptions = &market.post.subscriptions;
    subscriptions.add(0, Kind::Prefix, b"bar:1m:");
    market
}

/// Returns the trades of the newest bar, and whether it is partial.
fn bar(market: &Market, name: &str) -> (u64, bool) {
    let topic = market.board.find(name.as_bytes()).unwrap();
    let state = market.bars.bars_of(&topic, Interval::Minute).state.lock();
    let shown = state.shown().unwrap();
    (shown.bar.trades, shown.is_partial)
}

/// Lets two publishers trade: the second one's venue comes after three trades of the first.
fn play(market: &Arc<Market>) {
    let mut one = named_source(market, "one", "V1");
    send(&mut one, &[1, 2, 3].map(|second| trade_at(1, second)));
    let mut two = source(market, "two", 0, "A");
    two.begin(1).venue(&venue(2, "V2"));
    send(&mut two, &[trade_at(2, 4)]);
    send(&mut one, &[trade_at(1, 5)]);
    send(&mut two, &[trade_at(2, 6)]);
}

/// They began again with the first trade behind the second venue's, and were partial.
#[test]
fn bars_of_the_first_venue_go_on_in_a_replay_and_behind_the_hub() {
    let live = asked();
    play(&live);
    let expected = [(6, false), (4, false), (2, false)];
    assert_eq!(NAMES.map(|name| bar(&live, name)), expected);
    for is_replay in [true, false] {
        let again = asked();
        let mut reader = Ingest::new(again.clone(), 1, "before");
        if is_replay {
            reader = reader.of_publisher("replay".to_owned());
        }
        let mut batch = reader.begin(1);
        batch.venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
        batch.finish();
        read_all(&live, &mut reader);
        assert_eq!(NAMES.map(|name| bar(&again, name)), expected, "{is_replay}");
    }
}

/// The symbol has come from another venue within the bar, so its trades are not all of this one.
#[test]
fn a_bar_of_two_venues_in_turn_is_no_bar_of_the_second() {
    let again = asked();
    let mut reader = Ingest::new(again.clone(), 1, "before");
    let mut batch = reader.begin(1);
    batch.venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
    batch.finish();
    for number in [1_u64, 2] {
        let live = Market::of_one_lane(MarketConfig::default());
        let mut one = source(&live, "one", 0, "A");
        one.begin(1).venue(&venue(1, &format!("V{number}")));
        send(&mut one, &[trade_at(1, number)]);
        if number == 2 {
            let mut two = source(&live, "two", 0, "A");
            two.begin(1).venue(&venue(2, "V1"));
            send(&mut two, &[trade_at(2, 3)]);
            send(&mut one, &[trade_at(1, 4)]);
        }
        read_all(&live, &mut reader);
        reader.begin(1).session_changed(1, 2);
    }
    assert_eq!(bar(&again, "A").0, 4);
    assert_eq!(bar(&again, "A@V2"), (2, false));
    assert_eq!(bar(&again, "A@V1"), (1, true));
}

/// A client that reads a bar under the name of the only venue found a partial one under this name
/// after the second venue had come.
#[test]
fn bars_that_are_read_under_the_name_of_the_only_venue_go_on() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = named_source(&market, "one", "V1");
    send(&mut one, &[quote(0, 1, 10, 20)]);
    let mount = BarMount::all(&market.bars).find(|mount| mount.prefix() == b"bar:1m:");
    let read = |name: &str| {
        let mut trades = String::new();
        let key = format!("bar:1m:{name}");
        let mut fields = |field: &[u8], value: &[u8]| {
            if field == b"trades" {
                trades = String::from_utf8_lossy(value).into_owned();
            }
        };
        assert!(mount.as_ref().unwrap().read(key.as_bytes(), &mut fields));
        trades
    };
    assert_eq!(read("A@V1"), "0");
    send(&mut one, &[trade_at(1, 1), trade_at(1, 2)]);
    let mut two = source(&market, "two", 0, "A");
    two.begin(1).venue(&venue(2, "V2"));
    send(&mut two, &[trade_at(2, 3)]);
    send(&mut one, &[trade_at(1, 4)]);
    assert_eq!((read("A"), read("A@V1")), ("4".into(), "3".into()));
    assert_eq!(bar(&market, "A@V1"), (3, false));
    assert_eq!(read("A@V2"), "0", "its bars begin with the first reading");
}
