//! What was handed over for a peer while its connection could not take it.

use std::collections::VecDeque;

use crate::message::{Last, Message};
use crate::topic_queue::{Kept, Limits, TopicQueue};

/// Whole messages for one peer, in order; or of each topic the newest.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Frame by frame.
    frames: VecDeque<Message>,
    /// The first message has begun to leave: frames of it are with the connection.
    has_begun: bool,
    messages: usize,
    bytes: usize,
    /// Where topics are conflated: what waits instead of `frames`.
    topics: Option<Box<TopicQueue>>,
}

impl Backlog {
    /// One that keeps the newest message of each topic.
    pub(crate) fn of_topics(limits: Limits) -> Backlog {
        Backlog {
            topics: Some(TopicQueue::new(limits)),
            ..Backlog::default()
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        debug_assert!(
            self.messages > 0 || self.frames.is_empty(),
            "a backlog ends with a whole message"
        );
        self.messages == 0
    }

    #[inline]
    pub(crate) fn messages(&self) -> usize {
        self.messages
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.topics {
            None => self.bytes,
            Some(topics) => topics.bytes(),
        }
    }

    /// What waits of each topic, where they are conflated.
    #[inline]
    pub(crate) fn topics(&self) -> Option<&TopicQueue> {
        self.topics.as_deref()
    }

    /// The first two frames that wait, for a link that takes whole messages of two.
    pub(crate) fn first_two_frames(&self) -> Option<(&Message, &Message)> {
        Some((self.frames.front()?, self.frames.get(1)?))
    }

    /// Adds a message: `head`, each with more to follow, then `last`.
    pub(crate) fn push(&mut self, head: impl Iterator<Item = Message>, last: Last<'_>) -> Kept {
        if let Some(topics) = &mut self.topics {
            let kept = topics.push_parts(head, last);
            self.messages = topics.len();
            return kept;
        }
        let bytes = &mut self.bytes;
        self.frames
            .extend(head.inspect(|frame| *bytes += frame.len()));
        let last = last.into_message();
        self.bytes += last.len();
        self.frames.push_back(last);
        self.messages += 1;
        debug_assert!(self.messages <= self.frames.len(), "whole messages");
        Kept::New
    }

    /// Hands on what is next: a frame, or a message where topics are conflated, since a newer one
    /// must not replace the rest of one that has begun to leave. `false`: nothing waits.
    pub(crate) fn pass(&mut self, mut take: impl FnMut(Message)) -> bool {
        if let Some(topics) = &mut self.topics {
            let Some(frames) = topics.pop() else {
                return false;
            };
            self.messages = topics.len();
            frames.into_each(take);
            return true;
        }
        let Some(frame) = self.frames.pop_front() else {
            return false;
        };
        debug_assert!(self.bytes >= frame.len(), "what waited was counted");
        self.messages -= usize::from(!frame.more());
        self.bytes -= frame.len();
        self.has_begun = frame.more();
        take(frame);
        true
    }

    /// The connection is lost: drops the rest of a message that has begun to leave by it. Another
    /// connection would take that for a message of its own.
    pub(crate) fn drop_begun(&mut self) {
        while self.has_begun && self.pass(drop) {}
        debug_assert!(!self.has_begun, "a backlog ends with a whole message");
    }

    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.has_begun = false;
        self.messages = 0;
        self.bytes = 0;
        if let Some(topics) = &mut self.topics {
            topics.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(parts: u8) -> (Vec<Message>, Message) {
        let part = |number: u8| {
            let mut frame = Message::from_slice(&[number]);
            frame.set_more(number + 1 < parts);
            frame
        };
        ((0..parts - 1).map(part).collect(), part(parts - 1))
    }

    #[test]
    fn of_a_message_that_has_begun_to_leave_the_rest_is_dropped_and_no_more() {
        for passed in 0..=4 {
            let mut backlog = Backlog::default();
            for _ in 0..2 {
                let (head, mut last) = message(3);
                backlog.push(head.into_iter(), Last::Message(&mut last));
            }
            (0..passed).for_each(|_| assert!(backlog.pass(drop)));
            backlog.drop_begun();
            let messages = 2 - usize::div_ceil(passed, 3);
            assert_eq!(
                (backlog.messages(), backlog.bytes()),
                (messages, 3 * messages)
            );
            backlog.drop_begun();
            assert_eq!(backlog.messages(), messages);
        }
    }
}
