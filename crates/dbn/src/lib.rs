//! Databento's formats: DBN records, the books built from them, and the live protocol.
//!
//! A DBN stream is a sequence of records: a 16-byte header and fixed fields, little-endian,
//! prices in units of 1e-9, times in nanoseconds since the UNIX epoch. A stream usually begins
//! with [`Metadata`]; a *fragment* has records only. Versions 1, 2 and 3 are read without
//! conversion: a record's length tells its layout.
//!
//! * [`Decoder`] takes bytes and returns [`Event`]s that borrow from the caller's buffer.
//! * [`RecordRef`] is one framed record; [`RecordRef::decode`] returns its typed [`Record`].
//! * [`SymbolNames`] maps instrument ids to symbols.
//! * [`Translator`] turns records into messages of the native feed, with venues, definitions,
//!   [`Sessions`] and trading states.
//! * [`Reader`] drives the decoder over any [`std::io::Read`] and decompresses zstd and legacy
//!   DBZ.
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
mod publishers;
mod reader;
mod record;
mod sessions;
mod status;
mod translator;
mod version;

pub use container::{Container, detect};
pub use decoder::{DecodeError, Decoder, Event, RecordRef};
pub use kind::{KINDS, Kind};
pub use metadata::{MappingInterval, Metadata, MetadataFault, SymbolMapping, stype_name};
pub use names::{NamesFull, SymbolNames};
pub use publishers::Publisher;
pub use reader::{ReadError, Reader};
pub use record::{
    BboRecord, ConsolidatedBidAsk, ConsolidatedRecord, DefinitionRecord, ErrorRecord,
    ImbalanceRecord, MboRecord, MbpRecord, OhlcvRecord, Record, RecordHeader, StatisticsRecord,
    StatusRecord, SymbolMappingRecord, SystemRecord, TradeRecord, action, flag, side,
};
pub use sessions::Sessions;
pub use tidewire_book::BidAsk;
pub use translator::{Counts, Translator};
pub use version::{
    DEFINITION_LENGTH, STATISTICS_LENGTH, carried_length, to_version_2, to_version_3,
};

/// Bytes of a record's header.
pub const HEADER_LENGTH: usize = 16;

/// Newest supported version.
pub const VERSION_MAX: u8 = 3;

/// "No price": the same value as in the native feed.
pub const UNDEFINED_PRICE: i64 = i64::MAX;

/// "No time".
pub const UNDEFINED_TIME: u64 = u64::MAX;

/// Longest metadata accepted, in bytes: room for more than a million mapped symbols.
pub const METADATA_LENGTH_MAX: u32 = 256 << 20;

/// Longest fixed symbol string accepted in metadata, in bytes. Databento uses 22 and 71.
pub const SYMBOL_LENGTH_MAX: u16 = 255;
