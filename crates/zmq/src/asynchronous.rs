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
    /// # Errors
    /// As [`receive`](Self::receive), but for [`Error::Again`].
    pub async fn receive_async(&self) -> Result<Multipart, Error> {
        poll_fn(|task| self.poll_receive(task)).await
    }

    /// Sends a whole message, in a task.
    ///
    /// # Errors
    /// As [`send`](Self::send), but for [`Error::Again`].
    pub async fn send_async(&self, message: impl Into<Multipart>) -> Result<(), Error> {
        let mut message = message.into();
        poll_fn(|task| self.poll_send(task, &mut message)).await
    }

    /// One attempt to receive; where nothing is there the task will be woken.
    pub fn poll_receive(&self, task: &mut TaskContext<'_>) -> Poll<Result<Multipart, Error>> {
        self.poll_io(task, |socket| socket.receive_parts(true))
    }

    /// Makes one attempt to send; if no peer can take it, the task is woken later.
    pub fn poll_send(
        &self,
        task: &mut TaskContext<'_>,
        message: &mut Multipart,
    ) -> Poll<Result<(), Error>> {
        self.poll_io(task, |socket| socket.send_parts(message, true))
    }

    fn poll_io<T>(
        &self,
        task: &mut TaskContext<'_>,
        mut attempt: impl FnMut(&Socket) -> Result<T, Error>,
    ) -> Poll<Result<T, Error>> {
        match attempt(self) {
            Err(Error::Again) => {}
            result => return Poll::Ready(result),
        }
        self.core().register(task.waker());
        // What came between the two is seen now, what comes later wakes.
        match attempt(self) {
            Err(Error::Again) => {
                self.core().hand_over();
                Poll::Pending
            }
            result => Poll::Ready(result),
        }
    }
}

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
        let wanted = Events {
            readable: false,
            writable: true,
        };
        self.poll_io(task, |socket| match socket.events_at_once(wanted)? {
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
