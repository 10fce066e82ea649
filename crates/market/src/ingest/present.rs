//! Publishes what the topic of a symbol's first venue begins with: the value that the symbol's
//! topic had. Subscribers to the venue may have heard it under its second name, so it is marked as
//! a current value.

use tidewire_fanout::{Origin, TopicId};

use super::apply::{Unheard, Work};
use crate::bars::BarTopic;
use crate::topic::Topic;

impl Work<'_> {
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
