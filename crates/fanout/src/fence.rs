//! Synchronises a publisher and a new subscriber without a lock, so that neither misses the other.
//!
//! A publisher stores a value and reads the topic's [`Interest`]. At the end of its batch it asks
//! the [`Generation`] whether a client has subscribed since; if so, it reads the interest of its
//! topics again. A subscriber sets the interest, increments the generation, and then reads the
//! value. One of the two always sees the other, so no update is lost between a subscription's first
//! value and its first update.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// The lanes that have a subscriber to a topic, one bit each.
#[derive(Debug, Default)]
pub struct Interest(AtomicU64);

impl Interest {
    /// Creates an interest in which these lanes may have a subscriber.
    pub fn of(lanes: u64) -> Self {
        Interest(AtomicU64::new(lanes))
    }

    /// Returns one bit per lane.
    #[inline]
    pub fn lanes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes that `lane` has a subscriber.
    pub fn add(&self, lane: usize) {
        debug_assert!(
            lane < u64::BITS as usize,
            "a word has a bit for each of 64 lanes"
        );
        self.0.fetch_or(1 << lane, Ordering::SeqCst);
    }

    /// Notes that `lane` has no subscriber.
    pub fn clear(&self, lane: usize) {
        debug_assert!(
            lane < u64::BITS as usize,
            "a word has a bit for each of 64 lanes"
        );
        self.0.fetch_and(!(1 << lane), Ordering::SeqCst);
    }
}

/// The number of subscriptions made so far.
#[derive(Debug, Default)]
pub struct Generation(AtomicU64);

impl Generation {
    /// Returns the number that a publisher begins with.
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Notes a subscription. The subscriber has set its interest before. Publishers need not send
    /// it the values that it reads from now on.
    pub fn raise(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Returns whether a client has subscribed since the publisher's last call. Call it when the
    /// values of a batch are stored.
    #[inline]
    pub fn has_changed(&self, seen: &mut u64) -> bool {
        fence(Ordering::SeqCst);
        let now = self.0.load(Ordering::SeqCst);
        debug_assert!(
            *seen <= now,
            "a publisher asks the generation that it began with"
        );
        std::mem::replace(seen, now) != now
    }
}

/// Models every order in which a publisher and subscribers can meet: `cargo xtask test` runs it.
#[cfg(all(loom, test))]
mod model {
    use std::sync::Arc;

    use super::*;

    #[derive(Default)]
    struct Topic {
        interest: Interest,
        generation: Generation,
        value: AtomicU64,
    }

    impl Topic {
        /// Does a publisher's part for two values in one batch. Returns the lanes that get the
        /// last one.
        fn publish(&self) -> u64 {
            let mut seen = self.generation.now();
            let mut told = 0;
            for value in [1, 2] {
                self.value.store(value, Ordering::Relaxed);
                told = self.interest.lanes();
            }
            if self.generation.has_changed(&mut seen) {
                told |= self.interest.lanes();
            }
            told
        }

        /// Does a subscriber's part. Returns the value that it finds.
        fn subscribe(&self, lane: usize) -> u64 {
            self.interest.add(lane);
            self.generation.raise();
            self.value.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn no_value_falls_between_the_first_one_and_the_news() {
        loom::model(|| {
            let topic = Arc::new(Topic::default());
            let publisher = {
                let topic = topic.clone();
                loom::thread::spawn(move || topic.publish())
            };
            let first = topic.subscribe(0);
            let told = publisher.join().unwrap();
            assert!(first == 2 || told & 1 != 0, "found {first}, told {told:b}");
        });
    }

    #[test]
    fn of_two_subscribers_each_has_the_last_value() {
        // Three threads have too many orders for a test that always runs.
        let mut orders = loom::model::Builder::new();
        orders.preemption_bound = Some(2);
        orders.check(|| {
            let topic = Arc::new(Topic::default());
            let others = [0, 1].map(|lane| {
                let topic = topic.clone();
                loom::thread::spawn(move || topic.subscribe(lane))
            });
            let told = topic.publish();
            for (lane, other) in others.into_iter().enumerate() {
                let first = other.join().unwrap();
                assert!(
                    first == 2 || told >> lane & 1 != 0,
                    "lane {lane} found {first}"
                );
            }
        });
    }
}
