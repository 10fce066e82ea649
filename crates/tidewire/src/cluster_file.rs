//! The file of `--cluster`: this hub's place among others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidewire_market::{ClusterConfig, ClusterName};
use tidewire_nats::Settings;

use crate::config::{FilePlace, read_file};
use crate::failure::Failure;

mod login;
mod relay;

use login::Login;
use relay::RelayFile;

/// The TOML file. `docs/cluster.md` describes each name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    cluster: String,
    hub: String,
    servers: Vec<String>,
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
}

/// Reads the file.
pub(crate) fn read(path: &Path) -> Result<ClusterConfig, Failure> {
    let (file, place) = read_file::<File>(path)?;
    let needed = |text: &str, name: &str| name_of(text, name, &place);
    let replicas = file.replicas.unwrap_or(1);
    if ![1, 3, 5].contains(&replicas) {
        let text = format!(
            "{} = {replicas}: 1, 3 or 5 is expected",
            place.of("replicas")
        );
        return Err(Failure::usage(text));
    }
    if file.servers.is_empty() {
        let place = place.of("servers");
        let text = format!("{place}: at least one is needed, such as nats://127.0.0.1:4222");
        return Err(Failure::usage(text));
    }
    let source = file.source.as_deref();
    let hub = needed(&file.hub, "hub")?;
    let login = file.login();
    let mut config = ClusterConfig {
        name: needed(&file.cluster, "cluster")?,
        source: source.map(|name| needed(name, "source")).transpose()?,
        receive: file.receive.clone().unwrap_or_else(|| vec!["*".to_owned()]),
        share: file.share.clone(),
        receive_hubs: file
            .receive_hubs
            .clone()
            .unwrap_or_else(|| vec!["*".to_owned()]),
        replicas,
        log_age: Duration::from_secs(file.log_seconds.unwrap_or(LOG_SECONDS).max(1)),
        log_bytes: file.log_megabytes.unwrap_or(LOG_MEGABYTES).max(1) << 20,
        link: Settings {
            servers: file.servers.clone(),
            name: format!("tidewire {hub}"),
            credentials: login.credentials(&place)?,
            tls: login.tls(&place)?,
            ..Settings::default()
        },
        hub,
        relays: Vec::new(),
    };
    config.relays = relay::relays(&file.relay, &config, &place)?;
    Ok(config)
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

/// How long the log keeps frames, unless the file says otherwise.
const LOG_SECONDS: u64 = 600;
/// How much the log keeps of a source, unless the file says otherwise.
const LOG_MEGABYTES: u64 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<ClusterConfig, String> {
        let name = format!(
            "tidewire-cluster-file-{}-{:x}",
            std::process::id(),
            text.len()
        );
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let config = read(&path);
        std::fs::remove_file(&path).unwrap();
        config.map_err(|error| error.to_string())
    }

    #[test]
    fn the_shortest_file_is_an_edge_that_receives_everything() {
        let text = "cluster = 'desk'\nhub = 'a'\nservers = ['nats://127.0.0.1:4222']\n";
        let config = parsed(text).unwrap();
        assert!(config.source.is_none());
        assert!(config.receives("nasdaq"));
        assert_eq!(config.replicas, 1);
    }

    #[test]
    fn faults_name_the_line_and_what_is_expected() {
        let base = "cluster = 'desk'\nhub = 'a'\nservers = ['nats://127.0.0.1:4222']\n";
        let cases = [
            ("cluster = 'a.b'\nhub = 'a'\nservers = ['x']", "is no name"),
            ("cluster = 'a'\nhub = 'a'", "at least one is needed"),
            (&format!("{base}replicas = 2"), "1, 3 or 5 is expected"),
            (&format!("{base}sourc = 'x'"), "line 4"),
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
            (format!("{relay}full = ['[']"), "full: '['"),
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
