//! Why a connection ended.

use crate::greeting::Version;
use crate::socket_type::SocketType;

/// Why a connection ended. After any error the driver sends the rest of
/// [`outgoing`](crate::Connection::outgoing) (possibly an ERROR command) and closes.
///
/// All except [`Error::Closed`] and [`Error::NoRandomness`] are caused by the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes are not a ZMTP greeting: another protocol, or ZMTP 1.0.
    #[error("the peer does not speak ZMTP 2.0 or later")]
    NotZmtp,
    /// The peer's version is older than [`Config::version_min`](crate::Config::version_min), or
    /// too old for the required security.
    #[error("the peer speaks ZMTP {major} at most, {required} is required")]
    VersionTooOld {
        /// The major version the peer announced (1 for ZMTP 2.0).
        major: u8,
        /// The version we require.
        required: Version,
    },
    /// The peer uses another security mechanism.
    #[error("the peer uses another security mechanism")]
    MechanismMismatch,
    /// Both peers announce that they are the server of the mechanism.
    #[error("both peers claim to be the server of the security mechanism")]
    BothServers,
    /// A frame has an unknown flag for this protocol version.
    #[error("a frame has the unknown flags {flags:#04x}")]
    UnknownFlags {
        /// The flags octet.
        flags: u8,
    },
    /// A command frame announces further frames.
    #[error("a command frame has the MORE flag")]
    CommandWithMore,
    /// A frame is longer than [`Limits`](crate::Limits) allows; detected at its header.
    #[error("a frame of {length} bytes is over the limit of {limit}")]
    FrameTooLong {
        /// The length claimed.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// A message frame arrived before the end of the handshake.
    #[error("a message came before the handshake was over")]
    MessageBeforeReady,
    /// A command has an invalid form.
    #[error("malformed {0} command")]
    MalformedCommand(CommandName),
    /// A command that is not allowed at this point of the handshake.
    #[error("unexpected command in the handshake")]
    UnexpectedCommand,
    /// The metadata is not a list of properties, or a property has an illegal name.
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
    /// The peer announces an unknown socket type.
    #[error("the peer has an unknown socket type")]
    UnknownSocketType,
    /// The two socket types cannot be connected. The peer gets an ERROR command.
    #[error("a {ours} socket cannot talk to a {theirs} socket")]
    IncompatibleSocketType {
        /// Our type.
        ours: SocketType,
        /// The peer's type.
        theirs: SocketType,
    },
    /// A box of the security mechanism cannot be decrypted: a wrong key, or an attack.
    #[error("an encrypted box of the security mechanism cannot be opened")]
    Cryptographic,
    /// The peer's vouch for its short-term key is invalid.
    #[error("the short-term key of the peer is not the one vouched for")]
    KeyExchange,
    /// An encrypted message has a number that is not higher than the previous one.
    #[error("an encrypted message is out of sequence")]
    NonceNotIncreasing,
    /// The HTTP upgrade to WebSocket failed: the peer uses another protocol or another mechanism.
    /// A server has answered `400 Bad Request`.
    #[error("the upgrade to WebSocket failed")]
    UpgradeFailed,
    /// A web page asks for the upgrade to WebSocket, and its origin is not accepted. The server has
    /// answered `403 Forbidden`.
    #[error("the origin of the web page is not accepted")]
    ForbiddenOrigin,
    /// A WebSocket frame that ZWS does not allow: fragmented, text, empty, or with a wrong
    /// masking.
    #[error("malformed WebSocket frame")]
    MalformedWebSocketFrame,
    /// The operating system returned no random numbers.
    #[error("the operating system provides no random numbers")]
    NoRandomness,
    /// The handshake took too long.
    #[error("the handshake took too long")]
    HandshakeTimeout,
    /// Nothing arrived after our PING.
    #[error("the peer did not answer a PING in time")]
    HeartbeatTimeout,
    /// Nothing arrived within the TTL of the peer's PING.
    #[error("the peer was silent for longer than its own time to live")]
    TimeToLiveExpired,
    /// The connection has ended: an error, an ERROR command or a refusal came before.
    #[error("the connection is closed")]
    Closed,
}

impl Error {
    /// Returns the number of libzmq's `ZMQ_PROTOCOL_ERROR_*`, which its monitor reports with
    /// `ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL`. `None` if libzmq raises no such event: it just
    /// closes, or reports a lost connection.
    pub const fn protocol_error_number(&self) -> Option<u32> {
        Some(match self {
            Error::UnexpectedCommand | Error::MessageBeforeReady => 0x1000_0001,
            Error::NonceNotIncreasing => 0x1000_0002,
            Error::KeyExchange => 0x1000_0003,
            Error::MalformedCommand(name) => match name {
                CommandName::Message => 0x1000_0012,
                CommandName::Hello => 0x1000_0013,
                CommandName::Initiate => 0x1000_0014,
                CommandName::Error => 0x1000_0015,
                CommandName::Ready => 0x1000_0016,
                CommandName::Welcome => 0x1000_0017,
                _ => 0x1000_0011,
            },
            Error::MalformedMetadata
            | Error::TooManyProperties { .. }
            | Error::IllegalRoutingId
            | Error::UnknownSocketType => 0x1000_0018,
            Error::Cryptographic => 0x1100_0001,
            Error::MechanismMismatch => 0x1100_0002,
            Error::UpgradeFailed => 0x3000_0000,
            _ => return None,
        })
    }
}

/// Returns the status code of ZAP in an ERROR command's reason: 300, 400 or 500.
///
/// For such a code libzmq's monitor raises `ZMQ_EVENT_HANDSHAKE_FAILED_AUTH`; for any other
/// reason, nothing.
pub fn status_code(reason: &[u8]) -> Option<u32> {
    match reason {
        b"300" => Some(300),
        b"400" => Some(400),
        b"500" => Some(500),
        _ => None,
    }
}

/// A command by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandName {
    /// An unknown command: its name is cut off.
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
    /// `MESSAGE`.
    Message,
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
            CommandName::Message => "MESSAGE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{CommandName, Error};

    /// The values of zmq.h, which programs compare.
    #[test]
    fn monitors_get_the_numbers_of_libzmq() {
        let malformed = Error::MalformedCommand;
        for (error, number) in [
            (Error::UnexpectedCommand, Some(0x1000_0001)),
            (Error::NonceNotIncreasing, Some(0x1000_0002)),
            (Error::KeyExchange, Some(0x1000_0003)),
            (malformed(CommandName::Unnamed), Some(0x1000_0011)),
            (malformed(CommandName::Message), Some(0x1000_0012)),
            (malformed(CommandName::Hello), Some(0x1000_0013)),
            (malformed(CommandName::Initiate), Some(0x1000_0014)),
            (malformed(CommandName::Error), Some(0x1000_0015)),
            (malformed(CommandName::Ready), Some(0x1000_0016)),
            (malformed(CommandName::Welcome), Some(0x1000_0017)),
            (Error::MalformedMetadata, Some(0x1000_0018)),
            (Error::Cryptographic, Some(0x1100_0001)),
            (Error::MechanismMismatch, Some(0x1100_0002)),
            (Error::UpgradeFailed, Some(0x3000_0000)),
            (Error::NotZmtp, None),
            (Error::HandshakeTimeout, None),
            (Error::Closed, None),
        ] {
            assert_eq!(error.protocol_error_number(), number, "{error}");
        }
    }
}
