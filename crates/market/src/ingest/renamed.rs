//! Venue numbers that get another name.
//!
//! The name is valid for the messages behind it: another name is another venue. No value may be
//! shown under the name of a venue that it is not of, so a symbol's topic does not go on under the
//! new name. It is left as if its source had left it, and the symbol's next value with the number
//! goes to the topic of the new venue. Any publisher can rename its numbers, and may have a million
//! symbols, so they are looked at in slices. A symbol that has a message of its own is looked at
//! before that.
//!
//! The session may give a number the name again that it had. The topics that it has left go on
//! then, as those of a publisher do that has only reconnected. Another number with this name may
//! correct an error, so the topics wait for a value then.

use std::sync::Arc;

use tidewire_feed::server::Steps;
use tidewire_feed::wire::Venue;
use tidewire_lastvalue::{FLAG_STALE, NumberSet, PRICE_UNDEFINED, Quote, Status};

use super::Batch;
use super::certainty::Doubt;
use super::sweep::{Effect, Event, Sweep};
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
    /// By venue number: what has happened to the topics that its name has got back, from the name
    /// on.
    again: Sweep,
}

impl Renamed {
    /// Notes an event that concerns the topics that are not taken yet.
    pub(super) fn happened(&mut self, event: Event) {
        self.again.push(event, NumberSet::default());
    }
}

impl Batch<'_> {
    /// Notes the name of a venue number, which is valid from now on.
    pub(super) fn name_venue(&mut self, venue: &Venue) {
        let (before, _) = self.venues.name(venue.source);
        if !self.venues.set(venue.source, venue.name) || before == venue.name.as_str() {
            return;
        }
        if !self.symbols.has_used(venue.source) {
            return;
        }
        let back = Effect::of(Event::Back);
        let effect = back.then(match self.work.certainties.doubt {
            Doubt::None => Event::Right,
            // What is missing may be about its topics.
            Doubt::Records | Doubt::Messages => Event::Doubtful,
        });
        let renamed = self.work.certainties.renamed.get_or_insert_default();
        renamed.numbers.insert(venue.source.into());
        renamed.again.set(venue.source.into(), effect);
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
                self.follow_names(symbol, steps);
            }
        }
    }

    /// Does the same for one symbol, before the source says something of it.
    pub(super) fn take_renamed_symbol(&mut self, symbol: u32) {
        if let Some(renamed) = &mut self.work.certainties.renamed
            && symbol >= renamed.next
            && renamed.done.insert(symbol)
        {
            self.follow_names(symbol, &mut Steps::none());
        }
    }

    /// Leaves a symbol's topics at venues that have another name now, and goes on with those at
    /// venues that have theirs again.
    fn follow_names(&mut self, symbol: u32, steps: &mut Steps) {
        self.leave_renamed(symbol, steps);
        self.take_named_again(symbol, steps);
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
        let stated = self.nameless_of(known, steps).into_iter();
        let stated = stated.map(|topic| (known.stated(), topic));
        let mut topics: Vec<(Option<u16>, Arc<Topic>)> = known
            .venues()
            .filter(|(number, _)| numbers.contains(number))
            .map(|(number, topic)| (Some(number), topic.clone()))
            .chain(stated)
            .filter(|(_, topic)| !bound(topic))
            .collect();
        self.symbols.unbind(symbol, &numbers);
        // A hub says itself how certain the values of its venues are.
        if self.venues.is_hub() {
            return;
        }
        let own = topics.iter();
        let namesakes = own.filter_map(|(number, topic)| Some((*number, topic.namesake()?)));
        let namesakes: Vec<_> = namesakes.collect();
        topics.extend(namesakes);
        topics.sort_by_key(|(_, topic)| topic.number);
        topics.dedup_by_key(|(_, topic)| topic.number);
        topics.retain(|(_, topic)| self.work.writer.slot(topic.number).is_some());
        for (number, topic) in &topics {
            let was_current = self.work.end_topic(topic, steps);
            // Another source may give the venue, as after this one's end.
            self.work.writer.release(topic.number);
            if let Some(number) = number.filter(|_| was_current) {
                self.work.certainties.nameless.insert(topic.number, number);
            }
        }
        let topics: Vec<_> = topics.into_iter().map(|(_, topic)| topic).collect();
        self.work.follow_all(&topics);
    }

    /// Goes on with the topics of a symbol whose venues have the names again that they had.
    fn take_named_again(&mut self, symbol: u32, steps: &mut Steps) {
        if self.work.certainties.nameless.is_empty() {
            return;
        }
        let Some(known) = self.symbols.get(symbol) else {
            return;
        };
        let own = known.name().clone();
        let mut topics = vec![own.clone()];
        topics.extend(own.namesake());
        own.with_members(|venues| {
            steps.spend(venues.len() as u64 * MEMBER_STEPS);
            topics.extend(venues.iter().map(|venue| venue.topic.clone()));
        });
        let mut taken = Vec::new();
        for topic in topics {
            let Some(number) = self.work.nameless_number(&topic) else {
                continue;
            };
            let facts = topic.facts();
            let (name, _) = self.venues.name(number);
            let rest = facts.venue_name.strip_prefix(&*name);
            let is_same = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
                && facts.source_name == *self.venues.feed();
            if !is_same || !self.work.take_nameless(&topic, number, steps) {
                continue;
            }
            taken.push((number, topic));
        }
        for (number, topic) in &taken {
            // The topic with the second name has the values of the first one.
            let is_own = Arc::ptr_eq(topic, &own) || topic.parent().is_some();
            if is_own && topic.valued_session() == *self.work.session {
                self.symbols.bind(symbol, *number, topic.clone());
            }
        }
        let topics: Vec<_> = taken.into_iter().map(|(_, topic)| topic).collect();
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
    /// Returns the venue number of a topic that the source has left because that has got another
    /// name.
    fn nameless_number(&self, topic: &Topic) -> Option<u16> {
        let nameless = &self.certainties.nameless;
        // Its symbol may have become one of several venues since.
        let symbol = topic.parent().filter(|symbol| {
            let continued = symbol.continued();
            continued.is_some_and(|first| first.number == topic.number)
        });
        let own = nameless.get(&topic.number);
        own.or_else(|| nameless.get(&symbol?.number)).copied()
    }

    /// Goes on with a topic that the source has left because its venue's number had another name.
    /// Returns whether no other source has said anything of it since.
    fn take_nameless(&mut self, topic: &Arc<Topic>, number: u16, steps: &mut Steps) -> bool {
        let value = self.market.board.value(topic.number).unwrap_or_default();
        let is_of_another = topic.valued_session() != 0
            || value.status != Status::default() && topic.status_session() != *self.session;
        let renamed = self.certainties.renamed.as_ref();
        let Some(effect) = renamed.and_then(|renamed| renamed.again.of(number.into())) else {
            return false;
        };
        if let Some(symbol) = topic.parent() {
            self.certainties.nameless.remove(&symbol.number);
        }
        self.certainties.nameless.remove(&topic.number);
        if topic.is_consolidated() || is_of_another || self.claim_slot(topic.number).is_err() {
            return false;
        }
        if value.quote() != Quote::EMPTY || value.last != PRICE_UNDEFINED {
            topic.valued_in(*self.session);
        }
        self.certainties.left.insert(topic.number);
        self.settle(topic, &effect, steps);
        true
    }

    /// Leaves a topic that the source writes to: it is stale until the source gives it a first
    /// value again. Returns whether it was not before.
    pub(super) fn end_topic(&mut self, topic: &Arc<Topic>, steps: &mut Steps) -> bool {
        if let Some(waiting) = self.certainties.sweep.take(topic.number) {
            self.settle(topic, &waiting, steps);
        }
        let was_current = self.flags(topic.number) & FLAG_STALE == 0;
        topic.valued_in(0);
        let ends = Effect::of(Event::BooksLost).then(Event::SessionEnded);
        self.settle(topic, &ends, steps);
        was_current
    }
}

/// Steps of a look at a symbol, which may have to come from memory.
const SYMBOL_STEPS: u64 = 16;
/// Steps of a look at a venue of a symbol.
const MEMBER_STEPS: u64 = 8;
