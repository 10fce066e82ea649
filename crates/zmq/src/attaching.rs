//! How a socket's pattern learns of a peer and forgets it: turns, routing ids, greetings.

use crate::endpoint::Loss;
use crate::kind::SocketType;
use crate::message::{Last, Message};
use crate::peer::{Link, Peer};
use crate::pipe::PipeEnd;
use crate::slab::Key;
use crate::state::State;

impl State {
    /// A pipe to another socket of the process becomes a peer.
    pub(crate) fn attach_pipe(&mut self, end: PipeEnd, origin: Option<Key>) -> Option<Key> {
        if self.is_closing {
            return None;
        }
        let routing_id = std::mem::take(&mut self.options.connect_routing_id);
        let mut peer = Peer::new(self.kind, Link::None, origin, self.options_now());
        peer.routing_id = routing_id;
        if peer.routing_id.is_empty()
            && let Some(hello) = end.peer()
        {
            peer.routing_id = hello.routing_id.clone();
        }
        peer.link = Link::Pipe(end);
        let key = self.peers.insert(peer);
        debug_assert!(!self.pipes.contains(&key), "a pipe is listed once");
        self.pipes.push(key);
        self.attach(key);
        if matches!(&self.peers.get(key)?.link, Link::Pipe(pipe) if pipe.is_closed()) {
            self.withdraw_closed_pipe(key);
        }
        self.peers.get(key).map(|_| key)
    }

    /// The pattern learns of a peer.
    pub(crate) fn attach(&mut self, key: Key) {
        if self.kind.is_exclusive() && !self.writable.is_empty() {
            return self.lose(key, Loss::ByUs);
        }
        let has_names = matches!(self.kind, SocketType::Router | SocketType::Stream)
            || self.kind.numbers_peers();
        if has_names && !self.file(key) {
            return;
        }
        if let Some(peer) = self.peers.get_mut(key) {
            peer.is_attached = true;
        }
        debug_assert!(!self.writable.contains(&key), "a peer has one turn");
        self.writable.push(key);
        debug_assert!(
            !self.kind.is_exclusive() || self.writable.len() == 1,
            "PAIR and CHANNEL have one peer"
        );
        self.rejoined(key);
    }

    /// What a peer is told when it comes, and when it comes back.
    pub(crate) fn rejoined(&mut self, key: Key) {
        let is_connected = self.peers.get(key).is_some_and(|peer| match &peer.link {
            Link::None => false,
            Link::Pipe(_) | Link::Datagrams(_) => true,
            Link::Stream(_) => peer.identity.is_some(),
        });
        if !is_connected {
            return;
        }
        match self.kind {
            kind if kind.is_subscriber() => self.tell_subscriptions(key),
            SocketType::Pub | SocketType::Xpub => {
                if let Some(welcome) = self.options.xpub_welcome.clone() {
                    self.say_first(key, Message::from_vec(welcome));
                }
            }
            SocketType::Router => {
                let notifies = self.options.router_notify & NOTIFY_CONNECT != 0;
                let link = self.peers.get(key).map(|peer| &peer.link);
                let is_connection = matches!(link, Some(Link::Stream(_)));
                if self.file(key) && notifies && is_connection {
                    self.receive_word(key, Message::new());
                }
            }
            _ => {}
        }
        self.greet(key);
    }

    /// Says what a new connection begins with.
    pub(crate) fn greet(&mut self, key: Key) {
        let greets = matches!(
            self.kind,
            SocketType::Router | SocketType::Dealer | SocketType::Client
        ) || self.kind.numbers_peers();
        if greets && !self.options.hello_message.is_empty() {
            let hello = Message::from_vec(self.options.hello_message.clone());
            self.say_first(key, hello);
        }
        if self.options.probe_router && self.kind.can_probe() {
            self.say_first(key, Message::new());
        }
    }

    /// Puts what goes to a new peer before all that waits for it. The caller writes it.
    fn say_first(&mut self, key: Key, mut message: Message) {
        if let Some(peer) = self.peers.get_mut(key)
            && let Link::Stream(link) = &mut peer.link
            && link.is_ready()
        {
            peer.counters.sent += 1;
            return link.push(message);
        }
        self.transmit(key, std::iter::empty(), Last::Message(&mut message));
    }

    /// The socket at the other end of a pipe has bound the name that was connected to before. What
    /// it is told when it comes is in the pipe already.
    pub(crate) fn introduced(&mut self, key: Key) {
        if let Some(peer) = self.peers.get_mut(key)
            && let Link::Pipe(pipe) = &peer.link
            && let Some(hello) = pipe.peer()
            && peer.routing_id.is_empty()
        {
            peer.routing_id = hello.routing_id.clone();
        }
        if self.kind == SocketType::Router {
            self.file(key);
        }
    }

    /// ROUTER and STREAM: files a peer under its name. `false`: another has it.
    fn file(&mut self, key: Key) -> bool {
        let Some(peer) = self.peers.get_mut(key) else {
            return false;
        };
        if self.kind.numbers_peers() {
            // Its own name is ignored: it gets a number.
            if self.routes.get(&peer.routing_id) == Some(&key) {
                return true;
            }
            self.next_routing_id = self.next_routing_id.wrapping_add(1).max(1);
            peer.routing_id = self.next_routing_id.to_be_bytes().to_vec();
        }
        if peer.routing_id.is_empty() {
            let is_there = match &peer.link {
                Link::None => false,
                Link::Pipe(pipe) => pipe.is_attached(),
                Link::Stream(_) | Link::Datagrams(_) => true,
            };
            if !is_there && self.kind == SocketType::Router {
                // Its name will come with it.
                return true;
            }
            self.next_routing_id = self.next_routing_id.wrapping_add(1);
            peer.routing_id.push(0);
            let number = self.next_routing_id.to_be_bytes();
            peer.routing_id.extend_from_slice(&number);
            if self.kind == SocketType::Stream {
                // The program reads the name of its new connection from the option.
                self.options.routing_id.clone_from(&peer.routing_id);
            }
        }
        let name = peer.routing_id.clone();
        match self.routes.get(&name) {
            Some(&known) if known == key => return true,
            Some(&known) if self.options.router_handover => {
                // The old one loses its name; what it has said comes under a new one.
                self.decode_ahead(known);
                self.next_routing_id = self.next_routing_id.wrapping_add(1);
                if let Some(old) = self.peers.get_mut(known) {
                    old.routing_id = vec![0];
                    let number = self.next_routing_id.to_be_bytes();
                    old.routing_id.extend_from_slice(&number);
                }
                self.mute(known, name.clone());
            }
            Some(_) => {
                self.mute(key, name);
                return false;
            }
            None => {}
        }
        debug_assert!(!name.is_empty(), "a route has a name");
        debug_assert!(
            !self.kind.numbers_peers() || name.len() == size_of::<u32>(),
            "a number is the name of a peer of SERVER and PEER"
        );
        self.routes.insert(name, key);
        true
    }

    /// The pattern forgets a peer; the peer goes when the last of its messages is received.
    pub(crate) fn detach(&mut self, key: Key, was_ready: bool) {
        let freed = self.withdraw(key);
        if self.exchange.peer == Some(key) {
            self.exchange.peer = None;
        }
        if was_ready {
            self.notify_raw(key);
        }
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        peer.is_gone = true;
        peer.is_attached = false;
        peer.backlog.clear();
        if peer.is_leaving {
            peer.incoming.clear();
        }
        if !peer.incoming.is_empty() {
            self.keep_left_topics(key);
        }
        let is_read_out = |peer: &Peer| peer.incoming.is_empty() && !peer.is_readable;
        if self.peers.get(key).is_some_and(is_read_out) {
            self.peers.remove(key);
        }
        if let Some(name) = freed {
            self.release_name(&name);
        }
    }
}

/// `ZMQ_NOTIFY_CONNECT` of `ZMQ_ROUTER_NOTIFY`.
const NOTIFY_CONNECT: i32 = 1;
