//! Venue numbers that get another name.
//!
//! The name is valid for the messages behind it: another name is another venue. No value may be
//! shown under the name of a venue that it is not of, so a symbol's topic does not go on under the
//! new name. It is left as if its source had left it, and the symbol's next value with the number
//! goes to the topic of the new venue. Any publisher can rename its numbers, and may have a million
//! symbols, so they are looked at in slices. A symbol that has a message of its own is looked at
//! before that.

use std::sync::Arc;

use tidewire_feed::server::Steps;
use tidewire_feed::wire::Venue;
use tidewire_lastvalue::NumberSet;

use super::Batch;
use super::sweep::{Effect, Event};
use crate::symbols::Symbol;
use crate::topic::Topic;

/// What is left of looking for symbols whose venues have another name now.
#[derive(Debug, Default)]
pub(super) struct Renamed {
    /// Venue numbers, as the source has them, with another name.
    numbers: NumberSet,
    /// Symbols that were looked at before their turn.
    done: NumberSet,
    /// The next symbol.
    next: u32,
}

impl Batch<'_> {
    /// Notes the name of a venue number, which is valid from now on.
    pub(super) fn name_venue(&mut self, venue: &Venue) {
        let (before, _) = self.venues.name(venue.source);
        if !self.venues.set(venue.source, venue.name)
            || before == venue.name.as_str()
            || !self.symbols.has_used(venue.source)
        {
            return;
        }
        let renamed = self.work.certainties.renamed.get_or_insert_default();
        renamed.numbers.insert(venue.source.into());
        renamed.done = NumberSet::default();
        renamed.next = 0;
    }

    /// Looks at all symbols at the end of a batch, if they are few.
    pub(super) fn leave_few_renamed(&mut self) {
        let certainties = &self.work.certainties;
        let is_due = certainties.renamed.is_some() && certainties.returning.is_none();
        if is_due && self.symbols.len() <= self.work.at_once {
            self.work.take_handed();
            self.take_renamed(&mut Steps::new(u64::MAX));
        }
    }

    /// Goes on with leaving the topics of renamed venues, as far as `steps` goes.
    pub(super) fn take_renamed(&mut self, steps: &mut Steps) {
        while !steps.are_used_up()
            && let Some(renamed) = &mut self.work.certainties.renamed
        {
            let Some(symbol) = self.symbols.next_from(renamed.next) else {
                self.work.certainties.renamed = None;
                return;
            };
            renamed.next = symbol + 1;
            steps.spend(SYMBOL_STEPS);
            if !renamed.done.remove(symbol) {
                self.leave_renamed(symbol, steps);
            }
        }
    }

    /// Does the same for one symbol, before the source says something of it.
    pub(super) fn take_renamed_symbol(&mut self, symbol: u32) {
        if let Some(renamed) = &mut self.work.certainties.renamed
            && symbol >= renamed.next
            && renamed.done.insert(symbol)
        {
            self.leave_renamed(symbol, &mut Steps::none());
        }
    }

    /// Leaves the topics of a symbol at venues that have another name now.
    fn leave_renamed(&mut self, symbol: u32, steps: &mut Steps) {
        // A venue may have got a topic of its own since its last message.
        self.find_moved(symbol);
        let Some(known) = self.symbols.get(symbol) else {
            return;
        };
        let numbers = self.renamed_of(known);
        let bound = |topic: &Topic| {
            let mut others = known
                .venues()
                .filter(|(number, _)| !numbers.contains(number));
            others.any(|(_, other)| other.number == topic.number)
        };
        let mut topics: Vec<Arc<Topic>> = known
            .venues()
            .filter(|(number, _)| numbers.contains(number))
            .map(|(_, topic)| topic.clone())
            .chain(self.nameless_of(known, steps))
            .filter(|topic| !bound(topic))
            .collect();
        self.symbols.unbind(symbol, &numbers);
        // A hub says itself how certain the values of its venues are.
        if self.venues.is_hub() {
            return;
        }
        let namesakes: Vec<_> = topics.iter().filter_map(|topic| topic.namesake()).collect();
        topics.extend(namesakes);
        topics.sort_unstable_by_key(|topic| topic.number);
        topics.dedup_by_key(|topic| topic.number);
        topics.retain(|topic| self.work.writer.slot(topic.number).is_some());
        for topic in &topics {
            self.work.end_topic(topic, steps);
            // Another source may give the venue, as after this one's end.
            self.work.writer.release(topic.number);
        }
        self.work.follow_all(&topics);
    }

    /// Returns the renamed numbers at which a symbol has a topic of another name.
    fn renamed_of(&self, known: &Symbol) -> Vec<u16> {
        let Some(renamed) = &self.work.certainties.renamed else {
            return Vec::new();
        };
        let is_left = |number: u16, topic: &Topic| {
            // A symbol with the name of another source's venue is that by its own name.
            let is_apart = self.work.apart.contains_key(&topic.number);
            renamed.numbers.contains(number.into())
                && !(is_apart && topic.parent().is_some())
                && !topic.is_of(&self.venues.name(number).0)
        };
        let venues = known.venues();
        let left = venues.filter(|(number, topic)| is_left(*number, topic));
        left.map(|(number, _)| number).collect()
    }

    /// Returns the topics of a symbol that this source writes to and that are of a venue which it
    /// names no longer: they may have had a state only.
    fn nameless_of(&self, known: &Symbol, steps: &mut Steps) -> Vec<Arc<Topic>> {
        let name = known.name();
        let mut topics = vec![name.clone()];
        name.with_members(|venues| {
            steps.spend(venues.len() as u64 * MEMBER_STEPS);
            topics.extend(venues.iter().map(|venue| venue.topic.clone()));
        });
        topics.retain(|topic| {
            let facts = topic.facts();
            facts.venue.is_some()
                && !topic.is_consolidated()
                && !self.work.apart.contains_key(&topic.number)
                && self.work.slot_owner(topic) == Some(self.work.source)
                && !self.venues.gives(&facts.venue_name)
        });
        topics
    }
}

impl super::apply::Work<'_> {
    /// Leaves a topic that the source writes to: it is stale until the source gives it a first
    /// value again.
    pub(super) fn end_topic(&mut self, topic: &Arc<Topic>, steps: &mut Steps) {
        if let Some(waiting) = self.certainties.sweep.take(topic.number) {
            self.settle(topic, &waiting, steps);
        }
        topic.valued_in(0);
        let ends = Effect::of(Event::BooksLost).then(Event::SessionEnded);
        self.settle(topic, &ends, steps);
    }
}

/// Steps of a look at a symbol, which may have to come from memory.
const SYMBOL_STEPS: u64 = 16;
/// Steps of a look at a venue of a symbol.
const MEMBER_STEPS: u64 = 8;
