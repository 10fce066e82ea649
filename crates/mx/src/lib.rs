//! NMX: the messages by which AVEVA System Platform (Wonderware) moves tag values, without I/O.
//!
//! | module | what it is |
//! |---|---|
//! | [`handle`] | reference handles: where an attribute lives in the Galaxy |
//! | [`signature`] | the checksum of a name that a handle carries |
//! | [`envelope`] | the 46-byte header in front of every message |
//! | [`message`] | which message a body is: the router of both directions |
//! | [`item_control`] | advise, un-advise, suspend, activate |
//! | [`write`](mod@write) | writes: plain, with a time, secured |
//! | [`subscription`] | subscription status and data updates |
//! | [`registration`] | references (add item) and, over TCP, the client itself |
//! | [`operation`] | how a write ended |
//! | [`status`] | MxStatus, its categories as typed errors; quality |
//! | [`value`] | values of the twelve kinds, texts, arrays |
//! | [`asb`] | variants of the second data plane |
//! | [`time`], [`guid`] | FILETIME and GUIDs as the wire has them |
//! | [`profile`] | every constant that no capture has confirmed |
//! | [`transport`] | the one small interface that a transport has to offer |
//! | `session`, `plant` | the client's side and a scripted plant, as machines |
//! | `annotate` | a message as fields with offsets: what `tidewire decode mx` prints |
//!
//! No AVEVA software was at hand: what is here agrees with captured bytes and with public notes,
//! and [`profile`] says for each constant which of them. `docs/nmx.md` draws the messages.
//!
//! **Nothing is lost.** Every message that is decoded encodes back to the same bytes: reserved and
//! unknown bytes are kept, and a value that would not encode back is kept raw
//! ([`value::Value::Raw`]). **Nothing is allocated** by decoding, nor by encoding into a buffer of
//! the caller.
//!
//! ```
//! use tidewire_mx::encode::Encode;
//! use tidewire_mx::handle::{HandleIds, ReferenceHandle};
//! use tidewire_mx::value::Value;
//! use tidewire_mx::write::Write;
//!
//! let ids = HandleIds {
//!     galaxy_id: 1,
//!     platform_id: 1,
//!     engine_id: 2,
//!     object_id: 7,
//!     ..HandleIds::default()
//! };
//! let handle = ReferenceHandle::from_names(ids, "Tank1", "Setpoint");
//! let write = Write::new(handle.projection(), Value::Float64(21.5));
//! let mut buffer = [0; 64];
//! let length = write.encode_to_slice(&mut buffer)?;
//! assert_eq!(Write::decode(&buffer[..length])?, write);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without the feature `alloc` (on by default) the codec alone is left, which needs neither `std`
//! nor an allocator.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod cursor;

pub mod asb;
pub mod encode;
pub mod envelope;
pub mod error;
pub mod guid;
pub mod handle;
pub mod item_control;
pub mod message;
pub mod operation;
pub mod profile;
pub mod registration;
pub mod signature;
pub mod status;
pub mod subscription;
pub mod time;
pub mod transport;
pub mod value;
pub mod write;

#[cfg(feature = "alloc")]
pub mod annotate;
#[cfg(feature = "alloc")]
pub mod fuzzing;
#[cfg(feature = "alloc")]
pub mod plant;
#[cfg(feature = "alloc")]
pub mod scenarios;
#[cfg(feature = "alloc")]
pub mod session;
