//! Events that other threads cause in a socket's epoll, without a descriptor of their own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::error::Error;
use crate::state::Token;

/// The epoll of one socket, with the source of its events.
///
/// The socket's state alone keeps it: when the socket is over, its descriptor is closed at once.
/// What is left of the socket, such as a closed handle or the bell that a peer still rings, only
/// refers to it.
#[derive(Debug)]
pub(crate) struct SocketEpoll {
    descriptor: OwnedFd,
    source: Arc<Source>,
    /// The source once more, where the program polls: its uses are counted.
    flag: OnceLock<Arc<Source>>,
}

/// Readable from `write` to `read`, in one epoll. Any thread may call them.
///
/// The epoll watches a descriptor that is always readable, and that many sockets share: `write`
/// has it look at it, and `read` away from it. Where the socket is over they do nothing.
#[derive(Debug)]
pub(crate) struct EventDescriptor {
    epoll: Weak<SocketEpoll>,
    token: Token,
}

/// A descriptor that is always readable, twice: an epoll watches each number once.
#[derive(Debug)]
pub(crate) struct Source {
    bell: OwnedFd,
    flag: OwnedFd,
}

/// Gives each socket a source. The kernel limits the epolls in epolls that watch one file, so each
/// source is for a few sockets only.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    current: Mutex<Option<Arc<Source>>>,
}

impl SocketEpoll {
    pub(crate) fn new(source: Arc<Source>) -> rustix::io::Result<Arc<Self>> {
        Ok(Arc::new(SocketEpoll {
            descriptor: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            source,
            flag: OnceLock::new(),
        }))
    }

    /// What it watches for an event.
    fn watched(&self, token: Token) -> BorrowedFd<'_> {
        match token {
            Token::Signal => self.source.bell.as_fd(),
            _ => self.source.flag.as_fd(),
        }
    }
}

impl AsFd for SocketEpoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl EventDescriptor {
    /// Adds the event to `epoll`. `token` is [`Token::Signal`] or [`Token::Flag`].
    pub(crate) fn new(epoll: &Arc<SocketEpoll>, token: Token) -> rustix::io::Result<Self> {
        if token == Token::Flag {
            epoll.flag.get_or_init(|| Arc::clone(&epoll.source));
        }
        let data = epoll::EventData::new_u64(token.to_bits());
        let flags = epoll::EventFlags::empty();
        epoll::add(&**epoll, epoll.watched(token), data, flags)?;
        Ok(EventDescriptor {
            epoll: Arc::downgrade(epoll),
            token,
        })
    }

    pub(crate) fn write(&self) {
        self.watch(epoll::EventFlags::IN);
    }

    pub(crate) fn read(&self) {
        self.watch(epoll::EventFlags::empty());
    }

    fn watch(&self, flags: epoll::EventFlags) {
        let Some(epoll) = self.epoll.upgrade() else {
            return;
        };
        let data = epoll::EventData::new_u64(self.token.to_bits());
        let changed = epoll::modify(&*epoll, epoll.watched(self.token), data, flags);
        debug_assert!(changed.is_ok(), "the epoll watches it: {changed:?}");
    }
}

impl Source {
    fn new() -> Result<Self, Error> {
        let bell = eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flag = rustix::io::fcntl_dupfd_cloexec(&bell, 0)?;
        Ok(Source { bell, flag })
    }
}

impl Sources {
    /// Returns the source for the events of a new socket.
    pub(crate) fn take(&self) -> Result<Arc<Source>, Error> {
        let mut current = self.current.lock();
        if let Some(source) = &*current
            && Arc::strong_count(source) <= SHARES_MAX
        {
            return Ok(Arc::clone(source));
        }
        let source = Arc::new(Source::new()?);
        *current = Some(Arc::clone(&source));
        Ok(source)
    }

    /// Closes the source for new sockets, unless others use it.
    pub(crate) fn let_go(&self) {
        *self.current.lock() = None;
    }
}

/// Uses of one source: one for each socket, two for one that the program polls. A program may
/// watch the epolls of these sockets in an epoll that is in an epoll itself, beside the background
/// thread: Linux refuses more than 100 such paths from one file.
const SHARES_MAX: usize = 36;

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use tidewire_readiness as readiness;

    use super::*;

    #[test]
    fn each_event_is_there_from_write_to_read_in_its_epoll_alone() {
        let sources = Sources::default();
        let source = sources.take().unwrap();
        let epolls = [0, 1].map(|_| SocketEpoll::new(Arc::clone(&source)).unwrap());
        let tokens = [Token::Signal, Token::Flag];
        let events = epolls
            .each_ref()
            .map(|epoll| tokens.map(|token| EventDescriptor::new(epoll, token).unwrap()));
        let found = |index: usize| {
            let mut space = [const { MaybeUninit::<epoll::Event>::uninit() }; 4];
            let found = readiness::look(&*epolls[index], &mut space).unwrap();
            let tokens = found.iter().map(|event| Token::from_bits(event.data.u64()));
            tokens.collect::<Vec<_>>()
        };
        assert_eq!([found(0), found(1)], [[], []]);
        events[0][0].write();
        events[0][0].write();
        assert_eq!(found(0), [Token::Signal]);
        assert_eq!(found(0), [Token::Signal], "until it is read");
        events[1][1].write();
        assert_eq!(
            (found(0), found(1)),
            (vec![Token::Signal], vec![Token::Flag])
        );
        events[0][0].read();
        events[1][1].read();
        assert_eq!([found(0), found(1)], [[], []]);
    }

    #[test]
    fn many_sockets_share_few_descriptors() {
        let sources = Sources::default();
        let taken: Vec<_> = (0..720).map(|_| sources.take().unwrap()).collect();
        let mut numbers: Vec<_> = taken.iter().map(Arc::as_ptr).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), 20);
    }
}
