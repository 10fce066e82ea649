//! Names of subjects and streams (`docs/cluster-protocol.md`).

use tidewire_cluster::writes::WriteId;

use super::config::ClusterName;

/// The shard of a source's market data.
pub(super) const SHARD: u32 = 0;
/// The shard of a hub's topics beyond market data.
pub(super) const TOPICS_SHARD: u32 = 1;
/// What the name of a hub as a source begins with. No name of a source has it.
pub(super) const HUB_MARK: char = '@';

/// The names of one source of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Subjects {
    cluster: String,
    source: String,
    shard: u32,
}

/// What a message is about, by its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Log,
    Live,
    Head,
    Page,
}

impl Subjects {
    pub(super) fn new(cluster: &ClusterName, source: &str) -> Self {
        Self {
            cluster: cluster.to_string(),
            source: source.to_owned(),
            shard: SHARD,
        }
    }

    /// Returns the names of a hub's topics beyond market data; `source` is its name as a source.
    pub(super) fn of_topics(cluster: &ClusterName, source: &str) -> Self {
        Self {
            shard: TOPICS_SHARD,
            ..Self::new(cluster, source)
        }
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the subject of frames that the log keeps.
    pub(super) fn log(&self) -> String {
        format!("tw.{}.log.{}.{}", self.cluster, self.source, self.shard)
    }

    /// Returns the subject of frames that no stream keeps.
    pub(super) fn live(&self) -> String {
        format!("tw.{}.live.{}.{}", self.cluster, self.source, self.shard)
    }

    /// Returns the subject of a page of the snapshot.
    pub(super) fn page(&self, page: u32) -> String {
        format!(
            "tw.{}.snap.{}.{}.{page}",
            self.cluster, self.source, self.shard
        )
    }

    /// Returns the subject of the snapshot's head.
    pub(super) fn head(&self) -> String {
        format!(
            "tw.{}.snap.{}.{}.head",
            self.cluster, self.source, self.shard
        )
    }

    /// Returns the pattern of the snapshot's subjects.
    pub(super) fn snapshot(&self) -> String {
        format!("tw.{}.snap.{}.>", self.cluster, self.source)
    }

    /// Returns the pattern of the log's subjects.
    pub(super) fn logs(&self) -> String {
        format!("tw.{}.log.{}.>", self.cluster, self.source)
    }

    /// Returns the name of the stream of the log. Each source has its own: the fence of a frame is
    /// the stream's last sequence, which no other source may move.
    pub(super) fn log_stream(&self) -> String {
        format!("TW_{}_LOG_{}", self.cluster, self.source)
    }

    /// Returns the name of the stream of snapshots.
    pub(super) fn snapshot_stream(&self) -> String {
        format!("TW_{}_SNAP_{}", self.cluster, self.source)
    }

    /// Returns the subject of the lease.
    pub(super) fn lease(&self) -> String {
        format!("$KV.TW_{}.lease.{}", self.cluster, self.source)
    }

    /// Returns the pattern of all leases.
    pub(super) fn leases(&self) -> String {
        format!("$KV.TW_{}.>", self.cluster)
    }

    /// Returns the stream of the bucket that has the leases.
    pub(super) fn lease_stream(&self) -> String {
        format!("KV_TW_{}", self.cluster)
    }
}

/// Returns the patterns of subjects that an edge subscribes to: everything, or what these sources
/// publish.
pub(super) fn received(cluster: &ClusterName, sources: &[String]) -> Vec<String> {
    let is_exact = |source: &String| !source.contains('*');
    let sources: Vec<&str> = match sources.iter().all(is_exact) {
        true => sources.iter().map(String::as_str).collect(),
        false => vec!["*"],
    };
    let patterns = sources.iter().flat_map(|source| {
        let kinds = ["log", "live"].into_iter();
        let streams = kinds.map(move |kind| format!("tw.{cluster}.{kind}.{source}.{SHARD}"));
        let head = format!("tw.{cluster}.snap.{source}.{SHARD}.head");
        streams.chain([head])
    });
    patterns.collect()
}

/// Returns the patterns of subjects of all hubs' topics beyond market data.
pub(super) fn received_topics(cluster: &ClusterName) -> [String; 3] {
    let shard = TOPICS_SHARD;
    [
        format!("tw.{cluster}.log.*.{shard}"),
        format!("tw.{cluster}.live.*.{shard}"),
        format!("tw.{cluster}.snap.*.{shard}.head"),
    ]
}

/// Returns the subject of requests of the hub `edge` to write a topic of `owner`. It names both:
/// which hub may write whose topics is a right of NATS.
pub(super) fn write(cluster: &ClusterName, owner: &str, edge: &str) -> String {
    format!("tw.{cluster}.write.{HUB_MARK}{owner}.{edge}")
}

/// Returns the hub that asks for a write, by the subject of its request.
pub(super) fn parse_write(subject: &str) -> Option<&str> {
    parts_of_write(subject).map(|(_, edge)| edge)
}

/// Returns the hub that is asked for a write, by the subject of the request.
pub(super) fn owner_of_write(subject: &str) -> Option<&str> {
    parts_of_write(subject)?.0.strip_prefix(HUB_MARK)
}

fn parts_of_write(subject: &str) -> Option<(&str, &str)> {
    let mut parts = subject.split('.');
    let (tw, _cluster) = (parts.next()?, parts.next()?);
    let (kind, owner, edge) = (parts.next()?, parts.next()?, parts.next()?);
    let is_write = (tw, kind, parts.next()) == ("tw", "write", None);
    is_write.then_some((owner, edge))
}

/// Returns the pattern of the answers to requests of the hub `edge`, which it alone may hear.
pub(super) fn answers(cluster: &ClusterName, edge: &str) -> String {
    format!("tw.{cluster}.answer.{edge}.>")
}

/// Returns the subject of the answer of `owner` to a request of the hub `edge`: which hub may
/// answer for whom is a right of NATS.
pub(super) fn answer(cluster: &ClusterName, (owner, edge): (&str, &str), id: WriteId) -> String {
    let (session, number) = (id.session, id.number);
    format!("tw.{cluster}.answer.{edge}.{HUB_MARK}{owner}.{session:016x}-{number}")
}

/// Returns whether a request of the hub `edge` may be answered on this subject. A hub that answers
/// anywhere could be made to answer in place of another one. Hubs of earlier versions want answers
/// in inboxes of their own, to which a hub publishes only if its NATS user has the right.
pub(super) fn is_for_answers(
    reply: &str,
    cluster: &ClusterName,
    (owner, edge): (&str, &str),
) -> bool {
    let answers = format!("tw.{cluster}.answer.{edge}.{HUB_MARK}{owner}.");
    reply.starts_with(&answers) || reply.starts_with("_INBOX.")
}

/// Returns the subject of a hub's lines of the audit.
pub(super) fn audit(cluster: &ClusterName, hub: &str) -> String {
    format!("tw.{cluster}.audit.{HUB_MARK}{hub}")
}

/// Returns the pattern of the audit's subjects.
pub(super) fn audits(cluster: &ClusterName) -> String {
    format!("tw.{cluster}.audit.>")
}

/// Returns the name of the audit stream.
pub(super) fn audit_stream(cluster: &ClusterName) -> String {
    format!("TW_{cluster}_AUDIT")
}

/// Returns what a subject is about, and the source; `None` for a subject of another kind.
pub(super) fn parse(subject: &str) -> Option<(Kind, &str)> {
    let mut parts = subject.split('.');
    let (tw, _cluster) = (parts.next()?, parts.next()?);
    let (kind, source, _shard) = (parts.next()?, parts.next()?, parts.next()?);
    let kind = match (kind, parts.next()) {
        ("log", None) => Kind::Log,
        ("live", None) => Kind::Live,
        ("snap", Some("head")) => Kind::Head,
        ("snap", Some(_)) => Kind::Page,
        _ => return None,
    };
    (tw == "tw").then_some((kind, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_found_again_by_their_parts() {
        let cluster: ClusterName = "desk".parse().unwrap();
        let names = Subjects::new(&cluster, "nasdaq");
        let cases = [
            (names.log(), Kind::Log),
            (names.live(), Kind::Live),
            (names.head(), Kind::Head),
            (names.page(7), Kind::Page),
        ];
        for (subject, kind) in cases {
            assert_eq!(parse(&subject), Some((kind, "nasdaq")), "{subject}");
        }
        for subject in [
            "",
            "tw.desk",
            "x.desk.log.a.0",
            "tw.desk.log.a.0.1",
            "$KV.TW_desk.a",
        ] {
            assert_eq!(parse(subject), None, "{subject}");
        }
    }

    #[test]
    fn topics_of_a_hub_are_apart_from_its_sources() {
        let cluster: ClusterName = "desk".parse().unwrap();
        let names = Subjects::of_topics(&cluster, "@a");
        assert_eq!(names.log(), "tw.desk.log.@a.1");
        assert_eq!(names.head(), "tw.desk.snap.@a.1.head");
        assert_eq!(names.log_stream(), "TW_desk_LOG_@a");
        assert_eq!(parse(&names.page(3)), Some((Kind::Page, "@a")));
        assert!(
            "@a".parse::<ClusterName>().is_err(),
            "no source is called so"
        );
    }

    #[test]
    fn a_request_to_write_names_both_hubs() {
        let cluster: ClusterName = "desk".parse().unwrap();
        let subject = write(&cluster, "a", "b");
        assert_eq!(subject, "tw.desk.write.@a.b");
        assert_eq!(parse_write(&subject), Some("b"));
        assert_eq!(owner_of_write(&subject), Some("a"));
        assert_eq!(parse(&subject), None);
        for other in [
            "tw.desk.log.@a.1",
            "tw.desk.write.@a",
            "tw.desk.write.@a.b.c",
        ] {
            assert_eq!(parse_write(other), None, "{other}");
        }
        assert_eq!(audit(&cluster, "a"), "tw.desk.audit.@a");
    }

    /// A hub answered wherever a request asked for it, also in place of another hub.
    #[test]
    fn an_answer_goes_to_the_hub_that_has_asked_and_names_the_one_that_answers() {
        let cluster: ClusterName = "desk".parse().unwrap();
        let id = WriteId {
            epoch: 7,
            session: 0xab,
            number: 12,
        };
        let subject = answer(&cluster, ("a", "b"), id);
        assert_eq!(subject, "tw.desk.answer.b.@a.00000000000000ab-12");
        assert_eq!(answers(&cluster, "b"), "tw.desk.answer.b.>");
        assert!(is_for_answers(&subject, &cluster, ("a", "b")));
        assert!(is_for_answers("_INBOX.x.y", &cluster, ("a", "b")));
        for other in [("a", "c"), ("c", "b"), ("b", "a")] {
            assert!(!is_for_answers(&subject, &cluster, other), "{other:?}");
        }
        for other in ["tw.desk.log.@a.1", "tw.other.answer.b.@a.1", ""] {
            assert!(!is_for_answers(other, &cluster, ("a", "b")), "{other}");
        }
    }

    #[test]
    fn named_sources_are_subscribed_to_alone() {
        let cluster: ClusterName = "desk".parse().unwrap();
        let named = received(&cluster, &["a".to_owned(), "b".to_owned()]);
        assert_eq!(named.len(), 6);
        assert_eq!(named[0], "tw.desk.log.a.0");
        let all = received(&cluster, &["a".to_owned(), "b*".to_owned()]);
        assert_eq!(
            all,
            [
                "tw.desk.log.*.0",
                "tw.desk.live.*.0",
                "tw.desk.snap.*.0.head"
            ]
        );
    }
}
