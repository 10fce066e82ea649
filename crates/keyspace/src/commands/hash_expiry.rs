//! Commands on the TTLs of hash fields.

use super::Call;
use super::hash_options::{
    DeadlineChange, FieldCondition, FieldSetOptions, deadline_ms, field_names, parse_expire,
    parse_get, parse_set, valkey,
};
use super::hashes::{find_hash, find_or_insert, settle};
use super::options::TimeForm;
use std::ops::Range;

use crate::error::Result;
use crate::fields::{self, Fields, FoundField};
use crate::key::Key;
use crate::observer::Event;
use crate::table::Place;

pub(super) fn hpersist(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let place = find_hash(call, key)?;
    let names = field_names(call, 2)?;
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
    let names = field_names(call, 2)?;
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
    let (change, names) = match call.view.keyspace.follows_valkey() {
        true => valkey::parse_get(call)?,
        false => parse_get(call)?,
    };
    call.reply.array(names.len());
    let Some(place) = place else {
        names.for_each(|_| call.reply.null());
        return Ok(());
    };
    make_room(call, key, place, change, names.clone());
    let mut done = Done::new(key, place);
    for at in names.clone() {
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
        let fields = call.arguments.iter().take(names.end);
        words.extend(fields.skip(names.start - 2));
        call.propagate(words);
    }
    Ok(())
}

/// Makes room for TTLs in a hash. Valkey does so only if one of the fields gets one.
fn make_room(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
    place: Place,
    change: DeadlineChange,
    mut names: Range<usize>,
) {
    if change == DeadlineChange::None {
        return;
    }
    if call.view.keyspace.follows_valkey() {
        let lasts = change
            .deadline_ms()
            .is_some_and(|to_ms| to_ms > call.view.now_ms);
        let is_there = |at| deadline_of(call, key, place, call.argument(at)).is_some();
        if !lasts || !names.any(is_there) {
            return;
        }
    }
    fields::make_timed(call.view.entry_mut(key, place));
}

pub(super) fn hsetex(call: &mut Call<'_, '_, '_>) -> Result {
    let follows_valkey = call.view.keyspace.follows_valkey();
    let options = match follows_valkey {
        true => valkey::parse_set(call)?,
        false => parse_set(call)?,
    };
    let key = call.key(1);
    let found = find_hash(call, key)?;
    if options
        .exists
        .is_some_and(|exists| exists != found.is_some())
    {
        call.reply.integer(0);
        return Ok(());
    }
    if found.is_none() && options.condition == FieldCondition::AllThere {
        call.reply.integer(0);
        return Ok(());
    }
    let place = match found {
        Some(place) => place,
        None => find_or_insert(call, key)?,
    };
    let mut done = Done::new(key, place);
    let allowed = allows(&options, call, &mut done);
    if allowed {
        let keeps = options.keeps_deadlines;
        if follows_valkey || keeps && options.change == DeadlineChange::None {
            // An expired field has no TTL to keep. Valkey tells that it has expired.
            done.remove_due(call, &options.pairs);
        }
        let limits = call.view.keyspace.hash_limits();
        let now_ms = call.view.now_ms;
        let pairs = options.pairs.clone();
        let entry = call.view.entry_mut(key, place);
        fields::expect(entry, pairs.len() / 2, limits);
        let to_ms = options.change.deadline_ms();
        let lasts = to_ms.is_some_and(|to_ms| to_ms > now_ms);
        // In Valkey a hash stays small if no TTL remains.
        if lasts || to_ms.is_some() && !follows_valkey {
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
    done.timed = allowed && options.change != DeadlineChange::None;
    done.finish(call);
    if !allowed || !call.is_propagated() || done.deleted > 0 {
        return Ok(());
    }
    if follows_valkey {
        let mut digits = itoa::Buffer::new();
        let deadline = digits.format(options.change.deadline_ms().unwrap_or(0));
        let words = valkey::propagated_set(call.arguments, &options, deadline.as_bytes());
        call.propagate(words);
    } else if let Some((at, deadline_ms)) = options.time_at.zip(options.change.deadline_ms()) {
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
    let (conditions, names, deadline_ms) = match call.view.keyspace.follows_valkey() {
        true => {
            let (conditions, names) = valkey::parse_expire(call)?;
            (conditions, names, deadline_ms(call, 2, form)?)
        }
        false => parse_expire(call, form)?,
    };
    call.reply.array(names.len());
    let Some(place) = place else {
        names.for_each(|_| call.reply.integer(NO_FIELD));
        return Ok(());
    };
    make_room(
        call,
        key,
        place,
        DeadlineChange::To(deadline_ms),
        names.clone(),
    );
    let mut done = Done::new(key, place);
    let mut updated = Vec::new();
    for at in names.clone() {
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
        words.extend(call.arguments.iter().take(names.start - 2).skip(3));
        words.extend([&b"FIELDS"[..], count.format(updated.len()).as_bytes()]);
        words.extend(&updated);
        words.extend(call.arguments.tail(names.end));
        call.propagate(words);
    }
    Ok(())
}

pub(super) fn reply_deadlines(call: &mut Call<'_, '_, '_>, form: TimeForm) -> Result {
    let key = call.key(1);
    let now_ms = call.view.now_ms;
    let from_ms = if form.relative { now_ms } else { 0 };
    // Redis rounds up, Valkey to the nearest unit.
    let more_ms = match call.view.keyspace.follows_valkey() {
        true => form.unit_ms / 2,
        false => form.unit_ms - 1,
    };
    let names = field_names(call, 2);
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
                (deadline_ms + more_ms).saturating_sub(from_ms) / form.unit_ms
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
    /// They got a TTL.
    timed: bool,
    /// Fields with a new deadline, or without one now.
    updated: usize,
    /// Deadlines were removed, not set.
    persisted: bool,
    /// Fields removed by name or by a past deadline.
    deleted: usize,
    /// Fields removed by a past deadline.
    past: usize,
}

impl<'a> Done<'a> {
    fn new(key: Key<'a>, place: Place) -> Self {
        Done {
            key,
            place,
            expired: 0,
            set: false,
            timed: false,
            updated: 0,
            persisted: false,
            deleted: 0,
            past: 0,
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
                self.past += removed;
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
        let events = match call.view.keyspace.follows_valkey() {
            true => self.valkey_events(),
            false => self.events(),
        };
        let events = events.into_iter().flatten();
        call.view.changed_at_once(key, place, events);
        if !self.set && self.updated == 0 {
            // Expirations and removals were propagated field by field.
            call.propagate_no_request();
        }
        settle(call, key, place);
    }

    fn events(&self) -> [Option<Event>; 4] {
        let changed = match (self.updated, self.deleted) {
            (0, 0) => None,
            (_, 1..) => Some(Event::HashDelete),
            _ if self.persisted => Some(Event::HashPersist),
            _ => Some(Event::HashExpire),
        };
        [
            (self.expired > 0).then_some(Event::HashExpired),
            self.set.then_some(Event::HashSet),
            changed,
            None,
        ]
    }

    /// Valkey tells a past deadline as any other end of a field, and HSETEX's TTL in each case.
    fn valkey_events(&self) -> [Option<Event>; 4] {
        let is_deleted = self.deleted > self.past;
        let changed = match () {
            () if is_deleted => Some(Event::HashDelete),
            () if self.persisted => Some(Event::HashPersist),
            () if self.timed || self.updated > 0 => Some(Event::HashExpire),
            () => None,
        };
        [
            (self.expired > 0).then_some(Event::HashExpired),
            self.set.then_some(Event::HashSet),
            changed,
            (self.past > 0).then_some(Event::HashExpired),
        ]
    }

    /// Removes the expired fields among these pairs.
    fn remove_due(&mut self, call: &mut Call<'_, '_, '_>, pairs: &Range<usize>) {
        if fields::is_timed(call.view.entry(self.key, self.place)) {
            for at in pairs.clone().step_by(2) {
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

/// Returns whether the condition of HSETEX holds. Expired fields that it looks at are removed.
fn allows(options: &FieldSetOptions, call: &mut Call<'_, '_, '_>, done: &mut Done<'_>) -> bool {
    if options.condition == FieldCondition::None {
        return true;
    }
    options.pairs.clone().step_by(2).all(|at| {
        let field = call.argument(at);
        let there = done.is_there(call, field);
        there == (options.condition == FieldCondition::AllThere)
    })
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

const NO_FIELD: i64 = -2;
const NO_DEADLINE: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
/// Reply of HEXPIRE: the field was removed, because the deadline is in the past.
const PAST: i64 = 2;
