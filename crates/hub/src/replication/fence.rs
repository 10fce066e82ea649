//! Waiting until no lane is at a command any more that began before.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::hub::Hub;

/// How many turns each lane had ended when the fence was made.
#[derive(Debug)]
pub(super) struct Fence {
    before: Vec<u64>,
}

impl Fence {
    /// What a lane has begun until now counts. What is to be seen by the commands behind the fence
    /// has been set.
    pub(super) fn new(hub: &Hub) -> Self {
        Fence {
            before: ended(hub).collect(),
        }
    }

    /// Waits on a thread of its own until every lane has ended what it had begun: two turns, of
    /// which the first may have been about to end. False if `is_over` says so first.
    pub(super) fn wait(&self, hub: &Hub, is_over: impl Fn() -> bool) -> bool {
        loop {
            let lanes = ended(hub).zip(&self.before).enumerate();
            let mut late = lanes.filter(|(_, (now, before))| *now < **before + 2);
            let Some((first, _)) = late.next() else {
                return true;
            };
            // One that sleeps has begun nothing, and says so once it is woken.
            hub.mailboxes()[first].wake();
            late.for_each(|(lane, _)| hub.mailboxes()[lane].wake());
            if is_over() {
                return false;
            }
            std::thread::sleep(TURN);
        }
    }
}

fn ended(hub: &Hub) -> impl Iterator<Item = u64> {
    let lanes = hub.lanes.iter();
    lanes.map(|lane| lane.turns.load(Ordering::Acquire))
}

const TURN: Duration = Duration::from_millis(1);
