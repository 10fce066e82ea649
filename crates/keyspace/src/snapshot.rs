//! All keys as they are at one moment, written while commands go on.
//!
//! A snapshot begins with every shard locked for a moment, in which each is marked. From then on
//! the shards are walked one after the other, a few hundred entries under each lock. A thread
//! that changes an entry ahead of the walk writes its old value first, and remembers the key so
//! that the walk leaves it out. So the file holds the state at the moment it began, and only
//! changed entries are copied.
//!
//! The walk's order is that of 16 bits of a key's hash that the table stores. It does not depend on
//! the table's size: the hash alone decides whether an entry is before or after the walk. What
//! FLUSHDB empties is kept until the walk has been there; SWAPDB only changes which database is
//! which.
//!
//! What expires meanwhile is left out: it has expired for the reader of the file, too.

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

/// How a snapshot is written.
#[derive(Clone, Debug, Default)]
pub struct SnapshotOptions {
    /// The version of the file.
    pub version: FileVersion,
    /// Texts are compressed where that makes them shorter.
    pub compresses: bool,
    /// The end has a checksum.
    pub checks: bool,
    /// Fields that tell something of the file, by name.
    pub aux: Vec<(String, String)>,
    /// The texts of libraries of functions.
    pub libraries: Vec<Vec<u8>>,
    /// What the snapshot records of the use of each key.
    pub usage: Usage,
    /// Now, ms since the UNIX epoch: the use of keys is recorded as of this time.
    pub now_ms: i64,
}

/// A file of all keys in the making, from [`Keyspace::begin_snapshot`].
///
/// Dropping it before its end takes the marks away again, for which it locks the shards that are
/// left.
pub struct Snapshot<'k> {
    keyspace: &'k Keyspace,
    writer: FileWriter,
    shared: Arc<Shared>,
    header: Option<SnapshotOptions>,
    sizes: [Option<Sizes>; DATABASES],
    /// The shard that the walk has come to; [`SHARDS`] behind the last.
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

/// What the writers of keys and the walk share.
#[derive(Debug)]
struct Shared {
    old: Mutex<OldValues>,
}

/// Records of keys that changed before the walk came to them.
#[derive(Debug)]
struct OldValues {
    writer: FileWriter,
    bytes: Vec<u8>,
    count: u64,
}

/// A shard's mark: how far it has been walked, and what has changed since.
pub(crate) struct Mark {
    shared: Arc<Shared>,
    /// The walk has come to this database of those that there were, and to this place in its order.
    database: usize,
    order: u32,
    /// Which of the databases that there were each one is; `None`: it was emptied.
    origins: [Option<usize>; DATABASES],
    /// Keys not reached that are written already, or were not there.
    done: [HashSet<Box<[u8]>, RandomState>; DATABASES],
    /// Databases that were emptied before the walk came to them.
    emptied: Vec<(usize, Dictionary)>,
}

impl Keyspace {
    /// Begins a snapshot of all keys of all databases; `at_that_moment` runs while every shard is
    /// locked, so that what is noted there belongs to the same moment. `None` while there is one
    /// already. Must not be called with a shard locked.
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
                    .telling(usage)
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
                .telling(usage)
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
        match version.settled(timed_hashes) {
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

    /// Whether a snapshot is being made.
    pub fn is_in_snapshot(&self) -> bool {
        self.is_in_snapshot.load(Ordering::Acquire)
    }
}

impl Snapshot<'_> {
    /// Appends what comes next in the file; false at its end. Holds one shard at most, for a few
    /// hundred entries or about 64 KiB of them; only a value that is longer takes longer.
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

    /// Why the version that was asked for cannot hold what is there, if so: then it must not be
    /// written.
    pub fn misfit(&self) -> Option<CannotHold> {
        self.misfit
    }

    /// Adds a field that tells something of the file, before the first [`step`](Self::step).
    pub fn tell(&mut self, name: &str, value: String) {
        if let Some(header) = &mut self.header {
            header.aux.push((name.to_owned(), value));
        }
    }

    /// Keys that have been written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Keys that there were when it began.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Walks on in one shard; leaves it if nothing is left.
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

    /// Writes some entries of a database that is locked.
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
            // Those of one order go together: the walk knows no place between them.
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

    /// Writes what is left of a database that was emptied; no shard is locked.
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

    /// Takes over the old values of what has changed.
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
            // What it has kept is freed without the lock.
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

    /// Goes on to the next database.
    fn pass_database(&mut self) -> HashSet<Box<[u8]>, RandomState> {
        debug_assert!(self.database < DATABASES);
        let done = std::mem::take(&mut self.done[self.database]);
        self.database += 1;
        self.order = 0;
        done
    }

    /// Whether the walk has passed where a key belongs.
    fn has_passed(&self, origin: usize, hash: u64) -> bool {
        (origin, u32::from(crate::hash::hash_bits(hash))) < (self.database, self.order)
    }

    /// The database that there was, if the walk has not reached this key of it and nothing was
    /// done about it yet.
    fn pending(&self, database: usize, key: Key<'_>) -> Option<usize> {
        let origin = self.origins[database]?;
        let is_pending =
            !self.has_passed(origin, key.hash) && !self.done[origin].contains(key.bytes);
        is_pending.then_some(origin)
    }

    /// A key that was not there is about to be.
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

    /// Takes a database that is emptied; gives it back if the walk has passed it.
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

/// Writes an entry; not a hash whose fields have all expired just now.
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

/// Entries that are written under one lock, unless they are long.
const PART_ENTRIES: usize = 256;
/// Bytes that are written under one lock, unless a single value is longer.
const PART_BYTES: usize = 64 << 10;
