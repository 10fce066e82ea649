//! Relays: sources that this hub publishes again for another site, as newest values.
//!
//! Each relay has a thread with a link of its own. It reads the hub's journal, and is the owner of
//! a source of the other site's cluster. A source that has passed a relay says so in each frame: a
//! relay leaves it alone unless it is told otherwise, and after seven relays in any case. So two
//! sites that relay to each other cannot send a value in circles.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidewire_cluster::{FrameFlags, Times};
use tidewire_feed::server::Pattern;
use tidewire_lane::unix_ns;
use tidewire_nats::{Event, Inbox, Link, LinkThread, Settings};
use tidewire_retry::LinkLog;
use tracing::{info, warn};

use super::config::{ClusterConfig, ClusterName};
use super::conflation::{Conflation, Whose};
use super::log_end;
use super::outgoing::{Outgoing, Stream};
use super::requests::Requests;
use super::status::Relay as Figures;
use super::subjects::Subjects;
use crate::market::Market;

/// Relays of one hub.
pub const RELAYS_A_HUB_MAX: usize = 16;
/// Longest time between two looks at the hub's journal.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// The same of a relay with symbols of which it relays each message.
const FULL_INTERVAL: Duration = Duration::from_millis(2);
/// Time from one publication of the figures to the next.
const SHOW_INTERVAL: Duration = Duration::from_millis(100);

/// A source that is published again, for another site.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The source, as this hub receives it or owns it.
    pub source: ClusterName,
    /// The cluster of the other site; another than the hub's own.
    pub cluster: ClusterName,
    /// The name of the source there.
    pub name: ClusterName,
    /// How NATS is reached, and in which JetStream domain the streams are.
    pub link: Settings,
    /// Newest values a second and symbol: 1 to 50.
    pub hz: u32,
    /// Symbols of which each message is relayed.
    pub full: Vec<Pattern>,
    /// Symbols of which the newest value is relayed.
    pub conflated: Vec<Pattern>,
    /// Whether a source may have been relayed before.
    pub again: bool,
    /// Copies of each stream: 1, 3 or 5.
    pub replicas: usize,
}

/// The thread of a relay. Dropping it ends the relay in order.
#[derive(Debug)]
pub(super) struct RelayThread {
    _thread: LinkThread,
}

impl RelayThread {
    /// Starts the thread of the relay with this number.
    pub(super) fn start(
        market: &Arc<Market>,
        config: &ClusterConfig,
        number: usize,
    ) -> Result<Self, String> {
        let relay = &config.relays[number];
        let inbox = Inbox::new();
        let link = Link::start(relay.link.clone(), inbox.clone())
            .map_err(|error| format!("no link to NATS for a relay: {error}"))?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let mut work = Work::new(market.clone(), config, number, link, inbox.clone());
        let stopped = is_stopped.clone();
        let thread = LinkThread::start("relay", inbox, is_stopped, move || work.run(&stopped))
            .map_err(|error| format!("cannot start a relay's thread: {error}"))?;
        Ok(Self { _thread: thread })
    }
}

/// The state of the thread.
struct Work {
    market: Arc<Market>,
    config: RelayConfig,
    /// The hub's place in the other site's cluster, as far as a relay has one.
    place: ClusterConfig,
    number: usize,
    is_own: bool,
    link: Link,
    inbox: Inbox,
    begin: Instant,
    requests: Requests,
    outgoing: Option<Outgoing>,
    conflation: Conflation,
    /// Relays that the source has passed, this one included.
    relays: u8,
    is_refused: bool,
    is_linked: bool,
    is_subscribed: bool,
    link_log: LinkLog,
    next_tick: Instant,
    shown: Instant,
    /// Bytes of the reigns before the present one.
    bytes_out: u64,
}

impl Work {
    fn new(
        market: Arc<Market>,
        config: &ClusterConfig,
        number: usize,
        link: Link,
        inbox: Inbox,
    ) -> Self {
        let relay = config.relays[number].clone();
        let session = market.journal.lock().session();
        let capacity = market.config.journal_messages;
        let now = Instant::now();
        let place = ClusterConfig {
            name: relay.cluster.clone(),
            source: Some(relay.name.clone()),
            replicas: relay.replicas,
            relays: Vec::new(),
            ..config.clone()
        };
        Self {
            conflation: Conflation::new(session, capacity, &relay.full, &relay.conflated),
            market,
            is_own: config.source.as_ref() == Some(&relay.source),
            config: relay,
            place,
            number,
            link,
            inbox,
            begin: now,
            requests: Requests::default(),
            outgoing: None,
            relays: 0,
            is_refused: false,
            is_linked: false,
            is_subscribed: false,
            link_log: LinkLog::default(),
            next_tick: now,
            shown: now,
            bytes_out: 0,
        }
    }

    fn times(&self) -> Times {
        Times {
            now_ns: self.begin.elapsed().as_nanos() as u64,
            wall_ms: unix_ns() / 1_000_000,
        }
    }

    fn run(&mut self, is_stopped: &AtomicBool) {
        let mut events = Vec::new();
        let mut more = false;
        while !is_stopped.load(Ordering::Acquire) {
            self.inbox.take(self.wait(more), &mut events);
            for event in events.drain(..) {
                self.event(event);
            }
            more = self.turn();
            if self.shown.elapsed() >= SHOW_INTERVAL {
                self.show();
            }
        }
        self.give_up();
    }

    /// Returns how long nothing has to be done.
    fn wait(&self, more: bool) -> Duration {
        if more {
            return Duration::ZERO;
        }
        let look = match self.config.full.is_empty() {
            true => LOOK_INTERVAL,
            false => FULL_INTERVAL,
        };
        let now_ns = self.times().now_ns;
        let outgoing = self.outgoing.as_ref().filter(|_| self.is_linked);
        let due_ns = outgoing.map_or(u64::MAX, Outgoing::deadline_ns);
        let due = Duration::from_nanos(due_ns.saturating_sub(now_ns));
        let tick = match self.is_linked && self.conflation.is_marked() {
            true => self.next_tick.saturating_duration_since(Instant::now()),
            false => look,
        };
        look.min(due).min(tick)
    }

    fn turn(&mut self) -> bool {
        let Some(whose) = self.whose() else {
            self.give_up();
            return false;
        };
        let is_owner = self.outgoing.as_ref().is_some_and(Outgoing::is_owner);
        self.conflation.is_counting = is_owner;
        let mut more = self.conflation.read(&self.market, whose);
        let now = Instant::now();
        // While the link is down, what changes is marked, and told once when it is back.
        if self.is_linked && now >= self.next_tick {
            let is_left = self.conflation.tick(&self.market.board);
            more |= is_left;
            if !is_left {
                self.next_tick = now + Duration::from_secs(1) / self.config.hz;
            }
        }
        let times = self.times();
        if self.outgoing.is_none() {
            self.begin(times.now_ns);
        }
        if let Some(outgoing) = &mut self.outgoing {
            let stream = Stream::Relay(&self.conflation);
            let link = (&self.link, &mut self.requests);
            match self.is_linked {
                true => more |= outgoing.turn(stream, link, times),
                false => outgoing.turn_without_link(stream, times.now_ns),
            }
        }
        more
    }

    /// Returns whose symbols are relayed; `None` while the source is unknown, or may not be.
    fn whose(&mut self) -> Option<Whose> {
        let (whose, relays) = match self.is_own {
            true => (Whose::Own, 0),
            false => {
                let received = self.market.cluster.received(self.config.source.as_str())?;
                (Whose::Of(received.0), received.1)
            }
        };
        let is_refused = relays > 0 && !self.config.again || relays >= FrameFlags::RELAYS_MAX;
        if is_refused && !self.is_refused {
            let source = self.config.source.as_str();
            let text = "a source that was relayed already is not relayed again";
            warn!(source, relays, "{text}");
        }
        self.is_refused = is_refused;
        if self.relays != relays + 1 {
            // Another owner, at another distance.
            self.give_up();
            self.relays = (relays + 1).min(FrameFlags::RELAYS_MAX);
        }
        (!is_refused).then_some(whose)
    }

    fn begin(&mut self, now_ns: u64) {
        let session = self.conflation.stream().session();
        let name = &self.config.name;
        let subjects = Subjects::new(&self.place.name, name.as_str());
        let outgoing = Outgoing::new(&self.place, subjects, session, now_ns).relayed(self.relays);
        if !std::mem::replace(&mut self.is_subscribed, true) {
            outgoing.subscribe(&self.link);
        }
        self.outgoing = Some(outgoing);
    }

    /// Ends the relay's reign in order.
    fn give_up(&mut self) {
        let times = self.times();
        if let Some(mut outgoing) = self.outgoing.take() {
            let link = (&self.link, &mut self.requests);
            outgoing.end(Stream::Relay(&self.conflation), link, times);
            self.bytes_out += outgoing.bytes();
            self.requests.forget();
        }
    }

    fn event(&mut self, event: Event) {
        let now_ns = self.times().now_ns;
        match event {
            Event::Connected => {
                if !std::mem::replace(&mut self.is_linked, true)
                    && self.link_log.answers(Instant::now())
                {
                    let cluster = self.config.cluster.as_str();
                    info!(cluster, "a relay is linked to NATS");
                }
                if let Some(outgoing) = &mut self.outgoing {
                    outgoing.connected(now_ns);
                }
            }
            Event::Disconnected { reason } => {
                log_end(&mut self.link_log, &reason, self.is_linked);
                if std::mem::take(&mut self.is_linked)
                    && let Some(outgoing) = &mut self.outgoing
                {
                    outgoing.lost_connection();
                }
            }
            Event::Denied { .. } => {}
            Event::Message(message) => {
                if let Some(outgoing) = &mut self.outgoing {
                    outgoing.hear(&message, now_ns);
                }
            }
            Event::Answer { tag, answer } => {
                if let Some(request) = self.requests.close(tag)
                    && let Some(outgoing) = &mut self.outgoing
                {
                    outgoing.answered(request, answer, now_ns);
                }
            }
        }
    }

    fn show(&mut self) {
        self.shown = Instant::now();
        let now_ns = self.times().now_ns;
        let outgoing = self.outgoing.as_ref();
        let bytes_out = outgoing.map_or(0, Outgoing::bytes) + self.bytes_out;
        let own = outgoing.map(|outgoing| outgoing.figures(now_ns));
        self.market.cluster.set_relay(
            self.number,
            Figures {
                source: self.config.source.to_string(),
                cluster: self.config.cluster.to_string(),
                name: self.config.name.to_string(),
                is_linked: self.is_linked,
                is_refused: self.is_refused,
                hz: self.config.hz,
                symbols: self.conflation.symbols() as u64,
                messages_in: self.conflation.messages_in,
                bytes_in: self.conflation.bytes_in,
                bytes_out,
                own: own.unwrap_or_default(),
            },
        );
    }
}
