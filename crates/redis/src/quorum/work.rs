//! The thread between the keys and NATS.

mod mark;
mod rebuilding;
mod streams;
mod upkeep;

use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use tidewire_cluster::keys::frame::{ADDRESS_LENGTH_MAX, HEADER_LENGTH};
use tidewire_cluster::keys::{
    KeysAction, KeysConfig, KeysEntry, KeysEvent, KeysExtent, KeysHead, KeysHeader, KeysMember,
    KeysPosition, KeysRole, Outcome,
};
use tidewire_cluster::lease::{ENTRY_AGE, is_mark};
use tidewire_cluster::{Entry, LeaseAction};
use tidewire_lane::{monotonic_ns, unguessable_word};
use tidewire_nats::{Answer, Event, Expectation, Fetching, Inbox, Link, LinkThread, Storing};
use tracing::{error, info, warn};

use super::state::{Mode, STALL_SECONDS};
use super::{QuorumConfig, body_bytes_max};
use crate::attention::Obstacles;
use crate::durability::directory;
use crate::server::Server;
use mark::Mark;
use rebuilding::Rebuilding;
use streams::Streams;
use upkeep::Upkeep;

/// Longest delay until a request to stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Time from a failed attempt to make the streams to the next.
const STREAMS_RETRY_NS: u64 = 1_000_000_000;
/// How long the end of the hub waits for what is not acknowledged.
const END_NS_MAX: u64 = 1_000_000_000;
/// Messages that are read at once, and their bytes.
const FETCHED_MAX: usize = 1_000;
const FETCHED_BYTES_MAX: usize = 4 << 20;
/// How long a right that is missing counts as the reason of failures.
const DENIED_NS: u64 = 10_000_000_000;
const STALL_NS: u64 = STALL_SECONDS * 1_000_000_000;

/// The thread. Dropping it gives the lease back, so that another hub takes over.
#[derive(Debug)]
pub struct QuorumThread {
    _thread: LinkThread,
}

impl QuorumThread {
    /// Starts the thread if the server's keys are to survive a machine.
    ///
    /// # Errors
    /// The credentials cannot be read, or no thread can be started.
    pub fn start(server: &Arc<Server>) -> io::Result<Option<Self>> {
        let Some(config) = server.config.quorum.clone() else {
            return Ok(None);
        };
        let inbox = Inbox::new();
        let link = Link::start(config.link.clone(), inbox.clone())?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let _ = server.quorum.inbox.set(inbox.clone());
        server.quorum.shown.lock().group = config.group.clone();
        let mut work = Work::new(
            server.clone(),
            config,
            link,
            inbox.clone(),
            is_stopped.clone(),
        );
        let thread = LinkThread::start("quorum", inbox, is_stopped, move || work.run())?;
        Ok(Some(Self { _thread: thread }))
    }
}

/// A request whose answer is to come.
#[derive(Clone, Copy, Debug)]
enum Request {
    Stream,
    Stored(u64),
    End(u64),
    Entries(u64),
    LeaseWrite(u64),
    LeaseRead(u64),
    LeaseDelete,
    /// Whether the stream of the keys is there.
    Beginning,
    /// A stream that was there before.
    Again,
    /// Whether the bucket that has this revision of the lease is old enough.
    BucketAge(u64, u64),
    /// Who has the lease, and what the stream has, for a hub that has failed.
    Rival,
    FailedStream,
    /// The newest snapshot, and its parts: number of the look, the message that it goes on behind,
    /// and how many there must be.
    Head(u64),
    Parts(u64, u64, u32),
}

struct Work {
    server: Arc<Server>,
    config: QuorumConfig,
    link: Link,
    inbox: Inbox,
    is_stopped: Arc<AtomicBool>,
    member: KeysMember,
    streams: Streams,
    /// The last message that the stream of the keys is known to have had: by this hub's folder, or
    /// by another hub.
    known: u64,
    has_listened: bool,
    gone_since_ns: Option<u64>,
    file: Mark,
    /// When the bucket of leases may be made again.
    bucket_ns: u64,
    /// What tells this process's lease from others'.
    mark: Bytes,
    tag: u64,
    requests: HashMap<u64, Request>,
    /// The database that the stream has selected.
    database: usize,
    /// What was acknowledged when it was looked at last, and since when it is that.
    progress: (u64, u64),
    message: Vec<u8>,
    /// Whether the keys of a snapshot are here, or there is none.
    is_loaded: bool,
    upkeep: Upkeep,
    snapshot_job: Option<JoinHandle<Result<KeysHead, String>>>,
    seed: [u8; 12],
    /// The subject to which this hub's user may not publish, and when the servers said so last.
    denied: Option<(String, u64)>,
    rebuilding: Rebuilding,
}

impl Work {
    fn new(
        server: Arc<Server>,
        config: QuorumConfig,
        link: Link,
        inbox: Inbox,
        is_stopped: Arc<AtomicBool>,
    ) -> Self {
        let mut seed = [0; 12];
        seed[..8].copy_from_slice(&unguessable_word().to_le_bytes());
        seed[8..].copy_from_slice(&(unguessable_word() as u32).to_le_bytes());
        let now_ns = monotonic_ns();
        let mark = format!(
            "{{\"hub\":\"{}\",\"process\":\"{}\"}}",
            config.hub,
            hexadecimal(&seed)
        );
        Self {
            member: KeysMember::new(KeysConfig::of(seed), KeysPosition::default(), now_ns),
            file: Mark::new(server.config.disk.clone(), directory(&server), &config),
            server,
            config,
            link,
            inbox,
            is_stopped,
            streams: Streams::Due(now_ns),
            known: 0,
            has_listened: false,
            gone_since_ns: None,
            bucket_ns: 0,
            mark: mark.into(),
            tag: 0,
            requests: HashMap::new(),
            database: 0,
            progress: (0, now_ns),
            message: Vec::new(),
            is_loaded: false,
            upkeep: Upkeep::default(),
            snapshot_job: None,
            seed,
            denied: None,
            rebuilding: Rebuilding::default(),
        }
    }

    fn run(&mut self) {
        self.link.subscribe(&self.config.mark_subject());
        match self.file.read() {
            Ok(message) => self.known = message,
            Err(text) => self.fail(&text),
        }
        let mut events = Vec::new();
        while !self.is_stopped.load(Ordering::Acquire) {
            self.inbox.take(self.wait(), &mut events);
            for event in events.drain(..) {
                self.event(event);
            }
            self.turn();
        }
        self.end();
    }

    fn wait(&self) -> Duration {
        if self.server.quorum.mode() == Mode::Failed {
            return WAIT_MAX;
        }
        let deadline_ns = self.streams.deadline_ns();
        let deadline_ns = deadline_ns.unwrap_or_else(|| self.member.deadline_ns());
        let now_ns = monotonic_ns();
        Duration::from_nanos(deadline_ns.saturating_sub(now_ns)).min(WAIT_MAX)
    }

    fn turn(&mut self) {
        let now_ns = monotonic_ns();
        match self.streams {
            _ if self.server.quorum.mode() == Mode::Failed => self.follow_failure(now_ns),
            _ if self.server.quorum.is_rebuilding.load(Ordering::SeqCst) => self.is_rebuilt(),
            Streams::Made if !self.is_loaded => self.begin(),
            Streams::Made => {
                let end = self.server.replication.log_end(&self.server);
                self.member.handle_timeout(end, now_ns);
            }
            _ => self.follow_streams(now_ns),
        }
        self.follow_events();
        self.perform();
        self.tell_lanes();
        self.show();
        self.follow_snapshots();
        self.follow_coverage();
        self.file.note(self.member.known_message(), now_ns);
        self.show_mark(now_ns);
    }

    /// Gives what the stream has not acknowledged a moment, and the lease back.
    fn end(&mut self) {
        let until_ns = monotonic_ns() + END_NS_MAX;
        let mut events = Vec::new();
        while self.member.figures().role == KeysRole::Primary
            && self.member.durable() < self.server.replication.log_end(&self.server)
            && monotonic_ns() < until_ns
        {
            self.inbox.take(self.wait(), &mut events);
            for event in events.drain(..) {
                self.event(event);
            }
            self.turn();
        }
        self.server.quorum.set_mode(&self.server, Mode::Suspended);
        self.end_rebuilding();
        self.member.end();
        self.perform();
        if let Some(job) = self.snapshot_job.take() {
            let _ = job.join();
        }
        self.file.finish();
        self.file.note(self.member.known_message(), u64::MAX);
        self.file.finish();
    }

    fn open(&mut self, request: Request) -> u64 {
        self.tag += 1;
        self.requests.insert(self.tag, request);
        self.tag
    }

    fn note_error(&self, what: &str, answer: &Answer) {
        let text = match answer {
            Answer::Failed(text) => format!("{what}: {text}"),
            Answer::TimedOut => format!("{what}: no answer"),
            Answer::NoStream => format!("{what}: no stream, or no leader of it"),
            _ => return,
        };
        let text = match &self.denied {
            Some((subject, at_ns)) if monotonic_ns().saturating_sub(*at_ns) < DENIED_NS => {
                format!("{text} (this hub's NATS user may not publish to {subject})")
            }
            _ => text,
        };
        let mut shown = self.server.quorum.shown.lock();
        if shown.last_error != text {
            warn!("keys: {text}");
            shown.last_error = text;
        }
    }

    fn event(&mut self, event: Event) {
        let now_ns = monotonic_ns();
        match event {
            Event::Connected => self.server.quorum.shown.lock().is_linked = true,
            Event::Disconnected { reason } => {
                let was = std::mem::take(&mut self.server.quorum.shown.lock().is_linked);
                if was {
                    warn!(%reason, "keys: the link to NATS is lost; reconnecting");
                }
            }
            Event::Message(message) => self.heard(&message.payload),
            Event::Denied { subject } => self.denied = Some((subject, now_ns)),
            // An error of its own does not say so: what is not heard is asked for again.
            Event::NotHearing { .. } => {}
            Event::Answer { tag, answer } => {
                if let Some(request) = self.requests.remove(&tag) {
                    self.answer(request, &answer, now_ns);
                }
            }
        }
        self.follow_events();
    }

    fn answer(&mut self, request: Request, answer: &Answer, now_ns: u64) {
        let member = &mut self.member;
        match (request, answer) {
            (Request::Stream, answer) => return self.stream_made(answer),
            (Request::Beginning, answer) => return self.stream_found(answer, now_ns),
            (Request::Rival, answer) => return self.rival_found(answer),
            (Request::FailedStream, answer) => return self.failed_stream_found(answer, now_ns),
            (Request::Again, Answer::Made) => return,
            (Request::Again, _) => {}
            (Request::Head(round), Answer::Newest(entry)) => {
                return self.head_found(round, entry.as_ref());
            }
            (Request::Head(_), Answer::NoStream) => {
                self.member.has_snapshot(0);
                return self.make_snapshot_stream();
            }
            (Request::Parts(round, sequence, parts), Answer::Count(count)) => {
                return self.parts_found((round, sequence, parts), *count);
            }
            (Request::Head(_) | Request::Parts(..), _) => {}
            (Request::Stored(request), Answer::Stored { sequence, .. }) => {
                return member.stored(request, Outcome::Stored(*sequence), now_ns);
            }
            (Request::Stored(request), Answer::Refused) => {
                return member.stored(request, Outcome::Refused, now_ns);
            }
            (Request::Stored(request), Answer::TooLarge { payload_max }) => {
                member.stored(request, Outcome::Unknown, now_ns);
                return match body_bytes_max(*payload_max) {
                    Ok(bytes_max) => {
                        info!(bytes_max, "keys: NATS takes shorter messages");
                        member.limit_body(bytes_max);
                    }
                    Err(text) => self.fail(&text),
                };
            }
            (Request::Stored(request), _) => member.stored(request, Outcome::Unknown, now_ns),
            (Request::End(request), Answer::Extent(extent)) => {
                let extent = KeysExtent {
                    origin: extent.origin,
                    missing: extent.missing,
                    last: extent.last,
                };
                return member.ends_at(request, extent, now_ns);
            }
            (Request::End(request) | Request::Entries(request), Answer::NoStream) => {
                member.has_no_stream(request, now_ns);
            }
            (Request::Entries(request), Answer::Entries(entries)) => {
                let entries = entries.iter().map(|one| KeysEntry {
                    sequence: one.sequence,
                    is_fenced: one.is_fenced,
                    message: &one.payload,
                });
                return member.fetched(request, entries, now_ns);
            }
            (Request::End(request) | Request::Entries(request), _) => {
                member.failed(request, now_ns);
            }
            (Request::LeaseWrite(request), Answer::Stored { sequence, .. }) => {
                return self.lease_written(request, *sequence, now_ns);
            }
            (Request::BucketAge(request, revision), Answer::Extent(extent)) => {
                match u128::from(extent.age_ms) >= ENTRY_AGE.as_millis() {
                    true => member.lease().written(request, revision, now_ns),
                    false => member.lease().failed(request, now_ns),
                }
                return;
            }
            (Request::BucketAge(request, _), _) => member.lease().failed(request, now_ns),
            // Of a write it may be that no server leads; this is said by the leader of all streams.
            (Request::LeaseRead(request), Answer::NoStream) => {
                member.lease().failed(request, now_ns);
                return self.make_bucket(now_ns);
            }
            (Request::LeaseWrite(request), Answer::Refused) => {
                return member.lease().refused(request, now_ns);
            }
            (Request::LeaseRead(request), Answer::Newest(Some(entry))) if entry.is_deletion => {
                return member
                    .lease()
                    .read_deletion(request, entry.sequence, now_ns);
            }
            (Request::LeaseRead(request), Answer::Newest(Some(entry)))
                if !is_mark(&entry.payload) =>
            {
                return member.lease().read_foreign(request, entry.sequence, now_ns);
            }
            (Request::LeaseRead(request), Answer::Newest(entry)) => {
                let found = entry.as_ref().map(|entry| Entry {
                    revision: entry.sequence,
                    is_ours: entry.payload == self.mark,
                });
                member.lease().read(request, found, now_ns);
                if let Some(other) = entry.as_ref().filter(|one| one.payload != self.mark) {
                    self.lease_is_anothers(&other.payload);
                }
                return;
            }
            (Request::LeaseWrite(request) | Request::LeaseRead(request), _) => {
                member.lease().failed(request, now_ns);
            }
            (Request::LeaseDelete, _) => return,
        }
        self.note_error("NATS", answer);
    }

    /// Does what the member asks for.
    fn perform(&mut self) {
        while let Some(action) = self.member.next_action() {
            match action {
                KeysAction::Lease(action) => self.ask_for_lease(action),
                KeysAction::Append {
                    request,
                    expected,
                    header,
                    end,
                } => self.append(request, expected, &header, end),
                KeysAction::Fence {
                    request,
                    expected,
                    header,
                } => {
                    let address = self.config.address.as_bytes();
                    let address = &address[..address.len().min(ADDRESS_LENGTH_MAX)];
                    self.store(request, expected, header.with_body(address).into());
                }
                KeysAction::AskEnd { request } => {
                    let tag = self.open(Request::End(request));
                    self.link.extent(tag, &self.config.stream());
                }
                KeysAction::Fetch { request, after } => {
                    let tag = self.open(Request::Entries(request));
                    let fetching = Fetching {
                        stream: self.config.stream(),
                        subject: self.config.subject(),
                        after,
                        count_max: FETCHED_MAX,
                        bytes_max: FETCHED_BYTES_MAX,
                    };
                    self.link.fetch(tag, fetching);
                }
            }
        }
    }

    /// The entry of the lease was written. In a bucket that was just made again it says nothing
    /// about the hub that had the lease in the one before, and may still serve reads.
    fn lease_written(&mut self, request: u64, revision: u64, now_ns: u64) {
        let has_it = self.member.lease().epoch(now_ns).is_some();
        let is_first_reign = self.member.position().epoch == 0;
        if has_it || is_first_reign {
            return self.member.lease().written(request, revision, now_ns);
        }
        let tag = self.open(Request::BucketAge(request, revision));
        self.link.extent(tag, &self.config.lease_stream());
    }

    fn append(&mut self, request: u64, expected: u64, header: &KeysHeader, end: u64) {
        let mut message = std::mem::take(&mut self.message);
        message.clear();
        message.resize(HEADER_LENGTH, 0);
        let range = (header.offset, end);
        let read = self
            .server
            .replication
            .read_log(&self.server, range, &mut message);
        match read {
            Some(()) => {
                header.seal(&mut message);
                self.store(request, expected, Bytes::copy_from_slice(&message));
            }
            None => self.member.log_is_trimmed(header.offset),
        }
        self.message = message;
    }

    fn store(&mut self, request: u64, expected: u64, payload: Bytes) {
        let tag = self.open(Request::Stored(request));
        let storing = Storing {
            subject: self.config.subject(),
            stream: self.config.stream(),
            expectation: Expectation::Stream(expected),
            payload,
            ..Storing::default()
        };
        self.link.store(tag, storing);
    }

    fn ask_for_lease(&mut self, action: LeaseAction) {
        let subject = self.config.lease_subject();
        let (request, expected, is_deletion) = match action {
            LeaseAction::Create { request } => (Request::LeaseWrite(request), 0, false),
            LeaseAction::Renew { request, revision } => {
                (Request::LeaseWrite(request), revision, false)
            }
            LeaseAction::Delete { revision } => (Request::LeaseDelete, revision, true),
            LeaseAction::Read { request } => {
                let tag = self.open(Request::LeaseRead(request));
                let stream = self.config.lease_stream();
                return self.link.newest(tag, &stream, Some(&subject));
            }
        };
        let tag = self.open(request);
        let payload = match is_deletion {
            true => Bytes::new(),
            false => self.mark.clone(),
        };
        let storing = Storing {
            subject,
            stream: self.config.lease_stream(),
            expectation: Expectation::Subject(expected),
            is_deletion,
            payload,
            ..Storing::default()
        };
        match is_deletion {
            true => self.link.store(tag, storing),
            false => {
                let bucket = streams::lease_settings(&self.config);
                self.link.store_lease(tag, storing, bucket);
            }
        }
    }

    /// Takes the member's events, in their order.
    fn follow_events(&mut self) {
        while let Some(event) = self.member.next_event() {
            let server = self.server.clone();
            let replication = &server.replication;
            if server.quorum.mode() == Mode::Failed {
                continue;
            }
            match event {
                KeysEvent::Apply { bytes, end } => self.apply(&bytes, end),
                KeysEvent::Own { bytes, end } => self.compare(&bytes, end),
                KeysEvent::Reign { history, address } => {
                    let text = String::from_utf8_lossy(&address).into_owned();
                    info!(primary = %text, "keys: another hub is the primary");
                    server.quorum.shown.lock().primary = text;
                    replication.follow_primary(&server, hexadecimal(&history), &address);
                }
                KeysEvent::Serving { history, offset } => {
                    debug_assert_eq!(replication.log_end(&server), offset, "all is applied");
                    // The gate opens when lanes know that replies wait.
                    server.quorum.set_mode(&server, Mode::Suspended);
                    replication.become_primary(&server, hexadecimal(&history));
                    self.begin_serving();
                }
                KeysEvent::Resumed => self.begin_serving(),
                KeysEvent::Deposed => self.deposed(),
                KeysEvent::Lacking => self.lacking(),
                KeysEvent::PassedOver(fault) => error!("keys: {fault}; it is passed over"),
                KeysEvent::Failed(fault) => {
                    self.keep_loaded_keys(&fault);
                    self.fail(&fault.to_string());
                }
            }
        }
    }

    fn begin_serving(&mut self) {
        info!(
            epoch = self.member.figures().position.epoch,
            "keys: this hub is the primary"
        );
        let mut shown = self.server.quorum.shown.lock();
        shown.primary = self.config.address.clone();
        shown.reigns += 1;
        drop(shown);
        self.progress = (self.member.durable(), monotonic_ns());
        self.look_at_snapshots();
    }

    /// Bytes of this hub's reign: they must be those that it has sent.
    fn compare(&mut self, bytes: &[u8], end: u64) {
        let (server, mut own) = (&self.server, Vec::with_capacity(bytes.len()));
        let range = (end.saturating_sub(bytes.len() as u64), end);
        let is_sent = end <= server.replication.log_end(server)
            && server
                .replication
                .read_log(server, range, &mut own)
                .is_some()
            && own == bytes;
        if !is_sent {
            error!("keys: another program has written into this hub's reign");
            self.member.diverges();
        }
    }

    fn apply(&mut self, bytes: &[u8], end: u64) {
        let server = self.server.clone();
        match server
            .replication
            .apply_units(&server, bytes, self.database)
        {
            Ok(database) if server.replication.log_end(&server) == end => self.database = database,
            Ok(_) => self.fail("the log does not continue the stream KEYS"),
            Err(text) => self.fail(&format!("the stream KEYS cannot be applied: {text}")),
        }
    }

    /// Another hub is the primary. What was changed here and is not in the stream is discarded:
    /// all keys are loaded again.
    fn deposed(&mut self) {
        warn!("keys: another hub has become the primary; unacknowledged changes are discarded");
        let (server, is_stopped) = (self.server.clone(), self.is_stopped.clone());
        let quorum = &server.quorum;
        quorum.serves_until_ns.store(0, Ordering::SeqCst);
        quorum.set_mode(&server, Mode::Loading);
        quorum.has_keys.store(false, Ordering::SeqCst);
        self.set_stalled(false);
        quorum.cuts.fetch_add(1, Ordering::SeqCst);
        quorum.shown.lock().deposed += 1;
        quorum.wake_lanes(&server);
        // Each lane ends two turns, and so cuts the replies that wait.
        let is_over = || is_stopped.load(Ordering::Acquire);
        if !server.replication.leave_primary(&server, is_over) {
            return;
        }
        quorum.durable.store(0, Ordering::SeqCst);
        quorum.told.store(0, Ordering::SeqCst);
        if let Some(position) = self.load_snapshot() {
            self.member.restart(position, monotonic_ns());
        }
    }

    fn fail(&mut self, text: &str) {
        error!("keys: {text}; they are not served until the hub is started again");
        let quorum = &self.server.quorum;
        quorum.serves_until_ns.store(0, Ordering::SeqCst);
        quorum.set_mode(&self.server, Mode::Failed);
        let mut shown = quorum.shown.lock();
        if shown.fault.is_empty() {
            shown.fault = text.to_owned();
        }
        drop(shown);
        quorum.cuts.fetch_add(1, Ordering::SeqCst);
        quorum.wake_lanes(&self.server);
        self.member.end();
    }

    /// Publishes what lanes look at.
    fn tell_lanes(&mut self) {
        let now_ns = monotonic_ns();
        let server = &self.server;
        let quorum = &server.quorum;
        let mode = quorum.mode();
        if mode == Mode::Failed {
            return;
        }
        let role = self.member.figures().role;
        let until_ns = self.member.serves_until_ns(now_ns);
        quorum.serves_until_ns.store(until_ns, Ordering::SeqCst);
        let now = match role {
            KeysRole::Primary if until_ns > now_ns => Mode::Primary,
            KeysRole::Primary => Mode::Suspended,
            KeysRole::Standby | KeysRole::Candidate if mode != Mode::Primary => Mode::Standby,
            KeysRole::Failed => Mode::Failed,
            _ => Mode::Loading,
        };
        if now == Mode::Standby && mode == Mode::Loading {
            server.replication.has_all_keys(server);
        }
        if matches!(now, Mode::Standby | Mode::Primary) {
            quorum.has_keys.store(true, Ordering::SeqCst);
        }
        if now != mode {
            quorum.set_mode(server, now);
        }
        let durable = self.member.durable();
        if matches!(role, KeysRole::Primary) {
            if quorum.durable.swap(durable, Ordering::SeqCst) != durable {
                quorum.wake_lanes(server);
            }
            self.note_progress(durable, now_ns);
        } else if role != KeysRole::Deposed {
            quorum.durable.store(durable, Ordering::SeqCst);
        }
    }

    /// After a while without an answer clients are told, and further ones refused.
    fn note_progress(&mut self, durable: u64, now_ns: u64) {
        let has_all = durable >= self.server.replication.log_end(&self.server);
        if durable != self.progress.0 || has_all {
            self.progress = (durable, now_ns);
            self.set_stalled(false);
        } else if now_ns - self.progress.1 >= STALL_NS {
            self.progress.1 = now_ns;
            self.set_stalled(true);
            self.server.quorum.cuts.fetch_add(1, Ordering::SeqCst);
            self.server.quorum.wake_lanes(&self.server);
        }
    }

    fn set_stalled(&self, is_stalled: bool) {
        let (server, quorum) = (&self.server, &self.server.quorum);
        if quorum.is_stalled.swap(is_stalled, Ordering::SeqCst) == is_stalled {
            return;
        }
        match is_stalled {
            true => {
                error!("keys: the quorum has not answered for {STALL_SECONDS} s");
                quorum.shown.lock().stalls += 1;
                server.attention.set(Obstacles::NOT_CURRENT, true);
            }
            false => {
                warn!("keys: the quorum answers again");
                quorum.set_mode(server, quorum.mode());
            }
        }
    }

    /// Shows whether it is noted which message the stream has had.
    fn show_mark(&self, now_ns: u64) {
        let fault = self.file.fault(now_ns).unwrap_or_default();
        let mut shown = self.server.quorum.shown.lock();
        if shown.mark_fault != fault {
            shown.mark_fault = fault;
        }
    }

    fn show(&self) {
        self.server.quorum.shown.lock().figures = Some(self.member.figures());
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
