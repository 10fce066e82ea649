//! Reading members by name, and random members.

use tidewire_resp::Writer;

use super::super::Call;
use super::super::options::is;
use super::{Result, Shown};
use crate::error::CommandError;
use crate::sampling::{self, random_below};
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
    reply_scores(call, |reply, score| match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    })
}

/// Replies what `show` writes for the score of each requested member.
pub(in crate::commands) fn reply_scores(
    call: &mut Call<'_, '_, '_>,
    show: impl Fn(&mut Writer<'_>, Option<f64>),
) -> Result {
    let key = call.key(1);
    let members = call.arguments.tail(2);
    let scored = call.view.read_sorted_set(key)?;
    call.reply.array(members.len());
    for member in members {
        show(call.reply, scored.and_then(|scored| scored.score(member)));
    }
    Ok(())
}

pub(in crate::commands) fn show_rank(call: &mut Call<'_, '_, '_>, reverse: bool) -> Result {
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
    // With scores, twice as many elements are replied: neither count may overflow.
    if with_scores && wanted.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::OutOfRange);
    }
    let Some(scored) = call.view.read_sorted_set(key)? else {
        call.reply.array(0);
        return Ok(());
    };
    let shown = Shown::new(call.reply, with_scores);
    let reply = &mut *call.reply;
    let packed: Option<Vec<_>> = match scored {
        Scored::Packed(_) => Some(scored.iter().collect()),
        Scored::Large(_) => None,
    };
    let write = |reply: &mut Writer<'_>, rank: usize| match &packed {
        Some(all) => shown.member(reply, all[rank].0.as_bytes(), all[rank].1),
        None => scored
            .range(rank..rank + 1)
            .for_each(|(member, score)| shown.member(reply, member.as_bytes(), score)),
    };
    match usize::try_from(wanted) {
        Ok(wanted) => {
            let ranks = sampling::positions(scored.len(), wanted, random);
            shown.begin(reply, ranks.len());
            ranks.into_iter().for_each(|rank| write(reply, rank));
            Ok(())
        }
        Err(_) => {
            let elements = shown.elements();
            sampling::reply_repeated(reply, wanted.unsigned_abs(), elements, |reply| {
                write(reply, random(scored.len()));
            })
        }
    }
}
