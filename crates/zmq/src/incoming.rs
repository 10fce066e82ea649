//! What was received of one peer before the program has asked for it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::link::Frames;
use crate::message::Message;
use crate::properties::Properties;
use crate::topic_queue::{Kept, Limits, TopicQueue};

/// Messages in the order in which they came.
///
/// Short ones lie one behind another in runs of bytes: the background thread, which receives them,
/// then allocates nothing that the program's thread would free.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    entries: VecDeque<Entry>,
    messages: usize,
    /// Bytes of what has come in since it was last empty.
    bytes: usize,
    /// The room of a run that was used up.
    spare: Vec<u8>,
    /// Where topics are conflated: what waits instead of `entries`.
    topics: Option<Box<TopicQueue>>,
}

#[derive(Debug)]
enum Entry {
    Frames(Frames),
    Run(Run),
}

/// Messages of one short frame each, which carry the same properties.
#[derive(Debug)]
struct Run {
    /// Each body behind its length.
    bytes: Vec<u8>,
    /// Taken out up to here.
    at: usize,
    properties: Option<Arc<Properties>>,
}

impl Incoming {
    /// One that keeps the newest message of each topic.
    pub(crate) fn of_topics(limits: Limits) -> Incoming {
        Incoming {
            topics: Some(TopicQueue::new(limits)),
            ..Incoming::default()
        }
    }

    /// What waits of each topic, where they are conflated.
    #[inline]
    pub(crate) fn topics(&self) -> Option<&TopicQueue> {
        self.topics.as_deref()
    }

    /// Drops the messages that are next and whose topic is not wanted. Returns whether there is
    /// another one, which stays: until it is taken a newer one may replace it. `None`: topics are
    /// not conflated here.
    pub(crate) fn has_topic(&mut self, is_wanted: impl Fn(&[u8]) -> bool) -> Option<bool> {
        let topics = self.topics.as_mut()?;
        while topics.front_topic().is_some_and(|topic| !is_wanted(topic)) {
            topics.pop();
        }
        self.messages = topics.len();
        Some(!topics.is_empty())
    }

    pub(crate) fn len(&self) -> usize {
        self.messages
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Bytes of what has come in since it was last empty; of topics, bytes of what waits.
    pub(crate) fn bytes(&self) -> usize {
        match &self.topics {
            None => self.bytes,
            Some(topics) => topics.bytes(),
        }
    }

    pub(crate) fn clear(&mut self) {
        let limits = self.topics.as_ref().map(|topics| topics.limits());
        *self = limits.map_or_else(Incoming::default, Incoming::of_topics);
    }

    pub(crate) fn push(&mut self, frames: Frames) -> Kept {
        if let Some(topics) = &mut self.topics {
            let kept = topics.push(frames);
            self.messages = topics.len();
            return kept;
        }
        self.messages += 1;
        self.bytes += frames.bytes();
        self.entries.push_back(Entry::Frames(frames));
        debug_assert!(
            self.entries.len() <= self.messages,
            "an entry has a message at least"
        );
        Kept::New
    }

    /// A message of one frame of at most 255 bytes.
    #[inline]
    pub(crate) fn push_short(&mut self, body: &[u8], properties: Option<&Arc<Properties>>) {
        let Ok(length) = u8::try_from(body.len()) else {
            let mut message = Message::from_slice(body);
            message.set_properties(properties);
            self.push(Frames::One(message));
            return;
        };
        debug_assert!(self.topics.is_none(), "a topic is not put into a run");
        self.messages += 1;
        self.bytes += body.len();
        let run = self.run(1 + body.len(), properties);
        run.push(length);
        run.extend_from_slice(body);
        debug_assert!(run.len() <= RUN_BYTES_MAX, "a run has its bound");
    }

    /// Returns the run that has `room` more bytes.
    #[inline]
    fn run(&mut self, room: usize, properties: Option<&Arc<Properties>>) -> &mut Vec<u8> {
        let fits = match self.entries.back() {
            Some(Entry::Run(run)) => {
                let known = run.properties.as_ref().map(Arc::as_ptr);
                known == properties.map(Arc::as_ptr) && run.bytes.len() + room <= RUN_BYTES_MAX
            }
            _ => false,
        };
        if !fits {
            self.entries.push_back(Entry::Run(Run {
                bytes: std::mem::take(&mut self.spare),
                at: 0,
                properties: properties.cloned(),
            }));
        }
        match self.entries.back_mut() {
            Some(Entry::Run(run)) => &mut run.bytes,
            _ => &mut self.spare,
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Frames> {
        debug_assert!(self.topics.is_none(), "topics are taken by themselves");
        if let Entry::Run(run) = self.entries.front()? {
            let mut message = Message::from_slice(run.next());
            message.set_properties(run.properties.as_ref());
            self.pass();
            return Some(Frames::One(message));
        }
        match self.entries.pop_front()? {
            Entry::Frames(frames) => {
                self.count_out();
                Some(frames)
            }
            Entry::Run(_) => None,
        }
    }

    /// The message of the topic that has waited longest.
    pub(crate) fn pop_topic(&mut self) -> Option<Frames> {
        let topics = self.topics.as_mut()?;
        let frames = topics.pop();
        self.messages = topics.len();
        frames
    }

    /// The next message where it lies in a run.
    #[inline]
    pub(crate) fn take_short<T>(
        &mut self,
        take: impl FnOnce(&[u8], Option<&Arc<Properties>>) -> T,
    ) -> Option<T> {
        let Entry::Run(run) = self.entries.front()? else {
            return None;
        };
        let taken = take(run.next(), run.properties.as_ref());
        self.pass();
        Some(taken)
    }

    /// The first message, which is in a run, is taken.
    #[inline]
    fn pass(&mut self) {
        if let Some(Entry::Run(run)) = self.entries.front_mut() {
            run.at += 1 + run.next().len();
            debug_assert!(run.at <= run.bytes.len(), "a run is of whole messages");
            if run.at == run.bytes.len() {
                self.spare = std::mem::take(&mut run.bytes);
                self.spare.clear();
                self.entries.pop_front();
            }
        }
        self.count_out();
    }

    #[inline]
    fn count_out(&mut self) {
        debug_assert!(self.messages > 0, "what is taken out was counted");
        self.messages -= 1;
        debug_assert_eq!(
            self.messages == 0,
            self.entries.is_empty(),
            "no entry is empty"
        );
        if self.messages == 0 {
            self.bytes = 0;
        }
    }
}

impl Run {
    /// The body that is next; a run that is used up is not kept.
    #[inline]
    fn next(&self) -> &[u8] {
        debug_assert!(self.at < self.bytes.len(), "a run that is read out is gone");
        let begin = self.at + 1;
        &self.bytes[begin..begin + usize::from(self.bytes[self.at])]
    }
}

/// Bytes of a run, that what is read does not keep much of what is not.
const RUN_BYTES_MAX: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(frames: Option<Frames>) -> Option<Vec<u8>> {
        frames.map(|frames| frames.first().to_vec())
    }

    #[test]
    fn short_and_other_messages_keep_their_order_and_their_properties() {
        let mut incoming = Incoming::default();
        let (one, other) = (Arc::default(), Arc::default());
        let long = vec![1; 300];
        let mut expected = Vec::new();
        for round in 0..500_usize {
            let short = round.to_ne_bytes();
            incoming.push_short(&short, Some(&one));
            incoming.push_short(b"", Some(&other));
            incoming.push_short(&long, Some(&one));
            incoming.push(Frames::One(Message::from_slice(&short)));
            expected.push((short.to_vec(), Some(Arc::clone(&one))));
            expected.push((Vec::new(), Some(Arc::clone(&other))));
            expected.push((long.clone(), Some(Arc::clone(&one))));
            expected.push((short.to_vec(), None));
        }
        assert_eq!(incoming.len(), 2_000);
        assert_eq!(incoming.bytes(), 500 * (8 + 300 + 8));
        for (bytes, properties) in expected {
            let frames = incoming.pop().unwrap();
            let message = frames.first();
            assert_eq!(message.as_slice(), bytes);
            let carried = message.properties.as_ref().map(Arc::as_ptr);
            assert_eq!(carried, properties.as_ref().map(Arc::as_ptr));
        }
        assert!(incoming.pop().is_none());
        assert!(incoming.is_empty());
        assert_eq!(incoming.bytes(), 0);
    }

    #[test]
    fn only_what_lies_in_a_run_is_taken_by_its_bytes() {
        let mut incoming = Incoming::default();
        incoming.push_short(b"one", None);
        incoming.push(Frames::One(Message::from_slice(b"two")));
        incoming.push_short(b"three", None);
        assert_eq!(
            incoming.take_short(|body, _| body.to_vec()).unwrap(),
            b"one"
        );
        assert_eq!(incoming.take_short(|body, _| body.to_vec()), None);
        assert_eq!(bytes(incoming.pop()).unwrap(), b"two");
        assert_eq!(bytes(incoming.pop()).unwrap(), b"three");
        assert_eq!(incoming.take_short(|body, _| body.to_vec()), None);
    }

    #[test]
    fn a_run_takes_no_more_room_the_longer_it_is_filled_and_emptied_in_turn() {
        let mut incoming = Incoming::default();
        incoming.push_short(&[1; 200], None);
        for _ in 0..10_000 {
            incoming.push_short(&[1; 200], None);
            incoming.take_short(|_, _| ()).unwrap();
            let room: usize = (incoming.entries.iter())
                .map(|entry| match entry {
                    Entry::Run(run) => run.bytes.capacity(),
                    Entry::Frames(_) => 0,
                })
                .sum();
            assert!(room <= 4 * RUN_BYTES_MAX);
        }
        assert_eq!(incoming.len(), 1);
    }
}
