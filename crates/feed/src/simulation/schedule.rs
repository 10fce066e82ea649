//! Pacing without a clock: when each message is due.

use std::num::NonZeroU64;

/// An even schedule: message `n` (from 0) is due `n / rate` seconds after the start.
///
/// Each time is computed from the start, not from the previous message, so errors do not add up:
/// after years the schedule is still exact to the nanosecond. Sending late does not shift it
/// (open loop): overdue messages are due at once.
///
/// ```
/// use tidewire_feed::simulation::Schedule;
///
/// let mut schedule = Schedule::new(1_000, 3.try_into().unwrap());
/// assert_eq!(schedule.due(1_000), 1);
/// schedule.sent(1);
/// assert_eq!(schedule.next_ns(), 1_000 + 333_333_333);
/// assert_eq!(schedule.due(1_000 + 1_000_000_000), 3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    start_ns: u64,
    rate: NonZeroU64,
    sent: u64,
}

impl Schedule {
    /// Maximum rate in messages per second.
    pub const RATE_MAX: u64 = 1_000_000_000;

    /// Creates a schedule from `start_ns` on any clock, with `rate` messages per second, at most
    /// [`RATE_MAX`](Self::RATE_MAX).
    pub const fn new(start_ns: u64, rate: NonZeroU64) -> Self {
        let rate = if rate.get() > Self::RATE_MAX {
            NonZeroU64::new(Self::RATE_MAX).expect("the rate is not zero")
        } else {
            rate
        };
        Self {
            start_ns,
            rate,
            sent: 0,
        }
    }

    /// Returns the number of messages due at `now_ns` and not sent yet.
    #[inline]
    pub fn due(&self, now_ns: u64) -> u64 {
        let Some(elapsed_ns) = now_ns.checked_sub(self.start_ns) else {
            return 0;
        };
        let (seconds, part_ns) = (elapsed_ns / SECOND_NS, elapsed_ns % SECOND_NS);
        // Message m of a second is due at floor(m * 1e9 / rate): count those at or before part.
        let in_second = ((part_ns + 1) * self.rate.get()).div_ceil(SECOND_NS);
        let all = seconds
            .saturating_mul(self.rate.get())
            .saturating_add(in_second);
        all.saturating_sub(self.sent)
    }

    /// Notes that `count` more messages were sent.
    pub fn sent(&mut self, count: u64) {
        self.sent += count;
    }

    /// Returns when message `number` is due, on the clock of the start; [`u64::MAX`] beyond its
    /// range.
    #[inline]
    pub fn time_ns(&self, number: u64) -> u64 {
        let rate = self.rate.get();
        let (seconds, rest) = (number / rate, number % rate);
        seconds
            .saturating_mul(SECOND_NS)
            .saturating_add(rest * SECOND_NS / rate)
            .saturating_add(self.start_ns)
    }

    /// Returns when the next unsent message is due: the time to sleep until.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.time_ns(self.sent)
    }

    /// Returns the number of the next message, which is the number of messages sent.
    pub const fn number(&self) -> u64 {
        self.sent
    }
}

const SECOND_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [u64; 9] = [
        1,
        3,
        7,
        1_000,
        44_100,
        999_983,
        1_000_000,
        123_456_789,
        SECOND_NS,
    ];

    #[test]
    fn a_message_is_due_at_its_time_and_not_a_nanosecond_before() {
        for rate in RATES {
            let schedule = Schedule::new(17, NonZeroU64::new(rate).unwrap());
            for number in [1, 2, 5, rate - 1, rate, rate + 1, 31 * rate + rate / 3] {
                let time_ns = schedule.time_ns(number);
                let exact = u128::from(number) * u128::from(SECOND_NS) / u128::from(rate) + 17;
                assert_eq!(u128::from(time_ns), exact);
                assert!(
                    schedule.due(time_ns) > number,
                    "rate {rate}, message {number}"
                );
                assert!(
                    schedule.due(time_ns - 1) <= number,
                    "rate {rate}, message {number}"
                );
            }
        }
    }

    #[test]
    fn ten_years_later_nothing_has_drifted_or_overflowed() {
        let year_ns = 365 * 86_400 * SECOND_NS;
        for rate in RATES {
            let start_ns = 1_700_000_000 * SECOND_NS;
            let mut schedule = Schedule::new(start_ns, NonZeroU64::new(rate).unwrap());
            let now_ns = start_ns + 10 * year_ns;
            let sent = schedule.due(now_ns) - 1;
            assert_eq!(sent, 10 * 365 * 86_400 * rate);
            schedule.sent(sent);
            assert_eq!((schedule.next_ns(), schedule.due(now_ns)), (now_ns, 1));
        }
    }

    #[test]
    fn the_ends_of_time_saturate() {
        let schedule = Schedule::new(u64::MAX - 5, NonZeroU64::new(1).unwrap());
        assert_eq!(schedule.time_ns(1), u64::MAX);
        assert_eq!(schedule.due(0), 0);
        let schedule = Schedule::new(0, NonZeroU64::MAX);
        assert_eq!(
            schedule.due(u64::MAX),
            u64::MAX,
            "the rate is held at its maximum"
        );
    }
}
