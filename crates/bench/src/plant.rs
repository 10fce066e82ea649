//! Plant tags from the peer to the last value: throughput, cost, and a check that none is lost.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use tidewire_hub::{Hub, HubConfig};
use tidewire_mx::plant::PlantConfig;
use tidewire_mx::value::Value;
use tidewire_plant::{Plant, PlantOptions};

use super::failed;
use super::report::Table;
use super::scenario::Bench;
use tidewire::failure::Failure;
use tidewire::server::start_hub;
use tidewire::simulate::mx::Server;
use tidewire::stop::Stop;
use tidewire::units::grouped;

/// Measures, prints, and stores the raw run. A lost update is a failure.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed("cannot listen"))?;
    let mut server = Server::new(listener, config()).map_err(failed("cannot serve"))?;
    let address = server.address();
    let names: Vec<String> = server.plant().tags().all_names().collect();
    let (stop, tags) = (Stop::default(), names.len());
    let told = stop.clone();
    let peer = std::thread::spawn(move || server.serve(&told, None).map(|()| server));
    let endpoint = address.parse();
    let endpoint = endpoint.map_err(|error| Failure::running(format!("{address}: {error}")))?;
    let hub = HubConfig {
        plant: Some(PlantOptions {
            tags: names,
            ..PlantOptions::new(endpoint)
        }),
        ..HubConfig::default()
    };
    let (hub, lanes) = start_hub(hub, "hub", Vec::new(), |_| None)?;
    let measured = measure(&hub, tags, bench.duration());
    stop.ask();
    let ended = peer
        .join()
        .map_err(|_| Failure::running("the plant panicked"))?;
    let server = ended.map_err(failed("the plant has failed"))?;
    let mut figures = measured?;
    let plant = plant_of(&hub)?;
    wait_until(|| !plant.counters.connected.load(Ordering::Relaxed))?;
    figures.sent = server.plant().counters().updates;
    figures.applied = plant.counters.updates.load(Ordering::Relaxed);
    figures.wrong_values = wrong_values(plant, &server);
    lanes.stop();
    let table = table(&figures);
    println!();
    print!("{}", table.text());
    bench.keep("plant", json!({"figures": figures}), &[&table])?;
    match figures.sent == figures.applied && figures.wrong_values == 0 {
        true => Ok(()),
        false => Err(Failure::running("updates of the plant were lost")),
    }
}

#[derive(Debug, Default, Serialize)]
struct PlantFigures {
    tags: usize,
    /// From the hub's start to a value of every tag that has one.
    until_all_live_s: f64,
    seconds: f64,
    updates_per_second: f64,
    /// Processor time of the hub's lane.
    lane_ns_per_update: f64,
    /// Over the whole run, by the plant's own count.
    sent: u64,
    applied: u64,
    /// Tags whose last value differs from the plant's.
    wrong_values: usize,
}

/// Returns a plant of 100,000 tags of all types that change about once per second.
fn config() -> PlantConfig {
    PlantConfig {
        tags: TAGS,
        first_change_ns: (10_000_000, INTERVAL_NS),
        interval_ns: INTERVAL_NS,
        unix_ns_at_zero: tidewire_lane::unix_ns(),
        ..PlantConfig::default()
    }
}

fn measure(hub: &Arc<Hub>, tags: usize, duration: Duration) -> Result<PlantFigures, Failure> {
    let plant = plant_of(hub)?;
    let begin = Instant::now();
    wait_until(|| plant.board.len() == tags)?;
    // Tags that make trouble deliberately have no value.
    let live_tags = &plant.counters.live_tags;
    wait_until(|| live_tags.load(Ordering::Relaxed) >= TAGS as u64)?;
    let until_all_live_s = begin.elapsed().as_secs_f64();
    let busy = || hub.server.lanes[0].busy_ns.load(Ordering::Relaxed);
    let updates = || plant.counters.updates.load(Ordering::Relaxed);
    let (begin, busy_before, updates_before) = (Instant::now(), busy(), updates());
    std::thread::sleep(duration);
    let count = (updates() - updates_before) as f64;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(PlantFigures {
        tags,
        until_all_live_s,
        seconds,
        updates_per_second: count / seconds,
        lane_ns_per_update: (busy() - busy_before) as f64 / count,
        ..PlantFigures::default()
    })
}

fn wrong_values(plant: &Plant, server: &Server) -> usize {
    let tags = server.plant().tags();
    let is_wrong = |index: &usize| {
        let Some(tag) = tags.name(*index).and_then(|name| plant.board.find(&name)) else {
            return true;
        };
        let state = tag.state();
        let value = Value::from_wire(state.kind, state.bytes.as_slice());
        value != Value::None && tags.value_text(*index) != Some(format!("{value:?}"))
    };
    (0..tags.len()).filter(is_wrong).count()
}

fn plant_of(hub: &Hub) -> Result<&Plant, Failure> {
    let plant = hub.plant.as_deref();
    plant.ok_or_else(|| Failure::running("the hub has no plant"))
}

fn wait_until(condition: impl Fn() -> bool) -> Result<(), Failure> {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() > PATIENCE {
            return Err(Failure::running("the tags did not come in time"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn table(figures: &PlantFigures) -> Table {
    let seconds = format!("{:.2}", figures.until_all_live_s);
    let lane_ns = format!("{:.0}", figures.lane_ns_per_update);
    let rate = grouped(figures.updates_per_second as u64);
    let wrong = figures.wrong_values.to_string();
    let rows = [
        ("tags", grouped(figures.tags as u64)),
        ("until all have a value, s", seconds),
        ("updates a second", rate),
        ("lane, ns an update", lane_ns),
        ("sent by the plant", grouped(figures.sent)),
        ("applied by the hub", grouped(figures.applied)),
        ("last values that are not the plant's", wrong),
    ];
    Table::of_pairs("plant tags, from the peer to the last value", rows)
}

const TAGS: usize = 100_000;
/// One in fourteen tags does not change by itself, so this is at least 100,000 changes per
/// second.
const INTERVAL_NS: u64 = 900_000_000;
const PATIENCE: Duration = Duration::from_secs(120);
