//! The header of a frame, and its mask.

/// The bit in a frame's first octet that marks the last frame of a message.
const FINAL: u8 = 0x80;
/// Maximum payload of a CLOSE, PING or PONG, in bytes.
pub const CONTROL_BYTES_MAX: usize = 125;

/// The bit in a frame's second octet that announces a mask.
const MASKED: u8 = 0x80;
/// The bits of a frame's first octet with the opcode.
const OPCODE: u8 = 0x0f;
/// In place of a length: the length follows in two octets.
const LENGTH_IN_TWO: u8 = 126;
/// In place of a length: the length follows in eight octets.
const LENGTH_IN_EIGHT: u8 = 127;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// Continues the current message.
    Continuation = 0,
    /// Begins a message of UTF-8 text.
    Text = 1,
    /// Begins a message of bytes.
    Binary = 2,
    /// The sender closes the connection.
    Close = 8,
    /// Requests a PONG with the same payload.
    Ping = 9,
    /// The response to a PING.
    Pong = 10,
}

impl Opcode {
    /// Returns the opcode in a frame's first octet.
    fn of(octet: u8) -> Option<Opcode> {
        Some(match octet & OPCODE {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    /// Returns whether it is CLOSE, PING or PONG: a short frame that may come between others.
    pub fn is_control(self) -> bool {
        self as u8 >= Opcode::Close as u8
    }
}

/// A frame that RFC 6455 does not permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed WebSocket frame")]
pub struct MalformedFrame;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The type of the frame.
    pub opcode: Opcode,
    /// Whether the frame is the last of its message.
    pub is_final: bool,
    /// The length of the payload.
    pub payload_bytes: u64,
    /// The key of the payload's [`mask`]: every frame of a client has one, and no frame of a
    /// server.
    pub key: Option<[u8; 4]>,
}

impl FrameHead {
    /// Maximum length of a head.
    pub const BYTES_MAX: usize = 14;

    /// Returns the head of a message or control frame that consists of one frame.
    pub fn new(opcode: Opcode, payload_bytes: u64, key: Option<[u8; 4]>) -> FrameHead {
        debug_assert!(!opcode.is_control() || payload_bytes <= CONTROL_BYTES_MAX as u64);
        FrameHead {
            opcode,
            is_final: true,
            payload_bytes,
            key,
        }
    }

    /// Reads the head at the front of `input`. Returns the head and its length in bytes, or `None`
    /// while it is incomplete. `is_masked` says that the peer is a client.
    ///
    /// # Errors
    /// [`MalformedFrame`], as soon as the octets show it: a reserved bit, an unknown opcode, a
    /// fragmented control frame or one of more than 125 bytes, a missing or superfluous mask, or a
    /// length of 2^63 or more.
    pub fn read(
        input: &[u8],
        is_masked: bool,
    ) -> Result<Option<(FrameHead, usize)>, MalformedFrame> {
        let Some(&[first, second]) = input.first_chunk() else {
            return Ok(None);
        };
        let opcode = Opcode::of(first).ok_or(MalformedFrame)?;
        let is_final = first & FINAL != 0;
        let has_reserved = first & !(FINAL | OPCODE) != 0;
        let is_cut_control = opcode.is_control() && !is_final;
        if has_reserved || is_cut_control || is_masked != (second & MASKED != 0) {
            return Err(MalformedFrame);
        }
        let rest = &input[2..];
        let (payload_bytes, wide) = match second & !MASKED {
            LENGTH_IN_TWO => match rest.first_chunk::<2>() {
                Some(octets) => (u64::from(u16::from_be_bytes(*octets)), 2),
                None => return Ok(None),
            },
            LENGTH_IN_EIGHT => match rest.first_chunk::<8>() {
                Some(octets) => (u64::from_be_bytes(*octets), 8),
                None => return Ok(None),
            },
            length => (u64::from(length), 0),
        };
        let is_too_long = opcode.is_control() && payload_bytes > CONTROL_BYTES_MAX as u64;
        // RFC 6455 requires the highest bit of a length to be zero.
        if is_too_long || payload_bytes > i64::MAX as u64 {
            return Err(MalformedFrame);
        }
        let mut size_bytes = 2 + wide;
        let mut key = None;
        if is_masked {
            let Some(octets) = rest[wide..].first_chunk::<4>() else {
                return Ok(None);
            };
            key = Some(*octets);
            size_bytes += 4;
        }
        let head = FrameHead {
            opcode,
            is_final,
            payload_bytes,
            key,
        };
        Ok(Some((head, size_bytes)))
    }

    /// Appends the head to `out`, with the shortest form of the length.
    pub fn write(&self, out: &mut Vec<u8>) {
        let masked = u8::from(self.key.is_some()) * MASKED;
        let is_final = u8::from(self.is_final) * FINAL;
        out.push(is_final | self.opcode as u8);
        match self.payload_bytes {
            length @ 0..126 => out.push(masked | length as u8),
            length @ 126..=0xffff => {
                out.push(masked | LENGTH_IN_TWO);
                out.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                out.push(masked | LENGTH_IN_EIGHT);
                out.extend_from_slice(&length.to_be_bytes());
            }
        }
        if let Some(key) = self.key {
            out.extend_from_slice(&key);
        }
    }
}

/// Masks or unmasks bytes that begin `at` octets after the start of the payload.
pub fn mask(bytes: &mut [u8], key: [u8; 4], at: u64) {
    let mut key = key;
    key.rotate_left((at % 4) as usize);
    let word = u32::from_ne_bytes(key);
    let (words, rest) = bytes.as_chunks_mut::<4>();
    for octets in words {
        *octets = (u32::from_ne_bytes(*octets) ^ word).to_ne_bytes();
    }
    for (octet, key) in rest.iter_mut().zip(key) {
        *octet ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn opcodes() -> impl Strategy<Value = Opcode> {
        prop::sample::select(vec![
            Opcode::Continuation,
            Opcode::Text,
            Opcode::Binary,
            Opcode::Close,
            Opcode::Ping,
            Opcode::Pong,
        ])
    }

    fn lengths() -> impl Strategy<Value = u64> {
        prop_oneof![0..300_u64, 65_530..65_540_u64, 0..=i64::MAX as u64]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_no_part_of_it_is_enough(
            opcode in opcodes(),
            payload_bytes in lengths(),
            is_final: bool,
            key: Option<[u8; 4]>,
        ) {
            let is_control = opcode.is_control();
            let limit = if is_control { CONTROL_BYTES_MAX as u64 } else { u64::MAX };
            let head = FrameHead {
                opcode,
                is_final: is_final || is_control,
                payload_bytes: payload_bytes.min(limit),
                key,
            };
            let mut bytes = Vec::new();
            head.write(&mut bytes);
            for end in 0..bytes.len() {
                prop_assert_eq!(FrameHead::read(&bytes[..end], key.is_some()), Ok(None));
            }
            let size_bytes = bytes.len();
            bytes.push(0xff);
            let read = FrameHead::read(&bytes, key.is_some());
            prop_assert_eq!(read, Ok(Some((head, size_bytes))));
            let other = FrameHead::read(&bytes, key.is_none());
            prop_assert_eq!(other, Err(MalformedFrame));
        }

        #[test]
        fn a_mask_does_not_depend_on_how_the_payload_is_cut(
            payload: Vec<u8>,
            key: [u8; 4],
            cut: prop::sample::Index,
        ) {
            let mut whole = payload.clone();
            mask(&mut whole, key, 0);
            let cut = cut.index(payload.len() + 1);
            let mut pieces = payload.clone();
            let (front, back) = pieces.split_at_mut(cut);
            mask(front, key, 0);
            mask(back, key, cut as u64);
            prop_assert_eq!(&whole, &pieces);
            mask(&mut whole, key, 0);
            prop_assert_eq!(whole, payload);
        }
    }

    #[test]
    fn the_examples_of_rfc_6455_are_read() {
        let masked = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
        let (head, size_bytes) = FrameHead::read(masked, true).unwrap().unwrap();
        let expected = FrameHead::new(Opcode::Text, 5, Some([0x37, 0xfa, 0x21, 0x3d]));
        assert_eq!((head, size_bytes), (expected, 6));
        let mut payload = masked[size_bytes..].to_vec();
        mask(&mut payload, [0x37, 0xfa, 0x21, 0x3d], 0);
        assert_eq!(payload, b"Hello");
        let (first, _) = FrameHead::read(b"\x01\x03Hel", false).unwrap().unwrap();
        assert_eq!((first.opcode, first.is_final), (Opcode::Text, false));
    }

    #[test]
    fn malformed_frames_are_refused_at_the_octet_that_shows_it() {
        for bytes in [
            &[0xc2, 0][..],                          // a reserved bit
            &[0x83, 0],                              // an unknown opcode
            &[0x8b, 0],                              // an unknown control frame
            &[0x09, 0],                              // a PING in pieces
            &[0x82, 0x80],                           // masked by a server
            &[0x88, 126, 0, 126],                    // a CLOSE of 126 bytes
            &[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], // 2^63 bytes
        ] {
            let before = &bytes[..bytes.len() - 1];
            assert_eq!(FrameHead::read(before, false), Ok(None), "{bytes:x?}");
            assert_eq!(
                FrameHead::read(bytes, false),
                Err(MalformedFrame),
                "{bytes:x?}"
            );
        }
    }
}
