//! Definitions of a source's symbols.

use std::sync::Arc;

use tidewire_feed::wire::{Definition, Message, Refused};
use tidewire_lastvalue::{FLAG_DOUBT, FLAGS_DOUBT, PRICE_UNDEFINED};
use tidewire_retry::Seldom;
use tracing::warn;

use super::Batch;
use super::certainty::Doubt;
use super::prices;
use crate::cluster::own::REMOTE;
use crate::topic::Topic;
use crate::venues::is_of_sum;

impl Batch<'_> {
    fn refuse_symbol(&mut self, symbol: u32) {
        self.work.refused += 1;
        if let Some(left_out) = UNNAMED.note_now() {
            let source = self.name;
            let text = "symbol refused: no UTF-8 name, or a number too high";
            warn!(source, symbol, left_out, "{text}");
        }
    }

    /// Returns whether the source may have symbols with the names of values that a hub has
    /// consolidated: a hub may, a recording of one, and another hub of the cluster.
    fn may_give_sums(&self) -> bool {
        self.venues.is_hub() || self.work.source & REMOTE != 0
    }

    /// Refuses a symbol that would be taken for the consolidated value of a hub.
    #[cold]
    fn refuse_name_of_sum(&mut self, definition: &Definition) {
        let _ = self.symbols.define(definition.symbol, None);
        self.work.refused += 1;
        let symbol = definition.name.as_str();
        self.guard.refuse_name_of_sum(symbol);
        if let Some(left_out) = NAMES_OF_SUMS.note_now() {
            let (source, text) = (self.name, "symbol refused: the name is for values of hubs");
            warn!(source, symbol, left_out, "{text}");
        }
    }

    /// Returns whether the peer may publish a symbol. The name decides; the venues of a symbol are
    /// written with it. A topic that is a venue of another symbol is a part of that one's value,
    /// so its name must be allowed, too.
    pub(super) fn may_publish(&self, name: &str) -> bool {
        let known = self.work.market.board.named(name);
        let parent = known.as_ref().and_then(|topic| topic.parent());
        let parent = parent.map(|parent| parent.definition().name);
        self.guard
            .may_publish(name, parent.as_ref().map(|name| name.as_str()))
    }

    /// Defines a symbol of the source.
    pub(super) fn define(&mut self, definition: &Definition) {
        let symbol = definition.symbol;
        let definition = &Definition {
            open: prices::price_or_none(definition.open),
            ..*definition
        };
        let market = self.work.market;
        if self.work.certainties.is_pending() {
            self.settle_symbol(symbol);
        }
        if definition.name.is_empty() {
            let _ = self.symbols.define(symbol, None);
            self.refuse_symbol(symbol);
            return;
        }
        if !self.may_publish(definition.name.as_str()) {
            let _ = self.symbols.define(symbol, None);
            self.work.refused += 1;
            return self.guard.refuse_symbol(definition.name.as_str());
        }
        if is_of_sum(definition.name.as_str()) && !self.may_give_sums() {
            return self.refuse_name_of_sum(definition);
        }
        if definition.repeats && self.leave_out(definition) {
            return;
        }
        // A recording is played by a publisher, and is the stream of a hub, too.
        if self.venues.is_hub() {
            let (venue, _) = self.venues.name(definition.source);
            let name = definition.name.as_str();
            self.work.continue_second(name, &venue);
        }
        let Ok(topic) = market.board.define(definition) else {
            let _ = self.symbols.define(symbol, None);
            self.work.refused += 1;
            self.guard.refuse_for_room(definition.name.as_str());
            if let Some(left_out) = BOARD_FULL.note_now() {
                let (source, symbol) = (self.name, definition.name.as_str());
                warn!(
                    source,
                    symbol, left_out, "symbol refused: market-topics-max is reached"
                );
            }
            return;
        };
        let known = self.symbols.get(symbol);
        let is_repeated = known.is_some_and(|known| Arc::ptr_eq(known.name(), &topic));
        if let Some(named) = &mut self.work.certainties.named {
            named.insert(symbol);
        }
        if self.symbols.define(symbol, Some(topic.clone())).is_err() {
            self.refuse_symbol(symbol);
            return;
        }
        if self.work.certainties.is_pending() {
            self.settle_symbol(symbol);
        }
        if !self.venues.is_hub() {
            let is_named = self.venues.is_named(definition.source);
            let venue = is_named.then(|| self.venues.key(definition.source));
            self.symbols.set_open(definition, venue);
        }
        // Another source's symbol keeps that source's definition.
        let owner = market
            .board
            .slots()
            .slot(topic.number)
            .and_then(|slot| slot.owner());
        let is_anothers = self.work.is_anothers(&topic, self.venues.feed());
        let is_free = !is_anothers && owner.is_none_or(|owner| owner == self.work.source);
        if is_free {
            self.work.note_source(topic.number, self.work.source);
            // A symbol has an owner before its first value. Another source that gives a value
            // first takes it over.
            let _ = self.work.claim_slot(topic.number);
        }
        if is_free || topic.is_consolidated() && !is_anothers {
            self.redefine(&topic, definition);
        }
        // The value of a source that has left waits for any source with its venue.
        let has_left = owner.is_none() && topic.facts().venue.is_some();
        if has_left {
            self.work.writer.release(topic.number);
        }
        self.work.await_value(&topic);
        self.work.note_return(&topic, self.venues.feed());
        self.work.set_apart(&topic, self.venues.feed());
        if is_free && !has_left {
            // What is missing may be about it. One that the source has defined was marked with the
            // others, and has had a value since if it is certain.
            if !is_repeated
                && self.work.certainties.doubt != Doubt::None
                && self.flags(topic.number) & FLAGS_DOUBT == 0
            {
                self.work.mark(&topic, FLAG_DOUBT, 0, false);
                self.work.marked.insert(topic.number);
            }
        }
        self.succeed_in_bars(&topic);
        let subscriptions = &market.post.subscriptions;
        market.books.defined(&topic, subscriptions);
        market.bars.defined(&topic, subscriptions);
        let venues = self.symbols.get(symbol).into_iter();
        let venues = venues.flat_map(|symbol| symbol.venues());
        let venues: Vec<_> = venues
            .map(|(number, topic)| (number, topic.clone()))
            .collect();
        for (number, venue) in venues {
            // Another source may have made it one venue of several. A hub's own message tells.
            let bound = match venue.is_consolidated() && !self.venues.is_hub() {
                true => self.bind(symbol, number),
                false => Some(venue),
            };
            let Some(venue) = bound else { continue };
            if !Arc::ptr_eq(&venue, &topic) {
                self.redefine(&venue, definition);
            }
            self.declare_open(&venue, (symbol, number));
        }
    }

    /// Gives a topic its source's definition, and tells the hub's own feed.
    fn redefine(&mut self, topic: &Topic, definition: &Definition) {
        let before = topic.definition();
        let value = self.work.market.board.value(topic.number);
        let value = value.unwrap_or_default();
        // Readers take it as the session's open. If a session begins with it, a record follows.
        // Opens are declared for venues.
        let is_open = definition.open == value.session_open || value.updates == 0;
        let own = Definition {
            name: before.name,
            open: match is_open && !topic.is_consolidated() {
                true => definition.open,
                false => PRICE_UNDEFINED,
            },
            ..*definition
        };
        topic.redefine(&own);
        let definition = topic.definition();
        debug_assert_eq!(definition.symbol, topic.number, "the hub's own number");
        let sequence = self.work.journal.append(&Message::Definition(definition));
        topic.defined_at(sequence);
        let shown = |definition: &Definition| (definition.price_tick, definition.currency);
        if shown(&before) != shown(&definition) && value.updates > 0 {
            self.work.publish_facts(topic);
        }
    }
}

/// Warns that another hub has refused a part of what this one wants.
pub(super) fn warn_refused(source: &str, refused: &Refused) {
    if let Some(left_out) = REFUSED.note_now() {
        let (reason, text) = (refused.reason.0, refused.text.as_str());
        warn!(source, reason, text, left_out, "the server refuses");
    }
}

/// Limits the log lines about symbols beyond the limit.
static BOARD_FULL: Seldom = Seldom::new(3, 10);
/// Limits the log lines about names that only hubs have.
static NAMES_OF_SUMS: Seldom = Seldom::new(3, 10);
/// Limits the log lines about symbols without a name.
static UNNAMED: Seldom = Seldom::new(3, 10);
/// Limits the log lines about refusals.
static REFUSED: Seldom = Seldom::new(3, 10);
