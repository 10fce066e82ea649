//! Trading days: which day of its exchange a time belongs to.

use crate::{DAY_S, Zone, date_number, weekday};

/// When the trading days of an exchange begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradingCalendar {
    zone: Zone,
    /// Seconds before midnight at which a day begins.
    ahead_s: i64,
    joins_weekends: bool,
}

/// A trading day of an exchange. Its times are in nanoseconds since the UNIX epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradingDay {
    /// The date, in days since 1970-01-01.
    pub days: i32,
    /// The first nanosecond.
    pub start_ns: u64,
    /// The first nanosecond of the next day; greater than `start_ns`.
    pub end_ns: u64,
}

impl TradingCalendar {
    /// Creates a calendar whose days begin at midnight of `zone`.
    pub const fn new(zone: Zone) -> Self {
        Self {
            zone,
            ahead_s: 0,
            joins_weekends: false,
        }
    }

    /// Lets each day begin at `hour` (12 to 23) of the evening before.
    pub const fn from_evening(self, hour: i64) -> Self {
        assert!(12 <= hour && hour < 24, "an hour of the evening");
        Self {
            ahead_s: DAY_S - hour * 3_600,
            ..self
        }
    }

    /// Adds Saturday and Sunday to the Monday behind them.
    pub const fn joining_weekends(self) -> Self {
        Self {
            joins_weekends: true,
            ..self
        }
    }

    /// Returns the trading day that contains a time (nanoseconds since the UNIX epoch).
    pub const fn day_of(&self, unix_ns: u64) -> TradingDay {
        let unix_s = (unix_ns / SECOND_NS) as i64;
        let local_s = unix_s + self.zone.offset_s(unix_s) + self.ahead_s;
        let date = local_s.div_euclid(DAY_S);
        // Saturday and Sunday lead to Monday.
        let (first, last) = match weekday(date) {
            6 if self.joins_weekends => (date, date + 2),
            0 if self.joins_weekends => (date - 1, date + 1),
            1 if self.joins_weekends => (date - 2, date),
            _ => (date, date),
        };
        let day = TradingDay {
            days: last as i32,
            start_ns: self.start_ns(first),
            end_ns: self.start_ns(last + 1),
        };
        debug_assert!(
            day.start_ns <= unix_ns && unix_ns < day.end_ns || day.end_ns == u64::MAX,
            "a time is within its day"
        );
        day
    }

    /// Returns the beginning of a date without its weekend.
    const fn start_ns(&self, date: i64) -> u64 {
        let unix_s = self.zone.unix_s(date * DAY_S - self.ahead_s);
        if unix_s < 0 {
            return 0;
        }
        (unix_s as u64).saturating_mul(SECOND_NS)
    }
}

impl TradingDay {
    /// Returns the date as the number `YYYYMMDD`.
    pub const fn number(&self) -> u32 {
        date_number(self.days as i64)
    }
}

const SECOND_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::days_of_date;
    use proptest::prelude::*;

    const GLOBEX: TradingCalendar = TradingCalendar::new(Zone::CHICAGO)
        .from_evening(17)
        .joining_weekends();
    const NEW_YORK: TradingCalendar = TradingCalendar::new(Zone::NEW_YORK);
    const OSAKA: TradingCalendar = TradingCalendar::new(Zone::TOKYO)
        .from_evening(16)
        .joining_weekends();

    fn utc_ns(date: (i64, i64, i64), hour: i64, minute: i64) -> u64 {
        let minutes = (days_of_date(date.0, date.1, date.2) * 24 + hour) * 60 + minute;
        minutes as u64 * 60 * SECOND_NS
    }

    #[test]
    fn a_day_of_chicago_begins_at_five_and_its_week_on_friday() {
        let number = |date, hour, minute| GLOBEX.day_of(utc_ns(date, hour, minute)).number();
        // Winter: five o'clock is 23:00 UTC. Friday is 8 March 2024.
        assert_eq!(number((2024, 3, 7), 22, 59), 20240307);
        assert_eq!(number((2024, 3, 7), 23, 0), 20240308);
        assert_eq!(number((2024, 3, 8), 22, 59), 20240308);
        assert_eq!(number((2024, 3, 8), 23, 0), 20240311);
        assert_eq!(number((2024, 3, 10), 12, 0), 20240311);
        // Summer began on Sunday: 22:00 UTC.
        assert_eq!(number((2024, 3, 10), 22, 0), 20240311);
        assert_eq!(number((2024, 3, 11), 21, 59), 20240311);
        assert_eq!(number((2024, 3, 11), 22, 0), 20240312);
        let monday = GLOBEX.day_of(utc_ns((2024, 3, 11), 12, 0));
        assert_eq!(monday.start_ns, utc_ns((2024, 3, 8), 23, 0));
        assert_eq!(monday.end_ns, utc_ns((2024, 3, 11), 22, 0));
    }

    #[test]
    fn a_day_of_new_york_has_23_to_25_hours() {
        let hours = |date| {
            let day = NEW_YORK.day_of(utc_ns(date, 12, 0));
            (
                day.number(),
                (day.end_ns - day.start_ns) / SECOND_NS / 3_600,
            )
        };
        assert_eq!(hours((2024, 3, 9)), (20240309, 24));
        assert_eq!(hours((2024, 3, 10)), (20240310, 23));
        assert_eq!(hours((2024, 11, 3)), (20241103, 25));
    }

    #[test]
    fn the_night_session_of_osaka_belongs_to_the_next_day() {
        let number = |date, hour| OSAKA.day_of(utc_ns(date, hour, 0)).number();
        assert_eq!(number((2024, 7, 4), 6), 20240704);
        assert_eq!(number((2024, 7, 4), 8), 20240705);
        assert_eq!(number((2024, 7, 5), 8), 20240708);
    }

    #[test]
    fn the_ends_of_the_count_are_days() {
        for calendar in [GLOBEX, NEW_YORK, OSAKA] {
            assert_eq!(calendar.day_of(0).start_ns, 0);
            let last = calendar.day_of(u64::MAX);
            assert_eq!((last.number() / 10_000, last.end_ns), (2554, u64::MAX));
        }
    }

    proptest! {
        #[test]
        fn days_follow_each_other_without_a_gap(unix_ns in 0..4_000_000_000 * SECOND_NS) {
            for calendar in [GLOBEX, NEW_YORK, OSAKA] {
                let day = calendar.day_of(unix_ns);
                prop_assert!((day.start_ns..day.end_ns).contains(&unix_ns));
                prop_assert_eq!(calendar.day_of(day.start_ns), day);
                prop_assert_eq!(calendar.day_of(day.end_ns - 1), day);
                let next = calendar.day_of(day.end_ns);
                prop_assert_eq!(next.start_ns, day.end_ns);
                prop_assert!(next.days > day.days);
            }
        }
    }
}
