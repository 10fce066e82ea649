//! A replica's connection to its master: TCP with or without TLS, or in a simulation one end of a
//! socket pair.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tidewire_tls::{Client, Driver};

use crate::background::Background;

/// A connection whose reads wait no longer than they are told.
#[derive(Debug)]
pub(crate) enum MasterSocket {
    Tcp(TcpStream),
    Secure(TcpStream, Box<Driver>),
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
        let driver = Driver::client(client, host).map_err(io::Error::other)?;
        let mut driver = Box::new(driver);
        // The socket waits by itself: if it does not go on, the time is over.
        if !driver.shake(&mut socket)? {
            return Err(ErrorKind::TimedOut.into());
        }
        socket.set_write_timeout(None)?;
        Ok(Self::Secure(socket, driver))
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

    /// The address of this side.
    pub(super) fn own_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(socket) | Self::Secure(socket, _) => socket.local_addr().ok(),
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
            Self::Secure(socket, driver) => driver.read(socket, buffer),
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
            Self::Secure(socket, driver) => {
                let count = driver.write(socket, bytes)?;
                match driver.has_outgoing() {
                    true => Err(ErrorKind::TimedOut.into()),
                    false => Ok(count),
                }
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

/// How long a simulated read or write waits at most before it looks again.
const NAP: Duration = Duration::from_millis(10);
