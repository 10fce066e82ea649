//! Fuzz entry for the feeds of a channel: a function that must never panic.

use tidewire_feed::client::{NullSink, Side};

use crate::orders::OrderLimits;
use crate::packet::decode_packet;
use crate::{ArbiterConfig, ChannelConfig, Receiver};

/// Receives datagrams, each behind its length (two bytes, little-endian) and a byte that says which
/// feed it is of: line A, line B, recovery, definitions.
pub fn fuzz_mdp(data: &[u8]) {
    let arbiter = ArbiterConfig {
        early_bytes_max: 4_096,
        ..ArbiterConfig::default()
    };
    let channel = ChannelConfig {
        instruments_max: 64,
        order_books: true,
        order_limits: OrderLimits {
            orders_max: 64,
            levels_max: 16,
        },
        ..ChannelConfig::default()
    };
    let mut receiver = Receiver::new(arbiter, channel);
    let (mut now_ns, mut rest) = (0, data);
    while let Some((&[low, high, feed], body)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(body.len());
        let (datagram, behind) = body.split_at(length);
        rest = behind;
        now_ns += 8_000_000;
        let (next, restarts) = (receiver.next_sequence(), receiver.counters().restarts);
        let _ = match feed % 4 {
            0 => receiver.receive(Side::A, datagram, now_ns, &mut NullSink),
            1 => receiver.receive(Side::B, datagram, now_ns, &mut NullSink),
            2 => receiver.receive_snapshot(datagram, &mut NullSink),
            _ => receiver.receive_definition(datagram, &mut NullSink),
        };
        receiver.handle_timeout(now_ns, &mut NullSink);
        let is_restarted = receiver.counters().restarts > restarts;
        assert!(receiver.next_sequence() >= next || is_restarted);
        let channel = receiver.channel();
        assert!(channel.doubtful_count() <= channel.len() && channel.len() <= 64);
        if let Ok(packet) = decode_packet(datagram) {
            let count = packet.messages().count();
            assert!(count <= datagram.len() / 10 + 1, "each message has a size");
        }
    }
    receiver.handle_timeout(u64::MAX - 1, &mut NullSink);
}

#[cfg(test)]
mod tests;
