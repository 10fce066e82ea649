//! From WebSocket frames to ZMTP frames.

use super::{BINARY, CLOSE, COMMAND, CONTROL_BYTES_MAX, FINAL, MASKED, MORE, PING, PONG, mask};
use crate::command;
use crate::error::Error;
use crate::frame::{COMMAND as ZMTP_COMMAND, FrameHeader, MORE as ZMTP_MORE};

/// What has come of the frame that is being read.
#[derive(Debug)]
pub(super) struct Inbound {
    /// The peer masks: it is a client.
    masked: bool,
    key: [u8; 4],
    /// Octets of the payload that have come.
    at: u64,
    /// Octets of a body that are still to come.
    left: u64,
}

/// A control frame: its opcode and data.
pub(super) type Control = (u8, Vec<u8>);

/// The header of a frame.
struct Head {
    opcode: u8,
    size: usize,
    length: u64,
    key: [u8; 4],
}

impl Inbound {
    pub(super) fn new(masked: bool) -> Inbound {
        Inbound {
            masked,
            key: [0; 4],
            at: 0,
            left: 0,
        }
    }

    /// Takes input until a control frame or its end; how much, and the control frame.
    pub(super) fn receive(
        &mut self,
        input: &[u8],
        zmtp: &mut Vec<u8>,
    ) -> Result<(usize, Option<Control>), Error> {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            if self.left > 0 {
                consumed += self.take_body(rest, zmtp);
                if self.left > 0 {
                    return Ok((consumed, None));
                }
                continue;
            }
            let Some(head) = self.read_head(rest)? else {
                return Ok((consumed, None));
            };
            let payload = &rest[head.size..];
            if head.opcode != BINARY {
                let Some(data) = payload.get(..head.length as usize) else {
                    return Ok((consumed, None));
                };
                let mut data = data.to_vec();
                mask(&mut data, head.key, 0);
                consumed += head.size + data.len();
                if head.opcode == PONG {
                    command::encode_command(zmtp, command::PONG, &[]);
                    continue;
                }
                return Ok((consumed, Some((head.opcode, data))));
            }
            let Some(&flags) = payload.first() else {
                return Ok((consumed, None));
            };
            let flags = flags ^ head.key[0];
            let more = u8::from(flags & MORE != 0) * ZMTP_MORE;
            let command = u8::from(flags & COMMAND != 0) * ZMTP_COMMAND;
            (self.key, self.at, self.left) = (head.key, 1, head.length - 1);
            let header = FrameHeader::new(more | command, self.left);
            zmtp.extend_from_slice(header.as_bytes());
            consumed += head.size + 1;
        }
    }

    fn take_body(&mut self, rest: &[u8], zmtp: &mut Vec<u8>) -> usize {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let count = left.min(rest.len());
        let begin = zmtp.len();
        zmtp.extend_from_slice(&rest[..count]);
        if self.masked {
            mask(&mut zmtp[begin..], self.key, self.at);
        }
        self.at = self.at.wrapping_add(count as u64);
        self.left -= count as u64;
        count
    }

    /// The header at the front, if it is all there.
    fn read_head(&self, input: &[u8]) -> Result<Option<Head>, Error> {
        let malformed = Error::MalformedWebSocketFrame;
        let Some(&[first, second]) = input.first_chunk() else {
            return Ok(None);
        };
        let opcode = first & !FINAL;
        let is_masked = second & MASKED != 0;
        let is_control = matches!(opcode, CLOSE | PING | PONG);
        // As libzmq: a message is one frame.
        if first & FINAL == 0 || !(is_control || opcode == BINARY) || is_masked != self.masked {
            return Err(malformed);
        }
        let rest = &input[2..];
        let (length, wide) = match second & !MASKED {
            126 => match rest.first_chunk::<2>() {
                Some(octets) => (u64::from(u16::from_be_bytes(*octets)), 2),
                None => return Ok(None),
            },
            127 => match rest.first_chunk::<8>() {
                Some(octets) => (u64::from_be_bytes(*octets), 8),
                None => return Ok(None),
            },
            length => (u64::from(length), 0),
        };
        let is_too_long = is_control && length > CONTROL_BYTES_MAX as u64;
        // RFC 6455 leaves the highest bit zero, and a ZWS message has its flags at least.
        if is_too_long || length > i64::MAX as u64 || opcode == BINARY && length == 0 {
            return Err(malformed);
        }
        let mut size = 2 + wide;
        let mut key = [0; 4];
        if is_masked {
            let Some(octets) = rest[wide..].first_chunk::<4>() else {
                return Ok(None);
            };
            key = *octets;
            size += 4;
        }
        Ok(Some(Head {
            opcode,
            size,
            length,
            key,
        }))
    }
}
