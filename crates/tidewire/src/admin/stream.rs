//! A connection of the admin port, with or without TLS. Nothing waits: what cannot go on now ends
//! with [`ErrorKind::WouldBlock`].

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use rustix::event::PollFlags;
use tidewire_lane::{Peer, TlsAcceptor, TlsFailure};
use tidewire_tls::{Error, NO_TLS_HERE, Session, is_greeting};

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) socket: TcpStream,
    peer: SocketAddr,
    tls: Option<Box<Tls>>,
    /// Whether nothing has been received yet.
    is_fresh: bool,
}

/// The TLS state of a connection.
#[derive(Debug)]
struct Tls {
    session: Session,
    /// What was decrypted and not taken yet.
    text: Vec<u8>,
    /// Bytes already sent of the session's outgoing ones.
    sent: usize,
}

impl Stream {
    /// Serves a client that has connected; with TLS if `tls` is given. `None`: it cannot be served.
    pub(super) fn accept(
        socket: TcpStream,
        peer: SocketAddr,
        tls: Option<&TlsAcceptor>,
    ) -> Option<Self> {
        socket.set_nonblocking(true).ok()?;
        let tls = match tls {
            None => None,
            Some(tls) => {
                let Some(server) = tls.current() else {
                    TlsFailure::NoCertificate.note(&Peer::Tcp(peer), &socket);
                    return None;
                };
                Some(Box::new(Tls {
                    session: Session::server(&server).ok()?,
                    text: Vec::new(),
                    sent: 0,
                }))
            }
        };
        Some(Self {
            socket,
            peer,
            tls,
            is_fresh: true,
        })
    }

    /// Returns the address of the client.
    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns whether the client has shown a certificate, which was verified.
    pub(super) fn has_certificate(&self) -> bool {
        let tls = self.tls.as_ref();
        tls.is_some_and(|tls| tls.session.is_open() && tls.session.peer_names().is_some())
    }

    /// Returns what to wait for before more input can be read.
    pub(super) fn reads_after(&self) -> PollFlags {
        match &self.tls {
            Some(tls) if tls.session.outgoing_bytes() > 0 => PollFlags::IN | PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Reads what the client has sent. Returns 0 at its end.
    pub(super) fn read(&mut self, part: &mut [u8]) -> Result<usize> {
        debug_assert!(!part.is_empty(), "there is room");
        let Some(tls) = &mut self.tls else {
            let count = self.socket.read(part)?;
            if std::mem::take(&mut self.is_fresh) && is_greeting(&part[..count]) {
                // The client understands this, and closes.
                let _ = self.socket.write(&NO_TLS_HERE);
                return Err(self.failed(&TlsFailure::PortWithout));
            }
            return Ok(count);
        };
        loop {
            tls.flush(&self.socket)?;
            if !tls.text.is_empty() {
                let count = tls.text.len().min(part.len());
                part[..count].copy_from_slice(&tls.text[..count]);
                tls.text.drain(..count);
                return Ok(count);
            }
            if tls.session.is_ended() {
                return Ok(0);
            }
            let count = match self.socket.read(part) {
                Ok(0) if self.is_fresh || tls.session.is_open() => return Ok(0),
                Ok(0) => return Err(self.failed(&TlsFailure::Left)),
                count => count?,
            };
            let (is_fresh, received) = (std::mem::take(&mut self.is_fresh), &mut part[..count]);
            let result = match is_fresh && !is_greeting(received) {
                true => Err(Error::ClearText),
                false => {
                    let text = &mut tls.text;
                    let mut take = |more: &[u8]| text.extend_from_slice(more);
                    tls.session.receive_in_place(received, &mut take)
                }
            };
            if let Err(error) = result {
                // With the alert that says why.
                let _ = tls.flush(&self.socket);
                return Err(self.failed(&error.into()));
            }
        }
    }

    /// Sends a part of `text`. Returns the number of bytes that need not be given again.
    pub(super) fn write(&mut self, text: &[u8]) -> Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.socket.write(text);
        };
        tls.flush(&self.socket)?;
        let part = &text[..text.len().min(WRITE_BYTES)];
        tls.session.send(part).map_err(std::io::Error::other)?;
        match tls.flush(&self.socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(part.len()),
        }
    }

    /// Tells the client that no more comes, after everything was sent.
    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.flush(&self.socket)?;
            // Does nothing if it has been said.
            tls.session.close();
            tls.flush(&self.socket)?;
        }
        self.socket.shutdown(Shutdown::Write)
    }

    /// Reads and drops what the client still sends. Returns whether it has closed.
    pub(super) fn discard(&mut self) -> Result<bool> {
        let mut part = [0; 2048];
        Ok(self.socket.read(&mut part)? == 0)
    }

    /// Notes that the connection is given up before its reply. With TLS that is logged.
    pub(super) fn give_up(&self, is_excess: bool) {
        let Some(tls) = &self.tls else { return };
        let is_shaking = !tls.session.is_open() && !tls.session.is_closed();
        let failure = match (is_excess, self.is_fresh) {
            (true, _) => TlsFailure::TooMany,
            (false, true) => TlsFailure::Silent,
            (false, false) => TlsFailure::TooSlow,
        };
        if is_shaking {
            failure.note(&Peer::Tcp(self.peer), &self.socket);
        }
    }

    fn failed(&self, failure: &TlsFailure) -> std::io::Error {
        failure.note(&Peer::Tcp(self.peer), &self.socket);
        std::io::Error::new(ErrorKind::InvalidData, failure.to_string())
    }
}

impl Tls {
    /// Sends what the session has for the client.
    fn flush(&mut self, mut socket: &TcpStream) -> Result<()> {
        let outgoing = self.session.outgoing();
        while self.sent < outgoing.len() {
            self.sent += socket.write(&outgoing[self.sent..])?;
        }
        outgoing.clear();
        self.sent = 0;
        Ok(())
    }
}

/// Text that is encrypted at once.
const WRITE_BYTES: usize = 64 * 1024;
