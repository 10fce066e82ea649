//! Elements in one run of bytes, encoded as in Redis's listpacks. A run is as long as a listpack's,
//! so a small collection becomes a large one exactly when Redis's would.
//!
//! ```text
//!  element                                        a small set or list
//!  ┌──────────┬──────┬───────────────────┐        ┌───────────┬─────────┬─────────┬───
//!  │ encoding │ text │ length of both,   │        │ count u16 │ element │ element │ …
//!  │          │      │ read from the end │        └───────────┴─────────┴─────────┴───
//!  └──────────┴──────┴───────────────────┘
//!
//!  0vvvvvvv                  integer 0 to 127      1111 0001, 0010, 0011, 0100   integer of 2, 3,
//!  110vvvvv v                integer of 13 bits                                  4, 8 bytes
//!  10llllll                  text below 64 bytes   1111 0000 l l l l             text
//!  1110llll l                text below 4 KiB
//! ```
//!
//! Text that is an integer is always stored as an integer, so equal elements have equal bytes.

use std::ops::Range;

use tidewire_resp::number::parse_integer;

use crate::encoding::CompactBytes;
use crate::text::Text;

/// The bytes of an empty small collection.
pub(crate) const EMPTY: &[u8] = &[0, 0];
/// The greatest count that a small collection can store.
pub(crate) const COUNT_MAX: usize = u16::MAX as usize;

/// A read-only view of a small set or list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedElements<'a> {
    bytes: &'a [u8],
}

impl<'a> PackedElements<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        debug_assert!(bytes.len() >= COUNT, "it begins with its count");
        PackedElements { bytes }
    }

    pub(crate) fn len(self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[0], self.bytes[1]]))
    }

    pub(crate) fn iter(self) -> Elements<'a> {
        Elements::new(self.run())
    }

    /// Returns the elements without the count.
    pub(crate) fn run(self) -> &'a [u8] {
        &self.bytes[COUNT..]
    }

    /// Returns the span in the run of the element equal to this one.
    pub(crate) fn find(self, text: &[u8]) -> Option<Range<usize>> {
        find(self.run(), &Encoded::new(text))
    }
}

/// Replaces a part of the run, which contains `count` elements, by one element or nothing.
pub(crate) fn splice(
    entry: &mut impl CompactBytes,
    part: Range<usize>,
    count: usize,
    added: Option<&Encoded<'_>>,
) {
    let at = COUNT + part.start;
    debug_assert!(COUNT + part.end <= entry.bytes().len());
    debug_assert!(count <= PackedElements::new(entry.bytes()).len());
    match added {
        None => entry.splice(at, part.len(), &[]),
        Some(added) => entry.splice(at, part.len(), &added.parts()),
    }
    let count = PackedElements::new(entry.bytes()).len() + usize::from(added.is_some()) - count;
    let count = u16::try_from(count).expect("the caller checks COUNT_MAX");
    entry.bytes_mut()[..COUNT].copy_from_slice(&count.to_le_bytes());
    debug_assert_eq!(count == 0, entry.bytes().len() == COUNT);
}

/// Appends an element to a small collection.
pub(crate) fn append(entry: &mut impl CompactBytes, text: &[u8]) {
    let end = entry.bytes().len() - COUNT;
    splice(entry, end..end, 0, Some(&Encoded::new(text)));
}

/// Returns the span of the first element equal to this one.
pub(crate) fn find(run: &[u8], wanted: &Encoded<'_>) -> Option<Range<usize>> {
    let mut at = 0;
    while at < run.len() {
        let end = end_of(run, at);
        if wanted.is_at(run, at..end) {
            return Some(at..end);
        }
        at = end;
    }
    None
}

/// Returns the end of the element that begins at `at`.
pub(crate) fn end_of(run: &[u8], at: usize) -> usize {
    let length = front_length(run, at);
    at + length + back_length(length)
}

/// Returns the length of the element that begins at `at`, without the trailing length.
#[inline]
pub(crate) fn front_length(run: &[u8], at: usize) -> usize {
    match ElementHead::read(run, at) {
        ElementHead::Integer(_, length) => length,
        ElementHead::Text(head, text) => head + text,
    }
}

/// Returns the start of the element that ends at `end`.
pub(crate) fn start_of(run: &[u8], end: usize) -> usize {
    let (mut length, mut shift, mut at) = (0, 0, end);
    loop {
        at -= 1;
        length |= usize::from(run[at] & 127) << shift;
        shift += 7;
        if run[at] & 128 == 0 {
            debug_assert!(
                length < end,
                "the trailing length equals the element's length"
            );
            return at - length;
        }
    }
}

/// Returns the span of the element at a position, in a run of `count` elements that contains it.
pub(crate) fn nth_span(run: &[u8], count: usize, position: usize) -> Range<usize> {
    debug_assert!(position < count);
    if position <= count / 2 {
        let start = (0..position).fold(0, |at, _| end_of(run, at));
        return start..end_of(run, start);
    }
    let end = (position + 1..count).fold(run.len(), |end, _| start_of(run, end));
    start_of(run, end)..end
}

/// Reads the element that begins at `at`; returns it and its end.
#[inline]
pub(crate) fn take(run: &[u8], at: usize) -> (Text<'_>, usize) {
    // Fast path for short text: one byte of length before it, one after it.
    if let Some(first @ 0x80..0xC0) = run.get(at) {
        let start = at + 1;
        let end = start + usize::from(first & 0x3F);
        if let Some(text) = run.get(start..end) {
            return (Text::bytes(text), end + 1);
        }
    }
    (read(run, at), end_of(run, at))
}

/// Reads the element that begins at `at`.
pub(crate) fn read(run: &[u8], at: usize) -> Text<'_> {
    match ElementHead::read(run, at) {
        ElementHead::Integer(value, _) => Text::integer(value),
        ElementHead::Text(head, length) => Text::bytes(&run[at + head..at + head + length]),
    }
}

/// An element in encoded form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoded<'a> {
    head: [u8; 9],
    head_length: u8,
    text: &'a [u8],
    back: [u8; 5],
    back_length: u8,
}

impl<'a> Encoded<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        let integer = match text {
            [b'-' | b'0'..=b'9', ..] => parse_integer(text),
            _ => None,
        };
        match integer {
            Some(value) => Encoded::integer(value),
            None => Encoded::opaque(text),
        }
    }

    /// Encodes an integer.
    fn integer(value: i64) -> Self {
        let mut head = [0; 9];
        let head_length = write_integer(&mut head, value);
        Encoded::of_parts(head, head_length, &[])
    }

    /// Encodes text that is not an integer.
    #[inline]
    fn opaque(bytes: &'a [u8]) -> Self {
        let mut head = [0; 9];
        if bytes.len() < 64 {
            // Fast path for short text: one byte before it, one after it.
            let length = bytes.len() as u8;
            head[0] = 0x80 | length;
            return Encoded {
                head,
                head_length: 1,
                text: bytes,
                back: [length + 1, 0, 0, 0, 0],
                back_length: 1,
            };
        }
        let head_length = write_length(&mut head, bytes.len());
        Encoded::of_parts(head, head_length, bytes)
    }

    #[inline]
    fn of_parts(head: [u8; 9], head_length: usize, text: &'a [u8]) -> Self {
        let length = head_length + text.len();
        let mut back = [0; 5];
        let back_length = back_length(length);
        debug_assert!(
            length >> (7 * back_length) == 0,
            "a trailing length has seven bits per byte"
        );
        for (place, byte) in back[..back_length].iter_mut().rev().enumerate() {
            *byte = (length >> (7 * place)) as u8 & 127 | 128;
        }
        back[0] &= 127;
        Encoded {
            head,
            head_length: head_length as u8,
            text,
            back,
            back_length: back_length as u8,
        }
    }

    /// Returns the encoded length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.head_length) + self.text.len() + usize::from(self.back_length)
    }

    /// Writes the element to `out`, which has exactly its length.
    #[inline]
    pub(crate) fn write(&self, out: &mut [u8]) {
        debug_assert_eq!(out.len(), self.len());
        if let ([head], [back]) = (self.head(), self.back())
            && let [first, text @ .., last] = out
        {
            *first = *head;
            text.copy_from_slice(self.text);
            *last = *back;
            return;
        }
        let mut at = 0;
        for part in self.parts() {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }

    #[inline]
    fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_length)]
    }

    #[inline]
    fn back(&self) -> &[u8] {
        &self.back[..usize::from(self.back_length)]
    }

    /// Returns the parts of the encoding in order.
    pub(crate) fn parts(&self) -> [&[u8]; 3] {
        [self.head(), self.text, self.back()]
    }

    /// Returns the parts without the trailing length.
    #[inline]
    pub(crate) fn front(&self) -> [&[u8]; 2] {
        [self.head(), self.text]
    }

    /// Returns whether the element at this span of a run is equal.
    pub(crate) fn is_at(&self, run: &[u8], span: Range<usize>) -> bool {
        span.len() == self.len() && self.begins(&run[span])
    }

    /// Returns whether these bytes begin with the element, ignoring its trailing length.
    #[inline]
    pub(crate) fn begins(&self, bytes: &[u8]) -> bool {
        let [head, text] = self.front();
        bytes.starts_with(head) && bytes[head.len()..].starts_with(text)
    }
}

/// Iterator over the elements of a run, from either end.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a> {
    run: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> Elements<'a> {
    pub(crate) fn new(run: &'a [u8]) -> Self {
        Elements {
            run,
            start: 0,
            end: run.len(),
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Text<'a>;

    #[inline]
    fn next(&mut self) -> Option<Text<'a>> {
        if self.start >= self.end {
            return None;
        }
        let (text, end) = take(self.run, self.start);
        self.start = end;
        Some(text)
    }
}

impl DoubleEndedIterator for Elements<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        (self.start < self.end).then(|| {
            self.end = start_of(self.run, self.end);
            read(self.run, self.end)
        })
    }
}

/// The meaning of an element's first bytes.
enum ElementHead {
    /// The integer and the length of its encoding.
    Integer(i64, usize),
    /// The lengths of the encoding and of the text after it.
    Text(usize, usize),
}

impl ElementHead {
    #[inline]
    fn read(run: &[u8], at: usize) -> ElementHead {
        let first = run[at];
        let next = |count: usize| {
            let mut bytes = [0; 8];
            bytes[..count].copy_from_slice(&run[at + 1..at + 1 + count]);
            let shift = 64 - 8 * count as u32;
            (u64::from_le_bytes(bytes), shift)
        };
        let signed = |count: usize| {
            let (value, shift) = next(count);
            ElementHead::Integer(((value << shift) as i64) >> shift, 1 + count)
        };
        match first {
            0..0x80 => ElementHead::Integer(i64::from(first), 1),
            0x80..0xC0 => ElementHead::Text(1, usize::from(first & 0x3F)),
            0xC0..0xE0 => {
                let value = u16::from(first & 0x1F) << 8 | u16::from(run[at + 1]);
                ElementHead::Integer(i64::from((value << 3) as i16 >> 3), 2)
            }
            0xE0..0xF0 => {
                ElementHead::Text(2, usize::from(first & 0x0F) << 8 | usize::from(run[at + 1]))
            }
            0xF0 => ElementHead::Text(5, next(4).0 as usize),
            0xF1 => signed(2),
            0xF2 => signed(3),
            0xF3 => signed(4),
            _ => signed(8),
        }
    }
}

fn write_integer(head: &mut [u8; 9], value: i64) -> usize {
    let (first, count) = match value {
        0..=127 => {
            head[0] = value as u8;
            return 1;
        }
        -4096..=4095 => {
            head[0] = 0xC0 | (value >> 8) as u8 & 0x1F;
            head[1] = value as u8;
            return 2;
        }
        -0x8000..=0x7FFF => (0xF1, 2),
        -0x80_0000..=0x7F_FFFF => (0xF2, 3),
        -0x8000_0000..=0x7FFF_FFFF => (0xF3, 4),
        _ => (0xF4, 8),
    };
    head[0] = first;
    head[1..=count].copy_from_slice(&value.to_le_bytes()[..count]);
    count + 1
}

fn write_length(head: &mut [u8; 9], length: usize) -> usize {
    match length {
        0..64 => {
            head[0] = 0x80 | length as u8;
            1
        }
        64..4096 => {
            head[0] = 0xE0 | (length >> 8) as u8;
            head[1] = length as u8;
            2
        }
        _ => {
            debug_assert!(u32::try_from(length).is_ok());
            head[0] = 0xF0;
            head[1..5].copy_from_slice(&(length as u32).to_le_bytes());
            5
        }
    }
}

/// Returns the number of bytes of the trailing length: seven bits per byte. The limits are Redis's,
/// which leave out the last number that would fit.
fn back_length(length: usize) -> usize {
    match length {
        0..0x80 => 1,
        0x80..0x3FFF => 2,
        0x3FFF..0x1F_FFFF => 3,
        0x1F_FFFF..0xFFF_FFFF => 4,
        _ => 5,
    }
}

const COUNT: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Kind;
    use crate::entry::{Entry, NewValue};

    fn encoded(text: &[u8]) -> Vec<u8> {
        Encoded::new(text).parts().concat()
    }

    #[test]
    fn elements_are_encoded_as_in_a_listpack() {
        assert_eq!(encoded(b"7"), [7, 1]);
        assert_eq!(encoded(b"127"), [127, 1]);
        assert_eq!(encoded(b"-1"), [0xDF, 0xFF, 2]);
        assert_eq!(encoded(b"4095"), [0xCF, 0xFF, 2]);
        assert_eq!(encoded(b"4096"), [0xF1, 0x00, 0x10, 3]);
        assert_eq!(encoded(b"-32769"), [0xF2, 0xFF, 0x7F, 0xFF, 4]);
        assert_eq!(encoded(b"2147483647"), [0xF3, 255, 255, 255, 127, 5]);
        assert_eq!(encoded(b"2147483648"), [0xF4, 0, 0, 0, 128, 0, 0, 0, 0, 9]);
        assert_eq!(encoded(b""), [0x80, 1]);
        assert_eq!(encoded(b"007"), [0x83, b'0', b'0', b'7', 4]);
        let long = encoded(&[b'x'; 300]);
        assert_eq!(
            (&long[..2], &long[302..]),
            (&[0xE1, 0x2C][..], &[0x02, 0xAE][..])
        );
        assert_eq!(encoded(&[b'x'; 5000])[..5], [0xF0, 0x88, 0x13, 0, 0]);
    }

    #[test]
    fn runs_are_read_from_both_ends() {
        let mut texts: Vec<Vec<u8>> = [
            0,
            1,
            127,
            128,
            -1,
            4095,
            4096,
            -4096,
            -4097,
            32767,
            32768,
            -32768,
            -32769,
            8_388_607,
            8_388_608,
            -8_388_609,
            2_147_483_648,
            -2_147_483_649,
            i64::MAX,
            i64::MIN,
        ]
        .iter()
        .map(|value: &i64| value.to_string().into_bytes())
        .collect();
        for length in [
            0, 1, 62, 63, 64, 125, 126, 127, 4095, 4096, 16_377, 16_378, 16_379, 16_384, 2_097_146,
            2_097_152,
        ] {
            texts.push(vec![b'x'; length]);
        }
        let run: Vec<u8> = texts.iter().flat_map(|text| encoded(text)).collect();
        let read: Vec<_> = Elements::new(&run).map(|t| t.as_bytes().to_vec()).collect();
        assert!(read == texts);
        let mut back: Vec<_> = Elements::new(&run)
            .rev()
            .map(|t| t.as_bytes().to_vec())
            .collect();
        back.reverse();
        assert!(back == texts);
        for text in &texts {
            let span = find(&run, &Encoded::new(text)).unwrap();
            assert!(super::read(&run, span.start).as_bytes() == text);
        }
        assert_eq!(find(&run, &Encoded::new(b"missing")), None);
    }

    #[test]
    fn a_small_collection_stores_its_element_count() {
        let mut entry = Entry::new(1, b"k", NewValue::Compact(Kind::PackedSet, EMPTY), false);
        for text in [&b"one"[..], b"2", b"three"] {
            append(&mut entry, text);
        }
        let span = PackedElements::new(entry.bytes()).find(b"2").unwrap();
        splice(&mut entry, span, 1, Some(&Encoded::new(b"two")));
        let packed = PackedElements::new(entry.bytes());
        let texts: Vec<_> = packed.iter().map(|t| t.as_bytes().to_vec()).collect();
        assert_eq!((packed.len(), texts.concat()), (3, b"onetwothree".to_vec()));
    }
}
