//! Applies price levels.

use std::sync::Arc;

use tidewire_dbn::book::ClearRecord;
use tidewire_feed::wire::{Level, Message, RecordPart};

use super::Batch;
use super::apply::Work;
use crate::depth::{BookState, BookTopic, Books, DEPTH_ALL};
use crate::symbols::Symbol;
use crate::topic::Topic;

/// The topic that a source's levels of a symbol go to, and the one that repeats it, if any.
#[derive(Debug)]
pub(crate) struct OwnBook {
    pub(crate) topic: Arc<Topic>,
    namesake: Option<Arc<Topic>>,
}

impl OwnBook {
    fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        [Some(&self.topic), self.namesake.as_ref()]
            .into_iter()
            .flatten()
    }

    fn has_book(&self) -> bool {
        self.topics().any(|topic| topic.derived.book().is_some())
    }

    /// Returns whether any client wants the book at `unix_ns`, under either name.
    pub(crate) fn is_wanted(&self, books: &Books, unix_ns: u64) -> bool {
        let mut topics = self.topics();
        topics.any(|topic| books.is_wanted(topic, unix_ns))
    }
}

impl Batch<'_> {
    /// Applies a level of a topic that the source owns, and to its namesake.
    pub(super) fn level_of(&mut self, topic: &Topic, level: &Level) {
        self.level(topic, level);
        if let Some(namesake) = topic.namesake() {
            self.level(&namesake, level);
        }
    }

    /// Applies a level of a topic that the source owns.
    pub(super) fn level(&mut self, topic: &Topic, level: &Level) {
        let number = topic.number;
        self.work.certainties.with_books.insert(number);
        let book = self.work.market.books.book_of(topic);
        let mut state = book.state.lock();
        let timed;
        let level = match level.source_time_ns {
            // Such as the end of a book in a recording that is played.
            0 => {
                timed = Level {
                    source_time_ns: self.work.newest_ns(topic, &state),
                    ..*level
                };
                &timed
            }
            _ => level,
        };
        if state.take_over(self.work.source) {
            self.work
                .tell_forgotten(topic, book, &mut state, level.source_time_ns);
        }
        let sequence = self.work.journal.append(&Message::Level(Level {
            symbol: number,
            source: topic.venue(),
            ..*level
        }));
        if state.push(level, sequence) {
            self.work.publish_book(number, book, &mut state);
        }
    }

    /// Forgets the book of a topic that the source gives its first value, if another source gave
    /// the levels, and the orders of another session. `time_ns` is that of the value, or 0.
    pub(super) fn take_over_book(&mut self, topic: &Topic, time_ns: u64) {
        if let Some(book) = topic.derived.book() {
            let mut state = book.state.lock();
            if state.take_over(self.work.source) {
                let time_ns = self.work.newest_ns(topic, &state);
                self.work.tell_forgotten(topic, book, &mut state, time_ns);
            }
        }
        self.work.take_over_orders(topic, time_ns);
    }

    /// Returns the source's symbols of which levels go to a topic with a book. If its feed
    /// `is_lost`, they are those with a value: the first level of another would say that the feed
    /// is back.
    pub(crate) fn symbols_with_books(&self, is_lost: bool) -> Vec<(u32, OwnBook)> {
        let all = self.symbols.numbered();
        let all = all.filter(|(_, symbol)| !is_lost || !symbol.is_unbound());
        let own = all.filter_map(|(number, symbol)| {
            let topic = self.topic_of_levels(symbol)?;
            let namesake = topic.namesake();
            let own = OwnBook { topic, namesake };
            own.has_book().then_some((number, own))
        });
        own.collect()
    }

    /// Returns the topic that the source's levels of a symbol go to. Its present one may be that of
    /// all venues since another source's value: until its next message the source does not know of
    /// its venue's. `None` where another source writes to the topic: the source has no venue there.
    fn topic_of_levels(&self, symbol: &Symbol) -> Option<Arc<Topic>> {
        let topic = symbol.first_or_name();
        if !topic.is_consolidated() {
            return self.work.is_own_or_left(topic).then(|| topic.clone());
        }
        topic.with_members(|venues| {
            let mut venues = venues.iter().map(|venue| &venue.topic);
            let is_own = |topic: &&Arc<Topic>| {
                let owner = self.work.slot_owner(topic);
                owner == Some(self.work.source)
            };
            venues.find(is_own).cloned()
        })
    }
}

impl Work<'_> {
    /// Tells those who follow a topic's orders that those of another session are void.
    fn take_over_orders(&mut self, topic: &Topic, time_ns: u64) {
        let newest_ns = topic.records.newest_order_ns();
        let clears = topic
            .records
            .take_over(*self.session, &self.market.records.orders);
        let time_ns = time_ns.max(newest_ns);
        for clear in clears {
            let clear = ClearRecord::at(clear.publisher_id, time_ns);
            let source = clear.publisher_id;
            for part in RecordPart::split(topic.number, source, time_ns, &clear.bytes) {
                self.journal.append(&Message::Record(part));
            }
        }
    }

    /// Forgets the book of a topic: levels were lost, or another session has begun. It is known
    /// again from its next clear on.
    pub(super) fn forget_book(&mut self, topic: &Topic) {
        if let Some(book) = topic.derived.book() {
            let mut state = book.state.lock();
            if state.forget() {
                let time_ns = self.newest_ns(topic, &state);
                self.tell_forgotten(topic, book, &mut state, time_ns);
            }
        }
    }

    /// Gives the topic of a symbol's only venue the symbol's book, which both go on with.
    pub(super) fn copy_book(&mut self, topic: &Topic, venue: &Topic) {
        let Some(book) = topic.derived.book() else {
            return;
        };
        if self.certainties.with_books.contains(topic.number) {
            self.certainties.with_books.insert(venue.number);
        }
        let own = self.market.books.book_of(venue);
        let (state, mut own_state) = (book.state.lock(), own.state.lock());
        if own_state.copy_from(&state) {
            self.tell_book(venue, own, &mut own_state);
        }
    }

    /// Publishes a book again if its topic is not as certain as the subscribers were told.
    pub(super) fn publish_book_again(&mut self, topic: &Topic) {
        if let Some(book) = topic.derived.book() {
            let mut state = book.state.lock();
            let stale = self.market.books.staleness(topic.number);
            // Nothing is shown of a book that has never been known.
            if state.version() > 0 && state.note_staleness(stale) {
                state.renew();
                self.publish_book(topic.number, book, &mut state);
            }
        }
    }

    /// Returns the newest source time of a topic and its book, ns since the UNIX epoch.
    pub(super) fn newest_ns(&self, topic: &Topic, state: &BookState) -> u64 {
        let value = self.market.board.value(topic.number);
        let value_ns = value.map_or(0, |value| value.source_time_ns);
        value_ns.max(state.source_time_ns())
    }

    /// Tells those who follow a book that nothing is known of it since `source_time_ns`.
    pub(super) fn tell_forgotten(
        &mut self,
        topic: &Topic,
        book: &BookTopic,
        state: &mut BookState,
        source_time_ns: u64,
    ) {
        self.journal.append(&Message::Level(Level {
            symbol: topic.number,
            source: topic.venue(),
            source_time_ns,
            action: Level::END,
            is_last: 1,
            ..Level::default()
        }));
        self.publish_book(topic.number, book, state);
    }

    /// Tells those who follow a book all that is known of it: a clear, then each level. An event
    /// that has not ended goes on after it.
    pub(super) fn tell_book(&mut self, topic: &Topic, book: &BookTopic, state: &mut BookState) {
        if state.is_known() {
            let view = state.view(usize::MAX, 0);
            let own = Level {
                symbol: topic.number,
                source: topic.venue(),
                source_time_ns: view.source_time_ns,
                depth: match view.depth {
                    DEPTH_ALL.. => 0,
                    depth => depth as u16,
                },
                ..Level::default()
            };
            let mut last = Level {
                action: Level::CLEAR,
                ..own
            };
            let sides = [(Level::BID, &view.bids), (Level::ASK, &view.asks)];
            let levels = sides
                .into_iter()
                .flat_map(|(side, levels)| levels.iter().map(move |level| (side, level)));
            for (side, level) in levels {
                self.journal.append(&Message::Level(last));
                last = Level {
                    price: level.price,
                    size: level.size,
                    orders: level.orders,
                    side,
                    ..own
                };
            }
            last.is_last = 1;
            self.journal.append(&Message::Level(last));
            for level in state.parts().1 {
                let (symbol, source) = (own.symbol, own.source);
                let level = Level {
                    symbol,
                    source,
                    ..*level
                };
                self.journal.append(&Message::Level(level));
            }
        }
        self.publish_book(topic.number, book, state);
    }

    /// Publishes the last change of a book whose state is locked.
    fn publish_book(&mut self, number: u32, book: &BookTopic, state: &mut BookState) {
        let (interest, second) = (book.interest(), book.heard_second(&self.market.board));
        if interest == 0 && second.is_none() {
            return;
        }
        let stale = self.market.books.staleness(number);
        state.note_staleness(stale);
        let (publication, lanes) = &mut self.dispatch;
        if interest != 0 {
            *lanes |= interest;
            book.publish(state, stale, publication);
        }
        if let Some((second, interest)) = second {
            *lanes |= interest;
            BookTopic::publish_second(&second, state, stale, publication);
        }
    }
}
