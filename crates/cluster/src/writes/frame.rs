//! The messages of a write.
//!
//! ```text
//!  0     2   3    4        8      16       24      32      40                 48
//!  ├magic┼ver┼kind┼checksum┼epoch─┼session─┼number─┼ticket─┼ lengths, 8 bytes ┼ body ...
//! ```

use std::str;

use super::words::decode_words;

/// First two bytes of all: `TW` as a little-endian number.
const MAGIC: u16 = 0x5754;
/// The only supported version of the layout.
const VERSION: u8 = 1;
/// Bytes of the header.
pub const WRITE_HEADER_LENGTH: usize = 48;
/// The kind of a request.
pub const KIND_REQUEST: u8 = 1;
/// The kind of an answer.
pub const KIND_ANSWER: u8 = 2;
/// The kind of a request with a command.
pub const KIND_COMMAND: u8 = 3;

/// Maximum bytes of a topic's name.
pub const NAME_LENGTH_MAX: usize = 1_024;
/// Maximum bytes of a value: half of what a NATS server takes as one message by default.
pub const VALUE_LENGTH_MAX: usize = 512 << 10;
/// Maximum bytes of a user's name; a longer one is cut.
pub const USER_LENGTH_MAX: usize = 128;
/// Maximum bytes of a client's address; a longer one is cut.
pub const ADDRESS_LENGTH_MAX: usize = 128;
/// Maximum bytes of an answer's words; longer ones are cut.
pub const TEXT_LENGTH_MAX: usize = 1_024;
/// Maximum bytes of a command's reply: with the header less than what a NATS server takes as one
/// message by default.
pub const REPLY_LENGTH_MAX: usize = (1 << 20) - 1_024;
/// An answer of a hub that runs commands has this as its second length.
const TAKES_COMMANDS: u8 = 1;

/// Which write it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteId {
    /// The reign of the owner that the edge follows.
    pub epoch: u64,
    /// The edge's process.
    pub session: u64,
    /// Number of the write among those of the process, from 1.
    pub number: u64,
}

/// A request to write a topic's value, or to run a command on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteRequest<'a> {
    /// Which write it is.
    pub id: WriteId,
    /// The ticket of the owner's last answer; 0 for none.
    pub ticket: u64,
    /// The topic, with its prefix.
    pub name: &'a [u8],
    /// The user of the edge who asks for it.
    pub user: &'a [u8],
    /// The address of that user's client.
    pub address: &'a [u8],
    /// Whether `value` has the words of a command ([`encode_words`](super::encode_words)).
    pub is_command: bool,
    /// The value, as the client gave it; the topic gets it as by SET.
    pub value: &'a [u8],
}

/// What became of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The topic has the value, or the plant has accepted it.
    #[default]
    Done,
    /// Nothing was written.
    Refused,
    /// The value may have been written, or not.
    Unknown,
    /// Nothing was written, because the request has no ticket, or an old one. It may be sent again
    /// with the answer's.
    Again,
    /// The command was run, and the answer has its reply.
    Replied,
}

impl WriteOutcome {
    /// Returns the outcome of a write that ended so. The first word of an error tells it: it is
    /// what clients go by.
    pub fn of<T>(result: &Result<T, String>) -> Self {
        match result {
            Ok(_) => Self::Done,
            Err(text) if text.split(' ').next() == Some("UNKNOWN") => Self::Unknown,
            Err(_) => Self::Refused,
        }
    }

    /// Returns its name in the audit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done | Self::Replied => "done",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Again => "again",
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 1,
            Self::Unknown => 2,
            Self::Again => 3,
            Self::Replied => 4,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [
            Self::Done,
            Self::Refused,
            Self::Unknown,
            Self::Again,
            Self::Replied,
        ]
        .into_iter()
        .find(|outcome| outcome.code() == code)
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteAnswer<'a> {
    /// Which write it is.
    pub id: WriteId,
    /// What the next request to this owner needs, for some seconds.
    pub ticket: u64,
    /// What became of it.
    pub outcome: WriteOutcome,
    /// Whether the owner runs commands; one of an earlier version does not.
    pub takes_commands: bool,
    /// The error that the client gets; empty unless it is refused or unknown.
    pub text: &'a str,
    /// The reply of a command that was run, encoded as a Redis client gets it; empty otherwise.
    pub reply: &'a [u8],
}

/// Why bytes are none of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteFrameError {
    /// Shorter than a header.
    #[error("{0} bytes are shorter than a header")]
    TooShort(usize),
    /// Not a message of this kind.
    #[error("it is no message of this kind")]
    OtherKind,
    /// An unsupported version of the layout.
    #[error("unsupported version {0}; do all hubs of the cluster have the same version?")]
    UnsupportedVersion(u8),
    /// The checksum is wrong.
    #[error("wrong checksum")]
    BadChecksum,
    /// The lengths are not those of the body, or above the limits.
    #[error("lengths that are not the body's")]
    BadLength,
    /// A field holds an impossible value.
    #[error("a field with an impossible value")]
    BadField,
}

/// Writes magic, version, kind and checksum into a message whose other bytes are in place.
///
/// # Panics
///
/// If the message is shorter than a header.
pub fn seal_write(message: &mut [u8], kind: u8) {
    assert!(
        message.len() >= WRITE_HEADER_LENGTH,
        "a message begins with a header"
    );
    message[0..2].copy_from_slice(&MAGIC.to_le_bytes());
    message[2..4].copy_from_slice(&[VERSION, kind]);
    message[4..8].fill(0);
    let checksum = crc32c::crc32c(message);
    message[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// The header's fields behind the checksum, and the body.
struct Opened<'a> {
    kind: u8,
    id: WriteId,
    ticket: u64,
    lengths: [u8; 8],
    body: &'a [u8],
}

/// Checks a message of one of these kinds.
fn open<'a>(bytes: &'a [u8], kinds: &[u8]) -> Result<Opened<'a>, WriteFrameError> {
    let Some((head, body)) = bytes.split_first_chunk::<WRITE_HEADER_LENGTH>() else {
        return Err(WriteFrameError::TooShort(bytes.len()));
    };
    if head[0..2] != MAGIC.to_le_bytes() {
        return Err(WriteFrameError::OtherKind);
    }
    if head[2] != VERSION {
        return Err(WriteFrameError::UnsupportedVersion(head[2]));
    }
    let mut blank = *head;
    blank[4..8].fill(0);
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&blank), body);
    if checksum != u32::from_le_bytes(part(head, 4)) {
        return Err(WriteFrameError::BadChecksum);
    }
    if !kinds.contains(&head[3]) {
        return Err(WriteFrameError::OtherKind);
    }
    let id = WriteId {
        epoch: u64::from_le_bytes(part(head, 8)),
        session: u64::from_le_bytes(part(head, 16)),
        number: u64::from_le_bytes(part(head, 24)),
    };
    if id.epoch == 0 || id.session == 0 || id.number == 0 {
        return Err(WriteFrameError::BadField);
    }
    Ok(Opened {
        kind: head[3],
        id,
        ticket: u64::from_le_bytes(part(head, 32)),
        lengths: part(head, 40),
        body,
    })
}

/// Returns a message with these lengths and this body, sealed.
fn sealed((id, ticket): (WriteId, u64), kind: u8, lengths: [u8; 8], body: &[&[u8]]) -> Vec<u8> {
    let length: usize = body.iter().map(|part| part.len()).sum();
    let mut message = Vec::with_capacity(WRITE_HEADER_LENGTH + length);
    message.extend_from_slice(&[0; 8]);
    for field in [id.epoch, id.session, id.number, ticket] {
        message.extend_from_slice(&field.to_le_bytes());
    }
    message.extend_from_slice(&lengths);
    body.iter().for_each(|part| message.extend_from_slice(part));
    seal_write(&mut message, kind);
    message
}

/// Reads a field. Every caller's constants lie within the header.
fn part<const N: usize>(head: &[u8; WRITE_HEADER_LENGTH], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&head[at..at + N]);
    field
}

impl<'a> WriteRequest<'a> {
    /// Returns whether name and value fit.
    pub fn fits(&self) -> bool {
        (1..=NAME_LENGTH_MAX).contains(&self.name.len()) && self.value.len() <= VALUE_LENGTH_MAX
    }

    /// Returns the message. User and address are cut to their limits.
    ///
    /// # Panics
    ///
    /// If it does not fit ([`WriteRequest::fits`]).
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.fits(), "the caller has refused what is too long");
        let user = &self.user[..self.user.len().min(USER_LENGTH_MAX)];
        let address = &self.address[..self.address.len().min(ADDRESS_LENGTH_MAX)];
        let mut lengths = [0; 8];
        lengths[0..2].copy_from_slice(&(self.name.len() as u16).to_le_bytes());
        lengths[2..4].copy_from_slice(&[user.len() as u8, address.len() as u8]);
        lengths[4..8].copy_from_slice(&(self.value.len() as u32).to_le_bytes());
        let body = [self.name, user, address, self.value];
        let kind = match self.is_command {
            true => KIND_COMMAND,
            false => KIND_REQUEST,
        };
        sealed((self.id, self.ticket), kind, lengths, &body)
    }

    /// Decodes a message.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WriteFrameError> {
        let Opened {
            kind,
            id,
            ticket,
            lengths,
            body,
        } = open(bytes, &[KIND_REQUEST, KIND_COMMAND])?;
        let [n0, n1, user, address, v0, v1, v2, v3] = lengths;
        let name = usize::from(u16::from_le_bytes([n0, n1]));
        let value = u32::from_le_bytes([v0, v1, v2, v3]) as usize;
        let (user, address) = (usize::from(user), usize::from(address));
        if name + user + address + value != body.len()
            || user > USER_LENGTH_MAX
            || address > ADDRESS_LENGTH_MAX
        {
            return Err(WriteFrameError::BadLength);
        }
        let (name, rest) = body.split_at(name);
        let (user, rest) = rest.split_at(user);
        let (address, value) = rest.split_at(address);
        let request = Self {
            id,
            ticket,
            name,
            user,
            address,
            is_command: kind == KIND_COMMAND,
            value,
        };
        if !request.fits() {
            return Err(WriteFrameError::BadLength);
        }
        match request.is_command && decode_words(value).is_none() {
            true => Err(WriteFrameError::BadField),
            false => Ok(request),
        }
    }
}

impl<'a> WriteAnswer<'a> {
    /// Returns the message. The words are cut to their limit.
    ///
    /// # Panics
    ///
    /// If the reply is longer than [`REPLY_LENGTH_MAX`].
    pub fn encode(&self) -> Vec<u8> {
        assert!(
            self.reply.len() <= REPLY_LENGTH_MAX,
            "the caller has replaced a reply that is too long"
        );
        let mut end = self.text.len().min(TEXT_LENGTH_MAX);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let body = match self.outcome {
            WriteOutcome::Replied => self.reply,
            _ => &self.text.as_bytes()[..end],
        };
        let mut lengths = [0; 8];
        lengths[0] = self.outcome.code();
        lengths[1] = u8::from(self.takes_commands) * TAKES_COMMANDS;
        lengths[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
        sealed((self.id, self.ticket), KIND_ANSWER, lengths, &[body])
    }

    /// Decodes a message. Words of more than one line are impossible: they would break a reply.
    /// The reply of a command is not looked at.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WriteFrameError> {
        let Opened {
            id,
            ticket,
            lengths,
            body,
            ..
        } = open(bytes, &[KIND_ANSWER])?;
        let [code, takes, _, _, t0, t1, t2, t3] = lengths;
        let length = u32::from_le_bytes([t0, t1, t2, t3]) as usize;
        let outcome = WriteOutcome::from_code(code).ok_or(WriteFrameError::BadField)?;
        let length_max = match outcome {
            WriteOutcome::Replied => REPLY_LENGTH_MAX,
            _ => TEXT_LENGTH_MAX,
        };
        if length != body.len() || length > length_max {
            return Err(WriteFrameError::BadLength);
        }
        let answer = Self {
            id,
            ticket,
            outcome,
            takes_commands: takes & TAKES_COMMANDS != 0,
            text: "",
            reply: &[],
        };
        if outcome == WriteOutcome::Replied {
            return match body {
                [] => Err(WriteFrameError::BadField),
                reply => Ok(Self { reply, ..answer }),
            };
        }
        let text = str::from_utf8(body).map_err(|_| WriteFrameError::BadField)?;
        let has_words = matches!(outcome, WriteOutcome::Refused | WriteOutcome::Unknown);
        if has_words == text.is_empty() || text.chars().any(char::is_control) {
            return Err(WriteFrameError::BadField);
        }
        Ok(Self { text, ..answer })
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::encode_words;
    use super::*;

    const ID: WriteId = WriteId {
        epoch: 7,
        session: 0x0102,
        number: 3,
    };

    fn request() -> WriteRequest<'static> {
        WriteRequest {
            id: ID,
            ticket: 9,
            name: b"mx:A.B",
            user: b"ada",
            address: b"[::1]:5",
            is_command: false,
            value: b"21.5",
        }
    }

    fn answer() -> WriteAnswer<'static> {
        WriteAnswer {
            id: ID,
            ticket: 10,
            outcome: WriteOutcome::Refused,
            takes_commands: false,
            text: "REFUSED x",
            reply: b"",
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let message = request().encode();
        assert_eq!(message[..4], [0x54, 0x57, 1, 1]);
        assert_eq!(message[8..16], 7_u64.to_le_bytes());
        assert_eq!(message[16..24], 0x0102_u64.to_le_bytes());
        assert_eq!(message[24..32], 3_u64.to_le_bytes());
        assert_eq!(message[32..40], 9_u64.to_le_bytes());
        assert_eq!(message[40..48], [6, 0, 3, 7, 4, 0, 0, 0]);
        assert_eq!(&message[48..], b"mx:A.Bada[::1]:521.5");
        assert_eq!(WriteRequest::decode(&message), Ok(request()));
        let message = answer().encode();
        assert_eq!(message[..4], [0x54, 0x57, 1, 2]);
        assert_eq!(message[32..40], 10_u64.to_le_bytes());
        assert_eq!(message[40..48], [1, 0, 0, 0, 9, 0, 0, 0]);
        assert_eq!(&message[48..], b"REFUSED x");
        assert_eq!(WriteAnswer::decode(&message), Ok(answer()));
    }

    #[test]
    fn the_layout_of_a_command_and_its_reply_is_the_documented_one() {
        let words = encode_words(3, [&b"INCR"[..], b"mx:A.B"]);
        assert_eq!(words, b"\x03\x04\0\0\0INCR\x06\0\0\0mx:A.B");
        let command = WriteRequest {
            is_command: true,
            value: &words,
            ..request()
        };
        let message = command.encode();
        assert_eq!(message[..4], [0x54, 0x57, 1, 3]);
        assert_eq!(message[40..48], [6, 0, 3, 7, words.len() as u8, 0, 0, 0]);
        assert_eq!(WriteRequest::decode(&message), Ok(command));
        let replied = WriteAnswer {
            outcome: WriteOutcome::Replied,
            takes_commands: true,
            text: "",
            reply: b":5\r\n",
            ..answer()
        };
        let message = replied.encode();
        assert_eq!(message[40..48], [4, 1, 0, 0, 4, 0, 0, 0]);
        assert_eq!(&message[48..], b":5\r\n");
        assert_eq!(WriteAnswer::decode(&message), Ok(replied));
        let longest = vec![b'x'; REPLY_LENGTH_MAX];
        let replied = WriteAnswer {
            reply: &longest,
            ..replied
        };
        assert_eq!(WriteAnswer::decode(&replied.encode()), Ok(replied));
    }

    #[test]
    fn words_that_are_not_those_of_a_command_are_an_error() {
        let words: [&[u8]; 7] = [
            b"",
            b"\x02",
            b"\x04\x01\0\0\0x",
            b"\x02\x02\0\0\0x",
            b"\x02\x01\0\0\0xy",
            b"\x02\xff\xff\xff\xffx",
            b"\x02\x01\0\0",
        ];
        for words in words {
            let command = WriteRequest {
                is_command: true,
                value: words,
                ..request()
            };
            let decoded = WriteRequest::decode(&command.encode()).map(|_| ());
            assert_eq!(decoded, Err(WriteFrameError::BadField), "{words:?}");
        }
        let empty = encode_words(2, [&b"APPEND"[..], b"live:x", b""]);
        let expected = (2, vec![&b"APPEND"[..], b"live:x", b""]);
        assert_eq!(decode_words(&empty), Some(expected));
    }

    #[test]
    fn each_flipped_bit_is_an_error() {
        let words = encode_words(2, [&b"DEL"[..], b"mx:A.B"]);
        let command = WriteRequest {
            is_command: true,
            value: &words,
            ..request()
        };
        let messages = [request().encode(), command.encode(), answer().encode()];
        for message in &messages {
            for bit in 0..message.len() * 8 {
                let mut damaged = message.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(WriteRequest::decode(&damaged).is_err(), "bit {bit}");
                assert!(WriteAnswer::decode(&damaged).is_err(), "bit {bit}");
            }
            for length in 0..message.len() {
                assert!(WriteRequest::decode(&message[..length]).is_err());
                assert!(WriteAnswer::decode(&message[..length]).is_err());
            }
        }
    }

    #[test]
    fn what_is_too_long_is_refused_or_cut() {
        let long = vec![b'x'; VALUE_LENGTH_MAX + 1];
        let name = WriteRequest {
            name: &long[..NAME_LENGTH_MAX + 1],
            ..request()
        };
        let value = WriteRequest {
            value: &long,
            ..request()
        };
        let unnamed = WriteRequest {
            name: b"",
            ..request()
        };
        assert!(!name.fits() && !value.fits() && !unnamed.fits());
        let user = WriteRequest {
            user: &long,
            address: &long,
            ..request()
        };
        let message = user.encode();
        let read = WriteRequest::decode(&message).unwrap();
        assert_eq!((read.user.len(), read.address.len()), (128, 128));
        assert_eq!((read.name, read.value), (request().name, request().value));
        let words = "ERR ä".repeat(TEXT_LENGTH_MAX);
        let message = WriteAnswer {
            text: &words,
            ..answer()
        }
        .encode();
        let read = WriteAnswer::decode(&message).unwrap();
        assert!(words.starts_with(read.text) && read.text.len() > TEXT_LENGTH_MAX - 2);
    }

    #[test]
    fn an_answer_is_one_line_and_an_error_has_words() {
        for (outcome, text) in [
            (WriteOutcome::Done, "OK"),
            (WriteOutcome::Unknown, ""),
            (WriteOutcome::Refused, "ERR a\r\n+OK"),
        ] {
            let message = WriteAnswer {
                id: ID,
                ticket: 1,
                outcome,
                text,
                ..answer()
            }
            .encode();
            assert_eq!(
                WriteAnswer::decode(&message),
                Err(WriteFrameError::BadField),
                "{text}"
            );
        }
    }

    #[test]
    fn the_first_word_of_an_error_tells_the_outcome() {
        let of = |text: &str| WriteOutcome::of(&Err::<(), _>(text.to_owned()));
        assert_eq!(WriteOutcome::of(&Ok(())), WriteOutcome::Done);
        assert_eq!(of("UNKNOWN the link was lost"), WriteOutcome::Unknown);
        assert_eq!(
            of("REFUSED SecurityError by x, detail 7"),
            WriteOutcome::Refused
        );
        assert_eq!(of("UNKNOWNS"), WriteOutcome::Refused);
    }
}
