//! A publisher that is back: its next connection goes on with what the last one has left.
//!
//! Taking over a million topics takes a second, so it is done in slices, symbol by symbol. A symbol
//! of which the publisher says something is taken first.

use std::sync::Arc;

use tidewire_feed::server::Steps;
use tidewire_lastvalue::NumberSet;

use super::apply::Work;
use super::certainty::Certainties;
use super::sweep::{Effect, Event};
use super::{Batch, SourceState};
use crate::topic::Topic;

/// What is left of taking over the symbols of a publisher's last connection.
#[derive(Debug)]
pub(super) struct Returning {
    /// What the events since the begin of this connection do to the topics.
    effect: Effect,
    /// The next symbol. Those before it are taken.
    next: u32,
    /// Topics that became stale because the publisher had left, and that are not taken yet.
    left: NumberSet,
    /// Topics that are taken.
    taken: NumberSet,
}

impl Returning {
    /// Notes an event that concerns the topics that are not taken yet.
    pub(super) fn happened(&mut self, event: Event) {
        self.effect = self.effect.then(event);
    }
}

impl Batch<'_> {
    /// Goes on with what the publisher's last connection has left.
    pub(super) fn resume(&mut self, state: SourceState) {
        let SourceState {
            symbols,
            venues,
            apart,
            mut certainties,
            session,
            open_bars,
        } = state;
        debug_assert!(!certainties.is_pending(), "the last one has finished");
        let left = std::mem::take(&mut certainties.left);
        let count = symbols.len() + left.len();
        certainties.certain = None;
        certainties.returning = Some(Box::new(Returning {
            effect: Effect::of(Event::Back),
            next: 0,
            left,
            taken: NumberSet::default(),
        }));
        (*self.symbols, *self.venues) = (symbols, venues);
        *self.work.apart = apart;
        *self.work.certainties = certainties;
        *self.work.session = session;
        self.work.market.returning_sessions.add(session);
        *self.open_bars = open_bars;
        self.symbols.leave();
        if count <= self.work.at_once {
            self.sweep(&mut Steps::new(u64::MAX));
        }
    }

    /// Takes over symbols, and then the topics of no symbol, as far as `steps` goes.
    pub(super) fn take_returning(&mut self, steps: &mut Steps) {
        while !steps.are_used_up()
            && let Some(returning) = &mut self.work.certainties.returning
        {
            if let Some(symbol) = self.symbols.next_from(returning.next) {
                returning.next = symbol + 1;
                steps.spend(SYMBOL_STEPS);
                self.take_symbol(symbol, steps);
            } else if let Some(number) = returning.left.next_from(0) {
                steps.spend(SYMBOL_STEPS);
                let topic = self.work.market.board.topic(number);
                let may_take = |topic: &Arc<Topic>| {
                    let symbol = topic.parent().unwrap_or(topic).definition().name;
                    self.guard.may_publish(symbol.as_str(), None)
                };
                match topic.filter(may_take) {
                    Some(topic) => self.work.take_left(&topic, steps),
                    None => _ = returning.left.remove(number),
                }
            } else {
                self.work.certainties.returning = None;
            }
        }
    }

    /// Takes over a symbol, and the topics that its name and its venues have now, if that is left
    /// to be done.
    pub(super) fn take_returning_symbol(&mut self, symbol: u32) {
        if self.work.certainties.returning.is_none() {
            return;
        }
        let steps = &mut Steps::none();
        self.take_symbol(symbol, steps);
        let Some(known) = self.symbols.get(symbol) else {
            return;
        };
        // Another symbol may have been their name before, and a venue may have had a state only.
        let topics = std::iter::once(known.name()).chain(known.venues().map(|(_, topic)| topic));
        let mut topics: Vec<Arc<Topic>> = topics.cloned().collect();
        let name = known.name();
        let symbol = name.parent().unwrap_or(name);
        symbol.with_members(|venues| topics.extend(venues.iter().map(|venue| venue.topic.clone())));
        topics.extend(name.namesake());
        for topic in topics {
            self.work.take_left(&topic, steps);
        }
    }

    /// Ends the meaning of a symbol that the publisher may not publish any more. Returns whether it
    /// is one.
    fn forbid(&mut self, symbol: u32) -> bool {
        let Some(known) = self.symbols.get(symbol) else {
            return false;
        };
        let name = known.name().definition().name;
        if self.may_publish(name.as_str()) {
            return false;
        }
        let _ = self.symbols.define(symbol, None);
        self.guard.refuse_symbol(name.as_str());
        true
    }

    /// Takes over a symbol that the last connection has left.
    fn take_symbol(&mut self, symbol: u32, steps: &mut Steps) {
        if !self.symbols.come_back(symbol) {
            return;
        }
        if self.forbid(symbol) {
            return;
        }
        self.find_moved(symbol);
        let work = &mut self.work;
        // Another source may have claimed it, or given it a value that is not current again with
        // this one.
        self.symbols.retain_of(symbol, |topic| {
            !work.has_value_of_another(topic) && work.claim_slot(topic.number).is_ok()
        });
        let Some(known) = self.symbols.get(symbol) else {
            return;
        };
        let mut topics: Vec<Arc<Topic>> = known.venues().map(|(_, topic)| topic.clone()).collect();
        for topic in &topics {
            if let Some(book) = topic.derived.book() {
                book.state.lock().adopt(self.work.source);
            }
        }
        let name = known.name().clone();
        if known.is_unbound()
            && name.facts().venue.is_none()
            && self.work.claim_slot(name.number).is_ok()
        {
            topics.push(name);
        }
        for topic in &topics {
            self.work.take_topic(topic, false, steps);
        }
        self.work.follow_all(&topics);
    }
}

impl Batch<'_> {
    /// Finds the topics of a symbol's venues that have got one of their own since the
    /// venue's last message. It has this session's value.
    pub(super) fn find_moved(&mut self, symbol: u32) {
        let Some(known) = self.symbols.get(symbol) else {
            return;
        };
        let moved = known.venues().filter(|(_, topic)| topic.is_consolidated());
        let moved: Vec<u16> = moved.map(|(venue, _)| venue).collect();
        if moved.is_empty() {
            return;
        }
        let is_own = |topic: &Arc<Topic>| {
            let is_bound = known.venues().any(|(_, bound)| Arc::ptr_eq(bound, topic));
            topic.valued_session() == *self.work.session && !is_bound
        };
        let own = known.name().with_members(|venues| {
            let mut topics = venues.iter().map(|venue| &venue.topic);
            topics.find(|topic| is_own(topic)).cloned()
        });
        for venue in moved {
            if let Some(topic) = &own {
                self.symbols.bind(symbol, venue, topic.clone());
            }
        }
    }
}

impl Work<'_> {
    /// Returns whether another source or session has given a topic a first value since this session
    /// has, or gives it one.
    fn has_value_of_another(&self, topic: &Topic) -> bool {
        let session = topic.valued_session();
        session != 0 && session != *self.session
    }

    /// Takes over a topic that is stale because the last connection has ended. It may be bound to
    /// no symbol, as a venue is that has had a state only. Another source may have made its venue
    /// a topic since, which goes on with what this one had.
    fn take_left(&mut self, topic: &Arc<Topic>, steps: &mut Steps) {
        let returning = self.certainties.returning.as_mut();
        let is_left = returning.is_some_and(|returning| returning.left.remove(topic.number));
        let continued = topic.continued().filter(|_| is_left);
        let topic = continued.as_ref().unwrap_or(topic);
        let may_return = is_left && !topic.is_consolidated() && !self.has_value_of_another(topic);
        if may_return && self.claim_slot(topic.number).is_ok() {
            self.take_topic(topic, true, steps);
            self.follow(topic, None);
        }
    }

    /// Does for a topic that the source has just claimed what happened to all topics since the
    /// begin of this connection. `has_left` tells that it is stale because the last one has ended.
    fn take_topic(&mut self, topic: &Arc<Topic>, has_left: bool, steps: &mut Steps) {
        let Certainties {
            returning: Some(returning),
            sweep,
            left,
            ..
        } = &mut *self.certainties
        else {
            return;
        };
        let number = topic.number;
        if !returning.taken.insert(number) {
            return;
        }
        // A venue may have got a topic of its own since.
        let parent = topic.parent().map(|parent| parent.number);
        let parent_left = parent.is_some_and(|parent| returning.left.contains(parent));
        let own_left = returning.left.remove(number);
        left.set(number, has_left || own_left || parent_left);
        // The effect has all of what the topic waits for.
        let _ = sweep.take(number);
        let effect = returning.effect;
        self.settle(topic, &effect, steps);
    }
}

/// Steps of taking a symbol over, beside those of its topics.
const SYMBOL_STEPS: u64 = 40;
