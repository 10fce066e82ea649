//! What a hub is in a cluster.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tidewire_feed::wire::ClusterText;
use tidewire_nats::Settings;

use super::relay::RelayConfig;

/// The place of a hub in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The cluster; a part of each subject and of each stream's name.
    pub name: ClusterName,
    /// This hub, among those of the cluster.
    pub hub: ClusterName,
    /// How NATS is reached.
    pub link: Settings,
    /// The name of this hub's own sources; `None` for a hub that only receives.
    pub source: Option<ClusterName>,
    /// Names of sources that it receives; `*` for any run of characters. Its own is never received.
    pub receive: Vec<String>,
    /// Patterns of live keys that this hub publishes; none for a hub that only receives.
    pub share: Vec<String>,
    /// Names of hubs whose live keys it receives; `*` for any run of characters.
    pub receive_hubs: Vec<String>,
    /// Copies of each stream: 1, 3 or 5.
    pub replicas: usize,
    /// How long the log keeps frames.
    pub log_age: Duration,
    /// Bytes that the log of a source keeps.
    pub log_bytes: u64,
    /// Sources that it publishes again for other sites.
    pub relays: Vec<RelayConfig>,
    /// Writes to topics of other hubs.
    pub writes: WriteConfig,
}

/// Writes between hubs.
#[derive(Clone, Debug)]
pub struct WriteConfig {
    /// Whether other hubs may write to the live keys and tags of this one.
    pub are_taken: bool,
    /// How long a client of this hub waits for the answer of another one.
    pub timeout: Duration,
    /// Whether the writes that this hub takes are noted in the audit stream.
    pub audit: AuditMode,
    /// How long the audit stream keeps lines, if this hub makes it.
    pub audit_age: Duration,
    /// Bytes that it keeps, if this hub makes it.
    pub audit_bytes: u64,
}

/// Whether writes are noted in the audit stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditMode {
    /// They are not.
    Off,
    /// A line for each. A write goes on if the stream cannot be written.
    #[default]
    On,
    /// A line before each and one after it. A write whose first line cannot be stored is refused.
    Required,
}

impl Default for WriteConfig {
    fn default() -> Self {
        Self {
            are_taken: false,
            timeout: Duration::from_secs(15),
            audit: AuditMode::On,
            audit_age: Duration::from_secs(365 * 86_400),
            audit_bytes: 1 << 30,
        }
    }
}

impl ClusterConfig {
    /// Returns whether this hub receives a source.
    pub fn receives(&self, source: &str) -> bool {
        let is_own = self
            .source
            .as_ref()
            .is_some_and(|own| own.as_str() == source);
        !is_own && self.receive.iter().any(|pattern| matches(pattern, source))
    }

    /// Returns whether this hub receives the live keys of another one.
    pub fn receives_hub(&self, hub: &str) -> bool {
        let mut patterns = self.receive_hubs.iter();
        hub != self.hub.as_str() && patterns.any(|pattern| matches(pattern, hub))
    }
}

/// Compares a name with a pattern in which `*` stands for any run of characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(head) else {
        return false;
    };
    // The shortest run that lets the rest match.
    (0..=name.len()).any(|skipped| name.get(skipped..).is_some_and(|name| matches(rest, name)))
}

/// A name that can be a part of a subject and of a stream's name: letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterName(String);

impl ClusterName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part that no cluster's name may have, if this one has it: a stream's name would
    /// be that of another cluster, too. `TW_d_LOG_x_LOG_y` is of the source `y` of the cluster
    /// `d_LOG_x`, or of the source `x_LOG_y` of `d`.
    pub fn part_of_stream(&self) -> Option<&str> {
        let mut parts = self.0.split('_').skip(1);
        parts.find(|part| STREAM_KINDS.contains(part))
    }

    /// Returns the name as frames between hubs have it.
    pub(super) fn to_text(&self) -> ClusterText {
        debug_assert!(self.0.len() <= NAME_LENGTH_MAX, "it has room for each name");
        ClusterText::truncated(&self.0)
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Why a text is no [`ClusterName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no name: 1 to {NAME_LENGTH_MAX} letters, digits, - and _ are expected")]
pub struct NameError(String);

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        match (1..=NAME_LENGTH_MAX).contains(&text.len()) && text.bytes().all(is_part) {
            true => Ok(Self(text.to_owned())),
            false => Err(NameError(text.escape_debug().to_string())),
        }
    }
}

/// What stands between the cluster's name and another one in names of streams.
const STREAM_KINDS: [&str; 4] = ["LOG", "SNAP", "KEYS", "KEYSNAP"];

/// Maximum bytes of a name.
const NAME_LENGTH_MAX: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_letters_digits_and_two_signs() {
        for name in ["a", "plant-1_B", &"x".repeat(48)] {
            assert_eq!(name.parse::<ClusterName>().unwrap().as_str(), name);
        }
        for name in ["", "a.b", "a*", ">", "a b", "é", &"x".repeat(49)] {
            assert!(name.parse::<ClusterName>().is_err(), "{name}");
        }
    }

    /// The hub of a second cluster, whose names made the same stream, took it from the first one.
    #[test]
    fn no_two_clusters_make_a_stream_of_the_same_name() {
        let parts = ["d", "x", "", "LOG", "KEYS", "KEYSNAP", "SNAP", "AUDIT"];
        let mut names: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
        for _ in 0..2 {
            let longer = names
                .iter()
                .flat_map(|name| parts.map(|part| format!("{name}_{part}")));
            names.extend(longer.collect::<Vec<_>>());
            names.sort_unstable();
            names.dedup();
        }
        let names: Vec<ClusterName> = names.iter().filter_map(|name| name.parse().ok()).collect();
        let mut made = std::collections::HashMap::new();
        for cluster in names.iter().filter(|name| name.part_of_stream().is_none()) {
            let mut note = |stream: String, of: String| {
                let other = made.insert(stream.clone(), of.clone());
                assert_eq!(other, None, "{stream} is of {of}, too");
            };
            note(format!("TW_{cluster}_AUDIT"), format!("{cluster}"));
            for (kind, name) in STREAM_KINDS
                .iter()
                .flat_map(|kind| names.iter().map(move |name| (kind, name)))
            {
                note(
                    format!("TW_{cluster}_{kind}_{name}"),
                    format!("{cluster}.{kind}.{name}"),
                );
            }
        }
        for name in ["d_LOG_x", "d_KEYS", "a__SNAP", "prod_KEYSNAP_1"] {
            let name: ClusterName = name.parse().unwrap();
            assert!(name.part_of_stream().is_some(), "{name}");
        }
        for name in ["d_log_x", "KEYS", "LOGS_LOGS", "d-LOG-x"] {
            let name: ClusterName = name.parse().unwrap();
            assert_eq!(name.part_of_stream(), None, "{name}");
        }
    }

    #[test]
    fn patterns_of_sources_match_runs() {
        let cases = [
            ("*", "nasdaq", true),
            ("nas*", "nasdaq", true),
            ("*daq", "nasdaq", true),
            ("n*d*q", "nasdaq", true),
            ("n*d*x", "nasdaq", false),
            ("nasdaq", "nasdaq", true),
            ("nasda", "nasdaq", false),
            ("nasdaq*", "nasdaq", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
