//! TLS between the socket of a connection and its application.
//!
//! Received ciphertext is decrypted into the buffer from which the application reads. Output is
//! encrypted when it is sent, so what waits in an outbox is plain. At most one send's worth of
//! ciphertext waits for a socket that accepts no more.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::SendFlags;
use tidewire_tls::{
    Client, Error, PeerNames, Server, Session, TEXT_BYTES_MAX, is_greeting, room_for,
};

use crate::connection::Peer;
use crate::outbox::{Flush, FlushCount, Outbox};

/// The certificate of a listener whose connections use TLS. It can be replaced at any time; a
/// connection keeps the one that it began with. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct TlsAcceptor(Arc<Mutex<Option<Server>>>);

impl TlsAcceptor {
    /// Uses a certificate for connections from now on. With `None` they are refused.
    pub fn replace(&self, server: Option<Server>) {
        *self.0.lock() = server;
    }

    /// Returns the certificate for a connection that begins now.
    pub fn current(&self) -> Option<Server> {
        self.0.lock().clone()
    }
}

/// What outgoing connections with TLS are made with: the authorities that are trusted, and a
/// certificate of our own. It can be replaced at any time. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct TlsConnector(Arc<Mutex<Option<Client>>>);

impl TlsConnector {
    /// Uses these settings for connections from now on.
    pub fn replace(&self, client: Option<Client>) {
        *self.0.lock() = client;
    }

    /// Returns the settings of now; `None` before any were loaded.
    pub fn current(&self) -> Option<Client> {
        self.0.lock().clone()
    }
}

/// The TLS state of a connection.
#[derive(Debug)]
pub(crate) struct Secure {
    /// None before the peer's first bytes, so that a connection costs no memory of a session until
    /// then, and while a helper has it.
    session: Option<Session>,
    /// The certificate for the session.
    server: Option<Server>,
    /// For the application, which knows the connection only once the handshake is done.
    pub(crate) peer: Peer,
    /// Whether it is in the list of handshakes to go on with, or in that of those that are done.
    pub(crate) is_listed: bool,
    /// Whether helpers take the steps of its handshake.
    is_slow: bool,
    /// Whether this side has made the connection.
    pub(crate) is_outgoing: bool,
    /// Why an outgoing connection has failed.
    failure: Option<String>,
    /// Bytes already sent of the session's outgoing ones.
    sent: usize,
}

impl Secure {
    /// Waits for a client.
    pub(crate) fn accept(server: Server, peer: Peer) -> Self {
        Self {
            session: None,
            server: Some(server),
            peer,
            is_listed: false,
            is_slow: false,
            is_outgoing: false,
            failure: None,
            sent: 0,
        }
    }

    /// Greets the server `host` at the address `peer`.
    pub(crate) fn connect(client: &Client, host: &str, peer: Peer) -> Result<Self, Error> {
        Ok(Self {
            session: Some(Session::client(client, host)?),
            server: None,
            peer,
            is_listed: false,
            is_slow: client.signs_slowly(),
            is_outgoing: true,
            failure: None,
            sent: 0,
        })
    }

    /// Notes why the connection fails. The first reason counts.
    pub(crate) fn note_failure(&mut self, reason: &str) {
        if self.is_outgoing && self.failure.is_none() {
            self.failure = Some(format!("TLS: {reason}"));
        }
    }

    /// Takes the reason why the connection has failed.
    pub(crate) fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Begins the session with the peer's first bytes.
    pub(crate) fn begin(&mut self, first: &[u8]) -> Result<(), Error> {
        let Some(server) = self.server.take() else {
            return Ok(());
        };
        debug_assert!(self.session.is_none(), "a session begins once");
        if !is_greeting(first) {
            return Err(Error::ClearText);
        }
        self.is_slow = server.signs_slowly();
        self.session = Some(Session::server(&server)?);
        Ok(())
    }

    /// Takes the session away, for a helper that takes the next step of a slow handshake.
    pub(crate) fn lend(&mut self) -> Option<Session> {
        match self.is_slow {
            true => self.session.take(),
            false => None,
        }
    }

    /// Puts the session back.
    pub(crate) fn put_back(&mut self, session: Session) {
        debug_assert!(self.session.is_none(), "it was away");
        self.session = Some(session);
    }

    /// Decrypts what was received, and gives the text to `take`.
    pub(crate) fn receive(
        &mut self,
        ciphertext: &mut [u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        self.session()?.receive_in_place(ciphertext, take)
    }

    fn session(&mut self) -> Result<&mut Session, Error> {
        self.session.as_mut().ok_or(Error::Closed)
    }

    /// Returns whether the handshake is done.
    pub(crate) fn is_open(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_open)
    }

    /// Returns whether the peer has sent anything yet.
    pub(crate) fn has_begun(&self) -> bool {
        self.server.is_none()
    }

    /// Returns whether the peer has said that no more comes.
    pub(crate) fn is_ended(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_ended)
    }

    /// Returns whether the handshake went on with an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_resumed)
    }

    /// Returns the names in the peer's certificate, if it has shown one.
    pub(crate) fn peer_names(&self) -> Option<PeerNames> {
        self.session.as_ref()?.peer_names()
    }

    /// Returns the bytes that were received and are no whole record yet.
    pub(crate) fn incoming_bytes(&self) -> usize {
        self.session.as_ref().map_or(0, Session::incoming_bytes)
    }

    /// Returns the bytes of ciphertext that wait for the socket.
    pub(crate) fn outgoing_bytes(&self) -> usize {
        let outgoing = self.session.as_ref().map_or(0, Session::outgoing_bytes);
        debug_assert!(self.sent <= outgoing, "only bytes that are there were sent");
        outgoing - self.sent
    }

    /// Encrypts and sends as much as the kernel accepts. `room` is empty and keeps its memory.
    pub(crate) fn flush(
        &mut self,
        outbox: &mut Outbox,
        socket: BorrowedFd<'_>,
        room: &mut Vec<u8>,
        counter: &mut FlushCount,
    ) -> Flush {
        loop {
            if let Err(end) = self.send_outgoing(socket, counter) {
                return end;
            }
            if outbox.is_empty() {
                outbox.reset();
                return Flush::Empty;
            }
            if outbox.sendable() == 0 || !self.is_open() {
                return Flush::Held;
            }
            let Ok(bytes) = self.encrypt(outbox, room) else {
                // With the alert that says why.
                let _ = self.send_outgoing(socket, counter);
                return Flush::Broken;
            };
            match send(socket, &room[..bytes], counter) {
                Ok(sent) if sent == bytes => {}
                Ok(sent) => {
                    // The session's own bytes have left before.
                    if let Some(session) = &mut self.session {
                        session.outgoing().extend_from_slice(&room[sent..bytes]);
                    }
                    return Flush::Blocked;
                }
                Err(end) => return end,
            }
        }
    }

    /// Encrypts a part of an outbox. Returns the number of bytes written into `room`.
    fn encrypt(&mut self, outbox: &mut Outbox, room: &mut Vec<u8>) -> Result<usize, Error> {
        room.resize(ROOM_BYTES, 0);
        let session = self.session.as_mut().ok_or(Error::Closed)?;
        let mut written = 0;
        while outbox.sendable() > 0 {
            let text = outbox.front();
            let text = &text[..text.len().min(TEXT_BYTES_MAX)];
            debug_assert!(!text.is_empty(), "what may be sent is there");
            let room = &mut room[written..];
            if room.len() < room_for(text.len()) {
                break;
            }
            written += session.encrypt(text, room)?;
            debug_assert_eq!(session.outgoing_bytes(), 0, "it would have to go before");
            let length = text.len();
            outbox.advance(length);
        }
        Ok(written)
    }

    /// Sends the session's own bytes: those of a handshake, alerts, and what the socket did not
    /// accept before.
    pub(crate) fn send_outgoing(
        &mut self,
        socket: BorrowedFd<'_>,
        counter: &mut FlushCount,
    ) -> Result<(), Flush> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let outgoing = session.outgoing();
        if outgoing.is_empty() {
            return Ok(());
        }
        self.sent += send(socket, &outgoing[self.sent..], counter)?;
        if self.sent < outgoing.len() {
            return Err(Flush::Blocked);
        }
        *outgoing = Vec::new();
        self.sent = 0;
        Ok(())
    }

    /// Tells the peer that no more comes, unless a part of the output has not been sent.
    pub(crate) fn say_end(&mut self, socket: BorrowedFd<'_>) {
        if !self.is_open() || self.outgoing_bytes() > 0 {
            return;
        }
        if let Some(session) = &mut self.session {
            session.close();
        }
        // A peer that does not read any more needs no farewell.
        let _ = self.send_outgoing(socket, &mut FlushCount::default());
    }

    /// Discards ciphertext that was not sent. The connection can only be closed then.
    pub(crate) fn discard_outgoing(&mut self) {
        if let Some(session) = &mut self.session {
            session.outgoing().truncate(self.sent);
        }
    }
}

/// Sends bytes. Returns how many the kernel accepted.
fn send(socket: BorrowedFd<'_>, bytes: &[u8], counter: &mut FlushCount) -> Result<usize, Flush> {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                counter.writes += 1;
                counter.bytes += sent as u64;
                return Ok(sent);
            }
            Err(Errno::AGAIN) => return Ok(0),
            Err(Errno::INTR) => {}
            Err(_) => return Err(Flush::Broken),
        }
    }
}

/// Room for four full records, which one send takes.
const ROOM_BYTES: usize = 4 * (TEXT_BYTES_MAX + 256);
