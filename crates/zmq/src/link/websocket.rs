//! WebSocket between a connection's descriptor and its ZMTP, with TLS under it or without.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tidewire_tls::{Error as TlsError, Session};
use tidewire_zmtp::Error as WireError;
use tidewire_zmtp::websocket::WebSocket;

use super::input::{Fill, Input};
use super::output::Output;
use super::spares::Spares;

/// The filter of one connection, and what is on its way through it.
#[derive(Debug)]
pub(crate) struct WebSocketFilter {
    websocket: WebSocket,
    /// Over wss. It keeps what WebSocket has to say until its handshake is done.
    tls: Option<Box<Session>>,
    /// Received, and not yet whole enough for the filter. Its room is one of the socket's spare
    /// ones, which it has no longer than bytes are in it.
    received: Vec<u8>,
    /// So much of what is outgoing is with the kernel.
    written: usize,
    /// Why nothing more can come through.
    broken: Option<Broken>,
}

/// What was broken.
#[derive(Debug)]
pub(crate) enum Broken {
    Wire(WireError),
    Tls(TlsError),
}

impl WebSocketFilter {
    pub(crate) fn new(websocket: WebSocket, tls: Option<Session>) -> WebSocketFilter {
        WebSocketFilter {
            websocket,
            tls: tls.map(Box::new),
            received: Vec::new(),
            written: 0,
            broken: None,
        }
    }

    #[cfg(test)]
    pub(super) fn buffer_bytes(&self) -> usize {
        self.received.capacity()
    }

    /// Reads once, and hands on the ZMTP in it.
    pub(super) fn fill(
        &mut self,
        descriptor: BorrowedFd<'_>,
        input: &mut Input,
        spares: &mut Spares,
    ) -> Fill {
        if self.received.capacity() == 0 {
            self.received = std::mem::take(&mut spares.filter_rooms[0]);
        }
        let read = match self.tls.is_some() {
            false => self.read(descriptor),
            true => self.read_tls(descriptor, spares),
        };
        let fill = match read {
            Ok(0) => Fill::Closed,
            Ok(count) if count >= READ_BYTES || (self.tls.is_some() && count == RECORD_BYTES) => {
                Fill::Some
            }
            Ok(_) => Fill::All,
            Err(Errno::AGAIN) => Fill::WouldBlock,
            Err(Errno::INTR) => Fill::Some,
            Err(error) => Fill::Failed(error),
        };
        if matches!(read, Ok(1..)) {
            self.take_received(input, spares);
            // A PONG, or the answer to an upgrade: if the kernel is full, the next flush takes it.
            let _ = self.write(descriptor);
        }
        if self.received.is_empty() && self.received.capacity() <= ROOM_BYTES_MAX {
            spares.filter_rooms[0] = std::mem::take(&mut self.received);
        }
        fill
    }

    /// Hands on the ZMTP in what was received.
    fn take_received(&mut self, input: &mut Input, spares: &mut Spares) {
        let mut zmtp = std::mem::take(&mut spares.filter_rooms[1]);
        debug_assert!(zmtp.is_empty(), "a spare room has nothing in it");
        let mut consumed = 0;
        // Behind the answer to an upgrade there may be frames, which are taken next.
        while consumed < self.received.len() {
            let rest = &self.received[consumed..];
            match self.websocket.receive(rest, &mut zmtp) {
                Ok(0) => break,
                Ok(count) => consumed += count,
                Err(error) => {
                    consumed = self.received.len();
                    self.broken = Some(Broken::Wire(error));
                }
            }
        }
        debug_assert!(
            consumed <= self.received.len(),
            "the filter takes what was received"
        );
        self.received.drain(..consumed);
        if input.append(&zmtp, spares).is_err() {
            // There is no memory for what the peer sends.
            self.broken = Some(Broken::Wire(WireError::Closed));
        }
        zmtp.clear();
        if zmtp.capacity() <= ROOM_BYTES_MAX {
            spares.filter_rooms[1] = zmtp;
        }
    }

    fn read(&mut self, descriptor: BorrowedFd<'_>) -> rustix::io::Result<usize> {
        self.received.reserve(READ_BYTES);
        let has_room = self.received.len() < self.received.capacity();
        assert!(has_room, "a read into no room looks like the end");
        rustix::io::read(descriptor, spare_capacity(&mut self.received))
    }

    /// Reads ciphertext, of which nothing stays here.
    fn read_tls(
        &mut self,
        descriptor: BorrowedFd<'_>,
        spares: &mut Spares,
    ) -> rustix::io::Result<usize> {
        // Not on the stack: the thread is the program's, which may have given it little.
        let room = &mut spares.filter_rooms[1];
        debug_assert!(room.is_empty(), "a spare room has nothing in it");
        room.reserve(RECORD_BYTES);
        let room = &mut room.spare_capacity_mut()[..RECORD_BYTES];
        let (ciphertext, _) = rustix::io::read(descriptor, room)?;
        if let Some(tls) = &mut self.tls {
            match tls.receive(ciphertext, &mut self.received) {
                Ok(()) if tls.is_ended() => self.broken = Some(Broken::Wire(WireError::Closed)),
                Ok(()) => {}
                Err(error) => self.broken = Some(Broken::Tls(error)),
            }
        }
        Ok(ciphertext.len())
    }

    /// Why nothing more will come, once.
    pub(crate) fn take_broken(&mut self) -> Option<Broken> {
        self.broken.take()
    }

    /// Bytes not yet with the kernel.
    pub(crate) fn pending_bytes(&self) -> usize {
        let websocket_bytes = self.websocket.outgoing_bytes();
        let bytes = match &self.tls {
            None => websocket_bytes,
            Some(tls) => websocket_bytes + tls.outgoing_bytes(),
        };
        debug_assert!(self.written <= bytes, "what is written was outgoing");
        bytes - self.written
    }

    /// Writes all that the connection has to say, as far as the kernel takes it. A long message
    /// goes through the filter in portions: never is there a second copy of it.
    pub(crate) fn flush(
        &mut self,
        output: &mut Output,
        descriptor: BorrowedFd<'_>,
    ) -> io::Result<bool> {
        loop {
            let room = PORTION_BYTES.saturating_sub(self.pending_bytes());
            let websocket = &mut self.websocket;
            output.pour(room, |zmtp| websocket.send(zmtp).map_err(io::Error::other))?;
            if !self.write(descriptor)? {
                if output.pending_bytes() > 0 {
                    output.leave_out_written();
                }
                return Ok(false);
            }
            if output.pending_bytes() == 0 {
                output.all_is_written();
                return Ok(true);
            }
            if self.pending_bytes() >= PORTION_BYTES {
                // It waits for the end of the handshake of TLS, and nothing behind it can go.
                return Ok(true);
            }
        }
    }

    /// Says goodbye, if there is room for it.
    pub(crate) fn close(&mut self, descriptor: BorrowedFd<'_>) {
        if self.pending_bytes() > 0 {
            return;
        }
        self.websocket.close();
        if self.encrypt().is_ok()
            && let Some(tls) = &mut self.tls
            && tls.is_open()
        {
            tls.close();
        }
        let _ = self.write(descriptor);
    }

    /// Hands what WebSocket has to say to TLS, if there is any and it can take it.
    fn encrypt(&mut self) -> io::Result<()> {
        let Some(tls) = self.tls.as_mut().filter(|tls| tls.is_open()) else {
            return Ok(());
        };
        let outgoing = self.websocket.outgoing();
        tls.send(outgoing).map_err(io::Error::other)?;
        outgoing.clear();
        Ok(())
    }

    fn write(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<bool> {
        self.encrypt()?;
        let outgoing = match &mut self.tls {
            None => self.websocket.outgoing(),
            Some(tls) => tls.outgoing(),
        };
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

/// So much of what is written is in the filter at a time.
const PORTION_BYTES: usize = 256 << 10;
/// What is read at once.
const READ_BYTES: usize = 64 << 10;
/// Room up to this is kept for the next read.
const ROOM_BYTES_MAX: usize = 1 << 20;
/// What is read at once over TLS: about the longest record.
const RECORD_BYTES: usize = 16 << 10;
