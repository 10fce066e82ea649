//! Timers that a program runs itself, between two waits.

use crate::errno::{EFAULT, EINVAL, Errno, guard, status};
use crate::handle::Pool;
use parking_lot::Mutex;
use std::ffi::{c_int, c_long, c_void};
use std::time::{Duration, Instant};

/// All sets of timers of the process.
static TIMERS: Pool<Mutex<Timers>> = Pool::new(0xcafe_dada);

/// `zmq_timer_fn`.
type TimerFunction = unsafe extern "C" fn(id: c_int, argument: *mut c_void);

/// A set of timers.
#[derive(Debug, Default)]
struct Timers {
    last_id: c_int,
    timers: Vec<Timer>,
}

#[derive(Debug, Clone, Copy)]
struct Timer {
    id: c_int,
    due: Instant,
    interval: Duration,
    function: TimerFunction,
    argument: *mut c_void,
}

// SAFETY: the argument is only handed to the function, by the thread that asks for it.
unsafe impl Send for Timer {}

impl Timers {
    fn add(
        &mut self,
        now: Instant,
        interval: Duration,
        function: TimerFunction,
        argument: *mut c_void,
    ) -> Result<c_int, Errno> {
        let id = self.last_id.checked_add(1).ok_or(Errno(EINVAL))?;
        self.last_id = id;
        self.timers.push(Timer {
            id,
            due: later(now, interval),
            interval,
            function,
            argument,
        });
        Ok(id)
    }

    fn cancel(&mut self, id: c_int) -> Result<(), Errno> {
        let position = self.timers.iter().position(|timer| timer.id == id);
        self.timers.remove(position.ok_or(Errno(EINVAL))?);
        Ok(())
    }

    fn restart(
        &mut self,
        id: c_int,
        now: Instant,
        interval: Option<Duration>,
    ) -> Result<(), Errno> {
        let timer = self.timers.iter_mut().find(|timer| timer.id == id);
        let timer = timer.ok_or(Errno(EINVAL))?;
        timer.interval = interval.unwrap_or(timer.interval);
        timer.due = later(now, timer.interval);
        Ok(())
    }

    /// Returns the time until the next timer is due.
    fn timeout(&self, now: Instant) -> Option<Duration> {
        let due = self.timers.iter().map(|timer| timer.due).min()?;
        Some(due.saturating_duration_since(now))
    }

    /// Returns the timers that are due, the longest overdue first, and restarts them.
    fn due(&mut self, now: Instant) -> Vec<Timer> {
        let is_due = |timer: &&mut Timer| timer.due <= now;
        let mut due = Vec::new();
        for timer in self.timers.iter_mut().filter(is_due) {
            due.push(*timer);
            timer.due = later(now, timer.interval);
        }
        due.sort_by_key(|timer| (timer.due, timer.id));
        due
    }

    fn contains(&self, id: c_int) -> bool {
        self.timers.iter().any(|timer| timer.id == id)
    }
}

/// `zmq_timers_new`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn zmq_timers_new() -> *mut c_void {
    guard(std::ptr::null_mut(), || Ok(TIMERS.open(Mutex::default())))
}

/// `zmq_timers_destroy`: sets the handle to null.
///
/// # Safety
///
/// `handle` is null or points to null or a handle of timers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_timers_destroy(handle: *mut *mut c_void) -> c_int {
    status(|| {
        if handle.is_null() {
            return Err(Errno(EFAULT));
        }
        // SAFETY: the caller passes a pointer to a handle.
        let handle = unsafe { &mut *handle };
        // SAFETY: the caller keeps this function's contract.
        unsafe { timers(*handle) }?.lock().timers.clear();
        // SAFETY: the caller keeps this function's contract.
        if !unsafe { TIMERS.close(*handle) } {
            return Err(Errno(EFAULT));
        }
        *handle = std::ptr::null_mut();
        Ok(())
    })
}

/// `zmq_timers_add`: returns the timer's number.
///
/// # Safety
///
/// `handle` is null or one of timers. The function may be called with the argument while the timer
/// exists.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_timers_add(
    handle: *mut c_void,
    interval_ms: usize,
    function: Option<TimerFunction>,
    argument: *mut c_void,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller keeps this function's contract.
        let timers = unsafe { timers(handle) }?;
        let function = function.ok_or(Errno(EFAULT))?;
        timers
            .lock()
            .add(Instant::now(), ms(interval_ms), function, argument)
    })
}

/// `zmq_timers_cancel`.
///
/// # Safety
///
/// `handle` is null or one of timers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_timers_cancel(handle: *mut c_void, id: c_int) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    status(|| unsafe { timers(handle) }?.lock().cancel(id))
}

/// `zmq_timers_set_interval`: the new interval begins now.
///
/// # Safety
///
/// As for [`zmq_timers_cancel`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_timers_set_interval(
    handle: *mut c_void,
    id: c_int,
    interval_ms: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let timers = unsafe { timers(handle) }?;
        timers
            .lock()
            .restart(id, Instant::now(), Some(ms(interval_ms)))
    })
}

/// `zmq_timers_reset`: restarts the interval.
///
/// # Safety
///
/// As for [`zmq_timers_cancel`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_timers_reset(handle: *mut c_void, id: c_int) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let timers = unsafe { timers(handle) }?;
        timers.lock().restart(id, Instant::now(), None)
    })
}

/// `zmq_timers_timeout`: returns the milliseconds until the next timer, or -1 if there is none.
///
/// # Safety
///
/// As for [`zmq_timers_cancel`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_timers_timeout(handle: *mut c_void) -> c_long {
    guard(-1, || {
        // SAFETY: the caller keeps this function's contract.
        let timeout = unsafe { timers(handle) }?.lock().timeout(Instant::now());
        // Rounded up, so that a wait of this length does not end too early.
        let timeout_ms = timeout.map(|time| time.as_nanos().div_ceil(1_000_000));
        Ok(timeout_ms.map_or(-1, |ms| c_long::try_from(ms).unwrap_or(c_long::MAX)))
    })
}

/// `zmq_timers_execute`: calls the functions of the timers that are due.
///
/// # Safety
///
/// As for [`zmq_timers_cancel`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_timers_execute(handle: *mut c_void) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let timers = unsafe { timers(handle) }?;
        let due = timers.lock().due(Instant::now());
        for timer in due {
            // An earlier function may have cancelled it.
            let is_there = timers.lock().contains(timer.id);
            if is_there {
                // SAFETY: `zmq_timers_add` asks for a function that may be called with it.
                unsafe { (timer.function)(timer.id, timer.argument) };
            }
        }
        Ok(())
    })
}

/// # Safety
///
/// `handle` is null or one of timers.
unsafe fn timers(handle: *mut c_void) -> Result<&'static Mutex<Timers>, Errno> {
    // SAFETY: the caller keeps this function's contract.
    unsafe { TIMERS.get(handle) }.ok_or(Errno(EFAULT))
}

fn ms(interval_ms: usize) -> Duration {
    Duration::from_millis(interval_ms as u64).min(INTERVAL_MAX)
}

fn later(now: Instant, interval: Duration) -> Instant {
    now + interval.min(INTERVAL_MAX)
}

/// A century: longer than any program waits, and short enough for every clock calculation.
const INTERVAL_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    // SAFETY: it does nothing.
    unsafe extern "C" fn nothing(_: c_int, _: *mut c_void) {}

    #[test]
    fn timers_are_due_again_and_again_until_they_are_cancelled() {
        let mut timers = Timers::default();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut add = |ms: usize| {
            let interval = super::ms(ms);
            timers
                .add(start, interval, nothing, std::ptr::null_mut())
                .unwrap()
        };
        let (late, early) = (add(30), add(10));
        let ids = |due: Vec<Timer>| due.iter().map(|timer| timer.id).collect::<Vec<_>>();
        assert_eq!(timers.timeout(start), Some(Duration::from_millis(10)));
        assert_eq!(ids(timers.due(at(9))), [0; 0]);
        assert_eq!(ids(timers.due(at(35))), [early, late]);
        assert_eq!(timers.timeout(at(40)), Some(Duration::from_millis(5)));
        timers
            .restart(early, at(40), Some(Duration::from_millis(50)))
            .unwrap();
        assert_eq!(timers.timeout(at(40)), Some(Duration::from_millis(25)));
        timers.cancel(late).unwrap();
        assert_eq!(timers.cancel(late), Err(Errno(EINVAL)));
        assert_eq!(timers.timeout(at(200)), Some(Duration::ZERO));
        timers.cancel(early).unwrap();
        assert_eq!(timers.timeout(at(200)), None);
    }
}
