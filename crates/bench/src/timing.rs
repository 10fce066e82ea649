//! Loops timed on one core: how long one operation takes.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::report::Spread;

/// Returns nanoseconds per operation of `batch`, which returns its number of operations; over
/// `samples` samples.
///
/// A sample is as many batches as fit in `sample_time`. The first, which warms up, is left out. It
/// is the thread's own processor time: what others do on its core meanwhile is not its cost.
pub(crate) fn ns_an_operation(
    samples: usize,
    sample_time: Duration,
    mut batch: impl FnMut() -> u64,
) -> Spread {
    let mut sample = || {
        let start = processor_time();
        let mut operations = 0;
        loop {
            operations += batch();
            let elapsed = processor_time().saturating_sub(start);
            if elapsed >= sample_time {
                return elapsed.as_nanos() as f64 / operations as f64;
            }
        }
    };
    sample();
    Spread::of((0..samples).map(|_| sample()))
}

/// Returns the processor time of the calling thread.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Millions a second, from ns each.
pub(crate) fn millions_a_second(ns: Spread) -> Spread {
    Spread {
        median: 1e3 / ns.median,
        min: 1e3 / ns.max,
        max: 1e3 / ns.min,
    }
}
