//! A file of keys, written record by record.

use super::super::writer::{self, Output};
use super::super::{crc64, save};
use super::{FileVersion, LIVE_MARK, kind};
use crate::access::{self, Access};
use crate::key::DATABASES;
use crate::value::ValueRef;

/// Writes records into buffers; keeps only what the next record depends on.
#[derive(Debug)]
pub(crate) struct FileWriter {
    version: FileVersion,
    compresses: bool,
    /// The checksum of all that [`FileWriter::seal`] was given; `None` if there is to be none.
    checksum: Option<u64>,
    /// The database that the last record left selected.
    database: Option<usize>,
    notes: UsageNotes,
    live_prefixes: Vec<Vec<u8>>,
}

/// What a file records of the use of keys, so that its reader evicts the right ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    /// Nothing: none is evicted by its use.
    #[default]
    Untold,
    /// For how many seconds each was not used.
    IdleSeconds,
    /// How often each is used, in the logarithmic count of the LFU policies.
    Frequency,
}

/// What is recorded of the use of keys, and how to read it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UsageNotes {
    pub(crate) usage: Usage,
    pub(crate) access: Access,
    pub(crate) now_ms: i64,
}

impl FileWriter {
    /// A file whose texts are compressed, and whose end has a checksum, or not.
    pub(crate) fn new(compresses: bool, checked: bool) -> Self {
        FileWriter {
            version: FileVersion::Fitting,
            compresses,
            checksum: checked.then_some(0),
            database: None,
            notes: UsageNotes::default(),
            live_prefixes: Vec::new(),
        }
    }

    /// The same, and it tells which keys are live topics although they do not begin with one of
    /// these.
    pub(crate) fn with_live_prefixes(mut self, prefixes: &[Vec<u8>]) -> Self {
        self.live_prefixes = prefixes.to_vec();
        self
    }

    /// The same, and it tells of the use of keys.
    pub(crate) fn telling(mut self, notes: UsageNotes) -> Self {
        self.notes = notes;
        self
    }

    /// Another version than the fitting one.
    pub(crate) fn set_version(&mut self, version: FileVersion) {
        self.version = version;
    }

    pub(crate) fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.version.header().as_bytes());
    }

    pub(crate) fn aux(&self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        out.push(kind::AUX);
        let mut out = Output::of_file(out, self.compresses);
        writer::text(&mut out, name);
        writer::text(&mut out, value);
    }

    pub(crate) fn library(&self, out: &mut Vec<u8>, code: &[u8]) {
        out.push(kind::LIBRARY);
        writer::text(&mut Output::of_file(out, self.compresses), code);
    }

    /// How many keys the selected database has, and how many of them have a deadline: a hint.
    pub(crate) fn sizes(&self, out: &mut Vec<u8>, keys: usize, expiring: usize) {
        debug_assert!(expiring <= keys);
        out.push(kind::SIZES);
        let mut out = Output::of_file(out, self.compresses);
        writer::number(&mut out, keys as u64);
        writer::number(&mut out, expiring as u64);
    }

    /// Selects a database, unless it is; tells whether it was not.
    pub(crate) fn select(&mut self, out: &mut Vec<u8>, database: usize) -> bool {
        debug_assert!(database < DATABASES);
        if self.database == Some(database) {
            return false;
        }
        self.database = Some(database);
        out.push(kind::SELECT);
        writer::number(&mut Output::of_file(out, false), database as u64);
        true
    }

    /// Records came from elsewhere: the next one selects its database itself.
    pub(crate) fn forget_database(&mut self) {
        self.database = None;
    }

    /// Writes what comes before a key: its deadline, and, if it is recorded, its use, from the bits
    /// of the entry.
    pub(crate) fn attributes(&self, out: &mut Vec<u8>, deadline_ms: Option<i64>, access: u32) {
        if let Some(deadline_ms) = deadline_ms {
            out.push(kind::DEADLINE_MS);
            out.extend_from_slice(&deadline_ms.to_le_bytes());
        }
        let notes = &self.notes;
        match notes.usage {
            Usage::Untold => {}
            Usage::IdleSeconds => {
                out.push(kind::IDLE);
                let idle_s = access::idle_s(access, notes.now_ms);
                writer::number(&mut Output::of_file(out, false), idle_s.into());
            }
            Usage::Frequency => {
                out.push(kind::FREQUENCY);
                out.push(notes.access.frequency(access, notes.now_ms));
            }
        }
    }

    /// What stands before a live topic whose name does not tell that it is one.
    pub(crate) fn live_mark(&self, out: &mut Vec<u8>, key: &[u8]) {
        if !self
            .live_prefixes
            .iter()
            .any(|prefix| key.starts_with(prefix))
        {
            self.aux(out, LIVE_MARK, b"1");
        }
    }

    /// A key of the selected database.
    pub(crate) fn key(&self, out: &mut Vec<u8>, key: &[u8], value: ValueRef<'_>) {
        let out = &mut Output::of_key(out, key, self.compresses, self.version);
        save::write(out, value);
    }

    /// Takes what goes into the file next into the checksum.
    pub(crate) fn seal(&mut self, bytes: &[u8]) {
        if let Some(checksum) = &mut self.checksum {
            *checksum = crc64::extended(*checksum, bytes);
        }
    }

    /// The end, which seals itself.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        self.seal(&[kind::END]);
        out.push(kind::END);
        out.extend_from_slice(&self.checksum.unwrap_or(0).to_le_bytes());
    }
}
