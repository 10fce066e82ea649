//! Dense registers: 6 bits each, lowest bits first.
//!
//! Loops over all registers take eight at a time: six bytes are 48 bits. These are spread over the
//! four 16-bit lanes of a word, a pair of registers in each, and then over its eight bytes.

use super::REGISTERS;

/// Raises a register to a rank; returns false if it is already that high.
pub(super) fn raise(registers: &mut [u8], index: usize, rank: u8) -> bool {
    debug_assert!(index < REGISTERS && rank < 1 << 6);
    let (groups, _) = registers.as_chunks_mut::<3>();
    let group = &mut groups[index / 4];
    let shift = index % 4 * 6;
    let word = u32::from_le_bytes([group[0], group[1], group[2], 0]);
    if u32::from(rank) <= word >> shift & 0x3F {
        return false;
    }
    let raised = word & !(0x3F << shift) | u32::from(rank) << shift;
    group.copy_from_slice(&raised.to_le_bytes()[..3]);
    true
}

/// Iterates over all registers, two in each 16-bit lane.
pub(super) fn pairs(registers: &[u8]) -> impl Iterator<Item = u64> {
    let (groups, _) = registers.as_chunks::<6>();
    groups.iter().map(|group| pairs_of_group(*group))
}

/// Does the same for registers with a byte each.
pub(super) fn pairs_of_bytes(registers: &[u8; REGISTERS]) -> impl Iterator<Item = u64> {
    let (words, _) = registers.as_chunks::<8>();
    words
        .iter()
        .map(|word| pairs_of_word(u64::from_le_bytes(*word)))
}

/// Keeps the higher rank of each register in `into`, which has a byte per register.
pub(super) fn merge(registers: &[u8], into: &mut [u8; REGISTERS]) {
    let (groups, _) = registers.as_chunks::<12>();
    let (into, _) = into.as_chunks_mut::<16>();
    for (into, group) in into.iter_mut().zip(groups) {
        let (Some(low), Some(high)) = (group.first_chunk(), group.last_chunk()) else {
            continue;
        };
        // Two whole words; the second begins with the last bits of the first half.
        let halves = [u64::from_le_bytes(*low), u64::from_le_bytes(*high) >> 16];
        let (words, _) = into.as_chunks_mut::<8>();
        for (word, packed) in words.iter_mut().zip(halves) {
            let ranks = word_of_pairs(pairs_of_packed(packed));
            *word = higher(u64::from_le_bytes(*word), ranks).to_le_bytes();
        }
    }
}

/// Packs registers of a byte each into 6 bits each.
pub(super) fn pack(registers: &[u8; REGISTERS], into: &mut [u8]) {
    let (groups, _) = into.as_chunks_mut::<6>();
    for (group, pairs) in groups.iter_mut().zip(pairs_of_bytes(registers)) {
        let halves = pairs & 0x0000_0FFF_0000_0FFF | pairs >> 4 & 0x00FF_F000_00FF_F000;
        let packed = halves & 0x0000_0000_00FF_FFFF | halves >> 8 & 0x0000_FFFF_FF00_0000;
        group.copy_from_slice(&packed.to_le_bytes()[..6]);
    }
}

/// Returns the higher of every two bytes, which are less than 128.
#[inline]
fn higher(a: u64, b: u64) -> u64 {
    const TOP: u64 = 0x8080_8080_8080_8080;
    // The top bit stays set where the subtraction did not borrow from it.
    let not_less = ((a | TOP) - b) & TOP;
    let kept = not_less - (not_less >> 7);
    b ^ (a ^ b) & kept
}

#[inline]
fn pairs_of_group(group: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = group;
    pairs_of_packed(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
}

/// Spreads the lowest 48 bits into pairs.
#[inline]
fn pairs_of_packed(packed: u64) -> u64 {
    let halves = packed & 0x0000_0000_00FF_FFFF | (packed & 0x0000_FFFF_FF00_0000) << 8;
    halves & 0x0000_0FFF_0000_0FFF | (halves & 0x00FF_F000_00FF_F000) << 4
}

#[inline]
fn word_of_pairs(pairs: u64) -> u64 {
    pairs & 0x003F_003F_003F_003F | (pairs & 0x0FC0_0FC0_0FC0_0FC0) << 2
}

#[inline]
fn pairs_of_word(word: u64) -> u64 {
    word & 0x003F_003F_003F_003F | word >> 2 & 0x0FC0_0FC0_0FC0_0FC0
}
