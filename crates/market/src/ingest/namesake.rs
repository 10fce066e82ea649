//! The topic `SYMBOL@VENUE` of a symbol of one venue.
//!
//! Both names are one topic, and there is nothing to do. But a hub never forgets a topic, and one
//! with the second name may exist: of a time in which the symbol had several venues, or was a
//! symbol of its own. It then has the symbol's value, too, until a source defines it.

use std::sync::Arc;

use tidewire_feed::wire::{Definition, Message};
use tidewire_lastvalue::{FLAG_STALE, MarketValue};

use super::Batch;
use super::apply::Work;
use crate::board::VENUE_SEPARATOR;
use crate::topic::Topic;
use crate::venues::is_consolidated;

impl Batch<'_> {
    /// Leaves out a symbol that is the namesake of another one at the hub before this one. The
    /// other one has its values, and here too both names are one topic. Returns false if the source
    /// does not give the other one, as to a user that may not read it.
    #[cold]
    pub(super) fn leave_out(&mut self, definition: &Definition) -> bool {
        let name = definition.name.as_str();
        let Some((symbol, venue)) = name.rsplit_once(VENUE_SEPARATOR) else {
            return false;
        };
        let board = &*self.work.market.board;
        let Some(symbol) = board.named(symbol).filter(|symbol| self.may_give(symbol)) else {
            return false;
        };
        if self.symbols.leave_out(definition.symbol).is_err() {
            return false;
        }
        if let Some(topic) = board.named(name) {
            // It may have been a symbol of its own so far, as before a restart of the first hub.
            self.work.apart.remove(&topic.number);
            let is_linked = symbol
                .namesake()
                .is_some_and(|own| Arc::ptr_eq(&own, &topic));
            let is_own = self.work.slot_owner(&symbol) == Some(self.work.source);
            if is_own && !is_linked && symbol.is_of(venue) {
                self.find_namesake(&symbol, false);
            }
        }
        true
    }

    /// Returns whether the source may be one of those that give a symbol: it writes to the symbol's
    /// topic or to a venue's, or may take it over when it is back.
    fn may_give(&self, symbol: &Topic) -> bool {
        let is_own = |topic: &Topic| {
            let owner = self.work.slot_owner(topic);
            owner.is_none_or(|owner| owner == self.work.source)
        };
        let has_own = symbol.with_members(|venues| venues.iter().any(|one| is_own(&one.topic)));
        has_own || is_own(symbol)
    }

    /// Finds the namesake of a topic that the source gives a first value at a venue. It has the
    /// topic's value from now on; if `is_replaced`, from that first value on, which replaces the
    /// one of before.
    pub(super) fn find_namesake(&mut self, topic: &Arc<Topic>, is_replaced: bool) {
        let found = self.namesake_of(topic);
        self.take_namesake(topic, found, is_replaced);
    }

    /// Does the same with the namesake that was found.
    pub(super) fn take_namesake(
        &mut self,
        topic: &Arc<Topic>,
        found: Option<Arc<Topic>>,
        is_replaced: bool,
    ) {
        if !may_have_namesake(topic) {
            return;
        }
        let before = self.work.link_namesake(topic, found.as_ref());
        if let Some(before) = before
            && found
                .as_ref()
                .is_none_or(|found| !Arc::ptr_eq(found, &before))
        {
            if before.is_consolidated_upstream() {
                // The hub's trades go on in that of a venue.
                self.work.may_lack_trades(&before);
                let until_ns = before.newest_trade_ns();
                self.work.append_lost(&before, until_ns, 0);
            }
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
            self.work
                .renew_named(&found, (&own.venue_name, &facts.venue_name));
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
            if !has_value && is_consolidated(&facts.venue_name) {
                self.work.lack_earlier(topic, &found);
            }
            if !is_replaced && !has_value {
                self.work.copy_to_namesake(topic, &found);
            }
        }
    }

    /// Tells the readers of the hub's own feed which topic only repeats this one from now on,
    /// before anything of this one at its venue: to them the name is free then for what follows.
    /// Returns that topic, if there is one.
    pub(super) fn announce_namesake(&mut self, topic: &Arc<Topic>) -> Option<Arc<Topic>> {
        let found = self.namesake_of(topic)?;
        self.work.begin_repeating(&found);
        Some(found)
    }

    /// Returns the topic that is free to be the namesake of one, which the source claims.
    fn namesake_of(&mut self, topic: &Arc<Topic>) -> Option<Arc<Topic>> {
        if !may_have_namesake(topic) {
            return None;
        }
        let venue = topic.facts().venue_name.clone();
        let symbol = topic.definition().name;
        let name = format!("{}{VENUE_SEPARATOR}{venue}", symbol.as_str());
        let found = self.work.market.board.named(&name);
        let found = found.filter(|found| self.work.may_become_venue(found, topic));
        found.filter(|found| self.work.claim_slot(found.number).is_ok())
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
            // The sum of another hub keeps its value when its source has left.
            None => !known.is_consolidated_upstream(),
            Some(owner) => owner == self.source && !self.apart.contains_key(&known.number),
        };
        known.parent().is_none() && !known.is_consolidated() && (is_free || is_namesake)
    }

    /// Makes `namesake` the one of a symbol: its messages repeat the symbol's from now on, and
    /// those of the one before do not any more. Returns the one before.
    pub(super) fn link_namesake(
        &mut self,
        symbol: &Topic,
        namesake: Option<&Arc<Topic>>,
    ) -> Option<Arc<Topic>> {
        let before = symbol.set_namesake(namesake.cloned());
        let is_same = |before: &Arc<Topic>| namesake.is_some_and(|own| Arc::ptr_eq(own, before));
        if let Some(before) = before.as_ref().filter(|before| !is_same(before)) {
            self.end_repeating(before, false);
        }
        if let Some(namesake) = namesake {
            self.begin_repeating(namesake);
        }
        before
    }

    /// Notes, and tells the readers of the hub's own feed, that a topic only repeats another one
    /// from now on. Hubs behind this one leave it out: they have the other one.
    pub(super) fn begin_repeating(&mut self, topic: &Topic) {
        if !topic.is_repeating() {
            let next = self.journal.next_sequence();
            self.market.board.begin_repeating(topic, next);
            self.tell_definition(topic);
        }
    }

    /// Notes, and tells the readers of the hub's own feed, that a topic has values of its own from
    /// now on. Hubs behind this one have none of it: unless a whole value follows (`is_replaced`),
    /// they get the present one.
    pub(super) fn end_repeating(&mut self, topic: &Topic, is_replaced: bool) {
        if topic.is_repeating() {
            topic.end_repeating(self.journal.next_sequence());
            self.tell_definition(topic);
            if !is_replaced {
                self.tell_record(topic);
            }
        }
    }

    pub(super) fn tell_definition(&mut self, topic: &Topic) {
        let definition = Message::Definition(topic.definition());
        topic.defined_at(self.journal.append(&definition));
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
        self.begin_repeating(venue);
        if begin(self) {
            self.copy_book(symbol, venue);
            self.link_namesake(symbol, Some(venue));
        } else {
            self.end_repeating(venue, false);
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

    /// Notes that the bars of a namesake lack the trades that a topic has had at one venue. They
    /// are among those of all venues, which both names stand for from now on.
    #[cold]
    fn lack_earlier(&mut self, topic: &Topic, namesake: &Topic) {
        let until_ns = topic.newest_trade_ns();
        if until_ns != 0 {
            self.miss_trades(namesake, until_ns, 0);
            self.append_lost(namesake, until_ns, 0);
        }
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

/// Returns whether a topic is of one venue, and no venue of a symbol itself.
fn may_have_namesake(topic: &Topic) -> bool {
    !topic.is_consolidated() && topic.parent().is_none()
}
