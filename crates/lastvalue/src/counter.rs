//! A counter that does not slow down its neighbours.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter on its own cache lines, so that lanes that count in parallel do not contend for a
/// line. It takes two lines of 64 bytes, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct PaddedCounter(AtomicU64);

impl PaddedCounter {
    /// Creates a counter at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `count`. Any thread may call this.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Returns the current count. It does not order other memory accesses.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the current count and resets it to zero, for rates over an interval.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_no_cache_line() {
        assert_eq!(size_of::<[PaddedCounter; 2]>(), 256);
    }

    #[test]
    fn counts_of_all_threads_arrive() {
        let counter = PaddedCounter::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| counter.increment()));
            }
        });
        assert_eq!(counter.take(), 4_000);
        assert_eq!(counter.value(), 0);
    }
}
