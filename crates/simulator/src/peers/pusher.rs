//! A ZeroMQ peer that pushes values of a live topic.

use tidewire_hub::port;
use tidewire_zmtp::SocketType;

use super::zmq_link::ZmqLink;
use crate::peer::{Around, PeerOfHub, Verdict};
use crate::plan::{End, Plan};

/// See the [module](self).
pub(crate) struct Pusher {
    number: usize,
    link: Option<ZmqLink>,
    /// The last value that was pushed.
    value: u64,
    pushed_ns: u64,
    /// A client has read the last value.
    is_last_read: bool,
}

impl Pusher {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            link: None,
            value: 0,
            pushed_ns: 0,
            is_last_read: false,
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
        let link = self.link.get_or_insert_with(|| {
            ZmqLink::open(around, port::ZMQ_PULL, SocketType::Push, self.number)
        });
        let wishes = link.is_ready()
            && match around.is_quiet {
                false => around.random.chance(150),
                true => {
                    // What the disk's failure kept out is not sent again: a new value is.
                    let is_read = around.ledger.read.get(&topic) == Some(&self.value);
                    self.is_last_read = is_read;
                    !is_read && around.now_ns > self.pushed_ns + PATIENCE_NS
                }
            };
        if wishes {
            self.value += 1;
            self.pushed_ns = around.now_ns;
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
        self.is_last_read
    }

    fn check(&mut self, _around: &mut Around<'_>) -> Verdict {
        Ok(())
    }
}

/// After so long what was pushed must have been stored, if it was not left out, ns.
const PATIENCE_NS: u64 = 5_000_000_000;
