//! Z85 (RFC 32): binary keys as text, five characters for four bytes.

/// Why a text is not Z85, or bytes cannot be encoded. libzmq returns `EINVAL` for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Z85Error {
    /// Binary data are not a multiple of four bytes, or a text not one of five characters.
    #[error("Z85 takes multiples of 4 bytes and of 5 characters, not {length}")]
    Length {
        /// The given length in bytes.
        length: usize,
    },
    /// A character outside the alphabet.
    #[error("the character at {position} is not one of Z85's")]
    Character {
        /// Its position, from 0.
        position: usize,
    },
    /// Five characters for a number of more than 32 bits.
    #[error("the five characters at {position} stand for more than 32 bits")]
    Overflow {
        /// The position of the first one, from 0.
        position: usize,
    },
}

/// Encodes bytes as text.
///
/// ```
/// let bytes = [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b];
/// assert_eq!(tidewire_zmtp::z85::encode(&bytes).unwrap(), "HelloWorld");
/// ```
///
/// # Errors
/// The number of bytes is not a multiple of four.
pub fn encode(bytes: &[u8]) -> Result<String, Z85Error> {
    let (groups, []) = bytes.as_chunks::<4>() else {
        let length = bytes.len();
        return Err(Z85Error::Length { length });
    };
    let mut text = String::with_capacity(groups.len() * 5);
    for group in groups {
        let value = u32::from_be_bytes(*group);
        for power in POWERS {
            text.push(char::from(ALPHABET[(value / power % 85) as usize]));
        }
    }
    Ok(text)
}

/// Decodes text into bytes.
///
/// # Errors
/// The text is not five characters of the alphabet for each four bytes.
pub fn decode(text: impl AsRef<[u8]>) -> Result<Vec<u8>, Z85Error> {
    let text = text.as_ref();
    let (groups, []) = text.as_chunks::<5>() else {
        let length = text.len();
        return Err(Z85Error::Length { length });
    };
    let mut bytes = Vec::with_capacity(groups.len() * 4);
    for (index, group) in groups.iter().enumerate() {
        let mut value = 0_u64;
        for (offset, character) in group.iter().enumerate() {
            let digit = ALPHABET.iter().position(|known| known == character);
            let position = index * 5 + offset;
            let digit = digit.ok_or(Z85Error::Character { position })?;
            value = value * 85 + digit as u64;
        }
        let position = index * 5;
        let value = u32::try_from(value).map_err(|_| Z85Error::Overflow { position })?;
        bytes.extend_from_slice(&value.to_be_bytes());
    }
    Ok(bytes)
}

/// Decodes a key of 32 bytes from its 40 characters.
///
/// # Errors
/// The same as [`decode`], and if the text does not have 40 characters.
pub fn decode_key(text: impl AsRef<[u8]>) -> Result<[u8; 32], Z85Error> {
    let text = text.as_ref();
    let length = text.len();
    let bytes = decode(text)?;
    bytes.try_into().map_err(|_| Z85Error::Length { length })
}

const ALPHABET: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
/// 85⁴ to 85⁰.
const POWERS: [u32; 5] = [52_200_625, 614_125, 7_225, 85, 1];

#[cfg(test)]
mod tests {
    use super::{Z85Error, decode, decode_key, encode};

    #[test]
    fn the_example_of_the_rfc_goes_both_ways() {
        let bytes = [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b];
        assert_eq!(encode(&bytes).unwrap(), "HelloWorld");
        assert_eq!(decode("HelloWorld").unwrap(), bytes);
        assert_eq!(encode(&[]).unwrap(), "");
        assert_eq!(decode("").unwrap(), [0; 0]);
        assert_eq!(decode("%nSc0").unwrap(), [255; 4]);
        assert_eq!(encode(&[255; 4]).unwrap(), "%nSc0");
    }

    #[test]
    fn every_four_bytes_come_back() {
        for value in (0..=u32::MAX).step_by(9_999_991) {
            let bytes = value.to_be_bytes();
            assert_eq!(decode(encode(&bytes).unwrap()).unwrap(), bytes);
        }
    }

    /// The cases of libzmq's test_base85.
    #[test]
    fn what_is_no_z85_is_refused() {
        assert_eq!(encode(b"12345"), Err(Z85Error::Length { length: 5 }));
        assert_eq!(decode("01234567"), Err(Z85Error::Length { length: 8 }));
        assert_eq!(decode("####0"), Err(Z85Error::Overflow { position: 0 }));
        assert_eq!(
            decode("00000%nSc1"),
            Err(Z85Error::Overflow { position: 5 })
        );
        for text in ["#####", "0000\x7f", "0000\u{0}", "\"0000", "0000;", "0,000"] {
            assert!(decode(text).is_err(), "{text:?}");
        }
        assert_eq!(decode("00,00"), Err(Z85Error::Character { position: 2 }));
        assert!(decode("0000\u{e9}").is_err());
        assert_eq!(decode_key("00000"), Err(Z85Error::Length { length: 5 }));
        assert_eq!(decode_key("0".repeat(40)), Ok([0; 32]));
    }
}
