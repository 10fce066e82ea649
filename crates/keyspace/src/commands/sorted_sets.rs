//! Commands on sorted sets.

mod adding;
pub(super) use adding::{zadd, zincrby};

mod combining;
pub(super) use combining::{
    zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore,
};

mod popping;
pub(super) use popping::{bzmpop, bzpopmax, bzpopmin, zmpop, zpopmax, zpopmin};

mod ranges;
pub(super) use ranges::{
    zcount, zlexcount, zrange, zrangebylex, zrangebyscore, zrangestore, zremrangebylex,
    zremrangebyrank, zremrangebyscore, zrevrange, zrevrangebylex, zrevrangebyscore,
};

mod reading;
pub(super) use reading::{zcard, zmscore, zrandmember, zrank, zrevrank, zscore};

mod scores;
pub(super) use scores::parse_score;

use tidewire_resp::{Protocol, Writer};

use super::Call;
use crate::entry::Entry;
use crate::error::CommandError;
use crate::key::Key;
use crate::observer::Event;
use crate::sorted_set::{self, Scored};
use crate::table::Place;

type Result<T = ()> = std::result::Result<T, CommandError>;

pub(super) fn zrem(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let mut removed = 0;
    if let Some(place) = find(call, key)? {
        for at in call.rest(2) {
            let member = call.argument(at);
            let entry = call.view.entry_mut(key, place);
            removed += i64::from(sorted_set::remove(entry, member).is_some());
        }
        if removed > 0 {
            after_removal(call, key, place, Event::SortedSetRemove);
        }
    }
    call.reply.integer(removed);
    Ok(())
}

/// The sorted set to write to; an error of another type.
fn find(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result<Option<Place>> {
    match call.view.find(key) {
        Some(place) if Scored::of(call.view.entry(key, place)).is_none() => {
            Err(CommandError::WrongType)
        }
        place => Ok(place),
    }
}

fn after_removal(call: &mut Call<'_, '_, '_>, key: Key<'_>, place: Place, event: Event) {
    call.view.changed(key, place, event);
    if sorted_set::len(call.view.entry(key, place)) == 0 {
        call.view.remove(key, place, Event::Delete);
    }
}

/// Puts a result in the place of a key, or removes the key if nothing came out; replies how many
/// members there are.
fn store(call: &mut Call<'_, '_, '_>, to: Key<'_>, result: Entry, event: Event) {
    let count = sorted_set::len(&result);
    if count == 0 {
        call.view.delete(to, Event::Delete);
    } else {
        let place = call.view.replace(to, result);
        call.view.changed(to, place, event);
    }
    call.reply.integer(count as i64);
}

/// How members are replied: alone, or each with its score, flat in RESP2 and in pairs in RESP3.
#[derive(Clone, Copy)]
struct Shown {
    scores: bool,
    pairs: bool,
}

impl Shown {
    fn new(reply: &Writer<'_>, scores: bool) -> Self {
        Shown {
            scores,
            pairs: scores && reply.protocol() == Protocol::Resp3,
        }
    }

    /// The array's head for so many members.
    fn begin(self, reply: &mut Writer<'_>, count: usize) {
        reply.array(count * self.elements());
    }

    /// How many elements of the array a member is.
    fn elements(self) -> usize {
        if self.scores && !self.pairs { 2 } else { 1 }
    }

    fn member(self, reply: &mut Writer<'_>, member: &[u8], score: f64) {
        if self.pairs {
            reply.array(2);
        }
        reply.bulk(member);
        if self.scores {
            reply.double(score);
        }
    }
}
