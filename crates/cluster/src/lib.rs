//! Topics across hubs, without I/O: what hubs that share a NATS server say to each other
//! (`docs/cluster-protocol.md`).
//!
//! | module | contents |
//! |---|---|
//! | [`frame`] | packets of the native feed on their way between hubs |
//! | [`head`] | which pages a snapshot has, and from where the log continues it |
//! | [`path`] | the clusters that a relayed source has come through |
//! | [`reader`] | the stream that an owner reads: a journal |
//! | [`owner`] | the sending side: one [`Owner`] per source and shard |
//! | [`edge`] | the receiving side: one [`Edge`] per source and shard |
//! | [`topics`] | topics beyond market data: those of a hub, and what an edge makes of them |
//! | [`lease`] | which of several hubs owns a source |
//! | [`writes`] | writes to topics of other hubs: requests to their owners, and the answers |
//! | [`keys`] | keys that survive a machine: the stream KEYS and a hub's part in it |
//! | [`fuzzing`] | entry functions for fuzzers |
//!
//! No module opens a socket, reads a clock or starts a thread: messages and times come in, actions
//! and bytes go out, and a deadline says when to call again.
//!
//! ```text
//!  journal ─▶ Owner ─▶ frames ─▶ NATS ─▶ Edge ─▶ packets ─▶ feed::client::Client ─▶ topics
//!                 ▲                 │
//!                 └─ Lease ◀────────┘  which hub is the owner
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod edge;
pub mod frame;
pub mod fuzzing;
pub mod head;
pub mod keys;
pub mod lease;
pub mod owner;
pub mod path;
pub mod reader;
pub mod topics;
pub mod writes;

pub use edge::{Edge, EdgeAction, EdgeConfig, EdgeEvent, EdgeFigures, EdgeOutput};
pub use frame::{Frame, FrameError, FrameFlags, FrameHeader};
pub use head::Head;
pub use lease::{Entry, Lease, LeaseAction, LeaseConfig, LeaseEvent};
pub use owner::{
    Destination, FrameId, HEARTBEAT_INTERVAL_NS, Owner, OwnerAction, OwnerConfig, OwnerFigures,
    OwnerState, Publication, Times,
};
pub use path::Path;
pub use reader::{Reader, Records};
pub use topics::{OwnTopics, TopicClient, TopicEvent};
