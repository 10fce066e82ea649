//! The stream in datagrams, for any number of receivers.

use crate::journal::{Everything, Journal};
use crate::wire::{Header, UDP_PACKET_LENGTH_MAX};

use super::stream::{HEARTBEAT_INTERVAL_NS_MAX, SenderCounters, StreamSender};

/// Sends a journal's whole stream once, in packets that fit a datagram. Receivers do not answer.
/// A receiver with a gap requests it from a [`Session`](super::Session), logged in with
/// [`Role::Recovery`](crate::wire::Role::Recovery).
#[derive(Debug)]
pub struct Broadcast {
    stream: StreamSender,
}

impl Broadcast {
    /// Creates a broadcast that starts at `next_sequence`.
    pub fn new(next_sequence: u64, now_ns: u64) -> Broadcast {
        let mut stream =
            StreamSender::new(UDP_PACKET_LENGTH_MAX, HEARTBEAT_INTERVAL_NS_MAX, now_ns);
        stream.restart(next_sequence, now_ns);
        Broadcast { stream }
    }

    /// Appends packets to `out`, up to about `budget_bytes`: new messages of the journal, or a
    /// heartbeat if one is due. Returns whether more is ready.
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

    /// Returns when [`Broadcast::produce`] must be called even if nothing happens.
    pub fn deadline_ns(&self) -> u64 {
        self.stream.next_heartbeat_ns()
    }

    /// Returns the sender's counters.
    pub fn counters(&self) -> &SenderCounters {
        &self.stream.counters
    }

    /// Splits the output of [`Broadcast::produce`] into packets, one per datagram.
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
