//! Little-endian reads at constant offsets of fixed arrays, without bounds checks at run time.

#[inline(always)]
pub(crate) fn u16_at<const N: usize>(bytes: &[u8; N], offset: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, offset))
}

#[inline(always)]
pub(crate) fn u32_at<const N: usize>(bytes: &[u8; N], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

#[inline(always)]
pub(crate) fn u64_at<const N: usize>(bytes: &[u8; N], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, offset))
}

#[inline(always)]
pub(crate) fn i64_at<const N: usize>(bytes: &[u8; N], offset: usize) -> i64 {
    i64::from_le_bytes(array_at(bytes, offset))
}

/// A field of a message at a constant offset.
pub(crate) trait Field {
    fn read<const N: usize>(bytes: &[u8; N], offset: usize) -> Self;

    fn write<const N: usize>(self, bytes: &mut [u8; N], offset: usize);
}

macro_rules! integer_fields {
    ($($integer:ty),*) => {$(
        impl Field for $integer {
            #[inline(always)]
            fn read<const N: usize>(bytes: &[u8; N], offset: usize) -> Self {
                Self::from_le_bytes(array_at(bytes, offset))
            }

            #[inline(always)]
            fn write<const N: usize>(self, bytes: &mut [u8; N], offset: usize) {
                put(bytes, offset, self.to_le_bytes());
            }
        }
    )*};
}

integer_fields!(u8, u16, u32, u64, i64);

/// Returns `M` bytes at `offset`. Panics only if `offset + M > N`, which every caller's constants
/// exclude.
#[inline(always)]
pub(crate) fn array_at<const N: usize, const M: usize>(bytes: &[u8; N], offset: usize) -> [u8; M] {
    let mut field = [0; M];
    field.copy_from_slice(&bytes[offset..offset + M]);
    field
}

#[inline(always)]
pub(crate) fn put<const N: usize, const M: usize>(
    bytes: &mut [u8; N],
    offset: usize,
    field: [u8; M],
) {
    bytes[offset..offset + M].copy_from_slice(&field);
}
