//! The interface through which the Redis server calls the hub.

use tidewire_lane::{ConnectionId, Context, Peer};
use tidewire_redis::House;
use tidewire_redis::registry::Shown;
use tidewire_resp::Writer;

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

    fn write_book(
        &self,
        symbol: &[u8],
        levels: usize,
        unix_ns: u64,
        reply: &mut Writer<'_>,
    ) -> bool {
        let Some(book) = self.market.books.read(symbol, levels, unix_ns) else {
            return false;
        };
        let unsigned = |reply: &mut Writer<'_>, name: &str, value: u64| {
            reply.bulk(name.as_bytes());
            reply.integer(value as i64);
        };
        reply.map(7);
        reply.bulk(b"symbol");
        reply.bulk(symbol);
        unsigned(reply, "seq", book.sequence);
        unsigned(reply, "ts", book.source_time_ns);
        unsigned(reply, "stale", book.stale);
        unsigned(reply, "depth", book.depth.into());
        let mut price = Vec::with_capacity(24);
        for (name, levels) in [("bids", &book.bids), ("asks", &book.asks)] {
            reply.bulk(name.as_bytes());
            reply.array(levels.len());
            for level in levels {
                reply.array(3);
                price.clear();
                level.write_price(&mut price);
                reply.bulk(&price);
                reply.integer(level.size.into());
                reply.integer(level.orders.into());
            }
        }
        true
    }

    fn reset_statistics(&self) {
        self.market.latency.reset();
    }
}
