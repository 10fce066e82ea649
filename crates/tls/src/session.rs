//! One side of one connection.

use crate::certificate::PeerNames;
use crate::engine::{Client, Engine, Progress, RECORD_BYTES_MAX, Server};
use crate::error::Error;
use crate::facts::unix_s;

pub use crate::engine::room_for;

/// Longest text of one record. A text that is encrypted in parts of this length makes the fewest
/// records.
pub const TEXT_BYTES_MAX: usize = RECORD_BYTES_MAX;

/// One side of a connection.
///
/// While it waits it keeps no buffer. Its handshake has no timeout of its own: the driver, which
/// has the clock, ends a connection that does not become [open](Session::is_open) in time.
#[derive(Debug)]
pub struct Session {
    engine: Engine,
    phase: Phase,
    /// Ciphertext that was received and is no whole record yet, or no whole message of a handshake.
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Handshake,
    Open,
    /// The peer has said that no more comes.
    Ended,
    /// By an error, or by us.
    Closed,
}

impl Session {
    /// Waits for a client.
    ///
    /// # Errors
    /// [`Error::NoRandomness`].
    pub fn server(server: &Server) -> Result<Session, Error> {
        Session::new(Engine::server(server)?)
    }

    /// Greets the server `host`, a DNS name or an IP address; its certificate must be valid for
    /// that name. The greeting is at once in [`outgoing`](Session::outgoing).
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::NoRandomness`].
    pub fn client(client: &Client, host: &str) -> Result<Session, Error> {
        Session::new(Engine::client(client, host)?)
    }

    fn new(engine: Engine) -> Result<Session, Error> {
        let mut session = Session {
            engine,
            phase: Phase::Handshake,
            incoming: Vec::new(),
            outgoing: Vec::new(),
        };
        session.work(&mut [], &mut |_| ())?;
        Ok(session)
    }

    /// Takes bytes of the socket, all of them, and appends what the peer has sent in them to
    /// `plaintext`. What follows the peer's end is ignored.
    ///
    /// # Errors
    /// The peer is refused or broke the protocol: send the outgoing bytes and close.
    pub fn receive(&mut self, ciphertext: &[u8], plaintext: &mut Vec<u8>) -> Result<(), Error> {
        let mut ciphertext = ciphertext.to_vec();
        self.receive_in_place(&mut ciphertext, &mut |text| {
            plaintext.extend_from_slice(text)
        })
    }

    /// Takes bytes of the socket, all of them, and gives what the peer has sent in them to `take`,
    /// part by part. The bytes are overwritten. What follows the peer's end is ignored.
    ///
    /// # Errors
    /// The peer is refused or broke the protocol: send the outgoing bytes and close.
    pub fn receive_in_place(
        &mut self,
        ciphertext: &mut [u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        if self.phase == Phase::Closed {
            return Err(Error::Closed);
        }
        let mut rest = ciphertext;
        while !self.incoming.is_empty() && !rest.is_empty() {
            let (part, behind) = rest.split_at_mut(self.missing_bytes().min(rest.len()));
            self.incoming.extend_from_slice(part);
            rest = behind;
            if self.incoming.len() < HEAD_BYTES || self.is_cut_off() {
                continue;
            }
            let mut incoming = std::mem::take(&mut self.incoming);
            let used = self.work(&mut incoming, take)?;
            if used < incoming.len() {
                incoming.drain(..used);
                self.keep(incoming)?;
            }
        }
        if rest.is_empty() || self.phase == Phase::Ended {
            return Ok(());
        }
        let used = self.work(rest, take)?;
        match used < rest.len() {
            true => self.keep(rest[used..].to_vec()),
            false => Ok(()),
        }
    }

    /// Bytes with which the incoming ciphertext would be a head, or a whole record. Parts of a
    /// message in several records are kept together, so that the number is then without meaning:
    /// everything belongs to them.
    fn missing_bytes(&self) -> usize {
        let length = self.incoming.len();
        match length < HEAD_BYTES {
            true => HEAD_BYTES - length,
            false if self.is_cut_off() => record_bytes(&self.incoming) - length,
            false => usize::MAX,
        }
    }

    /// Returns whether the first incoming record is not whole.
    fn is_cut_off(&self) -> bool {
        let length = self.incoming.len();
        length >= HEAD_BYTES && length < record_bytes(&self.incoming)
    }

    fn keep(&mut self, incoming: Vec<u8>) -> Result<(), Error> {
        let limit = match self.phase {
            Phase::Handshake => SHAKING_BYTES_MAX,
            _ => INCOMING_BYTES_MAX,
        };
        if incoming.len() > limit {
            self.phase = Phase::Closed;
            return Err(Error::Protocol("a message is too long".to_owned()));
        }
        self.incoming = incoming;
        Ok(())
    }

    /// Takes all steps that the ciphertext allows. Returns how much of its front is used up.
    fn work(&mut self, ciphertext: &mut [u8], take: &mut dyn FnMut(&[u8])) -> Result<usize, Error> {
        let mut used = 0;
        while self.phase != Phase::Ended {
            let rest = &mut ciphertext[used..];
            let (count, progress) = match self.phase {
                Phase::Handshake => self.shake(rest, take),
                _ => self.engine.step(rest, &mut self.outgoing, take),
            };
            used += count;
            match progress {
                Ok(Progress::More) => {}
                Ok(Progress::Waits) => break,
                Ok(Progress::Ended) => self.phase = Phase::Ended,
                Err(error) => {
                    self.phase = Phase::Closed;
                    self.collect(&mut ciphertext[used..]);
                    return Err(error);
                }
            }
        }
        // What follows the end is ignored.
        Ok(match self.phase {
            Phase::Ended => ciphertext.len(),
            _ => used,
        })
    }

    /// Takes a step of the handshake. What the peer has sent behind it is given only once the peer
    /// is known.
    fn shake(
        &mut self,
        ciphertext: &mut [u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> (usize, Result<Progress, Error>) {
        let mut early = Vec::new();
        let mut keep = |text: &[u8]| early.extend_from_slice(text);
        let (count, progress) = self.engine.step(ciphertext, &mut self.outgoing, &mut keep);
        if progress.is_err() || self.engine.is_handshaking() {
            debug_assert!(
                early.is_empty() || progress.is_err(),
                "the handshake is not done"
            );
            return (count, progress);
        }
        if let Err(error) = self.engine.check_resumed(unix_s()) {
            self.say_end(&mut Vec::new());
            return (count, Err(error));
        }
        self.phase = Phase::Open;
        take(&early);
        (count, progress)
    }

    /// Collects what is to be sent, and does nothing else.
    fn collect(&mut self, incoming: &mut [u8]) {
        while self.engine.wants_write() {
            // It takes no part of the input while there is something to send.
            let step = self.engine.step(incoming, &mut self.outgoing, &mut |_| ());
            debug_assert!(matches!(step, (_, Ok(Progress::More))), "it is to be sent");
        }
    }

    /// Encrypts a text for the peer. Possible once the session is [open](Session::is_open).
    ///
    /// # Errors
    /// [`Error::Closed`]: it is not open. Any other: the peer broke the protocol in what was
    /// received before; send the outgoing bytes and close.
    pub fn send(&mut self, plaintext: &[u8]) -> Result<(), Error> {
        if !self.is_open() {
            return Err(Error::Closed);
        }
        for part in plaintext.chunks(TEXT_BYTES_MAX) {
            let mut incoming = std::mem::take(&mut self.incoming);
            self.collect(&mut incoming);
            let begin = self.outgoing.len();
            self.outgoing.resize(begin + room_for(part.len()), 0);
            let room = &mut self.outgoing[begin..];
            let encrypted = self.engine.encrypt(part, room, &mut incoming);
            let count = encrypted.as_ref().map_or(0, |count| *count);
            self.outgoing.truncate(begin + count);
            self.settle_encrypted(encrypted, incoming)?;
        }
        Ok(())
    }

    /// Encrypts a text into `room`, which has [`room_for`] its length; returns the number of bytes
    /// written. They follow what is [outgoing](Session::outgoing). Possible once the session is
    /// [open](Session::is_open).
    ///
    /// # Errors
    /// As of [`send`](Session::send).
    pub fn encrypt(&mut self, plaintext: &[u8], room: &mut [u8]) -> Result<usize, Error> {
        if !self.is_open() {
            return Err(Error::Closed);
        }
        debug_assert!(room.len() >= room_for(plaintext.len()), "there is room");
        let mut incoming = std::mem::take(&mut self.incoming);
        self.collect(&mut incoming);
        let encrypted = self.engine.encrypt(plaintext, room, &mut incoming);
        self.settle_encrypted(encrypted, incoming)
    }

    /// Puts the incoming bytes back. Those that are no whole record yet may already be wrong, which
    /// shows when something is encrypted: then the session is closed, with an alert.
    fn settle_encrypted(
        &mut self,
        encrypted: Result<usize, Error>,
        mut incoming: Vec<u8>,
    ) -> Result<usize, Error> {
        if encrypted.is_err() {
            self.phase = Phase::Closed;
            self.collect(&mut incoming);
        }
        self.incoming = incoming;
        encrypted
    }

    /// Returns the bytes to send to the socket. The driver removes what it has sent from the front.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Returns the number of [`outgoing`](Session::outgoing) bytes.
    pub fn outgoing_bytes(&self) -> usize {
        self.outgoing.len()
    }

    /// Returns the number of bytes that were received and are no whole record yet.
    pub fn incoming_bytes(&self) -> usize {
        self.incoming.len()
    }

    /// Returns whether the handshake is done and text can be sent.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Ended) && !self.engine.is_handshaking()
    }

    /// Returns whether the peer has said that no more comes. A connection that ends without it may
    /// have been cut off by a third party.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns whether it has ended by an error, or was closed.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Returns whether the handshake went on with an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.engine.is_resumed()
    }

    /// Returns the names in the peer's certificate, if it has shown one.
    pub fn peer_names(&self) -> Option<PeerNames> {
        self.engine.peer_certificate().map(PeerNames::read)
    }

    /// Returns the version of the protocol and the name of the cipher suite, once they are agreed.
    pub fn agreed(&self) -> Option<(&'static str, &'static str)> {
        self.engine.agreed()
    }

    /// Tells the peer that no more comes, if the session is open.
    pub fn close(&mut self) {
        if self.is_open() {
            let mut incoming = std::mem::take(&mut self.incoming);
            self.say_end(&mut incoming);
        }
        self.phase = Phase::Closed;
    }

    /// Tells the peer that no more comes: the one alert that the engine gives after a handshake.
    fn say_end(&mut self, incoming: &mut [u8]) {
        let mut room = [0; ROOM_BYTES];
        self.collect(incoming);
        if let Ok(count) = self.engine.close(&mut room, incoming) {
            self.outgoing.extend_from_slice(&room[..count]);
        }
    }
}

/// The length of the record that begins with this head.
fn record_bytes(head: &[u8]) -> usize {
    debug_assert!(head.len() >= HEAD_BYTES, "the length is in the head");
    HEAD_BYTES + usize::from(u16::from_be_bytes([head[3], head[4]]))
}

/// The head of a record: type, version, length.
const HEAD_BYTES: usize = 5;
/// Longest incomplete input: a record, or later messages of a handshake, which are short.
const INCOMING_BYTES_MAX: usize = 32 * 1024;
/// The same during the handshake, whose messages may have 64 KiB, in several records.
const SHAKING_BYTES_MAX: usize = 80 * 1024;
/// Room for the message that no more comes.
const ROOM_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rustls::ClientConfig;
    use rustls::version::{TLS12, TLS13};

    use super::*;
    use crate::engine::{Clients, ServerSettings};
    use crate::error::Refusal;
    use crate::support::{Made, Named, client_with, shake_hands};

    fn connect(config: &Arc<ClientConfig>, server: &Server) -> Session {
        let mut session = Session::server(server).unwrap();
        shake_hands(config, &mut session);
        session
    }

    /// A client whose certificate had expired resumed its session without end: each time it got a
    /// new ticket.
    #[test]
    fn an_expired_certificate_does_not_go_on_with_a_resumed_session() {
        for version in [&TLS12, &TLS13] {
            // A certificate that vouches for both sides.
            let made = Made::issued(&Named {
                years: [2020, 2100],
                ..Named::new("hub.example")
            });
            let server = Server::with(&ServerSettings {
                certificates_pem: made.pem.as_bytes(),
                key_pem: made.key_pem.as_bytes(),
                clients: Clients::Required,
                authorities_pem: made.root_pem.as_bytes(),
                sessions_for: Some(Duration::from_secs(300)),
                ..ServerSettings::default()
            });
            let server = server.unwrap();
            let config = Arc::new(client_with(&made, version));
            let first = connect(&config, &server);
            assert!(!first.engine.is_resumed());
            let far_s = i64::MAX;
            assert_eq!(
                first.engine.check_resumed(far_s),
                Ok(()),
                "it was shown now"
            );
            let second = connect(&config, &server);
            assert!(second.engine.is_resumed(), "{version:?}");
            assert_eq!(second.engine.check_resumed(unix_s()), Ok(()));
            let since_s = Some(4_102_444_800);
            let expired = Err(Error::Certificate(Refusal::Expired { since_s }));
            assert_eq!(second.engine.check_resumed(far_s), expired);
        }
    }
}
