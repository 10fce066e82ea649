//! From WebSocket frames to ZMTP frames.

use tidewire_web::websocket::{FrameHead, Opcode, mask};

use super::{COMMAND, MORE, Stop};
use crate::command;
use crate::error::Error;
use crate::frame::{COMMAND as ZMTP_COMMAND, FrameHeader, MORE as ZMTP_MORE};

/// The received part of the current frame.
#[derive(Debug)]
pub(super) struct Inbound {
    /// Whether the peer masks: it is a client.
    masked: bool,
    key: [u8; 4],
    /// Received octets of the payload.
    at: u64,
    /// Missing octets of a body.
    left: u64,
    /// Whether the next message is a routing id, in place of a handshake.
    expects_routing_id: bool,
}

/// A control frame: its opcode and data.
pub(super) type Control = (Opcode, Vec<u8>);

impl Inbound {
    pub(super) fn new(masked: bool) -> Inbound {
        Inbound {
            masked,
            key: [0; 4],
            at: 0,
            left: 0,
            expects_routing_id: false,
        }
    }

    /// Takes the first message for the peer's routing id.
    pub(super) fn expect_routing_id(&mut self) {
        self.expects_routing_id = true;
    }

    /// Takes input up to a control frame, the end, or where it must stop. Returns the number of
    /// octets, and the control frame.
    pub(super) fn receive(
        &mut self,
        input: &[u8],
        zmtp: &mut Vec<u8>,
        stop: Stop,
    ) -> Result<(usize, Option<Control>), Error> {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            if self.left > 0 {
                consumed += self.take_body(rest, zmtp);
                if self.left > 0 || stop == Stop::AfterFrame {
                    return Ok((consumed, None));
                }
                continue;
            }
            let Some((head, size)) = self.read_head(rest)? else {
                return Ok((consumed, None));
            };
            let payload = &rest[size..];
            let key = head.key.unwrap_or_default();
            if head.opcode.is_control() {
                let Some(data) = payload.get(..head.payload_bytes as usize) else {
                    return Ok((consumed, None));
                };
                let mut data = data.to_vec();
                mask(&mut data, key, 0);
                consumed += size + data.len();
                if head.opcode == Opcode::Pong {
                    command::encode_command(zmtp, command::PONG, &[]);
                    if stop == Stop::AfterFrame {
                        return Ok((consumed, None));
                    }
                    continue;
                }
                return Ok((consumed, Some((head.opcode, data))));
            }
            let Some(&flags) = payload.first() else {
                return Ok((consumed, None));
            };
            let flags = flags ^ key[0];
            let more = u8::from(flags & MORE != 0) * ZMTP_MORE;
            let command = u8::from(flags & COMMAND != 0) * ZMTP_COMMAND;
            (self.key, self.at, self.left) = (key, 1, head.payload_bytes - 1);
            if std::mem::take(&mut self.expects_routing_id) {
                let length = u32::try_from(self.left).ok().filter(|_| flags == 0);
                begin_ready(length.ok_or(Error::IllegalRoutingId)?, zmtp);
            } else {
                let header = FrameHeader::new(more | command, self.left);
                zmtp.extend_from_slice(header.as_bytes());
            }
            consumed += size + 1;
            if self.left == 0 && stop == Stop::AfterFrame {
                return Ok((consumed, None));
            }
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

    /// Returns the header at the front and its length, if it is complete.
    fn read_head(&self, input: &[u8]) -> Result<Option<(FrameHead, usize)>, Error> {
        let malformed = Error::MalformedWebSocketFrame;
        let Some((head, size)) = FrameHead::read(input, self.masked).map_err(|_| malformed)? else {
            return Ok(None);
        };
        // As in libzmq, a message is one frame. It has at least its flags.
        let is_message = head.opcode == Opcode::Binary && head.is_final && head.payload_bytes > 0;
        if !is_message && !head.opcode.is_control() {
            return Err(malformed);
        }
        Ok(Some((head, size)))
    }
}

/// Begins a READY command that a routing id of this length completes.
fn begin_ready(length: u32, zmtp: &mut Vec<u8>) {
    let body_bytes = u64::from(length) + (READY_OF_ROUTING_ID.len() + 4) as u64;
    zmtp.extend_from_slice(FrameHeader::new(ZMTP_COMMAND, body_bytes).as_bytes());
    zmtp.extend_from_slice(READY_OF_ROUTING_ID);
    zmtp.extend_from_slice(&length.to_be_bytes());
}

const READY_OF_ROUTING_ID: &[u8] = b"\x05READY\x08Identity";
