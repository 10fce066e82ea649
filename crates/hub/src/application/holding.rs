//! Replies that wait until what they tell of is written to the append-only file.

use tidewire_lane::{ConnectionId, Context};

use super::HubLane;
use crate::durability::Hold;
use crate::session::Session;
use crate::session::zmq::Port;

/// What a lane knows of them.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// Clients that may have changed something in this turn.
    pub(super) writers: Vec<ConnectionId>,
    /// More waits to be written than may: nothing is taken from who brings more of it.
    is_choked: bool,
    /// Connections that nothing is taken from for that.
    put_off: Vec<ConnectionId>,
}

impl HubLane {
    /// Writes what was told in this turn, or has it written and holds back the replies until then.
    pub(super) fn settle_log(&mut self, context: &mut Context) {
        let log = &self.hub.durability.log;
        if !log.is_writing() {
            self.holding.writers.clear();
            self.holding.is_choked = false;
            if context.is_holding() {
                context.let_leave(u64::MAX);
            }
            return self.take_again(context);
        }
        let waits = context.is_holding() || !self.holding.put_off.is_empty();
        let (durable, hold) = log.settle(&self.hub, self.lane, waits);
        if context.is_holding() {
            context.let_leave(durable);
        }
        if let Hold::Writers(until) | Hold::Everything(until) = hold {
            for &id in &self.holding.writers {
                context.hold_back(id, until);
            }
        }
        self.holding.writers.clear();
        match hold {
            Hold::Everything(until) => context.hold_turn(until),
            // Those who only asked in an earlier turn must not wait for a disk that takes nothing.
            Hold::Writers(_) if log.is_stuck() => context.let_turns_leave(),
            Hold::Writers(_) | Hold::Nothing => {}
        }
        self.holding.is_choked = hold != Hold::Nothing && log.is_choked(&self.hub);
        self.take_again(context);
    }

    /// Whether input is left where it is: the disk does not keep up, and this peer brings more to
    /// write without waiting for replies.
    pub(super) fn puts_off(&mut self, context: &mut Context, id: ConnectionId) -> bool {
        if !self.holding.is_choked {
            return false;
        }
        let session = self.sessions.by_index.get(id.index());
        let writes = match session {
            Some(Some(Session::Zmq(session))) => session.port() == Port::Pull,
            Some(Some(Session::Resp(_))) => context.holds_back(id),
            _ => false,
        };
        if writes {
            context.hold(id);
            self.holding.put_off.push(id);
        }
        writes
    }

    fn take_again(&mut self, context: &mut Context) {
        if !self.holding.is_choked {
            for id in std::mem::take(&mut self.holding.put_off) {
                context.release(id);
            }
        }
    }
}
