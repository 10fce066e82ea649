//! The floor of PUBLISH: a server that parses nothing, keeps nothing, and for each request sends
//! one message to every other connection, in one send each.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;

use rustix::event::epoll::{self, EventData};
use rustix::fd::OwnedFd;

use super::processor_time::{Cores, ProcessorClock};

/// What is said, byte for byte.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// Of a connection that begins so: it is a subscriber's.
    pub(super) subscribe: Vec<u8>,
    pub(super) confirmation: Vec<u8>,
    /// Any other sends these, one or more at once.
    pub(super) request: Vec<u8>,
    pub(super) answer: Vec<u8>,
    pub(super) message: Vec<u8>,
}

/// Starts it on the servers' core; its thread ends with the program.
///
/// # Errors
/// Those of the system.
pub(super) fn start(script: Script, cores: Cores) -> io::Result<(SocketAddr, ProcessorClock)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (told, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let pinned = cores.enter_server();
        let _ = told.send(ProcessorClock::of_this_thread());
        let result = pinned.and_then(|_core| serve(&listener, &script));
        if let Err(error) = result {
            tracing::error!(%error, "the floor of PUBLISH has ended");
        }
    });
    let clock = heard.recv().map_err(io::Error::other)?;
    Ok((address, clock))
}

struct Client {
    stream: TcpStream,
    is_subscriber: bool,
    /// Bytes received of a request that is not whole.
    partial_bytes: usize,
}

fn serve(listener: &TcpListener, script: &Script) -> io::Result<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    watch(&poll, listener, LISTENER)?;
    let mut clients: Vec<Option<Client>> = Vec::new();
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
                let client = Some(Client {
                    stream,
                    is_subscriber: false,
                    partial_bytes: 0,
                });
                match free {
                    Some(index) => clients[index] = client,
                    None => clients.push(client),
                }
            } else {
                let index = number as usize;
                match clients[index]
                    .as_mut()
                    .map(|client| client.receive(script, &mut input))
                {
                    Some(Ok(0)) | None => {}
                    Some(Ok(requests)) => publish(&mut clients, index, requests, script)?,
                    Some(Err(_)) => clients[index] = None,
                }
            }
        }
    }
}

/// Sends as many messages as there were requests to all subscribers, then the answers.
fn publish(
    clients: &mut [Option<Client>],
    publisher: usize,
    requests: usize,
    script: &Script,
) -> io::Result<()> {
    let messages = script.message.repeat(requests);
    for client in clients.iter_mut().flatten().filter(|c| c.is_subscriber) {
        // Who has left is taken out when that is read.
        client.is_subscriber = client.stream.write_all(&messages).is_ok();
    }
    match &mut clients[publisher] {
        Some(client) => client.stream.write_all(&script.answer.repeat(requests)),
        None => Ok(()),
    }
}

impl Client {
    /// How many requests have come.
    fn receive(&mut self, script: &Script, input: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(input)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if input[..count] == script.subscribe[..] {
            self.is_subscriber = true;
            self.stream.write_all(&script.confirmation)?;
            return Ok(0);
        }
        let bytes = self.partial_bytes + count;
        self.partial_bytes = bytes % script.request.len();
        Ok(bytes / script.request.len())
    }
}

fn watch(poll: &OwnedFd, source: impl rustix::fd::AsFd, number: u64) -> io::Result<()> {
    let data = EventData::new_u64(number);
    Ok(epoll::add(poll, source, data, epoll::EventFlags::IN)?)
}

const LISTENER: u64 = u64::MAX;
const BUFFER_BYTES: usize = 64 << 10;
