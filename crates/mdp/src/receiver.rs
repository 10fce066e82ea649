//! The receiver of a channel: both lines, snapshots and definitions in; ticks out.

use tidewire_feed::client::{Gap, Side, SideCounters, Sink};

use crate::arbiter::{Arbiter, ArbiterConfig, ArbiterCounters, PacketSink};
use crate::channel::Channel;
use crate::packet::{Packet, PacketError, decode_packet};
use crate::settings::ChannelConfig;

/// Receives the feeds of one channel.
///
/// Each datagram is given to the function of its feed, with the time. Ticks go to the sink, with
/// the sequence of their packet. There is no socket, clock or thread in here.
#[derive(Debug)]
pub struct Receiver {
    arbiter: Arbiter,
    channel: Channel,
}

impl Receiver {
    /// Creates a receiver that joins the channel at the first packet of either line.
    pub fn new(arbiter: ArbiterConfig, channel: ChannelConfig) -> Self {
        Self {
            arbiter: Arbiter::new(arbiter),
            channel: Channel::new(channel),
        }
    }

    /// Handles a datagram of the incremental feed.
    ///
    /// # Errors
    /// It has no packet header. Invalid messages are counted.
    #[inline]
    pub fn receive<S: Sink>(
        &mut self,
        side: Side,
        datagram: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), PacketError> {
        let Self { arbiter, channel } = self;
        arbiter.receive(side, datagram, now_ns, &mut Follower { channel, sink })
    }

    /// Handles a datagram of the recovery feed, by price or by order.
    ///
    /// # Errors
    /// It has no packet header.
    pub fn receive_snapshot<S: Sink>(
        &mut self,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), PacketError> {
        let packet = decode_packet(datagram)?;
        self.channel.apply_snapshot_packet(&packet, sink);
        Ok(())
    }

    /// Handles a datagram of the definition feed.
    ///
    /// # Errors
    /// It has no packet header.
    pub fn receive_definition<S: Sink>(
        &mut self,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), PacketError> {
        let packet = decode_packet(datagram)?;
        self.channel.apply_definition_packet(&packet, sink);
        Ok(())
    }

    /// Handles the passing of time.
    pub fn handle_timeout<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        let Self { arbiter, channel } = self;
        arbiter.handle_timeout(now_ns, &mut Follower { channel, sink });
    }

    /// Returns when [`Receiver::handle_timeout`] has something to do, ns; `u64::MAX` for never.
    #[inline]
    pub fn deadline_ns(&self) -> u64 {
        self.arbiter.deadline_ns()
    }

    /// Returns whether no new packet of the incremental feed has come for too long.
    pub fn is_silent(&self, now_ns: u64) -> bool {
        self.arbiter.is_silent(now_ns)
    }

    /// Returns when a packet of the incremental feed last was new; 0 before the first.
    pub fn moved_ns(&self) -> u64 {
        self.arbiter.moved_ns()
    }

    /// Returns the next packet's sequence; 0 before the first packet.
    pub fn next_sequence(&self) -> u64 {
        self.arbiter.next_sequence()
    }

    /// Returns the counters of packets.
    pub fn counters(&self) -> &ArbiterCounters {
        self.arbiter.counters()
    }

    /// Returns the counters of a line.
    pub fn side_counters(&self, side: Side) -> &SideCounters {
        self.arbiter.side_counters(side)
    }

    /// Gives the levels of an instrument from now on, or ends that: see [`Channel::follow`].
    pub fn follow<S: Sink>(&mut self, symbol: u32, is_followed: bool, sink: &mut S) {
        self.channel.follow(symbol, is_followed, sink);
    }

    /// Returns the channel: books, statistics, and counters of messages.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new(ArbiterConfig::default(), ChannelConfig::default())
    }
}

struct Follower<'a, S> {
    channel: &'a mut Channel,
    sink: &'a mut S,
}

impl<S: Sink> PacketSink for Follower<'_, S> {
    fn joined(&mut self, first: u64) {
        self.channel.join(first, self.sink);
    }

    fn restarted(&mut self, first: u64, begin_time_ns: u64) {
        self.channel.restart(first, begin_time_ns, self.sink);
    }

    #[inline]
    fn packet(&mut self, packet: &Packet<'_>) {
        self.channel.apply_packet(packet, self.sink);
    }

    fn gap(&mut self, gap: Gap) {
        self.sink.gap(gap);
        if let Gap::Lost { from, count, .. } = gap {
            self.channel.packets_lost(from + count, self.sink);
        }
    }
}
