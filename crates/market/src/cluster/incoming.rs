//! What this hub receives from the cluster: the topics of other hubs' sources.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use tidewire_cluster::{Edge, EdgeEvent, EdgeOutput};
use tidewire_feed::client::{Client, ClientConfig, Side, Sink};
use tidewire_feed::server::Steps;
use tidewire_feed::wire::ClientName;
use tidewire_lane::unix_ns;
use tidewire_nats::{Answer, Link, Message};
use tracing::{info, warn};

use super::config::ClusterConfig;
use super::follower::Follower;
use super::own::REMOTE;
use super::requests::{Request, Requests};
use super::status::Incoming as Figures;
use super::subjects::{Kind, Subjects, parse};
use crate::ingest::Ingest;
use crate::ingest::certainty::SLICE_STEPS;
use crate::market::Market;
use tidewire_retry::Seldom;

/// Sources that a hub receives at most.
const SOURCES_MAX: usize = 1_024;
/// Bytes of early frames that a hub keeps at most, of all sources together.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// The receiving side.
pub(super) struct Incoming {
    config: ClusterConfig,
    market: Arc<Market>,
    sources: BTreeMap<String, Remote>,
    is_full: bool,
}

/// A source of another hub.
struct Remote {
    follower: Follower,
    client: Client,
    ingest: Ingest,
    /// Its number as a source of the hub.
    number: u32,
    is_heard: bool,
    is_stale: bool,
    /// The wall clock's time until which everything of the source is here, nanoseconds since the
    /// UNIX epoch; `u64::MAX` until then.
    complete_ns: u64,
    outgoing: Vec<u8>,
}

impl Incoming {
    pub(super) fn new(config: &ClusterConfig, market: Arc<Market>) -> Self {
        Self {
            config: config.clone(),
            market,
            sources: BTreeMap::new(),
            is_full: false,
        }
    }

    /// Handles a message of a subscription.
    pub(super) fn message(&mut self, message: &Message, now_ns: u64) {
        let Some((kind, source)) = parse(&message.subject) else {
            return;
        };
        if !self.config.receives(source) {
            return;
        }
        let Some(remote) = self.remote(source, now_ns) else {
            return;
        };
        match kind {
            Kind::Log => {
                let sequence = message.expected_last.map(|last| last.saturating_add(1));
                remote
                    .follower
                    .edge
                    .message(&message.payload, sequence, now_ns);
            }
            Kind::Live => remote.follower.edge.message(&message.payload, None, now_ns),
            Kind::Head => remote.follower.edge.head_seen(&message.payload, now_ns),
            Kind::Page => {}
        }
    }

    /// Returns the source with this name, which may be new.
    fn remote(&mut self, source: &str, now_ns: u64) -> Option<&mut Remote> {
        if self.sources.len() >= SOURCES_MAX && !self.sources.contains_key(source) {
            // A source without an owner makes room; its topics keep their last values, stale.
            let silent = self.sources.iter().find(|(_, remote)| !remote.is_heard);
            if let Some(name) = silent.map(|(name, _)| name.clone()) {
                self.sources.remove(&name);
            }
        }
        let is_full = self.sources.len() >= SOURCES_MAX;
        match self.sources.entry(source.to_owned()) {
            Entry::Occupied(found) => Some(found.into_mut()),
            Entry::Vacant(_) if is_full => {
                if !std::mem::replace(&mut self.is_full, true) {
                    warn!(source, "the cluster has more sources than a hub receives");
                }
                None
            }
            Entry::Vacant(place) => {
                info!(source, "a source of the cluster is received");
                Some(place.insert(Remote::new(&self.config, &self.market, source, now_ns)))
            }
        }
    }

    /// Does what is due, and applies what has come.
    pub(super) fn turn(&mut self, (link, requests): (&Link, &mut Requests), now_ns: u64) {
        let edges = self.sources.values().map(|remote| &remote.follower.edge);
        let kept: usize = edges.map(Edge::kept_bytes).sum();
        let room = KEPT_BYTES_MAX.saturating_sub(kept);
        for (name, remote) in &mut self.sources {
            let own = remote.follower.edge.kept_bytes();
            remote.follower.edge.limit_kept_bytes(own + room);
            if now_ns >= remote.follower.edge.deadline_ns() {
                remote.follower.edge.handle_timeout(now_ns);
            }
            remote.apply(name, &self.market, now_ns);
            while let Some(action) = remote.follower.edge.next_action() {
                remote.follower.act(name, action, (link, requests));
            }
            if remote.ingest.is_sweeping() {
                let steps = &mut Steps::new(SLICE_STEPS);
                let news = remote.ingest.sweep(steps, unix_ns());
                self.market.publish_from_thread(news);
            }
            remote.note_complete(now_ns);
        }
        let heard = self.sources.values().filter(|remote| !remote.is_stale);
        let complete = heard.map(|remote| remote.complete_ns).min();
        self.market.bars.heard_until(complete.unwrap_or(u64::MAX));
    }

    /// Handles the answer to one of its requests.
    pub(super) fn answered(
        &mut self,
        request: Request,
        answer: Answer,
        (link, requests): (&Link, &mut Requests),
        now_ns: u64,
    ) {
        let (Request::RemoteHead(name, _)
        | Request::RemotePages(name, _)
        | Request::RemoteLog(name, _)
        | Request::RemoteLogEnd(name, _)) = &request
        else {
            return;
        };
        let name = name.clone();
        if let Some(remote) = self.sources.get_mut(&name) {
            let link = (link, requests);
            remote
                .follower
                .answered(&name, &request, answer, link, now_ns);
        }
    }

    pub(super) fn connected(&mut self, now_ns: u64) {
        for remote in self.sources.values_mut() {
            remote.follower.edge.connected(now_ns);
        }
    }

    pub(super) fn disconnected(&mut self) {
        for remote in self.sources.values_mut() {
            remote.follower.edge.disconnected();
        }
    }

    /// Returns when [`Incoming::turn`] must be called.
    pub(super) fn deadline_ns(&self) -> u64 {
        let deadlines = self
            .sources
            .values()
            .map(|remote| match remote.ingest.is_sweeping() {
                true => 0,
                false => remote.follower.edge.deadline_ns(),
            });
        deadlines.min().unwrap_or(u64::MAX)
    }

    /// Returns the figures of each source.
    pub(super) fn figures(&mut self) -> Vec<Figures> {
        let sources = self.sources.iter_mut();
        let figures = sources.map(|(name, remote)| {
            remote.ingest.publish_latency();
            Figures {
                source: name.clone(),
                number: remote.number,
                is_heard: remote.is_heard,
                is_current: remote.follower.edge.is_current(),
                figures: remote.follower.edge.figures(),
            }
        });
        figures.collect()
    }
}

impl Remote {
    fn new(config: &ClusterConfig, market: &Arc<Market>, source: &str, now_ns: u64) -> Self {
        let mut client = Client::new(ClientConfig {
            name: ClientName::truncated("cluster"),
            ..ClientConfig::default()
        });
        // One pattern is far below every limit.
        let _ = client.subscribe("*");
        let number = market.next_source_number() as u32 | REMOTE;
        let ingest = Ingest::new(market.clone(), number, &format!("cluster-{source}"));
        Self {
            follower: Follower::new(&config.name, Subjects::new(&config.name, source), now_ns),
            client,
            ingest,
            number,
            is_heard: true,
            is_stale: false,
            complete_ns: u64::MAX,
            outgoing: Vec::new(),
        }
    }

    /// Applies what the edge gives.
    fn apply(&mut self, name: &str, market: &Market, now_ns: u64) {
        while let Some(output) = self.follower.edge.next_output() {
            match output {
                EdgeOutput::Bytes(bytes) => {
                    let mut batch = self.ingest.begin(unix_ns());
                    let result = self.client.receive(Side::A, &bytes, now_ns, &mut batch);
                    let news = batch.finish();
                    market.publish_from_thread(news);
                    debug_assert!(
                        !matches!(result, Ok(used) if used < bytes.len()),
                        "an edge gives whole packets"
                    );
                    if let Err(error) = result
                        && let Some(left_out) = BROKEN.note_now()
                    {
                        warn!(source = name, %error, left_out, "a stream of the cluster is broken");
                    }
                    self.forget_requests();
                }
                EdgeOutput::Event(event) => self.happened(name, event, market, now_ns),
            }
        }
    }

    /// Notes until when everything of the source is here.
    fn note_complete(&mut self, now_ns: u64) {
        let edge = &self.follower.edge;
        if edge.is_current() {
            let silent_ns = now_ns.saturating_sub(edge.heard_ns());
            self.complete_ns = unix_ns().saturating_sub(silent_ns);
        }
    }

    fn happened(&mut self, name: &str, event: EdgeEvent, market: &Market, now_ns: u64) {
        match event {
            EdgeEvent::Restart { epoch, session } => {
                // A relay must know the way of the values before it reads them.
                market
                    .cluster
                    .note_received(name, self.follower.edge.figures());
                info!(source = name, epoch, session, "a reign of a source begins");
                self.client.disconnected(Side::A);
                self.client.connected(Side::A, now_ns);
                self.forget_requests();
                self.revive(market);
            }
            EdgeEvent::Joined { as_of } => info!(source = name, as_of, "the source is joined"),
            EdgeEvent::Gap { from, count } => {
                if let Some(left_out) = GAPS.note_now() {
                    let text = "messages of a source are lost; a snapshot replaces them";
                    warn!(source = name, from, count, left_out, "{text}");
                }
            }
            EdgeEvent::Doubtful => self.tell(market, |batch, _| batch.values_doubtful()),
            EdgeEvent::Certain => {
                self.tell(market, |batch, client| match client.has_all_values() {
                    true => batch.values_right(),
                    false => batch.values_as_before(),
                })
            }
            EdgeEvent::OwnerEnded | EdgeEvent::OwnerSilent => {
                if !self.is_stale {
                    warn!(
                        source = name,
                        ?event,
                        "a source of the cluster has no owner"
                    );
                }
                self.leave(market);
            }
            EdgeEvent::OwnerBack => self.revive(market),
            EdgeEvent::Echo => {
                let path = self.follower.edge.figures().path.unwrap_or_default();
                let text = "a source has come through this cluster before and is left alone";
                warn!(source = name, %path, "{text}; which relay sends it back?");
                self.leave(market);
            }
            EdgeEvent::ReignVanished { epoch } => {
                let text = "a reign was announced and nothing came of it; the former owner goes on";
                warn!(source = name, epoch, "{text}");
            }
        }
    }

    /// Makes the values stale.
    fn leave(&mut self, market: &Market) {
        self.is_heard = false;
        if !std::mem::replace(&mut self.is_stale, true) {
            let news = self.ingest.lose(unix_ns());
            market.publish_from_thread(news);
        }
    }

    fn revive(&mut self, market: &Market) {
        self.is_heard = true;
        if std::mem::take(&mut self.is_stale) {
            self.tell(market, |batch, _| batch.revive());
        }
    }

    fn tell(&mut self, market: &Market, tell: impl FnOnce(&mut crate::ingest::Batch<'_>, &Client)) {
        let mut batch = self.ingest.begin(unix_ns());
        tell(&mut batch, &self.client);
        let news = batch.finish();
        market.publish_from_thread(news);
    }

    /// Forgets what the client asks its server for: the edge has no server.
    fn forget_requests(&mut self) {
        self.client.drain_outgoing(Side::A, &mut self.outgoing);
        self.outgoing.clear();
    }
}

static BROKEN: Seldom = Seldom::new(5, 10);
static GAPS: Seldom = Seldom::new(5, 10);
