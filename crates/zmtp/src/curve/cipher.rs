//! MESSAGE: frames under the key of a connection.

use super::boxes::{BoxKey, StreamKey, TAG_BYTES};
use crate::error::{CommandName, Error};
use crate::frame::frame_header;

/// Both directions of a connection after its handshake.
#[derive(Debug)]
pub(crate) struct Cipher {
    seals: StreamKey,
    /// Number of the next frame sent.
    next: u64,
    opens: StreamKey,
    /// Number of the last frame received.
    last: u64,
    /// The last decrypted frame, at the front. Grows to the longest frame, and shrinks when long
    /// frames are rare.
    opened: Vec<u8>,
    /// Consecutive frames that left most of the buffer unused.
    unused: u32,
}

/// A decrypted frame; its body is [`Cipher::opened`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened {
    pub(crate) more: bool,
    pub(crate) is_command: bool,
    /// Octets of its body.
    pub(crate) length: usize,
}

/// Our role, which decides the name of each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

impl Cipher {
    /// Creates the cipher. `sent` and `received` are the numbers used last in the handshake.
    pub(crate) fn new(key: &BoxKey, role: Role, sent: u64, received: u64) -> Cipher {
        let (ours, theirs) = match role {
            Role::Client => (FROM_CLIENT, FROM_SERVER),
            Role::Server => (FROM_SERVER, FROM_CLIENT),
        };
        Cipher {
            seals: key.stream(ours),
            next: sent.saturating_add(1),
            opens: key.stream(theirs),
            last: received,
            opened: Vec::new(),
            unused: 0,
        }
    }

    /// Appends a frame whose body is the parts, one after another.
    #[inline]
    pub(crate) fn seal(&mut self, out: &mut Vec<u8>, flags: u8, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let header = frame_header(OVERHEAD_BYTES + length, false);
        out.reserve(header.as_bytes().len() + OVERHEAD_BYTES + length);
        out.extend_from_slice(header.as_bytes());
        self.seal_body(out, flags, parts);
    }

    /// Does the same without the header of the frame, whose body has [`OVERHEAD_BYTES`] more than
    /// the parts.
    #[inline]
    pub(crate) fn seal_body(&mut self, out: &mut Vec<u8>, flags: u8, parts: &[&[u8]]) {
        out.extend_from_slice(MESSAGE);
        let number = self.next.to_be_bytes();
        // With one number per nanosecond, 64 bits last for five centuries.
        self.next = self.next.saturating_add(1);
        out.extend_from_slice(&number);
        let sealed_at = out.len();
        out.extend_from_slice(&[0; TAG_BYTES]);
        out.push(flags);
        for part in parts {
            out.extend_from_slice(part);
        }
        self.seals.seal_in_place(&number, &mut out[sealed_at..]);
    }

    /// Decrypts the body of a frame.
    #[inline]
    pub(crate) fn open(&mut self, body: &[u8]) -> Result<Opened, Error> {
        let malformed = Error::MalformedCommand(CommandName::Message);
        match body.first() {
            None => return Err(Error::MalformedCommand(CommandName::Unnamed)),
            Some(&length) if usize::from(length) >= body.len() || body.len() < 2 => {
                return Err(Error::MalformedCommand(CommandName::Unnamed));
            }
            Some(_) => {}
        }
        let rest = body.strip_prefix(MESSAGE).ok_or(Error::UnexpectedCommand)?;
        let (number, sealed) = rest.split_first_chunk::<8>().ok_or(malformed)?;
        let length = sealed.len().checked_sub(TAG_BYTES + 1).ok_or(malformed)?;
        if u64::from_be_bytes(*number) <= self.last {
            return Err(Error::NonceNotIncreasing);
        }
        self.make_room(length + 1);
        let text = &mut self.opened[..length + 1];
        if !self.opens.open(number, sealed, text) {
            return Err(Error::Cryptographic);
        }
        self.last = u64::from_be_bytes(*number);
        Ok(Opened {
            more: text[0] & MORE != 0,
            is_command: text[0] & COMMAND != 0,
            length,
        })
    }

    /// Returns the body of the last decrypted frame, `length` octets.
    #[inline]
    pub(crate) fn opened(&self, length: usize) -> &[u8] {
        &self.opened[1..1 + length]
    }

    /// Takes the text of the last decrypted frame: flags, then its body. It must be returned.
    pub(crate) fn lend(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.opened)
    }

    pub(crate) fn give_back(&mut self, text: Vec<u8>) {
        self.opened = text;
    }

    /// Returns room for the text of a frame that is complete: `length` is not just a claim.
    fn make_room(&mut self, length: usize) {
        if self.opened.len() < length {
            self.opened.resize(length, 0);
        }
        if self.opened.len() <= KEPT_BYTES || length > self.opened.len() / 8 {
            self.unused = 0;
            return;
        }
        self.unused += 1;
        if self.unused > UNUSED_MAX {
            self.unused = 0;
            self.opened.truncate(length.max(KEPT_BYTES));
            self.opened.shrink_to_fit();
        }
    }
}

/// Bytes around the body of a frame, without its header: name, number, tag, flags.
pub(crate) const OVERHEAD_BYTES: usize = MESSAGE.len() + 8 + TAG_BYTES + 1;
/// The inner flags, in libzmq's numbers: COMMAND differs from that of a frame's header.
pub(crate) const MORE: u8 = 1;
pub(crate) const COMMAND: u8 = 2;

const MESSAGE: &[u8] = b"\x07MESSAGE";
const FROM_CLIENT: &[u8; 16] = b"CurveZMQMESSAGEC";
const FROM_SERVER: &[u8; 16] = b"CurveZMQMESSAGES";
/// Minimum buffer that is always kept, in bytes.
const KEPT_BYTES: usize = 256 << 10;
/// Consecutive small frames after which the rest of the buffer is freed.
const UNUSED_MAX: u32 = 1024;
