//! The content of a snapshot by price: a book, and the figures of the session.

use crate::channel::clamp;
use crate::day::{Settlement, SnapshotFigures};
use crate::instrument::PriceBook;
use crate::levels::{Contradiction, PriceLevel};
use crate::schema::{MDEntryType, OpenCloseSettlFlag, SecurityTradingStatus, SettlPriceType};

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
    pub(crate) settlement_type: SettlPriceType,
}

/// Replaces a book, if one is given, and returns the figures.
///
/// # Errors
/// The book has a level without the one before it, or levels out of order. It is empty then.
pub(crate) fn read(
    mut book: Option<&mut PriceBook>,
    head: &SnapshotHead,
    entries: impl Iterator<Item = SnapshotEntry>,
) -> Result<SnapshotFigures, Contradiction> {
    let mut figures = SnapshotFigures {
        trade_date: head.trade_date,
        limits: Some(head.limits),
        ..SnapshotFigures::default()
    };
    if let Some(book) = &mut book {
        book.clear();
    }
    for entry in entries {
        let level = PriceLevel {
            price: entry.price.unwrap_or(PriceLevel::NONE.price),
            size: clamp(entry.size),
            orders: entry.orders,
        };
        let is_level = book
            .as_mut()
            .is_some_and(|book| book.set(entry.kind, entry.number, level));
        if !is_level {
            take(&mut figures, &entry);
        }
    }
    match book {
        Some(book) if !book.is_in_order() => {
            book.clear();
            Err(Contradiction)
        }
        _ => Ok(figures),
    }
}

fn take(figures: &mut SnapshotFigures, entry: &SnapshotEntry) {
    match MDEntryType(entry.kind) {
        MDEntryType::TRADE => {
            figures.last = entry.price.map(|price| (price, clamp(entry.size)));
        }
        MDEntryType::ELECTRONIC_VOLUME => figures.volume = entry.size,
        MDEntryType::OPEN_PRICE => match entry.open_flag {
            Some(OpenCloseSettlFlag::INDICATIVE_OPENING_PRICE) => {
                figures.indicative_open = entry.price;
            }
            _ => figures.open = entry.price,
        },
        // An intraday settlement is no settlement of the session.
        MDEntryType::SETTLEMENT_PRICE if !is_intraday(entry.settlement_type) => {
            figures.settlement = entry.price.map(|price| Settlement {
                price,
                date: entry.reference_date,
            });
        }
        MDEntryType::TRADING_SESSION_HIGH_PRICE => figures.high = entry.price,
        MDEntryType::TRADING_SESSION_LOW_PRICE => figures.low = entry.price,
        MDEntryType::CLEARED_VOLUME => figures.cleared_volume = Some(entry.size),
        MDEntryType::OPEN_INTEREST => figures.open_interest = Some(entry.size),
        _ => {}
    }
}

/// Returns whether a settlement is one within the session. All bits are set if no type is given.
pub(crate) fn is_intraday(settlement_type: SettlPriceType) -> bool {
    settlement_type.contains(SettlPriceType::INTRADAY)
        && !settlement_type.contains(SettlPriceType::NULL_VALUE)
}
