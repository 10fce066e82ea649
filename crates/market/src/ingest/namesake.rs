//! The topic `SYMBOL@VENUE` of a symbol of one venue.
//!
//! Both names are one topic, and there is nothing to do. But a hub never forgets a topic, and one
//! with the second name may exist: of a time in which the symbol had several venues, or was a
//! symbol of its own. It then has the symbol's value, too, until a source defines it.

use std::sync::Arc;

use tidewire_feed::wire::Message;
use tidewire_lastvalue::{FLAG_STALE, MarketValue};

use super::Batch;
use super::apply::Work;
use crate::board::VENUE_SEPARATOR;
use crate::topic::Topic;

impl Batch<'_> {
    /// Finds the namesake of a topic that the source gives a first value at a venue. It has the
    /// topic's value from now on; if `is_replaced`, from that first value on, which replaces the
    /// one of before.
    pub(super) fn find_namesake(&mut self, topic: &Arc<Topic>, is_replaced: bool) {
        if topic.is_consolidated() || topic.parent().is_some() {
            return;
        }
        let venue = topic.facts().venue_name.clone();
        let symbol = topic.definition().name;
        let name = format!("{}{VENUE_SEPARATOR}{venue}", symbol.as_str());
        let found = self.work.market.board.named(&name);
        let found = found.filter(|found| self.work.may_become_venue(found, topic));
        let found = found.filter(|found| self.work.claim_slot(found.number).is_ok());
        let before = self.work.link_namesake(topic, found.as_ref());
        if let Some(before) = before
            && found
                .as_ref()
                .is_none_or(|found| !Arc::ptr_eq(found, &before))
        {
            self.work.mark(&before, FLAG_STALE, 0, true);
        }
        if let Some(found) = found {
            let facts = topic.facts();
            let own = found.facts();
            let is_known = (&own.venue_name, &own.source_name, own.venue)
                == (&facts.venue_name, &facts.source_name, facts.venue);
            if let Some(number) = facts.venue {
                let venues = self.work.market.board.venues();
                venues.hold(number, own.venue);
            }
            found.set_facts(|own| *own = (*facts).clone());
            found.valued_in(*self.work.session);
            if topic.has_repetitions() {
                found.trades_may_repeat();
            }
            self.take_over_book(&found, 0);
            if found.derived.book().is_some() {
                self.work.market.books.look_again();
            }
            let has_value = is_known && self.work.is_copied(topic, &found);
            if !is_replaced && !has_value {
                self.work.copy_to_namesake(topic, &found);
            }
        }
    }

    /// Does the same for a topic that the source gives a state or session at a venue, if the topic
    /// has no namesake yet or had another venue.
    pub(super) fn find_new_namesake(&mut self, topic: &Arc<Topic>) {
        let venue = topic.facts().venue_name.clone();
        let is_found = |found: Arc<Topic>| found.facts().venue_name == venue;
        if !topic.namesake().is_some_and(is_found) {
            self.find_namesake(topic, false);
        }
    }
}

impl Work<'_> {
    /// Returns whether the topic `known`, which has the name of a venue of `name`, is free to be
    /// that: no connected source has it as a symbol of its own.
    pub(super) fn may_become_venue(&self, known: &Arc<Topic>, name: &Topic) -> bool {
        let is_namesake = name.namesake().is_some_and(|own| Arc::ptr_eq(&own, known));
        let is_free = match self.slot_owner(known) {
            None => true,
            Some(owner) => owner == self.source && !self.apart.contains_key(&known.number),
        };
        known.parent().is_none() && !known.is_consolidated() && (is_free || is_namesake)
    }

    /// Makes `namesake` the one of a symbol: its messages repeat the symbol's from now on, and
    /// those of the one before do not any more. Returns the one before.
    pub(super) fn link_namesake(
        &self,
        symbol: &Topic,
        namesake: Option<&Arc<Topic>>,
    ) -> Option<Arc<Topic>> {
        let next = self.journal.next_sequence();
        let before = symbol.set_namesake(namesake.cloned());
        if let Some(before) = &before {
            before.end_repeating(next);
        }
        if let Some(namesake) = namesake {
            self.market.board.begin_repeating(namesake, next);
        }
        before
    }

    /// Makes `venue`, which `begin` begins with the symbol's value, the namesake of a symbol. It
    /// has the symbol's book, too.
    pub(super) fn repeat_at(
        &mut self,
        symbol: &Topic,
        venue: &Arc<Topic>,
        begin: impl FnOnce(&mut Self) -> bool,
    ) {
        // What it begins with repeats the symbol's value.
        let next = self.journal.next_sequence();
        self.market.board.begin_repeating(venue, next);
        if begin(self) {
            self.copy_book(symbol, venue);
            self.link_namesake(symbol, Some(venue));
        } else {
            venue.end_repeating(next);
        }
    }

    /// Ends that `topic` is the namesake of a symbol. Returns whether it was.
    pub(super) fn end_namesake(&self, topic: &Arc<Topic>) -> bool {
        let name = topic.definition().name;
        let symbol = name.as_str().rsplit_once(VENUE_SEPARATOR);
        let symbol = symbol.and_then(|(symbol, _)| self.market.board.named(symbol));
        let is_namesake = |own: Arc<Topic>| Arc::ptr_eq(&own, topic);
        match symbol {
            Some(symbol) if symbol.namesake().is_some_and(is_namesake) => {
                // It repeats the symbol until its own first value: what that voids is the symbol's.
                symbol.set_namesake(None);
                true
            }
            _ => false,
        }
    }

    /// Does to a topic's namesake what `message` has done to the topic.
    pub(super) fn apply_to_namesake(&mut self, topic: &Topic, message: &Message) {
        let Some(namesake) = topic.namesake() else {
            return;
        };
        let is_own = match message {
            Message::Quote(_) | Message::Trade(_) => {
                let is_repeated = self.is_repeated;
                let is_own = self.apply(&namesake, message);
                self.is_repeated = is_repeated;
                is_own
            }
            Message::Certainty(_) if self.is_copied(topic, &namesake) => true,
            _ => self.copy_to_namesake(topic, &namesake),
        };
        if !is_own {
            self.link_namesake(topic, None);
        }
    }

    /// Returns whether a namesake that the source writes to has the topic's value.
    fn is_copied(&self, topic: &Topic, namesake: &Topic) -> bool {
        let value = |topic: &Topic| {
            let value = self.market.board.value(topic.number).unwrap_or_default();
            let (sequence, updates) = (0, 0);
            let unnumbered = MarketValue {
                sequence,
                updates,
                ..value
            };
            (unnumbered, topic.last_trade_ns())
        };
        self.slot_owner(namesake) == Some(self.source) && value(topic) == value(namesake)
    }

    /// Gives a namesake the topic's value. Returns whether the source writes to it.
    pub(super) fn copy_to_namesake(&mut self, topic: &Topic, namesake: &Arc<Topic>) -> bool {
        let value = self.market.board.value(topic.number).unwrap_or_default();
        let Some(mut slot) = self.writer.slot(namesake.number) else {
            return false;
        };
        let sequence = self.journal.next_sequence();
        let last_ns = topic.last_trade_ns();
        if last_ns != namesake.last_trade_ns() {
            namesake.traded_at(last_ns.unwrap_or(0), sequence);
        }
        slot.replace(&MarketValue { sequence, ..value });
        drop(slot);
        self.note_certain(namesake.number);
        let is_told = self.tell_record(namesake);
        debug_assert!(is_told, "it has just been written to");
        self.publish_book_again(namesake);
        self.publish(namesake);
        true
    }
}
