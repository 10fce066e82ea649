//! FILETIME: when a value was measured.

use core::fmt;

/// 100 ns since 1601-01-01 00:00 UTC, kept as it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTime(pub i64);

impl FileTime {
    /// No time: what a plain write carries.
    pub const NONE: Self = Self(0);

    /// From ns since the UNIX epoch; what is finer than 100 ns is lost.
    pub const fn from_unix_ns(unix_ns: u64) -> Self {
        Self((unix_ns / 100) as i64 + UNIX_EPOCH)
    }

    /// As ns since the UNIX epoch; `None` before it, and after the year 2554.
    pub const fn to_unix_ns(self) -> Option<u64> {
        if self.0 < UNIX_EPOCH {
            return None;
        }
        ((self.0 - UNIX_EPOCH) as u64).checked_mul(100)
    }
}

impl fmt::Display for FileTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            return write!(f, "FILETIME {}", self.0);
        }
        let (seconds, fraction) = (self.0 / TICKS_A_SECOND, self.0 % TICKS_A_SECOND);
        let (year, month, day) = civil_date(seconds / 86_400 + DAY_1601);
        let second = seconds % 86_400;
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{fraction:07} UTC",
            second / 3_600,
            second / 60 % 60,
            second % 60
        )
    }
}

/// Year, month and day of a day since 1970-01-01 (Howard Hinnant's days-to-civil algorithm).
pub fn civil_date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * month_index + 2) / 5 + 1)
}

const TICKS_A_SECOND: i64 = 10_000_000;
/// 1970-01-01 as FILETIME.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;
/// 1601-01-01 as a day since 1970-01-01.
const DAY_1601: i64 = -134_774;

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn times_of_both_epochs() {
        assert_eq!(FileTime(0).to_string(), "1601-01-01 00:00:00.0000000 UTC");
        let time = FileTime::from_unix_ns(1_703_458_800_123_456_700);
        assert_eq!(time.to_string(), "2023-12-24 23:00:00.1234567 UTC");
        assert_eq!(time.to_unix_ns(), Some(1_703_458_800_123_456_700));
        assert_eq!(FileTime(1).to_unix_ns(), None);
        assert_eq!(FileTime(i64::MAX).to_unix_ns(), None);
    }
}
