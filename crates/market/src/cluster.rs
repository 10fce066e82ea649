//! Topics across hubs: this hub's place in a cluster over NATS.
//!
//! One thread has it all: it reads the journal for what this hub's own sources say, and applies
//! what other hubs' owners say. Neither ingest nor a client of this hub waits for it
//! (`docs/decisions/0059-topics-over-nats.md`).
//!
//! ```text
//!  journal ─▶ outgoing (Lease, Owner) ─▶ Link ─▶ NATS
//!  slots, journal, publications ◀─ incoming (Edge, Client, Ingest) ◀─ Inbox ◀─ NATS
//! ```

mod config;
mod conflation;
mod follower;
mod incoming;
mod outgoing;
pub(crate) mod own;
mod relay;
mod requests;
mod status;
mod streams;
mod subjects;
mod topics;

pub use config::{AuditMode, ClusterConfig, ClusterName, NameError, WriteConfig};
pub use relay::{RELAYS_A_HUB_MAX, RelayConfig};
pub use status::{
    ClusterStatus, Incoming as ReceivedSource, Outgoing as OwnSource, Relay as RelayedSource,
    Shown as ClusterFigures,
};
pub use topics::{SharedTopics, TopicsCluster};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidewire_cluster::Times;
use tidewire_lane::unix_ns;
use tidewire_nats::{Event, Inbox, Link, LinkThread, Message};
use tidewire_retry::LinkLog;
use tracing::{info, warn};

use crate::market::Market;
use incoming::Incoming;
use outgoing::{Outgoing, Stream};
use relay::RelayThread;
use requests::{Request, Requests};
use status::Shown;
use subjects::{Subjects, received};

/// Longest delay until a request to stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Time from one publication of the figures to the next.
const SHOW_INTERVAL: Duration = Duration::from_millis(100);

/// How the cluster's thread is told that the journal has grown.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    inbox: std::sync::OnceLock<Inbox>,
    is_told: AtomicBool,
}

impl Reader {
    /// Tells the thread, unless it has been told and has not looked yet.
    #[inline]
    pub(crate) fn tell(&self) {
        if let Some(inbox) = self.inbox.get()
            && !self.is_told.swap(true, Ordering::AcqRel)
        {
            inbox.wake();
        }
    }
}

/// The thread of a hub in a cluster. Dropping it ends the hub's part in order.
#[derive(Debug)]
pub struct Cluster {
    /// They relay what the cluster's thread has received: they end first.
    _relays: Vec<RelayThread>,
    _thread: LinkThread,
}

impl Cluster {
    /// Starts the thread.
    ///
    /// # Errors
    /// The credentials cannot be read, or no thread can be started.
    pub fn start(market: &Arc<Market>, config: &ClusterConfig) -> Result<Self, String> {
        let inbox = Inbox::new();
        let link = Link::start(config.link.clone(), inbox.clone())
            .map_err(|error| format!("no link to NATS: {error}"))?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        if config.source.is_some() {
            let _ = market.cluster_reader.inbox.set(inbox.clone());
        }
        let mut work = Work::new(
            market.clone(),
            config,
            link,
            inbox.clone(),
            is_stopped.clone(),
        );
        let thread = LinkThread::start("cluster", inbox, is_stopped, move || work.run())
            .map_err(|error| format!("cannot start the cluster's thread: {error}"))?;
        Ok(Self {
            _thread: thread,
            _relays: (0..config.relays.len())
                .map(|number| RelayThread::start(market, config, number))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// The state of the thread.
struct Work {
    market: Arc<Market>,
    link: Link,
    inbox: Inbox,
    is_stopped: Arc<AtomicBool>,
    begin: Instant,
    requests: Requests,
    outgoing: Option<Outgoing>,
    incoming: Incoming,
    is_linked: bool,
    link_log: LinkLog,
    losses: u64,
    shown: Instant,
}

impl Work {
    fn new(
        market: Arc<Market>,
        config: &ClusterConfig,
        link: Link,
        inbox: Inbox,
        is_stopped: Arc<AtomicBool>,
    ) -> Self {
        let session = market.journal.lock().session();
        let source = config.source.as_ref();
        let outgoing = source.map(|source| {
            let subjects = Subjects::new(&config.name, source.as_str());
            Outgoing::new(config, subjects, session, 0)
        });
        for subject in received(&config.name, &config.receive) {
            link.subscribe(&subject);
        }
        if let Some(outgoing) = &outgoing {
            outgoing.subscribe(&link);
        }
        Self {
            incoming: Incoming::new(config, market.clone()),
            market,
            link,
            inbox,
            is_stopped,
            begin: Instant::now(),
            requests: Requests::default(),
            outgoing,
            is_linked: false,
            link_log: LinkLog::default(),
            losses: 0,
            shown: Instant::now(),
        }
    }

    fn times(&self) -> Times {
        Times {
            now_ns: self.begin.elapsed().as_nanos() as u64,
            wall_ms: unix_ns() / 1_000_000,
        }
    }

    fn run(&mut self) {
        let mut events = Vec::new();
        let mut more = false;
        while !self.is_stopped.load(Ordering::Acquire) {
            self.inbox.take(self.wait(more), &mut events);
            for event in events.drain(..) {
                self.event(event);
            }
            more = self.turn();
            if self.shown.elapsed() >= SHOW_INTERVAL {
                self.show();
            }
        }
        let times = self.times();
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.end(
                Stream::Own(&self.market),
                (&self.link, &mut self.requests),
                times,
            );
        }
    }

    /// Returns how long nothing has to be done.
    fn wait(&self, more: bool) -> Duration {
        if more {
            return Duration::ZERO;
        }
        let now_ns = self.times().now_ns;
        let mut due_ns = self.incoming.deadline_ns();
        // Without a link nothing is due: it would be due again and again.
        if let Some(outgoing) = &self.outgoing
            && self.is_linked
        {
            due_ns = due_ns.min(outgoing.deadline_ns());
            // What has come since the last look waits until then for more.
            if self.market.cluster_reader.is_told.load(Ordering::Relaxed) {
                due_ns = due_ns.min(outgoing.next_flush_ns());
            }
        }
        Duration::from_nanos(due_ns.saturating_sub(now_ns)).min(WAIT_MAX)
    }

    fn turn(&mut self) -> bool {
        let times = self.times();
        let mut more = false;
        let link = (&self.link, &mut self.requests);
        if let Some(outgoing) = &mut self.outgoing
            && !self.is_linked
        {
            outgoing.turn_without_link(Stream::Own(&self.market), times.now_ns);
        } else if let Some(outgoing) = &mut self.outgoing {
            if times.now_ns >= outgoing.next_flush_ns() {
                // An exchange: what is in the journal when it is told is seen by the read below.
                self.market
                    .cluster_reader
                    .is_told
                    .swap(false, Ordering::AcqRel);
            }
            more = outgoing.turn(Stream::Own(&self.market), link, times);
        }
        let link = (&self.link, &mut self.requests);
        self.incoming.turn(link, times.now_ns);
        more
    }

    fn event(&mut self, event: Event) {
        let now_ns = self.times().now_ns;
        match event {
            Event::Connected => {
                if !std::mem::replace(&mut self.is_linked, true) {
                    if self.link_log.answers(Instant::now()) {
                        info!("linked to NATS");
                    }
                    self.incoming.connected(now_ns);
                    if let Some(outgoing) = &mut self.outgoing {
                        outgoing.connected(now_ns);
                    }
                }
            }
            Event::Disconnected { reason } => {
                log_end(&mut self.link_log, &reason, self.is_linked);
                if std::mem::take(&mut self.is_linked) {
                    self.losses += 1;
                    self.incoming.disconnected();
                    if let Some(outgoing) = &mut self.outgoing {
                        outgoing.lost_connection();
                    }
                }
            }
            Event::Denied { .. } | Event::NotHearing { .. } => {}
            Event::Message(message) => self.message(&message, now_ns),
            Event::Answer { tag, answer } => {
                let Some(request) = self.requests.close(tag) else {
                    return;
                };
                let link = (&self.link, &mut self.requests);
                match (&request, &mut self.outgoing) {
                    (
                        Request::RemoteHead(..)
                        | Request::RemotePages(..)
                        | Request::RemoteLog(..)
                        | Request::RemoteLogEnd(..),
                        _,
                    ) => self.incoming.answered(request, answer, link, now_ns),
                    (_, Some(outgoing)) => outgoing.answered(request, answer, now_ns),
                    (_, None) => {}
                }
            }
        }
    }

    fn message(&mut self, message: &Message, now_ns: u64) {
        let outgoing = self.outgoing.as_mut();
        if outgoing.is_some_and(|outgoing| outgoing.hear(message, now_ns)) {
            return;
        }
        self.incoming.message(message, now_ns);
    }

    fn show(&mut self) {
        self.shown = Instant::now();
        let now_ns = self.times().now_ns;
        self.market.cluster.set(Shown {
            is_linked: self.is_linked,
            losses: self.losses,
            dropped: self.inbox.dropped(),
            own: self
                .outgoing
                .as_ref()
                .map(|outgoing| outgoing.figures(now_ns)),
            remote: self.incoming.figures(),
            relays: Vec::new(),
        });
    }
}

/// Logs that the link has ended, or cannot be made: at once, then at growing intervals, and at once
/// for another reason.
fn log_end(log: &mut LinkLog, reason: &str, is_linked: bool) {
    let bytes = reason.bytes();
    let sum = bytes.fold(0_u16, |sum, byte| sum.wrapping_mul(31) ^ u16::from(byte));
    if let Some((failures, lasts)) = log.ends_because(Instant::now(), sum) {
        let seconds = lasts.as_secs();
        match is_linked {
            true => warn!(reason, "the link to NATS is lost; reconnecting"),
            false => warn!(reason, failures, seconds, "no link to NATS; retrying"),
        }
    }
}
