//! Nothing allocates per message in steady state.

use tidewire_feed::client::{NullSink, Side};
use tidewire_mdp::{ArbiterConfig, ChannelConfig, Exchange, ExchangeConfig, Receiver};
use tidewire_memory::counting::{CountingAllocator, allocations_of};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn packets_of_a_channel_with_books_by_order() {
    count_allocations(false);
}

#[test]
fn packets_of_a_channel_whose_levels_are_followed() {
    count_allocations(true);
}

fn count_allocations(follows: bool) {
    let mut exchange = Exchange::new(ExchangeConfig::default());
    let channel = ChannelConfig {
        order_books: true,
        ..ChannelConfig::default()
    };
    let mut receiver = Receiver::new(ArbiterConfig::default(), channel);
    exchange.definitions(|packet| receiver.receive_definition(packet, &mut NullSink).unwrap());
    for symbol in (0..).take(if follows { receiver.channel().len() } else { 0 }) {
        receiver.follow(symbol, true, &mut NullSink);
    }
    let mut packet = Vec::new();
    let mut packets = Vec::new();
    for _ in 0..20_000 {
        exchange.next_packet(&mut packet);
        packets.push(packet.clone());
    }
    let mut receive = |packets: &[Vec<u8>]| {
        for packet in packets {
            for side in Side::ALL {
                receiver.receive(side, packet, 1, &mut NullSink).unwrap();
            }
        }
    };
    // The books grow to their size first.
    let (first, then) = packets.split_at(15_000);
    receive(first);
    let count = allocations_of(|| receive(then));
    assert!(
        count < 20,
        "{count} allocations in 5,000 packets: books that still grow"
    );
    assert_eq!(receiver.channel().doubtful_count(), 0);
}
