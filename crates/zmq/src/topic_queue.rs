//! Whole messages that wait, of each topic the newest alone (`CONFLATE_TOPICS`).

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use foldhash::{HashMap, HashMapExt};

use crate::link::Frames;
use crate::message::{Last, Message};

/// A queue with one place for each topic, which is the first frame.
///
/// A topic keeps its place when a newer message replaces the one that waits: topics leave in the
/// order of their oldest change that nobody has taken. So a topic that changes all the time delays
/// no other, and is not delayed itself.
#[derive(Debug)]
pub(crate) struct TopicQueue {
    waiting: VecDeque<Frames>,
    /// The number of the first of `waiting`; each topic that comes in has the next one.
    first: u64,
    /// The number of each topic that waits.
    numbers: HashMap<Topic, u64>,
    /// Bytes of what waits, of all frames.
    bytes: usize,
    limits: Limits,
}

/// How much may wait. A topic that waits is replaced at any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) topics_max: usize,
    /// A new topic is taken while fewer bytes wait.
    pub(crate) bytes_max: usize,
}

/// What has become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It waits in a place of its own.
    New,
    /// It has replaced the one before.
    Replaced,
    /// It is dropped: its topic has no place, and there is no room for another one.
    Refused,
}

impl TopicQueue {
    pub(crate) fn new(limits: Limits) -> Box<TopicQueue> {
        Box::new(TopicQueue {
            waiting: VecDeque::new(),
            first: 0,
            numbers: HashMap::new(),
            bytes: 0,
            limits,
        })
    }

    /// Topics that wait, each with one message.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Another limit; what waits above it stays.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Whether there is room for topics that do not wait yet.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < self.limits.topics_max && self.bytes < self.limits.bytes_max
    }

    /// Whether a message of this topic would be kept.
    pub(crate) fn takes(&self, topic: &[u8]) -> bool {
        self.has_room() || self.numbers.contains_key(topic)
    }

    /// Adds a message that is going out: `head`, each frame with more to follow, then `last`.
    pub(crate) fn push_parts(
        &mut self,
        mut head: impl Iterator<Item = Message>,
        last: Last<'_>,
    ) -> Kept {
        let Some(first) = head.next() else {
            return self.push(Frames::One(last.into_message()));
        };
        match self.place(first.as_slice()) {
            Place::At(at) => {
                let kept = &mut self.waiting[at];
                let bytes_before = kept.bytes();
                // The allocation of the one before serves again.
                let mut frames = match std::mem::take(kept) {
                    Frames::Many(frames) => frames,
                    Frames::One(_) => Vec::new(),
                };
                frames.clear();
                frames.push(first);
                frames.extend(head);
                frames.push(last.into_message());
                *kept = Frames::Many(frames);
                self.bytes = self.bytes - bytes_before + kept.bytes();
                Kept::Replaced
            }
            Place::Refused => Kept::Refused,
            Place::New => {
                let mut frames = vec![first];
                frames.extend(head);
                frames.push(last.into_message());
                self.add(Frames::Many(frames))
            }
        }
    }

    /// Adds a whole message.
    pub(crate) fn push(&mut self, frames: Frames) -> Kept {
        match self.place(frames.first().as_slice()) {
            Place::At(at) => {
                let kept = &mut self.waiting[at];
                self.bytes = self.bytes - kept.bytes() + frames.bytes();
                *kept = frames;
                Kept::Replaced
            }
            Place::Refused => Kept::Refused,
            Place::New => self.add(frames),
        }
    }

    /// The topic that is next.
    pub(crate) fn front_topic(&self) -> Option<&[u8]> {
        Some(self.waiting.front()?.first().as_slice())
    }

    /// Takes the message of the topic that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Frames> {
        let frames = self.waiting.pop_front()?;
        let number = self.numbers.remove(frames.first().as_slice());
        debug_assert_eq!(number, Some(self.first), "topics leave in their order");
        self.first += 1;
        debug_assert!(self.bytes >= frames.bytes(), "what waited was counted");
        self.bytes -= frames.bytes();
        debug_assert_eq!(
            self.waiting.len(),
            self.numbers.len(),
            "each topic has a place"
        );
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT_TOPICS {
            // The memory of a time when much waited.
            self.clear();
        }
        Some(frames)
    }

    pub(crate) fn clear(&mut self) {
        *self = *TopicQueue::new(self.limits);
    }

    fn place(&self, topic: &[u8]) -> Place {
        match self.numbers.get(topic) {
            Some(&number) => {
                debug_assert!(number >= self.first, "who waits has not left");
                Place::At((number - self.first) as usize)
            }
            None if self.has_room() => Place::New,
            None => Place::Refused,
        }
    }

    fn add(&mut self, frames: Frames) -> Kept {
        let number = self.first + self.waiting.len() as u64;
        let before = self.numbers.insert(Topic::of(&frames), number);
        debug_assert!(before.is_none(), "a topic has one place");
        self.bytes += frames.bytes();
        self.waiting.push_back(frames);
        Kept::New
    }
}

enum Place {
    At(usize),
    New,
    Refused,
}

/// The bytes of a topic: short ones, as most are, take no allocation of their own.
#[derive(Debug)]
struct Topic(Message);

impl Topic {
    fn of(frames: &Frames) -> Topic {
        Topic(Message::from_slice(frames.first().as_slice()))
    }
}

impl Borrow<[u8]> for Topic {
    fn borrow(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl Hash for Topic {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_slice().hash(state);
    }
}

impl PartialEq for Topic {
    fn eq(&self, other: &Topic) -> bool {
        self.0.as_slice() == other.0.as_slice()
    }
}

impl Eq for Topic {}

/// Places whose memory an empty queue keeps.
const KEPT_TOPICS: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMITS: Limits = Limits {
        topics_max: usize::MAX,
        bytes_max: usize::MAX,
    };

    fn frames(parts: &[&[u8]]) -> Frames {
        let last = parts.len() - 1;
        let frame = |(at, bytes): (usize, &&[u8])| {
            let mut message = Message::from_slice(bytes);
            message.set_more(at < last);
            message
        };
        match parts {
            [one] => Frames::One(Message::from_slice(one)),
            _ => Frames::Many(parts.iter().enumerate().map(frame).collect()),
        }
    }

    fn push(queue: &mut TopicQueue, parts: &[&[u8]]) -> Kept {
        let mut parts = frames(parts).into_vec();
        let mut last = parts.pop().unwrap();
        queue.push_parts(parts.into_iter(), Last::Message(&mut last))
    }

    fn pop(queue: &mut TopicQueue) -> Option<Vec<Vec<u8>>> {
        let frames = queue.pop()?.into_vec();
        let last = frames.len() - 1;
        let is_whole = |(at, frame): (usize, &Message)| frame.more() == (at < last);
        assert!(frames.iter().enumerate().all(is_whole), "{frames:?}");
        Some(frames.iter().map(|frame| frame.to_vec()).collect())
    }

    #[test]
    fn the_newest_of_each_topic_leaves_in_the_order_of_the_oldest_change() {
        let mut queue = TopicQueue::new(NO_LIMITS);
        assert_eq!(push(&mut queue, &[b"a", b"1"]), Kept::New);
        assert_eq!(push(&mut queue, &[b"b", b"1", b"x"]), Kept::New);
        assert_eq!(push(&mut queue, &[b"c"]), Kept::New);
        // With more frames, with fewer, and as one that was received.
        assert_eq!(push(&mut queue, &[b"a", b"2", b"y", b"z"]), Kept::Replaced);
        assert_eq!(queue.push(frames(&[b"b"])), Kept::Replaced);
        assert_eq!(push(&mut queue, &[b"c", b"", b""]), Kept::Replaced);
        assert_eq!((queue.len(), queue.bytes()), (3, 4 + 1 + 1));
        assert_eq!(queue.front_topic(), Some(&b"a"[..]));
        let a = pop(&mut queue).unwrap();
        assert_eq!(a, [&b"a"[..], b"2", b"y", b"z"]);
        // It changes again, and is now the last in turn.
        assert_eq!(push(&mut queue, &[b"a", b"3"]), Kept::New);
        assert_eq!(pop(&mut queue).unwrap(), [b"b"]);
        assert_eq!(pop(&mut queue).unwrap(), [&b"c"[..], b"", b""]);
        assert_eq!(pop(&mut queue).unwrap(), [b"a", b"3"]);
        assert_eq!(pop(&mut queue), None);
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
    }

    #[test]
    fn what_waits_is_replaced_at_the_limit_and_nothing_else_comes_in() {
        let mut queue = TopicQueue::new(Limits {
            topics_max: 2,
            bytes_max: 100,
        });
        push(&mut queue, &[b"a", b"1"]);
        assert_eq!(push(&mut queue, &[b"b", &[1; 200]]), Kept::New);
        assert_eq!(push(&mut queue, &[b"c", b"1"]), Kept::Refused);
        assert!(queue.takes(b"a") && !queue.takes(b"c"));
        assert_eq!(push(&mut queue, &[b"a", b"2"]), Kept::Replaced);
        assert_eq!(pop(&mut queue).unwrap(), [b"a", b"2"]);
        assert_eq!(push(&mut queue, &[b"c"]), Kept::Refused, "bytes");
        assert_eq!(queue.push(frames(&[b"c"])), Kept::Refused);
        push(&mut queue, &[b"b", b"2"]);
        assert_eq!(push(&mut queue, &[b"c"]), Kept::New);
    }

    #[test]
    fn long_topics_and_empty_ones_are_told_apart() {
        let mut queue = TopicQueue::new(NO_LIMITS);
        let long = [7; 1_000];
        for topic in [&b""[..], &long, &long[..999], b"\0"] {
            assert_eq!(push(&mut queue, &[topic, b"1"]), Kept::New);
            assert_eq!(push(&mut queue, &[topic, b"2"]), Kept::Replaced);
        }
        assert_eq!(pop(&mut queue).unwrap(), [&b""[..], b"2"]);
        assert_eq!(pop(&mut queue).unwrap(), [&long[..], b"2"]);
    }

    #[test]
    fn an_empty_queue_gives_its_memory_back() {
        let mut queue = TopicQueue::new(NO_LIMITS);
        for number in 0..10_000_u32 {
            queue.push(frames(&[&number.to_ne_bytes()]));
        }
        while queue.pop().is_some() {}
        assert!(queue.waiting.capacity() <= KEPT_TOPICS && queue.numbers.capacity() == 0);
        assert_eq!(queue.push(frames(&[b"again"])), Kept::New);
        assert_eq!(pop(&mut queue).unwrap(), [b"again"]);
    }

    /// Against a plain list, with a seeded order of operations.
    #[test]
    fn it_is_as_a_list_that_is_searched() {
        let mut queue = TopicQueue::new(NO_LIMITS);
        let mut list: Vec<(u8, u32)> = Vec::new();
        let mut random = 1_u32;
        for step in 0..20_000_u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let topic = (random >> 24) as u8 % 50;
            if random >> 16 & 3 == 0 {
                let expected = (!list.is_empty()).then(|| list.remove(0));
                let expected =
                    expected.map(|(topic, value)| vec![vec![topic], value.to_ne_bytes().to_vec()]);
                assert_eq!(pop(&mut queue), expected);
                continue;
            }
            match list.iter_mut().find(|(known, _)| *known == topic) {
                Some((_, value)) => *value = step,
                None => list.push((topic, step)),
            }
            push(&mut queue, &[&[topic], &step.to_ne_bytes()]);
            assert_eq!((queue.len(), queue.bytes()), (list.len(), 5 * list.len()));
        }
    }
}
