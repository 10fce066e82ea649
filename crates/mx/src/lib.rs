//! NMX, the protocol by which AVEVA System Platform (Wonderware) transfers tag values, without
//! I/O.
//!
//! | module | contents |
//! |---|---|
//! | [`handle`] | reference handles: the location of an attribute in the Galaxy |
//! | [`signature`] | the checksum of a name in a handle |
//! | [`envelope`] | the 46-byte header of every message |
//! | [`message`] | the router: finds the type of a body, in both directions |
//! | [`item_control`] | advise, un-advise, suspend, activate |
//! | [`write`](mod@write) | writes: plain, with a time, secured |
//! | [`subscription`] | subscription status and data updates |
//! | [`registration`] | registration of references (add item) and, over TCP, of the client |
//! | [`operation`] | results of writes |
//! | [`status`] | MxStatus, its categories as typed errors, and quality |
//! | [`value`] | values of the twelve kinds, texts, arrays |
//! | [`asb`] | variants of the second data plane |
//! | [`time`], [`guid`] | FILETIME and GUIDs in wire format |
//! | [`profile`] | every constant that no capture has confirmed |
//! | [`transport`] | the interface a transport must implement |
//! | `session`, `plant` | state machines of the client's side and of a scripted plant |
//! | `annotate` | a message as fields with offsets: what `tidewire decode mx` prints |
//!
//! No AVEVA software was available. The codec agrees with captured bytes and with public notes,
//! and [`profile`] names the evidence for each constant. `docs/nmx.md` draws the messages.
//!
//! **Lossless.** Every decoded message encodes back to the same bytes: reserved and unknown bytes
//! are kept, and a value that would not encode back is kept raw ([`value::Value::Raw`]). **No
//! allocation** by decoding, nor by encoding into the caller's buffer.
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
//! Without the feature `alloc` (on by default) only the codec remains. It needs neither `std` nor
//! an allocator.

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
