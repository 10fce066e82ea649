//! The parts that serialised values are made of, written.

use tidewire_resp::number::parse_integer;

use super::reader::{BYTE, COMPRESSED, LONG, WORD};
use super::{FileVersion, lzf};

/// Where values are written to.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    bytes: &'a mut Vec<u8>,
    /// Behind the number of a value's form stands this key: so it is in files.
    key: Option<&'a [u8]>,
    compresses: bool,
    version: FileVersion,
}

impl<'a> Output<'a> {
    /// For values alone.
    pub(super) fn of_value(bytes: &'a mut Vec<u8>) -> Self {
        Output {
            bytes,
            key: None,
            compresses: true,
            version: FileVersion::Fitting,
        }
    }

    /// For values with their keys.
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

    /// For what is neither.
    pub(super) fn of_file(bytes: &'a mut Vec<u8>, compresses: bool) -> Self {
        Output {
            bytes,
            key: None,
            compresses,
            version: FileVersion::Fitting,
        }
    }

    /// The version of the file; [`FileVersion::Fitting`] for a value that goes elsewhere.
    pub(super) fn version(&self) -> FileVersion {
        self.version
    }

    /// The number of the form of the value that follows.
    pub(super) fn form(&mut self, form: u8) {
        self.push(form);
        if let Some(key) = self.key {
            text(self, key);
        }
    }

    /// A part that goes into the same file later.
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

/// A number in as many bytes as it needs.
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

/// A string: as an integer if it is one, compressed if that saves something, else as it is.
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

/// Ms since the UNIX epoch.
pub(super) fn time_ms(out: &mut Output<'_>, time_ms: i64) {
    out.extend_from_slice(&time_ms.to_le_bytes());
}

/// Writes a string that is an integer's; false if it needs more than 32 bits.
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
/// Shorter strings do not become shorter.
const COMPRESSED_BYTES_MIN: usize = 20;
const COMPRESSION_SAVES_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::super::reader::Reader;
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
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
