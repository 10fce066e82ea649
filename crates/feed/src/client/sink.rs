//! The events of a receiver.

use crate::wire::{
    Definition, EndOfSessionAcknowledgement, LastValue, Login, LoginAccepted, Message, Refused,
    Venue,
};

use super::Client;
use crate::server::Readable;

/// One of two redundant inputs of the same stream. A single input is side A.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first, or only, input.
    #[default]
    A,
    /// The second input.
    B,
}

impl Side {
    /// Both sides.
    pub const ALL: [Side; 2] = [Side::A, Side::B];

    /// Returns the other side.
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }

    /// Returns 0 or 1.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A change in the set of missing sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gap {
    /// These sequences are missing and will be requested.
    Opened {
        /// First missing sequence.
        from: u64,
        /// Number of sequences.
        count: u64,
    },
    /// These sequences were missing and have now been delivered, in order.
    Recovered {
        /// First sequence.
        from: u64,
        /// Number of sequences.
        count: u64,
    },
    /// These sequences will never arrive; the stream continues after them.
    Lost {
        /// First sequence.
        from: u64,
        /// Number of sequences.
        count: u64,
        /// Reason.
        reason: LossReason,
    },
}

/// Why sequences are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The sender no longer keeps them.
    TooOld,
    /// The sender left them out because this receiver was too slow; a snapshot replaces them.
    Conflated,
    /// The sender left them out because this receiver was too slow, and nothing replaces them.
    Dropped,
    /// The sender did not answer the requests.
    NoAnswer,
    /// The sender started another session.
    SessionChanged,
}

/// Receives a receiver's events, with static dispatch. Every method except `message` does nothing
/// by default.
///
/// Order: `message` is called with strictly increasing sequences, each at most once. A
/// `snapshot_record` may be newer than the stream's position. A sink that keeps last values
/// applies messages and records *if newer* per symbol ([`LastValue::apply`],
/// [`LastValue::merge`]).
pub trait Sink {
    /// The next message of the stream: a trade, quote, status, definition or unknown.
    fn message(&mut self, sequence: u64, message: &Message);

    /// Announces messages of this symbol, so that the sink can prefetch its data. The symbol may
    /// be unknown, and the messages may not follow.
    #[inline]
    fn expect_symbol(&self, symbol: u32) {
        let _ = symbol;
    }

    /// A symbol's definition, from the stream (then `message` is not called for it) or from a
    /// snapshot (`sequence` 0).
    fn definition(&mut self, sequence: u64, definition: &Definition) {
        let _ = (sequence, definition);
    }

    /// The name of a venue number, from the stream (then `message` is not called for it) or told at
    /// the login.
    fn venue(&mut self, venue: &Venue) {
        let _ = venue;
    }

    /// A snapshot begins.
    fn snapshot_begin(&mut self, as_of: u64) {
        let _ = as_of;
    }

    /// A snapshot begins that names each symbol which may be read, if no message of the stream
    /// after it does so. A later one replaces it.
    fn whole_snapshot_begin(&mut self) {}

    /// The newest such snapshot is complete. A symbol that no definition has named since it began,
    /// of a snapshot or of the stream, may not be read any more.
    fn whole_snapshot_complete(&mut self) {}

    /// One symbol's latest value.
    fn snapshot_record(&mut self, as_of: u64, record: &LastValue) {
        let _ = (as_of, record);
    }

    /// The server names a venue after the login. This is no message of the stream.
    fn venue_of_login(&mut self, venue: &Venue) {
        self.venue(venue);
    }

    /// Returns how many of the delivered messages the sink has refused since the last call. They do
    /// not count as applied in the acknowledgement of the session's end.
    fn take_refused(&mut self) -> u64 {
        0
    }

    /// All records of the snapshot have been delivered. `records` counts its symbols, including
    /// those skipped because they have not changed.
    fn snapshot_complete(&mut self, as_of: u64, records: u64) {
        let _ = (as_of, records);
    }

    /// The set of missing sequences changed.
    fn gap(&mut self, gap: Gap) {
        let _ = gap;
    }

    /// Messages have been missing for [`ClientConfig::doubt_delay_ns`](super::ClientConfig), or
    /// were lost, and have been requested. A value may be wrong until its symbol's record arrives
    /// or until [`Sink::values_right`]. Symbols without lost messages get no record. It may be
    /// called again before that.
    fn values_doubtful(&mut self) {}

    /// Messages were lost and nothing replaces them. A value may be wrong until its symbol's next
    /// message.
    fn values_lost(&mut self) {}

    /// The messages that were missing have come, but some that were lost before have not. Values
    /// are as right as they were before [`Sink::values_doubtful`].
    fn values_as_before(&mut self) {}

    /// All values are correct at the stream's position. Either a snapshot of all subscriptions is
    /// complete, or records of all symbols affected by a loss have arrived, or the missing
    /// messages have, or a new connection has resumed the stream without a gap.
    fn values_right(&mut self) {}

    /// A heartbeat with the sender's next sequence.
    fn heartbeat(&mut self, next_sequence: u64) {
        let _ = next_sequence;
    }

    /// The login was accepted.
    fn accepted(&mut self, side: Side, accepted: &LoginAccepted) {
        let _ = (side, accepted);
    }

    /// The peer refused a request; after a refused login it closes the connection.
    fn refused(&mut self, side: Side, refused: &Refused) {
        let _ = (side, refused);
    }

    /// The sender started another session; its sequences start again.
    fn session_changed(&mut self, old: u32, new: u32) {
        let _ = (old, new);
    }

    /// This side was silent for three heartbeat intervals: values are stale, reconnect.
    fn silent(&mut self, side: Side) {
        let _ = side;
    }

    /// The session ended and everything in it was delivered or reported lost.
    fn end_of_session(&mut self, end: &EndOfSessionAcknowledgement) {
        let _ = end;
    }

    /// A client logs in to a server. Returns what it may read, or a refusal.
    fn log_in(&mut self, login: &Login) -> Result<Readable, Refused> {
        let _ = login;
        Ok(None)
    }

    /// A subscriber has asked a server for a name that it may not read.
    fn read_refused(&mut self, name: &str) {
        let _ = name;
    }

    /// A publisher that may log in does so. Returns what the server knows of its session.
    fn publisher_login(&mut self, login: &Login) -> PublisherLogin {
        let _ = login;
        PublisherLogin::New
    }
}

/// What a server knows of a session when its publisher logs in.
#[derive(Debug)]
pub enum PublisherLogin {
    /// Nothing: a new receiver starts.
    New,
    /// The receiver of the session's last connection was kept
    /// ([`crate::server::Session::into_receiver`]).
    Resumed(Box<Client>),
    /// Another connection publishes the session now: this one is refused.
    InUse,
    /// The session's last connection was another user's: this one is refused.
    OfAnother,
}

/// A sink that ignores everything, for benchmarks and fuzzing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl Sink for NullSink {
    fn message(&mut self, _sequence: u64, _message: &Message) {}
}
