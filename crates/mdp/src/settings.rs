//! Settings and counters of a channel.

use crate::orders::OrderLimits;

/// Settings of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelConfig {
    /// Value of `source` in the output.
    pub source: u16,
    /// Number of the first instrument in the output; the others follow.
    pub symbol_first: u32,
    /// Maximum number of instruments, about 800 bytes each.
    pub instruments_max: usize,
    /// Whether books by order are kept too.
    pub order_books: bool,
    /// Limits of each book by order.
    pub order_limits: OrderLimits,
}

impl Default for ChannelConfig {
    /// Returns 262,144 instruments, and books by price only.
    fn default() -> Self {
        Self {
            source: 0,
            symbol_first: 0,
            instruments_max: 1 << 18,
            order_books: false,
            order_limits: OrderLimits {
                orders_max: 1_000_000,
                levels_max: 65_536,
            },
        }
    }
}

/// Counts of messages, entries and output; every field only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Messages of known templates.
    pub messages: u64,
    /// Messages of other templates and schemas, skipped by their size.
    pub unknown: u64,
    /// Messages with invalid lengths, and rests of packets with an invalid size.
    pub malformed: u64,
    /// Entries of incremental refreshes: levels, trades, volumes, statistics, limits, orders.
    pub entries: u64,
    /// Entries with a number that the instrument's own sequence has passed, and changes of orders
    /// that a snapshot had.
    pub old: u64,
    /// Entries that waited for a snapshot.
    pub queued: u64,
    /// Entries that contradicted the book.
    pub contradictions: u64,
    /// Holes in an instrument's own sequence.
    pub instrument_gaps: u64,
    /// Instruments that a snapshot made right again.
    pub recoveries: u64,
    /// Times at which a loop of snapshots was ahead of the incremental feed, which had stopped.
    pub standstills: u64,
    /// Changes of unknown orders.
    pub unknown_orders: u64,
    /// Orders and instruments that exceed a limit.
    pub refused: u64,
    /// Corrections and cancellations of trades, which change no value.
    pub trade_corrections: u64,
    /// Channel resets.
    pub resets: u64,
    /// Quotes published.
    pub quotes: u64,
    /// Trades published.
    pub trades: u64,
    /// Trading states published.
    pub statuses: u64,
    /// Definitions published.
    pub definitions: u64,
}
