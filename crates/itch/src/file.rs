//! Nasdaq's file format (BinaryFILE): a two-byte length before each message.

use thiserror::Error;
use tidewire_calendar::{DAY_S, TradingCalendar, Zone, date_number, days_of_date, days_of_month};

use super::Message;

/// Why a file is invalid or cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The bytes end inside a message.
    #[error("the file ends after {at_hand} bytes of a message of {expected}")]
    Truncated {
        /// Bytes of the message.
        expected: usize,
        /// Bytes present.
        at_hand: usize,
    },
}

/// Returns the first message of `bytes`, and its length including the length field; `None` if
/// more bytes are needed. An empty message ends a session.
#[inline(always)]
pub fn frame(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    Some((rest.get(..length)?, length + 2))
}

/// Iterator over the messages of a file in memory.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    /// Creates an iterator over the messages of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the unread bytes: none, or the beginning of a message.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Checks that the bytes end with a whole message.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let expected = self.rest.first_chunk::<2>().map_or(0, |length| {
            usize::from(u16::from_be_bytes(*length)) + 2 // the length itself
        });
        Err(FrameError::Truncated {
            expected,
            at_hand: self.rest.len(),
        })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (message, used) = frame(self.rest)?;
        self.rest = &self.rest[used..];
        Some(message)
    }
}

/// Returns whether a file with this beginning is an ITCH file: a known type after its own length.
pub fn looks_like_file(head: &[u8]) -> bool {
    let Some(&[high, low, kind]) = head.first_chunk::<3>() else {
        return false;
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    Message::KINDS
        .iter()
        .any(|&(known, _, expected)| (known, expected) == (kind, length))
}

/// Returns the start of a day at the exchange (Eastern Time), nanoseconds since the UNIX epoch;
/// `None` if it is not a day from 1970 to 2554.
///
/// Daylight saving time follows the rule since 2007: second Sunday of March to first Sunday of
/// November.
pub fn midnight_unix_ns(year: u32, month: u32, day: u32) -> Option<u64> {
    let [year, month, day] = [year, month, day].map(i64::from);
    let month_days = days_of_month(year, month)?;
    if !(1970..=9999).contains(&year) || !(1..=month_days).contains(&day) {
        return None;
    }
    let unix_s = Zone::NEW_YORK.unix_s(days_of_date(year, month, day) * DAY_S);
    // The number of nanoseconds overflows in the year 2554.
    u64::try_from(unix_s).ok()?.checked_mul(1_000_000_000)
}

/// Returns the start of a day at the exchange from a date such as `2019-01-30`, as
/// [`midnight_unix_ns`] does.
pub fn parse_midnight_unix_ns(date: &str) -> Option<u64> {
    let mut numbers = date.split('-').map(|part| part.parse().ok());
    let mut next = || numbers.next().flatten();
    match (next(), next(), next(), numbers.next()) {
        (Some(year), Some(month), Some(day), None) => midnight_unix_ns(year, month, day),
        _ => None,
    }
}

/// Returns the start of the exchange's day that contains a time, both in nanoseconds since the
/// UNIX epoch; 0 before the first day of 1970.
pub fn midnight_of_unix_ns(unix_ns: u64) -> u64 {
    TradingCalendar::new(Zone::NEW_YORK)
        .day_of(unix_ns)
        .start_ns
}

/// Returns the date of the exchange's day that begins at a midnight, as `YYYYMMDD`.
pub(super) fn date_of_midnight(midnight_unix_ns: u64) -> u32 {
    let day = TradingCalendar::new(Zone::NEW_YORK).day_of(midnight_unix_ns);
    date_number(day.days.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_the_exchange() {
        let hours = |year, month, day| {
            let midnight = midnight_unix_ns(year, month, day).unwrap() / 1_000_000_000;
            (midnight / 86_400, midnight % 86_400 / 3_600)
        };
        assert_eq!(hours(2019, 1, 30), (17_926, 5));
        assert_eq!(hours(2024, 7, 1), (19_905, 4));
        // Clocks change on 10 March and 3 November, at two o'clock.
        assert_eq!((hours(2024, 3, 10).1, hours(2024, 3, 11).1), (5, 4));
        assert_eq!((hours(2024, 11, 3).1, hours(2024, 11, 4).1), (4, 5));
        assert_eq!(hours(2024, 2, 29).1, 5);
        let dates = [(2019, 1, 30, 20_190_130), (2024, 7, 1, 20_240_701)];
        for (year, month, day, number) in dates {
            let midnight = midnight_unix_ns(year, month, day).unwrap();
            assert_eq!(date_of_midnight(midnight), number);
        }
        for (year, month, day) in [(2023, 2, 29), (2023, 13, 1), (2023, 4, 31), (1969, 1, 1)] {
            assert_eq!(midnight_unix_ns(year, month, day), None);
        }
    }

    #[test]
    fn a_day_behind_the_end_of_the_count_is_none() {
        assert!(midnight_unix_ns(2554, 7, 21).is_some());
        for year in [2555, 9999] {
            assert_eq!(midnight_unix_ns(year, 1, 1), None, "{year}");
        }
    }

    #[test]
    fn every_hour_belongs_to_a_day() {
        let mut midnight = midnight_unix_ns(2023, 12, 31).unwrap();
        for hour in 0..24 * 500 {
            let now = midnight_unix_ns(2023, 12, 31).unwrap() + hour * 3_600_000_000_000;
            let of_now = midnight_of_unix_ns(now);
            assert!(
                of_now == midnight || of_now == now,
                "a day begins at its midnight"
            );
            assert!(now - of_now < 25 * 3_600_000_000_000);
            midnight = of_now;
        }
        // The hours of 500 days; the last one is in the next day by daylight saving time.
        assert_eq!(midnight, midnight_unix_ns(2025, 5, 14).unwrap());
    }

    #[test]
    fn a_file_is_told_by_its_first_message() {
        assert!(looks_like_file(&[0, 12, b'S', 0]));
        assert!(looks_like_file(&[0, 39, b'R']));
        assert!(!looks_like_file(&[0, 13, b'S']));
        assert!(!looks_like_file(b"DBN"));
        assert!(!looks_like_file(b""));
    }

    #[test]
    fn a_file_that_is_cut_says_so() {
        let bytes = [0, 1, b'?', 0, 0, 0, 3, 1];
        let mut frames = Frames::new(&bytes);
        assert_eq!(frames.next(), Some(&b"?"[..]));
        assert_eq!(frames.next(), Some(&b""[..]));
        assert_eq!(frames.next(), None);
        assert_eq!(
            frames.finish(),
            Err(FrameError::Truncated {
                expected: 5,
                at_hand: 3
            })
        );
        assert_eq!(Frames::new(&[]).finish(), Ok(()));
    }
}
