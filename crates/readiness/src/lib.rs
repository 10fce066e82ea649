//! Notifications of the operating system: readiness of descriptors, forks of the process, which
//! threads handle its signals, and how threads are scheduled.
//!
//! Epoll waits work on every kernel. `epoll_pwait2`, since Linux 5.11, has a resolution of 1 ns.
//! Older kernels, valgrind 3.19 and some sandboxes do not have it. There `epoll_wait` waits in
//! milliseconds, rounded up, so a wait never ends early.

mod fork;
pub use fork::forks;

mod scheduling;
pub use scheduling::Scheduling;

mod signals;
pub use signals::spawn_without_signals;

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

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
    let Ok(count) = usize::try_from(found) else {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
    };
    // SAFETY: the kernel has written this number of events.
    Ok(unsafe { space[..count].assume_init_ref() })
}

fn rounded_up_ms(timeout: &Timespec) -> i32 {
    let whole_ms = timeout.tv_sec.saturating_mul(1000);
    let rest_ms = timeout.tv_nsec.saturating_add(999_999) / 1_000_000;
    i32::try_from(whole_ms.saturating_add(rest_ms)).unwrap_or(i32::MAX)
}

const _: () = assert!(size_of::<Event>() == size_of::<libc::epoll_event>());

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
    fn what_is_no_epoll_is_an_error_on_both() {
        let bell = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        let mut space = [const { MaybeUninit::uninit() }; 1];
        assert_eq!(look(&bell, &mut space).err(), Some(Errno::INVAL));
        let old = wait_ms(bell.as_fd(), &mut space, 0).err();
        assert_eq!(old, Some(Errno::INVAL));
    }
}
