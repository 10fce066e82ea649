//! Publishes current values: of topics that got a subscriber while their batch ran, and what the
//! topic of a symbol's first venue begins with. Its subscribers may have heard that under the
//! symbol's second name, so it is marked as a current value.

use tidewire_fanout::{Origin, TopicId};

use super::apply::Work;
use super::publishing::Unheard;
use crate::bars::BarTopic;
use crate::topic::Topic;

impl Work<'_> {
    /// Publishes the current values of topics under the names that seemed to have no subscriber
    /// when they were updated, unless the batch has published them since.
    pub(super) fn publish_unheard(&mut self, unheard: &[Unheard]) {
        let told = self.told_in_batch();
        for unheard in unheard {
            let board = &self.market.board;
            let (topic, value) = (board.topic(unheard.number), board.value(unheard.number));
            let (Some(topic), Some(value)) = (topic, value) else {
                continue;
            };
            let is_told = |id| told.contains(&(id, value.updates));
            if unheard.is_first && !is_told(TopicId::Market(topic.number)) {
                self.publish_first(&topic);
            }
            if unheard.is_second
                && topic.has_second()
                && let Some((second, _)) = topic.heard_second(board)
                && !is_told(second.topic_id())
            {
                self.publish_second(&topic);
            }
        }
    }

    /// Publishes the current value of a topic that begins with it.
    pub(super) fn publish_present(&mut self, topic: &Topic) {
        let (interest, board) = (topic.interest(), &self.market.board);
        if interest == 0 {
            return self.unheard.push(Unheard {
                number: topic.number,
                is_first: true,
                is_second: false,
            });
        }
        let Some(value) = board.value(topic.number) else {
            return;
        };
        let (publication, lanes) = &mut self.dispatch;
        *lanes |= interest;
        let origin = Origin::Topic(TopicId::Market(topic.number));
        publication.push_with(&topic.channel, origin, value.updates, |out| {
            board.write_json(out, topic.symbol(), topic, &value, true);
        });
    }

    /// Publishes the newest bar of bars that begin with it.
    pub(super) fn publish_present_bar(&mut self, bars: &BarTopic) {
        let state = bars.state.lock();
        let interest = bars.interest();
        if let Some(shown) = state.shown().filter(|_| interest != 0) {
            let (publication, lanes) = &mut self.dispatch;
            *lanes |= interest;
            let origin = Origin::Topic(bars.topic_id());
            publication.push_with(bars.name(), origin, state.version(), |out| {
                state.write_json(out, bars.symbol(), &shown, true);
            });
        }
    }
}
