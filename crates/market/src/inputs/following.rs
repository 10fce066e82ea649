//! The books of an input whose price levels the hub's clients want.

use std::time::{Duration, Instant};

use super::Thread;
use crate::ingest::{Batch, Ingest};
use crate::market::Market;
use tidewire_fanout::Publication;
use tidewire_lane::unix_ns;

/// What an input knows of its clients' wishes.
#[derive(Debug)]
pub(super) struct Following {
    /// [`Books::asked`](crate::Books::asked) and the number of definitions at the last look.
    seen: (u64, u64),
    /// Number of followed securities after the last look.
    count: usize,
    looked: Instant,
}

impl Default for Following {
    fn default() -> Self {
        Self {
            seen: (0, 0),
            count: 0,
            looked: Instant::now(),
        }
    }
}

/// Books whose price levels can be given.
pub(super) trait LevelBooks {
    /// Number of symbols that were defined so far; it only grows.
    fn definitions(&self) -> u64;

    /// Number of followed symbols.
    fn followed_count(&self) -> usize;

    /// Gives the levels of a symbol from now on, or ends that. `time_ns` is the time of the book.
    fn follow(&mut self, symbol: u32, is_followed: bool, time_ns: u64, batch: &mut Batch<'_>);
}

impl LevelBooks for tidewire_itch::Books {
    fn definitions(&self) -> u64 {
        self.counters().definitions
    }

    fn followed_count(&self) -> usize {
        self.followed_count()
    }

    fn follow(&mut self, symbol: u32, is_followed: bool, time_ns: u64, batch: &mut Batch<'_>) {
        if let Ok(locate) = u16::try_from(symbol) {
            self.follow(locate, is_followed, 0, time_ns, batch);
        }
    }
}

impl LevelBooks for tidewire_mdp::Receiver {
    fn definitions(&self) -> u64 {
        self.channel().counters().definitions
    }

    fn followed_count(&self) -> usize {
        self.channel().followed_count()
    }

    fn follow(&mut self, symbol: u32, is_followed: bool, _time_ns: u64, batch: &mut Batch<'_>) {
        self.follow(symbol, is_followed, batch);
    }
}

impl Following {
    /// Follows the books that clients want, and ends what no client wants any more. `is_lost` tells
    /// that the feed is silent, or has ended. Returns what that gave. Costs a load and some
    /// comparisons if nothing has changed.
    fn look(
        &mut self,
        market: &Market,
        ingest: &mut Ingest,
        (books, is_lost): (&mut impl LevelBooks, bool),
    ) -> Option<(Publication, u64)> {
        let asked = market.books.asked();
        if asked == 0 {
            return None;
        }
        let seen = (asked, books.definitions());
        let is_changed = seen != self.seen
            // A loss or a new session may end all following.
            || books.followed_count() != self.count;
        let is_due = self.count > 0 && self.looked.elapsed() >= LOOK_AGAIN;
        if !is_changed && !is_due {
            return None;
        }
        (self.seen, self.looked) = (seen, Instant::now());
        let unix_ns = unix_ns();
        let mut batch = ingest.begin(unix_ns);
        for (symbol, own) in batch.symbols_with_books(is_lost) {
            let is_wanted = own.is_wanted(&market.books, unix_ns);
            let value = market.board.value(own.topic.number);
            let time_ns = value.map_or(0, |value| value.source_time_ns);
            books.follow(symbol, is_wanted, time_ns, &mut batch);
        }
        let news = batch.finish();
        self.count = books.followed_count();
        Some(news)
    }
}

impl Thread {
    /// Follows the wanted ones among the thread's own books.
    pub(super) fn follow_wanted(&mut self) {
        let books = (&mut self.books, self.is_stale);
        let news = self.following.look(&self.market, &mut self.ingest, books);
        news.into_iter().for_each(|news| self.publish(news));
    }

    /// Does the same with books that are not the thread's.
    pub(super) fn follow_wanted_of(&mut self, books: &mut impl LevelBooks) {
        let books = (books, self.is_stale);
        let news = self.following.look(&self.market, &mut self.ingest, books);
        news.into_iter().for_each(|news| self.publish(news));
    }
}

/// How often an input looks for books that are wanted no longer.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
