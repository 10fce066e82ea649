//! Listening endpoints: incoming connections become peers.

use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use tidewire_rings::{Channel, Sizes};

use crate::clock::now_ns;
use crate::endpoint::{Endpoint, Role};
use crate::link::Carrier;
use crate::monitor::Event;
use crate::options::Options;
use crate::peer::{Link, Peer};
use crate::slab::Key;
use crate::state::{State, Timer, Token};

impl State {
    /// Accepts all that wait at a listener.
    pub(crate) fn accept(&mut self, endpoint: Key) {
        loop {
            let Some(Endpoint {
                role: Role::Listener { descriptor, .. },
                ..
            }) = self.endpoints.get(endpoint)
            else {
                return;
            };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::accept_with(descriptor, flags) {
                Ok(accepted) => self.accepted(endpoint, accepted),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    // No descriptors are left: those that wait stay in the kernel's queue.
                    self.pause_accepting(endpoint);
                    let reason = errno.raw_os_error() as u64;
                    return self.report_endpoint(endpoint, Event::AcceptFailed, reason);
                }
            }
        }
    }

    /// Does not look at a listener for a moment: it would tell the same again at once.
    fn pause_accepting(&mut self, endpoint: Key) {
        self.watch_listener(endpoint, EventFlags::empty());
        self.set_timer(now_ns() + ACCEPT_PAUSE_NS, Timer::Accept(endpoint));
    }

    pub(crate) fn resume_accepting(&mut self, endpoint: Key) {
        self.watch_listener(endpoint, EventFlags::IN);
    }

    fn watch_listener(&self, endpoint: Key, flags: EventFlags) {
        if let Some(known) = self.endpoints.get(endpoint)
            && let Role::Listener { descriptor, .. } = &known.role
            && let Some(epoll) = &self.epoll
        {
            let data = EventData::new_u64(Token::Endpoint(endpoint).to_bits());
            // It fails only for a descriptor that is not there, which is seen elsewhere.
            let _ = epoll::modify(&**epoll, descriptor, data, flags);
        }
    }

    /// Whether the connections of an endpoint go through shared memory.
    fn is_shared(&self, endpoint: Key) -> bool {
        let endpoint = self.endpoints.get(endpoint);
        endpoint.is_some_and(|known| known.name.starts_with("shm://"))
    }

    fn accepted(&mut self, endpoint: Key, descriptor: OwnedFd) {
        let Some(options) = self.options_of(endpoint) else {
            return;
        };
        if !crate::transport::is_admitted(&descriptor, &options) {
            return;
        }
        let is_shared = self.is_shared(endpoint);
        if !is_shared {
            crate::transport::tune(&descriptor, &options);
        }
        self.report_connection(endpoint, Event::Accepted, &descriptor);
        let carrier = match is_shared {
            false => Carrier::Kernel(descriptor),
            true => match Channel::offer(descriptor, ring_sizes(&options)) {
                Ok(channel) => Carrier::Shared(Box::new(channel)),
                Err(errno) => {
                    let reason = errno.raw_os_error() as u64;
                    return self.report_endpoint(endpoint, Event::AcceptFailed, reason);
                }
            },
        };
        let peer = Peer::new(self.kind, Link::None, Some(endpoint), options);
        let key = self.peers.insert(peer);
        self.begin_link(key, carrier, false);
        if self.options.handshakes_max > 0 {
            self.limit_handshakes(key);
        }
    }
}

/// The rings of a connection: as long as the kernel's buffers would be.
fn ring_sizes(options: &Options) -> Sizes {
    let bytes = |wanted: i32| usize::try_from(wanted).unwrap_or(RING_BYTES);
    Sizes::near(
        bytes(options.send_buffer_bytes),
        bytes(options.receive_buffer_bytes),
    )
}

/// Bytes of a ring. Both processors' caches have room for it.
const RING_BYTES: usize = 256 << 10;
/// Pause after a failed accept.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;
