//! The counters that do not belong to the Redis server: topics, feeds and the plant. INFO and the
//! metrics page are made from one table; see [`tidewire_redis::registry`].

mod cluster;
mod feed;
mod look;
mod plant;
mod topics;
mod web;

use std::sync::Arc;

use tidewire_lane::LaneCounters;
use tidewire_redis::counters::{TABLE as REDIS, write_metrics};
use tidewire_redis::registry::{Counter, Page, Section, Shown, Source, Watched};
use tidewire_redis::registry::{write_heading, write_page};

use crate::hub::Hub;
use look::{HubLook, PlantSource};

/// The table, in the order of INFO. The plant has its own table, because it may be absent.
const TABLE: &[Section<HubSource>] = &[
    Section {
        name: "Topics",
        shown: Shown::Default,
        counters: topics::TOPICS,
    },
    Section {
        name: "Web",
        shown: Shown::Default,
        counters: web::WEB,
    },
    Section {
        name: "Feed",
        shown: Shown::Default,
        counters: feed::FEED,
    },
    // Behind Redis's section with this name.
    Section {
        name: "Cluster",
        shown: Shown::Default,
        counters: cluster::CLUSTER,
    },
];

const PLANT: &[Section<PlantSource>] = &[Section {
    name: "Plant",
    shown: Shown::Default,
    counters: plant::PLANT,
}];

/// A hub as a source of counters.
#[derive(Debug)]
pub(crate) enum HubSource {}

impl Source for HubSource {
    type Look<'a> = HubLook<'a>;

    fn lanes<'a>(look: &'a HubLook<'_>) -> &'a [Arc<LaneCounters>] {
        &look.server.lanes
    }
}

type HubCounter = Counter<HubSource>;

/// Appends the INFO sections that are shown.
pub(crate) fn write_info(hub: &Hub, is_shown: &dyn Fn(&str, Shown) -> bool, out: &mut String) {
    let look = HubLook::new(hub);
    for section in TABLE {
        let is_absent = section.name == "Cluster" && hub.market.config.cluster.is_none();
        if is_shown(section.name, section.shown) && !is_absent {
            write_heading(out, section.name);
            section.write_info(&look, out);
        }
    }
    for section in PLANT {
        if is_shown(section.name, section.shown) {
            write_heading(out, section.name);
            if let Some(plant) = &hub.plant {
                section.write_info(plant, out);
            }
        }
    }
}

/// Returns all metrics of a hub in the Prometheus text format, version 0.0.4. The caller is not a
/// lane; the locks it takes are held by lanes only briefly.
pub fn metrics(hub: &Hub) -> String {
    let mut page = Page::default();
    write_metrics(&hub.server, &mut page);
    write_page(TABLE, &HubLook::new(hub), &mut page);
    if let Some(plant) = &hub.plant {
        write_page(PLANT, plant, &mut page);
    }
    page.into_text()
}

/// Returns the counters that `tidewire watch` shows.
pub fn watched_counters() -> impl Iterator<Item = Watched> {
    let redis = REDIS.iter().flat_map(Section::watched);
    redis.chain(TABLE.iter().flat_map(Section::watched))
}
