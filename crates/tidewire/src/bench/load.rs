//! Load on a RESP server: one thread, one epoll, requests formatted beforehand.
//!
//! Every reply is compared with the one expected, byte for byte, so a server that answers wrongly
//! is not measured. The comparison is the whole cost of reading a reply. Only of replies that
//! change from one to the next (a count, an identifier) the kind alone is looked at.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::epoll;
use rustix::event::{Timespec, epoll::EventData};
use rustix::fd::OwnedFd;

/// Requests of one kind, all of the same length, over random keys; and the reply to each.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    length: usize,
    count: usize,
    reply: Reply,
}

/// What each request is answered.
#[derive(Clone, Debug)]
enum Reply {
    Exact(Vec<u8>),
    /// So many lines, the first of which begins with this byte.
    Lines {
        first: u8,
        count: usize,
    },
}

impl Requests {
    /// `GET key:000000012345`; the keys must have been set by [`Requests::fill`].
    pub(crate) fn get() -> Self {
        Self::new(random_keys(), b"$16\r\nabcdefghijklmnop\r\n", |key| {
            format!("*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n")
        })
    }

    /// `SET key:000000012345 abcdefghijklmnop`.
    pub(crate) fn set() -> Self {
        Self::new(random_keys(), b"+OK\r\n", set_request)
    }

    /// One SET of each key.
    pub(crate) fn fill() -> Self {
        Self::new((0..KEYS).map(key), b"+OK\r\n", set_request)
    }

    /// Any request over random numbers below [`KEYS`], always of the same length, and the reply
    /// that each gets.
    pub(crate) fn of(reply: &[u8], request: impl Fn(u64) -> Vec<u8>) -> Self {
        Self::answered(Reply::Exact(reply.to_vec()), request)
    }

    /// The same where the replies differ: each is so many lines, and begins with this byte.
    pub(crate) fn of_lines(first: u8, count: usize, request: impl Fn(u64) -> Vec<u8>) -> Self {
        Self::answered(Reply::Lines { first, count }, request)
    }

    fn answered(reply: Reply, request: impl Fn(u64) -> Vec<u8>) -> Self {
        let mut bytes = Vec::new();
        random_numbers().for_each(|number| bytes.extend_from_slice(&request(number)));
        Self {
            length: bytes.len() / REQUESTS,
            bytes,
            count: REQUESTS,
            reply,
        }
    }

    fn new(
        keys: impl Iterator<Item = String>,
        reply: &[u8],
        format: impl Fn(&str) -> String,
    ) -> Self {
        let mut bytes = Vec::new();
        let mut count = 0;
        for key in keys {
            bytes.extend_from_slice(format(&key).as_bytes());
            count += 1;
        }
        Self {
            length: bytes.len() / count,
            bytes,
            count,
            reply: Reply::Exact(reply.to_vec()),
        }
    }

    /// Bytes of one request.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Bytes of one reply, where all are the same.
    pub(crate) fn reply_length(&self) -> usize {
        match &self.reply {
            Reply::Exact(reply) => reply.len(),
            Reply::Lines { .. } => 0,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// `count` requests from the `first` on, as they are sent.
    pub(crate) fn slice(&self, first: usize, count: usize) -> &[u8] {
        &self.bytes[first * self.length..][..count * self.length]
    }

    /// So many replies, where all are the same.
    pub(crate) fn replies(&self, count: usize) -> Vec<u8> {
        match &self.reply {
            Reply::Exact(reply) => reply.repeat(count),
            Reply::Lines { .. } => Vec::new(),
        }
    }

    /// The same requests, to a server that answers `+OK` to everything.
    pub(crate) fn answered_ok(mut self) -> Self {
        self.reply = Reply::Exact(b"+OK\r\n".to_vec());
        self
    }
}

/// What a run of load has found.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Requests answered.
    pub(crate) operations: u64,
    pub(crate) elapsed: Duration,
    /// From sending a request to its reply, ns.
    pub(crate) latency_ns: Histogram<u64>,
}

impl Outcome {
    pub(crate) fn new() -> Self {
        Self {
            operations: 0,
            elapsed: Duration::ZERO,
            latency_ns: Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
                .expect("the bounds are in order"),
        }
    }

    pub(crate) fn record(&mut self, latency: Duration, operations: u64) {
        let ns = (latency.as_nanos() as u64).clamp(1, LATENCY_MAX_NS);
        self.latency_ns.saturating_record_n(ns, operations);
        self.operations += operations;
    }
}

/// A closed loop: each connection sends so many requests at once, and the next when all of them
/// are answered.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    poll: OwnedFd,
    connections: Vec<Connection>,
    requests: &'a Requests,
    /// As many replies as a connection waits for.
    expected: Vec<u8>,
    pipeline: usize,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// Number of the request to send next.
    next: usize,
    /// Bytes, or lines, of the replies to the requests under way.
    received: usize,
    /// The last byte received was within a line.
    in_line: bool,
    sent: Instant,
}

impl<'a> Load<'a> {
    /// Connects, and sends each connection's first requests.
    ///
    /// # Errors
    /// The server is not there.
    pub(crate) fn start(
        address: SocketAddr,
        requests: &'a Requests,
        connections: usize,
        pipeline: usize,
    ) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut load = Self {
            poll,
            connections: Vec::with_capacity(connections),
            expected: requests.replies(pipeline),
            requests,
            pipeline,
            buffer: vec![0; BUFFER_BYTES],
        };
        for number in 0..connections {
            let stream = connect(address)?;
            epoll::add(
                &load.poll,
                &stream,
                EventData::new_u64(number as u64),
                epoll::EventFlags::IN,
            )?;
            load.connections.push(Connection {
                stream,
                next: (requests.count() / connections * number) / pipeline * pipeline,
                received: 0,
                in_line: false,
                sent: Instant::now(),
            });
            load.send(number, Instant::now())?;
        }
        Ok(load)
    }

    /// Goes on for so long.
    ///
    /// # Errors
    /// The server has ended, is silent, or has answered wrongly.
    pub(crate) fn run(&mut self, duration: Duration) -> io::Result<Outcome> {
        let mut outcome = Outcome::new();
        let start = Instant::now();
        let mut now = start;
        let mut events = Vec::with_capacity(self.connections.len());
        while now.duration_since(start) < duration {
            wait(&self.poll, &mut events)?;
            for event in events.drain(..) {
                let index = event.data.u64() as usize;
                now = self.receive(index, &mut outcome)?;
            }
        }
        outcome.elapsed = now.duration_since(start);
        Ok(outcome)
    }

    fn receive(&mut self, index: usize, outcome: &mut Outcome) -> io::Result<Instant> {
        let connection = &mut self.connections[index];
        let count = connection.stream.read(&mut self.buffer)?;
        let now = Instant::now();
        let replies = &self.buffer[..count];
        let before = connection.received;
        let a_reply = match self.requests.reply {
            Reply::Exact(ref reply) => {
                check(replies, &self.expected[before..])?;
                connection.received += count;
                reply.len()
            }
            Reply::Lines { first, count } => {
                connection.count_lines(replies, first, count)?;
                count
            }
        };
        let answered = connection.received / a_reply - before / a_reply;
        outcome.record(now.duration_since(connection.sent), answered as u64);
        if connection.received == a_reply * self.pipeline {
            self.send(index, now)?;
        }
        Ok(now)
    }

    fn send(&mut self, index: usize, now: Instant) -> io::Result<()> {
        let connection = &mut self.connections[index];
        if connection.next + self.pipeline > self.requests.count() {
            connection.next = 0;
        }
        let bytes = self.requests.slice(connection.next, self.pipeline);
        connection.next += self.pipeline;
        connection.received = 0;
        connection.sent = now;
        // Nothing is under way on this connection: the socket takes it whole.
        connection.stream.write_all(bytes)
    }
}

impl Connection {
    /// Replies of so many lines, each of which begins with `first`.
    fn count_lines(&mut self, mut replies: &[u8], first: u8, lines: usize) -> io::Result<()> {
        if replies.is_empty() {
            check(replies, b"")?;
        }
        while let Some(&byte) = replies.first() {
            if !self.in_line && self.received.is_multiple_of(lines) && byte != first {
                check(replies, &[first])?;
            }
            match replies.iter().position(|&byte| byte == b'\n') {
                Some(end) => {
                    self.received += 1;
                    self.in_line = false;
                    replies = &replies[end + 1..];
                }
                None => {
                    self.in_line = true;
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Sets every key once.
///
/// # Errors
/// Those of the connection; a wrong answer.
pub(crate) fn fill(address: SocketAddr) -> io::Result<()> {
    let requests = Requests::fill();
    let mut stream = TcpStream::connect(address)?;
    let replies = requests.replies(FILL_REQUESTS);
    let mut received = vec![0; replies.len()];
    for first in (0..requests.count()).step_by(FILL_REQUESTS) {
        let count = FILL_REQUESTS.min(requests.count() - first);
        let bytes = count * requests.reply_length();
        stream.write_all(requests.slice(first, count))?;
        stream.read_exact(&mut received[..bytes])?;
        check(&received[..bytes], &replies)?;
    }
    Ok(())
}

pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Waits for events; a silence of [`SILENCE_MAX`] is an error.
fn wait(poll: &OwnedFd, events: &mut Vec<epoll::Event>) -> io::Result<()> {
    let buffer = rustix::buffer::spare_capacity(events);
    match epoll::wait(poll, buffer, Some(&SILENCE_MAX)) {
        Ok(0) => Err(io::Error::other("the server does not answer")),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether `replies` are how `expected` begins.
pub(crate) fn check(replies: &[u8], expected: &[u8]) -> io::Result<()> {
    if replies.is_empty() {
        return Err(io::Error::other("the server has closed a connection"));
    }
    if expected.get(..replies.len()) == Some(replies) {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(&replies[..replies.len().min(60)]).into_owned();
    Err(io::Error::other(format!("an unexpected reply: {shown:?}")))
}

fn set_request(key: &str) -> String {
    format!("*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n$16\r\nabcdefghijklmnop\r\n")
}

/// As redis-benchmark writes them with `-r`.
fn key(number: u64) -> String {
    format!("key:{number:012}")
}

fn random_keys() -> impl Iterator<Item = String> {
    random_numbers().map(key)
}

fn random_numbers() -> impl Iterator<Item = u64> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    (0..REQUESTS).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % KEYS
    })
}

/// Keys in use, as `redis-benchmark -r 100000`.
pub(crate) const KEYS: u64 = 100_000;
/// Bytes of every value.
pub(crate) const VALUE_BYTES: usize = 16;
/// Requests formatted beforehand: most of the keys are among them.
const REQUESTS: usize = 1 << 17;
const FILL_REQUESTS: usize = 1_000;
const BUFFER_BYTES: usize = 64 << 10;
/// The greatest latency told apart.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
const SILENCE_MAX: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};
