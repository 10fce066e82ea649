//! All parameters of Redis's open-source core, and this server's own: `compatibility`,
//! `live-prefixes`, `maxmemory-counts-resident`, `rdb-version` and `tls-verify-hostname`. Each
//! stands here once.
//!
//! A row is an id, or `_` for what no code reads, then kind, name, range and default, what marks
//! it, and what it does: a sentence, or why it does nothing here. From a row come CONFIG, what a
//! redis.conf takes, the typed id and the page `docs/parameters.md`. An id that nothing reads is a
//! warning of the compiler.

use tidewire_keyspace::DATABASES;

use super::id::Id;
use super::kinds::Kind;
use super::parameter::Effect::*;
use super::parameter::*;

/// Makes the rows, and an id of its value's type for each row that has a name for it.
macro_rules! parameters {
    ($($id:tt = $kind:ident($name:literal $(, $argument:expr)* $(,)?)
        $(.$mark:ident($($value:expr),*))*, $does:tt;)*) => {
        const ROWS: &[Parameter] = &[
            $($kind($name, $($argument),*)$(.$mark($($value),*))*.does(does!($does))),*
        ];
        $(id!($id $kind $name $does);)*
    };
}

macro_rules! does {
    ($text:literal) => {
        Does::This($text)
    };
    ($reason:ident) => {
        $reason
    };
}

macro_rules! id {
    (_ $kind:ident $name:literal $does:tt) => {};
    ($id:ident $kind:ident $name:literal $does:tt) => {
        #[doc = concat!("`", $name, "`.")]
        #[allow(
            unreachable_pub,
            reason = "`crate::ids` shows some of them to the program"
        )]
        pub const $id: Id<value!($kind)> = Id::of(ROWS, $name);
    };
}

macro_rules! value {
    (switch) => { bool };
    (number) => { u64 };
    (memory) => { u64 };
    (octal) => { u64 };
    (signed) => { i64 };
    (choice) => { &'static str };
    ($kind:ident) => { String };
}

/// In the order of their names.
pub(super) static TABLE: &[Parameter] = ROWS;
pub(super) const COUNT: usize = ROWS.len();

parameters! {
    ACL_PUBSUB_DEFAULT = choice("acl-pubsub-default",
        &["allchannels", "resetchannels"], "resetchannels"),
        "Channels that a new user may use: all of them or none.";
    ACLFILE = text("aclfile", "").fixed(),
        "File of users, for ACL LOAD and ACL SAVE.";
    ACLLOG_MAX_LEN = number("acllog-max-len", 0, LONG_MAX, "128"),
        "Entries that ACL LOG keeps.";
    _ = number("active-defrag-cycle-max", 1, 99, "25"), JEMALLOC;
    _ = number("active-defrag-cycle-min", 1, 99, "1"), JEMALLOC;
    _ = number("active-defrag-cycle-us", 0, 100_000, "500").hidden(), VALKEY;
    _ = memory("active-defrag-ignore-bytes", 1, LONG_MAX, "104857600"), JEMALLOC;
    _ = number("active-defrag-max-scan-fields", 1, LONG_MAX, "1000"), JEMALLOC;
    _ = number("active-defrag-threshold-lower", 0, 1000, "10"), JEMALLOC;
    _ = number("active-defrag-threshold-upper", 0, 1000, "100"), JEMALLOC;
    _ = number("active-expire-effort", 1, 10, "1"), TIMERS;
    _ = switch("activedefrag", "no").only_default(REFUSED_DEFRAGMENTATION),
        "Refused, as Redis refuses it without its own allocator.";
    _ = switch("activerehashing", "yes"), REHASHING;
    _ = switch("always-show-logo", "no").fixed(), APPEARANCE;
    _ = switch("aof-disable-auto-gc", "no").hidden().then(&[Files]), FILE_SYNCS;
    AOF_LOAD_TRUNCATED = switch("aof-load-truncated", "yes").then(&[Files]),
        "Whether a log whose last command is cut off is loaded up to there.";
    _ = text("aof-rewrite-cpulist", "")
        .alias("aof_rewrite_cpulist").fixed().then(&[Files]), PINNING;
    _ = switch("aof-rewrite-incremental-fsync", "yes").then(&[Files]), FILE_SYNCS;
    AOF_TIMESTAMP_ENABLED = switch("aof-timestamp-enabled", "no").then(&[Files]),
        "Whether the log records when its commands were executed.";
    _ = switch("aof-use-rdb-preamble", "yes").then(&[Files]), BASE_FILE;
    APPENDDIRNAME = special("appenddirname", Kind::FileName, "appendonlydir")
        .fixed().then(&[Files]),
        "Folder of the append-only file, inside `dir`.";
    APPENDFILENAME = special("appendfilename", Kind::FileName, "appendonly.aof")
        .fixed().then(&[Files]),
        "How the names of the append-only file's parts begin.";
    APPENDFSYNC = choice("appendfsync", &["everysec", "always", "no"], "everysec").then(&[Files]),
        "When appended bytes are synced: each second, before each reply, or when the system wants.";
    APPENDONLY = switch("appendonly", "no").then(&[Files]),
        "Whether every change is appended to a file.";
    AUTO_AOF_REWRITE_MIN_SIZE = memory("auto-aof-rewrite-min-size", 0, LONG_MAX, "67108864"),
        "Bytes below which the append-only file is not rewritten by itself.";
    AUTO_AOF_REWRITE_PERCENTAGE = number("auto-aof-rewrite-percentage", 0, INT_MAX, "100"),
        "Growth since the last rewrite, in percent, that begins another one; 0 is never.";
    _ = text("availability-zone", "").hidden(), VALKEY;
    _ = text("bgsave-cpulist", "").alias("bgsave_cpulist").fixed(), PINNING;
    BIND = words("bind", "127.0.0.1").then(&[Listening]),
        "Addresses on which Redis clients connect; `-` before one says that it may be missing.";
    BIND_SOURCE_ADDR = text("bind-source-addr", ""),
        "Address from which a replica connects to its master.";
    _ = text("bio-cpulist", "").alias("bio_cpulist").fixed(), PINNING;
    BUSY_REPLY_THRESHOLD = number("busy-reply-threshold", 0, LONG_MAX, "5000")
        .alias("lua-time-limit"),
        "Milliseconds after which a script is reported as busy.";
    CLIENT_OUTPUT_BUFFER_LIMIT = special("client-output-buffer-limit", Kind::OutputLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"),
        "Unread bytes at which a client is disconnected: a hard limit, and a soft one with its seconds.";
    CLIENT_QUERY_BUFFER_LIMIT = memory("client-query-buffer-limit",
        1 << 20, LONG_MAX, "1073741824"),
        "Bytes of one request that may wait until it is whole.";
    _ = switch("cluster-allow-pubsubshard-when-down", "yes"), CLUSTER;
    _ = switch("cluster-allow-reads-when-down", "no"), CLUSTER;
    _ = switch("cluster-allow-replica-migration", "yes"), CLUSTER;
    _ = number("cluster-announce-bus-port", 0, 65535, "0"), CLUSTER;
    _ = text("cluster-announce-client-ipv4", "").hidden(), VALKEY;
    _ = text("cluster-announce-client-ipv6", "").hidden(), VALKEY;
    _ = number("cluster-announce-client-port", 0, 65535, "0").hidden(), VALKEY;
    _ = number("cluster-announce-client-tls-port", 0, 65535, "0").hidden(), VALKEY;
    _ = text("cluster-announce-hostname", ""), CLUSTER;
    _ = text("cluster-announce-human-nodename", ""), CLUSTER;
    _ = text("cluster-announce-ip", ""), CLUSTER;
    _ = number("cluster-announce-port", 0, 65535, "0"), CLUSTER;
    _ = number("cluster-announce-tls-port", 0, 65535, "0"), CLUSTER;
    _ = number("cluster-blacklist-ttl", 0, LONG_MAX, "60").hidden(), VALKEY;
    _ = number("cluster-compatibility-sample-ratio", 0, 100, "0"), CLUSTER;
    _ = text("cluster-config-file", "nodes.conf").fixed(), CLUSTER;
    _ = choice("cluster-config-save-behavior", &["sync", "best-effort"], "sync").hidden(), VALKEY;
    _ = number("cluster-databases", 1, INT_MAX, "1").fixed().hidden(), VALKEY;
    _ = switch("cluster-enabled", "no")
        .fixed().only_starts("there is no cluster mode: this server has all keys by itself"),
        "Refused: there is no cluster mode.";
    _ = memory("cluster-link-sendbuf-limit", 0, ULONG_MAX, "0"), CLUSTER;
    _ = number("cluster-manual-failover-timeout", 1, INT_MAX, "5000").hidden(), VALKEY;
    _ = number("cluster-migration-barrier", 0, INT_MAX, "1"), CLUSTER;
    _ = number("cluster-node-timeout", 0, LONG_MAX, "15000"), CLUSTER;
    _ = number("cluster-ping-interval", 0, LONG_MAX, "0").hidden(), CLUSTER;
    _ = number("cluster-port", 0, 65535, "0").fixed(), CLUSTER;
    _ = choice("cluster-preferred-endpoint-type",
        &["ip", "hostname", "unknown-endpoint"], "ip"), CLUSTER;
    _ = switch("cluster-replica-no-failover", "no").alias("cluster-slave-no-failover"), CLUSTER;
    _ = number("cluster-replica-validity-factor", 0, INT_MAX, "10")
        .alias("cluster-slave-validity-factor"), CLUSTER;
    _ = switch("cluster-require-full-coverage", "yes"), CLUSTER;
    _ = number("cluster-slot-migration-log-max-len", 0, LONG_MAX, "1000").hidden(), VALKEY;
    _ = switch("cluster-slot-stats-enabled", "no").hidden(), VALKEY;
    COMMANDLOG_LARGE_REPLY_MAX_LEN = number("commandlog-large-reply-max-len", 0, LONG_MAX, "128")
        .hidden(),
        "Large replies that COMMANDLOG keeps, with `compatibility valkey`.";
    COMMANDLOG_LARGE_REQUEST_MAX_LEN = number("commandlog-large-request-max-len", 0, LONG_MAX,
        "128").hidden(),
        "Large requests that COMMANDLOG keeps, with `compatibility valkey`.";
    COMMANDLOG_REPLY_LARGER_THAN = signed("commandlog-reply-larger-than", -1, LONG_MAX,
        "1048576").hidden(),
        "Bytes from which COMMANDLOG keeps the command of a reply; -1 is never.";
    COMMANDLOG_REQUEST_LARGER_THAN = signed("commandlog-request-larger-than", -1, LONG_MAX,
        "1048576").hidden(),
        "Bytes from which COMMANDLOG keeps a request; -1 is never.";
    COMPATIBILITY = choice("compatibility", &["redis", "valkey"], "redis").fixed().hidden(),
        "Whose rules hold where Redis and Valkey differ; [what changes](valkey.md).";
    _ = switch("crash-log-enabled", "yes"), CRASHES;
    _ = switch("crash-memcheck-enabled", "yes"), CRASHES;
    DAEMONIZE = switch("daemonize", "no").fixed(),
        "Starts the program again in the background, in its own session.";
    _ = number("databases", 1, INT_MAX, "16").fixed().at_most(DATABASES, "there are 16 databases"),
        "Number of databases; there are 16.";
    DBFILENAME = special("dbfilename", Kind::FileName, "dump.rdb").protected().then(&[Files]),
        "File of a snapshot, inside `dir`.";
    DIR = special("dir", Kind::Directory, "").protected()
        .then(&[Directory, NotWhileLoading, Files]),
        "Folder of all files.";
    DISABLE_THP = switch("disable-thp", "no").fixed(),
        "Asks the system for no transparent huge pages.";
    _ = switch("dual-channel-replication-enabled", "no").hidden(), VALKEY;
    _ = switch("dynamic-hz", "yes"), TIMERS;
    _ = switch("enable-debug-assert", "no").fixed().hidden(), VALKEY;
    ENABLE_DEBUG_COMMAND = choice("enable-debug-command", &["no", "yes", "local"], "no").fixed(),
        "Who may use DEBUG: none, all, or local clients.";
    _ = choice("enable-module-command", &["no", "yes", "local"], "no").fixed(), MODULES;
    ENABLE_PROTECTED_CONFIGS = choice("enable-protected-configs", &["no", "yes", "local"], "no")
        .fixed(),
        "Who may change protected parameters: none, all, or local clients.";
    _ = switch("extended-redis-compatibility", "no").hidden(), VALKEY;
    HASH_MAX_LISTPACK_ENTRIES = number("hash-max-listpack-entries", 0, LONG_MAX, "512")
        .alias("hash-max-ziplist-entries"),
        "Fields up to which a hash stays small.";
    HASH_MAX_LISTPACK_VALUE = memory("hash-max-listpack-value", 0, LONG_MAX, "64")
        .alias("hash-max-ziplist-value"),
        "Bytes of a field or a value up to which a hash stays small.";
    _ = text("hash-seed", "").fixed().hidden(), VALKEY;
    _ = switch("hide-user-data-from-log", "no"), USER_DATA;
    HLL_SPARSE_MAX_BYTES = memory("hll-sparse-max-bytes", 0, LONG_MAX, "3000"),
        "Bytes up to which a HyperLogLog stays sparse.";
    HZ = number("hz", 0, INT_MAX, "10"), TIMERS;
    _ = text("ignore-warnings", ""), APPEARANCE;
    IO_THREADS = number("io-threads", 1, 128, "1").fixed(), THREADS;
    _ = switch("jemalloc-bg-thread", "yes"), JEMALLOC;
    KEY_LOAD_DELAY = signed("key-load-delay", INT_MIN, INT_MAX, "0").hidden(),
        "Microseconds to wait after each key of a load, for tests.";
    LATENCY_MONITOR_THRESHOLD = number("latency-monitor-threshold", 0, LONG_MAX, "0"),
        "Milliseconds from which LATENCY notes an event; 0 is never.";
    LATENCY_TRACKING = switch("latency-tracking", "yes").then(&[Times]),
        "Whether INFO latencystats gets the times of commands.";
    LATENCY_TRACKING_INFO_PERCENTILES = special("latency-tracking-info-percentiles",
        Kind::Percentiles, "50 99 99.9"),
        "Percentiles that INFO latencystats shows.";
    LAZYFREE_LAZY_EVICTION = switch("lazyfree-lazy-eviction", "no"),
        "Whether evicted values are freed in the background.";
    LAZYFREE_LAZY_EXPIRE = switch("lazyfree-lazy-expire", "no"),
        "Whether expired values are freed in the background.";
    LAZYFREE_LAZY_SERVER_DEL = switch("lazyfree-lazy-server-del", "no"),
        "Whether replaced values are freed in the background.";
    LAZYFREE_LAZY_USER_DEL = switch("lazyfree-lazy-user-del", "no"),
        "Whether DEL frees values in the background.";
    LAZYFREE_LAZY_USER_FLUSH = switch("lazyfree-lazy-user-flush", "no"),
        "Whether FLUSHALL, FLUSHDB and others free keys in the background.";
    LFU_DECAY_TIME = number("lfu-decay-time", 0, INT_MAX, "1"),
        "Minutes after which a key's access counter loses one.";
    LFU_LOG_FACTOR = number("lfu-log-factor", 0, INT_MAX, "10"),
        "How slowly a key's access counter grows.";
    LIST_COMPRESS_DEPTH = number("list-compress-depth", 0, INT_MAX, "0"),
        "Nodes at each end of a list that OBJECT does not call compressed; nothing is compressed.";
    LIST_MAX_LISTPACK_SIZE = signed("list-max-listpack-size", INT_MIN, INT_MAX, "-2")
        .alias("list-max-ziplist-size"),
        "Bytes (negative: -1 to -5 for 4 to 64 KiB) or elements of a list's node.";
    LIVE_PREFIXES = text("live-prefixes", "live:").only_default(REFUSED_LIVE_PREFIXES),
        "Prefixes of keys that are topics; `--live-prefix` sets them.";
    _ = number("loading-process-events-interval-bytes", 1024, INT_MAX, "524288").hidden(), LOADING;
    _ = text("locale-collate", ""), COLLATION;
    LOGFILE = text("logfile", "").fixed(),
        "File for log lines instead of the standard error; reopened by SIGHUP.";
    LOGLEVEL = choice("loglevel", &["debug", "verbose", "notice", "warning", "nothing"], "notice"),
        "Which events are logged.";
    LUA_ENABLE_DEPRECATED_API = switch("lua-enable-deprecated-api", "no").fixed().hidden()
        .of_valkey("lua-enable-insecure-api"),
        "Whether scripts may use functions that Lua has deprecated.";
    MASTERAUTH = text("masterauth", "").secret().of_valkey("primaryauth"),
        "Password with which a replica logs in to its master.";
    MASTERUSER = text("masteruser", "").secret().of_valkey("primaryuser"),
        "User with which a replica logs in to its master.";
    _ = number("max-new-connections-per-cycle", 1, 1000, "10"), ACCEPTS;
    _ = number("max-new-tls-connections-per-cycle", 1, 1000, "1"), ACCEPTS;
    MAXCLIENTS = number("maxclients", 1, UINT_MAX, "10000"),
        "Clients that may be connected at once.";
    MAXMEMORY = memory("maxmemory", 0, ULONG_MAX, "0").then(&[MemoryLimit]),
        "Bytes above which keys are evicted; 0 is no limit.";
    MAXMEMORY_CLIENTS = memory_or_percent("maxmemory-clients", -100, LONG_MAX, "0")
        .then(&[MemoryLimit]),
        "Bytes that all clients together may hold, or a percentage of `maxmemory`; 0 is no limit.";
    MAXMEMORY_COUNTS_RESIDENT = switch("maxmemory-counts-resident", "yes").then(&[MemoryLimit]),
        "Whether keys are evicted for memory that the allocator holds unused as well.";
    MAXMEMORY_EVICTION_TENACITY = number("maxmemory-eviction-tenacity", 0, 100, "10")
        .then(&[MemoryLimit]),
        "How long one round of evictions may last: 0 is not at all, 100 without end.";
    MAXMEMORY_POLICY = choice("maxmemory-policy",
        &["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "volatile-lrm",
          "allkeys-lru", "allkeys-lfu", "allkeys-random", "allkeys-lrm", "noeviction"], "noeviction")
        .then(&[MemoryLimit]),
        "Which keys are evicted.";
    MAXMEMORY_SAMPLES = number("maxmemory-samples", 1, 64, "5").then(&[MemoryLimit]),
        "Keys that are compared to find the one to evict.";
    _ = number("min-io-threads-avoid-copy-reply", 0, INT_MAX, "7").hidden(), VALKEY;
    MIN_REPLICAS_MAX_LAG = number("min-replicas-max-lag", 0, INT_MAX, "10")
        .alias("min-slaves-max-lag"),
        "Seconds of silence after which a replica does not count for `min-replicas-to-write`.";
    MIN_REPLICAS_TO_WRITE = number("min-replicas-to-write", 0, INT_MAX, "0")
        .alias("min-slaves-to-write"),
        "Replicas without which writes are refused; 0 is none.";
    _ = number("min-string-size-avoid-copy-reply", 0, INT_MAX, "16384").hidden(), VALKEY;
    _ = number("min-string-size-avoid-copy-reply-threaded", 0, INT_MAX, "65536").hidden(), VALKEY;
    _ = switch("mptcp", "no").fixed().hidden(), VALKEY;
    _ = switch("no-appendfsync-on-rewrite", "no"), FILE_SYNCS;
    NOTIFY_KEYSPACE_EVENTS = special("notify-keyspace-events", Kind::Events, "").then(&[Topics]),
        "Classes of events that are published.";
    OOM_SCORE_ADJ = choice("oom-score-adj", &["no", "yes", "relative", "absolute"], "no")
        .then(&[Score]),
        "Whether the process tells the system which one to end first when memory is short.";
    OOM_SCORE_ADJ_VALUES = special("oom-score-adj-values", Kind::ScoreAdjustments, "0 200 800")
        .then(&[Score]),
        "Scores of a master, a replica and a saving process.";
    PIDFILE = text("pidfile", "").fixed(),
        "File with the process's number, removed at the end.";
    PORT = number("port", 0, 65535, "6379").then(&[Listening]),
        "TCP port of Redis clients; 0 is none.";
    _ = number("prefetch-batch-max-size", 0, 128, "16").hidden(), VALKEY;
    _ = text("proc-title-template", "{title} {listen-addr} {server-mode}"), APPEARANCE;
    _ = choice("propagation-error-behavior",
        &["ignore", "panic", "panic-on-replicas"], "ignore"), PROPAGATION;
    PROTECTED_MODE = switch("protected-mode", "yes"),
        "Whether clients from elsewhere are refused while the default user has no password.";
    _ = memory("proto-max-bulk-len", 1 << 20, LONG_MAX, "536870912"), BULKS;
    _ = switch("rdb-del-sync-files", "no").then(&[Files]), SYNC_FILES;
    RDB_KEY_SAVE_DELAY = signed("rdb-key-save-delay", INT_MIN, INT_MAX, "0")
        .hidden().then(&[Files]),
        "Microseconds to wait after each key of a snapshot, for tests.";
    RDB_SAVE_INCREMENTAL_FSYNC = switch("rdb-save-incremental-fsync", "yes").then(&[Files]),
        "Whether a snapshot is synced while it is written.";
    RDB_VERSION = choice("rdb-version", &["auto", "10", "11", "12", "13", "80"], "auto").then(&[Files]),
        "Version of files of all keys; `auto` is the oldest that holds what is there.";
    RDBCHECKSUM = switch("rdbchecksum", "yes").fixed().then(&[Files]),
        "Whether snapshots end with a checksum, and whether it is checked.";
    RDBCOMPRESSION = switch("rdbcompression", "yes").then(&[Files]),
        "Whether long texts in snapshots are compressed.";
    REPL_BACKLOG_SIZE = memory("repl-backlog-size", 1, LONG_MAX, "1048576").then(&[Files]),
        "Bytes of the stream that are kept for replicas that return.";
    REPL_BACKLOG_TTL = number("repl-backlog-ttl", 0, LONG_MAX, "3600").then(&[Files]),
        "Seconds after which the stream is dropped when no replica is connected; 0 is never.";
    _ = switch("repl-disable-tcp-nodelay", "no").then(&[Files]), SMALL_PACKETS;
    _ = choice("repl-diskless-load", &["disabled", "on-empty-db", "swapdb"], "disabled")
        .then(&[NotWhileLoading, Files]),
        "Checked and kept; the old keys stay until the file is whole.";
    REPL_DISKLESS_SYNC = switch("repl-diskless-sync", "yes").then(&[Files]),
        "Whether the file for a replica waits for others.";
    REPL_DISKLESS_SYNC_DELAY = number("repl-diskless-sync-delay", 0, INT_MAX, "0").then(&[Files]),
        "Seconds that the file for a replica waits for others.";
    REPL_DISKLESS_SYNC_MAX_REPLICAS = number("repl-diskless-sync-max-replicas", 0, INT_MAX, "0")
        .then(&[Files]),
        "Connected replicas that end this wait; 0 is any number.";
    _ = switch("repl-mptcp", "no").fixed().hidden().then(&[Files]), VALKEY;
    REPL_PING_REPLICA_PERIOD = number("repl-ping-replica-period", 1, INT_MAX, "10")
        .alias("repl-ping-slave-period").then(&[Files]),
        "Seconds between pings to replicas.";
    _ = switch("repl-rdb-channel", "yes").hidden().then(&[Files]), SYNC_FILES;
    REPL_TIMEOUT = number("repl-timeout", 1, INT_MAX, "60").then(&[Files]),
        "Seconds of silence after which a master or a replica counts as lost.";
    REPLICA_ANNOUNCE_IP = text("replica-announce-ip", "").alias("slave-announce-ip").then(&[Files]),
        "Address that a replica names to its master.";
    REPLICA_ANNOUNCE_PORT = number("replica-announce-port", 0, 65535, "0")
        .alias("slave-announce-port").then(&[Files]),
        "Port that a replica names to its master; 0 is `port`.";
    REPLICA_ANNOUNCED = switch("replica-announced", "yes").then(&[Files]),
        "Shown in INFO, for Sentinel.";
    _ = memory("replica-full-sync-buffer-limit", 0, LONG_MAX, "0").then(&[Files]), SYNC_FILES;
    _ = switch("replica-ignore-disk-write-errors", "no").then(&[Files]), DISK_ERRORS;
    REPLICA_IGNORE_MAXMEMORY = switch("replica-ignore-maxmemory", "yes")
        .alias("slave-ignore-maxmemory").then(&[Files]),
        "Whether a replica leaves evictions to its master.";
    REPLICA_LAZY_FLUSH = switch("replica-lazy-flush", "no")
        .alias("slave-lazy-flush").then(&[Files]),
        "Whether a replica frees its old keys in the background before a full sync.";
    REPLICA_PRIORITY = number("replica-priority", 0, INT_MAX, "100")
        .alias("slave-priority").then(&[Files]),
        "Shown in INFO, for Sentinel.";
    REPLICA_READ_ONLY = switch("replica-read-only", "yes").alias("slave-read-only").then(&[Files]),
        "Whether a replica refuses writes.";
    REPLICA_SERVE_STALE_DATA = switch("replica-serve-stale-data", "yes")
        .alias("slave-serve-stale-data").then(&[Files]),
        "Whether a replica answers while its master is not connected.";
    REPLICAOF = words("replicaof", "").alias("slaveof").fixed().then(&[Files]),
        "Host and port of this server's master.";
    REQUIREPASS = text("requirepass", "").secret().then(&[Password]),
        "Password of the default user.";
    _ = choice("sanitize-dump-payload", &["no", "yes", "clients"], "no"), DUMPS;
    SAVE = special("save", Kind::SavePoints, "").then(&[Files]),
        "Seconds and changes after which a snapshot is taken.";
    _ = text("server-cpulist", "").alias("server_cpulist").fixed(), PINNING;
    SET_MAX_INTSET_ENTRIES = number("set-max-intset-entries", 0, LONG_MAX, "512"),
        "Members up to which a set of integers stays small.";
    SET_MAX_LISTPACK_ENTRIES = number("set-max-listpack-entries", 0, LONG_MAX, "128"),
        "Members up to which a set stays small.";
    SET_MAX_LISTPACK_VALUE = number("set-max-listpack-value", 0, LONG_MAX, "64"),
        "Bytes of a member up to which a set stays small.";
    _ = switch("set-proc-title", "yes").fixed(), APPEARANCE;
    SHUTDOWN_ON_SIGINT = choices("shutdown-on-sigint",
        &["default", "save", "nosave", "now", "force"], "default"),
        "What SIGINT does, in the words of SHUTDOWN.";
    SHUTDOWN_ON_SIGTERM = choices("shutdown-on-sigterm",
        &["default", "save", "nosave", "now", "force"], "default"),
        "What SIGTERM does, in the words of SHUTDOWN.";
    SHUTDOWN_TIMEOUT = number("shutdown-timeout", 0, INT_MAX, "10"),
        "Seconds that SHUTDOWN waits for replicas.";
    _ = signed("slot-migration-max-failover-repl-bytes", -1, LONG_MAX, "0").hidden(), VALKEY;
    SLOWLOG_LOG_SLOWER_THAN = signed("slowlog-log-slower-than", -1, LONG_MAX, "10000")
        .of_valkey("commandlog-execution-slower-than"),
        "Microseconds from which SLOWLOG keeps a command; -1 is never.";
    SLOWLOG_MAX_LEN = number("slowlog-max-len", 0, LONG_MAX, "128")
        .of_valkey("commandlog-slow-execution-max-len"),
        "Commands that SLOWLOG keeps.";
    _ = number("socket-mark-id", 0, UINT_MAX, "0").fixed().only_starts("sockets cannot be marked"),
        "Refused: sockets cannot be marked.";
    STOP_WRITES_ON_BGSAVE_ERROR = switch("stop-writes-on-bgsave-error", "yes"),
        "Whether writes are refused after a snapshot that failed.";
    STREAM_IDMP_DURATION = number("stream-idmp-duration", 1, 86_400, "100"),
        "Seconds for which a new stream knows what a producer has sent.";
    STREAM_IDMP_MAXSIZE = number("stream-idmp-maxsize", 1, 10_000, "100"),
        "Entries of each producer that a new stream knows.";
    STREAM_NODE_MAX_BYTES = memory("stream-node-max-bytes", 0, LONG_MAX, "4096"),
        "Bytes of a stream's node.";
    STREAM_NODE_MAX_ENTRIES = number("stream-node-max-entries", 0, LONG_MAX, "100"),
        "Entries of a stream's node.";
    SUPERVISED = choice("supervised", &["systemd", "auto", "no"], "no").fixed(),
        "Which supervisor is notified: systemd, the one that there is, or none.";
    SYSLOG_ENABLED = switch("syslog-enabled", "no").fixed(),
        "Whether log lines go to `/dev/log` as well.";
    SYSLOG_FACILITY = choice("syslog-facility",
        &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"],
        "local0")
        .fixed(),
        "Facility of these lines.";
    SYSLOG_IDENT = text("syslog-ident", "redis").fixed(),
        "Name in these lines.";
    _ = number("tcp-backlog", 0, INT_MAX, "511").fixed(), BACKLOG;
    _ = number("tcp-keepalive", 0, INT_MAX, "300"), KEEPALIVE;
    TIMEOUT = number("timeout", 0, INT_MAX, "0"),
        "Seconds after which an idle client is disconnected; 0 is never.";
    TLS_AUTH_CLIENTS = choice("tls-auth-clients", &["no", "yes", "optional"], "yes")
        .then(&[Certificates]),
        "Whether TLS clients must show a certificate of an authority that is trusted.";
    TLS_AUTH_CLIENTS_USER = choice("tls-auth-clients-user", &["off", "CN", "URI"], "off"),
        "Name in a client's certificate that is its user: the common name, or a URI among the alternative names.";
    TLS_CA_CERT_DIR = text("tls-ca-cert-dir", "").then(&[Certificates]),
        "Directory of certificates of authorities that are trusted.";
    TLS_CA_CERT_FILE = text("tls-ca-cert-file", "").then(&[Certificates]),
        "File of certificates of authorities that are trusted.";
    TLS_CERT_FILE = text("tls-cert-file", "").then(&[Certificates]),
        "File of the server's certificate, and those that lead to its issuer, in PEM.";
    TLS_CIPHERS = text("tls-ciphers", "").then(&[Certificates]),
        "Cipher suites of TLS 1.2, as a list of OpenSSL; empty for all that are safe.";
    TLS_CIPHERSUITES = text("tls-ciphersuites", "").then(&[Certificates]),
        "Cipher suites of TLS 1.3; empty for all.";
    TLS_CLIENT_CERT_FILE = text("tls-client-cert-file", "").then(&[Certificates]),
        "File of the certificate for links to other servers; empty for the server's own.";
    TLS_CLIENT_KEY_FILE = text("tls-client-key-file", "").then(&[Certificates]),
        "File of its private key.";
    TLS_CLIENT_KEY_FILE_PASS = text("tls-client-key-file-pass", "").then(&[Certificates]).secret(),
        "Password of this file, if its key is encrypted (PKCS#8).";
    TLS_CLUSTER = switch("tls-cluster", "no").then(&[Certificates]),
        "Whether MIGRATE connects with TLS, as in Redis. There is no cluster mode.";
    _ = text("tls-dh-params-file", ""), DH_PARAMS;
    TLS_KEY_FILE = text("tls-key-file", "").then(&[Certificates]),
        "File of the private key of the server's certificate, in PEM.";
    TLS_KEY_FILE_PASS = text("tls-key-file-pass", "").then(&[Certificates]).secret(),
        "Password of this file, if its key is encrypted (PKCS#8).";
    TLS_PORT = number("tls-port", 0, 65535, "0").then(&[Certificates, Listening]),
        "TCP port of Redis clients with TLS; 0 is none.";
    TLS_PREFER_SERVER_CIPHERS = switch("tls-prefer-server-ciphers", "no").then(&[Certificates]),
        "Whether the server's order of cipher suites decides, and not the client's.";
    TLS_PROTOCOLS = text("tls-protocols", "").then(&[Certificates]),
        "Versions of TLS, of `TLSv1.2` and `TLSv1.3`; empty for both.";
    TLS_REPLICATION = switch("tls-replication", "no").then(&[Certificates]),
        "Whether the link to a master uses TLS.";
    _ = number("tls-session-cache-size", 0, INT_MAX, "20480"), SESSION_CACHE;
    TLS_SESSION_CACHE_TIMEOUT = number("tls-session-cache-timeout", 0, INT_MAX, "300")
        .then(&[Certificates]),
        "Seconds for which a TLS session can be resumed, at least; twice that at most.";
    TLS_SESSION_CACHING = switch("tls-session-caching", "yes").then(&[Certificates]),
        "Whether TLS sessions can be resumed.";
    TLS_VERIFY_HOSTNAME = switch("tls-verify-hostname", "yes").then(&[Certificates]),
        "Whether the certificates of other servers must name their hosts; Redis never asks for that.";
    TRACKING_TABLE_MAX_KEYS = number("tracking-table-max-keys", 0, LONG_MAX, "1000000"),
        "Keys that are remembered for CLIENT TRACKING; 0 is no limit.";
    _ = text("unixsocket", "").fixed(),
        "Path of a Unix socket for Redis clients.";
    UNIXSOCKETPERM = octal("unixsocketperm", 0, 0o777, "0").fixed(),
        "Permissions of this socket, in octal.";
    _ = switch("use-exit-on-panic", "no").hidden(), CRASHES;
    _ = number("watchdog-period", 0, INT_MAX, "0").hidden(), CRASHES;
    ZSET_MAX_LISTPACK_ENTRIES = number("zset-max-listpack-entries", 0, LONG_MAX, "128")
        .alias("zset-max-ziplist-entries"),
        "Members up to which a sorted set stays small.";
    ZSET_MAX_LISTPACK_VALUE = memory("zset-max-listpack-value", 0, LONG_MAX, "64")
        .alias("zset-max-ziplist-value"),
        "Bytes of a member up to which a sorted set stays small.";
}

const INT_MIN: i128 = i32::MIN as i128;
const INT_MAX: i128 = i32::MAX as i128;
const UINT_MAX: i128 = u32::MAX as i128;
const LONG_MAX: i128 = i64::MAX as i128;
const ULONG_MAX: i128 = u64::MAX as i128;

const REFUSED_LIVE_PREFIXES: &str = "give live prefixes at the start, with --live-prefix";
const REFUSED_DEFRAGMENTATION: &str = "Active defragmentation cannot be enabled: it requires a \
                                       Redis server compiled with a modified Jemalloc like the \
                                       one shipped by default with the Redis source distribution";

// What each of these does in Redis, and why it does nothing here.
const JEMALLOC: Does = Does::Nothing("tune jemalloc", "another allocator is used");
const TIMERS: Does = Does::Nothing("how often timers run", "timers run when they are due");
const REHASHING: Does = Does::Nothing("rehashes while idle", "tables grow bucket by bucket");
const APPEARANCE: Does =
    Does::Nothing("appearance at the start", "there is neither logo nor title");
const BASE_FILE: Does = Does::Nothing("base file as RDB", "it always is");
const FILE_SYNCS: Does = Does::Nothing(
    "when files are synced or removed",
    "a rewrite does not delay the sync of what is appended; old files are removed",
);
const DH_PARAMS: Does = Does::Nothing(
    "parameters of a key exchange",
    "keys are exchanged by elliptic curves alone",
);
const SESSION_CACHE: Does = Does::Nothing(
    "TLS sessions that are remembered",
    "clients keep them, in tickets",
);
const PINNING: Does = Does::Nothing("pin threads and processes", "`--pin` pins lanes");
const CLUSTER: Does = Does::Nothing("tune the cluster", "there is no cluster mode");
const CRASHES: Does = Does::Nothing(
    "what happens after a crash",
    "a panic is logged and ends the program",
);
const MODULES: Does = Does::Nothing(
    "allows `MODULE LOAD`",
    "there are no modules to load; the command is refused",
);
const USER_DATA: Does = Does::Nothing("leaves keys out of crash logs", "no keys are logged");
const THREADS: Does = Does::Nothing(
    "threads for I/O",
    "`--lanes` says how many event loops there are; the value shown is their number",
);
const LOADING: Does = Does::Nothing(
    "how often a load answers clients",
    "clients are always answered during a load",
);
const COLLATION: Does = Does::Nothing("order of `SORT … ALPHA`", "bytes are compared");
const ACCEPTS: Does = Does::Nothing("accepts per turn", "64 per turn");
const VALKEY: Does = Does::Nothing(
    "Valkey has these, and Redis does not; `CONFIG GET` shows them only by their names",
    "a file made for Valkey can be read",
);
const PROPAGATION: Does = Does::Nothing("panics on errors in the stream", "errors are logged");
const BULKS: Does = Does::Nothing(
    "limits one argument of a request",
    "one argument has up to 512 MiB",
);
const SYNC_FILES: Does = Does::Nothing(
    "how a replica gets its file",
    "it is always made from memory, and sent as it is made",
);
const SMALL_PACKETS: Does =
    Does::Nothing("delays small packets to replicas", "they are never delayed");
const DISK_ERRORS: Does = Does::Nothing(
    "stops a replica whose disk fails",
    "a replica goes on when its disk fails",
);
const DUMPS: Does = Does::Nothing("checks what `RESTORE` is given", "it is always checked");
const BACKLOG: Does = Does::Nothing("connections that wait", "511");
const KEEPALIVE: Does = Does::Nothing("probes of idle connections", "every 300 s");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_and_every_name_is_there_once() {
        let mut names = Vec::new();
        for one in TABLE {
            let kept = one.kind.read(one.default.as_bytes(), b"").expect(one.name);
            assert_eq!(kept, one.default.as_bytes(), "{}", one.name);
            names.push(one.name);
            names.extend(one.alias);
            names.extend(one.of_valkey);
        }
        assert!(TABLE.is_sorted_by_key(|one| one.name));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
