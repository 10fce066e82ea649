//! Files of all keys in Redis's RDB format: a header, records, and an end with a checksum.
//!
//! ```text
//!  REDIS0011 │ aux fields │ libraries │ select │ sizes │ key │ key │ … │ select │ … │ end │ CRC-64
//!
//!  aux       │ 250 │ name │ value
//!  library   │ 245 │ text
//!  select    │ 254 │ database
//!  sizes     │ 251 │ keys │ keys with a deadline
//!  live mark │ 250 │ tidewire-live │ 1      before a key that a ZeroMQ peer made live
//!  key       │ 252 │ deadline, ms i64 │ 248 │ idle s │ 249 │ frequency u8 │ form │ key │ value
//!            └──────── each of these only if there is something to tell ───┘
//!  end       │ 255
//! ```
//!
//! Valkey begins its files with `VALKEY080` since 9.0, and has its own form for hashes with TTLs of
//! fields. [`FileVersion`] selects which of these is written.
//!
//! This module performs no I/O. [`FileWriter`] appends to a buffer, and [`FileReader`] receives
//! bytes as they arrive. The reader holds at most the longest value plus the last bytes it
//! received, and never waits for a byte beyond the file's end.

mod extent;
mod reader;
mod version;
mod writer;

use super::Dialect;
pub use version::{CannotHold, FileVersion};

pub use reader::{FileReader, FileRecord, KeyRecord};
pub use writer::Usage;
pub(crate) use writer::{FileWriter, UsageNotes};

/// Why reading a file of keys fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It does not begin with a signature.
    #[error("it does not begin with REDIS and a version: it is no RDB file")]
    Signature,
    /// The version is invalid or newer than supported.
    #[error("its RDB version is {0}; Redis's 1 to 13 and Valkey's 80 can be read")]
    Version(u32),
    /// It ends before its end record.
    #[error("it ends in the middle of a record")]
    Truncated,
    /// A length or a number has an unknown encoding or is too great.
    #[error("byte {0}: a length that cannot be")]
    Length(u64),
    /// A record or value has an unknown kind.
    #[error("byte {at}: a record of the unknown kind {kind}")]
    Kind {
        /// Position of the record.
        at: u64,
        /// Number of the kind.
        kind: u8,
    },
    /// It contains data of a Redis module.
    #[error("byte {0}: data of a Redis module, which no server without it can read")]
    Module(u64),
    /// A library in the format of release candidates of Redis 7.0.
    #[error("byte {0}: a library of functions in the format of a release candidate")]
    EarlyLibrary(u64),
    /// A database number that does not exist.
    #[error("byte {at}: database {database}, and there are {}", crate::DATABASES)]
    Database {
        /// Position of the number.
        at: u64,
        /// The number.
        database: u64,
    },
    /// The checksum does not match.
    #[error("RDB CRC error: it says {stored:016x}, and what was read has {computed:016x}")]
    Checksum {
        /// The checksum in the file.
        stored: u64,
        /// The checksum of the bytes before it.
        computed: u64,
    },
}

/// Files have a checksum since this version.
const VERSION_CHECKSUM: u32 = 5;

/// The start of a file, before the digits of its version; nine bytes in total.
const SIGNATURES: [(&[u8], Dialect); 2] =
    [(b"REDIS", Dialect::Redis), (b"VALKEY", Dialect::Valkey)];

/// The name of an aux field before a key that a ZeroMQ peer made a live topic. Redis and Valkey
/// skip unknown aux fields.
const LIVE_MARK: &[u8] = b"tidewire-live";

/// Kinds of records that are not keys.
mod kind {
    pub(super) const SLOT_SIZES: u8 = 244;
    pub(super) const LIBRARY: u8 = super::super::functions::LIBRARY;
    pub(super) const LIBRARY_BEFORE_RELEASE: u8 = super::super::functions::LIBRARY_BEFORE_RELEASE;
    pub(super) const MODULE_AUX: u8 = 247;
    pub(super) const IDLE: u8 = 248;
    pub(super) const FREQUENCY: u8 = 249;
    pub(super) const AUX: u8 = 250;
    pub(super) const SIZES: u8 = 251;
    pub(super) const DEADLINE_MS: u8 = 252;
    pub(super) const DEADLINE_SECONDS: u8 = 253;
    pub(super) const SELECT: u8 = 254;
    pub(super) const END: u8 = 255;
    /// The two forms of module values.
    pub(super) const MODULE_VALUES: [u8; 2] = [6, 7];
}

#[cfg(test)]
mod tests;
