//! Commands on lists.

use tidewire_resp::number::parse_integer;
use tidewire_resp::{Arguments, Writer};

use super::options::{is, positions, positive};
use super::popping::ManyPop;
use super::{Call, Flags};
use crate::encoding::Kind;
use crate::entry::Entry;
use crate::error::{CommandError, Result};
use crate::key::Key;
use crate::keyspace::Keyspace;
use crate::list::{self, List};
use crate::observer::Event;
use crate::quicklist::ListLimits;
use crate::table::Place;
use crate::value::Object;
use crate::view::Expiry;

pub(super) fn lpush(call: &mut Call<'_, '_, '_>) -> Result {
    push_all(call, true, true)
}

pub(super) fn rpush(call: &mut Call<'_, '_, '_>) -> Result {
    push_all(call, false, true)
}

pub(super) fn lpush_directly(
    keyspace: &Keyspace,
    entry: &mut Entry,
    arguments: Arguments<'_>,
    reply: &mut Writer<'_>,
) -> bool {
    push_directly(entry, arguments, true, keyspace.list_limits(), reply)
}

pub(super) fn rpush_directly(
    keyspace: &Keyspace,
    entry: &mut Entry,
    arguments: Arguments<'_>,
    reply: &mut Writer<'_>,
) -> bool {
    push_directly(entry, arguments, false, keyspace.list_limits(), reply)
}

pub(super) fn llen(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let count = call.view.read_list(key)?.map_or(0, List::len);
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn lrange(call: &mut Call<'_, '_, '_>) -> Result {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let key = call.key(1);
    let list = call.view.read_list(key)?;
    let wanted = positions(start, end, list.map_or(0, List::len));
    call.reply.array(wanted.len());
    if let Some(list) = list {
        list.show(wanted.start, wanted.len(), |element| {
            call.reply.bulk(element)
        });
    }
    Ok(())
}

pub(super) fn lindex(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let index = call.integer(2);
    let element = match call.view.read_list(key)? {
        None => None,
        Some(list) => position(index?, list.len()).and_then(|index| list.get(index)),
    };
    match element {
        Some(element) => call.reply.bulk(element.as_bytes()),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn lset(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let place = find(call, key)?.ok_or(CommandError::NoSuchKey)?;
    let index = call.integer(2)?;
    let element = call.argument(3);
    let limits = call.view.keyspace.list_limits();
    let entry = call.view.entry_mut(key, place);
    list::expect(entry, element.len(), 1, limits);
    let list = List::of(entry).expect("the type was checked");
    let spot = position(index, list.len()).and_then(|index| list.locate(index));
    let Some(spot) = spot else {
        list::settle(entry, false, limits);
        return Err(CommandError::IndexOutOfRange);
    };
    list::replace(entry, &spot, element, limits);
    list::settle(entry, true, limits);
    call.view.changed(key, place, Event::ListSet);
    call.reply.ok();
    Ok(())
}

pub(super) fn linsert(call: &mut Call<'_, '_, '_>) -> Result {
    let behind = is(call.argument(2), "after");
    if !behind && !is(call.argument(2), "before") {
        return Err(CommandError::Syntax);
    }
    let key = call.key(1);
    let (pivot, element) = (call.argument(3), call.argument(4));
    let Some(place) = find(call, key)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let limits = call.view.keyspace.list_limits();
    let entry = call.view.entry_mut(key, place);
    list::expect(entry, element.len(), 1, limits);
    let spot = List::of(entry).and_then(|list| list.find(pivot));
    let Some(spot) = spot else {
        call.reply.integer(-1);
        return Ok(());
    };
    list::insert(entry, &spot, behind, element, limits);
    let count = list::len(entry);
    call.view.changed(key, place, Event::ListInsert);
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn lrem(call: &mut Call<'_, '_, '_>) -> Result {
    let count = call.integer(2)?;
    if count == i64::MIN {
        return Err(CommandError::CountOutOfRange);
    }
    let key = call.key(1);
    let element = call.argument(3);
    let mut removed = 0;
    if let Some(place) = find(call, key)? {
        let most = match usize::try_from(count.unsigned_abs()) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(most) => most,
        };
        let limits = call.view.keyspace.list_limits();
        let entry = call.view.entry_mut(key, place);
        removed = list::remove_equal(entry, element, count < 0, most, limits);
        if removed > 0 {
            after_removal(call, key, place, Event::ListRemove);
        }
    }
    call.reply.integer(removed as i64);
    Ok(())
}

pub(super) fn ltrim(call: &mut Call<'_, '_, '_>) -> Result {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let key = call.key(1);
    if let Some(place) = find(call, key)? {
        let limits = call.view.keyspace.list_limits();
        let entry = call.view.entry_mut(key, place);
        let length = list::len(entry);
        let kept = positions(start, end, length);
        list::remove_range(entry, kept.end, length - kept.end, limits);
        list::remove_range(entry, 0, kept.start, limits);
        after_removal(call, key, place, Event::ListTrim);
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn lpos(call: &mut Call<'_, '_, '_>) -> Result {
    let search = Search::parse(call)?;
    let key = call.key(1);
    let element = call.argument(2);
    let list = call.view.read_list(key)?;
    let length = list.map_or(0, List::len);
    let backwards = search.rank < 0;
    let mut skipped = search.rank.unsigned_abs() - 1;
    let first = if backwards {
        length.saturating_sub(1)
    } else {
        0
    };
    let mut found = list
        .into_iter()
        .flat_map(|list| list.iter_from(first, backwards))
        .take(search.looked_at_max)
        .enumerate()
        .filter(|(_, text)| text.as_bytes() == element)
        .filter(|_| {
            let counts = skipped == 0;
            skipped = skipped.saturating_sub(1);
            counts
        })
        .map(|(at, _)| if backwards { length - 1 - at } else { at } as i64);
    match search.count {
        None => match found.next() {
            Some(position) => call.reply.integer(position),
            None => call.reply.null(),
        },
        Some(most) => {
            let mark = call.reply.array_later();
            let mut count = 0;
            for position in found.take(most) {
                call.reply.integer(position);
                count += 1;
            }
            call.reply.finish(mark, count);
        }
    }
    Ok(())
}

pub(super) fn lmove(call: &mut Call<'_, '_, '_>) -> Result {
    let (from_front, to_front) = (end(call.argument(3))?, end(call.argument(4))?);
    move_element(call, from_front, to_front)
}

pub(super) fn lmpop(call: &mut Call<'_, '_, '_>) -> Result {
    let request = ManyPop::parse(call, 1, end)?;
    if !pop_many(call, &request)? {
        call.reply.null_array();
    }
    Ok(())
}

/// Pops from the first list that exists. Returns whether there was one.
pub(super) fn pop_many(call: &mut Call<'_, '_, '_>, request: &ManyPop<bool>) -> Result<bool> {
    let (front, count) = (request.end, request.count);
    let take =
        |call: &mut Call<'_, '_, '_>, key: Key<'_>, place| take(call, key, place, front, count);
    request.run(call, find, take, pop_name(front))
}

/// Returns the list to write to; an error for another type.
pub(super) fn find(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result<Option<Place>> {
    call.find_if(key, |entry| List::of(entry).is_some())
}

pub(super) fn push_all(call: &mut Call<'_, '_, '_>, front: bool, create: bool) -> Result {
    let key = call.key(1);
    let place = match call.view.find(key) {
        Some(place) => place,
        None if create => call.view.insert(key, list::empty(), Expiry::Clear),
        None => {
            call.reply.integer(0);
            return Ok(());
        }
    };
    let limits = call.view.keyspace.list_limits();
    let added = call.arguments.tail(2);
    let entry = call.view.entry_mut(key, place);
    let count = if let Some(Object::List(list)) = entry.object_mut() {
        list.push_all(front, added.iter(), limits);
        list.len()
    } else if entry.kind() == Kind::PackedList {
        let bytes = added.iter().map(<[u8]>::len).sum();
        list::expect(entry, bytes, added.len(), limits);
        for element in added {
            list::push(entry, front, element, limits);
        }
        list::len(entry)
    } else {
        return Err(CommandError::WrongType);
    };
    call.view.changed(key, place, pushed(front));
    call.reply.integer(count as i64);
    Ok(())
}

/// Does the same for a quicklist.
#[inline]
fn push_directly(
    entry: &mut Entry,
    arguments: Arguments<'_>,
    front: bool,
    limits: ListLimits,
    reply: &mut Writer<'_>,
) -> bool {
    let Some(Object::List(list)) = entry.object_mut() else {
        return false;
    };
    list.push_all(front, arguments.tail(2).iter(), limits);
    reply.integer(list.len() as i64);
    true
}

pub(super) fn pop(call: &mut Call<'_, '_, '_>, front: bool) -> Result {
    let wanted = match call.arguments.len() {
        2 => None,
        3 => Some(positive(call.argument(2))?),
        _ => return Err(CommandError::WrongArity(call.command.full_name)),
    };
    let key = call.key(1);
    match (find(call, key)?, wanted) {
        (None, None) => call.reply.null(),
        (None, Some(_)) => call.reply.null_array(),
        (Some(_), Some(0)) => call.reply.array(0),
        (Some(place), None) => {
            take_one(call, key, place, front);
        }
        (Some(place), Some(wanted)) => {
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            take(call, key, place, front, wanted);
        }
    }
    Ok(())
}

/// Replies the element at one end of a list and removes it.
pub(super) fn take_one(call: &mut Call<'_, '_, '_>, key: Key<'_>, place: Place, front: bool) {
    let entry = call.view.entry(key, place);
    let list = List::of(entry).expect("the type was checked");
    let index = if front { 0 } else { list.len() - 1 };
    if let Some(element) = list.get(index) {
        call.reply.bulk(element.as_bytes());
    }
    remove_at_end(call, key, place, front, 1);
}

/// Replies up to `wanted` elements from one end of a list and removes them. Returns how many.
fn take(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
    place: Place,
    front: bool,
    wanted: usize,
) -> usize {
    let entry = call.view.entry(key, place);
    let list = List::of(entry).expect("the type was checked");
    let count = wanted.min(list.len());
    let first = if front { 0 } else { list.len() - 1 };
    call.reply.array(count);
    for element in list.iter_from(first, !front).take(count) {
        call.reply.bulk(element.as_bytes());
    }
    remove_at_end(call, key, place, front, count);
    count
}

/// Returns the name of the command that pops from this end.
pub(super) fn pop_name(front: bool) -> &'static [u8] {
    match front {
        true => b"LPOP",
        false => b"RPOP",
    }
}

fn remove_at_end(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
    place: Place,
    front: bool,
    count: usize,
) {
    let limits = call.view.keyspace.list_limits();
    let entry = call.view.entry_mut(key, place);
    let start = if front { 0 } else { list::len(entry) - count };
    list::remove_range(entry, start, count, limits);
    after_removal(call, key, place, popped(front));
}

fn after_removal(call: &mut Call<'_, '_, '_>, key: Key<'_>, place: Place, event: Event) {
    let limits = call.view.keyspace.list_limits();
    list::settle(call.view.entry_mut(key, place), true, limits);
    call.after_removal(key, place, event, list::len);
}

/// Moves an element, as LMOVE does.
pub(super) fn move_element(
    call: &mut Call<'_, '_, '_>,
    from_front: bool,
    to_front: bool,
) -> Result {
    let (from, to) = (call.key(1), call.key(2));
    if find(call, from)?.is_none() {
        call.reply.null();
        return Ok(());
    }
    let limits = call.view.keyspace.list_limits();
    let target = match find(call, to)? {
        Some(place) => place,
        None => call.view.insert(to, list::empty(), Expiry::Clear),
    };
    // The insertion may have moved the source's entry.
    let Some(source) = find(call, from)? else {
        return Ok(());
    };
    let list = List::of(call.view.entry(from, source)).expect("the type was checked");
    let index = if from_front { 0 } else { list.len() - 1 };
    let Some(element) = list.get(index) else {
        return Ok(());
    };
    let moved = element.as_bytes().to_vec();
    call.reply.bulk(&moved);
    let same = from.bytes == to.bytes;
    if same {
        // Removes the element first, so that the list never contains it twice.
        list::remove_range(call.view.entry_mut(from, source), index, 1, limits);
    }
    let entry = call.view.entry_mut(to, target);
    list::expect(entry, moved.len(), 1, limits);
    list::push(entry, to_front, &moved, limits);
    if same {
        list::settle(call.view.entry_mut(from, source), true, limits);
        let events = [pushed(to_front), popped(from_front)];
        call.view.changed_at_once(from, source, events);
    } else {
        call.view.changed(to, target, pushed(to_front));
        remove_at_end(call, from, source, from_front, 1);
    }
    if call.is_propagated() && call.command.has(Flags::BLOCKING) {
        let arguments = call.arguments;
        match call.arguments.len() {
            6 => call.propagate([b"LMOVE", from.bytes, to.bytes, &arguments[3], &arguments[4]]),
            _ => call.propagate([&b"RPOPLPUSH"[..], from.bytes, to.bytes]),
        }
    }
    Ok(())
}

/// The options of LPOS.
struct Search {
    /// The rank of the first match; negative: counted from the end.
    rank: i64,
    count: Option<usize>,
    looked_at_max: usize,
}

impl Search {
    fn parse(call: &Call<'_, '_, '_>) -> Result<Self> {
        let unlimited = |count: usize| if count == 0 { usize::MAX } else { count };
        let number = |at: usize, error: CommandError| {
            let count = parse_integer(call.argument(at));
            let count = count.and_then(|count| usize::try_from(count).ok());
            count.map(unlimited).ok_or(error)
        };
        let mut search = Search {
            rank: 1,
            count: None,
            looked_at_max: usize::MAX,
        };
        for at in call.rest(3).step_by(2) {
            let option = call.argument(at);
            if at + 1 == call.arguments.len() {
                return Err(CommandError::Syntax);
            } else if is(option, "rank") {
                search.rank = call.integer(at + 1)?;
                if search.rank == i64::MIN {
                    return Err(CommandError::CountOutOfRange);
                }
                if search.rank == 0 {
                    return Err(CommandError::ZeroRank);
                }
            } else if is(option, "count") {
                search.count = Some(number(at + 1, CommandError::NegativeCount)?);
            } else if is(option, "maxlen") {
                search.looked_at_max = number(at + 1, CommandError::NegativeMaxLength)?;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(search)
    }
}

fn popped(front: bool) -> Event {
    match front {
        true => Event::ListPopFirst,
        false => Event::ListPopLast,
    }
}

fn pushed(front: bool) -> Event {
    if front {
        Event::ListPushFirst
    } else {
        Event::ListPushLast
    }
}

/// Returns true for LEFT, false for RIGHT.
pub(super) fn end(argument: &[u8]) -> Result<bool> {
    match argument {
        _ if is(argument, "left") => Ok(true),
        _ if is(argument, "right") => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}

/// Returns the position of an index; a negative one counts from the end.
fn position(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 {
        index + length as i64
    } else {
        index
    };
    usize::try_from(index).ok().filter(|&index| index < length)
}
