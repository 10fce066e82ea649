//! What an owner is given, and what it gives.

use std::fmt;
use std::sync::Arc;

use crate::path::Path;

/// Settings of an owner.
#[derive(Clone, Copy, Debug)]
pub struct OwnerConfig {
    /// The reign: the revision of the lease, 1 to [`EPOCH_MAX`].
    pub epoch: u64,
    /// Number of this hub, for the operator's eyes.
    pub origin: u16,
    /// Relays that the source has passed, this one included; 0 for a source of the hub itself.
    pub relays: u8,
    /// The clusters that the source has come through, one for each of these relays.
    pub path: Path,
    /// Time from the end of a snapshot to the beginning of the next, if anything has changed.
    pub snapshot_interval_ns: u64,
}

impl OwnerConfig {
    /// Returns the default settings for a reign.
    pub fn of(epoch: u64) -> OwnerConfig {
        OwnerConfig {
            epoch,
            origin: 0,
            relays: 0,
            path: Path::default(),
            snapshot_interval_ns: 5_000_000_000,
        }
    }
}

/// The name of a frame of the log; its text is the value of the header `Nats-Msg-Id`. A frame that
/// is sent again keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId {
    /// The reign.
    pub epoch: u64,
    /// Number of the frame among those of the reign that went to the log, from 0.
    pub number: u64,
}

impl fmt::Display for FrameId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.epoch, self.number)
    }
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The log's subject. The stream must refuse it unless its last sequence is this one; report
    /// the outcome.
    Log {
        /// The frame's name.
        id: FrameId,
        /// The value of the header `Nats-Expected-Last-Sequence`.
        expected_last: u64,
    },
    /// The subject *live*, which no stream keeps. Nothing is reported.
    Live,
    /// A page of the snapshot; report the outcome.
    Page(u32),
    /// The head of the snapshot; report the outcome.
    Head,
}

/// A frame to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Where it goes.
    pub to: Destination,
    /// The whole frame.
    pub bytes: Arc<[u8]>,
}

/// What the caller must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerAction {
    /// Publish a frame, in the order of the actions.
    Publish(Publication),
    /// Read the log's last message from its leader, and call [`Owner::log_end`].
    AskLogEnd {
        /// Number of the question, for the answer.
        question: u64,
    },
}

/// What an owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// The log's end is being asked for; frames go to *live* alone.
    Asking,
    /// The log takes frames.
    Ready,
    /// Another hub owns the source now, in this reign. Nothing is ever sent again.
    Deposed {
        /// The other's reign.
        by: u64,
    },
    /// The reign has ended in order.
    Ended,
}

/// Figures of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerFigures {
    /// The reign.
    pub epoch: u64,
    /// Next sequence to be published.
    pub sequence: u64,
    /// Sequences of the stream that the edges were not sent yet.
    pub lag: u64,
    /// Sequences of the stream that the log was not sent yet.
    pub log_lag: u64,
    /// Frames that the log has not acknowledged.
    pub unacknowledged: u64,
    /// Frames published for the first time.
    pub frames: u64,
    /// Of these, those that went to *live* alone.
    pub live_frames: u64,
    /// Heartbeats published.
    pub heartbeats: u64,
    /// Frames sent to the log again.
    pub repeated: u64,
    /// Times that the journal had lost what was to be published.
    pub gaps: u64,
    /// Times that the log had lost frames of this reign.
    pub log_losses: u64,
    /// Pages of the snapshot written.
    pub pages: u64,
    /// Heads of the snapshot that the stream has taken.
    pub snapshots: u64,
    /// Age of the newest snapshot, in nanoseconds; `None` before the first.
    pub snapshot_age_ns: Option<u64>,
}

/// The time, by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The monotonic clock of all other calls.
    pub now_ns: u64,
    /// Milliseconds since the UNIX epoch, for readers on other machines; 0 if unknown.
    pub wall_ms: u64,
}
