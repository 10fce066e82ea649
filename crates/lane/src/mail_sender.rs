//! Sends one type of mail to lanes whose mailboxes carry several types.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use crate::mailbox::Mailboxes;

/// Sends mail of one type to lanes.
///
/// A crate needs to know only its own type of mail. All senders fill the same mailboxes, so a
/// lane receives mail of all types in the order of sending.
pub struct MailSender<M>(Arc<dyn Carry<M>>);

trait Carry<M>: Send + Sync {
    fn send(&self, lane: usize, mail: M);
    fn wake(&self, lane: usize);
    fn lanes(&self) -> usize;
}

impl<M: 'static> MailSender<M> {
    /// Creates a sender into `mailboxes`, whose mail can be made from this type.
    pub fn new<T: From<M> + Send + 'static>(mailboxes: Mailboxes<T>) -> Self {
        Self(Arc::new(All(mailboxes)))
    }

    /// Sends `mail` to `lane`. Never blocks longer than another sender's append.
    pub fn send(&self, lane: usize, mail: M) {
        self.0.send(lane, mail);
    }

    /// Makes `lane` take a turn, in which it sees everything stored before.
    pub fn wake(&self, lane: usize) {
        self.0.wake(lane);
    }

    /// Returns the number of lanes.
    pub fn lanes(&self) -> usize {
        self.0.lanes()
    }
}

impl<M> Clone for MailSender<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M> Debug for MailSender<M> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("MailSender")
    }
}

struct All<T>(Mailboxes<T>);

impl<M, T: From<M> + Send> Carry<M> for All<T> {
    fn send(&self, lane: usize, mail: M) {
        self.0[lane].send(mail.into());
    }

    fn wake(&self, lane: usize) {
        self.0[lane].wake();
    }

    fn lanes(&self) -> usize {
        self.0.len()
    }
}
