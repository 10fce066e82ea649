//! The keyspace: shards, mounts, live topics, and how commands come to run on them.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use tidewire_resp::{Arguments, Writer};

use crate::access::Access;
use crate::command::{Call, Command, Flags, Locks, Run, Tells};
use crate::error::CommandError;
use crate::hash;
use crate::key::{DATABASES, SHARDS, shard_of};
use crate::lock::Lock;
use crate::locks::{Locked, ShardSet};
use crate::mount::{Mount, MountWriter};
use crate::observer::Observer;
use crate::propagation::Propagation;
use crate::quicklist::ListLimits;
use crate::reclaim::Reclaimer;
use crate::set::SetLimits;
use crate::shard::Shard;
use crate::sorted_set::SortedSetLimits;
use crate::stream::BlockLimits;
use crate::tracked::TrackingTotals;
use crate::view::View;
use crate::waiting::{Wait, Waiter};

mod eviction;
pub use eviction::{Evicted, EvictionOrder, EvictionRules, Evictor};

mod settings;
mod sizes;

mod prefetch;
pub use prefetch::{ElementOf, KeyHash, WantedKey};

mod direct;
pub(crate) use direct::{Direct, DirectRead, DirectWrite};

mod census;
pub use census::Census;

mod expiry;
pub use expiry::ExpiredKeys;

mod live;
pub use live::LIVE_CHANNEL;
mod topics;
pub use topics::is_reserved;

mod loading;
pub(crate) use loading::LOADING;
pub use loading::{LoadError, LoadOptions, Loaded};

mod own_deadlines;
use own_deadlines::OwnDeadlines;

/// How a keyspace is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keys of database 0 that begin with one of these are live topics.
    pub live_prefixes: Vec<Vec<u8>>,
    /// A hash with more fields becomes a table.
    pub hash_listpack_entries_max: usize,
    /// A hash with a longer field or value becomes a table.
    pub hash_listpack_value_bytes_max: usize,
    /// A set of integers with more members is kept otherwise.
    pub set_intset_entries_max: usize,
    /// A set with more members becomes a table.
    pub set_listpack_entries_max: usize,
    /// A set with a longer member becomes a table.
    pub set_listpack_value_bytes_max: usize,
    /// A sorted set with more members is kept otherwise.
    pub zset_listpack_entries_max: usize,
    /// A sorted set with a longer member is kept otherwise.
    pub zset_listpack_value_bytes_max: usize,
    /// Most elements in a chunk of a list; -1 to -5 mean 4, 8, 16, 32 or 64 KiB instead.
    pub list_listpack_size: i32,
    /// A HyperLogLog longer than this has 6 bits for each register, and no runs.
    pub hyperloglog_sparse_bytes_max: usize,
    /// About how many bytes of a stream's entries share a block; 0: any number.
    pub stream_node_bytes_max: usize,
    /// How many of a stream's entries share a block; 0: any number.
    pub stream_node_entries_max: usize,
    /// The longest string that APPEND and SETRANGE make, as `proto-max-bulk-len`.
    pub string_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            live_prefixes: vec![b"live:".to_vec()],
            hash_listpack_entries_max: 512,
            hash_listpack_value_bytes_max: 64,
            set_intset_entries_max: 512,
            set_listpack_entries_max: 128,
            set_listpack_value_bytes_max: 64,
            zset_listpack_entries_max: 128,
            zset_listpack_value_bytes_max: 64,
            list_listpack_size: -2,
            hyperloglog_sparse_bytes_max: 3_000,
            stream_node_bytes_max: 4_096,
            stream_node_entries_max: 100,
            string_bytes_max: 512 << 20,
        }
    }
}

/// All keys of all databases, shared by every lane.
///
/// Each key lies in one of [`SHARDS`] shards, each behind its own lock. A command takes the locks
/// of its keys in ascending order before it runs and lets go afterwards; nothing else is ever
/// waited for under a lock.
pub struct Keyspace {
    pub(crate) shards: Box<[Padded<Lock<Shard>>]>,
    /// For each shard when its timers next want attention: a lower bound, `i64::MAX` for never.
    /// Apart from the shards, so that looking at all of them touches 32 cache lines.
    next_ms: Box<[AtomicI64]>,
    /// The least of `next_ms`, or less.
    earliest_ms: Padded<AtomicI64>,
    /// Whether due keys are removed before a command asks for them.
    expires_actively: AtomicBool,
    trusts_payloads: AtomicBool,
    /// Until then nothing expires: ms since the UNIX epoch.
    expiry_paused_until_ms: AtomicI64,
    pub(crate) own_deadlines: OwnDeadlines,
    expired_fields: AtomicU64,
    evicted_keys: AtomicU64,
    pub(crate) reclaimer: Reclaimer,
    mounts: Vec<Arc<dyn Mount>>,
    /// Keys that were left out because a mount has their names.
    mounted_left_out: AtomicU64,
    /// A key has been made a topic whose name alone does not make it one.
    pub(crate) has_named_topics: AtomicBool,
    pub(crate) live_prefixes: Vec<Vec<u8>>,
    /// What keys of database 0 with this first byte may be: `MOUNTED`, `LIVE`, or neither.
    first_bytes: [u8; 256],
    /// Loads under way.
    loads: AtomicUsize,
    /// Bits of [`EventClasses`], and [`LOADING`].
    notifications: AtomicU32,
    propagation: Propagation,
    pub(crate) is_in_snapshot: AtomicBool,
    /// What [`Keyspace::set_tracking`] asks for.
    pub(crate) tracking: AtomicU32,
    pub(crate) tracking_totals: TrackingTotals,
    /// Times that all databases were emptied.
    pub(crate) flushes: AtomicU64,
    /// See [`Access`].
    access: AtomicU64,
    shares_integers: AtomicBool,
    claims_compression: AtomicBool,
    random: AtomicU64,
    hash_entries_max: AtomicUsize,
    hash_value_bytes_max: AtomicUsize,
    set_integers_max: AtomicUsize,
    set_packed_max: AtomicUsize,
    set_packed_bytes_max: AtomicUsize,
    sorted_set_entries_max: AtomicUsize,
    sorted_set_value_bytes_max: AtomicUsize,
    list_bytes_max: AtomicUsize,
    list_count_max: AtomicUsize,
    hyperloglog_sparse_bytes_max: AtomicUsize,
    stream_node_bytes_max: AtomicUsize,
    stream_node_entries_max: AtomicUsize,
    pub(crate) string_bytes_max: usize,
    last_census: census::Last,
}

/// What is freed in the background if it is large: the settings `lazyfree-lazy-*` and
/// `replica-lazy-flush`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LazyFreeing {
    /// Values of evicted keys.
    pub eviction: bool,
    /// Values of expired keys.
    pub expiry: bool,
    /// Values in whose place others are put, as RENAME does.
    pub replacement: bool,
    /// DEL does as UNLINK.
    pub deletion: bool,
    /// FLUSHALL and FLUSHDB do as with ASYNC.
    pub flush: bool,
    /// Keys in whose place those of a master or a file come.
    pub full_sync: bool,
}

/// How a command ended. Its reply is written in either case.
#[derive(Clone, Debug)]
#[must_use]
pub enum Outcome {
    /// The reply is the command's.
    Done,
    /// The reply is this error. In a box, so that an outcome is returned in two registers.
    Failed(Box<CommandError>),
    /// There is no reply yet: the client waits for a key.
    Waiting(Arc<Waiter>),
}

/// What all shards have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Reads of keys that were there.
    pub hits: u64,
    /// Reads of keys that were not.
    pub misses: u64,
    /// Expired keys.
    pub expired_keys: u64,
    /// Commands that have changed something, and expired keys that were removed.
    pub changes: u64,
    /// Keys that clients wait for now.
    pub awaited_keys: usize,
    /// Those of them whose removal also wakes a client.
    pub awaited_keys_or_loss: usize,
}

impl Keyspace {
    /// An empty keyspace.
    pub fn new(options: Options) -> Self {
        let mut keyspace = Keyspace {
            shards: (0..SHARDS)
                .map(|_| Padded(Lock::new(Shard::new())))
                .collect(),
            next_ms: (0..SHARDS).map(|_| AtomicI64::new(i64::MAX)).collect(),
            earliest_ms: Padded(AtomicI64::new(i64::MAX)),
            expires_actively: AtomicBool::new(true),
            trusts_payloads: AtomicBool::new(false),
            expiry_paused_until_ms: AtomicI64::new(0),
            own_deadlines: OwnDeadlines::default(),
            expired_fields: AtomicU64::new(0),
            evicted_keys: AtomicU64::new(0),
            reclaimer: Reclaimer::new(),
            mounts: Vec::new(),
            mounted_left_out: AtomicU64::new(0),
            has_named_topics: AtomicBool::new(false),
            live_prefixes: options.live_prefixes,
            first_bytes: [0; 256],
            loads: AtomicUsize::new(0),
            notifications: AtomicU32::new(0),
            propagation: Propagation::default(),
            is_in_snapshot: AtomicBool::new(false),
            tracking: AtomicU32::new(0),
            tracking_totals: TrackingTotals::default(),
            flushes: AtomicU64::new(0),
            access: AtomicU64::new(Access::new(false, 10, 1).0),
            shares_integers: AtomicBool::new(true),
            claims_compression: AtomicBool::new(false),
            random: AtomicU64::new(hash::of(b"random")),
            hash_entries_max: AtomicUsize::new(0),
            hash_value_bytes_max: AtomicUsize::new(0),
            set_integers_max: AtomicUsize::new(0),
            set_packed_max: AtomicUsize::new(0),
            set_packed_bytes_max: AtomicUsize::new(0),
            sorted_set_entries_max: AtomicUsize::new(0),
            sorted_set_value_bytes_max: AtomicUsize::new(0),
            list_bytes_max: AtomicUsize::new(0),
            list_count_max: AtomicUsize::new(0),
            hyperloglog_sparse_bytes_max: AtomicUsize::new(options.hyperloglog_sparse_bytes_max),
            stream_node_bytes_max: AtomicUsize::new(options.stream_node_bytes_max),
            stream_node_entries_max: AtomicUsize::new(options.stream_node_entries_max),
            string_bytes_max: options.string_bytes_max.min(STRING_BYTES_MAX),
            last_census: census::Last::default(),
        };
        keyspace.set_hash_limits(
            options.hash_listpack_entries_max,
            options.hash_listpack_value_bytes_max,
        );
        keyspace.set_set_limits(
            options.set_intset_entries_max,
            options.set_listpack_entries_max,
            options.set_listpack_value_bytes_max,
        );
        keyspace.set_sorted_set_limits(
            options.zset_listpack_entries_max,
            options.zset_listpack_value_bytes_max,
        );
        keyspace.set_list_limit(options.list_listpack_size);
        keyspace.live_prefixes.iter().for_each(|prefix| {
            let first = prefix.first().copied();
            mark_first_byte(&mut keyspace.first_bytes, first, LIVE);
        });
        keyspace
    }

    /// Binds a live source to its prefix. Of mounts whose prefixes overlap the first one wins.
    /// Keys stored under the prefix before are hidden, so mount before serving.
    pub fn mount(&mut self, mount: Arc<dyn Mount>) {
        mark_first_byte(
            &mut self.first_bytes,
            mount.prefix().first().copied(),
            MOUNTED,
        );
        self.mounts.push(mount);
    }

    /// The mounts, in order.
    pub fn mounts(&self) -> &[Arc<dyn Mount>] {
        &self.mounts
    }

    /// Gives a client's SET to the mount that has the key: [`Mount::write`].
    pub fn write_mounted(
        &self,
        database: usize,
        key: &[u8],
        value: &[u8],
        writer: MountWriter,
    ) -> Option<&'static str> {
        self.mount_of(database, key)?.write(key, value, writer)
    }

    /// The changes that go to replicas and to the append-only file.
    #[inline]
    pub fn propagation(&self) -> &Propagation {
        &self.propagation
    }

    /// Runs a data command and writes its reply, error or not. The number of arguments must have
    /// been checked ([`crate::resolve`] does); `database` is below [`DATABASES`], `now_ms` counts
    /// from the UNIX epoch.
    #[inline]
    pub fn execute(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
        now_ms: i64,
        reply: &mut Writer<'_>,
        observer: &mut dyn Observer,
    ) -> Outcome {
        self.execute_found(None, command, arguments, database, now_ms, reply, observer)
    }

    /// The same where the hash of the first key is known from [`prefetch`](Self::prefetch).
    #[inline]
    pub fn execute_found(
        &self,
        first_key: Option<KeyHash>,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
        now_ms: i64,
        reply: &mut Writer<'_>,
        observer: &mut dyn Observer,
    ) -> Outcome {
        let Some(first) = command.single_key(arguments) else {
            let mut locked = self.lock(self.shards_of(command, arguments));
            let outcome = self.run_locked(
                &mut locked,
                command,
                arguments,
                database,
                now_ms,
                reply,
                observer,
            );
            if command.has(Flags::TOUCHES_ANY_KEY)
                && let Some(unit) = locked.pending.present()
            {
                unit.loosen();
            }
            self.release(locked, now_ms, observer);
            return outcome;
        };
        let hash = match first_key {
            Some(known) => known.0,
            None => hash::of(&arguments[first]),
        };
        debug_assert_eq!(hash, hash::of(&arguments[first]), "the hash of another key");
        let mut locked = Locked::one(self, shard_of(hash));
        let hint = Some((first, hash));
        let outcome = self.run(
            &mut locked,
            command,
            arguments,
            hint,
            None,
            database,
            now_ms,
            reply,
            observer,
        );
        // Giving it away copies it, which waits for what was just written.
        if locked.has_ready() {
            self.release(locked, now_ms, observer);
        }
        outcome
    }

    /// The same for a command that another server has told, or this one has told before: what has
    /// expired meanwhile goes when the command for that comes.
    pub fn execute_told(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
        now_ms: i64,
        reply: &mut Writer<'_>,
        observer: &mut dyn Observer,
    ) -> Outcome {
        let mut locked = self.lock(self.shards_of(command, arguments));
        locked.keep_due();
        let outcome = self.run_locked(
            &mut locked,
            command,
            arguments,
            database,
            now_ms,
            reply,
            observer,
        );
        self.release(locked, now_ms, observer);
        outcome
    }

    /// The shards that a command needs when it runs alone.
    pub fn shards_of(&self, command: &'static Command, arguments: Arguments<'_>) -> ShardSet {
        let mut set = ShardSet::empty();
        match command.locks {
            Locks::None | Locks::Sweep => {}
            Locks::All => set = ShardSet::all(),
            Locks::AllIf(all) if all(arguments) => set = ShardSet::all(),
            Locks::Keys | Locks::AllIf(_) => {
                let keys = command.key_positions(arguments);
                keys.for_each(|at| set.insert(shard_of(hash::of(&arguments[at]))));
            }
        }
        set
    }

    /// The shards that a command needs when it runs together with others under one lock, as in
    /// MULTI
    /// and scripts, which lock the union: one that would walk the shards one by one needs them all.
    pub fn shards_of_queued(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
    ) -> ShardSet {
        match command.locks {
            Locks::Sweep => ShardSet::all(),
            _ => self.shards_of(command, arguments),
        }
    }

    /// Locks the shards of a set, in ascending order.
    pub fn lock(&self, set: ShardSet) -> Locked<'_> {
        Locked::set(self, set)
    }

    /// Runs a data command on shards that are locked already: at least those that
    /// [`shards_of`](Self::shards_of) names for it.
    pub fn run_locked(
        &self,
        locked: &mut Locked<'_>,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
        now_ms: i64,
        reply: &mut Writer<'_>,
        observer: &mut dyn Observer,
    ) -> Outcome {
        self.run(
            locked, command, arguments, None, None, database, now_ms, reply, observer,
        )
    }

    /// What has been counted since the last [`reset_totals`](Self::reset_totals); walks the
    /// shards.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for shard in &self.shards {
            totals.add(&shard.lock());
        }
        totals
    }

    /// Counts hits, misses and what has expired from zero on.
    pub fn reset_totals(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            (shard.hits, shard.misses, shard.expired_keys) = (0, 0, 0);
        }
        self.expired_fields.store(0, Ordering::Relaxed);
        self.evicted_keys.store(0, Ordering::Relaxed);
        self.reclaimer.reset();
    }

    /// Keys in one database, those of mounts not included; walks the shards.
    pub fn keys(&self, database: usize) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().databases[database].table.len())
            .sum()
    }

    /// Whether the key belongs to a mount, and to which.
    #[inline]
    pub fn mount_of(&self, database: usize, key: &[u8]) -> Option<&dyn Mount> {
        let first = *key.first()?;
        if self.first_bytes[usize::from(first)] & MOUNTED == 0 || database != 0 {
            return None;
        }
        self.mounts
            .iter()
            .find(|mount| key.starts_with(mount.prefix()))
            .map(|mount| &**mount)
    }

    /// Fields and value bytes up to which a hash stays packed.
    pub(crate) fn hash_limits(&self) -> (usize, usize) {
        (
            self.hash_entries_max.load(Ordering::Relaxed),
            self.hash_value_bytes_max.load(Ordering::Relaxed),
        )
    }

    /// Up to where a set stays small.
    pub(crate) fn set_limits(&self) -> SetLimits {
        SetLimits {
            integers_max: self.set_integers_max.load(Ordering::Relaxed),
            packed_max: self.set_packed_max.load(Ordering::Relaxed),
            packed_bytes_max: self.set_packed_bytes_max.load(Ordering::Relaxed),
        }
    }

    /// Up to where a sorted set stays small.
    pub(crate) fn sorted_set_limits(&self) -> SortedSetLimits {
        SortedSetLimits {
            entries_max: self.sorted_set_entries_max.load(Ordering::Relaxed),
            value_bytes_max: self.sorted_set_value_bytes_max.load(Ordering::Relaxed),
        }
    }

    /// Up to where a stream's entries share a block.
    pub(crate) fn stream_limits(&self) -> BlockLimits {
        BlockLimits::new(
            self.stream_node_bytes_max.load(Ordering::Relaxed),
            self.stream_node_entries_max.load(Ordering::Relaxed),
        )
    }

    /// How many entries a trim by whole blocks removes at most, if it is not told.
    pub(crate) fn stream_trim_limit(&self) -> u64 {
        match self.stream_node_entries_max.load(Ordering::Relaxed) as u64 {
            0 => 10_000,
            entries_max => entries_max.saturating_mul(100).min(1_000_000),
        }
    }

    /// How much a list's chunk holds.
    pub(crate) fn list_limits(&self) -> ListLimits {
        ListLimits {
            bytes_max: self.list_bytes_max.load(Ordering::Relaxed),
            count_max: self.list_count_max.load(Ordering::Relaxed),
        }
    }

    /// A random number; splitmix64 over a shared counter.
    pub(crate) fn random(&self) -> u64 {
        let word = self
            .random
            .fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        hash::mixed(word)
    }

    /// Runs a command on locked shards; `wait` takes what it waits for, where it may wait.
    #[inline]
    pub(crate) fn run(
        &self,
        locked: &mut Locked<'_>,
        command: &'static Command,
        arguments: Arguments<'_>,
        hint: Option<(usize, u64)>,
        wait: Option<&mut Option<Wait>>,
        database: usize,
        now_ms: i64,
        reply: &mut Writer<'_>,
        observer: &mut dyn Observer,
    ) -> Outcome {
        let Run::Data(handler) = command.run else {
            return fail(reply, CommandError::NotData);
        };
        if database >= DATABASES {
            return fail(reply, CommandError::DatabaseOutOfRange);
        }
        // Made where it stays: copying it would wait for what was just written.
        let mut call = Call {
            arguments,
            reply,
            view: View::new(self, locked, database, now_ms, observer),
            command,
            hint,
            waiting: wait.is_some(),
            wait: None,
            tells: Tells::Request,
        };
        let writes_keys = command.has(Flags::WRITES_KEYS);
        call.view.counts_reads = !writes_keys;
        call.view.only_reads = !writes_keys;
        if writes_keys {
            if call.view.is_closed() {
                return self.refuse(&mut call, CommandError::Loading);
            }
            if !self.mounts.is_empty()
                && let Err(error) = check_writable(&call.view, command, arguments, hint)
            {
                return self.refuse(&mut call, error);
            }
        }
        let ended = handler(&mut call);
        if call.view.tells_reads() {
            call.view.remember_reads(command, arguments);
        }
        match ended {
            Ok(()) => {
                call.tell_request();
                if let (Some(wait), Some(wanted)) = (wait, call.wait) {
                    *wait = Some(wanted);
                }
                Outcome::Done
            }
            Err(error) => self.refuse(&mut call, error),
        }
    }
}

impl Totals {
    fn add(&mut self, shard: &Shard) {
        self.hits += shard.hits;
        self.misses += shard.misses;
        self.expired_keys += shard.expired_keys;
        self.changes += shard.changes;
        for interests in shard.interests.iter().flatten() {
            self.awaited_keys += interests.awaited(|_| true);
            self.awaited_keys_or_loss += interests.awaited(|waiter| waiter.wakes_on_loss);
        }
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Keyspace")
            .field("mounts", &self.mounts)
            .field("next_deadline_ms", &self.next_deadline_ms())
            .finish_non_exhaustive()
    }
}

/// On cache lines of its own; two, because processors fetch them in pairs.
#[repr(align(128))]
pub(crate) struct Padded<T>(T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Refuses a command that would write to a mount, before it has changed anything.
#[inline]
fn check_writable(
    view: &View<'_, '_>,
    command: &'static Command,
    arguments: Arguments<'_>,
    hint: Option<(usize, u64)>,
) -> Result<(), CommandError> {
    match hint {
        Some((only, _)) => view.check_writable(&arguments[only]),
        // Keys that are only read, as the sources of SUNIONSTORE, may be mounted.
        None => command
            .keys
            .iter()
            .filter(|spec| !spec.flags.starts_with("RO"))
            .flat_map(|spec| spec.positions(arguments))
            .try_for_each(|at| view.check_writable(&arguments[at])),
    }
}

#[cold]
fn fail(reply: &mut Writer<'_>, error: CommandError) -> Outcome {
    reply.error(&error.to_string());
    Outcome::Failed(Box::new(error))
}

/// An empty prefix matches every key.
fn mark_first_byte(first_bytes: &mut [u8; 256], first: Option<u8>, mark: u8) {
    match first {
        Some(first) => first_bytes[usize::from(first)] |= mark,
        None => first_bytes.iter_mut().for_each(|byte| *byte |= mark),
    }
}

/// Longest string under any setting: an entry stores lengths in 32 bits.
const STRING_BYTES_MAX: usize = 2 << 30;

const MOUNTED: u8 = 1;
const LIVE: u8 = 2;
