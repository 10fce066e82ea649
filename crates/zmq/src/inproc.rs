//! The in-process endpoints of a context, by name.

use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::error::Error;
use crate::mail::Mail;
use crate::pipe::{Hello, PipeEnd};
use crate::signal::Signal;
use crate::slab::Key;

/// The in-process endpoints of a context.
#[derive(Debug, Default)]
pub(crate) struct Inproc {
    names: Mutex<Names>,
}

/// Those bound, and connections to those that are not yet.
#[derive(Debug, Default)]
struct Names {
    bound: HashMap<String, Bound>,
    early: HashMap<String, Vec<Early>>,
}

#[derive(Debug)]
struct Bound {
    signal: Arc<Signal>,
    hello: Hello,
}

/// A connection made before its endpoint was bound.
#[derive(Debug)]
struct Early {
    end: PipeEnd,
    connecter: Arc<Signal>,
    peer: Key,
}

impl Inproc {
    /// Gives an in-process name to a socket; peers that connected to it before are connected at
    /// once.
    pub(crate) fn bind(
        &self,
        name: &str,
        signal: &Arc<Signal>,
        hello: &Hello,
    ) -> Result<Vec<PipeEnd>, Error> {
        let mut names = self.names.lock();
        if names.bound.contains_key(name) {
            return Err(Error::AddressInUse);
        }
        let bound = Bound {
            signal: Arc::clone(signal),
            hello: hello.clone(),
        };
        names.bound.insert(name.to_owned(), bound);
        let early = names.early.remove(name).unwrap_or_default();
        let mut ends = Vec::with_capacity(early.len());
        for Early {
            end,
            connecter,
            peer,
        } in early
        {
            end.introduce(Arc::clone(signal), hello.clone());
            if !end.is_closed() {
                connecter.send(Mail::Introduced { peer });
            }
            ends.push(end);
        }
        Ok(ends)
    }

    pub(crate) fn unbind(&self, name: &str, signal: &Arc<Signal>) {
        let mut names = self.names.lock();
        if names
            .bound
            .get(name)
            .is_some_and(|bound| Arc::ptr_eq(&bound.signal, signal))
        {
            names.bound.remove(name);
        }
    }

    /// Forgets connections that were given up before their endpoint was bound. What was sent
    /// through them stays, as in libzmq: the socket that binds the name receives it,
    /// with any `LINGER`.
    pub(crate) fn forget_given_up(&self) {
        self.forget(|early| early.end.is_closed() && !early.end.has_items());
    }

    /// No name can be bound any more.
    pub(crate) fn forget_unbound(&self) {
        self.forget(|_| true);
    }

    fn forget(&self, is_over: impl Fn(&Early) -> bool) {
        let mut forgotten = Vec::new();
        let mut names = self.names.lock();
        names.early.retain(|_, early| {
            forgotten.extend(early.extract_if(.., |early| is_over(early)));
            !early.is_empty()
        });
        drop(names);
        // Bytes that the program has lent are given back without the lock.
        drop(forgotten);
    }

    /// Connects to a bound in-process name.
    pub(crate) fn connect(
        &self,
        name: &str,
        signal: &Arc<Signal>,
        hello: Hello,
    ) -> Option<PipeEnd> {
        let names = self.names.lock();
        let bound = names.bound.get(name)?;
        debug_assert!(
            !names.early.contains_key(name),
            "a bound name has no early connections"
        );
        let (own, other) = PipeEnd::pair(Arc::clone(signal), hello);
        other.introduce(Arc::clone(&bound.signal), bound.hello.clone());
        bound.signal.send(Mail::Attach {
            end: other,
            endpoint: name.to_owned(),
        });
        Some(own)
    }

    /// Connects to an in-process name, bound or not: `attach` is given the own end, and says
    /// under which key it is filed.
    pub(crate) fn connect_early(
        &self,
        name: &str,
        signal: &Arc<Signal>,
        hello: Hello,
        attach: impl FnOnce(PipeEnd) -> Option<Key>,
    ) {
        let mut names = self.names.lock();
        let (own, other) = PipeEnd::pair(Arc::clone(signal), hello);
        if let Some(bound) = names.bound.get(name) {
            debug_assert!(
                !names.early.contains_key(name),
                "a bound name has no early connections"
            );
            other.introduce(Arc::clone(&bound.signal), bound.hello.clone());
            attach(own);
            bound.signal.send(Mail::Attach {
                end: other,
                endpoint: name.to_owned(),
            });
            return;
        }
        if let Some(peer) = attach(own) {
            names.early.entry(name.to_owned()).or_default().push(Early {
                end: other,
                connecter: Arc::clone(signal),
                peer,
            });
        }
    }
}
