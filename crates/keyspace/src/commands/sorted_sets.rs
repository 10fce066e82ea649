//! Commands on sorted sets.

mod adding;
pub(super) use adding::{zadd, zincrby};

mod combining;
pub(super) use combining::{Combination, show_combined, store_combined, zintercard};

mod popping;
pub(super) use popping::{End, bzmpop, pop_or_wait, pop_some, zmpop};

mod ranges;
pub(super) use ranges::{By, count_range, remove_range, show_range, zrangestore};

mod reading;
pub(super) use reading::{reply_scores, show_rank, zcard, zmscore, zrandmember, zscore};

mod scores;
pub(super) use scores::parse_score;

use tidewire_resp::{Protocol, Writer};

use super::Call;
use crate::error::Result;
use crate::key::Key;
use crate::observer::Event;
use crate::sorted_set::{self, Scored};
use crate::table::Place;

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
            call.after_removal(key, place, Event::SortedSetRemove, sorted_set::len);
        }
    }
    call.reply.integer(removed);
    Ok(())
}

/// Returns the sorted set to write to; an error for another type.
fn find(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result<Option<Place>> {
    call.find_if(key, |entry| Scored::of(entry).is_some())
}

/// How members are replied: alone or with scores. Scores are flat in RESP2 and in pairs in RESP3.
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

    /// Begins an array of `count` members.
    fn begin(self, reply: &mut Writer<'_>, count: usize) {
        reply.array(count * self.elements());
    }

    /// Returns how many array elements a member takes.
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
