//! Writes the parts of serialized values.

use tidewire_resp::number::parse_integer;

use super::reader::{BYTE, COMPRESSED, LONG, WORD};
use super::{FileVersion, lzf};

/// The destination of serialized values.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    bytes: &'a mut Vec<u8>,
    /// The key to write after the number of a value's form: the order in files.
    key: Option<&'a [u8]>,
    compresses: bool,
    version: FileVersion,
}

impl<'a> Output<'a> {
    /// Creates an output for a value alone.
    pub(super) fn of_value(bytes: &'a mut Vec<u8>) -> Self {
        Output {
            bytes,
            key: None,
            compresses: true,
            version: FileVersion::Fitting,
        }
    }

    /// Creates an output for values with their keys.
    pub(super) fn of_key(
        bytes: &'a mut Vec<u8>,
        key: &'a [u8],
        compresses: bool,
        version: FileVersion,
    ) -> Self {
        Output {
            bytes,
            key: Some(key),
            compresses,
            version,
        }
    }

    /// Creates an output for other parts of a file.
    pub(super) fn of_file(bytes: &'a mut Vec<u8>, compresses: bool) -> Self {
        Output {
            bytes,
            key: None,
            compresses,
            version: FileVersion::Fitting,
        }
    }

    /// Returns the version of the file; [`FileVersion::Fitting`] outside of files.
    pub(super) fn version(&self) -> FileVersion {
        self.version
    }

    /// Writes the number of the next value's form, and the key if there is one.
    pub(super) fn form(&mut self, form: u8) {
        self.push(form);
        if let Some(key) = self.key {
            text(self, key);
        }
    }

    /// Creates an output for a part that is added to the same file later.
    pub(super) fn apart<'b>(&self, bytes: &'b mut Vec<u8>) -> Output<'b> {
        Output {
            bytes,
            key: None,
            compresses: self.compresses,
            version: self.version,
        }
    }

    pub(super) fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(super) fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

/// Writes a number with a variable length.
pub(super) fn number(out: &mut Output<'_>, number: u64) {
    if number < 1 << 6 {
        out.push(number as u8);
    } else if number < 1 << 14 {
        out.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes());
    } else if let Ok(number) = u32::try_from(number) {
        out.push(0x80);
        out.extend_from_slice(&number.to_be_bytes());
    } else {
        out.push(0x81);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Writes a string: as an integer if possible, compressed if that is shorter, else plain.
pub(super) fn text(out: &mut Output<'_>, text: &[u8]) {
    if text.len() <= INTEGER_BYTES_MAX
        && let Some(value) = parse_integer(text)
        && integer(out, value)
    {
        return;
    }
    if out.compresses
        && text.len() > COMPRESSED_BYTES_MIN
        && let Some(packed) = lzf::compress(text, text.len() - COMPRESSION_SAVES_MIN)
    {
        debug_assert!(packed.len() < text.len());
        out.push(SPECIAL | COMPRESSED);
        number(out, packed.len() as u64);
        number(out, text.len() as u64);
        out.extend_from_slice(&packed);
        return;
    }
    number(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Writes a time, ms since the UNIX epoch.
pub(super) fn time_ms(out: &mut Output<'_>, time_ms: i64) {
    out.extend_from_slice(&time_ms.to_le_bytes());
}

/// Writes an integer as a string; returns false if it needs more than 32 bits.
fn integer(out: &mut Output<'_>, value: i64) -> bool {
    let bytes = value.to_le_bytes();
    let (form, length) = match value {
        -0x80..=0x7F => (BYTE, 1),
        -0x8000..=0x7FFF => (WORD, 2),
        -0x8000_0000..=0x7FFF_FFFF => (LONG, 4),
        _ => return false,
    };
    out.push(SPECIAL | form);
    out.extend_from_slice(&bytes[..length]);
    true
}

const SPECIAL: u8 = 0xC0;
const INTEGER_BYTES_MAX: usize = 11;
/// Compression does not shorten shorter strings.
const COMPRESSED_BYTES_MIN: usize = 20;
const COMPRESSION_SAVES_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::super::reader::Reader;
    use super::*;

    #[test]
    fn written_parts_read_back() {
        for value in [
            0,
            63,
            64,
            16_383,
            16_384,
            u64::from(u32::MAX),
            1 << 32,
            u64::MAX,
        ] {
            let mut out = Vec::new();
            number(&mut Output::of_value(&mut out), value);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.number(), Ok(value));
            assert!(reader.is_empty());
        }
        let long = "long ".repeat(1000);
        for (value, length) in [
            ("", 1),
            ("-128", 2),
            ("128", 3),
            ("-32769", 5),
            ("2147483648", 11),
            ("007", 4),
            ("abcdefghijklmnopqrstuvwxyz", 27),
            (&long, 70),
        ] {
            let mut out = Vec::new();
            text(&mut Output::of_value(&mut out), value.as_bytes());
            assert!(out.len() <= length, "{value}");
            for cut in 0..out.len() {
                assert!(Reader::new(&out[..cut]).text().is_err());
            }
            let mut reader = Reader::new(&out);
            assert_eq!(reader.text().as_deref(), Ok(value.as_bytes()));
            assert!(reader.is_empty());
        }
    }
}
