//! Rates per second for INFO: sampled when INFO is called, and ten times a second while the first
//! lane has something to do.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::activity::Activity;

/// Totals at a few moments.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    moments: Mutex<VecDeque<Moment>>,
}

/// Totals at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Monotonic.
    pub(crate) now_ns: u64,
    pub(crate) commands: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) turns: u64,
    pub(crate) busy_ns: u64,
}

/// Rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    pub(crate) commands: f64,
    pub(crate) read_bytes: f64,
    pub(crate) written_bytes: f64,
    pub(crate) turns: f64,
    /// µs of one turn.
    pub(crate) turn_us: f64,
}

/// Statistics of one lane's turns. Only the lane writes.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Total upkeep of the timed turns.
    upkeep_ns: AtomicU64,
    commands_max: AtomicU64,
    /// The lane's current activity.
    pub(crate) doing: Activity,
}

impl Turns {
    /// Notes how many commands one turn has executed.
    #[inline]
    pub(crate) fn note_commands(&self, commands: u64) {
        if commands > self.commands_max.load(Ordering::Relaxed) {
            self.commands_max.store(commands, Ordering::Relaxed);
        }
    }

    /// The upkeep of a turn took this long.
    pub(crate) fn note_upkeep(&self, time: Duration) {
        // Short ones are not lost by rounding: each counts as a microsecond at least.
        let ns = (time.as_nanos() as u64).max(1_000);
        let sum = self.upkeep_ns.load(Ordering::Relaxed) + ns;
        self.upkeep_ns.store(sum, Ordering::Relaxed);
    }

    /// Total upkeep of the timed turns, µs.
    pub(crate) fn upkeep_us(&self) -> u64 {
        self.upkeep_ns.load(Ordering::Relaxed) / 1_000
    }

    /// The most commands in one turn.
    pub(crate) fn commands_max(&self) -> u64 {
        self.commands_max.load(Ordering::Relaxed)
    }
}

impl Rates {
    /// Keeps a moment, unless the last one was just now.
    pub(crate) fn note(&self, moment: Moment) {
        let mut moments = self.moments.lock();
        let last_ns = moments.back().map_or(0, |last| last.now_ns);
        if moment.now_ns < last_ns + MOMENT_NS {
            return;
        }
        if moments.len() == MOMENTS_MAX {
            moments.pop_front();
        }
        moments.push_back(moment);
        debug_assert!(moments.len() <= MOMENTS_MAX, "moments have their bound");
    }

    /// Returns the rates since the oldest moment.
    pub(crate) fn rate(&self, now: Moment) -> Rate {
        let moments = self.moments.lock();
        let Some(then) = moments.front().filter(|then| then.now_ns < now.now_ns) else {
            return Rate::default();
        };
        let seconds = (now.now_ns - then.now_ns) as f64 / 1e9;
        debug_assert!(seconds > 0.0, "a rate is over a time");
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let turns = rate(now.turns, then.turns);
        Rate {
            commands: rate(now.commands, then.commands),
            read_bytes: rate(now.read_bytes, then.read_bytes),
            written_bytes: rate(now.written_bytes, then.written_bytes),
            turns,
            turn_us: rate(now.busy_ns, then.busy_ns) / 1_000.0 / turns.max(f64::MIN_POSITIVE),
        }
    }

    /// Forgets everything.
    pub(crate) fn reset(&self) {
        self.moments.lock().clear();
    }
}

/// Redis averages as many samples.
const MOMENTS_MAX: usize = 16;
const MOMENT_NS: u64 = 90_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_moments() {
        let rates = Rates::default();
        let moment = |tenth: u64, commands: u64| Moment {
            now_ns: tenth * 100_000_000 + 1_000_000_000,
            commands,
            ..Moment::default()
        };
        assert_eq!(rates.rate(moment(1, 5)), Rate::default());
        (0..100).for_each(|tenth| rates.note(moment(tenth, 1_000_000)));
        (100..116).for_each(|tenth| rates.note(moment(tenth, 1_000_000 + tenth * 10)));
        rates.note(Moment {
            now_ns: moment(115, 0).now_ns + 1,
            ..Moment::default()
        });
        let rate = rates.rate(moment(116, 1_001_160));
        assert!((rate.commands - 100.0).abs() < 1e-6, "{rate:?}");
    }
}
