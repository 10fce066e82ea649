//! Bytes on their way in: a buffer for small frames, and long bodies read straight into their
//! message.

use std::collections::TryReserveError;

use rustix::io::Errno;
use tidewire_zmtp::Connection;

use super::carrier::Carrier;
use super::spares::{FIRST_BYTES, Spares};
use crate::message::Message;
use crate::rooms;

/// What was received and not yet consumed.
#[derive(Debug)]
pub(crate) struct Input {
    /// Taken from the socket's spare ones for a read; none while nothing is in it.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The frame that is being read past the buffer.
    long: Option<LongBody>,
    /// The last frame was long: its successor probably is, and should not begin in the buffer.
    expects_long: bool,
    /// The buffer was filled to its end: there is more where that came from.
    was_filled: bool,
}

/// A body that is read straight into its message.
#[derive(Debug)]
pub(crate) struct LongBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) more: bool,
    length: usize,
}

impl LongBody {
    fn is_complete(&self) -> bool {
        self.bytes.len() >= self.length
    }
}

/// What one read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Bytes; perhaps there are more.
    Some,
    /// Bytes, and all that there were.
    All,
    /// The kernel has none.
    WouldBlock,
    /// The peer has closed.
    Closed,
    Failed(Errno),
}

impl Input {
    pub(crate) const fn new() -> Input {
        Input {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            long: None,
            expects_long: false,
            was_filled: false,
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether something has come that can be decoded: bytes, or the last one of a long body.
    #[inline]
    pub(crate) fn has_undecoded(&self) -> bool {
        self.start < self.end || self.has_long_body()
    }

    /// Whether a long body is complete, and only waits to be taken.
    #[inline]
    fn has_long_body(&self) -> bool {
        self.long.as_ref().is_some_and(LongBody::is_complete)
    }

    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(
            self.start + count <= self.end,
            "no more is taken than has come"
        );
        self.start += count;
    }

    /// Gives the buffer back if nothing is in it.
    #[inline]
    pub(crate) fn rest(&mut self, spares: &mut Spares) {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if !self.buffer.is_empty() {
                spares.give(std::mem::take(&mut self.buffer));
            }
        }
    }

    #[cfg(test)]
    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer.capacity() + self.long.as_ref().map_or(0, |long| long.bytes.capacity())
    }

    /// Makes room for `needed` bytes from the first unconsumed one on.
    pub(crate) fn want(&mut self, needed: usize) {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if needed <= FIRST_BYTES {
                // The next read takes a buffer of this length or more.
                return;
            }
        } else if self.start + needed > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if needed > self.buffer.len() {
            // A short frame or a command; of an encrypted body, which comes whole, the claimed
            // length is believed only so far: what really comes makes the buffer grow.
            let believed = needed.min((2 * self.buffer.len()).max(BELIEVED_BYTES));
            // Without memory the next read finds no room.
            let _ = grow(&mut self.buffer, believed.next_power_of_two());
        }
    }

    /// Adds what came by another way than its carrier.
    pub(super) fn append(
        &mut self,
        bytes: &[u8],
        spares: &mut Spares,
    ) -> Result<(), TryReserveError> {
        self.want(bytes.len() + self.end - self.start);
        if self.buffer.is_empty() {
            self.make_room(spares)?;
        }
        let needed = self.end + bytes.len();
        if needed > self.buffer.len() {
            grow(&mut self.buffer, needed.next_power_of_two())?;
        }
        debug_assert!(self.start <= self.end, "what is taken has come");
        self.buffer[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
        Ok(())
    }

    pub(crate) fn begin_long_body(&mut self, length: u64, more: bool) {
        debug_assert!(self.long.is_none(), "one body at a time");
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.expects_long = true;
        // A claimed length is believed only so far; what really comes makes it grow.
        let mut bytes = match length {
            ..=BELIEVED_BYTES => rooms::empty(length, BEHIND_BYTES),
            _ => Vec::new(),
        };
        if length > BELIEVED_BYTES {
            // Without memory the next read finds no room.
            let _ = bytes.try_reserve_exact(BELIEVED_BYTES);
        }
        self.long = Some(LongBody {
            bytes,
            more,
            length,
        });
    }

    #[inline]
    pub(crate) fn is_amid_long_body(&self) -> bool {
        self.long.is_some()
    }

    /// Moves what is buffered of the long body over. Returns it if it is complete.
    #[inline(never)]
    pub(crate) fn feed_long_body(
        &mut self,
        machine: &mut Connection,
    ) -> Result<Option<LongBody>, TryReserveError> {
        let Some(long) = self.long.as_mut() else {
            return Ok(None);
        };
        debug_assert!(
            long.bytes.len() <= long.length,
            "what is beyond was put back"
        );
        let wanted = long.length - long.bytes.len();
        let here = wanted.min(self.end - self.start);
        if here > 0 {
            long.bytes.try_reserve(here)?;
            long.bytes
                .extend_from_slice(&self.buffer[self.start..self.start + here]);
            self.start += here;
        }
        let counted = machine.body_left();
        let received = long.length as u64 - long.bytes.len() as u64;
        machine.body_received(counted.saturating_sub(received));
        match long.is_complete() {
            true => Ok(self.long.take()),
            false => Ok(None),
        }
    }

    /// Everything received, as one message: what a STREAM socket hands out.
    pub(crate) fn take_all(&mut self) -> Option<Message> {
        if self.start == self.end {
            return None;
        }
        let message = Message::from_slice(&self.buffer[self.start..self.end]);
        self.start = 0;
        self.end = 0;
        Some(message)
    }

    pub(super) fn fill(&mut self, carrier: &mut Carrier, spares: &mut Spares) -> Fill {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            match &self.long {
                // Its room may be full. A read into none would return 0, as at the end.
                Some(long) if long.is_complete() => return Fill::Some,
                Some(_) => return self.fill_long(carrier, spares),
                None => {}
            }
        }
        if self.end == self.buffer.len() && self.make_room(spares).is_err() {
            return Fill::Failed(Errno::NOMEM);
        }
        let room = &mut self.buffer[self.end..];
        let limit = if self.expects_long {
            room.len().min(HEADER_READ_BYTES)
        } else {
            room.len()
        };
        let room = &mut room[..limit];
        let fill = match carrier.read(room) {
            Ok(0) => Fill::Closed,
            Ok(count) => {
                self.was_filled = count == room.len() && !self.expects_long;
                self.end += count;
                self.expects_long = false;
                return if count == limit {
                    Fill::Some
                } else {
                    Fill::All
                };
            }
            Err(Errno::AGAIN) => Fill::WouldBlock,
            Err(Errno::INTR) => Fill::Some,
            Err(error) => Fill::Failed(error),
        };
        self.rest(spares);
        fill
    }

    /// Reads into the message itself; what comes behind its end goes back into the buffer.
    fn fill_long(&mut self, carrier: &mut Carrier, spares: &mut Spares) -> Fill {
        let Some(long) = &mut self.long else {
            return Fill::WouldBlock;
        };
        debug_assert!(!long.is_complete(), "a complete body is taken, not read on");
        if long.bytes.len() == long.bytes.capacity() {
            let wanted = long.length - long.bytes.len();
            let more = wanted.min(long.bytes.len().max(BELIEVED_BYTES));
            // Memory that a peer fills is no reason to end the process: its connection ends.
            if long.bytes.try_reserve_exact(more).is_err() {
                return Fill::Failed(Errno::NOMEM);
            }
        }
        let fill = match carrier.read_to(&mut long.bytes) {
            Ok(0) => return Fill::Closed,
            // As much as there was room for: there may be more.
            Ok(_) if long.bytes.len() == long.bytes.capacity() => Fill::Some,
            Ok(_) => Fill::All,
            Err(Errno::AGAIN) => Fill::WouldBlock,
            Err(Errno::INTR) => Fill::Some,
            Err(error) => Fill::Failed(error),
        };
        if long.bytes.len() > long.length {
            let beyond = long.bytes.split_off(long.length);
            if self.buffer.is_empty() {
                self.buffer = spares.take();
            }
            if self.buffer.len() < beyond.len() {
                self.buffer.resize(beyond.len().next_power_of_two(), 0);
            }
            self.buffer[..beyond.len()].copy_from_slice(&beyond);
            debug_assert_eq!(self.start, 0, "nothing else had come");
            self.end = beyond.len();
        }
        fill
    }

    fn make_room(&mut self, spares: &mut Spares) -> Result<(), TryReserveError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let length = self.buffer.len();
        if length == 0 {
            self.buffer = spares.take();
        } else if self.end == length || (self.was_filled && length < BUFFER_BYTES_MAX) {
            grow(&mut self.buffer, length * 2)?;
        }
        Ok(())
    }
}

/// Makes a buffer longer, if there is memory for it.
fn grow(buffer: &mut Vec<u8>, length: usize) -> Result<(), TryReserveError> {
    debug_assert!(length >= buffer.len(), "it gets longer");
    buffer.try_reserve_exact(length - buffer.len())?;
    buffer.resize(length, 0);
    Ok(())
}

/// What a connection's buffer grows to while reads fill it.
const BUFFER_BYTES_MAX: usize = 128 << 10;
/// Behind a long frame so much is read at once: its successor's header, and small frames.
const HEADER_READ_BYTES: usize = 512;
/// Room behind a long body: what is read with it is the next header, and the kernel need not be
/// asked whether there was more.
const BEHIND_BYTES: usize = 64;
/// Room that a claimed length alone is given.
const BELIEVED_BYTES: usize = 1 << 20;
