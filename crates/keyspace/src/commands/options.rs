//! Options that several commands share: TTLs, and words in any case.

use std::ops::Range;

use tidewire_resp::Arguments;
use tidewire_resp::number::{parse_double, parse_integer};

use super::Call;
use crate::error::CommandError;

/// Returns whether an argument is this word, which must be given in lower case.
#[inline]
pub(crate) fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// The words of a request from one position on, for parsing its options.
pub(crate) struct Words<'a> {
    arguments: Arguments<'a>,
    at: usize,
}

impl<'a> Words<'a> {
    pub(crate) fn new(arguments: Arguments<'a>, at: usize) -> Self {
        Words { arguments, at }
    }

    /// Takes and returns the next word, if `option` is `name` and a value follows.
    pub(crate) fn value_of(&mut self, option: &[u8], name: &str) -> Option<&'a [u8]> {
        if is(option, name) { self.next() } else { None }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let word = self.arguments.get(self.at)?;
        self.at += 1;
        Some(word)
    }
}

/// Parses a 64-bit integer.
#[inline]
pub(crate) fn integer(argument: &[u8]) -> Result<i64, CommandError> {
    parse_integer(argument).ok_or(CommandError::NotInteger)
}

/// Parses a count of at least 0.
pub(crate) fn positive(argument: &[u8]) -> Result<u64, CommandError> {
    parse_integer(argument)
        .and_then(|count| u64::try_from(count).ok())
        .ok_or(CommandError::NotPositive)
}

/// Parses a count of at least 1.
pub(crate) fn above_zero(argument: &[u8]) -> Option<usize> {
    let count = usize::try_from(parse_integer(argument)?).ok()?;
    (count > 0).then_some(count)
}

/// Parses the value of LIMIT in SINTERCARD and ZINTERCARD.
pub(crate) fn limit(argument: &[u8]) -> Result<i64, CommandError> {
    parse_integer(argument)
        .filter(|&limit| limit >= 0)
        .ok_or(CommandError::NegativeLimit)
}

/// Returns the positions from `start` to `end`, both included, among `length` elements. Negative
/// ones count from the end.
pub(crate) fn positions(start: i64, end: i64, length: usize) -> Range<usize> {
    let length = length as i64;
    let absolute = |index: i64| if index < 0 { index + length } else { index };
    let (start, end) = (absolute(start).max(0), absolute(end).min(length - 1));
    if start > end {
        return 0..0;
    }
    start as usize..end as usize + 1
}

/// Does the same for bytes and bits: an end before the first position counts as the first.
pub(crate) fn text_positions(start: i64, end: i64, length: usize) -> Range<usize> {
    let end = match end {
        ..0 => end.saturating_add(length as i64).max(0),
        _ => end,
    };
    positions(start, end, length)
}

/// Returns when a blocking client times out, ms since the UNIX epoch. The argument is in seconds; 0
/// means never.
pub(crate) fn timeout_deadline_ms(
    call: &Call<'_, '_, '_>,
    index: usize,
) -> Result<Option<i64>, CommandError> {
    let argument = call.argument(index);
    let seconds = parse_double(argument)
        .or_else(|| hexadecimal(argument))
        .filter(|seconds| !seconds.is_nan())
        .ok_or(CommandError::TimeoutNotFloat)?;
    let timeout_ms = (seconds * 1000.0).ceil();
    if timeout_ms > i64::MAX as f64 {
        return Err(CommandError::TimeoutOutOfRange);
    }
    deadline_after(call, timeout_ms as i64)
}

/// Parses an integer in hexadecimal digits, which C's float conversion accepts too.
fn hexadecimal(argument: &[u8]) -> Option<f64> {
    let digits = match argument {
        [b'0', b'x' | b'X', digits @ ..] if !digits.is_empty() => digits,
        _ => return None,
    };
    digits.iter().try_fold(0.0, |number, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(number * 16.0 + f64::from(digit))
    })
}

/// Does the same for an argument in milliseconds.
pub(crate) fn timeout_ms_deadline_ms(
    call: &Call<'_, '_, '_>,
    index: usize,
) -> Result<Option<i64>, CommandError> {
    let timeout_ms = parse_integer(call.argument(index));
    deadline_after(call, timeout_ms.ok_or(CommandError::TimeoutNotInteger)?)
}

fn deadline_after(call: &Call<'_, '_, '_>, timeout_ms: i64) -> Result<Option<i64>, CommandError> {
    match timeout_ms {
        0 => Ok(None),
        1.. => {
            let deadline_ms = call.view.clock_ms.checked_add(timeout_ms);
            deadline_ms.map(Some).ok_or(CommandError::TimeoutOutOfRange)
        }
        _ => Err(CommandError::TimeoutNegative),
    }
}

/// The form of a time argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeForm {
    /// Milliseconds per unit: 1,000 or 1.
    pub(crate) unit_ms: i64,
    /// Whether the time counts from now, not from the UNIX epoch.
    pub(crate) relative: bool,
}

pub(crate) const SECONDS: TimeForm = TimeForm {
    unit_ms: 1_000,
    relative: true,
};
pub(crate) const MILLISECONDS: TimeForm = TimeForm {
    unit_ms: 1,
    relative: true,
};
pub(crate) const AT_SECONDS: TimeForm = TimeForm {
    unit_ms: 1_000,
    relative: false,
};
pub(crate) const AT_MILLISECONDS: TimeForm = TimeForm {
    unit_ms: 1,
    relative: false,
};

impl TimeForm {
    /// Returns the form that an option of SET or GETEX means.
    pub(crate) fn of_option(option: &[u8]) -> Option<TimeForm> {
        match option.len() {
            2 if is(option, "ex") => Some(SECONDS),
            2 if is(option, "px") => Some(MILLISECONDS),
            4 if is(option, "exat") => Some(AT_SECONDS),
            4 if is(option, "pxat") => Some(AT_MILLISECONDS),
            _ => None,
        }
    }

    /// Returns the deadline, ms since the UNIX epoch, or an error if it is out of range.
    pub(crate) fn deadline_ms(
        self,
        amount: i64,
        now_ms: i64,
        command: &'static str,
    ) -> Result<i64, CommandError> {
        let base = if self.relative { now_ms } else { 0 };
        amount
            .checked_mul(self.unit_ms)
            .and_then(|amount_ms| amount_ms.checked_add(base))
            .ok_or(CommandError::InvalidExpire(command))
    }

    /// Does the same for commands that store a value: the time must be positive.
    pub(crate) fn positive_deadline_ms(
        self,
        amount: i64,
        now_ms: i64,
        command: &'static str,
    ) -> Result<i64, CommandError> {
        if amount <= 0 {
            return Err(CommandError::InvalidExpire(command));
        }
        self.deadline_ms(amount, now_ms, command)
    }
}
