//! Dates of the Gregorian calendar, continued to all years, as days since 1970-01-01.
//!
//! The algorithms are Howard Hinnant's `days_from_civil` and `civil_from_days`. Years up to
//! ±100 million do not overflow.

/// Returns the days from 1970-01-01 to a date. A day or month out of range continues the count:
/// day 0 is the last of the month before.
pub const fn days_of_date(year: i64, month: i64, day: i64) -> i64 {
    // Years begin with March here: the leap day then comes last.
    let (year, month_from_march) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_OF_ERA + day_of_era - DAYS_TO_1970
}

/// Returns year, month (1 to 12) and day (1 to 31) of a number of days since 1970-01-01.
pub const fn date_of_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + DAYS_TO_1970;
    let (era, day_of_era) = (
        shifted.div_euclid(DAYS_OF_ERA),
        shifted.rem_euclid(DAYS_OF_ERA),
    );
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + (month <= 2) as i64;
    (
        year,
        month,
        day_of_year - (153 * month_from_march + 2) / 5 + 1,
    )
}

/// Returns the number of days of a month; `None` if the month is not 1 to 12.
pub const fn days_of_month(year: i64, month: i64) -> Option<i64> {
    match month {
        1..=12 => Some(days_of_date(year, month + 1, 1) - days_of_date(year, month, 1)),
        _ => None,
    }
}

/// Returns the day of the week: 0 for Sunday, 6 for Saturday.
pub const fn weekday(days: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    (days + 4).rem_euclid(7)
}

/// Returns a day as the number `YYYYMMDD`; 0 before the year 1 and after 9999.
pub const fn date_number(days: i64) -> u32 {
    match date_of_days(days) {
        (year @ 1..=9_999, month, day) => (year * 10_000 + month * 100 + day) as u32,
        _ => 0,
    }
}

/// Returns the days from 1970-01-01 to a date given as `YYYYMMDD`. It is not checked.
pub const fn days_of_number(number: u32) -> i64 {
    let number = number as i64;
    days_of_date(number / 10_000, number / 100 % 100, number % 100)
}

/// Days from the first of March of the year 0 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;
/// Days of 400 years.
const DAYS_OF_ERA: i64 = 146_097;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (-134_774, (1601, 1, 1)),
            (19_782, (2024, 2, 29)),
            (11_016, (2000, 2, 29)),
            (-25_509, (1900, 2, 28)),
            (-25_508, (1900, 3, 1)),
        ] {
            assert_eq!(date_of_days(days), date);
            assert_eq!(days_of_date(date.0, date.1, date.2), days);
        }
        assert_eq!(date_number(19_782), 20_240_229);
        assert_eq!(days_of_number(20_240_229), 19_782);
        assert_eq!((date_number(-1_000_000), date_number(1 << 40)), (0, 0));
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = date_of_days(-200_000);
        for days in -199_999..200_000 {
            let (year, month, day) = date_of_days(days);
            assert_eq!(days_of_date(year, month, day), days);
            let last = days_of_month(before.0, before.1) == Some(before.2);
            let expected = match before {
                (year, 12, _) if last => (year + 1, 1, 1),
                (year, month, _) if last => (year, month + 1, 1),
                (year, month, day) => (year, month, day + 1),
            };
            assert_eq!((year, month, day), expected);
            before = (year, month, day);
        }
    }

    #[test]
    fn a_month_has_its_days_and_a_week_seven() {
        assert_eq!(days_of_month(2023, 2), Some(28));
        assert_eq!(days_of_month(2000, 2), Some(29));
        assert_eq!(days_of_month(1900, 2), Some(28));
        assert_eq!(days_of_month(2023, 12), Some(31));
        assert_eq!(
            (days_of_month(2023, 0), days_of_month(2023, 13)),
            (None, None)
        );
        assert_eq!((weekday(0), weekday(-4), weekday(-5)), (4, 0, 6));
    }
}
