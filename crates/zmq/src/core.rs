//! One socket as its program and the background thread share it: who drives it, and when.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::epoll;
use rustix::time::Timespec;
use tidewire_readiness as readiness;

use crate::awake::Vigil;
use crate::clock::now_ns;
use crate::context::ContextInner;
use crate::error::Error;
use crate::event::SocketEpoll;
use crate::kind::SocketType;
use crate::lent::Held;
use crate::polled::Polled;
use crate::reactor::Reactor;
use crate::signal::Signal;
use crate::socket::Events;
use crate::state::{State, Token};
use crate::sync::EventDescriptor;

/// A socket.
///
/// The calling thread drives it: it sends, receives and waits for the network itself. The
/// background thread (`reactor`) drives it while no call is in progress.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) id: u64,
    pub(crate) kind: SocketType,
    pub(crate) context: Arc<ContextInner>,
    pub(crate) signal: Arc<Signal>,
    /// Watches every descriptor of the socket, its bell, and what [`Polled`] tells. The state keeps
    /// it.
    epoll: Weak<SocketEpoll>,
    /// Keeps it too, once a program of Rust has borrowed its descriptor.
    borrowed: OnceLock<Arc<SocketEpoll>>,
    /// There once the program has asked for a descriptor to poll.
    polled: OnceLock<Polled>,
    /// The context keeps it.
    pub(crate) reactor: Weak<Reactor>,
    state: Mutex<State>,
    is_closed: AtomicBool,
    /// Whether a call has told the program that the context has ended.
    has_told_end: AtomicBool,
}

/// How long to wait for something to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Not,
    /// Until this time, or indefinitely.
    Until(Option<u64>),
}

/// Why the network is polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A caller that wants a message, or to know what there is.
    Receive,
    /// A caller that wants room for one.
    Send,
    /// The background thread.
    LookAfter,
}

impl Wait {
    /// Converts an option in milliseconds, where -1 waits indefinitely.
    pub(crate) fn for_ms(timeout_ms: i32) -> Wait {
        match u64::try_from(timeout_ms) {
            Ok(0) => Wait::Not,
            Ok(timeout_ms) => Wait::Until(Some(now_ns() + timeout_ms * 1_000_000)),
            Err(_) => Wait::Until(None),
        }
    }

    pub(crate) fn for_ns(timeout_ns: u64) -> Wait {
        Wait::Until(Some(now_ns() + timeout_ns))
    }

    pub(crate) fn timespec(self) -> Option<Timespec> {
        let left_ns = match self {
            Wait::Not => 0,
            Wait::Until(None) => return None,
            Wait::Until(Some(deadline)) => deadline.saturating_sub(now_ns()),
        };
        Some(Timespec {
            tv_sec: (left_ns / 1_000_000_000) as i64,
            tv_nsec: (left_ns % 1_000_000_000) as i64,
        })
    }

    /// How much of it is left; `None`: it has no end.
    pub(crate) fn left(self) -> Option<Duration> {
        match self {
            Wait::Not => Some(Duration::ZERO),
            Wait::Until(None) => None,
            Wait::Until(Some(deadline)) => {
                Some(Duration::from_nanos(deadline.saturating_sub(now_ns())))
            }
        }
    }

    pub(crate) fn is_over(self) -> bool {
        match self {
            Wait::Not => true,
            Wait::Until(None) => false,
            Wait::Until(Some(deadline)) => now_ns() >= deadline,
        }
    }
}

impl Core {
    pub(crate) fn new(
        id: u64,
        kind: SocketType,
        context: Arc<ContextInner>,
        reactor: &Arc<Reactor>,
    ) -> Result<Core, Error> {
        let epoll = SocketEpoll::new(context.sources.take()?)?;
        let bell = EventDescriptor::new(&epoll, Token::Signal)?;
        let known_epoll = Arc::downgrade(&epoll);
        let signal = Arc::new(Signal::new(bell));
        let state = State::new(
            kind,
            context.options(kind),
            Arc::clone(&context.inproc),
            Arc::clone(&signal),
            epoll,
            context.resolver_thread(),
        );
        Ok(Core {
            id,
            kind,
            context,
            signal,
            epoll: known_epoll,
            borrowed: OnceLock::new(),
            polled: OnceLock::new(),
            reactor: Arc::downgrade(reactor),
            state: Mutex::new(state),
            is_closed: AtomicBool::new(false),
            has_told_end: AtomicBool::new(false),
        })
    }

    /// Begins a call of the program.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Held<'_>, Error> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::NotSocket);
        }
        // The child of a fork shares the connections: a word of its own would break them.
        if self.context.is_terminated() || self.context.is_forked() {
            return Err(self.terminated());
        }
        let mut state = Held::new(self.state.lock());
        if self.signal.is_raised() {
            state.count();
            state.answer_bell();
            if state.rings.are_active() {
                // It may have rung for them, and not every call looks at them.
                self.look_at_rings(&mut state, false);
                self.keep_rings(&mut state);
            }
        }
        Ok(state)
    }

    /// Notes that the program is told of the context's end.
    #[cold]
    pub(crate) fn terminated(&self) -> Error {
        self.has_told_end.store(true, Ordering::Release);
        Error::Terminated
    }

    /// Begins a call about options. As in libzmq, the end of the context refuses it only once
    /// another call has told of that: a program may still set `LINGER` before it closes the socket.
    pub(crate) fn enter_for_options(&self) -> Result<Held<'_>, Error> {
        let has_told_end = self.has_told_end.load(Ordering::Acquire);
        if !self.context.is_terminated() || self.context.is_forked() || has_told_end {
            return self.enter_timed();
        }
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::NotSocket);
        }
        let mut state = self.lock();
        state.now_ns = now_ns();
        Ok(state)
    }

    /// The same for a call that must know the time.
    pub(crate) fn enter_timed(&self) -> Result<Held<'_>, Error> {
        let mut state = self.enter()?;
        state.count();
        state.now_ns = now_ns();
        // It may have answered the bell, and hands out no message: a program that polls the
        // descriptor is still to hear of those that have come.
        if let Some(polled) = self.polled.get()
            && self.has_news(&mut state)
        {
            polled.raise();
        }
        Ok(state)
    }

    /// Returns the state, in any condition of the socket.
    pub(crate) fn lock(&self) -> Held<'_> {
        let mut state = Held::new(self.state.lock());
        state.count();
        state
    }

    /// Ends a call, and makes sure that a thread does the remaining work.
    #[inline]
    pub(crate) fn leave(self: &Arc<Self>, state: &mut State) {
        if !state.broken.is_empty() {
            state.bury_broken();
        }
        self.schedule(state);
        if state.burst.is_on && !state.is_bursting {
            state.is_bursting = true;
            if let Some(reactor) = self.reactor.upgrade() {
                reactor.burst(self);
            }
        }
        if state.is_armed || state.waiters > 0 {
            return self.leave_rings(state);
        }
        if state.has_visited && state.writes_watched == 0 && !state.has_datagrams {
            if !state.is_watched {
                state.is_watched = true;
                if let Some(reactor) = self.reactor.upgrade() {
                    reactor.watch(self);
                }
            }
            if self.polled.get().is_some() {
                self.leave_rings(state);
            }
        } else {
            self.arm(state);
            self.leave_rings(state);
        }
    }

    /// A call ends that has looked at nothing: where others look at the socket, they are woken for
    /// the rings too.
    #[inline]
    fn keep_rings(&self, state: &mut State) {
        if state.is_armed || state.waiters > 0 || self.polled.get().is_some() {
            self.leave_rings(state);
        }
    }

    /// No thread looks at the rings from here on: their peers wake who sleeps, or polls.
    #[inline]
    fn leave_rings(&self, state: &mut State) {
        if state.rings.are_active() && state.arm_rings() {
            self.signal.raise();
        }
    }

    /// Has the background thread look in when the next deadline comes.
    #[inline]
    pub(crate) fn schedule(&self, state: &mut State) {
        if let Some(deadline_ns) = state.deadline_ns()
            && deadline_ns < state.scheduled_ns
            && let Some(reactor) = self.reactor.upgrade()
        {
            state.scheduled_ns = deadline_ns;
            reactor.schedule(self.id, deadline_ns);
        }
    }

    /// Lets the background thread be told of each event when it comes.
    pub(crate) fn arm(self: &Arc<Self>, state: &mut State) {
        debug_assert!(!state.is_armed, "it is told already");
        state.is_armed = true;
        state.has_visited = false;
        if let Some(epoll) = &state.epoll
            && let Some(reactor) = self.reactor.upgrade()
        {
            reactor.arm(self, epoll.as_fd());
        }
    }

    /// Polls the network, and waits for it if `wait` says so. Afterwards `next_frame` returns the
    /// messages that came, and peers that were full may have room.
    ///
    /// # Errors
    /// A signal interrupted it.
    pub(crate) fn drive(
        &self,
        state: &mut Held<'_>,
        wait: Wait,
        purpose: Purpose,
    ) -> Result<usize, Error> {
        let ahead = purpose == Purpose::LookAfter;
        state.count();
        state.end_streak();
        state.flush_dirty();
        if !ahead && let Some(polled) = self.polled.get() {
            polled.lower();
        }
        let mut space = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        debug_assert!(
            !ahead || wait == Wait::Not,
            "the background thread waits for no socket"
        );
        let is_ring_ready = state.rings.are_active() && self.look_at_rings(state, ahead);
        if is_ring_ready && !ahead && state.rings.suffice() {
            return Ok(1);
        }
        // What the rings have brought is there.
        let wait = if is_ring_ready { Wait::Not } else { wait };
        let found = if wait == Wait::Not {
            // Otherwise a look also takes events out of the epoll's list that are over: who watches
            // the epoll for what is new hears of the next ones only then.
            let is_watched = ahead || self.polled.get().is_some();
            if state.descriptors == 0 && !is_watched && !self.signal.is_raised() {
                state.scan_pipes();
                return Ok(usize::from(is_ring_ready));
            }
            let epoll = state.epoll.as_ref().ok_or(Error::NotSocket)?;
            readiness::look(&**epoll, &mut space)
        } else {
            if purpose == Purpose::Receive && state.wait_for_several() {
                return Ok(1);
            }
            let mut vigil = Vigil::default();
            if self.spin(state, wait, &mut vigil) && self.look_at_rings(state, ahead) {
                return Ok(1);
            }
            let has_rings = self.begin_wait(state);
            // What lies in a pipe would keep one that waits for room awake, and do it no good.
            let has_some = state.scan_pipes() && purpose != Purpose::Send || has_rings;
            if has_some || self.signal.is_raised() || self.context.is_terminated() {
                self.end_wait(state);
                state.answer_bell();
                if state.waiters > 0 {
                    // The bell rings until every thread that waits has heard it.
                    Held::pass(state);
                }
                return Ok(1);
            }
            self.wait_for_events(state, wait, vigil, &mut space)
        };
        let events = found?;
        state.now_ns = now_ns();
        state.reads_left = READS_MAX;
        let count = events.len();
        debug_assert!(
            count <= EVENTS_MAX,
            "the kernel fills the room that it is given"
        );
        let mut is_bell_alone = true;
        let mut is_flag_there = false;
        for event in events.iter() {
            let token = Token::from_bits(event.data.u64());
            is_flag_there |= token == Token::Flag;
            is_bell_alone &= matches!(token, Token::Signal | Token::Flag);
            state.handle(event.flags, token, ahead);
        }
        if state.waiters > 0 && !is_bell_alone {
            // Another thread that waits may have waited for this, and is not told again.
            self.signal.raise();
        }
        state.scan_pipes();
        if !state.broken.is_empty() {
            state.bury_broken();
        }
        // The flag is for programs, and no news for who drives the socket.
        Ok(count - usize::from(is_flag_there) + usize::from(is_ring_ready))
    }

    /// Looks at the rings. Whether something came.
    fn look_at_rings(&self, state: &mut State, ahead: bool) -> bool {
        state.now_ns = now_ns();
        state.reads_left = READS_MAX;
        if !state.scan_rings(ahead) {
            return false;
        }
        if state.waiters > 0 {
            // Another thread that waits may have waited for this.
            self.signal.raise();
        }
        if !state.broken.is_empty() {
            state.bury_broken();
        }
        true
    }

    /// A publisher that has not sent for a moment first reads pending subscriptions: those that
    /// reached this machine before the message take effect. A REQ first reads what is a second
    /// reply to its request before, and no reply to the next one.
    #[inline]
    pub(crate) fn look_before_sending(&self, state: &mut State) {
        if state.sending.is_open() || state.burst.is_on || state.descriptors == 0 {
            return;
        }
        let now_ns = now_ns();
        // The turn that brings a REQ its reply brings all that has come by then.
        let looked_ns = match self.kind {
            SocketType::Req => state.looked_ns.max(state.now_ns),
            _ => state.looked_ns,
        };
        if now_ns.saturating_sub(looked_ns) > UNLOOKED_NS {
            state.looked_ns = now_ns;
            self.look(state);
        }
    }

    /// Takes in what the network has at this moment.
    #[cold]
    fn look(&self, state: &mut State) {
        if state.rings.are_active() {
            self.look_at_rings(state, false);
        }
        let mut space = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        let Some(epoll) = &state.epoll else {
            return;
        };
        let Ok(events) = readiness::look(&**epoll, &mut space) else {
            return;
        };
        if events.is_empty() {
            return;
        }
        state.now_ns = now_ns();
        state.reads_left = READS_MAX;
        for event in events.iter() {
            state.handle(event.flags, Token::from_bits(event.data.u64()), false);
        }
        if !state.broken.is_empty() {
            state.bury_broken();
        }
    }

    /// A thread has taken what it wanted: what is left may be for another one that waits.
    #[inline]
    pub(crate) fn pass_on(&self, state: &mut State) {
        if state.rings.are_active() {
            self.keep_rings(state);
        }
        if state.waiters > 0 && state.may_receive() {
            self.signal.raise();
        }
    }

    /// The caller looks at the network itself from now on, without a wait.
    pub(crate) fn take_over(&self, state: &mut State) {
        state.visit();
        if state.is_armed && !state.has_datagrams {
            state.is_armed = false;
            self.disarm(state);
        }
    }

    /// Lets the background thread be told of no event.
    pub(crate) fn disarm(&self, state: &State) {
        if let Some(epoll) = &state.epoll
            && let Some(reactor) = self.reactor.upgrade()
        {
            reactor.disarm(epoll.as_fd());
        }
    }

    /// What pollers of this library wait for, who say so before.
    pub(crate) fn epoll(&self) -> Result<Arc<SocketEpoll>, Error> {
        self.epoll.upgrade().ok_or(Error::NotSocket)
    }

    /// A poller has found the epoll readable. Where nothing but the bell can be in it, it is not
    /// looked at for a bell that does not ring; but the thread that rang may have been interrupted
    /// before it could say that the event is there to take out.
    pub(crate) fn was_polled(&self) {
        let mut state = self.lock();
        if state.descriptors == 0 && self.polled.get().is_none() {
            self.signal.was_found();
            state.answer_bell();
        }
    }

    /// What programs wait for by themselves.
    pub(crate) fn polled_epoll(&self) -> Result<Arc<SocketEpoll>, Error> {
        let mut state = self.enter_for_options()?;
        let epoll = self.epoll()?;
        if self.polled.get().is_none() {
            let flag = EventDescriptor::new(&epoll, Token::Flag)?;
            let polled = self.polled.get_or_init(|| Polled::new(flag));
            if state.can_receive() || self.context.is_terminated() {
                polled.raise();
            }
            self.signal.listen();
        }
        Ok(epoll)
    }

    /// The same; its descriptor is open as long as this is there.
    pub(crate) fn polled_descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        let epoll = self.polled_epoll()?;
        Ok(self.borrowed.get_or_init(|| epoll).as_fd())
    }

    /// The background thread's turn: something has happened, or time has passed.
    pub(crate) fn look_after(self: &Arc<Self>) {
        let mut state = self.lock();
        state.now_ns = now_ns();
        if state.is_finished {
            return;
        }
        let mut has_all = false;
        for _ in 0..ROUNDS_MAX {
            let found = self.drive(&mut state, Wait::Not, Purpose::LookAfter);
            has_all = found == Ok(0);
            if !matches!(found, Ok(1..)) {
                break;
            }
        }
        if !has_all {
            // To be told at once of what is left: it is told of each event when it comes.
            state.is_armed = false;
        }
        state.decode_all_ahead();
        state.run_timers();
        state.flush_dirty();
        if state.is_closing && state.is_over() {
            return self.finish(state);
        }
        state.scheduled_ns = u64::MAX;
        if let Some(polled) = self.polled.get()
            && self.has_news(&mut state)
        {
            polled.raise();
        }
        self.wake_waiters(&state);
        self.wake_tasks(&mut state);
        state.has_visited = false;
        self.leave(&mut state);
    }

    /// Whether a program that polls the descriptor must find it readable.
    fn has_news(&self, state: &mut State) -> bool {
        self.context.is_terminated()
            || state.can_receive()
            || (!state.is_told_writable && state.can_send())
    }

    /// Wakes all waiting calls: the event they wait for may have happened.
    fn wake_waiters(&self, state: &State) {
        if state.waiters > 0 {
            self.signal.raise();
        }
    }

    /// A task waits for one of these events: the background thread will wake it.
    pub(crate) fn register(&self, ticket: u64, waker: &Waker, wanted: Events) {
        let mut state = self.lock();
        if state.tasks.is_empty() {
            self.signal.listen();
        }
        state.tasks.wait(ticket, waker, wanted);
        debug_assert!(self.signal.has_listeners(), "a task that waits is rung for");
    }

    /// A number for a future that is about to wait.
    pub(crate) fn ticket(&self) -> u64 {
        self.lock().tasks.ticket()
    }

    /// A future waits no longer.
    pub(crate) fn unregister(&self, ticket: u64) {
        let mut state = self.lock();
        if state.tasks.forget(ticket) && state.tasks.is_empty() {
            self.signal.unlisten();
        }
    }

    /// Leaves the socket to the background thread at once.
    pub(crate) fn hand_over(self: &Arc<Self>) {
        let mut state = self.lock();
        state.has_visited = false;
        self.leave(&mut state);
    }

    /// Wakes the tasks that there is something for.
    fn wake_tasks(&self, state: &mut State) {
        if state.tasks.is_empty() {
            return;
        }
        let is_over = state.is_closing || self.context.is_terminated();
        let found = Events {
            readable: is_over || state.can_receive(),
            writable: is_over || state.can_send(),
        };
        let wakers = state.tasks.take(found);
        if state.tasks.is_empty() {
            self.signal.unlisten();
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Looks in on a socket that its program drives. `false`: it need not be looked at again.
    pub(crate) fn check_idle(self: &Arc<Self>) -> bool {
        let mut state = self.lock();
        debug_assert!(state.is_watched, "only a listed socket is looked in on");
        if state.waiters > 0 && state.visits == state.seen_visits {
            // A thread waits inside a call; when it leaves it asks to be watched again.
            state.is_watched = false;
            return false;
        }
        if state.visits != state.seen_visits {
            state.seen_visits = state.visits;
            return true;
        }
        state.is_watched = false;
        state.has_visited = false;
        state.spares.shrink();
        drop(state);
        self.look_after();
        false
    }

    /// Writes what a burst has held back. `false`: the burst is over.
    pub(crate) fn end_burst_turn(self: &Arc<Self>) -> bool {
        let mut state = self.lock();
        debug_assert!(state.is_bursting, "only a listed socket is visited");
        let is_fresh = std::mem::take(&mut state.burst.is_fresh);
        state.flush_dirty();
        if !state.broken.is_empty() {
            state.bury_broken();
        }
        self.wake_waiters(&state);
        if is_fresh {
            return true;
        }
        state.burst.is_on = false;
        state.is_bursting = false;
        self.leave(&mut state);
        false
    }

    /// The program is done with the socket; what is still to be sent goes on in the background.
    pub(crate) fn close(self: &Arc<Self>) -> Result<(), Error> {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Err(Error::NotSocket);
        }
        if self.context.is_forked() {
            // A lock that a thread of the parent held at that moment stays locked here.
            if let Some(mut state) = self.state.try_lock().map(Held::new) {
                state.abandon();
                state.is_finished = true;
            }
            self.context.socket_finished(self.id);
            return Ok(());
        }
        let mut state = self.lock();
        debug_assert!(!state.is_finished, "an open socket is not finished");
        state.now_ns = now_ns();
        if self.signal.is_raised() {
            state.answer_bell();
        }
        state.begin_closing();
        self.wake_tasks(&mut state);
        if state.is_over() {
            self.finish(state);
        } else {
            state.has_visited = false;
            self.leave(&mut state);
        }
        Ok(())
    }

    fn finish(&self, mut state: Held<'_>) {
        if std::mem::replace(&mut state.is_finished, true) {
            return;
        }
        debug_assert!(state.is_closing, "only a socket that closes ends");
        state.drop_everything();
        debug_assert_eq!(
            state.descriptors, 0,
            "a closed socket watches no descriptor"
        );
        let epoll = state.epoll.take();
        drop(state);
        if let Some(epoll) = epoll
            && let Some(reactor) = self.reactor.upgrade()
        {
            reactor.forget(self.id, epoll.as_fd());
        }
        self.context.socket_finished(self.id);
    }
}

/// Reads on from one peer before the others are looked at again.
pub(crate) const READS_MAX: u32 = 32;
/// A socket that sends without a pause looks at the network before it no more often than this.
const UNLOOKED_NS: u64 = 20_000;
/// Events taken at once.
const EVENTS_MAX: usize = 32;
/// Rounds after which the background thread goes on to other sockets.
const ROUNDS_MAX: usize = 16;
