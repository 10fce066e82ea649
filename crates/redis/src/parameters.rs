//! Parameters: what CONFIG shows and changes.
//!
//! [`table`] has a row for each. A value is kept as the text that CONFIG GET shows, and as a word
//! that is read by an [`Id`] without a lock. What is computed from several of them is computed
//! after every change. A parameter that acts nowhere is kept, checked and shown, so that tools can
//! set it.

mod id;
mod kinds;
mod memory;
mod page;
mod parameter;
mod rewriting;
pub(crate) mod table;

pub use id::Id;
pub(crate) use kinds::read_memory;
pub(crate) use parameter::{Effect, has_effect, is_secret};
pub(crate) use table::*;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tidewire_fanout::OutputLimit;
use tidewire_keyspace::{
    EventClasses, EvictionOrder, EvictionRules, FileVersion, Keyspace, LazyFreeing, RecordedUse,
    Usage, glob,
};

use crate::attention::{Attention, Obstacles};
use crate::config::RedisConfig;
use id::{ParameterValue, word_of};
use kinds::OutputLimits;
use memory::{clients_bytes_max, rules_of, time_max_ns};
use parameter::{Mutability, Parameter, number_of};

/// The values of all parameters.
#[derive(Debug)]
pub struct Parameters {
    /// Held while values change, so that readers of texts wait for no more than a copy.
    changing: Mutex<()>,
    /// As CONFIG GET shows them, in the order of the table.
    shown: Mutex<Vec<Vec<u8>>>,
    /// The same as words; see [`word_of`].
    words: [AtomicU64; table::COUNT],
    /// Default values of this start.
    starting: Vec<Vec<u8>>,
    /// Bytes, bytes and seconds of each class.
    output_limits: [[AtomicU64; 3]; 3],
    /// `maxmemory`, less what is kept in reserve; 0 is none.
    pub(crate) memory_bytes_max: AtomicU64,
    /// What is kept free because the system gives more than is held; see
    /// [`Server::follow_resident`](crate::Server::follow_resident).
    pub(crate) memory_reserve: AtomicU64,
    /// `maxmemory-clients` in bytes; 0 is none.
    pub(crate) clients_bytes_max: AtomicU64,
    /// The process holds more than `maxmemory`, and no key can be evicted: commands that need
    /// memory are refused.
    pub(crate) memory_is_full: AtomicBool,
    /// Says which of them keep a request from being executed at once.
    attention: Arc<Attention>,
    /// From this time on SLOWLOG or LATENCY notes a command; the greatest number if neither does.
    pub(crate) slow_from_ns: AtomicU64,
    /// What `maxclients` can be: the system allows no more open files.
    clients_possible: AtomicU64,
    /// What is called with a new `loglevel`.
    log_level: OnceLock<fn(&str)>,
}

/// A class of clients that `client-output-buffer-limit` tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientClass {
    Normal = 0,
    Replica = 1,
    Pubsub = 2,
}

impl Parameters {
    /// The values at the start: the defaults, what `config` says, and `config.parameters`. Of
    /// these, one that [`Parameters::check`] refuses is left out.
    pub(crate) fn new(config: &RedisConfig, attention: Arc<Attention>) -> Self {
        let mut values: Vec<Vec<u8>> = TABLE.iter().map(|one| one.default.into()).collect();
        for (number, value) in given(config) {
            values[number] = value;
        }
        let starting = values.clone();
        for (name, value) in &config.parameters {
            let kept = number_of(name.as_bytes()).map(|number| {
                let read = TABLE[number].kind.read(value.as_bytes(), &values[number]);
                read.map(|value| values[number] = value)
            });
            if !matches!(kept, Some(Ok(()))) {
                tracing::warn!(name, value, "the parameter is left out");
            }
        }
        let parameters = Self {
            changing: Mutex::default(),
            shown: Mutex::default(),
            words: [const { AtomicU64::new(0) }; table::COUNT],
            starting,
            output_limits: Default::default(),
            memory_bytes_max: AtomicU64::default(),
            memory_reserve: AtomicU64::default(),
            clients_bytes_max: AtomicU64::default(),
            memory_is_full: AtomicBool::default(),
            attention,
            slow_from_ns: AtomicU64::new(u64::MAX),
            clients_possible: AtomicU64::new(u64::MAX),
            log_level: OnceLock::new(),
        };
        parameters.keep(values);
        parameters
    }

    /// One value. Only texts are behind a lock.
    #[inline]
    pub fn read<T: ParameterValue>(&self, id: Id<T>) -> T {
        T::read(self, id.number)
    }

    /// Whether Valkey's rules hold where they differ from Redis's.
    pub(crate) fn follows_valkey(&self) -> bool {
        self.read(COMPATIBILITY) == "valkey"
    }

    /// Whether a text is not empty.
    #[inline]
    pub(crate) fn is_set(&self, id: Id<String>) -> bool {
        self.words[id.number].load(Ordering::Relaxed) != 0
    }

    /// Why a parameter cannot begin with a value.
    pub fn check(name: &str, value: &str) -> Result<(), String> {
        let (parameter, value) = Self::parse(name, value)?;
        match parameter.refusal(&value) {
            Some(text) => Err(text.to_owned()),
            None => Ok(()),
        }
    }

    /// Why a parameter can never have a value.
    pub(crate) fn check_value(name: &str, value: &str) -> Result<(), String> {
        Self::parse(name, value).map(|_| ())
    }

    fn parse(name: &str, value: &str) -> Result<(&'static Parameter, Vec<u8>), String> {
        let number =
            number_of(name.as_bytes()).ok_or_else(|| format!("there is no parameter '{name}'"))?;
        let parameter = &TABLE[number];
        let current = parameter.default.as_bytes();
        Ok((parameter, parameter.kind.read(value.as_bytes(), current)?))
    }

    /// The names that a pattern finds and their values, in order. A name without a pattern's
    /// characters is given back as it was asked for.
    pub(crate) fn find(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let follows_valkey = self.follows_valkey();
        let values = self.shown.lock();
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for pattern in patterns {
            if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
                let number = number_of(pattern);
                let is_new = found.iter().all(|(name, _)| name != pattern);
                if let Some(number) = number.filter(|_| is_new) {
                    found.push((pattern.to_vec(), values[number].clone()));
                }
                continue;
            }
            let pattern = pattern.to_ascii_lowercase();
            for (parameter, value) in TABLE.iter().zip(&*values) {
                let of_valkey = parameter.of_valkey.filter(|_| follows_valkey);
                let names = std::iter::once(parameter.name).chain(parameter.alias);
                for name in names.chain(of_valkey) {
                    let is_new = || found.iter().all(|(other, _)| other != name.as_bytes());
                    if !parameter.hidden && glob::matches(&pattern, name.as_bytes()) && is_new() {
                        found.push((name.into(), value.clone()));
                    }
                }
            }
        }
        if follows_valkey {
            found.sort_unstable();
        }
        found
    }

    /// Which keys are evicted: `maxmemory-policy` and `maxmemory-samples`.
    pub(crate) fn eviction(&self) -> Option<EvictionRules> {
        rules_of(
            self.read(MAXMEMORY_POLICY),
            self.read(MAXMEMORY_SAMPLES) as usize,
        )
    }

    /// `maxmemory-eviction-tenacity` as a time, ns.
    pub(crate) fn eviction_ns_max(&self) -> u64 {
        time_max_ns(self.read(MAXMEMORY_EVICTION_TENACITY))
    }

    /// What files of all keys tell of the use of keys: what `maxmemory-policy` needs.
    pub(crate) fn told_usage(&self) -> Usage {
        match self.eviction().map(|rules| rules.order) {
            Some(EvictionOrder::LeastRecentlyUsed) => Usage::IdleSeconds,
            Some(EvictionOrder::LeastFrequentlyUsed) => Usage::Frequency,
            _ => Usage::Untold,
        }
    }

    /// The version of files of all keys: `rdb-version`.
    pub(crate) fn file_version(&self) -> FileVersion {
        FileVersion::parse(self.read(RDB_VERSION)).unwrap_or_default()
    }

    /// The values of those that CONFIG SET names, with their names.
    pub(crate) fn texts(&self, pairs: &[(&[u8], &[u8])]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let values = self.shown.lock();
        let one = |(name, _): &(&[u8], &[u8])| {
            let value = number_of(name).map(|number| values[number].clone());
            (name.to_vec(), value.unwrap_or_default())
        };
        pairs.iter().map(one).collect()
    }

    /// Whether an action that a switch of yes, no and local guards is allowed.
    pub(crate) fn allows(&self, id: Id<&'static str>, is_local: bool) -> bool {
        match self.read(id) {
            "yes" => true,
            "local" => is_local,
            _ => false,
        }
    }

    /// Notes what a parameter is by default, as the start has shown.
    pub(crate) fn note_started<T>(&self, id: Id<T>, value: &str) {
        let _changing = self.changing.lock();
        self.keep_one(&mut self.shown.lock()[id.number], id.number, value.into());
    }

    /// Changes all these parameters or, with the text of the error reply, none.
    pub(crate) fn set(
        &self,
        keyspace: &Keyspace,
        pairs: &[(&[u8], &[u8])],
        is_local: bool,
    ) -> Result<(), String> {
        let protected = !self.allows(ENABLE_PROTECTED_CONFIGS, is_local);
        let mut numbers = Vec::new();
        for (name, _) in pairs {
            let number = number_of(name).ok_or_else(|| unknown_text(name))?;
            let reason = match TABLE[number].access {
                Mutability::Fixed => "can't set immutable config",
                Mutability::Protected if protected => "can't set protected config",
                _ if numbers.contains(&number) => "duplicate parameter",
                _ => {
                    numbers.push(number);
                    continue;
                }
            };
            return Err(failed_text(name, reason));
        }
        let _changing = self.changing.lock();
        let mut values = self.shown.lock().clone();
        for (&number, (name, text)) in numbers.iter().zip(pairs) {
            let parameter = &TABLE[number];
            let failed = |reason: &str| failed_text(name, reason);
            let value = parameter.kind.read(text, &values[number]);
            let value = value.map_err(|reason| failed(&reason))?;
            match parameter.access {
                Mutability::Unavailable(reason) if value != values[number] => {
                    let cause = parameter.refusal(&value).unwrap_or(reason);
                    tracing::warn!(
                        parameter = parameter.name,
                        reason = cause,
                        "CONFIG SET refused"
                    );
                    return Err(failed(reason));
                }
                _ => values[number] = value,
            }
        }
        let possible = self.clients_possible.load(Ordering::Relaxed);
        let clients_max = word_of(TABLE[MAXCLIENTS.number].kind, &values[MAXCLIENTS.number]);
        if numbers.contains(&MAXCLIENTS.number) && clients_max > possible {
            let reason = format!(
                "The operating system is not able to handle the specified number of clients, try \
                 with {possible}"
            );
            return Err(failed_text(MAXCLIENTS.name().as_bytes(), &reason));
        }
        let level_before = self.read(LOGLEVEL);
        self.keep(values);
        self.tell(keyspace);
        let level = self.read(LOGLEVEL);
        if level != level_before
            && let Some(follow) = self.log_level.get()
        {
            follow(level);
        }
        Ok(())
    }

    /// Bounds `maxclients` from now on.
    pub(crate) fn limit_clients(&self, most: u64) {
        self.clients_possible.store(most, Ordering::Relaxed);
        if self.read(MAXCLIENTS) > most {
            self.note_started(MAXCLIENTS, &most.to_string());
        }
    }

    /// Calls `follow` with each new value of `loglevel`.
    pub(crate) fn follow_log_level(&self, follow: fn(&str)) {
        let _ = self.log_level.set(follow);
    }

    /// Whether clients must be looked at from time to time: there is a limit on how long they may
    /// be idle, or on what an ordinary one may leave unread.
    pub(crate) fn limits_clients(&self) -> bool {
        let limit = self.output_limit(ClientClass::Normal);
        self.read(TIMEOUT) != 0 || limit.hard_bytes != 0 || limit.soft_bytes != 0
    }

    /// Whether there is a `maxmemory`.
    pub(crate) fn limits_memory(&self) -> bool {
        self.attention.has(Obstacles::MEMORY_LIMITED)
    }

    /// What a client of a class may leave unread.
    #[inline]
    pub(crate) fn output_limit(&self, class: ClientClass) -> OutputLimit {
        let [hard, soft, seconds] = &self.output_limits[class as usize];
        OutputLimit {
            hard_bytes: hard.load(Ordering::Relaxed),
            soft_bytes: soft.load(Ordering::Relaxed),
            soft_seconds: seconds.load(Ordering::Relaxed),
        }
    }

    /// Keeps these values, and what follows from them. The caller holds `changing`, or there is no
    /// reader yet.
    fn keep(&self, values: Vec<Vec<u8>>) {
        debug_assert_eq!(values.len(), TABLE.len(), "every parameter has a value");
        let mut shown = self.shown.lock();
        shown.resize(values.len(), Vec::new());
        for (number, (own, value)) in shown.iter_mut().zip(values).enumerate() {
            self.keep_one(own, number, value);
        }
        let limits = OutputLimits::of(&shown[CLIENT_OUTPUT_BUFFER_LIMIT.number]);
        drop(shown);
        for (own, limit) in self.output_limits.iter().zip(limits.0) {
            let parts = [limit.hard_bytes, limit.soft_bytes, limit.soft_seconds];
            for (own, part) in own.iter().zip(parts) {
                own.store(part, Ordering::Relaxed);
            }
        }
        let bytes_max = self.read(MAXMEMORY);
        self.reserve_memory(bytes_max, 0);
        let clients_bytes_max = clients_bytes_max(&self.read(MAXMEMORY_CLIENTS), bytes_max);
        self.clients_bytes_max
            .store(clients_bytes_max, Ordering::Relaxed);
        let wants_replicas = self.read(MIN_REPLICAS_TO_WRITE) != 0;
        self.attention
            .set(Obstacles::WANTS_REPLICAS, wants_replicas);
        self.keep_slowness();
    }

    fn keep_one(&self, own: &mut Vec<u8>, number: usize, value: Vec<u8>) {
        let word = word_of(TABLE[number].kind, &value);
        self.words[number].store(word, Ordering::Relaxed);
        *own = value;
    }

    /// Lets so much of `maxmemory` be held at most, and keeps the rest of it free.
    pub(crate) fn reserve_memory(&self, bytes_max: u64, reserve: u64) {
        debug_assert!(reserve <= bytes_max, "a reserve is a part of maxmemory");
        self.memory_reserve.store(reserve, Ordering::Relaxed);
        let held_max = bytes_max - reserve;
        self.memory_bytes_max.store(held_max, Ordering::Relaxed);
        self.attention.set(Obstacles::MEMORY_LIMITED, held_max != 0);
    }

    fn keep_slowness(&self) {
        let slowlog_ns = match u64::try_from(self.read(SLOWLOG_LOG_SLOWER_THAN)) {
            Ok(us) if self.read(SLOWLOG_MAX_LEN) > 0 => us.saturating_mul(1_000),
            _ => u64::MAX,
        };
        let latency_ns = match self.read(LATENCY_MONITOR_THRESHOLD) {
            0 => u64::MAX,
            ms => ms.saturating_mul(1_000_000),
        };
        let has_sizes = |larger_than: Id<i64>, length_max: Id<u64>| {
            self.read(larger_than) >= 0 && self.read(length_max) > 0
        };
        let is_sized = has_sizes(
            COMMANDLOG_REQUEST_LARGER_THAN,
            COMMANDLOG_LARGE_REQUEST_MAX_LEN,
        ) || has_sizes(COMMANDLOG_REPLY_LARGER_THAN, COMMANDLOG_LARGE_REPLY_MAX_LEN);
        self.attention
            .set(Obstacles::SIZED, is_sized && self.follows_valkey());
        let slow_ns = slowlog_ns.min(latency_ns);
        self.slow_from_ns.store(slow_ns, Ordering::Relaxed);
        self.attention.set(Obstacles::TIMED, slow_ns < BRIEF_NS_MAX);
    }

    /// Tells the keyspace what concerns it.
    pub(crate) fn tell(&self, keyspace: &Keyspace) {
        keyspace.set_follows_valkey(self.follows_valkey());
        let size = |id: Id<u64>| usize::try_from(self.read(id)).unwrap_or(usize::MAX);
        let number = |id: Id<u64>| u32::try_from(self.read(id)).unwrap_or(u32::MAX);
        keyspace.set_hash_limits(
            size(HASH_MAX_LISTPACK_ENTRIES),
            size(HASH_MAX_LISTPACK_VALUE),
        );
        keyspace.set_set_limits(
            size(SET_MAX_INTSET_ENTRIES),
            size(SET_MAX_LISTPACK_ENTRIES),
            size(SET_MAX_LISTPACK_VALUE),
        );
        keyspace.set_list_limit(self.read(LIST_MAX_LISTPACK_SIZE) as i32);
        keyspace.set_claims_compression(self.read(LIST_COMPRESS_DEPTH) > 0);
        keyspace.set_sorted_set_limits(
            size(ZSET_MAX_LISTPACK_ENTRIES),
            size(ZSET_MAX_LISTPACK_VALUE),
        );
        keyspace.set_hyperloglog_limit(size(HLL_SPARSE_MAX_BYTES));
        keyspace.set_stream_limits(size(STREAM_NODE_MAX_BYTES), size(STREAM_NODE_MAX_ENTRIES));
        keyspace.set_producer_limits(number(STREAM_IDMP_DURATION), number(STREAM_IDMP_MAXSIZE));
        let order = self.eviction().map(|rules| rules.order);
        let recorded = match order {
            Some(EvictionOrder::LeastFrequentlyUsed) => RecordedUse::Frequency,
            Some(EvictionOrder::LeastRecentlyModified) => RecordedUse::ChangeTime,
            _ => RecordedUse::Time,
        };
        keyspace.set_access(recorded, number(LFU_LOG_FACTOR), number(LFU_DECAY_TIME));
        let notes_use =
            recorded != RecordedUse::Time || order == Some(EvictionOrder::LeastRecentlyUsed);
        keyspace.set_shares_integers(self.read(MAXMEMORY) == 0 || !notes_use);
        let lazy = LazyFreeing {
            eviction: self.read(LAZYFREE_LAZY_EVICTION),
            expiry: self.read(LAZYFREE_LAZY_EXPIRE),
            replacement: self.read(LAZYFREE_LAZY_SERVER_DEL),
            deletion: self.read(LAZYFREE_LAZY_USER_DEL),
            flush: self.read(LAZYFREE_LAZY_USER_FLUSH),
            full_sync: self.read(REPLICA_LAZY_FLUSH),
        };
        let unlinks = (lazy.expiry, lazy.replacement);
        keyspace.set_lazy_freeing(lazy);
        let events = EventClasses::parse(self.read(NOTIFY_KEYSPACE_EVENTS).as_bytes());
        let channels = EventClasses::KEYSPACE_CHANNELS.union(EventClasses::KEYEVENT_CHANNELS);
        let events = events.filter(|events| events.intersects(channels));
        keyspace.set_notifications(events.unwrap_or_default());
        keyspace.propagation().set_unlinks(unlinks.0, unlinks.1);
    }
}

/// What the hub's own settings say of parameters.
fn given(config: &RedisConfig) -> Vec<(usize, Vec<u8>)> {
    let mut limits = OutputLimits::of(CLIENT_OUTPUT_BUFFER_LIMIT.default().as_bytes());
    limits.0[ClientClass::Pubsub as usize] = OutputLimit {
        hard_bytes: config.pubsub_hard_bytes as u64,
        soft_bytes: config.pubsub_soft_bytes as u64,
        soft_seconds: config.pubsub_soft_seconds,
    };
    let directory = std::env::current_dir().unwrap_or_default();
    let bind = match config.redis_conf.is_some() {
        true => "* -::*",
        false => BIND.default(),
    };
    vec![
        (BIND.number, bind.into()),
        (CLIENT_OUTPUT_BUFFER_LIMIT.number, limits.text().into()),
        (DIR.number, directory.display().to_string().into()),
        (IO_THREADS.number, config.lanes.to_string().into()),
        (LIVE_PREFIXES.number, config.live_prefixes.join(&b' ')),
        (MAXCLIENTS.number, config.clients_max.to_string().into()),
    ]
}

/// The error of CONFIG SET where a value is right and what it asks for fails.
pub(crate) fn failed_text(name: &[u8], reason: &str) -> String {
    let name = String::from_utf8_lossy(name);
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}

fn unknown_text(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).replace(['\r', '\n'], " ");
    format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
}

/// Above it no brief command is looked for: it would have to be looked at with the clock.
const BRIEF_NS_MAX: u64 = 10_000_000;

#[cfg(test)]
mod behaviour;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_keyspace::Options;

    fn set(parameters: &Parameters, pairs: &[(&str, &str)]) -> Result<(), String> {
        let keyspace = Keyspace::new(Options::default());
        let bytes: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        parameters.set(&keyspace, &bytes, true)
    }

    #[test]
    fn several_are_changed_together_or_not_at_all() {
        let parameters = Parameters::new(&RedisConfig::default(), Arc::default());
        set(&parameters, &[("MaxClients", "7"), ("timeout", "5")]).unwrap();
        assert_eq!(parameters.read(MAXCLIENTS), 7);
        let text = set(&parameters, &[("timeout", "6"), ("maxclients", "x")]).unwrap_err();
        assert!(
            text.ends_with("argument couldn't be parsed into an integer"),
            "{text}"
        );
        assert_eq!(parameters.read(TIMEOUT), 5);
        let text = set(
            &parameters,
            &[("lua-time-limit", "1"), ("busy-reply-threshold", "1")],
        );
        assert!(
            text.unwrap_err()
                .ends_with("'busy-reply-threshold') - duplicate parameter")
        );
        let text = set(&parameters, &[("databases", "16")]).unwrap_err();
        assert!(text.ends_with("can't set immutable config"), "{text}");
        let text = set(&parameters, &[("dir", "/")]).unwrap_err();
        assert!(text.ends_with("can't set protected config"), "{text}");
        assert!(
            set(&parameters, &[("nothing", "1"), ("databases", "1")])
                .unwrap_err()
                .starts_with("ERR Unknown option")
        );
    }

    #[test]
    fn names_are_found_as_redis_finds_them() {
        let parameters = Parameters::new(&RedisConfig::default(), Arc::default());
        let names = |patterns: &[&[u8]]| -> Vec<String> {
            let found = parameters.find(patterns).into_iter();
            found
                .map(|(name, _)| String::from_utf8(name).unwrap())
                .collect()
        };
        let expected = ["hash-max-listpack-value", "hash-max-ziplist-value"];
        assert_eq!(names(&[b"HASH-max-*-value", b"hash-*-value"]), expected);
        assert_eq!(names(&[b"TIMEOUT", b"TIMEOUT", b"nothing"]), ["TIMEOUT"]);
        assert_eq!(names(&[b"key-load-delay"]), ["key-load-delay"]);
        assert!(names(&[b"key-load-d*"]).is_empty());
    }

    #[test]
    fn what_must_not_be_ignored_is_refused_at_the_start() {
        for (name, value) in [
            ("cluster-enabled", "yes"),
            ("databases", "17"),
            ("socket-mark-id", "7"),
            ("supervised", "upstart"),
        ] {
            Parameters::check(name, value).unwrap_err();
        }
        for (name, value) in [("cluster-enabled", "no"), ("databases", "16"), ("hz", "50")] {
            Parameters::check(name, value).unwrap();
        }
    }
}
