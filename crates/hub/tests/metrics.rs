//! Tests the metrics page of a hub that has executed commands.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use tidewire_hub::{Hub, HubConfig, HubLane, metrics, port};
use tidewire_lane::{LaneConfig, Lanes, Listener};
use tidewire_plant::PlantOptions;

fn page() -> String {
    page_of(HubConfig::default())
}

fn page_of(config: HubConfig) -> String {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), port::RESP).unwrap();
    let address = listener.endpoint().tcp().unwrap();
    let mailboxes = Lanes::mailboxes(1).unwrap();
    let hub = Hub::new(config, mailboxes.clone());
    let lanes = Lanes::start(
        &LaneConfig::default(),
        mailboxes,
        vec![listener],
        hub.server.lanes.clone(),
        |lane| HubLane::new(hub.clone(), lane, None),
    );
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET a\r\nNO\r\nQUIT\r\n").unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    lanes.unwrap().stop();
    metrics(&hub)
}

#[test]
fn every_line_is_one_of_a_metric_that_was_begun() {
    let page = page();
    let mut begun = BTreeSet::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let kinds = ["counter", "gauge", "histogram", "summary"];
            assert!(kinds.contains(&kind), "{line}");
            assert!(begun.insert(name.to_owned()), "{name} is begun twice");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let parts = ["_bucket", "_sum", "_count"].iter();
            let base = parts.filter_map(|part| name.strip_suffix(part)).next();
            let is_begun = |name: &str| begun.contains(name);
            assert!(is_begun(name) || base.is_some_and(is_begun), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}

#[test]
fn dashboard_and_alerts_name_only_metrics_that_there_are() {
    let dashboard = include_str!("../../../ops/grafana/tidewire.json");
    let alerts = include_str!("../../../ops/alerts.yml");
    // A hub with every optional part.
    let page = page_of(HubConfig {
        plant: Some(PlantOptions::new("127.0.0.1:9".parse().unwrap())),
        ..HubConfig::default()
    });
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = |word: &&str| word.starts_with("tidewire_") || word.starts_with("process_");
    for (text, least) in [(dashboard, 15), (alerts, 10)] {
        let words = text.split(|c| !is_part(c)).filter(is_name);
        let names: BTreeSet<&str> = words.collect();
        assert!(names.len() > least, "{names:?}");
        for name in names {
            let there = |line: &str| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            };
            assert!(page.lines().any(there), "there is no metric {name}");
        }
    }
}
