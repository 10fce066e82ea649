//! What this hub publishes to the cluster: the topics of its own sources, while it owns them.

use bytes::Bytes;
use tidewire_cluster::{
    Destination, Entry, Frame, Lease, LeaseAction, LeaseConfig, LeaseEvent, Owner, OwnerAction,
    OwnerConfig, OwnerState, Path, Publication, Times, lease,
};
use tidewire_feed::server::Relay;
use tidewire_nats::{Answer, Expectation, Link, Message, Storing};
use tracing::{info, warn};

use super::config::ClusterConfig;
use super::conflation::Conflation;
use super::own::OwnTopics;
use super::requests::{Request, Requests};
use super::status::Outgoing as Figures;
use super::streams::{Outcome, Streams, bucket};
use super::subjects::{Kind, Subjects, parse};
use crate::market::Market;

/// Entries of the board that are looked at for a snapshot under one lock of the journal.
const ENTRIES_A_SLICE: usize = 512;
/// Slots of topics that are looked at for a snapshot in one turn.
const SLOTS_A_TURN: usize = 4_096;
/// Frames that are made under one lock of the journal.
const FRAMES_A_SLICE: usize = 2;
/// Slices a turn: then what has arrived is looked at.
const SLICES_A_TURN: usize = 32;

/// What an owner publishes.
#[derive(Clone, Copy)]
pub(super) enum Stream<'a> {
    /// The topics of this hub's own sources.
    Own(&'a Market),
    /// What a relay has made of another hub's.
    Relay(&'a Conflation),
    /// Its topics beyond market data.
    Topics(&'a tidewire_cluster::OwnTopics),
}

/// The sending side.
pub(super) struct Outgoing {
    config: ClusterConfig,
    subjects: Subjects,
    origin: u16,
    /// What this process writes into the lease: no other one writes the same.
    mark: Bytes,
    streams: Streams,
    lease: Lease,
    owner: Option<Owner>,
    actions: Vec<OwnerAction>,
    /// The session of this hub's stream.
    session: u32,
    deposed_by: u64,
    /// Relays that the source has passed, this hub included.
    relays: u8,
    /// The clusters that it has come through.
    path: Path,
    /// Bytes of the frames that were published.
    bytes: u64,
}

impl Outgoing {
    pub(super) fn new(
        config: &ClusterConfig,
        subjects: Subjects,
        session: u32,
        now_ns: u64,
    ) -> Self {
        let mark = format!("{{\"hub\":\"{}\",\"session\":{session}}}", config.hub);
        Self {
            subjects,
            origin: origin(config.hub.as_str()),
            mark: mark.into(),
            streams: Streams::new(now_ns),
            lease: Lease::new(LeaseConfig::default(), now_ns),
            owner: None,
            actions: Vec::new(),
            session,
            deposed_by: 0,
            relays: 0,
            path: Path::default(),
            bytes: 0,
            config: config.clone(),
        }
    }

    /// Says how many relays the source has passed, and which clusters it has come through.
    pub(super) fn relayed(self, relays: u8, path: Path) -> Self {
        Self {
            relays,
            path,
            ..self
        }
    }

    /// Returns whether this hub owns the source.
    pub(super) fn is_owner(&self) -> bool {
        self.owner.is_some()
    }

    /// Returns the reign of this hub at this moment, if it owns the source.
    pub(super) fn reign(&self, now_ns: u64) -> Option<u64> {
        self.owner.as_ref()?;
        self.lease.epoch(now_ns)
    }

    /// Returns the bytes of all frames that were published.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Subscribes to what others do under this source's name: pages, and an orderly end.
    pub(super) fn subscribe(&self, link: &Link) {
        link.subscribe(&self.subjects.snapshot());
        link.subscribe(&self.subjects.lease());
    }

    /// Handles a message of these subscriptions. Returns false if it is another one.
    pub(super) fn hear(&mut self, message: &Message, now_ns: u64) -> bool {
        let is_lease = self.subjects.lease() == message.subject;
        if is_lease && !lease::is_mark(&message.payload) {
            // It was deleted, or another client has had NATS write there.
            self.lease.entry_is_gone(now_ns);
            return true;
        }
        match parse(&message.subject) {
            Some((Kind::Head | Kind::Page, source)) if source == self.source() => {
                if let Some(owner) = &mut self.owner {
                    owner.snapshot_seen(&message.payload);
                }
                true
            }
            _ => false,
        }
    }

    /// Does what is due. Returns whether more is ready.
    pub(super) fn turn(
        &mut self,
        stream: Stream<'_>,
        (link, requests): (&Link, &mut Requests),
        times: Times,
    ) -> bool {
        let now_ns = times.now_ns;
        let place = (&self.config, &self.subjects);
        for stream in self
            .streams
            .wanted(place, (now_ns, times.wall_ms))
            .into_iter()
            .flatten()
        {
            link.make_stream(requests.open(Request::Stream), stream);
        }
        if !self.streams.have_existed() {
            return false;
        }
        self.lease.handle_timeout(now_ns);
        self.follow_lease(stream, now_ns);
        self.ask_for_lease(link, requests);
        let more = self.produce(stream, times);
        self.publish(link, requests);
        self.look_at_snapshots(link, requests, now_ns);
        self.note_end();
        more
    }

    /// Ends a reign whose time is over, while there is no link.
    pub(super) fn turn_without_link(&mut self, stream: Stream<'_>, now_ns: u64) {
        self.lease.expire(now_ns);
        self.follow_lease(stream, now_ns);
    }

    /// Asks whether the stream of snapshots exists and has all pages: an operator may have deleted
    /// it, or some.
    fn look_at_snapshots(&mut self, link: &Link, requests: &mut Requests, now_ns: u64) {
        let Some(owner) = &self.owner else { return };
        if self.streams.looks(now_ns) {
            let expected = owner.stored_messages().unwrap_or(0);
            let epoch = owner.figures(now_ns).epoch;
            let tag = requests.open(Request::PageCount(epoch, expected));
            link.count(tag, &self.subjects.snapshot_stream(), None);
        }
    }

    fn stream_made(&mut self, answer: &Answer, now_ns: u64) {
        let outcome = self
            .streams
            .answered(answer, self.subjects.source(), now_ns);
        let Some(owner) = &mut self.owner else { return };
        match outcome {
            Outcome::Open => {}
            Outcome::Exist | Outcome::Failed => owner.hold_snapshot(false),
            Outcome::ExistAgain => {
                // It may be that of snapshots that was gone.
                owner.hold_snapshot(false);
                owner.rewrite_snapshot();
            }
        }
    }

    /// Notes what an answer says of the streams.
    fn note_streams(&mut self, request: &Request, answer: &Answer, now_ns: u64) {
        let (epoch, is_look) = match request {
            Request::Page(epoch, _) | Request::Head(epoch) => (*epoch, false),
            Request::PageCount(epoch, _) => (*epoch, true),
            _ => (0, false),
        };
        let is_gone = matches!(answer, Answer::NoStream);
        if is_gone {
            self.streams.one_is_gone(now_ns);
        }
        let Some(owner) = &mut self.owner else { return };
        if epoch != owner.figures(now_ns).epoch {
            return;
        }
        if is_gone || is_look {
            // After any other answer to a look, pages are tried.
            owner.hold_snapshot(is_gone);
        }
        if !is_look && !matches!(answer, Answer::Stored { .. }) {
            self.streams.not_stored(now_ns);
        }
    }

    /// Begins or ends a reign as the lease says.
    fn follow_lease(&mut self, stream: Stream<'_>, now_ns: u64) {
        while let Some(event) = self.lease.next_event() {
            match event {
                LeaseEvent::Acquired { epoch } => {
                    info!(source = %self.source(), epoch, "this hub owns the source now");
                    let config = OwnerConfig {
                        origin: self.origin,
                        relays: self.relays,
                        path: self.path,
                        ..OwnerConfig::of(epoch)
                    };
                    let mut owner = match stream {
                        Stream::Own(market) => {
                            let (own, journal) = (own(market), market.journal.lock());
                            Owner::new(config, &Relay::new(&journal, &own), now_ns)
                        }
                        Stream::Relay(relay) => Owner::new(config, &relay.stream(), now_ns),
                        Stream::Topics(topics) => Owner::new(config, &topics.relay(), now_ns),
                    };
                    // Until it is known that their stream exists.
                    owner.hold_snapshot(true);
                    self.streams.reign_begins(now_ns);
                    self.owner = Some(owner);
                }
                LeaseEvent::Lost => {
                    warn!(source = %self.source(), "this hub does not own the source any more");
                    self.owner = None;
                }
            }
        }
    }

    fn ask_for_lease(&mut self, link: &Link, requests: &mut Requests) {
        while let Some(action) = self.lease.next_action() {
            let write = |expected, is_deletion, payload| Storing {
                subject: self.subjects.lease(),
                stream: self.subjects.lease_stream(),
                expectation: Expectation::Subject(expected),
                is_deletion,
                payload,
                ..Storing::default()
            };
            match action {
                LeaseAction::Create { request } => {
                    let tag = requests.open(Request::LeaseWrite(request));
                    let bucket = bucket((&self.config, &self.subjects), 0);
                    link.store_lease(tag, write(0, false, self.mark.clone()), bucket);
                }
                LeaseAction::Renew { request, revision } => {
                    let tag = requests.open(Request::LeaseWrite(request));
                    let bucket = bucket((&self.config, &self.subjects), 0);
                    link.store_lease(tag, write(revision, false, self.mark.clone()), bucket);
                }
                LeaseAction::Read { request } => {
                    let tag = requests.open(Request::LeaseRead(request));
                    let subject = self.subjects.lease();
                    link.newest(tag, &self.subjects.lease_stream(), Some(&subject));
                }
                LeaseAction::Delete { revision } => {
                    let tag = requests.open(Request::LeaseDelete);
                    link.store(tag, write(revision, true, Bytes::new()));
                }
            }
        }
    }

    fn produce(&mut self, stream: Stream<'_>, times: Times) -> bool {
        let Some(owner) = &mut self.owner else {
            return false;
        };
        let market = match stream {
            Stream::Own(market) => market,
            Stream::Topics(topics) => {
                let (reader, actions) = (topics.relay(), &mut self.actions);
                let more = owner.produce(&reader, times.now_ns, actions);
                let sources = (&reader, topics);
                return owner.produce_records(sources, times, SLOTS_A_TURN, actions) || more;
            }
            Stream::Relay(relay) => {
                // No other thread waits for its journal.
                let (reader, actions) = (relay.stream(), &mut self.actions);
                let more = owner.produce(&reader, times.now_ns, actions);
                return more
                    | owner.produce_snapshot((&reader, relay), times, ENTRIES_A_SLICE, actions);
            }
        };
        let own = own(market);
        let mut more = true;
        for _ in 0..SLICES_A_TURN {
            let journal = market.journal.lock();
            let reader = Relay::new(&journal, &own);
            more = owner.produce_some(&reader, times.now_ns, FRAMES_A_SLICE, &mut self.actions);
            drop(journal);
            if !more {
                break;
            }
        }
        let journal = market.journal.lock();
        let reader = (&Relay::new(&journal, &own), &own);
        more |= owner.produce_snapshot(reader, times, ENTRIES_A_SLICE, &mut self.actions);
        more
    }

    fn publish(&mut self, link: &Link, requests: &mut Requests) {
        let epoch = self
            .owner
            .as_ref()
            .map_or(0, |owner| owner.figures(0).epoch);
        for action in self.actions.drain(..) {
            let Publication { to, bytes } = match action {
                OwnerAction::Publish(publication) => publication,
                OwnerAction::AskLogEnd { question } => {
                    let tag = requests.open(Request::LogEnd(epoch, question));
                    link.newest(tag, &self.subjects.log_stream(), None);
                    continue;
                }
            };
            let payload = Bytes::from_owner(bytes);
            self.bytes += payload.len() as u64;
            match to {
                Destination::Live => {
                    // What does not fit is missing for the edges, which fetch it from the log.
                    let _ = link.publish(&self.subjects.live(), payload);
                }
                Destination::Log { id, expected_last } => {
                    let storing = Storing {
                        subject: self.subjects.log(),
                        stream: self.subjects.log_stream(),
                        id: id.to_string(),
                        expectation: Expectation::Stream(expected_last),
                        payload,
                        ..Storing::default()
                    };
                    link.store(requests.open(Request::Frame(id)), storing);
                }
                Destination::Page(page) => {
                    let storing = Storing {
                        subject: self.subjects.page(page),
                        stream: self.subjects.snapshot_stream(),
                        payload,
                        ..Storing::default()
                    };
                    link.store(requests.open(Request::Page(epoch, page)), storing);
                }
                Destination::Head => {
                    let storing = Storing {
                        subject: self.subjects.head(),
                        stream: self.subjects.snapshot_stream(),
                        payload,
                        ..Storing::default()
                    };
                    link.store(requests.open(Request::Head(epoch)), storing);
                }
            }
        }
    }

    /// Gives the source up if another hub owns it.
    fn note_end(&mut self) {
        let Some(owner) = &self.owner else { return };
        if let OwnerState::Deposed { by } = owner.state() {
            warn!(
                source = %self.source(),
                epoch = by,
                "another hub owns the source now: this one publishes nothing"
            );
            self.deposed_by = by;
            self.owner = None;
            self.lease.end();
        }
    }

    /// Handles the answer to one of its requests.
    pub(super) fn answered(&mut self, request: Request, answer: Answer, now_ns: u64) {
        match (request, answer) {
            (Request::Stream, answer) => self.stream_made(&answer, now_ns),
            (Request::LeaseWrite(number), Answer::Stored { sequence, .. }) => {
                self.lease.written(number, sequence, now_ns);
            }
            (Request::LeaseWrite(number), Answer::Refused) => self.lease.refused(number, now_ns),
            (Request::LeaseRead(number), Answer::Newest(Some(entry))) if entry.is_deletion => {
                self.lease.read_deletion(number, entry.sequence, now_ns);
            }
            (Request::LeaseRead(number), Answer::Newest(Some(entry)))
                if !lease::is_mark(&entry.payload) =>
            {
                self.lease.read_foreign(number, entry.sequence, now_ns);
            }
            (Request::LeaseRead(number), Answer::Newest(entry)) => {
                let entry = entry.map(|entry| Entry {
                    revision: entry.sequence,
                    is_ours: entry.payload == self.mark,
                });
                self.lease.read(number, entry, now_ns);
            }
            (Request::LeaseWrite(number) | Request::LeaseRead(number), answer) => {
                match answer {
                    Answer::NoStream => self.streams.one_is_gone(now_ns),
                    Answer::Failed(reason) => {
                        self.streams.note_fault(&reason, self.subjects.source());
                    }
                    _ => {}
                }
                self.lease.failed(number, now_ns);
            }
            (request, answer) => self.frame_answered(&request, &answer, now_ns),
        }
    }

    fn frame_answered(&mut self, request: &Request, answer: &Answer, now_ns: u64) {
        self.note_streams(request, answer, now_ns);
        let Some(owner) = &mut self.owner else { return };
        let epoch = owner.figures(now_ns).epoch;
        let source = self.subjects.source();
        let is_stored = matches!(answer, Answer::Stored { .. });
        match (request, answer) {
            (Request::Frame(id), Answer::Stored { sequence, .. }) if id.epoch == epoch => {
                owner.acknowledged(*id, *sequence);
            }
            (Request::Frame(id), Answer::Refused) if id.epoch == epoch => owner.refused(*id),
            (Request::Frame(id), _) if id.epoch == epoch => owner.timed_out(*id),
            (Request::Page(of, page), _) if *of == epoch => match is_stored {
                true => owner.page_stored(*page),
                false => owner.page_failed(*page),
            },
            (Request::Head(of), _) if *of == epoch => match is_stored {
                true => owner.head_stored(),
                false => owner.head_failed(),
            },
            (Request::LogEnd(of, question), Answer::Newest(entry)) if *of == epoch => {
                let last = entry.as_ref().and_then(|entry| {
                    let frame = Frame::decode(&entry.payload).ok()?;
                    Some(frame.header)
                });
                let sequence = entry.as_ref().map_or(0, |entry| entry.sequence);
                owner.log_end(*question, sequence, last);
            }
            (Request::LogEnd(of, question), Answer::NoMessage { last_sequence })
                if *of == epoch =>
            {
                owner.log_end(*question, *last_sequence, None);
            }
            (Request::PageCount(of, expected), Answer::Count(count))
                if *of == epoch && count < expected =>
            {
                warn!(
                    source,
                    count, expected, "the snapshot has lost pages; writing all again"
                );
                owner.rewrite_snapshot();
            }
            (Request::LogEnd(of, _), _) if *of == epoch => owner.log_end_failed(now_ns),
            _ => {}
        }
    }

    pub(super) fn connected(&mut self, now_ns: u64) {
        if let Some(owner) = &mut self.owner {
            owner.connected(now_ns);
        }
    }

    pub(super) fn lost_connection(&mut self) {
        if let Some(owner) = &mut self.owner {
            owner.lost_connection();
        }
    }

    /// Gives the source up in order, at the hub's end: what is left is published.
    pub(super) fn end(
        &mut self,
        stream: Stream<'_>,
        (link, requests): (&Link, &mut Requests),
        times: Times,
    ) {
        if let Some(owner) = &mut self.owner {
            owner.end();
            self.produce(stream, times);
            self.publish(link, requests);
        }
        self.lease.end();
        self.ask_for_lease(link, requests);
    }

    /// Returns when [`Outgoing::turn`] must be called even if the journal has nothing new.
    pub(super) fn deadline_ns(&self) -> u64 {
        let streams_ns = self.streams.deadline_ns();
        if !self.streams.have_existed() {
            return streams_ns;
        }
        let owner_ns = self.owner.as_ref().map_or(u64::MAX, |owner| {
            owner.deadline_ns().min(self.streams.look_ns())
        });
        self.lease.deadline_ns().min(owner_ns).min(streams_ns)
    }

    /// Returns until when new messages of the journal may wait; 0 for not at all.
    pub(super) fn next_flush_ns(&self) -> u64 {
        self.owner.as_ref().map_or(u64::MAX, Owner::next_flush_ns)
    }

    /// Returns why one of its streams cannot be used; empty if all can.
    pub(super) fn fault(&self) -> &str {
        self.streams.fault()
    }

    /// Returns the figures.
    pub(super) fn figures(&self, now_ns: u64) -> Figures {
        let owner = self.owner.as_ref();
        Figures {
            source: self.source().to_owned(),
            is_owner: owner.is_some(),
            deposed_by: self.deposed_by,
            session: self.session,
            fault: self.streams.fault().to_owned(),
            figures: owner.map(|owner| owner.figures(now_ns)).unwrap_or_default(),
        }
    }

    fn source(&self) -> &str {
        self.subjects.source()
    }
}

fn own(market: &Market) -> OwnTopics<'_> {
    OwnTopics {
        board: &market.board,
        remote: &market.remote,
    }
}

/// Returns the number of a hub: for the operator's eyes, as two hubs may have the same.
fn origin(hub: &str) -> u16 {
    let bytes = hub.bytes();
    bytes.fold(0x1505_u16, |hash, byte| {
        hash.wrapping_mul(33).wrapping_add(byte.into())
    })
}
