//! The predecessors of listpacks: ziplists, zipmaps and integer sets. Only integer sets are still
//! written.
//!
//! ```text
//!  ziplist  │ total bytes u32 │ offset of the last entry u32 │ count u16 │ entry │ … │ 0xFF │
//!  entry    │ bytes of the entry before: u8, or 254 and u32 │ encoding │ text │
//!  zipmap   │ count u8 │ length │ field │ length │ room u8 │ value │ room │ … │ 0xFF │
//!  integers │ width u32 │ count u32 │ integer │ … │
//! ```

use super::{Result, SerialError};
use crate::text::Text;

/// Decodes the elements of a ziplist.
pub(super) fn read(ziplist: &[u8]) -> Result<Vec<Text<'_>>> {
    read_ziplist(ziplist).ok_or(SerialError::Format)
}

/// Decodes fields and values of a zipmap, alternating.
pub(super) fn read_zipmap(zipmap: &[u8]) -> Result<Vec<Text<'_>>> {
    let (&count_stored, mut rest) = zipmap.split_first().ok_or(SerialError::Format)?;
    let mut texts = Vec::new();
    while rest != [END] {
        let pair = read_pair(rest).ok_or(SerialError::Format)?;
        texts.extend([Text::bytes(pair.0), Text::bytes(pair.1)]);
        rest = pair.2;
    }
    if count_stored < ZIPMAP_BIG && usize::from(count_stored) != texts.len() / 2 {
        return Err(SerialError::Format);
    }
    Ok(texts)
}

/// Decodes the integers of a small set, which must ascend.
pub(super) fn read_integers(bytes: &[u8]) -> Result<Vec<i64>> {
    let integers = read_any_integers(bytes).ok_or(SerialError::Format)?;
    if integers.is_sorted_by(|one, next| one < next) {
        Ok(integers)
    } else {
        Err(SerialError::Format)
    }
}

fn read_ziplist(ziplist: &[u8]) -> Option<Vec<Text<'_>>> {
    let number = |at: usize| Some(u32::from_le_bytes(*ziplist.get(at..)?.first_chunk()?) as usize);
    let count_stored = u16::from_le_bytes(*ziplist.get(8..)?.first_chunk()?);
    let end = ziplist.len().checked_sub(1)?;
    if number(0)? != ziplist.len() || ziplist[end] != END || end < HEADER {
        return None;
    }
    let (mut texts, mut at, mut last) = (Vec::new(), HEADER, HEADER);
    while at < end {
        let mut entry = &ziplist[at..end];
        if take_length(&mut entry, PREVIOUS_BIG)? != at - last {
            return None;
        }
        texts.push(take_text(&mut entry)?);
        last = at;
        at = end - entry.len();
    }
    let last_told = number(4)?;
    let sound = (count_stored == u16::MAX || usize::from(count_stored) == texts.len())
        && (last_told == last || texts.is_empty() && last_told <= end);
    sound.then_some(texts)
}

/// Decodes an entry's text, after the length of the previous entry.
fn take_text<'a>(entry: &mut &'a [u8]) -> Option<Text<'a>> {
    let first = *entry.split_off_first()?;
    let length = match first {
        0..0x40 => usize::from(first),
        0x40..0x80 => usize::from(first & 0x3F) << 8 | usize::from(*entry.split_off_first()?),
        0x80 => {
            let bytes = entry.split_off(..4)?;
            u32::from_be_bytes(bytes.try_into().ok()?) as usize
        }
        0xF1..=0xFD => return Some(Text::integer(i64::from(first & 15) - 1)),
        _ => {
            let count = match first {
                0xFE => 1,
                0xC0 => 2,
                0xF0 => 3,
                0xD0 => 4,
                0xE0 => 8,
                _ => return None,
            };
            return Some(Text::integer(signed(entry.split_off(..count)?)));
        }
    };
    entry.split_off(..length).map(Text::bytes)
}

fn read_pair(rest: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let mut rest = rest;
    let length = take_length(&mut rest, ZIPMAP_BIG)?;
    let field = rest.split_off(..length)?;
    let length = take_length(&mut rest, ZIPMAP_BIG)?;
    let room = usize::from(*rest.split_off_first()?);
    let value = rest.split_off(..length)?;
    rest.split_off(..room)?;
    Some((field, value, rest))
}

/// Decodes a length of one byte, or a marker and four bytes.
fn take_length(rest: &mut &[u8], big: u8) -> Option<usize> {
    let first = *rest.split_off_first()?;
    if first < big {
        return Some(usize::from(first));
    }
    let bytes = rest.split_off(..4).filter(|_| first == big)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
}

fn read_any_integers(bytes: &[u8]) -> Option<Vec<i64>> {
    let (width, rest) = bytes.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let width = u32::from_le_bytes(*width) as usize;
    let count = u32::from_le_bytes(*count) as usize;
    let sound =
        matches!(width, 2 | 4 | 8) && count > 0 && rest.len() == count.checked_mul(width)?;
    sound.then(|| rest.chunks(width).map(signed).collect())
}

/// Decodes an integer of up to 8 bytes.
fn signed(bytes: &[u8]) -> i64 {
    debug_assert!(bytes.len() <= size_of::<i64>());
    let mut word = [0; 8];
    word[8 - bytes.len()..].copy_from_slice(bytes);
    i64::from_le_bytes(word) >> (8 * (8 - bytes.len()))
}

const HEADER: usize = 10;
const END: u8 = 0xFF;
const PREVIOUS_BIG: u8 = 254;
const ZIPMAP_BIG: u8 = 254;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[Text<'_>]) -> Vec<String> {
        let text = |text: &Text<'_>| String::from_utf8_lossy(text.as_bytes()).into_owned();
        texts.iter().map(text).collect()
    }

    /// Builds a ziplist as in Redis 6: each entry has the length of the previous one.
    fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        let (mut last, mut before) = (HEADER, 0);
        for entry in entries {
            last = bytes.len();
            bytes.push(before);
            bytes.extend_from_slice(entry);
            before = entry.len() as u8 + 1;
        }
        bytes.push(END);
        let total = bytes.len() as u32;
        bytes[..4].copy_from_slice(&total.to_le_bytes());
        bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
        bytes[8..10].copy_from_slice(&(entries.len() as u16).to_le_bytes());
        bytes
    }

    #[test]
    fn a_ziplist_is_read_and_truncated_or_damaged_ones_are_refused() {
        let bytes = ziplist(&[
            b"\x03abc",
            b"\xF1",
            b"\xFD",
            b"\xFE\x80",
            b"\xC0\x00\x80",
            b"\xF0\xFF\xFF\xFF",
            b"\xD0\x00\x00\x00\x80",
            b"\xE0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F",
            b"\x40\x02hi",
            b"\x80\x00\x00\x00\x00",
        ]);
        let expected = [
            "abc",
            "0",
            "12",
            "-128",
            "-32768",
            "-1",
            "-2147483648",
            "9223372036854775807",
            "hi",
            "",
        ];
        assert_eq!(texts(&read(&bytes).expect("it is sound")), expected);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err());
        }
        let mut damaged = bytes.clone();
        for at in 0..bytes.len() {
            damaged[at] ^= 0xFF;
            let _ = read(&damaged);
            damaged[at] ^= 0xFF;
        }
    }

    #[test]
    fn a_zipmap_is_read() {
        let bytes = b"\x02\x03foo\x03\x01bar?\x05hello\x05\x00world\xFF";
        let read = read_zipmap(bytes).expect("it is sound");
        assert_eq!(texts(&read), ["foo", "bar", "hello", "world"]);
        for cut in 0..bytes.len() {
            assert!(read_zipmap(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn integers_ascend() {
        let bytes = [2, 0, 0, 0, 2, 0, 0, 0, 0xFF, 0xFF, 7, 0];
        assert_eq!(read_integers(&bytes), Ok(vec![-1, 7]));
        let mut same = bytes;
        same[8..10].copy_from_slice(&[7, 0]);
        assert!(read_integers(&same).is_err());
        assert!(read_integers(&bytes[..10]).is_err());
        assert!(read_integers(&[2, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
