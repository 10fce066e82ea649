//! Which messages of the stream KEYS count. Every reader comes to the same result, because it
//! depends on the messages and their order alone.

use super::frame::{HistoryId, KeysFrame, KeysFrameError};

/// Maximum difference between the epochs of two reigns. An epoch is the revision of a lease, and
/// revisions go on with 10 in a millisecond when a bucket is made again: this is 892 years of it.
pub const EPOCH_JUMP_MAX: u64 = 1 << 48;

/// How far a reader of the stream has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeysPosition {
    /// Sequence of the last message that was read.
    pub sequence: u64,
    /// The reign, 0 before the first fence.
    pub epoch: u64,
    /// The name of the reign.
    pub history: HistoryId,
    /// Offset in the log behind the last whole group: what is applied, and what may be
    /// acknowledged.
    pub whole: u64,
    /// Offset behind the last byte that counts. Bytes between `whole` and this one belong to a
    /// group of which more is to come. A fence discards them.
    pub end: u64,
}

/// What a message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// Nothing: it is of a deposed primary, or repeats what counts already.
    None,
    /// These bytes of the log continue the ones before.
    Bytes(&'a [u8]),
    /// A reign begins. Bytes of a group that is not whole are discarded.
    Fence {
        /// Address of the primary.
        address: &'a [u8],
    },
}

/// The stream is not what a reader can go on with. Nothing is applied behind that place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysFault {
    /// Messages are missing.
    #[error(
        "messages {expected} to {} of the stream are missing, and no snapshot has them",
        found - 1
    )]
    Hole {
        /// The message that must come.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// A message is none of ours, or damaged.
    #[error("message {sequence} of the stream cannot be read: {error}")]
    Damaged {
        /// Its sequence.
        sequence: u64,
        /// What is wrong with it.
        error: KeysFrameError,
    },
    /// A fence, or a message of a reign without one, contradicts what is before it.
    #[error("message {sequence} of the stream contradicts those before it")]
    Contradiction {
        /// Its sequence.
        sequence: u64,
    },
    /// No fence can follow this message.
    #[error(
        "message {sequence} is the last of the stream, and no reign can begin behind it: epoch \
         {epoch} would follow {before}"
    )]
    NoReign {
        /// The last message.
        sequence: u64,
        /// The epoch of the reign before.
        before: u64,
        /// The epoch that a fence would have.
        epoch: u64,
    },
    /// The stream ends before messages that it had acknowledged.
    #[error("the stream ends at message {found}, but had message {had}: NATS has lost data")]
    Lost {
        /// The last message that is known.
        had: u64,
        /// Where it ends now.
        found: u64,
    },
    /// There is no stream any more.
    #[error("the stream is gone, which had message {had}: NATS has lost data")]
    Gone {
        /// The last message that is known.
        had: u64,
    },
    /// The stream was deleted and made again.
    #[error(
        "the stream was made again and begins at message {origin}, but had message {had}: NATS has \
         lost data"
    )]
    Replaced {
        /// The last message that is known.
        had: u64,
        /// The first sequence of the stream that is there.
        origin: u64,
    },
    /// The primary's own log no longer has bytes that the stream needs.
    #[error("the log no longer has offset {0}, which the stream lacks")]
    Trimmed(u64),
}

impl KeysPosition {
    /// Reads the next message. After an error the position is as before.
    pub fn read<'a>(&mut self, sequence: u64, message: &'a [u8]) -> Result<Effect<'a>, KeysFault> {
        if sequence <= self.sequence {
            return Ok(Effect::None);
        }
        self.is_next(sequence)?;
        let frame = KeysFrame::decode(message);
        let frame = frame.map_err(|error| KeysFault::Damaged { sequence, error })?;
        let effect = match frame.header.is_fence {
            true => self.fence(sequence, frame)?,
            false => self.bytes(sequence, frame)?,
        };
        self.sequence = sequence;
        debug_assert!(self.whole <= self.end, "a whole group has come");
        Ok(effect)
    }

    /// Goes on behind a message that has no effect.
    pub fn pass_over(&mut self, sequence: u64) -> Result<(), KeysFault> {
        if sequence > self.sequence {
            self.is_next(sequence)?;
            self.sequence = sequence;
        }
        Ok(())
    }

    fn is_next(&self, sequence: u64) -> Result<(), KeysFault> {
        let expected = self.sequence + 1;
        match sequence == expected {
            true => Ok(()),
            false => Err(KeysFault::Hole {
                expected,
                found: sequence,
            }),
        }
    }

    fn fence<'a>(&mut self, sequence: u64, frame: KeysFrame<'a>) -> Result<Effect<'a>, KeysFault> {
        let header = frame.header;
        if header.epoch.saturating_sub(self.epoch) > EPOCH_JUMP_MAX {
            // It leaves no room for the epochs behind it.
            return Err(KeysFault::Contradiction { sequence });
        }
        if header.epoch <= self.epoch {
            // A fence names the message before it, so its writer has read of the later reign.
            return Err(KeysFault::Contradiction { sequence });
        }
        if header.offset != self.whole {
            return Err(KeysFault::Contradiction { sequence });
        }
        (self.epoch, self.history) = (header.epoch, header.history);
        self.end = self.whole;
        let address = frame.body;
        Ok(Effect::Fence { address })
    }

    fn bytes<'a>(&mut self, sequence: u64, frame: KeysFrame<'a>) -> Result<Effect<'a>, KeysFault> {
        let header = frame.header;
        if header.epoch > self.epoch {
            return Err(KeysFault::Contradiction { sequence });
        }
        let is_behind = header.offset > self.end;
        if header.history != self.history || is_behind || frame.end() <= self.end {
            // Of a deposed primary. Or a message of this reign that came late, behind one that was
            // sent again: its primary does not count it as stored either.
            return Ok(Effect::None);
        }
        let known = (self.end - header.offset) as usize;
        self.end = frame.end();
        if header.is_whole {
            self.whole = self.end;
        }
        Ok(Effect::Bytes(&frame.body[known..]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::KeysHeader;
    use super::*;

    fn fence(epoch: u64, offset: u64) -> Vec<u8> {
        let header = KeysHeader {
            is_fence: true,
            epoch,
            offset,
            history: [epoch as u8; 20],
            ..KeysHeader::default()
        };
        header.with_body(b"a:1")
    }

    fn bytes(epoch: u64, offset: u64, body: &[u8], is_whole: bool) -> Vec<u8> {
        let header = KeysHeader {
            is_whole,
            epoch,
            offset,
            history: [epoch as u8; 20],
            ..KeysHeader::default()
        };
        header.with_body(body)
    }

    fn read(position: &mut KeysPosition, message: &[u8]) -> Option<Vec<u8>> {
        let sequence = position.sequence + 1;
        match position.read(sequence, message).unwrap() {
            Effect::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }

    #[test]
    fn what_a_deposed_primary_had_sent_counts_nowhere() {
        let mut position = KeysPosition::default();
        read(&mut position, &fence(1, 0));
        assert_eq!(
            read(&mut position, &bytes(1, 0, b"ab", true)),
            Some(b"ab".to_vec())
        );
        read(&mut position, &fence(2, 2));
        assert_eq!(read(&mut position, &bytes(1, 2, b"cd", true)), None);
        assert_eq!(
            read(&mut position, &bytes(2, 2, b"ef", true)),
            Some(b"ef".to_vec())
        );
        assert_eq!((position.whole, position.sequence), (4, 5));
    }

    #[test]
    fn a_group_that_is_not_whole_ends_with_its_reign() {
        let mut position = KeysPosition::default();
        read(&mut position, &fence(1, 0));
        read(&mut position, &bytes(1, 0, b"ab", true));
        read(&mut position, &bytes(1, 2, b"cd", false));
        assert_eq!((position.whole, position.end), (2, 4));
        read(&mut position, &fence(2, 2));
        assert_eq!((position.whole, position.end), (2, 2));
    }

    #[test]
    fn repeated_bytes_count_once() {
        let mut position = KeysPosition::default();
        read(&mut position, &fence(1, 0));
        read(&mut position, &bytes(1, 0, b"ab", false));
        let again = bytes(1, 0, b"abcd", true);
        assert_eq!(read(&mut position, &again), Some(b"cd".to_vec()));
        assert_eq!(read(&mut position, &again), None);
        // One that came late, behind one that is not there.
        assert_eq!(read(&mut position, &bytes(1, 6, b"gh", true)), None);
        assert_eq!((position.whole, position.end), (4, 4));
    }

    #[test]
    fn holes_damage_and_contradictions_are_errors_and_change_nothing() {
        let mut position = KeysPosition::default();
        read(&mut position, &fence(3, 0));
        let before = position;
        let later = fence(4, 0);
        let hole = position.read(3, &later);
        assert_eq!(
            hole,
            Err(KeysFault::Hole {
                expected: 2,
                found: 3
            })
        );
        assert!(matches!(
            position.read(2, b"something else"),
            Err(KeysFault::Damaged { sequence: 2, .. })
        ));
        for message in [fence(3, 0), fence(4, 1), bytes(4, 0, b"x", true)] {
            let result = position.read(2, &message);
            assert_eq!(result, Err(KeysFault::Contradiction { sequence: 2 }));
        }
        assert_eq!(position, before);
    }

    /// All hubs took a forged fence of the highest epoch, and none could begin a reign behind it.
    #[test]
    fn a_fence_whose_epoch_leaves_no_room_for_others_is_refused() {
        let mut position = KeysPosition::default();
        // A lease of today.
        read(&mut position, &fence(17_958_850_160_010, 0));
        let before = position;
        for epoch in [before.epoch + EPOCH_JUMP_MAX + 1, u64::MAX] {
            let forged = fence(epoch, 0);
            let result = position.read(2, &forged);
            assert_eq!(result, Err(KeysFault::Contradiction { sequence: 2 }));
        }
        assert_eq!(position, before);
        read(&mut position, &fence(before.epoch + EPOCH_JUMP_MAX, 0));
    }
}
