//! Operation status: the result of a write.

use crate::cursor::Output;
use crate::encode::Encode;
use crate::error::{DecodeError, EncodeError};
use crate::profile;
use crate::status::{MxStatus, PackedStatus};

/// The result of an operation.
///
/// ```text
///  0                   4
///  │packed MxStatus u32│completion u8│      or      │completion u8│
/// ```
///
/// The notes call the five bytes `00 00 SS SS CC`. The only capture, `00 00 50 80 00` for a
/// successful write, equals the packed MxStatus "success, Ok, by RespondingAutomationObject,
/// detail 0" bit for bit. So the first four bytes are decoded as a packed MxStatus, which for a
/// refusal holds category, source and detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationStatus {
    /// Five bytes.
    Full {
        /// The packed status.
        status: PackedStatus,
        /// 0 in the capture.
        completion: u8,
    },
    /// One byte: 0x00, 0x41 and 0xEF were captured.
    CompletionOnly(u8),
}

impl OperationStatus {
    /// The result of a successful write, as captured.
    pub const WRITE_COMPLETE: Self = Self::Full {
        status: PackedStatus(profile::WRITE_COMPLETE_STATUS),
        completion: profile::COMPLETION_OK,
    };

    /// Creates a result with `status`.
    pub const fn new(status: MxStatus) -> Self {
        Self::Full {
            status: status.pack(),
            completion: profile::COMPLETION_OK,
        }
    }

    /// Returns the status; `None` for a completion byte alone other than 0, whose meaning is
    /// unknown.
    pub const fn status(&self) -> Option<MxStatus> {
        match *self {
            Self::Full { status, .. } => Some(status.unpack()),
            Self::CompletionOnly(profile::COMPLETION_OK) => Some(MxStatus::OK),
            Self::CompletionOnly(_) => None,
        }
    }

    /// Returns whether a body of this length is an operation status; no other message is so
    /// short.
    #[inline]
    pub const fn has_length(length: usize) -> bool {
        length == 5 || length == 1
    }

    /// Decodes an operation status that fills `body`.
    ///
    /// # Errors
    /// The length is neither five bytes nor one.
    #[inline]
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        match *body {
            [completion] => Ok(Self::CompletionOnly(completion)),
            [a, b, c, d, completion] => Ok(Self::Full {
                status: PackedStatus(u32::from_le_bytes([a, b, c, d])),
                completion,
            }),
            _ => Err(DecodeError::Length {
                field: "operation status",
                length: body.len() as i64,
            }),
        }
    }
}

impl Encode for OperationStatus {
    #[inline]
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        Ok(match self {
            Self::Full { .. } => 5,
            Self::CompletionOnly(_) => 1,
        })
    }

    #[inline]
    fn put(&self, out: &mut Output<'_>) {
        match *self {
            Self::Full { status, completion } => {
                out.put(status.0.to_le_bytes());
                out.put([completion]);
            }
            Self::CompletionOnly(completion) => out.put([completion]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Accepted;

    #[test]
    fn the_captured_completion_says_that_the_write_went_well() {
        let captured = [0x00, 0x00, 0x50, 0x80, 0x00];
        let status = OperationStatus::decode(&captured).unwrap();
        assert_eq!(status, OperationStatus::WRITE_COMPLETE);
        assert_eq!(status.status().unwrap().outcome(), Ok(Accepted::Plainly));
        let mut bytes = [0; 5];
        assert_eq!(status.encode_to_slice(&mut bytes), Ok(5));
        assert_eq!(bytes, captured);
    }

    #[test]
    fn bare_completions_are_kept() {
        for byte in [0x00, 0x41, 0xEF] {
            let status = OperationStatus::decode(&[byte]).unwrap();
            let mut bytes = [0x55; 1];
            assert_eq!(status.encode_to_slice(&mut bytes), Ok(1));
            assert_eq!(bytes, [byte]);
            assert_eq!(status.status().is_some(), byte == 0);
        }
        assert!(OperationStatus::decode(&[0; 4]).is_err());
    }
}
