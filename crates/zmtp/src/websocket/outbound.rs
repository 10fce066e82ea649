//! From ZMTP frames to WebSocket frames.

use tidewire_web::websocket::{FrameHead, Opcode, mask};

use super::{COMMAND, GREETING_BYTES, MORE};
use crate::command;
use crate::curve::Randomness;
use crate::error::Error;
use crate::frame::{FLAGS_3, Head};

/// Appends one message frame of a server, which does not mask: the same bytes for every client
/// whose traffic is not encrypted. `more`: further frames of the same message follow.
#[inline]
pub fn encode_frame(out: &mut Vec<u8>, body: &[u8], more: bool) {
    out.reserve(FrameHead::BYTES_MAX + 1 + body.len());
    encode_header(out, body.len(), more);
    out.extend_from_slice(body);
}

/// Appends what precedes the body of such a frame, which the caller sends behind it.
#[inline]
pub fn encode_header(out: &mut Vec<u8>, length: usize, more: bool) {
    FrameHead::new(Opcode::Binary, length as u64 + 1, None).write(out);
    out.push(u8::from(more) * MORE);
}

/// The state of the frame being sent.
#[derive(Debug)]
pub(super) struct Outbound {
    /// Whether we mask: we are a client.
    masks: bool,
    randomness: Randomness,
    /// Mask keys, generated many at a time.
    keys: Vec<[u8; 4]>,
    key: [u8; 4],
    /// Sent octets of the payload.
    at: u64,
    /// Octets of the body still to send.
    left: u64,
    /// Octets of our greeting still to skip.
    greeting_left: usize,
    /// An incomplete header or short command.
    begun: Vec<u8>,
    handshake: HandshakeForm,
    /// Octets of a command still to leave out.
    unsaid: u64,
}

/// How our side of the handshake is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandshakeForm {
    /// As commands.
    Commands,
    /// READY as a routing id, which is always empty, and no other command.
    RoutingId,
}

impl Outbound {
    pub(super) fn new(masks: bool, randomness: Randomness) -> Outbound {
        Outbound {
            masks,
            randomness,
            keys: Vec::new(),
            key: [0; 4],
            at: 0,
            left: 0,
            greeting_left: GREETING_BYTES,
            begun: Vec::new(),
            handshake: HandshakeForm::Commands,
            unsaid: 0,
        }
    }

    /// Sends a routing id in place of the handshake.
    pub(super) fn replace_handshake(&mut self) {
        self.handshake = HandshakeForm::RoutingId;
    }

    pub(super) fn send(&mut self, zmtp: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let (_, mut rest) = zmtp.split_at(self.greeting_left.min(zmtp.len()));
        self.greeting_left -= zmtp.len() - rest.len();
        while !rest.is_empty() {
            if self.left > 0 {
                rest = self.say_body(rest, out)?;
                continue;
            }
            if self.unsaid > 0 {
                let unsaid = usize::try_from(self.unsaid).unwrap_or(usize::MAX);
                let (left_out, behind) = rest.split_at(unsaid.min(rest.len()));
                self.unsaid -= left_out.len() as u64;
                rest = behind;
                continue;
            }
            if self.begun.is_empty() {
                let taken = self.begin(rest, out)?;
                if taken > 0 {
                    rest = &rest[taken..];
                    continue;
                }
            }
            // A header that is cut: it is collected octet by octet.
            self.begun.push(rest[0]);
            rest = &rest[1..];
            let begun = std::mem::take(&mut self.begun);
            if self.begin(&begun, out)? == 0 {
                self.begun = begun;
            }
        }
        Ok(())
    }

    /// Appends a control frame of at most 125 octets.
    pub(super) fn control(
        &mut self,
        opcode: Opcode,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let key = self.head(opcode, data.len() as u64, out)?;
        let begin = out.len();
        out.extend_from_slice(data);
        mask(&mut out[begin..], key, 0);
        Ok(())
    }

    /// Starts a frame whose header (and command, if it is short) is complete. Returns the octets
    /// taken, or 0.
    fn begin(&mut self, zmtp: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
        let Ok(head) = Head::read(zmtp, FLAGS_3)? else {
            return Ok(0);
        };
        let body = &zmtp[head.size..];
        if self.handshake == HandshakeForm::RoutingId && head.is_command() {
            // READY and ERROR are longer than the name of READY.
            let Some(name) = body.get(..READY.len().min(head.length as usize)) else {
                return Ok(0);
            };
            if name == READY {
                encode_frame(out, &[], false);
                self.handshake = HandshakeForm::Commands;
            }
            self.unsaid = head.length;
            return Ok(head.size);
        }
        if head.is_command() && head.length <= HEARTBEAT_BYTES_MAX {
            let Some(body) = body.get(..head.length as usize) else {
                return Ok(0);
            };
            for (name, opcode) in [(command::PING, Opcode::Ping), (command::PONG, Opcode::Pong)] {
                if body.get(1..1 + name.len()) == Some(name) && body[0] == name.len() as u8 {
                    self.control(opcode, &[], out)?;
                    return Ok(head.size + body.len());
                }
            }
        }
        self.key = self.head(Opcode::Binary, head.length.saturating_add(1), out)?;
        let more = u8::from(head.more()) * MORE;
        let command = u8::from(head.is_command()) * COMMAND;
        out.push((more | command) ^ self.key[0]);
        (self.at, self.left) = (1, head.length);
        // The bytes after the header belong to the body, and are sent as such.
        let (size, mut body) = (head.size, body);
        let whole = body.len();
        if self.left > 0 && !body.is_empty() {
            body = self.say_body(body, out)?;
        }
        Ok(size + whole - body.len())
    }

    /// Sends the available part of a body. Returns the rest. A body for whose copy there is no
    /// memory ends the connection, not the process.
    fn say_body<'z>(&mut self, zmtp: &'z [u8], out: &mut Vec<u8>) -> Result<&'z [u8], Error> {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let (body, rest) = zmtp.split_at(left.min(zmtp.len()));
        let begin = out.len();
        out.try_reserve(body.len()).map_err(|_| Error::Closed)?;
        out.extend_from_slice(body);
        if self.masks {
            mask(&mut out[begin..], self.key, self.at);
        }
        self.at = self.at.wrapping_add(body.len() as u64);
        self.left -= body.len() as u64;
        Ok(rest)
    }

    /// Sends the header of a frame. Returns the mask key, zeros if there is none.
    fn head(&mut self, opcode: Opcode, length: u64, out: &mut Vec<u8>) -> Result<[u8; 4], Error> {
        let key = match self.masks {
            true => Some(self.draw_key()?),
            false => None,
        };
        FrameHead::new(opcode, length, key).write(out);
        Ok(key.unwrap_or_default())
    }

    fn draw_key(&mut self) -> Result<[u8; 4], Error> {
        if let Some(key) = self.keys.pop() {
            return Ok(key);
        }
        self.keys.resize(KEYS_DRAWN, [0; 4]);
        (self.randomness)(self.keys.as_flattened_mut())?;
        self.keys.pop().ok_or(Error::NoRandomness)
    }
}

/// The name of the command, behind its length.
const READY: &[u8] = b"\x05READY";
/// PING and PONG are not longer; other commands may be sent in pieces.
const HEARTBEAT_BYTES_MAX: u64 = 5 + 2 + 16;
/// One system call per 64 frames.
const KEYS_DRAWN: usize = 64;
