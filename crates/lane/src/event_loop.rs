//! The event loop of one lane.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData};
use rustix::io::Errno;
use rustix::time::Timespec;
use tidewire_readiness as readiness;
use tracing::warn;

use crate::application::{Application, CloseReason};
use crate::clock::monotonic_ns;
use crate::connection::{Closing, ConnectionId};
use crate::context::{Context, LaneCounters, WATCH_READ};
use crate::endpoint::Listener;
use crate::handshakes::Handshakes;
use crate::lanes::LaneConfig;
use crate::leaving::Leaving;
use crate::mailbox::Mailboxes;
use crate::network::SimulatedNetwork;
use crate::outbox::Outbox;
use crate::sender::Sender;
use crate::traffic::{EVENTS_A_TURN, READ_BYTES, TOKEN_LISTENERS, TOKEN_MAILBOX, Traffic};

/// One lane: an event loop, its connections and its application.
#[derive(Debug)]
pub struct Lane<A: Application> {
    context: Context,
    application: A,
    scratch: Vec<u8>,
    mailboxes: Mailboxes<A::Mail>,
    mail: Vec<A::Mail>,
    /// The latest time for the application's next turn.
    deadline_ns: Option<u64>,
}

impl<A: Application> Lane<A> {
    pub(crate) fn new(
        lane: usize,
        mailboxes: Mailboxes<A::Mail>,
        listeners: Vec<Listener>,
        config: &LaneConfig,
        counters: Arc<LaneCounters>,
        application: A,
    ) -> rustix::io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bells: Arc<[_]> = mailboxes.iter().map(|one| one.bell().clone()).collect();
        let wake = bells[lane].wake().descriptor();
        epoll::add(&epoll, wake, EventData::new_u64(TOKEN_MAILBOX), WATCH_READ)?;
        for (number, listener) in listeners.iter().enumerate() {
            let token = EventData::new_u64(TOKEN_LISTENERS + number as u64);
            epoll::add(&epoll, &listener.socket, token, WATCH_READ)?;
        }
        let spare = match lane {
            0 => Some(rustix::io::fcntl_dupfd_cloexec(&epoll, 0)?),
            _ => None,
        };
        let mut context = Context {
            lane,
            bells,
            epoll,
            connections: Vec::new(),
            free: Vec::new(),
            serving: ConnectionId::NONE,
            dirty: Vec::new(),
            deliveries: VecDeque::new(),
            deliveries_a_turn: 0,
            sender: Sender::new(config.io_uring, counters.clone()),
            closing: Vec::new(),
            leaving: Leaving::default(),
            drained: Vec::new(),
            released: Vec::new(),
            holding: Vec::new(),
            holds_turn: None,
            spares: Vec::new(),
            cipher: Vec::new(),
            cipher_out: Vec::new(),
            handshakes: Handshakes::default(),
            failure: None,
            now_ns: 0,
            unix_ns: 0,
            counters,
            listeners,
            next_lane: 0,
            descriptors_max: config.descriptors_max,
            spare,
            accept_again_ns: None,
            working: None,
            scrap: Outbox::default(),
            stopping: false,
            network: None,
        };
        context.read_clock();
        Ok(Self {
            context,
            application,
            scratch: vec![0; READ_BYTES],
            mailboxes,
            mail: Vec::new(),
            deadline_ns: None,
        })
    }

    /// Runs until the lane's mailbox receives a stop; then notifies and closes every connection.
    pub fn run(mut self) -> A {
        let mut space = [const { MaybeUninit::uninit() }; EVENTS_A_TURN];
        self.begin();
        while !self.context.stopping {
            let events = self.wait(&mut space);
            self.turn(events);
        }
        self.end()
    }

    /// Runs the application's work before the first turn.
    pub(crate) fn begin(&mut self) {
        self.deadline_ns = self.application.turn(&mut self.context);
        self.traffic().flush_all();
    }

    /// Takes one turn with the events so far, without waiting.
    pub(crate) fn take_turn(&mut self) {
        let mut space = [const { MaybeUninit::uninit() }; EVENTS_A_TURN];
        let events = readiness::look(&self.context.epoll, &mut space).unwrap_or_default();
        self.turn(events);
    }

    fn turn(&mut self, events: &[Event]) {
        self.context.read_clock();
        let started_ns = self.context.now_ns;
        let began_ns = &self.context.counters.turn_began_ns;
        began_ns.store(started_ns, Ordering::Relaxed);
        let is_mailbox = |event: &Event| event.data.u64() == TOKEN_MAILBOX;
        self.take_mail(events.iter().any(is_mailbox));
        self.tell_drained();
        self.give_kept();
        self.traffic().pass_opened();
        for event in events {
            self.traffic().dispatch(event);
        }
        self.deadline_ns = self.application.turn(&mut self.context);
        self.traffic().flush();
        self.traffic().shake_hands();
        if self.finish_closing() {
            // Output or plans of the application after that call need another turn.
            self.deadline_ns = Some(0);
        }
        let counters = &self.context.counters;
        counters.turns.fetch_add(1, Ordering::Relaxed);
        counters.turn_began_ns.store(0, Ordering::Relaxed);
        let busy_ns = monotonic_ns() - started_ns;
        counters.busy_ns.fetch_add(busy_ns, Ordering::Relaxed);
        if busy_ns > counters.busy_ns_max.load(Ordering::Relaxed) {
            counters.busy_ns_max.store(busy_ns, Ordering::Relaxed);
        }
    }

    /// Notifies and closes every connection.
    pub(crate) fn end(mut self) -> A {
        self.close_all();
        self.application
    }

    /// Returns whether a turn would have work.
    pub(crate) fn is_ready(&self) -> bool {
        let is_due = self
            .wake_ns()
            .is_some_and(|time_ns| time_ns <= monotonic_ns());
        let mut space = [const { MaybeUninit::uninit() }; 1];
        is_due || readiness::look(&self.context.epoll, &mut space).is_ok_and(|one| !one.is_empty())
    }

    /// Returns whether the lane was told to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.context.stopping
    }

    /// Sends the application's outgoing connections to `network` instead of the system's network.
    pub(crate) fn dial_into(&mut self, network: Arc<SimulatedNetwork>) {
        self.context.network = Some(network);
    }

    fn traffic(&mut self) -> Traffic<'_, A> {
        Traffic {
            context: &mut self.context,
            application: &mut self.application,
            scratch: &mut self.scratch,
        }
    }

    fn wait<'s>(&mut self, space: &'s mut [MaybeUninit<Event>]) -> &'s [Event] {
        let timeout = self.wake_ns().map(|time_ns| {
            let wait_ns = time_ns.saturating_sub(monotonic_ns());
            Timespec {
                tv_sec: (wait_ns / 1_000_000_000) as i64,
                tv_nsec: (wait_ns % 1_000_000_000) as i64,
            }
        });
        match readiness::wait(&self.context.epoll, space, timeout.as_ref()) {
            Ok(events) => events,
            Err(Errno::INTR) => &[],
            Err(error) => {
                warn!(lane = self.context.lane, %error, "waiting for events failed");
                &[]
            }
        }
    }

    /// Returns when the next turn begins without an event, in monotonic nanoseconds; `None` for
    /// never.
    pub(crate) fn wake_ns(&self) -> Option<u64> {
        let context = &self.context;
        let left = context.drained.len() + context.released.len();
        let has_handshakes = context.handshakes.has_work();
        if left + context.deliveries.len() > 0 || has_handshakes || context.stopping {
            return Some(0);
        }
        let closing_ns = context.now_ns + CLOSE_CHECK_NS;
        let is_closing = !context.closing.is_empty() || !context.leaving.is_empty();
        let closing_ns = is_closing.then_some(closing_ns);
        let handshake_ns = context.handshakes.deadline_ns();
        let deadlines = [
            self.deadline_ns,
            context.accept_again_ns,
            closing_ns,
            handshake_ns,
        ];
        deadlines.into_iter().flatten().min()
    }

    fn take_mail(&mut self, woken: bool) {
        let mut mail = std::mem::take(&mut self.mail);
        let signals = self.mailboxes[self.context.lane].take(woken, &mut mail);
        for one in mail.drain(..) {
            self.application.mail(&mut self.context, one);
        }
        self.mail = mail;
        self.traffic().handle_signals(signals);
        if self
            .context
            .accept_again_ns
            .is_some_and(|time_ns| time_ns <= self.context.now_ns)
        {
            self.context.accept_again_ns = None;
            self.context.watch_listeners(WATCH_READ);
        }
    }

    fn tell_drained(&mut self) {
        for id in std::mem::take(&mut self.context.drained) {
            let Some(connection) = self.context.connection_mut(id) else {
                continue;
            };
            connection.wants_drained = false;
            let resumed = std::mem::take(&mut connection.paused);
            self.application.drained(&mut self.context, id);
            if resumed {
                self.deliver_kept(id);
            }
            self.context.update_watch(id);
        }
    }

    /// Passes the kept input of released connections to the application.
    fn give_kept(&mut self) {
        for id in std::mem::take(&mut self.context.released) {
            self.deliver_kept(id);
            self.context.update_watch(id);
        }
    }

    fn deliver_kept(&mut self, id: ConnectionId) {
        self.traffic().deliver_input(id);
    }

    /// Ends the connections that are due. Returns whether there were any.
    fn finish_closing(&mut self) -> bool {
        let mut ended = false;
        self.context.leaving.look(self.context.now_ns);
        let mut waiting = std::mem::take(&mut self.context.closing);
        waiting.retain(|&id| {
            let Some(connection) = self.context.connection(id) else {
                return false;
            };
            let reason = match connection.closing {
                // Its last output is held back: it ends when that has been sent.
                Closing::Now(CloseReason::Requested) if connection.outbox.is_holding() => {
                    self.context.linger(id, CloseReason::Requested);
                    return true;
                }
                Closing::Now(reason) => reason,
                Closing::Flushing {
                    reason,
                    deadline_ns,
                } => {
                    if connection.unsent_bytes() > 0 && deadline_ns > self.context.now_ns {
                        return true;
                    }
                    reason
                }
                Closing::No => return false,
            };
            self.context.discard_input(id);
            self.finish(id, reason);
            ended = true;
            false
        });
        // A close inside `closed` may have listed others.
        waiting.append(&mut self.context.closing);
        self.context.closing = waiting;
        ended
    }

    /// Ends a connection, and notifies the application if it knows it.
    fn finish(&mut self, id: ConnectionId, reason: CloseReason) {
        let Some(mut connection) = self.context.remove(id) else {
            return;
        };
        if let Some(secure) = &mut connection.secure
            && connection.outbox.is_empty()
        {
            secure.say_end(connection.socket.as_fd());
        }
        let secure = connection.secure.as_mut();
        let is_outgoing = secure.as_ref().is_some_and(|secure| secure.is_outgoing);
        self.context.failure = secure.and_then(|secure| secure.take_failure());
        let is_known = !connection.handshaking || is_outgoing;
        let is_sent = connection.unsent_bytes() == 0 && !connection.connecting;
        if reason == CloseReason::Requested && is_sent {
            self.context
                .leaving
                .add(connection.socket, self.context.now_ns);
        } else {
            drop(connection);
        }
        if is_known {
            self.application.closed(&mut self.context, id, reason);
        }
        self.context.failure = None;
    }

    fn close_all(&mut self) {
        self.application.stopping(&mut self.context);
        self.traffic().flush_all();
        self.stop_listening();
        for index in 0..self.context.connections.len() {
            let generation = self.context.connections[index].generation;
            let id = ConnectionId {
                index: index as u32,
                generation,
            };
            self.context.discard_input(id);
            self.finish(id, CloseReason::Stopping);
        }
    }
}

impl<A: Application> Lane<A> {
    /// Stops listening before connections close, so that no client reconnects to a stopping lane.
    fn stop_listening(&mut self) {
        let first = self.context.bells[0].clone();
        // Closing would not be enough, because other handles keep the socket open.
        self.context.listeners.iter().for_each(Listener::stop);
        self.context.listeners.clear();
        if self.context.lane == 0 {
            first.set_left();
        }
        let until_ns = monotonic_ns() + LEAVE_WAIT_NS;
        while !first.has_left() && monotonic_ns() < until_ns {
            std::thread::sleep(LEAVE_LOOK);
        }
    }
}

/// How long an ending lane waits for the first lane to stop listening, and the polling interval.
const LEAVE_WAIT_NS: u64 = 500_000_000;
const LEAVE_LOOK: Duration = Duration::from_millis(1);
/// Interval for checking connections that close with unsent output.
const CLOSE_CHECK_NS: u64 = 200_000_000;
