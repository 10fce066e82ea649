//! What a lane does with its right to lock shards, and what it puts off without it.

use tidewire_lane::{ConnectionId, Context};

use super::RedisLane;

impl RedisLane {
    /// Lets connections go on that were parked.
    fn resume_parked(&mut self, context: &mut Context) {
        // A script of another lane may want the right since it was taken; it waits for this turn.
        debug_assert!(
            self.server.scripting.rights.holds(self.lane),
            "who goes on may lock shards"
        );
        self.server.scripting.rights.go_on(self.lane);
        let parked = self.waiting.take_parked();
        self.let_go_on(context, parked);
        debug_assert!(
            !self.waiting.has_parked(),
            "a connection that goes on is read later, not at once"
        );
        self.has_resumed = true;
    }

    /// A script has run for too long: connections that get -BUSY go on.
    pub(super) fn resume_impatient(&mut self, context: &mut Context) {
        if self.waiting.has_parked() && self.server.scripting.busy_text().is_some() {
            let parked = self.waiting.take_impatient();
            self.let_go_on(context, parked);
        }
    }

    fn let_go_on(&mut self, context: &mut Context, parked: Vec<ConnectionId>) {
        for connection in parked {
            match self.sessions.get_mut(connection) {
                Some(session) => session.unpark(context),
                None => context.release(connection),
            }
        }
    }

    /// A turn ends. Other lanes' scripts wait until what was parked here has had its turn: when to
    /// look again if it has not.
    pub(super) fn note_turn(&mut self, context: &Context) -> Option<u64> {
        let has_resumed = std::mem::take(&mut self.has_resumed);
        let rights = &self.server.scripting.rights;
        if !rights.is_owed(self.lane) {
            return None;
        }
        if has_resumed || self.waiting.has_parked() {
            return rights.has(self.lane).then_some(context.now_ns());
        }
        let waiting = rights.note_turn(self.lane);
        self.server.tell_script_over(waiting);
        None
    }

    /// Takes the lane's right to lock shards, and does what was put off without it.
    pub(super) fn enter(&mut self, context: &mut Context) -> bool {
        if !self.server.scripting.rights.enter(self.lane) {
            return false;
        }
        if self.server.scripting.has_put_off(self.lane) {
            self.server.do_put_off(self.lane);
        }
        debug_assert!(
            !self.server.scripting.has_put_off(self.lane),
            "a lane with its right has nothing put off"
        );
        if self.waiting.has_parked() {
            self.resume_parked(context);
        }
        self.fanout.pump_put_off(context);
        true
    }
}
