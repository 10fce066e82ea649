//! Symbols with the name of a venue's topic: those of a feed that already tells venues apart.

use std::sync::Arc;

use tidewire_lastvalue::FLAG_STALE;

use super::{Wanted, all_numbered};
use crate::board::VENUE_SEPARATOR;
use crate::ingest::apply::Work;
use crate::topic::Topic;
use crate::venues::{self, CONSOLIDATED_NAME, SourceVenues};

impl Work<'_> {
    /// Notes that the source, which has the name `feed`, has defined a symbol. One with the name
    /// of a venue's topic is that venue no longer: it has no book, and is stale until it has a
    /// value of its own.
    pub(in crate::ingest) fn set_apart(&mut self, topic: &Arc<Topic>, feed: &str) {
        let separator = VENUE_SEPARATOR as u8;
        if !topic.symbol().contains(&separator) || self.is_sum(topic, feed) {
            return;
        }
        self.apart.entry(topic.number).or_insert(topic.number);
        let is_own = self.slot_owner(topic) == Some(self.source);
        if is_own && self.end_namesake(topic) {
            self.forget_book(topic);
            self.mark(topic, FLAG_STALE, 0, true);
        }
    }

    /// Returns the topic of a symbol whose name, `name`, is that of a venue's topic. The source
    /// owns it then. If another source writes to `name`, it is one of `NAME#2`, `NAME#3` and so
    /// on: the first that this source has already, or else the first that is free.
    pub(super) fn claim_apart(
        &mut self,
        name: &Arc<Topic>,
        venues: &SourceVenues,
        number: u16,
    ) -> Option<Arc<Topic>> {
        let text = name.definition().name;
        let names: Vec<String> = all_numbered(text.as_str()).collect();
        let mut known = names
            .iter()
            .filter_map(|text| self.market.board.named(text));
        let is_own = |topic: &Arc<Topic>| {
            self.slot_owner(topic) == Some(self.source) && self.may_be(topic, name)
        };
        let own = known.find(is_own);
        let topic = match own {
            Some(own) => own,
            None => names.iter().find_map(|text| self.claim_free(name, text))?,
        };
        debug_assert!(!self.is_sum(&topic, venues.feed()), "it has one writer");
        // Another source may have handed it over.
        self.claim(&topic).ok()?;
        let (venue, is_named) = venues.name(number);
        let facts = topic.facts();
        let wanted = Wanted {
            // The venue of one of several is the end of its name.
            venue: match topic.parent() {
                Some(_) => facts.venue_name.to_string(),
                None => venue,
            },
            number,
            feed: venues.feed().clone(),
            is_named: is_named || facts.is_named,
            is_first: false,
        };
        self.describe(&topic, &wanted);
        self.apart.insert(topic.number, name.number);
        Some(topic)
    }

    /// Claims the topic `text` for the symbol `name`, if no source writes to it. If there is none,
    /// it gets the definition of `name`.
    fn claim_free(&mut self, name: &Arc<Topic>, text: &str) -> Option<Arc<Topic>> {
        let topic = match self.market.board.named(text) {
            Some(known) => known,
            None => self.define_topic(name, (text, name.venue()), false).ok()?,
        };
        let is_free = self.slot_owner(&topic).is_none() && self.may_be(&topic, name);
        (is_free && self.claim(&topic).is_ok()).then_some(topic)
    }

    /// Returns whether a topic is that of another symbol of the source than `name`.
    pub(in crate::ingest) fn is_of_other_symbol(&self, topic: &Topic, name: &Topic) -> bool {
        let symbol = self.apart.get(&topic.number);
        symbol.is_some_and(|&symbol| symbol != name.number)
    }

    /// Returns whether a topic can be that of the source's symbol `name`: it is that of no other
    /// symbol.
    fn may_be(&self, topic: &Topic, name: &Topic) -> bool {
        let is_symbol = self.apart.contains_key(&topic.number);
        !self.is_of_other_symbol(topic, name)
            && !topic.is_consolidated()
            && (is_symbol || !is_sum_of_any(topic))
    }

    /// Returns the topic of the consolidated value that the source, a hub of the name `feed`, gives
    /// of a symbol beside other sources, or has given. It keeps its name when the hub restarts.
    pub(super) fn own_sum(&self, name: &Arc<Topic>, feed: &str) -> Option<Arc<Topic>> {
        let is_own = |topic: &Topic| {
            let owner = self.slot_owner(topic);
            let is_free = owner.is_none_or(|owner| owner == self.source);
            is_free && self.has_sum(topic, feed)
        };
        let present = name.with_members(|members| {
            let mut members = members.iter().map(|member| &member.topic);
            members.find(|topic| is_own(topic)).cloned()
        });
        present.or_else(|| {
            let symbol = name.definition().name;
            all_numbered(CONSOLIDATED_NAME).find_map(|venue| {
                let text = format!("{}{VENUE_SEPARATOR}{venue}", symbol.as_str());
                let topic = self.market.board.named(&text)?;
                let parent = topic.parent()?;
                (Arc::ptr_eq(parent, name) && is_own(&topic)).then_some(topic)
            })
        })
    }

    /// Returns whether a topic has the consolidated value of a symbol that the source, a hub of the
    /// name `feed`, gives beside other sources. A symbol of the hub with the same name is another
    /// one: a part of that value.
    pub(super) fn is_sum(&self, topic: &Topic, feed: &str) -> bool {
        is_sum_of_any(topic) && self.has_sum(topic, feed)
    }

    /// Returns whether the topic that a symbol of the source, `feed`, is named like has other
    /// values of the source: the consolidated one of a symbol, or another symbol's. Nothing that is
    /// said of the symbol before its own first value is about it.
    pub(in crate::ingest) fn is_anothers(&self, name: &Topic, feed: &str) -> bool {
        self.is_of_other_symbol(name, name) || self.is_sum(name, feed)
    }

    /// Does the same for a topic that is known to be a venue of the symbol.
    fn has_sum(&self, topic: &Topic, feed: &str) -> bool {
        let facts = topic.facts();
        venues::is_consolidated(&facts.venue_name)
            && *facts.source_name == *feed
            && !self.apart.contains_key(&topic.number)
    }
}

/// Returns whether a topic has the consolidated value that some hub gives of a symbol beside other
/// sources, or has given: its name stays that of this value.
fn is_sum_of_any(topic: &Topic) -> bool {
    topic.parent().is_some() && topic.is_consolidated_upstream()
}
