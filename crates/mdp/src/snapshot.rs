//! The content of a snapshot by price: a book, and the figures of the session.

use tidewire_feed::wire::TradingState;

use crate::channel::clamp;
use crate::details::Details;
use crate::figures::Session;
use crate::instrument::Instrument;
use crate::levels::{Contradiction, PriceLevel};
use crate::schema::{MDEntryType, OpenCloseSettlFlag, SecurityTradingStatus};

/// A snapshot without its entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotHead {
    pub(crate) security_id: i32,
    pub(crate) as_of: u64,
    pub(crate) rpt_seq: u32,
    pub(crate) time_ns: u64,
    pub(crate) status: Option<SecurityTradingStatus>,
    pub(crate) trade_date: Option<u16>,
    pub(crate) limits: (Option<i64>, Option<i64>),
}

/// An entry of a snapshot of any template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotEntry {
    pub(crate) kind: u8,
    pub(crate) price: Option<i64>,
    pub(crate) size: u64,
    pub(crate) orders: u32,
    pub(crate) number: u8,
    pub(crate) open_flag: Option<OpenCloseSettlFlag>,
    /// Trading day of a settlement, days since the UNIX epoch.
    pub(crate) reference_date: Option<u16>,
}

/// Replaces the book and the figures of an instrument.
///
/// # Errors
/// The book has a level without the one before it, or levels out of order.
pub(crate) fn fill(
    instrument: &mut Instrument,
    head: &SnapshotHead,
    entries: impl Iterator<Item = SnapshotEntry>,
    known_from: u64,
) -> Result<(), Contradiction> {
    let Instrument {
        book,
        details,
        is_state_doubtful,
        ..
    } = instrument;
    book.clear();
    let mut others = Vec::new();
    for entry in entries {
        let level = PriceLevel {
            price: entry.price.unwrap_or(PriceLevel::NONE.price),
            size: clamp(entry.size),
            orders: entry.orders,
        };
        if !book.set(entry.kind, entry.number, level) {
            others.push(entry);
        }
    }
    fill_figures(details, head, others.into_iter(), known_from);
    if !book.is_in_order() {
        return Err(Contradiction);
    }
    // A state that is not in doubt may be newer than the snapshot.
    if std::mem::take(is_state_doubtful) {
        let state = head.status.and_then(crate::reference::trading_state);
        let state = state.unwrap_or(TradingState::UNKNOWN);
        if std::mem::replace(&mut details.trading_state, state) != state {
            details.halt_reason = 0;
        }
    }
    Ok(())
}

/// Takes from a snapshot of the session before what outlives it: the last trade, and the settlement
/// of its day as the reference.
fn end_with(
    details: &mut Details,
    head: &SnapshotHead,
    entries: impl Iterator<Item = SnapshotEntry>,
) {
    let keep_trades = details.trades_at > head.as_of;
    let keep_statistics = details.statistics_at > head.as_of;
    let statistics = &mut details.statistics;
    for entry in entries {
        let is_of_its_day = entry
            .reference_date
            .is_some_and(|date| Some(date) == head.trade_date);
        match MDEntryType(entry.kind) {
            MDEntryType::TRADE if !keep_trades => {
                statistics.last = entry.price.map(|price| (price, clamp(entry.size)));
            }
            MDEntryType::SETTLEMENT_PRICE if !keep_statistics && is_of_its_day => {
                statistics.reference = entry.price;
            }
            _ => {}
        }
    }
}

/// Replaces trade date and figures, unless entries or a status after the snapshot have set them. A
/// later trade date begins a session. A figure of the session that the snapshot does not have is
/// empty. `known_from` is the first packet after the last loss.
pub(crate) fn fill_figures(
    details: &mut Details,
    head: &SnapshotHead,
    entries: impl Iterator<Item = SnapshotEntry>,
    known_from: u64,
) {
    details.time_ns = details.time_ns.max(head.time_ns);
    (details.statistics.high_limit, details.statistics.low_limit) = head.limits;
    if head.as_of < details.session_from {
        return end_with(details, head, entries);
    }
    let keep_trades = details.trades_at > head.as_of;
    let keep_statistics = details.statistics_at > head.as_of;
    let (old, old_session, since) = (
        details.statistics,
        details.session,
        *details.since(known_from),
    );
    let date = details.trade_date.max(head.trade_date);
    let known_date = std::mem::replace(&mut details.trade_date, date);
    let old_date = details.torn_date.take().or(known_date);
    let is_new_session = old_date.is_some() && old_date != date;
    if is_new_session {
        details.begin_session(head.as_of);
        // A lost status began it, so that all trades since are its own.
        details.session = Session {
            condition: old_session.condition,
            ..since
        };
    }
    let (statistics, session) = (&mut details.statistics, &mut details.session);
    statistics.volume = if keep_trades { old.volume } else { 0 };
    let [keep_open, keep_high, keep_low] = details.range_at.map(|at| at > head.as_of);
    // What the exchange has said after the snapshot, and the trades behind it.
    (statistics.open, session.open) = (old.open, old_session.open);
    (statistics.high, session.high) = (old.high, old_session.high);
    (statistics.low, session.low) = (old.low, old_session.low);
    if !keep_statistics {
        statistics.indicative_open = None;
    }
    if !keep_open {
        (statistics.open, session.open) = (None, None);
    }
    if !keep_high {
        (statistics.high, session.high) = (None, None);
    }
    if !keep_low {
        (statistics.low, session.low) = (None, None);
    }
    for entry in entries {
        match MDEntryType(entry.kind) {
            MDEntryType::TRADE if !keep_trades => {
                statistics.last = entry.price.map(|price| (price, clamp(entry.size)));
            }
            MDEntryType::ELECTRONIC_VOLUME if !keep_trades => statistics.volume = entry.size,
            MDEntryType::OPEN_PRICE => match entry.open_flag {
                Some(OpenCloseSettlFlag::INDICATIVE_OPENING_PRICE) if !keep_statistics => {
                    statistics.indicative_open = entry.price;
                }
                Some(OpenCloseSettlFlag::INDICATIVE_OPENING_PRICE) => {}
                _ if keep_open => {}
                _ => (statistics.open, session.open) = (entry.price, entry.price),
            },
            MDEntryType::SETTLEMENT_PRICE if !keep_statistics => {
                statistics.settlement = entry.price;
                let known = statistics.reference.filter(|_| !is_new_session);
                // That of the day itself is the reference of the next one.
                let is_of_today = date.is_some() && entry.reference_date == date;
                statistics.reference = known.or(entry.price.filter(|_| !is_of_today));
            }
            MDEntryType::TRADING_SESSION_HIGH_PRICE if !keep_high => {
                (statistics.high, session.high) = (entry.price, entry.price);
            }
            MDEntryType::TRADING_SESSION_LOW_PRICE if !keep_low => {
                (statistics.low, session.low) = (entry.price, entry.price);
            }
            MDEntryType::CLEARED_VOLUME if !keep_statistics => {
                statistics.cleared_volume = Some(entry.size);
            }
            MDEntryType::OPEN_INTEREST if !keep_statistics => {
                statistics.open_interest = Some(entry.size);
            }
            _ => {}
        }
    }
    if keep_trades {
        // Trades after the snapshot, which has not their prices.
        if !keep_open {
            session.open = session.open.or(since.open);
        }
        if !keep_high {
            session.high = session.high.max(since.high);
        }
        if !keep_low {
            session.low = [session.low, since.low].into_iter().flatten().min();
        }
    }
    session.forget_trades_beyond(statistics.volume);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: MDEntryType, price: i64, reference_date: Option<u16>) -> SnapshotEntry {
        SnapshotEntry {
            kind: kind.0,
            price: Some(price),
            size: 3,
            orders: 0,
            number: 0,
            open_flag: None,
            reference_date,
        }
    }

    fn head() -> SnapshotHead {
        SnapshotHead {
            security_id: 1,
            as_of: 10,
            rpt_seq: 1,
            time_ns: 1,
            status: None,
            trade_date: Some(20_000),
            limits: (None, None),
        }
    }

    /// Open, high and low of the snapshot were left out if a trade had come behind it.
    #[test]
    fn a_trade_behind_a_snapshot_is_added_to_its_open_high_and_low() {
        let mut details = Details {
            trades_at: 11,
            statistics_at: 11,
            ..Details::default()
        };
        details.session.add(82, 4);
        details.since(5).add(82, 4);
        details.range_at = [0, 11, 0];
        (details.statistics.high, details.session.high) = (Some(82), Some(82));
        let entries = [
            entry(MDEntryType::OPEN_PRICE, 81, None),
            entry(MDEntryType::TRADING_SESSION_HIGH_PRICE, 81, None),
            entry(MDEntryType::TRADING_SESSION_LOW_PRICE, 81, None),
        ];
        fill_figures(&mut details, &head(), entries.into_iter(), 5);
        let session = &details.session;
        assert_eq!(
            (session.open, session.high, session.low),
            (Some(81), Some(82), Some(81))
        );
        let mut falling = Details {
            trades_at: 11,
            ..Details::default()
        };
        falling.session.add(80, 1);
        falling.since(5).add(80, 1);
        fill_figures(&mut falling, &head(), entries.into_iter(), 5);
        let session = &falling.session;
        assert_eq!(
            (session.open, session.high, session.low),
            (Some(81), Some(81), Some(80))
        );
    }

    /// Open and high were those of the last trade: the exchange had given its own behind the
    /// snapshot.
    #[test]
    fn a_new_session_keeps_what_the_exchange_has_said_behind_its_snapshot() {
        let mut details = Details {
            trade_date: Some(19_999),
            trades_at: 12,
            statistics_at: 12,
            range_at: [11, 11, 12],
            ..Details::default()
        };
        for price in [95, 60] {
            details.session.add(price, 2);
            details.since(5).add(price, 2);
        }
        details.statistics.volume = 4;
        (details.session.open, details.session.high) = (Some(95), Some(95));
        details.session.low = Some(60);
        details.statistics.open = Some(95);
        fill_figures(&mut details, &head(), [].into_iter(), 5);
        let (statistics, session) = (&details.statistics, &details.session);
        assert_eq!((session.open, statistics.open), (Some(95), Some(95)));
        assert_eq!((session.high, session.low), (Some(95), Some(60)));
        assert_eq!((session.trades, statistics.volume), (2, 4));
    }

    /// A settlement of the day itself became the reference if the definition came later.
    #[test]
    fn a_settlement_of_the_day_is_no_reference_of_that_day() {
        for (date, reference) in [
            (Some(20_000), None),
            (Some(19_999), Some(79)),
            (None, Some(79)),
        ] {
            let mut details = Details::default();
            let settlement = entry(MDEntryType::SETTLEMENT_PRICE, 79, date);
            fill_figures(&mut details, &head(), [settlement].into_iter(), 5);
            assert_eq!(details.statistics.reference, reference);
            assert_eq!(details.statistics.settlement, Some(79));
        }
    }

    #[test]
    fn a_new_session_keeps_the_side_of_the_last_trade() {
        let mut details = Details::default();
        details.session.condition = 7;
        details.session.add(80, 1);
        details.begin_session(5);
        assert_eq!((details.session.condition, details.session.open), (7, None));
    }
}
