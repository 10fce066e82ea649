//! The first word of an entry's block, and the layout that it determines.

use std::alloc::Layout;

use crate::encoding::Kind;

/// The first word of a block. From the lowest bit: key length 8, kind 4, flags 7, value length 21,
/// access 24.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Header(u64);

impl Header {
    #[inline]
    fn new(kind: Kind, flags: u8, key_length: usize, value_length: usize) -> Self {
        debug_assert!(key_length <= KEY_LENGTH_LONG, "the key's length has 8 bits");
        debug_assert!(
            value_length < VALUE_LENGTH_LONG,
            "the value's length has 21 bits"
        );
        debug_assert!(flags <= 0x7F, "flags have 7 bits");
        Header(
            key_length as u64
                | (kind as u64) << KIND_SHIFT
                | u64::from(flags) << FLAGS_SHIFT
                | (value_length as u64) << VALUE_SHIFT,
        )
    }

    #[inline]
    pub(super) fn key_length(self) -> usize {
        (self.0 & 0xFF) as usize
    }

    #[inline]
    pub(super) fn kind(self) -> Kind {
        let number = (self.0 >> KIND_SHIFT & 0xF) as u8;
        debug_assert!(number <= Kind::LAST as u8, "the block has no valid header");
        // SAFETY: `new` or `with_kind` wrote these bits from a `Kind`, which is a u8.
        unsafe { std::mem::transmute::<u8, Kind>(number) }
    }

    #[inline]
    pub(super) fn flags(self) -> u8 {
        (self.0 >> FLAGS_SHIFT & 0x7F) as u8
    }

    #[inline]
    pub(super) fn value_length(self) -> usize {
        (self.0 >> VALUE_SHIFT & VALUE_MASK) as usize
    }

    #[inline]
    pub(super) fn access(self) -> u32 {
        (self.0 >> ACCESS_SHIFT) as u32
    }

    #[inline]
    pub(super) fn with_access(self, access: u32) -> Self {
        Header(self.0 & !(u64::MAX << ACCESS_SHIFT) | u64::from(access) << ACCESS_SHIFT)
    }

    pub(super) fn with_kind(self, kind: Kind) -> Self {
        Header(self.0 & !(0xF << KIND_SHIFT) | (kind as u64) << KIND_SHIFT)
    }

    pub(super) fn with_flags(self, flags: u8) -> Self {
        Header(self.0 & !(0x7F << FLAGS_SHIFT) | u64::from(flags) << FLAGS_SHIFT)
    }

    #[inline]
    pub(super) fn key_offset(self) -> usize {
        let long = if self.flags() & LONG_KEY != 0 { 4 } else { 0 };
        let deadline = if self.flags() & EXPIRES != 0 {
            DEADLINE
        } else {
            0
        };
        HEADER + long + deadline
    }

    /// Returns the number of bytes between key and value.
    #[inline]
    pub(super) fn value_gap(self) -> usize {
        if self.flags() & LONG_VALUE != 0 { 4 } else { 0 }
    }
}

/// The header with both lengths, wherever they are stored.
#[derive(Clone, Copy)]
pub(super) struct EntryShape {
    pub(super) header: Header,
    pub(super) key_length: usize,
    pub(super) value_length: usize,
}

impl EntryShape {
    #[inline]
    pub(super) fn new(kind: Kind, mut flags: u8, key_length: usize, value_length: usize) -> Self {
        debug_assert!(
            u32::try_from(key_length).is_ok(),
            "a key is shorter than 4 GiB"
        );
        if key_length >= KEY_LENGTH_LONG {
            flags |= LONG_KEY;
        }
        let short = key_length.min(KEY_LENGTH_LONG);
        EntryShape {
            header: Header::new(kind, flags, short, 0),
            key_length,
            value_length: 0,
        }
        .with_value(kind, flags, value_length)
    }

    /// Returns the shape of the same key with another value.
    #[inline]
    pub(super) fn with_value(self, kind: Kind, flags: u8, value_length: usize) -> Self {
        assert!(
            u32::try_from(value_length).is_ok(),
            "a value is shorter than 4 GiB"
        );
        debug_assert_eq!(
            flags & LONG_KEY,
            self.header.flags() & LONG_KEY,
            "changing the value does not move the key"
        );
        let (flags, short) = if value_length < VALUE_LENGTH_LONG {
            (flags & !LONG_VALUE, value_length)
        } else {
            (flags | LONG_VALUE, 0)
        };
        let header = Header::new(kind, flags, self.header.key_length(), short);
        EntryShape {
            header: header.with_access(self.header.access()),
            key_length: self.key_length,
            value_length,
        }
    }

    #[inline]
    pub(super) fn value_offset(self) -> usize {
        self.header.key_offset() + self.key_length + self.header.value_gap()
    }

    /// Returns the block's layout. It follows from the header alone, so no capacity is stored.
    #[inline]
    pub(super) fn layout(self) -> Layout {
        let used = self.value_offset() + self.value_length;
        let size = if self.header.flags() & ROOMY != 0 {
            with_room(used)
        } else {
            used.next_multiple_of(BLOCK_ALIGN)
        };
        debug_assert!(size >= used && size >= HEADER);
        Layout::from_size_align(size, BLOCK_ALIGN).expect("an entry is shorter than 8 GiB")
    }
}

/// Rounds a length up by at most a quarter, so that growing byte by byte rarely moves the block.
/// Rounds to the allocator's sizes, so that it rounds no further.
#[inline]
fn with_room(length: usize) -> usize {
    length.next_multiple_of((length.next_power_of_two() / 8).max(BLOCK_ALIGN))
}

pub(super) const HEADER: usize = size_of::<Header>();
/// Bytes of deadline (8) and timer (4).
pub(super) const DEADLINE: usize = 12;
pub(super) const BLOCK_ALIGN: usize = 8;
/// From this length on, the key's length is stored after the header.
const KEY_LENGTH_LONG: usize = u8::MAX as usize;
/// From this length on, the value's length is stored before the value.
pub(super) const VALUE_LENGTH_LONG: usize = 1 << 21;

const KIND_SHIFT: u32 = 8;
const FLAGS_SHIFT: u32 = 12;
const VALUE_SHIFT: u32 = 19;
const VALUE_MASK: u64 = VALUE_LENGTH_LONG as u64 - 1;
const ACCESS_SHIFT: u32 = 40;

const _: () = assert!(
    VALUE_SHIFT + VALUE_MASK.count_ones() == ACCESS_SHIFT,
    "the fields of a header fill its 64 bits without overlap"
);
const _: () = assert!(Kind::LAST as u8 <= 0xF, "a kind has four bits");
const _: () = assert!(BLOCK_ALIGN >= align_of::<Header>());

pub(super) const EXPIRES: u8 = 1;
pub(super) const LIVE: u8 = 2;
pub(super) const RAW: u8 = 4;
pub(super) const ROOMY: u8 = 8;
pub(super) const LONG_KEY: u8 = 16;
pub(super) const LONG_VALUE: u8 = 32;
