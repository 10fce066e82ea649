//! ZADD and ZINCRBY.

use super::super::Call;
use super::super::options::is;
use super::{Result, find, parse_score};
use crate::error::CommandError;
use crate::observer::Event;
use crate::sorted_set::{self, Scored};
use crate::view::Expiry;

pub(in crate::commands) fn zadd(call: &mut Call<'_, '_, '_>) -> Result {
    add(call, AddOptions::default())
}

pub(in crate::commands) fn zincrby(call: &mut Call<'_, '_, '_>) -> Result {
    let options = AddOptions {
        increment: true,
        ..AddOptions::default()
    };
    add(call, options)
}

#[derive(Clone, Copy, Default)]
struct AddOptions {
    /// NX: adds only new members.
    new_only: bool,
    /// XX: updates only existing members.
    old_only: bool,
    greater_only: bool,
    less_only: bool,
    increment: bool,
    /// CH: counts changed scores too.
    count_changed: bool,
}

impl AddOptions {
    /// Parses the options before the first score. Returns the first score's position.
    fn parse(&mut self, call: &Call<'_, '_, '_>) -> Result<usize> {
        let mut at = 2;
        while at < call.arguments.len() {
            let option = call.argument(at);
            // Of all scores, only `inf` begins with one of these letters, so most return here.
            match option.first() {
                Some(b'n' | b'N') if is(option, "nx") => self.new_only = true,
                Some(b'x' | b'X') if is(option, "xx") => self.old_only = true,
                Some(b'c' | b'C') if is(option, "ch") => self.count_changed = true,
                Some(b'i' | b'I') if is(option, "incr") => self.increment = true,
                Some(b'g' | b'G') if is(option, "gt") => self.greater_only = true,
                Some(b'l' | b'L') if is(option, "lt") => self.less_only = true,
                _ => break,
            }
            at += 1;
        }
        let rest = call.arguments.len() - at;
        if rest == 0 || !rest.is_multiple_of(2) {
            return Err(CommandError::Syntax);
        }
        if self.new_only && self.old_only {
            return Err(CommandError::Refused(NX_WITH_XX));
        }
        let conditions = [self.new_only, self.greater_only, self.less_only];
        if conditions.iter().filter(|&&condition| condition).count() > 1 {
            return Err(CommandError::Refused(GT_LT_NX));
        }
        if self.increment && rest > 2 {
            return Err(CommandError::Refused(INCREMENT_OF_MANY));
        }
        Ok(at)
    }

    /// Returns whether a member's new score depends on its old one.
    fn look(&self) -> bool {
        let conditions = self.new_only || self.old_only || self.greater_only || self.less_only;
        conditions || self.increment
    }

    /// Returns the new score of a member; `None` if the member must not change.
    fn new_score(&self, old: Option<f64>, score: f64) -> Result<Option<f64>> {
        let Some(old) = old else {
            return Ok((!self.old_only).then_some(score));
        };
        if self.new_only {
            return Ok(None);
        }
        let score = if self.increment { old + score } else { score };
        if score.is_nan() {
            return Err(CommandError::Refused(NOT_A_NUMBER));
        }
        let refused = self.less_only && score >= old || self.greater_only && score <= old;
        Ok((!refused).then_some(score))
    }
}

fn add(call: &mut Call<'_, '_, '_>, mut options: AddOptions) -> Result {
    let first = options.parse(call)?;
    let pairs = call.rest(first).step_by(2);
    let score_at = |at: usize| parse_score(call.argument(at)).ok_or(CommandError::NotFloat);
    let first_score = score_at(first)?;
    // The other pairs are parsed again later, so that one member, the usual case, allocates
    // nothing.
    pairs
        .clone()
        .skip(1)
        .try_for_each(|at| score_at(at).map(|_| ()))?;
    let key = call.key(1);
    let limits = call.view.keyspace.sorted_set_limits();
    let place = match find(call, key)? {
        Some(place) => {
            sorted_set::expect(call.view.entry_mut(key, place), pairs.len(), limits);
            place
        }
        None if options.old_only => {
            reply(call, &options, None, 0);
            return Ok(());
        }
        None => {
            let bytes = call.argument(first + 1).len();
            let empty = sorted_set::empty(pairs.len(), bytes, limits);
            call.view.insert(key, empty, Expiry::Clear)
        }
    };
    let (mut added, mut changed, mut last) = (0, 0, None);
    for at in pairs {
        let mut score = if at == first {
            first_score
        } else {
            parse_score(call.argument(at)).ok_or(CommandError::NotFloat)?
        };
        let member = call.argument(at + 1);
        let entry = call.view.entry_mut(key, place);
        if options.look() {
            let old = Scored::of(entry).and_then(|scored| scored.score(member));
            last = options.new_score(old, score)?;
            let Some(new) = last else { continue };
            score = new;
        }
        match sorted_set::insert(entry, member, score, limits) {
            None => added += 1,
            Some(old) => changed += i64::from(old != score),
        }
    }
    if added + changed > 0 {
        let event = if options.increment {
            Event::SortedSetIncrement
        } else {
            Event::SortedSetAdd
        };
        call.view.changed(key, place, event);
    }
    let count = added + if options.count_changed { changed } else { 0 };
    reply(call, &options, last, count);
    Ok(())
}

fn reply(call: &mut Call<'_, '_, '_>, options: &AddOptions, score: Option<f64>, count: i64) {
    match score {
        _ if !options.increment => call.reply.integer(count),
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
}

const NX_WITH_XX: &str = "ERR XX and NX options at the same time are not compatible";
const GT_LT_NX: &str = "ERR GT, LT, and/or NX options at the same time are not compatible";
const INCREMENT_OF_MANY: &str = "ERR INCR option supports a single increment-element pair";
const NOT_A_NUMBER: &str = "ERR resulting score is not a number (NaN)";
