//! A ZeroMQ peer that pushes values of a live topic.

use tidewire_hub::port;
use tidewire_zmtp::SocketType;

use super::zmq_link::ZmqLink;
use super::{Around, PeerOfHub, Verdict};
use crate::plan::{End, Plan};

/// See the [module](self).
pub(crate) struct Pusher {
    number: usize,
    link: Option<ZmqLink>,
    /// The last value that was pushed.
    value: u64,
    /// The one that was pushed last over this connection.
    pushed_here: Option<u64>,
}

impl Pusher {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            link: None,
            value: 0,
            pushed_here: None,
        }
    }

    fn topic(&self) -> Vec<u8> {
        format!("live:p{}", self.number).into_bytes()
    }
}

impl PeerOfHub for Pusher {
    fn name(&self) -> String {
        format!("pusher {}", self.number)
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        let topic = self.topic();
        let link = self
            .link
            .get_or_insert_with(|| ZmqLink::open(around, port::ZMQ_PULL, SocketType::Push));
        // Every connection pushes once at least: the last value is known then.
        let is_first = self.pushed_here.is_none();
        let wishes = is_first || !around.is_quiet && around.random.chance(150);
        if link.is_ready() && wishes {
            self.value += 1;
            self.pushed_here = Some(self.value);
            link.send(&topic, self.value.to_string().as_bytes());
            around.ledger.live.insert(topic, self.value);
        }
        if link.step(around)?.is_none() {
            return Err("the connection of a pusher was closed".to_owned());
        }
        Ok(())
    }

    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        (self.link, self.pushed_here) = (None, None);
    }

    fn is_settled(&self) -> bool {
        let is_sent = |link: &ZmqLink| link.unsent_bytes() == 0;
        self.pushed_here.is_some() && self.link.as_ref().is_some_and(is_sent)
    }

    fn check(&mut self, _around: &mut Around<'_>) -> Verdict {
        Ok(())
    }
}
