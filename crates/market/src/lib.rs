//! Market data in the hub: feeds in, last values, the hub's own feed, recordings.
//!
//! ```text
//!  native, ITCH, Databento ──▶ ingest ──▶ board (last values) ──▶ publication ──▶ fan-out
//!                                └──▶ journal ──▶ feed clients, datagrams, recording, Databento
//! ```
//!
//! All lanes share [`Market`]. [`Source`], [`FeedSession`] and [`DatabentoSession`] are the state
//! machines of its connections, driven by a lane; [`Inputs`] have their own threads.

#![forbid(unsafe_code)]

mod access;
pub use access::{FeedUser, Look};

mod asked;
mod bars;
pub use bars::{Aggregator, BAR_PREFIX, Bar, BarClock, BarMount, Bars, Interval, Outcome};

mod board;
pub use board::{Board, BoardFull, MARKET_PREFIX, VENUE_SEPARATOR};

mod broadcast;
pub use broadcast::{BroadcastCounters, LinesOut};

#[cfg(loom)]
#[path = "cluster/absent.rs"]
mod cluster;
#[cfg(not(loom))]
mod cluster;
#[cfg(not(loom))]
pub use cluster::{
    AuditMode, Cluster, ClusterConfig, ClusterFigures, ClusterName, ClusterStatus, NameError,
    OwnSource, RELAYS_A_HUB_MAX, ReceivedSource, RelayConfig, RelayedSource, SharedTopics,
    TopicsCluster, WriteConfig,
};

mod clocks;
mod consolidated;
pub use clocks::{Ahead, Clocks, SourceClock};

mod databento;
pub use databento::{DatabentoCounters, DatabentoSession};

mod decimal;

mod depth;
pub use depth::{BOOK_PREFIX, BookLevel, BookView, Books, DEPTH_ALL};

mod derived;

mod exchange;
pub use exchange::{Exchange, ExchangeConfig, ExchangeCounters};

mod feed_lanes;

mod fields;
mod handed;

mod feed_session;
pub use feed_session::{FeedSession, SlowFeeds};

mod ingest;
pub use ingest::IngestCounters;

mod inputs;
pub use inputs::{
    FeedLines, FeedSource, Figures, Input, InputError, Inputs, MdpInput, MoldInput, SoupInput,
    Status,
};

mod market;
pub use market::{Market, MarketConfig};

mod names;
mod publishers;

mod records;
pub use records::RecordCounters;

#[cfg(not(loom))]
mod remote_board;
#[cfg(not(loom))]
pub use remote_board::{RemoteBoard, RemoteHub, RemoteTopic, SharedPrefix};

mod recording;
pub use recording::{Recorder, RecordingCounters};

mod seconds;
pub use seconds::Seconds;

mod session_id;
pub use session_id::new_session_id;

mod source;
pub use source::Source;

mod symbols;

mod topic;
pub use topic::{Facts, Topic};

mod venues;
pub use venues::{CONSOLIDATED, VenueTable};
