//! What is counted, as Prometheus reads it. Written by a thread that is no lane: it reads
//! counters, and takes locks only that the lanes hold for moments.

mod durability;
mod market;
mod plant;
mod process;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::gate::Refusal;
use crate::hub::Hub;
use crate::memory::{resident_bytes, used_bytes};
use crate::statistics::CommandCounts;
use tidewire_lane::unix_ns;

/// All metrics of a hub in the Prometheus text format, version 0.0.4.
pub fn metrics(hub: &Hub) -> String {
    let mut page = Page::default();
    program(hub, &mut page);
    process::process(hub, &mut page);
    lanes(hub, &mut page);
    threads(hub, &mut page);
    commands(hub, &mut page);
    clients(hub, &mut page);
    keys(hub, &mut page);
    durability::durability(hub, &mut page);
    durability::replication(hub, &mut page);
    messages(hub, &mut page);
    feed(hub, &mut page);
    market::market(hub, &mut page);
    plant::plant(hub, &mut page);
    page.0
}

#[derive(Debug, Default)]
struct Page(String);

impl Page {
    /// Begins a metric: `kind` is counter, gauge, histogram or summary.
    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(
            self.0,
            "# HELP tidewire_{name} {help}\n# TYPE tidewire_{name} {kind}"
        );
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.0, "tidewire_{name}");
        for (number, (label, text)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }

    /// A metric without labels.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.begin(name, kind, help);
        self.value(name, &[], value);
    }
}

fn program(hub: &Hub, page: &mut Page) {
    let uptime_s = unix_ns().saturating_sub(hub.started_unix_ns) as f64 / 1e9;
    page.begin("build_info", "gauge", "The program's version.");
    page.value("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.one("uptime_seconds", "gauge", "Time since the start.", uptime_s);
    page.begin("memory_bytes", "gauge", "Memory by kind.");
    let [scripts, functions] = hub.scripting.bytes();
    let libraries = hub.scripting.libraries.memory_bytes() + hub.scripting.scripts.memory_bytes();
    let clients = hub.clients.list();
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
        ("mailboxes", hub.post.waiting_bytes()),
    ] {
        page.value("memory_bytes", &[("kind", kind)], bytes);
    }
    let help = "What may be used: maxmemory; 0 is no limit.";
    let limit = hub.parameters.number("maxmemory");
    page.one("memory_limit_bytes", "gauge", help, limit);
}

fn threads(hub: &Hub, page: &mut Page) {
    let shares = hub.threads.shares();
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

fn lanes(hub: &Hub, page: &mut Page) {
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
        for (number, lane) in hub.lanes.iter().enumerate() {
            page.value(name, &[("lane", &number.to_string())], read(lane));
        }
    }
    let help = "For how long a lane's turn has lasted; 0 while it waits for events.";
    page.begin("lane_turn_seconds", "gauge", help);
    for lane in 0..hub.lanes.len() {
        let seconds = hub.turn_ns(lane) as f64 / 1e9;
        page.value("lane_turn_seconds", &[("lane", &lane.to_string())], seconds);
    }
}

fn commands(hub: &Hub, page: &mut Page) {
    let counts = hub.statistics.commands();
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
    for (word, count) in hub.statistics.errors() {
        page.value("errors_total", &[("error", &word)], count);
    }
    let help = "Commands that SLOWLOG holds.";
    page.one("slowlog_length", "gauge", help, hub.slowlog.len());
}

fn clients(hub: &Hub, page: &mut Page) {
    let clients = hub.clients.list();
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
        ("tracking", hub.tracking.clients()),
        ("blocked", hub.waiting.count()),
    ] {
        page.value("clients", &[("class", class)], number);
    }
    let help = "Redis clients that were one too many.";
    page.one(
        "clients_rejected_total",
        "counter",
        help,
        load(&hub.rejected_clients),
    );
    page.begin(
        "zeromq_peers",
        "gauge",
        "ZeroMQ peers by the kind of our socket.",
    );
    for (socket, peers) in ["pub", "pull", "router"].iter().zip(&hub.zmq_peers) {
        page.value("zeromq_peers", &[("socket", socket)], load(peers));
    }
    let tracked = &hub.keyspace;
    let help = "Keys that clients have in caches of their own.";
    page.one("tracked_keys", "gauge", help, tracked.tracked_keys());
    let help = "Pairs of such a key and a client.";
    page.one("tracked_items", "gauge", help, tracked.tracked_items());
}

fn keys(hub: &Hub, page: &mut Page) {
    let census = hub.keyspace.census();
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
    let evicted = hub.keyspace.evicted_keys();
    page.one("evicted_keys_total", "counter", help, evicted);
    let help = "Clients that were cut off for what they held.";
    let evicted = load(hub.clients.evicted());
    page.one("evicted_clients_total", "counter", help, evicted);
    let help = "Changes of keys.";
    page.one("changes_total", "counter", help, totals.changes);
}

fn messages(hub: &Hub, page: &mut Page) {
    let fanout = &hub.post.counters;
    let help = "Messages written to subscribers.";
    page.one(
        "messages_delivered_total",
        "counter",
        help,
        load(&fanout.delivered),
    );
    let help = "Updates that a newer one replaced for a slow subscriber.";
    page.one(
        "messages_conflated_total",
        "counter",
        help,
        load(&fanout.conflated) + load(&hub.market.slow_feeds.conflated),
    );
    page.begin(
        "messages_dropped_total",
        "counter",
        "Plain messages that subscribers missed, by their class.",
    );
    let class = [("class", "zeromq")];
    page.value("messages_dropped_total", &class, load(&fanout.dropped));
    let (slow, class) = (&hub.market.slow_feeds, [("class", "feed")]);
    page.value("messages_dropped_total", &class, load(&slow.dropped));
    page.begin(
        "subscribers_cut_off_total",
        "counter",
        "Subscribers cut off at their output limit, by their class.",
    );
    let class = [("class", "redis")];
    page.value("subscribers_cut_off_total", &class, load(&fanout.cut_off));
    let class = [("class", "feed")];
    page.value("subscribers_cut_off_total", &class, load(&slow.cut_off));
    page.begin(
        "subscriptions",
        "gauge",
        "Names that somebody is subscribed to, by kind.",
    );
    let subscriptions = &hub.post.subscriptions;
    for (kind, count) in [
        ("channel", subscriptions.channel_count()),
        ("pattern", subscriptions.pattern_count()),
        ("shard_channel", subscriptions.shard_channel_count()),
    ] {
        page.value("subscriptions", &[("kind", kind)], count);
    }
    page.begin(
        "zeromq_pushed_total",
        "counter",
        "Messages of ZeroMQ pushers by outcome.",
    );
    for (outcome, counter) in [
        ("taken", &hub.pushes.taken),
        ("rejected", &hub.pushes.left_out),
    ] {
        page.value(
            "zeromq_pushed_total",
            &[("outcome", outcome)],
            load(counter),
        );
    }
    let help = "Messages of ZeroMQ pushers that were left out, by reason.";
    page.begin("zeromq_rejected_total", "counter", help);
    for refusal in Refusal::ALL {
        let labels = [("reason", refusal.name())];
        let count = hub.pushes.refused(refusal);
        page.value("zeromq_rejected_total", &labels, count);
    }
    let help = "ZeroMQ pushers that wait until keys may be written.";
    page.one("zeromq_parked_peers", "gauge", help, hub.pushes.parked());
}

fn feed(hub: &Hub, page: &mut Page) {
    let ingest = &hub.market.ingest;
    let topics = hub.market.board.slots().len();
    page.one("market_topics", "gauge", "Market topics.", topics);
    page.one(
        "feed_sources",
        "gauge",
        "Native feeds being read.",
        load(&ingest.sources),
    );
    for (name, help, counter) in [
        (
            "feed_applied_total",
            "Market messages applied.",
            &ingest.applied,
        ),
        ("feed_gaps_total", "Gaps in sequences.", &ingest.gaps),
        (
            "feed_recovered_total",
            "Messages recovered after a gap.",
            &ingest.recovered,
        ),
        ("feed_lost_total", "Messages lost for good.", &ingest.lost),
        (
            "feed_refused_total",
            "Messages that made no sense.",
            &ingest.refused,
        ),
    ] {
        page.one(name, "counter", help, load(counter));
    }
    let latency = hub.market.latency.statistics();
    page.begin(
        "feed_latency_seconds",
        "summary",
        "Source time to last value, lately, by quantile.",
    );
    for (quantile, ns) in [
        ("0.5", latency.p50_ns),
        ("0.99", latency.p99_ns),
        ("0.999", latency.p999_ns),
    ] {
        let seconds = ns as f64 / 1e9;
        page.value("feed_latency_seconds", &[("quantile", quantile)], seconds);
    }
    let sum_ns = latency.mean_ns as f64 * latency.count as f64;
    page.value("feed_latency_seconds_sum", &[], sum_ns / 1e9);
    page.value("feed_latency_seconds_count", &[], latency.count);
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
    use crate::hub::HubConfig;
    use std::collections::BTreeSet;
    use tidewire_keyspace::lookup;
    use tidewire_lane::Lanes;
    use tidewire_plant::PlantOptions;

    fn page() -> String {
        page_of(HubConfig::default())
    }

    fn page_of(config: HubConfig) -> String {
        let hub = Hub::new(config, Lanes::mailboxes(1).unwrap());
        let get = hub.statistics.of(0, lookup(b"get").unwrap());
        for ns in [900, 3_000, 40_000_000] {
            get.called();
            get.took(ns, true);
        }
        hub.note_error("ERR \"quoted\"");
        metrics(&hub)
    }

    #[test]
    fn every_line_is_one_of_a_metric_that_was_begun() {
        let page = page();
        let mut begun = BTreeSet::new();
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                let kinds = ["counter", "gauge", "histogram", "summary"];
                assert!(kinds.contains(&kind), "{line}");
                assert!(begun.insert(name.to_owned()), "{name} is begun twice");
            } else if !line.starts_with("# HELP ") {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap();
                let parts = ["_bucket", "_sum", "_count"].iter();
                let base = parts.filter_map(|part| name.strip_suffix(part)).next();
                let is_begun = |name: &str| begun.contains(name);
                assert!(is_begun(name) || base.is_some_and(is_begun), "{line}");
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }

    #[test]
    fn a_histogram_ends_with_all_calls() {
        let page = page();
        let rows: Vec<u64> = page
            .lines()
            .filter(|line| line.starts_with("tidewire_command_duration_seconds_bucket"))
            .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
            .collect();
        assert_eq!(rows.len(), BUCKETS as usize + 1);
        assert!(rows.is_sorted());
        assert_eq!((rows[0], rows[2], rows[BUCKETS as usize]), (1, 2, 3));
    }

    #[test]
    fn dashboard_and_alerts_name_only_metrics_that_there_are() {
        let dashboard = include_str!("../../../ops/grafana/tidewire.json");
        let alerts = include_str!("../../../ops/alerts.yml");
        // Of a hub that has all there is to tell of.
        let page = page_of(HubConfig {
            plant: Some(PlantOptions::new("127.0.0.1:9".parse().unwrap())),
            ..HubConfig::default()
        });
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name = |word: &&str| word.starts_with("tidewire_") || word.starts_with("process_");
        for (text, least) in [(dashboard, 15), (alerts, 10)] {
            let words = text.split(|c| !is_part(c)).filter(is_name);
            let names: BTreeSet<&str> = words.collect();
            assert!(names.len() > least, "{names:?}");
            for name in names {
                let there = |line: &str| {
                    line.strip_prefix(name)
                        .is_some_and(|rest| rest.starts_with(['{', ' ']))
                };
                assert!(page.lines().any(there), "there is no metric {name}");
            }
        }
    }
}
