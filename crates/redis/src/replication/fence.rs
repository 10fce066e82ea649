//! Waiting until no lane is at a command any more that began before.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::server::Server;

/// How many turns each lane had ended when the fence was made.
#[derive(Debug)]
pub(super) struct Fence {
    before: Vec<u64>,
}

impl Fence {
    /// What a lane has begun until now counts. What is to be seen by the commands behind the fence
    /// has been set.
    pub(super) fn new(server: &Server) -> Self {
        Fence {
            before: ended(server).collect(),
        }
    }

    /// Waits on a thread of its own until every lane has ended what it had begun: two turns, of
    /// which the first may have been about to end. False if `is_over` says so first.
    pub(super) fn wait(&self, server: &Server, is_over: impl Fn() -> bool) -> bool {
        debug_assert_eq!(
            self.before.len(),
            server.lanes.len(),
            "a server keeps its lanes"
        );
        loop {
            let lanes = ended(server).zip(&self.before).enumerate();
            let mut late = lanes.filter(|(_, (now, before))| *now < **before + 2);
            let Some((first, _)) = late.next() else {
                return true;
            };
            // One that sleeps has begun nothing, and says so once it is woken.
            server.mail.wake(first);
            late.for_each(|(lane, _)| server.mail.wake(lane));
            if is_over() {
                return false;
            }
            server.durability.background.pause(TURN);
        }
    }
}

fn ended(server: &Server) -> impl Iterator<Item = u64> {
    let lanes = server.lanes.iter();
    lanes.map(|lane| lane.turns.load(Ordering::Acquire))
}

const TURN: Duration = Duration::from_millis(1);
