//! Notifications of the operating system: readiness of descriptors, bytes that a peer has not
//! acknowledged, forks of the process, which threads handle its signals or are cancelled, and how
//! threads are scheduled.
//!
//! Epoll waits work on every kernel. `epoll_pwait2`, since Linux 5.11, has a resolution of 1 ns.
//! Older kernels, valgrind 3.19 and some sandboxes do not have it. There `epoll_wait` waits in
//! milliseconds, rounded up, so a wait never ends early.

mod cancellation;
pub use cancellation::Uncancelled;

mod fork;
pub use fork::forks;

mod scheduling;
pub use scheduling::Scheduling;

mod signals;
pub use signals::{HeldSignals, spawn_without_signals};

use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::PollFd;
use rustix::event::epoll::{self, Event};
use rustix::io::{Errno, Result};
use rustix::time::Timespec;

/// Waits for events, for at most `timeout`; indefinitely for `None`. Returns the events, in
/// `space`.
///
/// # Errors
/// A signal arrived ([`Errno::INTR`]), or `epoll` is not an epoll descriptor.
#[inline]
pub fn wait<'s>(
    epoll: impl AsFd,
    space: &'s mut [MaybeUninit<Event>],
    timeout: Option<&Timespec>,
) -> Result<&'s [Event]> {
    let epoll = epoll.as_fd();
    if !IS_OLD_KERNEL.load(Ordering::Relaxed) {
        match epoll::wait(epoll, &mut *space, timeout) {
            Ok((events, _)) => {
                let count = events.len();
                // SAFETY: the kernel has just written these events.
                return Ok(unsafe { space[..count].assume_init_ref() });
            }
            // The call itself returns neither: the kernel does not have it, or a sandbox refuses
            // it.
            Err(Errno::NOSYS | Errno::PERM) => IS_OLD_KERNEL.store(true, Ordering::Relaxed),
            Err(error) => return Err(error),
        }
    }
    wait_ms(epoll, space, timeout.map_or(-1, rounded_up_ms))
}

/// Returns the current events without waiting.
///
/// # Errors
/// The same as [`wait`].
#[inline]
pub fn look(epoll: impl AsFd, space: &mut [MaybeUninit<Event>]) -> Result<&[Event]> {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    wait(epoll, space, Some(&at_once))
}

/// Looks for events until there are some or `goes_on`, called after each look, returns `false`.
/// Breaks with the events; otherwise returns `space`.
///
/// # Errors
/// The same as [`wait`].
#[inline]
pub fn look_while(
    epoll: impl AsFd,
    space: &mut [MaybeUninit<Event>],
    mut goes_on: impl FnMut() -> bool,
) -> Result<ControlFlow<&[Event], &mut [MaybeUninit<Event>]>> {
    let epoll = epoll.as_fd();
    loop {
        let count = look(epoll, space)?.len();
        if count > 0 {
            // SAFETY: the kernel has just written these events.
            return Ok(ControlFlow::Break(unsafe {
                space[..count].assume_init_ref()
            }));
        }
        if !goes_on() {
            return Ok(ControlFlow::Continue(space));
        }
    }
}

/// `poll(2)`. Signals that were held back come during the wait. Returns the number of descriptors
/// that are ready. The thread is not cancelled in it.
///
/// # Errors
/// A signal arrived ([`Errno::INTR`]).
pub fn poll_releasing(
    descriptors: &mut [PollFd<'_>],
    timeout: Option<&Timespec>,
    held: &HeldSignals,
) -> Result<usize> {
    // The kernel stores in it what is left.
    let mut time = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.tv_sec,
        tv_nsec: timeout.tv_nsec,
    });
    let time = time
        .as_mut()
        .map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let first = descriptors.as_mut_ptr().cast::<libc::pollfd>();
    // SAFETY: `PollFd` is a transparent `pollfd`, and `first` points to this number of them. The
    // mask and the time are null or point to what the kernel expects.
    let found = unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            first,
            descriptors.len(),
            time,
            std::ptr::from_ref(held.mask()),
            KERNEL_MASK_BYTES,
        )
    };
    usize::try_from(found).map_err(|_| last_error())
}

/// Returns the number of bytes that a TCP socket has sent, or has still to send, and that its peer
/// has not acknowledged. A connection that was shut down for writing counts one more until the peer
/// has acknowledged that.
///
/// # Errors
/// `socket` is not a socket.
pub fn unacknowledged_bytes(socket: impl AsFd) -> Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes an `int` to where the pointer points.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    match result {
        0 => Ok(usize::try_from(bytes).unwrap_or_default()),
        _ => Err(last_error()),
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Bytes of a signal mask as the kernel takes it.
const KERNEL_MASK_BYTES: usize = 8;

/// Returns whether waits are exact to the nanosecond, as far as calls of [`wait`] have found out.
pub fn is_exact() -> bool {
    !IS_OLD_KERNEL.load(Ordering::Relaxed)
}

/// Set by the first call that fails with a missing `epoll_pwait2`.
static IS_OLD_KERNEL: AtomicBool = AtomicBool::new(false);

#[cold]
fn wait_ms<'s>(
    epoll: BorrowedFd<'_>,
    space: &'s mut [MaybeUninit<Event>],
    timeout_ms: i32,
) -> Result<&'s [Event]> {
    let room = i32::try_from(space.len()).unwrap_or(i32::MAX);
    // SAFETY: `Event` has the layout of the kernel's `epoll_event`, and `space` has room for the
    // given number of events.
    let found = unsafe {
        libc::epoll_wait(
            epoll.as_raw_fd(),
            space.as_mut_ptr().cast(),
            room,
            timeout_ms,
        )
    };
    let count = usize::try_from(found).map_err(|_| last_error())?;
    // SAFETY: the kernel has written this number of events.
    Ok(unsafe { space[..count].assume_init_ref() })
}

fn rounded_up_ms(timeout: &Timespec) -> i32 {
    let whole_ms = timeout.tv_sec.saturating_mul(1000);
    let rest_ms = timeout.tv_nsec.saturating_add(999_999) / 1_000_000;
    i32::try_from(whole_ms.saturating_add(rest_ms)).unwrap_or(i32::MAX)
}

const _: () = assert!(size_of::<Event>() == size_of::<libc::epoll_event>());
const _: () = assert!(size_of::<PollFd<'_>>() == size_of::<libc::pollfd>());

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn old_and_new_kernels_tell_the_same() {
        let watching = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
        let mut space = [const { MaybeUninit::uninit() }; 4];
        assert!(look(&watching, &mut space).expect("a look").is_empty());
        let idle = wait_ms(watching.as_fd(), &mut space, 0).expect("a look");
        assert!(idle.is_empty());

        let bells = [7, 9].map(|token| {
            let bell = eventfd(1, EventfdFlags::CLOEXEC).expect("an eventfd");
            let data = epoll::EventData::new_u64(token);
            epoll::add(&watching, &bell, data, epoll::EventFlags::IN).expect("to watch it");
            bell
        });
        let tokens = |events: &[Event]| -> Vec<u64> {
            let mut tokens: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
            tokens.sort_unstable();
            tokens
        };
        let new = tokens(wait(&watching, &mut space, None).expect("events"));
        let old = tokens(wait_ms(watching.as_fd(), &mut space, -1).expect("events"));
        assert_eq!((new, old), (vec![7, 9], vec![7, 9]));
        drop(bells);
    }

    #[test]
    fn events_are_looked_for_until_they_come_or_the_caller_stops() {
        let watching = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
        let bell = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        let data = epoll::EventData::new_u64(7);
        epoll::add(&watching, &bell, data, epoll::EventFlags::IN).expect("to watch it");
        let mut space = [const { MaybeUninit::uninit() }; 4];
        let mut looks = 0;
        let stops = || {
            looks += 1;
            looks < 3
        };
        let found = look_while(&watching, &mut space, stops).expect("looks");
        assert!(matches!(found, ControlFlow::Continue(space) if space.len() == 4));
        assert_eq!(looks, 3);
        let rings = || rustix::io::write(&bell, &1_u64.to_ne_bytes()).is_ok();
        let found = look_while(&watching, &mut space, rings).expect("looks");
        assert!(matches!(found, ControlFlow::Break([event]) if event.data.u64() == 7));
    }

    static HANDLED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

    extern "C" fn count(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn a_signal_that_was_held_back_interrupts_the_next_wait() {
        let handler: extern "C" fn(libc::c_int) = count;
        // SAFETY: the handler does nothing but count.
        unsafe { libc::signal(libc::SIGUSR2, handler as *const () as libc::sighandler_t) };
        let raise = || {
            // SAFETY: the signal, to this thread, has a handler.
            assert_eq!(unsafe { libc::raise(libc::SIGUSR2) }, 0);
        };
        let handled = || HANDLED.load(Ordering::SeqCst);

        let held = HeldSignals::new();
        raise();
        assert_eq!(handled(), 0);
        let polled = poll_releasing(&mut [], None, &held);
        assert_eq!((polled.err(), handled()), (Some(Errno::INTR), 1));
        raise();
        drop(held);
        assert_eq!(handled(), 2);

        let held = HeldSignals::new();
        let bell = eventfd(1, EventfdFlags::CLOEXEC).expect("an eventfd");
        let mut polled = [PollFd::new(&bell, rustix::event::PollFlags::IN)];
        assert_eq!(poll_releasing(&mut polled, None, &held), Ok(1));
        assert!(polled[0].revents().contains(rustix::event::PollFlags::IN));
    }

    #[test]
    fn a_wait_in_milliseconds_is_never_too_short() {
        let cases = [
            (0, 0, 0),
            (0, 1, 1),
            (0, 50_000, 1),
            (0, 1_000_000, 1),
            (0, 1_000_001, 2),
            (3, 999_999_999, 4000),
            (i64::MAX, 999_999_999, i32::MAX),
        ];
        for (tv_sec, tv_nsec, expected_ms) in cases {
            assert_eq!(rounded_up_ms(&Timespec { tv_sec, tv_nsec }), expected_ms);
        }
    }

    #[test]
    fn bytes_that_a_peer_has_no_room_for_are_not_acknowledged() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its number");
        let mut sender = std::net::TcpStream::connect(address).expect("a connection");
        let (mut peer, _) = listener.accept().expect("its other end");
        assert_eq!(unacknowledged_bytes(&sender), Ok(0));
        sender.set_nonblocking(true).expect("a setting");
        let mut sent = 0;
        while let Ok(count) = sender.write(&[1; 65_536]) {
            sent += count;
        }
        assert_ne!(unacknowledged_bytes(&sender), Ok(0));
        sender.shutdown(std::net::Shutdown::Write).expect("an end");
        let read = peer.read_to_end(&mut Vec::new());
        assert_eq!(read.ok(), Some(sent));
        drop(peer);
        while unacknowledged_bytes(&sender) != Ok(0) {
            std::thread::yield_now();
        }
        let bell = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        assert!(unacknowledged_bytes(&bell).is_err());
    }

    #[test]
    fn what_is_no_epoll_is_an_error_on_both() {
        let bell = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        let mut space = [const { MaybeUninit::uninit() }; 1];
        assert_eq!(look(&bell, &mut space).err(), Some(Errno::INVAL));
        let old = wait_ms(bell.as_fd(), &mut space, 0).err();
        assert_eq!(old, Some(Errno::INVAL));
    }
}
