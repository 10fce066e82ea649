//! The events of a link, for a thread that waits for them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::Event;

/// Bytes of messages that wait. Beyond them, messages of subscriptions are dropped and counted:
/// who needs them asks the stream. Answers are never dropped, as each was asked for.
pub(crate) const WAITING_BYTES_MAX: usize = 64 << 20;

/// A queue of events. Any number of threads may put, one takes.
#[derive(Clone, Debug, Default)]
pub struct Inbox {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// The thread that takes, from its first call on.
    taker: OnceLock<Thread>,
    is_woken: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    message_bytes: usize,
    dropped: u64,
}

impl Inbox {
    /// Creates an empty inbox.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn put(&self, event: Event) {
        let mut queue = self.shared.queue.lock();
        if let Event::Message(message) = &event {
            if queue.message_bytes + message.payload.len() > WAITING_BYTES_MAX {
                queue.dropped += 1;
                return;
            }
            queue.message_bytes += message.payload.len();
        }
        queue.events.push_back(event);
        drop(queue);
        self.unpark();
    }

    /// Ends the present or the next wait of [`Inbox::take`], for another reason than an event. It
    /// waits for no lock, so that a lane may call it.
    pub fn wake(&self) {
        self.shared.is_woken.store(true, Ordering::Release);
        self.unpark();
    }

    fn unpark(&self) {
        if let Some(taker) = self.shared.taker.get() {
            taker.unpark();
        }
    }

    /// Appends all events to `taken`. Waits for the first one until `timeout` is over. Only one
    /// thread may call it.
    pub fn take(&self, timeout: Duration, taken: &mut Vec<Event>) {
        let taker = self.shared.taker.get_or_init(std::thread::current);
        debug_assert_eq!(taker.id(), std::thread::current().id(), "one thread takes");
        let end = Instant::now() + timeout;
        loop {
            let mut queue = self.shared.queue.lock();
            let events = std::mem::take(&mut queue.events);
            queue.message_bytes = 0;
            drop(queue);
            // Who wakes has set the mark before: what it points to is seen after this call.
            let is_woken = self.shared.is_woken.swap(false, Ordering::AcqRel);
            let left = end.saturating_duration_since(Instant::now());
            if is_woken || !events.is_empty() || left.is_zero() {
                taken.extend(events);
                return;
            }
            std::thread::park_timeout(left);
        }
    }

    /// Returns how many messages of subscriptions were dropped.
    pub fn dropped(&self) -> u64 {
        self.shared.queue.lock().dropped
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{Answer, Message};

    fn message(length: usize) -> Event {
        Event::Message(Message {
            subject: "a".to_owned(),
            reply: None,
            expected_last: None,
            payload: Bytes::from(vec![0; length]),
        })
    }

    #[test]
    fn messages_beyond_the_limit_are_dropped_and_answers_are_not() {
        let inbox = Inbox::new();
        (0..70).for_each(|_| inbox.put(message(1 << 20)));
        let answer = Answer::Refused;
        inbox.put(Event::Answer { tag: 7, answer });
        assert_eq!(inbox.dropped(), 6);
        let mut taken = Vec::new();
        inbox.take(Duration::ZERO, &mut taken);
        assert_eq!(taken.len(), 65);
        assert!(matches!(taken[64], Event::Answer { tag: 7, .. }));
        inbox.put(message(1 << 20));
        inbox.take(Duration::ZERO, &mut taken);
        assert_eq!((taken.len(), inbox.dropped()), (66, 6));
    }

    #[test]
    fn a_wait_ends_when_it_is_woken_before_or_meanwhile() {
        let inbox = Inbox::new();
        inbox.wake();
        let mut taken = Vec::new();
        inbox.take(Duration::from_secs(600), &mut taken);
        let other = inbox.clone();
        let thread = std::thread::spawn(move || other.wake());
        inbox.take(Duration::from_secs(600), &mut taken);
        thread.join().unwrap();
        assert!(taken.is_empty());
    }
}
