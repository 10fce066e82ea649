//! HTTP/1.1 requests and WebSocket framing (RFC 6455) without I/O: no socket, no clock, no thread.
//!
//! [`http`] reads a request and writes a response; [`websocket`] upgrades a connection and handles
//! the headers of its frames. The caller handles the payload of frames.
//!
//! ```
//! use tidewire_web::websocket::{FrameHead, Opcode, mask};
//!
//! let key = [1, 2, 3, 4];
//! let mut bytes = Vec::new();
//! FrameHead::new(Opcode::Text, 5, Some(key)).write(&mut bytes);
//! bytes.extend_from_slice(b"hello");
//! let payload_begin = bytes.len() - 5;
//! mask(&mut bytes[payload_begin..], key, 0);
//!
//! let Some((head, size_bytes)) = FrameHead::read(&bytes, true)? else {
//!     panic!("the head is complete");
//! };
//! assert_eq!((head.opcode, head.payload_bytes, head.key), (Opcode::Text, 5, Some(key)));
//! mask(&mut bytes[size_bytes..], key, 0);
//! assert_eq!(&bytes[size_bytes..], b"hello");
//! # Ok::<(), tidewire_web::websocket::MalformedFrame>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod fuzzing;
pub mod http;
pub mod websocket;
