//! Applies price levels.

use std::sync::Arc;

use tidewire_fanout::Origin;
use tidewire_feed::wire::{Level, Message};

use super::Batch;
use crate::depth::BookTopic;
use crate::topic::Topic;

impl Batch<'_> {
    /// Applies a level of a topic that the source owns.
    pub(super) fn level(&mut self, topic: &Topic, level: &Level) {
        let number = topic.number;
        let sequence = self.work.journal.append(&Message::Level(Level {
            symbol: number,
            ..*level
        }));
        self.work.applied += 1;
        let book = self.work.market.books.book_of(topic);
        let mut state = book.state.lock();
        if state.push(level, sequence) {
            self.publish_book(number, book, &state);
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

    /// Publishes the last change of a book whose state is locked.
    fn publish_book(&mut self, number: u32, book: &BookTopic, state: &crate::depth::BookState) {
        let interest = book.interest();
        if interest == 0 {
            return;
        }
        self.work.lanes |= interest;
        let is_stale = self.work.market.books.is_stale(number);
        let origin = Origin::Topic(book.topic_id());
        self.work
            .publication
            .push_with(book.name(), origin, state.version(), |out| {
                state.write_json(out, book.symbol(), false, is_stale);
            });
    }

    /// Publishes a book again because its topic has become stale or current.
    pub(super) fn publish_book_again(&mut self, topic: &Topic) {
        if let Some(book) = topic.derived.book() {
            let mut state = book.state.lock();
            if state.is_known() {
                state.renew();
                self.publish_book(topic.number, book, &state);
            }
        }
    }

    /// Forgets the source's books: levels were lost, or another session has begun. Each is known
    /// again from its next clear on.
    pub(super) fn forget_books(&mut self) {
        for number in self.work.writer.claimed().to_vec() {
            let Some(topic) = self.work.market.board.topic(number) else {
                continue;
            };
            if let Some(book) = topic.derived.book() {
                let mut state = book.state.lock();
                if state.forget() {
                    // Those who follow the book in the hub's own feed forget it too.
                    self.work.journal.append(&Message::Level(Level {
                        symbol: number,
                        source: topic.definition().source,
                        action: Level::END,
                        is_last: 1,
                        ..Level::default()
                    }));
                    self.publish_book(number, book, &state);
                }
            }
        }
    }
}
