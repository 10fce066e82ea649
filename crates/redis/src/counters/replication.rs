//! Replication: the role, the master, the replicas and their lag.

use super::{Row, ServerLook};
use crate::parameters::{
    MIN_REPLICAS_MAX_LAG, MIN_REPLICAS_TO_WRITE, REPL_BACKLOG_SIZE, REPLICA_ANNOUNCED,
    REPLICA_PRIORITY, REPLICA_READ_ONLY,
};
use crate::registry::line;
use crate::replication::{LinkState, Master, log_of};
use tidewire_lane::unix_ms;

pub(super) const REPLICATION: &[Row] = &[
    Row::fixed("role", "master").when(|look| look.master().is_none()),
    Row::lines(|look, out| {
        if let Some(master) = look.master() {
            replica(look, master, out);
        }
    }),
    Row::size("connected_slaves", |look| look.replicas().len())
        .gauge(900, "replicas")
        .help("Replicas that follow, or are about to."),
    Row::size("min_slaves_good_slaves", |look| {
        let lag_ms_max = look.parameters.read(MIN_REPLICAS_MAX_LAG) as i64 * 1_000;
        look.replication.count_good(lag_ms_max, unix_ms())
    })
    .when(|look| {
        let limits = [MIN_REPLICAS_TO_WRITE, MIN_REPLICAS_MAX_LAG];
        limits.iter().all(|&id| look.parameters.read(id) > 0)
    }),
    Row::lines(|look, out| {
        for (number, one) in look.replicas().iter().enumerate() {
            let (address, port, phase) = (&one.address, one.port, one.phase.name());
            let (acked, lag_s) = (one.acked, one.lag_s);
            let text = format!("ip={address},port={port},state={phase},offset={acked},lag={lag_s}");
            line(out, &format!("slave{number}"), text);
        }
    }),
    Row::series(|look, name, page| {
        let end = log_of(look).end();
        for replica in look.replicas() {
            let address = format!("{}:{}", replica.address, replica.port);
            let behind = end.saturating_sub(replica.acked);
            page.value(name, &[("replica", &address)], behind);
        }
    })
    .gauge(910, "replica_behind_bytes")
    .help("Bytes of the stream that a replica has not acknowledged."),
    Row::flag("", |look| look.master().is_some())
        .gauge(920, "is_replica")
        .help("Whether this server follows another one."),
    Row::flag("", |look| look.master().is_some_and(is_up))
        .gauge(930, "master_link_up")
        .help("Whether it is connected to that one and has its keys."),
    Row::text("master_failover_state", |look| {
        look.replication.failover.name().to_owned()
    }),
    Row::text("master_replid", |look| look.replication.id()),
    Row::text("master_replid2", |look| {
        let second = look.second_history();
        second.map_or_else(|| "0".repeat(40), |(id, _)| id.clone())
    }),
    Row::count("master_repl_offset", |look| look.stream().end),
    Row::signed("second_repl_offset", |look| {
        let second = look.second_history();
        second.map_or(-1, |(_, until)| *until as i64 + 1)
    }),
    Row::flag("repl_backlog_active", |look| look.stream().is_open),
    Row::count("repl_backlog_size", |look| {
        look.parameters.read(REPL_BACKLOG_SIZE)
    }),
    Row::count("repl_backlog_first_byte_offset", |look| look.stream().first),
    Row::count("repl_backlog_histlen", |look| look.stream().kept),
];

fn is_up(master: &Master) -> bool {
    master.state() == LinkState::Connected
}

/// The part of a replica, with its master.
fn replica(look: &ServerLook<'_>, master: &Master, out: &mut String) {
    let (state, offset) = (master.state(), look.stream().end);
    let is_up = is_up(master);
    let yes = |id| u8::from(look.parameters.read(id));
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
        line(out, "master_link_down_since_seconds", master.down_s());
    }
    line(
        out,
        "slave_priority",
        look.parameters.read(REPLICA_PRIORITY),
    );
    line(out, "slave_read_only", yes(REPLICA_READ_ONLY));
    line(out, "replica_announced", yes(REPLICA_ANNOUNCED));
}
