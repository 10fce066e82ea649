//! Lanes that take single turns on one thread, in an order that a simulator chooses.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::application::Application;
use crate::connection::Peer;
use crate::context::LaneCounters;
use crate::event_loop::Lane;
use crate::lanes::LaneConfig;
use crate::mailbox::{Mailboxes, Signal};
use crate::network::{SimulatedNetwork, stream_pair};

/// All lanes of a simulated process.
///
/// No thread runs: [`turn`](Self::turn) takes one turn of one lane and never waits. Peers hold
/// the other ends of Unix socket pairs.
#[derive(Debug)]
pub struct SteppedLanes<A: Application> {
    lanes: Vec<Lane<A>>,
    mailboxes: Mailboxes<A::Mail>,
    network: Arc<SimulatedNetwork>,
}

impl<A: Application> SteppedLanes<A> {
    /// Like [`Lanes::start`](crate::Lanes::start), without threads and listeners.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(
        mailboxes: Mailboxes<A::Mail>,
        counters: &[Arc<LaneCounters>],
        mut application: impl FnMut(usize) -> A,
    ) -> std::io::Result<Self> {
        let config = LaneConfig {
            io_uring: false,
            ..LaneConfig::default()
        };
        let network = Arc::new(SimulatedNetwork::default());
        let mut lanes = Vec::with_capacity(counters.len());
        for (number, counters) in counters.iter().enumerate() {
            let (mailboxes, counters) = (mailboxes.clone(), counters.clone());
            let application = application(number);
            let mut lane = Lane::new(
                number,
                mailboxes,
                Vec::new(),
                &config,
                counters,
                application,
            )?;
            lane.dial_into(network.clone());
            lane.begin();
            lanes.push(lane);
        }
        Ok(Self {
            lanes,
            mailboxes,
            network,
        })
    }

    /// Returns the number of lanes.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Takes one turn of a lane, with everything that has arrived for it.
    pub fn turn(&mut self, lane: usize) {
        self.lanes[lane].take_turn();
    }

    /// Returns when a lane takes a turn without an event, in monotonic nanoseconds; `None` for
    /// never.
    pub fn deadline_ns(&self, lane: usize) -> Option<u64> {
        self.lanes[lane].wake_ns()
    }

    /// Returns whether a lane has work now: an event has arrived, or its deadline has passed.
    pub fn is_ready(&self, lane: usize) -> bool {
        self.lanes[lane].is_ready()
    }

    /// Creates a connection that a lane adopts at its next turn, as if accepted on a port.
    /// Returns the peer's end, which does not block.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn connect(&self, lane: usize, port: u16, peer: Peer) -> std::io::Result<OwnedFd> {
        let (socket, theirs) = stream_pair()?;
        let tls = None;
        let signal = Signal::Adopt {
            socket,
            port,
            peer,
            tls,
        };
        self.mailboxes[lane].bell().signal(signal);
        Ok(theirs)
    }

    /// Takes the oldest waiting connection made by a lane: its address and its other end, which
    /// does not block. Dropping that end closes the connection.
    pub fn take_dialed(&self) -> Option<(SocketAddr, OwnedFd)> {
        self.network.take()
    }

    /// Ends all lanes like the end of a process: input that has arrived is read, and every
    /// connection is notified and closed.
    pub fn stop(mut self) {
        for mailbox in self.mailboxes.iter() {
            mailbox.stop();
        }
        for lane in &mut self.lanes {
            while !lane.is_stopping() {
                lane.take_turn();
            }
        }
        for lane in self.lanes {
            lane.end();
        }
    }
}
