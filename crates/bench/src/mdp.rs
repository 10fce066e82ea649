//! CME MDP 3.0 on one core: decoding, books, last values and the ring.

use std::hint::black_box;

use tidewire_feed::client::{NullSink, Side, Sink};
use tidewire_mdp::{ArbiterConfig, ChannelConfig, Exchange, ExchangeConfig, Receiver};

/// The packets of a channel, and its definitions.
pub(super) struct Channel {
    definitions: Vec<Vec<u8>>,
    /// All packets one after another, as a receive buffer has them.
    packets: Vec<u8>,
    lengths: Vec<usize>,
}

impl Channel {
    /// Creates about a million entries (levels, orders, trades, volumes, statistics) of so many
    /// instruments.
    pub(super) fn generate(instruments: u32) -> Self {
        let mut exchange = Exchange::new(ExchangeConfig {
            instruments,
            ..ExchangeConfig::default()
        });
        let mut definitions = Vec::new();
        exchange.definitions(|packet| definitions.push(packet.to_vec()));
        let (mut packets, mut lengths, mut packet) = (Vec::new(), Vec::new(), Vec::new());
        let mut entries = 0;
        while entries < ENTRIES {
            entries += exchange.next_packet(&mut packet);
            packets.extend_from_slice(&packet);
            lengths.push(packet.len());
        }
        Self {
            definitions,
            packets,
            lengths,
        }
    }

    /// Receives the packets on so many lines, and gives the output to `sink`. Returns the number
    /// of entries applied: without books by order, those of orders are passed over.
    pub(super) fn receiving<S: Sink>(
        &self,
        lines: usize,
        order_books: bool,
        mut sink: S,
    ) -> impl FnMut() -> u64 {
        move || {
            let channel = ChannelConfig {
                order_books,
                ..ChannelConfig::default()
            };
            let mut receiver = Receiver::new(ArbiterConfig::default(), channel);
            for definition in &self.definitions {
                let _ = receiver.receive_definition(definition, &mut NullSink);
            }
            let mut rest = black_box(&self.packets[..]);
            for &length in &self.lengths {
                let (packet, behind) = rest.split_at(length);
                rest = behind;
                for side in Side::ALL.into_iter().take(lines) {
                    let _ = receiver.receive(side, packet, 1, &mut sink);
                }
            }
            assert_eq!(receiver.counters().lost, 0, "nothing is missing");
            receiver.channel().counters().entries
        }
    }
}

const ENTRIES: u64 = 1_000_000;
