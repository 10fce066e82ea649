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
    /// When nobody began anything any more, and whether it has pushed once more since: what the
    /// disk's failure kept out is not sent again.
    quiet_ns: Option<u64>,
    has_pushed_last: bool,
}

impl Pusher {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            link: None,
            value: 0,
            quiet_ns: None,
            has_pushed_last: false,
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
        let wishes = link.is_ready()
            && match around.is_quiet {
                false => around.random.chance(150),
                true => {
                    let quiet_ns = *self.quiet_ns.get_or_insert(around.now_ns);
                    let is_last = around.now_ns > quiet_ns + DISK_PATIENCE_NS;
                    is_last && !std::mem::replace(&mut self.has_pushed_last, is_last)
                }
            };
        if wishes {
            self.value += 1;
            link.send(&topic, self.value.to_string().as_bytes());
            around.ledger.live.insert(topic, self.value);
        }
        if link.step(around)?.is_none() {
            return Err("the connection of a pusher was closed".to_owned());
        }
        Ok(())
    }

    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        self.link = None;
    }

    fn is_settled(&self) -> bool {
        let is_sent = |link: &ZmqLink| link.unsent_bytes() == 0;
        self.has_pushed_last && self.link.as_ref().is_some_and(is_sent)
    }

    fn check(&mut self, _around: &mut Around<'_>) -> Verdict {
        Ok(())
    }
}

/// After so long a disk that works again is written to, ns.
const DISK_PATIENCE_NS: u64 = 5_000_000_000;
