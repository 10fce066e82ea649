//! The stream in datagrams, for any receiver.

use crate::journal::{Everything, Journal};
use crate::wire::{Header, UDP_PACKET_LENGTH_MAX};

use super::stream::{HEARTBEAT_INTERVAL_NS_MAX, SenderCounters, StreamSender};

/// Sends a journal's stream once, whole, in packets that fit a datagram. Nobody answers: who
/// misses something asks at a [`Session`](super::Session), logged in with
/// [`Role::Recovery`](crate::wire::Role::Recovery).
#[derive(Debug)]
pub struct Broadcast {
    stream: StreamSender,
}

impl Broadcast {
    /// From this sequence on.
    pub fn new(next_sequence: u64, now_ns: u64) -> Broadcast {
        let mut stream =
            StreamSender::new(UDP_PACKET_LENGTH_MAX, HEARTBEAT_INTERVAL_NS_MAX, now_ns);
        stream.restart(next_sequence, now_ns);
        Broadcast { stream }
    }

    /// Appends packets to `out`, about `budget_bytes` at most: what the journal has gained, or a
    /// heartbeat if it is time. Returns whether there is more to send at once.
    pub fn produce(
        &mut self,
        journal: &Journal,
        now_ns: u64,
        out: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> bool {
        let start = out.len();
        self.stream.counters.dropped += self.stream.pass_what_is_gone(journal);
        let end_bytes = start.saturating_add(budget_bytes);
        let more = self
            .stream
            .produce_live(journal, &Everything, out, end_bytes);
        let said = out.len() > start;
        self.stream.produce_idle(journal, true, now_ns, said, out);
        more
    }

    /// When [`Broadcast::produce`] must be called although nothing happened.
    pub fn deadline_ns(&self) -> u64 {
        self.stream.next_heartbeat_ns()
    }

    /// What was sent.
    pub fn counters(&self) -> &SenderCounters {
        &self.stream.counters
    }

    /// The packets that [`Broadcast::produce`] has written, one a datagram.
    pub fn datagrams(packets: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut rest = packets;
        std::iter::from_fn(move || {
            let header = Header::from_bytes(rest.first_chunk()?).ok()?;
            let (packet, after) = rest.split_at_checked(header.packet_length())?;
            rest = after;
            Some(packet)
        })
    }
}
