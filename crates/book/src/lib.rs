//! Order books: orders in, best prices out. Arithmetic only, without wire formats or venues.
//!
//! [`Orders`] stores orders by number, [`Sides`] their totals by price. The state machine of each
//! venue drives both by its own rules.

#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

use thiserror::Error;

#[allow(unsafe_code, reason = "prefetching is an intrinsic function")]
mod cache_line;
pub use cache_line::prefetch;

mod levels;
pub use levels::{Level, LevelChange, Levels};

mod orders;
pub use orders::{CacheLine, Order, Orders, Record, WideRecord};

pub mod shown;

mod sides;
pub use sides::Sides;

/// Limits of a book's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BookLimits {
    /// Maximum orders: 24 bytes each, in a table that is 3/8 to 3/4 full.
    pub orders_max: usize,
    /// Maximum price levels per side: 512 bytes for those near the best price, 24 bytes for each
    /// of the others.
    pub levels_max: usize,
}

impl Default for BookLimits {
    /// Returns a million orders and 65,536 levels per side: ten times the busiest known books.
    fn default() -> Self {
        Self {
            orders_max: 1_000_000,
            levels_max: 65_536,
        }
    }
}

/// Why a record could not be applied. The book is unchanged and usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BookError {
    /// A cancel of an order that is not in the book.
    #[error("the order is not in the book")]
    UnknownOrder,
    /// An order without a side.
    #[error("the order has no side")]
    NoSide,
    /// An order without a price.
    #[error("the order has no price")]
    NoPrice,
    /// An action that DBN does not define.
    #[error("unknown action")]
    UnknownAction,
    /// The book has [`BookLimits::orders_max`] orders.
    #[error("the book is full of orders")]
    OrdersFull,
    /// The side has [`BookLimits::levels_max`] levels.
    #[error("the book is full of price levels")]
    LevelsFull,
}

/// The best level of both sides. An empty side has the undefined price and size 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BidAsk {
    /// Bid price.
    pub bid: i64,
    /// Ask price.
    pub ask: i64,
    /// Bid size.
    pub bid_size: u32,
    /// Ask size.
    pub ask_size: u32,
    /// Number of bid orders; 0 if unknown.
    pub bid_orders: u32,
    /// Number of ask orders; 0 if unknown.
    pub ask_orders: u32,
}

impl BidAsk {
    /// No price on either side.
    pub const EMPTY: Self = Self {
        bid: UNDEFINED_PRICE,
        ask: UNDEFINED_PRICE,
        bid_size: 0,
        ask_size: 0,
        bid_orders: 0,
        ask_orders: 0,
    };
}

/// "No price": the same value as in the native feed and in DBN.
pub const UNDEFINED_PRICE: i64 = i64::MAX;
