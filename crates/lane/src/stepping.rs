//! Lanes that take single turns on one thread, in the order that a simulator chooses.

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
/// No thread runs: [`turn`](Self::turn) takes one turn of one lane and never waits. Peers hold the
/// other ends of Unix socket pairs.
#[derive(Debug)]
pub struct SteppedLanes<A: Application> {
    lanes: Vec<Lane<A>>,
    mailboxes: Mailboxes<A::Mail>,
    network: Arc<SimulatedNetwork>,
}

impl<A: Application> SteppedLanes<A> {
    /// As [`Lanes::start`](crate::Lanes::start), without threads and listeners.
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

    /// How many lanes there are.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Takes one turn of a lane, with everything that has arrived for it.
    pub fn turn(&mut self, lane: usize) {
        self.lanes[lane].take_turn();
    }

    /// When a lane takes a turn although nothing comes, monotonic ns; `None`: never.
    pub fn deadline_ns(&self, lane: usize) -> Option<u64> {
        self.lanes[lane].wake_ns()
    }

    /// Whether a lane has something to do now: something has come, or its time has.
    pub fn is_ready(&self, lane: usize) -> bool {
        self.lanes[lane].is_ready()
    }

    /// A connection that a lane takes over at its next turn, as if it had been accepted on a port;
    /// returns the peer's end, which does not block.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn connect(&self, lane: usize, port: u16, peer: Peer) -> std::io::Result<OwnedFd> {
        let (socket, theirs) = stream_pair()?;
        let signal = Signal::Adopt { socket, port, peer };
        self.mailboxes[lane].bell().signal(signal);
        Ok(theirs)
    }

    /// Takes the oldest connection that a lane has made and that is not taken yet: its address and
    /// its other end, which does not block. If it is dropped, the peer hangs up at once.
    pub fn take_dialed(&self) -> Option<(SocketAddr, OwnedFd)> {
        self.network.take()
    }

    /// Ends all lanes as the end of a process does: what has come is read, every connection is
    /// told and closed.
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
