//! The plant's link.

use std::sync::atomic::Ordering;

use super::{Page, load};
use crate::hub::Hub;

pub(super) fn plant(hub: &Hub, page: &mut Page) {
    let Some(plant) = &hub.plant else { return };
    let counters = &plant.counters;
    let connected = counters.connected.load(Ordering::Relaxed);
    let gauges = [
        (
            "plant_connected",
            "Whether the plant has accepted the hub.",
            u64::from(connected),
        ),
        ("plant_tags", "Tags of the plant.", plant.board.len() as u64),
        (
            "plant_live_tags",
            "Those whose values are arriving.",
            load(&counters.live_tags),
        ),
        (
            "plant_writes_waiting",
            "Writes under way to the plant.",
            load(&counters.writes_waiting),
        ),
    ];
    for (name, help, value) in gauges {
        page.one(name, "gauge", help, value);
    }
    let totals = [
        (
            "plant_links_total",
            "Links to the plant that were made.",
            &counters.links,
        ),
        (
            "plant_updates_total",
            "Changes that the plant has told.",
            &counters.updates,
        ),
        (
            "plant_stale_marks_total",
            "Tags found silent or without a link.",
            &counters.stale_marks,
        ),
        (
            "plant_refused_names_total",
            "Names that the plant does not have.",
            &counters.refused_names,
        ),
        (
            "plant_unreadable_total",
            "What the plant sent and nobody can read.",
            &counters.unreadable,
        ),
    ];
    for (name, help, counter) in totals {
        page.one(name, "counter", help, load(counter));
    }
    let help = "Writes to the plant by how they ended.";
    page.begin("plant_writes_total", "counter", help);
    for (outcome, counter) in [
        ("ok", &counters.writes_ok),
        ("refused", &counters.writes_refused),
        ("unknown", &counters.writes_unknown),
        ("not_sent", &counters.writes_not_sent),
    ] {
        page.value("plant_writes_total", &[("outcome", outcome)], load(counter));
    }
}
