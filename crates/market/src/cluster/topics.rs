//! Topics beyond market data across hubs: `live:` keys and plant tags.
//!
//! One thread with a link of its own has it all, beside the thread of market data: it locks the
//! shards of keys, and a script may hold those for long. No lane waits for it.
//!
//! ```text
//!  lanes ─ names ─▶ Own (OwnTopics, Outgoing) ─▶ Link ─▶ NATS
//!  keys, publications ◀─ Remote (Follower, TopicClient) ◀─ Inbox ◀─ NATS
//!  a client's SET ─ HubWrites ─▶ Asking ─▶ NATS ─▶ Taking ─▶ plant or keys, and the audit
//! ```

mod asking;
mod audit;
mod own;
mod remote;
mod taking;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidewire_cluster::Times;
use tidewire_fanout::{ChangedNames, HubWrites, SharedKeys, SharedTags, TagViews};
use tidewire_lane::unix_ns;
use tidewire_nats::{Answer, Event, Inbox, Link, LinkThread, Message};
use tracing::{info, warn};

use super::config::ClusterConfig;
use super::requests::{Request, Requests};
use super::subjects::{HUB_MARK, parse, parse_write, received_topics};
use super::{SHOW_INTERVAL, WAIT_MAX};
use crate::remote_board::RemoteBoard;
use asking::Asking;
use own::Own;
use remote::Remote;
use taking::Taking;

/// What the thread needs of the hub.
#[derive(Clone, Debug)]
pub struct SharedTopics {
    /// The live keys.
    pub keys: Arc<dyn SharedKeys>,
    /// The tags of a plant, if this hub has one.
    pub tags: Option<Arc<dyn SharedTags>>,
    /// What clients see of tags of other hubs.
    pub views: Arc<dyn TagViews>,
    /// Names of keys and tags that have changed.
    pub names: Arc<ChangedNames>,
    /// Writes between hubs.
    pub writes: Arc<HubWrites>,
    /// Topics of other hubs.
    pub board: Arc<RemoteBoard>,
}

/// The thread of a hub that shares topics. Dropping it ends the hub's part in order.
#[derive(Debug)]
pub struct TopicsCluster {
    _thread: LinkThread,
}

impl TopicsCluster {
    /// Starts the thread.
    ///
    /// # Errors
    /// The credentials cannot be read, or no thread can be started.
    pub fn start(shared: &SharedTopics, config: &ClusterConfig) -> Result<Self, String> {
        let inbox = Inbox::new();
        let mut settings = config.link.clone();
        settings.name.push_str(" topics");
        let link = Link::start(settings, inbox.clone())
            .map_err(|error| format!("no link to NATS: {error}"))?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let waker = inbox.clone();
        shared.names.set_waker(move || waker.wake());
        let waker = inbox.clone();
        shared.writes.set_waker(move || waker.wake());
        let mut work = Work::new(shared, config, link, inbox.clone(), is_stopped.clone());
        let thread = LinkThread::start("topics", inbox, is_stopped, move || work.run())
            .map_err(|error| format!("cannot start the thread of shared topics: {error}"))?;
        Ok(Self { _thread: thread })
    }
}

/// The state of the thread.
struct Work {
    shared: SharedTopics,
    link: Link,
    inbox: Inbox,
    is_stopped: Arc<AtomicBool>,
    begin: Instant,
    requests: Requests,
    /// The own name as a source.
    own_name: String,
    own: Option<Own>,
    remote: Remote,
    asking: Asking,
    /// Writes of other hubs, if this one takes them.
    taking: Option<Taking>,
    is_open: bool,
    is_linked: bool,
    shown: Instant,
}

impl Work {
    fn new(
        shared: &SharedTopics,
        config: &ClusterConfig,
        link: Link,
        inbox: Inbox,
        is_stopped: Arc<AtomicBool>,
    ) -> Self {
        let own_name = format!("{HUB_MARK}{}", config.hub);
        for subject in received_topics(&config.name) {
            link.subscribe(&subject);
        }
        let own = (!config.share.is_empty()).then(|| Own::new(config, &own_name, shared.clone()));
        if let Some(own) = &own {
            own.outgoing.subscribe(&link);
        }
        let takes = own.is_some() && config.writes.are_taken;
        let taking = takes.then(|| Taking::new(config, shared.clone()));
        if let Some(taking) = &taking {
            link.subscribe(&taking.subject());
        }
        Self {
            shared: shared.clone(),
            remote: Remote::new(config, shared.clone()),
            asking: Asking::new(config, shared.clone()),
            taking,
            link,
            inbox,
            is_stopped,
            begin: Instant::now(),
            requests: Requests::default(),
            own_name,
            own,
            is_open: false,
            is_linked: false,
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
            self.shared.keys.tell_caches();
            if self.shown.elapsed() >= SHOW_INTERVAL {
                self.show();
            }
        }
        let times = self.times();
        if self.is_open {
            self.take_changes();
        }
        if let Some(own) = &mut self.own {
            own.end((&self.link, &mut self.requests), times);
        }
    }

    /// Returns how long nothing has to be done.
    fn wait(&self, more: bool) -> Duration {
        if more {
            return Duration::ZERO;
        }
        let mut due_ns = self.remote.deadline_ns().min(self.asking.deadline_ns());
        // Without a link nothing is due: it would be due again and again.
        if let Some(own) = &self.own
            && self.is_linked
        {
            due_ns = due_ns.min(own.deadline_ns());
        }
        if let Some(taking) = &self.taking
            && self.is_linked
        {
            due_ns = due_ns.min(taking.deadline_ns());
        }
        if self.is_open && !self.shared.names.is_empty() {
            due_ns = due_ns.min(self.own.as_ref().map_or(0, Own::due_ns));
        }
        let now_ns = self.times().now_ns;
        Duration::from_nanos(due_ns.saturating_sub(now_ns)).min(WAIT_MAX)
    }

    fn turn(&mut self) -> bool {
        let times = self.times();
        let is_open = self.shared.keys.is_open();
        if is_open != std::mem::replace(&mut self.is_open, is_open) {
            self.opened(is_open);
        }
        let mut more = false;
        if let Some(own) = &mut self.own {
            own.look_at_some(is_open);
        }
        if is_open && times.now_ns >= self.own.as_ref().map_or(0, Own::due_ns) {
            self.take_changes();
        }
        let link = (&self.link, &mut self.requests);
        if let Some(own) = &mut self.own {
            more = match self.is_linked {
                true => own.turn(link, times),
                false => own.turn_without_link(times.now_ns),
            };
        }
        let link = (&self.link, &mut self.requests);
        self.remote.turn(is_open, link, times.now_ns);
        self.turn_writes(times.now_ns);
        more
    }

    fn turn_writes(&mut self, now_ns: u64) {
        for hub in self.remote.take_lost() {
            self.asking.lost(&hub);
        }
        let remote = (&self.remote, self.is_linked);
        let link = (&self.link, &mut self.requests);
        self.asking.turn(remote, link, now_ns);
        if let Some(taking) = &mut self.taking
            && self.is_linked
        {
            taking.turn((&self.link, &mut self.requests), now_ns);
        }
    }

    /// The keys are complete and this hub's own, or are so no more.
    fn opened(&mut self, is_open: bool) {
        if is_open {
            self.shared.names.note_all();
        } else {
            info!("topics are not shared while keys are loaded or a master's");
        }
    }

    fn take_changes(&mut self) {
        let changed = self.shared.names.take();
        if let Some(own) = &mut self.own {
            own.changed(&changed);
        }
        if changed.all {
            self.remote.all_own_changed();
        }
        for name in &changed.names {
            self.remote.own_changed(name);
        }
    }

    fn event(&mut self, event: Event) {
        let now_ns = self.times().now_ns;
        match event {
            Event::Connected => {
                if !std::mem::replace(&mut self.is_linked, true) {
                    self.remote.connected(now_ns);
                    self.asking.connected();
                    if let Some(own) = &mut self.own {
                        own.outgoing.connected(now_ns);
                    }
                }
            }
            Event::Disconnected { reason } => {
                if std::mem::take(&mut self.is_linked) {
                    warn!(%reason, "the link to NATS for topics is lost; reconnecting");
                    self.remote.disconnected();
                    self.asking.disconnected();
                    if let Some(own) = &mut self.own {
                        own.outgoing.lost_connection();
                    }
                }
            }
            Event::Denied { subject } => self.asking.denied(&subject),
            Event::NotHearing { subject } => self.asking.not_hearing(&subject),
            Event::Message(message) => self.message(&message, now_ns),
            Event::Answer { tag, answer } => {
                if let Some(request) = self.requests.close(tag) {
                    self.answered(request, answer, now_ns);
                }
            }
        }
    }

    fn message(&mut self, message: &Message, now_ns: u64) {
        let own = self.own.as_mut();
        if own.is_some_and(|own| own.outgoing.hear(message, now_ns)) {
            return;
        }
        match parse(&message.subject) {
            Some((_, source)) if source == self.own_name => {}
            Some((kind, source)) => self.remote.message(kind, source, message, now_ns),
            None => {
                let edge = parse_write(&message.subject);
                let sides = (edge, &mut self.taking, &self.own);
                if let (Some(edge), Some(taking), Some(own)) = sides {
                    let link = (&self.link, &mut self.requests);
                    taking.request(own, edge, message, link, now_ns);
                }
            }
        }
    }

    fn answered(&mut self, request: Request, answer: Answer, now_ns: u64) {
        let link = (&self.link, &mut self.requests);
        match request {
            Request::RemoteHead(..)
            | Request::RemotePages(..)
            | Request::RemoteLog(..)
            | Request::RemoteLogEnd(..) => self.remote.answered(&request, answer, link, now_ns),
            Request::Write(number) => {
                let remote = (&self.remote, self.is_linked);
                self.asking.answered(number, answer, remote, link, now_ns);
            }
            Request::AuditStream => {
                if let Some(taking) = &mut self.taking {
                    taking.audit_stream_made(&answer, now_ns);
                }
            }
            Request::AuditLine(line) => {
                if let (Some(taking), Some(own)) = (&mut self.taking, &self.own) {
                    taking.audited(own, line, &answer, now_ns);
                }
            }
            request => {
                if let Some(own) = &mut self.own {
                    own.outgoing.answered(request, answer, now_ns);
                }
            }
        }
    }

    fn show(&mut self) {
        self.shown = Instant::now();
        let now_ns = self.times().now_ns;
        let own = self.own.iter().flat_map(|own| {
            let fault = own.fault().to_owned();
            [
                ("cluster_topics".to_owned(), own.line(now_ns)),
                ("cluster_topics_fault".to_owned(), fault),
            ]
        });
        self.shared
            .board
            .show(own.chain(self.remote.lines()).collect());
    }
}
