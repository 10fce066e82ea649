//! A connection that never waits: TCP, with or without TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use tidewire_tls::{Client, Error, Session};

/// What a connection with TLS is made with: the authorities that are trusted, and the name that the
/// server's certificate must have.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Trust, and our own certificate if there is one.
    pub client: Client,
    /// A DNS name or an IP address.
    pub host: String,
}

/// A connection whose socket does not wait. Reads and writes that would have to wait return
/// [`ErrorKind::WouldBlock`], also while its TLS handshake is not done.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    tls: Option<Box<Layer>>,
}

#[derive(Debug)]
struct Layer {
    session: Session,
    /// Decrypted bytes, and how many of them were read.
    text: Vec<u8>,
    taken: usize,
    /// Why the connection has failed.
    failure: Option<Error>,
}

impl Stream {
    /// Takes a socket that does not wait. It may be one whose connection is not established yet.
    ///
    /// # Errors
    /// The host is neither a DNS name nor an IP address.
    pub fn new(socket: TcpStream, tls: Option<&Tls>) -> Result<Stream, Error> {
        let layer = |tls: &Tls| {
            let session = Session::client(&tls.client, &tls.host)?;
            Ok(Box::new(Layer {
                session,
                text: Vec::new(),
                taken: 0,
                failure: None,
            }))
        };
        Ok(Stream {
            socket,
            tls: tls.map(layer).transpose()?,
        })
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns whether bytes can be written: the TLS handshake is done, or there is none.
    pub fn is_open(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.session.is_open())
    }

    /// Returns whether the socket must be waited for to send what TLS has to say.
    pub fn has_outgoing(&self) -> bool {
        let tls = self.tls.as_ref();
        tls.is_some_and(|tls| tls.session.outgoing_bytes() > 0)
    }

    /// Returns why TLS has failed, if that has ended the connection.
    pub fn failure(&self) -> Option<&Error> {
        self.tls.as_ref()?.failure.as_ref()
    }

    /// Goes on with the TLS handshake, as far as that is possible without waiting. Returns whether
    /// it is done.
    ///
    /// # Errors
    /// The handshake has failed: [`Stream::failure`] has the reason if it is one of TLS.
    pub fn shake(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            return Ok(true);
        };
        tls.send(&mut self.socket)?;
        while !tls.session.is_open() {
            match tls.receive(&mut self.socket) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Layer {
    fn read(&mut self, socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.text.len() {
            if self.session.is_ended() {
                return Ok(0);
            }
            self.receive(socket)?;
        }
        let rest = &self.text[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }

    /// Receives once, and sends what the session has to say to that.
    fn receive(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let mut ciphertext = [0; READ_BYTES];
        let count = match socket.read(&mut ciphertext) {
            // Something may have come before that was not read yet: it is not received again.
            Ok(0) if self.session.is_open() => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(0) => return self.fail(Error::Protocol(LEFT.to_owned())),
            Ok(count) => count,
            Err(error) => return Err(error),
        };
        if self.taken == self.text.len() {
            self.text.clear();
            self.taken = 0;
        }
        let text = &mut self.text;
        let mut take = |part: &[u8]| text.extend_from_slice(part);
        let ciphertext = &mut ciphertext[..count];
        let received = self.session.receive_in_place(ciphertext, &mut take);
        // An alert, where it failed.
        let sent = self.send(socket);
        match received {
            Err(error) => self.fail(error),
            Ok(()) => sent,
        }
    }

    fn fail(&mut self, error: Error) -> io::Result<()> {
        let text = format!("TLS: {error}");
        self.failure.get_or_insert(error);
        Err(io::Error::new(ErrorKind::InvalidData, text))
    }

    /// Sends as much of what the session has to say as the kernel accepts.
    fn send(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let outgoing = self.session.outgoing();
        let mut sent = 0;
        let result = loop {
            if sent == outgoing.len() {
                break Ok(());
            }
            match socket.write(&outgoing[sent..]) {
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

    fn write(&mut self, socket: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.send(socket)?;
        // At most one part of ciphertext waits for the socket.
        if !self.session.is_open() || self.session.outgoing_bytes() > 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let part = &bytes[..bytes.len().min(WRITE_BYTES)];
        self.session
            .send(part)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, format!("TLS: {error}")))?;
        self.send(socket)?;
        Ok(part.len())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.read(buffer),
            Some(tls) => tls.read(&mut self.socket, buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write(bytes),
            Some(tls) => tls.write(&mut self.socket, bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => tls.send(&mut self.socket),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            // A peer that does not read any more needs no farewell.
            tls.session.close();
            let _ = tls.send(&mut self.socket);
        }
    }
}

/// Why a server ends a handshake without a word.
const LEFT: &str = "the server closed the connection during the handshake; its port may be one \
                    without TLS";
/// Bytes of one receive call with TLS.
const READ_BYTES: usize = 64 * 1024;
/// Bytes that are encrypted at once.
const WRITE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tidewire_tls::{Refusal, Server, Trust};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (there, _) = listener.accept().unwrap();
        here.set_nonblocking(true).unwrap();
        there.set_nonblocking(true).unwrap();
        (here, there)
    }

    fn made() -> (Server, Client) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let trust = Trust {
            pem: certificate.as_bytes(),
            ..Trust::default()
        };
        let server = Server::new(certificate.as_bytes(), key.as_bytes()).unwrap();
        (server, Client::new(&trust).unwrap())
    }

    /// A server's side, driven by hand.
    struct Peer {
        socket: TcpStream,
        session: Session,
        text: Vec<u8>,
    }

    impl Peer {
        fn turn(&mut self, at_most: usize) {
            let mut part = vec![0; at_most];
            if let Ok(count) = self.socket.read(&mut part) {
                let _ = self.session.receive(&part[..count], &mut self.text);
            }
            let outgoing = self.session.outgoing();
            if let Ok(count) = self.socket.write(&outgoing[..outgoing.len().min(at_most)]) {
                outgoing.drain(..count);
            }
        }
    }

    #[test]
    fn bytes_pass_both_ways_whatever_the_sizes_of_the_parts() {
        let (server, client) = made();
        for at_most in [7, 1_000, 100_000] {
            let (here, there) = pair();
            let host = "localhost".to_owned();
            let client = client.clone();
            let mut stream = Stream::new(here, Some(&Tls { client, host })).unwrap();
            let session = Session::server(&server).unwrap();
            let mut peer = Peer {
                socket: there,
                session,
                text: Vec::new(),
            };
            assert!(stream.has_outgoing() && !stream.is_open());
            assert_eq!(
                stream.write(b"early").unwrap_err().kind(),
                ErrorKind::WouldBlock
            );
            while !stream.shake().unwrap() {
                peer.turn(at_most);
            }
            let data: Vec<u8> = (0..at_most as u32 * 20).map(|one| one as u8).collect();
            let (mut sent, mut read) = (0, Vec::new());
            let mut buffer = [0; 1_000];
            let mut echoed = 0;
            while read.len() < data.len() {
                if sent < data.len()
                    && let Ok(count) = stream.write(&data[sent..])
                {
                    sent += count;
                }
                stream.flush().unwrap();
                peer.turn(at_most);
                let fresh = peer.text[echoed..].to_vec();
                if !fresh.is_empty() {
                    peer.session.send(&fresh).unwrap();
                    echoed = peer.text.len();
                }
                if let Ok(count) = stream.read(&mut buffer) {
                    read.extend_from_slice(&buffer[..count]);
                }
            }
            assert!(peer.text == data && read == data);
            drop(peer);
            let end = loop {
                match stream.read(&mut buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    end => break end,
                }
            };
            end.expect_err("an end that TLS does not announce is no end");
        }
    }

    #[test]
    fn a_wrong_server_is_named_as_the_reason() {
        let (server, client) = made();
        let (here, there) = pair();
        let host = "other.example".to_owned();
        let mut stream = Stream::new(here, Some(&Tls { client, host })).unwrap();
        let session = Session::server(&server).unwrap();
        let mut peer = Peer {
            socket: there,
            session,
            text: Vec::new(),
        };
        let error = loop {
            match stream.shake() {
                Ok(is_done) => assert!(!is_done),
                Err(error) => break error,
            }
            peer.turn(100_000);
        };
        assert!(
            error.to_string().contains("its name is localhost"),
            "{error}"
        );
        let names = vec!["localhost".to_owned()];
        let refusal = Error::Certificate(Refusal::OtherHost { names });
        assert_eq!(stream.failure(), Some(&refusal));
    }
}
