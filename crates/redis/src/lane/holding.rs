//! Replies that wait until what they tell of is written to the append-only file.

use tidewire_lane::{ConnectionId, Context};

use super::RedisLane;
use crate::durability::Hold;

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

impl RedisLane {
    /// Writes what was told in this turn, or has it written and holds back the replies until then.
    pub(super) fn settle_log(&mut self, context: &mut Context) {
        let log = &self.server.durability.log;
        if !log.is_writing() {
            self.holding.writers.clear();
            self.holding.is_choked = false;
            if context.is_holding() {
                context.let_leave(u64::MAX);
            }
            return self.take_again(context);
        }
        let waits = context.is_holding() || !self.holding.put_off.is_empty();
        let (durable, hold) = log.settle(&self.server, self.lane, waits);
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
        self.holding.is_choked = hold != Hold::Nothing && log.is_choked(&self.server);
        self.take_again(context);
    }

    /// Whether input is left where it is: the disk does not keep up, and this peer brings more to
    /// write without waiting for replies, as one that `is_pusher` always does.
    pub fn puts_off(
        &mut self,
        context: &mut Context,
        id: ConnectionId,
        is_pusher: impl FnOnce() -> bool,
    ) -> bool {
        if !self.holding.is_choked {
            return false;
        }
        let writes = match self.sessions.serves(id) {
            true => context.holds_back(id),
            false => is_pusher(),
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
