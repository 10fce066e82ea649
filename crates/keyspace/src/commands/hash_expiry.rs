//! Commands on the TTLs of hash fields.

use tidewire_resp::number::parse_integer;

use super::Call;
use super::expiry::Conditions;
use super::hashes::{find_hash, find_or_insert, settle};
use super::options::{AT_MILLISECONDS, TimeForm, is};
use crate::error::{CommandError, Result};
use crate::fields::{self, Fields, FoundField};
use crate::key::Key;
use crate::observer::Event;
use crate::table::Place;

pub(super) fn hpersist(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let place = find_hash(call, key)?;
    let names = field_names(call, 2, NOT_POSITIVE)?;
    call.reply.array(names.len());
    let mut changed = false;
    for at in names {
        let field = call.argument(at);
        let reply = match place.and_then(|place| deadline_of(call, key, place, field)) {
            None => NO_FIELD,
            Some(None) => NO_DEADLINE,
            Some(Some(_)) => DONE,
        };
        if reply == DONE
            && let Some(place) = place
        {
            fields::set_deadline(call.view.entry_mut(key, place), field, None);
            changed = true;
        }
        call.reply.integer(reply);
    }
    if changed && let Some(place) = place {
        call.view.settle_fields(key, place);
        call.view.changed(key, place, Event::HashPersist);
    }
    Ok(())
}

pub(super) fn hgetdel(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let place = find_hash(call, key)?;
    let names = field_names(call, 2, NOT_POSITIVE)?;
    call.reply.array(names.len());
    let Some(place) = place else {
        names.for_each(|_| call.reply.null());
        return Ok(());
    };
    let mut done = Done::new(key, place);
    for at in names {
        let field = call.argument(at);
        if done.reply_value(call, field) {
            fields::remove(call.view.entry_mut(key, place), field);
            done.deleted += 1;
        }
    }
    done.finish(call);
    if done.deleted > 0 && call.is_propagated() {
        let mut words = vec![&b"HDEL"[..], key.bytes];
        words.extend(call.arguments.tail(4));
        call.propagate(words);
    }
    Ok(())
}

pub(super) fn hgetex(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let place = find_hash(call, key)?;
    let option = call.argument(2);
    let (change, from) = match TimeForm::of_option(option) {
        Some(form) => (DeadlineChange::To(deadline_ms(call, 3, form)?), 4),
        None if is(option, "persist") => (DeadlineChange::Clear, 3),
        None => (DeadlineChange::None, 2),
    };
    if from + 1 >= call.arguments.len() {
        return Err(CommandError::WrongArity(call.command.full_name));
    }
    let names = field_names(call, from, NOT_POSITIVE)?;
    call.reply.array(names.len());
    let Some(place) = place else {
        names.for_each(|_| call.reply.null());
        return Ok(());
    };
    if change != DeadlineChange::None {
        fields::make_timed(call.view.entry_mut(key, place));
    }
    let mut done = Done::new(key, place);
    for at in names {
        let field = call.argument(at);
        if done.reply_value(call, field) {
            done.apply(call, field, change);
        }
    }
    done.finish(call);
    if done.updated > 0 && call.is_propagated() {
        let mut digits = itoa::Buffer::new();
        let mut words = match change {
            DeadlineChange::To(deadline_ms) => {
                let deadline = digits.format(deadline_ms).as_bytes();
                vec![b"HPEXPIREAT", key.bytes, deadline]
            }
            _ => vec![&b"HPERSIST"[..], key.bytes],
        };
        words.extend(call.arguments.tail(from));
        call.propagate(words);
    }
    Ok(())
}

pub(super) fn hsetex(call: &mut Call<'_, '_, '_>) -> Result {
    let options = FieldSetOptions::parse(call)?;
    let key = call.key(1);
    let found = find_hash(call, key)?;
    if found.is_none() && options.condition == FieldCondition::AllThere {
        call.reply.integer(0);
        return Ok(());
    }
    let place = match found {
        Some(place) => place,
        None => find_or_insert(call, key)?,
    };
    let mut done = Done::new(key, place);
    let allowed = options.allow(call, &mut done);
    if allowed {
        let keeps = options.keeps_deadlines;
        if keeps && options.change == DeadlineChange::None {
            // An expired field has no TTL to keep.
            done.remove_due(call, options.first);
        }
        let limits = call.view.keyspace.hash_limits();
        let pairs = call.rest(options.first);
        let entry = call.view.entry_mut(key, place);
        fields::expect(entry, pairs.len() / 2, limits);
        if options.change != DeadlineChange::None {
            fields::make_timed(entry);
        }
        // One by one, so that fields with a past deadline never exist all at once.
        for at in pairs.step_by(2) {
            let (field, value) = (call.argument(at), call.argument(at + 1));
            let entry = call.view.entry_mut(key, place);
            fields::set(entry, field, value, limits, keeps);
            done.apply(call, field, options.change);
        }
    }
    call.reply.integer(i64::from(allowed));
    done.set = allowed;
    done.finish(call);
    if let Some((at, deadline_ms)) = options.time_at.zip(options.change.deadline_ms())
        && done.deleted == 0
        && allowed
        && call.is_propagated()
    {
        let mut digits = itoa::Buffer::new();
        let deadline = digits.format(deadline_ms).as_bytes();
        let words = call.arguments.iter().enumerate();
        let words = words.map(|(position, word)| match position {
            position if position + 1 == at => b"PXAT",
            position if position == at => deadline,
            _ => word,
        });
        call.propagate(words);
    }
    Ok(())
}

pub(super) fn set_deadlines(call: &mut Call<'_, '_, '_>, form: TimeForm) -> Result {
    let key = call.key(1);
    let place = find_hash(call, key)?;
    let deadline_ms = deadline_ms(call, 2, form)?;
    let mut conditions = Conditions::default();
    let from = if conditions.take(call.argument(3)) {
        4
    } else {
        3
    };
    let names = field_names(call, from, TOO_FEW_FIELDS)?;
    call.reply.array(names.len());
    let Some(place) = place else {
        names.for_each(|_| call.reply.integer(NO_FIELD));
        return Ok(());
    };
    fields::make_timed(call.view.entry_mut(key, place));
    let mut done = Done::new(key, place);
    let mut updated = Vec::new();
    for at in names {
        let field = call.argument(at);
        let reply = match deadline_of(call, key, place, field) {
            None => NO_FIELD,
            Some(old_ms) if !conditions.allow(old_ms, deadline_ms) => REFUSED,
            Some(_) => done.apply(call, field, DeadlineChange::To(deadline_ms)),
        };
        call.reply.integer(reply);
        if reply == DONE && call.is_propagated() {
            updated.push(field);
        }
    }
    done.finish(call);
    if !updated.is_empty() {
        // Only those fields whose deadline has changed.
        let (mut deadline, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
        let deadline = deadline.format(deadline_ms).as_bytes();
        let mut words = vec![&b"HPEXPIREAT"[..], key.bytes, deadline];
        words.extend(call.arguments.iter().take(from).skip(3));
        words.extend([&b"FIELDS"[..], count.format(updated.len()).as_bytes()]);
        words.extend(&updated);
        call.propagate(words);
    }
    Ok(())
}

pub(super) fn reply_deadlines(call: &mut Call<'_, '_, '_>, form: TimeForm) -> Result {
    let key = call.key(1);
    let now_ms = call.view.now_ms;
    let from_ms = if form.relative { now_ms } else { 0 };
    let names = field_names(call, 2, NOT_POSITIVE);
    // Redis checks the key before the other arguments.
    let fields = call.view.read_fields(key)?;
    let names = names?;
    call.reply.array(names.len());
    for at in names {
        let field = call.arguments.get(at).unwrap_or_default();
        let reply = match fields.and_then(|fields| fields.deadline_of(field)) {
            None => NO_FIELD,
            Some(None) => NO_DEADLINE,
            Some(Some(deadline_ms)) => {
                (deadline_ms + form.unit_ms - 1).saturating_sub(from_ms) / form.unit_ms
            }
        };
        call.reply.integer(reply);
    }
    Ok(())
}

/// The effects of a command on the fields of a hash.
struct Done<'a> {
    key: Key<'a>,
    place: Place,
    /// Fields found expired.
    expired: usize,
    /// Values were set.
    set: bool,
    /// Fields with a new deadline, or without one now.
    updated: usize,
    /// Deadlines were removed, not set.
    persisted: bool,
    /// Fields removed by name or by a past deadline.
    deleted: usize,
}

impl<'a> Done<'a> {
    fn new(key: Key<'a>, place: Place) -> Self {
        Done {
            key,
            place,
            expired: 0,
            set: false,
            updated: 0,
            persisted: false,
            deleted: 0,
        }
    }

    /// Changes the deadline of a field, if it exists. Returns the reply of HEXPIRE.
    fn apply(&mut self, call: &mut Call<'_, '_, '_>, field: &[u8], change: DeadlineChange) -> i64 {
        let (key, place, now_ms) = (self.key, self.place, call.view.now_ms);
        let entry = call.view.entry_mut(key, place);
        match change {
            DeadlineChange::None => {}
            DeadlineChange::To(deadline_ms) if deadline_ms <= now_ms => {
                // A field that is named twice is removed once.
                let removed = usize::from(fields::remove(entry, field));
                self.deleted += removed;
                if removed > 0 {
                    call.propagate([&b"HDEL"[..], key.bytes, field]);
                }
                call.view.keyspace.note_expired_fields(removed);
                return PAST;
            }
            DeadlineChange::To(deadline_ms) => {
                fields::set_deadline(entry, field, Some(deadline_ms));
                self.updated += 1;
            }
            DeadlineChange::Clear => {
                let timed = Fields::of(entry, now_ms).and_then(|f| f.deadline_of(field));
                if timed.flatten().is_some() {
                    fields::set_deadline(entry, field, None);
                    self.updated += 1;
                    self.persisted = true;
                }
            }
        }
        DONE
    }

    /// Notifies the observer. Deletes the hash if it is empty.
    fn finish(&self, call: &mut Call<'_, '_, '_>) {
        let (key, place) = (self.key, self.place);
        call.view.keyspace.note_expired_fields(self.expired);
        let changed = match (self.updated, self.deleted) {
            (0, 0) => None,
            (_, 1..) => Some(Event::HashDelete),
            _ if self.persisted => Some(Event::HashPersist),
            _ => Some(Event::HashExpire),
        };
        let events = [
            (self.expired > 0).then_some(Event::HashExpired),
            self.set.then_some(Event::HashSet),
            changed,
        ];
        let events = events.into_iter().flatten();
        call.view.changed_at_once(key, place, events);
        if !self.set && self.updated == 0 {
            // Expirations and removals were propagated field by field.
            call.propagate_no_request();
        }
        settle(call, key, place);
    }

    /// Removes the expired fields among the pairs from argument `from` on.
    fn remove_due(&mut self, call: &mut Call<'_, '_, '_>, from: usize) {
        if fields::is_timed(call.view.entry(self.key, self.place)) {
            for at in call.rest(from).step_by(2) {
                self.is_there(call, call.argument(at));
            }
        }
    }

    /// Returns whether a field exists. An expired field is removed.
    fn is_there(&mut self, call: &mut Call<'_, '_, '_>, field: &[u8]) -> bool {
        let now_ms = call.view.now_ms;
        let fields = Fields::of(call.view.entry(self.key, self.place), now_ms);
        match fields.map_or(FoundField::Missing, |fields| fields.find(field)) {
            FoundField::Value(_) => true,
            FoundField::Missing => false,
            FoundField::Due => {
                fields::remove(call.view.entry_mut(self.key, self.place), field);
                call.view.propagate_field_gone(self.key, field);
                self.expired += 1;
                false
            }
        }
    }

    /// Replies the value of a field; returns false if it is missing. An expired field is removed.
    fn reply_value(&mut self, call: &mut Call<'_, '_, '_>, field: &[u8]) -> bool {
        let now_ms = call.view.now_ms;
        let fields = Fields::of(call.view.entry(self.key, self.place), now_ms);
        if let Some(value) = fields.and_then(|fields| fields.get(field)) {
            call.reply.bulk(value);
            return true;
        }
        call.reply.null();
        self.is_there(call, field)
    }
}

/// A change of a field's TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeadlineChange {
    None,
    Clear,
    /// Ms since the UNIX epoch.
    To(i64),
}

impl DeadlineChange {
    fn deadline_ms(self) -> Option<i64> {
        match self {
            DeadlineChange::To(deadline_ms) => Some(deadline_ms),
            _ => None,
        }
    }
}

/// The condition of HSETEX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldCondition {
    None,
    /// FXX.
    AllThere,
    /// FNX.
    NoneThere,
}

struct FieldSetOptions {
    condition: FieldCondition,
    change: DeadlineChange,
    /// Fields keep their TTLs, or get new ones afterwards.
    keeps_deadlines: bool,
    /// Position of the TTL argument, if its form differs from the propagated one.
    time_at: Option<usize>,
    /// Position of the first field.
    first: usize,
}

impl FieldSetOptions {
    fn parse(call: &Call<'_, '_, '_>) -> Result<Self> {
        let wrong_arity = CommandError::WrongArity(call.command.full_name);
        let mut options = FieldSetOptions {
            condition: FieldCondition::None,
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

    /// Returns whether the condition holds. Expired fields that it looks at are removed.
    fn allow(&self, call: &mut Call<'_, '_, '_>, done: &mut Done<'_>) -> bool {
        if self.condition == FieldCondition::None {
            return true;
        }
        call.rest(self.first).step_by(2).all(|at| {
            let field = call.argument(at);
            let there = done.is_there(call, field);
            there == (self.condition == FieldCondition::AllThere)
        })
    }
}

fn deadline_of(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
    place: Place,
    field: &[u8],
) -> Option<Option<i64>> {
    let now_ms = call.view.now_ms;
    Fields::of(call.view.entry(key, place), now_ms)?.deadline_of(field)
}

/// Returns the positions of the fields after FIELDS, which is at `at`, and their number.
fn field_names(
    call: &Call<'_, '_, '_>,
    at: usize,
    not_positive: &'static str,
) -> Result<std::ops::Range<usize>> {
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
fn deadline_ms(call: &Call<'_, '_, '_>, at: usize, form: TimeForm) -> Result<i64> {
    let amount = call.integer(at)?;
    if amount < 0 {
        return Err(CommandError::Refused(NEGATIVE_TIME));
    }
    let deadline_ms = form.deadline_ms(amount, call.view.clock_ms, call.command.full_name)?;
    if deadline_ms > DEADLINE_MS_MAX {
        return Err(CommandError::InvalidExpire(call.command.full_name));
    }
    Ok(deadline_ms)
}

const NO_FIELD: i64 = -2;
const NO_DEADLINE: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
/// Reply of HEXPIRE: the field was removed, because the deadline is in the past.
const PAST: i64 = 2;

const DEADLINE_MS_MAX: i64 = (1 << 46) - 1;

const NEGATIVE_TIME: &str = "ERR invalid expire time, must be >= 0";
const MISSING_TIME: &str = "ERR missing expire time";
const NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";
const TOO_FEW_FIELDS: &str = "ERR Parameter `numFields` should be greater than 0";
const OTHER_FIELD_COUNT: &str = "ERR The `numfields` parameter must match the number of arguments";
const INVALID_FIELD_COUNT: &str = "ERR invalid number of fields";
const SEVERAL_CONDITIONS: &str = "ERR Only one of FXX or FNX arguments can be specified";
const SEVERAL_TIMES: &str =
    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
