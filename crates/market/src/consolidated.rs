//! The consolidated value of a symbol: one quote and one session of several venues.

use tidewire_feed::wire::TradingState;
use tidewire_lastvalue::{
    FLAG_DOUBT, FLAG_HALTED, FLAG_STALE, FLAGS_DOUBT, FLAGS_STALE, MarketValue, PRICE_UNDEFINED,
    Quote, Reference, Status, Venues,
};

/// The value of one venue of a consolidated symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VenueValue {
    pub(crate) venue: u16,
    /// When the session's open came, as [`crate::topic::Topic::opened`] has it.
    pub(crate) opened: u64,
    pub(crate) value: MarketValue,
}

/// Computes a symbol's value from those of its venues: quote, state, flags, and the figures of the
/// session. Last trade and stamp stay.
///
/// A venue's quote counts while the venue is connected and trades, or may trade: not while it is
/// halted, paused or closed. Of venues with the same price the one with the larger size gives the
/// quote, and of equal ones the one that was there first. Volume, turnover and trades are sums over
/// the venues that are in the newest trading day. Of their opens the one that came first counts.
pub(crate) fn consolidate(value: &mut MarketValue, members: &[VenueValue]) {
    let values = || members.iter().map(|member| &member.value);
    let flags = flags_of(values());
    // When no venue is connected, the last prices stay, and are marked as old.
    if flags & FLAGS_STALE == 0 {
        take_quote(value, members);
        value.status = status_of(values());
    }
    let halted = match value.status.state == TradingState::HALTED.0 {
        true => FLAG_HALTED,
        false => 0,
    };
    value.flags = flags | halted;
    take_session(value, members);
}

fn take_quote(value: &mut MarketValue, members: &[VenueValue]) {
    let mut quote = Quote::EMPTY;
    let mut venues = Venues {
        last: value.venues.last,
        ..Venues::NONE
    };
    let members = members.iter().map(|member| (member.venue, &member.value));
    for (venue, member) in members.filter(|(_, member)| is_open(member)) {
        if is_better(member.bid, member.bid_size, quote.bid, quote.bid_size, true) {
            (quote.bid, quote.bid_size) = (member.bid, member.bid_size);
            (quote.bid_orders, venues.bid) = (member.bid_orders, venue);
        }
        if is_better(
            member.ask,
            member.ask_size,
            quote.ask,
            quote.ask_size,
            false,
        ) {
            (quote.ask, quote.ask_size) = (member.ask, member.ask_size);
            (quote.ask_orders, venues.ask) = (member.ask_orders, venue);
        }
    }
    (value.bid, value.bid_size) = (quote.bid, quote.bid_size);
    (value.ask, value.ask_size) = (quote.ask, quote.ask_size);
    (value.bid_orders, value.ask_orders) = (quote.bid_orders, quote.ask_orders);
    value.venues = venues;
}

/// Computes the figures of the session.
fn take_session(value: &mut MarketValue, members: &[VenueValue]) {
    // A venue that has left says nothing about the day of the others.
    let values = members.iter().map(|member| &member.value);
    let connected = values.filter(|member| member.flags & FLAGS_STALE == 0);
    let days = connected.map(|member| member.trading_day);
    let Some(day) = days.max() else { return };
    value.trading_day = day;
    (value.volume, value.turnover, value.trades) = (0, 0, 0);
    (value.high, value.low) = (PRICE_UNDEFINED, PRICE_UNDEFINED);
    (value.session_open, value.reference) = (PRICE_UNDEFINED, Reference::NONE);
    let mut first_opened = u64::MAX;
    let members = members.iter().map(|member| (member.opened, &member.value));
    for (opened, member) in members.filter(|(_, member)| member.trading_day == day) {
        value.volume = value.volume.saturating_add(member.volume);
        value.turnover = value.turnover.saturating_add(member.turnover);
        value.trades = value.trades.saturating_add(member.trades);
        if member.high != PRICE_UNDEFINED
            && (value.high == PRICE_UNDEFINED || member.high > value.high)
        {
            value.high = member.high;
        }
        value.low = value.low.min(member.low);
        if member.session_open != PRICE_UNDEFINED && opened < first_opened {
            (value.session_open, first_opened) = (member.session_open, opened);
        }
        if value.reference.price == PRICE_UNDEFINED {
            value.reference = member.reference;
        }
    }
}

/// Returns whether a venue's prices can be traded at.
fn is_open(member: &MarketValue) -> bool {
    let state = TradingState(member.status.state);
    let is_shut = [
        TradingState::HALTED,
        TradingState::PAUSED,
        TradingState::CLOSED,
    ]
    .contains(&state);
    member.flags & FLAGS_STALE == 0 && !is_shut
}

fn is_better(price: i64, size: u32, best: i64, best_size: u32, is_bid: bool) -> bool {
    if price == PRICE_UNDEFINED {
        return false;
    }
    if best == PRICE_UNDEFINED {
        return true;
    }
    let beats = if is_bid { price > best } else { price < best };
    beats || price == best && size > best_size
}

/// Returns that all venues are stale, or that a connected one is in doubt.
fn flags_of<'a>(members: impl Iterator<Item = &'a MarketValue>) -> u32 {
    let (mut all_stale, mut any_doubt, mut count) = (true, false, 0_u32);
    for member in members {
        count += 1;
        if member.flags & FLAGS_STALE == 0 {
            all_stale = false;
            any_doubt |= member.flags & FLAGS_DOUBT != 0;
        }
    }
    debug_assert!(count > 0, "a consolidated symbol has a venue");
    match (all_stale, any_doubt) {
        (true, _) => FLAG_STALE,
        (false, true) => FLAG_DOUBT,
        (false, false) => 0,
    }
}

/// Returns the state of the venue that is nearest to open trading.
fn status_of<'a>(members: impl Iterator<Item = &'a MarketValue>) -> Status {
    let connected = members.filter(|member| member.flags & FLAGS_STALE == 0);
    let rank = |status: &Status| match TradingState(status.state) {
        TradingState::OPEN => 6,
        TradingState::AUCTION => 5,
        TradingState::PRE_OPEN => 4,
        TradingState::PAUSED => 2,
        TradingState::HALTED => 1,
        TradingState::CLOSED => 0,
        // A venue that says nothing of its state may well be open.
        _ => 3,
    };
    let best = connected.map(|member| member.status).max_by_key(rank);
    best.unwrap_or_default()
}

/// Whether a quote's sides meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crossing {
    /// The bid is below the ask, or a side is empty.
    None,
    /// Bid and ask are equal.
    Locked,
    /// The bid is above the ask.
    Crossed,
}

impl Crossing {
    pub(crate) fn of(value: &MarketValue) -> Self {
        if value.bid == PRICE_UNDEFINED || value.ask == PRICE_UNDEFINED {
            return Self::None;
        }
        match value.bid.cmp(&value.ask) {
            std::cmp::Ordering::Less => Self::None,
            std::cmp::Ordering::Equal => Self::Locked,
            std::cmp::Ordering::Greater => Self::Crossed,
        }
    }

    /// Returns the name as clients see it; empty for none.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Locked => "locked",
            Self::Crossed => "crossed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quoted(bid: i64, bid_size: u32, ask: i64, ask_size: u32) -> MarketValue {
        MarketValue {
            bid,
            ask,
            bid_size,
            ask_size,
            ..MarketValue::EMPTY
        }
    }

    fn of(members: &[(u16, MarketValue)]) -> MarketValue {
        let mut value = MarketValue {
            bid: 1,
            ask: 9,
            ..MarketValue::EMPTY
        };
        consolidate(&mut value, &in_order(members));
        value
    }

    /// Venues whose opens came in this order.
    fn in_order(members: &[(u16, MarketValue)]) -> Vec<VenueValue> {
        let members = (1..).zip(members);
        let values = members.map(|(opened, &(venue, value))| VenueValue {
            venue,
            opened,
            value,
        });
        values.collect()
    }

    #[test]
    fn each_side_is_of_the_venue_with_the_best_price() {
        let value = of(&[(2, quoted(10, 5, 20, 6)), (3, quoted(11, 7, 21, 8))]);
        assert_eq!((value.bid, value.bid_size, value.venues.bid), (11, 7, 3));
        assert_eq!((value.ask, value.ask_size, value.venues.ask), (20, 6, 2));
        let value = of(&[(2, quoted(10, 5, 20, 6)), (3, quoted(10, 9, 20, 6))]);
        assert_eq!(value.venues.bid, 3, "the larger size at one price");
        assert_eq!(value.venues.ask, 2, "the first of equal ones");
    }

    #[test]
    fn a_venue_that_is_shut_or_gone_gives_no_price() {
        let status = |state: TradingState| Status {
            state: state.0,
            reason: 0,
        };
        for state in [
            TradingState::HALTED,
            TradingState::PAUSED,
            TradingState::CLOSED,
        ] {
            let mut best = quoted(15, 1, 16, 1);
            best.status = status(state);
            let value = of(&[(2, best), (3, quoted(10, 1, 20, 1))]);
            assert_eq!((value.bid, value.ask), (10, 20), "{state:?}");
        }
        let mut gone = quoted(15, 1, 16, 1);
        gone.flags = FLAG_STALE;
        let value = of(&[(2, gone), (3, quoted(10, 1, 20, 1))]);
        assert_eq!((value.bid, value.ask, value.flags), (10, 20, 0));
        let value = of(&[(2, gone)]);
        assert_eq!((value.bid, value.ask), (1, 9), "the last prices stay");
        assert_eq!(value.flags, FLAG_STALE);
    }

    #[test]
    fn one_open_venue_keeps_the_symbol_open() {
        let mut halted = quoted(1, 1, 2, 1);
        halted.status.state = TradingState::HALTED.0;
        let mut open = quoted(1, 1, 2, 1);
        open.status.state = TradingState::OPEN.0;
        let value = of(&[(2, halted), (3, open)]);
        assert_eq!((value.status.state, value.flags), (TradingState::OPEN.0, 0));
        let value = of(&[(2, halted), (3, halted)]);
        assert_eq!(value.flags, FLAG_HALTED);
    }

    #[test]
    fn the_sessions_of_the_newest_day_are_added() {
        let traded = |day: u32, volume: u64, open: i64| MarketValue {
            trading_day: day,
            volume,
            turnover: i128::from(open) * i128::from(volume),
            trades: 1,
            session_open: open,
            high: open,
            low: open,
            ..MarketValue::EMPTY
        };
        let value = of(&[(2, traded(1, 10, 5)), (3, traded(1, 20, 7))]);
        assert_eq!((value.volume, value.trades, value.turnover), (30, 2, 190));
        assert_eq!((value.session_open, value.high, value.low), (5, 7, 5));
        let mut value = value;
        let members = [(2, traded(1, 10, 5)), (3, traded(2, 1, 9))];
        consolidate(&mut value, &in_order(&members));
        assert_eq!((value.volume, value.trades, value.session_open), (1, 1, 9));
        assert_eq!((value.high, value.low, value.trading_day), (9, 9, 2));
        let mut members = in_order(&[(2, traded(2, 1, 5)), (3, traded(2, 1, 7))]);
        members[0].opened = 3;
        consolidate(&mut value, &members);
        assert_eq!(value.session_open, 7, "the first in time, not in the list");
    }

    #[test]
    fn locked_and_crossed_books_are_named() {
        assert_eq!(Crossing::of(&quoted(1, 1, 2, 1)).name(), "");
        assert_eq!(Crossing::of(&quoted(2, 1, 2, 1)).name(), "locked");
        assert_eq!(Crossing::of(&quoted(3, 1, 2, 1)).name(), "crossed");
        let one_sided = quoted(3, 1, PRICE_UNDEFINED, 0);
        assert_eq!(Crossing::of(&one_sided), Crossing::None);
    }

    proptest! {
        #[test]
        fn the_best_prices_are_the_largest_bid_and_the_smallest_ask(
            quotes in prop::collection::vec(
                (prop::option::of(0..50_i64), 1..9_u32, prop::option::of(0..50_i64), 1..9_u32),
                1..6,
            ),
        ) {
            let price = |price: Option<i64>| price.unwrap_or(PRICE_UNDEFINED);
            let members: Vec<(u16, MarketValue)> = (1..).zip(&quotes).map(|(venue, q)| {
                (venue, quoted(price(q.0), q.1, price(q.2), q.3))
            }).collect();
            let value = of(&members);
            let bid = quotes.iter().filter_map(|q| q.0).max();
            let ask = quotes.iter().filter_map(|q| q.2).min();
            prop_assert_eq!((value.bid, value.ask), (price(bid), price(ask)));
            let sizes = quotes.iter().filter(|q| q.0 == bid && bid.is_some()).map(|q| q.1);
            prop_assert_eq!(value.bid_size, sizes.max().unwrap_or(0));
        }
    }
}
