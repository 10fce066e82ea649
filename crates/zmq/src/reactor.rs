//! The background thread: it looks after sockets while their programs are elsewhere.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use foldhash::{HashMap, HashSet};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::Timespec;
use tidewire_readiness as readiness;

use crate::background::BackgroundThread;
use crate::clock::now_ns;
use crate::core::Core;
use crate::error::Error;
use crate::rooms;

/// One background thread of a context.
#[derive(Debug)]
pub(crate) struct Reactor {
    /// Watches the sockets' own epolls, for what is new in them: what programs poll stays there
    /// until they look.
    epoll: OwnedFd,
    bell: OwnedFd,
    shared: Mutex<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The thread's number; 0: it has not begun to run.
    runs_in: AtomicI32,
}

#[derive(Debug, Default)]
struct Shared {
    cores: HashMap<u64, Weak<Core>>,
    /// Those whose descriptor has been added.
    known: HashSet<u64>,
    timers: BinaryHeap<Reverse<(u64, u64)>>,
    watched: Vec<Arc<Core>>,
    bursting: Vec<Arc<Core>>,
    /// When the thread will wake by itself.
    wakes_ns: u64,
    stops: bool,
}

impl Reactor {
    pub(crate) fn start(background: &BackgroundThread) -> Result<Arc<Reactor>, Error> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(BELL);
        epoll::add(&epoll, &bell, data, epoll::EventFlags::IN)?;
        let reactor = Arc::new(Reactor {
            epoll,
            bell,
            shared: Mutex::default(),
            thread: Mutex::new(None),
            runs_in: AtomicI32::new(0),
        });
        let runner = Arc::clone(&reactor);
        let thread = background
            .spawn(move || runner.run())
            .map_err(|_| Error::TooManyDescriptors)?;
        *reactor.thread.lock() = Some(thread);
        Ok(reactor)
    }

    pub(crate) fn add(&self, core: &Arc<Core>) {
        let known = self
            .shared
            .lock()
            .cores
            .insert(core.id, Arc::downgrade(core));
        debug_assert!(known.is_none(), "a socket is added once");
    }

    /// Tells the thread of this socket's events, those of this moment too.
    pub(crate) fn arm(&self, core: &Core, descriptor: BorrowedFd<'_>) {
        debug_assert_ne!(core.id, BELL, "the bell's number is no socket's");
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(core.id);
        let is_new = self.shared.lock().known.insert(core.id);
        // Neither fails but for want of memory, when nothing else would work either.
        let _ = match is_new {
            true => epoll::add(&self.epoll, descriptor, data, flags),
            false => epoll::modify(&self.epoll, descriptor, data, flags),
        };
    }

    /// Tells it of no event: a caller waits for them.
    pub(crate) fn disarm(&self, descriptor: BorrowedFd<'_>) {
        let data = epoll::EventData::new_u64(0);
        let _ = epoll::modify(&self.epoll, descriptor, data, epoll::EventFlags::empty());
    }

    /// Looks after this socket at that time.
    pub(crate) fn schedule(&self, id: u64, deadline_ns: u64) {
        let mut shared = self.shared.lock();
        shared.timers.push(Reverse((deadline_ns, id)));
        if deadline_ns < shared.wakes_ns {
            shared.wakes_ns = deadline_ns;
            drop(shared);
            self.ring();
        }
    }

    /// Looks after this socket when its program has left it alone for a while.
    pub(crate) fn watch(&self, core: &Arc<Core>) {
        self.list(core, IDLE_NS, |shared| &mut shared.watched);
    }

    /// Writes what this socket holds back, at short intervals.
    pub(crate) fn burst(&self, core: &Arc<Core>) {
        self.list(core, BURST_NS, |shared| &mut shared.bursting);
    }

    fn list(
        &self,
        core: &Arc<Core>,
        interval_ns: u64,
        which: fn(&mut Shared) -> &mut Vec<Arc<Core>>,
    ) {
        let mut shared = self.shared.lock();
        if shared.stops {
            return;
        }
        let list = which(&mut shared);
        debug_assert!(
            list.iter().all(|other| other.id != core.id),
            "a socket is listed once"
        );
        list.push(Arc::clone(core));
        let wakes_ns = now_ns() + interval_ns;
        if wakes_ns < shared.wakes_ns {
            shared.wakes_ns = wakes_ns;
            drop(shared);
            self.ring();
        }
    }

    /// A socket is over.
    pub(crate) fn forget(&self, id: u64, descriptor: BorrowedFd<'_>) {
        let mut shared = self.shared.lock();
        shared.cores.remove(&id);
        if shared.known.remove(&id) {
            let _ = epoll::delete(&self.epoll, descriptor);
        }
    }

    /// Ends the thread and waits for its end.
    pub(crate) fn stop(&self) {
        self.shared.lock().stops = true;
        self.ring();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && self.runs_in.load(Ordering::Relaxed) != this_thread()
        {
            let _ = thread.join();
        }
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn run(&self) {
        self.runs_in.store(this_thread(), Ordering::Relaxed);
        let mut space = [const { MaybeUninit::<epoll::Event>::uninit() }; 64];
        let mut next_look_ns = now_ns() + IDLE_NS;
        let mut rooms = Rooms::default();
        loop {
            let Some(timeout) = self.prepare(next_look_ns, rooms.look_ns) else {
                return self.let_go();
            };
            let Ok(events) = readiness::wait(&self.epoll, &mut space, timeout.as_ref()) else {
                continue;
            };
            let mut ready = Vec::new();
            for event in events.iter() {
                match event.data.u64() {
                    BELL => {
                        let mut count = [0_u8; 8];
                        let _ = rustix::io::read(&self.bell, &mut count);
                    }
                    id => ready.extend(self.core(id)),
                }
            }
            for core in ready {
                core.look_after();
            }
            let now = now_ns();
            for core in self.due(now) {
                core.look_after();
            }
            self.visit_bursting();
            if now >= next_look_ns {
                self.visit_watched();
                next_look_ns = now + IDLE_NS;
            }
            rooms.look(now);
        }
    }

    /// The thread ends. A socket that it has just looked after would be kept by its list, and the
    /// list by the socket.
    fn let_go(&self) {
        let mut shared = self.shared.lock();
        let watched = std::mem::take(&mut shared.watched);
        let bursting = std::mem::take(&mut shared.bursting);
        drop(shared);
        drop((watched, bursting));
    }

    /// How long to sleep; `None`: no longer at all.
    fn prepare(&self, next_look_ns: u64, rooms_ns: u64) -> Option<Option<Timespec>> {
        let mut shared = self.shared.lock();
        if shared.stops {
            return None;
        }
        let now = now_ns();
        let mut wakes_ns = rooms_ns;
        if let Some(Reverse((deadline, _))) = shared.timers.peek() {
            wakes_ns = wakes_ns.min(*deadline);
        }
        if !shared.watched.is_empty() {
            wakes_ns = wakes_ns.min(next_look_ns.max(now));
        }
        if !shared.bursting.is_empty() {
            wakes_ns = wakes_ns.min(now + BURST_NS);
        }
        debug_assert!(
            wakes_ns < u64::MAX || (shared.watched.is_empty() && shared.bursting.is_empty()),
            "a socket that is looked after is looked at again"
        );
        shared.wakes_ns = wakes_ns;
        if wakes_ns == u64::MAX {
            return Some(None);
        }
        let left_ns = wakes_ns.saturating_sub(now);
        Some(Some(Timespec {
            tv_sec: (left_ns / 1_000_000_000) as i64,
            tv_nsec: (left_ns % 1_000_000_000) as i64,
        }))
    }

    fn core(&self, id: u64) -> Option<Arc<Core>> {
        self.shared.lock().cores.get(&id).and_then(Weak::upgrade)
    }

    /// The sockets whose time has come.
    fn due(&self, now: u64) -> Vec<Arc<Core>> {
        let mut due: Vec<Arc<Core>> = Vec::new();
        let mut shared = self.shared.lock();
        while let Some(&Reverse((deadline, id))) = shared.timers.peek()
            && deadline <= now
        {
            shared.timers.pop();
            if !due.iter().any(|core| core.id == id) {
                due.extend(shared.cores.get(&id).and_then(Weak::upgrade));
            }
        }
        due
    }

    fn visit_bursting(&self) {
        let bursting = std::mem::take(&mut self.shared.lock().bursting);
        if bursting.is_empty() {
            return;
        }
        let mut kept = bursting;
        kept.retain(|core| core.end_burst_turn());
        self.shared.lock().bursting.append(&mut kept);
    }

    fn visit_watched(&self) {
        let mut watched = std::mem::take(&mut self.shared.lock().watched);
        watched.retain(|core| core.check_idle());
        self.shared.lock().watched.append(&mut watched);
    }
}

/// The number of the calling thread. `std::thread::current` has none to tell in the functions that
/// a C library calls when a thread's own data is gone.
fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// When the room of long bodies is looked at, as long as there is some that no socket uses.
struct Rooms {
    look_ns: u64,
}

impl Default for Rooms {
    fn default() -> Rooms {
        Rooms { look_ns: u64::MAX }
    }
}

impl Rooms {
    fn look(&mut self, now_ns: u64) {
        if self.look_ns == u64::MAX {
            if rooms::is_some_left() {
                self.look_ns = now_ns + ROOMS_NS;
            }
        } else if now_ns >= self.look_ns {
            self.look_ns = match rooms::let_go_unused() {
                true => now_ns + ROOMS_NS,
                false => u64::MAX,
            };
        }
    }
}

/// The token of the bell; sockets count from 1.
const BELL: u64 = u64::MAX;
/// A socket that its program has not driven for so long is looked after.
const IDLE_NS: u64 = 5_000_000;
/// Room of long bodies that is not used for so long is let go.
const ROOMS_NS: u64 = 500_000_000;
/// The interval in which what bursts hold back is written.
const BURST_NS: u64 = 50_000;
