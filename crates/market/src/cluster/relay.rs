//! Relays: sources that this hub publishes again for another site, as newest values.
//!
//! Each relay has a thread with a link of its own. It reads the hub's journal, and is the owner of
//! a source of the other site's cluster. A source that has passed a relay says so in each frame: a
//! relay leaves it alone unless it is told otherwise, and after seven relays in any case. The head
//! of its snapshot names the clusters that it has come through: no relay sends it back to one of
//! them, under any name. So sites that relay to each other cannot send a value in circles.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidewire_cluster::{EdgeFigures, FrameFlags, Path, Times};
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

/// The way that a source has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    relays: u8,
    /// The clusters on it; `None` if that is not known yet.
    path: Option<Path>,
    /// Whether this hub's own is one of them.
    is_echo: bool,
}

impl Way {
    fn of(figures: &EdgeFigures) -> Self {
        Self {
            relays: figures.relays,
            // Not relayed: its owner is in this cluster.
            path: match figures.relays {
                0 => Some(Path::default()),
                _ => figures.path,
            },
            is_echo: figures.is_echo,
        }
    }

    /// Returns the way behind a relay from the cluster `home` to the cluster `there`.
    fn next(&self, again: bool, home: &ClusterName, there: &str) -> Result<Way, Refusal> {
        if self.relays > 0 && !again {
            return Err(Refusal::Relayed);
        }
        if self.relays >= FrameFlags::RELAYS_MAX {
            return Err(Refusal::TooFar);
        }
        let path = self.path.unwrap_or_default();
        if self.is_echo || path.contains(there) {
            return Err(Refusal::Circle);
        }
        if path.clusters().len() < usize::from(self.relays) {
            return Err(Refusal::UnknownWay);
        }
        let path = path.with(home.to_text()).ok_or(Refusal::TooFar)?;
        Ok(Way {
            relays: self.relays + 1,
            path: Some(path),
            is_echo: false,
        })
    }
}

impl Default for Way {
    fn default() -> Self {
        Self {
            relays: 0,
            path: Some(Path::default()),
            is_echo: false,
        }
    }
}

/// Why a source is not relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Relayed,
    TooFar,
    Circle,
    UnknownWay,
}

impl Refusal {
    fn reason(self) -> &'static str {
        match self {
            Self::Relayed => "it was relayed before, and is not relayed again without again = true",
            Self::TooFar => "it has passed 7 relays",
            Self::Circle => "it has come through that cluster, or through this one before",
            Self::UnknownWay => {
                "a relay before this one does not say which clusters it has come through; update it"
            }
        }
    }
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
    /// The hub's own cluster.
    home: ClusterName,
    number: usize,
    is_own: bool,
    link: Link,
    inbox: Inbox,
    begin: Instant,
    requests: Requests,
    outgoing: Option<Outgoing>,
    conflation: Conflation,
    /// The way of the source at the other site.
    way: Way,
    refusal: Option<Refusal>,
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
            home: config.name.clone(),
            number,
            link,
            inbox,
            begin: now,
            requests: Requests::default(),
            outgoing: None,
            way: Way::default(),
            refusal: None,
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
        let (whose, way) = match self.is_own {
            true => (Whose::Own, Way::default()),
            false => {
                let received = self.market.cluster.received(self.config.source.as_str());
                let (number, figures) = received?;
                (Whose::Of(number), Way::of(&figures))
            }
        };
        let next = self.next_way(&way);
        self.note_refusal(next.err(), &way);
        let next = next.ok()??;
        if self.way != next {
            // Another owner, at another distance.
            self.give_up();
            self.way = next;
        }
        Some(whose)
    }

    /// Returns the way of the source at the other site; `None` while it is unknown.
    fn next_way(&self, way: &Way) -> Result<Option<Way>, Refusal> {
        let is_asked = way.path.is_some() || way.relays > 0 && !self.config.again;
        if !is_asked {
            // A new reign of the source, of which nothing has been applied yet.
            let is_same = self.way.relays == way.relays + 1 && self.outgoing.is_some();
            return Ok(is_same.then_some(self.way));
        }
        let (again, there) = (self.config.again, self.config.cluster.as_str());
        way.next(again, &self.home, there).map(Some)
    }

    /// Says once why a source is not relayed.
    fn note_refusal(&mut self, refusal: Option<Refusal>, way: &Way) {
        if refusal == self.refusal {
            return;
        }
        self.refusal = refusal;
        let Some(refusal) = refusal else { return };
        let (source, cluster) = (self.config.source.as_str(), self.config.cluster.as_str());
        let (relays, path) = (way.relays, way.path.unwrap_or_default());
        let reason = refusal.reason();
        warn!(source, cluster, relays, %path, "a source is not relayed: {reason}");
    }

    fn begin(&mut self, now_ns: u64) {
        let session = self.conflation.stream().session();
        let name = &self.config.name;
        let subjects = Subjects::new(&self.place.name, name.as_str());
        let path = self.way.path.unwrap_or_default();
        let outgoing = Outgoing::new(&self.place, subjects, session, now_ns);
        let outgoing = outgoing.relayed(self.way.relays, path);
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
            Event::Denied { .. } | Event::NotHearing { .. } => {}
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
                is_refused: self.refusal.is_some(),
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use tidewire_feed::wire::ClusterText;

    fn way(clusters: &[&str]) -> Way {
        let path = clusters.iter().fold(Path::default(), |path, cluster| {
            path.with(ClusterText::new(cluster).unwrap()).unwrap()
        });
        Way {
            relays: clusters.len() as u8,
            path: Some(path),
            is_echo: false,
        }
    }

    fn next(way: &Way, again: bool, there: &str) -> Result<Way, Refusal> {
        way.next(again, &"paris".parse().unwrap(), there)
    }

    /// With `again`, a relay sent a source back to the cluster of its owner and took it there.
    #[test]
    fn a_source_is_not_relayed_to_a_cluster_that_it_has_come_through() {
        let own = Way::default();
        assert_eq!(next(&own, false, "london"), Ok(way(&["paris"])));
        let relayed = way(&["newyork", "london"]);
        assert_eq!(next(&relayed, false, "tokyo"), Err(Refusal::Relayed));
        let further = way(&["newyork", "london", "paris"]);
        assert_eq!(next(&relayed, true, "tokyo"), Ok(further));
        for there in ["newyork", "london"] {
            assert_eq!(next(&relayed, true, there), Err(Refusal::Circle));
        }
        let echo = Way {
            is_echo: true,
            ..relayed
        };
        assert_eq!(next(&echo, true, "tokyo"), Err(Refusal::Circle));
        let longest = way(&["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(next(&longest, true, "tokyo"), Err(Refusal::TooFar));
    }

    /// A relay of an earlier version does not say through which clusters the values have come.
    #[test]
    fn a_source_whose_way_is_not_known_in_full_is_not_relayed_again() {
        let relayed = Way {
            relays: 2,
            ..way(&["newyork"])
        };
        assert_eq!(next(&relayed, true, "tokyo"), Err(Refusal::UnknownWay));
    }
}
