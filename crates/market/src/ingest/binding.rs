//! Which topic the messages about a source's symbol at a venue go to.

use std::sync::Arc;

use tidewire_lastvalue::FLAG_STALE;

use super::Batch;
use crate::symbols::Symbol;
use crate::topic::Topic;
use crate::venues::CONSOLIDATED;

impl Batch<'_> {
    /// Finds, and notes, the topic of a symbol at a venue.
    pub(super) fn bind(&mut self, symbol: u32, venue: u16) -> Option<Arc<Topic>> {
        let topic = self.find_topic(symbol, venue)?;
        self.bind_to(symbol, venue, &topic);
        Some(topic)
    }

    /// Notes the topic of a symbol at a venue, which the source gives a value.
    pub(super) fn bind_to(&mut self, symbol: u32, venue: u16, topic: &Arc<Topic>) {
        topic.valued_in(*self.work.session);
        if topic.derived.book().is_some() {
            self.work.market.books.look_again();
        }
        self.symbols.bind(symbol, venue, topic.clone());
    }

    pub(super) fn find_topic(&mut self, symbol: u32, venue: u16) -> Option<Arc<Topic>> {
        let known = self.symbols.get(symbol)?;
        match self.one_value_upstream(known, venue) {
            Some(topic) => {
                self.work.rename_venue(self.venues, &topic, venue);
                // Values from the venue before rename it again.
                self.symbols.unbind_others(symbol, venue);
                Some(topic)
            }
            None => {
                let left = match venue == CONSOLIDATED || self.venues.is_hub() {
                    true => self
                        .work
                        .leave_other_venues(known.name(), self.venues, venue),
                    false => Vec::new(),
                };
                let topic = self.work.topic_of_venue(self.venues, known, venue);
                if self.venues.is_hub() && topic.is_some() {
                    // Values from the venue before come back to it: a recording has several runs
                    // of its hub.
                    self.symbols.unbind_others(symbol, venue);
                }
                self.end_left(&left);
                if let Some(topic) = &topic {
                    if venue == CONSOLIDATED {
                        left.iter().for_each(|left| topic.continue_opened(left));
                    }
                    self.work.begin_behind_left(topic, &left);
                }
                topic
            }
        }
    }

    /// Marks topics as stale that the source's symbol has left, unless the source goes on with
    /// them as symbols of their own.
    fn end_left(&mut self, left: &[Arc<Topic>]) {
        for topic in left {
            let goes_on = self.work.apart.contains_key(&topic.number);
            let is_stale = self.flags(topic.number) & FLAG_STALE != 0;
            if !goes_on {
                topic.valued_in(0);
            }
            if !goes_on && topic.is_consolidated_upstream() {
                // The hub's trades go on in that of a venue.
                self.work.may_lack_trades(topic);
                self.work.append_lost(topic, topic.newest_trade_ns(), 0);
            }
            if !goes_on && !is_stale {
                self.work.mark(topic, FLAG_STALE, 0, true);
            }
        }
    }

    /// Returns the topic that goes on with a value from another venue. A hub before this one gives
    /// each symbol one value: that of its venue or, when it has found a second one, that of both,
    /// which already includes the first. After its restart it may be of one venue again.
    pub(super) fn one_value_upstream(&self, known: &Symbol, venue: u16) -> Option<Arc<Topic>> {
        match venue == CONSOLIDATED || self.venues.is_hub() {
            true => self.only_topic(known),
            false => None,
        }
    }

    /// Returns the topic that a symbol's name stands for, unless that has other values of the
    /// source.
    pub(super) fn own_name(&self, known: &Symbol) -> Option<Arc<Topic>> {
        let name = known.name();
        let is_anothers = self.work.is_anothers(name, self.venues.feed());
        (!is_anothers).then(|| name.clone())
    }

    /// Returns the symbol's topic, if the source owns it, and it is not one venue of several.
    pub(super) fn only_topic(&self, known: &Symbol) -> Option<Arc<Topic>> {
        // A venue that has given a state only is bound to no symbol.
        let topic = known.first().unwrap_or_else(|| known.name());
        let owner = self.work.market.board.slots().slot(topic.number)?.owner();
        // Beside other sources of this hub it is one venue among several.
        let is_alone = topic.parent().is_none() && !topic.is_consolidated();
        let is_alone = is_alone && !self.work.is_of_other_symbol(topic, known.name());
        (is_alone && owner == Some(self.work.source)).then(|| topic.clone())
    }
}
