//! The books of an input whose price levels the hub's clients want.

use std::time::{Duration, Instant};

use super::Thread;
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

impl Thread {
    /// Follows the books that clients want, and ends what no client wants any more. Costs a load
    /// and some comparisons if nothing has changed.
    pub(super) fn follow_wanted(&mut self) {
        let asked = self.market.books.asked();
        if asked == 0 {
            return;
        }
        let seen = (asked, self.books.counters().definitions);
        let is_changed = seen != self.following.seen
            // A loss or a new session ends all following.
            || self.books.followed_count() != self.following.count;
        let is_due = self.following.count > 0 && self.following.looked.elapsed() >= LOOK_AGAIN;
        if !is_changed && !is_due {
            return;
        }
        (self.following.seen, self.following.looked) = (seen, Instant::now());
        let unix_ns = unix_ns();
        let mut batch = self.ingest.begin(unix_ns);
        for (symbol, topic) in batch.topics_with_books() {
            let Ok(locate) = u16::try_from(symbol) else {
                continue;
            };
            let is_wanted = self.market.books.is_wanted(&topic, unix_ns);
            let value = self.market.board.value(topic.number);
            let time_ns = value.map_or(0, |value| value.source_time_ns);
            self.books.follow(locate, is_wanted, 0, time_ns, &mut batch);
        }
        let news = batch.finish();
        self.following.count = self.books.followed_count();
        self.publish(news);
    }
}

/// How often an input looks for books that are wanted no longer.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
