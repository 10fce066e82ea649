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

    /// Publishes all that is known of an instrument whose book is right. If something else is in
    /// doubt, the record says so.
    pub(crate) fn publish_record<S: Sink>(&mut self, index: u32, sink: &mut S) {
        let instrument = &self.instruments[index as usize];
        if instrument.is_confirming || !instrument.state.is_live() {
            return; // the end of the event publishes it, or a snapshot
        }
        let top = instrument.book.top();
        self.publish_as_certain(index, Some(top), sink);
    }

    /// Publishes that an instrument is in doubt: its values stay as they are.
    pub(crate) fn publish_doubt<S: Sink>(&mut self, index: u32, sink: &mut S) {
        let instrument = &self.instruments[index as usize];
        let is_right = instrument.is_right() && !self.is_behind();
        debug_assert!(!is_right, "something is in doubt");
        self.publish_as_certain(index, None, sink);
    }

    /// Publishes a record, which says whether anything is in doubt.
    fn publish_as_certain<S: Sink>(&mut self, index: u32, top: Option<Top>, sink: &mut S) {
        let is_behind = self.is_behind();
        let instrument = &mut self.instruments[index as usize];
        if !instrument.is_defined {
            return;
        }
        let (symbol, source) = (self.config.symbol_first + index, self.config.source);
        let is_right = instrument.is_right() && !is_behind;
        let mut record = instrument.record(top, symbol, source, self.sequence);
        if let Some(figures) = record.figures.as_mut().filter(|_| !is_right) {
            figures.flags |= Figures::IN_DOUBT;
            self.in_doubt = true;
        }
        sink.snapshot_record(self.sequence, &record);
        if !self.followed.is_empty() {
            self.show_levels(index, sink);
        }
    }
}
