//! Rate limits for log messages.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Allows a few events per period and counts the rest.
#[derive(Debug)]
pub struct Seldom {
    period_s: u64,
    most: u64,
    /// The current period, and the number of events in it.
    period: AtomicU64,
    count: AtomicU64,
}

impl Seldom {
    /// Allows up to `most` events per `period_s` seconds.
    pub const fn new(most: u64, period_s: u64) -> Self {
        Self {
            period_s,
            most,
            period: AtomicU64::new(0),
            count: AtomicU64::new(0),
        }
    }

    /// Notes an event. Returns `None` if it must not be logged, and otherwise how many were left
    /// out before.
    pub fn note(&self, unix_s: u64) -> Option<u64> {
        let period = unix_s / self.period_s + 1;
        if self.period.swap(period, Ordering::AcqRel) != period {
            let left_out = self.count.swap(1, Ordering::AcqRel);
            return Some(left_out.saturating_sub(self.most));
        }
        let count = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        (count <= self.most).then_some(0)
    }

    /// Works like [`Seldom::note`], with the machine's clock.
    pub fn note_now(&self) -> Option<u64> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        self.note(since.map_or(0, |since| since.as_secs()))
    }
}

/// Logs that a peer failed to authenticate. Credentials are never logged.
#[cold]
pub fn note_failed_login(protocol: &str, address: &str, user: &[u8]) {
    if let Some(left_out) = FAILED_LOGINS.note_now() {
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

/// Limits the log lines that a client causes by guessing passwords.
static FAILED_LOGINS: Seldom = Seldom::new(20, 1);
const USER_BYTES_SHOWN: usize = 64;

/// A failure that repeats: it is reported immediately, then at growing intervals.
#[derive(Debug, Default)]
pub struct Repeated {
    /// Time of the first failure, number of failures since, and time until the next report.
    failing: Option<(Instant, u64, Duration)>,
}

impl Repeated {
    /// Notes a failure. Returns the number of failures and their duration if a report is due.
    pub fn failed(&mut self, now: Instant) -> Option<(u64, Duration)> {
        let (since, count, next) = self.failing.get_or_insert((now, 0, Duration::ZERO));
        *count += 1;
        let lasts = now.saturating_duration_since(*since);
        if lasts < *next {
            return None;
        }
        *next = (lasts * 3).clamp(INTERVAL_MIN, lasts + INTERVAL_MAX);
        Some((*count, lasts))
    }

    /// Notes a success.
    pub fn works(&mut self) {
        self.failing = None;
    }
}

/// What the log says of a link to a peer that is connected again whenever it ends.
///
/// A link counts as made when the peer answers: the machine of a program that hangs still accepts
/// connections. The log tells each end once, and then at growing intervals while the link fails or
/// never lasts for long.
#[derive(Debug, Default)]
pub struct LinkLog {
    failures: Repeated,
    /// When the peer answered first on the present connection.
    answered: Option<Instant>,
    /// Whether the last line said that the link is made.
    is_told: bool,
    /// The last reason that the peer gave for an end.
    reason: Option<u16>,
}

impl LinkLog {
    /// Notes that the peer has answered. Returns whether to log that the link is made.
    pub fn answers(&mut self, now: Instant) -> bool {
        if self.answered.is_some() {
            return false;
        }
        self.answered = Some(now);
        !std::mem::replace(&mut self.is_told, true)
    }

    /// Returns whether the peer has answered on the present connection.
    pub fn has_answered(&self) -> bool {
        self.answered.is_some()
    }

    /// Notes the same of an end for which the peer has given a reason. One that is new is due.
    pub fn ends_because(&mut self, now: Instant, reason: u16) -> Option<(u64, Duration)> {
        if self.reason != Some(reason) {
            self.reason = Some(reason);
            self.failures.works();
        }
        self.ends(now)
    }

    /// Notes that the connection has ended, or could not be made. Returns the number of ends and
    /// their duration if a line is due.
    pub fn ends(&mut self, now: Instant) -> Option<(u64, Duration)> {
        let lasted = self
            .answered
            .take()
            .map(|answered| now.saturating_duration_since(answered));
        if lasted.is_some_and(|lasted| lasted >= INTERVAL_MIN) {
            self.failures.works();
        }
        let due = self.failures.failed(now);
        self.is_told &= due.is_none();
        due
    }
}

/// The first interval between two reports, and the longest.
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

    /// A source that hung caused three lines every three seconds.
    #[test]
    fn a_peer_that_hangs_or_hangs_up_again_and_again_is_told_at_growing_intervals() {
        let (begin, mut log) = (Instant::now(), LinkLog::default());
        let at = |s: u64| begin + Duration::from_secs(s);
        assert!(log.answers(at(0)) && !log.answers(at(5)));
        assert!(log.ends(at(60)).is_some(), "it had lasted");
        let told: Vec<u64> = (21..400)
            .map(|turn| turn * 3)
            .filter(|&s| log.ends(at(s)).is_some())
            .collect();
        assert_eq!(told, [72, 96, 168, 384, 1_032]);
        assert!(log.answers(at(1_300)), "after the line that it was lost");
        assert!(log.ends(at(1_320)).is_some(), "it had lasted");
        let mut lines = 0;
        for moment in 0..100_000 {
            let now = at(1_320) + Duration::from_millis(10 * moment);
            lines += u32::from(log.answers(now)) + u32::from(log.ends(now).is_some());
        }
        assert!(
            lines < 20,
            "{lines} lines about a peer that hangs up at once"
        );
    }

    #[test]
    fn a_new_reason_is_told_at_once_and_the_same_one_is_not() {
        let (begin, mut log) = (Instant::now(), LinkLog::default());
        let at = |s: u64| begin + Duration::from_secs(s);
        assert!(log.ends(at(0)).is_some(), "nothing listens");
        assert!(log.ends(at(1)).is_none());
        let told: Vec<u64> = (2..30)
            .filter(|&s| log.ends_because(at(s), 12).is_some())
            .collect();
        assert_eq!(told, [2, 12]);
        assert!(log.ends(at(30)).is_none() && log.ends_because(at(31), 12).is_none());
        assert!(log.ends_because(at(32), 13).is_some());
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
