//! Load on a RESP server: a thread with an epoll of its own, requests formatted beforehand.
//!
//! Every reply is compared with the expected one, byte for byte, so a server that answers wrongly
//! is not measured. The comparison is the whole cost of reading a reply. For replies that vary (a
//! count, an identifier) only the type is checked.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::epoll;
use rustix::event::{Timespec, epoll::EventData};
use rustix::fd::OwnedFd;

use super::requests::{OK, Reply, Requests, Workset};

/// Results of a load.
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

    /// Adds the results of another thread for the same time.
    pub(crate) fn add(&mut self, other: &Outcome) {
        self.operations += other.operations;
        self.elapsed = self.elapsed.max(other.elapsed);
        let added = self.latency_ns.add(&other.latency_ns);
        added.expect("all outcomes have the same bounds");
    }
}

/// A closed loop: each connection sends a fixed number of requests at once, and the next ones
/// when all are answered.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    poll: OwnedFd,
    connections: Vec<Connection>,
    requests: &'a Requests,
    /// All replies a connection waits for, if all are the same.
    expected: Vec<u8>,
    pipeline: usize,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// Number of the request to send next.
    next: usize,
    /// Requests in progress that the socket has not accepted yet.
    unsent: Range<usize>,
    /// Bytes, or lines, of the replies to the requests in progress.
    received: usize,
    /// Whether the last byte received was within a line.
    in_line: bool,
    sent: Instant,
}

impl<'a> Load<'a> {
    /// Connects and sends each connection's first requests. The number of a connection, among
    /// those of all threads, selects where in the requests it begins.
    ///
    /// # Errors
    /// The server is not there.
    pub(crate) fn start(
        address: SocketAddr,
        requests: &'a Requests,
        connections: Range<usize>,
        pipeline: usize,
    ) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut load = Self {
            poll,
            connections: Vec::with_capacity(connections.len()),
            expected: requests.replies(pipeline),
            requests,
            pipeline,
            buffer: vec![0; BUFFER_BYTES],
        };
        let all = connections.end.max(1);
        for (index, number) in connections.enumerate() {
            let stream = connect(address)?;
            let data = EventData::new_u64(index as u64);
            epoll::add(&load.poll, &stream, data, epoll::EventFlags::IN)?;
            load.connections.push(Connection {
                stream,
                next: (requests.count() / all * number) / pipeline * pipeline,
                unsent: 0..0,
                received: 0,
                in_line: false,
                sent: Instant::now(),
            });
            load.send(index, Instant::now())?;
        }
        Ok(load)
    }

    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Runs for `duration`.
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
        if !connection.unsent.is_empty() {
            connection.flush(&self.poll, index, self.requests)?;
        }
        let count = match connection.stream.read(&mut self.buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Instant::now()),
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        let replies = &self.buffer[..count];
        let before = connection.received;
        let (answered, is_whole) = match &self.requests.reply {
            Reply::Exact(reply) => {
                check(replies, &self.expected[before..])?;
                connection.received += count;
                let received = connection.received;
                (
                    received / reply.len() - before / reply.len(),
                    received == self.expected.len(),
                )
            }
            Reply::Each(each) => {
                let first = connection.next - self.pipeline;
                let span = each.span(first, self.pipeline);
                check(replies, &each.bytes[span.start + before..span.end])?;
                connection.received += count;
                let ends = &each.ends[first..][..self.pipeline];
                let upto = |bytes: usize| ends.partition_point(|&end| end <= span.start + bytes);
                let answered = upto(connection.received) - upto(before);
                (answered, connection.received == span.len())
            }
            &Reply::Lines { first, count } => {
                connection.count_lines(replies, first, count)?;
                let received = connection.received;
                (
                    received / count - before / count,
                    received == count * self.pipeline,
                )
            }
        };
        outcome.record(now.duration_since(connection.sent), answered as u64);
        if is_whole {
            self.send(index, now)?;
        }
        Ok(now)
    }

    fn send(&mut self, index: usize, now: Instant) -> io::Result<()> {
        let connection = &mut self.connections[index];
        if connection.next + self.pipeline > self.requests.count() {
            connection.next = 0;
        }
        connection.unsent = self.requests.span(connection.next, self.pipeline);
        connection.next += self.pipeline;
        connection.received = 0;
        connection.sent = now;
        connection.write(self.requests)?;
        if !connection.unsent.is_empty() {
            watch(&self.poll, connection, index, true)?;
        }
        Ok(())
    }
}

impl Connection {
    /// Sends as much as the socket accepts.
    fn write(&mut self, requests: &Requests) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(requests.bytes(self.unsent.clone())) {
                Ok(count) => self.unsent.start += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends the rest of requests that the socket accepted only in part.
    fn flush(&mut self, poll: &OwnedFd, index: usize, requests: &Requests) -> io::Result<()> {
        self.write(requests)?;
        match self.unsent.is_empty() {
            true => watch(poll, self, index, false),
            false => Ok(()),
        }
    }
}

/// Watches or stops watching a connection for writability.
fn watch(poll: &OwnedFd, connection: &Connection, index: usize, writes: bool) -> io::Result<()> {
    let flags = match writes {
        true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        false => epoll::EventFlags::IN,
    };
    let data = EventData::new_u64(index as u64);
    Ok(epoll::modify(poll, &connection.stream, data, flags)?)
}

impl Connection {
    /// Expects replies of a fixed number of lines, each of which begins with `first`.
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
pub(crate) fn fill(address: SocketAddr, set: Workset) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let value = set.value();
    let batch = (FILL_BYTES / (value.len() + 64)).clamp(1, FILL_REQUESTS);
    let (mut requests, mut received) = (Vec::new(), Vec::new());
    let mut keys = 0..set.keys;
    while !keys.is_empty() {
        requests.clear();
        let mut count = 0;
        for key in keys.by_ref().take(batch) {
            requests.extend_from_slice(&Workset::set_request(key, &value));
            count += 1;
        }
        stream.write_all(&requests)?;
        received.resize(count * OK.len(), 0);
        stream.read_exact(&mut received)?;
        check(&received, &OK.repeat(count))?;
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

/// Checks that `expected` begins with `replies`.
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

const FILL_REQUESTS: usize = 1_000;
/// At once while keys are set.
const FILL_BYTES: usize = 1 << 20;
const BUFFER_BYTES: usize = 64 << 10;
/// The largest latency resolved.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
const SILENCE_MAX: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};
