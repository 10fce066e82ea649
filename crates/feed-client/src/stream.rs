//! A connection that never waits: TCP, with or without TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use tidewire_tls::{Client, Driver, Error};

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
/// [`WouldBlock`](io::ErrorKind::WouldBlock), also while its TLS handshake is not done.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    tls: Option<Box<Driver>>,
}

impl Stream {
    /// Takes a socket that does not wait. It may be one whose connection is not established yet.
    ///
    /// # Errors
    /// The host is neither a DNS name nor an IP address.
    pub fn new(socket: TcpStream, tls: Option<&Tls>) -> Result<Stream, Error> {
        let driver = |tls: &Tls| Driver::client(&tls.client, &tls.host).map(Box::new);
        Ok(Stream {
            socket,
            tls: tls.map(driver).transpose()?,
        })
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns whether bytes can be written: the TLS handshake is done, or there is none.
    pub fn is_open(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.is_open())
    }

    /// Returns whether the socket must be waited for to send what TLS has to say.
    pub fn has_outgoing(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_outgoing())
    }

    /// Returns why TLS has failed, if that has ended the connection.
    pub fn failure(&self) -> Option<&Error> {
        self.tls.as_ref()?.failure()
    }

    /// Goes on with the TLS handshake, as far as that is possible without waiting. Returns whether
    /// it is done.
    ///
    /// # Errors
    /// The handshake has failed: [`Stream::failure`] has the reason if it is one of TLS.
    pub fn shake(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            None => Ok(true),
            Some(tls) => tls.shake(&mut self.socket),
        }
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
            Some(tls) => tls.flush(&mut self.socket),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&mut self.socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpListener;

    use tidewire_tls::{Refusal, Server, Session};

    use super::*;
    use crate::certificates::{Made, Named};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (there, _) = listener.accept().unwrap();
        here.set_nonblocking(true).unwrap();
        there.set_nonblocking(true).unwrap();
        (here, there)
    }

    fn made() -> (Server, Client) {
        let made = Made::self_signed(&Named::new("localhost"));
        (made.server(), made.client())
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
