//! The field types of ITCH messages: big-endian numbers, 48-bit times, padded letters.

use std::fmt;

/// A field type with a wire form.
pub(super) trait Field: Copy {
    /// Bytes on the wire.
    const LENGTH: usize;

    /// Reads the field at `at`; the caller's constants keep it within `bytes`.
    fn read(bytes: &[u8], at: usize) -> Self;

    /// Writes the field at `at`.
    fn write(self, bytes: &mut [u8], at: usize);
}

macro_rules! number_fields {
    ($($type:ty)*) => {$(
        impl Field for $type {
            const LENGTH: usize = size_of::<$type>();

            #[inline(always)]
            fn read(bytes: &[u8], at: usize) -> Self {
                <$type>::from_be_bytes(array(bytes, at))
            }

            #[inline(always)]
            fn write(self, bytes: &mut [u8], at: usize) {
                bytes[at..at + Self::LENGTH].copy_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

number_fields!(u8 u16 u32 u64);

/// A 32-bit price, 1 unit = 1e-4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price(pub u32);

impl Price {
    /// Returns the price in units of 1e-9.
    #[inline(always)]
    pub const fn nanos(self) -> i64 {
        self.0 as i64 * 100_000
    }
}

impl Field for Price {
    const LENGTH: usize = 4;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> Self {
        Self(u32::read(bytes, at))
    }

    #[inline(always)]
    fn write(self, bytes: &mut [u8], at: usize) {
        self.0.write(bytes, at);
    }
}

/// A 48-bit time: nanoseconds since midnight at the exchange (Eastern Time).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DayTime(u64);

impl DayTime {
    /// Creates a time from the lower 48 bits of `ns`.
    pub const fn new(ns: u64) -> Self {
        Self(ns & DAY_TIME_MASK)
    }

    /// Returns nanoseconds since midnight, below 2^48.
    #[inline(always)]
    pub const fn ns(self) -> u64 {
        self.0
    }
}

impl Field for DayTime {
    const LENGTH: usize = 6;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> Self {
        let high = u64::from(u16::read(bytes, at));
        Self(high << 32 | u64::from(u32::read(bytes, at + 2)))
    }

    #[inline(always)]
    fn write(self, bytes: &mut [u8], at: usize) {
        bytes[at..at + 6].copy_from_slice(&self.0.to_be_bytes()[2..]);
    }
}

/// Letters, left-aligned and padded with spaces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Letters<const N: usize>([u8; N]);

impl<const N: usize> Letters<N> {
    /// Creates letters from as much of `text` as fits.
    pub const fn new(text: &str) -> Self {
        let (text, mut bytes, mut at) = (text.as_bytes(), [b' '; N], 0);
        while at < N && at < text.len() {
            bytes[at] = text[at];
            at += 1;
        }
        Self(bytes)
    }

    /// Returns the bytes with their padding.
    pub const fn bytes(&self) -> &[u8; N] {
        &self.0
    }

    /// Returns the text without its padding; empty if it is not UTF-8.
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().rposition(|&byte| byte != b' ' && byte != 0);
        let text = &self.0[..length.map_or(0, |last| last + 1)];
        std::str::from_utf8(text).unwrap_or_default()
    }
}

impl<const N: usize> Default for Letters<N> {
    fn default() -> Self {
        Self([b' '; N])
    }
}

impl<const N: usize> From<[u8; N]> for Letters<N> {
    fn from(bytes: [u8; N]) -> Self {
        Self(bytes)
    }
}

impl<const N: usize> fmt::Debug for Letters<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), formatter)
    }
}

impl<const N: usize> fmt::Display for Letters<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), formatter)
    }
}

impl<const N: usize> Field for Letters<N> {
    const LENGTH: usize = N;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> Self {
        Self(array(bytes, at))
    }

    #[inline(always)]
    fn write(self, bytes: &mut [u8], at: usize) {
        bytes[at..at + N].copy_from_slice(&self.0);
    }
}

#[inline(always)]
fn array<const M: usize>(bytes: &[u8], at: usize) -> [u8; M] {
    let mut field = [0; M];
    field.copy_from_slice(&bytes[at..at + M]);
    field
}

const DAY_TIME_MASK: u64 = (1 << 48) - 1;
