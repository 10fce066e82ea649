//! `[[relay]]`: sources that are published again for another site.

use std::path::PathBuf;

use serde::Deserialize;
use tidewire_feed::server::Pattern;
use tidewire_feed::wire::PatternText;
use tidewire_market::{ClusterConfig, ClusterName, RELAYS_A_HUB_MAX, RelayConfig};
use tidewire_nats::Settings;

use super::login::Login;
use super::{check_cluster, check_servers, inbox};
use crate::config::FilePlace;
use crate::failure::Failure;

/// One table. `docs/sites.md` describes each name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct RelayFile {
    source: String,
    cluster: String,
    #[serde(rename = "as")]
    name: Option<String>,
    hz: Option<u32>,
    full: Vec<String>,
    conflated: Option<Vec<String>>,
    again: bool,
    domain: Option<String>,
    replicas: Option<usize>,
    servers: Option<Vec<String>>,
    credentials: Option<PathBuf>,
    nkey: Option<PathBuf>,
    user: Option<String>,
    password_file: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
}

/// Returns the relays of a hub.
pub(super) fn relays(
    tables: &[RelayFile],
    hub: &ClusterConfig,
    place: &FilePlace,
) -> Result<Vec<RelayConfig>, Failure> {
    if tables.len() > RELAYS_A_HUB_MAX {
        let text = format!("{}: at most {RELAYS_A_HUB_MAX}", place.of("relay"));
        return Err(Failure::usage(text));
    }
    let mut relays: Vec<RelayConfig> = Vec::new();
    for (number, table) in (1..).zip(tables) {
        let fault = |text: String| Failure::usage(format!("{text} ([[relay]] {number})"));
        let relay = table.relay(hub, place).map_err(fault)?;
        let is_same =
            |other: &RelayConfig| (&other.cluster, &other.name) == (&relay.cluster, &relay.name);
        if relays.iter().any(is_same) {
            let (name, cluster) = (&relay.name, &relay.cluster);
            let text = format!("as = '{name}': another relay has this name in '{cluster}'");
            return Err(fault(text));
        }
        relays.push(relay);
    }
    Ok(relays)
}

impl RelayFile {
    fn relay(&self, hub: &ClusterConfig, place: &FilePlace) -> Result<RelayConfig, String> {
        let named = |key: &str, text: &str| {
            let name = text.parse::<ClusterName>();
            name.map_err(|error| format!("{key}: {error}"))
        };
        let source = named("source", &self.source)?;
        let cluster = named("cluster", &self.cluster)?;
        check_cluster(&cluster).map_err(|text| format!("cluster = {text}"))?;
        if cluster == hub.name {
            return Err(format!(
                "cluster = '{cluster}': a relay needs the name of another cluster than the hub's"
            ));
        }
        let name = self.name.as_ref().map(|name| named("as", name));
        let hz = self.hz.unwrap_or(HZ);
        if !(1..=HZ_MAX).contains(&hz) {
            return Err(format!("hz = {hz}: 1 to {HZ_MAX} is expected"));
        }
        let replicas = self.replicas.unwrap_or(hub.replicas);
        if ![1, 3, 5].contains(&replicas) {
            return Err(format!("replicas = {replicas}: 1, 3 or 5 is expected"));
        }
        let domain = self.domain.as_ref().map(|name| named("domain", name));
        let domain = domain.transpose()?.map(|name| name.to_string());
        let all = || vec!["*".to_owned()];
        let conflated = self.conflated.clone().unwrap_or_else(all);
        let link = self.link(hub, &cluster, place)?;
        Ok(RelayConfig {
            name: name.transpose()?.unwrap_or_else(|| source.clone()),
            source,
            cluster,
            link: Settings { domain, ..link },
            hz,
            full: patterns("full", &self.full)?,
            conflated: patterns("conflated", &conflated)?,
            again: self.again,
            replicas,
        })
    }

    /// Returns how NATS is reached: as by the hub, or as the table says.
    fn link(
        &self,
        hub: &ClusterConfig,
        cluster: &ClusterName,
        place: &FilePlace,
    ) -> Result<Settings, String> {
        let login = Login {
            credentials: self.credentials.clone(),
            nkey: self.nkey.clone(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            tls_ca: self.tls_ca.clone(),
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
        };
        let Some(servers) = &self.servers else {
            return match login.is_empty() {
                true => Ok(hub.link.clone()),
                false => Err("a login needs servers, too; without, the hub's is used".to_owned()),
            };
        };
        check_servers(servers).map_err(|error| format!("servers: {error}"))?;
        let text = |failure: Failure| failure.to_string();
        Ok(Settings {
            servers: servers.clone(),
            name: hub.link.name.clone(),
            credentials: login.credentials(place).map_err(text)?,
            tls: login.tls(place).map_err(text)?,
            inbox: inbox(cluster, &hub.hub),
            ..Settings::default()
        })
    }
}

fn patterns(key: &str, texts: &[String]) -> Result<Vec<Pattern>, String> {
    let parsed = texts.iter().map(|text| {
        let text = text.strip_prefix("md:").unwrap_or(text);
        let fault = |error: &dyn std::fmt::Display| format!("{key}: '{text}': {error}");
        let text = PatternText::new(text).map_err(|error| fault(&error))?;
        Pattern::new(text).map_err(|error| fault(&error))
    });
    parsed.collect()
}

/// Newest values a second and symbol, unless the table says otherwise.
const HZ: u32 = 10;
const HZ_MAX: u32 = 50;
