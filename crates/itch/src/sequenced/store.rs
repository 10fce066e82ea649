//! The recent messages of a stream, for sending and retransmission.

use thiserror::Error;

use super::SessionName;

/// Maximum bytes of a message: fits an Ethernet datagram with headers and length.
pub const MESSAGE_LENGTH_MAX: usize = 1_400;

/// The message is longer than [`MESSAGE_LENGTH_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a message of {0} bytes exceeds the limit of {MESSAGE_LENGTH_MAX}")]
pub struct MessageTooLong(pub usize);

/// A ring of messages, each after its two-byte length, as in the packets of both protocols.
pub struct Store {
    session: SessionName,
    next_sequence: u64,
    oldest_sequence: u64,
    bytes: Box<[u8]>,
    /// Byte position of each sequence, counted from the first byte of the stream.
    positions: Box<[u64]>,
    tail: u64,
    is_ended: bool,
}

impl Store {
    /// Creates a store of the newest `messages` messages, if they have 64 bytes on average. Both
    /// limits are rounded up to a power of two.
    pub fn new(session: SessionName, messages: usize) -> Self {
        let messages = messages.clamp(64, 1 << 26).next_power_of_two();
        let byte_count = (messages * 64).max(64 * 1_024);
        Self {
            session,
            next_sequence: 1,
            oldest_sequence: 1,
            bytes: vec![0; byte_count].into(),
            positions: vec![0; messages].into(),
            tail: 0,
            is_ended: false,
        }
    }

    /// Appends a message and returns its sequence.
    ///
    /// # Errors
    /// [`MessageTooLong`].
    pub fn append(&mut self, message: &[u8]) -> Result<u64, MessageTooLong> {
        if message.len() > MESSAGE_LENGTH_MAX {
            return Err(MessageTooLong(message.len()));
        }
        let byte_count = self.bytes.len() as u64;
        let length = message.len() as u64 + 2;
        let mut position = self.tail;
        if position % byte_count + length > byte_count {
            position = position.next_multiple_of(byte_count);
        }
        let end = position + length;
        while self.oldest_sequence < self.next_sequence
            && (self.next_sequence - self.oldest_sequence == self.positions.len() as u64
                || self.position(self.oldest_sequence) + byte_count < end)
        {
            self.oldest_sequence += 1;
        }
        let at = (position % byte_count) as usize;
        self.bytes[at..at + 2].copy_from_slice(&(message.len() as u16).to_be_bytes());
        self.bytes[at + 2..at + 2 + message.len()].copy_from_slice(message);
        let index = self.next_sequence as usize % self.positions.len();
        self.positions[index] = position;
        self.tail = end;
        self.next_sequence += 1;
        Ok(self.next_sequence - 1)
    }

    /// Returns the stream's session.
    pub fn session(&self) -> SessionName {
        self.session
    }

    /// Returns the sequence of the next message.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Returns the oldest sequence still kept, or the next sequence if the store is empty.
    pub fn oldest_sequence(&self) -> u64 {
        self.oldest_sequence
    }

    /// Ends the session: receivers are told once they have everything.
    pub fn end_session(&mut self) {
        self.is_ended = true;
    }

    /// Returns whether the session ended.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Returns a message with its length, if it is still kept.
    #[inline]
    pub fn block(&self, sequence: u64) -> Option<&[u8]> {
        if !(self.oldest_sequence..self.next_sequence).contains(&sequence) {
            return None;
        }
        let at = (self.position(sequence) % self.bytes.len() as u64) as usize;
        let length = u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
        Some(&self.bytes[at..at + 2 + usize::from(length)])
    }

    #[inline]
    fn position(&self, sequence: u64) -> u64 {
        self.positions[sequence as usize % self.positions.len()]
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Store")
            .field("session", &self.session)
            .field("oldest_sequence", &self.oldest_sequence)
            .field("next_sequence", &self.next_sequence)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_whatever_their_length() {
        let mut store = Store::new(SessionName::new("S"), 64);
        let message = |sequence: u64| vec![sequence as u8; sequence as usize % 1_401];
        for sequence in 1..=5_000 {
            assert_eq!(store.append(&message(sequence)), Ok(sequence));
            let oldest = store.oldest_sequence();
            assert!(oldest <= sequence && sequence - oldest < 64);
            for sequence in oldest..=sequence {
                assert_eq!(store.block(sequence).unwrap()[2..], message(sequence));
            }
            assert_eq!(store.block(oldest - 1), None);
            assert_eq!(store.block(sequence + 1), None);
        }
        assert_eq!(store.append(&[0; 1_401]), Err(MessageTooLong(1_401)));
    }
}
