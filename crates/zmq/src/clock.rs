//! The time, and chance.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::time::Instant;

/// Nanoseconds since the process first asked; never goes back.
#[inline]
pub(crate) fn now_ns() -> u64 {
    START.elapsed().as_nanos() as u64
}

/// Returns a number that is hard to predict: for jitter and routing ids, not for keys.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(now_ns())
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
