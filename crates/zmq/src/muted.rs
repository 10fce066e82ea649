//! Connections of peers whose name another peer has: open, and not listened to.
//!
//! Closed ones would come back at once: two living peers with one name would take it from each
//! other without end, or the later one would knock several times a second. libzmq keeps them open
//! too. Here they are closed when the name is free again, so that one of them can have it.

use rustix::event::epoll;

use crate::endpoint::Loss;
use crate::link::{Interest, StreamLink};
use crate::peer::Link;
use crate::slab::Key;
use crate::state::{State, Token};

/// A connection that is not listened to.
#[derive(Debug)]
pub(crate) struct Muted {
    pub(crate) link: Box<StreamLink>,
    /// The name that another peer has.
    name: Vec<u8>,
}

impl State {
    /// Another peer has, or now gets, the name of this one.
    pub(crate) fn mute(&mut self, key: Key, name: Vec<u8>) {
        // The end of its handshake, or what was sent to it before.
        self.flush(key);
        self.watch(key, |interest| *interest = Interest::default());
        self.forget_ring(key);
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let mut link = match std::mem::replace(&mut peer.link, Link::None) {
            Link::Stream(link) => link,
            // A pipe does not come back.
            other => {
                peer.link = other;
                return self.lose(key, Loss::ByUs);
            }
        };
        debug_assert!(peer.muted.is_none(), "who has a link is heard");
        link.is_active = false;
        link.end_handshake();
        let data = epoll::EventData::new_u64(Token::Peer(key).to_bits());
        if let Some(epoll) = &self.epoll {
            let _ = epoll::modify(&**epoll, &*link, data, epoll::EventFlags::RDHUP);
        }
        crate::transport::notice_end(&*link);
        peer.backlog.clear();
        peer.kernel_has_room();
        peer.muted = Some(Box::new(Muted { link, name }));
        self.muted.push(key);
    }

    /// The kernel says that a connection which is not listened to is over.
    pub(crate) fn muted_event(&mut self, key: Key) {
        debug_assert!(self.muted.contains(&key), "it was muted");
        self.lose(key, Loss::ByPeer);
    }

    /// A name is free: those who wanted it may come again.
    pub(crate) fn release_name(&mut self, name: &[u8]) {
        let mut waiting = self.muted.clone();
        waiting.retain(|&key| {
            let muted = self.peers.get(key).and_then(|peer| peer.muted.as_ref());
            muted.is_some_and(|muted| muted.name == name)
        });
        for key in waiting {
            self.lose(key, Loss::ByUs);
        }
    }
}
