//! Detection of the container of a file or stream.

use super::{HEADER_LENGTH, Kind, UNDEFINED_TIME};

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
    /// With this many bytes the result is never [`Short`](Self::Short), and a fragment is checked
    /// as well as possible: four of the longest records.
    pub const DETECT_LENGTH: usize = FRAGMENT_RECORDS * (520 + SEND_TIME_LENGTH);
}

/// Detects the container of `bytes`, the beginning of a file or stream.
///
/// A fragment has no magic number. It is recognised by its first four records, or by all that
/// `bytes` has: each has a known type, exactly a length of that type, and a plausible time.
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
    match is_fragment(bytes) {
        true => Container::Fragment,
        false => Container::Unknown,
    }
}

/// Returns whether `bytes` begins with plausible records. The last one may be incomplete.
fn is_fragment(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    for _ in 0..FRAGMENT_RECORDS {
        let Some(head) = rest.first_chunk::<HEADER_LENGTH>() else {
            break;
        };
        let length = usize::from(head[0]) * 4;
        let [.., a, b, c, d, e, f, g, h] = *head;
        let time_ns = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        if !has_length(Kind::of(head[1]), length) || !is_time(time_ns) {
            return false;
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    true
}

/// Returns whether records of a kind have this length in some version, perhaps with a send time.
fn has_length(kind: Kind, length: usize) -> bool {
    let others: &[usize] = match kind {
        Kind::Unknown => return false,
        Kind::Definition => &[400, 520],
        Kind::Error | Kind::System => &[320],
        Kind::SymbolMapping => &[176],
        Kind::Statistics => &[80],
        _ => &[],
    };
    let mut lengths = others.iter().copied().chain([kind.length_min()]);
    lengths.any(|known| length == known || length == known + SEND_TIME_LENGTH)
}

/// Returns whether a record may have this time: none, or one of the years 1970 to 2099.
fn is_time(time_ns: u64) -> bool {
    time_ns == UNDEFINED_TIME || time_ns < TIME_END_NS
}

/// Records by which a fragment is recognised.
const FRAGMENT_RECORDS: usize = 4;
/// Bytes of the send time that a live gateway may append to a record.
const SEND_TIME_LENGTH: usize = 8;
/// The year 2100, ns since the UNIX epoch.
const TIME_END_NS: u64 = 4_102_444_800_000_000_000;
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

    /// Returns a record with the length, type and time of the arguments.
    fn record(length: usize, rtype: u8, time_ns: u64) -> Vec<u8> {
        let mut record = vec![0; length];
        (record[0], record[1]) = ((length / 4) as u8, rtype);
        record[8..16].copy_from_slice(&time_ns.to_le_bytes());
        record
    }

    #[test]
    fn text_whose_first_bytes_look_like_a_record_is_no_fragment() {
        let texts = [
            &b"\"\"\"A market-data client and publisher written from docs/feed-protocol.md only."[..],
            b"# A heading\n\nand a text that is long enough for more than one record of any kind\n",
            b"##### #### ### ## # a table of hashes, 140 bytes from here to the next record",
            b"\\\nbegin{document} with the type of mbp-10 and its exact length, and no time",
            b"x\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
        ];
        for text in texts {
            let text = text.repeat(40);
            let shown = text[..20].escape_ascii();
            assert_eq!(detect(&text), Container::Unknown, "{shown}");
            assert_eq!(detect(&text[..20]), Container::Unknown, "{shown}");
        }
    }

    #[test]
    fn each_of_the_first_four_records_of_a_fragment_is_checked() {
        const TIME_NS: u64 = 1_700_000_000_000_000_000;
        let good = [
            record(520, 0x13, TIME_NS),
            record(176 + 8, 0x16, UNDEFINED_TIME),
            record(80, 0x01, TIME_NS),
            record(64, 0x18, 0),
        ];
        assert_eq!(detect(&good.concat()), Container::Fragment);
        for at in 0..4 {
            for bad in [
                record(524, 0x13, TIME_NS),
                record(56, 0x77, TIME_NS),
                record(80, 0x01, TIME_END_NS),
                vec![0; 64],
            ] {
                let mut records = good.clone();
                records[at] = bad;
                assert_eq!(detect(&records.concat()), Container::Unknown, "{at}");
            }
        }
        let long = record(528, 0x13, TIME_NS).repeat(4);
        assert_eq!(long.len(), Container::DETECT_LENGTH);
        let cut = &good.concat()[..700];
        assert_eq!(
            detect(cut),
            Container::Fragment,
            "the decoder names the cut"
        );
    }
}
