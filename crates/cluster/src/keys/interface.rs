//! What a member of a group is set up with, what it asks for, and what it tells.

use super::frame::{BODY_LENGTH_MAX, HistoryId, KeysHeader};
#[cfg(doc)]
use super::member::KeysMember;
use super::position::{KeysFault, KeysPosition};
#[cfg(doc)]
use crate::lease::Lease;
use crate::lease::{LeaseAction, LeaseConfig};

/// Settings of a member.
#[derive(Clone, Debug)]
pub struct KeysConfig {
    /// The lease.
    pub lease: LeaseConfig,
    /// Random bytes of this process. Reigns are named by them.
    pub seed: [u8; 12],
    /// Messages that may wait for their answers.
    pub in_flight_max: usize,
    /// Maximum bytes of a message's body.
    pub body_bytes_max: usize,
    /// Time from a look of a standby that found nothing to the next.
    pub poll_ns: u64,
    /// Time from a failure to the next attempt.
    pub retry_ns: u64,
    /// How long the stream may look as if it had lost messages: a server that was cut off may
    /// answer with an old end.
    pub doubt_ns: u64,
    /// How long the stream may seem not to be there, or to be another one.
    pub gone_ns: u64,
    /// Time from one look whether the stream has all that it had to the next.
    pub look_ns: u64,
}

impl KeysConfig {
    /// Returns the usual settings.
    pub fn of(seed: [u8; 12]) -> KeysConfig {
        KeysConfig {
            lease: LeaseConfig::default(),
            seed,
            in_flight_max: 4,
            body_bytes_max: BODY_LENGTH_MAX,
            poll_ns: 25_000_000,
            retry_ns: 100_000_000,
            doubt_ns: 30_000_000_000,
            gone_ns: 10_000_000_000,
            look_ns: 1_000_000_000,
        }
    }
}

/// What a hub is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysRole {
    /// It reads the stream from its snapshot on, and has not come to the end yet.
    Loading,
    /// It has all that was acknowledged, but for the last moment.
    Standby,
    /// It has the lease, and reads what is before its fence.
    Candidate,
    /// It appends.
    Primary,
    /// Another hub is primary: what it has is useless. Call [`KeysMember::restart`].
    Deposed,
    /// The stream cannot be gone on with.
    Failed,
    /// It stores its keys again, if it has the lease: [`KeysMember::rebuild`].
    Rebuilding,
}

/// What the caller must do. Each request is answered once, at the latest when it has timed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeysAction {
    /// Write or read the lease; the answers are those of [`Lease`], by [`KeysMember::lease`].
    Lease(LeaseAction),
    /// Store a message with the bytes of the log from the header's offset to `end`:
    /// [`KeysMember::stored`].
    Append {
        /// Number of the request.
        request: u64,
        /// The stream's last sequence must be this.
        expected: u64,
        /// The header.
        header: KeysHeader,
        /// Offset behind the bytes.
        end: u64,
    },
    /// Store a fence, whose body is this hub's address: [`KeysMember::stored`].
    Fence {
        /// Number of the request.
        request: u64,
        /// The stream's last sequence must be this.
        expected: u64,
        /// The header.
        header: KeysHeader,
    },
    /// Ask the stream's leader what it has: [`KeysMember::ends_at`], [`KeysMember::has_no_stream`]
    /// or [`KeysMember::failed`].
    AskEnd {
        /// Number of the request.
        request: u64,
    },
    /// Read messages behind a sequence: [`KeysMember::fetched`] or [`KeysMember::failed`].
    Fetch {
        /// Number of the request.
        request: u64,
        /// The last one that is known.
        after: u64,
    },
}

/// What came of a message that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the stream, with this sequence.
    Stored(u64),
    /// The stream's last sequence is another one.
    Refused,
    /// No answer, or an error. It may be stored or not, now or later.
    Unknown,
}

/// What has happened, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeysEvent {
    /// Whole units of another hub's log, to be applied behind the ones before.
    Apply {
        /// Bytes of the log.
        bytes: Vec<u8>,
        /// Offset behind them.
        end: u64,
    },
    /// Bytes of this hub's own reign, as the stream has them. If they are not those of its log,
    /// another program has written them: call [`KeysMember::diverges`].
    Own {
        /// Bytes of the log.
        bytes: Vec<u8>,
        /// Offset behind them.
        end: u64,
    },
    /// Another hub's reign begins.
    Reign {
        /// The reign.
        history: HistoryId,
        /// Address of the primary.
        address: Vec<u8>,
    },
    /// This hub is primary. All before its fence is applied, and its log goes on at this offset.
    Serving {
        /// The reign.
        history: HistoryId,
        /// Where its log goes on.
        offset: u64,
    },
    /// This hub was primary, and is again: no other one was meanwhile. Its log goes on.
    Resumed,
    /// Messages that this hub needs seem to be missing, beginning with
    /// [`KeysMember::needed_message`]. A snapshot that has them may be there, or may come:
    /// [`KeysMember::position`] says where it must go on. The primary must be told.
    Lacking,
    /// No hub can read this message. This one, the primary, goes on behind it, and needs a
    /// snapshot there: [`KeysMember::needs_snapshot`].
    PassedOver(KeysFault),
    /// This hub is no primary any more. What it has beyond what is acknowledged will never be.
    Deposed,
    /// The stream cannot be gone on with.
    Failed(KeysFault),
}

/// Figures of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysFigures {
    /// What the hub is.
    pub role: KeysRole,
    /// How far it has read.
    pub position: KeysPosition,
    /// Messages without an answer.
    pub in_flight: usize,
    /// How often a message was refused or had no answer.
    pub uncertain: u64,
    /// How often the stream had lost messages that no snapshot had.
    pub losses: u64,
}
