//! The file of `--cluster`: this hub's place among others.

use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidewire_market::{ClusterConfig, ClusterName};
use tidewire_nats::Settings;
use tidewire_redis::QuorumConfig;

use crate::config::{FilePlace, read_file};
use crate::failure::Failure;

mod login;
mod relay;
mod writes;

use login::Login;
use relay::RelayFile;

/// The TOML file. `docs/cluster.md` describes each name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    cluster: String,
    hub: String,
    servers: Vec<String>,
    domain: Option<String>,
    source: Option<String>,
    receive: Option<Vec<String>>,
    share: Vec<String>,
    receive_hubs: Option<Vec<String>>,
    replicas: Option<usize>,
    log_seconds: Option<u64>,
    log_megabytes: Option<u64>,
    credentials: Option<PathBuf>,
    nkey: Option<PathBuf>,
    user: Option<String>,
    password_file: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    relay: Vec<RelayFile>,
    writes: Option<String>,
    write_seconds: Option<u64>,
    audit: Option<String>,
    audit_days: Option<u64>,
    audit_megabytes: Option<u64>,
    durability: Option<String>,
    keys: Option<String>,
    keys_address: Option<String>,
    keys_snapshot_megabytes: Option<u64>,
}

/// Reads the file: the hub's place among others, and how its keys survive a machine, if they do.
pub(crate) fn read(path: &Path) -> Result<(ClusterConfig, Option<QuorumConfig>), Failure> {
    let (file, place) = read_file::<File>(path)?;
    let cluster = cluster(&file, &place)?;
    let quorum = quorum(&file, &place, &cluster)?;
    Ok((cluster, quorum))
}

fn quorum(
    file: &File,
    place: &FilePlace,
    cluster: &ClusterConfig,
) -> Result<Option<QuorumConfig>, Failure> {
    match file.durability.as_deref() {
        Some("quorum") => {}
        None | Some("local") => {
            let unused = [
                ("keys", file.keys.is_some()),
                ("keys-address", file.keys_address.is_some()),
                (
                    "keys-snapshot-megabytes",
                    file.keys_snapshot_megabytes.is_some(),
                ),
            ];
            if let Some((name, _)) = unused.iter().find(|(_, is_given)| *is_given) {
                let text = format!("{}: it needs durability = \"quorum\"", place.of(name));
                return Err(Failure::usage(text));
            }
            return Ok(None);
        }
        Some(other) => {
            let place = place.of("durability");
            let text = format!("{place} = '{other}': \"quorum\" or \"local\" is expected");
            return Err(Failure::usage(text));
        }
    }
    let group = file.keys.as_deref().unwrap_or("main");
    if let Some(address) = &file.keys_address {
        check_address(address).map_err(|text| {
            let (place, address) = (place.of("keys-address"), address.escape_debug());
            Failure::usage(format!("{place} = '{address}': {text}"))
        })?;
    }
    let megabytes = file.keys_snapshot_megabytes.unwrap_or(SNAPSHOT_MEGABYTES);
    let snapshot_bytes = bytes_of(megabytes, "keys-snapshot-megabytes", place)?;
    Ok(Some(QuorumConfig {
        cluster: cluster.name.to_string(),
        hub: cluster.hub.to_string(),
        group: name_of(group, "keys", place)?.to_string(),
        address: file.keys_address.clone().unwrap_or_default(),
        link: Settings {
            name: format!("{} keys", cluster.link.name),
            ..cluster.link.clone()
        },
        replicas: cluster.replicas,
        snapshot_bytes,
    }))
}

fn cluster(file: &File, place: &FilePlace) -> Result<ClusterConfig, Failure> {
    let needed = |text: &str, name: &str| name_of(text, name, place);
    let replicas = file.replicas.unwrap_or(1);
    if ![1, 3, 5].contains(&replicas) {
        let text = format!(
            "{} = {replicas}: 1, 3 or 5 is expected",
            place.of("replicas")
        );
        return Err(Failure::usage(text));
    }
    check_servers(&file.servers).map_err(|text| {
        let place = place.of("servers");
        Failure::usage(format!("{place}: {text}"))
    })?;
    check_patterns(file, place)?;
    let source = file.source.as_deref();
    let hub = needed(&file.hub, "hub")?;
    let name = needed(&file.cluster, "cluster")?;
    check_cluster(&name)
        .map_err(|text| Failure::usage(format!("{} = {text}", place.of("cluster"))))?;
    let domain = file.domain.as_deref();
    let domain = domain.map(|name| needed(name, "domain")).transpose()?;
    let login = file.login();
    let mut config = ClusterConfig {
        source: source.map(|name| needed(name, "source")).transpose()?,
        receive: file.receive.clone().unwrap_or_else(|| vec!["*".to_owned()]),
        share: file.share.clone(),
        receive_hubs: file
            .receive_hubs
            .clone()
            .unwrap_or_else(|| vec!["*".to_owned()]),
        replicas,
        log_age: Duration::from_secs(number_of(
            file.log_seconds.unwrap_or(LOG_SECONDS),
            SECONDS_MAX,
            ("log-seconds", place),
        )?),
        log_bytes: bytes_of(
            file.log_megabytes.unwrap_or(LOG_MEGABYTES),
            "log-megabytes",
            place,
        )?,
        link: Settings {
            servers: file.servers.clone(),
            name: format!("tidewire {hub}"),
            credentials: login.credentials(place)?,
            tls: login.tls(place)?,
            inbox: inbox(&name, &hub),
            domain: domain.map(|name| name.to_string()),
            ..Settings::default()
        },
        name,
        hub,
        relays: Vec::new(),
        writes: writes::writes(file, place)?,
    };
    config.relays = relay::relays(&file.relay, &config, place)?;
    Ok(config)
}

/// Returns what subjects begin with on which NATS answers a hub of a cluster. Its user alone may
/// subscribe to them: with answers of another hub, it could read them, and guess the next ones.
fn inbox(cluster: &ClusterName, hub: &ClusterName) -> String {
    format!("_INBOX.{cluster}.{hub}")
}

/// Returns what is wrong with an address that clients are told.
fn check_address(address: &str) -> Result<(), &'static str> {
    let expected = "HOST:PORT is expected, as clients reach this hub";
    let (host, port) = address.rsplit_once(':').ok_or(expected)?;
    let is_ipv6 = host.starts_with('[') && host.ends_with(']');
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_named = !host.is_empty() && host.bytes().all(is_host);
    let is_numbered = is_ipv6 && host[1..host.len() - 1].parse::<Ipv6Addr>().is_ok();
    if !(is_named || is_numbered) || !matches!(port.parse::<u16>(), Ok(1..)) {
        return Err(expected);
    }
    match address.len() <= ADDRESS_LENGTH_MAX {
        true => Ok(()),
        false => Err("at most 255 bytes are expected"),
    }
}

fn number_of(number: u64, max: u64, (name, place): (&str, &FilePlace)) -> Result<u64, Failure> {
    if (1..=max).contains(&number) {
        return Ok(number);
    }
    let place = place.of(name);
    let text = format!("{place} = {number}: 1 to {max} is expected");
    Err(Failure::usage(text))
}

fn bytes_of(megabytes: u64, name: &str, place: &FilePlace) -> Result<u64, Failure> {
    Ok(number_of(megabytes, MEGABYTES_MAX, (name, place))? << 20)
}

/// Returns what is wrong with addresses of servers.
fn check_servers(servers: &[String]) -> Result<(), String> {
    if servers.is_empty() {
        return Err("at least one is needed, such as nats://127.0.0.1:4222".to_owned());
    }
    servers.iter().try_for_each(|server| {
        let fault = |error| format!("'{}': {error}", server.escape_debug());
        tidewire_nats::check_address(server).map_err(fault)
    })
}

/// Checks the patterns of names of sources and hubs: one that matches no name is a mistake.
fn check_patterns(file: &File, place: &FilePlace) -> Result<(), Failure> {
    let lists = [
        ("receive", &file.receive),
        ("receive-hubs", &file.receive_hubs),
    ];
    for (key, list) in lists {
        for pattern in list.iter().flatten() {
            // A run of characters may be one.
            let name = pattern.replace('*', "x");
            if name.parse::<ClusterName>().is_err() {
                let (key, pattern) = (place.of(key), pattern.escape_debug());
                let text = "letters, digits, -, _ and * are expected";
                return Err(Failure::usage(format!("{key}: '{pattern}': {text}")));
            }
        }
    }
    Ok(())
}

impl File {
    fn login(&self) -> Login {
        Login {
            credentials: self.credentials.clone(),
            nkey: self.nkey.clone(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            tls_ca: self.tls_ca.clone(),
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
        }
    }
}

fn name_of(text: &str, name: &str, place: &FilePlace) -> Result<ClusterName, Failure> {
    text.parse()
        .map_err(|error| Failure::usage(format!("{}: {error}", place.of(name))))
}

/// Returns what is wrong with a name as that of a cluster.
fn check_cluster(name: &ClusterName) -> Result<(), String> {
    name.part_of_stream().map_or(Ok(()), |part| {
        Err(format!(
            "'{name}': a cluster's name may not have the part '{part}' behind a '_', because its \
             streams would have the names of another cluster's; choose another name"
        ))
    })
}

/// How long the log keeps frames, unless the file says otherwise.
const LOG_SECONDS: u64 = 600;
/// How much the log keeps of a source, unless the file says otherwise.
const LOG_MEGABYTES: u64 = 1_024;

/// 100 years, and 1 PiB.
const SECONDS_MAX: u64 = 36_500 * 86_400;
const MEGABYTES_MAX: u64 = 1 << 30;
/// What a message of the stream KEYS takes.
const ADDRESS_LENGTH_MAX: usize = 255;

/// How many changes of keys there are between two snapshots, unless the file says otherwise.
const SNAPSHOT_MEGABYTES: u64 = 256;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use tidewire_market::AuditMode;

    fn parsed(text: &str) -> Result<ClusterConfig, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidewire-cluster-file-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let config = read(&path);
        std::fs::remove_file(&path).unwrap();
        config
            .map(|(config, _)| config)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_shortest_file_is_an_edge_that_receives_everything() {
        let text = "cluster = 'desk'\nhub = 'a'\nservers = ['nats://127.0.0.1:4222']\n";
        let config = parsed(text).unwrap();
        assert!(config.source.is_none());
        assert!(config.receives("nasdaq"));
        assert_eq!(config.replicas, 1);
    }

    /// Two clusters made one stream, and the later one took it from the other.
    #[test]
    fn a_cluster_whose_streams_would_be_those_of_another_one_is_refused() {
        let rest = "hub = 'a'\nservers = ['nats://127.0.0.1:4222']\nsource = 'x_LOG_y'\n";
        let error = parsed(&format!("cluster = 'd_LOG_x'\n{rest}")).unwrap_err();
        assert!(
            error.contains("'d_LOG_x'") && error.contains("'LOG'"),
            "{error}"
        );
        assert!(parsed(&format!("cluster = 'd_log_x'\n{rest}")).is_ok());
        let relay = "[[relay]]\nsource = 'nasdaq'\ncluster = 'far_KEYS'\n";
        let error = parsed(&format!("cluster = 'd'\n{rest}{relay}")).unwrap_err();
        assert!(error.contains("'far_KEYS'"), "{error}");
    }

    #[test]
    fn writes_are_taken_only_if_the_file_says_so() {
        let base = "cluster = 'desk'\nhub = 'a'\nservers = ['nats://127.0.0.1:4222']\n";
        let usual = parsed(base).unwrap().writes;
        assert!(!usual.are_taken);
        assert_eq!((usual.timeout.as_secs(), usual.audit), (15, AuditMode::On));
        let text = format!(
            "{base}share = ['mx:*']\nwrites = 'on'\nwrite-seconds = 3\naudit = 'required'\n\
             audit-days = 2\naudit-megabytes = 5\n"
        );
        let writes = parsed(&text).unwrap().writes;
        assert!(writes.are_taken);
        assert_eq!(
            (writes.timeout.as_secs(), writes.audit),
            (3, AuditMode::Required)
        );
        assert_eq!(
            (writes.audit_age.as_secs(), writes.audit_bytes),
            (172_800, 5 << 20)
        );
    }

    #[test]
    fn faults_name_the_line_and_what_is_expected() {
        let base = "cluster = 'desk'\nhub = 'a'\nservers = ['nats://127.0.0.1:4222']\n";
        let cases = [
            ("cluster = 'a.b'\nhub = 'a'\nservers = ['x']", "is no name"),
            ("cluster = 'a'\nhub = 'a'", "at least one is needed"),
            (&base.replace("nats:", "http:"), "nats:// or tls://"),
            (&base.replace("4222", "99999"), "invalid port"),
            (&format!("{base}receive = ['nas?aq']"), "receive: 'nas?aq'"),
            (&format!("{base}receive = ['a.b']"), "and * are expected"),
            (&format!("{base}receive-hubs = ['']"), "receive-hubs: ''"),
            (&format!("{base}password-file = 'x'"), "user is needed, too"),
            (&format!("{base}replicas = 2"), "1, 3 or 5 is expected"),
            (&format!("{base}sourc = 'x'"), "line 4"),
            (
                &format!("{base}durability = 'x'"),
                "\"quorum\" or \"local\"",
            ),
            (&format!("{base}keys = 'x'"), "needs durability"),
            (
                &format!("{base}keys-snapshot-megabytes = 5"),
                "needs durability",
            ),
            (&format!("{base}log-megabytes = 0"), "1 to 1073741824"),
            (&format!("{base}log-seconds = 0"), "1 to 3153600000"),
            (&format!("{base}write-seconds = 0"), "1 to 3600"),
            (&format!("{base}audit-days = 0"), "1 to 36500"),
            (&format!("{base}audit-megabytes = 0"), "1 to 1073741824"),
            (&format!("{base}writes = 'on'"), "it needs share"),
            (&format!("{base}writes = 'yes'"), "\"on\" or \"off\""),
            (&format!("{base}audit = 'must'"), "\"required\""),
            (&format!("{base}tls-cert = 'x'"), "tls-key is needed"),
            (&format!("{base}user = 'x'"), "password-file is needed"),
            (&format!("{base}user = 'x'\nnkey = 'y'"), "only one of"),
            (&format!("{base}nkey = '/nowhere/at/all'"), "cannot read"),
        ];
        for (text, says) in cases {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    /// 0 megabytes counted as 1, and clients were told an address that was none.
    #[test]
    fn settings_of_keys_that_cannot_be_are_refused_at_the_start() {
        let base = "cluster = 'desk'\nhub = 'a'\nservers = ['nats://127.0.0.1:4222']\n\
                    durability = 'quorum'\n";
        for address in [
            "",
            "a",
            "a:",
            ":6379",
            "a:0",
            "a:65536",
            "a b:1",
            "fe80::1:6379",
            "[x]:1",
            "a:1:2",
        ] {
            let error = parsed(&format!("{base}keys-address = '{address}'")).unwrap_err();
            assert!(
                error.contains("HOST:PORT is expected"),
                "{address}: {error}"
            );
        }
        let long = format!("{}:6379", "a".repeat(251));
        let error = parsed(&format!("{base}keys-address = '{long}'")).unwrap_err();
        assert!(error.contains("at most 255 bytes"), "{error}");
        for address in ["a:6379", "10.0.0.1:6379", "[::1]:1", "hub-1.a_b:65535"] {
            parsed(&format!("{base}keys-address = '{address}'")).unwrap();
        }
        for megabytes in [0, u64::MAX >> 1] {
            let line = format!("{base}keys-snapshot-megabytes = {megabytes}");
            let error = parsed(&line).unwrap_err();
            assert!(error.contains("1 to 1073741824 is expected"), "{error}");
        }
    }

    #[test]
    fn a_relay_has_the_hubs_link_or_one_of_its_own() {
        let base = "cluster = 'desk'\nhub = 'a'\nservers = ['nats://127.0.0.1:4222']\n";
        let text = format!(
            "{base}[[relay]]\nsource = 'nasdaq'\ncluster = 'london'\ndomain = 'london'\n\
             [[relay]]\nsource = 'nasdaq'\ncluster = 'paris'\nas = 'us'\nhz = 2\n\
             full = ['A*']\nservers = ['nats://127.0.0.2:4222']\n"
        );
        let relays = parsed(&text).unwrap().relays;
        assert_eq!(relays[0].link.servers, ["nats://127.0.0.1:4222"]);
        assert_eq!(relays[0].link.domain.as_deref(), Some("london"));
        assert_eq!((relays[0].name.as_str(), relays[0].hz), ("nasdaq", 10));
        assert_eq!(relays[1].link.servers, ["nats://127.0.0.2:4222"]);
        assert_eq!((relays[1].name.as_str(), relays[1].hz), ("us", 2));
        assert_eq!((relays[1].full.len(), relays[1].conflated.len()), (1, 1));
    }

    #[test]
    fn faults_of_relays_name_the_relay() {
        let base = "cluster = 'desk'\nhub = 'a'\nservers = ['nats://127.0.0.1:4222']\n";
        let relay = "[[relay]]\nsource = 'nasdaq'\ncluster = 'london'\n";
        let cases = [
            (format!("{relay}{relay}"), "another relay has this name"),
            (
                format!("{relay}hz = 51"),
                "1 to 50 is expected ([[relay]] 1)",
            ),
            (format!("{relay}hz = 0"), "1 to 50 is expected"),
            (format!("{relay}hertz = 5"), "hertz"),
            (format!("{relay}user = 'x'"), "needs servers"),
            (
                format!("{relay}servers = ['http://a']"),
                "tls:// is expected ([[relay]] 1)",
            ),
            (
                relay.replace("london", "desk"),
                "another cluster than the hub's",
            ),
            (relay.replace("nasdaq", "n.q"), "source: 'n.q' is no name"),
            (relay.repeat(17), "at most 16"),
        ];
        for (text, says) in cases {
            let error = parsed(&format!("{base}{text}")).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn no_login_is_half_given() {
        let base = "cluster = 'desk'\nhub = 'a'\nservers = ['nats://127.0.0.1:4222']\n";
        let cases = [(&format!("{base}tls-key = 'x'"), "tls-cert is needed")];
        for (text, says) in cases {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
