//! WebSocket between a connection's descriptor and its ZMTP.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tidewire_zmtp::Error as WireError;
use tidewire_zmtp::websocket::WebSocket;

use super::input::{Fill, Input};
use super::output::Output;

/// The filter of one connection, and what is on its way through it.
#[derive(Debug)]
pub(crate) struct WebSocketFilter {
    websocket: WebSocket,
    /// Received, and not yet whole enough for the filter.
    received: Vec<u8>,
    zmtp: Vec<u8>,
    /// So much of what is outgoing is with the kernel.
    written: usize,
    /// Why nothing more can come through.
    broken: Option<WireError>,
}

impl WebSocketFilter {
    pub(crate) fn new(websocket: WebSocket) -> WebSocketFilter {
        WebSocketFilter {
            websocket,
            received: Vec::new(),
            zmtp: Vec::new(),
            written: 0,
            broken: None,
        }
    }

    /// Reads once, and hands on the ZMTP in it.
    pub(crate) fn fill(&mut self, descriptor: BorrowedFd<'_>, input: &mut Input) -> Fill {
        self.received.reserve(READ_BYTES);
        let room = self.received.capacity() - self.received.len();
        let count = match rustix::io::read(descriptor, spare_capacity(&mut self.received)) {
            Ok(0) => return Fill::Closed,
            Ok(count) => count,
            Err(Errno::AGAIN) => return Fill::WouldBlock,
            Err(Errno::INTR) => return Fill::Some,
            Err(error) => return Fill::Failed(error),
        };
        let mut consumed = 0;
        // Behind the answer to an upgrade there may be frames, which are taken next.
        while consumed < self.received.len() {
            let rest = &self.received[consumed..];
            match self.websocket.receive(rest, &mut self.zmtp) {
                Ok(0) => break,
                Ok(count) => consumed += count,
                Err(error) => {
                    consumed = self.received.len();
                    self.broken = Some(error);
                }
            }
        }
        debug_assert!(
            consumed <= self.received.len(),
            "the filter takes what was received"
        );
        self.received.drain(..consumed);
        input.append(&self.zmtp);
        self.zmtp.clear();
        // A PONG, or the answer to an upgrade: if the kernel is full, the next flush takes it.
        let _ = self.write(descriptor);
        if count == room { Fill::Some } else { Fill::All }
    }

    /// Why nothing more will come, once.
    pub(crate) fn take_broken(&mut self) -> Option<WireError> {
        self.broken.take()
    }

    /// Bytes not yet with the kernel.
    pub(crate) fn pending_bytes(&self) -> usize {
        debug_assert!(
            self.written <= self.websocket.outgoing_bytes(),
            "what is written was outgoing"
        );
        self.websocket.outgoing_bytes() - self.written
    }

    /// Writes all that the connection has to say, as far as the kernel takes it.
    pub(crate) fn flush(
        &mut self,
        output: &mut Output,
        descriptor: BorrowedFd<'_>,
    ) -> io::Result<bool> {
        let websocket = &mut self.websocket;
        output.pour(|zmtp| websocket.send(zmtp).map_err(io::Error::other))?;
        let is_done = self.write(descriptor)?;
        if is_done {
            output.all_is_written();
        }
        Ok(is_done)
    }

    /// Says goodbye, if there is room for it.
    pub(crate) fn close(&mut self, descriptor: BorrowedFd<'_>) {
        if self.pending_bytes() == 0 {
            self.websocket.close();
            let _ = self.write(descriptor);
        }
    }

    fn write(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<bool> {
        let outgoing = self.websocket.outgoing();
        while self.written < outgoing.len() {
            match send(descriptor, &outgoing[self.written..], SendFlags::NOSIGNAL) {
                Ok(count) => self.written += count,
                Err(Errno::AGAIN) => {
                    outgoing.drain(..self.written);
                    self.written = 0;
                    return Ok(false);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        outgoing.clear();
        self.written = 0;
        Ok(true)
    }
}

/// What is read at once.
const READ_BYTES: usize = 64 << 10;
