//! What is counted, as Prometheus reads it. Written by a thread that is no lane: it reads
//! counters, and takes locks only that the lanes hold for moments.

mod durability;
mod process;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::{resident_bytes, used_bytes};
use crate::parameters::MAXMEMORY;
use crate::server::Server;
use crate::statistics::CommandCounts;
use tidewire_lane::unix_ns;

/// Writes the metrics of the process, its lanes, and the Redis server.
pub fn write_metrics(server: &Server, page: &mut Page) {
    program(server, page);
    process::process(server, page);
    lanes(server, page);
    threads(server, page);
    commands(server, page);
    clients(server, page);
    keys(server, page);
    durability::durability(server, page);
    durability::replication(server, page);
}

/// A page of metrics in the Prometheus text format, version 0.0.4.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }

    /// Begins a metric: `kind` is counter, gauge, histogram or summary.
    pub fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(
            self.0,
            "# HELP tidewire_{name} {help}\n# TYPE tidewire_{name} {kind}"
        );
    }

    /// A value of the metric that was begun.
    pub fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.0, "tidewire_{name}");
        for (number, (label, text)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }

    /// A metric without labels.
    pub fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.begin(name, kind, help);
        self.value(name, &[], value);
    }
}

fn program(server: &Server, page: &mut Page) {
    let uptime_s = unix_ns().saturating_sub(server.started_unix_ns) as f64 / 1e9;
    page.begin("build_info", "gauge", "The program's version.");
    page.value("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.one("uptime_seconds", "gauge", "Time since the start.", uptime_s);
    page.begin("memory_bytes", "gauge", "Memory by kind.");
    let [scripts, functions] = server.scripting.bytes();
    let libraries =
        server.scripting.libraries.memory_bytes() + server.scripting.scripts.memory_bytes();
    let clients = server.clients.list();
    let sum = |read: fn(&crate::clients::Client) -> &AtomicU64| -> u64 {
        clients.iter().map(|client| load(read(client))).sum()
    };
    for (kind, bytes) in [
        ("used", used_bytes()),
        ("resident", resident_bytes()),
        ("lua", scripts + functions),
        ("scripts", libraries as u64),
        ("client_input", sum(|client| &client.query_bytes)),
        ("client_output", sum(|client| &client.output_bytes)),
        ("mailboxes", server.post.waiting_bytes()),
    ] {
        page.value("memory_bytes", &[("kind", kind)], bytes);
    }
    let help = "What may be used: maxmemory; 0 is no limit.";
    let limit = server.parameters.read(MAXMEMORY);
    page.one("memory_limit_bytes", "gauge", help, limit);
}

fn threads(server: &Server, page: &mut Page) {
    let shares = server.threads.shares();
    let mut used_ns: BTreeMap<&str, u64> = BTreeMap::new();
    for share in &shares {
        *used_ns.entry(&share.name).or_default() += share.used_ns;
    }
    let help = "Processor time by thread; a lane is one.";
    page.begin("thread_cpu_seconds_total", "counter", help);
    for (name, used_ns) in used_ns {
        let seconds = used_ns as f64 / 1e9;
        page.value("thread_cpu_seconds_total", &[("thread", name)], seconds);
    }
    let help = "Share of one processor that a thread takes, lately.";
    page.begin("thread_cpu_percent", "gauge", help);
    for share in &shares {
        let id = share.id.to_string();
        let labels = [("thread", &*share.name), ("tid", &*id)];
        page.value("thread_cpu_percent", &labels, share.percent);
    }
}

fn lanes(server: &Server, page: &mut Page) {
    type Read = fn(&tidewire_lane::LaneCounters) -> f64;
    let counters: [(&str, &str, &str, Read); 7] = [
        (
            "lane_busy_seconds_total",
            "counter",
            "Time a lane did not wait.",
            |lane| load(&lane.busy_ns) as f64 / 1e9,
        ),
        (
            "lane_turns_total",
            "counter",
            "Turns of a lane's loop.",
            |lane| load(&lane.turns) as f64,
        ),
        ("lane_reads_total", "counter", "Receive calls.", |lane| {
            load(&lane.reads) as f64
        }),
        (
            "lane_read_bytes_total",
            "counter",
            "Bytes received.",
            |lane| load(&lane.read_bytes) as f64,
        ),
        ("lane_writes_total", "counter", "Send calls.", |lane| {
            load(&lane.writes) as f64
        }),
        (
            "lane_written_bytes_total",
            "counter",
            "Bytes sent.",
            |lane| load(&lane.written_bytes) as f64,
        ),
        (
            "lane_connections",
            "gauge",
            "Connections open now.",
            |lane| load(&lane.connections) as f64,
        ),
    ];
    for (name, kind, help, read) in counters {
        page.begin(name, kind, help);
        for (number, lane) in server.lanes.iter().enumerate() {
            page.value(name, &[("lane", &number.to_string())], read(lane));
        }
    }
    let help = "For how long a lane's turn has lasted; 0 while it waits for events.";
    page.begin("lane_turn_seconds", "gauge", help);
    for lane in 0..server.lanes.len() {
        let seconds = server.turn_ns(lane) as f64 / 1e9;
        page.value("lane_turn_seconds", &[("lane", &lane.to_string())], seconds);
    }
}

fn commands(server: &Server, page: &mut Page) {
    let counts = server.statistics.commands();
    type Read = fn(&CommandCounts) -> u64;
    let counters: [(&str, &str, Read); 3] = [
        ("commands_total", "Redis commands executed.", |counts| {
            counts.calls
        }),
        (
            "commands_failed_total",
            "Those that ended with an error.",
            |counts| counts.failed,
        ),
        (
            "commands_rejected_total",
            "Those that were refused.",
            |counts| counts.rejected,
        ),
    ];
    for (name, help, read) in counters {
        page.begin(name, "counter", help);
        for (command, counts) in &counts {
            page.value(name, &[("command", command)], read(counts));
        }
    }
    let name = "command_duration_seconds";
    page.begin(
        name,
        "histogram",
        "Execution time; of brief commands one in 16 is timed, and stands for all.",
    );
    for (command, counts) in counts.iter().filter(|(_, counts)| counts.calls > 0) {
        let rows = counts.cumulated();
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for power in 0..BUCKETS {
            let limit_us = 1u64 << power;
            if let Some((_, count)) = rows.iter().rfind(|(us, _)| *us <= limit_us) {
                below = *count;
            }
            let limit = (limit_us as f64 / 1e6).to_string();
            page.value(&bucket, &[("command", command), ("le", &limit)], below);
        }
        page.value(
            &bucket,
            &[("command", command), ("le", "+Inf")],
            counts.calls,
        );
        let seconds = counts.mean_us() * counts.calls as f64 / 1e6;
        page.value(&format!("{name}_sum"), &[("command", command)], seconds);
        page.value(
            &format!("{name}_count"),
            &[("command", command)],
            counts.calls,
        );
    }
    page.begin(
        "errors_total",
        "counter",
        "Error replies by their first word.",
    );
    for (word, count) in server.statistics.errors() {
        page.value("errors_total", &[("error", &word)], count);
    }
    let help = "Commands that SLOWLOG holds.";
    page.one("slowlog_length", "gauge", help, server.slowlog.len());
}

fn clients(server: &Server, page: &mut Page) {
    let clients = server.clients.list();
    let count = |is: fn(&crate::clients::Client) -> bool| {
        clients.iter().filter(|client| is(client)).count() as u64
    };
    page.begin(
        "clients",
        "gauge",
        "Redis clients by class; one may be of several.",
    );
    for (class, number) in [
        ("all", clients.len() as u64),
        ("pubsub", count(|client| client.is_subscriber())),
        (
            "monitor",
            count(|client| client.monitors.load(Ordering::Relaxed)),
        ),
        ("tracking", server.tracking.clients()),
        ("blocked", server.waiting.count()),
    ] {
        page.value("clients", &[("class", class)], number);
    }
    let help = "Redis clients that were one too many.";
    page.one(
        "clients_rejected_total",
        "counter",
        help,
        load(&server.rejected_clients),
    );
    let tracked = &server.keyspace;
    let help = "Keys that clients have in caches of their own.";
    page.one("tracked_keys", "gauge", help, tracked.tracked_keys());
    let help = "Pairs of such a key and a client.";
    page.one("tracked_items", "gauge", help, tracked.tracked_items());
}

fn keys(server: &Server, page: &mut Page) {
    let census = server.keyspace.census();
    let counts: Vec<(String, usize, usize)> = census
        .keys
        .iter()
        .zip(census.expiring)
        .enumerate()
        .map(|(database, (&keys, expiring))| (database.to_string(), keys, expiring))
        .filter(|(database, keys, _)| *keys > 0 || database == "0")
        .collect();
    page.begin("keys", "gauge", "Keys by database.");
    for (database, keys, _) in &counts {
        page.value("keys", &[("database", database)], keys);
    }
    page.begin(
        "expiring_keys",
        "gauge",
        "Keys with a deadline by database.",
    );
    for (database, _, expiring) in &counts {
        page.value("expiring_keys", &[("database", database)], expiring);
    }
    let totals = census.totals;
    page.begin(
        "reads_of_keys_total",
        "counter",
        "Reads of keys by whether they were there.",
    );
    page.value("reads_of_keys_total", &[("found", "yes")], totals.hits);
    page.value("reads_of_keys_total", &[("found", "no")], totals.misses);
    let help = "Keys whose time came.";
    page.one("expired_keys_total", "counter", help, totals.expired_keys);
    let help = "Keys that gave way to others.";
    let evicted = server.keyspace.evicted_keys();
    page.one("evicted_keys_total", "counter", help, evicted);
    let help = "Clients that were cut off for what they held.";
    let evicted = load(server.clients.evicted());
    page.one("evicted_clients_total", "counter", help, evicted);
    let help = "Changes of keys.";
    page.one("changes_total", "counter", help, totals.changes);
}

/// A label's value as the format wants it.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// From a microsecond to 17 seconds, each twice the last.
const BUCKETS: u32 = 25;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RedisConfig;
    use tidewire_keyspace::lookup;

    #[test]
    fn a_histogram_ends_with_all_calls() {
        let server = Server::of_one_lane(RedisConfig::default());
        let get = server.statistics.of(0, lookup(b"get").unwrap());
        for ns in [900, 3_000, 40_000_000] {
            get.called();
            get.took(ns, true);
        }
        let mut page = Page::default();
        write_metrics(&server, &mut page);
        let page = page.into_text();
        let rows: Vec<u64> = page
            .lines()
            .filter(|line| line.starts_with("tidewire_command_duration_seconds_bucket"))
            .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
            .collect();
        assert_eq!(rows.len(), BUCKETS as usize + 1);
        assert!(rows.is_sorted());
        assert_eq!((rows[0], rows[2], rows[BUCKETS as usize]), (1, 2, 3));
    }
}
