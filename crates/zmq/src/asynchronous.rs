//! Sockets for tasks: futures, `Stream` and `Sink`, without a runtime of their own.
//!
//! A task that has to wait is woken by the context's background thread, so that these cost one
//! hop where the blocking calls cost none.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use futures_core::Stream;
use futures_sink::Sink;

use crate::core::{Purpose, Wait};
use crate::error::Error;
use crate::multipart::Multipart;
use crate::socket::{Events, Socket};

impl Socket {
    /// Receives a whole message, in a task.
    ///
    /// Cancellation safe: a future that is dropped has taken no message.
    ///
    /// # Errors
    /// As [`receive`](Self::receive), but for [`Error::Again`].
    pub async fn receive_async(&self) -> Result<Multipart, Error> {
        let mut attempt = Attempt::new(self, RECEIVE);
        poll_fn(|task| attempt.poll(task, |socket| socket.receive_parts(true))).await
    }

    /// Sends a whole message, in a task.
    ///
    /// Cancellation safe: a message is sent with all its frames when the future is ready, and not
    /// at all if it is dropped before.
    ///
    /// # Errors
    /// As [`send`](Self::send), but for [`Error::Again`].
    pub async fn send_async(&self, message: impl Into<Multipart>) -> Result<(), Error> {
        let mut message = message.into();
        let mut attempt = Attempt::new(self, SEND);
        poll_fn(|task| attempt.poll(task, |socket| socket.send_parts(&mut message, true))).await
    }

    /// One attempt to receive; where nothing is there the task will be woken.
    ///
    /// Each task that polls is woken once, also if it has lost its interest meanwhile: the futures
    /// say that they have, this method cannot.
    pub fn poll_receive(&self, task: &mut TaskContext<'_>) -> Poll<Result<Multipart, Error>> {
        let mut attempt = Attempt::without_end(self, RECEIVE);
        attempt.poll(task, |socket| socket.receive_parts(true))
    }

    /// Makes one attempt to send; if no peer can take it, the task is woken later, as
    /// [`poll_receive`](Self::poll_receive) does.
    pub fn poll_send(
        &self,
        task: &mut TaskContext<'_>,
        message: &mut Multipart,
    ) -> Poll<Result<(), Error>> {
        let mut attempt = Attempt::without_end(self, SEND);
        attempt.poll(task, |socket| socket.send_parts(message, true))
    }
}

/// What one future does until it succeeds.
struct Attempt<'s> {
    socket: &'s Socket,
    wanted: Events,
    /// The number under which it waits. `None` before its first wait.
    ticket: Option<u64>,
}

impl<'s> Attempt<'s> {
    fn new(socket: &'s Socket, wanted: Events) -> Attempt<'s> {
        Attempt {
            socket,
            wanted,
            ticket: None,
        }
    }

    /// One of a caller who does not say when it waits no longer.
    fn without_end(socket: &'s Socket, wanted: Events) -> Attempt<'s> {
        Attempt {
            socket,
            wanted,
            ticket: Some(0),
        }
    }

    fn poll<T>(
        &mut self,
        task: &mut TaskContext<'_>,
        mut attempt: impl FnMut(&Socket) -> Result<T, Error>,
    ) -> Poll<Result<T, Error>> {
        match attempt(self.socket) {
            Err(Error::Again) => {}
            result => return Poll::Ready(result),
        }
        let core = self.socket.core();
        let ticket = *self.ticket.get_or_insert_with(|| core.ticket());
        core.register(ticket, task.waker(), self.wanted);
        // What came between the two is seen now, what comes later wakes.
        match attempt(self.socket) {
            Err(Error::Again) => {
                core.hand_over();
                Poll::Pending
            }
            result => Poll::Ready(result),
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(ticket @ 1..) = self.ticket {
            self.socket.core().unregister(ticket);
        }
    }
}

const RECEIVE: Events = Events {
    readable: true,
    writable: false,
};
const SEND: Events = Events {
    readable: false,
    writable: true,
};

impl Stream for Socket {
    type Item = Result<Multipart, Error>;

    /// Ends with the context.
    fn poll_next(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        self.poll_receive(task).map(|result| match result {
            Err(Error::Terminated | Error::NotSocket) => None,
            result => Some(result),
        })
    }
}

impl Sink<Multipart> for Socket {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        let mut attempt = Attempt::without_end(&self, SEND);
        attempt.poll(task, |socket| match socket.events_at_once(SEND)? {
            Events { writable: true, .. } => Ok(()),
            _ => Err(Error::Again),
        })
    }

    fn start_send(self: Pin<&mut Self>, mut message: Multipart) -> Result<(), Error> {
        self.send_parts(&mut message, true)
    }

    /// A message that was taken is on its way: there is nothing to flush but bursts.
    fn poll_flush(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        let core = self.core();
        let mut state = core.enter()?;
        core.drive(&mut state, Wait::Not, Purpose::Send)?;
        core.leave(&mut state);
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(self.close())
    }
}
