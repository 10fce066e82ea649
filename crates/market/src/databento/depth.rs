//! The books of one client of `mbp-10`, as of its position in the journal.

use std::collections::HashMap;

use tidewire_dbn::databento::DEPTH_LEVELS;
use tidewire_dbn::{BidAsk, action, side};
use tidewire_feed::wire::{Level, UNDEFINED_PRICE};

use crate::depth::{BookState, Books, Ladders, Outcome};
use crate::derived::Hold;
use crate::topic::Topic;

/// Books by topic number.
#[derive(Debug, Default)]
pub(super) struct DepthBooks {
    books: HashMap<u32, DepthBook>,
    /// Topics that were not followed because of [`DEPTH_BOOKS_MAX`].
    refused: u64,
}

#[derive(Debug)]
struct DepthBook {
    ladders: Ladders,
    /// The levels of an event whose end has not been read.
    pending: Vec<Level>,
    is_known: bool,
    /// Time of the last event at the source, nanoseconds since the UNIX epoch.
    source_time_ns: u64,
    /// Sequence of the last message of the journal that the book includes.
    until: u64,
    /// Sequence of the newest level in the book as it was taken. Behind an earlier message it was
    /// another one.
    newest: u64,
    /// Makes the source give levels as long as the client wants them.
    _hold: Hold<BookState>,
}

/// The end of an event, as a record shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DepthChange {
    /// See [`tidewire_dbn::action`].
    pub(super) action: u8,
    /// See [`tidewire_dbn::side`].
    pub(super) side: u8,
    /// Price of the changed level, 1 unit = 1e-9.
    pub(super) price: i64,
    /// Its new size; of a removed level the old one.
    pub(super) size: u32,
    /// Its place, 0 for the best.
    pub(super) depth: u8,
    /// The best levels after the event.
    pub(super) levels: [BidAsk; DEPTH_LEVELS],
}

impl DepthBooks {
    /// Follows a topic's book from its current state on. That state includes the journal's messages
    /// up to `until`; later ones may be in it as well.
    pub(super) fn follow(&mut self, books: &Books, topic: &Topic, until: u64) {
        let Some(hold) = self.hold(books, topic) else {
            return;
        };
        let state = books.book_of(topic).state.lock();
        let (ladders, pending, is_known) = state.parts();
        let source_time_ns = state.source_time_ns();
        // A later level is in it: those between would set levels back.
        let newest = state.sequence();
        let own = DepthBook {
            ladders: ladders.clone(),
            pending: pending.to_vec(),
            is_known,
            source_time_ns,
            until: until.max(newest),
            newest,
            _hold: hold,
        };
        drop(state);
        self.books.insert(topic.number, own);
    }

    /// Follows a topic's book from a place before its source began to give levels.
    pub(super) fn follow_from_start(&mut self, books: &Books, topic: &Topic) {
        let Some(hold) = self.hold(books, topic) else {
            return;
        };
        let own = DepthBook {
            ladders: Ladders::default(),
            pending: Vec::new(),
            is_known: false,
            source_time_ns: 0,
            until: 0,
            newest: 0,
            _hold: hold,
        };
        self.books.insert(topic.number, own);
    }

    /// Holds a topic's book. Counts it as refused if too many are followed.
    fn hold(&mut self, books: &Books, topic: &Topic) -> Option<Hold<BookState>> {
        if self.books.len() >= DEPTH_BOOKS_MAX && !self.follows(topic.number) {
            self.refused += 1;
            return None;
        }
        Some(books.hold(topic))
    }

    /// Takes the number of topics that have been refused since the last call.
    pub(super) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// Ends to follow the topics that are not `wanted`.
    pub(super) fn retain(&mut self, wanted: impl Fn(u32) -> bool) {
        self.books.retain(|number, _| wanted(*number));
    }

    /// Ends to follow a topic.
    pub(super) fn leave(&mut self, number: u32) {
        self.books.remove(&number);
    }

    /// Returns whether a topic's book is followed.
    pub(super) fn follows(&self, number: u32) -> bool {
        self.books.contains_key(&number)
    }

    /// Forgets all levels, because some are missing. Each book is known again from its next clear
    /// on.
    pub(super) fn forget(&mut self) {
        for book in self.books.values_mut() {
            book.ladders = Ladders::default();
            book.pending.clear();
            book.is_known = false;
        }
    }

    /// Returns the topics whose levels are not known.
    pub(super) fn unknown(&self) -> Vec<u32> {
        let unknown = self.books.iter().filter(|(_, book)| !book.is_known);
        unknown.map(|(number, _)| *number).collect()
    }

    /// Returns the best levels of a topic, if they are known.
    pub(super) fn levels(&self, number: u32) -> Option<[BidAsk; DEPTH_LEVELS]> {
        let book = self.books.get(&number)?;
        book.is_known.then(|| book.best())
    }

    /// Returns the best levels of a topic behind a message, if they are known: the book may have
    /// been taken later.
    pub(super) fn levels_at(&self, number: u32, sequence: u64) -> Option<[BidAsk; DEPTH_LEVELS]> {
        let book = self.books.get(&number)?;
        (book.is_known && sequence >= book.newest).then(|| book.best())
    }

    /// Returns the time of the last event of a topic's book at the source.
    pub(super) fn source_time_ns(&self, number: u32) -> u64 {
        let book = self.books.get(&number);
        book.map_or(0, |book| book.source_time_ns)
    }

    /// Applies the next level of the journal. Returns what the event did to the best levels, if
    /// this is its end and it changed any.
    pub(super) fn apply(&mut self, level: &Level, sequence: u64) -> Option<DepthChange> {
        let book = self.books.get_mut(&level.symbol)?;
        if sequence <= book.until {
            return None;
        }
        book.pending.push(*level);
        if level.is_last == 0 && book.pending.len() < PENDING_MAX {
            return None;
        }
        // The end of a book may have no time.
        if level.source_time_ns != 0 {
            book.source_time_ns = level.source_time_ns;
        }
        book.end_event()
    }
}

impl DepthBook {
    fn end_event(&mut self) -> Option<DepthChange> {
        let mut shown: Option<DepthChange> = None;
        for level in std::mem::take(&mut self.pending) {
            let change = match level.action {
                Level::SET => self.set(&level),
                action => {
                    self.is_known = action == Level::CLEAR && (self.is_known || level.side == 0);
                    self.ladders.apply(&level);
                    Some(CLEARED)
                }
            };
            // The event is shown by its change closest to the best price; a clear goes first.
            let is_closer = |old: &DepthChange, new: &DepthChange| {
                old.action != action::CLEAR && new.depth < old.depth
            };
            if let Some(new) = change
                && shown.as_ref().is_none_or(|old| is_closer(old, &new))
            {
                shown = Some(new);
            }
        }
        let mut shown = shown?;
        shown.levels = self.best();
        Some(shown)
    }

    /// Sets a level. Returns the change if it is among the best.
    fn set(&mut self, level: &Level) -> Option<DepthChange> {
        if !self.is_known {
            return None;
        }
        let is_bid = level.side == Level::BID;
        let before = self.ladders.at(is_bid, level.price).size;
        if self.ladders.apply(level) == Outcome::Nothing {
            return None;
        }
        let depth = self.ladders.better_than(is_bid, level.price, DEPTH_LEVELS);
        if depth >= DEPTH_LEVELS {
            return None;
        }
        let (action, size) = match (before, level.size) {
            (0, size) => (action::ADD, size),
            (before, 0) => (action::CANCEL, before),
            (_, size) => (action::MODIFY, size),
        };
        Some(DepthChange {
            action,
            side: if is_bid { side::BID } else { side::ASK },
            price: level.price,
            size,
            depth: depth as u8,
            ..CLEARED
        })
    }

    fn best(&self) -> [BidAsk; DEPTH_LEVELS] {
        let mut levels = [BidAsk::EMPTY; DEPTH_LEVELS];
        for (level, bid) in levels.iter_mut().zip(self.ladders.best(true)) {
            (level.bid, level.bid_size, level.bid_orders) = (bid.price, bid.size, bid.orders);
        }
        for (level, ask) in levels.iter_mut().zip(self.ladders.best(false)) {
            (level.ask, level.ask_size, level.ask_orders) = (ask.price, ask.size, ask.orders);
        }
        levels
    }
}

/// The event begins another book.
const CLEARED: DepthChange = DepthChange {
    action: action::CLEAR,
    side: side::NONE,
    price: UNDEFINED_PRICE,
    size: 0,
    depth: 0,
    levels: [BidAsk::EMPTY; DEPTH_LEVELS],
};
/// Maximum topics whose books one client may follow.
const DEPTH_BOOKS_MAX: usize = 20_000;
/// Maximum levels of an event: a whole book of both sides.
const PENDING_MAX: usize = 131_073;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::market::{Market, MarketConfig};
    use tidewire_feed::wire::{Definition, Name};

    fn topic(market: &Market) -> Arc<Topic> {
        let definition = Definition {
            symbol: 0,
            source: 0,
            source_time_ns: 0,
            open: UNDEFINED_PRICE,
            price_tick: 0,
            lot_size: 0,
            currency: [0; 4],
            name: Name::new("A").unwrap(),
            repeats: false,
        };
        market.board.define(&definition).unwrap()
    }

    fn level(side: u8, price: i64, size: u32, is_last: u8) -> Level {
        Level {
            side,
            price,
            size,
            orders: 1,
            is_last,
            ..Level::default()
        }
    }

    fn clear() -> Level {
        Level {
            action: Level::CLEAR,
            ..Level::default()
        }
    }

    fn apply(depth: &mut DepthBooks, level: &Level) -> Option<DepthChange> {
        depth.apply(level, 1)
    }

    #[test]
    fn each_event_is_one_change_with_its_place_and_the_book_after_it() {
        let market = Market::of_one_lane(MarketConfig::default());
        let topic = topic(&market);
        let mut depth = DepthBooks::default();
        depth.follow_from_start(&market.books, &topic);
        assert!(
            apply(&mut depth, &level(Level::BID, 5, 1, 1)).is_none(),
            "no book"
        );
        assert!(apply(&mut depth, &clear()).is_none());
        for price in 1..=12 {
            assert!(apply(&mut depth, &level(Level::BID, price, 2, 0)).is_none());
        }
        let whole = apply(&mut depth, &level(Level::ASK, 20, 3, 1)).unwrap();
        assert_eq!((whole.action, whole.side), (action::CLEAR, side::NONE));
        assert_eq!((whole.levels[0].bid, whole.levels[0].ask), (12, 20));
        assert_eq!(whole.levels[9].bid, 3);
        assert_eq!(whole.levels[1].ask, UNDEFINED_PRICE);
        assert!(
            apply(&mut depth, &level(Level::BID, 1, 9, 1)).is_none(),
            "below the best ten"
        );
        let gone = apply(&mut depth, &level(Level::BID, 11, 0, 1)).unwrap();
        assert_eq!((gone.action, gone.side), (action::CANCEL, side::BID));
        assert_eq!((gone.price, gone.size, gone.depth), (11, 2, 1));
        assert_eq!((gone.levels[1].bid, gone.levels[9].bid), (10, 2));
        let changed = apply(&mut depth, &level(Level::ASK, 20, 4, 1)).unwrap();
        assert_eq!((changed.action, changed.depth), (action::MODIFY, 0));
        assert!(apply(&mut depth, &level(Level::ASK, 21, 1, 0)).is_none());
        let added = apply(&mut depth, &level(Level::ASK, 19, 1, 1)).unwrap();
        let shape = (added.action, added.price, added.depth);
        assert_eq!(shape, (action::ADD, 19, 0));
        assert_eq!(
            [0, 1, 2].map(|at: usize| added.levels[at].ask),
            [19, 20, 21]
        );
    }

    #[test]
    fn a_client_wants_the_book_as_long_as_it_follows_it() {
        let market = Market::of_one_lane(MarketConfig::default());
        let topic = topic(&market);
        let mut depth = DepthBooks::default();
        let book = market.books.book_of(&topic).clone();
        tidewire_fanout::Topic::clear_interest(&*book, 0);
        assert!(!market.books.is_wanted(&topic, 1));
        let asked = market.books.asked();
        depth.follow(&market.books, &topic, 5);
        assert_eq!(depth.levels(topic.number), None);
        assert!(market.books.is_wanted(&topic, 1) && depth.follows(topic.number));
        assert!(market.books.asked() > asked, "inputs look again");
        assert_eq!(depth.unknown(), [topic.number]);
        assert!(depth.apply(&clear(), 5).is_none(), "the state includes it");
        let last = Level {
            is_last: 1,
            ..clear()
        };
        assert_eq!(depth.apply(&last, 6).unwrap().action, action::CLEAR);
        let empty = [BidAsk::EMPTY; DEPTH_LEVELS];
        assert_eq!(depth.levels(topic.number), Some(empty));
        depth.retain(|number| number != topic.number);
        assert!(!market.books.is_wanted(&topic, 1) && !depth.follows(topic.number));
    }
}
