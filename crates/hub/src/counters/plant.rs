//! Counters of the connection to the plant.

use std::sync::atomic::Ordering;

use tidewire_redis::registry::Counter;

use super::look::PlantSource;

type PlantCounter = Counter<PlantSource>;

pub(super) const PLANT: &[PlantCounter] = &[
    PlantCounter::text("plant_address", |plant| plant.options.endpoint.to_string()),
    PlantCounter::flag("plant_connected", |plant| {
        plant.counters.connected.load(Ordering::Relaxed)
    })
    .gauge(1600, "plant_connected")
    .help("Whether the plant has accepted the hub."),
    PlantCounter::atomic("plant_links", |plant| &plant.counters.links)
        .counter(1640, "plant_links_total")
        .help("Connections made to the plant."),
    PlantCounter::size("plant_tags", |plant| plant.board.len())
        .gauge(1610, "plant_tags")
        .help("Tags of the plant."),
    PlantCounter::atomic("plant_live_tags", |plant| &plant.counters.live_tags)
        .gauge(1620, "plant_live_tags")
        .help("Tags whose values are arriving."),
    PlantCounter::atomic("plant_updates", |plant| &plant.counters.updates)
        .counter(1650, "plant_updates_total")
        .help("Value changes received from the plant."),
    PlantCounter::atomic("plant_stale_marks", |plant| &plant.counters.stale_marks)
        .counter(1660, "plant_stale_marks_total")
        .help("Tags marked stale."),
    PlantCounter::atomic("plant_refreshes", |plant| &plant.counters.refreshes),
    PlantCounter::atomic("plant_refused_names", |plant| &plant.counters.refused_names)
        .counter(1670, "plant_refused_names_total")
        .help("Names that the plant does not have."),
    PlantCounter::atomic("plant_unreadable", |plant| &plant.counters.unreadable)
        .counter(1680, "plant_unreadable_total")
        .help("Messages from the plant that cannot be decoded."),
    PlantCounter::count("plant_sequence", |plant| plant.board.sequence()),
    PlantCounter::atomic("plant_writes_ok", |plant| &plant.counters.writes_ok)
        .counter(1690, "plant_writes_total")
        .label("outcome", "ok")
        .help("Writes to the plant by outcome."),
    PlantCounter::atomic("plant_writes_refused", |plant| {
        &plant.counters.writes_refused
    })
    .counter(1691, "plant_writes_total")
    .label("outcome", "refused"),
    PlantCounter::atomic("plant_writes_unknown", |plant| {
        &plant.counters.writes_unknown
    })
    .counter(1692, "plant_writes_total")
    .label("outcome", "unknown"),
    PlantCounter::atomic("plant_writes_not_sent", |plant| {
        &plant.counters.writes_not_sent
    })
    .counter(1693, "plant_writes_total")
    .label("outcome", "not_sent"),
    PlantCounter::atomic("plant_writes_waiting", |plant| {
        &plant.counters.writes_waiting
    })
    .gauge(1630, "plant_writes_waiting")
    .help("Writes to the plant in progress."),
];
