//! RESP2/RESP3 wire format: incremental request parser and reply encoder, without I/O.
//!
//! A server has one [`RequestParser`] per connection. It passes in the received bytes and runs each
//! request's [`Arguments`] (slices of the same buffer). Replies are written through a [`Writer`]. A
//! client encodes with [`write_request`], finds the end of a reply with [`ReplyParser`], and
//! [`decode`]s it into a [`Value`] if it needs the contents.
//!
//! ```
//! use tidewire_resp::{Limits, Progress, Protocol, RequestParser, Writer};
//!
//! let received = b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n";
//! let mut parser = RequestParser::new(Limits::default());
//! assert_eq!(parser.parse(received), Ok(Progress::Complete { consumed: received.len() }));
//! let arguments = parser.arguments(received);
//!
//! let mut reply = Vec::new();
//! Writer::new(&mut reply, Protocol::Resp2).bulk(&arguments[1]);
//! assert_eq!(reply, b"$2\r\nhi\r\n");
//! ```
//!
//! This crate performs no I/O, reads no clock, starts no thread and contains no `unsafe` code. A
//! peer's bytes never cause a panic, and a claimed length allocates no memory.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod arguments;
pub use arguments::{ArgumentList, Arguments, ArgumentsIter};

mod request;
pub use request::{Head, Limits, Progress, ProtocolError, RequestParser};

mod inline;

mod writer;
pub use writer::{Mark, Writer, write_request};

mod reply;
pub use reply::{BULK_BYTES_MAX, LINE_BYTES_MAX, NESTING_MAX, ReplyError, ReplyKind, ReplyParser};

mod value;
pub use value::{Value, decode};

pub mod fuzzing;
pub mod number;

/// The reply format negotiated with `HELLO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2: only strings, errors, integers and arrays.
    #[default]
    Resp2,
    /// RESP3: adds maps, sets, doubles, booleans, big numbers, verbatim strings, nulls and pushes.
    Resp3,
}
