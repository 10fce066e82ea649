//! Lanes that owe their subscribers the newest values: those whose mailbox was full, and all of
//! them when the whole keyspace has changed.

use std::sync::atomic::Ordering;

use crate::hub::{Hub, Mail};

impl Hub {
    /// Marks a lane whose subscribers are owed all values; whether it was not marked before.
    pub(crate) fn set_lagging(&self, lane: usize) -> bool {
        let is_new = !self.lagging[lane].swap(true, Ordering::AcqRel);
        if is_new {
            // It may have taken its last mail meanwhile, and sleep.
            self.mailboxes()[lane].send(Mail::Lagging);
        }
        is_new
    }

    /// Whether `lane` has been marked since it last asked.
    pub(crate) fn take_lagging(&self, lane: usize) -> bool {
        self.lagging[lane].load(Ordering::Relaxed)
            && self.lagging[lane].swap(false, Ordering::AcqRel)
    }

    /// The whole keyspace has changed, by a load or a full sync: every subscriber is owed the
    /// current values of all that it listens to, and nobody may use what was read before.
    pub(crate) fn owe_all_values(&self) {
        for lane in 0..self.config.lanes {
            self.set_lagging(lane);
        }
    }
}
