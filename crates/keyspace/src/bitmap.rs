//! Bits of a string. Bit 0 is the highest bit of the first byte; all bits past the end are 0.
//!
//! The loops over whole strings are shaped so that the compiler vectorizes them: arrays of fixed
//! length, and no early exit.

use std::array;
use std::ops::Range;

/// Returns the number of set bits.
pub(crate) fn count(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    let (words, rest) = rest.as_chunks::<8>();
    let last = rest.iter().map(|byte| u64::from(byte.count_ones()));
    let words = words
        .iter()
        .map(|word| u64::from(u64::from_le_bytes(*word).count_ones()));
    count_blocks(blocks) + words.sum::<u64>() + last.sum::<u64>()
}

/// Returns the number of set bits in a range. The range is not empty and lies within the bytes.
pub(crate) fn count_range(bytes: &[u8], bits: Range<u64>) -> u64 {
    debug_assert!(bits.start < bits.end && bits.end <= bytes.len() as u64 * 8);
    let (first, last) = ((bits.start / 8) as usize, ((bits.end - 1) / 8) as usize);
    let before = bytes[first] & !(0xFF >> (bits.start % 8));
    let behind = bytes[last] & (0x7F >> ((bits.end - 1) % 8));
    count(&bytes[first..=last]) - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

/// Returns the position of the first bit with this value in a range. The range is not empty and
/// lies within the bytes.
pub(crate) fn position(bytes: &[u8], bits: Range<u64>, bit: bool) -> Option<u64> {
    debug_assert!(bits.start < bits.end && bits.end <= bytes.len() as u64 * 8);
    let other = if bit { 0x00 } else { 0xFF };
    let (first, last) = ((bits.start / 8) as usize, ((bits.end - 1) / 8) as usize);
    // XOR sets each bit that has the wanted value.
    let head = (bytes[first] ^ other) & (0xFF >> (bits.start % 8));
    let (at, found) = if head != 0 {
        (first, head)
    } else {
        let at = first + 1 + first_unlike(&bytes[first + 1..=last], other)?;
        (at, bytes[at] ^ other)
    };
    let position = at as u64 * 8 + u64::from(found.leading_zeros());
    (position < bits.end).then_some(position)
}

/// Returns the number in `width` bits (1 to 64) from `offset`, highest bit first.
pub(crate) fn field(bytes: &[u8], offset: u64, width: u32) -> u64 {
    debug_assert!((1..=64).contains(&width));
    let (_, window) = window(bytes, offset);
    (window << (offset % 8) >> (128 - width)) as u64
}

/// Writes the lowest `width` bits of a number from `offset`. `bytes` must contain all of them.
pub(crate) fn set_field(bytes: &mut [u8], offset: u64, width: u32, value: u64) {
    debug_assert!((1..=64).contains(&width));
    debug_assert!(
        offset + u64::from(width) <= bytes.len() as u64 * 8,
        "the caller made room"
    );
    let (at, old) = window(bytes, offset);
    let shift = 128 - width - (offset % 8) as u32;
    let mask = (u128::MAX >> (128 - width)) << shift;
    let new = old & !mask | u128::from(value) << shift & mask;
    for (to, from) in bytes[at..].iter_mut().zip(new.to_be_bytes()) {
        *to = from;
    }
}

/// An operation of BITOP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitOperation {
    And,
    Or,
    Xor,
    /// NOT of one source.
    Not,
    /// Bits in the first source and in none of the others.
    Difference,
    /// Bits in any of the others and not in the first.
    OthersDifference,
    /// Bits in the first and in any of the others.
    AndAny,
    /// Bits in exactly one source.
    One,
}

/// Combines one or more sources into `to`, which is zero and as long as the longest source.
pub(crate) fn combine(operation: BitOperation, sources: &[&[u8]], to: &mut [u8]) {
    debug_assert!(
        sources.iter().all(|source| source.len() <= to.len()),
        "the result is as long as the longest source"
    );
    // Works in blocks, so that the part of `to` written by several sources stays in the L1 cache.
    for (block, to) in to.chunks_mut(COMBINED_BYTES).enumerate() {
        let (start, length) = (block * COMBINED_BYTES, to.len());
        let parts = sources.iter().map(|source| {
            let rest = &source[start.min(source.len())..];
            &rest[..length.min(rest.len())]
        });
        combine_block(operation, parts, to);
    }
}

fn combine_block<'a>(
    operation: BitOperation,
    mut sources: impl Iterator<Item = &'a [u8]>,
    to: &mut [u8],
) {
    let first = sources.next().unwrap_or_default();
    let others = sources;
    match operation {
        BitOperation::And => {
            to[..first.len()].copy_from_slice(first);
            others.for_each(|other| keep(to, other));
        }
        BitOperation::Or => {
            to[..first.len()].copy_from_slice(first);
            others.for_each(|other| each(to, other, |a, b| a | b));
        }
        BitOperation::Xor => {
            to[..first.len()].copy_from_slice(first);
            others.for_each(|other| each(to, other, |a, b| a ^ b));
        }
        BitOperation::Not => each(to, first, |_, b| !b),
        BitOperation::Difference => {
            to[..first.len()].copy_from_slice(first);
            others.for_each(|other| each(to, other, |a, b| a & !b));
        }
        BitOperation::OthersDifference => {
            others.for_each(|other| each(to, other, |a, b| a | b));
            each(to, first, |a, b| a & !b);
        }
        BitOperation::AndAny => {
            others.for_each(|other| each(to, other, |a, b| a | b));
            keep(to, first);
        }
        BitOperation::One => {
            to[..first.len()].copy_from_slice(first);
            let mut several = [0; COMBINED_BYTES];
            for other in others {
                let pairs = to.iter_mut().zip(&mut several).zip(other);
                for ((one, several), other) in pairs {
                    *several |= *one & other;
                    *one |= other;
                }
            }
            each(to, &several, |a, b| a & !b);
        }
    }
}

/// Keeps the bits of `to` that are set in `from` too.
fn keep(to: &mut [u8], from: &[u8]) {
    each(to, from, |a, b| a & b);
    to[from.len()..].fill(0);
}

#[inline]
fn each(to: &mut [u8], from: &[u8], combine: impl Fn(u8, u8) -> u8) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = combine(*to, from);
    }
}

/// Counts set bits with the Harley-Seal method: a bitwise adder combines words, so that one
/// population count serves sixteen words.
fn count_blocks(blocks: &[[u8; BLOCK_BYTES]]) -> u64 {
    let mut sixteens = [0; LANES];
    let [mut ones, mut twos, mut fours, mut eights] = [[0; LANES]; 4];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        let parts: [Lanes; 16] = array::from_fn(|part| {
            array::from_fn(|lane| u64::from_le_bytes(words[part * LANES + lane]))
        });
        let carried: [Lanes; 8] = add(&mut ones, &parts);
        let carried: [Lanes; 4] = add(&mut twos, &carried);
        let carried: [Lanes; 2] = add(&mut fours, &carried);
        let [carried]: [Lanes; 1] = add(&mut eights, &carried);
        for lane in 0..LANES {
            sixteens[lane] += u64::from(carried[lane].count_ones());
        }
    }
    let mut total = sixteens.iter().sum::<u64>() * 16;
    for (weight, lanes) in [(1, ones), (2, twos), (4, fours), (8, eights)] {
        let set: u32 = lanes.iter().map(|lane: &u64| lane.count_ones()).sum();
        total += u64::from(set) * weight;
    }
    total
}

/// Adds two parts at a time to the counter, bit by bit. The carries have twice the weight.
#[inline(always)]
fn add<const PARTS: usize, const HALF: usize>(
    sum: &mut Lanes,
    parts: &[Lanes; PARTS],
) -> [Lanes; HALF] {
    array::from_fn(|half| {
        let mut carried = [0; LANES];
        for lane in 0..LANES {
            let (a, b) = (parts[2 * half][lane], parts[2 * half + 1][lane]);
            let both = sum[lane] ^ a;
            carried[lane] = (sum[lane] & a) | (both & b);
            sum[lane] = both ^ b;
        }
        carried
    })
}

/// Returns the position of the first byte other than `other`.
fn first_unlike(bytes: &[u8], other: u8) -> Option<usize> {
    let (blocks, _) = bytes.as_chunks::<64>();
    let unlike = |block: &&[u8; 64]| block.iter().fold(0, |seen, byte| seen | byte ^ other) != 0;
    let from = blocks
        .iter()
        .position(|block| unlike(&block))
        .unwrap_or(blocks.len())
        * 64;
    let at = bytes[from..].iter().position(|&byte| byte != other)?;
    Some(from + at)
}

/// Returns the position of the byte that contains a bit, and sixteen bytes from there, first byte
/// highest.
fn window(bytes: &[u8], offset: u64) -> (usize, u128) {
    let at = usize::try_from(offset / 8).map_or(bytes.len(), |at| at.min(bytes.len()));
    let mut window = [0; 16];
    for (to, from) in window.iter_mut().zip(&bytes[at..]) {
        *to = *from;
    }
    (at, u128::from_be_bytes(window))
}

/// Words that fit side by side in vector registers.
type Lanes = [u64; LANES];
const LANES: usize = 4;
const BLOCK_BYTES: usize = LANES * 16 * 8;
const COMBINED_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bit(bytes: &[u8], at: u64) -> bool {
        bytes
            .get((at / 8) as usize)
            .is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
    }

    /// Generates long runs of the same byte among others, so that the loops skip whole blocks.
    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        let run = (prop_oneof![Just(0u8), Just(0xFF), any::<u8>()], 1..700usize);
        prop::collection::vec(run, 1..6)
            .prop_map(|runs| runs.iter().flat_map(|run| vec![run.0; run.1]).collect())
    }

    proptest! {
        #[test]
        fn count_and_position_agree_with_a_bitwise_search(
            bytes in any_bytes(), from: u64, to: u64, wanted: bool,
        ) {
            let bits = bytes.len() as u64 * 8;
            let (from, to) = (from % bits, to % bits);
            let range = from.min(to)..from.max(to) + 1;
            let set = range.clone().filter(|&at| bit(&bytes, at)).count() as u64;
            prop_assert_eq!(count_range(&bytes, range.clone()), set);
            let first = range.clone().find(|&at| bit(&bytes, at) == wanted);
            prop_assert_eq!(position(&bytes, range, wanted), first);
        }

        #[test]
        fn a_field_reads_back_and_changes_no_other_bit(
            mut bytes in any_bytes(), offset: u64, width in 1u32..=64, value: u64,
        ) {
            let offset = offset % (bytes.len() as u64 * 8);
            bytes.resize(bytes.len() + 8, 0xA5);
            let before = bytes.clone();
            set_field(&mut bytes, offset, width, value);
            prop_assert_eq!(field(&bytes, offset, width), value & u64::MAX >> (64 - width));
            for at in 0..bytes.len() as u64 * 8 {
                if !(offset..offset + u64::from(width)).contains(&at) {
                    prop_assert_eq!(bit(&bytes, at), bit(&before, at));
                }
            }
        }

        #[test]
        fn every_operation_agrees_with_a_bytewise_model(
            first in any_bytes(), others in prop::collection::vec(any_bytes(), 1..4),
        ) {
            let all: Vec<&[u8]> = [&first].into_iter().chain(&others).map(|one| &one[..]).collect();
            let length = all.iter().map(|one| one.len()).max().unwrap_or(0);
            let of = |source: &[u8], at: usize| source.get(at).copied().unwrap_or(0);
            let any = |at| others.iter().fold(0, |any, one| any | of(one, at));
            for operation in [
                BitOperation::And, BitOperation::Or, BitOperation::Xor, BitOperation::Difference,
                BitOperation::OthersDifference, BitOperation::AndAny, BitOperation::One,
            ] {
                let mut to = vec![0; length];
                combine(operation, &all, &mut to);
                for (at, &byte) in to.iter().enumerate() {
                    let x = of(&first, at);
                    let bytes = all.iter().map(|one| of(one, at));
                    let expected = match operation {
                        BitOperation::And => bytes.fold(0xFF, |a, b| a & b),
                        BitOperation::Or => bytes.fold(0, |a, b| a | b),
                        BitOperation::Xor => bytes.fold(0, |a, b| a ^ b),
                        BitOperation::Difference => x & !any(at),
                        BitOperation::OthersDifference => any(at) & !x,
                        BitOperation::AndAny => x & any(at),
                        _ => {
                            let (one, _) = bytes.fold((0, 0), |(one, several), byte| {
                                ((one ^ byte) & !(several | one & byte), several | one & byte)
                            });
                            one
                        }
                    };
                    prop_assert_eq!(byte, expected, "{:?} at {}", operation, at);
                }
            }
        }
    }
}
