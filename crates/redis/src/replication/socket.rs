//! A replica's connection to its master: TCP with or without TLS, or in a simulation one end of a
//! socket pair.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tidewire_tls::{Client, Session};

use crate::background::Background;

/// A connection whose reads wait no longer than they are told.
#[derive(Debug)]
pub(crate) enum MasterSocket {
    Tcp(TcpStream),
    Secure(TcpStream, Box<SecureStream>),
    Simulated {
        socket: UnixStream,
        background: Background,
        read_time_max: Duration,
    },
}

impl MasterSocket {
    /// Connects, from an address of this machine if one is given.
    pub(super) fn connect(
        background: &Background,
        source: Option<IpAddr>,
        address: SocketAddr,
        timeout: Duration,
    ) -> io::Result<Self> {
        if let Some(socket) = background.dial(address) {
            return Ok(Self::Simulated {
                socket: socket?,
                background: background.clone(),
                read_time_max: timeout,
            });
        }
        let socket = match source {
            Some(source) => tidewire_lane::connect_from(source, address, timeout)?,
            None => TcpStream::connect_timeout(&address, timeout)?,
        };
        socket.set_nodelay(true)?;
        Ok(Self::Tcp(socket))
    }

    /// Begins TLS with the server `host`, and waits for it up to `timeout` a step.
    pub(super) fn secure(self, client: &Client, host: &str, timeout: Duration) -> io::Result<Self> {
        let Self::Tcp(mut socket) = self else {
            return Err(io::Error::other("only a TCP connection can use TLS"));
        };
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        let session = Session::client(client, host).map_err(io::Error::other)?;
        let mut stream = Box::new(SecureStream {
            session,
            text: Vec::new(),
            taken: 0,
        });
        while !stream.session.is_open() {
            stream.send(&mut socket)?;
            stream.receive(&mut socket)?;
        }
        stream.send(&mut socket)?;
        socket.set_write_timeout(None)?;
        Ok(Self::Secure(socket, stream))
    }

    /// A second handle, which ends the connection. It does not read or write.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(socket) | Self::Secure(socket, _) => Self::Tcp(socket.try_clone()?),
            Self::Simulated {
                socket,
                background,
                read_time_max,
            } => Self::Simulated {
                socket: socket.try_clone()?,
                background: background.clone(),
                read_time_max: *read_time_max,
            },
        })
    }

    pub(super) fn set_read_timeout(&mut self, time: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(socket) | Self::Secure(socket, _) => socket.set_read_timeout(Some(time)),
            Self::Simulated { read_time_max, .. } => {
                *read_time_max = time;
                Ok(())
            }
        }
    }

    /// Returns whether it uses TLS.
    pub(super) fn is_secure(&self) -> bool {
        matches!(self, Self::Secure(..))
    }

    /// Limits how long each read and each write waits.
    pub(super) fn set_timeouts(&mut self, time: Duration) -> io::Result<()> {
        if let Self::Tcp(socket) | Self::Secure(socket, _) = self {
            socket.set_write_timeout(Some(time))?;
        }
        self.set_read_timeout(time)
    }

    /// The address of the other side, as CLIENT KILL names it.
    pub(super) fn peer_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(socket) | Self::Secure(socket, _) => socket.peer_addr().ok(),
            Self::Simulated { .. } => None,
        }
    }

    /// Ends the connection, also a read that waits.
    pub(super) fn shut_down(&self) {
        let _ = match self {
            Self::Tcp(socket) | Self::Secure(socket, _) => socket.shutdown(Shutdown::Both),
            Self::Simulated { socket, .. } => socket.shutdown(Shutdown::Both),
        };
    }
}

impl Read for MasterSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(buffer),
            Self::Secure(socket, stream) => stream.read(socket, buffer),
            Self::Simulated {
                socket,
                background,
                read_time_max,
            } => match socket.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    background.doze((*read_time_max).min(NAP));
                    socket.read(buffer)
                }
                read => read,
            },
        }
    }
}

impl Write for MasterSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Secure(socket, stream) => {
                stream.session.send(bytes).map_err(broken)?;
                stream.send(socket)?;
                Ok(bytes.len())
            }
            Self::Simulated {
                socket, background, ..
            } => loop {
                match socket.write(bytes) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => background.doze(NAP),
                    written => return written,
                }
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// TLS over a socket.
#[derive(Debug)]
pub(crate) struct SecureStream {
    session: Session,
    /// Decrypted bytes, and how many of them were read.
    text: Vec<u8>,
    taken: usize,
}

impl SecureStream {
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

    /// Receives once. What the session has to say to that is sent.
    fn receive(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        debug_assert_eq!(self.taken, self.text.len(), "everything was read");
        let mut ciphertext = [0; READ_BYTES];
        let count = socket.read(&mut ciphertext)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.text.clear();
        self.taken = 0;
        let text = &mut self.text;
        let mut take = |part: &[u8]| text.extend_from_slice(part);
        let received = self
            .session
            .receive_in_place(&mut ciphertext[..count], &mut take);
        // An alert, where it failed.
        let sent = self.send(socket);
        received.map_err(broken)?;
        sent
    }

    fn send(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let outgoing = std::mem::take(self.session.outgoing());
        socket.write_all(&outgoing)
    }
}

fn broken(error: tidewire_tls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("TLS: {error}"))
}

/// Bytes of one receive call with TLS.
const READ_BYTES: usize = 16 * 1024;
/// How long a simulated read or write waits at most before it looks again.
const NAP: Duration = Duration::from_millis(10);
