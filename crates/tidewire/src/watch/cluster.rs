//! The hub's place in a cluster, as `INFO cluster` shows it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::units::{grouped, printable};

/// What a hub shows of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cluster {
    name: String,
    is_linked: bool,
    own: Option<Fields>,
    sources: Vec<Fields>,
    relays: Vec<Fields>,
    /// Sources that are not heard, those without a line included.
    silent: u64,
}

/// The fields of one line, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fields(BTreeMap<String, String>);

impl Cluster {
    /// Finds the cluster among the lines of INFO; `None` for a hub that is in none.
    pub(super) fn parse(info: &str) -> Option<Cluster> {
        let mut cluster = None::<Cluster>;
        for line in info.lines() {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            if name == "cluster_name" {
                let name = value.chars().filter(|letter| !letter.is_control());
                let name = name.take(NAME_MAX).collect();
                cluster.get_or_insert_default().name = name;
            }
            let Some(cluster) = &mut cluster else {
                continue;
            };
            let is_numbered = |prefix: &str| {
                let number = name.strip_prefix(prefix);
                number.is_some_and(|number| number.parse::<u32>().is_ok())
            };
            match name {
                "cluster_link_up" => cluster.is_linked = value == "1",
                "cluster_sources_silent" => cluster.silent = value.parse().unwrap_or(0),
                "cluster_own" => cluster.own = Some(Fields::parse(value)),
                _ if is_numbered("cluster_source") => cluster.add_source(Fields::parse(value)),
                _ if is_numbered("cluster_relay") && cluster.relays.len() < LINES_MAX => {
                    cluster.relays.push(Fields::parse(value));
                }
                _ => {}
            }
        }
        cluster
    }

    fn add_source(&mut self, source: Fields) {
        if self.sources.len() < LINES_MAX {
            self.sources.push(source);
        }
    }

    /// Returns the lines for people: the own source, those that are received, and relays.
    pub(super) fn lines(&self) -> Vec<String> {
        let link = match self.is_linked {
            true => "linked",
            false => "NO LINK",
        };
        let name = printable(&self.name);
        let mut first = format!("cluster {name} · {link} · {} sources", self.sources.len());
        if self.silent > 0 {
            first.push_str(&format!(", {} silent", grouped(self.silent)));
        }
        let mut lines = vec![first];
        lines.extend(self.own.as_ref().map(own));
        lines.extend(self.relays.iter().map(relay));
        lines.extend(self.sources.iter().map(source));
        lines
    }

    /// Returns the object for scripts.
    pub(super) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "link_up": self.is_linked,
            "silent_sources": self.silent,
            "own": self.own.as_ref().map_or(Value::Null, Fields::json),
            "sources": self.sources.iter().map(Fields::json).collect::<Vec<_>>(),
            "relays": self.relays.iter().map(Fields::json).collect::<Vec<_>>(),
        })
    }
}

impl Fields {
    fn parse(text: &str) -> Fields {
        let fields = text.split(',').filter_map(|field| field.split_once('='));
        let own = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
        let fields = fields.map(|(name, value)| (own(name), own(value)));
        Fields(fields.take(FIELDS_MAX).collect())
    }

    fn text(&self, name: &str) -> String {
        self.0
            .get(name)
            .map_or(String::new(), |text| printable(text))
    }

    fn is(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|text| text == "1")
    }

    fn number(&self, name: &str) -> u64 {
        let number = self.0.get(name).and_then(|text| text.parse().ok());
        number.unwrap_or(0)
    }

    /// Returns the age of the newest snapshot, in words.
    fn snapshot(&self) -> String {
        let age = self
            .0
            .get("snapshot_age_ms")
            .and_then(|text| text.parse::<u64>().ok());
        match age {
            None => "no snapshot".to_owned(),
            Some(age) => format!(
                "snapshot {}.{} s old",
                grouped(age / 1_000),
                age % 1_000 / 100
            ),
        }
    }

    fn json(&self) -> Value {
        let fields = self.0.iter().map(|(name, text)| {
            let value = match (name.as_str(), text.parse::<i64>()) {
                ("name" | "source" | "cluster", _) | (_, Err(_)) => json!(text),
                (_, Ok(number)) => json!(number),
            };
            (name.clone(), value)
        });
        Value::Object(fields.collect::<Map<_, _>>())
    }
}

fn own(fields: &Fields) -> String {
    let state = match (fields.is("owner"), fields.number("deposed_by")) {
        (true, _) => "owned here",
        (false, 0) => "standby",
        (false, _) => "DEPOSED",
    };
    format!(
        "  {} {state} · epoch {} · sequence {} · lag {} · {} unacknowledged · {} gaps · {}",
        fields.text("name"),
        fields.number("epoch"),
        grouped(fields.number("sequence")),
        grouped(fields.number("lag")),
        grouped(fields.number("unacknowledged")),
        grouped(fields.number("gaps")),
        fields.snapshot(),
    )
}

fn source(fields: &Fields) -> String {
    let state = match (fields.is("heard"), fields.is("current")) {
        (false, _) => "SILENT",
        (true, true) => "current",
        (true, false) => "behind",
    };
    format!(
        "  {} {state} · epoch {} · sequence {} · lag {} · {} gaps, {} lost · {}",
        fields.text("name"),
        fields.number("epoch"),
        grouped(fields.number("sequence")),
        grouped(fields.number("lag")),
        grouped(fields.number("gaps")),
        grouped(fields.number("lost")),
        fields.snapshot(),
    )
}

fn relay(fields: &Fields) -> String {
    let state = match (fields.is("link"), fields.is("refused"), fields.is("owner")) {
        (false, ..) => "NO LINK",
        (_, true, _) => "REFUSED",
        (.., true) => "relayed",
        (.., false) => "standby",
    };
    format!(
        "  {} → {}/{} {state} · {} Hz · {} symbols · {} bytes in, {} out, {} saved · {} gaps",
        fields.text("source"),
        fields.text("cluster"),
        fields.text("name"),
        fields.number("hz"),
        grouped(fields.number("symbols")),
        grouped(fields.number("bytes_in")),
        grouped(fields.number("bytes_out")),
        grouped(fields.number("bytes_saved")),
        grouped(fields.number("gaps")),
    )
}

/// Lines of each kind that are kept of a reply.
const LINES_MAX: usize = 128;
/// Fields of a line.
const FIELDS_MAX: usize = 64;
/// Letters of the cluster's name.
const NAME_MAX: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "cluster_enabled:0\r\ncluster_name:desk\r\ncluster_link_up:1\r\n\
        cluster_own:name=nasdaq,owner=1,epoch=7,sequence=81250,lag=0,unacknowledged=3,gaps=0,\
        snapshot_age_ms=1234\r\ncluster_sources_silent:1\r\n\
        cluster_relay0:name=us,cluster=london,source=nasdaq,link=1,owner=1,refused=0,hz=10,\
        bytes_saved=5000\r\n\
        cluster_source0:name=cme,heard=1,current=0,epoch=12,lag=5,snapshot_age_ms=-1\r\n\
        cluster_source1:name=old,heard=0,current=1\r\n";

    #[test]
    fn each_source_has_a_line_with_its_state() {
        let lines = Cluster::parse(INFO).unwrap().lines();
        assert_eq!(lines[0], "cluster desk · linked · 2 sources, 1 silent");
        let words = [
            (
                1,
                "nasdaq owned here · epoch 7 · sequence 81,250 · lag 0 · 3 unacknowledged",
            ),
            (1, "snapshot 1.2 s old"),
            (2, "nasdaq → london/us relayed · 10 Hz"),
            (2, "5,000 saved"),
            (3, "cme behind · epoch 12"),
            (3, "no snapshot"),
            (4, "old SILENT"),
        ];
        for (line, words) in words {
            assert!(lines[line].contains(words), "{words}: {}", lines[line]);
        }
    }

    #[test]
    fn scripts_get_numbers_and_names() {
        let json = Cluster::parse(INFO).unwrap().json();
        assert_eq!(json["own"]["sequence"], 81250);
        assert_eq!(json["sources"][0]["snapshot_age_ms"], -1);
        assert_eq!(json["relays"][0]["cluster"], "london");
        assert_eq!(json["link_up"], true);
    }

    #[test]
    fn a_hub_in_no_cluster_has_none_and_a_reply_is_bounded() {
        assert_eq!(Cluster::parse("cluster_enabled:0\r\n"), None);
        let many: String = (0..5_000)
            .map(|number| format!("cluster_source{number}:name=x\u{1b}[2J,heard=1\r\n"))
            .collect();
        let cluster = Cluster::parse(&format!("cluster_name:a\r\n{many}")).unwrap();
        assert_eq!(cluster.lines().len(), 1 + LINES_MAX);
        assert!(!cluster.lines()[1].contains('\u{1b}'));
    }
}
