//! The last message of each topic, for those who subscribe later.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::message::{Last, Message};

/// Last messages by topic, which is the first frame.
#[derive(Debug)]
pub(crate) struct LastValues {
    topics: BTreeMap<Vec<u8>, Vec<Message>>,
    topics_max: usize,
}

impl LastValues {
    pub(crate) fn new(topics_max: usize) -> Box<LastValues> {
        Box::new(LastValues {
            topics: BTreeMap::new(),
            topics_max,
        })
    }

    /// Keeps a message that is being published.
    pub(crate) fn remember(&mut self, head: &mut [Message], last: &mut Last<'_>) {
        let kept_last = match last {
            Last::Message(message) => message.share(),
            Last::Slice(bytes) => Message::from_slice(bytes).share(),
        };
        let topic = head.first().unwrap_or(&kept_last).to_vec();
        let is_full = self.topics.len() >= self.topics_max;
        if is_full && !self.topics.contains_key(&topic) {
            return;
        }
        let kept = self.topics.entry(topic).or_default();
        kept.clear();
        kept.extend(head.iter_mut().map(Message::share));
        kept.push(kept_last);
        debug_assert!(
            self.topics.len() <= self.topics_max,
            "topics are kept up to their limit"
        );
    }

    /// The messages of the topics that begin with `prefix`, by topic.
    pub(crate) fn matching<'v>(
        &'v self,
        prefix: &'v [u8],
    ) -> impl Iterator<Item = &'v [Message]> + 'v {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let topics = self.topics.range::<[u8], _>(from);
        let topics = topics.take_while(move |(topic, _)| topic.starts_with(prefix));
        topics.map(|(_, frames)| frames.as_slice())
    }
}
