//! What is logged seldom, however often it happens.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::hub::unix_ns;

/// Lets a few through per period, and counts the rest.
#[derive(Debug)]
pub(crate) struct Seldom {
    period_s: u64,
    most: u64,
    /// The period that is counted, and how often it happened in it.
    period: AtomicU64,
    count: AtomicU64,
}

impl Seldom {
    /// Up to `most` times per `period_s` seconds.
    pub(crate) const fn new(most: u64, period_s: u64) -> Self {
        Self {
            period_s,
            most,
            period: AtomicU64::new(0),
            count: AtomicU64::new(0),
        }
    }

    /// It has happened; whether to log it, and how often it was not logged before.
    pub(crate) fn note(&self, unix_s: u64) -> Option<u64> {
        let period = unix_s / self.period_s + 1;
        if self.period.swap(period, Ordering::AcqRel) != period {
            let left_out = self.count.swap(1, Ordering::AcqRel);
            return Some(left_out.saturating_sub(self.most));
        }
        let count = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        (count <= self.most).then_some(0)
    }
}

/// Logs that a peer has not proved who it is; never what it sent as a proof.
#[cold]
pub(crate) fn note_failed_login(protocol: &str, address: &str, user: &[u8]) {
    if let Some(left_out) = FAILED_LOGINS.note(unix_ns() / 1_000_000_000) {
        let user = &user[..user.len().min(USER_BYTES_SHOWN)];
        tracing::info!(
            protocol,
            address,
            user = %user.escape_ascii(),
            left_out,
            "authentication failed"
        );
    }
}

/// Logs that RESTORE was given what is no value, or is broken.
#[cold]
pub(crate) fn note_bad_payload() {
    if let Some(left_out) = BAD_PAYLOADS.note(unix_ns() / 1_000_000_000) {
        tracing::warn!(
            left_out,
            "RESTORE: a payload is refused: integrity check failed"
        );
    }
}

static BAD_PAYLOADS: Seldom = Seldom::new(20, 1);

/// Somebody who tries many passwords does not fill the log.
static FAILED_LOGINS: Seldom = Seldom::new(20, 1);
const USER_BYTES_SHOWN: usize = 64;

/// Something that fails again and again: it is told at once, then at growing intervals.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    /// When it failed first, how often it failed since, and when it is told again.
    failing: Option<(Instant, u64, Duration)>,
}

impl Repeated {
    /// It has failed. What to tell: how often it has, and for how long; nothing before it is time
    /// again.
    pub(crate) fn failed(&mut self, now: Instant) -> Option<(u64, Duration)> {
        let (since, count, next) = self.failing.get_or_insert((now, 0, Duration::ZERO));
        *count += 1;
        let lasts = now.saturating_duration_since(*since);
        if lasts < *next {
            return None;
        }
        *next = (lasts * 3).clamp(INTERVAL_MIN, lasts + INTERVAL_MAX);
        Some((*count, lasts))
    }

    /// It works again.
    pub(crate) fn works(&mut self) {
        self.failing = None;
    }
}

/// The second time that something is told of, and the longest time between two.
const INTERVAL_MIN: Duration = Duration::from_secs(10);
const INTERVAL_MAX: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_told_in_each_period_and_the_rest_is_counted() {
        let seldom = Seldom::new(2, 60);
        let told: Vec<_> = [0, 0, 0, 59, 60, 61, 62].map(|s| seldom.note(s)).into();
        let expected = [Some(0), Some(0), None, None, Some(2), Some(0), None];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_goes_on_failing_is_told_at_growing_intervals() {
        let mut repeated = Repeated::default();
        let begin = Instant::now();
        let told: Vec<u64> = (0..100_000)
            .filter(|&s| repeated.failed(begin + Duration::from_secs(s)).is_some())
            .collect();
        assert_eq!(told[..5], [0, 10, 30, 90, 270]);
        assert!(
            told.windows(2)
                .all(|two| two[1] - two[0] <= INTERVAL_MAX.as_secs())
        );
        repeated.works();
        assert!(repeated.failed(begin).is_some());
    }
}
