//! One connection of a client.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use tidewire_feed::client::{BackOff, Client, Connector, Side, Sink, Step};

use crate::stream::{Stream, Tls};
use crate::{Change, Ending};

/// The connection of one side, which reconnects whenever it ends.
#[derive(Debug)]
pub(crate) struct Link {
    address: SocketAddr,
    tls: Option<Tls>,
    connector: Connector,
    /// The connection, established or in progress.
    stream: Option<Stream>,
    input: Vec<u8>,
    out: Vec<u8>,
    chunk: Box<[u8]>,
}

impl Link {
    pub(crate) fn new(
        side: Side,
        address: SocketAddr,
        tls: Option<Tls>,
        back_off: BackOff,
        seed: u64,
    ) -> Link {
        Link {
            address,
            tls,
            connector: Connector::new(side, back_off, seed ^ side as u64),
            stream: None,
            input: Vec::new(),
            out: Vec::new(),
            chunk: vec![0; CHUNK_BYTES].into(),
        }
    }

    pub(crate) fn set_tls(&mut self, client: &tidewire_tls::Client) {
        if let Some(tls) = &mut self.tls {
            tls.client = client.clone();
        }
    }

    pub(crate) fn side(&self) -> Side {
        self.connector.side()
    }

    pub(crate) fn is_standing(&self) -> bool {
        self.connector.is_standing()
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connector.connections()
    }

    pub(crate) fn deadline_ns(&self, client: &Client) -> u64 {
        self.connector.deadline_ns(client)
    }

    /// Returns the descriptor and events to poll.
    pub(crate) fn watched(&self) -> Option<PollFd<'_>> {
        let stream = self.stream.as_ref()?;
        let is_established = self.is_standing() || stream.socket().peer_addr().is_ok();
        let has_output = self.is_standing() && !self.out.is_empty() || stream.has_outgoing();
        let flags = match (is_established, has_output) {
            (false, _) => PollFlags::OUT,
            (true, false) => PollFlags::IN,
            (true, true) => PollFlags::IN | PollFlags::OUT,
        };
        Some(PollFd::from_borrowed_fd(stream.as_fd(), flags))
    }

    /// Does what is due. Returns whether there may be more to receive.
    pub(crate) fn turn<S: Sink>(
        &mut self,
        client: &mut Client,
        now_ns: u64,
        sink: &mut S,
        changes: &mut VecDeque<Change>,
    ) -> bool {
        match self.step(client, now_ns, sink, changes) {
            Ok(more) => more,
            Err(ending) => {
                self.end(client, now_ns, ending, changes);
                false
            }
        }
    }

    /// Closes the connection; it reconnects later.
    pub(crate) fn end(
        &mut self,
        client: &mut Client,
        now_ns: u64,
        ending: Ending,
        changes: &mut VecDeque<Change>,
    ) {
        let by_server = self.is_standing() && matches!(ending, Ending::Closed | Ending::System(_));
        self.stream = None;
        self.input.clear();
        self.out.clear();
        self.connector.ended(client, now_ns);
        // The server's own reason says more than that the connection has ended.
        let refusal = client.refusal(self.side()).filter(|_| by_server);
        let ending = refusal.map_or(ending, |&refused| Ending::Refused(refused));
        changes.push_back(Change::Ended(self.side(), ending));
    }

    fn step<S: Sink>(
        &mut self,
        client: &mut Client,
        now_ns: u64,
        sink: &mut S,
        changes: &mut VecDeque<Change>,
    ) -> Result<bool, Ending> {
        let side = self.side();
        if self.connector.step(client, now_ns) == Step::Connect {
            changes.push_back(Change::Connecting(side));
            self.connector.connecting(now_ns);
            let socket = begin(self.address).map_err(system)?;
            let stream = Stream::new(socket, self.tls.as_ref()).map_err(Ending::Tls)?;
            self.stream = Some(stream);
        }
        let is_standing = self.is_standing();
        let Some(stream) = &mut self.stream else {
            return Ok(false);
        };
        if !is_standing {
            if let Some(error) = stream.socket().take_error().map_err(system)? {
                return Err(system(error));
            }
            let is_established = stream.socket().peer_addr().is_ok();
            let is_open = match is_established {
                true => stream.shake().map_err(|error| ending(stream, &error))?,
                false => false,
            };
            if !is_open {
                return match self.connector.step(client, now_ns) {
                    Step::GiveUp => Err(Ending::NoAnswer),
                    _ => Ok(false),
                };
            }
            self.connector.connected(client, now_ns);
            changes.push_back(Change::Connected(side));
        }
        let more = self.receive(client, now_ns, sink)?;
        if let Err(ending) = self.send(client) {
            // The server may have said before why it takes no more.
            while self.receive(client, now_ns, sink)? {}
            return Err(ending);
        }
        if self.connector.step(client, now_ns) == Step::Silent {
            return Err(Ending::Silent);
        }
        Ok(more)
    }

    /// Receives a limited number of times.
    fn receive<S: Sink>(
        &mut self,
        client: &mut Client,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<bool, Ending> {
        let Some(stream) = &mut self.stream else {
            return Ok(false);
        };
        for _ in 0..READS_MAX {
            let count = match stream.read(&mut self.chunk) {
                Ok(0) => return Err(Ending::Closed),
                Ok(count) => count,
                Err(error) if is_temporary(&error) => return Ok(false),
                Err(error) => return Err(ending(stream, &error)),
            };
            let fresh = &self.chunk[..count];
            if self.input.is_empty() {
                let used = self.connector.received(client, fresh, now_ns, sink)?;
                self.input.extend_from_slice(&fresh[used..]);
            } else {
                self.input.extend_from_slice(fresh);
                let used = self.connector.received(client, &self.input, now_ns, sink)?;
                self.input.drain(..used);
            }
        }
        Ok(true)
    }

    fn send(&mut self, client: &mut Client) -> Result<(), Ending> {
        client.drain_outgoing(self.connector.side(), &mut self.out);
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        while !self.out.is_empty() {
            match stream.write(&self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if is_temporary(&error) => break,
                Err(error) => return Err(ending(stream, &error)),
            }
        }
        // What TLS itself has to say, and what the kernel did not accept before.
        let flushed = stream.flush();
        flushed.map_err(|error| ending(stream, &error))
    }
}

/// Starts a connection attempt without waiting for it.
fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// Why a connection ends: TLS has more to say than the system.
fn ending(stream: &Stream, error: &io::Error) -> Ending {
    match stream.failure() {
        Some(failure) => Ending::Tls(failure.clone()),
        None => Ending::System(error.kind()),
    }
}

fn system(error: io::Error) -> Ending {
    Ending::System(error.kind())
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

const CHUNK_BYTES: usize = 256 * 1024;
const READS_MAX: usize = 16;
