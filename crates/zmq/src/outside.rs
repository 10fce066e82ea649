//! Sleeps outside of this library, for programs in C that cancel threads.
//!
//! `pthread_cancel` unwinds a thread from the call that it sleeps in. Frames of Rust that have
//! something to drop must not be unwound so. Where the library is one for C
//! ([`enable`]), a call that must sleep therefore returns first: what it waits for stays with the
//! thread, and the error is [`is_left`]. The caller, which has nothing to drop, sleeps as [`plan`]
//! says, calls [`wake`], and then the same function again, which goes on with the same time limit.
//! A thread that is cancelled meanwhile lets its sleep go when it ends.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::awake::Vigil;
use crate::core::{Core, Wait};
use crate::error::Error;
use crate::event::SocketEpoll;

/// Has every call that must sleep return first. Cannot be undone.
pub fn enable() {
    IS_ENABLED.store(true, Ordering::Relaxed);
}

/// Whether a call has returned because it must sleep.
pub fn is_left(error: Error) -> bool {
    error == Error::from(LEFT)
}

/// How to sleep: the arguments of `ppoll`. They are valid until [`wake`].
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Points to `count` of C's `struct pollfd`.
    pub descriptors: *mut c_void,
    /// How many there are.
    pub count: usize,
    /// Seconds and nanoseconds; `None`: without an end.
    pub time: Option<(i64, i64)>,
    /// Null, or points to a `sigset_t`.
    pub signals: *const c_void,
}

/// How the calling thread must sleep, if it must.
pub fn plan() -> Option<Plan> {
    OWN.with(|own| own.sleep.borrow_mut().as_mut().map(Sleep::plan))
}

/// The calling thread has slept. `goes_on`: it calls the same function again, and then
/// [`finish`].
pub fn wake(goes_on: bool) {
    let Some(mut sleep) = OWN.with(|own| own.sleep.take()) else {
        debug_assert!(false, "the thread has slept");
        return;
    };
    sleep.end_waits();
    if goes_on {
        OWN.with(|own| {
            own.resumed.set(Some(sleep.limit));
            own.woken.replace(Some(sleep));
        });
    }
}

/// The function that was called again has returned, and does not have to sleep once more.
pub fn finish() {
    OWN.with(|own| {
        own.resumed.set(None);
        drop(own.woken.take());
    });
}

/// As long as this value is there, calls of this thread sleep themselves.
#[derive(Debug)]
pub struct Inside(());

impl Inside {
    /// From here on they do.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Inside {
        let _ = OWN.try_with(|own| own.insides.set(own.insides.get() + 1));
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = OWN.try_with(|own| {
            debug_assert!(own.insides.get() > 0, "it was counted");
            own.insides.set(own.insides.get() - 1);
        });
    }
}

/// Whether a call that must sleep returns instead.
pub(crate) fn is_wanted() -> bool {
    // A thread whose own data is gone is about to end: it is not cancelled any more.
    let is_inside = || OWN.try_with(|own| own.insides.get() > 0).unwrap_or(true);
    IS_ENABLED.load(Ordering::Relaxed) && !is_inside()
}

/// The limit of a call: of the same one where it was called again after a sleep, when the caller
/// looks at the network first (`true`).
pub(crate) fn limit_or(new: impl FnOnce() -> Wait) -> (Wait, bool) {
    let resumed = match IS_ENABLED.load(Ordering::Relaxed) {
        true => OWN.try_with(|own| own.resumed.take()).ok().flatten(),
        false => None,
    };
    resumed.map_or_else(|| (new(), false), |limit| (limit, true))
}

/// Leaves a sleep to the caller of the library. The waits of its sockets have begun.
pub(crate) fn leave(sleep: Sleep) {
    let before = OWN.with(|own| own.sleep.replace(Some(sleep)));
    debug_assert!(before.is_none(), "a thread sleeps once at a time");
    // Its sockets are waited for once more, and one of them may be locked: no other thread has to
    // look after them now.
    if let Some(mut woken) = OWN.with(|own| own.woken.take()) {
        woken.is_followed = true;
    }
}

/// What a thread is to wait for.
#[derive(Debug)]
pub(crate) struct Sleep {
    /// Each with the place of its descriptor.
    sockets: Vec<(Arc<Core>, usize)>,
    descriptors: Vec<Watched>,
    /// They are open as long as the thread sleeps.
    epolls: Vec<Arc<SocketEpoll>>,
    limit: Wait,
    vigil: Vigil,
    /// It has looked for events without sleeping, and found none.
    has_looked: bool,
    /// The waits have ended; what is left is to have other threads look after the sockets.
    has_ended: bool,
    /// Another sleep for the same sockets has followed.
    is_followed: bool,
}

/// C's `struct pollfd`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Watched {
    descriptor: RawFd,
    wanted: i16,
    found: i16,
}

const _: () = assert!(size_of::<Watched>() == size_of::<PollFd<'_>>());

impl Sleep {
    pub(crate) fn new(limit: Wait, vigil: Vigil, has_looked: bool) -> Sleep {
        Sleep {
            sockets: Vec::new(),
            descriptors: Vec::new(),
            epolls: Vec::new(),
            limit,
            vigil,
            has_looked,
            has_ended: false,
            is_followed: false,
        }
    }

    /// Adds a socket whose wait has begun.
    pub(crate) fn add_socket(&mut self, core: Arc<Core>, epoll: Arc<SocketEpoll>) {
        use std::os::fd::AsFd;
        self.sockets.push((core, self.descriptors.len()));
        self.add_descriptor(epoll.as_fd().as_raw_fd(), PollFlags::IN);
        self.epolls.push(epoll);
    }

    pub(crate) fn add_descriptor(&mut self, descriptor: RawFd, wanted: PollFlags) {
        self.descriptors.push(Watched {
            descriptor,
            wanted: wanted.bits() as i16,
            found: 0,
        });
    }

    fn plan(&mut self) -> Plan {
        let time: Option<Timespec> = self.limit.timespec();
        Plan {
            descriptors: self.descriptors.as_mut_ptr().cast(),
            count: self.descriptors.len(),
            time: time.map(|time| (time.tv_sec, time.tv_nsec)),
            signals: self.vigil.mask(),
        }
    }
}

impl Sleep {
    fn end_waits(&mut self) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        // Signals come again.
        self.vigil = Vigil::default();
        for (core, place) in &self.sockets {
            let mut state = core.lock();
            core.end_wait(&mut state);
            if self.has_looked {
                state.was_awake(Some(false));
            }
            core.end_vigil(&mut state);
            drop(state);
            let watched: Option<&Watched> = self.descriptors.get(*place);
            if watched.is_some_and(|watched| watched.found & PollFlags::IN.bits() as i16 != 0) {
                core.was_polled();
            }
        }
    }
}

/// Also where the thread was cancelled.
impl Drop for Sleep {
    fn drop(&mut self) {
        self.end_waits();
        if self.is_followed {
            return;
        }
        for (core, _) in &self.sockets {
            let mut state = core.lock();
            core.leave(&mut state);
        }
    }
}

/// What a thread knows of itself.
struct Own {
    sleep: RefCell<Option<Sleep>>,
    /// The last one, as long as the function that has left it goes on.
    woken: RefCell<Option<Sleep>>,
    resumed: Cell<Option<Wait>>,
    /// How many values of [`Inside`] there are.
    insides: Cell<u32>,
}

thread_local! {
    static OWN: Own = const {
        Own {
            sleep: RefCell::new(None),
            woken: RefCell::new(None),
            resumed: Cell::new(None),
            insides: Cell::new(0),
        }
    };
}

static IS_ENABLED: AtomicBool = AtomicBool::new(false);
/// No call of the system ends with it where a program sees it.
pub(crate) const LEFT: Errno = Errno::RESTART;
