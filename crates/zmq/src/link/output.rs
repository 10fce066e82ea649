//! Bytes on their way out: small frames side by side in a buffer, long bodies where they are.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use rustix::io::Errno;
use tidewire_zmtp::{Connection, encode_frame, frame_header};

use super::carrier::Carrier;
use crate::message::Message;

/// What has not gone to the kernel yet.
#[derive(Debug)]
pub(crate) struct Output {
    /// Encoded frames; written up to `head`.
    bytes: Vec<u8>,
    head: usize,
    /// What follows `bytes`.
    rest: VecDeque<Segment>,
    /// Bytes in `rest`.
    rest_bytes: usize,
    /// Messages whose end lies in here. Those that the kernel took are left out when it is full,
    /// and when all is written.
    pub(crate) messages: usize,
    /// What went to the kernel since all was last written: bytes, and the messages in them.
    written_bytes: usize,
    written_messages: usize,
}

#[derive(Debug)]
enum Segment {
    Bytes(Vec<u8>),
    /// A body, written up to the offset.
    Body(Message, usize),
}

impl Output {
    pub(crate) const fn new() -> Output {
        Output {
            bytes: Vec::new(),
            head: 0,
            rest: VecDeque::new(),
            rest_bytes: 0,
            messages: 0,
            written_bytes: 0,
            written_messages: 0,
        }
    }

    #[inline]
    pub(crate) fn pending_bytes(&self) -> usize {
        debug_assert!(self.head <= self.bytes.len(), "what is written was there");
        debug_assert!(
            !self.rest.is_empty() || self.rest_bytes == 0,
            "no segment, no bytes"
        );
        self.bytes.len() - self.head + self.rest_bytes
    }

    /// Adds a frame. A long body is not copied.
    #[inline]
    pub(crate) fn push_frame(&mut self, machine: &mut Connection, message: Message) {
        let more = message.more();
        if message.len() < UNCOPIED_BYTES_MIN || machine.encrypts() {
            let body = message.as_slice();
            self.append(|out| machine.encode_message_frame(out, body, more));
            return;
        }
        let header = frame_header(message.len(), more);
        self.append(|out| out.extend_from_slice(header.as_bytes()));
        self.push_raw(message);
    }

    /// Adds a frame of its own of few bytes, where it can be put behind the others.
    #[inline]
    pub(crate) fn push_short(&mut self, body: &[u8]) -> bool {
        let is_short = body.len() < UNCOPIED_BYTES_MIN && self.rest.is_empty();
        if is_short {
            encode_frame(&mut self.bytes, body, false);
        }
        is_short
    }

    /// Adds bytes without a frame around them.
    pub(crate) fn push_raw(&mut self, message: Message) {
        if message.len() < UNCOPIED_BYTES_MIN {
            let body = message.as_slice();
            self.append(|out| out.extend_from_slice(body));
        } else {
            self.rest_bytes += message.len();
            self.rest.push_back(Segment::Body(message, 0));
        }
    }

    /// Adds a frame whose body is the caller's and will not stay.
    pub(crate) fn push_slice(
        &mut self,
        machine: &mut Connection,
        carrier: &mut Carrier,
        body: &[u8],
        more: bool,
    ) -> io::Result<()> {
        if body.len() < UNCOPIED_BYTES_MIN || machine.encrypts() || !self.rest.is_empty() {
            self.append(|out| machine.encode_message_frame(out, body, more));
            return Ok(());
        }
        let header = frame_header(body.len(), more);
        self.bytes.extend_from_slice(header.as_bytes());
        let slices = [IoSlice::new(&self.bytes[self.head..]), IoSlice::new(body)];
        let mut written = match carrier.send_slices(&slices) {
            Ok(written) => written,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        self.written_bytes += written;
        let first = written.min(self.bytes.len() - self.head);
        self.head += first;
        written -= first;
        debug_assert!(written <= body.len(), "the kernel takes what it is given");
        if self.head == self.bytes.len() {
            self.bytes.clear();
            self.head = 0;
        }
        self.bytes.extend_from_slice(&body[written..]);
        Ok(())
    }

    pub(crate) fn push_subscription(
        &mut self,
        machine: &mut Connection,
        topic: &[u8],
        subscribes: bool,
    ) {
        self.append(|out| match subscribes {
            true => machine.encode_subscribe(out, topic),
            false => machine.encode_cancel(out, topic),
        });
    }

    pub(crate) fn push_membership(&mut self, machine: &mut Connection, group: &[u8], joins: bool) {
        self.append(|out| match joins {
            true => machine.encode_join(out, group),
            false => machine.encode_leave(out, group),
        });
    }

    /// Adds what the machine itself has to say.
    pub(crate) fn push_outgoing(&mut self, outgoing: &mut Vec<u8>) {
        self.append(|out| out.append(outgoing));
    }

    /// Passes the next bytes, `bytes_max` at most, to a caller that writes them in another form.
    pub(crate) fn pour(
        &mut self,
        mut bytes_max: usize,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while bytes_max > 0 {
            let encoded = &self.bytes[self.head..];
            let piece = match self.rest.front() {
                _ if !encoded.is_empty() => encoded,
                None => return Ok(()),
                Some(Segment::Bytes(bytes)) => bytes,
                Some(Segment::Body(message, offset)) => &message.as_slice()[*offset..],
            };
            debug_assert!(!piece.is_empty(), "no segment is empty");
            let count = piece.len().min(bytes_max);
            take(&piece[..count])?;
            bytes_max -= count;
            self.advance(count);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn flush(&mut self, carrier: &mut Carrier) -> io::Result<bool> {
        while self.pending_bytes() > 0 {
            let result = if self.rest.is_empty() {
                carrier.send(&self.bytes[self.head..])
            } else {
                self.write_all_segments(carrier)
            };
            match result {
                Ok(written) => self.advance(written),
                Err(Errno::AGAIN) => {
                    self.leave_out_written();
                    return Ok(false);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        debug_assert!(self.rest.is_empty(), "no segment is empty");
        self.all_is_written();
        Ok(true)
    }

    #[cfg(test)]
    pub(super) fn buffer_bytes(&self) -> usize {
        self.bytes.capacity() + self.rest.capacity()
    }

    /// Frees the room for encoded bytes, if there are none.
    pub(crate) fn free_if_empty(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }

    pub(crate) fn all_is_written(&mut self) {
        self.messages = 0;
        self.written_bytes = 0;
        self.written_messages = 0;
    }

    /// The kernel is full: counts what it took, with messages taken to be equally long. Without
    /// this they would count against the high-water mark until the last byte is written, which
    /// may never be if the peer does not read.
    pub(crate) fn leave_out_written(&mut self) {
        let pending_bytes = self.pending_bytes();
        let all_bytes = self.written_bytes + pending_bytes;
        let all_messages = self.messages + self.written_messages;
        debug_assert!(pending_bytes > 0, "the kernel refused something");
        let waiting = (all_messages as u128 * pending_bytes as u128).div_ceil(all_bytes as u128);
        // No more than there are, so it fits. The last one is not written yet.
        self.messages = (waiting as usize).clamp(1.min(all_messages), all_messages);
        self.written_messages = all_messages - self.messages;
        if self.written_bytes > AVERAGED_BYTES {
            self.written_bytes = 0;
            self.written_messages = 0;
        }
    }

    fn write_all_segments(&self, carrier: &mut Carrier) -> rustix::io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        slices[0] = IoSlice::new(&self.bytes[self.head..]);
        let mut count = 1;
        for (slice, segment) in slices[1..].iter_mut().zip(&self.rest) {
            *slice = IoSlice::new(match segment {
                Segment::Bytes(bytes) => bytes,
                Segment::Body(message, offset) => &message.as_slice()[*offset..],
            });
            count += 1;
        }
        debug_assert!(count > 1 && count <= SLICES_MAX, "a segment at least");
        carrier.send_slices(&slices[..count])
    }

    /// Takes out `written` bytes, which the kernel has.
    fn advance(&mut self, mut written: usize) {
        self.written_bytes += written;
        let first = written.min(self.bytes.len() - self.head);
        self.head += first;
        written -= first;
        if self.head < self.bytes.len() {
            return;
        }
        self.bytes.clear();
        self.head = 0;
        while let Some(segment) = self.rest.front_mut() {
            match segment {
                Segment::Bytes(bytes) => {
                    self.rest_bytes -= bytes.len();
                    let length = bytes.len();
                    if written >= length {
                        written -= length;
                    } else {
                        self.bytes = std::mem::take(bytes);
                        self.head = written;
                        self.rest.pop_front();
                        return;
                    }
                }
                Segment::Body(message, offset) => {
                    debug_assert!(*offset <= message.len(), "no more than it has was written");
                    let here = written.min(message.len() - *offset);
                    *offset += here;
                    written -= here;
                    self.rest_bytes -= here;
                    if *offset < message.len() {
                        return;
                    }
                }
            }
            self.rest.pop_front();
        }
    }

    /// Adds encoded bytes at the very end.
    #[inline]
    fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.rest.is_empty() {
            encode(&mut self.bytes);
            return;
        }
        if !matches!(self.rest.back(), Some(Segment::Bytes(_))) {
            self.rest.push_back(Segment::Bytes(Vec::new()));
        }
        if let Some(Segment::Bytes(bytes)) = self.rest.back_mut() {
            let before = bytes.len();
            encode(bytes);
            debug_assert!(bytes.len() >= before, "output is only appended to");
            self.rest_bytes += bytes.len() - before;
        }
    }
}

/// Bodies from here on are written from where they are: a copy costs more than a further slice.
const UNCOPIED_BYTES_MIN: usize = 16 << 10;
/// The lengths of messages are averaged over this many bytes at most.
const AVERAGED_BYTES: usize = 64 << 20;
/// Slices of one vectored write.
const SLICES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Over ws all output was copied at once: a message without room for its second copy was lost.
    #[test]
    fn portions_are_all_of_the_output_in_order() {
        for portion in [1, 7, 1_000, 16 << 10, 1 << 20] {
            let mut output = Output::new();
            let mut expected = Vec::new();
            let mut add = |output: &mut Output, bytes: Vec<u8>| {
                expected.extend_from_slice(&bytes);
                output.push_raw(Message::from_vec(bytes));
            };
            for (place, length) in [5, 20_000, 16 << 10, 3, 9, 70_000, 1]
                .into_iter()
                .enumerate()
            {
                add(&mut output, vec![place as u8; length]);
            }
            let mut poured = Vec::new();
            while output.pending_bytes() > 0 {
                let before = poured.len();
                let take = |bytes: &[u8]| {
                    poured.extend_from_slice(bytes);
                    Ok(())
                };
                output.pour(portion, take).unwrap();
                assert!((1..=portion).contains(&(poured.len() - before)));
                assert_eq!(output.pending_bytes(), expected.len() - poured.len());
            }
            assert_eq!(poured, expected, "in portions of {portion}");
        }
    }
}
