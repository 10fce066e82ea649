//! The values a market publishes: quotes and trades.

use super::{Quote, Trade};

/// One value to publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// The best bid and ask of a book.
    Quote(Quote),
    /// A trade.
    Trade(Trade),
}

/// Bit of [`Trade::condition`]: the buyer was the aggressor.
pub const AGGRESSOR_BUY: u32 = 1;
/// Bit of [`Trade::condition`]: the seller was the aggressor.
pub const AGGRESSOR_SELL: u32 = 2;
/// Bit of [`Trade::condition`]: a trade of an auction.
pub const CROSS: u32 = 4;
/// Bit of [`Trade::condition`]: a trade against a hidden order.
pub const NOT_SHOWN: u32 = 8;
/// Bit of [`Trade::condition`]: a hub has had the trade before, and gets it again. It is in no bar
/// a second time.
pub const REPEATED: u32 = 1 << 31;
