//! Waiting for several sockets and descriptors at once.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use rustix::time::Timespec;

use crate::awake::{Vigil, Watch};
use crate::core::{Core, Wait};
use crate::error::Error;
use crate::event::SocketEpoll;
use crate::outside::{self, Sleep};
use crate::socket::{Events, Socket};

/// One thing to wait for, and what it turned out to be ready for.
#[derive(Debug)]
pub struct PollItem<'a> {
    /// What is waited for.
    pub target: PollTarget<'a>,
    /// Ready for what.
    pub events: Events,
    /// What it is ready for, after [`poll`].
    pub ready: Events,
    /// A descriptor that has failed or is closed, after [`poll`].
    pub has_failed: bool,
}

/// What can be waited for.
#[derive(Debug, Clone, Copy)]
pub enum PollTarget<'a> {
    /// A ZeroMQ socket.
    Socket(&'a Socket),
    /// Any other descriptor.
    Descriptor(BorrowedFd<'a>),
}

impl<'a> PollItem<'a> {
    /// Waits for a frame to receive.
    pub fn readable(socket: &'a Socket) -> PollItem<'a> {
        PollItem {
            target: PollTarget::Socket(socket),
            events: Events {
                readable: true,
                writable: false,
            },
            ready: Events::default(),
            has_failed: false,
        }
    }

    fn is_ready(&self) -> bool {
        self.ready.readable || self.ready.writable || self.has_failed
    }
}

/// Waits until an item is ready or `timeout_ms` milliseconds have passed; a negative timeout waits
/// indefinitely. Returns the number of items that are ready.
///
/// # Errors
/// A socket is closed, its context terminated, or a signal came.
pub fn poll(items: &mut [PollItem<'_>], timeout_ms: i64) -> Result<usize, Error> {
    let timeout_ms = timeout_ms.clamp(-1, i64::from(i32::MAX)) as i32;
    let (wait, _) = outside::limit_or(|| Wait::for_ms(timeout_ms));
    look_at_descriptors(items)?;
    loop {
        let ready = look_at_sockets(items)?;
        if ready > 0 {
            return Ok(ready);
        }
        if wait.is_over() {
            return Ok(0);
        }
        sleep(items, wait)?;
    }
}

/// Looks at all descriptors without a wait. This comes before a look at the sockets: a descriptor
/// may be a socket's own (`ZMQ_FD`), which is readable no longer after the look.
fn look_at_descriptors(items: &mut [PollItem<'_>]) -> Result<(), Error> {
    let is_descriptor = |item: &PollItem<'_>| matches!(item.target, PollTarget::Descriptor(_));
    if !items.iter().any(is_descriptor) {
        return Ok(());
    }
    let epolls = epolls_of(items)?;
    let mut descriptors = descriptors_of(items, &epolls);
    rustix::event::poll(&mut descriptors, Some(&Timespec::default()))?;
    store(items, &descriptors);
    Ok(())
}

/// Looks at all sockets without a wait. Returns the number of items that are ready, with the
/// descriptors as they were found last.
fn look_at_sockets(items: &mut [PollItem<'_>]) -> Result<usize, Error> {
    for item in items.iter_mut() {
        if let PollTarget::Socket(socket) = item.target {
            item.ready = socket.events_at_once(item.events)?;
            item.has_failed = false;
        }
    }
    Ok(items.iter().filter(|item| item.is_ready()).count())
}

/// Sleeps until something may have changed, and looks at all descriptors.
fn sleep(items: &mut [PollItem<'_>], wait: Wait) -> Result<(), Error> {
    let cores: Vec<_> = items
        .iter()
        .filter_map(|item| match item.target {
            PollTarget::Socket(socket) => Some((Arc::clone(socket.core()), item.events)),
            PollTarget::Descriptor(_) => None,
        })
        .collect();
    let mut vigil = Vigil::default();
    if Core::spin_for_any(cores.iter().map(|(core, _)| &**core), wait, &mut vigil) {
        return Ok(());
    }
    let epolls = epolls_of(items)?;
    let mut descriptors = descriptors_of(items, &epolls);
    let mut watch = Watch::begin(&cores, items.len(), &vigil);
    let found = watch.wait(&mut descriptors, wait, &mut vigil);
    if found == Err(outside::LEFT) {
        let sleep = Sleep::new(wait, vigil, watch.leave());
        drop(descriptors);
        leave(items, epolls, sleep);
        return Err(outside::LEFT.into());
    }
    found?;
    drop(watch);
    for (item, descriptor) in items.iter().zip(&descriptors) {
        if let PollTarget::Socket(socket) = item.target
            && descriptor.revents().contains(PollFlags::IN)
        {
            socket.core().was_polled();
        }
    }
    store(items, &descriptors);
    Ok(())
}

/// Leaves the sleep to the caller of the library.
fn leave(items: &[PollItem<'_>], epolls: Vec<Option<Arc<SocketEpoll>>>, mut sleep: Sleep) {
    for (item, epoll) in items.iter().zip(epolls) {
        match (item.target, epoll) {
            (PollTarget::Socket(socket), Some(epoll)) => {
                sleep.add_socket(Arc::clone(socket.core()), epoll);
            }
            (PollTarget::Descriptor(descriptor), _) => {
                sleep.add_descriptor(descriptor.as_raw_fd(), wanted_flags(item));
            }
            (PollTarget::Socket(_), None) => debug_assert!(false, "each socket has an epoll"),
        }
    }
    outside::leave(sleep);
}

/// What `poll(2)` is to watch a descriptor for.
fn wanted_flags(item: &PollItem<'_>) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, item.events.readable);
    flags.set(PollFlags::OUT, item.events.writable);
    flags
}

/// The epolls of the items that are sockets.
fn epolls_of(items: &[PollItem<'_>]) -> Result<Vec<Option<Arc<SocketEpoll>>>, Error> {
    let of = |item: &PollItem<'_>| match item.target {
        PollTarget::Socket(socket) => socket.core().epoll().map(Some),
        PollTarget::Descriptor(_) => Ok(None),
    };
    items.iter().map(of).collect()
}

/// What `poll(2)` watches for the items.
fn descriptors_of<'d>(
    items: &[PollItem<'d>],
    epolls: &'d [Option<Arc<SocketEpoll>>],
) -> Vec<PollFd<'d>> {
    debug_assert_eq!(items.len(), epolls.len(), "each item has its place");
    let of = |(item, epoll): (&PollItem<'d>, &'d Option<Arc<SocketEpoll>>)| match item.target {
        PollTarget::Socket(_) => {
            let epoll = epoll.as_ref()?.as_fd();
            Some(PollFd::from_borrowed_fd(epoll, PollFlags::IN))
        }
        PollTarget::Descriptor(descriptor) => {
            Some(PollFd::from_borrowed_fd(descriptor, wanted_flags(item)))
        }
    };
    items.iter().zip(epolls).filter_map(of).collect()
}

/// Stores what `poll(2)` found.
fn store(items: &mut [PollItem<'_>], descriptors: &[PollFd<'_>]) {
    debug_assert_eq!(descriptors.len(), items.len(), "each item has its answer");
    for (item, descriptor) in items.iter_mut().zip(descriptors) {
        if let PollTarget::Descriptor(_) = item.target {
            let flags = descriptor.revents();
            item.ready.readable = flags.contains(PollFlags::IN);
            item.ready.writable = flags.contains(PollFlags::OUT);
            item.has_failed = flags.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, SendFlags, SocketType};

    /// Between the look and the sleep the background thread may take in what there is.
    #[test]
    fn what_was_taken_in_for_a_poller_before_it_sleeps_is_not_slept_over() {
        let context = Context::new();
        let [pull, push] = [SocketType::Pull, SocketType::Push].map(|kind| {
            let socket = context.socket(kind).unwrap();
            socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
            socket
        });
        pull.bind("tcp://127.0.0.1:*").unwrap();
        push.connect(&pull.last_endpoint().unwrap()).unwrap();
        let mut items = [PollItem::readable(&pull)];
        assert_eq!(look_at_sockets(&mut items), Ok(0));
        push.send_bytes(b"news", SendFlags::default()).unwrap();
        while !pull.core().lock().can_receive() {
            pull.core().look_after();
            std::thread::yield_now();
        }
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sleep(&mut items, Wait::for_ms(30_000)).unwrap();
                let _ = done.send(());
            });
            let patience = std::time::Duration::from_secs(10);
            assert!(is_done.recv_timeout(patience).is_ok(), "it sleeps");
        });
    }

    /// The poller ran in its place, and looked again and again until the kernel took the processor
    /// away from it: of replies on a busy machine one of ten came after 0.3 ms or more.
    #[test]
    fn a_bell_whose_ringer_was_interrupted_kept_a_poller_busy() {
        let context = Context::new();
        let socket = context.socket(SocketType::Pair).unwrap();
        socket.core().signal.write_unfinished();
        let mut items = [PollItem::readable(&socket)];
        assert_eq!(poll(&mut items, 1), Ok(0));
        let epolls = epolls_of(&items).unwrap();
        let mut descriptors = descriptors_of(&items, &epolls);
        let found = rustix::event::poll(&mut descriptors, Some(&Timespec::default()));
        assert_eq!(found, Ok(0), "the event is still there");
    }

    /// czmq's test of its poller waits for a socket and, by the same call, for its descriptor.
    #[test]
    fn a_sockets_own_descriptor_is_told_beside_the_socket() {
        let context = Context::new();
        let [pull, push] = [SocketType::Pull, SocketType::Push].map(|kind| {
            let socket = context.socket(kind).unwrap();
            socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
            socket
        });
        push.bind("tcp://127.0.0.1:*").unwrap();
        // What comes of the connection wakes the poller. There is no message.
        pull.connect(&push.last_endpoint().unwrap()).unwrap();
        let mut items = [PollItem::readable(&pull), PollItem::readable(&pull)];
        items[1].target = PollTarget::Descriptor(pull.descriptor().unwrap());
        assert_eq!(poll(&mut items, 30_000), Ok(1));
        assert!(!items[0].ready.readable && items[1].ready.readable);
    }
}
