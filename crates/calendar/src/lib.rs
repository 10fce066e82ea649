//! Dates, the time zones of exchanges, and trading days.
//!
//! Nothing here reads a clock or a database of time zones: the rules of daylight saving time are
//! code, because the few zones that exchanges live in have not changed theirs since 2007
//! (`docs/decisions/0048-trading-days-from-rules.md`).
//!
//! * [`days_of_date`] and [`date_of_days`] convert between a date and the days since 1970-01-01.
//! * [`Zone`] converts between UTC and the time of a place.
//! * [`TradingCalendar`] returns the [`TradingDay`] that contains a time.
//!
//! ```
//! use tidewire_calendar::{TradingCalendar, Zone};
//!
//! // Sunday, 2024-03-10, 22:00 UTC: five o'clock in Chicago, on the day its clocks change.
//! let globex = TradingCalendar::new(Zone::CHICAGO).from_evening(17).joining_weekends();
//! let day = globex.day_of(1_710_108_000_000_000_000);
//! assert_eq!(day.number(), 20240311);
//! ```

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(test)]
extern crate std;

mod date;
mod trading;
mod zone;

pub use date::{date_number, date_of_days, days_of_date, days_of_month, days_of_number, weekday};
pub use trading::{TradingCalendar, TradingDay};
pub use zone::{SavingRule, Zone};

/// Seconds of a day without a change of clocks.
pub const DAY_S: i64 = 86_400;
