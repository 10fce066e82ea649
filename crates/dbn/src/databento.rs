//! The gateway's side of Databento's live protocol: text lines until the session starts, then
//! DBN.
//!
//! ```text
//!  gateway                               client
//!  lsg_version=…                   ──▶
//!  cram=CHALLENGE                  ──▶
//!                                  ◀──   auth=SHA256(CHALLENGE|KEY)-KEY'S END|dataset=…|ts_out=0…
//!  success=1|session_id=7          ──▶
//!                                  ◀──   schema=trades|stype_in=raw_symbol|symbols=A,B|…
//!                                  ◀──   start_session=0
//!  DBN metadata, then records      ──▶
//! ```
//!
//! * [`Request::parse`] reads a client's line.
//! * [`RecordWriter`] writes metadata and records of version 3, or 2 for older clients.
//! * [`Compressor`] compresses them with zstd if the client asks for it.
//! * [`Names`] holds the symbols of subscriptions.
//!
//! `docs/databento.md` describes how the hub maps its own messages to DBN.

mod bars;
mod class;
mod compressor;
mod depth;
mod parents;
mod publisher;
mod record;
mod request;
mod schema;
mod symbology;

pub use bars::{BAR_TYPES, Ohlcv};
pub use compressor::Compressor;
pub use depth::DEPTH_LEVELS;
pub use parents::Parents;
pub use publisher::publisher_of;
pub use record::{Event, RecordWriter, TEXT_LENGTH_MAX, error_code, system_code};
pub use request::{
    Authentication, HEARTBEAT_INTERVAL_S, LINE_LENGTH_MAX, Line, Request, RequestError,
    Subscription, next_line,
};
pub use schema::{Schema, SymbolType};
pub use symbology::{NAMES_MAX, Names, NamesError, Unknown, parse_continuous};
