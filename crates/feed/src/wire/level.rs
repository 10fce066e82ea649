//! Price levels of a book.

use super::MessageKind;
use super::bytes::{Field, u16_at, u32_at, u64_at};
use super::message::{layout, prefix};

/// The new total of one price level, or the end of a book's contents: 48 bytes.
///
/// A level replaces what was known of its price and side. Size 0 removes it. A book begins with a
/// clear of both sides; levels before that say nothing about the rest of the book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The symbol's id.
    pub symbol: u32,
    /// Venue or publisher number.
    pub source: u16,
    /// Time of the event at the source, nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// Price, 1 unit = 1e-9; ignored unless `action` is [`Level::SET`].
    pub price: i64,
    /// Total quantity at this price; 0 if no order is left.
    pub size: u32,
    /// Number of orders at this price; 0 if unknown.
    pub orders: u32,
    /// [`Level::BID`], [`Level::ASK`], or 0 for both in a clear.
    pub side: u8,
    /// [`Level::SET`], [`Level::CLEAR`] or [`Level::END`].
    pub action: u8,
    /// 1 if this is the event's last level: the book is consistent after it.
    pub is_last: u8,
    /// Number of levels on each side that the sender shows, from the best; 0 for all.
    pub depth: u16,
}

impl Level {
    /// Side: bids.
    pub const BID: u8 = 1;
    /// Side: asks.
    pub const ASK: u8 = 2;
    /// Action: `size` and `orders` are the level's totals.
    pub const SET: u8 = 0;
    /// Action: the side, or both sides, are empty now.
    pub const CLEAR: u8 = 1;
    /// Action: the sender gives this book's levels no longer; nothing is known of it.
    pub const END: u8 = 2;
}

layout!(Level: 48, MessageKind::LEVEL, {
    price: 16,
    size: 24,
    orders: 28,
    side: 32,
    action: 33,
    is_last: 34,
    depth: 36,
});
