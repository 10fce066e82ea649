//! Parameters that act nowhere, and those of them that must not be ignored.
//!
//! [`KEPT`] are checked, kept and shown, so that files and tools made for Redis work;
//! `docs/parameters.md` says of each what it would do and why it does nothing here.

use tidewire_keyspace::DATABASES;

/// Why the server cannot start with a value: it asks for something that is not there, and to go on
/// without would be worse than to stop.
pub(super) fn refusal(name: &str, value: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(value);
    let refused = match name {
        "cluster-enabled" if text == "yes" => {
            "there is no cluster mode: this server has all keys by itself".to_owned()
        }
        "databases" if text.parse().is_ok_and(|count: usize| count > DATABASES) => {
            format!("there are {DATABASES} databases")
        }
        "socket-mark-id" if text != "0" => "sockets cannot be marked".to_owned(),
        _ => return None,
    };
    Some(refused)
}

/// Checked, kept and shown, and nothing else.
#[cfg(test)]
const KEPT: &[&str] = &[
    "active-defrag-cycle-max",
    "active-defrag-cycle-min",
    "active-defrag-cycle-us",
    "active-defrag-ignore-bytes",
    "active-defrag-max-scan-fields",
    "active-defrag-threshold-lower",
    "active-defrag-threshold-upper",
    "active-expire-effort",
    "activerehashing",
    "always-show-logo",
    "aof-disable-auto-gc",
    "aof-rewrite-cpulist",
    "aof-rewrite-incremental-fsync",
    "aof-use-rdb-preamble",
    "availability-zone",
    "bgsave-cpulist",
    "bio-cpulist",
    "cluster-allow-pubsubshard-when-down",
    "cluster-allow-reads-when-down",
    "cluster-allow-replica-migration",
    "cluster-announce-bus-port",
    "cluster-announce-client-ipv4",
    "cluster-announce-client-ipv6",
    "cluster-announce-client-port",
    "cluster-announce-client-tls-port",
    "cluster-announce-hostname",
    "cluster-announce-human-nodename",
    "cluster-announce-ip",
    "cluster-announce-port",
    "cluster-announce-tls-port",
    "cluster-blacklist-ttl",
    "cluster-compatibility-sample-ratio",
    "cluster-config-file",
    "cluster-config-save-behavior",
    "cluster-databases",
    "cluster-link-sendbuf-limit",
    "cluster-manual-failover-timeout",
    "cluster-migration-barrier",
    "cluster-node-timeout",
    "cluster-ping-interval",
    "cluster-port",
    "cluster-preferred-endpoint-type",
    "cluster-replica-no-failover",
    "cluster-replica-validity-factor",
    "cluster-require-full-coverage",
    "cluster-slot-migration-log-max-len",
    "cluster-slot-stats-enabled",
    "crash-log-enabled",
    "crash-memcheck-enabled",
    "dual-channel-replication-enabled",
    "dynamic-hz",
    "enable-debug-assert",
    "enable-module-command",
    "extended-redis-compatibility",
    "hash-seed",
    "hide-user-data-from-log",
    "hz",
    "ignore-warnings",
    "io-threads",
    "jemalloc-bg-thread",
    "loading-process-events-interval-bytes",
    "locale-collate",
    "max-new-connections-per-cycle",
    "max-new-tls-connections-per-cycle",
    "min-io-threads-avoid-copy-reply",
    "min-string-size-avoid-copy-reply",
    "min-string-size-avoid-copy-reply-threaded",
    "mptcp",
    "no-appendfsync-on-rewrite",
    "prefetch-batch-max-size",
    "proc-title-template",
    "propagation-error-behavior",
    "rdb-del-sync-files",
    "repl-disable-tcp-nodelay",
    "repl-mptcp",
    "repl-rdb-channel",
    "replica-full-sync-buffer-limit",
    "replica-ignore-disk-write-errors",
    "replica-ignore-maxmemory",
    "sanitize-dump-payload",
    "server-cpulist",
    "set-proc-title",
    "slot-migration-max-failover-repl-bytes",
    "tcp-backlog",
    "tcp-keepalive",
    "use-exit-on-panic",
    "watchdog-period",
];

#[cfg(test)]
mod tests {
    use super::super::table::number_of;
    use super::*;
    use crate::parameters::Parameters;

    #[test]
    fn what_is_only_kept_is_listed_in_the_documents() {
        let page = include_str!("../../../../docs/parameters.md");
        for name in KEPT {
            assert!(number_of(name).is_some(), "{name}");
            assert!(
                page.contains(&format!("`{name}`")),
                "{name} is not explained"
            );
        }
    }

    #[test]
    fn what_must_not_be_ignored_is_refused_at_the_start() {
        for (name, value) in [
            ("cluster-enabled", "yes"),
            ("databases", "17"),
            ("socket-mark-id", "7"),
            ("supervised", "upstart"),
            ("tls-port", "6380"),
        ] {
            Parameters::check(name, value).unwrap_err();
        }
        for (name, value) in [("cluster-enabled", "no"), ("databases", "16"), ("hz", "50")] {
            Parameters::check(name, value).unwrap();
        }
    }
}
