//! Parameters: what CONFIG shows and changes.
//!
//! Each value is kept as the text that CONFIG GET shows. Those that are read often are kept a
//! second time, as numbers; after every change all of them are told again to where they act. A
//! parameter that acts nowhere is kept, checked and shown, so that tools can set it.

mod kept;
mod kinds;
mod memory;
mod rewriting;
mod table;

pub(crate) use kinds::read_memory;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tidewire_fanout::OutputLimit;
use tidewire_keyspace::{
    EventClasses, EvictionOrder, EvictionRules, FileVersion, Keyspace, LazyFreeing, Usage, glob,
};

use crate::attention::{Attention, Obstacles};
use crate::config::RedisConfig;
use kinds::OutputLimits;
use memory::{clients_bytes_max, rules_of, time_max_ns};
use table::{Access, Parameter, TABLE, number_of};

/// The values of all parameters.
#[derive(Debug)]
pub struct Parameters {
    /// By the parameter's number.
    values: Mutex<Vec<Vec<u8>>>,
    /// As they are without a word of the user's.
    starting: Vec<Vec<u8>>,
    /// Bytes, bytes and seconds of each class.
    output_limits: [[AtomicU64; 3]; 3],
    /// `maxclients`.
    pub(crate) clients_max: AtomicU64,
    /// `timeout`; 0 is none.
    pub(crate) idle_seconds_max: AtomicU64,
    /// `client-query-buffer-limit`.
    pub(crate) query_bytes_max: AtomicU64,
    /// `proto-max-bulk-len`.
    pub(crate) bulk_bytes_max: AtomicU64,
    /// `maxmemory`, less what is kept in reserve; 0 is none.
    pub(crate) memory_bytes_max: AtomicU64,
    /// What is kept free because the system gives more than is held; see
    /// [`Server::follow_resident`](crate::Server::follow_resident).
    pub(crate) memory_reserve: AtomicU64,
    /// Which keys give way: `maxmemory-policy` and `maxmemory-samples`.
    pub(crate) eviction: Mutex<Option<EvictionRules>>,
    /// `maxmemory-clients` in bytes; 0 is none.
    pub(crate) clients_bytes_max: AtomicU64,
    /// `maxmemory-eviction-tenacity` as a time, ns.
    pub(crate) eviction_ns_max: AtomicU64,
    /// The process holds more than `maxmemory`, and no key gives way: nothing that needs memory is
    /// executed.
    pub(crate) memory_is_full: AtomicBool,
    /// Says which of them keep a request from being executed at once.
    attention: Arc<Attention>,
    /// `save` names a point at which a snapshot is taken.
    pub(crate) saves_by_itself: AtomicBool,
    /// `key-load-delay`, µs a key; 0 for none.
    pub(crate) loads_slowly: AtomicU64,
    /// `latency-tracking`.
    pub(crate) latency_tracking: AtomicBool,
    /// `protected-mode`.
    pub(crate) protects: AtomicBool,
    /// `slowlog-log-slower-than`, µs; -1 is none.
    pub(crate) slowlog_us: AtomicI64,
    /// `slowlog-max-len`.
    pub(crate) slowlog_length_max: AtomicU64,
    /// `latency-monitor-threshold`; 0 is none.
    pub(crate) latency_threshold_ms: AtomicU64,
    /// From this time on a command is slow by one of these; the greatest number if by none.
    pub(crate) slow_from_ns: AtomicU64,
    /// `tracking-table-max-keys`; the greatest number is none.
    pub(crate) tracked_keys_max: AtomicU64,
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
        for (name, value) in given(config) {
            if let Some(number) = number_of(name) {
                values[number] = value;
            }
        }
        let starting = values.clone();
        for (name, value) in &config.parameters {
            let kept = number_of(name).map(|number| {
                let read = TABLE[number].kind.read(value.as_bytes(), &values[number]);
                read.map(|value| values[number] = value)
            });
            if !matches!(kept, Some(Ok(()))) {
                tracing::warn!(name, value, "the parameter is left out");
            }
        }
        let parameters = Self {
            values: Mutex::new(values),
            starting,
            output_limits: Default::default(),
            clients_max: AtomicU64::default(),
            idle_seconds_max: AtomicU64::default(),
            query_bytes_max: AtomicU64::default(),
            bulk_bytes_max: AtomicU64::default(),
            memory_bytes_max: AtomicU64::default(),
            memory_reserve: AtomicU64::default(),
            eviction: Mutex::default(),
            clients_bytes_max: AtomicU64::default(),
            eviction_ns_max: AtomicU64::default(),
            memory_is_full: AtomicBool::default(),
            attention,
            saves_by_itself: AtomicBool::default(),
            loads_slowly: AtomicU64::default(),
            latency_tracking: AtomicBool::default(),
            protects: AtomicBool::default(),
            slowlog_us: AtomicI64::default(),
            slowlog_length_max: AtomicU64::default(),
            latency_threshold_ms: AtomicU64::default(),
            slow_from_ns: AtomicU64::new(u64::MAX),
            tracked_keys_max: AtomicU64::default(),
            clients_possible: AtomicU64::new(u64::MAX),
            log_level: OnceLock::new(),
        };
        parameters.apply(&parameters.values.lock());
        parameters
    }

    /// Why a parameter cannot begin with a value.
    pub fn check(name: &str, value: &str) -> Result<(), String> {
        let (parameter, value) = Self::read(name, value)?;
        if let Some(text) = kept::refusal(parameter.name, &value) {
            return Err(text);
        }
        match parameter.access {
            Access::Unavailable(text) if value != parameter.default.as_bytes() => {
                Err(text.to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Why a parameter can never have a value.
    pub(crate) fn check_value(name: &str, value: &str) -> Result<(), String> {
        Self::read(name, value).map(|_| ())
    }

    fn read(name: &str, value: &str) -> Result<(&'static Parameter, Vec<u8>), String> {
        let number = number_of(name).ok_or_else(|| format!("there is no parameter '{name}'"))?;
        let parameter = &TABLE[number];
        let current = parameter.default.as_bytes();
        Ok((parameter, parameter.kind.read(value.as_bytes(), current)?))
    }

    /// The names that a pattern finds and their values, in order. A name without a pattern's
    /// characters is given back as it was asked for.
    pub(crate) fn find(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let values = self.values.lock();
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for pattern in patterns {
            if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
                let number = std::str::from_utf8(pattern).ok().and_then(number_of);
                let is_new = found.iter().all(|(name, _)| name != pattern);
                if let Some(number) = number.filter(|_| is_new) {
                    found.push((pattern.to_vec(), values[number].clone()));
                }
                continue;
            }
            let pattern = pattern.to_ascii_lowercase();
            for (parameter, value) in TABLE.iter().zip(&*values) {
                for name in std::iter::once(parameter.name).chain(parameter.alias) {
                    let is_new = || found.iter().all(|(other, _)| other != name.as_bytes());
                    if !parameter.hidden && glob::matches(&pattern, name.as_bytes()) && is_new() {
                        found.push((name.into(), value.clone()));
                    }
                }
            }
        }
        found
    }

    /// One value's text.
    pub(crate) fn text(&self, name: &str) -> String {
        let value = number_of(name).map(|number| self.values.lock()[number].clone());
        String::from_utf8_lossy(&value.unwrap_or_default()).into_owned()
    }

    /// What files of all keys tell of the use of keys: what `maxmemory-policy` needs.
    pub(crate) fn told_usage(&self) -> Usage {
        match self.eviction.lock().map(|rules| rules.order) {
            Some(EvictionOrder::LeastRecentlyUsed) => Usage::IdleSeconds,
            Some(EvictionOrder::LeastFrequentlyUsed) => Usage::Frequency,
            _ => Usage::Untold,
        }
    }

    /// The version of files of all keys: `rdb-version`.
    pub(crate) fn file_version(&self) -> FileVersion {
        FileVersion::parse(&self.text("rdb-version")).unwrap_or_default()
    }

    /// The values of those that CONFIG SET names, with their names.
    pub(crate) fn texts(&self, pairs: &[(&[u8], &[u8])]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let one = |(name, _): &(&[u8], &[u8])| {
            let text = self.text(&String::from_utf8_lossy(name));
            (name.to_vec(), text.into_bytes())
        };
        pairs.iter().map(one).collect()
    }

    /// One value that is a number; 0 for any other.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// Whether an action that a switch of yes, no and local guards is allowed.
    pub(crate) fn allows(&self, name: &str, is_local: bool) -> bool {
        match self.text(name).as_str() {
            "yes" => true,
            "local" => is_local,
            _ => false,
        }
    }

    /// Notes what a parameter is without a word of the user's, as the start has shown.
    pub(crate) fn note_started(&self, name: &str, value: &str) {
        if let Some(number) = number_of(name) {
            self.values.lock()[number] = value.into();
        }
    }

    /// Changes all these parameters or, with the text of the error reply, none.
    pub(crate) fn set(
        &self,
        keyspace: &Keyspace,
        pairs: &[(&[u8], &[u8])],
        is_local: bool,
    ) -> Result<(), String> {
        let protected = !self.allows("enable-protected-configs", is_local);
        let mut numbers = Vec::new();
        for (name, _) in pairs {
            let number = std::str::from_utf8(name).ok().and_then(number_of);
            let number = number.ok_or_else(|| unknown_text(name))?;
            let reason = match TABLE[number].access {
                Access::Fixed => "can't set immutable config",
                Access::Protected if protected => "can't set protected config",
                _ if numbers.contains(&number) => "duplicate parameter",
                _ => {
                    numbers.push(number);
                    continue;
                }
            };
            return Err(failed_text(name, reason));
        }
        let mut values = self.values.lock();
        let mut changed = values.clone();
        for (&number, (name, text)) in numbers.iter().zip(pairs) {
            let parameter = &TABLE[number];
            let failed = |reason: &str| failed_text(name, reason);
            let value = parameter.kind.read(text, &values[number]);
            let value = value.map_err(|reason| failed(&reason))?;
            match parameter.access {
                Access::Unavailable(reason) if value != values[number] => {
                    return Err(failed(reason));
                }
                _ => changed[number] = value,
            }
        }
        let possible = self.clients_possible.load(Ordering::Relaxed);
        if numbers.contains(&number_of("maxclients").unwrap_or(usize::MAX))
            && number_in(&changed, "maxclients") > possible
        {
            let reason = format!(
                "The operating system is not able to handle the specified number of clients, try \
                 with {possible}"
            );
            return Err(failed_text(b"maxclients", &reason));
        }
        let level_before = value_in(&values, "loglevel").to_vec();
        *values = changed;
        self.apply(&values);
        self.apply_to(keyspace, &values);
        let level = value_in(&values, "loglevel");
        if level != level_before
            && let Some(follow) = self.log_level.get()
        {
            follow(&String::from_utf8_lossy(level));
        }
        Ok(())
    }

    /// Bounds `maxclients` from now on.
    pub(crate) fn limit_clients(&self, most: u64) {
        self.clients_possible.store(most, Ordering::Relaxed);
        if self.number("maxclients") > most {
            self.note_started("maxclients", &most.to_string());
            self.apply(&self.values.lock());
        }
    }

    /// Calls `follow` with each new value of `loglevel`.
    pub(crate) fn follow_log_level(&self, follow: fn(&str)) {
        let _ = self.log_level.set(follow);
    }

    /// Tells the keyspace what concerns it.
    pub(crate) fn tell(&self, keyspace: &Keyspace) {
        self.apply_to(keyspace, &self.values.lock());
    }

    /// Whether clients must be looked at from time to time: there is a limit on how long they may
    /// be idle, or on what an ordinary one may leave unread.
    pub(crate) fn limits_clients(&self) -> bool {
        let limit = self.output_limit(ClientClass::Normal);
        self.idle_seconds_max.load(Ordering::Relaxed) != 0
            || limit.hard_bytes != 0
            || limit.soft_bytes != 0
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

    fn apply(&self, values: &[Vec<u8>]) {
        let number = |name| number_in(values, name);
        self.clients_max
            .store(number("maxclients"), Ordering::Relaxed);
        self.idle_seconds_max
            .store(number("timeout"), Ordering::Relaxed);
        let query = number("client-query-buffer-limit");
        self.query_bytes_max.store(query, Ordering::Relaxed);
        let bulk = number("proto-max-bulk-len");
        self.bulk_bytes_max.store(bulk, Ordering::Relaxed);
        self.reserve_memory(number("maxmemory"), 0);
        let clients = String::from_utf8_lossy(value_in(values, "maxmemory-clients"));
        let clients_bytes_max = clients_bytes_max(&clients, number("maxmemory"));
        self.clients_bytes_max
            .store(clients_bytes_max, Ordering::Relaxed);
        let samples = number("maxmemory-samples") as usize;
        *self.eviction.lock() = rules_of(value_in(values, "maxmemory-policy"), samples);
        let tenacity = number("maxmemory-eviction-tenacity");
        self.eviction_ns_max
            .store(time_max_ns(tenacity), Ordering::Relaxed);
        let wants_replicas = number("min-replicas-to-write") != 0;
        self.attention
            .set(Obstacles::WANTS_REPLICAS, wants_replicas);
        let saves = !value_in(values, "save").is_empty();
        self.saves_by_itself.store(saves, Ordering::Relaxed);
        self.loads_slowly
            .store(number("key-load-delay"), Ordering::Relaxed);
        let tracking = value_in(values, "latency-tracking") == b"yes";
        self.latency_tracking.store(tracking, Ordering::Relaxed);
        self.apply_slowness(values);
        let tracked_keys_max = match number("tracking-table-max-keys") {
            0 => u64::MAX,
            keys_max => keys_max,
        };
        self.tracked_keys_max
            .store(tracked_keys_max, Ordering::Relaxed);
        let protects = value_in(values, "protected-mode") == b"yes";
        self.protects.store(protects, Ordering::Relaxed);
        let limits = OutputLimits::of(value_in(values, "client-output-buffer-limit"));
        for (own, limit) in self.output_limits.iter().zip(limits.0) {
            let parts = [limit.hard_bytes, limit.soft_bytes, limit.soft_seconds];
            for (own, part) in own.iter().zip(parts) {
                own.store(part, Ordering::Relaxed);
            }
        }
    }

    /// Lets so much of `maxmemory` be held at most, and keeps the rest of it free.
    pub(crate) fn reserve_memory(&self, bytes_max: u64, reserve: u64) {
        self.memory_reserve.store(reserve, Ordering::Relaxed);
        let held_max = bytes_max - reserve;
        self.memory_bytes_max.store(held_max, Ordering::Relaxed);
        self.attention.set(Obstacles::MEMORY_LIMITED, held_max != 0);
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.text(name) == "yes"
    }

    fn apply_slowness(&self, values: &[Vec<u8>]) {
        let text = String::from_utf8_lossy(value_in(values, "slowlog-log-slower-than"));
        let slowlog_us: i64 = text.parse().unwrap_or(-1);
        self.slowlog_us.store(slowlog_us, Ordering::Relaxed);
        let length_max = number_in(values, "slowlog-max-len");
        self.slowlog_length_max.store(length_max, Ordering::Relaxed);
        let latency_ms = number_in(values, "latency-monitor-threshold");
        self.latency_threshold_ms
            .store(latency_ms, Ordering::Relaxed);
        let slowlog_ns = match u64::try_from(slowlog_us) {
            Ok(us) if length_max > 0 => us.saturating_mul(1_000),
            _ => u64::MAX,
        };
        let latency_ns = match latency_ms {
            0 => u64::MAX,
            ms => ms.saturating_mul(1_000_000),
        };
        let slow_ns = slowlog_ns.min(latency_ns);
        self.slow_from_ns.store(slow_ns, Ordering::Relaxed);
        self.attention.set(Obstacles::TIMED, slow_ns < BRIEF_NS_MAX);
    }

    fn apply_to(&self, keyspace: &Keyspace, values: &[Vec<u8>]) {
        let size = |name| usize::try_from(number_in(values, name)).unwrap_or(usize::MAX);
        keyspace.set_hash_limits(
            size("hash-max-listpack-entries"),
            size("hash-max-listpack-value"),
        );
        keyspace.set_set_limits(
            size("set-max-intset-entries"),
            size("set-max-listpack-entries"),
            size("set-max-listpack-value"),
        );
        let text = String::from_utf8_lossy(value_in(values, "list-max-listpack-size"));
        keyspace.set_list_limit(text.parse().unwrap_or(-2));
        keyspace.set_claims_compression(size("list-compress-depth") > 0);
        keyspace.set_sorted_set_limits(
            size("zset-max-listpack-entries"),
            size("zset-max-listpack-value"),
        );
        keyspace.set_hyperloglog_limit(size("hll-sparse-max-bytes"));
        keyspace.set_stream_limits(
            size("stream-node-max-bytes"),
            size("stream-node-max-entries"),
        );
        let order = self.eviction.lock().map(|rules| rules.order);
        let counts = order == Some(EvictionOrder::LeastFrequentlyUsed);
        let number = |name| number_in(values, name).min(u64::from(u32::MAX)) as u32;
        keyspace.set_access(counts, number("lfu-log-factor"), number("lfu-decay-time"));
        let notes_use = counts || order == Some(EvictionOrder::LeastRecentlyUsed);
        keyspace.set_shares_integers(size("maxmemory") == 0 || !notes_use);
        let lazy = |name| value_in(values, name) == b"yes";
        keyspace.set_lazy_freeing(LazyFreeing {
            eviction: lazy("lazyfree-lazy-eviction"),
            expiry: lazy("lazyfree-lazy-expire"),
            replacement: lazy("lazyfree-lazy-server-del"),
            deletion: lazy("lazyfree-lazy-user-del"),
            flush: lazy("lazyfree-lazy-user-flush"),
            full_sync: lazy("replica-lazy-flush"),
        });
        let events = EventClasses::parse(value_in(values, "notify-keyspace-events"));
        let channels = EventClasses::KEYSPACE_CHANNELS.union(EventClasses::KEYEVENT_CHANNELS);
        let events = events.filter(|events| events.intersects(channels));
        keyspace.set_notifications(events.unwrap_or_default());
        let is_on = |name| value_in(values, name) == b"yes";
        keyspace.propagation().set_unlinks(
            is_on("lazyfree-lazy-expire"),
            is_on("lazyfree-lazy-server-del"),
        );
    }
}

/// What the hub's own settings say of parameters.
fn given(config: &RedisConfig) -> Vec<(&'static str, Vec<u8>)> {
    let mut limits = OutputLimits::of(DEFAULT_OUTPUT_LIMITS);
    limits.0[ClientClass::Pubsub as usize] = OutputLimit {
        hard_bytes: config.pubsub_hard_bytes as u64,
        soft_bytes: config.pubsub_soft_bytes as u64,
        soft_seconds: config.pubsub_soft_seconds,
    };
    let directory = std::env::current_dir().unwrap_or_default();
    let bind = match config.redis_conf.is_some() {
        true => "* -::*",
        false => "127.0.0.1",
    };
    vec![
        ("bind", bind.into()),
        ("client-output-buffer-limit", limits.text().into()),
        ("dir", directory.display().to_string().into()),
        ("io-threads", config.lanes.to_string().into()),
        ("live-prefixes", config.live_prefixes.join(&b' ')),
        ("maxclients", config.clients_max.to_string().into()),
    ]
}

fn value_in<'a>(values: &'a [Vec<u8>], name: &str) -> &'a [u8] {
    number_of(name).map_or(b"", |number| &values[number])
}

fn number_in(values: &[Vec<u8>], name: &str) -> u64 {
    let text = std::str::from_utf8(value_in(values, name));
    text.ok().and_then(|text| text.parse().ok()).unwrap_or(0)
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

/// Whether a parameter's value is not shown to those who look on.
pub(crate) fn is_secret(name: &[u8]) -> bool {
    SECRETS
        .iter()
        .any(|secret| name.eq_ignore_ascii_case(secret.as_bytes()))
}

const SECRETS: [&str; 5] = [
    "masterauth",
    "masteruser",
    "requirepass",
    "tls-client-key-file-pass",
    "tls-key-file-pass",
];

/// Above it no brief command is looked for: it would have to be looked at with the clock.
const BRIEF_NS_MAX: u64 = 10_000_000;

const DEFAULT_OUTPUT_LIMITS: &[u8] =
    b"normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";

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
        assert_eq!(parameters.clients_max.load(Ordering::Relaxed), 7);
        let text = set(&parameters, &[("timeout", "6"), ("maxclients", "x")]).unwrap_err();
        assert!(
            text.ends_with("argument couldn't be parsed into an integer"),
            "{text}"
        );
        assert_eq!(parameters.text("timeout"), "5");
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
}
