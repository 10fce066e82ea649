//! What has happened since the start, or since CONFIG RESETSTAT.

use super::{Row, ServerLook};
use crate::access::Reason;
use crate::registry::{Unit, line};

/// Valkey's name of `expired_subkeys`.
fn expired_fields(look: &ServerLook<'_>, out: &mut String) {
    if look.keyspace.follows_valkey() {
        line(out, "expired_fields", look.keyspace.expired_fields());
    }
}

pub(super) const STATS: &[Row] = &[
    Row::lanes("total_connections_received", |lane| &lane.accepted),
    Row::atomic("total_commands_processed", |look| &look.commands),
    Row::decimal("instantaneous_ops_per_sec", 0, |look| look.rate().commands),
    Row::lanes("total_net_input_bytes", |lane| &lane.read_bytes)
        .counter(330, "lane_read_bytes_total")
        .help("Bytes received."),
    Row::lanes("total_net_output_bytes", |lane| &lane.written_bytes)
        .counter(350, "lane_written_bytes_total")
        .help("Bytes sent."),
    Row::decimal("instantaneous_input_kbps", 2, |look| {
        look.rate().read_bytes / 1024.0
    }),
    Row::decimal("instantaneous_output_kbps", 2, |look| {
        look.rate().written_bytes / 1024.0
    }),
    Row::atomic("rejected_connections", |look| &look.rejected_clients)
        .counter(610, "clients_rejected_total")
        .help("Redis clients that were one too many."),
    Row::atomic("sync_full", |look| &look.replication.full_syncs),
    Row::atomic("sync_partial_ok", |look| &look.replication.partial_syncs),
    Row::atomic("sync_partial_err", |look| {
        &look.replication.partial_syncs_refused
    }),
    Row::count("expired_subkeys", |look| look.keyspace.expired_fields()),
    Row::lines(expired_fields),
    Row::count("expired_keys", |look| look.totals().expired_keys)
        .counter(730, "expired_keys_total")
        .help("Keys whose time came."),
    Row::fixed("expired_stale_perc", "0.00"),
    Row::fixed("expired_time_cap_reached_count", "0"),
    Row::count("evicted_keys", |look| look.keyspace.evicted_keys())
        .counter(740, "evicted_keys_total")
        .help("Keys that gave way to others."),
    Row::atomic("evicted_clients", |look| look.clients.evicted())
        .counter(750, "evicted_clients_total")
        .help("Clients that were cut off for what they held."),
    Row::count("evicted_scripts", |look| look.scripting.scripts.evicted()),
    Row::time("total_eviction_exceeded_time", Unit::Milliseconds, |look| {
        look.evictions.full_ns()[0]
    }),
    Row::time(
        "current_eviction_exceeded_time",
        Unit::Milliseconds,
        |look| look.evictions.full_ns()[1],
    ),
    Row::count("keyspace_hits", |look| look.totals().hits)
        .counter(720, "reads_of_keys_total")
        .label("found", "yes")
        .help("Reads of keys by whether they were there."),
    Row::count("keyspace_misses", |look| look.totals().misses)
        .counter(721, "reads_of_keys_total")
        .label("found", "no"),
    Row::count("", |look| look.totals().changes)
        .counter(760, "changes_total")
        .help("Changes of keys."),
    Row::size("pubsub_channels", |look| {
        look.post.subscriptions.channel_count()
    })
    .gauge(1040, "subscriptions")
    .label("kind", "channel")
    .help("Names that somebody is subscribed to, by kind."),
    Row::size("pubsub_patterns", |look| {
        look.post.subscriptions.pattern_count()
    })
    .gauge(1041, "subscriptions")
    .label("kind", "pattern"),
    Row::size("pubsubshard_channels", |look| {
        look.post.subscriptions.shard_channel_count()
    })
    .gauge(1042, "subscriptions")
    .label("kind", "shard_channel"),
    Row::fixed("latest_fork_usec", "0"),
    Row::fixed("total_forks", "0"),
    Row::count("tracking_total_keys", |look| look.keyspace.tracked_keys())
        .gauge(620, "tracked_keys")
        .help("Keys that clients have in caches of their own."),
    Row::count("tracking_total_items", |look| look.keyspace.tracked_items())
        .gauge(630, "tracked_items")
        .help("Pairs of such a key and a client."),
    Row::size("tracking_total_prefixes", |look| look.tracking.prefixes()),
    Row::fixed("unexpected_error_replies", "0"),
    Row::atomic("total_error_replies", |look| &look.command_errors),
    Row::lanes("total_reads_processed", |lane| &lane.reads)
        .counter(320, "lane_reads_total")
        .help("Receive calls."),
    Row::lanes("total_writes_processed", |lane| &lane.writes)
        .counter(340, "lane_writes_total")
        .help("Send calls."),
    Row::atomic("client_query_buffer_limit_disconnections", |look| {
        &look.query_cut_off
    }),
    Row::atomic("client_output_buffer_limit_disconnections", |look| {
        &look.post.counters.cut_off
    }),
    Row::count("acl_access_denied_auth", |look| {
        look.access.refusals(Reason::Authentication)
    }),
    Row::count("acl_access_denied_cmd", |look| {
        look.access.refusals(Reason::Command)
    }),
    Row::count("acl_access_denied_key", |look| {
        look.access.refusals(Reason::Key)
    }),
    Row::count("acl_access_denied_channel", |look| {
        look.access.refusals(Reason::Channel)
    }),
    Row::count("acl_access_denied_db", |look| {
        look.access.refusals(Reason::Database)
    }),
    Row::count("acl_access_denied_tls_cert", |look| {
        look.certificates.unknown()
    }),
    Row::lanes("tls_handshakes", |lane| &lane.tls_handshakes)
        .counter(640, "tls_handshakes_total")
        .help("TLS handshakes that were completed."),
    Row::lanes("tls_handshakes_resumed", |lane| &lane.tls_resumed)
        .counter(650, "tls_handshakes_resumed_total")
        .help("TLS handshakes that resumed an earlier session."),
    Row::lanes("tls_handshakes_failed", |lane| &lane.tls_failed)
        .counter(660, "tls_handshakes_failed_total")
        .help("TLS handshakes that failed or were given up, also at ports without TLS."),
    Row::size("migrate_cached_sockets", |look| {
        look.replication.migration.count()
    }),
    Row::size("slave_expires_tracked_keys", |look| {
        look.keyspace.own_deadlines()
    }),
    Row::lanes("eventloop_cycles", |lane| &lane.turns)
        .counter(310, "lane_turns_total")
        .help("Turns of a lane's loop."),
    Row::lanes_time("eventloop_duration_sum", Unit::Microseconds, |lane| {
        &lane.busy_ns
    })
    .counter(300, "lane_busy_seconds_total")
    .help("Time a lane did not wait."),
    Row::count("eventloop_duration_cmd_sum", |look| {
        look.statistics.microseconds()
    }),
    // An idle hub takes less than one turn per second: a part counts as a whole.
    Row::decimal("instantaneous_eventloop_cycles_per_sec", 0, |look| {
        look.rate().turns.ceil()
    }),
    Row::decimal("instantaneous_eventloop_duration_usec", 0, |look| {
        look.rate().turn_us.ceil()
    }),
    Row::fixed("instantaneous_input_repl_kbps", "0.00"),
    Row::fixed("instantaneous_output_repl_kbps", "0.00"),
    // No counterpart here: tools find what it would be where nothing of the kind goes on.
    Row::fixed("total_net_repl_input_bytes", "0"),
    Row::fixed("total_net_repl_output_bytes", "0"),
    Row::fixed("expire_cycle_cpu_milliseconds", "0"),
    Row::fixed("active_defrag_hits", "0"),
    Row::fixed("active_defrag_misses", "0"),
    Row::fixed("active_defrag_key_hits", "0"),
    Row::fixed("active_defrag_key_misses", "0"),
    Row::fixed("total_active_defrag_time", "0"),
    Row::fixed("current_active_defrag_time", "0"),
    Row::fixed("dump_payload_sanitizations", "0"),
    Row::fixed("io_threaded_reads_processed", "0"),
    Row::fixed("io_threaded_writes_processed", "0"),
    Row::fixed("reply_buffer_shrinks", "0"),
    Row::fixed("reply_buffer_expands", "0"),
];
