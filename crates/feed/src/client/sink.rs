//! What a receiver is told.

use crate::wire::{
    Definition, EndOfSessionAcknowledgement, LastValue, Login, LoginAccepted, Message, Refused,
};

use super::Client;

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

    /// The other one.
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }

    /// 0 or 1.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A change of what is known to be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gap {
    /// These sequences are missing and will be asked for.
    Opened {
        /// First missing sequence.
        from: u64,
        /// How many.
        count: u64,
    },
    /// These sequences were missing and have all been delivered, in order.
    Recovered {
        /// First of them.
        from: u64,
        /// How many.
        count: u64,
    },
    /// These sequences will never come; the stream goes on after them.
    Lost {
        /// First of them.
        from: u64,
        /// How many.
        count: u64,
        /// Why.
        reason: LossReason,
    },
}

/// Why sequences are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The sender does not keep them any more.
    TooOld,
    /// The sender left them out because this receiver was too slow; a snapshot stands for them.
    Conflated,
    /// The sender left them out because this receiver was too slow, and nothing stands for them.
    Dropped,
    /// The sender did not answer the requests.
    NoAnswer,
    /// The sender began another session.
    SessionChanged,
}

/// Takes a receiver's events; statically dispatched. Every method but the first does nothing
/// unless written.
///
/// Order: `message` comes with strictly growing sequences, each at most once. A
/// `snapshot_record` may be newer than the stream's position: whoever keeps last values applies
/// messages and records *if newer* per symbol ([`LastValue::apply`], [`LastValue::merge`]).
pub trait Sink {
    /// The next message of the stream: a trade, quote, status, definition or unknown.
    fn message(&mut self, sequence: u64, message: &Message);

    /// Messages of this symbol come soon: time to fetch what is kept of it. May be said of symbols
    /// that are not known, and of messages that do not come.
    #[inline]
    fn expect_symbol(&self, symbol: u32) {
        let _ = symbol;
    }

    /// A symbol's definition, out of the stream (then `message` is not called for it) or out of a
    /// snapshot (`sequence` 0).
    fn definition(&mut self, sequence: u64, definition: &Definition) {
        let _ = (sequence, definition);
    }

    /// A snapshot begins.
    fn snapshot_begin(&mut self, as_of: u64) {
        let _ = as_of;
    }

    /// One symbol's latest value.
    fn snapshot_record(&mut self, as_of: u64, record: &LastValue) {
        let _ = (as_of, record);
    }

    /// All records of the snapshot have been delivered. `records` is how many symbols it is of;
    /// those that it passes over, because nothing has changed, are counted too.
    fn snapshot_complete(&mut self, as_of: u64, records: u64) {
        let _ = (as_of, records);
    }

    /// What is known to be missing changed.
    fn gap(&mut self, gap: Gap) {
        let _ = gap;
    }

    /// Messages were lost: a value may be wrong until its symbol's record comes, or until
    /// [`Sink::values_right`]. Symbols that the lost messages were not about get no record.
    fn values_doubtful(&mut self) {}

    /// All values are right, with the stream's position: the snapshot of all that was subscribed
    /// has come, or records of all symbols that a loss may have touched, or a new connection goes
    /// on where the last one stopped.
    fn values_right(&mut self) {}

    /// A heartbeat: the sender's next sequence.
    fn heartbeat(&mut self, next_sequence: u64) {
        let _ = next_sequence;
    }

    /// The login was accepted.
    fn accepted(&mut self, side: Side, accepted: &LoginAccepted) {
        let _ = (side, accepted);
    }

    /// The peer refused something; after a refused login it closes.
    fn refused(&mut self, side: Side, refused: &Refused) {
        let _ = (side, refused);
    }

    /// The sender began another session; its sequences start again.
    fn session_changed(&mut self, old: u32, new: u32) {
        let _ = (old, new);
    }

    /// Nothing came from this side for three heartbeat intervals: values are stale, reconnect.
    fn silent(&mut self, side: Side) {
        let _ = side;
    }

    /// The session ended and everything up to it was delivered or reported lost.
    fn end_of_session(&mut self, end: &EndOfSessionAcknowledgement) {
        let _ = end;
    }

    /// A publisher logs in at a server: the machine that received this session before, if it was
    /// kept ([`crate::server::Session::into_receiver`]); `None` begins anew.
    fn publisher_login(&mut self, login: &Login) -> Option<Box<Client>> {
        let _ = login;
        None
    }
}

/// Drops everything; for measuring and fuzzing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl Sink for NullSink {
    fn message(&mut self, _sequence: u64, _message: &Message) {}
}
