//! Detection of the container of a file or stream.

use super::{HEADER_LENGTH, Kind};

/// The container of a stream, as its first bytes show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Container {
    /// DBN with metadata, of this version (possibly an unsupported one).
    Dbn {
        /// The version byte.
        version: u8,
    },
    /// DBN records without metadata.
    Fragment,
    /// Zstandard: detect again in the decompressed bytes.
    Zstd,
    /// Databento's legacy container, a zstd skippable frame followed by zstd records.
    Dbz,
    /// Too few bytes to tell: pass at least [`DETECT_LENGTH`](Self::DETECT_LENGTH) bytes, if the
    /// input has them.
    Short,
    /// None of these.
    Unknown,
}

impl Container {
    /// With this many bytes the result is never [`Short`](Self::Short).
    pub const DETECT_LENGTH: usize = HEADER_LENGTH;
}

/// Detects the container of `bytes`, the beginning of a file or stream.
///
/// A fragment has no magic number. It is recognised by a known record type with a plausible
/// length.
pub fn detect(bytes: &[u8]) -> Container {
    if let [b'D', b'B', b'N', version, ..] = *bytes {
        return Container::Dbn { version };
    }
    let Some(magic) = bytes.first_chunk::<4>() else {
        return Container::Short;
    };
    match u32::from_le_bytes(*magic) {
        ZSTD_MAGIC => return Container::Zstd,
        SKIPPABLE_MAGIC_FIRST..=SKIPPABLE_MAGIC_LAST => {
            return match bytes.get(8..12) {
                None => Container::Short,
                Some(&[b'D', b'B', b'Z', _]) => Container::Dbz,
                Some(_) => Container::Zstd,
            };
        }
        _ => {}
    }
    if bytes.len() < HEADER_LENGTH {
        return Container::Short;
    }
    let kind = Kind::of(bytes[1]);
    let length = usize::from(bytes[0]) * 4;
    if kind != Kind::Unknown && length >= kind.length_min() {
        Container::Fragment
    } else {
        Container::Unknown
    }
}

const ZSTD_MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE_MAGIC_FIRST: u32 = 0x184D_2A50;
const SKIPPABLE_MAGIC_LAST: u32 = 0x184D_2A5F;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_container_is_told_by_its_first_bytes() {
        assert_eq!(detect(b"DBN\x03....."), Container::Dbn { version: 3 });
        assert_eq!(detect(b"\x28\xb5\x2f\xfd"), Container::Zstd);
        assert_eq!(detect(b"\x50\x2a\x4d\x18\x90\0\0\0DBZ\x01"), Container::Dbz);
        assert_eq!(detect(b"\x50\x2a\x4d\x18\x90\0\0\0...."), Container::Zstd);
        assert_eq!(detect(b"\x50\x2a\x4d\x18\x90\0\0\0DB"), Container::Short);
        let mut mbo = [0; 56];
        (mbo[0], mbo[1]) = (14, 0xA0);
        assert_eq!(detect(&mbo), Container::Fragment);
        mbo[0] = 13;
        assert_eq!(
            detect(&mbo),
            Container::Unknown,
            "an MBO record has 56 bytes"
        );
        assert_eq!(detect(&[]), Container::Short);
        assert_eq!(detect(b"GET / HTTP/1.1\r\n"), Container::Unknown);
    }
}
