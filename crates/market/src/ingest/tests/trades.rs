//! Trades of a symbol of several venues: each is one of the symbol, too.

use super::chains::{journal, read_all};
use super::*;
use crate::bars::Interval;
use crate::venues::{CONSOLIDATED, CONSOLIDATED_NAME};

const SECOND: u64 = 1_000_000_000;
const FRIDAY: u32 = 19_700_102;
const MONDAY: u32 = 19_700_105;
const PRICE: i64 = 102_000_000_000;

/// A trade like all others, but for its time.
fn trade_at(second: u64) -> Message {
    Message::Trade(TradeMessage {
        source: 1,
        source_time_ns: second * SECOND,
        price: PRICE,
        size: 10,
        ..TradeMessage::default()
    })
}

fn day_at(second: u64, trading_day: u32) -> Message {
    Message::SessionStart(SessionStart {
        source: 1,
        source_time_ns: second * SECOND,
        trading_day,
        rolls: SessionStart::BEGINS_DAY,
        ..SessionStart::default()
    })
}

fn quote_at(second: u64) -> Message {
    Message::Quote(QuoteMessage {
        source: 1,
        source_time_ns: second * SECOND,
        bid: PRICE,
        ask: 2 * PRICE,
        bid_size: 1,
        ask_size: 1,
        ..QuoteMessage::default()
    })
}

fn stale() -> Message {
    Message::Certainty(Certainty {
        source: 1,
        flags: Figures::STALE,
        ..Certainty::default()
    })
}

/// Returns a hub of which a client reads the bars of a minute of `A`, and the number of `A`.
fn read_hub() -> (Arc<Market>, u32) {
    let market = Market::of_one_lane(MarketConfig::default());
    drop(source(&market, "definer", 0, "A"));
    let topic = market.board.find(b"A").unwrap();
    market.bars.bars_of(&topic, Interval::Minute);
    (market, topic.number)
}

/// Returns volume and trades of the newest bar of `A`.
fn bar(market: &Market) -> (u64, u64) {
    let topic = market.board.find(b"A").unwrap();
    let state = market.bars.bars_of(&topic, Interval::Minute).state.lock();
    let bar = state.shown().unwrap().bar;
    (bar.volume, bar.trades)
}

/// Returns the times of the trades that a hub has told of topic `number`, in seconds.
fn told(market: &Market, number: u32) -> Vec<u64> {
    let messages = journal(market).into_iter();
    let times = messages.filter_map(|message| match message {
        Message::Trade(trade) if trade.symbol == number => Some(trade.source_time_ns / SECOND),
        _ => None,
    });
    times.collect()
}

/// Checks that hub and hub behind have these trades of `A`, each of size 10.
fn check((market, number): (&Market, u32), seconds: &[u64], case: &str) {
    assert_eq!(told(market, number), seconds, "{case}");
    let count = seconds.len() as u64;
    assert_eq!(bar(market), (10 * count, count), "{case}");
    assert_eq!(
        value_of(market, "A").source_time_ns,
        seconds[seconds.len() - 1] * SECOND
    );
    let (behind, behind_number) = read_hub();
    let mut reader = Ingest::new(behind.clone(), 9, "before");
    reader
        .begin(1)
        .venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
    read_all(market, &mut reader);
    assert_eq!(told(&behind, behind_number), seconds, "{case}");
    assert_eq!(bar(&behind), bar(market), "{case}");
    let figures = |market: &Market| {
        let value = value_of(market, "A");
        (value.last, value.volume, value.trades, value.trading_day)
    };
    assert_eq!(figures(&behind), figures(market), "{case}");
}

/// Of five trades at one price and size the hub's own feed had one: those of the venue that is not
/// in the newest trading day change no figure of the symbol.
#[test]
fn equal_trades_of_a_venue_that_is_not_in_the_newest_day_are_all_told_of_the_symbol() {
    for (first_day, case) in [(None, "it names no day"), (Some(FRIDAY), "the other rolls")] {
        let (market, number) = read_hub();
        let mut one = named_source(&market, "one", "V1");
        let mut two = named_source(&market, "two", "V2");
        let day = first_day.unwrap_or(MONDAY);
        send(&mut one, &[day_at(1, day), quote_at(1)]);
        let mut seconds = vec![2, 3];
        match first_day {
            None => send(&mut two, &[trade_at(2), trade_at(3)]),
            Some(day) => {
                send(&mut two, &[day_at(1, day), trade_at(2)]);
                send(&mut one, &[trade_at(3), day_at(4, MONDAY)]);
            }
        }
        for second in 5..9 {
            let topic = market.board.find(b"A").unwrap();
            topic.add_interest(0);
            market.post.subscriptions.add(0, Kind::Channel, b"md:A");
            let mut batch = two.begin(2);
            batch.message(2, &trade_at(second));
            assert!(names(&batch.finish()).contains(&b"md:A".to_vec()), "{case}");
            seconds.push(second);
        }
        check((&market, number), &seconds, case);
    }
}

/// The same, where no venue is connected: the figures of the symbol stay as they were.
#[test]
fn equal_trades_of_a_venue_that_is_stale_at_its_source_are_all_told_of_the_symbol() {
    let (market, number) = read_hub();
    let mut one = named_source(&market, "one", "V1");
    let mut two = named_source(&market, "two", "V2");
    send(&mut two, &[quote_at(1)]);
    send(&mut one, &[trade_at(2), stale()]);
    two.lose(2);
    send(&mut one, &[trade_at(3), trade_at(4), trade_at(5)]);
    check((&market, number), &[2, 3, 4, 5], "stale");
}
