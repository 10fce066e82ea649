//! The interface through which the Redis server calls the hub.

use tidewire_lane::{ConnectionId, Context, Peer};
use tidewire_redis::House;
use tidewire_redis::registry::Shown;

use crate::hub::Hub;
use crate::{counters, refusals};

impl House for Hub {
    fn turn_away(&self, context: &mut Context, id: ConnectionId, port: u16, peer: &Peer) -> bool {
        Hub::turn_away(self, context, id, port, peer)
    }

    fn refuse(&self, port: u16) -> Vec<u8> {
        refusals::refuse(self, port)
    }

    fn write_info(&self, is_shown: &dyn Fn(&str, Shown) -> bool, out: &mut String) {
        counters::write_info(self, is_shown, out);
    }

    fn reset_statistics(&self) {
        self.market.latency.reset();
    }
}
