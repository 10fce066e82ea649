//! Load at a fixed rate: each request has a scheduled time, and its latency counts from there. If
//! the server falls behind, its latency grows while the rate stays.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData};
use rustix::fd::OwnedFd;
use tidewire_feed::simulation::Schedule;

use super::load::{Outcome, check, connect};
use super::requests::Requests;

/// An open loop over N connections, each of which gets every Nth request.
///
/// The thread never sleeps: waking up would be measured with the server.
#[derive(Debug)]
pub(crate) struct OpenLoop<'a> {
    poll: OwnedFd,
    connections: Vec<Connection>,
    requests: &'a Requests,
    rate: NonZeroU64,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    unsent: Vec<u8>,
    /// The requests under way.
    due: VecDeque<Due>,
    /// Received bytes of an incomplete reply.
    partial_bytes: usize,
}

/// A request in progress.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// Its place in the requests.
    number: usize,
    /// Scheduled time, nanoseconds since the start; `None` once it has been given up.
    due_ns: Option<u64>,
}

impl<'a> OpenLoop<'a> {
    /// Connects.
    ///
    /// # Errors
    /// The server is not there.
    pub(crate) fn start(
        address: SocketAddr,
        requests: &'a Requests,
        connections: usize,
        rate: NonZeroU64,
    ) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut opened = Vec::with_capacity(connections);
        for number in 0..connections {
            let stream = connect(address)?;
            let data = EventData::new_u64(number as u64);
            epoll::add(&poll, &stream, data, epoll::EventFlags::IN)?;
            opened.push(Connection {
                stream,
                unsent: Vec::new(),
                due: VecDeque::new(),
                partial_bytes: 0,
            });
        }
        Ok(Self {
            poll,
            connections: opened,
            requests,
            rate,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Sends requests for the given time and waits for the replies. Requests unanswered after
    /// [`DRAIN_TIME`] count as answered then.
    ///
    /// # Errors
    /// The server has ended, or has answered wrongly.
    pub(crate) fn run(&mut self, duration: Duration) -> io::Result<Outcome> {
        let mut outcome = Outcome::new();
        let start = Instant::now();
        let mut schedule = Schedule::new(0, self.rate);
        let mut number = 0;
        let mut events = Vec::with_capacity(self.connections.len());
        let duration_ns = duration.as_nanos() as u64;
        loop {
            let now_ns = start.elapsed().as_nanos() as u64;
            // Requests that became due while this thread did not run are sent late.
            let due = schedule.due(now_ns.min(duration_ns - 1));
            for _ in 0..due {
                self.ask(number, schedule.time_ns(number));
                number += 1;
            }
            schedule.sent(due);
            if now_ns >= duration_ns {
                if self.connections.iter().all(|c| c.due.is_empty()) {
                    break;
                }
                if now_ns > duration_ns + DRAIN_TIME.as_nanos() as u64 {
                    self.give_up(now_ns, &mut outcome);
                    break;
                }
            }
            self.flush()?;
            let buffer = rustix::buffer::spare_capacity(&mut events);
            epoll::wait(&self.poll, buffer, Some(&NO_TIME))?;
            for event in events.drain(..) {
                self.receive(event.data.u64() as usize, start, &mut outcome)?;
            }
        }
        outcome.elapsed = duration;
        Ok(outcome)
    }

    fn ask(&mut self, number: u64, due_ns: u64) {
        let index = number as usize % self.connections.len();
        let connection = &mut self.connections[index];
        let number = number as usize % self.requests.count();
        connection
            .unsent
            .extend_from_slice(self.requests.slice(number, 1));
        connection.due.push_back(Due {
            number,
            due_ns: Some(due_ns),
        });
    }

    fn flush(&mut self) -> io::Result<()> {
        let waiting = self.connections.iter_mut().filter(|c| !c.unsent.is_empty());
        for connection in waiting {
            match connection.stream.write(&connection.unsent) {
                Ok(count) => drop(connection.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self, index: usize, start: Instant, outcome: &mut Outcome) -> io::Result<()> {
        let connection = &mut self.connections[index];
        let count = connection.stream.read(&mut self.buffer)?;
        let now_ns = start.elapsed().as_nanos() as u64;
        let mut left = &self.buffer[..count];
        while !left.is_empty() {
            // A reply without a request is wrong.
            let due = connection.due.front();
            let reply = due.map_or(&[][..], |due| self.requests.reply(due.number));
            let ahead = &reply[connection.partial_bytes..];
            let (part, rest) = left.split_at(left.len().min(ahead.len().max(1)));
            check(part, ahead)?;
            left = rest;
            if part.len() < ahead.len() {
                connection.partial_bytes += part.len();
            } else if let Some(due) = connection.due.pop_front() {
                connection.partial_bytes = 0;
                if let Some(due_ns) = due.due_ns {
                    outcome.record(Duration::from_nanos(now_ns.saturating_sub(due_ns)), 1);
                }
            }
        }
        Ok(())
    }

    fn give_up(&mut self, now_ns: u64, outcome: &mut Outcome) {
        for connection in &mut self.connections {
            for due_ns in connection
                .due
                .iter_mut()
                .filter_map(|due| due.due_ns.take())
            {
                outcome.record(Duration::from_nanos(now_ns - due_ns), 1);
            }
        }
    }
}

const BUFFER_BYTES: usize = 64 << 10;
const DRAIN_TIME: Duration = Duration::from_secs(1);
const NO_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};
