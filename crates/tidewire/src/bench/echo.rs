//! The floor: a server that parses nothing and answers `+OK` to so many bytes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use rustix::event::epoll::{self, EventData};
use rustix::fd::OwnedFd;

use super::processor_time::{Cores, ProcessorClock};

/// A running echo server; its thread ends with the program.
#[derive(Debug)]
pub(crate) struct EchoServer {
    pub(crate) address: SocketAddr,
    pub(crate) clock: ProcessorClock,
    request_bytes: Arc<AtomicUsize>,
}

impl EchoServer {
    /// Starts it on the servers' core.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn start(cores: Cores) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let request_bytes = Arc::new(AtomicUsize::new(1));
        let (told, heard) = mpsc::channel();
        let length = request_bytes.clone();
        std::thread::spawn(move || {
            let pinned = cores.enter_server();
            let _ = told.send(ProcessorClock::of_this_thread());
            let result = pinned.and_then(|_core| serve(&listener, &length));
            if let Err(error) = result {
                tracing::error!(%error, "the echo server has ended");
            }
        });
        let clock = heard.recv().map_err(io::Error::other)?;
        Ok(Self {
            address,
            clock,
            request_bytes,
        })
    }

    /// How long a request is, for connections made from now on.
    pub(crate) fn set_request_bytes(&self, length: usize) {
        self.request_bytes.store(length, Ordering::SeqCst);
    }
}

struct Client {
    stream: TcpStream,
    request_bytes: usize,
    /// Bytes received of a request that is not whole.
    partial_bytes: usize,
}

fn serve(listener: &TcpListener, request_bytes: &AtomicUsize) -> io::Result<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    watch(&poll, listener, LISTENER)?;
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut input = vec![0; BUFFER_BYTES];
    let replies = b"+OK\r\n".repeat(BUFFER_BYTES);
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
                    request_bytes: request_bytes.load(Ordering::SeqCst),
                    partial_bytes: 0,
                });
                match free {
                    Some(index) => clients[index] = client,
                    None => clients.push(client),
                }
            } else if let Some(place) = clients.get_mut(number as usize)
                && place
                    .as_mut()
                    .is_some_and(|client| client.answer(&mut input, &replies).is_err())
            {
                *place = None;
            }
        }
    }
}

impl Client {
    fn answer(&mut self, input: &mut [u8], replies: &[u8]) -> io::Result<()> {
        let count = self.stream.read(input)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let bytes = self.partial_bytes + count;
        self.partial_bytes = bytes % self.request_bytes;
        let requests = bytes / self.request_bytes;
        self.stream.write_all(&replies[..requests * REPLY_BYTES])
    }
}

fn watch(poll: &OwnedFd, source: impl rustix::fd::AsFd, number: u64) -> io::Result<()> {
    let data = EventData::new_u64(number);
    Ok(epoll::add(poll, source, data, epoll::EventFlags::IN)?)
}

const LISTENER: u64 = u64::MAX;
const BUFFER_BYTES: usize = 64 << 10;
const REPLY_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::time::Duration;

    use super::super::load::Load;
    use super::super::open_loop::OpenLoop;
    use super::super::requests::{Requests, Workset};
    use super::*;

    fn echo(requests: &Requests) -> EchoServer {
        let echo = EchoServer::start(Cores::new(false)).unwrap();
        echo.set_request_bytes(requests.length());
        echo
    }

    #[test]
    fn every_request_of_a_closed_loop_is_answered_and_counted() {
        let requests = Requests::set(Workset::default());
        let echo = echo(&requests);
        let mut load = Load::start(echo.address, &requests, 0..3, 16).unwrap();
        let outcome = load.run(Duration::from_millis(20)).unwrap();
        assert!(outcome.operations > 0);
        assert_eq!(outcome.operations, outcome.latency_ns.len());
    }

    #[test]
    fn an_open_loop_asks_as_often_as_it_should_however_late_the_answers() {
        let requests = Requests::get(Workset::default()).answered_ok();
        let echo = echo(&requests);
        let rate = NonZeroU64::new(10_000).unwrap();
        let mut load = OpenLoop::start(echo.address, &requests, 3, rate).unwrap();
        let outcome = load.run(Duration::from_millis(50)).unwrap();
        assert_eq!(outcome.operations, 500);
        assert_eq!(outcome.operations, outcome.latency_ns.len());
    }

    #[test]
    fn requests_longer_than_a_socket_takes_arrive_whole() {
        let requests = Requests::set(Workset::of(65_536));
        let echo = echo(&requests);
        let mut load = Load::start(echo.address, &requests, 0..2, 256).unwrap();
        let outcome = load.run(Duration::from_millis(100)).unwrap();
        assert!(outcome.operations > 0);
    }

    #[test]
    fn a_server_that_answers_wrongly_is_not_measured() {
        let requests = Requests::get(Workset::default());
        let echo = echo(&requests);
        let mut load = Load::start(echo.address, &requests, 0..1, 1).unwrap();
        let error = load.run(Duration::from_millis(20)).unwrap_err();
        assert!(error.to_string().contains("unexpected reply"), "{error}");
    }
}
