//! Symbols with the name of a venue's topic: those of a feed that already tells venues apart.

use std::sync::Arc;

use tidewire_lastvalue::FLAG_STALE;

use super::{SOURCES_OF_A_VENUE_MAX, Wanted, numbered};
use crate::board::VENUE_SEPARATOR;
use crate::ingest::apply::Work;
use crate::topic::Topic;
use crate::venues::SourceVenues;

impl Work<'_> {
    /// Notes that the source has defined a symbol. One with the name of a venue's topic is that
    /// venue no longer: it has no book, and is stale until it has a value of its own.
    pub(in crate::ingest) fn set_apart(&mut self, topic: &Arc<Topic>) {
        let separator = VENUE_SEPARATOR as u8;
        if !topic.symbol().contains(&separator) {
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
        let others = 2..=SOURCES_OF_A_VENUE_MAX;
        let others = others.map(|attempt| numbered(text.as_str(), attempt));
        let names = std::iter::once(text.as_str().to_owned()).chain(others);
        let names: Vec<String> = names.collect();
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

    /// Returns whether a topic can be that of the source's symbol `name`: it is that of no other
    /// symbol.
    fn may_be(&self, topic: &Topic, name: &Topic) -> bool {
        let symbol = self.apart.get(&topic.number);
        symbol.is_none_or(|&symbol| symbol == name.number) && !topic.is_consolidated()
    }
}
