//! Unions, intersections and differences of sorted sets and of sets. A set's members have score 1.

use std::ops::Range;

use super::super::Call;
use super::super::options::{is, limit};
use super::{Result, Shown, parse_score};
use crate::error::CommandError;
use crate::observer::Event;
use crate::set::Members;
use crate::sorted_set::{self, Builder, Scored};
use crate::text::Text;
use crate::view::View;

pub(in crate::commands) fn zintercard(call: &mut Call<'_, '_, '_>) -> Result {
    let request = CombineRequest::parse(call, 1, CombineOptions::Limit)?;
    let mut count = 0;
    let sources = request.sources(call);
    intersect(sources, Aggregate::Sum, &mut |_, _| {
        count += 1;
        count != request.limit
    });
    call.reply.integer(count);
    Ok(())
}

#[derive(Clone, Copy)]
pub(in crate::commands) enum Combination {
    Union,
    Intersection,
    Difference,
}

impl Combination {
    fn store_event(self) -> Event {
        match self {
            Combination::Union => Event::SortedSetUnionStore,
            Combination::Intersection => Event::SortedSetIntersectStore,
            Combination::Difference => Event::SortedSetDifferenceStore,
        }
    }

    fn options(self, stores: bool) -> CombineOptions {
        CombineOptions::Scores {
            weights: !matches!(self, Combination::Difference),
            with_scores: !stores,
        }
    }
}

/// The options of a command.
#[derive(Clone, Copy)]
enum CombineOptions {
    /// Only LIMIT.
    Limit,
    /// Optionally WEIGHTS and AGGREGATE; optionally WITHSCORES.
    Scores { weights: bool, with_scores: bool },
}

/// How the scores of a member in several sources are combined.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, score: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => no_nan(score + other),
            Aggregate::Min if other < score => other,
            Aggregate::Max if other > score => other,
            Aggregate::Min | Aggregate::Max => score,
        }
    }
}

struct CombineRequest {
    /// Positions of the keys.
    keys: Range<usize>,
    /// One weight per key, or none.
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// 0 means no limit.
    limit: i64,
}

impl CombineRequest {
    /// Parses the arguments from the number of keys on, and checks the types of the keys.
    fn parse(
        call: &mut Call<'_, '_, '_>,
        count_at: usize,
        options: CombineOptions,
    ) -> Result<Self> {
        let count = call.integer(count_at)?;
        if count < 1 {
            let name = call.command.full_name;
            let text = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(CommandError::RefusedWith(text.into()));
        }
        let first = count_at + 1;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > call.arguments.len() - first {
            return Err(CommandError::Syntax);
        }
        let mut request = CombineRequest {
            keys: first..first + count,
            weights: Vec::new(),
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: 0,
        };
        call.view.counts_reads = true;
        for at in request.keys.clone() {
            let key = call.key(at);
            // Reads each key alone first, which also removes expired keys.
            if let Some(value) = call.view.read(key)
                && value.sorted_set().is_none()
                && value.members().is_none()
            {
                return Err(CommandError::WrongType);
            }
        }
        request.parse_options(call, options)?;
        Ok(request)
    }

    fn parse_options(&mut self, call: &Call<'_, '_, '_>, options: CombineOptions) -> Result {
        let (weights, with_scores) = match options {
            CombineOptions::Limit => (false, false),
            CombineOptions::Scores {
                weights,
                with_scores,
            } => (weights, with_scores),
        };
        let mut at = self.keys.end;
        while at < call.arguments.len() {
            let option = call.argument(at);
            let more = call.arguments.len() - at - 1;
            if weights && more >= self.keys.len() && is(option, "weights") {
                let weights = (at + 1..=at + self.keys.len())
                    .map(|at| parse_score(call.argument(at)))
                    .collect::<Option<_>>();
                self.weights = weights.ok_or(CommandError::Refused(NO_WEIGHT))?;
                at += self.keys.len();
            } else if weights && more >= 1 && is(option, "aggregate") {
                self.aggregate = match call.argument(at + 1) {
                    word if is(word, "sum") => Aggregate::Sum,
                    word if is(word, "min") => Aggregate::Min,
                    word if is(word, "max") => Aggregate::Max,
                    _ => return Err(CommandError::Syntax),
                };
                at += 1;
            } else if with_scores && is(option, "withscores") {
                self.with_scores = true;
            } else if matches!(options, CombineOptions::Limit) && more >= 1 && is(option, "limit") {
                self.limit = limit(call.argument(at + 1))?;
                at += 1;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        Ok(())
    }

    fn sources<'v>(&self, call: &'v Call<'_, '_, '_>) -> Vec<Source<'v>> {
        let weight = |at: usize| self.weights.get(at).copied().unwrap_or(1.0);
        let keys = self.keys.clone().enumerate();
        keys.map(|(at, key)| Source::new(&call.view, call.argument(key), weight(at)))
            .collect()
    }

    fn gather(&self, call: &Call<'_, '_, '_>, operation: Combination) -> Builder {
        let sources = self.sources(call);
        let mut result = Builder::default();
        match operation {
            Combination::Union => unite(sources, self.aggregate, &mut result),
            Combination::Intersection => {
                intersect(sources, self.aggregate, &mut |member, score| {
                    result.insert(member, score);
                    true
                })
            }
            Combination::Difference => subtract(&sources, &mut result),
        }
        result
    }
}

/// A sorted set, a set, or a missing key.
struct Source<'v> {
    members: SourceMembers<'v>,
    weight: f64,
}

enum SourceMembers<'v> {
    Scored(Scored<'v>),
    Set(Members<'v>),
    Nothing,
}

impl<'v> Source<'v> {
    fn new(view: &'v View<'_, '_>, key: &[u8], weight: f64) -> Self {
        let value = view.value(view.key(key));
        let scored = value.and_then(|value| value.sorted_set());
        let set = value.and_then(|value| value.members());
        let members = match (scored, set) {
            (Some(scored), _) => SourceMembers::Scored(scored),
            (_, Some(members)) => SourceMembers::Set(members),
            _ => SourceMembers::Nothing,
        };
        Source { members, weight }
    }

    fn len(&self) -> usize {
        match self.members {
            SourceMembers::Scored(scored) => scored.len(),
            SourceMembers::Set(members) => members.len(),
            SourceMembers::Nothing => 0,
        }
    }

    /// Returns a member's score without the weight.
    fn score(&self, member: &[u8]) -> Option<f64> {
        match self.members {
            SourceMembers::Scored(scored) => scored.score(member),
            SourceMembers::Set(members) => members.contains(member).then_some(1.0),
            SourceMembers::Nothing => None,
        }
    }

    /// Returns the members with their scores, without the weight.
    fn iter(&self) -> Box<dyn Iterator<Item = (Text<'v>, f64)> + 'v> {
        match self.members {
            SourceMembers::Scored(scored) => Box::new(scored.iter()),
            SourceMembers::Set(members) => Box::new(members.iter().map(|member| (member, 1.0))),
            SourceMembers::Nothing => Box::new(std::iter::empty()),
        }
    }
}

fn unite(mut sources: Vec<Source<'_>>, aggregate: Aggregate, result: &mut Builder) {
    // The order changes a sum's rounding. Redis goes from the smallest source to the largest.
    sources.sort_by_key(Source::len);
    for source in &sources {
        for (member, score) in source.iter() {
            let member = member.as_bytes();
            let score = no_nan(source.weight * score);
            let score = match result.score(member) {
                Some(old) => aggregate.of(old, score),
                None => score,
            };
            result.insert(member, score);
        }
    }
}

/// Passes the members of the intersection to `show`, until `show` returns that it is enough.
fn intersect(
    mut sources: Vec<Source<'_>>,
    aggregate: Aggregate,
    show: &mut dyn FnMut(&[u8], f64) -> bool,
) {
    sources.sort_by_key(Source::len);
    let Some((smallest, others)) = sources.split_first() else {
        return;
    };
    for (member, score) in smallest.iter() {
        let member = member.as_bytes();
        let first = no_nan(smallest.weight * score);
        let score = others.iter().try_fold(first, |score, other| {
            let own = other.score(member)?;
            Some(aggregate.of(score, own * other.weight))
        });
        if score.is_some_and(|score| !show(member, score)) {
            return;
        }
    }
}

fn subtract(sources: &[Source<'_>], result: &mut Builder) {
    let Some((first, others)) = sources.split_first() else {
        return;
    };
    for (member, score) in first.iter() {
        let member = member.as_bytes();
        if others.iter().all(|other| other.score(member).is_none()) {
            result.insert(member, score);
        }
    }
}

pub(in crate::commands) fn show_combined(
    call: &mut Call<'_, '_, '_>,
    operation: Combination,
) -> Result {
    let request = CombineRequest::parse(call, 1, operation.options(false))?;
    let result = request.gather(call, operation);
    let shown = Shown::new(call.reply, request.with_scores);
    shown.begin(call.reply, result.len());
    for (member, score) in result.scored().iter() {
        shown.member(call.reply, member.as_bytes(), score);
    }
    Ok(())
}

pub(in crate::commands) fn store_combined(
    call: &mut Call<'_, '_, '_>,
    operation: Combination,
) -> Result {
    let request = CombineRequest::parse(call, 2, operation.options(true))?;
    let to = call.key(1);
    let limits = call.view.keyspace.sorted_set_limits();
    let result = request.gather(call, operation);
    let result = result.finish(to.hash, to.bytes, limits);
    call.store_result(to, result, sorted_set::len, operation.store_event());
    Ok(())
}

/// Replaces NaN by 0: the sum of opposite infinities, or infinity times zero.
fn no_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

const NO_WEIGHT: &str = "ERR weight value is not a float";
