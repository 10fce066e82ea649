//! The messages of a client, put together from frames.

use super::frame::{FrameHead, Opcode, mask};

/// Why a connection ends (RFC 6455, section 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum CloseCode {
    /// The purpose is fulfilled.
    Normal = 1000,
    /// The server ends.
    GoingAway = 1001,
    /// The peer broke the protocol.
    Protocol = 1002,
    /// A type of message that is not accepted.
    Unsupported = 1003,
    /// A text that is not UTF-8.
    Invalid = 1007,
    /// Not allowed.
    Policy = 1008,
    /// The message is too long.
    TooBig = 1009,
    /// There is no room for another connection.
    TryLater = 1013,
    /// An administrator has ended the connection. Ours: 4000 to 4999 are for applications.
    Killed = 4001,
    /// The login of the connection has ended.
    LoggedOut = 4002,
}

/// A message of a client, or a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'m> {
    /// A part of a message: more follows.
    Part,
    /// A text.
    Text(&'m [u8]),
    /// Bytes.
    Binary(&'m [u8]),
    /// A PING, whose payload is sent back.
    Ping(&'m [u8]),
    /// A PONG.
    Pong,
    /// The client closes. The payload of the answer.
    Close(&'m [u8]),
}

/// Puts messages together. It takes whole frames only, so it keeps no input.
#[derive(Debug)]
pub struct Receiver {
    message: Vec<u8>,
    control: Vec<u8>,
    /// The type of the message that has begun and not ended.
    begun: Option<Opcode>,
    message_bytes_max: usize,
}

impl Receiver {
    /// Begins with the first frame. Messages have up to `message_bytes_max` bytes.
    pub fn new(message_bytes_max: usize) -> Self {
        Self {
            message: Vec::new(),
            control: Vec::new(),
            begun: None,
            message_bytes_max,
        }
    }

    /// Takes the frame at the front of `input`. Returns its length and what it completes, or `None`
    /// while it is incomplete.
    ///
    /// # Errors
    /// The connection must end with this code.
    pub fn receive(&mut self, input: &[u8]) -> Result<Option<(usize, Message<'_>)>, CloseCode> {
        let head = FrameHead::read(input, true).map_err(|_| CloseCode::Protocol)?;
        let Some((head, head_bytes)) = head else {
            return Ok(None);
        };
        let is_begun = self.begun.is_some();
        match head.opcode {
            Opcode::Continuation if !is_begun => return Err(CloseCode::Protocol),
            Opcode::Text | Opcode::Binary if is_begun => return Err(CloseCode::Protocol),
            _ => {}
        }
        let payload_bytes = usize::try_from(head.payload_bytes).unwrap_or(usize::MAX);
        let known_bytes = if is_begun { self.message.len() } else { 0 };
        let room = self.message_bytes_max - known_bytes.min(self.message_bytes_max);
        if !head.opcode.is_control() && payload_bytes > room {
            return Err(CloseCode::TooBig);
        }
        let size_bytes = head_bytes + payload_bytes;
        let Some(payload) = input.get(head_bytes..size_bytes) else {
            return Ok(None);
        };
        let message = match head.opcode.is_control() {
            true => self.take_control(head, payload)?,
            false => self.take_data(head, payload)?,
        };
        Ok(Some((size_bytes, message)))
    }

    fn take_control(&mut self, head: FrameHead, payload: &[u8]) -> Result<Message<'_>, CloseCode> {
        self.control.clear();
        self.control.extend_from_slice(payload);
        mask(&mut self.control, head.key.unwrap_or_default(), 0);
        Ok(match head.opcode {
            Opcode::Ping => Message::Ping(&self.control),
            Opcode::Close => {
                check_close(&self.control)?;
                Message::Close(&self.control[..self.control.len().min(2)])
            }
            _ => Message::Pong,
        })
    }

    fn take_data(&mut self, head: FrameHead, payload: &[u8]) -> Result<Message<'_>, CloseCode> {
        let opcode = self.begun.unwrap_or(head.opcode);
        if self.begun.is_none() {
            self.message.clear();
            if self.message.capacity() > KEPT_BYTES_MAX {
                self.message = Vec::new();
            }
        }
        let start = self.message.len();
        self.message.extend_from_slice(payload);
        mask(&mut self.message[start..], head.key.unwrap_or_default(), 0);
        let is_text = opcode == Opcode::Text;
        if is_text && !may_be_utf8(&self.message, start, head.is_final) {
            return Err(CloseCode::Invalid);
        }
        if !head.is_final {
            self.begun = Some(opcode);
            return Ok(Message::Part);
        }
        self.begun = None;
        Ok(match is_text {
            true => Message::Text(&self.message),
            false => Message::Binary(&self.message),
        })
    }
}

/// Returns whether a text is UTF-8; one that is not complete, also if its last character is cut.
/// The part in front of `start` was checked before.
fn may_be_utf8(text: &[u8], start: usize, is_complete: bool) -> bool {
    // A character that was cut begins up to three octets in front.
    let mut from = start.saturating_sub(3);
    while from > 0 && from < text.len() && text[from] & 0xc0 == 0x80 {
        from -= 1;
    }
    match std::str::from_utf8(&text[from..]) {
        Ok(_) => true,
        Err(error) => !is_complete && error.error_len().is_none(),
    }
}

fn check_close(payload: &[u8]) -> Result<(), CloseCode> {
    let Some(code) = payload.first_chunk::<2>() else {
        return match payload.is_empty() {
            true => Ok(()),
            false => Err(CloseCode::Protocol),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(CloseCode::Protocol);
    }
    match std::str::from_utf8(&payload[2..]) {
        Ok(_) => Ok(()),
        Err(_) => Err(CloseCode::Invalid),
    }
}

/// Appends a message or a control frame in one frame of a server.
pub fn write_message(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    FrameHead::new(opcode, payload.len() as u64, None).write(out);
    out.extend_from_slice(payload);
}

/// Appends a CLOSE of a server with its reason, which may have up to 123 bytes.
pub fn write_close(code: CloseCode, reason: &str, out: &mut Vec<u8>) {
    let mut payload = (code as u16).to_be_bytes().to_vec();
    let end = reason.floor_char_boundary(REASON_BYTES_MAX);
    payload.extend_from_slice(&reason.as_bytes()[..end]);
    write_message(Opcode::Close, &payload, out);
}

/// Maximum length of the reason in a CLOSE.
const REASON_BYTES_MAX: usize = 123;
/// Memory that is kept between two messages.
const KEPT_BYTES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let key = [1, 2, 3, 4];
        let opcode = match first & 15 {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            _ => Opcode::Pong,
        };
        let mut head = FrameHead::new(opcode, payload.len() as u64, Some(key));
        head.is_final = first & 0x80 != 0;
        let mut out = Vec::new();
        head.write(&mut out);
        let start = out.len();
        out.extend_from_slice(payload);
        mask(&mut out[start..], key, 0);
        out
    }

    /// The messages of some frames, or the code of the end.
    fn all(frames: &[Vec<u8>]) -> Result<Vec<String>, CloseCode> {
        let input = frames.concat();
        let (mut receiver, mut at, mut messages) = (Receiver::new(20), 0, Vec::new());
        while let Some((count, message)) = receiver.receive(&input[at..])? {
            at += count;
            messages.push(match message {
                Message::Part => "part".to_owned(),
                Message::Text(text) => format!("text {}", text.escape_ascii()),
                Message::Binary(bytes) => format!("binary {}", bytes.escape_ascii()),
                Message::Ping(bytes) => format!("ping {}", bytes.escape_ascii()),
                Message::Pong => "pong".to_owned(),
                Message::Close(bytes) => format!("close {}", bytes.escape_ascii()),
            });
        }
        assert_eq!(at, input.len());
        Ok(messages)
    }

    #[test]
    fn a_message_in_parts_lets_control_frames_between() {
        let frames = [
            frame(0x01, "a\u{e9}".as_bytes()[..2].as_ref()),
            frame(0x89, b"p"),
            frame(0x80, &"\u{e9}b".as_bytes()[1..]),
            frame(0x82, b"\xff"),
            frame(0x8a, b""),
            frame(0x88, &[0x03, 0xe8, b'x']),
        ];
        let expected = [
            "part",
            "ping p",
            "text a\\xc3\\xa9b",
            "binary \\xff",
            "pong",
            "close \\x03\\xe8",
        ];
        assert_eq!(all(&frames).unwrap(), expected);
    }

    #[test]
    fn each_breach_has_its_code() {
        for (frames, code) in [
            (vec![frame(0x80, b"")], CloseCode::Protocol),
            (
                vec![frame(0x01, b"a"), frame(0x81, b"b")],
                CloseCode::Protocol,
            ),
            (vec![frame(0x88, b"x")], CloseCode::Protocol),
            (vec![frame(0x88, &[0x03, 0xed])], CloseCode::Protocol),
            (vec![frame(0x88, &[0x03, 0xe8, 0xff])], CloseCode::Invalid),
            (vec![frame(0x81, b"\xff")], CloseCode::Invalid),
            (vec![frame(0x81, b"\xc3")], CloseCode::Invalid),
            (
                vec![frame(0x01, b"\xed\xa0"), frame(0x00, b"\x80")],
                CloseCode::Invalid,
            ),
            (vec![frame(0x81, &[b'a'; 21])], CloseCode::TooBig),
            (
                vec![frame(0x01, &[b'a'; 15]), frame(0x80, &[b'a'; 6])],
                CloseCode::TooBig,
            ),
            (vec![b"\x81\x01a".to_vec()], CloseCode::Protocol),
        ] {
            assert_eq!(all(&frames), Err(code), "{frames:x?}");
        }
    }

    #[test]
    fn a_text_may_be_cut_between_any_two_octets() {
        let text = "\u{e9}\u{20ac}\u{1f600}".as_bytes();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let frames = [
                    frame(0x01, &text[..first]),
                    frame(0x00, &text[first..second]),
                    frame(0x80, &text[second..]),
                ];
                assert_eq!(all(&frames).unwrap().len(), 3, "{first} {second}");
            }
        }
    }
}
