//! A snapshot: all keys as of one moment, written while commands continue.
//!
//! At the start, every shard is locked briefly and marked. Then the shards are visited one after
//! another, a few hundred entries per lock. A thread that changes an entry ahead of the walk first
//! writes its old value, and remembers the key so that the walk skips it. So the file contains the
//! state of the starting moment, and only changed entries are copied.
//!
//! The walk follows the order of the 16 hash bits that the table stores. This order does not depend
//! on the table's size: the hash alone decides whether an entry is before or after the walk's
//! position. Contents removed by FLUSHDB are kept until the walk has written them. SWAPDB only
//! changes the mapping of databases.
//!
//! Keys that expire meanwhile are left out: they would be expired for the file's reader too.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::quality::RandomState;
use parking_lot::Mutex;

use crate::entry::Entry;
use crate::key::{DATABASES, Key, SHARDS};
use crate::keyspace::Keyspace;
use crate::locks::ShardSet;
use crate::serial::{CannotHold, FileVersion, FileWriter, Usage, UsageNotes};
use crate::shard::Dictionary;
use crate::table::{ORDER_END, Table};
use crate::value::ValueRef;

/// Options of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct SnapshotOptions {
    /// RDB version of the file.
    pub version: FileVersion,
    /// Compresses texts if that makes them shorter.
    pub compresses: bool,
    /// Adds a checksum at the end.
    pub checks: bool,
    /// Aux fields about the file: name and value.
    pub aux: Vec<(String, String)>,
    /// The texts of libraries of functions.
    pub libraries: Vec<Vec<u8>>,
    /// What to record about the use of each key.
    pub usage: Usage,
    /// The current time, ms since the UNIX epoch, for recording the use of keys.
    pub now_ms: i64,
}

/// A file of all keys being written, from [`Keyspace::begin_snapshot`].
///
/// Dropping it early removes the remaining marks, which locks their shards.
pub struct Snapshot<'k> {
    keyspace: &'k Keyspace,
    writer: FileWriter,
    shared: Arc<Shared>,
    header: Option<SnapshotOptions>,
    sizes: [Option<Sizes>; DATABASES],
    /// The shard at the walk's position; [`SHARDS`] after the last one.
    shard: usize,
    written: u64,
    total: u64,
    has_ended: bool,
    misfit: Option<CannotHold>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    keys: usize,
    expiring: usize,
}

/// State shared by the walk and by threads that change keys.
#[derive(Debug)]
struct Shared {
    old: Mutex<OldValues>,
}

/// Records of keys that changed ahead of the walk.
#[derive(Debug)]
struct OldValues {
    writer: FileWriter,
    bytes: Vec<u8>,
    count: u64,
}

/// A shard's mark: the walk's position in it, and the changes since the start.
pub(crate) struct Mark {
    shared: Arc<Shared>,
    /// The walk's position: a database (as numbered at the start), and a place in its order.
    database: usize,
    order: u32,
    /// For each current database, its number at the start; `None` if it was emptied.
    origins: [Option<usize>; DATABASES],
    /// Keys ahead of the walk that are already written or did not exist at the start.
    done: [HashSet<Box<[u8]>, RandomState>; DATABASES],
    /// Databases that were emptied ahead of the walk.
    emptied: Vec<(usize, Dictionary)>,
}

impl Keyspace {
    /// Begins a snapshot of all keys of all databases. `at_that_moment` runs while every shard is
    /// locked, so it observes exactly the snapshot's state. Returns `None` while another snapshot
    /// exists. The caller must not hold a shard.
    pub fn begin_snapshot<R>(
        &self,
        options: SnapshotOptions,
        at_that_moment: impl FnOnce() -> R,
    ) -> Option<(Snapshot<'_>, R)> {
        if self.is_in_snapshot.swap(true, Ordering::AcqRel) {
            return None;
        }
        let version = options.version;
        let usage = UsageNotes {
            usage: options.usage,
            access: self.access(),
            now_ms: options.now_ms,
        };
        let shared = Arc::new(Shared {
            old: Mutex::new(OldValues {
                writer: FileWriter::new(options.compresses, false)
                    .with_usage(usage)
                    .with_live_prefixes(&self.live_prefixes),
                bytes: Vec::new(),
                count: 0,
            }),
        });
        let marks = (0..SHARDS).map(|_| Box::new(Mark::new(shared.clone())));
        let marks: Vec<_> = marks.collect();
        let mut snapshot = Snapshot {
            keyspace: self,
            writer: FileWriter::new(options.compresses, options.checks)
                .with_usage(usage)
                .with_live_prefixes(&self.live_prefixes),
            shared,
            header: Some(options),
            sizes: [None; DATABASES],
            shard: 0,
            written: 0,
            total: 0,
            has_ended: false,
            misfit: None,
        };
        let mut timed_hashes = 0;
        let mut locked = self.lock(ShardSet::all());
        for (number, mark) in marks.into_iter().enumerate() {
            let shard = locked.shard(number);
            for (dictionary, sizes) in shard.databases.iter().zip(&mut snapshot.sizes) {
                if dictionary.table.len() > 0 {
                    let sizes = sizes.get_or_insert_default();
                    sizes.keys += dictionary.table.len();
                    sizes.expiring += dictionary.expiring();
                    snapshot.total += dictionary.table.len() as u64;
                    timed_hashes += dictionary.timed_hashes();
                }
            }
            debug_assert!(shard.mark.is_none(), "one snapshot at a time");
            shard.mark = Some(mark);
        }
        match version.settled(timed_hashes, self.has_producers.load(Ordering::Relaxed)) {
            Ok(version) => {
                snapshot.writer.set_version(version);
                snapshot.shared.old.lock().writer.set_version(version);
            }
            Err(misfit) => snapshot.misfit = Some(misfit),
        }
        let result = at_that_moment();
        drop(locked);
        Some((snapshot, result))
    }

    /// Returns whether a snapshot is in progress.
    pub fn is_in_snapshot(&self) -> bool {
        self.is_in_snapshot.load(Ordering::Acquire)
    }
}

impl Snapshot<'_> {
    /// Appends the next part of the file; returns false at its end. Holds at most one shard, for a
    /// few hundred entries or about 64 KiB; longer only for a single longer value.
    pub fn step(&mut self, out: &mut Vec<u8>) -> bool {
        if self.has_ended {
            return false;
        }
        let start = out.len();
        if let Some(header) = self.header.take() {
            self.writer.begin(out);
            for (name, value) in &header.aux {
                self.writer.aux(out, name.as_bytes(), value.as_bytes());
            }
            for code in &header.libraries {
                self.writer.library(out, code);
            }
        } else if self.shard < SHARDS {
            self.walk(out);
        } else {
            self.has_ended = true;
        }
        self.take_old(out);
        debug_assert!(self.written <= self.total, "a key is written once");
        self.writer.seal(&out[start..]);
        if self.has_ended {
            self.writer.end(out);
            self.keyspace.is_in_snapshot.store(false, Ordering::Release);
        }
        !self.has_ended
    }

    /// Returns why the requested version cannot store the current keys, if so. The file must not be
    /// written then.
    pub fn misfit(&self) -> Option<CannotHold> {
        self.misfit
    }

    /// Sets the texts of the libraries, as they were at the snapshot's moment. Must be called
    /// before the first [`step`](Self::step).
    pub fn set_libraries(&mut self, libraries: Vec<Vec<u8>>) {
        if let Some(header) = &mut self.header {
            header.libraries = libraries;
        }
    }

    /// Adds an aux field about the file, before the first [`step`](Self::step).
    pub fn tell(&mut self, name: &str, value: String) {
        if let Some(header) = &mut self.header {
            header.aux.push((name.to_owned(), value));
        }
    }

    /// Returns the number of written keys.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of keys at the start.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Continues the walk in one shard; moves on when the shard is finished.
    fn walk(&mut self, out: &mut Vec<u8>) {
        debug_assert!(self.shard < SHARDS && self.header.is_none());
        let mut guard = self.keyspace.shards[self.shard].lock();
        let shard = &mut *guard;
        let Some(mark) = shard.mark.as_deref_mut() else {
            self.shard += 1;
            return;
        };
        while mark.database < DATABASES {
            let database = mark.database;
            if let Some(at) = mark
                .emptied
                .iter()
                .position(|(origin, _)| *origin == database)
            {
                let (_, dictionary) = mark.emptied.swap_remove(at);
                let from = mark.order;
                let done = mark.pass_database();
                drop(guard);
                return self.write_emptied(out, database, dictionary, from, &done);
            }
            let here = mark
                .origins
                .iter()
                .position(|&origin| origin == Some(database));
            let table = here.map(|here| &shard.databases[here].table);
            match table.filter(|table| table.len() > 0) {
                Some(table) if mark.order < ORDER_END => {
                    return self.write_part(out, table, mark);
                }
                _ => {
                    mark.pass_database();
                }
            }
        }
        shard.mark = None;
        self.shard += 1;
    }

    /// Writes some entries of a locked database.
    fn write_part(&mut self, out: &mut Vec<u8>, table: &Table, mark: &mut Mark) {
        let database = mark.database;
        let (mut entries, end) = table.part(mark.order);
        entries.sort_unstable_by_key(|(order, _)| *order);
        debug_assert!(
            entries
                .first()
                .is_none_or(|(order, _)| *order >= mark.order),
            "a part begins where the walk is"
        );
        self.select(out, database);
        let start = out.len();
        let mut order = mark.order;
        for (number, (of_entry, entry)) in entries.iter().enumerate() {
            // Entries with equal order stay together: the walk has no position between them.
            if *of_entry != order && (number >= PART_ENTRIES || out.len() - start >= PART_BYTES) {
                mark.order = *of_entry;
                return;
            }
            order = *of_entry;
            let done = &mut mark.done[database];
            if done.is_empty() || !done.remove(entry.key()) {
                self.written += u64::from(write_entry(&self.writer, out, entry));
            }
        }
        debug_assert!(end > mark.order, "each part goes on");
        mark.order = end;
    }

    /// Writes the rest of an emptied database; no shard is locked.
    fn write_emptied(
        &mut self,
        out: &mut Vec<u8>,
        database: usize,
        dictionary: Dictionary,
        from: u32,
        done: &HashSet<Box<[u8]>, RandomState>,
    ) {
        self.select(out, database);
        for entry in dictionary.table.iter() {
            if u32::from(entry.hash_bits()) >= from && !done.contains(entry.key()) {
                self.written += u64::from(write_entry(&self.writer, out, entry));
            }
        }
    }

    fn select(&mut self, out: &mut Vec<u8>, database: usize) {
        if self.writer.select(out, database)
            && let Some(sizes) = self.sizes[database].take()
        {
            self.writer.sizes(out, sizes.keys, sizes.expiring);
        }
    }

    /// Takes over the old values of changed keys.
    fn take_old(&mut self, out: &mut Vec<u8>) {
        let mut old = self.shared.old.lock();
        if !old.bytes.is_empty() {
            out.append(&mut old.bytes);
            self.written += std::mem::take(&mut old.count);
            old.writer.forget_database();
            self.writer.forget_database();
        }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        for shard in &self.keyspace.shards[self.shard..] {
            // The mark's contents are freed without the lock.
            let mark = shard.lock().mark.take();
            drop(mark);
        }
        self.keyspace.is_in_snapshot.store(false, Ordering::Release);
    }
}

impl fmt::Debug for Snapshot<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Snapshot")
            .field("shard", &self.shard)
            .field("written", &self.written)
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}

impl Mark {
    fn new(shared: Arc<Shared>) -> Self {
        Mark {
            shared,
            database: 0,
            order: 0,
            origins: std::array::from_fn(Some),
            done: Default::default(),
            emptied: Vec::new(),
        }
    }

    /// Moves on to the next database.
    fn pass_database(&mut self) -> HashSet<Box<[u8]>, RandomState> {
        debug_assert!(self.database < DATABASES);
        let done = std::mem::take(&mut self.done[self.database]);
        self.database += 1;
        self.order = 0;
        done
    }

    /// Returns whether the walk has passed a key's position.
    fn has_passed(&self, origin: usize, hash: u64) -> bool {
        (origin, u32::from(crate::hash::hash_bits(hash))) < (self.database, self.order)
    }

    /// Returns the number at the start of the key's database, if the walk has not reached the key
    /// and its old value is not written yet.
    fn pending(&self, database: usize, key: Key<'_>) -> Option<usize> {
        let origin = self.origins[database]?;
        let is_pending =
            !self.has_passed(origin, key.hash) && !self.done[origin].contains(key.bytes);
        is_pending.then_some(origin)
    }

    /// Records that a missing key is about to be added.
    pub(crate) fn note_new(&mut self, database: usize, key: Key<'_>) {
        if let Some(origin) = self.pending(database, key) {
            self.done[origin].insert(key.bytes.into());
        }
    }

    /// Writes an entry that is about to change.
    pub(crate) fn keep_old(&mut self, database: usize, key: Key<'_>, entry: &Entry) {
        if let Some(origin) = self.pending(database, key) {
            self.done[origin].insert(key.bytes.into());
            let mut old = self.shared.old.lock();
            let old = &mut *old;
            old.writer.select(&mut old.bytes, origin);
            old.count += u64::from(write_entry(&old.writer, &mut old.bytes, entry));
        }
    }

    /// Takes over an emptied database; returns it if the walk has passed it.
    pub(crate) fn keep_emptied(
        &mut self,
        database: usize,
        dictionary: Dictionary,
    ) -> Option<Dictionary> {
        match self.origins[database].take() {
            Some(origin) if origin >= self.database => {
                self.emptied.push((origin, dictionary));
                None
            }
            _ => Some(dictionary),
        }
    }

    pub(crate) fn swap(&mut self, first: usize, second: usize) {
        self.origins.swap(first, second);
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Mark")
            .field("database", &self.database)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}

/// Writes an entry; returns false for a hash whose fields have all expired.
fn write_entry(writer: &FileWriter, out: &mut Vec<u8>, entry: &Entry) -> bool {
    let value = ValueRef::at(entry, i64::MIN);
    if value.fields().is_some_and(|fields| fields.is_empty()) {
        return false;
    }
    if entry.is_live() {
        writer.live_mark(out, entry.key());
    }
    writer.attributes(out, entry.deadline_ms(), entry.access());
    writer.key(out, entry.key(), value);
    true
}

/// Maximum number of entries to write per lock.
const PART_ENTRIES: usize = 256;
/// Maximum number of bytes to write per lock, unless a single value is longer.
const PART_BYTES: usize = 64 << 10;
