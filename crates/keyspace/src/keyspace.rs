//! The keyspace: shards, mounts, live topics, and the execution of commands on them.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use tidewire_resp::{Arguments, Writer};

use crate::access::{Access, RecordedUse};
use crate::command::{Call, Command, Flags, Locks, Propagated, Run};
use crate::error::CommandError;
use crate::gate::{AnyOrder, Gate};
use crate::hash;
use crate::key::{DATABASES, SHARDS, shard_of};
use crate::lock::Lock;
use crate::locks::{Locked, ShardSet};
use crate::mount::{Mount, MountPush, MountWrite, Pushed};
use crate::observer::Observer;
use crate::propagation::Propagation;
use crate::quicklist::ListLimits;
use crate::reclaim::Reclaimer;
use crate::set::SetLimits;
use crate::shard::Shard;
use crate::sorted_set::SortedSetLimits;
use crate::stream::{BlockLimits, ProducerLimits};
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

/// Settings of a keyspace.
#[derive(Clone, Debug)]
pub struct Options {
    /// Prefixes of live topics among the keys of database 0.
    pub live_prefixes: Vec<Vec<u8>>,
    /// A hash with more fields becomes a table.
    pub hash_listpack_entries_max: usize,
    /// A hash with a longer field or value becomes a table.
    pub hash_listpack_value_bytes_max: usize,
    /// A set of integers with more members changes its encoding.
    pub set_intset_entries_max: usize,
    /// A set with more members becomes a table.
    pub set_listpack_entries_max: usize,
    /// A set with a longer member becomes a table.
    pub set_listpack_value_bytes_max: usize,
    /// A sorted set with more members changes its encoding.
    pub zset_listpack_entries_max: usize,
    /// A sorted set with a longer member changes its encoding.
    pub zset_listpack_value_bytes_max: usize,
    /// Maximum number of elements in a chunk of a list; -1 to -5 mean 4, 8, 16, 32 or 64 KiB
    /// instead.
    pub list_listpack_size: i32,
    /// A longer HyperLogLog has 6 bits per register instead of runs.
    pub hyperloglog_sparse_bytes_max: usize,
    /// Approximate maximum bytes of stream entries that share a block; 0: no limit.
    pub stream_node_bytes_max: usize,
    /// Maximum number of stream entries that share a block; 0: no limit.
    pub stream_node_entries_max: usize,
    /// Maximum string length that APPEND and SETRANGE can produce: `proto-max-bulk-len`.
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
/// Each key is in one of [`SHARDS`] shards, each with its own lock. A command locks the shards of
/// its keys in ascending order before it runs, and unlocks them afterwards. It never waits for
/// anything else while it holds a lock.
pub struct Keyspace {
    pub(crate) shards: Box<[Padded<Lock<Shard>>]>,
    pub(crate) gate: Gate,
    /// For each shard, when its timers next need attention: a lower bound, `i64::MAX` for never.
    /// Separate from the shards, so that reading all of them touches 32 cache lines.
    next_ms: Box<[AtomicI64]>,
    /// The minimum of `next_ms`, or less.
    earliest_ms: Padded<AtomicI64>,
    /// Whether expired keys are removed before a command accesses them.
    expires_actively: AtomicBool,
    trusts_payloads: AtomicBool,
    /// Time until which nothing expires: ms since the UNIX epoch.
    expiry_paused_until_ms: AtomicI64,
    pub(crate) own_deadlines: OwnDeadlines,
    expired_fields: AtomicU64,
    evicted_keys: AtomicU64,
    pub(crate) reclaimer: Reclaimer,
    mounts: Vec<Arc<dyn Mount>>,
    /// Number of keys that were left out because a mount has their names.
    mounted_left_out: AtomicU64,
    /// True once a key was made a topic without a live prefix.
    pub(crate) has_named_topics: AtomicBool,
    pub(crate) live_prefixes: Vec<Vec<u8>>,
    /// What keys of database 0 with this first byte may be: `MOUNTED`, `LIVE`, both or neither.
    first_bytes: [u8; 256],
    /// Number of loads in progress.
    loads: AtomicUsize,
    /// Bits of [`EventClasses`], and [`LOADING`].
    notifications: AtomicU32,
    propagation: Propagation,
    pub(crate) is_in_snapshot: AtomicBool,
    /// The setting of [`Keyspace::set_tracking`].
    pub(crate) tracking: AtomicU32,
    pub(crate) tracking_totals: TrackingTotals,
    /// How often all databases were emptied.
    pub(crate) flushes: AtomicU64,
    /// The settings of [`Access`].
    access: AtomicU64,
    shares_integers: AtomicBool,
    follows_valkey: AtomicBool,
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
    /// The setting of [`Keyspace::set_producer_limits`].
    producer_limits: AtomicU64,
    /// True once a stream had anything that only the newest form of streams stores.
    pub(crate) has_producers: AtomicBool,
    pub(crate) string_bytes_max: usize,
    last_census: census::Last,
}

/// Which large values are freed in the background: the settings `lazyfree-lazy-*` and
/// `replica-lazy-flush`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LazyFreeing {
    /// Values of evicted keys.
    pub eviction: bool,
    /// Values of expired keys.
    pub expiry: bool,
    /// Values that another value replaces, as in RENAME.
    pub replacement: bool,
    /// DEL behaves like UNLINK.
    pub deletion: bool,
    /// FLUSHALL and FLUSHDB behave as with ASYNC.
    pub flush: bool,
    /// Keys that a full sync or a file replaces.
    pub full_sync: bool,
}

/// The outcome of a command. Its reply is written in each case but [`Waiting`](Outcome::Waiting).
#[derive(Clone, Debug)]
#[must_use]
pub enum Outcome {
    /// The command has written its reply.
    Done,
    /// The reply is this error. Boxed, so that an outcome is returned in two registers.
    Failed(Box<CommandError>),
    /// There is no reply yet: the client waits for a key.
    Waiting(Arc<Waiter>),
}

/// Counters summed over all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Reads of existing keys.
    pub hits: u64,
    /// Reads of missing keys.
    pub misses: u64,
    /// Expired keys.
    pub expired_keys: u64,
    /// Commands that changed something, plus expired keys that were removed.
    pub changes: u64,
    /// Keys that clients are waiting for.
    pub awaited_keys: usize,
    /// Those of them whose removal also wakes a client.
    pub awaited_keys_or_loss: usize,
}

impl Keyspace {
    /// Creates an empty keyspace.
    pub fn new(options: Options) -> Self {
        let mut keyspace = Keyspace {
            shards: (0..SHARDS)
                .map(|_| Padded(Lock::new(Shard::new())))
                .collect(),
            gate: Gate::default(),
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
            access: AtomicU64::new(Access::new(RecordedUse::Time, 10, 1).0),
            shares_integers: AtomicBool::new(true),
            follows_valkey: AtomicBool::new(false),
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
            producer_limits: AtomicU64::new(0),
            has_producers: AtomicBool::new(false),
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
        let ProducerLimits {
            duration_s,
            entries_max,
        } = ProducerLimits::default();
        keyspace.set_producer_limits(duration_s, entries_max);
        keyspace.live_prefixes.iter().for_each(|prefix| {
            let first = prefix.first().copied();
            mark_first_byte(&mut keyspace.first_bytes, first, LIVE);
        });
        keyspace
    }

    /// Mounts a live source under its prefix. If prefixes overlap, the first mount wins. Keys
    /// already stored under the prefix become hidden, so mount before serving.
    pub fn mount(&mut self, mount: Arc<dyn Mount>) {
        mark_first_byte(
            &mut self.first_bytes,
            mount.prefix().first().copied(),
            MOUNTED,
        );
        self.mounts.push(mount);
    }

    /// Returns the mounts in order.
    pub fn mounts(&self) -> &[Arc<dyn Mount>] {
        &self.mounts
    }

    /// Passes a client's write to the mount that owns the key: [`Mount::write`].
    pub fn write_mounted(&self, database: usize, write: &MountWrite<'_>) -> Option<&'static str> {
        self.mount_of(database, write.key)?.write(write)
    }

    /// Passes a value to the mount that owns the key of database 0: [`Mount::push`].
    pub fn push_mounted(&self, push: &MountPush<'_>) -> Pushed {
        let mount = self.mount_of(0, push.key);
        mount.map_or(Pushed::Refused, |mount| mount.push(push))
    }

    /// Returns the logs of changes for replicas and the append-only file.
    #[inline]
    pub fn propagation(&self) -> &Propagation {
        &self.propagation
    }

    /// Runs a data command and writes its reply, also if it fails. The caller has checked the
    /// number of arguments ([`crate::resolve`] does). `database` is below [`DATABASES`]; `now_ms`
    /// is ms since the UNIX epoch.
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

    /// Does the same if the hash of the first key is known from [`prefetch`](Self::prefetch).
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
        debug_assert_eq!(
            hash,
            hash::of(&arguments[first]),
            "the hash belongs to another key"
        );
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
        // Moving it copies it, which would wait for the store just made.
        if locked.has_ready() {
            self.release(locked, now_ms, observer);
        }
        outcome
    }

    /// Does the same for a propagated command, from another server or a log. Expired keys stay
    /// until the propagated command that removes them.
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

    /// Returns the shards that a command needs when it runs alone.
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

    /// Returns the shards that a command needs when it runs with others under one lock, as in MULTI
    /// and scripts, which lock the union. A command that would visit the shards one by one needs
    /// all of them.
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

    /// Takes the right to lock shards as they are needed ([`cover`](Self::cover)). No other lane
    /// may lock a shard until it ends. `None`: another thread locks several shards; lock all that
    /// may be needed at once.
    pub fn any_order(&self) -> Option<AnyOrder<'_>> {
        self.gate.try_take()
    }

    /// Adds the shards of a command to those that are locked. If one is missing, the thread needs
    /// [`any_order`](Self::any_order).
    pub fn cover(
        &self,
        locked: &mut Locked<'_>,
        command: &'static Command,
        arguments: Arguments<'_>,
    ) {
        if !locked.holds_all() {
            locked.cover(&self.shards_of_queued(command, arguments));
        }
    }

    /// Adds the shard of a key's name likewise.
    pub fn cover_name(&self, locked: &mut Locked<'_>, name: &[u8]) {
        if !locked.holds_all() {
            locked.cover(&self.shard_of_name(name));
        }
    }

    /// Locks the shards of a set, in ascending order.
    pub fn lock(&self, set: ShardSet) -> Locked<'_> {
        Locked::set(self, set)
    }

    /// Runs a data command while its shards are locked: at least those that
    /// [`shards_of`](Self::shards_of) returns.
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

    /// Returns the counters since the last [`reset_totals`](Self::reset_totals). Visits all shards.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for shard in &self.shards {
            totals.add(&shard.lock());
        }
        totals
    }

    /// Resets the counters of hits, misses and expired keys.
    pub fn reset_totals(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            (shard.hits, shard.misses, shard.expired_keys) = (0, 0, 0);
        }
        self.expired_fields.store(0, Ordering::Relaxed);
        self.evicted_keys.store(0, Ordering::Relaxed);
        self.reclaimer.reset();
    }

    /// Returns the number of keys in one database, without those of mounts. Visits all shards.
    pub fn keys(&self, database: usize) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().databases[database].table.len())
            .sum()
    }

    /// Returns the mount that a key belongs to, if any.
    #[inline]
    pub fn mount_of(&self, database: usize, key: &[u8]) -> Option<&dyn Mount> {
        let first = *key.first()?;
        if self.first_bytes[usize::from(first)] & MOUNTED == 0 || database != 0 {
            return None;
        }
        self.mounts
            .iter()
            .find(|mount| key.starts_with(mount.prefix()) && mount.claims(key))
            .map(|mount| &**mount)
    }

    /// Returns the mount that lets no key be made under a name, if any.
    #[inline]
    pub(crate) fn mount_that_reserves(&self, database: usize, key: &[u8]) -> Option<&dyn Mount> {
        let first = *key.first()?;
        if self.first_bytes[usize::from(first)] & MOUNTED == 0 || database != 0 {
            return None;
        }
        self.mounts
            .iter()
            .find(|mount| key.starts_with(mount.prefix()) && mount.is_reserved(key))
            .map(|mount| &**mount)
    }

    /// Returns the maximum number of fields and bytes of a packed hash.
    pub(crate) fn hash_limits(&self) -> (usize, usize) {
        (
            self.hash_entries_max.load(Ordering::Relaxed),
            self.hash_value_bytes_max.load(Ordering::Relaxed),
        )
    }

    /// Returns the limits of a small set.
    pub(crate) fn set_limits(&self) -> SetLimits {
        SetLimits {
            integers_max: self.set_integers_max.load(Ordering::Relaxed),
            packed_max: self.set_packed_max.load(Ordering::Relaxed),
            packed_bytes_max: self.set_packed_bytes_max.load(Ordering::Relaxed),
        }
    }

    /// Returns the limits of a small sorted set.
    pub(crate) fn sorted_set_limits(&self) -> SortedSetLimits {
        SortedSetLimits {
            entries_max: self.sorted_set_entries_max.load(Ordering::Relaxed),
            value_bytes_max: self.sorted_set_value_bytes_max.load(Ordering::Relaxed),
        }
    }

    /// Returns the limits of a stream's block.
    pub(crate) fn stream_limits(&self) -> BlockLimits {
        BlockLimits::new(
            self.stream_node_bytes_max.load(Ordering::Relaxed),
            self.stream_node_entries_max.load(Ordering::Relaxed),
        )
    }

    /// Returns how many entries an approximate trim removes at most, without LIMIT.
    pub(crate) fn stream_trim_limit(&self) -> u64 {
        match self.stream_node_entries_max.load(Ordering::Relaxed) as u64 {
            0 => 10_000,
            entries_max => entries_max.saturating_mul(100).min(1_000_000),
        }
    }

    /// Returns the limits of a list's chunk.
    pub(crate) fn list_limits(&self) -> ListLimits {
        ListLimits {
            bytes_max: self.list_bytes_max.load(Ordering::Relaxed),
            count_max: self.list_count_max.load(Ordering::Relaxed),
        }
    }

    /// Returns a random number (SplitMix64 over a shared counter).
    pub(crate) fn random(&self) -> u64 {
        let word = self
            .random
            .fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        hash::mixed(word)
    }

    /// Runs a command on locked shards. `wait` receives what the command waits for, if it may wait.
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
        // Constructed in place: copying it would wait for the stores just made.
        let mut call = Call {
            arguments,
            reply,
            view: View::new(self, locked, database, now_ms, observer),
            command,
            hint,
            waiting: wait.is_some(),
            wait: None,
            propagated: Propagated::Request,
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
        if call.view.tracks_reads() {
            call.view.remember_reads(command, arguments);
        }
        match ended {
            Ok(()) => {
                call.propagate_request();
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

/// A value on its own two cache lines; two, because processors fetch lines in pairs.
#[repr(align(128))]
pub(crate) struct Padded<T>(T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Refuses a command that would write to a mount before it changes anything.
#[inline]
fn check_writable(
    view: &View<'_, '_>,
    command: &'static Command,
    arguments: Arguments<'_>,
    hint: Option<(usize, u64)>,
) -> Result<(), CommandError> {
    match hint {
        Some((only, _)) => view.check_writable(&arguments[only]),
        // Keys that are only read, such as the sources of SUNIONSTORE, may be mounted.
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

/// Marks the first byte of a prefix. An empty prefix matches every key.
fn mark_first_byte(first_bytes: &mut [u8; 256], first: Option<u8>, mark: u8) {
    match first {
        Some(first) => first_bytes[usize::from(first)] |= mark,
        None => first_bytes.iter_mut().for_each(|byte| *byte |= mark),
    }
}

/// Maximum string length under any setting: an entry stores lengths in 32 bits.
const STRING_BYTES_MAX: usize = 2 << 30;

const MOUNTED: u8 = 1;
const LIVE: u8 = 2;
