//! Members by name, and random ones.

use std::collections::HashSet;

use super::super::hashes::RANDOM_COUNT_MAX;
use super::super::options::is;
use super::super::{Call, choose, random_below};
use super::{Result, Shown};
use crate::error::CommandError;
use crate::sorted_set::Scored;

pub(in crate::commands) fn zcard(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let count = call.view.read_sorted_set(key)?.map_or(0, Scored::len);
    call.reply.integer(count as i64);
    Ok(())
}

pub(in crate::commands) fn zscore(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let member = call.argument(2);
    let scored = call.view.read_sorted_set(key)?;
    match scored.and_then(|scored| scored.score(member)) {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

pub(in crate::commands) fn zmscore(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let members = call.arguments.tail(2);
    let scored = call.view.read_sorted_set(key)?;
    call.reply.array(members.len());
    for member in members {
        match scored.and_then(|scored| scored.score(member)) {
            Some(score) => call.reply.double(score),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(in crate::commands) fn zrank(call: &mut Call<'_, '_, '_>) -> Result {
    rank(call, false)
}

pub(in crate::commands) fn zrevrank(call: &mut Call<'_, '_, '_>) -> Result {
    rank(call, true)
}

fn rank(call: &mut Call<'_, '_, '_>, reverse: bool) -> Result {
    let with_score = match call.arguments.len() {
        3 => false,
        4 if is(call.argument(3), "withscore") => true,
        4 => return Err(CommandError::Syntax),
        _ => return Err(CommandError::WrongArity(call.command.full_name)),
    };
    let key = call.key(1);
    let member = call.argument(2);
    let scored = call.view.read_sorted_set(key)?;
    let found = scored.and_then(|scored| {
        let (rank, score) = scored.rank(member)?;
        let rank = if reverse {
            scored.len() - 1 - rank
        } else {
            rank
        };
        Some((rank as i64, score))
    });
    match found {
        Some((rank, score)) if with_score => {
            call.reply.array(2);
            call.reply.integer(rank);
            call.reply.double(score);
        }
        Some((rank, _)) => call.reply.integer(rank),
        None if with_score => call.reply.null_array(),
        None => call.reply.null(),
    }
    Ok(())
}

pub(in crate::commands) fn zrandmember(call: &mut Call<'_, '_, '_>) -> Result {
    let keyspace = call.view.keyspace;
    let key = call.key(1);
    let random = |count| random_below(keyspace.random(), count);
    if call.arguments.len() == 2 {
        match call.view.read_sorted_set(key)? {
            Some(scored) => {
                let rank = random(scored.len());
                let drawn = scored.range(rank..rank + 1).next();
                let (member, _) = drawn.expect("the rank is below the length");
                call.reply.bulk(member.as_bytes());
            }
            None => call.reply.null(),
        }
        return Ok(());
    }
    let wanted = call.integer(2)?;
    if wanted == i64::MIN {
        return Err(CommandError::CountOutOfRange);
    }
    let with_scores = match call.arguments.len() {
        3 => false,
        4 if is(call.argument(3), "withscores") => true,
        _ => return Err(CommandError::Syntax),
    };
    // With scores twice as many replies are written: neither count may overflow.
    if with_scores && wanted.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::OutOfRange);
    }
    let Some(scored) = call.view.read_sorted_set(key)? else {
        call.reply.array(0);
        return Ok(());
    };
    let shown = Shown::new(call.reply, with_scores);
    let ranks = draw(scored.len(), wanted, random);
    shown.begin(call.reply, ranks.len());
    match scored {
        Scored::Packed(_) => {
            let all: Vec<_> = scored.iter().collect();
            for rank in ranks {
                let (member, score) = &all[rank];
                shown.member(call.reply, member.as_bytes(), *score);
            }
        }
        Scored::Large(_) => {
            for rank in ranks {
                for (member, score) in scored.range(rank..rank + 1) {
                    shown.member(call.reply, member.as_bytes(), score);
                }
            }
        }
    }
    Ok(())
}

/// Ranks below `count`: at most `wanted` different ones, or exactly `-wanted` of any.
fn draw(count: usize, wanted: i64, mut random: impl FnMut(usize) -> usize) -> Vec<usize> {
    // Few of many are drawn until they differ: the others need not be listed.
    match usize::try_from(wanted) {
        Ok(wanted) if wanted < count / 3 => {
            let mut seen = HashSet::with_capacity(wanted);
            let mut ranks = Vec::with_capacity(wanted);
            while ranks.len() < wanted {
                let rank = random(count);
                if seen.insert(rank) {
                    ranks.push(rank);
                }
            }
            ranks
        }
        _ => choose(count, wanted.max(-(RANDOM_COUNT_MAX as i64)), random),
    }
}
