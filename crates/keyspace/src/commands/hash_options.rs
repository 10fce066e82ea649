//! The options of the commands on the TTLs of hash fields, as Redis has them. Valkey's forms are in
//! [`valkey`].

pub(super) mod valkey;

use tidewire_resp::number::parse_integer;

use super::Call;
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
    /// Position of the first field.
    pub(super) first: usize,
}

impl FieldSetOptions {
    pub(super) fn parse(call: &Call<'_, '_, '_>) -> Result<Self> {
        let wrong_arity = CommandError::WrongArity(call.command.full_name);
        let mut options = FieldSetOptions {
            condition: FieldCondition::None,
            exists: None,
            change: DeadlineChange::None,
            keeps_deadlines: false,
            time_at: None,
            first: 0,
        };
        let count = call.arguments.len();
        let mut at = 2;
        while at < count {
            let option = call.argument(at);
            if is(option, "fields") {
                if at + 3 >= count {
                    return Err(wrong_arity);
                }
                let pairs = field_count(call.argument(at + 1), i64::from(i32::MAX))
                    .ok_or(CommandError::Refused(INVALID_FIELD_COUNT))?;
                if pairs.checked_mul(2) != Some(count - at - 2) {
                    return Err(wrong_arity);
                }
                options.first = at + 2;
                return Ok(options);
            }
            if let Some(form) = TimeForm::of_option(option) {
                options.take_deadline()?;
                at += 1;
                if at >= count {
                    return Err(CommandError::Refused(MISSING_TIME));
                }
                options.change = DeadlineChange::To(deadline_ms(call, at, form)?);
                options.time_at = (form != AT_MILLISECONDS).then_some(at);
            } else if is(option, "keepttl") {
                options.take_deadline()?;
            } else if is(option, "fxx") {
                options.take_condition(FieldCondition::AllThere)?;
            } else if is(option, "fnx") {
                options.take_condition(FieldCondition::NoneThere)?;
            } else {
                return Err(CommandError::unknown_argument(option));
            }
            at += 1;
        }
        Err(wrong_arity)
    }

    fn take_deadline(&mut self) -> Result {
        if self.keeps_deadlines {
            return Err(CommandError::Refused(SEVERAL_TIMES));
        }
        self.keeps_deadlines = true;
        Ok(())
    }

    fn take_condition(&mut self, condition: FieldCondition) -> Result {
        if self.condition != FieldCondition::None {
            return Err(CommandError::Refused(SEVERAL_CONDITIONS));
        }
        self.condition = condition;
        Ok(())
    }
}

/// Returns the positions of the fields after FIELDS, which is at `at`, and their number.
pub(super) fn field_names(
    call: &Call<'_, '_, '_>,
    at: usize,
    not_positive: &'static str,
) -> Result<std::ops::Range<usize>> {
    if call.view.keyspace.follows_valkey() {
        return valkey::field_names(call, at);
    }
    if !is(call.argument(at), "fields") {
        return Err(CommandError::Refused(NO_FIELDS));
    }
    let count =
        field_count(call.argument(at + 1), i64::MAX).ok_or(CommandError::Refused(not_positive))?;
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
const NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
pub(super) const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";
pub(super) const TOO_FEW_FIELDS: &str = "ERR Parameter `numFields` should be greater than 0";
const OTHER_FIELD_COUNT: &str = "ERR The `numfields` parameter must match the number of arguments";
const INVALID_FIELD_COUNT: &str = "ERR invalid number of fields";
const SEVERAL_CONDITIONS: &str = "ERR Only one of FXX or FNX arguments can be specified";
const SEVERAL_TIMES: &str =
    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
