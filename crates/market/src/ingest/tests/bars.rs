//! Bars: whose clock closes them, and which of them may lack trades.

use super::chains::{hub, restart};
use super::*;
use crate::bars::Interval;
use crate::cluster::own::REMOTE;
use crate::venues::CONSOLIDATED;
use tidewire_feed::wire::REPEATED;

const SECOND: u64 = 1_000_000_000;
pub(super) const START: u64 = 1_700_000_000 * SECOND;

pub(super) fn trade_at(symbol: u32, source: u16, second: u64) -> Message {
    Message::Trade(TradeMessage {
        symbol,
        source,
        source_time_ns: START + second * SECOND,
        price: 1_000_000_000,
        size: 1,
        ..TradeMessage::default()
    })
}

pub(super) fn quote_at(symbol: u32, source: u16, second: u64) -> Message {
    Message::Quote(QuoteMessage {
        symbol,
        source,
        source_time_ns: START + second * SECOND,
        bid: 1,
        ask: 2,
        ..QuoteMessage::default()
    })
}

fn publisher(market: &Arc<Market>, source: u32, names: &[&str]) -> Ingest {
    let mut ingest = Ingest::new(market.clone(), source, "test");
    define(&mut ingest, names);
    ingest
}

pub(super) fn define(ingest: &mut Ingest, names: &[&str]) {
    let mut batch = ingest.begin(1);
    for (number, name) in names.iter().enumerate() {
        batch.definition(1, &definition(number as u32, name));
    }
    batch.finish();
}

/// Asks for the bars of a second.
pub(super) fn ask(market: &Market, name: &str) {
    let topic = market.board.find(name.as_bytes()).unwrap();
    market.bars.bars_of(&topic, Interval::Second);
}

/// Returns the second at which the newest bar begins, its trades, and whether it is final and
/// partial.
pub(super) fn bar(market: &Market, name: &str) -> (u64, u64, bool, bool) {
    let topic = market.board.find(name.as_bytes()).unwrap();
    let state = market.bars.bars_of(&topic, Interval::Second).state.lock();
    let shown = state.shown().unwrap();
    let second = (shown.bar.start_ns - START) / SECOND;
    (second, shown.bar.trades, shown.is_final, shown.is_partial)
}

/// The bars of the session before stayed open until the symbol's next trade.
#[test]
fn the_clock_of_a_publishers_next_session_closes_its_bars() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut old = publisher(&market, 1, &["A", "B"]);
    ask(&market, "A");
    send(&mut old, &[trade_at(0, 0, 1)]);
    old.lose(2);
    drop(old);
    let mut new = publisher(&market, 2, &["B", "A"]);
    send(&mut new, &[quote_at(0, 0, 1)]);
    assert_eq!(bar(&market, "A"), (1, 1, false, false));
    send(&mut new, &[trade_at(1, 0, 1)]);
    assert_eq!(bar(&market, "A"), (1, 2, false, false), "it goes on");
    send(&mut new, &[quote_at(0, 0, 9)]);
    assert_eq!(bar(&market, "A"), (1, 2, true, false));
}

/// A connection that goes on with a session did not know its open bars.
#[test]
fn a_connection_that_goes_on_with_a_session_closes_its_bars() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut old = publisher(&market, 1, &["A", "B"]);
    ask(&market, "A");
    send(&mut old, &[trade_at(0, 0, 1)]);
    old.lose(2);
    let state = old.take_state();
    drop(old);
    let mut new = Ingest::new(market.clone(), 2, "test");
    let mut batch = new.begin(3);
    batch.resume(state);
    batch.message(1, &quote_at(1, 0, 9));
    batch.finish();
    assert_eq!(bar(&market, "A"), (1, 1, true, false));
}

#[test]
fn a_publisher_closes_the_bars_of_the_venues_that_it_had() {
    let market = Market::of_one_lane(MarketConfig::default());
    let names = ["A", "B"];
    let mut old = publisher(&market, 1, &names);
    for (number, name) in [(2, "XNAS"), (9, "XNYS")] {
        old.name_venue(number, name);
    }
    send(&mut old, &[quote_at(0, 2, 0), quote_at(0, 9, 0)]);
    let all = ["A", "A@XNAS", "A@XNYS"];
    all.iter().for_each(|name| ask(&market, name));
    send(&mut old, &[trade_at(0, 2, 1), trade_at(0, 9, 1)]);
    old.lose(2);
    drop(old);
    let mut new = Ingest::new(market.clone(), 2, "test");
    for (number, name) in [(1, "XNYS"), (2, "XNAS")] {
        new.name_venue(number, name);
    }
    define(&mut new, &names);
    send(&mut new, &[quote_at(1, 0, 9)]);
    for (name, trades) in all.iter().zip([2, 1, 1]) {
        assert_eq!(bar(&market, name), (1, trades, true, false), "{name}");
    }
}

/// The publisher of one venue closed the bar of another one, whose own publisher was away, and the
/// trades after its return were late.
#[test]
fn a_publisher_closes_no_bar_of_a_venue_that_another_one_gave() {
    let market = Market::of_one_lane(MarketConfig::default());
    let start = |source: u32, number: u16, name: &str| {
        let mut ingest = Ingest::new(market.clone(), source, name);
        ingest.name_venue(number, name);
        define(&mut ingest, &["A", "B"]);
        ingest
    };
    let mut one = start(1, 2, "XNAS");
    let mut two = start(2, 9, "XNYS");
    send(&mut one, &[quote_at(0, 2, 0)]);
    send(&mut two, &[quote_at(0, 9, 0)]);
    ["A", "A@XNAS", "A@XNYS"]
        .iter()
        .for_each(|name| ask(&market, name));
    send(&mut one, &[trade_at(0, 2, 1)]);
    send(&mut two, &[trade_at(0, 9, 1)]);
    for mut ingest in [one, two] {
        ingest.lose(2);
    }
    let mut one = start(3, 2, "XNAS");
    send(&mut one, &[trade_at(0, 2, 4)]);
    assert_eq!(bar(&market, "A"), (4, 1, false, false));
    assert_eq!(bar(&market, "A@XNYS"), (1, 1, false, false));
    let mut two = start(4, 9, "XNYS");
    send(&mut two, &[trade_at(0, 9, 1)]);
    assert_eq!(bar(&market, "A@XNYS"), (1, 2, false, false), "it goes on");
    send(&mut two, &[quote_at(1, 9, 9)]);
    assert_eq!(bar(&market, "A@XNYS"), (1, 2, true, false));
}

/// A source that only defines a symbol closed the bars of the one that trades it.
#[test]
fn another_sources_clock_closes_no_bar() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = publisher(&market, 1, &["A"]);
    ask(&market, "A");
    send(&mut one, &[trade_at(0, 0, 1)]);
    let mut two = publisher(&market, 2, &["A", "B"]);
    for _ in 0..100 {
        define(&mut two, &["A", "B"]);
    }
    send(&mut two, &[quote_at(1, 0, 9)]);
    assert_eq!(bar(&market, "A"), (1, 1, false, false));
}

/// Quotes, and trades of earlier intervals, made the first bar partial.
#[test]
fn the_first_bar_is_partial_if_its_interval_had_a_trade_before() {
    let at = |before: &[Message], second| {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = publisher(&market, 1, &["A"]);
        send(&mut ingest, before);
        ask(&market, "A");
        send(&mut ingest, &[trade_at(0, 0, second)]);
        let first = bar(&market, "A").3;
        send(&mut ingest, &[trade_at(0, 0, second + 1)]);
        assert!(!bar(&market, "A").3, "the next one is whole");
        first
    };
    assert!(!at(&[], 1));
    assert!(!at(&[quote_at(0, 0, 1)], 1));
    assert!(at(&[trade_at(0, 0, 1)], 1));
    assert!(!at(&[trade_at(0, 0, 1), quote_at(0, 0, 2)], 2));
}

/// A bar without the trades that were lost looked like a whole one.
#[test]
fn a_bar_is_partial_after_messages_were_lost() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market, 1, &["A"]);
    ask(&market, "A");
    send(&mut ingest, &[trade_at(0, 0, 1)]);
    let mut batch = ingest.begin(2);
    batch.values_doubtful();
    batch.values_lost();
    batch.finish();
    assert!(
        !bar(&market, "A").3,
        "no message is known to be missing in it"
    );
    send(&mut ingest, &[quote_at(0, 0, 1)]);
    assert_eq!(bar(&market, "A"), (1, 1, false, true));
    send(&mut ingest, &[trade_at(0, 0, 2)]);
    assert_eq!(bar(&market, "A"), (2, 1, false, false));
}

/// A hub that began behind another one had whole bars, without the trades of before its start.
#[test]
fn a_bar_is_partial_if_a_snapshot_has_trades_of_its_interval() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market, 1, &["A"]);
    ask(&market, "A");
    let record = |volume, second| LastValue {
        last: 1_000_000_000,
        last_size: 1,
        volume,
        source_time_ns: START + second * SECOND,
        ..LastValue::new(0)
    };
    let mut batch = ingest.begin(2);
    batch.snapshot_record(1, &record(5, 1));
    batch.finish();
    send(&mut ingest, &[trade_at(0, 0, 1)]);
    assert_eq!(bar(&market, "A"), (1, 1, false, true));
    send(&mut ingest, &[trade_at(0, 0, 2)]);
    let mut batch = ingest.begin(3);
    batch.snapshot_record(1, &record(7, 2));
    batch.finish();
    assert_eq!(bar(&market, "A"), (2, 1, false, false), "it has all trades");
    let mut batch = ingest.begin(3);
    batch.snapshot_record(1, &record(9, 2));
    batch.finish();
    assert_eq!(bar(&market, "A"), (2, 1, false, true));
}

fn record_at(symbol: u32, source: u16, volume: u64, second: u64) -> LastValue {
    let is_nothing = volume == 0;
    LastValue {
        source,
        last: if is_nothing {
            PRICE_UNDEFINED
        } else {
            1_000_000_000
        },
        last_size: u32::from(!is_nothing),
        volume,
        source_time_ns: if is_nothing {
            0
        } else {
            START + second * SECOND
        },
        ..LastValue::new(symbol)
    }
}

/// The first hub restarted and its publisher went on with its session: the open bars of the second
/// hub had all trades twice.
#[test]
fn trades_that_come_again_after_a_hubs_restart_are_in_the_open_bar_once() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = publisher(&market, 1, &["A"]);
    hub.name_venue(CONSOLIDATED, crate::venues::CONSOLIDATED_NAME);
    ask(&market, "A");
    let trades = [trade_at(0, 1, 0), trade_at(0, 1, 0)];
    send(&mut hub, &trades);
    hub.begin(2).session_changed(1, 2);
    define(&mut hub, &["A"]);
    send(&mut hub, &[Message::LastValue(record_at(0, 0, 0, 0))]);
    send(&mut hub, &trades);
    assert_eq!(bar(&market, "A"), (0, 2, false, false));
    assert_eq!(value_of(&market, "A").volume, 2);
    // A trade behind them is new, and one before it is out of order then.
    let late = |message: &Message| match message {
        Message::Trade(trade) => Message::Trade(TradeMessage {
            source_time_ns: trade.source_time_ns + 1,
            ..*trade
        }),
        other => *other,
    };
    send(&mut hub, &[late(&trades[0]), trades[0]]);
    assert_eq!(bar(&market, "A"), (0, 4, false, false));
    // The same where a snapshot comes before the trades.
    hub.begin(3).session_changed(2, 3);
    define(&mut hub, &["A"]);
    let mut batch = hub.begin(3);
    batch.snapshot_record(1, &record_at(0, 1, 4, 0));
    batch.finish();
    send(&mut hub, &trades[1..]);
    assert_eq!(bar(&market, "A").1, 4);
}

/// A publisher that began its day again had it twice in the open bars.
#[test]
fn trades_of_a_day_that_begins_again_are_in_the_open_bar_once() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market, 1, &["A"]);
    ask(&market, "A");
    let day = Message::SessionStart(SessionStart {
        source_time_ns: START,
        trading_day: 20_231_114,
        rolls: SessionStart::BEGINS_DAY_OR_AGAIN,
        ..SessionStart::default()
    });
    let mut batch = ingest.begin(START);
    let first = [day, trade_at(0, 0, 1), trade_at(0, 0, 1)];
    let both = first.iter().chain(&first);
    both.for_each(|message| batch.message(1, message));
    batch.message(1, &trade_at(0, 0, 2));
    batch.finish();
    assert_eq!(bar(&market, "A"), (2, 1, false, false));
    let topic = market.board.find(b"A").unwrap();
    let bars = market.bars.bars_of(&topic, Interval::Second);
    assert_eq!(bars.state.lock().bars.late(), 0);
    assert_eq!(value_of(&market, "A").volume, 3);
}

/// The bar of a venue that had got a symbol of its own at the first hub lacked the trades before,
/// and was shown as whole.
#[test]
fn a_bar_is_partial_if_a_live_record_has_trades_of_its_interval() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = publisher(&market, 1, &["A@X"]);
    ask(&market, "A@X");
    send(&mut hub, &[Message::LastValue(record_at(0, 1, 2, 1))]);
    send(&mut hub, &[trade_at(0, 1, 1)]);
    assert_eq!(bar(&market, "A@X"), (1, 1, false, true));
    send(&mut hub, &[trade_at(0, 1, 2)]);
    // A session that begins has fewer trades.
    send(&mut hub, &[Message::LastValue(record_at(0, 1, 1, 2))]);
    assert_eq!(bar(&market, "A@X"), (2, 1, false, false));
}

/// The publisher restarted before the symbol's next message, and the loss was forgotten.
#[test]
fn a_bar_is_partial_if_messages_were_lost_before_its_publisher_restarted() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut old = publisher(&market, 1, &["A"]);
    ask(&market, "A");
    send(&mut old, &[trade_at(0, 0, 1)]);
    let mut batch = old.begin(2);
    batch.values_doubtful();
    batch.values_lost();
    batch.finish();
    old.lose(2);
    drop(old);
    let mut new = publisher(&market, 2, &["A"]);
    assert!(!bar(&market, "A").3);
    send(&mut new, &[trade_at(0, 0, 1)]);
    assert_eq!(bar(&market, "A"), (1, 2, false, true));
    send(&mut new, &[trade_at(0, 0, 2)]);
    assert_eq!(bar(&market, "A"), (2, 1, false, false));
}

/// What the first hub had lost was in doubt at the second one, but its bars were shown as whole.
#[test]
fn a_bar_is_partial_if_the_hub_before_has_lost_messages() {
    let first = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&first, 1, &["A"]);
    send(&mut ingest, &[trade_at(0, 0, 1)]);
    let mut batch = ingest.begin(2);
    batch.values_doubtful();
    batch.values_lost();
    batch.finish();
    send(&mut ingest, &[trade_at(0, 0, 2), trade_at(0, 0, 3)]);
    let second = Market::of_one_lane(MarketConfig::default());
    let mut follower = Ingest::new(second.clone(), 1, "hub");
    let mut seen = Vec::new();
    let journal = first.journal.lock();
    for sequence in 1..journal.next_sequence() {
        let message = journal.message(sequence).unwrap();
        let mut batch = follower.begin(1);
        match &message {
            Message::Definition(definition) => batch.definition(sequence, definition),
            Message::Venue(venue) => batch.venue(venue),
            other => batch.message(sequence, other),
        }
        batch.finish();
        ask(&second, "A");
        if let Message::Trade(_) = message {
            seen.push(bar(&second, "A"));
        }
    }
    let whole = |second| (second, 1, false, false);
    assert_eq!(seen, [whole(1), (2, 1, false, true), whole(3)]);
    assert_eq!(staleness(&value_of(&second, "A")), 0);
    // The third hub of a chain learns of it, too.
    let journal = second.journal.lock();
    let mut told = (1..journal.next_sequence()).filter_map(|sequence| journal.message(sequence));
    assert!(told.any(|message| {
        matches!(message, Message::Certainty(told) if told.flags & Certainty::LOST != 0)
    }));
}

/// The wall clock closed the bar as whole while the hub that had more trades of it was away.
#[test]
fn a_bar_that_closes_while_its_hub_is_away_is_partial() {
    let close = |is_hub: bool| {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut source = publisher(&market, 1, &["A"]);
        if is_hub {
            source.name_venue(CONSOLIDATED, crate::venues::CONSOLIDATED_NAME);
        }
        ask(&market, "A");
        let mut batch = source.begin(START + SECOND);
        batch.message(1, &trade_at(0, 1, 1));
        batch.finish();
        source.lose(START + SECOND);
        let mut clock = crate::bars::BarClock::default();
        clock.turn(&market.bars, 1, START + 9 * SECOND);
        bar(&market, "A")
    };
    assert_eq!(close(true), (1, 1, true, true));
    assert_eq!(close(false), (1, 1, true, false));
}

/// An owner was killed amid a bar, and the wall clock closed it as whole before the loss was known.
#[test]
fn the_wall_clock_closes_a_bar_of_another_hub_once_all_of_it_is_here() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut source = publisher(&market, 1 | REMOTE, &["A"]);
    ask(&market, "A");
    let mut trade = |second| {
        let mut batch = source.begin(START + second * SECOND);
        batch.message(1, &trade_at(0, 1, second));
        batch.finish();
    };
    let mut clock = crate::bars::BarClock::default();
    let mut now_ns = 0;
    let mut closed = |heard_ns: u64, unix_ns: u64| {
        now_ns += SECOND / 4;
        market.bars.heard_until(START + heard_ns);
        clock.turn(&market.bars, now_ns, START + unix_ns);
        let (_, _, is_final, is_partial) = bar(&market, "A");
        (is_final, is_partial)
    };
    trade(1);
    assert_eq!(closed(1_500_000_000, 2_900_000_000), (false, false));
    assert_eq!(closed(2_300_000_000, 2_900_000_000), (true, false));
    trade(3);
    assert_eq!(closed(3_900_000_000, 8_000_000_000), (false, false));
    let wait_is_over = closed(3_900_000_000, 9_300_000_000);
    assert_eq!(wait_is_over, (true, true), "trades may be missing");
    trade(10);
    // The hub is lost, and so none that is waited for.
    source.lose(START + 13 * SECOND);
    market.bars.heard_until(u64::MAX);
    clock.turn(&market.bars, 5 * SECOND / 4, START + 13 * SECOND);
    assert_eq!(bar(&market, "A"), (10, 1, true, true));
}

/// Of several sources that had traded in a bar, only the one with the first trade closed it; and
/// one that had not traded in it did, with its first value.
#[test]
fn each_source_that_has_traded_in_a_bar_closes_it_and_no_other() {
    let market = Market::of_one_lane(MarketConfig::default());
    let sources = [(1, "X"), (2, "Y"), (3, "Z")];
    let mut sources = sources.map(|(number, venue)| {
        let mut source = publisher(&market, number, &["A", "B"]);
        source.name_venue(1, venue);
        source
    });
    let [one, two, three] = &mut sources;
    ask(&market, "A");
    send(one, &[quote_at(0, 1, 0)]);
    send(two, &[quote_at(0, 1, 0)]);
    send(one, &[trade_at(0, 1, 1)]);
    send(two, &[trade_at(0, 1, 1)]);
    send(three, &[quote_at(0, 1, 9), quote_at(1, 1, 9)]);
    assert_eq!(bar(&market, "A"), (1, 2, false, false));
    send(two, &[quote_at(1, 1, 9)]);
    assert_eq!(bar(&market, "A"), (1, 2, true, false));
}

/// A pattern that was older than the topic of a venue got nothing of it, and who asked later got a
/// bar without the trades that the venue had had as the only one.
#[test]
fn the_first_venue_goes_on_with_the_bars_of_its_symbol() {
    let market = Market::of_one_lane(MarketConfig::default());
    let subscriptions = &market.post.subscriptions;
    subscriptions.add(0, Kind::Pattern, b"bar:1s:*");
    market.bars.prepare(b"bar:1s:", false);
    let sources = [(1, "X"), (2, "Y")];
    let mut sources = sources.map(|(number, venue)| {
        let mut source = publisher(&market, number, &["A", "B"]);
        source.name_venue(1, venue);
        source
    });
    let [one, two] = &mut sources;
    send(one, &[trade_at(0, 1, 1), trade_at(0, 1, 1)]);
    send(two, &[trade_at(0, 1, 1)]);
    assert_eq!(bar(&market, "A"), (1, 3, false, false));
    assert_eq!(bar(&market, "A@X"), (1, 2, false, false));
    assert_eq!(bar(&market, "A@Y"), (1, 1, false, false));
    // The first source began the bar, and its clock closes it.
    send(two, &[quote_at(1, 1, 9)]);
    assert_eq!(bar(&market, "A@X"), (1, 2, false, false));
    let mut batch = one.begin(2);
    batch.message(2, &quote_at(1, 1, 9));
    let news = batch.finish();
    assert!(names(&news).contains(&b"bar:1s:A@X".to_vec()), "{news:?}");
    assert_eq!(bar(&market, "A@X"), (1, 2, true, false));
    send(one, &[trade_at(0, 1, 10)]);
    assert_eq!(bar(&market, "A@X"), (10, 1, false, false));
}

/// The bar of the venue began with the trade behind the one that made its topic.
#[test]
fn the_trade_that_makes_a_venues_topic_is_in_its_bar() {
    for asks_symbol in [true, false] {
        let market = Market::of_one_lane(MarketConfig::default());
        let subscriptions = &market.post.subscriptions;
        let pattern: &[u8] = if asks_symbol {
            b"bar:1s:*"
        } else {
            b"bar:1s:A@*"
        };
        subscriptions.add(0, Kind::Pattern, pattern);
        market.bars.prepare(b"bar:1s:", false);
        let mut source = publisher(&market, 1, &["A", "B"]);
        ask(&market, "B");
        source.name_venue(1, "X");
        send(&mut source, &[quote_at(0, 1, 1), trade_at(0, 1, 1)]);
        let board: &dyn tidewire_feed::server::Board = &*market.board;
        assert_eq!(board.find("A@X"), None);
        send(&mut source, &[trade_at(0, 1, 1)]);
        send(&mut source, &[trade_at(0, 1, 1)]);
        // Without bars of the symbol, the trades before are not known one by one.
        let trades = if asks_symbol { 3 } else { 2 };
        assert_eq!(bar(&market, "A@X"), (1, trades, false, !asks_symbol));
    }
}

/// Who subscribed to the bars of the only venue by its name heard nothing, unless also the
/// venue's `md:` topic was subscribed to.
#[test]
fn the_bars_of_a_symbols_only_venue_come_to_who_subscribed_to_them_alone() {
    for (kind, is_late) in [
        (Kind::Channel, false),
        (Kind::Channel, true),
        (Kind::Pattern, true),
    ] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut source = publisher(&market, 1, &["A", "B"]);
        source.name_venue(1, "X");
        if is_late {
            send(&mut source, &[trade_at(0, 1, 1)]);
        }
        let channel = b"bar:1s:A@X";
        market.bars.prepare(channel, kind == Kind::Channel);
        market.seconds.prepare(channel, kind == Kind::Channel);
        market.post.subscriptions.add(0, kind, channel);
        let _ = market.seconds.second(channel);
        let mut batch = source.begin(1);
        batch.message(1, &trade_at(0, 1, 2));
        let news = names(&batch.finish());
        assert!(news.contains(&channel.to_vec()), "{is_late}");
        assert_eq!(bar(&market, "A@X"), (2, 1, false, false), "{is_late}");
        assert!(market.board.named("A@X").is_none());
        let found = market.seconds.find(channel).unwrap();
        assert_eq!(found.channel(), channel, "{is_late}");
    }
}

/// In the recording of a hub that had restarted, the bars of a venue had trades twice: it got its
/// topic with what had come again by then.
#[test]
fn the_bars_of_a_venue_whose_volume_went_back_have_no_trade_twice() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut source = publisher(&market, 1, &["A", "B"]);
    ask(&market, "A");
    send(
        &mut source,
        &[1, 61, 61].map(|second| trade_at(0, 0, second)),
    );
    let record = LastValue {
        last: 1_000_000_000,
        volume: 1,
        source_time_ns: START + SECOND,
        ..LastValue::new(0)
    };
    send(&mut source, &[Message::LastValue(record)]);
    send(&mut source, &[61, 61].map(|second| trade_at(0, 0, second)));
    assert_eq!(bar(&market, "A"), (61, 2, false, false));
    assert_eq!(value_of(&market, "A").volume, 3);
    send(&mut source, &[trade_at(0, 0, 62)]);
    assert_eq!(bar(&market, "A"), (62, 1, false, false));
}

/// Trades of the venue that made a hub's symbol one of several were taken for a repetition where
/// they were before the first venue's newest: bars behind the hub lacked them.
#[test]
fn a_second_venue_of_a_hub_that_is_here_repeats_nothing() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market, "hub");
    ask(&market, "A");
    let at = |source: u16, place_ns: u64| {
        let Message::Trade(trade) = trade_at(0, source, 1) else {
            unreachable!("it is a trade");
        };
        Message::Trade(TradeMessage {
            source_time_ns: trade.source_time_ns + place_ns,
            ..trade
        })
    };
    send(&mut hub, &[at(1, 500)]);
    send(&mut hub, &[at(CONSOLIDATED, 400), at(CONSOLIDATED, 600)]);
    assert_eq!(bar(&market, "A"), (1, 3, false, false));
    // One that is back may send all it has. Of which venue the newest one was is not known.
    restart(&mut hub);
    send(&mut hub, &[at(1, 400), at(1, 600), at(1, 700)]);
    assert_eq!(bar(&market, "A"), (1, 4, false, true));
}

/// A whole value of one venue told its last trade again, as a new one: hubs behind counted it in
/// their bars.
#[test]
fn a_whole_value_of_one_of_several_venues_tells_no_new_trade() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut sources = [(1, "X"), (2, "Y")].map(|(number, venue)| {
        let mut source = publisher(&market, number, &["A"]);
        source.name_venue(1, venue);
        source
    });
    let [one, two] = &mut sources;
    send(one, &[trade_at(0, 1, 1)]);
    send(two, &[trade_at(0, 1, 2)]);
    let record = LastValue {
        source: 1,
        last: 1_000_000_000,
        last_size: 1,
        volume: 1,
        source_time_ns: START + 3 * SECOND,
        ..LastValue::new(0)
    };
    let from = market.journal.lock().next_sequence();
    send(two, &[Message::LastValue(record)]);
    let journal = market.journal.lock();
    let told = (from..journal.next_sequence()).filter_map(|at| journal.message(at));
    let trades: Vec<u32> = told
        .filter_map(|message| match message {
            Message::Trade(trade) => Some(trade.condition & REPEATED),
            _ => None,
        })
        .collect();
    assert_eq!(trades, [] as [u32; 0], "it was told when it came");
}

/// The symbol's last trade went back to an older one, when a venue of another hub began a session:
/// the hub gives the figures in a whole value, which has its last trade again.
#[test]
fn the_last_trade_stays_when_a_whole_value_has_an_older_one_again() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = publisher(&market, 1, &["A"]);
    hub.name_venue(CONSOLIDATED, crate::venues::CONSOLIDATED_NAME);
    let mut own = publisher(&market, 2, &["A"]);
    own.name_venue(1, "X");
    let priced = |source, second, price| match trade_at(0, source, second) {
        Message::Trade(trade) => Message::Trade(TradeMessage { price, ..trade }),
        other => other,
    };
    send(&mut hub, &[priced(CONSOLIDATED, 1, 107)]);
    send(&mut own, &[priced(1, 2, 103)]);
    let whole = |second, volume, trades, last| {
        let figures = tidewire_feed::wire::Figures {
            trades,
            traded_until_ns: START + SECOND,
            ..tidewire_feed::wire::Figures::default()
        };
        Message::LastValue(LastValue {
            source: CONSOLIDATED,
            last,
            last_size: 1,
            volume,
            source_time_ns: START + second * SECOND,
            figures: Some(figures),
            ..LastValue::new(0)
        })
    };
    send(&mut hub, &[whole(3, 0, 0, 107)]);
    let value = value_of(&market, "A");
    assert_eq!((value.last, value.volume), (103, 1));
    // One that has a trade of its own gives it.
    send(&mut hub, &[whole(4, 1, 1, 109)]);
    assert_eq!(value_of(&market, "A").last, 109);
}

/// A bar that was asked for after the hub before had restarted was shown as whole.
#[test]
fn a_bar_is_partial_if_its_interval_had_a_trade_before_the_last_one_or_a_restart() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut source = publisher(&market, 1, &["A", "B"]);
    send(&mut source, &[trade_at(0, 0, 5), trade_at(0, 0, 2)]);
    let nothing = LastValue::new(1);
    send(
        &mut source,
        &[trade_at(1, 0, 5), Message::LastValue(nothing)],
    );
    for (symbol, name) in [(0, "A"), (1, "B")] {
        ask(&market, name);
        let Message::Trade(trade) = trade_at(symbol, 0, 5) else {
            unreachable!("it is a trade");
        };
        let later = TradeMessage {
            source_time_ns: trade.source_time_ns + 1,
            ..trade
        };
        send(&mut source, &[Message::Trade(later)]);
        assert_eq!(bar(&market, name), (5, 1, false, true), "{name}");
    }
}

/// One message of the year 2554 closed all bars of its publisher, and each later trade was late.
#[test]
fn a_time_that_cannot_be_closes_no_bar() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market, 1, &["A", "B"]);
    ask(&market, "A");
    ask(&market, "B");
    let day_ns = 86_400 * SECOND;
    for (number, source_time_ns) in [u64::MAX, 1 << 62, START + 2 * day_ns]
        .into_iter()
        .enumerate()
    {
        let mut batch = ingest.begin(START + 2 * SECOND);
        batch.message(1, &trade_at(0, 0, 1));
        let quote = QuoteMessage {
            symbol: 1,
            source_time_ns,
            bid: 1,
            ask: 2,
            ..QuoteMessage::default()
        };
        let trade = TradeMessage {
            symbol: 1,
            source_time_ns,
            price: 1_000_000_000,
            size: 1,
            ..TradeMessage::default()
        };
        batch.message(2, &Message::Quote(quote));
        batch.message(3, &Message::Trade(trade));
        batch.finish();
        let trades = number as u64 + 1;
        assert_eq!(bar(&market, "A"), (1, trades, false, false));
        let topic = market.board.find(b"B").unwrap();
        let bars = market.bars.bars_of(&topic, Interval::Second);
        assert!(bars.state.lock().shown().is_none(), "it is of no bar");
        let value = market.board.value(topic.number).unwrap();
        assert_eq!((value.volume, value.source_time_ns), (trades, 0));
        assert!(
            market.clocks.total().max_ns > day_ns,
            "the operator sees it"
        );
    }
    send(&mut ingest, &[trade_at(1, 0, 9)]);
    assert_eq!(bar(&market, "A"), (1, 3, true, false));
}

/// A batch closes 512 bars. The others of a source that ended then, or said nothing more, stayed
/// open for good.
#[test]
fn bars_that_are_due_at_the_end_of_a_source_are_closed() {
    const BARS: u64 = 1_500;
    let count_open = |market: &Market| {
        let open = (0..BARS as u32).filter(|&number| {
            let topic = market.board.topic(number).unwrap();
            let bars = market.bars.bars_of(&topic, Interval::Second);
            let shown = bars.state.lock().shown();
            shown.is_some_and(|shown| !shown.is_final)
        });
        open.count()
    };
    for ends in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let names: Vec<String> = (0..BARS).map(|number| format!("S{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut ingest = publisher(&market, 1, &names);
        names.iter().for_each(|name| ask(&market, name));
        let trades = (0..BARS).map(|number| trade_at(number as u32, 0, number / 600));
        let mut messages: Vec<Message> = trades.collect();
        // The last bar of all is open.
        messages.push(trade_at(0, 0, 9));
        send(&mut ingest, &messages);
        assert!(count_open(&market) > 512, "one batch does not close them");
        if ends {
            assert!(ingest.takes_long_to_end());
            ingest.lose_slowly(|_| ());
        }
        let mut slices = 0;
        while ingest.is_sweeping() {
            let before = count_open(&market);
            ingest.sweep(&mut Steps::new(1), 2);
            assert!(before - count_open(&market) <= 512, "other clients wait");
            slices += 1;
        }
        assert!(ends || slices > 1);
        assert_eq!(bar(&market, "S0"), (9, 1, false, false));
        assert_eq!(count_open(&market), 1);
    }
}

/// Two lanes send their news after they have released the journal. That of the second one came
/// first, so a client got the next bar before the end of the last one.
#[test]
fn what_follows_a_bar_that_another_source_has_closed_has_its_end_before_it() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut two = [(1, "XNAS"), (2, "XNYS")].map(|(number, name)| {
        let mut ingest = Ingest::new(market.clone(), number, name);
        ingest.name_venue(number as u16, name);
        define(&mut ingest, &["A"]);
        send(&mut ingest, &[quote_at(0, number as u16, 0)]);
        ingest
    });
    let topic = market.board.find(b"A").unwrap();
    let bars = market.bars.bars_of(&topic, Interval::Second);
    bars.add_interest(0);
    let mut publish = |source: usize, second, receive_time_ns| {
        let mut batch = two[source].begin(receive_time_ns);
        batch.message(1, &trade_at(0, source as u16 + 1, second));
        let (publication, _) = batch.finish();
        let bars = publication
            .news()
            .filter(|news| news.name.starts_with(b"bar:"));
        let bars = bars.map(|news| (news.version, news.is_final));
        bars.collect::<Vec<_>>()
    };
    let mut now_ns = START;
    assert_eq!(publish(0, 1, now_ns), [(1, false)]);
    assert_eq!(publish(1, 2, now_ns), [(2, true), (3, false)]);
    assert_eq!(publish(1, 2, now_ns), [(4, false)], "its own news in order");
    now_ns += 50_000_000;
    assert_eq!(publish(0, 2, now_ns), [(2, true), (5, false)]);
    assert_eq!(publish(0, 3, now_ns), [(6, true), (7, false)], "once");
    now_ns += 200_000_000;
    assert_eq!(publish(1, 3, now_ns), [(8, false)], "it has long arrived");
}

/// Behind two hubs that had restarted, a venue's topic kept the time of its last trade of before:
/// its first bar was whole, without the trade that a record told.
#[test]
fn the_first_bar_of_a_venue_is_partial_if_a_record_of_its_symbol_has_a_trade_of_it() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market, "hub");
    let mut batch = hub.begin(1);
    batch.definition(1, &definition(1, "A@V1"));
    batch.definition(1, &definition(2, "A@V2"));
    batch.finish();
    let trades = [(1, 1), (0, CONSOLIDATED), (2, 2), (0, CONSOLIDATED)];
    let trades = trades.map(|(symbol, source)| trade_at(symbol, source, 1));
    send(&mut hub, &trades);
    restart(&mut hub);
    let mut record = record_at(0, 2, 7, 10);
    record.last *= 2;
    send(&mut hub, &[Message::LastValue(record)]);
    let names = ["A", "A@V2"];
    names.iter().for_each(|name| ask(&market, name));
    send(&mut hub, &[trade_at(0, 2, 10)]);
    for name in names {
        assert_eq!(bar(&market, name), (10, 1, false, true), "{name}");
    }
    send(&mut hub, &[trade_at(0, 2, 11)]);
    for name in names {
        assert_eq!(bar(&market, name), (11, 1, false, false), "{name}");
    }
}
