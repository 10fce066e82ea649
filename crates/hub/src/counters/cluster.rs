//! Counters of the hub's place in a cluster; shown only by a hub that is in one.

use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_fanout::WriteCounters;
use tidewire_redis::registry::line;

use super::HubCounter;
use super::look::HubLook;

/// A counter of the writes of one side that have ended so.
macro_rules! ended {
    ($side:ident[$outcome:literal], $number:literal, $name:literal, $help:literal) => {
        HubCounter::count($name, |look| writes(look, |all| all.$side.get()[$outcome]))
            .counter($number, concat!($name, "_total"))
            .help($help)
            .when(is_in_cluster)
    };
}

pub(super) const CLUSTER: &[HubCounter] = &[
    HubCounter::lines(|look, out| {
        let Some(config) = &look.market.config.cluster else {
            return;
        };
        let shown = look.market.cluster.get();
        line(out, "cluster_name", &config.name);
        line(out, "cluster_hub", &config.hub);
        line(out, "cluster_link_up", u8::from(shown.is_linked));
        line(out, "cluster_link_losses", shown.losses);
        line(out, "cluster_dropped_messages", shown.dropped);
        if let Some(own) = &shown.own {
            line(out, "cluster_own", own);
            line(out, "cluster_own_fault", &own.fault);
        }
        for (number, relay) in shown.relays.iter().enumerate() {
            line(out, &format!("cluster_relay{number}"), relay);
            line(out, &format!("cluster_relay{number}_fault"), &relay.own.fault);
        }
        let (heard, silent): (Vec<_>, Vec<_>) =
            shown.remote.iter().partition(|source| source.is_heard);
        line(out, "cluster_sources", shown.remote.len());
        line(out, "cluster_sources_silent", silent.len());
        // Sources of former owners come last, and not all of them.
        let shown = heard.into_iter().chain(silent).take(SOURCE_LINES_MAX);
        for (number, source) in shown.enumerate() {
            line(out, &format!("cluster_source{number}"), source);
        }
        for (name, text) in look.shared.iter().flat_map(|shared| shared.board.lines()) {
            line(out, &name, text);
        }
        if let Some(writes) = look.shared.as_ref().map(|shared| &shared.writes.counters) {
            line(out, "cluster_writes", asked_line(writes));
            line(out, "cluster_writes_taken", taken_line(writes));
        }
    }),
    HubCounter::flag("cluster_linked", |look| look.market.cluster.get().is_linked)
        .gauge(1570, "cluster_link_up")
        .help("Whether a NATS server answers.")
        .when(is_in_cluster),
    HubCounter::count("cluster_epoch", |look| own(look, |own| own.figures.epoch))
        .gauge(1571, "cluster_epoch")
        .help("Reign of this hub over its own source.")
        .when(is_in_cluster),
    HubCounter::count("cluster_unacknowledged", |look| {
        own(look, |own| own.figures.unacknowledged)
    })
    .gauge(1572, "cluster_unacknowledged_frames")
    .help("Frames that the log has not acknowledged.")
    .when(is_in_cluster),
    HubCounter::count("cluster_frames", |look| own(look, |own| own.figures.frames))
        .counter(1573, "cluster_frames_total")
        .help("Frames published for the first time.")
        .when(is_in_cluster),
    HubCounter::count("cluster_gaps", |look| {
        let shown = look.market.cluster.get();
        let received = shown.remote.iter().map(|source| source.figures.gaps);
        received.sum()
    })
    .counter(1574, "cluster_gaps_total")
    .help("Times that frames of other hubs were lost for good.")
    .when(is_in_cluster),
    HubCounter::count("cluster_lag", |look| {
        let shown = look.market.cluster.get();
        let received = shown.remote.iter().map(|source| source.figures.lag);
        received.max().unwrap_or(0)
    })
    .gauge(1575, "cluster_lag_messages")
    .help("Messages of other hubs that are known to exist and were not applied: the most of a source.")
    .when(is_in_cluster),
    HubCounter::count("cluster_relay_bytes_in", |look| {
        let shown = look.market.cluster.get();
        shown.relays.iter().map(|relay| relay.bytes_in).sum()
    })
    .counter(1576, "cluster_relay_bytes_in_total")
    .help("Bytes of messages of relayed sources.")
    .when(is_in_cluster),
    HubCounter::count("cluster_relay_bytes_out", |look| {
        let shown = look.market.cluster.get();
        shown.relays.iter().map(|relay| relay.bytes_out).sum()
    })
    .counter(1577, "cluster_relay_bytes_out_total")
    .help("Bytes that relays have published.")
    .when(is_in_cluster),
    ended!(
        asked[0],
        1578,
        "cluster_writes_done",
        "Writes of clients to topics of other hubs that are done."
    ),
    ended!(
        asked[1],
        1579,
        "cluster_writes_refused",
        "Writes of clients to topics of other hubs that wrote nothing."
    ),
    ended!(
        asked[2],
        1580,
        "cluster_writes_unknown",
        "Writes of clients to topics of other hubs whose end is unknown."
    ),
    ended!(
        taken[0],
        1581,
        "cluster_writes_taken_done",
        "Writes of other hubs to topics of this one that are done."
    ),
    ended!(
        taken[1],
        1582,
        "cluster_writes_taken_refused",
        "Writes of other hubs to topics of this one that wrote nothing."
    ),
    ended!(
        taken[2],
        1583,
        "cluster_writes_taken_unknown",
        "Writes of other hubs to topics of this one whose end is unknown."
    ),
    HubCounter::count("cluster_writes_unaudited", |look| {
        writes(look, |all| all.unaudited.load(Ordering::Relaxed))
    })
    .counter(1584, "cluster_writes_unaudited_total")
    .help("Writes of other hubs that are missing in the audit stream.")
    .when(is_in_cluster),
];

/// Sources that have a line.
const SOURCE_LINES_MAX: usize = 64;

fn is_in_cluster(look: &HubLook<'_>) -> bool {
    look.market.config.cluster.is_some()
}

fn writes(look: &HubLook<'_>, figure: impl Fn(&WriteCounters) -> u64) -> u64 {
    let shared = look.shared.as_ref();
    shared.map_or(0, |shared| figure(&shared.writes.counters))
}

fn asked_line(all: &WriteCounters) -> String {
    let [done, refused, unknown] = all.asked.get();
    let waiting = all.asked_waiting.load(Ordering::Relaxed);
    format!("done={done},refused={refused},unknown={unknown},waiting={waiting}")
}

fn taken_line(all: &WriteCounters) -> String {
    let [done, refused, unknown] = all.taken.get();
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    format!(
        "done={done},refused={refused},unknown={unknown},waiting={},repeated={},unreadable={},\
         audited={},unaudited={}",
        of(&all.taken_waiting),
        of(&all.repeated),
        of(&all.unreadable),
        of(&all.audited),
        of(&all.unaudited),
    )
}

fn own(look: &HubLook<'_>, figure: impl Fn(&tidewire_market::OwnSource) -> u64) -> u64 {
    look.market.cluster.get().own.as_ref().map_or(0, figure)
}
