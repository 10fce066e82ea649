//! Market data in the hub: feeds in, last values, the hub's own feed, recordings.
//!
//! ```text
//!  native, ITCH, Databento ──▶ ingest ──▶ board (last values) ──▶ publication ──▶ fan-out
//!                                └──▶ journal ──▶ feed clients, datagrams, recording, Databento
//! ```
//!
//! [`Market`] is what all lanes share. [`Source`], [`FeedSession`] and [`DatabentoSession`] are the
//! machines of its connections, which a lane drives; [`Inputs`] have threads of their own.

#![forbid(unsafe_code)]

mod board;
pub use board::{Board, BoardFull, MARKET_PREFIX, Topic};

mod broadcast;
pub use broadcast::{BroadcastCounters, LinesOut};

mod databento;
pub use databento::{DatabentoCounters, DatabentoSession};

mod decimal;

mod exchange;
pub use exchange::{Exchange, ExchangeConfig, ExchangeCounters};

mod feed_lanes;

mod feed_session;
pub use feed_session::{FeedSession, SlowFeeds};

mod ingest;
pub use ingest::IngestCounters;

mod inputs;
pub use inputs::{
    FeedLines, FeedSource, Figures, Input, InputError, Inputs, MoldInput, SoupInput, Status,
};

mod market;
pub use market::{Market, MarketConfig, MarketMail};

mod publishers;

mod recording;
pub use recording::{Recorder, RecordingCounters};

mod source;
pub use source::Source;

mod symbols;
