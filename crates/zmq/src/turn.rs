//! What a turn brings to a socket: events of its epoll, mail of other threads, pipes with something
//! in them, and connections that have failed.

use rustix::event::epoll;
use tidewire_readiness::Uncancelled;

use crate::endpoint::{Loss, Role};
use crate::link::Fill;
use crate::mail::Mail;
use crate::peer::{Link, Peer};
use crate::slab::Key;
use crate::state::{State, Token};

impl State {
    /// One event of the socket's epoll.
    pub(crate) fn handle(&mut self, flags: epoll::EventFlags, token: Token, ahead: bool) {
        if let Token::Peer(key) = token {
            return self.peer_event(key, flags, ahead);
        }
        // Descriptors may be closed, in which the C library would cancel the program's thread.
        let _uncancelled = Uncancelled::new();
        match token {
            Token::Signal => {
                self.signal.was_found();
                self.answer_bell();
            }
            Token::Flag => {}
            Token::Peer(_) => {}
            Token::Parting(key) => self.look_at_parting(key),
            Token::Endpoint(key) => match self.endpoints.get(key).map(|known| &known.role) {
                Some(Role::Listener { .. }) => self.accept(key),
                Some(_) => self.connect_event(key),
                None => {}
            },
        }
    }

    /// Handles a ring: takes the mail of other threads.
    pub(crate) fn answer_bell(&mut self) {
        // Of several threads that wait for the socket each must hear it: the last one silences it.
        match self.waiters {
            0 => self.signal.lower(),
            // Some of them may sleep.
            _ => self.signal.write(),
        }
        if self.signal.has_mail() {
            let _uncancelled = Uncancelled::new();
            for mail in self.signal.take_mail() {
                self.take_mail(mail);
            }
        }
        self.scan_pipes();
    }

    fn take_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Attach { end, endpoint } => {
                let origin = self.endpoints.keys().into_iter().find(|&key| {
                    self.endpoints
                        .get(key)
                        .is_some_and(|known| known.name == endpoint)
                });
                self.attach_pipe(end, origin);
            }
            Mail::Introduced { peer } => self.introduced(peer),
            Mail::Resolved {
                endpoint,
                addresses,
            } => self.resolved(endpoint, &addresses),
        }
    }

    /// Looks which pipes have something. Whether any has.
    pub(crate) fn scan_pipes(&mut self) -> bool {
        let mut any = !self.inquiries.is_empty() && self.read_zap();
        let mut index = 0;
        // In the order in which they were attached: of peers that have all sent something since the
        // last look, the first is read first, as in libzmq.
        while let Some(&key) = self.pipes.get(index) {
            let Some(Link::Pipe(pipe)) = self.peers.get_mut(key).map(|peer| &mut peer.link) else {
                self.pipes.swap_remove(index);
                continue;
            };
            index += 1;
            pipe.look_at_marks();
            let (has_items, is_closed) = (pipe.has_items(), pipe.is_closed());
            if !has_items && !is_closed {
                continue;
            }
            if is_closed {
                self.withdraw_closed_pipe(key);
                if self.take_left_topics(key) {
                    any |= self.may_receive();
                    continue;
                }
            }
            if !self.kind.receives() || self.kind.is_publisher() {
                self.decode_ahead(key);
                // What waits for an XPUB's program.
                any |= !self.manual.is_empty();
            } else {
                any |= has_items;
                self.mark_readable(key);
            }
        }
        any
    }

    pub(crate) fn decode_all_ahead(&mut self) {
        for key in self.readable.iter().copied().collect::<Vec<_>>() {
            self.decode_ahead(key);
        }
    }

    /// Peers whose connection failed while being written to: what they sent before is kept, beyond
    /// the high-water mark too. Leaving peers that are owed nothing more go.
    pub(crate) fn bury_broken(&mut self) {
        for key in std::mem::take(&mut self.broken) {
            if self.is_done_leaving(key) {
                self.end_leaving(key);
                continue;
            }
            self.read_last(key);
            // What it said may have ended it already.
            if let Some(Link::Stream(_)) = self.peers.get(key).map(|peer| &peer.link) {
                self.lose(key, Loss::ByPeer);
            }
        }
    }

    /// Reads and decodes what a connection has brought until now, beyond the high-water mark too.
    fn read_last(&mut self, key: Key) {
        for _ in 0..LAST_READS_MAX {
            let Some(Link::Stream(link)) = self.peers.get_mut(key).map(|peer| &mut peer.link)
            else {
                break;
            };
            if !matches!(link.fill(&mut self.spares), Fill::Some | Fill::All) {
                break;
            }
            self.decode_all(key);
        }
        // What had been read before.
        self.decode_all(key);
    }

    /// Takes in what a connection that is to end has brought for the program.
    pub(crate) fn take_in(&mut self, key: Key) {
        let is_for_program = self.kind.receives();
        let is_ready = |peer: &Peer| peer.identity.is_some() && !peer.is_leaving;
        if is_for_program && self.peers.get(key).is_some_and(is_ready) {
            self.read_last(key);
        }
    }

    pub(crate) fn visit(&mut self) {
        self.visits += 1;
        self.has_visited = true;
    }
}

/// Reads from a connection that is broken, at most.
const LAST_READS_MAX: usize = 256;
