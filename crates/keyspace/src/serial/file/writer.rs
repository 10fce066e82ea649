//! Writes a file of keys record by record.

use super::super::writer::{self, Output};
use super::super::{crc64, save};
use super::{FileVersion, LIVE_MARK, kind};
use crate::access::{self, Access};
use crate::key::DATABASES;
use crate::value::ValueRef;

/// A writer of records into buffers. It stores only the state that the next record depends on.
#[derive(Debug)]
pub(crate) struct FileWriter {
    version: FileVersion,
    compresses: bool,
    /// The checksum of everything passed to [`FileWriter::seal`]; `None` if there is none.
    checksum: Option<u64>,
    /// The currently selected database.
    database: Option<usize>,
    notes: UsageNotes,
    live_prefixes: Vec<Vec<u8>>,
}

/// What a file records about the use of keys, so that its reader evicts the right ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    /// Nothing.
    #[default]
    Untold,
    /// Seconds since the last use of each key.
    IdleSeconds,
    /// The frequency of use of each key, in the logarithmic counter of the LFU policies.
    Frequency,
}

/// What is recorded about the use of keys, and how to read the access bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UsageNotes {
    pub(crate) usage: Usage,
    pub(crate) access: Access,
    pub(crate) now_ms: i64,
}

impl FileWriter {
    /// Creates a writer; `compresses` enables compressed texts, `checked` a checksum.
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

    /// Makes it mark live topics whose names do not begin with one of these prefixes.
    pub(crate) fn with_live_prefixes(mut self, prefixes: &[Vec<u8>]) -> Self {
        self.live_prefixes = prefixes.to_vec();
        self
    }

    /// Makes it record the use of keys.
    pub(crate) fn with_usage(mut self, notes: UsageNotes) -> Self {
        self.notes = notes;
        self
    }

    /// Sets a version other than the default.
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

    /// Writes how many keys the selected database has, and how many with a TTL: a hint.
    pub(crate) fn sizes(&self, out: &mut Vec<u8>, keys: usize, expiring: usize) {
        debug_assert!(expiring <= keys);
        out.push(kind::SIZES);
        let mut out = Output::of_file(out, self.compresses);
        writer::number(&mut out, keys as u64);
        writer::number(&mut out, expiring as u64);
    }

    /// Selects a database, if another one is selected. Returns whether it wrote a record.
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

    /// Forgets the selected database, because records from elsewhere follow.
    pub(crate) fn forget_database(&mut self) {
        self.database = None;
    }

    /// Writes the attributes before a key: its deadline, and its use if that is recorded, from the
    /// entry's access bits.
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

    /// Writes the mark before a live topic whose name has no live prefix.
    pub(crate) fn live_mark(&self, out: &mut Vec<u8>, key: &[u8]) {
        if !self
            .live_prefixes
            .iter()
            .any(|prefix| key.starts_with(prefix))
        {
            self.aux(out, LIVE_MARK, b"1");
        }
    }

    /// Writes a key of the selected database.
    pub(crate) fn key(&self, out: &mut Vec<u8>, key: &[u8], value: ValueRef<'_>) {
        let out = &mut Output::of_key(out, key, self.compresses, self.version);
        save::write(out, value);
    }

    /// Adds the next bytes of the file to the checksum.
    pub(crate) fn seal(&mut self, bytes: &[u8]) {
        if let Some(checksum) = &mut self.checksum {
            *checksum = crc64::extended(*checksum, bytes);
        }
    }

    /// Writes the end record and seals it.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        self.seal(&[kind::END]);
        out.push(kind::END);
        out.extend_from_slice(&self.checksum.unwrap_or(0).to_le_bytes());
    }
}
