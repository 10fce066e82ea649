//! Streams of numbered messages that are only bytes here: what MoldUDP64 and SoupBinTCP share.

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

    /// As much of `text` as fits, left-aligned.
    pub fn new(text: &str) -> Self {
        let mut bytes = [b' '; Self::LENGTH];
        let length = text.len().min(Self::LENGTH);
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self(bytes)
    }

    /// From the wire, as it is.
    #[inline]
    pub const fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// For the wire.
    #[inline]
    pub const fn to_bytes(self) -> [u8; Self::LENGTH] {
        self.0
    }

    /// Without the padding at either side; senders differ in where they put it.
    pub fn trimmed(&self) -> &[u8] {
        self.0.trim_ascii()
    }

    /// Whether there is no name.
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

/// Takes a stream's messages; statically dispatched.
pub trait SequencedSink {
    /// The next message: sequences strictly grow, each comes at most once.
    fn message(&mut self, sequence: u64, message: &[u8]);

    /// These messages, each behind its length, come next, as far as they were not there before:
    /// time to fetch what the first [`AHEAD`] of them are about.
    fn expect(&mut self, frames: &[u8]) {
        let _ = frames;
    }

    /// What is known to be missing changed.
    fn gap(&mut self, gap: Gap) {
        let _ = gap;
    }

    /// The stream is of this session from now on; its sequences begin anew. Also called for the
    /// first session.
    fn session(&mut self, session: SessionName) {
        let _ = session;
    }

    /// The session ended, and everything before this sequence was delivered or reported lost.
    fn end_of_session(&mut self, next_sequence: u64) {
        let _ = next_sequence;
    }
}

/// Drops everything; for measuring and fuzzing.
impl SequencedSink for tidewire_feed::client::NullSink {
    fn message(&mut self, _: u64, _: &[u8]) {}
}

/// Of how many messages [`SequencedSink::expect`] is told at a time.
pub const AHEAD: usize = 16;
