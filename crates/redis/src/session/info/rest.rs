//! Fields of Redis's INFO whose meaning has no counterpart here, or is told in another way: tools
//! find each of them, with what it would be where nothing of the kind goes on.

use std::fmt::Display;

use super::read;
use crate::memory::resident_bytes;
use crate::parameters::{BIND, PORT};
use crate::rates::{Moment, Turns};
use crate::server::Server;

/// Adds the fields of a section that are not there yet.
pub(super) fn fill(server: &Server, section: &str, out: &mut String) {
    let mut rest = Rest { out };
    match section {
        "Server" => program(server, &mut rest),
        "Memory" => memory(&mut rest),
        "Persistence" => rest.zeros(PERSISTENCE),
        "Stats" => stats(server, &mut rest),
        "CPU" => cpu(&mut rest),
        _ => {}
    }
}

struct Rest<'a> {
    out: &'a mut String,
}

impl Rest<'_> {
    fn add(&mut self, name: &str, value: impl Display) {
        if !self.out.contains(&format!("\n{name}:")) {
            super::line(self.out, name, value);
        }
    }

    fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.add(name, 0));
    }
}

fn program(server: &Server, rest: &mut Rest<'_>) {
    rest.add("redis_build_id", env!("CARGO_PKG_VERSION"));
    rest.add("atomicvar_api", "rust-core");
    rest.add("gcc_version", "0.0.0");
    rest.add("process_supervised", "no");
    let port = server.parameters.read(PORT);
    let hosts: Vec<String> = server
        .parameters
        .read(BIND)
        .split(' ')
        .map(|host| format!(",bind={host}"))
        .collect();
    rest.add(
        "listener0",
        format!("name=tcp{},port={port}", hosts.concat()),
    );
}

fn memory(rest: &mut Rest<'_>) {
    let resident = resident_bytes();
    rest.add("used_memory_peak_perc", "100.00%");
    rest.add("used_memory_overhead", 0);
    rest.add("used_memory_startup", 0);
    rest.add("used_memory_dataset", resident);
    rest.add("used_memory_dataset_perc", "100.00%");
    for ratio in [
        "allocator_frag_ratio",
        "allocator_rss_ratio",
        "rss_overhead_ratio",
    ] {
        rest.add(ratio, "1.00");
    }
    rest.zeros(MEMORY);
}

fn stats(server: &Server, rest: &mut Rest<'_>) {
    let kept = server.replication.migration.count();
    rest.add("migrate_cached_sockets", kept);
    let tracked = server.keyspace.own_deadlines();
    rest.add("slave_expires_tracked_keys", tracked);
    let now = server.moment();
    rest.add("eventloop_cycles", now.turns);
    rest.add("eventloop_duration_sum", now.busy_ns / 1_000);
    rest.add(
        "eventloop_duration_cmd_sum",
        server.statistics.microseconds(),
    );
    let rate = server.rates.rate(now);
    // A hub that nobody talks to takes less than one turn a second: a part counts as a whole.
    let turns = format!("{:.0}", rate.turns.ceil());
    rest.add("instantaneous_eventloop_cycles_per_sec", turns);
    let micros = format!("{:.0}", rate.turn_us.ceil());
    rest.add("instantaneous_eventloop_duration_usec", micros);
    server.rates.note(now);
    rest.add("instantaneous_input_repl_kbps", "0.00");
    rest.add("instantaneous_output_repl_kbps", "0.00");
    rest.zeros(STATS);
}

fn cpu(rest: &mut Rest<'_>) {
    rest.add("used_cpu_sys_main_thread", "0.000000");
    rest.add("used_cpu_user_main_thread", "0.000000");
}

/// How long the lanes' upkeep takes: what they do between executing commands and sending replies.
pub(super) fn debug(server: &Server, _: u64, out: &mut String) {
    let upkeep_us: u64 = server.turns.iter().map(Turns::upkeep_us).sum();
    let commands_max = server.turns.iter().map(Turns::commands_max).max();
    let busy_ns_max = server
        .lanes
        .iter()
        .map(|lane| read(&lane.busy_ns_max))
        .max();
    super::line(out, "eventloop_duration_aof_sum", 0);
    super::line(out, "eventloop_duration_cron_sum", upkeep_us);
    let busy_us_max = busy_ns_max.unwrap_or(0) / 1_000;
    super::line(out, "eventloop_duration_max", busy_us_max);
    let commands_max = commands_max.unwrap_or(0);
    super::line(out, "eventloop_cmd_per_cycle_max", commands_max);
}

/// What each lane has done, as Redis tells it of its threads.
pub(super) fn threads(server: &Server, _: u64, out: &mut String) {
    for (number, lane) in server.lanes.iter().enumerate() {
        let text = format!(
            "clients={},reads={},writes={}",
            read(&lane.connections),
            read(&lane.reads),
            read(&lane.writes)
        );
        super::line(out, &format!("io_thread_{number}"), text);
    }
}

impl Server {
    /// What the lanes have done until now.
    pub(crate) fn moment(&self) -> Moment {
        let mut moment = Moment {
            now_ns: tidewire_lane::unix_ns(),
            commands: read(&self.commands),
            ..Moment::default()
        };
        for lane in &self.lanes {
            moment.read_bytes += read(&lane.read_bytes);
            moment.written_bytes += read(&lane.written_bytes);
            moment.turns += read(&lane.turns);
            moment.busy_ns += read(&lane.busy_ns);
        }
        moment
    }
}

const PERSISTENCE: &[&str] = &[
    "current_cow_peak",
    "current_cow_size",
    "current_cow_size_age",
    "current_fork_perc",
    "current_save_keys_processed",
    "current_save_keys_total",
    "rdb_last_cow_size",
    "rdb_last_load_keys_expired",
    "rdb_last_load_keys_loaded",
    "aof_rewrites",
    "aof_rewrites_consecutive_failures",
    "aof_last_cow_size",
    "module_fork_in_progress",
    "module_fork_last_cow_size",
];

const MEMORY: &[&str] = &[
    "allocator_muzzy",
    "allocator_frag_bytes",
    "allocator_rss_bytes",
    "rss_overhead_bytes",
    "mem_fragmentation_bytes",
    "mem_not_counted_for_evict",
    "mem_replication_backlog",
    "mem_total_replication_buffers",
    "mem_replica_full_sync_buffer",
    "mem_clients_slaves",
    "mem_cluster_links",
    "mem_aof_buffer",
    "mem_overhead_db_hashtable_rehashing",
];

const STATS: &[&str] = &[
    "total_net_repl_input_bytes",
    "total_net_repl_output_bytes",
    "expire_cycle_cpu_milliseconds",
    "evicted_scripts",
    "total_eviction_exceeded_time",
    "current_eviction_exceeded_time",
    "active_defrag_hits",
    "active_defrag_misses",
    "active_defrag_key_hits",
    "active_defrag_key_misses",
    "total_active_defrag_time",
    "current_active_defrag_time",
    "dump_payload_sanitizations",
    "io_threaded_reads_processed",
    "io_threaded_writes_processed",
    "reply_buffer_shrinks",
    "reply_buffer_expands",
];
