//! Databento's formats: DBN records and the books they make, and its live protocol.
//!
//! DBN is a stream of records that are their own wire form: a 16-byte header and fixed fields,
//! little-endian, prices in units of 1e-9, times in nanoseconds since the UNIX epoch. A stream
//! usually begins with [`Metadata`]; a *fragment* is records alone. Versions 1, 2 and 3 are read
//! as they are: nothing is upgraded, a record says by its length which layout it has.
//!
//! * [`Decoder`] is the machine: bytes in, [`Event`]s out, borrowing from the caller's buffer.
//! * [`RecordRef`] is one framed record; [`RecordRef::decode`] gives its typed [`Record`].
//! * [`SymbolNames`] answers which symbol an instrument id stands for.
//! * [`Reader`] drives the machine over any [`std::io::Read`] and undoes zstd and legacy DBZ.
//!
//! ```
//! use tidewire_dbn::{Decoder, Event};
//!
//! # fn feed(received: &[u8]) -> Result<(), tidewire_dbn::DecodeError> {
//! let mut decoder = Decoder::new();
//! let mut rest = received;
//! loop {
//!     match decoder.decode(&mut rest)? {
//!         Event::Metadata(metadata) => println!("{} v{}", metadata.dataset, metadata.version),
//!         Event::Record(record) => println!("{:?}", record.decode()),
//!         Event::NeedMore(_) => break, // keep `rest`, append what arrives, go on
//!     }
//! }
//! decoder.finish(rest)
//! # }
//! # assert!(feed(b"DB").is_err());
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod book;
mod container;
pub mod databento;
mod decoder;
mod fields;
pub mod fuzzing;
mod kind;
mod metadata;
mod names;
mod reader;
mod record;

pub use container::{Container, detect};
pub use decoder::{DecodeError, Decoder, Event, RecordRef};
pub use kind::{KINDS, Kind};
pub use metadata::{MappingInterval, Metadata, MetadataFault, SymbolMapping, stype_name};
pub use names::{NamesFull, SymbolNames};
pub use reader::{ReadError, Reader};
pub use record::{
    BboRecord, ConsolidatedBidAsk, ConsolidatedRecord, DefinitionRecord, ErrorRecord,
    ImbalanceRecord, MboRecord, MbpRecord, OhlcvRecord, Record, RecordHeader, StatisticsRecord,
    StatusRecord, SymbolMappingRecord, SystemRecord, TradeRecord, action, flag, side,
};
pub use tidewire_book::BidAsk;

/// Bytes of a record's header.
pub const HEADER_LENGTH: usize = 16;

/// Newest version that is read.
pub const VERSION_MAX: u8 = 3;

/// "No price": the same value as on the native wire.
pub const UNDEFINED_PRICE: i64 = i64::MAX;

/// "No time".
pub const UNDEFINED_TIME: u64 = u64::MAX;

/// Longest metadata accepted, in bytes: room for more than a million mapped symbols.
pub const METADATA_LENGTH_MAX: u32 = 256 << 20;

/// Longest fixed symbol string accepted in metadata, in bytes. Databento uses 22 and 71.
pub const SYMBOL_LENGTH_MAX: u16 = 255;
