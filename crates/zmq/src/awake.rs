//! Waiting for events: awake for a moment, then asleep.
//!
//! A wake-up by the kernel takes longer than most answers. So a thread that waits looks for events
//! again and again for a short time before it sleeps. [`Patience`](tidewire_rings::Patience) sets
//! that time: it falls while waits last longer. One thread of a socket does so at a time.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::Event;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, Result};
use rustix::time::Timespec;
use tidewire_readiness::{self as readiness, HeldSignals};

use crate::core::{Core, Wait};
use crate::lent::Held;
use crate::outside::{self, Sleep};
use crate::peer::Link;
use crate::socket::Events;
use crate::state::State;

/// One wait, from its beginning to its end.
///
/// From a moment on it holds signals back, up to the sleep that they interrupt.
#[derive(Debug, Default)]
pub(crate) struct Vigil {
    signals: Option<HeldSignals>,
    /// The thread has looked at the rings for as long as it pays.
    pub(crate) has_spun: bool,
    /// It has looked more than once, so that the end tells something of the wait.
    has_looked: bool,
}

/// How long a thread stays awake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Signals are held back from here on.
    held_from: Instant,
    pub(crate) end: Instant,
}

impl Moment {
    /// From now on. `None`: there is no time to stay awake.
    pub(crate) fn begin(limit_ns: u64, wait: Wait) -> Option<Moment> {
        let limit = Duration::from_nanos(limit_ns);
        let limit = wait.left().map_or(limit, |left| left.min(limit));
        let now = Instant::now();
        (!limit.is_zero()).then(|| Moment {
            held_from: now + Duration::from_nanos(UNHELD_NS),
            end: now + limit,
        })
    }

    /// The part in which signals are not held back.
    pub(crate) fn first(self) -> Instant {
        self.held_from.min(self.end)
    }
}

impl Vigil {
    /// Signals are held back until the thread sleeps or goes on.
    pub(crate) fn hold_signals(&mut self) {
        self.signals.get_or_insert_with(HeldSignals::new);
    }

    /// Whether the moment goes on.
    fn goes_on(&mut self, moment: Moment) -> bool {
        self.has_looked = true;
        let now = Instant::now();
        if now >= moment.held_from && now < moment.end {
            self.hold_signals();
        }
        now < moment.end
    }

    /// The signals that may come during a sleep outside; null: those of the thread.
    pub(crate) fn mask(&self) -> *const c_void {
        let mask = self.signals.as_ref().map(HeldSignals::mask);
        mask.map_or(std::ptr::null(), |mask| std::ptr::from_ref(mask).cast())
    }

    /// Sleeps until there are events, and takes them.
    ///
    /// Not by `epoll_wait`, which also ends when the process is stopped and continued. The kernel
    /// goes on with `poll` then, and ends it for a signal only if a handler has run.
    fn sleep<'s>(
        &self,
        epoll: BorrowedFd<'_>,
        space: &'s mut [MaybeUninit<Event>],
        timeout: Option<&Timespec>,
    ) -> Result<&'s [Event]> {
        let mut watched = [PollFd::from_borrowed_fd(epoll, PollFlags::IN)];
        match self.poll(&mut watched, timeout)? {
            0 => Ok(&[]),
            _ => readiness::look(epoll, space),
        }
    }

    fn poll(&self, descriptors: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> Result<usize> {
        match &self.signals {
            None => poll(descriptors, timeout),
            Some(held) => readiness::poll_releasing(descriptors, timeout, held),
        }
    }
}

impl Core {
    /// From here on this thread is the one that is woken. Whether a ring has something already, so
    /// that it must not sleep.
    pub(crate) fn begin_wait(&self, state: &mut State) -> bool {
        state.waiters += 1;
        state.visit();
        // Deadlines are met by the background thread, however long the wait is.
        self.schedule(state);
        if state.is_armed {
            state.is_armed = false;
            self.disarm(state);
        }
        self.signal.listen();
        state.rings.are_active() && state.arm_rings()
    }

    pub(crate) fn end_wait(&self, state: &mut State) {
        self.signal.unlisten();
        debug_assert!(state.waiters > 0, "who ends a wait began it");
        state.waiters -= 1;
        state.visit();
    }

    /// Waits for events after [`begin_wait`](Self::begin_wait), and ends the wait. Without events
    /// the time is over, or the bell rang and was answered.
    pub(crate) fn wait_for_events<'s>(
        &self,
        state: &mut Held<'_>,
        wait: Wait,
        mut vigil: Vigil,
        space: &'s mut [MaybeUninit<Event>],
    ) -> Result<&'s [Event]> {
        let moment = Moment::begin(limit_ns(state, &vigil), wait);
        if moment.is_some() {
            self.signal.stay_awake();
        }
        let has_descriptors = state.descriptors > 0;
        let Some(epoll) = state.epoll.clone() else {
            self.end_wait(state);
            return Err(Errno::BADF);
        };
        let watched = has_descriptors.then(|| epoll.as_fd());
        let mut left = None;
        let (found, was_enough) = Held::unlocked(state, || {
            let space = match moment {
                None => space,
                Some(moment) => match self.stay_awake(moment, watched, &mut vigil, space) {
                    Ok(ControlFlow::Continue(space)) => space,
                    Ok(ControlFlow::Break(events)) => {
                        return (Ok(events), vigil.has_looked.then_some(true));
                    }
                    Err(error) => return (Err(error), None),
                },
            };
            if outside::is_wanted() {
                left = self.context.core(self.id);
            }
            if left.is_some() {
                return (Err(outside::LEFT), None);
            }
            let timeout = wait.timespec();
            (
                vigil.sleep(epoll.as_fd(), space, timeout.as_ref()),
                moment.map(|_| false),
            )
        });
        if let Some(core) = left {
            let mut sleep = Sleep::new(wait, vigil, moment.is_some());
            sleep.add_socket(core, epoll);
            outside::leave(sleep);
            return Err(outside::LEFT);
        }
        self.end_wait(state);
        if moment.is_some() {
            state.was_awake(was_enough);
            self.end_vigil(state);
        }
        found
    }

    /// Looks for events without sleeping, in the epoll or, without one, for the bell alone. Breaks
    /// with them, or without any because the bell rang.
    fn stay_awake<'s>(
        &self,
        moment: Moment,
        watched: Option<BorrowedFd<'_>>,
        vigil: &mut Vigil,
        space: &'s mut [MaybeUninit<Event>],
    ) -> Result<ControlFlow<&'s [Event], &'s mut [MaybeUninit<Event>]>> {
        let found = if let Some(watched) = watched {
            let goes_on = || !self.must_stop() && vigil.goes_on(moment);
            readiness::look_while(watched, space, goes_on)
        } else {
            vigil.has_looked = !self.must_stop();
            while !rounds(|| self.must_stop()) && vigil.goes_on(moment) {}
            Ok(ControlFlow::Continue(space))
        };
        self.signal.fall_asleep();
        match found {
            Ok(ControlFlow::Continue(_)) if self.must_stop() => Ok(ControlFlow::Break(&[])),
            found => found,
        }
    }

    /// It waits no longer.
    pub(crate) fn end_vigil(&self, state: &mut State) {
        // It may have been rung for this thread alone.
        if self.signal.is_raised() {
            state.answer_bell();
        }
    }

    pub(crate) fn must_stop(&self) -> bool {
        self.signal.is_raised() || self.context.is_terminated()
    }
}

/// Sockets and descriptors that one thread waits for at once.
#[derive(Debug)]
pub(crate) struct Watch<'c> {
    cores: &'c [(Arc<Core>, Events)],
    /// How long the most impatient of the sockets stays awake, in nanoseconds.
    limit_ns: u64,
    /// There is something to receive already, or to look at.
    has_news: bool,
    /// Some items are not sockets.
    has_others: bool,
    /// Others than bells.
    has_descriptors: bool,
    was_enough: Option<bool>,
    /// The waits go on without it.
    is_left: bool,
}

impl<'c> Watch<'c> {
    /// Begins a wait on each socket. Of `count` items these are the sockets.
    pub(crate) fn begin(cores: &'c [(Arc<Core>, Events)], count: usize, vigil: &Vigil) -> Self {
        debug_assert!(cores.len() <= count, "each socket is an item");
        let is_small = count <= AWAKE_ITEMS_MAX && !cores.is_empty();
        let mut watch = Watch {
            cores,
            limit_ns: if is_small { u64::MAX } else { 0 },
            has_news: false,
            has_others: cores.len() < count,
            has_descriptors: cores.len() < count,
            was_enough: None,
            is_left: false,
        };
        for (core, wanted) in cores {
            let mut state = core.lock();
            watch.has_news |= core.begin_wait(&mut state);
            state.scan_pipes();
            // The background thread may have read the event since the last look; then the kernel
            // does not report it again.
            watch.has_news |=
                wanted.readable && state.can_receive() || wanted.writable && state.can_send();
            watch.has_descriptors |= state.descriptors > 0;
            watch.limit_ns = watch.limit_ns.min(limit_ns(&state, vigil));
            core.signal.stay_awake();
        }
        watch
    }

    /// Waits until a descriptor is ready, a bell rings, or the time is over.
    pub(crate) fn wait(
        &mut self,
        descriptors: &mut [PollFd<'_>],
        wait: Wait,
        vigil: &mut Vigil,
    ) -> Result<usize> {
        if !self.has_news
            && let Some(moment) = Moment::begin(self.limit_ns, wait)
        {
            let found = self.stay_awake(descriptors, moment, vigil)?;
            let is_over = found > 0 || self.must_stop();
            self.was_enough = (vigil.has_looked || !is_over).then_some(is_over);
            if found > 0 {
                return Ok(found);
            }
        }
        for (core, _) in self.cores {
            core.signal.fall_asleep();
        }
        match self.has_news || self.must_stop() {
            true if !self.has_others => Ok(0),
            true => poll(descriptors, Some(&AT_ONCE)),
            false if outside::is_wanted() => Err(outside::LEFT),
            false => vigil.poll(descriptors, wait.timespec().as_ref()),
        }
    }

    fn stay_awake(
        &self,
        descriptors: &mut [PollFd<'_>],
        moment: Moment,
        vigil: &mut Vigil,
    ) -> Result<usize> {
        loop {
            if self.has_descriptors {
                let found = poll(descriptors, Some(&AT_ONCE))?;
                if found > 0 {
                    return Ok(found);
                }
            }
            let mut has_stopped = self.must_stop();
            if !has_stopped && !self.has_descriptors {
                vigil.has_looked = true;
                has_stopped = rounds(|| self.must_stop());
            }
            if has_stopped || !vigil.goes_on(moment) {
                return Ok(0);
            }
        }
    }

    /// Leaves the waits to a sleep outside. Returns whether it has looked for events.
    pub(crate) fn leave(&mut self) -> bool {
        self.is_left = true;
        self.was_enough.is_some()
    }

    fn must_stop(&self) -> bool {
        self.cores.iter().any(|(core, _)| core.must_stop())
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        for (core, _) in self.cores {
            core.signal.fall_asleep();
            let mut state = core.lock();
            core.end_wait(&mut state);
            state.was_awake(self.was_enough);
            core.end_vigil(&mut state);
            core.leave(&mut state);
        }
    }
}

impl State {
    /// A thread has looked without sleeping; `None`: it found something at once.
    pub(crate) fn was_awake(&mut self, was_enough: Option<bool>) {
        match was_enough {
            Some(true) => self.patience.was_enough(),
            Some(false) => self.patience.was_not_enough(),
            None => {}
        }
    }
}

impl State {
    /// A thread of this process sends messages in a row, as the last ones show: waits for the next
    /// ones without a word to it, and until they are about as many. To pass on a few takes both
    /// threads longer than many messages do. Whether some came.
    pub(crate) fn wait_for_several(&mut self) -> bool {
        let &[key] = self.pipes.as_slice() else {
            return false;
        };
        if self.descriptors > 0 || limit_ns(self, &Vigil::default()) == 0 {
            return false;
        }
        let Some(Link::Pipe(pipe)) = self.peers.get_mut(key).map(|peer| &mut peer.link) else {
            return false;
        };
        let Some(taken) = pipe.in_a_row() else {
            return false;
        };
        if !look_for(IN_A_ROW_NS, || pipe.has_items()) {
            return false;
        }
        let several_ns = u64::from(taken) * EACH_NS;
        // At nothing: a look would take the cache line that the other thread writes to.
        look_for(several_ns.clamp(SEVERAL_NS_MIN, SEVERAL_NS_MAX), || false);
        self.scan_pipes()
    }
}

/// Looks for something until it is there, for so long. Whether it is.
fn look_for(limit_ns: u64, is_there: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_nanos(limit_ns);
    while !rounds(&is_there) {
        if Instant::now() >= end {
            return false;
        }
    }
    true
}

/// For how long a thread that waits for a socket looks without sleeping, in nanoseconds.
fn limit_ns(state: &State, vigil: &Vigil) -> u64 {
    // One thread is enough.
    let is_other_awake = state.waiters > 1 || vigil.has_spun;
    let is_pointless = !state.pipes.is_empty() && state.signal.is_beside_ringer();
    match is_other_awake || is_pointless {
        true => 0,
        false => state.patience.limit_ns(),
    }
}

/// Looks at what costs next to nothing. Whether the thread must stop.
fn rounds(must_stop: impl Fn() -> bool) -> bool {
    for _ in 0..ROUNDS {
        if must_stop() {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

/// Signals are held back after this time only: to hold them takes two system calls, and most waits
/// inside the process are shorter.
const UNHELD_NS: u64 = 2_000;
/// Looks at the bell between two looks at the clock, where there is nothing else to look at.
const ROUNDS: u32 = 16;
/// Messages follow one another if no more time lies between them.
const IN_A_ROW_NS: u64 = 2_000;
/// Time for each of as many as the last time: more than it takes to send one, so that they grow.
const EACH_NS: u64 = 64;
/// How long the first of several waits for the others.
const SEVERAL_NS_MIN: u64 = 1_000;
const SEVERAL_NS_MAX: u64 = 8_000;
/// A look at more items costs more than a sleep.
const AWAKE_ITEMS_MAX: usize = 16;
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::{Vigil, limit_ns};
    use crate::poll::{PollItem, poll};
    use crate::{Context, Error, SendFlags, Socket, SocketType, socket_options as option};

    /// Longer than any test waits.
    const FOREVER_NS: i32 = i32::MAX;

    fn pair(context: &Context, endpoint: &str, spin_ns: i32) -> [Socket; 2] {
        let sockets = [SocketType::Pair, SocketType::Pair].map(|kind| {
            let socket = context.socket(kind).unwrap();
            socket.set(option::SPIN_NS, spin_ns).unwrap();
            socket.set_linger(Some(Duration::ZERO)).unwrap();
            socket
        });
        sockets[0].bind(endpoint).unwrap();
        sockets[1]
            .connect(&sockets[0].last_endpoint().unwrap())
            .unwrap();
        sockets
    }

    /// The two have met, and nothing else happens.
    fn meet(sockets: &[Socket; 2]) {
        for (from, to) in [(0, 1), (1, 0)] {
            sockets[from]
                .send_bytes(b"hello", SendFlags::default())
                .unwrap();
            assert_eq!(sockets[to].receive(false).unwrap().as_slice(), b"hello");
        }
    }

    #[test]
    fn a_socket_that_waits_for_long_looks_for_a_32nd_of_the_time() {
        let context = Context::new();
        for endpoint in ["tcp://127.0.0.1:*", "ipc://*", "shm://*", "inproc://idle"] {
            let sockets = pair(&context, endpoint, 64_000);
            meet(&sockets);
            let patience = Some(Duration::from_millis(1));
            sockets[0].set_receive_timeout(patience).unwrap();
            let mut looked_ns = 0;
            for _ in 0..320 {
                looked_ns += limit_ns(&sockets[0].core().lock(), &Vigil::default());
                assert_eq!(sockets[0].receive(false).err(), Some(Error::Again));
            }
            // One second of waits.
            assert!(looked_ns < 4_000_000, "{endpoint}: {looked_ns}");
        }
    }

    #[test]
    fn without_a_time_to_look_a_wait_sleeps_at_once() {
        let context = Context::new();
        let sockets = pair(&context, "inproc://asleep", 0);
        assert_eq!(
            sockets[0].core().lock().patience.limit_ns(),
            0,
            "it is switched off"
        );
        meet(&sockets);
    }

    /// Calls `work` in a thread, and `then` once it waits: awake, unless both threads run on one
    /// processor.
    fn while_waiting<T: Send>(
        socket: &Socket,
        work: impl FnOnce() -> T + Send,
        then: impl FnOnce(),
    ) -> T {
        std::thread::scope(|scope| {
            let worker = scope.spawn(work);
            while !socket.core().signal.has_listeners() {
                std::thread::yield_now();
            }
            then();
            worker.join().unwrap()
        })
    }

    #[test]
    fn one_that_looks_for_events_takes_what_comes() {
        let context = Context::new();
        for endpoint in ["tcp://127.0.0.1:*", "ipc://*", "inproc://awake"] {
            let sockets = pair(&context, endpoint, FOREVER_NS);
            meet(&sockets);
            let [one, other] = &sockets;
            let send = || other.send_bytes(b"news", SendFlags::default()).unwrap();
            let received = while_waiting(one, || one.receive(false), send);
            assert_eq!(received.unwrap().as_slice(), b"news");
            let polled = while_waiting(one, || poll(&mut [PollItem::readable(one)], -1), send);
            assert_eq!(polled, Ok(1));
        }
    }

    /// It found no room, and was rung for room.
    #[test]
    fn one_that_looks_for_room_takes_it() {
        let context = Context::new();
        let [one, other] = pair(&context, "inproc://room", FOREVER_NS);
        while one
            .send_bytes(
                b"more",
                SendFlags {
                    dont_wait: true,
                    more: false,
                },
            )
            .is_ok()
        {}
        let send = || one.send_bytes(b"last", SendFlags::default());
        let sent = while_waiting(&one, send, || while other.receive(true).is_ok() {});
        assert_eq!(sent, Ok(()));
    }

    #[test]
    fn one_that_looks_for_events_hears_of_the_end() {
        let context = Context::new();
        let sockets = pair(&context, "tcp://127.0.0.1:*", FOREVER_NS);
        meet(&sockets);
        let received = while_waiting(
            &sockets[0],
            || sockets[0].receive(false),
            || context.shutdown(),
        );
        assert_eq!(received.err(), Some(Error::Terminated));
    }

    /// The event was left out of the epoll for the thread that looked, and missed by the others.
    #[test]
    fn a_thread_that_sleeps_beside_one_that_looks_is_woken() {
        let context = Context::new();
        let [one, other] = &pair(&context, "inproc://both", FOREVER_NS);
        let receive = || one.receive(false).unwrap();
        std::thread::scope(|scope| {
            let second = while_waiting(
                one,
                || {
                    let first = scope.spawn(receive);
                    while one.core().lock().waiters < 1 {
                        std::thread::yield_now();
                    }
                    let second = receive();
                    first.join().unwrap();
                    second
                },
                || {
                    while one.core().lock().waiters < 2 {
                        std::thread::yield_now();
                    }
                    for _ in 0..2 {
                        other.send_bytes(b"one each", SendFlags::default()).unwrap();
                    }
                },
            );
            assert_eq!(second.as_slice(), b"one each");
        });
    }
}
