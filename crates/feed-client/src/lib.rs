//! A client of the native feed (`docs/feed-protocol.md`): given addresses and patterns, it
//! connects, logs in, resumes where the stream stopped, and requests missing messages.
//!
//! The state machines are those of `tidewire-feed`; this crate adds sockets and a clock. It has no
//! thread: the owner of the client waits and drives it.
//!
//! ```no_run
//! use std::time::Duration;
//! use tidewire_feed::client::{Gap, Sink};
//! use tidewire_feed::wire::{LastValue, Message};
//! use tidewire_feed_client::{FeedClient, FeedClientConfig};
//!
//! struct Print;
//!
//! impl Sink for Print {
//!     fn message(&mut self, sequence: u64, message: &Message) {
//!         println!("{sequence}: {message:?}");
//!     }
//!     fn snapshot_record(&mut self, as_of: u64, record: &LastValue) {
//!         println!("as of {as_of}: {record:?}");
//!     }
//!     fn gap(&mut self, gap: Gap) {
//!         eprintln!("{gap:?}");
//!     }
//! }
//!
//! let mut client = FeedClient::new(FeedClientConfig::of("127.0.0.1:9876".parse()?))?;
//! client.subscribe("*")?;
//! loop {
//!     client.wait(Duration::from_millis(100));
//!     while client.turn(&mut Print) {}
//!     while let Some(change) = client.next_change() {
//!         eprintln!("{change:?}");
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Two addresses are two inputs of one stream: each fills the gaps of the other. With datagram
//! lines the stream comes over UDP (unicast or multicast), and the connections bring snapshots and
//! messages that both lines have lost.

mod datagrams;
mod link;
mod stream;

#[cfg(test)]
#[path = "../../tls/tests/support/certificates.rs"]
mod certificates;

pub use datagrams::{DATAGRAMS_MAX, Datagrams, connect, listen, sender};

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use tidewire_feed::client::{BackOff, Client, ClientConfig, Side, Sink, SubscribeError};
use tidewire_feed::wire::Refused;

use link::Link;
pub use stream::{Stream, Tls};

/// The configuration of a client.
#[derive(Clone, Debug)]
pub struct FeedClientConfig {
    /// The server, or input A of two.
    pub a: SocketAddr,
    /// Input B: another server of the same session.
    pub b: Option<SocketAddr>,
    /// TLS of inputs A and B, where the servers speak it.
    pub tls: [Option<Tls>; 2],
    /// Addresses of the datagram lines A and B, if the stream comes in datagrams.
    pub lines: [Option<SocketAddr>; 2],
    /// Address of the local interface for multicast.
    pub interface: Ipv4Addr,
    /// Settings of the protocol's state machine.
    pub client: ClientConfig,
    /// Delays between connection attempts.
    pub back_off: BackOff,
}

impl FeedClientConfig {
    /// Returns the configuration for one server over TCP.
    pub fn of(address: SocketAddr) -> FeedClientConfig {
        FeedClientConfig {
            a: address,
            b: None,
            tls: [None, None],
            lines: [None; 2],
            interface: Ipv4Addr::UNSPECIFIED,
            client: ClientConfig::default(),
            back_off: BackOff::default(),
        }
    }
}

/// A change of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A connection attempt has begun.
    Connecting(Side),
    /// The connection is established, and the login has been sent.
    Connected(Side),
    /// It has ended, or could not be made; the client will retry.
    Ended(Side, Ending),
}

/// The reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ending {
    /// The system reported this error.
    #[error("{}", io::Error::from(*.0))]
    System(io::ErrorKind),
    /// The connection attempt timed out.
    #[error("timed out")]
    NoAnswer,
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// TLS refused the server, or the server refused us.
    #[error("TLS: {0}")]
    Tls(tidewire_tls::Error),
    /// Nothing was received for three heartbeat intervals.
    #[error("no reply in the feed's protocol")]
    Silent,
    /// The server refused the login or the subscriptions.
    #[error("{0}")]
    Refused(Refused),
    /// The received bytes are not the feed's protocol.
    #[error(transparent)]
    Protocol(#[from] tidewire_feed::client::ReceiveError),
}

/// A subscriber of a stream over all its connections.
#[derive(Debug)]
pub struct FeedClient {
    client: Client,
    links: Vec<Link>,
    lines: Vec<UdpSocket>,
    datagrams: Option<Datagrams>,
    changes: VecDeque<Change>,
    started: Instant,
}

impl FeedClient {
    /// Creates a client that connects in its first turn.
    ///
    /// # Errors
    /// A line cannot be listened on.
    pub fn new(config: FeedClientConfig) -> io::Result<FeedClient> {
        let lines = config.lines.into_iter().flatten();
        let lines: Vec<UdpSocket> = lines
            .map(|line| listen(line, config.interface))
            .collect::<io::Result<_>>()?;
        let [tls_a, tls_b] = config.tls;
        let addresses = [(Side::A, Some(config.a), tls_a), (Side::B, config.b, tls_b)];
        let seed = SystemTime::now().duration_since(UNIX_EPOCH);
        let seed = seed.map_or(0, |time| time.as_nanos() as u64) ^ u64::from(std::process::id());
        let links = addresses.into_iter().filter_map(|(side, address, tls)| {
            Some(Link::new(side, address?, tls, config.back_off, seed))
        });
        Ok(FeedClient {
            links: links.collect(),
            client: Client::new(ClientConfig {
                datagrams: !lines.is_empty(),
                ..config.client
            }),
            datagrams: (!lines.is_empty()).then(Datagrams::new),
            lines,
            changes: VecDeque::new(),
            started: Instant::now(),
        })
    }

    /// Adds a subscription, now and at every later login.
    ///
    /// # Errors
    /// The pattern is invalid.
    pub fn subscribe(&mut self, pattern: &str) -> Result<(), SubscribeError> {
        self.client.subscribe(pattern)
    }

    /// Removes a subscription. Returns whether it existed.
    pub fn unsubscribe(&mut self, pattern: &str) -> bool {
        self.client.unsubscribe(pattern)
    }

    /// Uses another trust and certificate for TLS at the next attempts to connect.
    pub fn set_tls(&mut self, client: &tidewire_tls::Client) {
        for link in &mut self.links {
            link.set_tls(client);
        }
    }

    /// Returns the state machine, with sequences and counters.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns whether this side is connected.
    pub fn is_connected(&self, side: Side) -> bool {
        let mut links = self.links.iter();
        links.any(|link| link.side() == side && link.is_standing())
    }

    /// Closes this side's connection, as a bad network would. It reconnects, and the stream
    /// resumes.
    pub fn cut(&mut self, side: Side) {
        let now_ns = self.now_ns();
        for link in self.links.iter_mut().filter(|link| link.side() == side) {
            link.end(&mut self.client, now_ns, Ending::Closed, &mut self.changes);
        }
    }

    /// Returns the number of connections made so far.
    pub fn connections(&self) -> u64 {
        self.links.iter().map(Link::connections).sum()
    }

    /// Returns the next change of a connection.
    pub fn next_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// Waits until there is something to do, up to `at_most`.
    pub fn wait(&self, at_most: Duration) {
        let mut descriptors = Vec::with_capacity(self.links.len() + self.lines.len());
        for line in &self.lines {
            descriptors.push(PollFd::from_borrowed_fd(line.as_fd(), PollFlags::IN));
        }
        descriptors.extend(self.links.iter().filter_map(Link::watched));
        let mut deadlines = self.links.iter().map(|link| link.deadline_ns(&self.client));
        let due_ns = deadlines.by_ref().min().unwrap_or(u64::MAX);
        let wait = Duration::from_nanos(due_ns.saturating_sub(self.now_ns())).min(at_most);
        let timeout = Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        };
        // A signal ends the wait early, which does no harm.
        let _ = poll(&mut descriptors, Some(&timeout));
    }

    /// Connects, sends and receives what is due, without waiting. Returns whether there may be
    /// more.
    pub fn turn<S: Sink>(&mut self, sink: &mut S) -> bool {
        let now_ns = self.now_ns();
        let mut more = self.take_datagrams(now_ns, sink);
        if self.client.deadline_ns() <= now_ns {
            self.client.handle_timeout(now_ns, sink);
        }
        let Self {
            client,
            links,
            changes,
            ..
        } = self;
        for link in links {
            more |= link.turn(client, now_ns, sink, changes);
        }
        while self.changes.len() > CHANGES_MAX {
            self.changes.pop_front();
        }
        more
    }

    fn take_datagrams<S: Sink>(&mut self, now_ns: u64, sink: &mut S) -> bool {
        let Some(datagrams) = &mut self.datagrams else {
            return false;
        };
        datagrams.clear();
        let mut more = false;
        let limit = DATAGRAMS_MAX / self.lines.len();
        for (number, line) in self.lines.iter().enumerate() {
            more |= datagrams.take(number, line, limit);
        }
        for (number, datagram) in datagrams.iter() {
            // A malformed datagram is ignored: any host can send one.
            let _ = self
                .client
                .receive_datagram(Side::ALL[number.min(1)], datagram, now_ns, sink);
        }
        more
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// Maximum number of changes kept for a caller that does not read them.
const CHANGES_MAX: usize = 64;
