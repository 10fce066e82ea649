//! GUIDs in .NET's wire format.

use core::fmt;

/// A GUID: 16 bytes, with the first three groups in little-endian order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid([u8; 16]);

impl Guid {
    /// All zeros.
    pub const ZERO: Self = Self([0; 16]);

    /// Creates a GUID from its wire bytes.
    #[inline]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the wire bytes.
    #[inline]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// Creates a GUID from its groups as people write them, with the last two as one 64-bit
    /// number.
    pub const fn from_parts(first: u32, second: u16, third: u16, rest: u64) -> Self {
        let (a, b, c, d) = (
            first.to_le_bytes(),
            second.to_le_bytes(),
            third.to_le_bytes(),
            rest.to_be_bytes(),
        );
        Self([
            a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], d[0], d[1], d[2], d[3], d[4], d[5],
            d[6], d[7],
        ])
    }

    /// Returns the first group.
    pub(crate) const fn first(self) -> u32 {
        u32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = &self.0;
        let (second, third) = ([b[4], b[5]], [b[6], b[7]]);
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:02x}{:02x}-",
            self.first(),
            u16::from_le_bytes(second),
            u16::from_le_bytes(third),
            b[8],
            b[9]
        )?;
        b[10..].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn groups_are_mixed_endian() {
        let guid = Guid::from_parts(0xecee_2acd, 0x76b2, 0x4f06, 0xb458_5ca0_2df7_a893);
        let captured = [
            0xcd, 0x2a, 0xee, 0xec, 0xb2, 0x76, 0x06, 0x4f, 0xb4, 0x58, 0x5c, 0xa0, 0x2d, 0xf7,
            0xa8, 0x93,
        ];
        assert_eq!(guid.to_bytes(), captured);
        assert_eq!(guid.to_string(), "ecee2acd-76b2-4f06-b458-5ca02df7a893");
    }
}
