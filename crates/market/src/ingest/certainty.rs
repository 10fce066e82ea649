//! Which topics of a source are stale or in doubt, and which it owns.

use std::sync::Arc;

use tidewire_fanout::Publication;
use tidewire_lane::unix_ns;
use tidewire_lastvalue::{FLAG_DOUBT, FLAG_STALE};

use super::{Batch, Doubt, Ingest, SourceState};
use crate::topic::Topic;

impl Ingest {
    /// Marks the topics of a source that has ended or was lost. Returns the publication.
    pub(crate) fn lose(&mut self, receive_time_ns: u64) -> (Publication, u64) {
        let mut batch = self.begin(receive_time_ns);
        let topics = batch.own_topics();
        batch.mark_topics_stale(&topics);
        batch.finish()
    }

    /// Does the same in slices, and gives each publication to `publish`. Between two slices other
    /// sources have the journal.
    pub(crate) fn lose_slowly(&mut self, publish: impl Fn((Publication, u64))) {
        let board = self.market.board.clone();
        let claimed = self.writer.claimed();
        let mut topics: Vec<_> = claimed.filter_map(|number| board.topic(number)).collect();
        // A symbol's venues follow one another, so that few consolidated values have a step in
        // between.
        topics.sort_unstable_by_key(|topic| {
            let parent = topic.parent().map(|parent| parent.number);
            (parent.unwrap_or(topic.number), topic.number)
        });
        for slice in topics.chunks(LEAVING_SLICE) {
            let mut batch = self.begin(unix_ns());
            batch.mark_topics_stale(slice);
            publish(batch.finish());
        }
        let mut batch = self.begin(unix_ns());
        let handed = batch.take_handed();
        let topics = handed.into_iter().filter_map(|number| board.topic(number));
        batch.mark_topics_stale(&topics.collect::<Vec<_>>());
        publish(batch.finish());
    }

    /// Gives the source's topics back, in slices. The journal's lock excludes that another source
    /// hands one over meanwhile, which would then have an owner that is gone.
    pub(super) fn release_topics(&mut self) {
        loop {
            let claimed = self.writer.claimed().take(LEAVING_SLICE);
            let claimed: Vec<u32> = claimed.collect();
            if claimed.is_empty() {
                return;
            }
            let journal = self.market.journal.lock();
            for number in self.market.handed.take(self.source) {
                let _ = self.writer.claim(number);
            }
            for number in claimed {
                self.writer.release(number);
            }
            drop(journal);
        }
    }
}

impl Batch<'_> {
    /// Marks topics of the source as stale. Those that were not are noted as [left](Ingest::left).
    pub(super) fn mark_topics_stale(&mut self, topics: &[Arc<Topic>]) {
        for topic in topics {
            let is_stale = self.flags(topic.number) & FLAG_STALE != 0;
            if !is_stale && self.work.mark(topic, FLAG_STALE, 0, true) {
                self.left.push(topic.number);
            }
        }
        self.work.follow_all(topics);
    }

    /// Notes that the source is back: topics that became stale because it had left are current
    /// again. Those in doubt stay so, and those that wait for a new session's first value do.
    pub(crate) fn revive(&mut self) {
        let mut left = std::mem::take(self.left);
        left.sort_unstable();
        let has_left = |number: u32| left.binary_search(&number).is_ok();
        let mut topics = self.own_topics();
        // A venue may have got a topic of its own since.
        topics.retain(|topic| {
            has_left(topic.number) || topic.parent().is_some_and(|parent| has_left(parent.number))
        });
        for topic in &topics {
            let is_stale = self.flags(topic.number) & FLAG_STALE != 0;
            if is_stale {
                self.work.mark(topic, 0, FLAG_STALE, true);
            }
        }
        self.work.follow_all(&topics);
    }

    /// Goes on with what the source's last connection has left.
    pub(super) fn resume(&mut self, state: SourceState) {
        let SourceState {
            symbols,
            venues,
            apart,
            doubt,
            left,
            interrupted,
            session,
        } = state;
        (*self.symbols, *self.venues) = (symbols, venues);
        *self.work.apart = apart;
        (*self.work.doubt, *self.left) = (doubt, left);
        *self.interrupted = interrupted;
        *self.work.session = session;
        *self.work.certain = None;
        // A venue may have got a topic of its own meanwhile, and another source may have claimed
        // it.
        let bound = self.symbols.bound();
        let moved = bound.filter(|(_, _, topic)| topic.is_consolidated());
        let moved: Vec<_> = moved.map(|(symbol, venue, _)| (symbol, venue)).collect();
        for (symbol, venue) in moved {
            self.bind(symbol, venue);
        }
        let writer = &mut self.work.writer;
        self.symbols
            .retain(|topic| writer.claim(topic.number).is_ok());
        for (_, symbol) in self.symbols.numbered() {
            let name = symbol.name();
            if symbol.is_unbound() && name.facts().venue.is_none() {
                let _ = writer.claim(name.number);
            }
        }
        // Venues that have had a state only are bound to no symbol.
        for &number in &*self.left {
            let topic = self.work.market.board.topic(number);
            if topic.is_some_and(|topic| !topic.is_consolidated()) {
                let _ = writer.claim(number);
            }
        }
        for (_, _, topic) in self.symbols.bound() {
            topic.records.adopt(self.work.source);
            if let Some(book) = topic.derived.book() {
                book.state.lock().adopt(self.work.source);
            }
        }
        self.revive();
    }

    /// Marks the topics of the source as in doubt. Those that are not stale are published when the
    /// batch ends. After many losses in a row only those are looked at whose doubt has ended since
    /// the last one. Returns the topics that were not in doubt before.
    pub(super) fn mark_doubtful(&mut self) -> Vec<u32> {
        let mut marked = Vec::new();
        let topics = match self.work.certain.replace(Vec::new()) {
            None => self.own_topics(),
            Some(mut certain) => {
                certain.sort_unstable();
                certain.dedup();
                let board = &self.work.market.board;
                let topics = certain.into_iter();
                topics.filter_map(|number| board.topic(number)).collect()
            }
        };
        for topic in &topics {
            let flags = self.flags(topic.number);
            if flags & FLAG_DOUBT == 0 && self.work.mark(topic, FLAG_DOUBT, 0, false) {
                marked.push(topic.number);
                if flags & FLAG_STALE == 0 {
                    self.marked.push(topic.number);
                }
            }
        }
        self.work.follow_all(&topics);
        marked
    }
    /// Marks the topics that are certain although others wait for what was lost, until the messages
    /// that are missing now have come.
    pub(super) fn interrupt(&mut self) {
        *self.interrupted = self.mark_doubtful();
    }

    /// Ends the doubt of the topics that were certain before the last interruption.
    pub(super) fn end_interruption(&mut self) {
        debug_assert_ne!(
            *self.work.doubt,
            Doubt::None,
            "something has made values doubtful"
        );
        let mut topics = Vec::new();
        for number in std::mem::take(self.interrupted) {
            let board = &self.work.market.board;
            let topic = board.topic(number);
            let Some(topic) = topic.filter(|_| self.flags(number) & FLAG_DOUBT != 0) else {
                continue;
            };
            if self.work.mark(&topic, 0, FLAG_DOUBT, true) {
                self.work.note_certain(number);
                topics.push(topic);
            }
        }
        self.work.follow_all(&topics);
    }

    /// Ends the doubt about all topics of the source. Those that this session has given a value are
    /// current.
    pub(super) fn end_all_doubt(&mut self) {
        let mut untold = std::mem::take(&mut self.marked);
        untold.sort_unstable();
        let mut valued = std::mem::take(self.left);
        valued.extend(self.symbols.bound().map(|(_, _, topic)| topic.number));
        valued.sort_unstable();
        let topics = self.own_topics();
        for topic in &topics {
            let has_value = valued.binary_search(&topic.number).is_ok();
            let ended = FLAG_DOUBT | if has_value { FLAG_STALE } else { 0 };
            if self.flags(topic.number) & ended != 0 {
                let told = untold.binary_search(&topic.number).is_err();
                self.work.mark(topic, 0, ended, told);
                self.work.publish_book_again(topic);
            }
        }
        self.work.follow_all(&topics);
    }

    /// Returns the topics that the source writes to, in the order of their numbers. Takes those
    /// that another source has made a venue's own.
    pub(super) fn own_topics(&mut self) -> Vec<Arc<Topic>> {
        self.take_handed();
        let (market, writer) = (self.work.market, &mut self.work.writer);
        let mut claimed: Vec<u32> = writer.claimed().collect();
        claimed.sort_unstable();
        claimed.retain(|&number| writer.slot(number).is_some());
        let topics = claimed.into_iter();
        topics
            .filter_map(|number| market.board.topic(number))
            .collect()
    }

    /// Claims and returns the topics that another source has made a venue's own.
    fn take_handed(&mut self) -> Vec<u32> {
        let handed = self.work.market.handed.take(self.work.source);
        for &number in &handed {
            let _ = self.work.writer.claim(number);
        }
        handed
    }
}

/// Topics of a source that has ended, marked under one lock of the journal.
const LEAVING_SLICE: usize = 1_024;
