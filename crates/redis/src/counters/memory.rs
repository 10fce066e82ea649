//! What is held, and for what.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Row, ServerLook};
use crate::clients::Client;
use crate::parameters::{MAXMEMORY, MAXMEMORY_POLICY};
use crate::registry::human;

pub(super) const MEMORY: &[Row] = &[
    Row::bytes("used_memory", |look| look.used())
        .gauge(120, "memory_bytes")
        .label("kind", "used")
        .help("Memory by kind."),
    Row::bytes("used_memory_rss", |look| look.resident())
        .gauge(121, "memory_bytes")
        .label("kind", "resident"),
    Row::bytes("used_memory_peak", |look| look.held().peak),
    Row::text("used_memory_peak_perc", |look| {
        format!("{:.2}%", look.held().peak_percent())
    }),
    Row::count("used_memory_overhead", |look| look.held().overhead()),
    Row::count("used_memory_startup", |look| look.held().startup),
    Row::count("used_memory_dataset", |look| look.held().dataset()),
    Row::text("used_memory_dataset_perc", |look| {
        format!("{:.2}%", look.held().dataset_percent())
    }),
    Row::count("allocator_allocated", |look| look.used()),
    Row::count("allocator_active", |look| look.resident().max(look.used())),
    Row::count("allocator_resident", |look| {
        look.resident().max(look.used())
    }),
    Row::fixed("allocator_muzzy", "0"),
    Row::count("used_memory_lua", |look| look.scripting.bytes()[0]),
    Row::count("used_memory_vm_eval", |look| look.scripting.bytes()[0]),
    Row::text("used_memory_lua_human", |look| {
        human(look.scripting.bytes()[0])
    }),
    Row::size("used_memory_scripts_eval", |look| {
        look.scripting.scripts.memory_bytes()
    }),
    Row::size("number_of_cached_scripts", |look| {
        look.scripting.scripts.count()
    }),
    Row::size("number_of_functions", |look| {
        look.scripting.libraries.current().function_count()
    }),
    Row::size("number_of_libraries", |look| {
        look.scripting.libraries.current().libraries().len()
    }),
    Row::count("used_memory_vm_functions", |look| look.scripting.bytes()[1]),
    Row::bytes("used_memory_vm_total", |look| {
        look.scripting.bytes().iter().sum()
    })
    .gauge(122, "memory_bytes")
    .label("kind", "lua"),
    Row::size("used_memory_functions", |look| {
        look.scripting.libraries.memory_bytes()
    }),
    Row::bytes("used_memory_scripts", |look| {
        let (scripts, libraries) = (&look.scripting.scripts, &look.scripting.libraries);
        (scripts.memory_bytes() + libraries.memory_bytes()) as u64
    })
    .gauge(123, "memory_bytes")
    .label("kind", "scripts"),
    Row::count("", |look| sum(look, |client| &client.query_bytes))
        .gauge(124, "memory_bytes")
        .label("kind", "client_input"),
    Row::count("", |look| sum(look, |client| &client.output_bytes))
        .gauge(125, "memory_bytes")
        .label("kind", "client_output"),
    Row::count("", |look| look.post.waiting_bytes())
        .gauge(126, "memory_bytes")
        .label("kind", "mailboxes"),
    Row::bytes("total_system_memory", |_| system_bytes()),
    Row::bytes("maxmemory", |look| look.parameters.read(MAXMEMORY))
        .gauge(130, "memory_limit_bytes")
        .help("What may be used: maxmemory; 0 is no limit."),
    Row::text("maxmemory_policy", |look| {
        look.parameters.read(MAXMEMORY_POLICY).to_owned()
    }),
    Row::atomic("maxmemory_reserve", |look| &look.parameters.memory_reserve),
    Row::decimal("allocator_frag_ratio", 2, |look| look.held().ratio()),
    Row::signed("allocator_frag_bytes", |look| look.held().excess().max(0)),
    Row::fixed("allocator_rss_ratio", "1.00"),
    Row::fixed("allocator_rss_bytes", "0"),
    Row::fixed("rss_overhead_ratio", "1.00"),
    Row::fixed("rss_overhead_bytes", "0"),
    Row::decimal("mem_fragmentation_ratio", 2, |look| look.held().ratio()),
    Row::signed("mem_fragmentation_bytes", |look| look.held().excess()),
    Row::count("mem_not_counted_for_evict", |look| look.uncounted_bytes()),
    Row::count("mem_replication_backlog", |look| look.stream().kept),
    Row::count("mem_total_replication_buffers", |look| {
        look.stream().kept + look.replica_bytes()
    }),
    Row::fixed("mem_replica_full_sync_buffer", "0"),
    Row::count("mem_clients_slaves", |look| look.replica_bytes()),
    Row::count("mem_clients_normal", |look| look.held().clients),
    Row::fixed("mem_cluster_links", "0"),
    Row::count("mem_aof_buffer", |look| {
        look.durability.log.buffer_bytes(look)
    }),
    Row::fixed("mem_allocator", "mimalloc"),
    Row::fixed("mem_overhead_db_hashtable_rehashing", "0"),
    Row::fixed("active_defrag_running", "0"),
    Row::count("lazyfree_pending_objects", |look| {
        look.keyspace.lazily_freed().0
    }),
    Row::count("lazyfreed_objects", |look| {
        look.keyspace.lazily_freed().1 + look.statistics.forgotten_errors()
    }),
];

fn sum(look: &ServerLook<'_>, bytes: fn(&Client) -> &AtomicU64) -> u64 {
    let clients = look.all_clients().iter();
    clients
        .map(|client| bytes(client).load(Ordering::Relaxed))
        .sum()
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
