//! Controls: messages between the two ends outside the stream.

use std::fmt;

use super::bytes::{array_at, put, u16_at, u32_at, u64_at};
use super::credentials::Credentials;
use super::message::prefix;
use super::{
    ClientName, ClusterText, MessageError, MessageKind, PatternText, RefusalText, Text, Venue,
};

/// The type bytes of controls; the high nibble is the length in 16-byte units, as in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlKind;

impl ControlKind {
    /// [`Request`], 32 bytes.
    pub const REQUEST: u8 = 0x28;
    /// [`TooOld`], 32 bytes.
    pub const TOO_OLD: u8 = 0x29;
    /// [`EndOfSessionAcknowledgement`], 32 bytes.
    pub const END_OF_SESSION_ACKNOWLEDGEMENT: u8 = 0x2a;
    /// [`SnapshotNotice`], 32 bytes.
    pub const SNAPSHOT_NOTICE: u8 = 0x2b;
    /// [`LoginAccepted`], 48 bytes.
    pub const LOGIN_ACCEPTED: u8 = 0x38;
    /// [`Passed`], 64 bytes.
    pub const PASSED: u8 = 0x48;
    /// [`Login`] without credentials, 80 bytes.
    pub const LOGIN: u8 = 0x58;
    /// [`Login`] with credentials, 240 bytes.
    pub const LOGIN_WITH_CREDENTIALS: u8 = 0xf8;
    /// [`Refused`], 96 bytes.
    pub const REFUSED: u8 = 0x68;
    /// [`Subscribe`], 96 bytes.
    pub const SUBSCRIBE: u8 = 0x69;
    /// Unsubscribe, 96 bytes.
    pub const UNSUBSCRIBE: u8 = 0x6a;
    /// Snapshot request, 96 bytes.
    pub const SNAPSHOT_REQUEST: u8 = 0x6b;
}

/// A control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// First packet of a connection, client to server.
    Login(Login),
    /// The server accepts a login.
    LoginAccepted(LoginAccepted),
    /// The server refuses a login or a later control.
    Refused(Refused),
    /// Subscribes to the symbols whose names match.
    Subscribe(Subscribe),
    /// Removes a subscription by its exact pattern.
    Unsubscribe(PatternText),
    /// Requests a range of the stream, or of the last snapshot, again.
    Request(Request),
    /// Nothing before this sequence can be sent again.
    TooOld(TooOld),
    /// Requests the latest values of the subscribed symbols whose names match.
    SnapshotRequest(SnapshotRequest),
    /// The whole session was received and applied.
    EndOfSessionAcknowledgement(EndOfSessionAcknowledgement),
    /// A snapshot begins; the live stream continues after it.
    SnapshotNotice(SnapshotNotice),
    /// The name of a venue number, as the message of this type.
    Venue(Venue),
    /// A cluster that a relayed source has come through; only in frames between hubs.
    Passed(Passed),
    /// A type of a later version.
    Unknown(u8),
}

impl Control {
    /// Decodes one control at the front of `bytes`; returns it and the rest.
    pub fn decode(bytes: &[u8]) -> Result<(Control, &[u8]), MessageError> {
        let Some(&kind) = bytes.first() else {
            return Err(MessageError::Truncated);
        };
        match kind {
            ControlKind::LOGIN => split(bytes, Login::from_bytes),
            ControlKind::LOGIN_WITH_CREDENTIALS => split(bytes, Login::with_credentials),
            ControlKind::LOGIN_ACCEPTED => split(bytes, LoginAccepted::from_bytes),
            ControlKind::REFUSED => split(bytes, Refused::from_bytes),
            ControlKind::SUBSCRIBE => split(bytes, Subscribe::from_bytes),
            ControlKind::UNSUBSCRIBE => {
                split(bytes, |bytes| Ok(Control::Unsubscribe(pattern(bytes)?)))
            }
            ControlKind::SNAPSHOT_REQUEST => split(bytes, SnapshotRequest::from_bytes),
            ControlKind::REQUEST => split(bytes, Request::from_bytes),
            ControlKind::TOO_OLD => split(bytes, TooOld::from_bytes),
            ControlKind::SNAPSHOT_NOTICE => split(bytes, SnapshotNotice::from_bytes),
            ControlKind::END_OF_SESSION_ACKNOWLEDGEMENT => {
                split(bytes, EndOfSessionAcknowledgement::from_bytes)
            }
            ControlKind::PASSED => split(bytes, Passed::from_bytes),
            MessageKind::VENUE => {
                split(bytes, |bytes| Ok(Control::Venue(Venue::from_bytes(bytes)?)))
            }
            _ => {
                let length = super::MessageKind(kind).encoded_length();
                if length == 0 {
                    return Err(MessageError::BadType(kind));
                }
                let rest = bytes.get(length..).ok_or(MessageError::Truncated)?;
                Ok((Control::Unknown(kind), rest))
            }
        }
    }

    /// Appends the encoded control. [`Control::Unknown`] is written as zeros of its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Control::Login(login) => login.encode(out),
            Control::LoginAccepted(accepted) => out.extend_from_slice(&accepted.to_bytes()),
            Control::Refused(refused) => out.extend_from_slice(&refused.to_bytes()),
            Control::Subscribe(subscribe) => out.extend_from_slice(&subscribe.to_bytes()),
            Control::Unsubscribe(pattern) => {
                out.extend_from_slice(&pattern_bytes(ControlKind::UNSUBSCRIBE, 0, pattern));
            }
            Control::SnapshotRequest(request) => out.extend_from_slice(&request.to_bytes()),
            Control::Request(request) => out.extend_from_slice(&request.to_bytes()),
            Control::TooOld(too_old) => out.extend_from_slice(&too_old.to_bytes()),
            Control::SnapshotNotice(notice) => out.extend_from_slice(&notice.to_bytes()),
            Control::EndOfSessionAcknowledgement(acknowledgement) => {
                out.extend_from_slice(&acknowledgement.to_bytes());
            }
            Control::Venue(venue) => out.extend_from_slice(&venue.to_bytes()),
            Control::Passed(passed) => out.extend_from_slice(&passed.to_bytes()),
            Control::Unknown(kind) => {
                out.push(*kind);
                let length = super::MessageKind(*kind).encoded_length();
                out.resize(out.len() + length.saturating_sub(1), 0);
            }
        }
    }
}

/// The role of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Receives the stream.
    #[default]
    Subscriber,
    /// Sends a stream to the server.
    Publisher,
    /// Receives the stream in datagrams; requests snapshots and missing ranges here.
    Recovery,
}

/// What a server does if a subscriber has fallen behind the messages it keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlowPolicy {
    /// A snapshot of the latest values replaces the missed messages.
    #[default]
    Conflate,
    /// The gap is marked ([`TooOld::dropped`]), and the stream continues after it.
    Drop,
    /// The subscriber is refused as too slow ([`RefusalReason::TOO_SLOW`]) and disconnected.
    Disconnect,
}

/// First control of a connection: 80 bytes, or 240 with credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// The client's role.
    pub role: Role,
    /// Subscriber: session to resume, 0 for any. Publisher: its session.
    pub session: u32,
    /// Subscriber: first sequence it wants, 0 for the live stream after a snapshot. Publisher:
    /// first sequence it can send.
    pub next_sequence: u64,
    /// Subscriber: number of [`Subscribe`]s that follow; the stream begins after the last one.
    pub subscription_count: u16,
    /// Subscriber: policy if it is too slow; `None` for the server's default.
    pub slow_policy: Option<SlowPolicy>,
    /// Subscriber: whether it reads snapshots that skip symbols ([`SnapshotNotice::since`]). Bit
    /// 0 of the prefix's flags.
    pub partial_snapshots: bool,
    /// Whether the subscriber reads [`Figures`](super::Figures).
    pub reads_figures: bool,
    /// The client's name for itself.
    pub client_name: ClientName,
    /// The user and password; `None` for the server's default user.
    pub credentials: Option<Credentials>,
}

impl Login {
    /// Bytes on the wire without credentials.
    pub const LENGTH: usize = 80;
    /// Bytes on the wire with credentials.
    pub const CREDENTIALS_LENGTH: usize = Self::LENGTH + Credentials::LENGTH;

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Control, MessageError> {
        Ok(Control::Login(Login::read(bytes)?))
    }

    fn with_credentials(bytes: &[u8; Self::CREDENTIALS_LENGTH]) -> Result<Control, MessageError> {
        let credentials = Credentials::from_bytes(&array_at(bytes, Self::LENGTH))?;
        Ok(Control::Login(Login {
            credentials: Some(credentials),
            ..Login::read(&array_at(bytes, 0))?
        }))
    }

    fn read(bytes: &[u8; Self::LENGTH]) -> Result<Login, MessageError> {
        let role = match bytes[28] {
            0 => Role::Subscriber,
            1 => Role::Publisher,
            2 => Role::Recovery,
            _ => return Err(MessageError::BadRole),
        };
        let slow_policy = match bytes[29] {
            0 => None,
            1 => Some(SlowPolicy::Conflate),
            2 => Some(SlowPolicy::Drop),
            3 => Some(SlowPolicy::Disconnect),
            _ => return Err(MessageError::BadValue),
        };
        Ok(Login {
            role,
            slow_policy,
            partial_snapshots: bytes[1] & 1 != 0,
            reads_figures: bytes[1] & 2 != 0,
            session: u32_at(bytes, 24),
            next_sequence: u64_at(bytes, 16),
            subscription_count: u16_at(bytes, 30),
            client_name: text(array_at(bytes, 32))?,
            credentials: None,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
        if let Some(credentials) = &self.credentials {
            out.extend_from_slice(&credentials.to_bytes());
        }
    }

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        let kind = match self.credentials {
            None => ControlKind::LOGIN,
            Some(_) => ControlKind::LOGIN_WITH_CREDENTIALS,
        };
        let mut bytes = prefix(kind, 0, 0, 0);
        bytes[1] = u8::from(self.partial_snapshots) | u8::from(self.reads_figures) << 1;
        put(&mut bytes, 16, self.next_sequence.to_le_bytes());
        put(&mut bytes, 24, self.session.to_le_bytes());
        let slow_policy = match self.slow_policy {
            None => 0,
            Some(SlowPolicy::Conflate) => 1,
            Some(SlowPolicy::Drop) => 2,
            Some(SlowPolicy::Disconnect) => 3,
        };
        put(&mut bytes, 28, [self.role as u8, slow_policy]);
        put(&mut bytes, 30, self.subscription_count.to_le_bytes());
        put(&mut bytes, 32, self.client_name.to_padded());
        bytes
    }
}

/// The server's answer to a login: 48 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginAccepted {
    /// The stream's session.
    pub session: u32,
    /// Longest silence to expect from the server, in milliseconds.
    pub heartbeat_interval_ms: u32,
    /// Subscriber: next sequence of the stream. Publisher: first sequence the server wants.
    pub next_sequence: u64,
    /// Oldest sequence that can be sent again.
    pub oldest_sequence: u64,
    /// Whether the server supports [`SnapshotRequest::since`] and sends
    /// [`SnapshotNotice::since`]. Bit 0 of the prefix's flags.
    pub partial_snapshots: bool,
}

impl LoginAccepted {
    /// Bytes on the wire.
    pub const LENGTH: usize = 48;

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Control, MessageError> {
        Ok(Control::LoginAccepted(LoginAccepted {
            session: u32_at(bytes, 32),
            heartbeat_interval_ms: u32_at(bytes, 36),
            next_sequence: u64_at(bytes, 16),
            oldest_sequence: u64_at(bytes, 24),
            partial_snapshots: bytes[1] & 1 != 0,
        }))
    }

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(ControlKind::LOGIN_ACCEPTED, 0, 0, 0);
        bytes[1] = u8::from(self.partial_snapshots);
        put(&mut bytes, 16, self.next_sequence.to_le_bytes());
        put(&mut bytes, 24, self.oldest_sequence.to_le_bytes());
        put(&mut bytes, 32, self.session.to_le_bytes());
        put(&mut bytes, 36, self.heartbeat_interval_ms.to_le_bytes());
        bytes
    }
}

/// Why a server refuses: a number, so that an unknown reason of a later version is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RefusalReason(pub u16);

impl RefusalReason {
    /// A packet before the login, or a second login.
    pub const OUT_OF_ORDER: RefusalReason = RefusalReason(1);
    /// The server has a different session than the one to resume.
    pub const UNKNOWN_SESSION: RefusalReason = RefusalReason(2);
    /// The server does not offer this role.
    pub const ROLE: RefusalReason = RefusalReason(3);
    /// Too many patterns.
    pub const TOO_MANY_PATTERNS: RefusalReason = RefusalReason(4);
    /// The pattern is empty or has too many wildcards.
    pub const BAD_PATTERN: RefusalReason = RefusalReason(5);
    /// Too many clients.
    pub const FULL: RefusalReason = RefusalReason(6);
    /// The client broke the protocol.
    pub const PROTOCOL: RefusalReason = RefusalReason(7);
    /// The client was too slow and the policy is to disconnect.
    pub const TOO_SLOW: RefusalReason = RefusalReason(8);
    /// The requested sequence does not exist yet.
    pub const FUTURE_SEQUENCE: RefusalReason = RefusalReason(9);
    /// Peers from other machines are not allowed.
    pub const DENIED: RefusalReason = RefusalReason(10);
    /// Another connection publishes this session, and its peer answers. Retry later.
    pub const SESSION_IN_USE: RefusalReason = RefusalReason(11);
    /// The user or the password is wrong, or the server wants credentials and got none.
    pub const WRONG_CREDENTIALS: RefusalReason = RefusalReason(12);
    /// The user may not do this at all: publish, read, or go on with another user's session.
    pub const NOT_ALLOWED: RefusalReason = RefusalReason(13);
    /// The user may not publish, or subscribe to, the symbol in the text. The rest goes on.
    pub const SYMBOL_NOT_ALLOWED: RefusalReason = RefusalReason(14);
    /// The server has no room for the symbol in the text. The rest goes on.
    pub const TOO_MANY_SYMBOLS: RefusalReason = RefusalReason(15);

    /// Returns whether the connection goes on after this refusal.
    pub fn leaves_the_rest(self) -> bool {
        [
            Self::TOO_MANY_PATTERNS,
            Self::BAD_PATTERN,
            Self::SYMBOL_NOT_ALLOWED,
            Self::TOO_MANY_SYMBOLS,
        ]
        .contains(&self)
    }
}

/// A refusal with its reason: 96 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The reason, for programs.
    pub reason: RefusalReason,
    /// The text, for people.
    pub text: RefusalText,
}

/// For a log: the server's words in one line, and the number.
impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, reason) = (self.text.as_str().escape_debug(), self.reason.0);
        write!(formatter, "the server refused: {words} (reason {reason})")
    }
}

impl Refused {
    /// Bytes on the wire.
    pub const LENGTH: usize = 96;

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Control, MessageError> {
        Ok(Control::Refused(Refused {
            reason: RefusalReason(u16_at(bytes, 16)),
            text: text(array_at(bytes, 24))?,
        }))
    }

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(ControlKind::REFUSED, 0, 0, 0);
        put(&mut bytes, 16, self.reason.0.to_le_bytes());
        put(&mut bytes, 24, self.text.to_padded());
        bytes
    }
}

/// A subscription: 96 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscribe {
    /// The names to subscribe to.
    pub pattern: PatternText,
    /// The client resumes and has the values already: no snapshot. Bit 0 of the prefix's flags.
    pub resume: bool,
}

impl Subscribe {
    /// Bytes on the wire.
    pub const LENGTH: usize = 96;

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Control, MessageError> {
        Ok(Control::Subscribe(Subscribe {
            pattern: pattern(bytes)?,
            resume: bytes[1] & 1 != 0,
        }))
    }

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        pattern_bytes(ControlKind::SUBSCRIBE, u8::from(self.resume), &self.pattern)
    }
}

/// A request for values: 96 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// The names, among the subscribed ones.
    pub pattern: PatternText,
    /// Only symbols with a message at this sequence or later; 0 for all. A server that does not
    /// support this sends all symbols.
    pub since: u64,
}

impl SnapshotRequest {
    /// Bytes on the wire.
    pub const LENGTH: usize = 96;

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Control, MessageError> {
        Ok(Control::SnapshotRequest(SnapshotRequest {
            pattern: pattern(bytes)?,
            since: u64_at(bytes, 8),
        }))
    }

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = pattern_bytes(ControlKind::SNAPSHOT_REQUEST, 0, &self.pattern);
        put(&mut bytes, 8, self.since.to_le_bytes());
        bytes
    }
}

/// A range to send again: 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// First sequence; for a snapshot its number and position, as in the packet header.
    pub from: u64,
    /// Number of sequences.
    pub count: u64,
    /// Whether the range is of the last snapshot, not of the stream. Bit 0 of the prefix's flags.
    pub snapshot: bool,
}

impl Request {
    /// Bytes on the wire.
    pub const LENGTH: usize = 32;

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Control, MessageError> {
        Ok(Control::Request(Request {
            from: u64_at(bytes, 16),
            count: u64_at(bytes, 24),
            snapshot: bytes[1] & 1 != 0,
        }))
    }

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(ControlKind::REQUEST, 0, 0, 0);
        bytes[1] = u8::from(self.snapshot);
        put(&mut bytes, 16, self.from.to_le_bytes());
        put(&mut bytes, 24, self.count.to_le_bytes());
        bytes
    }
}

/// Nothing before `oldest` will be sent again: 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TooOld {
    /// First sequence wanted, by a request or by the stream's own progress.
    pub wanted: u64,
    /// Oldest sequence that can still be sent.
    pub oldest: u64,
    /// The receiver was too slow: the server conflates, and a snapshot follows without a request.
    /// Bit 0 of the prefix's flags.
    pub conflated: bool,
    /// The receiver was too slow: the server leaves out the messages in between, and no snapshot
    /// follows. Bit 1 of the prefix's flags.
    pub dropped: bool,
    /// The affected values follow without a request: a snapshot of the symbols that have changed
    /// since `wanted`. Bit 2 of the prefix's flags.
    pub recovers: bool,
}

impl TooOld {
    /// Bytes on the wire.
    pub const LENGTH: usize = 32;

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Control, MessageError> {
        Ok(Control::TooOld(TooOld {
            wanted: u64_at(bytes, 16),
            oldest: u64_at(bytes, 24),
            conflated: bytes[1] & 1 != 0,
            dropped: bytes[1] & 2 != 0,
            recovers: bytes[1] & 4 != 0,
        }))
    }

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(ControlKind::TOO_OLD, 0, 0, 0);
        bytes[1] =
            u8::from(self.conflated) | u8::from(self.dropped) << 1 | u8::from(self.recovers) << 2;
        put(&mut bytes, 16, self.wanted.to_le_bytes());
        put(&mut bytes, 24, self.oldest.to_le_bytes());
        bytes
    }
}

/// A snapshot begins: 32 bytes. Has the snapshot's number, so that its complete loss is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotNotice {
    /// Number of the snapshot on this connection, from 1.
    pub number: u32,
    /// Stream sequence the snapshot includes; live messages continue after it.
    pub as_of: u64,
    /// [`Skip`](super::Skip)s replace symbols without a message at this sequence or later; 0 if
    /// no symbol is skipped. Only for a client that set [`Login::partial_snapshots`].
    pub since: u64,
}

impl SnapshotNotice {
    /// Bytes on the wire.
    pub const LENGTH: usize = 32;

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Control, MessageError> {
        Ok(Control::SnapshotNotice(SnapshotNotice {
            number: u32_at(bytes, 24),
            as_of: u64_at(bytes, 16),
            since: u64_at(bytes, 8),
        }))
    }

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(ControlKind::SNAPSHOT_NOTICE, 0, 0, 0);
        put(&mut bytes, 8, self.since.to_le_bytes());
        put(&mut bytes, 16, self.as_of.to_le_bytes());
        put(&mut bytes, 24, self.number.to_le_bytes());
        bytes
    }
}

/// A cluster that a relayed source has come through: 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// The cluster's name.
    pub cluster: ClusterText,
}

impl Passed {
    /// Bytes on the wire.
    pub const LENGTH: usize = 64;

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Control, MessageError> {
        let cluster = ClusterText::from_padded(array_at(bytes, 16));
        Ok(Control::Passed(Passed {
            cluster: cluster.map_err(|_| MessageError::BadText)?,
        }))
    }

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(ControlKind::PASSED, 0, 0, 0);
        put(&mut bytes, 16, self.cluster.to_padded());
        bytes
    }
}

/// The whole session was received: 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndOfSessionAcknowledgement {
    /// One past the last sequence of the session.
    pub next_sequence: u64,
    /// Messages applied; less than the range if some were lost.
    pub applied_count: u64,
}

impl EndOfSessionAcknowledgement {
    /// Bytes on the wire.
    pub const LENGTH: usize = 32;

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Control, MessageError> {
        Ok(Control::EndOfSessionAcknowledgement(
            EndOfSessionAcknowledgement {
                next_sequence: u64_at(bytes, 16),
                applied_count: u64_at(bytes, 24),
            },
        ))
    }

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(ControlKind::END_OF_SESSION_ACKNOWLEDGEMENT, 0, 0, 0);
        put(&mut bytes, 16, self.next_sequence.to_le_bytes());
        put(&mut bytes, 24, self.applied_count.to_le_bytes());
        bytes
    }
}

fn pattern(bytes: &[u8; 96]) -> Result<PatternText, MessageError> {
    text(array_at(bytes, 16))
}

fn pattern_bytes(kind: u8, flags: u8, pattern: &PatternText) -> [u8; 96] {
    let mut bytes = prefix(kind, 0, 0, 0);
    bytes[1] = flags;
    put(&mut bytes, 16, pattern.to_padded());
    bytes
}

fn text<const N: usize>(bytes: [u8; N]) -> Result<Text<N>, MessageError> {
    Text::from_padded(bytes).map_err(|_| MessageError::BadText)
}

fn split<const N: usize>(
    bytes: &[u8],
    read: impl FnOnce(&[u8; N]) -> Result<Control, MessageError>,
) -> Result<(Control, &[u8]), MessageError> {
    let (head, rest) = bytes.split_first_chunk().ok_or(MessageError::Truncated)?;
    Ok((read(head)?, rest))
}
