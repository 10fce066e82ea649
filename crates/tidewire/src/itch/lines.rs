//! MoldUDP64 as an exchange sends it: two lines, each with its own faults, and a server for
//! retransmission requests.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

use tidewire_feed::faults::{FaultInjector, FaultPlan};
use tidewire_feed_client::sender;
use tidewire_itch::mold::{Sender, SenderConfig};
use tidewire_itch::sequenced::Store;
use tidewire_market::MoldInput;

use crate::failure::listen_text;

/// The sockets and counters.
#[derive(Debug)]
pub struct Lines {
    sender: Sender,
    lines: Vec<Line>,
    requests: Option<UdpSocket>,
    answers: FaultInjector,
    packet: Vec<u8>,
    pub packets: u64,
    pub requests_seen: u64,
    pub answers_sent: u64,
}

#[derive(Debug)]
struct Line {
    socket: UdpSocket,
    to: SocketAddr,
    faults: FaultInjector,
}

impl Lines {
    pub fn open(mold: &MoldInput, plan: FaultPlan, seed: u64) -> Result<Self, String> {
        let mut lines = Vec::new();
        for (number, to) in [Some(mold.a), mold.b].into_iter().flatten().enumerate() {
            let socket = sender(to, mold.interface)
                .map_err(|error| format!("cannot send to {to}: {error}"))?;
            lines.push(Line {
                socket,
                to,
                faults: FaultInjector::new(plan, seed.wrapping_add(number as u64)),
            });
        }
        let listen = |address: SocketAddr| {
            let socket = UdpSocket::bind(address).and_then(|socket| {
                socket.set_nonblocking(true)?;
                Ok(socket)
            });
            socket.map_err(|error| listen_text(address, &error))
        };
        Ok(Self {
            sender: Sender::new(SenderConfig::default()),
            lines,
            requests: mold.request.map(listen).transpose()?,
            answers: FaultInjector::new(plan, seed.wrapping_add(2)),
            packet: Vec::new(),
            packets: 0,
            requests_seen: 0,
            answers_sent: 0,
        })
    }

    /// Returns the socket that receives requests.
    pub fn request_socket(&self) -> Option<&UdpSocket> {
        self.requests.as_ref()
    }

    /// Returns when the next heartbeat is due.
    pub fn deadline_ns(&self) -> u64 {
        self.sender.deadline_ns()
    }

    /// Returns whether every message of the store has been sent.
    pub fn is_done(&self, store: &Store) -> bool {
        self.sender.next_sequence() == store.next_sequence()
    }

    /// Sends what is due on both lines, and answers requests.
    pub fn turn(&mut self, store: &Store, now_ns: u64) {
        while self.sender.next_packet(store, now_ns, &mut self.packet) {
            self.packets += 1;
            for Line { socket, to, faults } in &mut self.lines {
                // A datagram that cannot be sent is lost, as on a network that is too slow.
                faults.datagram(&self.packet, |bytes| drop(socket.send_to(bytes, *to)));
            }
        }
        self.answer(store);
    }

    /// Returns the number of packets that faults removed: on line A, on line B, and of replies.
    pub fn lost(&self) -> Vec<u64> {
        let lines = self.lines.iter().map(|line| &line.faults);
        let all = lines.chain([&self.answers]);
        all.map(|faults| {
            let counters = faults.counters();
            counters.lost + counters.gaps + counters.corrupted
        })
        .collect()
    }

    fn answer(&mut self, store: &Store) {
        let Some(socket) = &self.requests else { return };
        let mut request = [0; 64];
        for _ in 0..REQUESTS_A_TURN {
            let (length, from) = match socket.recv_from(&mut request) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(_) => return,
            };
            self.requests_seen += 1;
            let (answers, sent) = (&mut self.answers, &mut self.answers_sent);
            let request = &request[..length];
            self.sender
                .answer(store, request, &mut self.packet, |packet| {
                    *sent += 1;
                    answers.datagram(packet, |bytes| drop(socket.send_to(bytes, from)));
                });
        }
    }
}

/// Maximum number of requests answered before the stream continues.
const REQUESTS_A_TURN: usize = 64;
