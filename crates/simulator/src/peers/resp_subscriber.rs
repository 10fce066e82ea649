//! A Redis subscriber to live topics and channels.

use tidewire_resp::Value;

use super::heard::Heard;
use super::resp_link::RespLink;
use crate::peer::{Around, PeerOfHub, Verdict};
use crate::plan::{End, Plan};

/// See the [module](self).
pub(crate) struct RespSubscriber {
    number: usize,
    is_at_replica: bool,
    link: RespLink,
    /// Subscriptions that are confirmed.
    confirmed: usize,
    heard: Heard,
}

impl RespSubscriber {
    pub(crate) fn new(number: usize, is_at_replica: bool) -> Self {
        Self {
            number,
            is_at_replica,
            link: RespLink::default(),
            confirmed: 0,
            heard: Heard::default(),
        }
    }

    fn subscribe(&mut self, around: &mut Around<'_>) {
        self.link.connect(around);
        self.confirmed = 0;
        self.heard = match self.is_at_replica {
            true => Heard::at_replica(),
            false => Heard::default(),
        };
        match self.number.is_multiple_of(2) {
            true => self.link.send(&["PSUBSCRIBE", "live:*", "news:*"]),
            false => {
                self.link.send(&["PSUBSCRIBE", "news:*"]);
                let mut words = vec!["SUBSCRIBE".to_owned()];
                let writers = (0..around.plan.writers).map(|number| format!("live:w{number}"));
                let pushers = (0..around.plan.pushers).map(|number| format!("live:p{number}"));
                words.extend(writers.chain(pushers));
                self.link.send(&words);
            }
        }
    }

    fn expected(&self, plan: &Plan) -> usize {
        match self.number.is_multiple_of(2) {
            true => 2,
            false => 1 + plan.writers + plan.pushers,
        }
    }

    fn hear(&mut self, reply: &Value) -> Verdict {
        let Value::Array(parts) = reply else {
            return match reply {
                Value::Error(text) if text.starts_with(b"LOADING ") => {
                    self.link.close();
                    Ok(())
                }
                other => Err(format!("a subscriber is told {other:?}")),
            };
        };
        match parts.as_slice() {
            [Value::Bulk(kind), .., Value::Integer(_)] if kind.ends_with(b"subscribe") => {
                self.confirmed += 1;
                Ok(())
            }
            [.., Value::Bulk(topic), Value::Bulk(payload)] => self.heard.message(topic, payload),
            other => Err(format!("a subscriber is told {other:?}")),
        }
    }
}

impl PeerOfHub for RespSubscriber {
    fn name(&self) -> String {
        match self.is_at_replica {
            true => format!("Redis subscriber {} of the replica", self.number),
            false => format!("Redis subscriber {}", self.number),
        }
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        if !self.link.is_open() {
            self.subscribe(around);
        }
        self.link.step(around)?;
        self.heard.note_loss(around.ledger.has_lost);
        while let Some(reply) = self.link.reply() {
            self.hear(&reply)?;
        }
        if !around.is_quiet && around.random.chance(2) {
            self.link.close();
        }
        Ok(())
    }

    fn process_ended(&mut self, plan: &Plan, _end: End) {
        assert!(self.confirmed <= self.expected(plan), "confirmed twice");
        self.link.close();
    }

    fn is_settled(&self) -> bool {
        self.link.is_open() && self.confirmed > 0
    }

    fn check(&mut self, around: &mut Around<'_>) -> Verdict {
        let expected = self.expected(around.plan);
        if self.confirmed != expected {
            return Err(format!("{} of {expected} are confirmed", self.confirmed));
        }
        self.heard.check(around.ledger)
    }
}
