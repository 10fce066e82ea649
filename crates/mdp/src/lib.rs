//! CME MDP 3.0: market data of CME Globex, in SBE over UDP.
//!
//! [`Receiver`] takes the datagrams of a channel's feeds (incremental lines A and B, recovery,
//! definitions) and gives a [`Sink`](tidewire_feed::client::Sink) quotes, trades, statuses and
//! definitions. [`Channel`] has the books, by price and by order; [`Arbiter`] orders the packets of
//! both lines. [`schema`] has the messages, made of `schema/mdp.xml`.
//!
//! [`Exchange`] is an exchange to test with: it makes the packets of all feeds, from a seed.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod arbiter;
pub use arbiter::{Arbiter, ArbiterConfig, ArbiterCounters, PacketSink};

mod channel;
pub use channel::Channel;

mod day;

mod definition;
pub use definition::InstrumentDefinition;

mod depth;
mod details;

mod exchange;
pub use exchange::{Exchange, ExchangeConfig, SimulatedInstrument};

mod figures;
pub use figures::{Scale, Statistics};

pub mod fuzzing;
mod index;

mod instrument;

mod levels;
pub use levels::{IMPLIED_DEPTH_MAX, PriceLevel, REAL_DEPTH_MAX};

mod orders;
pub use orders::{OrderBook, OrderLimits};

mod packet;
pub use packet::{
    Messages, PACKET_HEADER_LENGTH, Packet, PacketError, PacketHeader, add_message, begin_packet,
    decode_packet,
};

mod publishing;

mod receiver;
pub use receiver::Receiver;

mod recovery;
mod reference;
pub mod schema;

mod settings;
pub use settings::{ChannelConfig, ChannelCounters};

mod snapshot;
mod standstill;
mod statuses;

#[cfg(test)]
mod tests;
