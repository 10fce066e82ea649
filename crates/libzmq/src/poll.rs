//! Waits for several sockets and descriptors at once.

use crate::cancellation::{Time, ppoll, waits};
use crate::errno::{EBADF, EFAULT, EINTR, EINVAL, Errno, guard};
use crate::socket::socket;
use std::ffi::{c_int, c_long, c_short, c_ulong, c_void};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use tidewire_zmq::{Events, PollItem, PollTarget, Socket};

/// C's `zmq_pollitem_t`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawItem {
    socket: *mut c_void,
    descriptor: c_int,
    events: c_short,
    ready: c_short,
}

impl RawItem {
    /// Whether it is switched off by a negative descriptor, as `poll(2)` allows.
    fn is_off(&self) -> bool {
        self.socket.is_null() && self.descriptor < 0
    }
}

#[cfg(test)]
impl RawItem {
    /// Waits for a frame to receive.
    pub(crate) fn readable(socket: *mut c_void) -> Self {
        Self {
            socket,
            descriptor: 0,
            events: IN,
            ready: 0,
        }
    }

    /// Waits for something to read.
    pub(crate) fn of_descriptor(descriptor: c_int) -> Self {
        Self {
            socket: std::ptr::null_mut(),
            descriptor,
            events: IN,
            ready: 0,
        }
    }
}

/// `zmq_poll`.
///
/// # Safety
///
/// `items` points to `count` items, whose sockets are null or handles.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_poll(
    items: *mut RawItem,
    count: c_int,
    timeout_ms: c_long,
) -> c_int {
    waits(|| {
        guard(-1, || {
            // SAFETY: the caller keeps this function's contract.
            let items = unsafe { items_of(items, count) }?;
            let mut polled = Vec::with_capacity(items.len());
            for item in items.iter().filter(|item| !item.is_off()) {
                // SAFETY: the caller passes null or a handle.
                polled.push(unsafe { poll_item(item.socket, item.descriptor, item.events) }?);
            }
            let ready = tidewire_zmq::poll(&mut polled, timeout_ms)?;
            let mut polled = polled.iter();
            for item in items {
                item.ready = match item.is_off() {
                    true => 0,
                    false => polled.next().map_or(0, ready_bits),
                };
            }
            Ok(c_int::try_from(ready).unwrap_or(c_int::MAX))
        })
    })
}

/// `zmq_ppoll`: works like [`zmq_poll`], with another signal mask while it waits. The thread is not
/// cancelled in it.
///
/// # Safety
///
/// As for [`zmq_poll`]; `signals` is null or points to a `sigset_t`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_ppoll(
    items: *mut RawItem,
    count: c_int,
    timeout_ms: c_long,
    signals: *const c_void,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller keeps this function's contract.
        let items = unsafe { items_of(items, count) }?;
        let mut waiters = Vec::with_capacity(items.len());
        let mut descriptors = Vec::with_capacity(items.len());
        for item in items.iter() {
            let waiter = if item.socket.is_null() {
                None
            } else {
                // SAFETY: the caller passes a handle.
                Some(unsafe { socket(item.socket) }?)
            };
            descriptors.push(Descriptor::of(waiter, item)?);
            waiters.push(waiter);
        }
        let deadline = u64::try_from(timeout_ms)
            .ok()
            .map(|timeout_ms| Instant::now() + Duration::from_millis(timeout_ms));
        let mut first = true;
        loop {
            let left = match deadline {
                _ if first => Some(Duration::ZERO),
                Some(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
                None => None,
            };
            // SAFETY: the caller keeps this function's contract.
            unsafe { Descriptor::wait(&mut descriptors, left, signals) }?;
            let ready = look(items, &waiters, &descriptors)?;
            if ready > 0 {
                // A signal that is pending comes first: the kernel delivers none when it has found
                // something ready. After the look, so that one sent before a message is noticed.
                // SAFETY: the caller keeps this function's contract.
                unsafe { Descriptor::wait(&mut [], Some(Duration::ZERO), signals) }?;
            }
            let is_over = left == Some(Duration::ZERO) && (!first || timeout_ms == 0);
            if ready > 0 || is_over {
                return Ok(ready);
            }
            first = false;
        }
    })
}

/// Returns the items, of which there may be none.
///
/// # Safety
///
/// `items` points to `count` items, which no other code uses while the result lives.
unsafe fn items_of<'a>(items: *mut RawItem, count: c_int) -> Result<&'a mut [RawItem], Errno> {
    let count = usize::try_from(count).map_err(|_| Errno(EINVAL))?;
    if count == 0 {
        return Ok(&mut []);
    }
    if items.is_null() {
        return Err(Errno(EFAULT));
    }
    // SAFETY: the caller guarantees that `count` items are there.
    Ok(unsafe { std::slice::from_raw_parts_mut(items, count) })
}

/// Stores what is ready, and counts it.
fn look(
    items: &mut [RawItem],
    waiters: &[Option<&Socket>],
    descriptors: &[Descriptor],
) -> Result<c_int, Errno> {
    let mut ready = 0;
    for ((item, waiter), descriptor) in items.iter_mut().zip(waiters).zip(descriptors) {
        item.ready = match waiter {
            Some(socket) => bits(socket.events()?) & item.events,
            None => descriptor.ready(),
        };
        ready += c_int::from(item.ready != 0);
    }
    Ok(ready)
}

/// C's `struct pollfd`.
#[derive(Debug)]
#[repr(C)]
struct Descriptor {
    descriptor: c_int,
    events: c_short,
    ready: c_short,
}

impl Descriptor {
    fn of(socket: Option<&Socket>, item: &RawItem) -> Result<Self, Errno> {
        let (descriptor, events) = match socket {
            // The descriptor is readable for every kind of event.
            Some(socket) if item.events != 0 => (socket.raw_descriptor()?, SYSTEM_IN),
            Some(_) => (-1, 0),
            None => (item.descriptor, translate(item.events, &TO_SYSTEM)),
        };
        Ok(Self {
            descriptor,
            events,
            ready: 0,
        })
    }

    fn ready(&self) -> c_short {
        let known = SYSTEM_IN | SYSTEM_OUT | SYSTEM_PRIORITY;
        let failed = if self.ready & !known == 0 { 0 } else { ERROR };
        translate(self.ready, &FROM_SYSTEM) | failed
    }

    /// Waits until one is ready or the time is over.
    ///
    /// # Safety
    ///
    /// `signals` is null or points to a `sigset_t`.
    unsafe fn wait(
        descriptors: &mut [Self],
        time: Option<Duration>,
        signals: *const c_void,
    ) -> Result<(), Errno> {
        let time = time.map(|time| Time {
            seconds: c_long::try_from(time.as_secs()).unwrap_or(c_long::MAX),
            nanoseconds: time.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (first, count) = (descriptors.as_mut_ptr(), descriptors.len());
        // SAFETY: `count` descriptors are there; the others are null or point to what they should.
        // The thread is not cancelled in it: `guard` is above.
        let result = unsafe { ppoll(first.cast(), count as c_ulong, time, signals) };
        if result < 0 {
            let number = crate::errno::get();
            debug_assert!(number == EINTR || number == EINVAL);
            return Err(Errno(number));
        }
        Ok(())
    }
}

/// Returns what to wait for: a socket, or a descriptor if `handle` is null.
///
/// # Safety
///
/// `handle` is null or a socket's.
pub(crate) unsafe fn poll_item<'a>(
    handle: *mut c_void,
    descriptor: c_int,
    events: c_short,
) -> Result<PollItem<'a>, Errno> {
    let target = if !handle.is_null() {
        // SAFETY: the caller passes a handle.
        PollTarget::Socket(unsafe { socket(handle) }?)
    } else if descriptor < 0 {
        return Err(Errno(EBADF));
    } else {
        // SAFETY: it is not -1. One that is not open is told as failed; one that is closed while it
        // is waited for is the caller's fault, and harms no other caller.
        PollTarget::Descriptor(unsafe { BorrowedFd::borrow_raw(descriptor) })
    };
    Ok(PollItem {
        target,
        events: Events {
            readable: events & IN != 0,
            writable: events & OUT != 0,
        },
        ready: Events::default(),
        has_failed: false,
    })
}

/// Returns the events that an item is ready for.
pub(crate) fn ready_bits(item: &PollItem<'_>) -> c_short {
    let of_events = bits(Events {
        readable: item.ready.readable && item.events.readable,
        writable: item.ready.writable && item.events.writable,
    });
    of_events | if item.has_failed { ERROR } else { 0 }
}

fn bits(events: Events) -> c_short {
    let of = |is_ready: bool, bit| if is_ready { bit } else { 0 };
    of(events.readable, IN) | of(events.writable, OUT)
}

fn translate(bits: c_short, table: &[(c_short, c_short)]) -> c_short {
    let found = table.iter().filter(|(from, _)| bits & from != 0);
    found.fold(0, |sum, (_, to)| sum | to)
}

pub(crate) const IN: c_short = 1;
pub(crate) const OUT: c_short = 2;
pub(crate) const ERROR: c_short = 4;
pub(crate) const PRIORITY: c_short = 8;
const SYSTEM_IN: c_short = 1;
const SYSTEM_PRIORITY: c_short = 2;
const SYSTEM_OUT: c_short = 4;
const TO_SYSTEM: [(c_short, c_short); 3] = [
    (IN, SYSTEM_IN),
    (OUT, SYSTEM_OUT),
    (PRIORITY, SYSTEM_PRIORITY),
];
const FROM_SYSTEM: [(c_short, c_short); 3] = [
    (SYSTEM_IN, IN),
    (SYSTEM_OUT, OUT),
    (SYSTEM_PRIORITY, PRIORITY),
];

#[cfg(test)]
#[allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]
mod tests {
    use super::*;
    use crate::context::{zmq_ctx_new, zmq_ctx_term};
    use crate::socket::{zmq_bind, zmq_close, zmq_connect, zmq_socket};
    use crate::transfer::zmq_send;

    const PAIR: c_int = 0;

    /// It failed with EBADF.
    #[test]
    fn an_item_with_a_negative_descriptor_was_not_passed_over() {
        // SAFETY: handles of this library, and NUL-terminated strings.
        unsafe {
            let context = zmq_ctx_new();
            let [one, other] = [PAIR; 2].map(|kind| zmq_socket(context, kind));
            zmq_bind(one, c"inproc://off".as_ptr());
            zmq_connect(other, c"inproc://off".as_ptr());
            let off = || RawItem::of_descriptor(-1);
            let mut items = [off(), RawItem::readable(one), off()];
            items[0].ready = IN;
            assert_eq!(zmq_poll(items.as_mut_ptr(), 3, 0), 0);
            assert_eq!(items[0].ready, 0);
            zmq_send(other, c"x".as_ptr().cast(), 1, 0);
            assert_eq!(zmq_poll(items.as_mut_ptr(), 3, -1), 1);
            assert_eq!(items.map(|item| item.ready), [0, IN, 0]);
            assert_eq!(zmq_poll([off()].as_mut_ptr(), 1, 1), 0);
            assert_eq!((zmq_close(one), zmq_close(other)), (0, 0));
            assert_eq!(zmq_ctx_term(context), 0);
        }
    }
}
