//! Tasks that wait for a socket, until it has something for them.

use std::task::Waker;

use crate::socket::Events;

/// The tasks that wait for one socket.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    waiting: Vec<Waiting>,
    last_ticket: u64,
}

#[derive(Debug)]
struct Waiting {
    /// 0 for one that polls by itself, which cannot say that it waits no longer.
    ticket: u64,
    waker: Waker,
    wanted: Events,
}

impl Tasks {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A number for a future, which says when it waits no longer.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// Notes that a task waits for one of these events. Of a future only the newest waker counts.
    pub(crate) fn wait(&mut self, ticket: u64, waker: &Waker, wanted: Events) {
        debug_assert!(ticket <= self.last_ticket, "a ticket that was given");
        debug_assert_ne!(wanted, Events::default(), "a task waits for something");
        let known = self.waiting.iter_mut().find(|known| match ticket {
            0 => known.ticket == 0 && known.wanted == wanted && known.waker.will_wake(waker),
            _ => known.ticket == ticket,
        });
        match known {
            Some(known) => known.waker.clone_from(waker),
            None => self.waiting.push(Waiting {
                ticket,
                waker: waker.clone(),
                wanted,
            }),
        }
    }

    /// Forgets a future that waits no longer. Returns whether it waited.
    pub(crate) fn forget(&mut self, ticket: u64) -> bool {
        debug_assert_ne!(ticket, 0, "the number of a future");
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.ticket != ticket);
        self.waiting.len() < before
    }

    /// Takes those that wait for one of these events.
    pub(crate) fn take(&mut self, found: Events) -> Vec<Waker> {
        let has_some = |waiting: &mut Waiting| {
            waiting.wanted.readable && found.readable || waiting.wanted.writable && found.writable
        };
        let taken = self.waiting.extract_if(.., has_some);
        taken.map(|waiting| waiting.waker).collect()
    }
}
