//! ZMTP 3.1 as a state machine without I/O: no socket, no clock, no thread. The only `unsafe`
//! calls code compiled for newer processors (in `curve/salsa.rs`).
//!
//! [`Connection`] is one side of one ZeroMQ connection. [`Connection::receive`] takes bytes from
//! the peer and returns events. The connection's own output (greeting, handshake, PONG) is in
//! [`Connection::outgoing`]. [`Connection::timeout`] must be called at
//! [`Connection::deadline_ns`]. Messages are encoded by [`encode_frame`] into the caller's
//! buffer, or sent in place after a [`frame_header`].
//!
//! [`websocket`] carries this through an HTTP upgrade and WebSocket frames.
//!
//! [`Datagram`] is a message of RADIO and DISH over UDP, which needs no connection.
//!
//! [`PrefixTable`] is the other half of a publisher: the subscribers of each topic.
//!
//! Supported: ZMTP 3.1, 3.0 and 2.0; mechanisms NULL, PLAIN and CURVE. `docs/zmtp.md` draws the
//! bytes.
//!
//! ```
//! use tidewire_zmtp::{Config, Connection, Event, SocketType, encode_frame};
//!
//! let mut push = Connection::new(Config::new(SocketType::Push), 0);
//! let mut pull = Connection::new(Config::new(SocketType::Pull), 0);
//! let mut to_pull = Vec::new();
//! let mut to_push = Vec::new();
//! let mut greeting = "";
//! for _ in 0..10 {
//!     to_pull.append(push.outgoing());
//!     to_push.append(pull.outgoing());
//!     if push.is_ready() && greeting.is_empty() {
//!         greeting = "hello";
//!         encode_frame(&mut to_pull, greeting.as_bytes(), false);
//!     }
//!     let step = push.receive(&to_push, 0)?;
//!     to_push.drain(..step.consumed);
//!     let step = pull.receive(&to_pull, 0)?;
//!     if let Some(Event::Frame { body, more }) = step.event {
//!         assert_eq!((body, more), (&b"hello"[..], false));
//!         return Ok(());
//!     }
//!     let consumed = step.consumed;
//!     to_pull.drain(..consumed);
//! }
//! panic!("the message did not arrive");
//! # #[allow(unreachable_code)]
//! # Ok::<(), tidewire_zmtp::Error>(())
//! ```

#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod command;

mod config;
pub use config::{Config, Heartbeat, Limits, Security};

mod connection;
pub use connection::{Connection, Credentials, Event, NotAsked, Peer, SHORT_HEADER_BYTES, Step};

pub mod curve;

mod datagram;
pub use datagram::Datagram;

mod error;
pub use error::{CommandName, Error, status_code};

mod frame;
pub use frame::{FrameHeader, encode_frame, frame_header};

pub mod fuzzing;

mod greeting;
pub use greeting::Version;

mod liveness;

mod mechanism;

mod metadata;
pub use metadata::{Metadata, Properties};

pub mod prefixes;
pub use prefixes::{Insertion, PrefixTable, Removal};

mod socket_type;
pub use socket_type::SocketType;

pub mod websocket;

pub mod z85;
