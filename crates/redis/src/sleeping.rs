//! DEBUG SLEEP: the whole server stops for a while, as Redis does.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidewire_lane::monotonic_ns;

use crate::lane_waits::{LaneWait, WaitReason, before_wait};
use crate::server::Server;

impl Server {
    /// Stops every lane, the calling one too, and the link to the master for `time`.
    pub(crate) fn sleep_everywhere(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = monotonic_ns().saturating_add(ns);
        self.sleeping.until_ns.fetch_max(until_ns, Ordering::AcqRel);
        (0..self.mail.lanes()).for_each(|lane| self.mail.wake(lane));
        self.sleep_along();
    }

    /// Sleeps while the server does, and wakes up at once when it is to end. One relaxed load if
    /// DEBUG SLEEP never ran.
    #[inline]
    pub(crate) fn sleep_along(&self) {
        if self.sleeping.until_ns.load(Ordering::Relaxed) != 0 {
            self.sleep_on();
        }
    }

    #[cold]
    fn sleep_on(&self) {
        let _permit = LaneWait::permit(WaitReason::Sleep);
        while !self.stop_asked.load(Ordering::Acquire) {
            let until_ns = self.sleeping.until_ns.load(Ordering::Acquire);
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return;
            }
            let left = Duration::from_nanos(left_ns);
            before_wait();
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }
}

/// How often a sleeper looks whether the server is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
