//! The access bits of a key, 24 bits of its entry: the second of its last use. Under an LFU policy
//! they are the minute of the last use (16 bits) and a logarithmic counter (8 bits); under an LRM
//! policy the second of the last change.
//!
//! Both wrap: seconds after 194 days, minutes after 45. A use writes only if the bits change, so
//! that a key that is read all the time is written once per second.

/// What is recorded about the use of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedUse {
    /// The time of the last use: LRU, and policies that need nothing.
    Time,
    /// How often a key is used: LFU.
    Frequency,
    /// The time of the last change: LRM.
    ChangeTime,
}

/// Settings of the access bits in one word, so that a command reads them in one load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access(pub(crate) u64);

impl Access {
    /// Creates the settings: what is recorded, and for LFU `lfu-log-factor` and `lfu-decay-time`.
    pub(crate) fn new(recorded: RecordedUse, log_factor: u32, decay_minutes: u32) -> Self {
        let kind = match recorded {
            RecordedUse::Time => 0,
            RecordedUse::Frequency => COUNTS,
            RecordedUse::ChangeTime => BY_CHANGE,
        };
        let log_factor = log_factor.min(NUMBER_MAX);
        Access(kind | u64::from(log_factor) << 32 | u64::from(decay_minutes))
    }

    /// Returns whether a use is recorded otherwise than by its time.
    #[inline]
    pub(crate) fn is_special(self) -> bool {
        self.0 & (COUNTS | BY_CHANGE) != 0
    }

    /// Returns whether frequency of use (LFU) is recorded.
    #[inline]
    pub(crate) fn counts(self) -> bool {
        self.0 & COUNTS != 0
    }

    /// Returns the bits of a new key. Under LRU, these are also the bits of a key used now.
    #[inline]
    pub(crate) fn initial(self, now_ms: i64) -> u32 {
        if self.counts() {
            self.with_frequency(COUNT_INITIAL, now_ms)
        } else {
            second(now_ms)
        }
    }

    /// Returns the LFU bits of a key used now that had `old`; `random` is any number.
    pub(crate) fn counted(self, old: u32, now_ms: i64, random: u64) -> u32 {
        let count = self.frequency(old, now_ms);
        let weight = u64::from(count.saturating_sub(COUNT_INITIAL));
        let log_factor = self.0 >> 32 & u64::from(NUMBER_MAX);
        // Only one of `uses` uses increments the counter, on average.
        let uses = weight * log_factor + 1;
        let counts = (u128::from(random) * u128::from(uses)) >> 64 == 0;
        self.with_frequency(count.saturating_add(u8::from(counts)), now_ms)
    }

    /// Returns how often the key is used: the counter, minus one per decay period without use.
    pub(crate) fn frequency(self, access: u32, now_ms: i64) -> u8 {
        let decay_minutes = (self.0 & u64::from(u32::MAX)) as u32;
        let idle_minutes = minute(now_ms).wrapping_sub(access >> 8) & 0xFFFF;
        let periods = idle_minutes.checked_div(decay_minutes).unwrap_or(0);
        (access & 0xFF).saturating_sub(periods) as u8
    }

    /// Returns the bits of a key with this counter, used now.
    pub(crate) fn with_frequency(self, count: u8, now_ms: i64) -> u32 {
        debug_assert!(minute(now_ms) << 8 <= ACCESS_MAX, "an entry keeps 24 bits");
        minute(now_ms) << 8 | u32::from(count)
    }
}

/// Returns the seconds since the last use.
pub(crate) fn idle_s(access: u32, now_ms: i64) -> u32 {
    second(now_ms).wrapping_sub(access) & ACCESS_MAX
}

/// Returns the bits of a key that was last used `idle_s` seconds ago.
pub(crate) fn used_before(idle_s: u64, now_ms: i64) -> u32 {
    second(now_ms).wrapping_sub(idle_s as u32) & ACCESS_MAX
}

#[inline]
fn second(now_ms: i64) -> u32 {
    (now_ms as u64 / 1_000) as u32 & ACCESS_MAX
}

fn minute(now_ms: i64) -> u32 {
    (now_ms as u64 / 60_000) as u32 & 0xFFFF
}

const COUNTS: u64 = 1 << 63;
const BY_CHANGE: u64 = 1 << 62;
/// The counter of a new key: high enough that it is not the first to be evicted.
const COUNT_INITIAL: u8 = 5;
const ACCESS_MAX: u32 = (1 << 24) - 1;
const NUMBER_MAX: u32 = (1 << 30) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_700_000_000_000;

    #[test]
    fn idle_seconds_are_right_after_the_clock_wraps() {
        let access = Access::default();
        for start_ms in [NOW_MS, (1 << 24) * 1_000 - 500, 0] {
            let used = access.initial(start_ms);
            assert_eq!(idle_s(used, start_ms), 0);
            assert_eq!(idle_s(used, start_ms + 5_000), 5);
            assert_eq!(idle_s(used_before(1_000, start_ms), start_ms), 1_000);
        }
    }

    #[test]
    fn a_count_grows_logarithmically_and_decays_by_the_minute() {
        let access = Access::new(RecordedUse::Frequency, 10, 1);
        let mut used = access.initial(NOW_MS);
        assert_eq!(access.frequency(used, NOW_MS), 5);
        let mut random = 1u64;
        let mut at = Vec::new();
        for count in 1..=1_000_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            used = access.counted(used, NOW_MS, random);
            if [100, 1_000, 100_000, 1_000_000].contains(&count) {
                at.push(access.frequency(used, NOW_MS));
            }
        }
        // Redis's redis.conf gives 10, 18, 142 and 255 for this factor.
        assert!((8..=13).contains(&at[0]), "{at:?}");
        assert!((15..=24).contains(&at[1]), "{at:?}");
        assert!((120..=165).contains(&at[2]), "{at:?}");
        assert_eq!(at[3], 255);
        assert_eq!(access.frequency(used, NOW_MS + 10 * 60_000), 245);
        assert_eq!(access.frequency(used, NOW_MS + 300 * 60_000), 0);
        let never = Access::new(RecordedUse::Frequency, 0, 0);
        assert_eq!(never.frequency(used, NOW_MS + 300 * 60_000), 255);
        let few = never.with_frequency(7, NOW_MS);
        assert_eq!(
            never.frequency(never.counted(few, NOW_MS, u64::MAX), NOW_MS),
            8
        );
    }
}
