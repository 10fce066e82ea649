//! Connections through shared memory: when they are looked at, and when their peers wake us.
//!
//! A ring tells nothing by itself. The socket has a list of those that it looks at: the active
//! ones. Where no thread of this process looks, it asks the peers of all of them to wake it, and
//! the list is empty until one does.

use rustix::event::epoll;
use tidewire_rings::{Spin, Wants};

use crate::awake::{Moment, Vigil};
use crate::core::{Core, Wait};
use crate::lent::Held;
use crate::link::StreamLink;
use crate::peer::Link;
use crate::slab::Key;
use crate::state::State;

/// The connections through shared memory of a socket.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    /// Those that are looked at.
    active: Vec<Key>,
    /// Looks at the rings alone since the kernel was last asked too.
    looks: u32,
}

impl Rings {
    /// Whether some are looked at.
    #[inline]
    pub(crate) fn are_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Whether the kernel need not be asked after this look, which found something. Others than
    /// the rings must not wait for as long as these have something.
    pub(crate) fn suffice(&mut self) -> bool {
        self.looks = (self.looks + 1) % LOOKS_MAX;
        self.looks > 0
    }
}

impl StreamLink {
    /// What is wanted of its ring; nothing where it has none.
    fn wants(&self) -> Wants {
        Wants {
            bytes: self.interest.read,
            room: self.interest.write,
        }
    }

    /// Whether its ring has what is wanted.
    fn is_ring_ready(&self) -> bool {
        let channel = self.carrier.shared();
        channel.is_some_and(|channel| channel.is_ready(self.wants()))
    }
}

impl State {
    fn ring_mut(&mut self, key: Key) -> Option<&mut StreamLink> {
        match &mut self.peers.get_mut(key)?.link {
            Link::Stream(link) if link.carrier.shared().is_some() => Some(link),
            _ => None,
        }
    }

    /// A ring is looked at from now on.
    pub(crate) fn activate(&mut self, key: Key) {
        if let Some(link) = self.ring_mut(key)
            && !std::mem::replace(&mut link.is_active, true)
        {
            debug_assert!(!self.rings.active.contains(&key), "a ring is listed once");
            self.rings.active.push(key);
        }
    }

    /// The socket of a ring is readable: its peer woke us, or is gone.
    pub(crate) fn ring_event(&mut self, key: Key, ahead: bool) {
        let Some(Link::Stream(link)) = self.peers.get_mut(key).map(|peer| &mut peer.link) else {
            return;
        };
        let Some(channel) = link.carrier.shared_mut() else {
            return;
        };
        channel.hear();
        // At its end it would be readable from now on.
        if channel.is_closed()
            && let Some(epoll) = &self.epoll
            && epoll::delete(&**epoll, &*channel).is_ok()
        {
            debug_assert!(self.descriptors > 0, "a watched descriptor was counted");
            self.descriptors -= 1;
        }
        self.activate(key);
        self.look_at_ring(key, ahead);
    }

    /// Looks at the active rings. Whether something has come of it.
    pub(crate) fn scan_rings(&mut self, ahead: bool) -> bool {
        let mut any = false;
        let mut index = 0;
        // Others may become active meanwhile; those stand behind.
        while let Some(&key) = self.rings.active.get(index) {
            any |= self.look_at_ring(key, ahead);
            match self.ring_mut(key) {
                Some(_) => index += 1,
                None => self.forget_ring(key),
            }
        }
        any
    }

    pub(crate) fn forget_ring(&mut self, key: Key) {
        self.rings.active.retain(|&known| known != key);
    }

    fn look_at_ring(&mut self, key: Key, ahead: bool) -> bool {
        let Some(link) = self.ring_mut(key) else {
            return false;
        };
        if !link.is_ring_ready() {
            return false;
        }
        let wants = link.wants();
        if wants.room {
            self.flush(key);
        }
        if wants.bytes {
            self.read_peer(key, ahead);
        }
        true
    }

    /// Has the peers of the active rings wake this socket. Whether one of them has something
    /// already: it stays active.
    pub(crate) fn arm_rings(&mut self) -> bool {
        let mut active = std::mem::take(&mut self.rings.active);
        active.retain(|&key| {
            let Some(link) = self.ring_mut(key) else {
                return false;
            };
            let wants = link.wants();
            let channel = link.carrier.shared_mut();
            link.is_active = channel.is_some_and(|channel| channel.arm(wants));
            link.is_active
        });
        debug_assert!(self.rings.active.is_empty(), "nothing was activated");
        self.rings.active = active;
        self.rings.are_active()
    }

    /// Adds what the active rings are to bring to what a thread spins for.
    fn spin_for_rings(&self, spin: &mut Spin) {
        for &key in &self.rings.active {
            if let Some(Link::Stream(link)) = self.peers.get(key).map(|peer| &peer.link)
                && let Some(channel) = link.carrier.shared()
                && !channel.spin_for(link.wants(), spin)
            {
                // It looks at a few; the others are found before the thread sleeps.
                break;
            }
        }
    }
}

impl Core {
    /// Looks at the rings for a moment without sleeping. Whether something may have come, so that
    /// the caller need not sleep.
    pub(crate) fn spin(&self, state: &mut Held<'_>, wait: Wait, vigil: &mut Vigil) -> bool {
        // One thread is enough.
        if state.waiters > 0 || !state.rings.are_active() {
            return false;
        }
        let mut spin = Spin::default();
        state.spin_for_rings(&mut spin);
        if spin.is_empty() {
            return false;
        }
        let Some(moment) = Moment::begin(state.patience.limit_ns(), wait) else {
            return false;
        };
        self.begin_spin(state);
        let is_over = Held::unlocked(state, || run(&spin, moment, [self], vigil));
        self.end_spin(state);
        state.was_awake(Some(is_over));
        if is_over {
            // This thread is the one that looks.
            state.visit();
        }
        is_over
    }

    /// A thread that spins is rung for like one that sleeps: another one may take what it sees out
    /// of the ring.
    fn begin_spin(&self, state: &mut State) {
        state.waiters += 1;
        self.signal.listen();
    }

    fn end_spin(&self, state: &mut State) {
        self.signal.unlisten();
        debug_assert!(state.waiters > 0, "it was counted");
        state.waiters -= 1;
    }

    /// The same for several sockets.
    pub(crate) fn spin_for_any<'c>(
        cores: impl Iterator<Item = &'c Core> + Clone,
        wait: Wait,
        vigil: &mut Vigil,
    ) -> bool {
        if !cores.clone().any(|core| core.lock().rings.are_active()) {
            return false;
        }
        let mut spin = Spin::default();
        let mut limit_ns = u64::MAX;
        for core in cores.clone() {
            let mut state = core.lock();
            core.begin_spin(&mut state);
            if state.waiters == 1 && state.rings.are_active() {
                state.spin_for_rings(&mut spin);
                limit_ns = limit_ns.min(state.patience.limit_ns());
            }
        }
        let moment = match spin.is_empty() {
            true => None,
            false => Moment::begin(limit_ns, wait),
        };
        let is_over = moment.is_some_and(|moment| run(&spin, moment, cores.clone(), vigil));
        for core in cores {
            let mut state = core.lock();
            core.end_spin(&mut state);
            if moment.is_some() && state.rings.are_active() {
                state.was_awake(Some(is_over));
                state.visit();
            }
        }
        is_over
    }
}

/// Spins for as long as it pays, and as there is nothing else to do for one of the sockets.
fn run<'c>(
    spin: &Spin,
    moment: Moment,
    cores: impl IntoIterator<Item = &'c Core> + Clone,
    vigil: &mut Vigil,
) -> bool {
    vigil.has_spun = true;
    let stops = || cores.clone().into_iter().any(Core::must_stop);
    if spin.run(moment.first(), stops) {
        return true;
    }
    if moment.first() == moment.end {
        return false;
    }
    vigil.hold_signals();
    spin.run(moment.end, stops)
}

/// Looks at the rings after which the kernel is asked too.
const LOOKS_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use crate::{Context, Message, SendFlags, Socket, SocketType};

    fn pair(context: &Context, kinds: [SocketType; 2]) -> [Socket; 2] {
        let sockets = kinds.map(|kind| {
            let socket = context.socket(kind).unwrap();
            let patience = Some(std::time::Duration::from_secs(5));
            socket.set_receive_timeout(patience).unwrap();
            socket
        });
        sockets[0].bind("shm://*").unwrap();
        sockets[1]
            .connect(&sockets[0].last_endpoint().unwrap())
            .unwrap();
        sockets
    }

    /// The background thread took it, the ring was empty, and the thread that had spun for it went
    /// to sleep.
    #[test]
    fn a_message_that_another_thread_takes_in_during_a_spin_is_not_slept_over() {
        const ROUNDS: u32 = 5_000;
        let context = Context::new();
        let [reply, request] = pair(&context, [SocketType::Rep, SocketType::Req]);
        let asked = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = 0;
                loop {
                    let round = asked.load(Ordering::Relaxed);
                    if round == ROUNDS {
                        break;
                    }
                    if round == seen {
                        std::thread::yield_now();
                        continue;
                    }
                    request.core().look_after();
                    if !request.core().lock().readable.is_empty() {
                        // It has taken the reply. A further look would ring.
                        seen = round;
                    }
                }
            });
            scope.spawn(|| {
                while let Ok(mut message) = reply.receive(false)
                    && !message.is_empty()
                {
                    reply.send(&mut message, SendFlags::default()).unwrap();
                }
            });
            let mut received = Ok(Message::new());
            for round in 1..ROUNDS {
                let bytes = round.to_ne_bytes();
                request.send_bytes(&bytes, SendFlags::default()).unwrap();
                asked.store(round, Ordering::Relaxed);
                received = request.receive(false);
                if received.is_err() {
                    break;
                }
            }
            // The other threads end in either case.
            asked.store(ROUNDS, Ordering::Relaxed);
            let _ = request.send_bytes(b"", SendFlags::default());
            assert_eq!(received.unwrap().as_slice(), (ROUNDS - 1).to_ne_bytes());
        });
    }
}
