//! The same options as Valkey has them. They stand between the key, or the time, and the first word
//! FIELDS. Of a repeated time the last one counts.

use std::ops::Range;

use tidewire_resp::Arguments;

use super::{DeadlineChange, FieldCondition, FieldSetOptions, deadline_ms};
use crate::command::{Call, Flags};
use crate::commands::expiry::Conditions;
use crate::commands::options::{AT_MILLISECONDS, TimeForm, is};
use crate::error::{CommandError, Result};

/// What HGETEX does to TTLs, and the positions of its fields.
pub(in crate::commands) fn parse_get(
    call: &Call<'_, '_, '_>,
) -> Result<(DeadlineChange, Range<usize>)> {
    let at = position_of_fields(call, 2)?;
    let options = Options::parse(call, 2..at, false)?;
    let names = names_behind(call, at, 1)?;
    Ok((options.change(call)?, names))
}

/// The options of HSETEX.
pub(in crate::commands) fn parse_set(call: &Call<'_, '_, '_>) -> Result<FieldSetOptions> {
    let at = position_of_fields(call, 2)?;
    let options = Options::parse(call, 2..at, true)?;
    let pairs = names_behind(call, at, 2)?;
    let time = options.time;
    Ok(FieldSetOptions {
        condition: options.condition,
        exists: options.exists,
        change: options.change(call)?,
        keeps_deadlines: options.keeps || time.is_some(),
        time_at: time.and_then(|(at, form)| (form != AT_MILLISECONDS).then_some(at)),
        pairs,
    })
}

/// The conditions of HEXPIRE, and the positions of its fields.
pub(in crate::commands) fn parse_expire(
    call: &Call<'_, '_, '_>,
) -> Result<(Conditions, Range<usize>)> {
    let at = position_of_fields(call, 3)?;
    let conditions = Conditions::parse(call, 3..at)?;
    Ok((conditions, names_behind(call, at, 1)?))
}

/// The positions of the fields of a command without options.
pub(super) fn field_names(call: &Call<'_, '_, '_>, at: usize) -> Result<Range<usize>> {
    if !is(call.argument(at), "fields") {
        return Err(CommandError::Syntax);
    }
    let names = names_behind(call, at, 1);
    match names {
        Err(CommandError::Refused(_)) if call.command.has(Flags::READONLY) => {
            Err(CommandError::Syntax)
        }
        names => names,
    }
}

/// The words of HSETEX for replicas: without conditions, and with the time as a UNIX time in ms.
pub(in crate::commands) fn propagated_set<'a>(
    arguments: Arguments<'a>,
    options: &FieldSetOptions,
    deadline: &'a [u8],
) -> Vec<&'a [u8]> {
    let fields_at = options.pairs.start - 2;
    let mut words = Vec::with_capacity(arguments.len());
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let is_option = (2..fields_at).contains(&at);
        let is_condition = ["nx", "xx", "fnx", "fxx"].iter().any(|name| is(word, name));
        if is_option && TimeForm::of_option(word).is_some() {
            words.extend([&b"PXAT"[..], deadline]);
            at += 1;
        } else if !is_option || !is_condition {
            words.push(word);
        }
        at += 1;
    }
    words
}

/// Options in front of FIELDS.
struct Options {
    condition: FieldCondition,
    exists: Option<bool>,
    keeps: bool,
    persists: bool,
    /// Position of the time, and its form.
    time: Option<(usize, TimeForm)>,
}

impl Options {
    fn parse(call: &Call<'_, '_, '_>, positions: Range<usize>, sets: bool) -> Result<Self> {
        let mut options = Options {
            condition: FieldCondition::None,
            exists: None,
            keeps: false,
            persists: false,
            time: None,
        };
        let mut at = positions.start;
        while at < positions.end {
            let option = call.argument(at);
            if let Some(form) = TimeForm::of_option(option) {
                let is_other = options.time.is_some_and(|(_, other)| other != form);
                at += 1;
                if is_other || options.keeps || options.persists || at >= positions.end {
                    return Err(CommandError::Syntax);
                }
                options.time = Some((at, form));
            } else if !options.take(option, sets) {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        Ok(options)
    }

    /// Takes an option of one word; returns whether it is one, and agrees with the others.
    fn take(&mut self, option: &[u8], sets: bool) -> bool {
        let condition = match () {
            () if is(option, "fnx") => FieldCondition::NoneThere,
            () if is(option, "fxx") => FieldCondition::AllThere,
            () => FieldCondition::None,
        };
        let exists = match () {
            () if is(option, "nx") => Some(false),
            () if is(option, "xx") => Some(true),
            () => None,
        };
        if !sets {
            self.persists = is(option, "persist") && self.time.is_none();
            return self.persists;
        }
        if condition != FieldCondition::None {
            let before = std::mem::replace(&mut self.condition, condition);
            return before == FieldCondition::None || before == condition;
        }
        if exists.is_some() {
            let before = std::mem::replace(&mut self.exists, exists);
            return before.is_none() || before == exists;
        }
        self.keeps = is(option, "keepttl") && self.time.is_none();
        self.keeps
    }

    fn change(&self, call: &Call<'_, '_, '_>) -> Result<DeadlineChange> {
        match self.time {
            Some((at, form)) => Ok(DeadlineChange::To(deadline_ms(call, at, form)?)),
            None if self.persists => Ok(DeadlineChange::Clear),
            None => Ok(DeadlineChange::None),
        }
    }
}

/// Returns the position of the first FIELDS.
fn position_of_fields(call: &Call<'_, '_, '_>, from: usize) -> Result<usize> {
    let mut positions = from..call.arguments.len() - 1;
    let found = positions.find(|&at| is(call.argument(at), "fields"));
    found.ok_or(CommandError::Refused(WRONG_COUNT))
}

/// Returns the positions behind FIELDS and the number of fields, of which each takes `step`.
fn names_behind(call: &Call<'_, '_, '_>, at: usize, step: usize) -> Result<Range<usize>> {
    let count = usize::try_from(call.integer(at + 1)?).unwrap_or(0);
    let names = call.rest(at + 2);
    if count == 0 || count.checked_mul(step) != Some(names.len()) {
        return Err(CommandError::Refused(WRONG_COUNT));
    }
    Ok(names)
}

const WRONG_COUNT: &str =
    "ERR numfields should be greater than 0 and match the provided number of fields";
