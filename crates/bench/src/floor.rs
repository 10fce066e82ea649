//! The common part of all floors: a server on one epoll that does as little as possible.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;

use rustix::event::epoll::{self, EventData};
use rustix::fd::OwnedFd;

use super::processor_time::{Cores, ProcessorClock};

/// The behaviour of a floor.
pub(super) trait Floor: Send + 'static {
    /// State of one connection.
    type State;

    /// Called for a new connection.
    fn greet(&self) -> Self::State;

    /// Called with the bytes of a connection. On an error the connection is closed.
    ///
    /// # Errors
    /// Those of the connection.
    fn receive(
        &self,
        clients: &mut [Option<Client<Self::State>>],
        index: usize,
        input: &[u8],
    ) -> io::Result<()>;
}

/// A connection.
pub(super) struct Client<S> {
    pub(super) stream: TcpStream,
    pub(super) state: S,
}

/// Counts requests of a fixed length in the received bytes.
#[derive(Debug)]
pub(super) struct RequestCount {
    length: usize,
    /// Received bytes of an incomplete request.
    partial_bytes: usize,
}

impl RequestCount {
    pub(super) fn new(length: usize) -> Self {
        Self {
            length,
            partial_bytes: 0,
        }
    }

    /// Adds `count` bytes; returns how many requests end with them.
    pub(super) fn add(&mut self, count: usize) -> usize {
        let bytes = self.partial_bytes + count;
        self.partial_bytes = bytes % self.length;
        bytes / self.length
    }
}

/// Starts one on the servers' core; its thread ends with the program.
///
/// # Errors
/// Those of the system.
pub(super) fn start(floor: impl Floor, cores: Cores) -> io::Result<(SocketAddr, ProcessorClock)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (told, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let pinned = cores.enter_server();
        let _ = told.send(ProcessorClock::of_this_thread());
        let result = pinned.and_then(|_core| serve(&listener, &floor));
        if let Err(error) = result {
            eprintln!("a floor has ended: {error}");
        }
    });
    let clock = heard.recv().map_err(io::Error::other)?;
    Ok((address, clock))
}

fn serve<F: Floor>(listener: &TcpListener, floor: &F) -> io::Result<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    watch(&poll, listener, LISTENER)?;
    let mut clients: Vec<Option<Client<F::State>>> = Vec::new();
    let mut input = vec![0; BUFFER_BYTES];
    let mut events = Vec::with_capacity(1_024);
    loop {
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            let number = event.data.u64();
            if number == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let free = clients.iter().position(Option::is_none);
                let index = free.unwrap_or(clients.len());
                watch(&poll, &stream, index as u64)?;
                let state = floor.greet();
                let client = Some(Client { stream, state });
                match free {
                    Some(index) => clients[index] = client,
                    None => clients.push(client),
                }
                continue;
            }
            let index = number as usize;
            let Some(client) = &mut clients[index] else {
                continue;
            };
            let count = client.stream.read(&mut input).unwrap_or(0);
            if count == 0 || floor.receive(&mut clients, index, &input[..count]).is_err() {
                clients[index] = None;
            }
        }
    }
}

fn watch(poll: &OwnedFd, source: impl rustix::fd::AsFd, number: u64) -> io::Result<()> {
    let data = EventData::new_u64(number);
    Ok(epoll::add(poll, source, data, epoll::EventFlags::IN)?)
}

const LISTENER: u64 = u64::MAX;
/// Bytes received at once, at most.
pub(super) const BUFFER_BYTES: usize = 64 << 10;
