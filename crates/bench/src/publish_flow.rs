//! Publishers who publish again as soon as they are answered, and subscribers who read what comes:
//! one epoll of the load's thread for all of them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::publish_floor::Script;

/// All connections, and the bytes each must still read.
#[derive(Debug)]
pub(super) struct Flow<'s> {
    script: &'s Script,
    poll: rustix::fd::OwnedFd,
    /// Publishers first.
    peers: Vec<TcpStream>,
    publishers: usize,
    /// Bytes of its answer that each publisher still waits for.
    unanswered: Vec<usize>,
    /// Bytes that each subscriber has read.
    read_bytes: Vec<u64>,
    published: u64,
}

impl<'s> Flow<'s> {
    /// Connections that are subscribed, or will publish.
    ///
    /// # Errors
    /// There is no epoll, or a socket stays blocking.
    pub(super) fn new(
        script: &'s Script,
        publishers: Vec<TcpStream>,
        subscribers: Vec<TcpStream>,
    ) -> io::Result<Self> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        let (count, readers) = (publishers.len(), subscribers.len());
        let mut peers = Vec::with_capacity(count + readers);
        for (number, stream) in publishers.into_iter().chain(subscribers).enumerate() {
            stream.set_nonblocking(true)?;
            let data = EventData::new_u64(number as u64);
            epoll::add(&poll, stream.as_fd(), data, EventFlags::IN)?;
            peers.push(stream);
        }
        Ok(Self {
            script,
            poll,
            peers,
            publishers: count,
            unanswered: vec![0; count],
            read_bytes: vec![0; readers],
            published: 0,
        })
    }

    /// Publishes for `duration`, and reads until everything is delivered. Returns the number of
    /// published messages.
    ///
    /// # Errors
    /// The server closes a connection, sends something else, or is silent for ten seconds.
    pub(super) fn run(&mut self, duration: Duration) -> io::Result<u64> {
        let begun = self.published;
        let end = Instant::now() + duration;
        for publisher in 0..self.publishers {
            self.publish(publisher)?;
        }
        let mut buffer = vec![0; READ_BYTES];
        let mut events = Vec::with_capacity(EVENTS);
        while !self.is_delivered() {
            events.clear();
            let patience = rustix::time::Timespec {
                tv_sec: PATIENCE_S,
                tv_nsec: 0,
            };
            let space = rustix::buffer::spare_capacity(&mut events);
            if epoll::wait(&self.poll, space, Some(&patience))? == 0 {
                return Err(ErrorKind::TimedOut.into());
            }
            let goes_on = Instant::now() < end;
            for event in &events {
                self.read(event.data.u64() as usize, goes_on, &mut buffer)?;
            }
        }
        Ok(self.published - begun)
    }

    fn publish(&mut self, publisher: usize) -> io::Result<()> {
        self.unanswered[publisher] = self.script.answer.len();
        self.published += 1;
        // A request is far shorter than the free buffer of a socket without unsent bytes.
        self.peers[publisher].write_all(&self.script.request)
    }

    fn read(&mut self, peer: usize, goes_on: bool, buffer: &mut [u8]) -> io::Result<()> {
        let count = match self.peers[peer].read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        if let Some(unanswered) = self.unanswered.get_mut(peer) {
            let answer = &self.script.answer;
            let from = answer.len() - *unanswered;
            super::load::check(
                &buffer[..count],
                answer.get(from..from + count).unwrap_or(&[]),
            )?;
            *unanswered -= count;
            return match *unanswered {
                0 if goes_on => self.publish(peer),
                _ => Ok(()),
            };
        }
        let read_bytes = &mut self.read_bytes[peer - self.publishers];
        let message = &self.script.message;
        let mut place = (*read_bytes % message.len() as u64) as usize;
        let mut left = &buffer[..count];
        while !left.is_empty() {
            // What is read may begin and end in the middle of a message.
            let ahead = &message[place..];
            let (part, rest) = left.split_at(left.len().min(ahead.len()));
            super::load::check(part, ahead)?;
            place = (place + part.len()) % message.len();
            left = rest;
        }
        *read_bytes += count as u64;
        Ok(())
    }

    /// Returns whether every publisher has its answer, and every subscriber every message.
    fn is_delivered(&self) -> bool {
        let due_bytes = self.published * self.script.message.len() as u64;
        self.unanswered.iter().all(|&bytes| bytes == 0)
            && self.read_bytes.iter().all(|&bytes| bytes == due_bytes)
    }
}

const EVENTS: usize = 256;
const READ_BYTES: usize = 64 * 1024;
const PATIENCE_S: i64 = 10;
