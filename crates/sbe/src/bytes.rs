//! Numbers at fixed places.

/// A number of the wire, little-endian.
pub trait Number: Copy {
    /// Reads the number at `offset` of a block of `N` bytes, which the caller has checked.
    fn read<const N: usize>(block: &[u8; N], offset: usize) -> Self;

    /// Reads the number at `offset`, if the bytes are there.
    fn read_from(bytes: &[u8], offset: usize) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Number for $number {
            #[inline(always)]
            fn read<const N: usize>(block: &[u8; N], offset: usize) -> Self {
                const LENGTH: usize = size_of::<$number>();
                debug_assert!(offset + LENGTH <= N, "the schema's offsets fit its blocks");
                // Offsets are constants, so that the copy is one load.
                Self::from_le_bytes(std::array::from_fn::<u8, LENGTH, _>(|at| block[offset + at]))
            }

            #[inline(always)]
            fn read_from(bytes: &[u8], offset: usize) -> Option<Self> {
                let tail = bytes.get(offset..)?;
                Some(Self::from_le_bytes(*tail.first_chunk()?))
            }
        })*
    };
}

numbers!(u8, i8, u16, i16, u32, i32, u64, i64);

impl<const L: usize> Number for [u8; L] {
    #[inline(always)]
    fn read<const N: usize>(block: &[u8; N], offset: usize) -> Self {
        debug_assert!(offset + L <= N, "the schema's offsets fit its blocks");
        std::array::from_fn(|at| block[offset + at])
    }

    #[inline(always)]
    fn read_from(bytes: &[u8], offset: usize) -> Option<Self> {
        bytes.get(offset..)?.first_chunk().copied()
    }
}

/// Writes `value` at `offset` of a block that the writer has appended.
#[inline]
pub fn put<const L: usize>(block: &mut [u8], offset: usize, value: [u8; L]) {
    assert!(
        offset + L <= block.len(),
        "the schema's offsets fit its blocks"
    );
    block[offset..offset + L].copy_from_slice(&value);
}
