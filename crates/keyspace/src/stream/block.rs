//! Blocks: some consecutive entries in one run of bytes.
//!
//! ```text
//!  block  ┌───────┬──────┬───┬───────┬───────┬───    name   ┌────────┬──────┐
//!         │ count │ name │ … │ entry │ entry │ …            │ length │ text │
//!         └───────┴──────┴───┴───────┴───────┴───           └────────┴──────┘
//!  entry  ┌──────────────────────────┬─────────┬───────┬───┐
//!         │ length of the rest << 4  │ id      │ value │ … │          names as the block's
//!         │ | form of the id | flags │ 0–20 B  ├───────┼───┴──┬───────┬───┐
//!         └──────────────────────────┴─────────┤ count │ name │ value │ … │  its own
//!                                              └───────┴──────┴───────┴───┘
//!
//!  form of an id     0  one after the previous entry         2  time − time before
//!                    1  sequence − sequence before           3  both: time − time before, sequence
//!  value  0vvvvvvv   integer 0 to 127                        1111 0001 … 0101    integer of 2, 3,
//!         110vvvvv v integer of 13 bits                                          4, 6, 8 bytes
//!         10llllll   text below 64 bytes                     1111 0000 l l l l   text
//!         1110llll l text below 4 KiB
//! ```
//!
//! Lengths, counts and differences are numbers in base 128, least significant digit first. The
//! block's names are those of its first entry. An id is stored as the difference from the previous
//! one, usually in one byte or none. An entry's length comes first, so finding one among a hundred
//! means reading a hundred lengths. There is no length at its end: a backwards iterator first
//! collects the starts of the entries. A deleted entry is marked, and its bytes are dropped when
//! most of the block's entries are deleted.

use tidewire_resp::number::parse_integer;

use super::id::StreamId;
use super::pages::Identified;
use crate::text::Text;

/// Limits of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLimits {
    pub(crate) bytes_max: usize,
    pub(crate) entries_max: usize,
}

impl BlockLimits {
    /// Creates the limits from the settings; 0 means none.
    pub(crate) fn new(bytes_max: usize, entries_max: usize) -> Self {
        let is_limit = |limit: &usize| *limit > 0;
        BlockLimits {
            bytes_max: Some(bytes_max)
                .filter(is_limit)
                .map_or(BYTES_MAX, |bytes_max| bytes_max.min(BYTES_MAX)),
            entries_max: Some(entries_max).filter(is_limit).unwrap_or(usize::MAX),
        }
    }
}

/// Some consecutive entries.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The id under which the block is found; the first entry's as long as that exists.
    first: StreamId,
    /// The id of the last entry, deleted or not.
    last: StreamId,
    bytes: Vec<u8>,
    live: u32,
    deleted: u32,
}

impl Identified for Block {
    fn id(&self) -> StreamId {
        self.first
    }
}

impl Block {
    /// Creates a block of one entry.
    pub(crate) fn new<'a>(
        id: StreamId,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) -> Self {
        let mut bytes = Vec::new();
        write_number(&mut bytes, fields.clone().count() as u64);
        for (name, _) in fields.clone() {
            write_name(&mut bytes, name);
        }
        let mut block = Block {
            first: id,
            last: id,
            bytes,
            live: 0,
            deleted: 0,
        };
        block.append(id, fields);
        block
    }

    pub(crate) fn last(&self) -> StreamId {
        self.last
    }

    /// Returns the number of entries that are not deleted.
    pub(crate) fn live(&self) -> usize {
        self.live as usize
    }

    /// Returns the memory in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Block>() + self.bytes.capacity()
    }

    /// Returns whether an entry with fields and values of `text_bytes` bytes may be added.
    pub(crate) fn fits(&self, text_bytes: usize, limits: BlockLimits) -> bool {
        let count = self.live() + self.deleted as usize;
        count < limits.entries_max && self.bytes.len().saturating_add(text_bytes) < limits.bytes_max
    }

    /// Adds an entry, whose id must be greater than all others.
    pub(crate) fn append<'a>(
        &mut self,
        id: StreamId,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) {
        debug_assert!(id > self.last || self.live == 0, "ids ascend");
        let start = self.bytes.len();
        // Most heads have two bytes; a longer one moves the bytes after it.
        self.bytes.extend_from_slice(&[0; HEAD_LENGTH_USUAL]);
        let mut head = write_difference(&mut self.bytes, self.last, id);
        if self.has_names_of(fields.clone()) {
            head |= SAME_NAMES;
            for (_, value) in fields {
                write_value(&mut self.bytes, value);
            }
        } else {
            write_number(&mut self.bytes, fields.clone().count() as u64);
            for (name, value) in fields {
                write_name(&mut self.bytes, name);
                write_value(&mut self.bytes, value);
            }
        }
        let body = start + HEAD_LENGTH_USUAL;
        head |= ((self.bytes.len() - body) as u64) << HEAD_FLAG_BITS;
        let digits = Digits::of(head);
        if digits.as_bytes().len() == HEAD_LENGTH_USUAL {
            self.bytes[start..body].copy_from_slice(digits.as_bytes());
        } else {
            self.bytes
                .splice(start..body, digits.as_bytes().iter().copied());
        }
        self.last = id;
        self.live += 1;
    }

    /// Frees the room for further entries, because none will be added. Copies the bytes: allocators
    /// shrink in place and keep the rest if it is less than half.
    pub(crate) fn close(&mut self) {
        self.bytes = self.bytes.as_slice().to_vec();
    }

    /// Marks an entry as deleted; returns false if it does not exist.
    pub(crate) fn delete(&mut self, id: StreamId) -> bool {
        let found = self.iter().find(|entry| entry.id >= id);
        match found.filter(|entry| entry.id == id) {
            Some(entry) => {
                let at = entry.at;
                self.delete_at(at);
                true
            }
            None => false,
        }
    }

    /// Marks the entries that `wanted` accepts as deleted, until `wanted` ends the search. Returns
    /// how many.
    pub(crate) fn delete_while(
        &mut self,
        mut wanted: impl FnMut(StreamId) -> Option<bool>,
    ) -> usize {
        let mut found = Vec::new();
        for entry in self.iter() {
            match wanted(entry.id) {
                Some(true) => found.push(entry.at),
                Some(false) => {}
                None => break,
            }
        }
        for &at in &found {
            self.delete_at(at);
        }
        found.len()
    }

    /// Drops the bytes of deleted entries if they are the majority.
    pub(crate) fn tidy(&mut self) {
        if self.deleted <= TIDY_DELETED_MIN || self.deleted < self.live {
            return;
        }
        let mut tidy = Block {
            bytes: self.bytes[..self.iter().at].to_vec(),
            last: self.first,
            first: self.first,
            live: 0,
            deleted: 0,
        };
        for entry in self.iter() {
            let texts: Vec<_> = entry.fields().collect();
            let fields = texts.iter().map(|(name, value)| (*name, value.as_bytes()));
            tidy.append(entry.id, fields);
        }
        debug_assert_eq!(tidy.live, self.live);
        debug_assert!(tidy.last <= self.last);
        // The next id is still encoded relative to the last entry, even a deleted one.
        *self = tidy;
    }

    /// Iterates over the entries that are not deleted.
    pub(crate) fn iter(&self) -> BlockIter<'_> {
        let mut at = 0;
        let count = read_number(&self.bytes, &mut at);
        let names = at;
        for _ in 0..count {
            read_name(&self.bytes, &mut at);
        }
        BlockIter {
            bytes: &self.bytes,
            names: Names {
                bytes: &self.bytes[names..at],
                count: count as usize,
            },
            at,
            id: self.first,
        }
    }

    fn delete_at(&mut self, at: usize) {
        debug_assert!(self.live > 0);
        debug_assert_eq!(
            self.bytes[at] & DELETED as u8,
            0,
            "an entry is deleted once"
        );
        self.bytes[at] |= DELETED as u8;
        self.live -= 1;
        self.deleted += 1;
    }

    fn has_names_of<'a>(&self, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> bool {
        let mut at = 0;
        let mut left = read_number(&self.bytes, &mut at);
        for (name, _) in fields {
            if left == 0 || read_name(&self.bytes, &mut at) != name {
                return false;
            }
            left -= 1;
        }
        left == 0
    }
}

/// Iterator over a block's entries that are not deleted.
#[derive(Clone, Debug)]
pub(crate) struct BlockIter<'a> {
    bytes: &'a [u8],
    names: Names<'a>,
    at: usize,
    /// Id of the previous entry.
    id: StreamId,
}

impl<'a> BlockIter<'a> {
    /// Returns an entry that this iterator has returned before, by its position and id.
    pub(crate) fn entry(&self, at: usize, id: StreamId) -> PackedEntry<'a> {
        let mut before = BlockIter { at, ..self.clone() };
        let mut entry = before.read();
        entry.id = id;
        entry
    }

    /// Decodes the current entry. Its id is valid if this iterator's id is the previous entry's.
    #[inline]
    fn read(&mut self) -> PackedEntry<'a> {
        let start = self.at;
        let mut at = start;
        let head = read_number(self.bytes, &mut at);
        let end = at + (head >> HEAD_FLAG_BITS) as usize;
        let id = read_difference(self.bytes, &mut at, self.id, head);
        self.id = id;
        self.at = end;
        PackedEntry {
            id,
            at: start,
            deleted: head & DELETED != 0,
            names: (head & SAME_NAMES != 0).then_some(self.names),
            body: &self.bytes[at..end],
        }
    }
}

impl<'a> Iterator for BlockIter<'a> {
    type Item = PackedEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<PackedEntry<'a>> {
        while self.at < self.bytes.len() {
            let entry = self.read();
            if !entry.deleted {
                return Some(entry);
            }
        }
        None
    }
}

/// A read-only view of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedEntry<'a> {
    pub(crate) id: StreamId,
    /// Its position in the block.
    pub(crate) at: usize,
    deleted: bool,
    /// The block's names, if the entry has the same.
    names: Option<Names<'a>>,
    body: &'a [u8],
}

impl<'a> PackedEntry<'a> {
    /// Iterates over its fields and values in order.
    pub(crate) fn fields(&self) -> EntryFields<'a> {
        let mut at = 0;
        let (names, left) = match self.names {
            Some(names) => (Some(names.bytes), names.count),
            None => (None, read_number(self.body, &mut at) as usize),
        };
        EntryFields {
            names,
            body: &self.body[at..],
            left,
        }
    }
}

/// Iterator over the fields and values of an entry.
#[derive(Clone, Debug)]
pub(crate) struct EntryFields<'a> {
    names: Option<&'a [u8]>,
    body: &'a [u8],
    left: usize,
}

impl<'a> Iterator for EntryFields<'a> {
    type Item = (&'a [u8], Text<'a>);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], Text<'a>)> {
        self.left = self.left.checked_sub(1)?;
        let name = split_name(self.names.as_mut().unwrap_or(&mut self.body));
        Some((name, split_value(&mut self.body)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for EntryFields<'_> {}

/// The names of a block's first entry.
#[derive(Clone, Copy, Debug)]
struct Names<'a> {
    bytes: &'a [u8],
    count: usize,
}

/// A number in base 128.
struct Digits {
    bytes: [u8; 10],
    length: usize,
}

impl Digits {
    fn of(mut number: u64) -> Self {
        let mut digits = Digits {
            bytes: [0; 10],
            length: 0,
        };
        loop {
            let digit = number as u8 & 0x7F;
            number >>= 7;
            digits.bytes[digits.length] = digit | if number > 0 { 0x80 } else { 0 };
            digits.length += 1;
            if number == 0 {
                return digits;
            }
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn write_number(bytes: &mut Vec<u8>, number: u64) {
    match number {
        0..0x80 => bytes.push(number as u8),
        _ => bytes.extend_from_slice(Digits::of(number).as_bytes()),
    }
}

#[inline]
fn read_number(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        debug_assert!(shift < u64::BITS, "a number has ten digits at most");
        let digit = bytes[*at];
        *at += 1;
        number |= u64::from(digit & 0x7F) << shift;
        if digit < 0x80 {
            return number;
        }
        shift += 7;
    }
}

fn write_name(bytes: &mut Vec<u8>, name: &[u8]) {
    write_number(bytes, name.len() as u64);
    bytes.extend_from_slice(name);
}

#[inline]
fn read_name<'a>(bytes: &'a [u8], at: &mut usize) -> &'a [u8] {
    let length = read_number(bytes, at) as usize;
    let name = &bytes[*at..*at + length];
    *at += length;
    name
}

#[inline]
fn split_name<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let mut at = 0;
    let name = read_name(bytes, &mut at);
    *bytes = &bytes[at..];
    name
}

/// Writes the difference of an id from the previous one; returns its form.
#[inline]
fn write_difference(bytes: &mut Vec<u8>, before: StreamId, id: StreamId) -> u64 {
    debug_assert!(id >= before);
    let passed_ms = id.time_ms - before.time_ms;
    if passed_ms == 0 {
        return match id.sequence - before.sequence {
            1 => FORM_NEXT,
            more => {
                write_number(bytes, more);
                FORM_SEQUENCE
            }
        };
    }
    write_number(bytes, passed_ms);
    if id.sequence == 0 {
        return FORM_TIME;
    }
    write_number(bytes, id.sequence);
    FORM_BOTH
}

#[inline]
fn read_difference(bytes: &[u8], at: &mut usize, before: StreamId, head: u64) -> StreamId {
    let StreamId { time_ms, sequence } = before;
    // The sums cannot overflow: they were ids when the differences were computed.
    match head & FORM_BITS {
        FORM_NEXT => StreamId::new(time_ms, sequence.wrapping_add(1)),
        FORM_SEQUENCE => StreamId::new(time_ms, sequence.wrapping_add(read_number(bytes, at))),
        FORM_TIME => StreamId::new(time_ms.wrapping_add(read_number(bytes, at)), 0),
        _ => {
            let time_ms = time_ms.wrapping_add(read_number(bytes, at));
            StreamId::new(time_ms, read_number(bytes, at))
        }
    }
}

#[inline]
fn write_value(bytes: &mut Vec<u8>, text: &[u8]) {
    if let [b'-' | b'0'..=b'9', ..] = text
        && let Some(value) = parse_integer(text)
    {
        return write_integer(bytes, value);
    }
    match text.len() {
        length @ 0..0x40 => bytes.push(0x80 | length as u8),
        length @ 0x40..0x1000 => {
            bytes.extend_from_slice(&[0xE0 | (length >> 8) as u8, length as u8]);
        }
        length => {
            bytes.push(0xF0);
            bytes.extend_from_slice(&(length as u32).to_le_bytes());
        }
    }
    bytes.extend_from_slice(text);
}

fn write_integer(bytes: &mut Vec<u8>, value: i64) {
    let (first, count) = match value {
        0..=127 => return bytes.push(value as u8),
        -4096..=4095 => {
            return bytes.extend_from_slice(&[0xC0 | (value >> 8) as u8 & 0x1F, value as u8]);
        }
        -0x8000..=0x7FFF => (0xF1, 2),
        -0x80_0000..=0x7F_FFFF => (0xF2, 3),
        -0x8000_0000..=0x7FFF_FFFF => (0xF3, 4),
        -0x8000_0000_0000..=0x7FFF_FFFF_FFFF => (0xF4, 6),
        _ => (0xF5, 8),
    };
    bytes.push(first);
    bytes.extend_from_slice(&value.to_le_bytes()[..count]);
}

#[inline]
fn split_value<'a>(bytes: &mut &'a [u8]) -> Text<'a> {
    let first = bytes[0];
    let (head, length) = match first {
        0..0x80 => {
            *bytes = &bytes[1..];
            return Text::integer(i64::from(first));
        }
        0x80..0xC0 => (1, usize::from(first & 0x3F)),
        0xC0..0xE0 => {
            let value = u16::from(first & 0x1F) << 8 | u16::from(bytes[1]);
            *bytes = &bytes[2..];
            return Text::integer(i64::from((value << 3) as i16 >> 3));
        }
        0xE0..0xF0 => (2, usize::from(first & 0x0F) << 8 | usize::from(bytes[1])),
        0xF0 => {
            let length = [bytes[1], bytes[2], bytes[3], bytes[4]];
            (5, u32::from_le_bytes(length) as usize)
        }
        0xF1 => return split_integer(bytes, 2),
        0xF2 => return split_integer(bytes, 3),
        0xF3 => return split_integer(bytes, 4),
        0xF4 => return split_integer(bytes, 6),
        _ => return split_integer(bytes, 8),
    };
    let text = &bytes[head..head + length];
    *bytes = &bytes[head + length..];
    Text::bytes(text)
}

#[inline]
fn split_integer(bytes: &mut &[u8], count: usize) -> Text<'static> {
    let mut value = [0; 8];
    value[..count].copy_from_slice(&bytes[1..=count]);
    *bytes = &bytes[1 + count..];
    let shift = 64 - 8 * count as u32;
    Text::integer((i64::from_le_bytes(value) << shift) >> shift)
}

/// Maximum size of a block under any setting: it moves when it grows, and offsets have 32 bits.
const BYTES_MAX: usize = 1 << 30;
/// Number of bits in an entry's head below its length.
const HEAD_FLAG_BITS: u32 = 4;
const DELETED: u64 = 1;
const SAME_NAMES: u64 = 2;
const FORM_BITS: u64 = 0b1100;
const FORM_NEXT: u64 = 0;
const FORM_SEQUENCE: u64 = 0b0100;
const FORM_TIME: u64 = 0b1000;
const FORM_BOTH: u64 = 0b1100;
/// Bytes of the head of an entry with a remaining length of 8 to 1,023.
const HEAD_LENGTH_USUAL: usize = 2;
/// Minimum number of deleted entries that is worth copying the others.
const TIDY_DELETED_MIN: u32 = 10;

const _: () = assert!(
    (DELETED | SAME_NAMES) & FORM_BITS == 0 && FORM_BOTH < 1 << HEAD_FLAG_BITS,
    "the flags of a head share no bit with each other or with the length"
);
