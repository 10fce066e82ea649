//! The content of a snapshot by price: a book, and the figures of the session.

use tidewire_feed::wire::TradingState;

use crate::channel::clamp;
use crate::instrument::{Details, Instrument};
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
    let others = entries.filter(|entry| {
        let level = PriceLevel {
            price: entry.price.unwrap_or(PriceLevel::NONE.price),
            size: clamp(entry.size),
            orders: entry.orders,
        };
        !book.set(entry.kind, entry.number, level)
    });
    fill_figures(details, head, others);
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
        return; // of the session before
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
    match keep_statistics {
        true => {
            (statistics.open, statistics.indicative_open) = (old.open, old.indicative_open);
            (statistics.high, statistics.low) = (old.high, old.low);
            (session.open, session.high, session.low) =
                (old_session.open, old_session.high, old_session.low);
        }
        false => {
            (statistics.open, statistics.indicative_open) = (None, None);
            (statistics.high, statistics.low) = (None, None);
            (session.open, session.high, session.low) = (None, None, None);
        }
    }
    for entry in entries {
        match MDEntryType(entry.kind) {
            MDEntryType::TRADE if !keep_trades => {
                statistics.last = entry.price.map(|price| (price, clamp(entry.size)));
            }
            MDEntryType::ELECTRONIC_VOLUME if !keep_trades => statistics.volume = entry.size,
            MDEntryType::OPEN_PRICE if !keep_statistics => match entry.open_flag {
                Some(OpenCloseSettlFlag::INDICATIVE_OPENING_PRICE) => {
                    statistics.indicative_open = entry.price;
                }
                _ => (statistics.open, session.open) = (entry.price, entry.price),
            },
            MDEntryType::SETTLEMENT_PRICE if !keep_statistics => {
                statistics.settlement = entry.price;
                let known = statistics.reference.filter(|_| !is_new_session);
                statistics.reference = known.or(entry.price);
            }
            MDEntryType::TRADING_SESSION_HIGH_PRICE if !keep_statistics => {
                (statistics.high, session.high) = (entry.price, entry.price);
            }
            MDEntryType::TRADING_SESSION_LOW_PRICE if !keep_statistics => {
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
    if keep_trades && let Some((price, _)) = statistics.last {
        // A trade after the snapshot, which has not the exchange's statistics yet.
        session.include(price);
    }
    session.forget_trades_beyond(statistics.volume);
}
