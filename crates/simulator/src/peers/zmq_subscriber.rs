//! A ZeroMQ subscriber to live topics and channels.

use tidewire_hub::port;
use tidewire_zmtp::SocketType;

use super::heard::Heard;
use super::zmq_link::ZmqLink;
use crate::peer::{Around, PeerOfHub, Verdict};
use crate::plan::{End, Plan};

/// See the [module](self).
pub(crate) struct ZmqSubscriber {
    number: usize,
    link: Option<ZmqLink>,
    has_subscribed: bool,
    heard: Heard,
}

impl ZmqSubscriber {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            link: None,
            has_subscribed: false,
            heard: Heard::default(),
        }
    }
}

impl PeerOfHub for ZmqSubscriber {
    fn name(&self) -> String {
        format!("ZeroMQ subscriber {}", self.number)
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        let link = self.link.get_or_insert_with(|| {
            (self.has_subscribed, self.heard) = (false, Heard::default());
            ZmqLink::open(around, port::ZMQ_PUBLISH, SocketType::Sub, self.number)
        });
        if link.is_ready() && !self.has_subscribed {
            self.has_subscribed = true;
            link.subscribe(b"live:");
            link.subscribe(b"news:");
        }
        let Some(messages) = link.step(around)? else {
            self.link = None;
            return Ok(());
        };
        for message in messages {
            match message.as_slice() {
                [topic, payload] => self.heard.message(topic, payload)?,
                other => return Err(format!("a message of {} frames", other.len())),
            }
        }
        if !around.is_quiet && around.random.chance(2) {
            self.link = None;
        }
        Ok(())
    }

    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        self.link = None;
    }

    fn is_settled(&self) -> bool {
        self.has_subscribed && self.link.is_some()
    }

    fn check(&mut self, around: &mut Around<'_>) -> Verdict {
        self.heard.check(around.ledger)
    }
}
