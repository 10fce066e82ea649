//! Streams of numbered messages as plain bytes: the common part of MoldUDP64 and SoupBinTCP.

mod store;

pub use store::{MESSAGE_LENGTH_MAX, MessageTooLong, Store};

use std::fmt;

use tidewire_feed::client::Gap;

/// The name of a session: ten characters, padded with spaces.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SessionName([u8; SessionName::LENGTH]);

impl SessionName {
    /// Bytes on the wire.
    pub const LENGTH: usize = 10;

    /// Creates a name from as much of `text` as fits, left-aligned.
    pub fn new(text: &str) -> Self {
        let mut bytes = [b' '; Self::LENGTH];
        let length = text.len().min(Self::LENGTH);
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self(bytes)
    }

    /// Creates a name from its wire bytes.
    #[inline]
    pub const fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// Returns the wire bytes.
    #[inline]
    pub const fn to_bytes(self) -> [u8; Self::LENGTH] {
        self.0
    }

    /// Returns the name without padding on either side; senders align it differently.
    pub fn trimmed(&self) -> &[u8] {
        self.0.trim_ascii()
    }

    /// Returns whether the name is blank.
    pub fn is_blank(&self) -> bool {
        self.trimmed().iter().all(|&byte| byte == 0)
    }
}

impl fmt::Debug for SessionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.escape_ascii().to_string(), formatter)
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.trimmed().escape_ascii(), formatter)
    }
}

/// Receives a stream's messages, with static dispatch.
pub trait SequencedSink {
    /// The next message: sequences strictly increase, each arrives at most once.
    fn message(&mut self, sequence: u64, message: &[u8]);

    /// Announces the next messages, each after its length; some may have been delivered before.
    /// The sink can prefetch the data of the first [`AHEAD`].
    fn expect(&mut self, frames: &[u8]) {
        let _ = frames;
    }

    /// The set of missing sequences changed.
    fn gap(&mut self, gap: Gap) {
        let _ = gap;
    }

    /// Messages have been missing for a while and have been requested: what was made of the others
    /// may be wrong until [`SequencedSink::values_right`].
    fn values_doubtful(&mut self) {}

    /// No message is missing for long any more. Those reported as lost stay lost.
    fn values_right(&mut self) {}

    /// The stream begins for this receiver at a later message than the session's first; the ones
    /// before it will not arrive.
    fn joined_late(&mut self, next_sequence: u64) {
        let _ = next_sequence;
    }

    /// The stream has this session from now on, and its sequences start again. Also called for
    /// the first session.
    fn session(&mut self, session: SessionName) {
        let _ = session;
    }

    /// The session ended, and everything before this sequence was delivered or reported lost.
    fn end_of_session(&mut self, next_sequence: u64) {
        let _ = next_sequence;
    }
}

/// Ignores everything, for benchmarks and fuzzing.
impl SequencedSink for tidewire_feed::client::NullSink {
    fn message(&mut self, _: u64, _: &[u8]) {}
}

/// Number of messages that [`SequencedSink::expect`] looks ahead.
pub const AHEAD: usize = 8;
