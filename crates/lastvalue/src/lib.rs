//! The last-value cache of market data and plant tags, and the instruments that watch it.
//!
//! One [`MarketSlot`] holds the newest state of one symbol: quote, last trade and the session's
//! figures, in three cache lines. It has one writer and any number of readers. A reader never makes
//! the writer wait: it copies, checks that nothing changed meanwhile, and tries again if it did (a
//! *seqlock*). All words are atomics, so there is no data race in the language's memory model; the
//! protocol is modelled under loom in `tests/loom.rs`. The crate has no `unsafe`. A [`TagSlot`] is
//! the same for a plant tag, whose value may be of any type and length.
//!
//! Beside the slots: [`SymbolTable`], from a name to its slot without a lock; [`BlockPool`], blocks
//! of memory that threads use again; [`LatencyTracker`], latencies by thread, merged on reading.
//!
//! ```
//! use std::sync::Arc;
//! use tidewire_lastvalue::{Quote, SlotTable, Stamp};
//!
//! let table = Arc::new(SlotTable::new(1_000));
//! let index = table.push()?;
//! let mut writer = table.writer(7);
//! writer.claim(index)?;
//! writer.slot(index).expect("claimed above").update_quote(
//!     Quote { bid: 100_250_000_000, ask: 100_500_000_000, ..Quote::EMPTY },
//!     Stamp { source_time_ns: 1_000, receive_time_ns: 1_200, sequence: 1 },
//! );
//! let value = table.slot(index).expect("pushed above").snapshot();
//! assert_eq!(value.bid, 100_250_000_000); // 100.25 in units of 1e-9
//! assert_eq!(value.updates, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod slot;
pub use slot::MarketSlot;

mod numbers;
pub use numbers::NumberSet;

mod writer;
pub use writer::{ClaimError, SlotWriter, Writer};

mod table;
pub use table::{SLOT_LIMIT_DEFAULT, SLOT_LIMIT_MAX, SlotTable, TableFull};

mod symbols;
pub use symbols::SymbolTable;

mod pool;
pub use pool::{BlockPool, POOL_BATCH_BLOCKS_MAX, PoolCache};

mod value;
pub use value::{
    FLAG_DOUBT, FLAG_HALTED, FLAG_STALE, FLAG_UPSTREAM_DOUBT, FLAG_UPSTREAM_STALE, FLAGS_DOUBT,
    FLAGS_STALE, MarketValue, NewSession, PRICE_UNDEFINED, Quote, Reference, Stamp, Status,
    TURNOVER_UNKNOWN, TopOfBook, Trade, Venues,
};

mod tag;
pub use tag::{TAG_INLINE_BYTES, TagBytes, TagSlot, TagStamp, TagValue};

mod latency;
pub use latency::{LATENCY_MAX_NS, LatencyRecorder, LatencyStatistics, LatencyTracker};

mod counter;
pub use counter::PaddedCounter;

mod sync;
