//! Values in Redis's serialization format, as in DUMP, RESTORE and RDB files.
//!
//! ```text
//!  ┌─────────┬───────┬─────────────┬────────────┐
//!  │ form u8 │ value │ version u16 │ CRC-64 u64 │      the CRC is that of all before it
//!  └─────────┴───────┴─────────────┴────────────┘
//! ```
//!
//! Each data type has several forms. All forms that Redis has ever written can be read. A value is
//! written in the form that the oldest Redis version can read without loss, with that version's
//! number, so that values move to Redis 7 as well as to Redis 8.
//!
//! The input comes from clients. Every length is checked against the remaining bytes, and nothing
//! is allocated for a length that is only claimed. An inconsistent value (duplicate members, wrong
//! counts, trailing bytes) is refused as a whole.

mod crc64;
mod file;
mod functions;
mod listpack;
mod lzf;
mod reader;
mod writer;
mod ziplist;

mod load;
mod save;
mod stream;

pub use file::{CannotHold, FileError, FileReader, FileRecord, FileVersion, KeyRecord, Usage};
pub(crate) use file::{FileWriter, UsageNotes};

pub use functions::{dump_libraries, read_libraries};

use std::ops::RangeInclusive;

use crate::entry::Entry;
use crate::fields;
use crate::key::Key;
use crate::quicklist::ListLimits;
use crate::set::SetLimits;
use crate::sorted_set::SortedSetLimits;
use crate::stream::{BlockLimits, ProducerLimits};
use crate::value::ValueRef;

use writer::Output;

/// What is wrong with a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SerialError {
    /// The version is newer than supported, or the checksum is wrong.
    Footer,
    /// The value has an unknown form, or is inconsistent.
    Format,
    /// The value is empty, which only old versions wrote, by mistake.
    Empty,
}

type Result<T> = std::result::Result<T, SerialError>;

/// Limits of small values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueLimits {
    pub(crate) hash: fields::HashLimits,
    pub(crate) set: SetLimits,
    pub(crate) list: ListLimits,
    pub(crate) sorted_set: SortedSetLimits,
    pub(crate) block: BlockLimits,
    pub(crate) producers: ProducerLimits,
}

/// Serializes a value with its footer.
pub(crate) fn dump(value: ValueRef<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    let version = save::write(&mut Output::of_value(&mut payload), value);
    payload.extend_from_slice(&version.to_le_bytes());
    let checksum = crc64::of(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// Whose form numbers a file or a payload has: Redis and Valkey diverged after version 11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Redis,
    Valkey,
}

impl Dialect {
    /// Returns the readable versions of this dialect.
    fn versions(self) -> RangeInclusive<u32> {
        match self {
            Dialect::Redis => 1..=VERSION_MAX,
            Dialect::Valkey => VERSION_VALKEY..=VERSION_VALKEY,
        }
    }
}

/// Returns the value in a payload with a valid footer, and its dialect. With `trusts`, the checksum
/// may be wrong.
pub(crate) fn body(payload: &[u8], trusts: bool) -> Result<(&[u8], Dialect)> {
    let (checked, checksum) = payload.split_last_chunk().ok_or(SerialError::Footer)?;
    let (body, version) = checked.split_last_chunk().ok_or(SerialError::Footer)?;
    let version = u32::from(u16::from_le_bytes(*version));
    let dialect = match version {
        0..=VERSION_MAX => Dialect::Redis,
        VERSION_VALKEY => Dialect::Valkey,
        _ => return Err(SerialError::Footer),
    };
    match trusts || u64::from_le_bytes(*checksum) == crc64::of(checked) {
        true => Ok((body, dialect)),
        false => Err(SerialError::Footer),
    }
}

/// Returns the name of a payload's value in Redis's log.
pub(crate) fn form_name(payload: &[u8]) -> &'static str {
    match payload.first().copied().unwrap_or(u8::MAX) {
        form::STRING => "String",
        form::LIST => "List",
        form::SET => "Set",
        form::SORTED_SET | form::SORTED_SET_TEXT => "Zset",
        form::HASH | form::HASH_TIMED | form::HASH_TIMED_EARLY => "Hash",
        form::HASH_ZIPMAP => "Zipmap",
        form::LIST_ZIPLIST => "List ziplist",
        form::LIST_ZIPLISTS => "Quicklist ziplist",
        form::LIST_CHUNKS => "Quicklist listpack",
        form::SET_INTEGERS => "Intset",
        form::SET_LISTPACK => "Set listpack",
        form::SORTED_SET_ZIPLIST => "Zset ziplist",
        form::SORTED_SET_LISTPACK => "Zset listpack",
        form::HASH_ZIPLIST => "Hash ziplist",
        form::HASH_LISTPACK | form::HASH_LISTPACK_TIMED | form::HASH_LISTPACK_TIMED_EARLY => {
            "Hash listpack"
        }
        form::STREAM | form::STREAM_2 | form::STREAM_3 | form::STREAM_4 => "Stream listpack",
        _ => "Unknown form's",
    }
}

/// Decodes a value without its footer into an entry for a key.
pub(crate) fn restore(
    (body, dialect): (&[u8], Dialect),
    key: Key<'_>,
    limits: ValueLimits,
) -> Result<Entry> {
    let (kind, body) = body.split_first().ok_or(SerialError::Format)?;
    let form = form::of_number(*kind, dialect).ok_or(SerialError::Format)?;
    restore_form(form, body, key, limits)
}

/// Decodes a value of a known form into an entry for a key.
pub(crate) fn restore_form(
    form: u8,
    body: &[u8],
    key: Key<'_>,
    limits: ValueLimits,
) -> Result<Entry> {
    let mut reader = reader::Reader::new(body);
    let entry = load::read(form, &mut reader, key, limits)?;
    debug_assert_eq!(entry.key(), key.bytes);
    debug_assert!(
        entry.deadline_ms().is_none(),
        "a value is read without its TTL"
    );
    if reader.is_empty() {
        Ok(entry)
    } else {
        Err(SerialError::Format)
    }
}

/// The RDB version of Redis 8.6.
const VERSION_MAX: u32 = 13;
/// The RDB version of Valkey 9.
const VERSION_VALKEY: u32 = 80;

/// Numbers of the forms.
mod form {
    use super::Dialect;

    pub(super) const STRING: u8 = 0;
    pub(super) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    /// With scores as text.
    pub(super) const SORTED_SET_TEXT: u8 = 3;
    pub(super) const HASH: u8 = 4;
    pub(super) const SORTED_SET: u8 = 5;
    pub(super) const HASH_ZIPMAP: u8 = 9;
    pub(super) const LIST_ZIPLIST: u8 = 10;
    pub(super) const SET_INTEGERS: u8 = 11;
    pub(super) const SORTED_SET_ZIPLIST: u8 = 12;
    pub(super) const HASH_ZIPLIST: u8 = 13;
    /// With ziplists as chunks.
    pub(super) const LIST_ZIPLISTS: u8 = 14;
    pub(super) const STREAM: u8 = 15;
    pub(super) const HASH_LISTPACK: u8 = 16;
    pub(super) const SORTED_SET_LISTPACK: u8 = 17;
    /// With listpacks as chunks; a long element is a chunk of its own.
    pub(super) const LIST_CHUNKS: u8 = 18;
    /// With the counters that Redis 7.0 added.
    pub(super) const STREAM_2: u8 = 19;
    pub(super) const SET_LISTPACK: u8 = 20;
    /// With two times per consumer.
    pub(super) const STREAM_3: u8 = 21;
    /// The two forms below as the first releases of Redis 7.4 wrote them: without the earliest
    /// deadline.
    pub(super) const HASH_TIMED_EARLY: u8 = 22;
    pub(super) const HASH_LISTPACK_TIMED_EARLY: u8 = 23;
    /// Fields with deadlines, relative to the earliest one.
    pub(super) const HASH_TIMED: u8 = 24;
    /// The earliest deadline, then fields, values and deadlines.
    pub(super) const HASH_LISTPACK_TIMED: u8 = 25;
    /// With the entries that producers have added, since Redis 8.6.
    pub(super) const STREAM_4: u8 = 26;

    /// Fields, values and deadlines (-1: none) of Valkey 9. Valkey's number is 22, which means
    /// another form in Redis. Here it has a number that neither uses.
    pub(super) const HASH_TIMED_VALKEY: u8 = 150;
    pub(super) const HASH_TIMED_IN_VALKEY: u8 = 22;

    /// Returns the form of a number.
    pub(super) fn of_number(number: u8, dialect: Dialect) -> Option<u8> {
        match (dialect, number) {
            (_, STRING..=SORTED_SET | HASH_ZIPMAP..=STREAM_3) => Some(number),
            (Dialect::Redis, HASH_TIMED_EARLY..=STREAM_4) => Some(number),
            (Dialect::Valkey, HASH_TIMED_IN_VALKEY) => Some(HASH_TIMED_VALKEY),
            _ => None,
        }
    }
}

/// Encodings of a list's chunk.
mod chunk {
    pub(super) const ONE_ELEMENT: u64 = 1;
    pub(super) const LISTPACK: u64 = 2;
}
