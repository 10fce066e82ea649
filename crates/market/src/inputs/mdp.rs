//! CME MDP 3.0, received by a thread: lines A and B, recovery and definition feeds.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::str::FromStr;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use tidewire_feed::client::Side;
use tidewire_feed_client::{DATAGRAMS_MAX, Datagrams, listen};
use tidewire_mdp::{ArbiterConfig, ChannelConfig, PacketError, Receiver};
use tidewire_retry::Seldom;
use tracing::{debug, info, warn};

use super::config::{InputError, address, parts};
use super::{Thread, cannot_listen, shown};
use crate::ingest::Batch;

/// `A=GROUP:PORT,B=GROUP:PORT,snapshot=GROUP:PORT,orders=GROUP:PORT,definition=GROUP:PORT,
/// interface=ADDRESS,venue=NAME`. Only A is required, and a bare address is A. The three other
/// feeds may be given twice each, for their lines A and B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdpInput {
    /// Line A of the incremental feed: a multicast group, or an address of this machine.
    pub a: SocketAddr,
    /// Line B, if there is one.
    pub b: Option<SocketAddr>,
    /// Lines of the recovery feed by price.
    pub snapshots: Vec<SocketAddr>,
    /// Lines of the recovery feed by order; with one, books by order are kept.
    pub orders: Vec<SocketAddr>,
    /// Lines of the definition feed.
    pub definitions: Vec<SocketAddr>,
    /// Address of the local interface for multicast.
    pub interface: Ipv4Addr,
    /// Market identifier code of the venue, as INFO shows it.
    pub venue: String,
}

impl FromStr for MdpInput {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let (mut a, mut b) = (None, None);
        let (mut snapshots, mut orders, mut definitions) = (Vec::new(), Vec::new(), Vec::new());
        let (mut interface, mut venue) = (Ipv4Addr::UNSPECIFIED, VENUE.to_owned());
        for part in parts(text) {
            match part.split_once('=') {
                None => a = Some(address(part)?),
                Some(("A" | "a", value)) => a = Some(address(value)?),
                Some(("B" | "b", value)) => b = Some(address(value)?),
                Some(("snapshot", value)) => add_line(&mut snapshots, value)?,
                Some(("orders", value)) => add_line(&mut orders, value)?,
                Some(("definition", value)) => add_line(&mut definitions, value)?,
                Some(("interface", value)) => {
                    interface = value.parse().map_err(|_| {
                        let reason = "an IPv4 address of this machine is expected".to_owned();
                        InputError::BadAddress(value.to_owned(), reason)
                    })?;
                }
                Some(("venue", value)) if value.len() <= VENUE_LENGTH_MAX => {
                    venue = value.to_owned();
                }
                Some(("venue", value)) => {
                    return Err(InputError::TooLong(value.to_owned(), VENUE_LENGTH_MAX));
                }
                Some((name, _)) => {
                    let known = "A, B, snapshot, orders, definition, interface and venue";
                    return Err(InputError::UnknownName(name.to_owned(), known));
                }
            }
        }
        Ok(Self {
            a: a.ok_or(InputError::NoAddress)?,
            b,
            snapshots,
            orders,
            definitions,
            interface,
            venue,
        })
    }
}

fn add_line(lines: &mut Vec<SocketAddr>, text: &str) -> Result<(), InputError> {
    if lines.len() == Side::ALL.len() {
        return Err(InputError::TooMany);
    }
    lines.push(address(text)?);
    Ok(())
}

/// Which feed a socket receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feed {
    Incremental(Side),
    Snapshot,
    Definition,
}

/// The sockets of all feeds.
pub(super) struct Sockets {
    all: Vec<(Feed, UdpSocket)>,
}

impl Sockets {
    pub(super) fn open(input: &MdpInput) -> Result<Self, String> {
        let lines = [(Feed::Incremental(Side::A), Some(input.a))];
        let lines = lines
            .into_iter()
            .chain([(Feed::Incremental(Side::B), input.b)]);
        let mut wanted: Vec<(Feed, SocketAddr)> = lines
            .filter_map(|(feed, address)| Some((feed, address?)))
            .collect();
        let snapshots = input.snapshots.iter().chain(&input.orders);
        wanted.extend(snapshots.map(|&address| (Feed::Snapshot, address)));
        let definitions = input.definitions.iter();
        wanted.extend(definitions.map(|&address| (Feed::Definition, address)));
        debug_assert!(wanted.len() <= SOCKETS_MAX, "two lines of each feed");
        let mut all = Vec::new();
        for (feed, address) in wanted {
            let socket = listen(address, input.interface);
            let socket = socket.map_err(|error: io::Error| cannot_listen(address, &error))?;
            all.push((feed, socket));
        }
        Ok(Self { all })
    }
}

/// Receives until the hub stops.
pub(super) fn run(mut thread: Thread, input: &MdpInput, sockets: Sockets) {
    thread.pin();
    let channel = ChannelConfig {
        order_books: !input.orders.is_empty(),
        ..ChannelConfig::default()
    };
    let mut mdp = MdpReceiver {
        receiver: Receiver::new(ArbiterConfig::default(), channel),
        sockets,
        datagrams: Datagrams::new(),
        started: Instant::now(),
        venue: input.venue.clone(),
        shown: None,
        standstills: 0,
    };
    info!(input = thread.number, a = %input.a, b = %shown(input.b), venue = %input.venue, "listening");
    while !thread.is_stopped() {
        mdp.wait(&thread);
        let begin = Instant::now();
        let mut more = true;
        while more && !thread.is_stopped() {
            more = mdp.turn(&mut thread);
            thread.sweep();
        }
        thread.busy_ns += begin.elapsed().as_nanos() as u64;
        thread.follow_wanted_of(&mut mdp.receiver);
        mdp.show(&mut thread);
    }
}

struct MdpReceiver {
    receiver: Receiver,
    sockets: Sockets,
    datagrams: Datagrams,
    started: Instant,
    venue: String,
    /// The channel's number as INFO shows it.
    shown: Option<i16>,
    /// [`tidewire_mdp::ChannelCounters::standstills`] as the log has it.
    standstills: u64,
}

impl MdpReceiver {
    /// Waits for a datagram or a timeout.
    fn wait(&self, thread: &Thread) {
        let sockets = self.sockets.all.iter();
        let mut descriptors: Vec<PollFd<'_>> = sockets
            .map(|(_, socket)| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN))
            .collect();
        let due_ns = self.receiver.deadline_ns().saturating_sub(self.now_ns());
        let wait = thread.wait(due_ns);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: wait.subsec_nanos().into(),
        };
        // A signal ends the wait early, which does no harm.
        let _ = poll(&mut descriptors, Some(&timeout));
    }

    /// Receives what is there. Returns whether there may be more.
    fn turn(&mut self, thread: &mut Thread) -> bool {
        self.datagrams.clear();
        let mut more = false;
        // The sockets alternate, so that neither line gets far ahead of the other.
        let limit = (DATAGRAMS_MAX / self.sockets.all.len()).max(1);
        for (number, (_, socket)) in self.sockets.all.iter().enumerate() {
            more |= self.datagrams.take(number, socket, limit);
        }
        let now_ns = self.now_ns();
        let is_due = self.receiver.deadline_ns() <= now_ns;
        if !self.datagrams.is_empty() || is_due {
            self.receive(thread, (now_ns, is_due));
        }
        // Snapshots and definitions come at any time, and say nothing of the lines.
        self.look_for_silence(thread, now_ns);
        self.look_for_standstill(thread);
        more
    }

    /// Handles the datagrams, and what is due.
    fn receive(&mut self, thread: &mut Thread, (now_ns, is_due): (u64, bool)) {
        let Self {
            receiver,
            datagrams,
            sockets,
            ..
        } = self;
        thread.batch_with(|batch, is_stale| {
            for (number, datagram) in datagrams.iter() {
                let feed = sockets.all[number].0;
                let moved_ns = receiver.moved_ns();
                if let Err(error) = receive(receiver, feed, datagram, now_ns, batch) {
                    debug!(%error, "invalid datagram");
                }
                // Only a new packet of the incremental feed shows that values are current.
                if *is_stale && receiver.moved_ns() != moved_ns {
                    *is_stale = false;
                    batch.revive();
                }
            }
            if is_due {
                receiver.handle_timeout(now_ns, batch);
            }
        });
    }

    fn look_for_silence(&self, thread: &mut Thread, now_ns: u64) {
        let has_begun = self.receiver.next_sequence() > 0;
        if has_begun && !thread.is_stale && self.receiver.is_silent(now_ns) {
            warn!(
                input = thread.number,
                "both lines are silent, or repeat old packets"
            );
            thread.lose();
        }
    }

    /// Logs that the snapshots are ahead of both lines.
    fn look_for_standstill(&mut self, thread: &Thread) {
        let channel = self.receiver.channel();
        let count = channel.counters().standstills;
        if count == self.standstills {
            return;
        }
        self.standstills = count;
        if let Some(left_out) = STANDSTILLS.note_now() {
            let text = "snapshots are ahead of both lines: packets are missing, and all topics are \
                        in doubt until a line goes on";
            let next = self.receiver.next_sequence();
            warn!(input = thread.number, next, left_out, "{text}");
        }
    }

    fn show(&mut self, thread: &mut Thread) {
        let Self {
            receiver,
            venue,
            shown,
            ..
        } = self;
        let is_connected = receiver.next_sequence() > 0 && !thread.is_stale;
        thread.show(|figures| {
            let (packets, channel) = (receiver.counters(), receiver.channel());
            let counters = channel.counters();
            if figures.session.is_empty() || channel.number() != *shown {
                *shown = channel.number();
                figures.session = match channel.number() {
                    Some(number) => format!("{venue}:{number}"),
                    None => venue.clone(),
                };
            }
            figures.is_connected = is_connected;
            figures.next_sequence = receiver.next_sequence();
            figures.messages = counters.messages;
            figures.malformed = counters.malformed;
            figures.unknown = counters.unknown;
            figures.unknown_orders = counters.unknown_orders;
            figures.refused_orders = counters.refused;
            figures.gaps = packets.gaps;
            figures.recovered = packets.recovered;
            figures.lost = packets.lost;
            figures.in_doubt = channel.doubtful_count() as u64;
            figures.lines = Side::ALL.map(|side| {
                let line = receiver.side_counters(side);
                (line.packets, line.lost)
            });
        });
    }

    fn now_ns(&self) -> u64 {
        // Not 0, which means never.
        self.started.elapsed().as_nanos() as u64 + 1
    }
}

fn receive(
    receiver: &mut Receiver,
    feed: Feed,
    datagram: &[u8],
    now_ns: u64,
    batch: &mut Batch<'_>,
) -> Result<(), PacketError> {
    match feed {
        Feed::Incremental(side) => receiver.receive(side, datagram, now_ns, batch),
        Feed::Snapshot => receiver.receive_snapshot(datagram, batch),
        Feed::Definition => receiver.receive_definition(datagram, batch),
    }
}

/// Limits the log lines about lines that stand still.
static STANDSTILLS: Seldom = Seldom::new(5, 60);
/// Two lines of each of four feeds.
const SOCKETS_MAX: usize = 8;
/// CME's futures exchange.
const VENUE: &str = "XCME";
/// Length of a market identifier code (ISO 10383).
const VENUE_LENGTH_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_read_as_users_write_them() {
        let text = "A=224.0.31.1:14310,B=224.0.32.1:15310,snapshot=224.0.31.22:14310,\
                    snapshot=224.0.32.22:15310,orders=224.0.31.64:14310,\
                    definition=224.0.31.43:14310,interface=10.0.0.9,venue=XCBT";
        let input: MdpInput = text.parse().unwrap();
        assert_eq!(
            (input.a.port(), input.b.map(|b| b.port())),
            (14310, Some(15310))
        );
        assert_eq!((input.snapshots.len(), input.orders.len()), (2, 1));
        assert_eq!((input.definitions.len(), input.venue.as_str()), (1, "XCBT"));
        let bare: MdpInput = "127.0.0.1:5".parse().unwrap();
        assert_eq!(
            (bare.b, bare.snapshots.len(), bare.venue.as_str()),
            (None, 0, "XCME")
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text: &str| text.parse::<MdpInput>().unwrap_err().to_string();
        assert_eq!(
            wrong("B=1.2.3.4:5"),
            "no address: give one, as HOST:PORT or A=HOST:PORT"
        );
        assert!(wrong("1.2.3.4:5,C=1").starts_with("unknown name 'C'; use A, B, snapshot,"));
        assert_eq!(
            wrong("1.2.3.4:5,venue=CHICAGO"),
            "'CHICAGO' is longer than 4 characters"
        );
        let three = "1.2.3.4:5,snapshot=1.2.3.4:6,snapshot=1.2.3.4:7,snapshot=1.2.3.4:8";
        assert_eq!(wrong(three), InputError::TooMany.to_string());
    }
}
