//! Listpacks: elements with the same encoding as ours, between a header and an end byte.
//!
//! ```text
//!  ┌─────────────────┬───────────┬─────────┬─────────┬───┬──────┐
//!  │ total bytes u32 │ count u16 │ element │ element │ … │ 0xFF │    count 65535: too many to tell
//!  └─────────────────┴───────────┴─────────┴─────────┴───┴──────┘
//! ```

use super::{Result, SerialError};
use crate::elements::{self, Elements, Encoded};
use crate::text::Text;

/// Returns the elements of a listpack and their number. Everything has been checked, but an integer
/// may be encoded as text.
pub(super) fn read(listpack: &[u8]) -> Result<(Elements<'_>, usize)> {
    let run = check_frame(listpack).ok_or(SerialError::Format)?;
    let (mut at, mut count) = (0, 0usize);
    while at < run.len() {
        at = checked_end_of(run, at).ok_or(SerialError::Format)?;
        count += 1;
    }
    let count_stored = u16::from_le_bytes([listpack[4], listpack[5]]);
    if count_stored != COUNT_UNKNOWN && usize::from(count_stored) != count {
        return Err(SerialError::Format);
    }
    Ok((Elements::new(run), count))
}

/// Builds a listpack from a run of `count` elements.
pub(super) fn of_run(run: &[u8], count: usize) -> Vec<u8> {
    debug_assert_eq!(count == 0, run.is_empty());
    let mut listpack = begin(run.len());
    listpack.extend_from_slice(run);
    finish(listpack, count)
}

/// Builds a listpack from texts.
pub(super) fn of_texts<T: AsRef<[u8]>>(texts: impl Iterator<Item = T>) -> Vec<u8> {
    let mut listpack = ListpackWriter::new();
    texts.for_each(|text| listpack.push(text.as_ref()));
    listpack.finish()
}

/// A listpack under construction.
pub(super) struct ListpackWriter {
    bytes: Vec<u8>,
    count: usize,
}

impl ListpackWriter {
    pub(super) fn new() -> Self {
        ListpackWriter {
            bytes: begin(0),
            count: 0,
        }
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        for part in Encoded::new(text).parts() {
            self.bytes.extend_from_slice(part);
        }
        self.count += 1;
    }

    pub(super) fn push_integer(&mut self, value: i64) {
        self.push(Text::integer(value).as_bytes());
    }

    pub(super) fn finish(self) -> Vec<u8> {
        finish(self.bytes, self.count)
    }
}

fn begin(run_bytes: usize) -> Vec<u8> {
    let mut listpack = Vec::with_capacity(run_bytes + HEADER + 1);
    listpack.extend_from_slice(&[0; HEADER]);
    listpack
}

fn finish(mut listpack: Vec<u8>, count: usize) -> Vec<u8> {
    debug_assert!(listpack.len() >= HEADER);
    listpack.push(END);
    let total = u32::try_from(listpack.len()).expect("a value is shorter than 4 GiB");
    let count = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
    listpack[..4].copy_from_slice(&total.to_le_bytes());
    listpack[4..HEADER].copy_from_slice(&count.to_le_bytes());
    listpack
}

fn check_frame(listpack: &[u8]) -> Option<&[u8]> {
    let (total, _) = listpack.split_first_chunk()?;
    let end = listpack.len().checked_sub(1)?;
    let sound = u32::from_le_bytes(*total) as usize == listpack.len() && listpack[end] == END;
    listpack.get(HEADER..end).filter(|_| sound)
}

/// Returns the end of the element at `at`; `None` if there is none, or if it does not end within
/// the run.
fn checked_end_of(run: &[u8], at: usize) -> Option<usize> {
    let head = match run[at] {
        0..0xC0 => 1,
        0xC0..0xF0 => 2,
        0xF0 => 5,
        0xF1 => 3,
        0xF2 => 4,
        0xF3 => 5,
        0xF4 => 9,
        _ => return None,
    };
    if at + head > run.len() {
        return None;
    }
    let end = elements::end_of(run, at);
    // The trailing length must lead back to the start.
    let leads_back = end <= run.len() && checked_start_of(run, end, at) == Some(at);
    leads_back.then_some(end)
}

/// Returns the start of the element that ends at `end`, unless it would be before `from`.
fn checked_start_of(run: &[u8], end: usize, from: usize) -> Option<usize> {
    let (mut length, mut at) = (0, end);
    for byte in 0..LENGTH_BYTES_MAX {
        at = at.checked_sub(1).filter(|&at| at > from)?;
        length |= usize::from(run[at] & 127) << (7 * byte);
        if run[at] & 128 == 0 {
            return at.checked_sub(length);
        }
    }
    None
}

const HEADER: usize = 6;
const END: u8 = 0xFF;
const COUNT_UNKNOWN: u16 = u16::MAX;
const LENGTH_BYTES_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listpack_reads_back_and_truncated_or_damaged_ones_are_refused() {
        let long = "x".repeat(5000);
        let texts = ["", "1", "-70000", "9223372036854775807", "text", &long];
        let listpack = of_texts(texts.iter());
        assert_eq!(
            listpack.len(),
            usize::from(listpack[0]) | usize::from(listpack[1]) << 8
        );
        let (elements, count) = read(&listpack).expect("it is sound");
        assert_eq!(count, texts.len());
        assert!(
            elements
                .map(|text| text.as_bytes().to_vec())
                .eq(texts.map(Vec::from))
        );
        for cut in 0..listpack.len() {
            assert!(read(&listpack[..cut]).is_err());
        }
        let mut damaged = listpack.clone();
        for at in 0..60 {
            for bit in 0..8 {
                damaged[at] ^= 1 << bit;
                if let Ok((elements, count)) = read(&damaged) {
                    assert_eq!(elements.count(), count);
                }
                damaged[at] ^= 1 << bit;
            }
        }
    }

    #[test]
    fn an_element_longer_than_the_listpack_is_refused() {
        // A text of 4 GiB.
        let mut listpack = vec![0, 0, 0, 0, 1, 0, 0xF0, 0xFF, 0xFF, 0xFF, 0xFF, b'x', END];
        listpack[0] = listpack.len() as u8;
        assert!(read(&listpack).is_err());
    }
}
