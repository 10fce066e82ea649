//! Trades that come again after a restart, of venues whose clocks are apart: each is in its bars
//! once, or the bars say that they may lack it.

use super::*;
use crate::bars::Interval;
use crate::venues::{CONSOLIDATED, CONSOLIDATED_NAME};
use tidewire_feed::wire::REPEATED;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_002_800 * SECOND;
const FAST: u16 = 1;
const SLOW: u16 = 2;
const NAMES: [&str; 3] = ["A", "A@FAST", "A@SLOW"];

fn hub(market: &Arc<Market>) -> Ingest {
    let mut hub = source(market, "hub", 0, "A");
    let mut batch = hub.begin(1);
    name_venues(&mut batch);
    batch.finish();
    hub
}

fn name_venues(batch: &mut Batch<'_>) {
    let venues = [
        (FAST, "FAST"),
        (SLOW, "SLOW"),
        (CONSOLIDATED, CONSOLIDATED_NAME),
    ];
    for (number, name) in venues {
        batch.venue_of_login(&venue(number, name));
    }
}

/// Defines the symbol, and its venues as symbols of their own.
fn define(hub: &mut Ingest, names: &[&str]) {
    let mut batch = hub.begin(1);
    for (number, name) in names.iter().enumerate() {
        batch.definition(1, &definition(number as u32, name));
    }
    batch.finish();
}

fn restart(hub: &mut Ingest) {
    hub.lose(2);
    let mut batch = hub.begin(2);
    batch.session_changed(1, 2);
    name_venues(&mut batch);
    batch.finish();
    define(hub, &NAMES[..1]);
}

fn trade_at(symbol: u32, source: u16, second: u64) -> Message {
    Message::Trade(TradeMessage {
        symbol,
        source,
        source_time_ns: START + second * SECOND,
        price: source.into(),
        size: 1,
        ..TradeMessage::default()
    })
}

/// Sends the trades of a venue, each as that of the symbol, too.
fn both(hub: &mut Ingest, venue: u16, seconds: &[u64]) {
    for second in seconds {
        let of_venue = trade_at(venue.into(), venue, *second);
        let Message::Trade(trade) = of_venue else {
            unreachable!("it is a trade");
        };
        let of_all = Message::Trade(TradeMessage {
            symbol: 0,
            source: CONSOLIDATED,
            ..trade
        });
        send(hub, &[of_venue, of_all]);
    }
}

fn ask(market: &Market) {
    for topic in NAMES
        .iter()
        .filter_map(|name| market.board.find(name.as_bytes()))
    {
        market.bars.bars_of(&topic, Interval::Hour);
    }
}

/// Returns the trades of the newest bar of an hour, and whether it is partial.
fn bar(market: &Market, name: &str) -> (u64, bool) {
    let topic = market.board.find(name.as_bytes()).unwrap();
    let state = market.bars.bars_of(&topic, Interval::Hour).state.lock();
    state.shown().map_or((0, state.is_partial()), |shown| {
        (shown.bar.trades, shown.is_partial)
    })
}

fn bars(market: &Market) -> [(u64, bool); 3] {
    NAMES.map(|name| bar(market, name))
}

/// A symbol of two venues, whose clocks are 30 seconds apart.
fn two_venues(market: &Arc<Market>) -> Ingest {
    let mut hub = hub(market);
    define(&mut hub, &NAMES);
    ask(market);
    both(&mut hub, FAST, &[40, 41]);
    both(&mut hub, SLOW, &[10, 11]);
    assert_eq!(bars(market), [(4, false), (2, false), (2, false)]);
    hub
}

/// The trades of the slower venue were before the newest one of the symbol.
#[test]
fn new_trades_of_a_venue_with_a_slow_clock_are_not_repeated_after_a_hubs_restart() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = two_venues(&market);
    restart(&mut hub);
    // Until the second one comes, the symbol is of one venue.
    send(&mut hub, &[trade_at(0, SLOW, 12), trade_at(0, SLOW, 13)]);
    assert_eq!(bars(&market), [(6, false), (2, false), (4, false)]);
    define(&mut hub, &NAMES);
    both(&mut hub, FAST, &[42]);
    both(&mut hub, SLOW, &[14]);
    assert_eq!(bars(&market), [(8, false), (3, false), (5, false)]);
}

/// The second source sent again after the first one's newest trade, which ended the repetition of
/// the symbol.
#[test]
fn trades_of_two_sources_that_send_again_one_after_the_other_are_in_the_bar_once() {
    for (first, second) in [(FAST, SLOW), (SLOW, FAST)] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut hub = two_venues(&market);
        restart(&mut hub);
        define(&mut hub, &NAMES);
        let of = |venue| match venue {
            FAST => [40, 41, 42],
            _ => [10, 11, 12],
        };
        both(&mut hub, first, &of(first));
        both(&mut hub, second, &of(second));
        let found = bars(&market);
        assert_eq!(found, [(6, false), (3, false), (3, false)], "{first}");
    }
}

/// Where the first source that is back has another venue, it is not known whether the trades
/// before the symbol's newest one are new.
#[test]
fn trades_before_the_newest_one_of_another_venue_may_be_missing() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market);
    ask(&market);
    send(&mut hub, &[trade_at(0, FAST, 41)]);
    restart(&mut hub);
    send(&mut hub, &[trade_at(0, SLOW, 12)]);
    assert_eq!(bar(&market, "A"), (1, true));
    define(&mut hub, &NAMES);
    both(&mut hub, FAST, &[41, 42]);
    assert_eq!(bar(&market, "A"), (2, true));
}

/// A hub that began while the trades came again showed a bar without them as whole.
#[test]
fn a_bar_lacks_repeated_trades_that_this_hub_has_not_had() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market);
    ask(&market);
    let Message::Trade(trade) = trade_at(0, FAST, 10) else {
        unreachable!("it is a trade");
    };
    let repeated = Message::Trade(TradeMessage {
        condition: REPEATED,
        ..trade
    });
    send(&mut hub, &[repeated, trade_at(0, FAST, 11)]);
    assert_eq!(bar(&market, "A"), (1, true));
    // One that it has had is missing in no later bar.
    send(
        &mut hub,
        &[trade_at(0, FAST, 3_611), repeated, trade_at(0, FAST, 3_612)],
    );
    assert_eq!(bar(&market, "A"), (2, false));
}

fn record(symbol: u32, source: u16, second: u64, until: u64) -> LastValue {
    LastValue {
        source,
        source_time_ns: START + second * SECOND,
        last: 1,
        last_size: 1,
        volume: 9,
        figures: Some(Figures {
            trades: 9,
            traded_until_ns: START + until * SECOND,
            ..Figures::default()
        }),
        ..LastValue::new(symbol)
    }
}

/// The last trade by arrival was late: the bar of the newest one lacked trades, and was shown as
/// whole.
#[test]
fn the_bar_of_a_snapshots_newest_trade_is_partial_if_a_late_one_came_last() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market);
    ask(&market);
    let mut batch = hub.begin(3);
    batch.snapshot_record(1, &record(0, FAST, 10, 3_605));
    batch.finish();
    send(&mut hub, &[trade_at(0, FAST, 3_610)]);
    assert_eq!(bar(&market, "A"), (1, true));
    send(&mut hub, &[trade_at(0, FAST, 7_200)]);
    assert_eq!(bar(&market, "A"), (1, false));
    // It is told to the hubs behind.
    let number = market.board.find(b"A").unwrap().number as usize;
    let told = tidewire_feed::server::Board::last_value(&*market.board, number);
    let told = told.and_then(|told| told.figures).unwrap();
    assert_eq!(told.traded_until_ns, START + 7_200 * SECOND);
}

/// A time that cannot be made all later bars partial.
#[test]
fn a_record_that_has_traded_until_a_time_that_cannot_be_makes_no_later_bar_partial() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market);
    ask(&market);
    let mut batch = hub.begin(START + SECOND);
    batch.snapshot_record(1, &record(0, FAST, 10, 1 << 33));
    batch.finish();
    send(&mut hub, &[trade_at(0, FAST, 3_600)]);
    assert_eq!(bar(&market, "A"), (1, false));
}

/// A session had begun before the venue got a topic of its own: its record has no trade of it, but
/// the bar lacks those of before.
#[test]
fn the_bar_of_a_venue_is_partial_if_its_session_began_before_it_got_a_topic() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market);
    define(&mut hub, &NAMES);
    ask(&market);
    let value = LastValue {
        volume: 0,
        figures: Some(Figures::default()),
        ..record(1, FAST, 10, 0)
    };
    send(
        &mut hub,
        &[Message::LastValue(value), trade_at(1, FAST, 11)],
    );
    assert_eq!(bar(&market, "A@FAST"), (1, true));
}

/// After a restart of the hub before, a venue got a topic of its own with a quote: the bar lacked
/// the trades that were in that of the symbol, and was shown as whole.
#[test]
fn the_bar_of_a_venue_is_partial_if_its_trades_were_those_of_the_symbol() {
    for asks_late in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut hub = hub(&market);
        send(&mut hub, &[trade_at(0, FAST, 10)]);
        restart(&mut hub);
        let quote = Message::Quote(QuoteMessage {
            source_time_ns: START + 11 * SECOND,
            ..QuoteMessage::default()
        });
        let quote_of = |symbol: u32| match quote {
            Message::Quote(quote) => Message::Quote(QuoteMessage {
                symbol,
                source: FAST,
                ..quote
            }),
            other => other,
        };
        send(&mut hub, &[quote_of(0)]);
        define(&mut hub, &NAMES[..2]);
        if !asks_late {
            ask(&market);
        }
        send(&mut hub, &[quote_of(1)]);
        if asks_late {
            ask(&market);
        }
        send(&mut hub, &[trade_at(1, FAST, 12)]);
        assert_eq!(bar(&market, "A@FAST"), (1, true), "{asks_late}");
        send(&mut hub, &[trade_at(1, FAST, 3_600)]);
        assert_eq!(bar(&market, "A@FAST"), (1, false), "{asks_late}");
    }
}

/// The hub before the last one had restarted, and the symbol had no value since: a hub that began
/// then showed the bar of its first trade as whole.
#[test]
fn the_bar_of_a_symbol_that_has_traded_before_a_restart_two_hubs_away_is_partial() {
    for is_whole in [true, false] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut hub = hub(&market);
        ask(&market);
        let nothing = LastValue {
            figures: Some(Figures {
                traded_until_ns: START + 10 * SECOND,
                ..Figures::default()
            }),
            ..LastValue::new(0)
        };
        let mut batch = hub.begin(START);
        match is_whole {
            true => batch.snapshot_record(1, &nothing),
            false => batch.message(1, &Message::LastValue(nothing)),
        }
        batch.finish();
        send(&mut hub, &[trade_at(0, FAST, 12)]);
        assert_eq!(bar(&market, "A"), (1, true), "{is_whole}");
        send(&mut hub, &[trade_at(0, FAST, 3_600)]);
        assert_eq!(bar(&market, "A"), (1, false), "{is_whole}");
    }
}
