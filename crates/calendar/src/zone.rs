//! Time zones of exchanges, and their daylight saving time.

use crate::{DAY_S, date_of_days, days_of_date, weekday};

/// A time zone: the offset of its standard time, and the rule of its daylight saving time.
///
/// The rules are those since 2007 for America and since 1996 for Europe. They are applied to all
/// years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Seconds of standard time ahead of UTC.
    standard_s: i64,
    saving: SavingRule,
}

/// When clocks are one hour ahead of standard time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavingRule {
    /// Never.
    None,
    /// From 2:00 of the second Sunday of March to 2:00 of the first Sunday of November, by the
    /// clocks of the place.
    America,
    /// From 1:00 UTC of the last Sunday of March to 1:00 UTC of the last Sunday of October.
    Europe,
}

impl Zone {
    /// UTC.
    pub const UTC: Zone = Zone::new(0, SavingRule::None);
    /// America/New_York.
    pub const NEW_YORK: Zone = Zone::new(-5, SavingRule::America);
    /// America/Chicago.
    pub const CHICAGO: Zone = Zone::new(-6, SavingRule::America);
    /// Europe/London.
    pub const LONDON: Zone = Zone::new(0, SavingRule::Europe);
    /// Europe/Amsterdam, Europe/Berlin and their neighbours.
    pub const CENTRAL_EUROPE: Zone = Zone::new(1, SavingRule::Europe);
    /// Asia/Tokyo.
    pub const TOKYO: Zone = Zone::new(9, SavingRule::None);

    const fn new(standard_hours: i64, saving: SavingRule) -> Zone {
        Zone {
            standard_s: standard_hours * HOUR_S,
            saving,
        }
    }

    /// Returns the seconds that clocks of the place are ahead of UTC at a time (seconds since the
    /// UNIX epoch).
    pub const fn offset_s(self, unix_s: i64) -> i64 {
        let (year, _, _) = date_of_days(unix_s.div_euclid(DAY_S));
        let (begins_s, ends_s) = match self.saving {
            SavingRule::None => return self.standard_s,
            SavingRule::America => {
                let begins = first_sunday(year, 3) + 7;
                let ends = first_sunday(year, 11);
                // Both at two o'clock, which is the third hour of standard time, the second one of
                // daylight saving time.
                (
                    begins * DAY_S + 2 * HOUR_S - self.standard_s,
                    ends * DAY_S + HOUR_S - self.standard_s,
                )
            }
            SavingRule::Europe => (
                last_sunday(year, 3) * DAY_S + HOUR_S,
                last_sunday(year, 10) * DAY_S + HOUR_S,
            ),
        };
        let saves = begins_s <= unix_s && unix_s < ends_s;
        self.standard_s + if saves { HOUR_S } else { 0 }
    }

    /// Returns the time at which clocks of the place show `local_s` (seconds since 1970-01-01
    /// 00:00 by these clocks), in seconds since the UNIX epoch.
    ///
    /// In the hour that clocks show twice this is the second time; in the hour that they leave
    /// out, the time by standard time.
    pub const fn unix_s(self, local_s: i64) -> i64 {
        let standard = local_s - self.standard_s;
        let saving = standard - HOUR_S;
        match self.offset_s(standard) == self.standard_s {
            // By standard time it is standard time.
            true => standard,
            false if self.offset_s(saving) == self.standard_s => standard,
            false => saving,
        }
    }
}

/// Returns the month's first Sunday, in days since 1970-01-01.
const fn first_sunday(year: i64, month: i64) -> i64 {
    let first = days_of_date(year, month, 1);
    first + (7 - weekday(first)) % 7
}

/// Returns the month's last Sunday, in days since 1970-01-01.
const fn last_sunday(year: i64, month: i64) -> i64 {
    first_sunday(year, month + 1) - 7
}

const HOUR_S: i64 = 3_600;

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since the UNIX epoch of a minute in UTC.
    fn utc(date: (i64, i64, i64), hour: i64, minute: i64) -> i64 {
        days_of_date(date.0, date.1, date.2) * DAY_S + hour * HOUR_S + minute * 60
    }

    #[test]
    fn clocks_change_at_the_second_of_the_rule() {
        // The dates are those that the ministries published.
        for (zone, begins_s, ends_s, standard) in [
            (
                Zone::NEW_YORK,
                utc((2024, 3, 10), 7, 0),
                utc((2024, 11, 3), 6, 0),
                -5,
            ),
            (
                Zone::NEW_YORK,
                utc((2007, 3, 11), 7, 0),
                utc((2007, 11, 4), 6, 0),
                -5,
            ),
            (
                Zone::CHICAGO,
                utc((2023, 3, 12), 8, 0),
                utc((2023, 11, 5), 7, 0),
                -6,
            ),
            (
                Zone::CHICAGO,
                utc((2026, 3, 8), 8, 0),
                utc((2026, 11, 1), 7, 0),
                -6,
            ),
            (
                Zone::LONDON,
                utc((2024, 3, 31), 1, 0),
                utc((2024, 10, 27), 1, 0),
                0,
            ),
            (
                Zone::CENTRAL_EUROPE,
                utc((2025, 3, 30), 1, 0),
                utc((2025, 10, 26), 1, 0),
                1,
            ),
        ] {
            let hours = |unix_s| zone.offset_s(unix_s) / HOUR_S;
            assert_eq!(hours(begins_s - 1), standard);
            assert_eq!(hours(begins_s), standard + 1);
            assert_eq!(hours(ends_s - 1), standard + 1);
            assert_eq!(hours(ends_s), standard);
        }
        assert_eq!(Zone::TOKYO.offset_s(utc((2024, 7, 1), 0, 0)), 9 * HOUR_S);
    }

    #[test]
    fn what_clocks_show_leads_back_to_the_time() {
        for zone in [
            Zone::NEW_YORK,
            Zone::CHICAGO,
            Zone::LONDON,
            Zone::CENTRAL_EUROPE,
            Zone::TOKYO,
        ] {
            let mut ambiguous = 0;
            for half_hour in 0..2 * 24 * 366 {
                let unix_s = utc((2024, 1, 1), 0, 0) + half_hour * 1_800;
                let local_s = unix_s + zone.offset_s(unix_s);
                let back_s = zone.unix_s(local_s);
                assert!(back_s == unix_s || back_s == unix_s + HOUR_S);
                ambiguous += i64::from(back_s != unix_s);
            }
            assert_eq!(ambiguous, if zone == Zone::TOKYO { 0 } else { 2 });
        }
    }
}
