//! The options of the commands on the TTLs of hash fields, as Redis has them. Valkey's forms are in
//! [`valkey`].

pub(super) mod valkey;

use std::ops::Range;

use tidewire_resp::number::parse_integer;

use super::Call;
use super::expiry::Conditions;
use super::options::{AT_MILLISECONDS, TimeForm, is};
use crate::error::{CommandError, Result};

/// A change of a field's TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeadlineChange {
    None,
    Clear,
    /// Ms since the UNIX epoch.
    To(i64),
}

impl DeadlineChange {
    pub(super) fn deadline_ms(self) -> Option<i64> {
        match self {
            DeadlineChange::To(deadline_ms) => Some(deadline_ms),
            _ => None,
        }
    }
}

/// The condition of HSETEX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldCondition {
    None,
    /// FXX.
    AllThere,
    /// FNX.
    NoneThere,
}

/// The options of HSETEX.
pub(super) struct FieldSetOptions {
    pub(super) condition: FieldCondition,
    /// NX and XX: whether the hash must exist.
    pub(super) exists: Option<bool>,
    pub(super) change: DeadlineChange,
    /// Fields keep their TTLs, or get new ones afterwards.
    pub(super) keeps_deadlines: bool,
    /// Position of the TTL argument, if its form differs from the propagated one.
    pub(super) time_at: Option<usize>,
    /// Positions of the fields with their values.
    pub(super) pairs: Range<usize>,
}

/// What HGETEX does to TTLs, and the positions of its fields.
pub(super) fn parse_get(call: &Call<'_, '_, '_>) -> Result<(DeadlineChange, Range<usize>)> {
    let options = Options::parse(call, 1)?;
    if options.keeps || options.condition != FieldCondition::None {
        return Err(CommandError::Refused(UNKNOWN_ARGUMENT));
    }
    let change = match options.time {
        Some((_, _, deadline_ms)) => DeadlineChange::To(deadline_ms),
        None if options.persists => DeadlineChange::Clear,
        None => DeadlineChange::None,
    };
    Ok((change, options.names))
}

/// The options of HSETEX.
pub(super) fn parse_set(call: &Call<'_, '_, '_>) -> Result<FieldSetOptions> {
    let options = Options::parse(call, 2)?;
    if options.persists {
        return Err(CommandError::Refused(UNKNOWN_ARGUMENT));
    }
    let time = options.time;
    Ok(FieldSetOptions {
        condition: options.condition,
        exists: None,
        change: time.map_or(DeadlineChange::None, |(_, _, deadline_ms)| {
            DeadlineChange::To(deadline_ms)
        }),
        keeps_deadlines: options.keeps || time.is_some(),
        time_at: time.and_then(|(at, form, _)| (form != AT_MILLISECONDS).then_some(at)),
        pairs: options.names,
    })
}

/// The options of HGETEX and HSETEX, before and after the fields. Redis parses both commands alike,
/// and refuses the other command's options at the end.
struct Options {
    condition: FieldCondition,
    keeps: bool,
    persists: bool,
    /// Position of the time, its form, and the deadline.
    time: Option<(usize, TimeForm, i64)>,
    /// Positions of the fields, and their values for HSETEX. It is empty until FIELDS comes.
    names: Range<usize>,
}

impl Options {
    /// Parses the arguments. A field takes `step` of them.
    fn parse(call: &Call<'_, '_, '_>, step: usize) -> Result<Self> {
        let mut options = Options {
            condition: FieldCondition::None,
            keeps: false,
            persists: false,
            time: None,
            names: 0..0,
        };
        let mut at = 2;
        while at < call.arguments.len() {
            at = match call.argument(at) {
                option if is(option, "fields") => options.take_names(call, at, step)?,
                option => options.take(call, at, option, step)?,
            };
        }
        if options.names.is_empty() {
            return Err(CommandError::Refused(MISSING_FIELDS));
        }
        Ok(options)
    }

    /// Takes FIELDS, which is at `at`. Returns the position after the last field.
    fn take_names(&mut self, call: &Call<'_, '_, '_>, at: usize, step: usize) -> Result<usize> {
        if !self.names.is_empty() {
            return Err(CommandError::Refused(FIELDS_TWICE));
        }
        if at + 1 >= call.arguments.len() {
            return Err(CommandError::WrongArity(call.command.full_name));
        }
        self.names = counted_names(call, at, step, INVALID_FIELD_COUNT)?;
        Ok(self.names.end)
    }

    /// Takes another option, which is at `at`. Returns the position after it.
    fn take(
        &mut self,
        call: &Call<'_, '_, '_>,
        at: usize,
        option: &[u8],
        step: usize,
    ) -> Result<usize> {
        let several_times = CommandError::Refused(match step {
            1 => SEVERAL_TIMES_GET,
            _ => SEVERAL_TIMES_SET,
        });
        if let Some(form) = TimeForm::of_option(option) {
            if self.time.is_some() || self.keeps || self.persists {
                return Err(several_times);
            }
            if at + 1 >= call.arguments.len() {
                return Err(CommandError::Refused(MISSING_TIME));
            }
            self.time = Some((at + 1, form, deadline_ms(call, at + 1, form)?));
            return Ok(at + 2);
        }
        if is(option, "persist") || is(option, "keepttl") {
            // PERSIST and KEEPTTL exclude a time, not each other.
            let taken = match is(option, "persist") {
                true => &mut self.persists,
                false => &mut self.keeps,
            };
            if self.time.is_some() || std::mem::replace(taken, true) {
                return Err(several_times);
            }
        } else if is(option, "fxx") || is(option, "fnx") {
            if self.condition != FieldCondition::None {
                return Err(CommandError::Refused(SEVERAL_CONDITIONS));
            }
            self.condition = match is(option, "fxx") {
                true => FieldCondition::AllThere,
                false => FieldCondition::NoneThere,
            };
        } else {
            return Err(CommandError::unknown_argument(option));
        }
        Ok(at + 1)
    }
}

/// The conditions of HEXPIRE, the positions of its fields, and the deadline. Conditions stand
/// before the fields or after them.
pub(super) fn parse_expire(
    call: &Call<'_, '_, '_>,
    form: TimeForm,
) -> Result<(Conditions, Range<usize>, i64)> {
    let deadline_ms = deadline_ms(call, 2, form)?;
    let count = call.arguments.len();
    let mut conditions = Conditions::default();
    let mut names = 0..0;
    let mut at = 3;
    while at < count {
        let option = call.argument(at);
        if is(option, "fields") {
            if !names.is_empty() {
                return Err(CommandError::Refused(FIELDS_TWICE));
            }
            if at + 2 >= count {
                return Err(CommandError::Refused(FIELDS_INCOMPLETE));
            }
            names = counted_names(call, at, 1, TOO_FEW_FIELDS)?;
            at = names.end;
        } else if conditions.take(option) {
            at += 1;
        } else {
            return Err(CommandError::unknown_argument(option));
        }
    }
    if names.is_empty() {
        return Err(CommandError::Refused(MISSING_FIELDS));
    }
    if conditions.count() > 1 {
        return Err(CommandError::Refused(SEVERAL_FLAGS));
    }
    Ok((conditions, names, deadline_ms))
}

/// Returns the positions of the fields after FIELDS, which is at `at`, and their number. There may
/// be options after them.
fn counted_names(
    call: &Call<'_, '_, '_>,
    at: usize,
    step: usize,
    invalid: &'static str,
) -> Result<Range<usize>> {
    let count = field_count(call.argument(at + 1), i64::from(i32::MAX))
        .ok_or(CommandError::Refused(invalid))?;
    let first = at + 2;
    let end = first + count * step;
    if end > call.arguments.len() {
        return Err(CommandError::Refused(TOO_FEW_ARGUMENTS));
    }
    Ok(first..end)
}

/// Returns the positions of the fields after FIELDS, which is at `at`, and their number.
pub(super) fn field_names(call: &Call<'_, '_, '_>, at: usize) -> Result<Range<usize>> {
    if call.view.keyspace.follows_valkey() {
        return valkey::field_names(call, at);
    }
    if !is(call.argument(at), "fields") {
        return Err(CommandError::Refused(NO_FIELDS));
    }
    let count =
        field_count(call.argument(at + 1), i64::MAX).ok_or(CommandError::Refused(NOT_POSITIVE))?;
    let names = call.rest(at + 2);
    if count != names.len() {
        return Err(CommandError::Refused(OTHER_FIELD_COUNT));
    }
    Ok(names)
}

fn field_count(argument: &[u8], count_max: i64) -> Option<usize> {
    let count = parse_integer(argument)?;
    usize::try_from(count)
        .ok()
        .filter(|_| (1..=count_max).contains(&count))
}

/// Parses a deadline, ms since the UNIX epoch.
pub(super) fn deadline_ms(call: &Call<'_, '_, '_>, at: usize, form: TimeForm) -> Result<i64> {
    let amount = call.integer(at)?;
    if amount < 0 {
        return Err(match call.view.keyspace.follows_valkey() {
            true => CommandError::InvalidExpire(call.command.full_name),
            false => CommandError::Refused(NEGATIVE_TIME),
        });
    }
    let deadline_ms = form.deadline_ms(amount, call.view.clock_ms, call.command.full_name)?;
    if deadline_ms > DEADLINE_MS_MAX {
        return Err(CommandError::InvalidExpire(call.command.full_name));
    }
    Ok(deadline_ms)
}

const DEADLINE_MS_MAX: i64 = (1 << 46) - 1;

const NEGATIVE_TIME: &str = "ERR invalid expire time, must be >= 0";
const MISSING_TIME: &str = "ERR missing expire time";
const MISSING_FIELDS: &str = "ERR missing FIELDS argument";
const FIELDS_TWICE: &str = "ERR FIELDS keyword specified multiple times";
const FIELDS_INCOMPLETE: &str = "ERR FIELDS requires at least numfields and one field argument";
const NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";
const TOO_FEW_FIELDS: &str = "ERR Parameter `numFields` should be greater than 0";
const TOO_FEW_ARGUMENTS: &str = "ERR wrong number of arguments";
const OTHER_FIELD_COUNT: &str = "ERR The `numfields` parameter must match the number of arguments";
const INVALID_FIELD_COUNT: &str = "ERR invalid number of fields";
const UNKNOWN_ARGUMENT: &str = "ERR unknown argument";
const SEVERAL_FLAGS: &str = "ERR Multiple condition flags specified";
const SEVERAL_CONDITIONS: &str = "ERR Only one of FXX or FNX arguments can be specified";
const SEVERAL_TIMES_SET: &str =
    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
const SEVERAL_TIMES_GET: &str =
    "ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified";
