//! FILETIME: the time of measurement of a value.

use core::fmt;
use core::str::FromStr;

use tidewire_calendar::{date_of_days, days_of_date, days_of_month};

/// A number of 100 ns units since 1601-01-01 00:00 UTC, unchanged from the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTime(pub i64);

impl FileTime {
    /// No time, as in a plain write.
    pub const NONE: Self = Self(0);

    /// Converts nanoseconds since the UNIX epoch, rounded down to 100 ns.
    pub const fn from_unix_ns(unix_ns: u64) -> Self {
        Self((unix_ns / 100) as i64 + UNIX_EPOCH)
    }

    /// Returns nanoseconds since the UNIX epoch; `None` before 1970 and after the year 2554.
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
        let (year, month, day) = date_of_days(seconds / 86_400 + DAY_1601);
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

/// Why text is not a time: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeError;

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as 2026-11-22T06:30:00.25Z is expected")
    }
}

impl core::error::Error for TimeError {}

/// Parses RFC 3339, from 1601 on, with up to seven fraction digits; UTC if there is no offset.
/// Parses what [`FileTime`] prints.
impl FromStr for FileTime {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        if let Some(ticks) = text.strip_prefix("FILETIME ") {
            return ticks.parse().map(Self).map_err(|_| TimeError);
        }
        parse(text.trim().as_bytes()).map(Self).ok_or(TimeError)
    }
}

fn parse(text: &[u8]) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let [year, month, day] = [
        number(date.get(..4)?)?,
        number(&date[5..7])?,
        number(&date[8..])?,
    ];
    if [date[4], date[7]] != *b"--" || year < 1601 || day < 1 || day > days_of_month(year, month)? {
        return None;
    }
    let days = days_of_date(year, month, day) - DAY_1601;
    let (Some(b'T' | b't' | b' '), time) = (rest.first(), rest.get(1..)?) else {
        return None;
    };
    let (clock, rest) = time.split_at_checked(5)?;
    let (hour, minute) = (number(&clock[..2])?, number(&clock[3..])?);
    let (second, rest) = match rest {
        [b':', digits @ ..] => (number(digits.get(..2)?)?, digits.get(2..)?),
        rest => (0, rest),
    };
    if clock[2] != b':' || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (ticks, rest) = fraction(rest)?;
    let offset_minutes = offset_minutes(rest)?;
    let seconds = days * 86_400 + hour * 3_600 + (minute - offset_minutes) * 60 + second;
    let ticks = seconds * TICKS_A_SECOND + ticks;
    (ticks >= 0).then_some(ticks)
}

/// Returns the digits after a point, if there is one, in 100 ns units, and the rest of the text.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let [b'.', digits @ ..] = text else {
        return Some((0, text));
    };
    let count = digits.iter().take_while(|c| c.is_ascii_digit()).count();
    if !(1..=7).contains(&count) {
        return None;
    }
    let scale = 10_i64.pow(7 - count as u32);
    Some((number(&digits[..count])? * scale, &digits[count..]))
}

fn offset_minutes(text: &[u8]) -> Option<i64> {
    match text {
        b"" | b"Z" | b"z" | b" UTC" => Some(0),
        [sign @ (b'+' | b'-'), hour @ .., b':', tens, ones] if hour.len() == 2 => {
            let (hour, minute) = (number(hour)?, number(&[*tens, *ones])?);
            let minutes = hour * 60 + minute;
            let possible = hour <= 23 && minute <= 59;
            possible.then_some(if *sign == b'-' { -minutes } else { minutes })
        }
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + i64::from(digit - b'0'))
    })
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

    #[test]
    fn what_is_printed_reads_back_and_offsets_count() {
        for ticks in [
            0,
            1,
            116_444_736_000_000_000,
            133_479_324_001_234_567,
            1 << 60,
        ] {
            let time = FileTime(ticks);
            assert_eq!(time.to_string().parse(), Ok(time));
        }
        assert_eq!(FileTime(-7).to_string().parse(), Ok(FileTime(-7)));
        let utc: FileTime = "2024-02-29T23:30:00Z".parse().unwrap();
        assert_eq!("2024-03-01T00:30+01:00".parse(), Ok(utc));
        assert_eq!("2024-02-29 18:00:00.0-05:30".parse(), Ok(utc));
        assert_eq!("2024-02-29T23:30".parse(), Ok(utc));
        for text in [
            "",
            "now",
            "2023-02-29T00:00",
            "2024-13-01T00:00",
            "2024-00-01T00:00",
            "2024-01-01T24:00",
            "2024-01-01T00:00.",
            "2024-01-01T00:00:00.12345678",
            "2024-01-01",
            "1600-12-31T00:00",
            "1601-01-01T00:00+00:01",
            "2024-01-01T00:00+1:00",
            "2024-01-01T00:00X",
            "2024-01-01T\u{e4}0:00",
            "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}T00:00",
        ] {
            assert_eq!(text.parse::<FileTime>(), Err(TimeError), "{text}");
        }
    }
}
