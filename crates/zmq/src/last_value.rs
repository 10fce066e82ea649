//! The last message of each topic, for those who subscribe later.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::message::Message;
use crate::slab::Key;
use crate::state::{Last, State};

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
    }
}

impl State {
    /// Sends a peer the last message of every topic that begins so.
    #[inline]
    pub(crate) fn send_last_values(&mut self, key: Key, prefix: &[u8]) {
        if self.last_values.is_some() {
            self.send_matching(key, prefix);
        }
    }

    #[cold]
    fn send_matching(&mut self, key: Key, prefix: &[u8]) {
        let Some(values) = self.last_values.take() else {
            return;
        };
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let topics = values.topics.range::<[u8], _>(from);
        for (_, frames) in topics.take_while(|(topic, _)| topic.starts_with(prefix)) {
            let Some((last, head)) = frames.split_last() else {
                continue;
            };
            if self.can_write(key) {
                let mut last = last.clone();
                self.transmit(key, head.iter().cloned(), Last::Message(&mut last));
            } else {
                self.count_drop(key);
            }
        }
        self.last_values = Some(values);
    }
}
