//! The stream between a snapshot's as-of and its newest page: messages that a page includes are
//! replaced by skips, because the client would count them twice.

use std::collections::HashMap;

use tidewire_feed::wire::{Flags, Message, PACKET_LENGTH_MAX, PacketWriter};

use crate::frame::{FrameHeader, Packets};

/// What the pages of a snapshot include.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// By symbol: the sequence up to which its record includes the stream.
    records: HashMap<u32, u64>,
    /// No page includes anything behind this sequence.
    limit: u64,
}

impl Replay {
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn symbols(&self) -> u64 {
        self.records.len() as u64
    }

    /// Notes a page that was written at this sequence.
    pub(super) fn note_page(&mut self, as_of: u64) {
        self.limit = self.limit.max(as_of);
    }

    /// Notes a symbol's record.
    pub(super) fn note_record(&mut self, symbol: u32, sequence: u64) {
        self.records.insert(symbol, sequence);
        self.limit = self.limit.max(sequence);
    }

    /// Writes a frame's messages that no page includes. What cannot be read is replaced by skips:
    /// the stream stays contiguous.
    pub(super) fn write(&self, header: &FrameHeader, body: &[u8], out: &mut Vec<u8>) {
        if header.first > self.limit {
            return out.extend_from_slice(body);
        }
        let flags = Flags::FILTERED;
        let mut writer =
            PacketWriter::new(out, header.session, flags, header.first, PACKET_LENGTH_MAX);
        let mut next = header.first;
        for packet in Packets::of(body).flatten() {
            next = next.max(packet.header.first_sequence);
            for message in packet.messages().flatten() {
                if !self.includes(next, &message) {
                    let skipped = next.saturating_sub(writer.next_sequence());
                    if skipped > 0 {
                        writer.skip(skipped);
                    }
                    writer.push(&message);
                }
                next = next.saturating_add(message.sequence_count());
            }
        }
        let skipped = header.until().saturating_sub(writer.next_sequence());
        if skipped > 0 {
            writer.skip(skipped);
        }
        writer.finish();
    }

    fn includes(&self, sequence: u64, message: &Message) -> bool {
        let record = message
            .symbol()
            .and_then(|symbol| self.records.get(&symbol));
        record.is_some_and(|&included| sequence <= included)
    }
}
