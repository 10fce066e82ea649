//! Sends the hub's own stream in datagrams, on lines A and B.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_feed::faults::{FaultInjector, FaultPlan};
use tidewire_feed::server::Broadcast;
use tidewire_feed_client::sender;

use crate::inputs::FeedLines;
use crate::market::{Market, MarketConfig};

/// Counters of sent datagrams; every field only grows.
#[derive(Debug, Default)]
pub struct BroadcastCounters {
    /// Packets; each is sent on all lines.
    pub packets: AtomicU64,
    /// Datagrams that the system refused. Receivers request their content.
    pub refused: AtomicU64,
}

/// The lines, owned by the one lane that sends.
#[derive(Debug)]
pub struct LinesOut {
    broadcast: Broadcast,
    lines: Vec<Line>,
    packets: Vec<u8>,
    /// The journal's next sequence at the last send.
    served: u64,
}

#[derive(Debug)]
struct Line {
    socket: UdpSocket,
    to: SocketAddr,
    faults: Option<FaultInjector>,
}

impl LinesOut {
    /// Opens the lines of [`MarketConfig::feed_lines`], if there are any. They carry the stream
    /// from now on.
    ///
    /// # Errors
    /// A line cannot be sent to.
    pub fn of(market: &Market) -> Result<Option<Self>, String> {
        let next = market.journal_next.load(Ordering::Acquire);
        let lines = market.config.feed_lines.as_ref();
        lines
            .map(|lines| Self::open(&market.config, lines, next))
            .transpose()
    }

    fn open(config: &MarketConfig, lines: &FeedLines, next: u64) -> Result<Self, String> {
        let open = |(number, &to): (usize, &SocketAddr)| {
            let socket = socket(to, lines.interface)
                .map_err(|error| format!("cannot send to {to}: {error}"))?;
            let faults = |plan: FaultPlan| {
                let seed = config.fault_seed.wrapping_add(number as u64 + 1);
                FaultInjector::new(plan, seed.wrapping_mul(0x9E37_79B9))
            };
            let faults = config.faults.map(faults);
            Ok(Line { socket, to, faults })
        };
        debug_assert!(
            matches!(lines.lines.len(), 1 | 2),
            "line A, and line B perhaps"
        );
        let lines = lines.lines.iter().enumerate().map(open);
        Ok(Self {
            broadcast: Broadcast::new(next, 0),
            lines: lines.collect::<Result<_, String>>()?,
            packets: Vec::new(),
            served: 0,
        })
    }

    /// Sends the new messages of the journal, or a heartbeat if it is due. Returns when to call it
    /// again.
    pub fn turn(&mut self, market: &Market, lane: usize, now_ns: u64) -> u64 {
        market.feed_seen(lane);
        let next = market.journal_next.load(Ordering::Acquire);
        if next == self.served && now_ns < self.broadcast.deadline_ns() {
            return self.broadcast.deadline_ns();
        }
        debug_assert!(
            self.packets.is_empty(),
            "the last turn's datagrams were sent"
        );
        debug_assert!(self.served <= next, "the journal only grows");
        let journal = market.journal.lock();
        let packets = &mut self.packets;
        let more = self
            .broadcast
            .produce(&journal, now_ns, packets, BYTES_A_TURN);
        drop(journal);
        self.served = if more { 0 } else { next };
        let (mut sent, mut refused) = (0, 0);
        for packet in Broadcast::datagrams(&self.packets) {
            sent += 1;
            for line in &mut self.lines {
                let (socket, to) = (&line.socket, line.to);
                let mut send = |bytes: &[u8]| {
                    refused += u64::from(socket.send_to(bytes, to).is_err());
                };
                match &mut line.faults {
                    None => send(packet),
                    Some(faults) => faults.datagram(packet, send),
                }
            }
        }
        self.packets.clear();
        debug_assert!(
            refused <= sent * self.lines.len() as u64,
            "each is sent once per line"
        );
        market.broadcast.packets.fetch_add(sent, Ordering::Relaxed);
        market
            .broadcast
            .refused
            .fetch_add(refused, Ordering::Relaxed);
        if more {
            now_ns
        } else {
            self.broadcast.deadline_ns()
        }
    }
}

/// Returns a non-blocking socket that sends to a line.
fn socket(to: SocketAddr, interface: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = sender(to, interface)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Maximum bytes sent at a time, before the lane serves its other connections.
const BYTES_A_TURN: usize = 256 << 10;
