//! The content of a snapshot by price: a book, and the figures of the session.

use tidewire_feed::wire::TradingState;

use crate::channel::clamp;
use crate::details::Details;
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
    fill_figures(details, head, others.into_iter());
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
/// empty.
pub(crate) fn fill_figures(
    details: &mut Details,
    head: &SnapshotHead,
    entries: impl Iterator<Item = SnapshotEntry>,
) {
    details.time_ns = details.time_ns.max(head.time_ns);
    (details.statistics.high_limit, details.statistics.low_limit) = head.limits;
    if head.as_of < details.session_from {
        return end_with(details, head, entries);
    }
    let keep_trades = details.trades_at > head.as_of;
    let keep_statistics = details.statistics_at > head.as_of;
    let (old, old_session) = (details.statistics, details.session);
    let date = details.trade_date.max(head.trade_date);
    let old_date = std::mem::replace(&mut details.trade_date, date);
    let is_new_session = old_date.is_some() && old_date != date;
    if is_new_session {
        details.begin_session(head.as_of);
    }
    let (statistics, session) = (&mut details.statistics, &mut details.session);
    if keep_trades {
        statistics.volume = old.volume;
    } else {
        statistics.volume = 0;
    }
    let [keep_open, keep_high, keep_low] = details.range_at.map(|at| at > head.as_of);
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
    if keep_trades && !is_new_session {
        // Trades after the snapshot, which has not their prices. What the exchange has said after
        // it has them.
        let (open, high, low) = (old_session.open, old_session.high, old_session.low);
        session.open = session.open.or(open.filter(|_| !keep_open));
        if !keep_high {
            session.high = session.high.max(high);
        }
        if !keep_low {
            session.low = [session.low, low].into_iter().flatten().min();
        }
    } else if keep_trades && let Some((price, _)) = statistics.last {
        session.include(price);
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
        details.range_at = [0, 11, 0];
        (details.statistics.high, details.session.high) = (Some(82), Some(82));
        let entries = [
            entry(MDEntryType::OPEN_PRICE, 81, None),
            entry(MDEntryType::TRADING_SESSION_HIGH_PRICE, 81, None),
            entry(MDEntryType::TRADING_SESSION_LOW_PRICE, 81, None),
        ];
        fill_figures(&mut details, &head(), entries.into_iter());
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
        fill_figures(&mut falling, &head(), entries.into_iter());
        let session = &falling.session;
        assert_eq!(
            (session.open, session.high, session.low),
            (Some(81), Some(81), Some(80))
        );
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
            fill_figures(&mut details, &head(), [settlement].into_iter());
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
