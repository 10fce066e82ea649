//! Why a connection ended.

use crate::greeting::Version;
use crate::socket_type::SocketType;

/// Why a connection ended. After any of these the driver writes what is left in
/// [`outgoing`](crate::Connection::outgoing) (an ERROR command, maybe) and closes.
///
/// All but [`Error::Closed`] are the peer's doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes are no ZMTP greeting: another protocol, or ZMTP 1.0.
    #[error("the peer does not speak ZMTP 2.0 or later")]
    NotZmtp,
    /// The peer's version is older than [`Config::version_min`](crate::Config::version_min), or
    /// older than the security asked of it.
    #[error("the peer speaks ZMTP {major} at most, {required} is required")]
    VersionTooOld {
        /// What the peer announced as its major version (1 stands for ZMTP 2.0).
        major: u8,
        /// What we ask for.
        required: Version,
    },
    /// The peer names another security mechanism.
    #[error("the peer uses another security mechanism")]
    MechanismMismatch,
    /// Both peers say they are the server of the mechanism.
    #[error("both peers claim to be the server of the security mechanism")]
    BothServers,
    /// A frame has a flag that the protocol version does not know.
    #[error("a frame has the unknown flags {flags:#04x}")]
    UnknownFlags {
        /// The flags octet.
        flags: u8,
    },
    /// A command frame says that more frames follow.
    #[error("a command frame has the MORE flag")]
    CommandWithMore,
    /// A frame is longer than [`Limits`](crate::Limits) allows; told at its header.
    #[error("a frame of {length} bytes is over the limit of {limit}")]
    FrameTooLong {
        /// The length claimed.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// A message frame came before the handshake was over.
    #[error("a message came before the handshake was over")]
    MessageBeforeReady,
    /// A command does not have the shape of its kind.
    #[error("malformed {0} command")]
    MalformedCommand(CommandName),
    /// A command that does not belong at this point of the handshake.
    #[error("unexpected command in the handshake")]
    UnexpectedCommand,
    /// The metadata are no list of properties, or a property has an illegal name.
    #[error("malformed metadata")]
    MalformedMetadata,
    /// More properties than [`Limits`](crate::Limits) allows.
    #[error("more than {limit} metadata properties")]
    TooManyProperties {
        /// The limit.
        limit: usize,
    },
    /// The peer's routing id is longer than 255 bytes or begins with 0 (which is reserved).
    #[error("illegal routing id")]
    IllegalRoutingId,
    /// The peer names a socket type we do not know.
    #[error("the peer has an unknown socket type")]
    UnknownSocketType,
    /// The two socket types may not be connected. The peer is told by an ERROR command.
    #[error("a {ours} socket cannot talk to a {theirs} socket")]
    IncompatibleSocketType {
        /// Our type.
        ours: SocketType,
        /// The peer's type.
        theirs: SocketType,
    },
    /// The handshake took too long.
    #[error("the handshake took too long")]
    HandshakeTimeout,
    /// Nothing came after our PING.
    #[error("the peer did not answer a PING in time")]
    HeartbeatTimeout,
    /// Nothing came within the time to live that the peer's own PING had named.
    #[error("the peer was silent for longer than its own time to live")]
    TimeToLiveExpired,
    /// The connection is over: an error, an ERROR command or a refusal came before.
    #[error("the connection is closed")]
    Closed,
}

/// A command by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandName {
    /// One that could not be told: its name is cut off.
    Unnamed,
    /// `READY`.
    Ready,
    /// `ERROR`.
    Error,
    /// `HELLO`.
    Hello,
    /// `WELCOME`.
    Welcome,
    /// `INITIATE`.
    Initiate,
    /// `PING`.
    Ping,
}

impl std::fmt::Display for CommandName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            CommandName::Unnamed => "unnamed",
            CommandName::Ready => "READY",
            CommandName::Error => "ERROR",
            CommandName::Hello => "HELLO",
            CommandName::Welcome => "WELCOME",
            CommandName::Initiate => "INITIATE",
            CommandName::Ping => "PING",
        })
    }
}
