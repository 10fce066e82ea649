//! Ranges by rank, score or text: reading, counting, storing and removing.

use std::ops::{Bound, Range};

use super::super::Call;
use super::super::options::{is, positions};
use super::scores::{parse_bound, parse_text_limit};
use super::{Result, Shown, find};
use crate::error::CommandError;
use crate::observer::Event;
use crate::sorted_set::{self, Builder, Scored, TextLimit};
use tidewire_resp::ArgumentList;

pub(in crate::commands) fn zrangestore(call: &mut Call<'_, '_, '_>) -> Result {
    let query = RangeQuery::parse(call, 2, true, None, None)?;
    let (to, from) = (call.key(1), call.key(2));
    let limits = call.view.keyspace.sorted_set_limits();
    let mut result = Builder::default();
    call.view.counts_reads = true;
    if let Some(scored) = call.view.read_sorted_set(from)? {
        for (member, score) in scored.range(query.ranks(scored)) {
            result.insert(member.as_bytes(), score);
        }
    }
    let result = result.finish(to.hash, to.bytes, limits);
    call.store_result(to, result, sorted_set::len, Event::SortedSetRangeStore);
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum By {
    Rank,
    Score,
    Text,
}

#[derive(Clone, Copy)]
enum RangeLimits<'a> {
    Ranks(i64, i64),
    Scores(Bound<f64>, Bound<f64>),
    Texts(TextLimit<'a>, TextLimit<'a>),
}

impl<'a> RangeLimits<'a> {
    fn parse(call: &Call<'a, '_, '_>, by: By, min_at: usize, max_at: usize) -> Result<Self> {
        let (min, max) = (call.argument(min_at), call.argument(max_at));
        Ok(match by {
            By::Rank => RangeLimits::Ranks(call.integer(min_at)?, call.integer(max_at)?),
            By::Score => match parse_bound(min).zip(parse_bound(max)) {
                Some((min, max)) => RangeLimits::Scores(min, max),
                None => return Err(CommandError::Refused(NO_SCORES)),
            },
            By::Text => match parse_text_limit(min).zip(parse_text_limit(max)) {
                Some((min, max)) => RangeLimits::Texts(min, max),
                None => return Err(CommandError::Refused(NO_TEXTS)),
            },
        })
    }

    /// Returns the ranks within the limits. With `reverse`, given ranks count from the last member.
    fn ranks(self, scored: Scored<'_>, reverse: bool) -> Range<usize> {
        match self {
            RangeLimits::Scores(min, max) => scored.ranks_by_score(min, max),
            RangeLimits::Texts(min, max) => scored.ranks_by_text(min, max, reverse),
            RangeLimits::Ranks(start, end) => {
                match (positions(start, end, scored.len()), reverse) {
                    (ranks, true) => scored.len() - ranks.end..scored.len() - ranks.start,
                    (ranks, false) => ranks,
                }
            }
        }
    }
}

/// The arguments of a range command.
struct RangeQuery<'a> {
    limits: RangeLimits<'a>,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    /// Negative: all.
    count: i64,
    /// In a large set, a negative offset counts from the other end of the range, as in Valkey.
    /// Otherwise it selects nothing, as in Redis since 8.6.
    counts_back: bool,
}

impl<'a> RangeQuery<'a> {
    /// Parses the arguments after the key at `key_at`. Options supply what the command's name
    /// leaves open.
    fn parse(
        call: &Call<'a, '_, '_>,
        key_at: usize,
        store: bool,
        by: Option<By>,
        reverse: Option<bool>,
    ) -> Result<Self> {
        let (mut own_by, mut own_reverse) = (by, reverse);
        let (mut with_scores, mut offset, mut count) = (false, 0, -1);
        let mut at = key_at + 3;
        while at < call.arguments.len() {
            let option = call.argument(at);
            if !store && is(option, "withscores") {
                with_scores = true;
            } else if is(option, "limit") && at + 2 < call.arguments.len() {
                offset = call.integer(at + 1)?;
                count = call.integer(at + 2)?;
                at += 2;
            } else if own_reverse.is_none() && is(option, "rev") {
                own_reverse = Some(true);
            } else if own_by.is_none() && is(option, "bylex") {
                own_by = Some(By::Text);
            } else if own_by.is_none() && is(option, "byscore") {
                own_by = Some(By::Score);
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        let by = own_by.unwrap_or(By::Rank);
        let reverse = own_reverse.unwrap_or(false);
        if count != -1 && by == By::Rank {
            return Err(CommandError::Refused(LIMIT_OF_RANKS));
        }
        if with_scores && by == By::Text {
            return Err(CommandError::Refused(SCORES_OF_TEXTS));
        }
        let (mut min_at, mut max_at) = (key_at + 1, key_at + 2);
        if reverse && by != By::Rank {
            (min_at, max_at) = (max_at, min_at);
        }
        Ok(RangeQuery {
            limits: RangeLimits::parse(call, by, min_at, max_at)?,
            reverse,
            with_scores,
            offset,
            count,
            counts_back: call.view.keyspace.follows_valkey(),
        })
    }

    /// Returns the requested ranks.
    fn ranks(&self, scored: Scored<'_>) -> Range<usize> {
        let all = self.limits.ranks(scored, self.reverse);
        let skipped = match (usize::try_from(self.offset), scored) {
            _ if matches!(self.limits, RangeLimits::Ranks(..)) => return all,
            (Ok(offset), _) => offset,
            (Err(_), Scored::Large(_)) if self.counts_back => {
                match (all.len() as i64).checked_add(self.offset) {
                    Some(offset) if offset >= 0 => offset as usize,
                    _ => return 0..0,
                }
            }
            (Err(_), _) => return 0..0,
        };
        let skipped = skipped.min(all.len());
        let left = all.len() - skipped;
        let count = usize::try_from(self.count).map_or(left, |count| count.min(left));
        if self.reverse {
            let end = all.end - skipped;
            end - count..end
        } else {
            let start = all.start + skipped;
            start..start + count
        }
    }
}

pub(in crate::commands) fn show_range(
    call: &mut Call<'_, '_, '_>,
    by: Option<By>,
    reverse: Option<bool>,
) -> Result {
    let query = RangeQuery::parse(call, 1, false, by, reverse)?;
    let key = call.key(1);
    let Some(scored) = call.view.read_sorted_set(key)? else {
        call.reply.array(0);
        return Ok(());
    };
    let shown = Shown::new(call.reply, query.with_scores);
    let ranks = query.ranks(scored);
    shown.begin(call.reply, ranks.len());
    let mut members = scored.range(ranks);
    let mut next = || match query.reverse {
        true => members.next_back(),
        false => members.next(),
    };
    while let Some((member, score)) = next() {
        shown.member(call.reply, member.as_bytes(), score);
    }
    Ok(())
}

pub(in crate::commands) fn count_range(call: &mut Call<'_, '_, '_>, by: By) -> Result {
    let limits = RangeLimits::parse(call, by, 2, 3)?;
    let key = call.key(1);
    let scored = call.view.read_sorted_set(key)?;
    let count = scored.map_or(0, |scored| limits.ranks(scored, false).len());
    call.reply.integer(count as i64);
    Ok(())
}

pub(in crate::commands) fn remove_range(
    call: &mut Call<'_, '_, '_>,
    by: By,
    event: Event,
) -> Result {
    let limits = RangeLimits::parse(call, by, 2, 3)?;
    let key = call.key(1);
    let mut removed = 0;
    if let Some(place) = find(call, key)? {
        let is_propagated = call.is_propagated();
        let entry = call.view.entry_mut(key, place);
        let scored = Scored::of(entry).expect("the type was checked");
        let ranks = limits.ranks(scored, false);
        removed = ranks.len();
        // Another server may find other members by text if their scores differ.
        let mut members = None;
        if by == By::Text && is_propagated && !scored.has_equal_scores() {
            let members = members.insert(ArgumentList::new());
            let found = scored.range(ranks.clone());
            found.for_each(|(member, _)| members.push(member.as_bytes()));
        }
        if removed > 0 {
            sorted_set::remove_ranks(entry, ranks);
            if let Some(members) = members {
                call.propagate_members(b"ZREM", key, members.as_arguments());
            }
            call.after_removal(key, place, event, sorted_set::len);
        }
    }
    call.reply.integer(removed as i64);
    Ok(())
}

const NO_SCORES: &str = "ERR min or max is not a float";
const NO_TEXTS: &str = "ERR min or max not valid string range item";
const LIMIT_OF_RANKS: &str = "ERR syntax error, LIMIT is only supported in combination with \
                              either BYSCORE or BYLEX";
const SCORES_OF_TEXTS: &str = "ERR syntax error, WITHSCORES not supported in combination with \
                               BYLEX";
