//! What one client counts in a sum over all of them.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Bytes that a client counts in a sum. Its lane notes what it holds. Any thread may end it, and
/// what it has counted is taken back once. What its lane notes later counts nothing: a client that
/// was cut off goes on until its connection is closed.
#[derive(Debug, Default)]
pub(crate) struct CountedBytes(AtomicU64);

impl CountedBytes {
    /// Returns what it counts now.
    pub(crate) fn get(&self) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            ENDED => 0,
            bytes => bytes,
        }
    }

    /// Returns whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ENDED
    }

    /// Counts so many bytes in place of those before. Only its lane calls this.
    #[inline]
    pub(crate) fn note(&self, bytes: u64, sum: &AtomicI64) {
        debug_assert_ne!(bytes, ENDED, "no client holds that much");
        let before = self.0.load(Ordering::Relaxed);
        if before == bytes || before == ENDED {
            return;
        }
        let noted = self
            .0
            .compare_exchange(before, bytes, Ordering::Relaxed, Ordering::Relaxed);
        match noted {
            Ok(_) => {
                sum.fetch_add(bytes as i64 - before as i64, Ordering::Relaxed);
            }
            // It was ended meanwhile, and what it had counted was taken back.
            Err(now) => debug_assert_eq!(now, ENDED, "one lane notes"),
        }
    }

    /// Takes back what it counts. Returns whether this call did: it happens once.
    pub(crate) fn end(&self, sum: &AtomicI64) -> bool {
        let bytes = self.0.swap(ENDED, Ordering::Relaxed);
        let is_first = bytes != ENDED;
        if is_first {
            sum.fetch_sub(bytes as i64, Ordering::Relaxed);
        }
        is_first
    }
}

/// It counts nothing any more.
const ENDED: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_behind_the_end_counts_nothing() {
        let (sum, bytes) = (AtomicI64::new(0), CountedBytes::default());
        for (held, total) in [(100, 100), (40, 40), (40, 40), (0, 0), (70, 70)] {
            bytes.note(held, &sum);
            assert_eq!((bytes.get(), sum.load(Ordering::Relaxed)), (held, total));
        }
        assert!(!bytes.has_ended() && bytes.end(&sum) && bytes.has_ended());
        bytes.note(90, &sum);
        assert!(!bytes.end(&sum), "it ends once");
        assert_eq!((bytes.get(), sum.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_client_that_two_threads_end_while_it_grows_leaves_nothing_in_the_sum() {
        for _ in 0..200 {
            let (sum, bytes) = (AtomicI64::new(0), CountedBytes::default());
            std::thread::scope(|scope| {
                let enders = [(); 2].map(|()| scope.spawn(|| bytes.end(&sum)));
                (1..50).for_each(|held| bytes.note(held, &sum));
                let ended = enders.map(|ender| ender.join().expect("a thread that ends it"));
                assert_ne!(ended[0], ended[1], "one of them took it back");
            });
            bytes.note(1, &sum);
            assert_eq!(sum.load(Ordering::Relaxed), 0);
        }
    }
}
