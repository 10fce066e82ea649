//! The one hash of keys and fields: keyed by a seed that each process draws anew, so that nobody
//! outside can choose keys that collide.

use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use foldhash::quality::RandomState;

/// Bits 56 to 63 choose the shard; the others belong to the table.
#[inline]
pub(crate) fn of(bytes: &[u8]) -> u64 {
    let mut hasher = STATE.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);
