//! The sections of INFO on memory: what is held, for what, and how large the values are.

use std::sync::OnceLock;

use tidewire_keyspace::DATABASES;

use super::{line, read};
use crate::memory::resident_bytes;
use crate::parameters::{MAXMEMORY, MAXMEMORY_POLICY};
use crate::server::Server;
use crate::session::replication::StreamStatus;

/// What the process holds, and for what.
pub(in crate::session) struct Held {
    pub(in crate::session) used: u64,
    pub(in crate::session) peak: u64,
    pub(in crate::session) startup: u64,
    pub(in crate::session) resident: u64,
    /// Buffers and states of clients.
    pub(in crate::session) clients: u64,
    pub(in crate::session) scripts: u64,
    /// Tables of keys, without the keys.
    pub(in crate::session) tables: u64,
}

impl Held {
    pub(in crate::session) fn now(server: &Server) -> Self {
        // First: what answers the question is not part of the answer.
        let used = server.usage.look();
        let (scripts, libraries) = (&server.scripting.scripts, &server.scripting.libraries);
        let tables = (0..DATABASES).map(|database| server.keyspace.table_bytes(database));
        Self {
            used,
            peak: server.usage.peak(),
            startup: server.usage.startup().min(used),
            resident: resident_bytes(),
            clients: server.clients.memory_bytes(),
            scripts: (scripts.memory_bytes() + libraries.memory_bytes()) as u64,
            tables: tables.sum::<usize>() as u64,
        }
    }

    /// What is not data.
    pub(in crate::session) fn overhead(&self) -> u64 {
        (self.startup + self.clients + self.scripts + self.tables).min(self.used)
    }

    pub(in crate::session) fn dataset(&self) -> u64 {
        self.used - self.overhead()
    }

    /// Of what came since the start, how much is data.
    pub(in crate::session) fn dataset_percent(&self) -> f64 {
        let net = self.used.saturating_sub(self.startup).max(1);
        (self.dataset() as f64 / net as f64 * 100.0).min(100.0)
    }

    pub(in crate::session) fn peak_percent(&self) -> f64 {
        self.used as f64 / self.peak.max(1) as f64 * 100.0
    }

    /// How many bytes the system gives for one that is in use.
    pub(in crate::session) fn ratio(&self) -> f64 {
        self.resident as f64 / self.used.max(1) as f64
    }
}

pub(super) fn memory(server: &Server, _: u64, out: &mut String) {
    let held = Held::now(server);
    let limit = server.parameters.read(MAXMEMORY);
    let both = |out: &mut String, name: &str, bytes: u64| {
        line(out, name, bytes);
        line(out, &format!("{name}_human"), human(bytes));
    };
    both(out, "used_memory", held.used);
    both(out, "used_memory_rss", held.resident);
    both(out, "used_memory_peak", held.peak);
    line(
        out,
        "used_memory_peak_perc",
        format!("{:.2}%", held.peak_percent()),
    );
    line(out, "used_memory_overhead", held.overhead());
    line(out, "used_memory_startup", held.startup);
    line(out, "used_memory_dataset", held.dataset());
    line(
        out,
        "used_memory_dataset_perc",
        format!("{:.2}%", held.dataset_percent()),
    );
    line(out, "allocator_allocated", held.used);
    line(out, "allocator_active", held.resident.max(held.used));
    line(out, "allocator_resident", held.resident.max(held.used));
    line(out, "allocator_muzzy", 0);
    scripting(server, out);
    both(out, "total_system_memory", system_bytes());
    both(out, "maxmemory", limit);
    line(
        out,
        "maxmemory_policy",
        server.parameters.read(MAXMEMORY_POLICY),
    );
    line(
        out,
        "maxmemory_reserve",
        read(&server.parameters.memory_reserve),
    );
    let excess = held.resident as i64 - held.used as i64;
    line(out, "allocator_frag_ratio", format!("{:.2}", held.ratio()));
    line(out, "allocator_frag_bytes", excess.max(0));
    line(out, "allocator_rss_ratio", "1.00");
    line(out, "allocator_rss_bytes", 0);
    line(out, "rss_overhead_ratio", "1.00");
    line(out, "rss_overhead_bytes", 0);
    line(
        out,
        "mem_fragmentation_ratio",
        format!("{:.2}", held.ratio()),
    );
    line(out, "mem_fragmentation_bytes", excess);
    let stream = StreamStatus::of(server);
    let replicas = match server.replication.count() {
        0 => 0,
        _ => server.replication.stream_bytes(server),
    };
    line(out, "mem_not_counted_for_evict", server.uncounted_bytes());
    line(out, "mem_replication_backlog", stream.kept);
    line(out, "mem_total_replication_buffers", stream.kept + replicas);
    line(out, "mem_replica_full_sync_buffer", 0);
    line(out, "mem_clients_slaves", replicas);
    line(out, "mem_clients_normal", held.clients);
    line(out, "mem_cluster_links", 0);
    line(
        out,
        "mem_aof_buffer",
        server.durability.log.buffer_bytes(server),
    );
    line(out, "mem_allocator", "mimalloc");
    line(out, "mem_overhead_db_hashtable_rehashing", 0);
    line(out, "active_defrag_running", 0);
    let (pending, freed) = server.keyspace.lazily_freed();
    line(out, "lazyfree_pending_objects", pending);
    let forgotten = server.statistics.forgotten_errors();
    line(out, "lazyfreed_objects", freed + forgotten);
}

/// How many values of each type have how many bytes or parts. Walks all keys, so that it is only
/// shown to who asks for it.
pub(super) fn key_sizes(server: &Server, _: u64, out: &mut String) {
    for database in 0..DATABASES {
        for (kind, counts) in server.keyspace.value_sizes(database) {
            let part = |(power, count): (usize, &u64)| {
                (*count > 0).then(|| format!("{}={count}", size_label(power)))
            };
            let parts: Vec<_> = counts.iter().enumerate().filter_map(part).collect();
            if !parts.is_empty() {
                line(
                    out,
                    &format!("db{database}_distrib_{kind}"),
                    parts.join(","),
                );
            }
        }
    }
}

/// `4K` for values of 4,096 to 8,191 parts, which are counted at 13.
fn size_label(power: usize) -> String {
    match power.checked_sub(1) {
        None => "0".to_owned(),
        Some(power) => {
            let unit = ["", "K", "M", "G", "T", "P", "E"][(power / 10).min(6)];
            format!("{}{unit}", 1u64 << (power % 10))
        }
    }
}

fn scripting(server: &Server, out: &mut String) {
    let (scripts, libraries) = (&server.scripting.scripts, &server.scripting.libraries);
    let [script_states, function_states] = server.scripting.bytes();
    let (script_bytes, library_bytes) = (scripts.memory_bytes(), libraries.memory_bytes());
    let set = libraries.current();
    let states = script_states + function_states;
    line(out, "used_memory_lua", script_states);
    line(out, "used_memory_vm_eval", script_states);
    line(out, "used_memory_lua_human", human(script_states));
    line(out, "used_memory_scripts_eval", script_bytes);
    line(out, "number_of_cached_scripts", scripts.count());
    line(out, "number_of_functions", set.function_count());
    line(out, "number_of_libraries", set.libraries().len());
    line(out, "used_memory_vm_functions", function_states);
    line(out, "used_memory_vm_total", states);
    line(out, "used_memory_vm_total_human", human(states));
    line(out, "used_memory_functions", library_bytes);
    let bytes = (script_bytes + library_bytes) as u64;
    line(out, "used_memory_scripts", bytes);
    line(out, "used_memory_scripts_human", human(bytes));
}

/// What INFO stats tells of memory.
pub(super) fn evictions(server: &Server, out: &mut String) {
    let [all_ns, now_ns] = server.evictions.full_ns();
    line(out, "evicted_keys", server.keyspace.evicted_keys());
    line(out, "evicted_clients", read(server.clients.evicted()));
    line(out, "evicted_scripts", server.scripting.scripts.evicted());
    line(out, "total_eviction_exceeded_time", all_ns / 1_000_000);
    line(out, "current_eviction_exceeded_time", now_ns / 1_000_000);
}

fn system_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let found = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kilobytes = found.and_then(|value| value.trim().trim_end_matches(" kB").parse().ok());
        kilobytes.unwrap_or(0u64) * 1024
    })
}

pub(in crate::session) fn human(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{:.2}K", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.2}M", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2}G", bytes as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_by_the_power_of_two_below() {
        let labels = [0, 1, 2, 10, 11, 12, 21, 31].map(size_label);
        assert_eq!(labels, ["0", "1", "2", "512", "1K", "2K", "1M", "1G"]);
    }
}
