//! The sections that Redis has, with the fields that have a meaning here, and those that tools
//! look for.

use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_lane::LaneCounters;

use super::{line, read};
use crate::REDIS_VERSION;
use crate::access::Reason;
use crate::parameters::{
    HZ, LATENCY_TRACKING_INFO_PERCENTILES, MAXCLIENTS, MIN_REPLICAS_MAX_LAG, MIN_REPLICAS_TO_WRITE,
    PORT, REPL_BACKLOG_SIZE, REPLICA_ANNOUNCED, REPLICA_PRIORITY, REPLICA_READ_ONLY,
};
use crate::replication::{LinkState, Master};
use crate::server::Server;
use crate::session::replication::StreamStatus;
use tidewire_lane::unix_ms;

pub(super) fn server(server: &Server, now_unix_ns: u64, out: &mut String) {
    let uptime_s = now_unix_ns.saturating_sub(server.started_unix_ns) / 1_000_000_000;
    line(out, "redis_version", REDIS_VERSION);
    line(out, "redis_git_sha1", "00000000");
    line(out, "redis_git_dirty", 0);
    line(out, "redis_mode", "standalone");
    line(out, "server_name", "tidewire");
    line(out, "tidewire_version", env!("CARGO_PKG_VERSION"));
    line(out, "os", format!("Linux {}", std::env::consts::ARCH));
    line(out, "arch_bits", usize::BITS);
    line(out, "monotonic_clock", "POSIX clock_gettime");
    line(out, "multiplexing_api", "epoll");
    line(out, "process_id", std::process::id());
    line(out, "run_id", run_id(server));
    line(out, "tcp_port", server.parameters.read(PORT));
    line(out, "server_time_usec", now_unix_ns / 1_000);
    line(out, "uptime_in_seconds", uptime_s);
    line(out, "uptime_in_days", uptime_s / 86_400);
    line(out, "hz", server.parameters.read(HZ));
    line(out, "configured_hz", server.parameters.read(HZ));
    line(out, "lru_clock", (now_unix_ns / 1_000_000_000) & 0xFF_FFFF);
    let executable = std::env::current_exe().unwrap_or_default();
    line(out, "executable", executable.display());
    line(out, "config_file", "");
    line(out, "io_threads_active", u8::from(server.config.lanes > 1));
    if let Some(left_ms) = server.stop_in_ms(unix_ms()) {
        line(out, "shutdown_in_milliseconds", left_ms);
    }
}

pub(super) fn clients(server: &Server, _: u64, out: &mut String) {
    let mut list = server.clients.list();
    list.retain(|client| !client.is_replica.load(Ordering::Relaxed));
    let subscribers = list.iter().filter(|client| client.is_subscriber()).count();
    let longest = |bytes: fn(&crate::clients::Client) -> &AtomicU64| {
        list.iter()
            .map(|client| read(bytes(client)))
            .max()
            .unwrap_or(0)
    };
    let watched: u64 = list
        .iter()
        .map(|client| u64::from(client.watched.load(Ordering::Relaxed)))
        .sum();
    line(out, "connected_clients", list.len());
    line(out, "cluster_connections", 0);
    line(out, "maxclients", server.parameters.read(MAXCLIENTS));
    let input = longest(|client| &client.query_bytes);
    line(out, "client_recent_max_input_buffer", input);
    let output = longest(|client| &client.output_bytes);
    line(out, "client_recent_max_output_buffer", output);
    line(out, "blocked_clients", server.waiting.count());
    line(out, "tracking_clients", server.tracking.clients());
    line(out, "pubsub_clients", subscribers);
    line(out, "watching_clients", read(&server.watching_clients));
    line(out, "clients_in_timeout_table", 0);
    line(out, "total_watched_keys", watched);
    let totals = server.keyspace.totals();
    line(out, "total_blocking_keys", totals.awaited_keys);
    line(
        out,
        "total_blocking_keys_on_nokey",
        totals.awaited_keys_or_loss,
    );
}

pub(super) fn stats(server: &Server, _: u64, out: &mut String) {
    let sum = |counter: fn(&LaneCounters) -> &AtomicU64| -> u64 {
        server.lanes.iter().map(|lane| read(counter(lane))).sum()
    };
    let totals = server.keyspace.totals();
    line(
        out,
        "total_connections_received",
        sum(|lane| &lane.accepted),
    );
    line(out, "total_commands_processed", read(&server.commands));
    let rate = server.rates.rate(server.moment());
    let commands = format!("{:.0}", rate.commands);
    line(out, "instantaneous_ops_per_sec", commands);
    line(out, "total_net_input_bytes", sum(|lane| &lane.read_bytes));
    line(
        out,
        "total_net_output_bytes",
        sum(|lane| &lane.written_bytes),
    );
    let kilobytes = |bytes: f64| format!("{:.2}", bytes / 1024.0);
    line(out, "instantaneous_input_kbps", kilobytes(rate.read_bytes));
    let output = kilobytes(rate.written_bytes);
    line(out, "instantaneous_output_kbps", output);
    line(out, "rejected_connections", read(&server.rejected_clients));
    let replication = &server.replication;
    line(out, "sync_full", read(&replication.full_syncs));
    line(out, "sync_partial_ok", read(&replication.partial_syncs));
    let refused = &replication.partial_syncs_refused;
    line(out, "sync_partial_err", read(refused));
    line(out, "expired_subkeys", server.keyspace.expired_fields());
    line(out, "expired_keys", totals.expired_keys);
    line(out, "expired_stale_perc", "0.00");
    line(out, "expired_time_cap_reached_count", 0);
    super::memory::evictions(server, out);
    line(out, "keyspace_hits", totals.hits);
    line(out, "keyspace_misses", totals.misses);
    let subscriptions = &server.post.subscriptions;
    line(out, "pubsub_channels", subscriptions.channel_count());
    line(out, "pubsub_patterns", subscriptions.pattern_count());
    line(
        out,
        "pubsubshard_channels",
        subscriptions.shard_channel_count(),
    );
    line(out, "latest_fork_usec", 0);
    line(out, "total_forks", 0);
    line(out, "tracking_total_keys", server.keyspace.tracked_keys());
    line(out, "tracking_total_items", server.keyspace.tracked_items());
    line(out, "tracking_total_prefixes", server.tracking.prefixes());
    line(out, "unexpected_error_replies", 0);
    line(out, "total_error_replies", read(&server.command_errors));
    line(out, "total_reads_processed", sum(|lane| &lane.reads));
    line(out, "total_writes_processed", sum(|lane| &lane.writes));
    line(
        out,
        "client_query_buffer_limit_disconnections",
        read(&server.query_cut_off),
    );
    line(
        out,
        "client_output_buffer_limit_disconnections",
        read(&server.post.counters.cut_off),
    );
    for (name, reason) in [
        ("acl_access_denied_auth", Reason::Authentication),
        ("acl_access_denied_cmd", Reason::Command),
        ("acl_access_denied_key", Reason::Key),
        ("acl_access_denied_channel", Reason::Channel),
    ] {
        line(out, name, server.access.refusals(reason));
    }
}

pub(super) fn replication(server: &Server, _: u64, out: &mut String) {
    let master = server.replication.master();
    match &master {
        Some(master) => replica(server, master, out),
        None => line(out, "role", "master"),
    }
    let (stream, now_ms) = (StreamStatus::of(server), unix_ms());
    let statuses = server.replication.statuses(now_ms);
    line(out, "connected_slaves", statuses.len());
    let wanted = server.parameters.read(MIN_REPLICAS_TO_WRITE);
    let lag_s_max = server.parameters.read(MIN_REPLICAS_MAX_LAG);
    if wanted > 0 && lag_s_max > 0 {
        let good = server
            .replication
            .count_good(lag_s_max as i64 * 1_000, now_ms);
        line(out, "min_slaves_good_slaves", good);
    }
    for (number, one) in statuses.iter().enumerate() {
        let (address, port, phase) = (&one.address, one.port, one.phase.name());
        let (acked, lag_s) = (one.acked, one.lag_s);
        let text = format!("ip={address},port={port},state={phase},offset={acked},lag={lag_s}");
        line(out, &format!("slave{number}"), text);
    }
    line(
        out,
        "master_failover_state",
        server.replication.failover.name(),
    );
    line(out, "master_replid", server.replication.id());
    let second = server.replication.second();
    let none = || "0".repeat(40);
    let second_id = second.as_ref().map_or_else(none, |(id, _)| id.clone());
    line(out, "master_replid2", second_id);
    line(out, "master_repl_offset", stream.end);
    let second_next = second.map_or(-1, |(_, until)| until as i64 + 1);
    line(out, "second_repl_offset", second_next);
    line(out, "repl_backlog_active", u8::from(stream.is_open));
    line(
        out,
        "repl_backlog_size",
        server.parameters.read(REPL_BACKLOG_SIZE),
    );
    line(out, "repl_backlog_first_byte_offset", stream.first);
    line(out, "repl_backlog_histlen", stream.kept);
}

/// The part of a replica, with its master.
fn replica(server: &Server, master: &Master, out: &mut String) {
    let (state, offset) = (master.state(), StreamStatus::of(server).end);
    let is_up = state == LinkState::Connected;
    let yes = |id| u8::from(server.parameters.read(id));
    line(out, "role", "slave");
    line(out, "master_host", &master.host);
    line(out, "master_port", master.port);
    line(out, "master_link_status", if is_up { "up" } else { "down" });
    let silent_s = if is_up { master.silent_s() } else { -1 };
    line(out, "master_last_io_seconds_ago", silent_s);
    let is_loading = u8::from(state == LinkState::Loading);
    line(out, "master_sync_in_progress", is_loading);
    let read = offset + master.unexecuted_bytes();
    line(out, "slave_read_repl_offset", read);
    line(out, "slave_repl_offset", offset);
    if is_loading == 1 {
        let [total, read] = master.arriving.bytes();
        let percent = match total {
            0 => 0.0,
            total => read as f64 / total as f64 * 100.0,
        };
        line(out, "master_sync_total_bytes", total);
        line(out, "master_sync_read_bytes", read);
        line(out, "master_sync_left_bytes", total - read);
        line(out, "master_sync_perc", format!("{percent:.2}"));
        line(out, "master_sync_last_io_seconds_ago", master.silent_s());
    }
    if !is_up {
        line(out, "master_link_down_since_seconds", master.silent_s());
    }
    line(
        out,
        "slave_priority",
        server.parameters.read(REPLICA_PRIORITY),
    );
    line(out, "slave_read_only", yes(REPLICA_READ_ONLY));
    line(out, "replica_announced", yes(REPLICA_ANNOUNCED));
}

pub(super) fn cpu(_: &Server, _: u64, out: &mut String) {
    let [user_s, system_s] = cpu_seconds();
    line(out, "used_cpu_sys", format!("{system_s:.6}"));
    line(out, "used_cpu_user", format!("{user_s:.6}"));
    line(out, "used_cpu_sys_children", "0.000000");
    line(out, "used_cpu_user_children", "0.000000");
}

/// Times are of the calls that were timed, one in a few; `usec` is their mean times all calls.
pub(super) fn command_statistics(server: &Server, _: u64, out: &mut String) {
    for (name, counts) in server.statistics.commands() {
        let mean_us = counts.mean_us();
        let text = format!(
            "calls={},usec={:.0},usec_per_call={mean_us:.2},rejected_calls={},failed_calls={}",
            counts.calls,
            mean_us * counts.calls as f64,
            counts.rejected,
            counts.failed
        );
        line(out, &format!("cmdstat_{name}"), text);
    }
}

pub(super) fn error_statistics(server: &Server, _: u64, out: &mut String) {
    for (word, count) in server.statistics.errors() {
        line(out, &format!("errorstat_{word}"), format!("count={count}"));
    }
}

pub(super) fn latency_statistics(server: &Server, _: u64, out: &mut String) {
    let percentiles = server.parameters.read(LATENCY_TRACKING_INFO_PERCENTILES);
    let percentiles: Vec<&str> = percentiles.split(' ').collect();
    for (name, counts) in server.statistics.commands() {
        if !counts.has_percentiles() {
            continue;
        }
        let part = |percentile: &&str| {
            let number = percentile.parse().ok()?;
            Some(format!("p{percentile}={:.3}", counts.percentile_us(number)))
        };
        let parts: Vec<_> = percentiles.iter().filter_map(part).collect();
        line(
            out,
            &format!("latency_percentiles_usec_{name}"),
            parts.join(","),
        );
    }
}

pub(super) fn cluster(_: &Server, _: u64, out: &mut String) {
    line(out, "cluster_enabled", 0);
}

pub(super) fn keyspace(server: &Server, _: u64, out: &mut String) {
    for database in 0..tidewire_keyspace::DATABASES {
        let keys = server.keyspace.keys(database);
        if keys > 0 {
            let expires = server.keyspace.expiring_keys(database);
            let lifetime_ms = server.keyspace.mean_lifetime_ms(database, unix_ms());
            let hashes = server.keyspace.timed_hashes(database);
            let text =
                format!("keys={keys},expires={expires},avg_ttl={lifetime_ms},subexpiry={hashes}");
            line(out, &format!("db{database}"), text);
        }
    }
}

/// Forty digits of this server's own.
fn run_id(server: &Server) -> String {
    format!("{:024x}{:016x}", std::process::id(), server.started_unix_ns)
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

/// What Linux reports processor time in, on every architecture.
const CLOCK_TICKS_A_SECOND: f64 = 100.0;
