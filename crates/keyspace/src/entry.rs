//! One key and its value in one allocation.
//!
//! ```text
//!  0                          8
//!  ┌──────────────────────────┬────────────┬───────────────┬─────┬────────────┬───────┐
//!  │ key length, kind, flags, │ long key   │ deadline i64, │ key │ long value │ value │
//!  │ value length, access     │ length u32 │ timer u32     │     │ length u32 │       │
//!  └──────────────────────────┴────────────┴───────────────┴─────┴────────────┴───────┘
//!   8 + 4 + 7 + 21 + 24 bits   LONG_KEY     EXPIRES, ms           LONG_VALUE
//! ```
//!
//! The value is the bytes of a string, the 8 bytes of an integer, the packed fields of a small
//! hash, or the pointer of a boxed [`Object`]. Everything after the header is unaligned. The module
//! `access` defines the meaning of the *access* bits.
//!
//! The upper 16 bits of the pointer store hash bits, so that the table moves and compares entries
//! without touching their memory. User addresses have 47 bits on every 64-bit system we support
//! (more only if a program asks for it); `Block::tagged` checks.

// Reading and writing a layout takes several adjacent operations that share one safety argument.
#![allow(clippy::multiple_unsafe_ops_per_block)]

use std::alloc::{alloc, dealloc, handle_alloc_error, realloc};
use std::fmt;
use std::ptr::NonNull;
use std::slice;

use crate::cache_line;
use crate::encoding::{CompactBytes, Kind};
use crate::hash::hash_bits;
use crate::value::Object;

mod header;
use header::{
    DEADLINE, EXPIRES, EntryShape, HEADER, Header, LIVE, LONG_KEY, LONG_VALUE, RAW, ROOMY,
};

/// An owned key with its value, deadline and flags. It is one word; `Option<Entry>` is one word
/// too.
pub(crate) struct Entry {
    tagged: NonNull<u8>,
}

/// The value of a new entry.
#[derive(Debug)]
pub(crate) enum NewValue<'a> {
    Integer(i64),
    Bytes(&'a [u8]),
    /// A small collection: [`Kind::is_compact`] is true for the kind.
    Compact(Kind, &'a [u8]),
    Object(Box<Object>),
}

impl Entry {
    /// Creates an entry; `room_for_deadline` avoids a move if a deadline follows.
    pub(crate) fn new(
        hash: u64,
        key: &[u8],
        value: NewValue<'_>,
        room_for_deadline: bool,
    ) -> Entry {
        let (kind, length) = value.shape();
        let flags = if room_for_deadline { EXPIRES } else { 0 };
        let shape = EntryShape::new(kind, flags, key.len(), length);
        let mut entry = Entry {
            tagged: allocate(shape),
        };
        entry.set_hash_bits(hash);
        // SAFETY: the block was just allocated for this key's length.
        unsafe {
            entry
                .start()
                .add(shape.header.key_offset())
                .copy_from_nonoverlapping(key.as_ptr(), key.len());
        }
        debug_assert_eq!(entry.key().len(), key.len());
        debug_assert_eq!(entry.hash_bits(), hash_bits(hash));
        if room_for_deadline {
            entry.write_deadline(NO_DEADLINE, 0);
        }
        entry.write_value(value);
        entry
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        let header = self.header();
        // SAFETY: the key is at this offset, initialised, for as long as the entry lives.
        unsafe {
            slice::from_raw_parts(
                self.start().add(header.key_offset()),
                self.key_length(header),
            )
        }
    }

    /// Returns the 16 bits of the key's hash that the pointer stores.
    #[inline]
    pub(crate) fn hash_bits(&self) -> u16 {
        (self.tagged.as_ptr().addr() >> ADDRESS_BITS) as u16
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.header().kind()
    }

    /// Returns the 24 access bits.
    #[inline]
    pub(crate) fn access(&self) -> u32 {
        self.header().access()
    }

    /// Sets the access bits; bits above the lowest 24 are dropped.
    #[inline]
    pub(crate) fn set_access(&mut self, access: u32) {
        let header = self.header();
        self.set_header(header.with_access(access));
    }

    /// Returns whether it is a live topic: the keyspace notifies its observer of every change.
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        self.header().flags() & LIVE != 0
    }

    pub(crate) fn set_live(&mut self, live: bool) {
        self.set_flag(LIVE, live);
    }

    /// Returns whether it is a string that was modified in place. OBJECT ENCODING returns `raw` for
    /// it.
    pub(crate) fn is_raw(&self) -> bool {
        self.header().flags() & RAW != 0
    }

    pub(crate) fn set_raw(&mut self) {
        self.set_flag(RAW, true);
    }

    /// Returns when the key expires, ms since the UNIX epoch.
    #[inline]
    pub(crate) fn deadline_ms(&self) -> Option<i64> {
        self.timer_parts().map(|(deadline, _)| deadline)
    }

    /// Returns the timer's node in the wheel.
    pub(crate) fn timer(&self) -> Option<u32> {
        self.timer_parts().map(|(_, timer)| timer)
    }

    /// Sets or clears the deadline. Its room is kept once it exists, because SET and EXPIRE often
    /// alternate.
    pub(crate) fn set_deadline(&mut self, deadline: Option<(i64, u32)>) {
        match deadline {
            None if self.header().flags() & EXPIRES == 0 => {}
            None => self.write_deadline(NO_DEADLINE, 0),
            Some((deadline_ms, timer)) => {
                if self.header().flags() & EXPIRES == 0 {
                    self.make_room_for_deadline();
                }
                self.write_deadline(deadline_ms.max(NO_DEADLINE + 1), timer);
            }
        }
        debug_assert_eq!(self.deadline_ms().is_some(), deadline.is_some());
    }

    /// Returns the integer of an integer entry.
    #[inline]
    pub(crate) fn integer(&self) -> Option<i64> {
        // SAFETY: an integer entry has 8 initialised value bytes.
        (self.kind() == Kind::Integer)
            .then(|| unsafe { self.value().cast::<i64>().read_unaligned() })
    }

    /// Changes the integer of an integer entry in place.
    #[inline]
    pub(crate) fn set_integer(&mut self, integer: i64) {
        assert!(self.kind() == Kind::Integer);
        // SAFETY: an integer entry has 8 value bytes, and the entry is borrowed exclusively.
        unsafe { self.value().cast::<i64>().write_unaligned(integer) }
    }

    /// Returns the value bytes of a string or a small collection.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        let header = self.header();
        debug_assert!(header.kind().is_bytes());
        // SAFETY: the value is there, initialised (`resize` fills what it adds).
        unsafe { slice::from_raw_parts(self.value(), self.value_length(header)) }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let header = self.header();
        assert!(header.kind().is_bytes());
        // SAFETY: as in `bytes`, and the entry is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.value(), self.value_length(header)) }
    }

    pub(crate) fn object(&self) -> Option<&Object> {
        // SAFETY: an object entry contains the pointer of a box that it owns.
        (self.kind() == Kind::Object).then(|| unsafe { &*self.object_pointer() })
    }

    pub(crate) fn object_mut(&mut self) -> Option<&mut Object> {
        // SAFETY: as in `object`, and the entry is borrowed exclusively.
        (self.kind() == Kind::Object).then(|| unsafe { &mut *self.object_pointer() })
    }

    /// Replaces the value; key, deadline and the live flag stay. Moves only if the size changes.
    /// Returns the old object, because freeing it may take long.
    #[inline]
    pub(crate) fn set_value(&mut self, value: NewValue<'_>) -> Option<Box<Object>> {
        let old = (self.kind() == Kind::Object).then(|| self.give_object());
        let (kind, length) = value.shape();
        let flags = self.header().flags() & !(RAW | ROOMY);
        self.reshape(kind, flags, length);
        self.write_value(value);
        old
    }

    /// Takes over the value of an entry that was built for the same key outside the table. Returns
    /// the old entry.
    pub(crate) fn take_value(&mut self, mut from: Entry) -> Entry {
        debug_assert!(from.hash_bits() == self.hash_bits() && from.key() == self.key());
        from.set_live(self.is_live());
        from.set_deadline(self.timer_parts());
        std::mem::replace(self, from)
    }

    /// Resizes the value to `length` bytes with some room to grow; new bytes are zero.
    pub(crate) fn resize(&mut self, length: usize) {
        let header = self.header();
        assert!(header.kind().is_bytes());
        let old = self.value_length(header);
        self.reshape(header.kind(), header.flags() | ROOMY, length);
        if length > old {
            // SAFETY: the block has room for `length` value bytes now.
            unsafe { self.value().add(old).write_bytes(0, length - old) };
        }
        debug_assert_eq!(self.bytes().len(), length);
    }

    /// Replaces `removed` value bytes at `at` by the concatenation of `parts`.
    pub(crate) fn splice(&mut self, at: usize, removed: usize, parts: &[&[u8]]) {
        let added: usize = parts.iter().map(|part| part.len()).sum();
        let old = self.bytes().len();
        assert!(at + removed <= old);
        if added > removed {
            self.resize(old + added - removed);
        }
        let bytes = self.bytes_mut();
        bytes.copy_within(at + removed..old, at + added);
        let mut to = at;
        for part in parts {
            bytes[to..to + part.len()].copy_from_slice(part);
            to += part.len();
        }
        if added < removed {
            self.resize(old + added - removed);
        }
        debug_assert_eq!(self.bytes().len() + removed, old + added);
    }

    /// Moves the value to another key, without deadline and live flag. An object is moved, not
    /// copied.
    pub(crate) fn renamed(mut self, hash: u64, key: &[u8]) -> Entry {
        let raw = self.is_raw();
        let mut entry = match self.kind() {
            Kind::Object => {
                let object = self.give_object();
                Entry::new(hash, key, NewValue::Object(object), false)
            }
            _ => self.duplicate(hash, key),
        };
        if raw {
            entry.set_raw();
        }
        entry
    }

    /// Returns a deep copy under another key, without deadline and live flag.
    pub(crate) fn duplicate(&self, hash: u64, key: &[u8]) -> Entry {
        let value = match self.kind() {
            Kind::Integer => NewValue::Integer(self.integer().unwrap_or(0)),
            Kind::Bytes => NewValue::Bytes(self.bytes()),
            Kind::Object => NewValue::Object(Box::new(
                self.object()
                    .expect("an object entry has an object")
                    .duplicate(),
            )),
            compact => NewValue::Compact(compact, self.bytes()),
        };
        let mut entry = Entry::new(hash, key, value, false);
        if self.is_raw() {
            entry.set_raw();
        }
        debug_assert_eq!(entry.kind(), self.kind());
        entry
    }

    /// Returns the bytes of the entry's own allocation.
    pub(crate) fn block_bytes(&self) -> usize {
        self.shape().layout().size()
    }

    /// Prefetches the header, a short key and a short value. Half of all entries with two times 16
    /// bytes span two cache lines.
    #[inline]
    pub(crate) fn prefetch(&self) {
        cache_line::prefetch(self.start());
        cache_line::prefetch(self.start().wrapping_add(PREFETCHED_BYTES - 1));
    }

    fn set_hash_bits(&mut self, hash: u64) {
        debug_assert_eq!(self.hash_bits(), 0, "the pointer has no hash bits yet");
        let bits = usize::from(hash_bits(hash)) << ADDRESS_BITS;
        let tagged = self.start().map_addr(|address| address | bits);
        self.tagged = NonNull::new(tagged).expect("the address was not null");
    }

    #[inline]
    fn start(&self) -> *mut u8 {
        self.tagged
            .as_ptr()
            .map_addr(|address| address & ADDRESS_MASK)
    }

    #[inline]
    fn header(&self) -> Header {
        // SAFETY: every block starts with an initialised header and is aligned for it.
        unsafe { self.start().cast::<Header>().read() }
    }

    fn set_header(&mut self, header: Header) {
        // SAFETY: as in `header`, and the entry is borrowed exclusively.
        unsafe { self.start().cast::<Header>().write(header) }
    }

    fn set_flag(&mut self, flag: u8, on: bool) {
        let header = self.header();
        let flags = if on {
            header.flags() | flag
        } else {
            header.flags() & !flag
        };
        self.set_header(header.with_flags(flags));
    }

    #[inline]
    fn key_length(&self, header: Header) -> usize {
        if header.flags() & LONG_KEY == 0 {
            return header.key_length();
        }
        // SAFETY: with LONG_KEY set, the length follows the header.
        unsafe { self.start().add(HEADER).cast::<u32>().read_unaligned() as usize }
    }

    #[inline]
    fn value_length(&self, header: Header) -> usize {
        if header.flags() & LONG_VALUE == 0 {
            return header.value_length();
        }
        // SAFETY: with LONG_VALUE set, the length is stored before the value.
        unsafe { self.value().sub(4).cast::<u32>().read_unaligned() as usize }
    }

    fn shape(&self) -> EntryShape {
        let header = self.header();
        EntryShape {
            header,
            key_length: self.key_length(header),
            value_length: self.value_length(header),
        }
    }

    #[inline]
    fn value(&self) -> *mut u8 {
        let header = self.header();
        let offset = header.key_offset() + self.key_length(header) + header.value_gap();
        // SAFETY: the value follows the key in the same block.
        unsafe { self.start().add(offset) }
    }

    fn object_pointer(&self) -> *mut Object {
        assert!(self.kind() == Kind::Object);
        // SAFETY: an object entry has the pointer of a box as its value.
        unsafe { self.value().cast::<*mut Object>().read_unaligned() }
    }

    #[inline]
    fn timer_parts(&self) -> Option<(i64, u32)> {
        let header = self.header();
        if header.flags() & EXPIRES == 0 {
            return None;
        }
        // SAFETY: with EXPIRES set, the two numbers are stored before the key.
        let parts = unsafe {
            let at = self.start().add(header.key_offset() - DEADLINE);
            (
                at.cast::<i64>().read_unaligned(),
                at.add(8).cast::<u32>().read_unaligned(),
            )
        };
        (parts.0 != NO_DEADLINE).then_some(parts)
    }

    fn write_deadline(&mut self, deadline_ms: i64, timer: u32) {
        let header = self.header();
        assert!(header.flags() & EXPIRES != 0);
        // SAFETY: as in `timer_parts`, and the entry is borrowed exclusively.
        unsafe {
            let at = self.start().add(header.key_offset() - DEADLINE);
            at.cast::<i64>().write_unaligned(deadline_ms);
            at.add(8).cast::<u32>().write_unaligned(timer);
        }
    }

    fn make_room_for_deadline(&mut self) {
        let old = self.shape();
        let header = old.header.with_flags(old.header.flags() | EXPIRES);
        self.move_to(EntryShape { header, ..old });
        self.write_deadline(NO_DEADLINE, 0);
    }

    /// Resizes the block for its new value. Bytes within both sizes are kept.
    #[inline]
    fn reshape(&mut self, kind: Kind, flags: u8, value_length: usize) {
        let old = self.shape();
        let shape = old.with_value(kind, flags, value_length);
        if (old.header.flags() ^ shape.header.flags()) & LONG_VALUE != 0 {
            return self.move_to(shape);
        }
        let (old_layout, layout) = (old.layout(), shape.layout());
        if old_layout.size() != layout.size() {
            // SAFETY: the block was allocated with `old_layout`; the new size is not zero.
            let block = unsafe { realloc(self.start(), old_layout, layout.size()) };
            let Some(block) = NonNull::new(block) else {
                handle_alloc_error(layout)
            };
            self.adopt(block);
        }
        self.set_header(shape.header);
        if shape.header.flags() & LONG_VALUE != 0 {
            // SAFETY: with LONG_VALUE set, there is room for the length before the value.
            unsafe {
                let at = self.value().sub(4).cast::<u32>();
                at.write_unaligned(shape.value_length as u32);
            }
        }
    }

    /// Moves to a new block with another layout.
    #[cold]
    fn move_to(&mut self, shape: EntryShape) {
        let old = self.shape();
        let deadline = self.timer_parts();
        debug_assert_eq!(old.key_length, shape.key_length, "the key is copied whole");
        let block = allocate(shape);
        let kept = old.value_length.min(shape.value_length);
        // SAFETY: both blocks hold key and value at their own offsets, and they are distinct. The
        // old block is freed with the layout it was allocated with.
        unsafe {
            let (from, to) = (self.start(), block.as_ptr());
            to.add(shape.header.key_offset())
                .copy_from_nonoverlapping(from.add(old.header.key_offset()), old.key_length);
            to.add(shape.value_offset())
                .copy_from_nonoverlapping(from.add(old.value_offset()), kept);
            dealloc(from, old.layout());
        }
        self.adopt(block);
        if self.header().flags() & EXPIRES != 0 {
            let (deadline_ms, timer) = deadline.unwrap_or((NO_DEADLINE, 0));
            self.write_deadline(deadline_ms, timer);
        }
    }

    fn adopt(&mut self, block: NonNull<u8>) {
        let bits = usize::from(self.hash_bits()) << ADDRESS_BITS;
        check_address(block);
        self.tagged = block.map_addr(|address| address | bits);
        debug_assert_eq!(self.start(), block.as_ptr());
    }

    /// Writes the value into a block that already has its shape.
    #[inline]
    fn write_value(&mut self, value: NewValue<'_>) {
        debug_assert_eq!(
            (self.kind(), self.value_length(self.header())),
            value.shape(),
            "the block has the shape of the value that it gets"
        );
        let to = self.value();
        // SAFETY: the header's value length was set from this value, so there is room for it.
        unsafe {
            match value {
                NewValue::Integer(integer) => to.cast::<i64>().write_unaligned(integer),
                NewValue::Bytes(bytes) | NewValue::Compact(_, bytes) => {
                    to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                }
                NewValue::Object(object) => {
                    to.cast::<*mut Object>()
                        .write_unaligned(Box::into_raw(object));
                }
            }
        }
    }

    /// Drops the object, if there is one. The caller then sets another kind or frees the block.
    #[inline]
    fn drop_object(&mut self) {
        if self.kind() == Kind::Object {
            drop(self.give_object());
        }
    }

    /// Takes the object out; the entry becomes an integer without meaning.
    fn give_object(&mut self) -> Box<Object> {
        let pointer = self.object_pointer();
        let header = self.header();
        debug_assert!(!pointer.is_null());
        self.set_header(header.with_kind(Kind::Integer));
        // SAFETY: the entry owned the box and no longer refers to it.
        unsafe { Box::from_raw(pointer) }
    }
}

impl CompactBytes for Entry {
    #[inline]
    fn kind(&self) -> Kind {
        Entry::kind(self)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        Entry::bytes(self)
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        Entry::bytes_mut(self)
    }

    #[inline]
    fn splice(&mut self, at: usize, removed: usize, parts: &[&[u8]]) {
        Entry::splice(self, at, removed, parts);
    }

    fn replace(&mut self, kind: Kind, bytes: &[u8]) {
        debug_assert!(kind.is_compact(), "it stays a small collection");
        let object = self.set_value(NewValue::Compact(kind, bytes));
        debug_assert!(object.is_none(), "it was a small collection");
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.drop_object();
        let layout = self.shape().layout();
        // SAFETY: the block was allocated with the layout that its header describes.
        unsafe { dealloc(self.start(), layout) }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Entry")
            .field("key", &self.key().escape_ascii().to_string())
            .field("kind", &self.kind())
            .field("deadline_ms", &self.deadline_ms())
            .finish()
    }
}

// SAFETY: an entry exclusively owns its block and its object, and both are plain data.
unsafe impl Send for Entry {}
// SAFETY: a shared reference only allows reading.
unsafe impl Sync for Entry {}

impl NewValue<'_> {
    #[inline]
    fn shape(&self) -> (Kind, usize) {
        match self {
            NewValue::Integer(_) => (Kind::Integer, 8),
            NewValue::Bytes(bytes) => (Kind::Bytes, bytes.len()),
            NewValue::Compact(kind, bytes) => {
                debug_assert!(kind.is_compact());
                (*kind, bytes.len())
            }
            NewValue::Object(_) => (Kind::Object, size_of::<*mut Object>()),
        }
    }
}

/// Allocates a block with its header and lengths. The caller writes key, deadline and value.
fn allocate(shape: EntryShape) -> NonNull<u8> {
    let layout = shape.layout();
    // SAFETY: the size is at least that of the header.
    let block = unsafe { alloc(layout) };
    let Some(block) = NonNull::new(block) else {
        handle_alloc_error(layout)
    };
    check_address(block);
    // SAFETY: the block has room for the header and, where the flags say so, for the lengths.
    unsafe {
        let start = block.as_ptr();
        start.cast::<Header>().write(shape.header);
        if shape.header.flags() & LONG_KEY != 0 {
            let at = start.add(HEADER).cast::<u32>();
            at.write_unaligned(shape.key_length as u32);
        }
        if shape.header.flags() & LONG_VALUE != 0 {
            let at = start.add(shape.value_offset() - 4).cast::<u32>();
            at.write_unaligned(shape.value_length as u32);
        }
    }
    block
}

/// Checks that the address leaves its upper bits for the hash. Cheap: one shift and a branch that
/// is never taken.
#[inline]
fn check_address(block: NonNull<u8>) {
    assert!(
        block.addr().get() >> ADDRESS_BITS == 0,
        "the system returned an address with more than 47 bits"
    );
}

const _: () = assert!(
    size_of::<Option<Entry>>() == size_of::<usize>(),
    "a slot of the table is one word"
);

const NO_DEADLINE: i64 = i64::MIN;
/// Bytes from the start of an entry that are prefetched.
const PREFETCHED_BYTES: usize = 48;

const ADDRESS_BITS: u32 = 48;
const ADDRESS_MASK: usize = (1 << ADDRESS_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::header::VALUE_LENGTH_LONG;
    use super::*;

    fn text(entry: &Entry) -> String {
        String::from_utf8_lossy(entry.bytes()).into_owned()
    }

    #[test]
    fn a_small_key_and_value_take_one_block_of_forty_bytes() {
        let entry = Entry::new(7, &[b'k'; 16], NewValue::Bytes(&[b'v'; 16]), false);
        assert_eq!(entry.block_bytes(), 40);
        assert_eq!(size_of::<Option<Entry>>(), 8);
    }

    #[test]
    fn value_deadline_and_flags_change_independently() {
        let hash = 0xABCD_EF01_2345_6789;
        let mut entry = Entry::new(hash, b"name", NewValue::Bytes(b"value"), false);
        entry.set_live(true);
        entry.set_deadline(Some((123, 9)));
        assert_eq!((entry.deadline_ms(), entry.timer()), (Some(123), Some(9)));
        assert_eq!((entry.key(), &*text(&entry)), (&b"name"[..], "value"));
        entry.set_value(NewValue::Bytes(&[b'x'; 300]));
        assert_eq!(entry.deadline_ms(), Some(123));
        entry.set_deadline(None);
        entry.set_value(NewValue::Integer(-5));
        assert_eq!(
            (entry.integer(), entry.deadline_ms(), entry.is_live()),
            (Some(-5), None, true)
        );
        assert_eq!(entry.hash_bits(), hash_bits(hash));
    }

    #[test]
    fn splice_moves_the_tail_in_both_directions() {
        let mut entry = Entry::new(1, b"k", NewValue::Bytes(b"hello world"), false);
        entry.splice(0, 5, &[b"good", b"bye"]);
        assert_eq!(text(&entry), "goodbye world");
        entry.splice(7, 6, &[]);
        assert_eq!(text(&entry), "goodbye");
        entry.splice(7, 0, &[b"!"]);
        assert_eq!(text(&entry), "goodbye!");
    }

    #[test]
    fn keys_longer_than_the_short_length_are_kept_whole() {
        for length in [254, 255, 256, 65_536, 200_000] {
            let key = vec![b'k'; length];
            let mut entry = Entry::new(1, &key, NewValue::Bytes(b"v"), false);
            entry.set_deadline(Some((1, 2)));
            assert_eq!((entry.key(), entry.bytes()), (&key[..], &b"v"[..]));
            let entry = entry.renamed(2, b"short");
            assert_eq!((entry.key(), entry.deadline_ms()), (&b"short"[..], None));
        }
    }

    #[test]
    fn values_longer_than_the_short_length_grow_and_shrink() {
        let lengths = [0, VALUE_LENGTH_LONG - 1, VALUE_LENGTH_LONG, 5 << 20];
        for key_length in [3, 300] {
            let key = vec![b'k'; key_length];
            for (from, to) in lengths
                .iter()
                .flat_map(|&from| lengths.map(|to| (from, to)))
            {
                let value = b"0123456".repeat(from.div_ceil(7))[..from].to_vec();
                let mut entry = Entry::new(1, &key, NewValue::Bytes(&value), false);
                entry.set_access(0xABCDEF);
                entry.set_deadline(Some((77, 8)));
                assert_eq!((entry.key(), entry.bytes()), (&key[..], &value[..]));
                entry.resize(to);
                let kept = from.min(to);
                assert_eq!(entry.bytes()[..kept], value[..kept]);
                assert!(entry.bytes()[kept..] == vec![0; to - kept]);
                entry.set_value(NewValue::Integer(5));
                assert_eq!((entry.key(), entry.integer()), (&key[..], Some(5)));
                assert_eq!((entry.deadline_ms(), entry.access()), (Some(77), 0xABCDEF));
            }
        }
    }

    #[test]
    fn growing_byte_by_byte_rarely_moves_the_entry() {
        let mut entry = Entry::new(1, b"k", NewValue::Bytes(b""), false);
        let mut sizes = std::collections::BTreeSet::new();
        // Miri checks each new block byte by byte, so it gets fewer rounds.
        let most = if cfg!(miri) { 2_000 } else { 100_000 };
        for length in 1..most {
            entry.resize(length);
            sizes.insert(entry.block_bytes());
        }
        assert!(sizes.len() < 100, "{}", sizes.len());
    }
}
