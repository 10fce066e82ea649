//! Checks names, order and form of everything in INFO and on the metrics page. Only values may
//! differ from the files in `counters/`. To add a counter to these files, set
//! `TIDEWIRE_ACCEPT_COUNTERS` and run the test once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use tidewire_hub::{Hub, HubConfig, HubLane, metrics, port};
use tidewire_lane::{LaneConfig, Lanes, Listener};
use tidewire_plant::PlantOptions;

/// Returns the replies of a hub with a plant to `requests`, and its metrics page.
fn answers(requests: &str) -> (String, String) {
    let config = HubConfig {
        plant: Some(PlantOptions::new("127.0.0.1:9".parse().unwrap())),
        ..HubConfig::default()
    };
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
    client.write_all(requests.as_bytes()).unwrap();
    client.write_all(b"QUIT\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    lanes.unwrap().stop();
    (text, metrics(&hub))
}

/// Returns INFO without values; of `a=1,b=2` the names are kept. The number of threads is the
/// test's own.
fn info_form(text: &str) -> String {
    let mut form = String::new();
    for line in text.lines().filter(|line| !line.starts_with("thread")) {
        if line.starts_with('#') {
            form += &format!("{line}\n");
        } else if let Some((name, value)) = line.split_once(':') {
            let parts = value.split(',').filter_map(|part| part.split_once('='));
            let names: Vec<&str> = parts.map(|(name, _)| name).collect();
            form += &format!("{name}:{}\n", names.join(","));
        }
    }
    form
}

/// Returns the metrics page without values. The number of threads is the test's own.
fn page_form(page: &str) -> String {
    let is_thread = |line: &&str| line.starts_with("tidewire_thread");
    let lines = page.lines().filter(|line| !is_thread(line));
    let form = lines.map(|line| match line.starts_with('#') {
        true => line,
        false => line.rsplit_once(' ').unwrap().0,
    });
    form.map(|line| format!("{line}\n")).collect()
}

fn check(file: &str, form: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/counters")
        .join(file);
    if std::env::var_os("TIDEWIRE_ACCEPT_COUNTERS").is_some() {
        std::fs::write(&path, form).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    let rows = expected.lines().zip(form.lines());
    for (number, (expected, found)) in rows.enumerate() {
        assert_eq!(expected, found, "{file}, line {}", number + 1);
    }
    assert_eq!(expected.lines().count(), form.lines().count(), "{file}");
}

#[test]
fn info_and_the_page_of_metrics_keep_their_form() {
    let requests = "SET a 1\r\nHSET h f v\r\nGET a\r\nNO\r\nINFO everything debug\r\n";
    let (info, page) = answers(requests);
    check("info.txt", &info_form(&info));
    check("metrics.txt", &page_form(&page));
}

#[test]
fn sections_are_shown_by_default_with_all_or_when_they_are_asked_for() {
    let headings = |request: &str| {
        let (text, _) = answers(&format!("{request}\r\n"));
        let found = text.lines().filter_map(|line| line.strip_prefix("# "));
        found.collect::<Vec<_>>().join(" ")
    };
    let default = "Server Clients Memory Persistence Stats TLS Threads Replication CPU Modules \
                   Errorstats Cluster Keyspace Lanes Topics Web Feed Plant";
    assert_eq!(headings("INFO"), default);
    assert_eq!(headings("INFO default"), default);
    assert_eq!(headings("INFO plant DEBUG cpu"), "CPU Debug Plant");
    assert_eq!(headings("INFO nothing"), "");
}

#[test]
fn a_replica_tells_of_its_master() {
    let request =
        "REPLICAOF 127.0.0.1 9\r\nCONFIG SET min-replicas-to-write 1\r\nINFO replication\r\n";
    let (info, _) = answers(request);
    check("info-replica.txt", &info_form(&info));
}
