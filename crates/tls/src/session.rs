//! One side of one connection.

use crate::engine::{Client, Engine, Server};
use crate::error::Error;

/// One side of a connection.
///
/// Its handshake has no timeout of its own: the driver, which has the clock, ends a connection that
/// does not become [open](Session::is_open) in time.
#[derive(Debug)]
pub struct Session {
    engine: Engine,
    phase: Phase,
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
        Ok(Session::new(Engine::server(server)?))
    }

    /// Greets the server `host`, a DNS name or an IP address; its certificate must be valid for
    /// that name. The greeting is at once in [`outgoing`](Session::outgoing).
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::NoRandomness`].
    pub fn client(client: &Client, host: &str) -> Result<Session, Error> {
        Ok(Session::new(Engine::client(client, host)?))
    }

    fn new(mut engine: Engine) -> Session {
        let mut outgoing = Vec::new();
        engine.write_ciphertext(&mut outgoing);
        Session {
            engine,
            phase: Phase::Handshake,
            outgoing,
        }
    }

    /// Takes bytes of the socket, all of them, and appends what the peer has sent in them to
    /// `plaintext`. What follows the peer's end is ignored.
    ///
    /// # Errors
    /// The peer is refused or broke the protocol: send the outgoing bytes and close.
    pub fn receive(&mut self, ciphertext: &[u8], plaintext: &mut Vec<u8>) -> Result<(), Error> {
        let mut rest = ciphertext;
        while !rest.is_empty() {
            match self.phase {
                Phase::Handshake | Phase::Open => {}
                Phase::Ended => return Ok(()),
                Phase::Closed => return Err(Error::Closed),
            }
            match self.receive_part(rest, plaintext) {
                Ok(count) => rest = &rest[count..],
                Err(error) => {
                    self.phase = Phase::Closed;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn receive_part(&mut self, rest: &[u8], plaintext: &mut Vec<u8>) -> Result<usize, Error> {
        let count = self.engine.read_ciphertext(rest)?;
        let processed = self.engine.process(plaintext);
        // An alert, where it failed.
        self.engine.write_ciphertext(&mut self.outgoing);
        let has_ended = processed?;
        if count == 0 {
            debug_assert!(has_ended, "there is room for a byte");
            self.phase = Phase::Ended;
            return Ok(rest.len());
        }
        if self.phase == Phase::Handshake && !self.engine.is_handshaking() {
            self.phase = Phase::Open;
        }
        if has_ended {
            self.phase = Phase::Ended;
        }
        Ok(count)
    }

    /// Encrypts a text for the peer. Possible once the session is [open](Session::is_open).
    ///
    /// # Errors
    /// [`Error::Closed`]: it is not open.
    pub fn send(&mut self, plaintext: &[u8]) -> Result<(), Error> {
        if !self.is_open() {
            return Err(Error::Closed);
        }
        let mut rest = plaintext;
        while !rest.is_empty() {
            let count = self.engine.encrypt(rest)?;
            self.engine.write_ciphertext(&mut self.outgoing);
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Returns the bytes to send to the socket. The driver removes what it has sent from the front.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Returns the number of [`outgoing`](Session::outgoing) bytes.
    pub fn outgoing_bytes(&self) -> usize {
        self.outgoing.len()
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

    /// Tells the peer that no more comes.
    pub fn close(&mut self) {
        if self.phase != Phase::Closed {
            self.engine.close();
            self.engine.write_ciphertext(&mut self.outgoing);
        }
        self.phase = Phase::Closed;
    }
}
