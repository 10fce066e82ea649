//! Small hashes: field and value after field and value in one run of bytes.
//!
//! ```text
//!  ┌───────────┬──────────────┬───────┬──────────────┬───────┬───
//!  │ count u16 │ field length │ field │ value length │ value │ …      length: one byte below 255,
//!  └───────────┴──────────────┴───────┴──────────────┴───────┴───             else 255 and a u32
//! ```

use crate::entry::Entry;

/// The bytes of a hash without fields.
pub(crate) const EMPTY: &[u8] = &[0, 0];
/// Most fields that the count can tell.
pub(crate) const FIELDS_MAX: usize = u16::MAX as usize;

/// A packed hash to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    bytes: &'a [u8],
}

/// Where a pair lies in the packed bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: usize,
    value_start: usize,
    end: usize,
}

impl<'a> Packed<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Packed { bytes }
    }

    pub(crate) fn len(self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[0], self.bytes[1]]))
    }

    pub(crate) fn get(self, field: &[u8]) -> Option<&'a [u8]> {
        self.iter()
            .find(|(name, _)| *name == field)
            .map(|(_, value)| value)
    }

    pub(crate) fn iter(self) -> Pairs<'a> {
        Pairs {
            bytes: self.bytes,
            at: COUNT,
        }
    }

    pub(crate) fn find(self, field: &[u8]) -> Option<Span> {
        let mut pairs = self.iter();
        loop {
            let start = pairs.at;
            let (name, value) = pairs.next()?;
            if name == field {
                let value_start = pairs.at - value.len() - length_bytes(value.len());
                return Some(Span {
                    start,
                    value_start,
                    end: pairs.at,
                });
            }
        }
    }
}

/// Appends a pair to bytes that began as [`EMPTY`]; the caller checks that the field is new.
pub(crate) fn push(bytes: &mut Vec<u8>, field: &[u8], value: &[u8]) {
    for part in [field, value] {
        bytes.extend_from_slice(Length::new(part.len()).as_bytes());
        bytes.extend_from_slice(part);
    }
    let count = Packed::new(bytes).len() as u16 + 1;
    bytes[..COUNT].copy_from_slice(&count.to_le_bytes());
}

/// Appends a pair whose field is new to a packed entry.
pub(crate) fn append(entry: &mut Entry, field: &[u8], value: &[u8]) {
    let end = entry.bytes().len();
    let lengths = [Length::new(field.len()), Length::new(value.len())];
    entry.splice(
        end,
        0,
        &[lengths[0].as_bytes(), field, lengths[1].as_bytes(), value],
    );
    add_to_count(entry, 1);
}

/// Replaces the value of a pair.
pub(crate) fn replace(entry: &mut Entry, span: Span, value: &[u8]) {
    let length = Length::new(value.len());
    entry.splice(
        span.value_start,
        span.end - span.value_start,
        &[length.as_bytes(), value],
    );
}

/// Removes a pair.
pub(crate) fn remove(entry: &mut Entry, span: Span) {
    entry.splice(span.start, span.end - span.start, &[]);
    add_to_count(entry, -1);
}

fn add_to_count(entry: &mut Entry, change: i16) {
    let count = Packed::new(entry.bytes()).len() as u16;
    let count = count
        .checked_add_signed(change)
        .expect("the caller minds FIELDS_MAX");
    entry.bytes_mut()[..COUNT].copy_from_slice(&count.to_le_bytes());
}

/// Pairs of a packed hash, in the order in which they were first set.
#[derive(Clone, Debug)]
pub(crate) struct Pairs<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Pairs<'a> {
    fn part(&mut self) -> &'a [u8] {
        let first = usize::from(self.bytes[self.at]);
        self.at += 1;
        let mut length = first;
        if first == LONG {
            let bytes = self.bytes[self.at..self.at + 4]
                .try_into()
                .expect("four bytes");
            length = u32::from_le_bytes(bytes) as usize;
            self.at += 4;
        }
        self.at += length;
        &self.bytes[self.at - length..self.at]
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        (self.at < self.bytes.len()).then(|| (self.part(), self.part()))
    }
}

struct Length {
    bytes: [u8; 5],
    count: usize,
}

impl Length {
    fn new(length: usize) -> Self {
        let mut bytes = [LONG as u8; 5];
        if length < LONG {
            bytes[0] = length as u8;
        } else {
            bytes[1..].copy_from_slice(&(length as u32).to_le_bytes());
        }
        Length {
            bytes,
            count: length_bytes(length),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

fn length_bytes(length: usize) -> usize {
    if length < LONG { 1 } else { 5 }
}

const COUNT: usize = 2;
const LONG: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Kind, NewValue};

    #[test]
    fn pairs_keep_their_order_through_replacing_and_removing() {
        let mut entry = Entry::new(1, b"k", NewValue::Compact(Kind::PackedHash, EMPTY), false);
        let long = vec![b'v'; 300];
        append(&mut entry, b"a", b"1");
        append(&mut entry, b"b", &long);
        append(&mut entry, b"", b"");
        let span = Packed::new(entry.bytes()).find(b"b").unwrap();
        replace(&mut entry, span, b"short");
        let span = Packed::new(entry.bytes()).find(b"a").unwrap();
        replace(&mut entry, span, &long);
        let packed = Packed::new(entry.bytes());
        let pairs: Vec<_> = packed.iter().collect();
        assert_eq!(
            pairs,
            [(&b"a"[..], &long[..]), (b"b", b"short"), (b"", b"")]
        );
        assert_eq!((packed.len(), packed.get(b"")), (3, Some(&b""[..])));
        let span = packed.find(b"a").unwrap();
        remove(&mut entry, span);
        assert_eq!(Packed::new(entry.bytes()).iter().count(), 2);
        assert_eq!(Packed::new(entry.bytes()).len(), 2);
    }
}
