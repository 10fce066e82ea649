//! A connection of the admin port, with or without TLS. Nothing waits: what cannot go on now ends
//! with [`ErrorKind::WouldBlock`].

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::PollFlags;
use tidewire_lane::{LaneCounters, Peer, TlsAcceptor, TlsFailure};
use tidewire_tls::{Driver, NO_TLS_HERE, is_greeting};

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) socket: TcpStream,
    peer: SocketAddr,
    tls: Option<Box<Driver>>,
    counters: Arc<LaneCounters>,
    /// Whether its handshake is counted.
    is_counted: bool,
    /// Whether nothing has been received yet, of a connection without TLS.
    is_fresh: bool,
}

impl Stream {
    /// Serves a client that has connected; with TLS if `tls` is given. `None`: it cannot be served.
    pub(super) fn accept(
        socket: TcpStream,
        peer: SocketAddr,
        tls: Option<&TlsAcceptor>,
        counters: &Arc<LaneCounters>,
    ) -> Option<Self> {
        socket.set_nonblocking(true).ok()?;
        let tls = match tls {
            None => None,
            Some(tls) => {
                let Some(server) = tls.current() else {
                    counters.tls_failed.fetch_add(1, Ordering::Relaxed);
                    TlsFailure::NoCertificate.note(&Peer::Tcp(peer), &socket);
                    return None;
                };
                Some(Box::new(Driver::server(&server).ok()?))
            }
        };
        Some(Self {
            socket,
            peer,
            tls,
            counters: counters.clone(),
            is_counted: false,
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
        tls.is_some_and(|tls| tls.is_open() && tls.peer_names().is_some())
    }

    /// Returns what to wait for before more input can be read.
    pub(super) fn reads_after(&self) -> PollFlags {
        match &self.tls {
            Some(tls) if tls.has_outgoing() => PollFlags::IN | PollFlags::OUT,
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
                let failure = TlsFailure::PortWithout;
                self.note(&failure);
                return Err(Error::new(ErrorKind::InvalidData, failure.to_string()));
            }
            return Ok(count);
        };
        tls.flush(&mut self.socket)?;
        let result = tls.read(&mut self.socket, part);
        if tls.is_open() && !std::mem::replace(&mut self.is_counted, true) {
            let counters = &self.counters;
            counters.tls_handshakes.fetch_add(1, Ordering::Relaxed);
            let resumed = tls.is_resumed().into();
            counters.tls_resumed.fetch_add(resumed, Ordering::Relaxed);
        }
        let is_end = |error: &Error| error.kind() == ErrorKind::UnexpectedEof;
        let failure = match (tls.failure(), &result) {
            (Some(failure), Err(_)) => TlsFailure::from(failure.clone()),
            (None, Err(error)) if is_end(error) && tls.has_heard() && !tls.is_open() => {
                TlsFailure::Left
            }
            _ => return result,
        };
        self.note(&failure);
        result
    }

    /// Logs why there is no TLS, and counts it unless its handshake is counted already.
    fn note(&mut self, failure: &TlsFailure) {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.counters.tls_failed.fetch_add(1, Ordering::Relaxed);
        }
        failure.note(&Peer::Tcp(self.peer), &self.socket);
    }

    /// Sends a part of `text`. Returns the number of bytes that need not be given again.
    pub(super) fn write(&mut self, text: &[u8]) -> Result<usize> {
        match &mut self.tls {
            None => self.socket.write(text),
            Some(tls) => tls.write(&mut self.socket, text),
        }
    }

    /// Tells the client that no more comes, after everything was sent.
    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.flush(&mut self.socket)?;
            tls.close(&mut self.socket);
            if tls.has_outgoing() {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        self.socket.shutdown(Shutdown::Write)
    }

    /// Reads and drops what the client still sends. Returns whether it has closed.
    pub(super) fn discard(&mut self) -> Result<bool> {
        let mut part = [0; 2048];
        Ok(self.socket.read(&mut part)? == 0)
    }

    /// Notes that the connection is given up before its reply. With TLS that is logged.
    pub(super) fn give_up(&mut self, is_excess: bool) {
        let Some(tls) = &self.tls else { return };
        let failure = match (is_excess, tls.has_heard()) {
            (true, _) => TlsFailure::TooMany,
            (false, false) => TlsFailure::Silent,
            (false, true) => TlsFailure::TooSlow,
        };
        let is_shaking = !tls.is_open() && tls.failure().is_none();
        if is_shaking {
            self.note(&failure);
        }
    }
}
