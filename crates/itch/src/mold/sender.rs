//! The exchange's side: packets of new messages, heartbeats, answers.

use super::packet::{Header, decode_packet};
use crate::sequenced::Store;

/// Maximum messages sent for one request.
pub const ANSWER_MESSAGES_MAX: u64 = 1_000;

/// Settings of a sender.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// Maximum bytes of a datagram, header included; a longer message is sent alone.
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
    /// Next sequence to send.
    cursor: u64,
    next_heartbeat_ns: u64,
    heartbeat_delay_ns: u64,
}

impl Sender {
    /// Creates a sender that begins with the first message.
    pub fn new(config: SenderConfig) -> Self {
        Self {
            config,
            cursor: 1,
            next_heartbeat_ns: 0,
            heartbeat_delay_ns: HEARTBEAT_DELAY_NS_FIRST,
        }
    }

    /// Writes the next datagram into `out`, replacing its contents: new messages, or a due
    /// heartbeat or end of session. Returns false if nothing is due.
    pub fn next_packet(&mut self, store: &Store, now_ns: u64, out: &mut Vec<u8>) -> bool {
        out.clear();
        let next = store.next_sequence();
        if self.cursor < next {
            self.cursor = self.cursor.max(store.oldest_sequence());
            self.cursor = self.write(store, self.cursor, next, out);
            // Soon after the last message, so that its loss is noticed, then at doubling delays.
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

    /// Returns when the next heartbeat is due.
    pub fn deadline_ns(&self) -> u64 {
        self.next_heartbeat_ns
    }

    /// Returns the next sequence to send.
    pub fn next_sequence(&self) -> u64 {
        self.cursor
    }

    /// Calls `send` with each datagram that answers a request. Sends nothing for an invalid
    /// request, another session, or messages no longer kept.
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
        // Only sent messages: new ones are sent anyway.
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

    /// Writes one packet with the messages from `first` that fit. Returns one past the last of
    /// them.
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

/// Delay of the first heartbeat after a packet.
const HEARTBEAT_DELAY_NS_FIRST: u64 = 10_000_000;
