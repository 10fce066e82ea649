//! All parameters of Redis's open-source core, and this server's own: `live-prefixes`,
//! `maxmemory-counts-resident` and `rdb-version`.

use super::kinds::Kind;

/// One parameter, as CONFIG knows it.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// An older name, which CONFIG GET lists as well.
    pub(super) alias: Option<&'static str>,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    pub(super) access: Access,
    /// Found by its exact name only.
    pub(super) hidden: bool,
}

/// Whether CONFIG SET may change a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Free,
    /// Only at the start.
    Fixed,
    /// If `enable-protected-configs` allows it.
    Protected,
    /// What it would ask for is not there: every change is refused with this text.
    Unavailable(&'static str),
}

/// The parameter of this name, in any case.
pub(super) fn number_of(name: &str) -> Option<usize> {
    let is = |own: &str| own.eq_ignore_ascii_case(name);
    TABLE
        .iter()
        .position(|one| is(one.name) || one.alias.is_some_and(is))
}

/// In the order of their names.
pub(super) static TABLE: &[Parameter] = &[
    choice(
        "acl-pubsub-default",
        &["allchannels", "resetchannels"],
        "resetchannels",
    ),
    text("aclfile", "").fixed(),
    number("acllog-max-len", 0, LONG_MAX, "128"),
    number("active-defrag-cycle-max", 1, 99, "25"),
    number("active-defrag-cycle-min", 1, 99, "1"),
    number("active-defrag-cycle-us", 0, 100_000, "500").hidden(),
    memory("active-defrag-ignore-bytes", 1, LONG_MAX, "104857600"),
    number("active-defrag-max-scan-fields", 1, LONG_MAX, "1000"),
    number("active-defrag-threshold-lower", 0, 1000, "10"),
    number("active-defrag-threshold-upper", 0, 1000, "100"),
    number("active-expire-effort", 1, 10, "1"),
    switch("activedefrag", "no").only_default(REFUSED_DEFRAGMENTATION),
    switch("activerehashing", "yes"),
    switch("always-show-logo", "no").fixed(),
    switch("aof-disable-auto-gc", "no").hidden(),
    switch("aof-load-truncated", "yes"),
    text("aof-rewrite-cpulist", "")
        .alias("aof_rewrite_cpulist")
        .fixed(),
    switch("aof-rewrite-incremental-fsync", "yes"),
    switch("aof-timestamp-enabled", "no"),
    switch("aof-use-rdb-preamble", "yes"),
    special("appenddirname", Kind::FileName, "appendonlydir").fixed(),
    special("appendfilename", Kind::FileName, "appendonly.aof").fixed(),
    choice("appendfsync", &["everysec", "always", "no"], "everysec"),
    switch("appendonly", "no"),
    memory("auto-aof-rewrite-min-size", 0, LONG_MAX, "67108864"),
    number("auto-aof-rewrite-percentage", 0, INT_MAX, "100"),
    text("availability-zone", "").hidden(),
    text("bgsave-cpulist", "").alias("bgsave_cpulist").fixed(),
    text("bind", "127.0.0.1"),
    text("bind-source-addr", ""),
    text("bio-cpulist", "").alias("bio_cpulist").fixed(),
    number("busy-reply-threshold", 0, LONG_MAX, "5000").alias("lua-time-limit"),
    special(
        "client-output-buffer-limit",
        Kind::OutputLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    memory("client-query-buffer-limit", 1 << 20, LONG_MAX, "1073741824"),
    switch("cluster-allow-pubsubshard-when-down", "yes"),
    switch("cluster-allow-reads-when-down", "no"),
    switch("cluster-allow-replica-migration", "yes"),
    number("cluster-announce-bus-port", 0, 65535, "0"),
    text("cluster-announce-client-ipv4", "").hidden(),
    text("cluster-announce-client-ipv6", "").hidden(),
    number("cluster-announce-client-port", 0, 65535, "0").hidden(),
    number("cluster-announce-client-tls-port", 0, 65535, "0").hidden(),
    text("cluster-announce-hostname", ""),
    text("cluster-announce-human-nodename", ""),
    text("cluster-announce-ip", ""),
    number("cluster-announce-port", 0, 65535, "0"),
    number("cluster-announce-tls-port", 0, 65535, "0"),
    number("cluster-blacklist-ttl", 0, LONG_MAX, "60").hidden(),
    number("cluster-compatibility-sample-ratio", 0, 100, "0"),
    text("cluster-config-file", "nodes.conf").fixed(),
    choice(
        "cluster-config-save-behavior",
        &["sync", "best-effort"],
        "sync",
    )
    .hidden(),
    number("cluster-databases", 1, INT_MAX, "1")
        .fixed()
        .hidden(),
    switch("cluster-enabled", "no").fixed(),
    memory("cluster-link-sendbuf-limit", 0, ULONG_MAX, "0"),
    number("cluster-manual-failover-timeout", 1, INT_MAX, "5000").hidden(),
    number("cluster-migration-barrier", 0, INT_MAX, "1"),
    number("cluster-node-timeout", 0, LONG_MAX, "15000"),
    number("cluster-ping-interval", 0, LONG_MAX, "0").hidden(),
    number("cluster-port", 0, 65535, "0").fixed(),
    choice(
        "cluster-preferred-endpoint-type",
        &["ip", "hostname", "unknown-endpoint"],
        "ip",
    ),
    switch("cluster-replica-no-failover", "no").alias("cluster-slave-no-failover"),
    number("cluster-replica-validity-factor", 0, INT_MAX, "10")
        .alias("cluster-slave-validity-factor"),
    switch("cluster-require-full-coverage", "yes"),
    number("cluster-slot-migration-log-max-len", 0, LONG_MAX, "1000").hidden(),
    switch("cluster-slot-stats-enabled", "no").hidden(),
    switch("crash-log-enabled", "yes"),
    switch("crash-memcheck-enabled", "yes"),
    switch("daemonize", "no").fixed(),
    number("databases", 1, INT_MAX, "16").fixed(),
    special("dbfilename", Kind::FileName, "dump.rdb").protected(),
    special("dir", Kind::Directory, "").protected(),
    switch("disable-thp", "no").fixed(),
    switch("dual-channel-replication-enabled", "no").hidden(),
    switch("dynamic-hz", "yes"),
    switch("enable-debug-assert", "no").fixed().hidden(),
    choice("enable-debug-command", &["no", "yes", "local"], "no").fixed(),
    choice("enable-module-command", &["no", "yes", "local"], "no").fixed(),
    choice("enable-protected-configs", &["no", "yes", "local"], "no").fixed(),
    switch("extended-redis-compatibility", "no").hidden(),
    number("hash-max-listpack-entries", 0, LONG_MAX, "512").alias("hash-max-ziplist-entries"),
    memory("hash-max-listpack-value", 0, LONG_MAX, "64").alias("hash-max-ziplist-value"),
    text("hash-seed", "").fixed().hidden(),
    switch("hide-user-data-from-log", "no"),
    memory("hll-sparse-max-bytes", 0, LONG_MAX, "3000"),
    number("hz", 0, INT_MAX, "10"),
    text("ignore-warnings", ""),
    number("io-threads", 1, 128, "1").fixed(),
    switch("jemalloc-bg-thread", "yes"),
    number("key-load-delay", INT_MIN, INT_MAX, "0").hidden(),
    number("latency-monitor-threshold", 0, LONG_MAX, "0"),
    switch("latency-tracking", "yes"),
    special(
        "latency-tracking-info-percentiles",
        Kind::Percentiles,
        "50 99 99.9",
    ),
    switch("lazyfree-lazy-eviction", "no"),
    switch("lazyfree-lazy-expire", "no"),
    switch("lazyfree-lazy-server-del", "no"),
    switch("lazyfree-lazy-user-del", "no"),
    switch("lazyfree-lazy-user-flush", "no"),
    number("lfu-decay-time", 0, INT_MAX, "1"),
    number("lfu-log-factor", 0, INT_MAX, "10"),
    number("list-compress-depth", 0, INT_MAX, "0"),
    number("list-max-listpack-size", INT_MIN, INT_MAX, "-2").alias("list-max-ziplist-size"),
    text("live-prefixes", "live:").only_default(REFUSED_LIVE_PREFIXES),
    number(
        "loading-process-events-interval-bytes",
        1024,
        INT_MAX,
        "524288",
    )
    .hidden(),
    text("locale-collate", ""),
    text("logfile", "").fixed(),
    choice(
        "loglevel",
        &["debug", "verbose", "notice", "warning", "nothing"],
        "notice",
    ),
    switch("lua-enable-deprecated-api", "no").fixed().hidden(),
    text("masterauth", ""),
    text("masteruser", ""),
    number("max-new-connections-per-cycle", 1, 1000, "10"),
    number("max-new-tls-connections-per-cycle", 1, 1000, "1"),
    number("maxclients", 1, UINT_MAX, "10000"),
    memory("maxmemory", 0, ULONG_MAX, "0"),
    memory_or_percent("maxmemory-clients", -100, LONG_MAX, "0"),
    switch("maxmemory-counts-resident", "yes"),
    number("maxmemory-eviction-tenacity", 0, 100, "10"),
    choice(
        "maxmemory-policy",
        &[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ],
        "noeviction",
    ),
    number("maxmemory-samples", 1, 64, "5"),
    number("min-io-threads-avoid-copy-reply", 0, INT_MAX, "7").hidden(),
    number("min-replicas-max-lag", 0, INT_MAX, "10").alias("min-slaves-max-lag"),
    number("min-replicas-to-write", 0, INT_MAX, "0").alias("min-slaves-to-write"),
    number("min-string-size-avoid-copy-reply", 0, INT_MAX, "16384").hidden(),
    number(
        "min-string-size-avoid-copy-reply-threaded",
        0,
        INT_MAX,
        "65536",
    )
    .hidden(),
    switch("mptcp", "no").fixed().hidden(),
    switch("no-appendfsync-on-rewrite", "no"),
    special("notify-keyspace-events", Kind::Events, ""),
    choice(
        "oom-score-adj",
        &["no", "yes", "relative", "absolute"],
        "no",
    ),
    special("oom-score-adj-values", Kind::ScoreAdjustments, "0 200 800"),
    text("pidfile", "").fixed(),
    number("port", 0, 65535, "6379"),
    number("prefetch-batch-max-size", 0, 128, "16").hidden(),
    text("proc-title-template", "{title} {listen-addr} {server-mode}"),
    choice(
        "propagation-error-behavior",
        &["ignore", "panic", "panic-on-replicas"],
        "ignore",
    ),
    switch("protected-mode", "yes"),
    memory("proto-max-bulk-len", 1 << 20, LONG_MAX, "536870912"),
    switch("rdb-del-sync-files", "no"),
    number("rdb-key-save-delay", INT_MIN, INT_MAX, "0").hidden(),
    switch("rdb-save-incremental-fsync", "yes"),
    choice("rdb-version", &["auto", "10", "11", "12", "80"], "auto"),
    switch("rdbchecksum", "yes").fixed(),
    switch("rdbcompression", "yes"),
    memory("repl-backlog-size", 1, LONG_MAX, "1048576"),
    number("repl-backlog-ttl", 0, LONG_MAX, "3600"),
    switch("repl-disable-tcp-nodelay", "no"),
    choice(
        "repl-diskless-load",
        &["disabled", "on-empty-db", "swapdb"],
        "disabled",
    ),
    switch("repl-diskless-sync", "yes"),
    number("repl-diskless-sync-delay", 0, INT_MAX, "0"),
    number("repl-diskless-sync-max-replicas", 0, INT_MAX, "0"),
    switch("repl-mptcp", "no").fixed().hidden(),
    number("repl-ping-replica-period", 1, INT_MAX, "10").alias("repl-ping-slave-period"),
    switch("repl-rdb-channel", "yes").hidden(),
    number("repl-timeout", 1, INT_MAX, "60"),
    text("replica-announce-ip", "").alias("slave-announce-ip"),
    number("replica-announce-port", 0, 65535, "0").alias("slave-announce-port"),
    switch("replica-announced", "yes"),
    memory("replica-full-sync-buffer-limit", 0, LONG_MAX, "0"),
    switch("replica-ignore-disk-write-errors", "no"),
    switch("replica-ignore-maxmemory", "yes").alias("slave-ignore-maxmemory"),
    switch("replica-lazy-flush", "no").alias("slave-lazy-flush"),
    number("replica-priority", 0, INT_MAX, "100").alias("slave-priority"),
    switch("replica-read-only", "yes").alias("slave-read-only"),
    switch("replica-serve-stale-data", "yes").alias("slave-serve-stale-data"),
    text("replicaof", "").alias("slaveof").fixed(),
    text("requirepass", ""),
    choice("sanitize-dump-payload", &["no", "yes", "clients"], "no"),
    special("save", Kind::SavePoints, ""),
    text("server-cpulist", "").alias("server_cpulist").fixed(),
    number("set-max-intset-entries", 0, LONG_MAX, "512"),
    number("set-max-listpack-entries", 0, LONG_MAX, "128"),
    number("set-max-listpack-value", 0, LONG_MAX, "64"),
    switch("set-proc-title", "yes").fixed(),
    choices(
        "shutdown-on-sigint",
        &["default", "save", "nosave", "now", "force"],
        "default",
    ),
    choices(
        "shutdown-on-sigterm",
        &["default", "save", "nosave", "now", "force"],
        "default",
    ),
    number("shutdown-timeout", 0, INT_MAX, "10"),
    number("slot-migration-max-failover-repl-bytes", -1, LONG_MAX, "0").hidden(),
    number("slowlog-log-slower-than", -1, LONG_MAX, "10000"),
    number("slowlog-max-len", 0, LONG_MAX, "128"),
    number("socket-mark-id", 0, UINT_MAX, "0").fixed(),
    switch("stop-writes-on-bgsave-error", "yes"),
    memory("stream-node-max-bytes", 0, LONG_MAX, "4096"),
    number("stream-node-max-entries", 0, LONG_MAX, "100"),
    choice("supervised", &["systemd", "auto", "no"], "no").fixed(),
    switch("syslog-enabled", "no").fixed(),
    choice(
        "syslog-facility",
        &[
            "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
        ],
        "local0",
    )
    .fixed(),
    text("syslog-ident", "redis").fixed(),
    number("tcp-backlog", 0, INT_MAX, "511").fixed(),
    number("tcp-keepalive", 0, INT_MAX, "300"),
    number("timeout", 0, INT_MAX, "0"),
    choice("tls-auth-clients", &["no", "yes", "optional"], "yes").only_default(REFUSED_TLS),
    text("tls-ca-cert-dir", "").only_default(REFUSED_TLS),
    text("tls-ca-cert-file", "").only_default(REFUSED_TLS),
    text("tls-cert-file", "").only_default(REFUSED_TLS),
    text("tls-ciphers", "").only_default(REFUSED_TLS),
    text("tls-ciphersuites", "").only_default(REFUSED_TLS),
    text("tls-client-cert-file", "").only_default(REFUSED_TLS),
    text("tls-client-key-file", "").only_default(REFUSED_TLS),
    text("tls-client-key-file-pass", "").only_default(REFUSED_TLS),
    switch("tls-cluster", "no").only_default(REFUSED_TLS),
    text("tls-dh-params-file", "").only_default(REFUSED_TLS),
    text("tls-key-file", "").only_default(REFUSED_TLS),
    text("tls-key-file-pass", "").only_default(REFUSED_TLS),
    number("tls-port", 0, 65535, "0").only_default(REFUSED_TLS_PORT),
    switch("tls-prefer-server-ciphers", "no").only_default(REFUSED_TLS),
    text("tls-protocols", "").only_default(REFUSED_TLS),
    switch("tls-replication", "no").only_default(REFUSED_TLS),
    number("tls-session-cache-size", 0, INT_MAX, "20480").only_default(REFUSED_TLS),
    number("tls-session-cache-timeout", 0, INT_MAX, "300").only_default(REFUSED_TLS),
    switch("tls-session-caching", "yes").only_default(REFUSED_TLS),
    number("tracking-table-max-keys", 0, LONG_MAX, "1000000"),
    text("unixsocket", "").fixed(),
    octal("unixsocketperm", 0, 0o777, "0").fixed(),
    switch("use-exit-on-panic", "no").hidden(),
    number("watchdog-period", 0, INT_MAX, "0").hidden(),
    number("zset-max-listpack-entries", 0, LONG_MAX, "128").alias("zset-max-ziplist-entries"),
    memory("zset-max-listpack-value", 0, LONG_MAX, "64").alias("zset-max-ziplist-value"),
];

const fn parameter(name: &'static str, kind: Kind, default: &'static str) -> Parameter {
    Parameter {
        name,
        alias: None,
        kind,
        default,
        access: Access::Free,
        hidden: false,
    }
}

const fn switch(name: &'static str, default: &'static str) -> Parameter {
    parameter(name, Kind::Switch, default)
}

const fn text(name: &'static str, default: &'static str) -> Parameter {
    parameter(name, Kind::Text, default)
}

const fn choice(
    name: &'static str,
    words: &'static [&'static str],
    default: &'static str,
) -> Parameter {
    parameter(name, Kind::Choice(words), default)
}

const fn choices(
    name: &'static str,
    words: &'static [&'static str],
    default: &'static str,
) -> Parameter {
    parameter(name, Kind::Choices(words), default)
}

const fn number(name: &'static str, least: i128, most: i128, default: &'static str) -> Parameter {
    parameter(name, Kind::Number(least, most), default)
}

const fn octal(name: &'static str, least: i128, most: i128, default: &'static str) -> Parameter {
    parameter(name, Kind::Octal(least, most), default)
}

const fn memory(name: &'static str, least: i128, most: i128, default: &'static str) -> Parameter {
    parameter(name, Kind::Memory(least, most), default)
}

const fn memory_or_percent(
    name: &'static str,
    least: i128,
    most: i128,
    default: &'static str,
) -> Parameter {
    parameter(name, Kind::MemoryOrPercent(least, most), default)
}

const fn special(name: &'static str, kind: Kind, default: &'static str) -> Parameter {
    parameter(name, kind, default)
}

impl Parameter {
    const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    const fn fixed(mut self) -> Self {
        self.access = Access::Fixed;
        self
    }

    const fn protected(mut self) -> Self {
        self.access = Access::Protected;
        self
    }

    const fn only_default(mut self, text: &'static str) -> Self {
        self.access = Access::Unavailable(text);
        self
    }

    const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }
}

const INT_MIN: i128 = i32::MIN as i128;
const INT_MAX: i128 = i32::MAX as i128;
const UINT_MAX: i128 = u32::MAX as i128;
const LONG_MAX: i128 = i64::MAX as i128;
const ULONG_MAX: i128 = u64::MAX as i128;

const REFUSED_TLS_PORT: &str = "Unable to listen on this port. Check server logs.";
const REFUSED_LIVE_PREFIXES: &str = "live prefixes are given when the server starts";
const REFUSED_TLS: &str = "Unable to update TLS configuration. Check server logs.";
const REFUSED_DEFRAGMENTATION: &str = "Active defragmentation cannot be enabled: it requires a \
                                       Redis server compiled with a modified Jemalloc like the \
                                       one shipped by default with the Redis source distribution";

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
        }
        assert!(TABLE.is_sorted_by_key(|one| one.name));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
