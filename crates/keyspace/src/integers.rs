//! Small sets of integers, in ascending order. All have the width of the widest.
//!
//! ```text
//!  ┌──────────┬─────────┬─────────┬───
//!  │ width u8 │ integer │ integer │ …      width: 2, 4 or 8 bytes
//!  └──────────┴─────────┴─────────┴───
//! ```

use crate::encoding::{CompactBytes, Kind};

/// The bytes of an empty set.
pub(crate) const EMPTY: &[u8] = &[2];
/// Maximum number of members under any setting: adding one moves those after it.
pub(crate) const COUNT_MAX: usize = 1 << 20;

/// A read-only view of a set of integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Integers<'a> {
    width: usize,
    bytes: &'a [u8],
}

impl<'a> Integers<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        debug_assert!(matches!(bytes[0], 2 | 4 | 8), "the first byte is the width");
        debug_assert_eq!((bytes.len() - WIDTH) % usize::from(bytes[0]), 0);
        Integers {
            width: usize::from(bytes[0]),
            bytes: &bytes[WIDTH..],
        }
    }

    pub(crate) fn len(self) -> usize {
        self.bytes.len() / self.width
    }

    /// Returns the bytes per integer: 2, 4 or 8.
    pub(crate) fn width(self) -> usize {
        self.width
    }

    /// Returns the integer at an existing position.
    pub(crate) fn get(self, position: usize) -> i64 {
        let bytes = &self.bytes[position * self.width..][..self.width];
        match *bytes {
            [a, b] => i64::from(i16::from_le_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            _ => i64::from_le_bytes(bytes.try_into().expect("the width is 2, 4 or 8")),
        }
    }

    /// Returns the position of a value, or the position where it would be inserted.
    pub(crate) fn search(self, value: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(&value) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = i64> + use<'a> {
        (0..self.len()).map(move |position| self.get(position))
    }
}

/// Adds a value; returns false if it is already there.
pub(crate) fn insert(entry: &mut impl CompactBytes, value: i64) -> bool {
    let integers = Integers::new(entry.bytes());
    let Err(position) = integers.search(value) else {
        return false;
    };
    let width = integers.width;
    if width_of(value) > width {
        widen(entry, width_of(value));
        return insert(entry, value);
    }
    debug_assert!(position == 0 || integers.get(position - 1) < value);
    debug_assert!(position == integers.len() || value < integers.get(position));
    entry.splice(
        WIDTH + position * width,
        0,
        &[&value.to_le_bytes()[..width]],
    );
    true
}

/// Removes the value at a position.
pub(crate) fn remove(entry: &mut impl CompactBytes, position: usize) {
    let width = Integers::new(entry.bytes()).width;
    debug_assert!(position < Integers::new(entry.bytes()).len());
    entry.splice(WIDTH + position * width, width, &[]);
}

fn widen(entry: &mut impl CompactBytes, width: usize) {
    let integers = Integers::new(entry.bytes());
    debug_assert!(width > integers.width);
    let mut bytes = Vec::with_capacity(WIDTH + integers.len() * width);
    bytes.push(width as u8);
    for value in integers.iter() {
        bytes.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    entry.replace(Kind::Integers, &bytes);
}

fn width_of(value: i64) -> usize {
    if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}

const WIDTH: usize = 1;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::entry::{Entry, NewValue};

    #[test]
    fn members_stay_in_order_at_every_width() {
        let mut entry = Entry::new(1, b"k", NewValue::Compact(Kind::Integers, EMPTY), false);
        let mut model = BTreeSet::new();
        let mut word = 1u64;
        for step in 0..600 {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = (word as i64) >> [56, 40, 8, 0][step / 150];
            if word >> 32 & 3 == 0 {
                if let Ok(position) = Integers::new(entry.bytes()).search(value) {
                    remove(&mut entry, position);
                }
                model.remove(&value);
            } else {
                assert_eq!(insert(&mut entry, value), model.insert(value));
            }
            let integers = Integers::new(entry.bytes());
            assert!(integers.iter().eq(model.iter().copied()));
            assert_eq!(integers.len(), model.len());
        }
        for value in [i64::MIN, i64::MAX, 0] {
            insert(&mut entry, value);
            let integers = Integers::new(entry.bytes());
            assert_eq!(integers.get(integers.search(value).unwrap()), value);
        }
    }
}
