//! Files of all keys, as Redis keeps them (RDB): a header, records, an end with a checksum.
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
//! Valkey from 9.0 on begins its files with `VALKEY080`, and has a form of its own for hashes whose
//! fields have a TTL. [`FileVersion`] says which of these is written.
//!
//! Nothing here reads or writes a file: [`FileWriter`] appends to a buffer, and [`FileReader`] is
//! given bytes as they come. It never holds more than the longest value and what it was last given,
//! and it never waits for a byte that the file does not have.

mod extent;
mod reader;
mod version;
mod writer;

use super::Dialect;
pub use version::{CannotHold, FileVersion};

pub use reader::{FileReader, FileRecord, KeyRecord};
pub use writer::Usage;
pub(crate) use writer::{FileWriter, UsageNotes};

/// Why a file of keys cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It does not begin as one.
    #[error("it does not begin with REDIS and a version: it is no RDB file")]
    Signature,
    /// Its version is none, or one from the future.
    #[error("its RDB version is {0}; Redis's 1 to 13 and Valkey's 80 can be read")]
    Version(u32),
    /// It ends too early.
    #[error("it ends in the middle of a record")]
    Truncated,
    /// A length or a number is in no form that is known, or too great.
    #[error("byte {0}: a length that cannot be")]
    Length(u64),
    /// A record or value of a kind that is not known.
    #[error("byte {at}: a record of the unknown kind {kind}")]
    Kind {
        /// Where it begins.
        at: u64,
        /// The number of its kind.
        kind: u8,
    },
    /// It holds what belongs to a module of Redis.
    #[error("byte {0}: data of a Redis module, which no server without it can read")]
    Module(u64),
    /// Libraries as release candidates of Redis 7.0 wrote them.
    #[error("byte {0}: a library of functions in the format of a release candidate")]
    EarlyLibrary(u64),
    /// A database that is not there.
    #[error("byte {at}: database {database}, and there are {}", crate::DATABASES)]
    Database {
        /// Where it stands.
        at: u64,
        /// Its number.
        database: u64,
    },
    /// What was read is not what was written.
    #[error("RDB CRC error: it says {stored:016x}, and what was read has {computed:016x}")]
    Checksum {
        /// In the file.
        stored: u64,
        /// Of the bytes before it.
        computed: u64,
    },
}

/// From this version on there is a checksum.
const VERSION_CHECKSUM: u32 = 5;

/// How a file begins, before the digits of its version: all in nine bytes.
const SIGNATURES: [(&[u8], Dialect); 2] =
    [(b"REDIS", Dialect::Redis), (b"VALKEY", Dialect::Valkey)];

/// An aux field before a key that is a live topic because a ZeroMQ peer has pushed it. Redis and
/// Valkey pass over aux fields that they do not know.
const LIVE_MARK: &[u8] = b"tidewire-live";

/// Kinds of records that are no keys.
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
    /// Values of modules, in two forms.
    pub(super) const MODULE_VALUES: [u8; 2] = [6, 7];
}

#[cfg(test)]
mod tests;
