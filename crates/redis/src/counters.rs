//! The counters of the Redis server, of its lanes and of the process: one table, from which INFO
//! and the page of metrics are made. See [`crate::registry`] for its form.
//!
//! Counters stay where they are counted: a lane adds to words that no other thread writes, and the
//! table says how they are read and added up.

mod clients;
mod commands;
mod keyspace;
mod lanes;
mod look;
mod memory;
mod persistence;
mod process;
mod replication;
mod stats;
mod tls;

pub(crate) use look::{HeldMemory, ServerLook};
pub(crate) use process::cpu_seconds;

use std::sync::Arc;

use tidewire_lane::LaneCounters;

use crate::registry::{self, Counter, Page, Section, Shown, Source};
use crate::server::Server;

/// The table, in the order of INFO.
pub const TABLE: &[Section<Redis>] = &[
    section("Server", Shown::Default, process::SERVER),
    section("Clients", Shown::Default, clients::CLIENTS),
    section("Memory", Shown::Default, memory::MEMORY),
    section("Persistence", Shown::Default, persistence::PERSISTENCE),
    section("Stats", Shown::Default, stats::STATS),
    section("TLS", Shown::Default, tls::TLS),
    section("Threads", Shown::Default, lanes::THREADS),
    section("Replication", Shown::Default, replication::REPLICATION),
    section("CPU", Shown::Default, process::CPU),
    section("Hotkeys", Shown::WithAll, commands::HOT_KEYS),
    section("Modules", Shown::Default, &[]),
    section("Commandstats", Shown::WithAll, commands::COMMANDS),
    section("Errorstats", Shown::Default, commands::ERRORS),
    section("Latencystats", Shown::WithAll, commands::LATENCIES),
    section("Cluster", Shown::Default, CLUSTER),
    section("Keyspace", Shown::Default, keyspace::KEYSPACE),
    section("Keysizes", Shown::WithAll, keyspace::KEY_SIZES),
    section("Lanes", Shown::Default, lanes::LANES),
    section("Shares", Shown::WithAll, lanes::SHARES),
    section("Debug", Shown::Never, lanes::DEBUG),
];

const CLUSTER: &[Row] = &[
    Row::fixed("cluster_enabled", "0"),
    Row::lines(|look, out| look.quorum.show(look, out)),
    Row::flag("", |look| look.quorum.has_fault())
        .gauge(940, "keys_fault")
        .help("Whether keys with a quorum are not served: cluster_keys_fault in INFO says why."),
    Row::flag("", |look| look.quorum.has_mark_fault())
        .gauge(941, "keys_mark_fault")
        .help("Whether this hub cannot note which message the stream of the keys has had."),
];

/// The Redis server as a source of counters.
#[derive(Debug)]
pub enum Redis {}

impl Source for Redis {
    type Look<'a> = ServerLook<'a>;

    fn lanes<'a>(look: &'a ServerLook<'_>) -> &'a [Arc<LaneCounters>] {
        &look.lanes
    }
}

type Row = Counter<Redis>;

const fn section(name: &'static str, shown: Shown, counters: &'static [Row]) -> Section<Redis> {
    Section {
        name,
        shown,
        counters,
    }
}

/// Writes the metrics of the process, its lanes, and the Redis server. It is called by a thread
/// that is no lane: it takes locks only that the lanes hold for moments.
pub fn write_metrics(server: &Server, page: &mut Page) {
    registry::write_page(TABLE, &ServerLook::beside_lanes(server), page);
}
