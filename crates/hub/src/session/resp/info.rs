//! INFO.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Call, State};
use crate::hub::Hub;
use crate::memory::resident_bytes;
use crate::session::resp::parameters::REDIS_VERSION;

impl State {
    pub(super) fn info(&self, call: &mut Call<'_>) {
        let asked: Vec<String> = call
            .arguments
            .tail(1)
            .iter()
            .map(|name| String::from_utf8_lossy(name).to_lowercase())
            .collect();
        let all = asked.is_empty()
            || asked
                .iter()
                .any(|name| ["all", "default", "everything"].contains(&name.as_str()));
        let mut text = String::new();
        for (name, write) in SECTIONS {
            if all || asked.iter().any(|other| other == &name.to_lowercase()) {
                if !text.is_empty() {
                    text += "\r\n";
                }
                let _ = write!(text, "# {name}\r\n");
                write(call.hub, call.context.unix_ns(), &mut text);
            }
        }
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }
}

type Section = fn(&Hub, u64, &mut String);

const SECTIONS: &[(&str, Section)] = &[
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
    ("Lanes", lanes),
    ("Topics", topics),
    ("Feed", feed),
];

fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(out, "{name}:{value}\r\n");
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn server(hub: &Hub, now_unix_ns: u64, out: &mut String) {
    let uptime_s = now_unix_ns.saturating_sub(hub.started_unix_ns) / 1_000_000_000;
    line(out, "redis_version", REDIS_VERSION);
    line(out, "redis_mode", "standalone");
    line(out, "server_name", "tidewire");
    line(out, "tidewire_version", env!("CARGO_PKG_VERSION"));
    line(out, "os", format!("Linux {}", std::env::consts::ARCH));
    line(out, "arch_bits", usize::BITS);
    line(out, "multiplexing_api", "epoll");
    line(out, "process_id", std::process::id());
    line(out, "run_id", format!("{:040x}", hub.started_unix_ns));
    line(out, "server_time_usec", now_unix_ns / 1_000);
    line(out, "uptime_in_seconds", uptime_s);
    line(out, "uptime_in_days", uptime_s / 86_400);
    line(out, "io_threads_active", u8::from(hub.config.lanes > 1));
}

fn clients(hub: &Hub, _: u64, out: &mut String) {
    let list = hub.clients.list();
    let subscribers = list.iter().filter(|client| client.is_subscriber()).count();
    line(out, "connected_clients", list.len());
    line(out, "cluster_connections", 0);
    line(out, "maxclients", read(&hub.parameters.clients_max));
    line(out, "blocked_clients", 0);
    line(out, "tracking_clients", 0);
    line(out, "pubsub_clients", subscribers);
}

fn memory(_: &Hub, _: u64, out: &mut String) {
    let resident = resident_bytes();
    line(out, "used_memory", resident);
    line(out, "used_memory_human", human(resident));
    line(out, "used_memory_rss", resident);
    line(out, "used_memory_rss_human", human(resident));
    line(out, "maxmemory", 0);
    line(out, "maxmemory_human", "0B");
    line(out, "maxmemory_policy", "noeviction");
    line(out, "mem_allocator", "mimalloc");
}

fn persistence(_: &Hub, _: u64, out: &mut String) {
    line(out, "loading", 0);
    line(out, "rdb_bgsave_in_progress", 0);
    line(out, "aof_enabled", 0);
}

fn stats(hub: &Hub, _: u64, out: &mut String) {
    let sum = |counter: fn(&tidewire_lane::LaneCounters) -> &AtomicU64| -> u64 {
        hub.lanes.iter().map(|lane| read(counter(lane))).sum()
    };
    line(
        out,
        "total_connections_received",
        sum(|lane| &lane.accepted),
    );
    line(out, "total_commands_processed", read(&hub.commands));
    line(out, "total_error_replies", read(&hub.command_errors));
    line(out, "total_net_input_bytes", sum(|lane| &lane.read_bytes));
    line(
        out,
        "total_net_output_bytes",
        sum(|lane| &lane.written_bytes),
    );
    line(out, "expired_keys", read(&hub.expired_keys));
    line(out, "evicted_keys", 0);
    line(out, "pubsub_channels", hub.subscriptions.channel_count());
    line(out, "pubsub_patterns", hub.subscriptions.pattern_count());
    line(
        out,
        "client_output_buffer_limit_disconnections",
        read(&hub.fanout.cut_off),
    );
}

fn replication(_: &Hub, _: u64, out: &mut String) {
    line(out, "role", "master");
    line(out, "connected_slaves", 0);
    line(out, "master_repl_offset", 0);
}

fn cpu(_: &Hub, _: u64, out: &mut String) {
    let [user_s, system_s] = cpu_seconds();
    line(out, "used_cpu_sys", format!("{system_s:.6}"));
    line(out, "used_cpu_user", format!("{user_s:.6}"));
}

fn cluster(_: &Hub, _: u64, out: &mut String) {
    line(out, "cluster_enabled", 0);
}

fn keyspace(hub: &Hub, _: u64, out: &mut String) {
    for database in 0..tidewire_keyspace::DATABASES {
        let keys = hub.keyspace.keys(database);
        if keys > 0 {
            let expires = hub.keyspace.expiring_keys(database);
            let name = format!("db{database}");
            line(
                out,
                &name,
                format!("keys={keys},expires={expires},avg_ttl=0,subexpiry=0"),
            );
        }
    }
}

fn lanes(hub: &Hub, _: u64, out: &mut String) {
    line(out, "lanes", hub.config.lanes);
    line(out, "pinned", u8::from(hub.config.pinned));
    for (number, lane) in hub.lanes.iter().enumerate() {
        let text = format!(
            "connections={},turns={},busy_usec={},reads={},writes={}",
            read(&lane.connections),
            read(&lane.turns),
            read(&lane.busy_ns) / 1_000,
            read(&lane.reads),
            read(&lane.writes)
        );
        line(out, &format!("lane{number}"), text);
    }
}

fn topics(hub: &Hub, _: u64, out: &mut String) {
    let fanout = &hub.fanout;
    line(out, "market_topics", hub.board.slots().len());
    line(out, "delivered_messages", read(&fanout.delivered));
    line(out, "conflated_messages", read(&fanout.conflated));
    line(out, "dropped_messages", read(&fanout.dropped));
    line(out, "cut_off_subscribers", read(&fanout.cut_off));
    line(out, "zmq_pushed_messages", read(&hub.ingest.pushed));
    line(
        out,
        "zmq_rejected_messages",
        read(&hub.ingest.push_rejected),
    );
}

fn feed(hub: &Hub, _: u64, out: &mut String) {
    let ingest = &hub.ingest;
    let latency = hub.latency.statistics();
    let journal = hub.journal.lock();
    let (session, next) = (journal.session(), journal.next_sequence());
    let (oldest, capacity) = (journal.oldest_sequence(), journal.capacity());
    drop(journal);
    line(out, "feed_sources", read(&ingest.sources));
    line(out, "feed_applied_messages", read(&ingest.applied));
    line(out, "feed_snapshot_records", read(&ingest.snapshot_records));
    line(out, "feed_refused_messages", read(&ingest.refused));
    line(out, "feed_gaps", read(&ingest.gaps));
    line(out, "feed_recovered_messages", read(&ingest.recovered));
    line(out, "feed_lost_messages", read(&ingest.lost));
    line(out, "feed_session", session);
    line(out, "feed_next_sequence", next);
    line(out, "feed_oldest_sequence", oldest);
    line(out, "feed_window_messages", capacity);
    line(out, "feed_latency_p50_ns", latency.p50_ns);
    line(out, "feed_latency_p99_ns", latency.p99_ns);
    line(out, "feed_latency_p999_ns", latency.p999_ns);
}

/// Seconds of processor time, in user mode and in the kernel.
fn cpu_seconds() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses and may hold blanks.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |index| {
        fields
            .split_whitespace()
            .nth(index)
            .and_then(|t| t.parse::<f64>().ok())
    };
    [11, 12].map(|index| ticks(index).unwrap_or(0.0) / CLOCK_TICKS_A_SECOND)
}

fn human(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{:.2}K", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.2}M", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2}G", bytes as f64 / 1_073_741_824.0),
    }
}

/// What Linux reports processor time in, on every architecture.
const CLOCK_TICKS_A_SECOND: f64 = 100.0;
