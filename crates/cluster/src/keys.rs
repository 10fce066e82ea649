//! Keys that survive a machine: the stream KEYS, its fences, and a hub's part in it
//! (`docs/cluster-protocol.md`, section 10).
//!
//! | module | contents |
//! |---|---|
//! | [`frame`] | the messages of the stream |
//! | [`position`] | which of them count, the same for every reader |
//! | [`interface`] | its settings, what it asks for, and what it tells |
//! | [`member`] | one hub: standby, candidate or primary |
//! | [`head`] | a snapshot, behind which the stream is read on |
//! | [`coverage`] | whether stream and snapshots have all that the primary has |
//!
//! The primary appends the bytes of its propagation log, in groups that end where a unit ends.
//! Every message says behind which one it must land (`Nats-Expected-Last-Sequence`). A reign begins
//! with a *fence*. What lands behind the fence of a later reign counts nowhere.

pub mod coverage;
pub mod frame;
pub mod head;
pub mod interface;
pub mod member;
pub mod position;

pub use coverage::KeysExtent;
pub use frame::{KeysEntry, KeysFrame, KeysFrameError, KeysHeader};
pub use head::KeysHead;
pub use interface::{KeysAction, KeysConfig, KeysEvent, KeysFigures, KeysRole, Outcome};
pub use member::KeysMember;
pub use position::{Effect, KeysFault, KeysPosition};
