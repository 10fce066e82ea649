//! Packets: a two-byte length, a type, and the body.

use crate::sequenced::SessionName;

/// Longest silence of either side.
pub const HEARTBEAT_INTERVAL_NS: u64 = 1_000_000_000;
/// Silence after which the peer counts as disconnected.
pub const SILENCE_NS_MAX: u64 = 15_000_000_000;
/// Maximum time until a client logs in.
pub const LOGIN_TIMEOUT_NS: u64 = 30_000_000_000;

/// Type bytes.
pub(super) mod kind {
    pub(crate) const DEBUG: u8 = b'+';
    pub(crate) const LOGIN_ACCEPTED: u8 = b'A';
    pub(crate) const LOGIN_REJECTED: u8 = b'J';
    pub(crate) const SEQUENCED: u8 = b'S';
    pub(crate) const UNSEQUENCED: u8 = b'U';
    pub(crate) const SERVER_HEARTBEAT: u8 = b'H';
    pub(crate) const END_OF_SESSION: u8 = b'Z';
    pub(crate) const LOGIN_REQUEST: u8 = b'L';
    pub(crate) const CLIENT_HEARTBEAT: u8 = b'R';
    pub(crate) const LOGOUT: u8 = b'O';
}

/// Why a login is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reject {
    /// `A`: wrong user or password.
    NotAuthorized,
    /// `S`: the session is not available.
    NoSession,
    /// Any other letter.
    Other(u8),
}

impl Reject {
    pub(super) fn code(self) -> u8 {
        match self {
            Reject::NotAuthorized => b'A',
            Reject::NoSession => b'S',
            Reject::Other(code) => code,
        }
    }

    pub(super) fn of(code: u8) -> Self {
        match code {
            b'A' => Reject::NotAuthorized,
            b'S' => Reject::NoSession,
            code => Reject::Other(code),
        }
    }
}

impl std::fmt::Display for Reject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reject::NotAuthorized => formatter.write_str("wrong user or password"),
            Reject::NoSession => formatter.write_str("the session is not available"),
            Reject::Other(code) => write!(formatter, "code '{}'", code.escape_ascii()),
        }
    }
}

/// A client's login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// User name, padded with spaces.
    pub user: [u8; 6],
    /// Password, padded with spaces.
    pub password: [u8; 10],
    /// Session; blank for the current one.
    pub session: SessionName,
    /// First sequence wanted; 0 for the next message.
    pub sequence: u64,
}

impl Login {
    const LENGTH: usize = 46;

    /// Creates a login, with texts cut to their fields.
    pub fn new(user: &str, password: &str, session: SessionName, sequence: u64) -> Self {
        Self {
            user: padded(user),
            password: padded(password),
            session,
            sequence,
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut body = [b' '; Self::LENGTH];
        body[..6].copy_from_slice(&self.user);
        body[6..16].copy_from_slice(&self.password);
        body[16..26].copy_from_slice(&self.session.to_bytes());
        body[26..].copy_from_slice(&digits(self.sequence));
        write(out, kind::LOGIN_REQUEST, &body);
    }

    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let body: &[u8; Self::LENGTH] = body.try_into().ok()?;
        let (user, rest) = body.split_first_chunk()?;
        let (password, rest) = rest.split_first_chunk()?;
        let (session, sequence) = rest.split_first_chunk()?;
        Some(Self {
            user: *user,
            password: *password,
            session: SessionName::from_bytes(*session),
            sequence: number(sequence)?,
        })
    }
}

/// A packet's type, its body, and its total length.
type Packet<'a> = (u8, &'a [u8], usize);

/// A length of 0, which is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoLength;

/// Returns the first packet of `input`; `None` if more bytes are needed.
pub(super) fn read(input: &[u8]) -> Result<Option<Packet<'_>>, NoLength> {
    let Some((packet, used)) = crate::frame(input) else {
        return match input {
            [0, 0, ..] => Err(NoLength),
            _ => Ok(None),
        };
    };
    match packet.split_first() {
        Some((&kind, body)) => Ok(Some((kind, body, used))),
        None => Err(NoLength),
    }
}

/// Appends a packet; `body` has fewer than 65,535 bytes.
pub(super) fn write(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.extend_from_slice(&(body.len() as u16 + 1).to_be_bytes());
    out.push(kind);
    out.extend_from_slice(body);
}

/// Appends the answer to an accepted login.
pub(super) fn write_accepted(out: &mut Vec<u8>, session: SessionName, sequence: u64) {
    let mut body = [b' '; 30];
    body[..10].copy_from_slice(&session.to_bytes());
    body[10..].copy_from_slice(&digits(sequence));
    write(out, kind::LOGIN_ACCEPTED, &body);
}

pub(super) fn read_accepted(body: &[u8]) -> Option<(SessionName, u64)> {
    let body: &[u8; 30] = body.try_into().ok()?;
    let (session, sequence) = body.split_first_chunk()?;
    Some((SessionName::from_bytes(*session), number(sequence)?))
}

fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [b' '; N];
    let length = text.len().min(N);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

/// Formats a number as right-aligned decimal digits.
fn digits(mut number: u64) -> [u8; 20] {
    let mut bytes = [b' '; 20];
    for byte in bytes.iter_mut().rev() {
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    bytes
}

/// Parses a decimal number; blank is 0.
fn number(text: &[u8]) -> Option<u64> {
    text.trim_ascii().iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}
