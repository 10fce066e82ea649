//! What a channel tells its sink of an instrument: changed tops, and records.

use tidewire_feed::client::Sink;
use tidewire_feed::wire::{Figures, Message as Output};

use crate::channel::Channel;
use crate::instrument::Top;

impl Channel {
    /// Publishes the tops that have changed.
    #[inline]
    pub(crate) fn publish_changes<S: Sink>(&mut self, sink: &mut S) {
        for place in 0..self.dirty.len() {
            let index = self.dirty[place];
            let instrument = &mut self.instruments[index as usize];
            instrument.is_dirty = false;
            // A book in recovery is published with its record.
            if !instrument.state.is_live() {
                continue;
            }
            let is_confirming = instrument.is_confirming;
            let top = instrument.book.top();
            let symbol = self.config.symbol_first + index;
            let time_ns = self.event_time_ns;
            let changed = instrument.changed_quote(top, symbol, self.config.source, time_ns);
            if let Some(quote) = changed
                && instrument.is_defined
            {
                self.counters.quotes += 1;
                sink.message(self.sequence, &Output::Quote(quote));
            }
            if is_confirming {
                self.confirm_event(index, sink);
            } else if !self.followed.is_empty() {
                self.show_levels(index, sink);
            }
        }
        self.dirty.clear();
    }

    /// Publishes all that is known of an instrument, if its values are right.
    pub(crate) fn publish_record<S: Sink>(&mut self, index: u32, sink: &mut S) {
        let instrument = &mut self.instruments[index as usize];
        let is_known = instrument.is_defined && instrument.state.is_live();
        if !is_known || instrument.is_confirming {
            return; // the end of the event publishes it
        }
        let (symbol, source) = (self.config.symbol_first + index, self.config.source);
        let top = instrument.book.top();
        let is_right = instrument.is_right();
        let mut record = instrument.record(top, symbol, source, self.sequence);
        if let Some(figures) = record.figures.as_mut().filter(|_| !is_right) {
            figures.flags |= Figures::IN_DOUBT;
        }
        sink.snapshot_record(self.sequence, &record);
        if !self.followed.is_empty() {
            self.show_levels(index, sink);
        }
    }

    /// Publishes what is known of an instrument whose book is not, marked as in doubt.
    pub(crate) fn publish_doubt<S: Sink>(&mut self, index: u32, sink: &mut S) {
        let instrument = &mut self.instruments[index as usize];
        debug_assert!(
            !instrument.state.is_live(),
            "only its record ends the doubt"
        );
        let (symbol, source) = (self.config.symbol_first + index, self.config.source);
        let mut record = instrument.record(Top::EMPTY, symbol, source, self.sequence);
        if let Some(figures) = &mut record.figures {
            figures.flags |= Figures::IN_DOUBT;
        }
        self.in_doubt = true;
        sink.snapshot_record(self.sequence, &record);
    }
}
