//! The topics of other hubs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::fast::RandomState;
use tidewire_cluster::{EdgeEvent, EdgeOutput, HEARTBEAT_INTERVAL_NS, TopicClient, TopicEvent};
use tidewire_fanout::TagParts;
use tidewire_feed::wire::{TagHead, TopicKind};
use tidewire_lane::unix_ns;
use tidewire_nats::{Answer, Link, Message};
use tracing::{info, warn};

use super::SharedTopics;
use crate::cluster::config::ClusterConfig;
use crate::cluster::follower::Follower;
use crate::cluster::requests::{Request, Requests};
use crate::cluster::status::Incoming as Figures;
use crate::cluster::subjects::{HUB_MARK, Kind, Subjects};
use crate::remote_board::{RemoteHub, RemoteTopic};

/// Hubs that are received at most.
const HUBS_MAX: usize = 1_024;

/// How long a hub that has a link listens for others: four of their longest intervals.
const HEAR_NS: u64 = 4 * HEARTBEAT_INTERVAL_NS;
/// How long it waits for the topics of those that it hears.
const JOIN_NS_MAX: u64 = 30_000_000_000;

/// The receiving side.
pub(super) struct Remote {
    config: ClusterConfig,
    shared: SharedTopics,
    hubs: BTreeMap<String, Hub>,
    /// By name: the topic of each hub that has one.
    topics: HashMap<Arc<[u8]>, Vec<Arc<RemoteTopic>>, RandomState>,
    changes: Vec<Change>,
    is_full: bool,
    is_open: bool,
    left_out: u64,
    /// Hubs that are not heard any more since the last look.
    lost: Vec<Box<str>>,
    /// Since when there is a link.
    linked_ns: Option<u64>,
}

/// Another hub.
struct Hub {
    follower: Follower,
    client: TopicClient,
    shown: Arc<RemoteHub>,
    /// The reign whose topics are coming, and that of those that have come; 0 before the first.
    coming: u64,
    joined: u64,
    /// Whether clients have seen its topics stale or in doubt, or so no more, since the last look.
    is_turned: bool,
}

/// A topic of a hub has a value, or is gone.
struct Change {
    name: Arc<[u8]>,
    hub: Arc<RemoteHub>,
    topic: Option<RemoteTopic>,
    is_tag: bool,
}

impl Remote {
    pub(super) fn new(config: &ClusterConfig, shared: SharedTopics) -> Self {
        Self {
            config: config.clone(),
            shared,
            hubs: BTreeMap::new(),
            topics: HashMap::default(),
            changes: Vec::new(),
            is_full: false,
            is_open: false,
            left_out: 0,
            lost: Vec::new(),
            linked_ns: None,
        }
    }

    /// Handles a message of a subscription.
    pub(super) fn message(&mut self, kind: Kind, source: &str, message: &Message, now_ns: u64) {
        let Some(name) = source.strip_prefix(HUB_MARK) else {
            return;
        };
        if !self.config.receives_hub(name) {
            return;
        }
        if !self.hubs.contains_key(source) {
            if self.hubs.len() >= HUBS_MAX {
                if !std::mem::replace(&mut self.is_full, true) {
                    warn!(
                        name,
                        "the cluster has more hubs with topics than are received"
                    );
                }
                return;
            }
            info!(hub = name, "topics of a hub are received");
            let hub = Hub::new(&self.config, source, name, now_ns);
            self.hubs.insert(source.to_owned(), hub);
        }
        let Some(hub) = self.hubs.get_mut(source) else {
            return;
        };
        let edge = &mut hub.follower.edge;
        match kind {
            Kind::Log => {
                let sequence = message.expected_last.map(|last| last.saturating_add(1));
                edge.message(&message.payload, sequence, now_ns);
            }
            Kind::Live => edge.message(&message.payload, None, now_ns),
            Kind::Head => edge.head_seen(&message.payload, now_ns),
            Kind::Page => {}
        }
    }

    /// Does what is due, and applies what has come.
    pub(super) fn turn(
        &mut self,
        is_open: bool,
        (link, requests): (&Link, &mut Requests),
        now_ns: u64,
    ) {
        if is_open != std::mem::replace(&mut self.is_open, is_open) {
            // Keys that were loaded meanwhile come before topics of the same names.
            let names: Vec<Arc<[u8]>> = self.topics.keys().cloned().collect();
            names.iter().for_each(|name| self.show(name));
        }
        for (source, hub) in &mut self.hubs {
            let edge = &mut hub.follower.edge;
            if now_ns >= edge.deadline_ns() {
                edge.handle_timeout(now_ns);
            }
            // A new reign is in doubt before it is heard.
            if hub.is_of_former_reign() {
                hub.doubt(true);
            }
            while let Some(output) = hub.follower.edge.next_output() {
                hub.apply(output, &mut self.changes);
            }
            while let Some(action) = hub.follower.edge.next_action() {
                hub.follower.act(source, action, (link, requests));
            }
        }
        for mut change in std::mem::take(&mut self.changes) {
            self.complete(&mut change);
            self.change(change);
        }
        for hub in &self.take_turned() {
            self.turned(hub);
            if hub.is_stale.load(Ordering::Relaxed) {
                self.lost.push(hub.name.clone());
            }
        }
        self.look_whether_joined(now_ns);
    }

    /// What has come is shown: returns the hubs that have become stale or doubtful since the last
    /// call, or are so no more. One that has become so and is so no more counts as well: a client
    /// may have read its topics between.
    fn take_turned(&mut self) -> Vec<Arc<RemoteHub>> {
        let mut turned = Vec::new();
        for hub in self.hubs.values_mut() {
            hub.doubt(hub.is_of_former_reign());
            if std::mem::take(&mut hub.is_turned) {
                turned.push(hub.shown.clone());
            }
        }
        turned
    }

    /// Lets names become keys of this hub if the topics of the hubs that are heard have come. A hub
    /// whose snapshot never comes is not waited for without end.
    fn look_whether_joined(&mut self, now_ns: u64) {
        let Some(linked_ns) = self.linked_ns.filter(|_| !self.shared.board.is_joined()) else {
            return;
        };
        let heard_ns = now_ns.saturating_sub(linked_ns);
        let mut hubs = self.hubs.values();
        let is_here = |hub: &Hub| hub.joined != 0 || hub.shown.is_stale.load(Ordering::Relaxed);
        if heard_ns >= JOIN_NS_MAX || heard_ns >= HEAR_NS && hubs.all(is_here) {
            info!("names that no other hub has may become keys of this hub");
            self.shared.board.set_joined();
        }
    }

    /// Returns the hubs that are not heard any more since the last call.
    pub(super) fn take_lost(&mut self) -> Vec<Box<str>> {
        std::mem::take(&mut self.lost)
    }

    /// Returns the reign of a hub that is heard.
    pub(super) fn reign(&self, hub: &str) -> Option<u64> {
        let hub = self.hubs.get(&format!("{HUB_MARK}{hub}"))?;
        let epoch = hub.follower.edge.figures().epoch;
        (epoch > 0 && !hub.shown.is_stale.load(Ordering::Relaxed)).then_some(epoch)
    }

    /// A hub has become stale, or is heard again: names that several hubs have may show another,
    /// and the field `stale` of its topics says so.
    fn turned(&mut self, hub: &Arc<RemoteHub>) {
        let has = |topic: &Arc<RemoteTopic>| Arc::ptr_eq(&topic.hub, hub);
        let topics = self.topics.iter();
        let is_cached = self.shared.keys.has_caches();
        // What subscribers of a tag get says whether it is stale.
        let is_told = |topics: &Vec<Arc<RemoteTopic>>| {
            is_cached || topics.len() > 1 || topics.iter().any(|topic| topic.tag.is_some())
        };
        let told = topics.filter(|(_, topics)| is_told(topics) && topics.iter().any(has));
        let names: Vec<Arc<[u8]>> = told.map(|(name, _)| name.clone()).collect();
        for name in &names {
            let shown = self.shared.board.topic(name);
            let is_tag = shown.as_ref().is_some_and(|shown| shown.tag.is_some());
            if is_tag
                || shown.is_none_or(|shown| {
                    self.best(name)
                        .is_none_or(|best| !Arc::ptr_eq(&best, &shown))
                })
            {
                self.show(name);
            } else if is_cached {
                self.shared.keys.invalidate_remote(name);
            }
        }
    }

    /// Makes of a tag's state what clients see of it. A topic that is no tag is none of this name.
    fn complete(&mut self, change: &mut Change) {
        let Some(topic) = change.topic.as_mut().filter(|_| change.is_tag) else {
            return;
        };
        let head = TagHead::decode(&topic.value);
        topic.tag = head.and_then(|(head, value)| {
            self.shared.views.view(&TagParts {
                name: &change.name,
                data_type: (head.data_type, head.is_array),
                value_kind: head.value_kind,
                value,
                is_stale: head.is_stale,
                quality: head.quality,
                status: head.status,
                source_time: head.source_time as i64,
                receive_time_ns: head.receive_time_ns,
                sequence: topic.sequence,
            })
        });
        if topic.tag.is_none() {
            change.topic = None;
            self.left_out += 1;
        }
    }

    fn change(&mut self, change: Change) {
        let Change {
            name, hub, topic, ..
        } = change;
        if !self.shared.board.takes(&name) {
            self.left_out += u64::from(topic.is_some());
            return;
        }
        let before = self.best(&name);
        let topics = self.topics.entry(name.clone()).or_default();
        topics.retain(|topic| !Arc::ptr_eq(&topic.hub, &hub));
        topics.extend(topic.map(Arc::new));
        if topics.is_empty() {
            self.topics.remove(&name);
        }
        let after = self.best(&name);
        let is_same = match (&before, &after) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            self.show(&name);
        }
    }

    /// Returns the topic that clients see under a name: of a hub that is heard before one that is
    /// not, then of the hub whose name comes first.
    fn best(&self, name: &[u8]) -> Option<Arc<RemoteTopic>> {
        let rank = |topic: &&Arc<RemoteTopic>| (topic.hub.staleness() != 0, topic.hub.name.clone());
        self.topics.get(name)?.iter().min_by_key(rank).cloned()
    }

    /// Shows the best topic of a name, unless this hub has a key of the name.
    fn show(&self, name: &Arc<[u8]>) {
        let best = self.best(name);
        let board = &self.shared.board;
        let is_open = self.is_open;
        self.shared.keys.change_remote(name, &mut |is_own| {
            let topic = best.clone().filter(|_| !is_own && is_open);
            board.put(name, topic)
        });
    }

    /// A key of this hub has changed: if it is gone, a topic of the same name is seen again.
    pub(super) fn own_changed(&self, name: &[u8]) {
        if let Some((name, _)) = self.topics.get_key_value(name)
            && self.shared.board.topic(name).is_none()
        {
            self.show(name);
        }
    }

    /// Any key of this hub may have changed.
    pub(super) fn all_own_changed(&self) {
        self.topics.keys().for_each(|name| self.own_changed(name));
    }

    /// Handles the answer to one of its requests.
    pub(super) fn answered(
        &mut self,
        request: &Request,
        answer: Answer,
        link: (&Link, &mut Requests),
        now_ns: u64,
    ) {
        let (Request::RemoteHead(source, _)
        | Request::RemotePages(source, _)
        | Request::RemoteLog(source, _)
        | Request::RemoteLogEnd(source, _)) = request
        else {
            return;
        };
        if let Some(hub) = self.hubs.get_mut(source) {
            hub.follower.answered(source, request, answer, link, now_ns);
        }
    }

    pub(super) fn connected(&mut self, now_ns: u64) {
        self.linked_ns = Some(now_ns);
        for hub in self.hubs.values_mut() {
            hub.follower.edge.connected(now_ns);
        }
    }

    pub(super) fn disconnected(&mut self) {
        self.linked_ns = None;
        for hub in self.hubs.values_mut() {
            hub.follower.edge.disconnected();
        }
    }

    /// Returns when [`Remote::turn`] must be called.
    pub(super) fn deadline_ns(&self) -> u64 {
        let hubs = self.hubs.values();
        let deadlines = hubs.map(|hub| hub.follower.edge.deadline_ns());
        deadlines.min().unwrap_or(u64::MAX)
    }

    /// Returns the lines of INFO.
    pub(super) fn lines(&self) -> Vec<(String, String)> {
        let hubs = self.hubs.values().enumerate();
        let lines = hubs.map(|(number, hub)| {
            let figures = Figures {
                source: hub.shown.name.to_string(),
                number: 0,
                is_heard: !hub.shown.is_stale.load(Ordering::Relaxed),
                is_current: hub.follower.edge.is_current(),
                figures: hub.follower.edge.figures(),
            };
            let (topics, ignored) = (hub.client.topics(), hub.client.ignored());
            let line = format!("{figures},topics={topics},ignored={ignored}");
            (format!("cluster_topics_hub{number}"), line)
        });
        let count = format!(
            "names={},left_out={},joined={}",
            self.topics.len(),
            self.left_out,
            u8::from(self.shared.board.is_joined())
        );
        let all = ("cluster_topics_received".to_owned(), count);
        lines.chain([all]).collect()
    }
}

impl Hub {
    fn new(config: &ClusterConfig, source: &str, name: &str, now_ns: u64) -> Self {
        Self {
            follower: Follower::new(
                &config.name,
                Subjects::of_topics(&config.name, source),
                now_ns,
            ),
            client: TopicClient::default(),
            shown: Arc::new(RemoteHub {
                name: name.into(),
                is_stale: AtomicBool::new(false),
                is_doubtful: AtomicBool::new(false),
            }),
            coming: 0,
            joined: 0,
            is_turned: false,
        }
    }

    /// Notes whether its topics are in doubt.
    fn doubt(&mut self, is_doubtful: bool) {
        let before = self.shown.is_doubtful.swap(is_doubtful, Ordering::AcqRel);
        self.is_turned |= before != is_doubtful;
    }

    /// Notes whether it is not heard, or has ended. Returns whether that is new.
    fn note_stale(&mut self, is_stale: bool) -> bool {
        let is_new = self.shown.is_stale.swap(is_stale, Ordering::AcqRel) != is_stale;
        self.is_turned |= is_new;
        is_new
    }

    /// Whether its topics are those of a reign that is over.
    fn is_of_former_reign(&self) -> bool {
        self.joined != 0 && self.joined != self.follower.edge.figures().epoch
    }

    /// Applies what the edge gives.
    fn apply(&mut self, output: EdgeOutput, changes: &mut Vec<Change>) {
        let hub = self.shown.clone();
        let mut tell = |event: TopicEvent<'_>| changes.push(change(&hub, event));
        match output {
            EdgeOutput::Bytes(bytes) => self.client.receive(&bytes, &mut tell),
            EdgeOutput::Event(EdgeEvent::Joined { as_of }) => {
                info!(hub = %hub.name, as_of, "the topics of a hub are joined");
                self.client.joined(&mut tell);
                self.joined = self.coming;
            }
            EdgeOutput::Event(EdgeEvent::OwnerEnded | EdgeEvent::OwnerSilent) => {
                if self.note_stale(true) {
                    warn!(hub = %hub.name, "a hub with topics is not heard");
                }
            }
            EdgeOutput::Event(EdgeEvent::OwnerBack) => {
                self.note_stale(false);
            }
            EdgeOutput::Event(EdgeEvent::Restart { epoch, .. }) => {
                self.coming = epoch;
                self.note_stale(false);
            }
            EdgeOutput::Event(_) => {}
        }
    }
}

fn change(hub: &Arc<RemoteHub>, event: TopicEvent<'_>) -> Change {
    let hub = hub.clone();
    match event {
        TopicEvent::Gone { name } => Change {
            name: name.clone(),
            hub,
            topic: None,
            is_tag: false,
        },
        TopicEvent::Set {
            name,
            kind,
            value,
            time_ns,
            sequence,
        } => Change {
            is_tag: kind == TopicKind::Tag,
            name: name.clone(),
            hub: hub.clone(),
            topic: Some(RemoteTopic {
                hub,
                value: value.into(),
                tag: None,
                time_ns,
                receive_time_ns: unix_ns(),
                sequence,
            }),
        },
    }
}
