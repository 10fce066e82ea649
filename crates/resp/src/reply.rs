//! The incremental reply skipper, for clients and load generators: finds where a reply ends.

use crate::Progress;

/// Most bytes of a bulk in a reply: Redis's own limit.
pub const BULK_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Most bytes of a line in a reply: of a simple text, an error, a number.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Most aggregates within one another.
pub const NESTING_MAX: usize = 128;

/// Why a reply cannot be read: the server's fault, and the connection is beyond rescue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// A length is no number, below -1 or over the limit.
    #[error("invalid length in a reply")]
    InvalidLength,
}

/// What sort of reply a parser has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyKind {
    /// An answer to a request.
    #[default]
    Answer,
    /// An answer to a request that says what went wrong (`-` or `!`).
    Error,
    /// A message that answers no request (`>`).
    Push,
}

/// Finds the end of each reply in the bytes of one connection.
#[derive(Debug, Default)]
pub struct ReplyParser {
    kind: ReplyKind,
}

impl ReplyParser {
    /// A parser for a new connection.
    pub fn new() -> Self {
        ReplyParser::default()
    }

    /// Goes on.
    pub fn skip(&mut self, _input: &[u8]) -> Result<Progress, ReplyError> {
        Ok(Progress::Incomplete { needed: 1 })
    }

    /// What sort of reply was completed last.
    pub fn kind(&self) -> ReplyKind {
        self.kind
    }
}
