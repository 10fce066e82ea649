//! Ids of sessions of the native feed.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use tidewire_lane::unix_ns;

/// Returns an id for a new session of the native feed; not 0.
///
/// It must differ from any session that a peer may remember: this program's previous one, even if
/// it began in the same millisecond or the clock was set back, and those of other programs which
/// begin in the same instant. Time alone does not do that.
pub fn new_session_id() -> u32 {
    // Its keys are of the system's source of random numbers.
    let random = RandomState::new().hash_one(unix_ns());
    ((random >> 32) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Two replays that were started in the same instant had one id, so one took the place of the
    /// other.
    #[test]
    fn sessions_that_begin_in_the_same_instant_have_different_ids() {
        let threads: Vec<_> = (0..8)
            .map(|_| std::thread::spawn(|| (0..16).map(|_| new_session_id()).collect::<Vec<_>>()))
            .collect();
        let ids = threads.into_iter().flat_map(|all| all.join().unwrap());
        let ids: BTreeSet<u32> = ids.collect();
        // Two of 128 random ids are the same once in 500,000 runs.
        assert_eq!(ids.len(), 128);
        assert!(!ids.contains(&0));
    }
}
