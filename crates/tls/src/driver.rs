//! A session over a stream of bytes that its owner has opened or accepted. It waits as the stream
//! does: not at all if that does not, and otherwise up to the stream's timeouts.

use std::io::{self, ErrorKind, Read, Write};

use crate::certificate::PeerNames;
use crate::engine::{Client, Server};
use crate::error::Error;
use crate::greeting::is_greeting;
use crate::session::Session;

/// Moves the bytes of one connection between a [`Session`] and a stream.
///
/// A call that the stream cannot go on with returns [`ErrorKind::WouldBlock`]; a stream with a
/// timeout says so when the time is over.
#[derive(Debug)]
pub struct Driver {
    session: Session,
    is_server: bool,
    /// Whether the peer has sent anything.
    has_heard: bool,
    /// Decrypted bytes, and how many of them were read.
    text: Vec<u8>,
    taken: usize,
    /// Why the connection has failed.
    failure: Option<Error>,
}

impl Driver {
    /// Begins a session with the server `host`, a DNS name or an IP address.
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::NoRandomness`].
    pub fn client(client: &Client, host: &str) -> Result<Driver, Error> {
        let session = Session::client(client, host)?;
        Ok(Driver::new(session, false))
    }

    /// Waits for a client.
    ///
    /// # Errors
    /// [`Error::NoRandomness`].
    pub fn server(server: &Server) -> Result<Driver, Error> {
        let session = Session::server(server)?;
        Ok(Driver::new(session, true))
    }

    fn new(session: Session, is_server: bool) -> Driver {
        Driver {
            session,
            is_server,
            has_heard: false,
            text: Vec::new(),
            taken: 0,
            failure: None,
        }
    }

    /// Returns whether the handshake is done.
    pub fn is_open(&self) -> bool {
        self.session.is_open()
    }

    /// Returns whether the stream has not taken all that is to be sent.
    pub fn has_outgoing(&self) -> bool {
        self.session.outgoing_bytes() > 0
    }

    /// Returns whether the peer has sent anything.
    pub fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// Returns whether the handshake went on with an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.session.is_resumed()
    }

    /// Returns the names in the certificate that the peer has shown; `None` without one.
    pub fn peer_names(&self) -> Option<PeerNames> {
        self.session.peer_names()
    }

    /// Returns why TLS has failed, if that has ended the connection.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Goes on with the handshake. Returns whether it is done; if it is not, the stream must be
    /// waited for.
    ///
    /// # Errors
    /// The handshake has failed: [`Driver::failure`] has the reason if it is one of TLS.
    pub fn shake(&mut self, stream: &mut (impl Read + Write)) -> io::Result<bool> {
        self.flush(stream)?;
        while !self.session.is_open() {
            match self.receive(stream) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads decrypted bytes. Returns 0 once the peer has said that no more comes.
    ///
    /// # Errors
    /// Those of the stream; [`ErrorKind::InvalidData`] if TLS has failed, and
    /// [`ErrorKind::UnexpectedEof`] if the stream ends and the peer has not said so.
    pub fn read(
        &mut self,
        stream: &mut (impl Read + Write),
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        while self.taken == self.text.len() {
            if self.session.is_ended() {
                return Ok(0);
            }
            self.receive(stream)?;
        }
        let rest = &self.text[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }

    /// Encrypts a part of `bytes`, and sends of it what the stream takes. Returns the length of the
    /// part; the rest of its ciphertext is sent by later calls, or by [`Driver::flush`].
    ///
    /// # Errors
    /// Those of the stream; [`ErrorKind::WouldBlock`] as long as the handshake is not done, or an
    /// earlier part is not sent.
    pub fn write(&mut self, stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        self.flush(stream)?;
        // At most one part of ciphertext waits for the stream.
        if !self.session.is_open() || self.has_outgoing() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let part = &bytes[..bytes.len().min(WRITE_BYTES)];
        let sent = self.session.send(part);
        sent.map_err(|error| failed(&error))?;
        self.flush(stream)?;
        Ok(part.len())
    }

    /// Sends what is to be sent, as far as the stream takes it.
    ///
    /// # Errors
    /// Those of the stream, but for [`ErrorKind::WouldBlock`].
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        let outgoing = self.session.outgoing();
        let mut sent = 0;
        let result = loop {
            if sent == outgoing.len() {
                break Ok(());
            }
            match stream.write(&outgoing[sent..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        outgoing.drain(..sent);
        result
    }

    /// Tells the peer that no more comes, if the stream takes that. May be called again to send the
    /// rest.
    pub fn close(&mut self, stream: &mut impl Write) {
        self.session.close();
        // A peer that does not read any more needs no farewell.
        let _ = self.flush(stream);
    }

    /// Receives once, and sends what the session has to say to that.
    fn receive(&mut self, stream: &mut (impl Read + Write)) -> io::Result<()> {
        let mut ciphertext = [0; READ_BYTES];
        let count = match stream.read(&mut ciphertext)? {
            // Something may have come before that was not read yet: it is not received again.
            0 if self.session.is_open() || self.is_server => {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            0 => return self.fail(Error::Protocol(LEFT.to_owned())),
            count => count,
        };
        let is_first = !std::mem::replace(&mut self.has_heard, true);
        if is_first && self.is_server && !is_greeting(&ciphertext[..count]) {
            return self.fail(Error::ClearText);
        }
        if self.taken == self.text.len() {
            self.text.clear();
            self.taken = 0;
        }
        let text = &mut self.text;
        let mut take = |part: &[u8]| text.extend_from_slice(part);
        let ciphertext = &mut ciphertext[..count];
        let received = self.session.receive_in_place(ciphertext, &mut take);
        // An alert, where it failed.
        let sent = self.flush(stream);
        match received {
            Err(error) => self.fail(error),
            // The peer may have said why it does not read any more.
            Ok(()) if !self.text.is_empty() => Ok(()),
            Ok(()) => sent,
        }
    }

    fn fail(&mut self, error: Error) -> io::Result<()> {
        let failed = failed(&error);
        self.failure.get_or_insert(error);
        Err(failed)
    }
}

fn failed(error: &Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("TLS: {error}"))
}

/// Why a server ends a handshake without a word.
const LEFT: &str = "the server closed the connection during the handshake; its port may be one \
                    without TLS";
/// Bytes of one receive call.
const READ_BYTES: usize = 64 * 1024;
/// Bytes that are encrypted at once.
const WRITE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{Made, Named};

    /// A server at the other end of a stream that takes and gives a few bytes at a time.
    struct Echo {
        session: Session,
        at_most: usize,
        /// Of it follows which call would have to wait.
        random: u32,
        is_cut: bool,
    }

    impl Echo {
        fn would_wait(&mut self) -> bool {
            self.random = self
                .random
                .wrapping_mul(1_664_525)
                .wrapping_add(1_013_904_223);
            self.random >> 31 == 0
        }
    }

    impl Read for Echo {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.would_wait() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let outgoing = self.session.outgoing();
            let count = outgoing.len().min(self.at_most).min(buffer.len());
            if count == 0 && !self.is_cut {
                return Err(ErrorKind::WouldBlock.into());
            }
            buffer[..count].copy_from_slice(&outgoing[..count]);
            outgoing.drain(..count);
            Ok(count)
        }
    }

    impl Write for Echo {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.would_wait() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let part = &bytes[..bytes.len().min(self.at_most)];
            let mut text = Vec::new();
            self.session.receive(part, &mut text).unwrap();
            if !text.is_empty() {
                self.session.send(&text).unwrap();
            }
            Ok(part.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ends(at_most: usize) -> (Driver, Echo) {
        let made = Made::self_signed(&Named::new("localhost"));
        let server = made.server();
        let echo = Echo {
            session: Session::server(&server).unwrap(),
            at_most,
            random: 1,
            is_cut: false,
        };
        (Driver::client(&made.client(), "localhost").unwrap(), echo)
    }

    #[test]
    fn a_stream_that_waits_in_the_middle_of_anything_loses_nothing() {
        for at_most in [1, 999, usize::MAX] {
            let (mut driver, mut echo) = ends(at_most);
            while !driver.shake(&mut echo).unwrap() {}
            let data: Vec<u8> = (0..at_most.clamp(100, 200_000))
                .map(|at| at as u8)
                .collect();
            let (mut sent, mut read, mut buffer) = (0, Vec::new(), [0; 700]);
            while read.len() < data.len() {
                if sent < data.len()
                    && let Ok(count) = driver.write(&mut echo, &data[sent..])
                {
                    sent += count;
                }
                driver.flush(&mut echo).unwrap();
                if let Ok(count) = driver.read(&mut echo, &mut buffer) {
                    read.extend_from_slice(&buffer[..count]);
                }
            }
            assert!(read == data, "{at_most}");
            echo.is_cut = true;
            let end = loop {
                match driver.read(&mut echo, &mut buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    end => break end,
                }
            };
            assert_eq!(end.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn a_stream_that_ends_in_the_handshake_may_have_no_tls() {
        let (mut driver, mut echo) = ends(10);
        echo.is_cut = true;
        let error = loop {
            match driver.shake(&mut echo) {
                Ok(is_done) => assert!(!is_done),
                Err(error) => break error,
            }
            echo.session.outgoing().clear();
        };
        assert!(
            error
                .to_string()
                .contains("its port may be one without TLS")
        );
        assert!(driver.failure().is_some());
    }
}
