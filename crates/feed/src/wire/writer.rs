//! Packs messages into packets.

use super::{
    Control, Flags, HEADER_LENGTH, Header, MESSAGE_LENGTH_MAX, Message, PACKET_LENGTH_MAX,
    PACKET_LIMIT_BYTES_MIN, Quote, Skip, Trade, checksum,
};

/// Appends packets to the caller's buffer. Opens and closes packets as needed.
///
/// [`PacketWriter::finish`] closes the last packet; without it the buffer ends in an open one.
#[derive(Debug)]
#[must_use = "finish() closes the last packet"]
pub struct PacketWriter<'a> {
    out: &'a mut Vec<u8>,
    session: u32,
    flags: Flags,
    /// Largest packet, header included; PACKET_LIMIT_BYTES_MIN..=PACKET_LENGTH_MAX.
    limit_bytes: usize,
    /// Offset in `out` of the open packet; `out.len()` if none is open.
    start: usize,
    open: bool,
    count: u16,
    first_sequence: u64,
    next_sequence: u64,
}

impl<'a> PacketWriter<'a> {
    /// Creates a writer whose first message has `first_sequence`. The limit is clamped to
    /// [`PACKET_LIMIT_BYTES_MIN`]..=[`PACKET_LENGTH_MAX`].
    pub fn new(
        out: &'a mut Vec<u8>,
        session: u32,
        flags: Flags,
        first_sequence: u64,
        limit_bytes: usize,
    ) -> PacketWriter<'a> {
        let start = out.len();
        PacketWriter {
            out,
            session,
            flags,
            limit_bytes: limit_bytes.clamp(PACKET_LIMIT_BYTES_MIN, PACKET_LENGTH_MAX),
            start,
            open: false,
            count: 0,
            first_sequence,
            next_sequence: first_sequence,
        }
    }

    /// Appends a message. A [`Skip`] takes its count of sequences, any other message takes one.
    #[inline]
    pub fn push(&mut self, message: &Message) {
        match message {
            Message::Trade(trade) => {
                self.reserve(Trade::LENGTH);
                self.out.extend_from_slice(&trade.to_bytes());
            }
            Message::Quote(quote) => {
                self.reserve(Quote::LENGTH);
                self.out.extend_from_slice(&quote.to_bytes());
            }
            Message::Skip(skip) => return self.skip(skip.count),
            other => {
                self.reserve(other.encoded_length());
                other.encode(self.out);
            }
        }
        self.count += 1;
        self.next_sequence = self.next_sequence.wrapping_add(1);
    }

    /// Appends messages that are already encoded and contiguous. The caller guarantees that
    /// `bytes` is exactly `message_count` messages and fits a packet.
    #[inline]
    pub(crate) fn push_encoded(&mut self, bytes: &[u8], message_count: u16) {
        self.reserve(bytes.len());
        self.out.extend_from_slice(bytes);
        self.count += message_count;
        self.next_sequence = self.next_sequence.wrapping_add(u64::from(message_count));
    }

    /// Appends a control; it takes no sequence.
    pub fn push_control(&mut self, control: &Control) {
        self.reserve(MESSAGE_LENGTH_MAX);
        control.encode(self.out);
        self.count += 1;
    }

    /// Appends a skip of `count` sequences outside this selection.
    pub fn skip(&mut self, count: u64) {
        self.reserve(super::PREFIX_LENGTH);
        Skip { count }.encode(self.out);
        self.count += 1;
        self.next_sequence = self.next_sequence.wrapping_add(count);
    }

    /// Returns the bytes that the open packet can still take.
    #[inline]
    pub(crate) fn room_bytes(&self) -> usize {
        let used = if self.open {
            self.out.len() - self.start
        } else {
            HEADER_LENGTH
        };
        self.limit_bytes.saturating_sub(used)
    }

    /// Returns the sequence of the next message.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Returns the bytes of the caller's buffer in use, the open packet included.
    pub fn buffered_bytes(&self) -> usize {
        self.out.len()
    }

    /// Closes the open packet, if any, and returns the next sequence.
    pub fn finish(mut self) -> u64 {
        self.close();
        self.next_sequence
    }

    /// Appends one packet without messages: a heartbeat or an end of session.
    pub fn bare(out: &mut Vec<u8>, session: u32, flags: Flags, sequence: u64) {
        let mut writer = PacketWriter::new(out, session, flags, sequence, PACKET_LENGTH_MAX);
        writer.open_packet();
        writer.close();
    }

    /// Appends one packet with one control.
    pub fn control(out: &mut Vec<u8>, session: u32, control: &Control) {
        let mut writer = PacketWriter::new(out, session, Flags::CONTROL, 0, PACKET_LENGTH_MAX);
        writer.push_control(control);
        writer.finish();
    }

    /// Ensures that an open packet has room for `length` more bytes.
    #[inline(always)]
    fn reserve(&mut self, length: usize) {
        if !self.open {
            self.open_packet();
        } else if self.out.len() - self.start + length > self.limit_bytes {
            self.close();
            self.open_packet();
        }
    }

    fn open_packet(&mut self) {
        self.start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_LENGTH]);
        self.open = true;
        self.count = 0;
        self.first_sequence = self.next_sequence;
    }

    fn close(&mut self) {
        if !self.open {
            return;
        }
        self.open = false;
        let (head, body) = self.out[self.start..].split_at_mut(HEADER_LENGTH);
        let mut header = Header {
            flags: self.flags,
            message_count: self.count,
            // The writer's limit bounds the length.
            body_length: body.len() as u16,
            session: self.session,
            checksum: 0,
            first_sequence: self.first_sequence,
        };
        header.checksum = checksum(&header.to_bytes(), body);
        head.copy_from_slice(&header.to_bytes());
    }
}
