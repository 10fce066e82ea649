//! Replies that wait: until what they tell of is written to the append-only file, or until every
//! lane knows of it.

use tidewire_lane::{ConnectionId, Context, Gate};

use super::RedisLane;
use crate::durability::Hold;
use crate::quorum::LaneQuorum;

/// The held replies of one lane.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// Clients that may have changed something in this turn.
    pub(super) writers: Vec<ConnectionId>,
    /// Too much waits to be written: input that adds to it is not taken.
    is_choked: bool,
    /// Connections whose input is put off for that reason.
    put_off: Vec<ConnectionId>,
    /// What waits for a quorum.
    quorum: LaneQuorum,
    /// Replies to clients that have changed users.
    of_users: Vec<UsersChange>,
}

/// A change of users that some lane may not have applied yet.
#[derive(Clone, Copy, Debug)]
struct UsersChange {
    generation: u64,
    /// Then the reply leaves all the same, monotonic ns: a lane may be in a long script.
    until_ns: u64,
}

impl RedisLane {
    /// Writes what was told in this turn, or has it written and holds back the replies until then.
    pub(super) fn settle_log(&mut self, context: &mut Context) {
        let log = &self.server.durability.log;
        let is_behind = self.server.quorum.is_on() && {
            let holding = &mut self.holding;
            let asked = &holding.writers;
            holding
                .quorum
                .settle(&self.server, context, self.lane, asked)
        };
        if !log.is_writing() {
            self.holding.writers.clear();
            self.holding.is_choked = is_behind;
            if context.is_holding() {
                context.let_leave(Gate::Log, u64::MAX);
            }
            return self.take_again(context);
        }
        let waits = context.is_holding()
            || !self.holding.put_off.is_empty()
            || self.hub_writes.is_holding();
        let (durable, hold) = log.settle(&self.server, self.lane, waits);
        if context.is_holding() {
            context.let_leave(Gate::Log, durable);
        }
        if let Hold::Writers(until) | Hold::Everything(until) = hold {
            for &id in &self.holding.writers {
                context.hold_back(id, Gate::Log, until);
            }
        }
        self.holding.writers.clear();
        match hold {
            Hold::Everything(until) => context.hold_turn(until),
            // Reads of an earlier turn must not wait for a disk that takes nothing.
            Hold::Writers(_) if log.is_stuck() => context.let_turns_leave(),
            Hold::Writers(_) | Hold::Nothing => {}
        }
        debug_assert!(
            self.holding.writers.is_empty(),
            "each turn has its own writers"
        );
        self.holding.is_choked = is_behind || hold != Hold::Nothing && log.is_choked(&self.server);
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
            debug_assert!(
                !self.holding.put_off.contains(&id),
                "who is held back sends nothing"
            );
            self.holding.put_off.push(id);
        }
        writes
    }

    /// Holds back the replies of clients that have changed users until every lane has checked its
    /// sessions: after the reply, no connection is left that is no longer allowed. Returns when to
    /// check again.
    #[inline]
    pub(super) fn settle_users(&mut self, context: &mut Context) -> Option<u64> {
        if self.sessions.users_changers.is_empty() && self.holding.of_users.is_empty() {
            return None;
        }
        self.settle_changed_users(context)
    }

    #[cold]
    fn settle_changed_users(&mut self, context: &mut Context) -> Option<u64> {
        let access = &self.server.access;
        let changers = std::mem::take(&mut self.sessions.users_changers);
        let generation = access.generation();
        if !changers.is_empty() {
            let until_ns = context.now_ns() + USERS_WAIT_NS;
            self.holding.of_users.push(UsersChange {
                generation,
                until_ns,
            });
        }
        for id in changers {
            context.hold_back(id, Gate::Lanes, generation);
        }
        access.set_waiting(self.lane, true);
        let looked = access.looked_by_all();
        let is_over = |change: &UsersChange| {
            change.generation <= looked || change.until_ns <= context.now_ns()
        };
        let over = self
            .holding
            .of_users
            .iter()
            .filter(|change| is_over(change));
        let passed = over.map(|change| change.generation).max();
        if let Some(passed) = passed {
            context.let_leave(Gate::Lanes, passed);
            self.holding
                .of_users
                .retain(|change| change.generation > passed);
        }
        debug_assert!(
            self.holding
                .of_users
                .is_sorted_by_key(|change| change.generation),
            "changes of users wait in the order of their generations"
        );
        access.set_waiting(self.lane, !self.holding.of_users.is_empty());
        self.holding
            .of_users
            .iter()
            .map(|change| change.until_ns)
            .min()
    }

    fn take_again(&mut self, context: &mut Context) {
        if !self.holding.is_choked {
            for id in std::mem::take(&mut self.holding.put_off) {
                context.release(id);
            }
        }
        debug_assert!(
            self.holding.is_choked || self.holding.put_off.is_empty(),
            "input is put off only while the disk does not keep up"
        );
    }
}

/// How long the reply to a change of users waits for lanes that do not look.
const USERS_WAIT_NS: u64 = 1_000_000_000;
