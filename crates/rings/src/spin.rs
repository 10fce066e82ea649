//! Waiting awake: a wait that is short ends without the kernel.

use std::time::Instant;

use crate::channel::Processors;
use crate::ring::Goal;

/// What a thread waits for without sleeping.
#[derive(Debug, Default)]
pub struct Spin {
    goals: [Option<(Goal, Processors)>; GOALS_MAX],
    count: usize,
}

/// How long it pays to spin, as far as earlier waits tell.
///
/// A wait that a spin has seen the end of sets the limit to its maximum; one that it has not seen
/// the end of halves it. Of the waits that end asleep the 32nd is spun for twice the maximum, then
/// the 64th after it, the 128th, and so on up to every 512th: two sides that both sleep make each
/// other's waits long, and one of them must stay awake for longer than a wake-up takes to see that
/// the wait itself is short.
#[derive(Debug, Clone)]
pub struct Patience {
    limit_ns: u32,
    max_ns: u32,
    /// Waits that ended asleep since the last one that was spun for longer.
    asleep: u16,
    /// After so many the next one is.
    probed_after: u16,
}

impl Spin {
    pub(crate) fn add(&mut self, goal: Goal, processors: &Processors) -> bool {
        let Some(place) = self.goals.get_mut(self.count) else {
            return false;
        };
        *place = Some((goal, processors.clone()));
        self.count += 1;
        true
    }

    /// Whether it waits for nothing.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Waits until a goal is reached, `stops` returns true, or the time is up. Whether one of the
    /// first two came.
    ///
    /// While a peer waits on the processor that this thread runs on, it gives way to it.
    pub fn run(&self, deadline: Instant, stops: impl Fn() -> bool) -> bool {
        loop {
            let own = rustix::thread::sched_getcpu() as u64 + 1;
            let mut is_shared = false;
            for (_, processors) in self.goals() {
                processors.tell(own);
                is_shared |= processors.peer() == own;
            }
            for _ in 0..if is_shared { 1 } else { ROUNDS } {
                if stops() || self.goals().any(|(goal, _)| goal.is_reached()) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if is_shared {
                rustix::thread::sched_yield();
            }
            if Instant::now() >= deadline {
                return false;
            }
        }
    }

    fn goals(&self) -> impl Iterator<Item = &(Goal, Processors)> {
        self.goals[..self.count].iter().flatten()
    }
}

impl Patience {
    /// At most this many nanoseconds.
    pub fn new(max_ns: u32) -> Patience {
        Patience {
            limit_ns: max_ns,
            max_ns,
            asleep: 0,
            probed_after: PROBED_AFTER_MIN,
        }
    }

    /// How long to spin now, in nanoseconds.
    pub fn limit_ns(&self) -> u64 {
        match self.asleep == self.probed_after {
            true => 2 * u64::from(self.max_ns),
            false => u64::from(self.limit_ns),
        }
    }

    /// The wait ended while the thread was awake.
    pub fn was_enough(&mut self) {
        self.limit_ns = self.max_ns;
        self.asleep = 0;
        self.probed_after = PROBED_AFTER_MIN;
    }

    /// The thread had to sleep.
    pub fn was_not_enough(&mut self) {
        self.limit_ns = (self.limit_ns / 2).max(self.max_ns / 32);
        if self.asleep == self.probed_after {
            self.asleep = 0;
            self.probed_after = (2 * self.probed_after + 1).min(PROBED_AFTER_MAX);
        } else {
            self.asleep += 1;
        }
        debug_assert!(self.asleep <= self.probed_after, "a probe comes");
    }
}

/// Rings looked at by one thread that spins.
const GOALS_MAX: usize = 8;
/// Looks at the rings between two looks at the clock.
const ROUNDS: u32 = 32;
/// Waits asleep before one that is spun for longer, at first and in the end.
const PROBED_AFTER_MIN: u16 = 31;
const PROBED_AFTER_MAX: u16 = 511;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_halved_by_long_waits_and_restored_by_a_short_one() {
        let mut patience = Patience::new(64_000);
        let mut limits = Vec::new();
        for _ in 0..7 {
            limits.push(patience.limit_ns());
            patience.was_not_enough();
        }
        assert_eq!(limits, [64_000, 32_000, 16_000, 8_000, 4_000, 2_000, 2_000]);
        patience.was_enough();
        assert_eq!(patience.limit_ns(), 64_000);
    }

    #[test]
    fn of_waits_asleep_ever_fewer_are_spun_for_longer_than_the_maximum() {
        let mut patience = Patience::new(64_000);
        let mut probes = Vec::new();
        for wait in 1..2_100 {
            if patience.limit_ns() > 64_000 {
                probes.push(wait);
            }
            patience.was_not_enough();
        }
        assert_eq!(probes, [32, 96, 224, 480, 992, 1504, 2016]);
        patience.was_enough();
        (0..31).for_each(|_| patience.was_not_enough());
        assert_eq!(patience.limit_ns(), 128_000);
        let nothing = Patience::new(0);
        assert_eq!(nothing.limit_ns(), 0);
    }
}
