//! The file of `--cluster`: this hub's place among others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidewire_market::{ClusterConfig, ClusterName};
use tidewire_nats::{Credentials, Settings, TlsFiles};
use tidewire_redis::QuorumConfig;

use crate::config::{FilePlace, read_file};
use crate::failure::Failure;

/// The TOML file. `docs/cluster.md` describes each name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    cluster: String,
    hub: String,
    servers: Vec<String>,
    source: Option<String>,
    receive: Option<Vec<String>>,
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
            let unused = [("keys", &file.keys), ("keys-address", &file.keys_address)];
            if let Some((name, _)) = unused.iter().find(|(_, value)| value.is_some()) {
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
        snapshot_bytes: file
            .keys_snapshot_megabytes
            .unwrap_or(SNAPSHOT_MEGABYTES)
            .max(1)
            << 20,
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
    if file.servers.is_empty() {
        let place = place.of("servers");
        let text = format!("{place}: at least one is needed, such as nats://127.0.0.1:4222");
        return Err(Failure::usage(text));
    }
    let source = file.source.as_deref();
    let hub = needed(&file.hub, "hub")?;
    Ok(ClusterConfig {
        name: needed(&file.cluster, "cluster")?,
        source: source.map(|name| needed(name, "source")).transpose()?,
        receive: file.receive.clone().unwrap_or_else(|| vec!["*".to_owned()]),
        replicas,
        log_age: Duration::from_secs(file.log_seconds.unwrap_or(LOG_SECONDS).max(1)),
        log_bytes: file.log_megabytes.unwrap_or(LOG_MEGABYTES).max(1) << 20,
        link: Settings {
            servers: file.servers.clone(),
            name: format!("tidewire {hub}"),
            credentials: credentials(file, place)?,
            tls: tls(file, place)?,
            ..Settings::default()
        },
        hub,
    })
}

fn name_of(text: &str, name: &str, place: &FilePlace) -> Result<ClusterName, Failure> {
    text.parse()
        .map_err(|error| Failure::usage(format!("{}: {error}", place.of(name))))
}

fn credentials(file: &File, place: &FilePlace) -> Result<Credentials, Failure> {
    let line = |path: &Path, name: &str| {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let path = path.display();
            Failure::usage(format!("{}: cannot read {path}: {error}", place.of(name)))
        })?;
        Ok::<_, Failure>(text.lines().next().unwrap_or_default().trim().to_owned())
    };
    match (&file.credentials, &file.nkey, &file.user) {
        (None, None, None) => Ok(Credentials::None),
        (Some(path), None, None) => Ok(Credentials::File(path.clone())),
        (None, Some(path), None) => Ok(Credentials::Nkey(line(path, "nkey")?)),
        (None, None, Some(user)) => {
            let Some(path) = &file.password_file else {
                let text = format!("{}: password-file is needed, too", place.of("user"));
                return Err(Failure::usage(text));
            };
            let password = line(path, "password-file")?;
            Ok(Credentials::Password(user.clone(), password))
        }
        _ => {
            let text = "only one of credentials, nkey and user is possible";
            Err(Failure::usage(format!(
                "{}: {text}",
                place.of("credentials")
            )))
        }
    }
}

fn tls(file: &File, place: &FilePlace) -> Result<TlsFiles, Failure> {
    let own = match (&file.tls_cert, &file.tls_key) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (None, None) => None,
        (Some(_), None) => {
            let text = format!("{}: tls-key is needed, too", place.of("tls-cert"));
            return Err(Failure::usage(text));
        }
        (None, Some(_)) => {
            let text = format!("{}: tls-cert is needed, too", place.of("tls-key"));
            return Err(Failure::usage(text));
        }
    };
    // Who gives files for TLS does not want a link without it.
    let is_required = own.is_some() || file.tls_ca.is_some();
    Ok(TlsFiles {
        authorities: file.tls_ca.clone(),
        own,
        is_required,
    })
}

/// How long the log keeps frames, unless the file says otherwise.
const LOG_SECONDS: u64 = 600;
/// How much the log keeps of a source, unless the file says otherwise.
const LOG_MEGABYTES: u64 = 1_024;

/// How many changes of keys there are between two snapshots, unless the file says otherwise.
const SNAPSHOT_MEGABYTES: u64 = 256;

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

    #[test]
    fn faults_name_the_line_and_what_is_expected() {
        let base = "cluster = 'desk'\nhub = 'a'\nservers = ['nats://127.0.0.1:4222']\n";
        let cases = [
            ("cluster = 'a.b'\nhub = 'a'\nservers = ['x']", "is no name"),
            ("cluster = 'a'\nhub = 'a'", "at least one is needed"),
            (&format!("{base}replicas = 2"), "1, 3 or 5 is expected"),
            (&format!("{base}sourc = 'x'"), "line 4"),
            (
                &format!("{base}durability = 'x'"),
                "\"quorum\" or \"local\"",
            ),
            (&format!("{base}keys = 'x'"), "needs durability"),
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
}
