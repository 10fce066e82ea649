//! The hash function of keys and fields. Each process draws a random seed, so that clients cannot
//! choose keys that collide.

use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

#[cfg(not(debug_assertions))]
use foldhash::quality::RandomState;
#[cfg(debug_assertions)]
use foldhash::quality::SeedableRandomState as RandomState;

/// Hashes a key or field. Bits 56 to 63 choose the shard; the others belong to the table.
#[inline]
pub(crate) fn of(bytes: &[u8]) -> u64 {
    let mut hasher = STATE.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns the 16 bits of a hash that an entry keeps in its pointer: the table's directory bits,
/// then finer ones.
#[inline]
pub(crate) fn hash_bits(hash: u64) -> u16 {
    (hash >> 40) as u16
}

/// Returns a number whose bits all depend on all bits of `word` (SplitMix64).
#[inline]
pub(crate) fn mixed(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

/// Makes keys have the same hashes in every process from now on. For a simulator, before the first
/// key. No effect in a release build, where it would cost a load per hash.
pub fn fix_hashes() {
    #[cfg(debug_assertions)]
    IS_FIXED.store(true, std::sync::atomic::Ordering::Relaxed);
}

#[cfg(not(debug_assertions))]
static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);
#[cfg(debug_assertions)]
static STATE: LazyLock<RandomState> =
    LazyLock::new(
        || match IS_FIXED.load(std::sync::atomic::Ordering::Relaxed) {
            true => RandomState::fixed(),
            false => RandomState::random(),
        },
    );
#[cfg(debug_assertions)]
static IS_FIXED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
