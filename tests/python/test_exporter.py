"""What an exporter of metrics reads: INFO, field by field, and the few commands it sends beside."""

import shutil
import subprocess
import time
import urllib.request

import pytest

from support import PATIENCE_S, REPOSITORY, free_ports

# The fields that redis_exporter turns into metrics, by section.
NUMBERS = {
    "Server": "uptime_in_seconds process_id hz configured_hz io_threads_active",
    "Clients": """connected_clients blocked_clients tracking_clients maxclients pubsub_clients
        watching_clients clients_in_timeout_table total_watched_keys total_blocking_keys
        total_blocking_keys_on_nokey client_recent_max_output_buffer
        client_recent_max_input_buffer cluster_connections""",
    "Memory": """allocator_active allocator_allocated allocator_resident allocator_frag_ratio
        allocator_frag_bytes allocator_rss_ratio allocator_rss_bytes used_memory used_memory_rss
        used_memory_peak used_memory_lua used_memory_vm_eval used_memory_scripts_eval
        used_memory_overhead used_memory_startup used_memory_dataset number_of_cached_scripts
        number_of_functions number_of_libraries used_memory_vm_functions used_memory_scripts
        used_memory_functions used_memory_vm_total maxmemory mem_fragmentation_ratio
        mem_fragmentation_bytes mem_clients_slaves mem_clients_normal mem_cluster_links
        mem_aof_buffer mem_replication_backlog mem_not_counted_for_evict lazyfree_pending_objects
        lazyfreed_objects active_defrag_running total_system_memory rss_overhead_ratio
        rss_overhead_bytes""",
    "Persistence": """loading async_loading rdb_changes_since_last_save rdb_bgsave_in_progress
        rdb_last_save_time rdb_last_bgsave_time_sec rdb_current_bgsave_time_sec rdb_saves
        rdb_last_cow_size rdb_last_load_keys_expired rdb_last_load_keys_loaded aof_enabled
        aof_rewrite_in_progress aof_rewrite_scheduled aof_last_rewrite_time_sec
        aof_current_rewrite_time_sec aof_last_cow_size current_cow_peak current_cow_size
        current_fork_perc current_save_keys_processed current_save_keys_total
        module_fork_in_progress module_fork_last_cow_size""",
    "Stats": """pubsub_channels pubsub_patterns pubsubshard_channels latest_fork_usec
        total_connections_received total_commands_processed rejected_connections
        total_net_input_bytes total_net_output_bytes total_net_repl_input_bytes
        total_net_repl_output_bytes expired_subkeys expired_keys expired_stale_perc
        expired_time_cap_reached_count expire_cycle_cpu_milliseconds evicted_keys evicted_clients
        evicted_scripts total_eviction_exceeded_time current_eviction_exceeded_time keyspace_hits
        keyspace_misses migrate_cached_sockets slave_expires_tracked_keys active_defrag_hits
        active_defrag_misses active_defrag_key_hits active_defrag_key_misses
        total_active_defrag_time current_active_defrag_time tracking_total_keys
        tracking_total_items tracking_total_prefixes unexpected_error_replies total_error_replies
        dump_payload_sanitizations total_reads_processed total_writes_processed
        io_threaded_reads_processed io_threaded_writes_processed sync_full sync_partial_ok
        sync_partial_err instantaneous_ops_per_sec instantaneous_input_kbps
        instantaneous_output_kbps eventloop_cycles eventloop_duration_sum
        eventloop_duration_cmd_sum client_query_buffer_limit_disconnections
        client_output_buffer_limit_disconnections acl_access_denied_auth acl_access_denied_cmd
        acl_access_denied_key acl_access_denied_channel total_forks""",
    "Replication": """connected_slaves repl_backlog_size repl_backlog_active
        repl_backlog_first_byte_offset repl_backlog_histlen master_repl_offset
        second_repl_offset""",
    "CPU": """used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children
        used_cpu_sys_main_thread used_cpu_user_main_thread""",
    "Cluster": "cluster_enabled",
}
WORDS = {
    "Server": """redis_version redis_build_id redis_mode os run_id tcp_port multiplexing_api
        arch_bits executable config_file""",
    "Memory": "maxmemory_policy mem_allocator",
    "Persistence": "rdb_last_bgsave_status aof_last_bgrewrite_status aof_last_write_status",
    "Replication": "role master_replid master_failover_state",
}


def sections(text):
    """INFO as an exporter splits it: by its headings, then at the first colon of a line."""
    found, current = {}, None
    for line in text.decode().split("\r\n"):
        if line.startswith("# "):
            current = found.setdefault(line[2:], {})
        elif line:
            name, value = line.split(":", 1)
            assert name not in current, f"{name} stands there twice"
            current[name] = value
    return found


def parts(text):
    """`a=1,b=2.5` as numbers."""
    return {name: float(value) for name, value in (part.split("=") for part in text.split(","))}


@pytest.fixture
def info(hub):
    client = hub.redis()
    client.set("key", "value", ex=1_000)
    client.get("key")
    client.get("missing")
    client.config_get("*")
    with pytest.raises(Exception, match="WRONGTYPE"):
        client.lpush("key", "x")
    client.set_response_callback("INFO", lambda reply, **_: reply)
    return sections(client.execute_command("INFO", "ALL"))


def test_every_field_that_is_a_metric_is_there_and_a_number(info):
    missing = [
        f"{section}: {name}"
        for section, names in NUMBERS.items()
        for name in names.split()
        if name not in info[section]
    ]
    assert missing == []
    for section, names in NUMBERS.items():
        for name in names.split():
            float(info[section][name])
    for section, names in WORDS.items():
        for name in names.split():
            assert name in info[section], name
    assert int(info["Stats"]["keyspace_hits"]) == 1
    assert int(info["Stats"]["keyspace_misses"]) == 1


def test_statistics_of_commands_errors_and_databases_are_read_part_by_part(info):
    counts = parts(info["Commandstats"]["cmdstat_get"])
    order = ["calls", "usec", "usec_per_call", "rejected_calls", "failed_calls"]
    assert list(counts) == order and counts["calls"] == 2
    assert parts(info["Commandstats"]["cmdstat_lpush"])["failed_calls"] == 1
    assert "cmdstat_config|get" in info["Commandstats"]
    times = parts(info["Latencystats"]["latency_percentiles_usec_get"])
    assert list(times) == ["p50", "p99", "p99.9"]
    assert parts(info["Errorstats"]["errorstat_WRONGTYPE"]) == {"count": 1}
    keys = parts(info["Keyspace"]["db0"])
    assert list(keys) == ["keys", "expires", "avg_ttl", "subexpiry"]
    assert (keys["keys"], keys["expires"]) == (1, 1) and 0 < keys["avg_ttl"] <= 1_000_000


def test_where_clients_connect_is_told(hub, info):
    assert int(info["Server"]["tcp_port"]) == hub.resp_port
    assert info["Server"]["listener0"] == f"name=tcp,bind=127.0.0.1,port={hub.resp_port}"


def test_what_an_exporter_asks_beside_info_is_answered(hub):
    client = hub.redis(single_connection_client=True)
    client.client_setname("redis_exporter")
    assert [one["name"] for one in client.client_list()] == ["redis_exporter"]
    assert int(client.config_get("databases")["databases"]) == 16
    assert client.slowlog_len() == 0 and client.slowlog_get(1) == []
    assert client.latency_latest() == []
    histogram = client.execute_command("LATENCY", "HISTOGRAM", "client|setname")
    assert histogram[0] == b"client|setname" and histogram[1][:2] == [b"calls", 1]
    assert client.module_list() == []
    assert client.dbsize() == 0


def test_the_alert_rules_are_right(tmp_path):
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("there is no promtool (Debian's package prometheus has it)")
    rules = REPOSITORY / "ops" / "alerts.yml"
    checked = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    config = REPOSITORY / "ops" / "prometheus.yml"
    checked = subprocess.run([promtool, "check", "config", config], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_process_is_told_under_the_usual_names(start_hub):
    (port,) = free_ports(1)
    hub = start_hub("--admin", f"127.0.0.1:{port}")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as page:
        lines = page.read().decode().splitlines()
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
              for line in lines if not line.startswith("#")}
    assert values["process_resident_memory_bytes"] > 1 << 20
    assert 10 < values["process_open_fds"] < values["process_max_fds"]
    assert values["process_cpu_seconds_total"] > 0
    assert abs(time.time() - values["process_start_time_seconds"]) < 600
    assert 'tidewire_thread_cpu_seconds_total{thread="lane-0"}' in values
    assert any(name.startswith('tidewire_thread_cpu_percent{thread="lane-0",') for name in values)
    for name in ("recording_messages_total", "databento_records_total", "feed_window_messages_max"):
        assert f"tidewire_{name}" in values, name
    assert hub.redis().ping()
