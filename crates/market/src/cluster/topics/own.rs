//! The topics that this hub publishes.

use std::collections::VecDeque;
use std::sync::Arc;

use tidewire_cluster::{OwnTopics, Times};
use tidewire_fanout::{Changed, TagParts};
use tidewire_feed::wire::{TagHead, TopicKind};
use tidewire_keyspace::glob;
use tidewire_lane::unix_ns;
use tidewire_nats::Link;

use super::SharedTopics;
use crate::cluster::config::ClusterConfig;
use crate::cluster::outgoing::{Outgoing, Stream};
use crate::cluster::requests::Requests;
use crate::cluster::subjects::Subjects;
use crate::session_id::new_session_id;

/// Names that are looked at in one turn.
const NAMES_A_TURN: usize = 1_024;

/// The sending side.
pub(super) struct Own {
    shared: SharedTopics,
    patterns: Vec<Vec<u8>>,
    topics: OwnTopics,
    pub(super) outgoing: Outgoing,
    /// Names of which each may have changed.
    unsure: VecDeque<Arc<[u8]>>,
    /// Whether keys have been complete: before, an owner would have an empty snapshot.
    has_opened: bool,
    is_open: bool,
}

impl Own {
    pub(super) fn new(config: &ClusterConfig, own_name: &str, shared: SharedTopics) -> Self {
        let session = new_session_id();
        let subjects = Subjects::of_topics(&config.name, own_name);
        Self {
            shared,
            patterns: config
                .share
                .iter()
                .map(|pattern| pattern.as_bytes().to_vec())
                .collect(),
            topics: OwnTopics::new(session),
            outgoing: Outgoing::new(config, subjects, session, 0),
            unsure: VecDeque::new(),
            has_opened: false,
            is_open: false,
        }
    }

    /// Returns when names that have changed are to be looked at: what has come since the last
    /// frame waits for more.
    pub(super) fn due_ns(&self) -> u64 {
        match self.outgoing.next_flush_ns() {
            u64::MAX => 0,
            flush_ns => flush_ns,
        }
    }

    /// Looks at names of which each may have changed.
    pub(super) fn look_at_some(&mut self, is_open: bool) {
        if is_open != std::mem::replace(&mut self.is_open, is_open) && !is_open {
            self.unsure = self.topics.names().map(Arc::from).collect();
        }
        for _ in 0..NAMES_A_TURN {
            let Some(name) = self.unsure.pop_front() else {
                self.has_opened |= is_open;
                return;
            };
            self.look(&name, true);
        }
    }

    /// Takes over what has changed.
    pub(super) fn changed(&mut self, changed: &Changed) {
        debug_assert!(self.is_open, "no name is taken before");
        if changed.all {
            let mut names: Vec<Arc<[u8]>> = self.topics.names().map(Arc::from).collect();
            let is_new = |name: &[u8]| self.is_shared(name) && self.topics.get(name).is_none();
            self.shared.keys.own_names(&is_new, &mut names);
            if let Some(tags) = &self.shared.tags {
                tags.tag_names(&is_new, &mut names);
            }
            self.unsure = names.into();
        }
        for name in &changed.names {
            if self.is_shared(name) {
                self.look(name, false);
            }
        }
    }

    fn is_shared(&self, name: &[u8]) -> bool {
        let mut patterns = self.patterns.iter();
        patterns.any(|pattern| glob::matches(pattern, name))
    }

    /// Publishes the present value of a key, or that it is gone. `is_unsure`: only if it differs.
    fn look(&mut self, name: &[u8], is_unsure: bool) {
        let topics = &mut self.topics;
        if !self.is_open {
            topics.remove(name, unix_ns());
            return;
        }
        let mut publish = |kind, value: Option<&[u8]>| match value {
            Some(value) if is_unsure && topics.get(name) == Some((kind, value)) => {}
            Some(value) => {
                topics.set(name, kind, value, unix_ns());
            }
            None => {
                topics.remove(name, unix_ns());
            }
        };
        match &self.shared.tags {
            Some(tags) if name.starts_with(TAG_PREFIX) => tags.tag_state(name, &mut |parts| {
                let bytes = parts.map(encoded);
                publish(TopicKind::Tag, bytes.as_deref());
            }),
            _ => {
                let mut publish_value = |value: Option<&[u8]>| publish(TopicKind::Value, value);
                self.shared.keys.own_value(name, &mut publish_value);
            }
        }
    }

    /// Does what is due. Returns whether more is ready.
    pub(super) fn turn(&mut self, link: (&Link, &mut Requests), times: Times) -> bool {
        let more = self.has_opened
            && self
                .outgoing
                .turn(Stream::Topics(&self.topics), link, times);
        more || !self.unsure.is_empty()
    }

    /// Ends a reign whose time is over, while there is no link. Returns whether names wait.
    pub(super) fn turn_without_link(&mut self, now_ns: u64) -> bool {
        let stream = Stream::Topics(&self.topics);
        self.outgoing.turn_without_link(stream, now_ns);
        !self.unsure.is_empty()
    }

    pub(super) fn end(&mut self, link: (&Link, &mut Requests), times: Times) {
        self.outgoing.end(Stream::Topics(&self.topics), link, times);
    }

    pub(super) fn deadline_ns(&self) -> u64 {
        if !self.unsure.is_empty() {
            return 0;
        }
        match self.has_opened {
            true => self.outgoing.deadline_ns(),
            false => u64::MAX,
        }
    }

    /// Returns the reign of this hub over its topics at this moment, if it has one.
    pub(super) fn reign(&self, now_ns: u64) -> Option<u64> {
        self.outgoing.reign(now_ns)
    }

    /// Returns what kind of topic it has under a name; `None` if it shares none.
    pub(super) fn kind(&self, name: &[u8]) -> Option<TopicKind> {
        self.topics.get(name).map(|(kind, _)| kind)
    }

    /// Returns why one of its streams cannot be used; empty if all can.
    pub(super) fn fault(&self) -> &str {
        self.outgoing.fault()
    }

    /// Returns the line of INFO.
    pub(super) fn line(&self, now_ns: u64) -> String {
        format!(
            "{},topics={},left_out={}",
            self.outgoing.figures(now_ns),
            self.topics.topics(),
            self.topics.left_out(),
        )
    }
}

/// What the names of plant tags begin with.
const TAG_PREFIX: &[u8] = b"mx:";

/// Returns a tag's state as other hubs get it.
fn encoded(parts: &TagParts<'_>) -> Vec<u8> {
    let head = TagHead {
        quality: parts.quality,
        value_kind: parts.value_kind,
        is_stale: parts.is_stale,
        status: parts.status,
        source_time: parts.source_time as u64,
        receive_time_ns: parts.receive_time_ns,
        data_type: parts.data_type.0,
        is_array: parts.data_type.1,
    };
    [&head.to_bytes()[..], parts.value].concat()
}
