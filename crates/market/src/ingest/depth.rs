//! Applies price levels.

use std::sync::Arc;

use tidewire_fanout::Origin;
use tidewire_feed::wire::{Level, Message};

use super::Batch;
use super::apply::Work;
use crate::depth::{BookState, BookTopic};
use crate::topic::Topic;

impl Batch<'_> {
    /// Applies a level of a topic that the source owns.
    pub(super) fn level(&mut self, topic: &Topic, level: &Level) {
        let number = topic.number;
        let book = self.work.market.books.book_of(topic);
        let mut state = book.state.lock();
        if state.take_over(self.work.source) {
            self.work.tell_forgotten(topic, book, &state);
        }
        let sequence = self.work.journal.append(&Message::Level(Level {
            symbol: number,
            source: topic.venue(),
            ..*level
        }));
        self.work.applied += 1;
        if state.push(level, sequence) {
            self.work.publish_book(number, book, &state);
        }
    }

    /// Forgets the book of a topic that the source gives its first value, if another source gave
    /// the levels.
    pub(super) fn take_over_book(&mut self, topic: &Topic) {
        if let Some(book) = topic.derived.book() {
            let mut state = book.state.lock();
            if state.take_over(self.work.source) {
                self.work.tell_forgotten(topic, book, &state);
            }
        }
    }

    /// Returns the source's symbols whose topics have a book.
    pub(crate) fn topics_with_books(&self) -> Vec<(u32, Arc<Topic>)> {
        let all = self.symbols.numbered();
        let topics = all.map(|(number, symbol)| {
            let topic = symbol.first().unwrap_or_else(|| symbol.name());
            (number, topic)
        });
        let with_books = topics.filter(|(_, topic)| topic.derived.book().is_some());
        with_books
            .map(|(symbol, topic)| (symbol, topic.clone()))
            .collect()
    }

    /// Publishes a book again because its topic has become stale or current.
    pub(super) fn publish_book_again(&mut self, topic: &Topic) {
        if let Some(book) = topic.derived.book() {
            let mut state = book.state.lock();
            if state.is_known() {
                state.renew();
                self.work.publish_book(topic.number, book, &state);
            }
        }
    }

    /// Forgets the source's books: levels were lost, or another session has begun. Each is known
    /// again from its next clear on.
    pub(super) fn forget_books(&mut self) {
        let claimed: Vec<u32> = self.work.writer.claimed().collect();
        for number in claimed {
            let Some(topic) = self.work.market.board.topic(number) else {
                continue;
            };
            if let Some(book) = topic.derived.book() {
                let mut state = book.state.lock();
                if state.forget() {
                    self.work.tell_forgotten(&topic, book, &state);
                }
            }
        }
    }
}

impl Work<'_> {
    /// Tells those who follow a book that nothing is known of it.
    pub(super) fn tell_forgotten(&mut self, topic: &Topic, book: &BookTopic, state: &BookState) {
        self.journal.append(&Message::Level(Level {
            symbol: topic.number,
            source: topic.venue(),
            action: Level::END,
            is_last: 1,
            ..Level::default()
        }));
        self.publish_book(topic.number, book, state);
    }

    /// Publishes the last change of a book whose state is locked.
    fn publish_book(&mut self, number: u32, book: &BookTopic, state: &BookState) {
        let interest = book.interest();
        if interest == 0 {
            return;
        }
        self.lanes |= interest;
        let stale = self.market.books.staleness(number);
        let origin = Origin::Topic(book.topic_id());
        self.publication
            .push_with(book.name(), origin, state.version(), |out| {
                state.write_json(out, book.symbol(), false, stale);
            });
    }
}
