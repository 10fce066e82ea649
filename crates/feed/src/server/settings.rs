//! Settings of a session, and why it ends.

use crate::client::ReceiveError;
use crate::wire::{MessageError, PACKET_LENGTH_MAX, PacketError, SlowPolicy};

use super::{HEARTBEAT_INTERVAL_NS_MAX, PATTERNS_MAX};

/// Settings of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// Longest silence of this side, at most [`HEARTBEAT_INTERVAL_NS_MAX`].
    pub heartbeat_interval_ns: u64,
    /// Largest packet, header included.
    pub packet_limit_bytes: usize,
    /// Messages a client may be behind before the slow policy applies. The journal's window is a
    /// limit in any case. `u64::MAX` for the window alone.
    pub lag_messages_max: u64,
    /// What happens to a client that is further behind, unless it chooses a policy itself.
    pub slow_policy: SlowPolicy,
    /// Maximum patterns of a client, at most [`PATTERNS_MAX`].
    pub patterns_max: usize,
    /// Whether a client may log in as a publisher.
    pub publishers: bool,
    /// Whether a client may log in as a subscriber.
    pub subscribers: bool,
}

impl Default for SessionConfig {
    fn default() -> Self {
        SessionConfig {
            heartbeat_interval_ns: HEARTBEAT_INTERVAL_NS_MAX,
            packet_limit_bytes: PACKET_LENGTH_MAX,
            lag_messages_max: u64::MAX,
            slow_policy: SlowPolicy::Conflate,
            patterns_max: PATTERNS_MAX,
            publishers: true,
            subscribers: true,
        }
    }
}

/// Why a client's bytes end its session: always the client's fault. Call `produce` once more (a
/// refusal may be waiting), then close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The framing is lost.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// A packet's checksum is correct but its messages are invalid.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A packet before the login, a second login, or a control that only servers send.
    #[error("a packet out of the protocol's order")]
    OutOfOrder,
    /// A packet with a wrong checksum that may have been a control: nothing would bring it back.
    #[error("a control was damaged on its way")]
    Damaged,
    /// The login was refused.
    #[error("the login was refused")]
    Refused,
    /// The publisher's session has another connection.
    #[error("another connection publishes this session")]
    SessionInUse,
}

impl From<ReceiveError> for SessionError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::FramingLost(error) => SessionError::Packet(error),
            ReceiveError::Malformed(error) => SessionError::Message(error),
            _ => SessionError::OutOfOrder,
        }
    }
}
