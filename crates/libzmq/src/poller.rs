//! Pollers keep the list of sockets and descriptors between waits.

use crate::cancellation::waits;
use crate::errno::{EAGAIN, EBADF, EFAULT, EINVAL, ENOTSOCK, Errno, guard, status};
use crate::handle::Pool;
use crate::poll::{ERROR, IN, OUT, PRIORITY, poll_item, ready_bits};
use crate::socket::socket;
use parking_lot::Mutex;
use std::ffi::{c_int, c_long, c_short, c_void};
use std::os::fd::{AsFd, AsRawFd};
use tidewire_zmq::{PollItem, Watch};

/// All pollers of the process.
static POLLERS: Pool<Mutex<Poller>> = Pool::new(0xcafe_babe);

/// The items that one poller waits for.
#[derive(Debug, Default)]
struct Poller {
    items: Vec<Item>,
    /// A socket of a thread-safe type was added: it has a descriptor, as in libzmq.
    has_descriptor: bool,
    /// What the descriptor stands for, once it was asked for.
    watch: Option<Watch>,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    target: Target,
    user_data: *mut c_void,
    events: c_short,
}

// SAFETY: handles may be used by any thread; the user's data is only handed back.
unsafe impl Send for Item {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Socket(*mut c_void),
    Descriptor(c_int),
}

/// C's `zmq_poller_event_t`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawEvent {
    socket: *mut c_void,
    descriptor: c_int,
    user_data: *mut c_void,
    events: c_short,
}

impl RawEvent {
    const NONE: Self = Self {
        socket: std::ptr::null_mut(),
        descriptor: -1,
        user_data: std::ptr::null_mut(),
        events: 0,
    };
}

impl Poller {
    fn add(
        &mut self,
        target: Target,
        user_data: *mut c_void,
        events: c_short,
    ) -> Result<(), Errno> {
        check(events)?;
        if self.position(target).is_ok() {
            return Err(Errno(EINVAL));
        }
        let item = Item {
            target,
            user_data,
            events,
        };
        self.has_descriptor |= target.is_thread_safe();
        if let Some(watch) = &self.watch {
            item.add_to(watch);
        }
        self.items.push(item);
        Ok(())
    }

    fn modify(&mut self, target: Target, events: c_short) -> Result<(), Errno> {
        check(events)?;
        let position = self.position(target)?;
        self.items[position].events = events;
        if let Some(watch) = &self.watch {
            self.items[position].remove_from(watch);
            self.items[position].add_to(watch);
        }
        Ok(())
    }

    fn remove(&mut self, target: Target) -> Result<(), Errno> {
        let position = self.position(target)?;
        let item = self.items.remove(position);
        if let Some(watch) = &self.watch {
            item.remove_from(watch);
        }
        Ok(())
    }

    /// Returns the descriptor that is readable while an item may be ready.
    fn descriptor(&mut self) -> Result<c_int, Errno> {
        if !self.has_descriptor {
            return Err(Errno(EINVAL));
        }
        if self.watch.is_none() {
            let watch = Watch::new()?;
            self.items.iter().for_each(|item| item.add_to(&watch));
            self.watch = Some(watch);
        }
        let watch = self.watch.as_ref().ok_or(Errno(EINVAL))?;
        Ok(watch.as_fd().as_raw_fd())
    }

    fn position(&self, target: Target) -> Result<usize, Errno> {
        let position = self.items.iter().position(|item| item.target == target);
        position.ok_or(Errno(EINVAL))
    }

    /// Waits, and stores the events. Returns their number, or `EAGAIN` for none.
    fn wait(items: &[Item], found: &mut [RawEvent], timeout_ms: c_long) -> Result<usize, Errno> {
        if timeout_ms < 0 && items.iter().all(|item| item.events == 0) {
            // Without items the wait would never end.
            return Err(Errno(EFAULT));
        }
        let mut polled = Vec::with_capacity(items.len());
        for item in items {
            polled.push(item.polled()?);
        }
        tidewire_zmq::poll(&mut polled, timeout_ms)?;
        let ready = items
            .iter()
            .zip(&polled)
            .filter(|(_, polled)| ready_bits(polled) != 0);
        let mut count = 0;
        for ((item, polled), place) in ready.zip(found.iter_mut()) {
            *place = RawEvent {
                user_data: item.user_data,
                events: ready_bits(polled),
                ..RawEvent::NONE
            };
            match item.target {
                Target::Socket(socket) => place.socket = socket,
                Target::Descriptor(descriptor) => place.descriptor = descriptor,
            }
            count += 1;
        }
        if count == 0 {
            return Err(Errno(EAGAIN));
        }
        found[count..].fill_with(|| RawEvent::NONE);
        Ok(count)
    }
}

impl Item {
    /// What the library's own poll waits for.
    fn polled(&self) -> Result<PollItem<'static>, Errno> {
        let (handle, descriptor) = match self.target {
            Target::Socket(handle) => (handle, -1),
            Target::Descriptor(descriptor) => (std::ptr::null_mut(), descriptor),
        };
        // SAFETY: it was a handle when it was added, and memory of handles is never freed.
        unsafe { poll_item(handle, descriptor, self.events) }
    }

    /// What cannot be watched, such as a file or a closed socket, is left out: `zmq_poller_wait`
    /// tells of it.
    fn add_to(&self, watch: &Watch) {
        if let Ok(item) = self.polled() {
            let _ = watch.add(item.target, item.events);
        }
    }

    fn remove_from(&self, watch: &Watch) {
        if let Ok(item) = self.polled() {
            watch.remove(item.target);
        }
    }
}

impl Target {
    fn is_thread_safe(self) -> bool {
        let Target::Socket(handle) = self else {
            return false;
        };
        let mut answer = [0; 4];
        // SAFETY: it was a handle when it was added, and memory of handles is never freed.
        let socket = unsafe { socket(handle) };
        socket.is_ok_and(|socket| socket.option(THREAD_SAFE, &mut answer).is_ok())
            && c_int::from_ne_bytes(answer) != 0
    }
}

/// `zmq_poller_new`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn zmq_poller_new() -> *mut c_void {
    guard(std::ptr::null_mut(), || Ok(POLLERS.open(Mutex::default())))
}

/// `zmq_poller_destroy`: sets the handle to null.
///
/// # Safety
///
/// `handle` is null or points to null or a poller's handle.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_poller_destroy(handle: *mut *mut c_void) -> c_int {
    status(|| {
        if handle.is_null() {
            return Err(Errno(EFAULT));
        }
        // SAFETY: the caller passes a pointer to a handle.
        let handle = unsafe { &mut *handle };
        // SAFETY: the caller keeps this function's contract.
        *unsafe { poller(*handle) }?.lock() = Poller::default();
        // SAFETY: the caller keeps this function's contract.
        if !unsafe { POLLERS.close(*handle) } {
            return Err(Errno(EFAULT));
        }
        *handle = std::ptr::null_mut();
        Ok(())
    })
}

/// `zmq_poller_size`.
///
/// # Safety
///
/// `handle` is null or a poller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_poller_size(handle: *mut c_void) -> c_int {
    guard(-1, || {
        // SAFETY: the caller keeps this function's contract.
        let size = unsafe { poller(handle) }?.lock().items.len();
        Ok(c_int::try_from(size).unwrap_or(c_int::MAX))
    })
}

/// `zmq_poller_add`.
///
/// # Safety
///
/// `handle` is null or a poller's; `socket` is null or a socket's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_poller_add(
    handle: *mut c_void,
    socket: *mut c_void,
    user_data: *mut c_void,
    events: c_short,
) -> c_int {
    let add = |poller: &mut Poller, target| poller.add(target, user_data, events);
    // SAFETY: the caller keeps to the same contract.
    unsafe { change_socket(handle, socket, add) }
}

/// `zmq_poller_modify`.
///
/// # Safety
///
/// As for [`zmq_poller_add`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_poller_modify(
    handle: *mut c_void,
    socket: *mut c_void,
    events: c_short,
) -> c_int {
    let modify = |poller: &mut Poller, target| poller.modify(target, events);
    // SAFETY: the caller keeps to the same contract.
    unsafe { change_socket(handle, socket, modify) }
}

/// `zmq_poller_remove`.
///
/// # Safety
///
/// As for [`zmq_poller_add`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_poller_remove(
    handle: *mut c_void,
    socket: *mut c_void,
) -> c_int {
    // SAFETY: the caller keeps to the same contract.
    unsafe { change_socket(handle, socket, Poller::remove) }
}

/// `zmq_poller_add_fd`.
///
/// # Safety
///
/// `handle` is null or a poller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_poller_add_fd(
    handle: *mut c_void,
    descriptor: c_int,
    user_data: *mut c_void,
    events: c_short,
) -> c_int {
    let add = |poller: &mut Poller, target| poller.add(target, user_data, events);
    // SAFETY: the caller keeps to the same contract.
    unsafe { change_descriptor(handle, descriptor, add) }
}

/// `zmq_poller_modify_fd`.
///
/// # Safety
///
/// As for [`zmq_poller_add_fd`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_poller_modify_fd(
    handle: *mut c_void,
    descriptor: c_int,
    events: c_short,
) -> c_int {
    let modify = |poller: &mut Poller, target| poller.modify(target, events);
    // SAFETY: the caller keeps to the same contract.
    unsafe { change_descriptor(handle, descriptor, modify) }
}

/// `zmq_poller_remove_fd`.
///
/// # Safety
///
/// As for [`zmq_poller_add_fd`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_poller_remove_fd(
    handle: *mut c_void,
    descriptor: c_int,
) -> c_int {
    // SAFETY: the caller keeps to the same contract.
    unsafe { change_descriptor(handle, descriptor, Poller::remove) }
}

/// Changes how a poller waits for a socket.
///
/// # Safety
///
/// As for [`zmq_poller_add`].
unsafe fn change_socket(
    handle: *mut c_void,
    socket: *mut c_void,
    work: impl FnOnce(&mut Poller, Target) -> Result<(), Errno>,
) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let poller = unsafe { poller(handle) }?;
        // SAFETY: the caller keeps this function's contract.
        let target = unsafe { socket_target(socket) }?;
        work(&mut poller.lock(), target)
    })
}

/// Changes how a poller waits for a descriptor.
///
/// # Safety
///
/// As for [`zmq_poller_add_fd`].
unsafe fn change_descriptor(
    handle: *mut c_void,
    descriptor: c_int,
    work: impl FnOnce(&mut Poller, Target) -> Result<(), Errno>,
) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let poller = unsafe { poller(handle) }?;
        work(&mut poller.lock(), descriptor_target(descriptor)?)
    })
}

/// `zmq_poller_wait`: waits for one event.
///
/// # Safety
///
/// `handle` is null or a poller's; `event` is null or has room for an event.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_poller_wait(
    handle: *mut c_void,
    event: *mut RawEvent,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    let found = unsafe { zmq_poller_wait_all(handle, event, 1, timeout_ms) };
    if found >= 0 {
        return 0;
    }
    if !event.is_null() {
        // SAFETY: the caller guarantees the room.
        unsafe { event.write(RawEvent::NONE) };
    }
    -1
}

/// `zmq_poller_wait_all`.
///
/// # Safety
///
/// `handle` is null or a poller's; `found` has room for `count` events.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_poller_wait_all(
    handle: *mut c_void,
    found: *mut RawEvent,
    count: c_int,
    timeout_ms: c_long,
) -> c_int {
    waits(|| {
        guard(-1, || {
            // SAFETY: the caller keeps this function's contract.
            let poller = unsafe { poller(handle) }?;
            if found.is_null() {
                return Err(Errno(EFAULT));
            }
            let count = usize::try_from(count).map_err(|_| Errno(EINVAL))?;
            // SAFETY: the caller guarantees the room; an event may hold any bytes.
            let found = unsafe { std::slice::from_raw_parts_mut(found, count) };
            // Other threads may add and remove items during the wait.
            let items = poller.lock().items.clone();
            let ready = Poller::wait(&items, found, timeout_ms)?;
            Ok(c_int::try_from(ready).unwrap_or(c_int::MAX))
        })
    })
}

/// `zmq_poller_fd`: as in libzmq, there is one once a socket of a thread-safe type was added.
///
/// # Safety
///
/// `handle` is null or a poller's; `descriptor` is null or has room for a descriptor.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_poller_fd(
    handle: *mut c_void,
    descriptor: *mut c_int,
) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let number = unsafe { poller(handle) }?.lock().descriptor()?;
        if descriptor.is_null() {
            return Err(Errno(EFAULT));
        }
        // SAFETY: the caller guarantees the room.
        unsafe { descriptor.write(number) };
        Ok(())
    })
}

/// # Safety
///
/// `handle` is null or a poller's.
unsafe fn poller(handle: *mut c_void) -> Result<&'static Mutex<Poller>, Errno> {
    // SAFETY: the caller keeps this function's contract.
    unsafe { POLLERS.get(handle) }.ok_or(Errno(EFAULT))
}

/// # Safety
///
/// `handle` is null or a socket's.
unsafe fn socket_target(handle: *mut c_void) -> Result<Target, Errno> {
    // SAFETY: the caller keeps this function's contract.
    unsafe { socket(handle) }.map_err(|_| Errno(ENOTSOCK))?;
    Ok(Target::Socket(handle))
}

fn descriptor_target(descriptor: c_int) -> Result<Target, Errno> {
    if descriptor == -1 {
        return Err(Errno(EBADF));
    }
    Ok(Target::Descriptor(descriptor))
}

/// Checks that only known events are requested.
fn check(events: c_short) -> Result<(), Errno> {
    if events & !(IN | OUT | ERROR | PRIORITY) == 0 {
        Ok(())
    } else {
        Err(Errno(EINVAL))
    }
}

/// `ZMQ_THREAD_SAFE`.
const THREAD_SAFE: c_int = 81;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_waited_for_is_kept_changed_and_removed() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let target = descriptor_target(other.as_raw_fd()).unwrap();
        let mut poller = Poller::default();
        let data: *mut c_void = (&raw mut poller).cast();
        poller.add(target, data, IN).unwrap();
        assert_eq!(poller.add(target, data, IN), Err(Errno(EINVAL)));
        poller.modify(target, 0).unwrap();
        let mut found = [RawEvent::NONE, RawEvent::NONE];
        let waited = Poller::wait(&poller.items, &mut found, -1);
        assert_eq!(waited, Err(Errno(EFAULT)));
        poller.modify(target, IN).unwrap();
        one.write_all(b"x").unwrap();
        assert_eq!(Poller::wait(&poller.items, &mut found, -1), Ok(1));
        assert_eq!(found[0].descriptor, other.as_raw_fd());
        assert_eq!((found[0].user_data, found[0].events), (data, IN));
        poller.remove(target).unwrap();
        assert_eq!(poller.remove(target), Err(Errno(EINVAL)));
        assert_eq!(descriptor_target(-1), Err(Errno(EBADF)));
        assert_eq!(check(16), Err(Errno(EINVAL)));
    }

    /// An event loop polls it, and asks the poller when it is readable.
    #[test]
    fn the_descriptor_is_readable_while_an_item_is_ready() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let descriptor = descriptor_target(other.as_raw_fd()).unwrap();
        let context = tidewire_zmq::Context::new();
        let [server, client] = ["Server", "Client"].map(|name| {
            let kind = if name == "Server" { 12 } else { 13 };
            context
                .socket(tidewire_zmq::SocketType::from_number(kind).unwrap())
                .unwrap()
        });
        server.bind("inproc://poller").unwrap();
        client.connect("inproc://poller").unwrap();
        let mut poller = Poller::default();
        poller.add(descriptor, std::ptr::null_mut(), IN).unwrap();
        assert_eq!(poller.descriptor(), Err(Errno(EINVAL)));
        let handle = crate::socket::open(server);
        let socket = Target::Socket(handle);
        poller.add(socket, std::ptr::null_mut(), IN).unwrap();
        let number = poller.descriptor().unwrap();
        assert_eq!(poller.descriptor(), Ok(number), "it stays the same");
        let is_readable = |poller: &Poller| {
            // The program asks first, as it does with `ZMQ_FD`.
            let _ = Poller::wait(&poller.items, &mut [RawEvent::NONE], 0);
            let mut polled = libc::pollfd {
                fd: number,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: it is one item.
            unsafe { libc::poll(&raw mut polled, 1, 0) == 1 }
        };
        assert!(!is_readable(&poller));
        one.write_all(b"x").unwrap();
        assert!(is_readable(&poller), "a descriptor is ready");
        poller.modify(descriptor, 0).unwrap();
        assert!(!is_readable(&poller), "it is not asked for");
        client
            .send_bytes(b"x", tidewire_zmq::SendFlags::default())
            .unwrap();
        let mut polled = libc::pollfd {
            fd: number,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: it is one item.
        assert_eq!(unsafe { libc::poll(&raw mut polled, 1, 10_000) }, 1);
        poller.remove(socket).unwrap();
        assert!(!is_readable(&poller));
    }
}
