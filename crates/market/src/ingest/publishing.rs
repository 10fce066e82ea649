//! Publishes values to subscribers. What has not changed for them is not published again.

use std::collections::HashSet;
use std::sync::Arc;

use tidewire_fanout::{Origin, TopicId};
use tidewire_lastvalue::{FLAG_DOUBT, Quote, Status};

use super::apply::Work;
use crate::board::{staleness, staleness_of};
use crate::topic::Topic;

impl Work<'_> {
    /// Publishes a topic's current value under the names that a lane has subscribers to.
    #[inline]
    pub(super) fn publish(&mut self, topic: &Topic) {
        let is_heard = self.publish_first(topic);
        let is_second_heard = topic.has_second() && self.publish_second(topic);
        if !is_heard || !is_second_heard {
            self.unheard.push(Unheard {
                number: topic.number,
                is_first: !is_heard,
                is_second: !is_second_heard,
            });
        }
    }

    /// Publishes a topic's current value under its own name. Returns whether a lane has
    /// subscribers.
    #[inline]
    pub(super) fn publish_first(&mut self, topic: &Topic) -> bool {
        let interest = topic.interest();
        if interest != 0 {
            let id = TopicId::Market(topic.number);
            self.publish_as((&topic.channel, topic.symbol()), id, topic, interest);
        }
        interest != 0
    }

    /// Publishes it under the topic's second name. Returns whether a lane has subscribers.
    #[cold]
    pub(super) fn publish_second(&mut self, topic: &Topic) -> bool {
        let Some((second, interest)) = topic.heard_second(&self.market.board) else {
            return false;
        };
        let names = (second.name(), second.symbol());
        self.publish_as(names, second.topic_id(), topic, interest);
        true
    }

    #[inline]
    fn publish_as(
        &mut self,
        (channel, symbol): (&[u8], &[u8]),
        id: TopicId,
        topic: &Topic,
        interest: u64,
    ) {
        let (publication, lanes) = &mut self.dispatch;
        *lanes |= interest;
        let board = &self.market.board;
        if let Some(value) = board.value(topic.number) {
            publication.push_with(channel, Origin::Topic(id), value.updates, |out| {
                board.write_json(out, symbol, topic, &value, false);
            });
        }
    }

    /// Publishes a topic of which something beside its value has changed. Its version grows: a
    /// subscriber that has this value gets it again.
    #[cold]
    pub(super) fn publish_facts(&mut self, topic: &Topic) {
        if topic.is_consolidated() {
            let mut writer = self.market.consolidated.lock();
            if let Some(mut slot) = writer.slot(topic.number) {
                slot.update_flags(0, 0);
            }
        } else if let Some(mut slot) = self.writer.slot(topic.number) {
            slot.update_flags(0, 0);
        }
        self.publish(topic);
    }

    /// Sets and clears flags of a topic that this source owns. If they are `told`, the hub's own
    /// feed hears of each change, and subscribers of one that they see. Returns whether the source
    /// owns it. Consolidated topics follow with [`Work::follow_all`].
    pub(super) fn mark(&mut self, topic: &Arc<Topic>, set: u32, clear: u32, told: bool) -> bool {
        debug_assert_eq!(set & clear, 0, "a flag is set or cleared");
        let before = self.flags(topic.number);
        let Some(mut slot) = self.writer.slot(topic.number) else {
            return false;
        };
        let after = (before | set) & !clear;
        if before != after {
            slot.update_flags(set, clear);
        }
        drop(slot);
        if told && before != after {
            self.tell_certainty(topic);
        }
        if told && staleness_of(before) != staleness_of(after) {
            self.publish(topic);
        }
        true
    }

    /// Publishes topics that are in doubt since this batch, unless subscribers have heard that with
    /// a later change, or see the same as before.
    pub(super) fn publish_marked(&mut self) {
        let marked = std::mem::take(&mut self.marked);
        if marked.is_empty() {
            return;
        }
        let told = self.told_in_batch();
        for number in marked.iter() {
            let flags = self.flags(number);
            let Some(topic) = self.market.board.topic(number) else {
                continue;
            };
            if flags & FLAG_DOUBT == 0 {
                continue;
            }
            self.tell_certainty(&topic);
            let is_same = staleness_of(flags) == staleness_of(flags & !FLAG_DOUBT);
            let version = self
                .market
                .board
                .value(number)
                .map_or(0, |value| value.updates);
            if !is_same && !told.contains(&(TopicId::Market(number), version)) {
                self.publish(&topic);
            }
        }
    }

    /// Returns the topics that this batch has published so far, with the versions of their values.
    pub(super) fn told_in_batch(&self) -> HashSet<(TopicId, u64)> {
        let news = self.dispatch.0.news().filter_map(|news| match news.origin {
            Origin::Topic(id) => Some((id, news.version)),
            _ => None,
        });
        news.collect()
    }

    /// Returns what subscribers see of a topic that may change before its first value in a session.
    pub(super) fn seen(&self, number: u32) -> (Quote, Status, u64) {
        let value = self.market.board.value(number).unwrap_or_default();
        (value.quote(), value.status, staleness(&value))
    }

    pub(super) fn flags(&self, number: u32) -> u32 {
        let slot = self.market.board.slots().slot(number);
        slot.map_or(0, |slot| slot.flags())
    }
}

/// A topic updated in a batch of which a name seemed to have no subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unheard {
    pub(super) number: u32,
    /// The topic's own name.
    pub(super) is_first: bool,
    /// The name `SYMBOL@VENUE` of a symbol with one venue.
    pub(super) is_second: bool,
}
