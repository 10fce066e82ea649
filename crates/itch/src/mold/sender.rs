//! The exchange's side: packets of what is new, heartbeats, answers.

use super::packet::{Header, decode_packet};
use crate::sequenced::Store;

/// Messages given for one request.
pub const ANSWER_MESSAGES_MAX: u64 = 1_000;

/// What a sender is set up with.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// Longest datagram, header included; a message longer than that goes alone.
    pub packet_bytes_max: usize,
    /// Longest silence.
    pub heartbeat_interval_ns: u64,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            packet_bytes_max: 1_472,
            heartbeat_interval_ns: 1_000_000_000,
        }
    }
}

/// Sends a [`Store`]'s stream.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    /// Next sequence to be sent.
    cursor: u64,
    next_heartbeat_ns: u64,
    heartbeat_delay_ns: u64,
}

impl Sender {
    /// One that begins with the first message.
    pub fn new(config: SenderConfig) -> Self {
        Self {
            config,
            cursor: 1,
            next_heartbeat_ns: 0,
            heartbeat_delay_ns: HEARTBEAT_DELAY_NS_FIRST,
        }
    }

    /// Puts the next datagram into `out`, which it empties first: new messages, or a heartbeat or
    /// the end of the session where one is due. False if there is nothing to send now.
    pub fn next_packet(&mut self, store: &Store, now_ns: u64, out: &mut Vec<u8>) -> bool {
        out.clear();
        let next = store.next_sequence();
        if self.cursor < next {
            self.cursor = self.cursor.max(store.oldest_sequence());
            self.cursor = self.write(store, self.cursor, next, out);
            // Soon after the last message, so that its loss shows; then ever later.
            self.heartbeat_delay_ns = HEARTBEAT_DELAY_NS_FIRST;
            self.next_heartbeat_ns = now_ns.saturating_add(self.heartbeat_delay_ns);
            return true;
        }
        if now_ns < self.next_heartbeat_ns {
            return false;
        }
        let interval_ns = self.config.heartbeat_interval_ns;
        self.heartbeat_delay_ns = (self.heartbeat_delay_ns * 2).min(interval_ns);
        self.next_heartbeat_ns = now_ns.saturating_add(self.heartbeat_delay_ns);
        let header = Header {
            session: store.session(),
            sequence: next,
            count: match store.is_ended() {
                true => Header::END_OF_SESSION,
                false => Header::HEARTBEAT,
            },
        };
        out.extend_from_slice(&header.to_bytes());
        true
    }

    /// When the next heartbeat is due.
    pub fn deadline_ns(&self) -> u64 {
        self.next_heartbeat_ns
    }

    /// Next sequence to be sent.
    pub fn next_sequence(&self) -> u64 {
        self.cursor
    }

    /// Calls `send` with each datagram that answers a request; none for what is no request, of
    /// another session, or not kept.
    pub fn answer(
        &self,
        store: &Store,
        request: &[u8],
        out: &mut Vec<u8>,
        mut send: impl FnMut(&[u8]),
    ) {
        let Ok(request) = decode_packet(request) else {
            return;
        };
        let Header {
            session,
            sequence,
            count,
        } = request.header;
        if session != store.session() || sequence < store.oldest_sequence() {
            return;
        }
        // Only what was sent: what is new comes by itself.
        let until = sequence
            .saturating_add(u64::from(count).min(ANSWER_MESSAGES_MAX))
            .min(self.cursor);
        let mut next = sequence;
        while next < until {
            out.clear();
            next = self.write(store, next, until, out);
            send(out);
        }
    }

    /// One packet with the messages from `first` as far as they fit; one past the last of them.
    fn write(&self, store: &Store, first: u64, until: u64, out: &mut Vec<u8>) -> u64 {
        let header = Header {
            session: store.session(),
            sequence: first,
            count: 0,
        };
        out.extend_from_slice(&header.to_bytes());
        let mut next = first;
        while next < until && next - first < u64::from(Header::END_OF_SESSION - 1) {
            let Some(block) = store.block(next) else {
                break;
            };
            if next > first && out.len() + block.len() > self.config.packet_bytes_max {
                break;
            }
            out.extend_from_slice(block);
            next += 1;
        }
        let count = (next - first) as u16;
        out[Header::LENGTH - 2..Header::LENGTH].copy_from_slice(&count.to_be_bytes());
        next
    }
}

/// First heartbeat after a packet.
const HEARTBEAT_DELAY_NS_FIRST: u64 = 10_000_000;
