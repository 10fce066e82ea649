//! Sessions of clients and publishers on the native feed port.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidewire_feed::faults::{FaultInjector, Pause};
use tidewire_feed::server::{Session as ServerSession, SessionConfig, SessionError, Steps};
use tidewire_feed::wire::{RefusalReason, SlowPolicy};
use tidewire_lane::{CloseReason, ConnectionId, Context};
use tracing::{debug, warn};

use crate::access::{FeedUser, Guard, Look};
use crate::ingest::Ingest;
use crate::market::Market;
use crate::publishers::ParkedPublisher;
use tidewire_fanout::{Dispatch, Publication};
use tidewire_retry::Seldom;

/// Counters of slow feed clients; every field only grows.
#[derive(Debug, Default)]
pub struct SlowFeeds {
    /// Messages that were replaced by snapshots.
    pub conflated: AtomicU64,
    /// Messages that were dropped, with the gap marked.
    pub dropped: AtomicU64,
    /// Clients that were disconnected.
    pub cut_off: AtomicU64,
}

/// A client of the hub's feed, or a publisher into it.
#[derive(Debug)]
pub struct FeedSession {
    id: ConnectionId,
    /// The peer's address, for the log.
    peer: String,
    session: ServerSession,
    /// Applies a publisher's messages.
    ingest: Ingest,
    /// Conflated messages, dropped messages and disconnects that are already in the hub's counters.
    counted: [u64; 3],
    /// Whether the lane looks at its missing messages in each turn.
    is_recovering: bool,
    /// Whether there was more to send or to search when the session was last served.
    is_unfinished: bool,
    /// Whether the lane serves it in each turn.
    is_listed: bool,
    /// Whether the lane calls [`FeedSession::sweep`] in each turn.
    is_swept: bool,
    faults: Option<Box<Faults>>,
}

/// Faults in the output to one client, and the output that they delay.
#[derive(Debug)]
struct Faults {
    injector: FaultInjector,
    packets: Vec<u8>,
    staged: Vec<u8>,
    pauses: Vec<(usize, Pause)>,
    released: usize,
    resume_ns: u64,
}

impl FeedSession {
    /// Creates the session of a connection from `peer` that has just been accepted.
    /// `user` tells what it may do; without one it may do everything.
    pub fn new(
        (id, peer): (ConnectionId, String),
        market: Arc<Market>,
        user: Option<Box<dyn FeedUser>>,
        now_ns: u64,
    ) -> Self {
        let faults = market.config.faults.map(|plan| {
            let seed = market
                .config
                .fault_seed
                .wrapping_add(market.next_source_number());
            Box::new(Faults {
                injector: FaultInjector::new(plan, seed),
                packets: Vec::new(),
                staged: Vec::new(),
                pauses: Vec::new(),
                released: 0,
                resume_ns: 0,
            })
        });
        let source = market.next_source_number() as u32;
        let config = SessionConfig {
            slow_policy: market.config.feed_slow,
            ..SessionConfig::default()
        };
        let mut ingest = Ingest::new(market, source, "publisher").of_publisher(peer.clone());
        ingest.guard = Guard::of(user);
        Self {
            id,
            peer,
            session: ServerSession::new(config, now_ns),
            ingest,
            counted: [0; 3],
            is_recovering: false,
            is_unfinished: false,
            is_listed: false,
            is_swept: false,
            faults,
        }
    }

    /// Handles received bytes. Returns how many were used, and the publication of a publisher's
    /// messages.
    pub fn received(
        &mut self,
        market: &Market,
        context: &mut Context,
        input: &[u8],
    ) -> (usize, Dispatch) {
        let mut batch = self.ingest.begin(tidewire_lane::unix_ns());
        let result = self.session.receive(input, context.now_ns(), &mut batch);
        let news = batch.finish();
        self.tell_refusals();
        self.produce(market, context, &mut Steps::none());
        match result {
            Ok(consumed) => {
                debug_assert!(consumed <= input.len(), "a session uses part of the input");
                (consumed, news)
            }
            Err(error) => {
                match error {
                    SessionError::SessionInUse => self.note_session_in_use(market),
                    _ if self.session.receiver().is_some() => self.note_invalid(error),
                    _ => debug!(%error, "a feed client broke the protocol"),
                }
                context.close_after_flush(self.id, CloseReason::Requested);
                (input.len(), news)
            }
        }
    }

    fn tell_refusals(&mut self) {
        for refused in self.ingest.guard.take_refusals() {
            self.session.tell(refused);
        }
    }

    /// Handles a change of users. A subscriber gets what it may read from now on, and nothing else.
    /// A publisher that may not publish all that it could is disconnected: its topics become free,
    /// and it goes on with what is left when it is back.
    pub fn users_changed(&mut self, market: &Market, context: &mut Context) {
        let is_publisher = self.session.receiver().is_some();
        match self.ingest.guard.look() {
            Look::Reads(readable) if !is_publisher => {
                self.session.set_readable(readable);
                self.produce(market, context, &mut Steps::none());
            }
            Look::PublishesLess if is_publisher => {
                self.end_with(market, context, RefusalReason::NOT_ALLOWED, PUBLISHES_LESS);
            }
            Look::Gone(refused) => {
                self.end_with(market, context, refused.reason, refused.text.as_str());
            }
            Look::Same | Look::Reads(_) | Look::PublishesLess => {}
        }
    }

    /// Tells the client why its connection ends, and ends it.
    fn end_with(
        &mut self,
        market: &Market,
        context: &mut Context,
        reason: RefusalReason,
        text: &str,
    ) {
        self.session.refuse(reason, text);
        self.produce(market, context, &mut Steps::none());
        context.close_after_flush(self.id, CloseReason::Requested);
    }

    /// Counts and logs a publisher that is refused because another connection publishes its
    /// session. If a publisher reconnects before the hub has noticed the end of its last
    /// connection, this happens until that one is found silent; otherwise two publishers use one
    /// session id.
    fn note_session_in_use(&self, market: &Market) {
        let counter = &market.ingest.refused_publishers;
        counter.fetch_add(1, Ordering::Relaxed);
        let login = self.session.login();
        if let Some(left_out) = SESSIONS_IN_USE.note_now() {
            warn!(
                session = login.session,
                address = %self.peer,
                client = %login.client_name.as_str(),
                left_out,
                "publisher refused: another connection publishes this session"
            );
        }
    }

    /// Logs a publisher whose stream is invalid. Retrying does not help it.
    fn note_invalid(&self, error: SessionError) {
        let login = self.session.login();
        if let Some(left_out) = INVALID_STREAMS.note_now() {
            warn!(
                session = login.session,
                address = %self.peer,
                client = %login.client_name.as_str(),
                left_out,
                %error,
                "publisher refused: its stream is invalid"
            );
        }
    }

    /// Logs a client that is disconnected because it is silent. A publisher's topics are stale
    /// from now on, so it is worth a warning.
    fn note_silent(&self, now_ns: u64) {
        if self.session.receiver().is_none() {
            return debug!(address = %self.peer, "a feed client has fallen silent");
        }
        if let Some(left_out) = SILENT_PUBLISHERS.note_now() {
            let login = self.session.login();
            warn!(
                session = login.session,
                address = %self.peer,
                client = %login.client_name.as_str(),
                silent_ms = self.session.silence_ns(now_ns) / 1_000_000,
                left_out,
                "publisher disconnected: nothing arrives from it"
            );
        }
    }

    /// Writes the client's output, as far as its outbox has room, and searches for its symbols as
    /// far as `steps` goes. The rest is left for later turns: see [`Self::joins_unfinished`].
    pub fn produce(&mut self, market: &Market, context: &mut Context, steps: &mut Steps) {
        self.is_unfinished = false;
        for _ in 0..ROUNDS_MAX {
            if context.out_bytes(self.id) > market.post.config.conflate_bytes {
                context.watch_drain(self.id);
                return;
            }
            let now_ns = context.now_ns();
            let Some(out) = context.out(self.id) else {
                // The connection is ending, so delayed output will not be sent any more.
                self.faults = None;
                return;
            };
            let journal = market.journal.lock();
            let (session, board) = (&mut self.session, &*market.board);
            let more = match &mut self.faults {
                None => {
                    let buffer = out.buffer();
                    session.produce_within(&journal, board, now_ns, buffer, PRODUCE_BYTES, steps)
                }
                Some(faults) if faults.is_holding() => false,
                Some(faults) => {
                    let packets = &mut faults.packets;
                    session.produce_within(&journal, board, now_ns, packets, PRODUCE_BYTES, steps)
                }
            };
            drop(journal);
            if let Some(faults) = &mut self.faults {
                let disconnect = faults.release(out.buffer(), now_ns);
                if disconnect {
                    return context.close_after_flush(self.id, CloseReason::Requested);
                }
            }
            self.count_slowness(market);
            if self.session.is_closing() {
                return context.close_after_flush(self.id, CloseReason::Requested);
            }
            if !more {
                return;
            }
            if steps.are_used_up() {
                break;
            }
        }
        self.is_unfinished = true;
    }

    /// Returns whether the lane must list the session, to serve it in each turn from now on.
    pub fn joins_unfinished(&mut self) -> bool {
        self.is_unfinished && !std::mem::replace(&mut self.is_listed, true)
    }

    /// Returns whether a listed session stays in the list.
    pub fn stays_unfinished(&mut self) -> bool {
        self.is_listed = self.is_unfinished;
        self.is_listed
    }

    /// Returns whether the lane must list the session, to call [`FeedSession::sweep`] in each turn
    /// from now on.
    pub fn joins_swept(&mut self) -> bool {
        self.ingest.is_sweeping() && !std::mem::replace(&mut self.is_swept, true)
    }

    /// Goes on with what an event of a publisher does to all its topics, as far as `steps` goes.
    /// Returns the publication.
    pub fn sweep(&mut self, context: &Context, steps: &mut Steps) -> Dispatch {
        self.ingest.sweep(steps, context.unix_ns())
    }

    /// Returns whether a listed session stays in that list.
    pub fn stays_swept(&mut self) -> bool {
        self.is_swept = self.ingest.is_sweeping();
        self.is_swept
    }

    fn count_slowness(&mut self, market: &Market) {
        let sent = self.session.counters();
        let now = [sent.conflated, sent.dropped, sent.cut_offs];
        if self.counted != now {
            let slow = &market.slow_feeds;
            let counters = [&slow.conflated, &slow.dropped, &slow.cut_off];
            for (counter, (new, old)) in counters.into_iter().zip(now.iter().zip(self.counted)) {
                debug_assert!(*new >= old, "a session's counters only grow");
                counter.fetch_add(new - old, Ordering::Relaxed);
            }
            self.counted = now;
        }
    }

    /// Disconnects a slow client that has chosen this policy, although its output is full.
    fn cut_off_slow(&mut self, market: &Market, context: &mut Context) -> bool {
        if self.session.slow_policy() != SlowPolicy::Disconnect || self.session.is_closing() {
            return false;
        }
        let journal = market.journal.lock();
        if !self.session.is_too_slow(&journal) {
            return false;
        }
        let now_ns = context.now_ns();
        if let Some(out) = context.out(self.id) {
            // The output ends with a whole packet, so the notice can follow it.
            let (session, board) = (&mut self.session, &*market.board);
            let (buffer, steps) = (out.buffer(), &mut Steps::none());
            session.produce_within(&journal, board, now_ns, buffer, 0, steps);
        }
        drop(journal);
        self.count_slowness(market);
        debug!("a feed client is too slow");
        context.close_after_flush(self.id, CloseReason::Requested);
        true
    }

    /// Sends heartbeats, and ends a client that is silent or too far behind.
    pub fn timeout(&mut self, market: &Market, context: &mut Context) -> Dispatch {
        self.ingest.publish_latency();
        let now_ns = context.now_ns();
        if self.session.deadline_ns() > now_ns {
            return (Publication::default(), 0);
        }
        let mut batch = self.ingest.begin(context.unix_ns());
        self.session.handle_timeout(now_ns, &mut batch);
        let news = batch.finish();
        if self.cut_off_slow(market, context) {
            return news;
        }
        if self.session.is_silent(now_ns) && !context.has_unread(self.id) {
            self.note_silent(now_ns);
            context.close(self.id, CloseReason::Requested);
        } else {
            self.produce(market, context, &mut Steps::none());
        }
        news
    }

    /// Returns the session's connection.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Returns when messages that a publisher has lost must be requested next; `None` if none are
    /// missing.
    pub fn recovery_deadline_ns(&self) -> Option<u64> {
        self.session.recovery_deadline_ns()
    }

    /// Notes whether the lane looks at [`recovery_deadline_ns`](Self::recovery_deadline_ns) in each
    /// turn. Returns whether it did before.
    pub fn set_recovering(&mut self, is_recovering: bool) -> bool {
        std::mem::replace(&mut self.is_recovering, is_recovering)
    }

    /// Returns when output delayed by a fault continues; `None` if there is none or if it waits for
    /// the peer.
    pub fn resume_ns(&self, market: &Market, context: &Context) -> Option<u64> {
        let faults = self.faults.as_ref()?;
        let waits = context.out_bytes(self.id) > market.post.config.conflate_bytes;
        (faults.is_holding() && !waits).then_some(faults.resume_ns)
    }

    /// Handles the end of the connection: a publisher's topics are stale from now on. When the hub
    /// stops, nothing happens at the sources, and its feed and recording say nothing of them.
    pub fn closed(mut self, market: &Arc<Market>, unix_ns: u64, reason: CloseReason) -> Dispatch {
        if reason == CloseReason::Stopping {
            return Dispatch::default();
        }
        if !self.ingest.takes_long_to_end() {
            let news = self.ingest.lose_at_once(unix_ns);
            self.park(market);
            return news;
        }
        // Marking a million topics takes a second, which a lane does not have. Until it is done,
        // the session is in use.
        let waiting = Arc::new(Mutex::new(Some(self)));
        let leave = {
            let (market, waiting) = (market.clone(), waiting.clone());
            move || {
                if let Some(session) = waiting.lock().take() {
                    session.leave(&market);
                }
            }
        };
        let thread = std::thread::Builder::new().name("leaving".to_owned());
        if let Err(error) = thread.spawn(leave) {
            warn!(%error, "no thread to mark the topics of a publisher that has left");
            if let Some(session) = waiting.lock().take() {
                session.leave(market);
            }
        }
        Dispatch::default()
    }

    /// Marks the publisher's topics in slices, and keeps its state.
    fn leave(mut self, market: &Market) {
        self.ingest.lose_slowly(|(publication, lanes)| {
            if !publication.is_empty() {
                market.post.send(lanes, &Arc::new(publication));
            }
            market.tell_all_feed_lanes();
        });
        self.park(market);
    }

    /// Keeps the publisher's state for its next connection.
    fn park(mut self, market: &Market) {
        let state = self.ingest.take_state();
        let user = self.ingest.guard.name().into();
        // The topics must be free before the next connection can claim them.
        drop(self.ingest);
        if let Some(receiver) = self.session.into_receiver() {
            let session = receiver.session();
            let is_over = receiver.is_ended();
            let parked = (!is_over).then_some(ParkedPublisher {
                receiver,
                state,
                user,
            });
            market.publishers.disconnect(session, parked);
        }
    }
}

impl Faults {
    fn is_holding(&self) -> bool {
        self.released < self.staged.len()
    }

    /// Moves the output that is due to `out`. Returns whether the connection must be closed
    /// afterwards.
    fn release(&mut self, out: &mut Vec<u8>, now_ns: u64) -> bool {
        debug_assert!(
            self.released <= self.staged.len(),
            "output is staged before it is sent"
        );
        if !self.is_holding() {
            self.staged.clear();
            self.pauses.clear();
            self.released = 0;
            self.injector
                .apply(&mut self.packets, &mut self.staged, &mut self.pauses);
        }
        if now_ns < self.resume_ns {
            return false;
        }
        let Some(position) = self
            .pauses
            .iter()
            .position(|(offset, _)| *offset >= self.released)
        else {
            out.extend_from_slice(&self.staged[self.released..]);
            self.released = self.staged.len();
            return false;
        };
        let (offset, pause) = self.pauses[position];
        debug_assert!(
            (self.released..=self.staged.len()).contains(&offset),
            "a pause is at a place that has not left"
        );
        self.pauses.drain(..=position);
        out.extend_from_slice(&self.staged[self.released..offset]);
        self.released = offset;
        match pause {
            Pause::Flush => self.resume_ns = now_ns,
            Pause::Stall { duration_ns } => self.resume_ns = now_ns + duration_ns,
            Pause::Disconnect => return true,
        }
        false
    }
}

/// Refusals have room for 72 bytes.
const PUBLISHES_LESS: &str = "NotAllowed: the user may publish less from now on; log in again";
/// Limits the log lines that publishers cause by retrying.
static SESSIONS_IN_USE: Seldom = Seldom::new(3, 10);
static INVALID_STREAMS: Seldom = Seldom::new(3, 10);
static SILENT_PUBLISHERS: Seldom = Seldom::new(3, 10);
/// Maximum number of bytes produced between two checks of the outbox.
const PRODUCE_BYTES: usize = 256 * 1024;
/// Maximum number of such checks in a turn: each may look at many messages that are not for this
/// client.
const ROUNDS_MAX: usize = 8;
