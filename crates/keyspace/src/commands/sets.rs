//! Commands on sets.

use std::ops::Range;

use tidewire_resp::{ArgumentList, Arguments};

use super::Call;
use super::options::{self, Words, above_zero};
use crate::encoding::Kind;
use crate::entry::{Entry, NewValue};
use crate::error::{CommandError, Result};
use crate::integers;
use crate::key::Key;
use crate::observer::Event;
use crate::sampling;
use crate::set::{self, Members};
use crate::table::Place;
use crate::text::Text;
use crate::view::{Expiry, View};

pub(super) fn sadd(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let limits = call.view.keyspace.set_limits();
    let members = call.arguments.tail(2);
    let place = match call.view.find(key) {
        Some(place) => place,
        None => {
            let empty = set::empty(call.argument(2), members.len(), limits);
            call.view.insert(key, empty, Expiry::Clear)
        }
    };
    let entry = call.view.entry_mut(key, place);
    if Members::of(entry).is_none() {
        return Err(CommandError::WrongType);
    }
    set::expect(entry, members.len(), limits);
    let mut added = 0;
    for member in members {
        added += i64::from(set::add(entry, member, limits));
    }
    if added > 0 {
        call.view.changed(key, place, Event::SetAdd);
    }
    call.reply.integer(added);
    Ok(())
}

pub(super) fn srem(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let mut removed = 0;
    if let Some(place) = find(call, key)? {
        for at in call.rest(2) {
            let member = call.argument(at);
            removed += i64::from(set::remove(call.view.entry_mut(key, place), member));
        }
        if removed > 0 {
            call.after_removal(key, place, Event::SetRemove, set::len);
        }
    }
    call.reply.integer(removed);
    Ok(())
}

pub(super) fn sismember(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let member = call.argument(2);
    let members = call.view.read_members(key)?;
    let there = members.is_some_and(|members| members.contains(member));
    call.reply.integer(i64::from(there));
    Ok(())
}

pub(super) fn smismember(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let wanted = call.arguments.tail(2);
    let members = call.view.read_members(key)?;
    call.reply.array(wanted.len());
    for member in wanted {
        let there = members.is_some_and(|members| members.contains(member));
        call.reply.integer(i64::from(there));
    }
    Ok(())
}

pub(super) fn smembers(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let members = call.view.read_members(key)?;
    call.reply.set(members.map_or(0, Members::len));
    for member in members.into_iter().flat_map(Members::iter) {
        call.reply.bulk(member.as_bytes());
    }
    Ok(())
}

pub(super) fn scard(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let count = call.view.read_members(key)?.map_or(0, Members::len);
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn spop(call: &mut Call<'_, '_, '_>) -> Result {
    let wanted = match call.arguments.len() {
        2 => None,
        3 => Some(options::positive(call.argument(2))?),
        _ => return Err(CommandError::Syntax),
    };
    let key = call.key(1);
    let place = find(call, key)?;
    let count = place.map_or(0, |place| set::len(call.view.entry(key, place)));
    let taken = wanted.map_or(1, |wanted| wanted as usize).min(count);
    if wanted.is_some() {
        call.reply.set(taken);
    }
    let Some(place) = place.filter(|_| taken > 0) else {
        if wanted.is_none() {
            call.reply.null();
        }
        return Ok(());
    };
    let keyspace = call.view.keyspace;
    if taken == count {
        let members = call.view.read_members(key)?;
        for member in members.into_iter().flat_map(Members::iter) {
            call.reply.bulk(member.as_bytes());
        }
        if call.is_propagated() && wanted.is_none() {
            let members = call.view.members(key);
            let last = members.and_then(|members| Some(members.iter().next()?.as_bytes().to_vec()));
            call.propagate([b"SREM", key.bytes, &last.unwrap_or_default()]);
        }
        call.view.about_to_go(key, place, Event::SetPop);
        call.view.remove(key, place, Event::Delete);
        if wanted.is_some() {
            call.propagate_removed(key);
        }
        return Ok(());
    }
    let mut popped_members = ArgumentList::new();
    let mut popped = Vec::new();
    for _ in 0..taken {
        let entry = call.view.entry_mut(key, place);
        let members = Members::of(entry).expect("the type was checked");
        let member = members
            .random(|| keyspace.random())
            .expect("members are left");
        popped.clear();
        popped.extend_from_slice(member.as_bytes());
        let is_removed = set::remove(entry, &popped);
        debug_assert!(is_removed, "the member was drawn from the set");
        call.reply.bulk(&popped);
        if call.is_propagated() {
            popped_members.push(&popped);
        }
    }
    call.view.changed(key, place, Event::SetPop);
    call.propagate_members(b"SREM", key, popped_members.as_arguments());
    Ok(())
}

pub(super) fn srandmember(call: &mut Call<'_, '_, '_>) -> Result {
    let keyspace = call.view.keyspace;
    let key = call.key(1);
    if call.arguments.len() == 2 {
        let members = call.view.read_members(key)?;
        match members.and_then(|members| members.random(|| keyspace.random())) {
            Some(member) => call.reply.bulk(member.as_bytes()),
            None => call.reply.null(),
        }
        return Ok(());
    }
    if call.arguments.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let wanted = call.integer(2)?;
    if wanted == i64::MIN {
        return Err(CommandError::CountOutOfRange);
    }
    let Some(members) = call.view.read_members(key)? else {
        call.reply.array(0);
        return Ok(());
    };
    let (random, pool) = (|| keyspace.random(), members.pool());
    let reply = &mut *call.reply;
    match usize::try_from(wanted) {
        Ok(wanted) => {
            reply.array(wanted.min(members.len()));
            pool.distinct(wanted, random, |member| reply.bulk(member.as_bytes()));
            Ok(())
        }
        Err(_) => sampling::reply_repeated(reply, wanted.unsigned_abs(), 1, |reply| {
            pool.one(random, |member| reply.bulk(member.as_bytes()));
        }),
    }
}

pub(super) fn smove(call: &mut Call<'_, '_, '_>) -> Result {
    let (from, to) = (call.key(1), call.key(2));
    let member = call.argument(3);
    let moved = match call.view.find(from) {
        None => false,
        Some(_) => {
            let there = call
                .view
                .read_members(from)?
                .is_some_and(|members| members.contains(member));
            call.view.read_members(to)?;
            there
        }
    };
    if moved && from.bytes != to.bytes {
        move_member(call, from, to, member)?;
    }
    call.reply.integer(i64::from(moved));
    Ok(())
}

pub(super) fn sinter(call: &mut Call<'_, '_, '_>) -> Result {
    let keys = call.rest(1);
    let sets = sets(&mut call.view, call.arguments, keys)?;
    let mark = call.reply.set_later();
    let mut count = 0;
    let reply = &mut *call.reply;
    intersect(sets, &mut |member| {
        reply.bulk(member.as_bytes());
        count += 1;
        true
    });
    call.reply.finish(mark, count);
    Ok(())
}

pub(super) fn sintercard(call: &mut Call<'_, '_, '_>) -> Result {
    let keys = above_zero(call.argument(1)).ok_or(CommandError::KeyCountNotPositive)?;
    if keys > call.arguments.len() - 2 {
        return Err(CommandError::TooFewKeys);
    }
    let mut limit = 0;
    let mut words = Words::new(call.arguments, 2 + keys);
    while let Some(option) = words.next() {
        let value = words.value_of(option, "limit");
        limit = options::limit(value.ok_or(CommandError::Syntax)?)?;
    }
    let mut count = 0;
    intersect(
        sets(&mut call.view, call.arguments, 2..2 + keys)?,
        &mut |_| {
            count += 1;
            count != limit
        },
    );
    call.reply.integer(count);
    Ok(())
}

pub(super) fn sunion(call: &mut Call<'_, '_, '_>) -> Result {
    let keys = call.rest(1);
    let limits = call.view.keyspace.set_limits();
    let sets = sets(&mut call.view, call.arguments, keys)?;
    let all_integers = |set: &Members<'_>| matches!(set, Members::Integers(_));
    let empty = if sets.iter().flatten().all(all_integers) {
        NewValue::Compact(Kind::Integers, integers::EMPTY)
    } else {
        set::empty_table()
    };
    let mut union = Entry::new(0, b"", empty, false);
    for member in sets.into_iter().flatten().flat_map(Members::iter) {
        set::add(&mut union, member.as_bytes(), limits);
    }
    let members = Members::of(&union).expect("a set was made");
    call.reply.set(members.len());
    members
        .iter()
        .for_each(|member| call.reply.bulk(member.as_bytes()));
    Ok(())
}

pub(super) fn sdiff(call: &mut Call<'_, '_, '_>) -> Result {
    let keys = call.rest(1);
    let sets = sets(&mut call.view, call.arguments, keys)?;
    let mark = call.reply.set_later();
    let mut count = 0;
    for member in difference(&sets) {
        call.reply.bulk(member.as_bytes());
        count += 1;
    }
    call.reply.finish(mark, count);
    Ok(())
}

pub(super) fn sinterstore(call: &mut Call<'_, '_, '_>) -> Result {
    store(call, Event::SetIntersectStore, |sets, add| {
        intersect(sets, &mut |member| {
            add(member);
            true
        });
    })
}

pub(super) fn sunionstore(call: &mut Call<'_, '_, '_>) -> Result {
    store(call, Event::SetUnionStore, |sets, add| {
        sets.into_iter()
            .flatten()
            .flat_map(Members::iter)
            .for_each(add);
    })
}

pub(super) fn sdiffstore(call: &mut Call<'_, '_, '_>) -> Result {
    store(call, Event::SetDifferenceStore, |sets, add| {
        difference(&sets).for_each(add);
    })
}

/// Returns the set to write to; an error for another type.
fn find(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result<Option<Place>> {
    call.find_if(key, |entry| Members::of(entry).is_some())
}

/// Moves a member from one set to another. The caller has checked both types.
fn move_member(call: &mut Call<'_, '_, '_>, from: Key<'_>, to: Key<'_>, member: &[u8]) -> Result {
    if let Some(place) = find(call, from)? {
        let is_removed = set::remove(call.view.entry_mut(from, place), member);
        debug_assert!(is_removed, "the caller found the member there");
        call.after_removal(from, place, Event::SetRemove, set::len);
    }
    let limits = call.view.keyspace.set_limits();
    let place = match find(call, to)? {
        Some(place) => place,
        None => call
            .view
            .insert(to, set::empty(member, 1, limits), Expiry::Clear),
    };
    if set::add(call.view.entry_mut(to, place), member, limits) {
        call.view.changed(to, place, Event::SetAdd);
    }
    Ok(())
}

/// Returns the sets of these keys, `None` for missing keys; an error if any has another type.
fn sets<'v>(
    view: &'v mut View<'_, '_>,
    arguments: Arguments<'_>,
    keys: Range<usize>,
) -> Result<Vec<Option<Members<'v>>>> {
    // Reads each key alone first: this removes expired keys and checks the types.
    view.counts_reads = true;
    for at in keys.clone() {
        view.read_members(view.key(&arguments[at]))?;
    }
    let view = &*view;
    Ok(keys
        .map(|at| view.members(view.key(&arguments[at])))
        .collect())
}

/// Passes the members of the intersection to `show`, until `show` returns that it is enough.
fn intersect(sets: Vec<Option<Members<'_>>>, show: &mut dyn FnMut(Text<'_>) -> bool) {
    let Some(mut sets) = sets.into_iter().collect::<Option<Vec<_>>>() else {
        return;
    };
    sets.sort_by_key(|members| members.len());
    let Some((smallest, others)) = sets.split_first() else {
        return;
    };
    for member in smallest.iter() {
        let everywhere = others.iter().all(|other| other.contains(member.as_bytes()));
        if everywhere && !show(member) {
            return;
        }
    }
}

/// Returns the members of the first set that are in none of the others.
fn difference<'v>(sets: &[Option<Members<'v>>]) -> impl Iterator<Item = Text<'v>> {
    let (first, others) = sets.split_first().expect("the arity promises a key");
    let mut members = first.iter().flat_map(|first| first.iter());
    std::iter::from_fn(move || {
        members.find(|member| {
            let mut others = others.iter().flatten();
            !others.any(|other| other.contains(member.as_bytes()))
        })
    })
}

/// Stores the result of `gather` under the first key. The sets are the arguments from the third on.
fn store(
    call: &mut Call<'_, '_, '_>,
    event: Event,
    gather: impl FnOnce(Vec<Option<Members<'_>>>, &mut dyn FnMut(Text<'_>)),
) -> Result {
    let to = call.key(1);
    let limits = call.view.keyspace.set_limits();
    let empty = NewValue::Compact(Kind::Integers, integers::EMPTY);
    let mut result = Entry::new(to.hash, to.bytes, empty, false);
    let keys = call.rest(2);
    gather(sets(&mut call.view, call.arguments, keys)?, &mut |member| {
        set::add(&mut result, member.as_bytes(), limits);
    });
    call.store_result(to, result, set::len, event);
    Ok(())
}
