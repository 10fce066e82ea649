//! Loops timed on one core: how long one operation takes.

use std::time::{Duration, Instant};

use super::report::Spread;

/// ns an operation of `batch`, which returns how many operations it did; over `samples` samples.
///
/// A sample is as many batches as fit in `sample_time`. The first, which warms up, is left out.
pub(crate) fn ns_an_operation(
    samples: usize,
    sample_time: Duration,
    mut batch: impl FnMut() -> u64,
) -> Spread {
    let mut sample = || {
        let start = Instant::now();
        let mut operations = 0;
        loop {
            operations += batch();
            let elapsed = start.elapsed();
            if elapsed >= sample_time {
                return elapsed.as_nanos() as f64 / operations as f64;
            }
        }
    };
    sample();
    Spread::of((0..samples).map(|_| sample()))
}

/// Millions a second, from ns each.
pub(crate) fn millions_a_second(ns: Spread) -> Spread {
    Spread {
        median: 1e3 / ns.median,
        min: 1e3 / ns.max,
        max: 1e3 / ns.min,
    }
}
