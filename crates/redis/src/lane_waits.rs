//! Where a lane may wait for another thread: only for the reasons named here. Debug builds check
//! every wait; release builds check nothing.

use std::cell::Cell;

/// Why a lane waits for another thread, and all of its clients with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// SAVE.
    Save,
    /// DEBUG RELOAD and DEBUG LOADAOF.
    Reload,
    /// DEBUG SLEEP.
    Sleep,
    /// CONFIG SET, such as of `appendonly`.
    Parameters,
    /// SHUTDOWN.
    Shutdown,
    /// FLUSHALL where there are save points.
    Flush,
    /// REPLICAOF NO ONE, and FAILOVER: a command of the old master still runs.
    Promotion,
}

/// While it lives, the lane of this thread may wait.
#[derive(Debug)]
#[must_use]
pub(crate) struct LaneWait(Option<WaitReason>);

thread_local! {
    /// This thread runs a turn of a lane.
    static IS_IN_TURN: Cell<bool> = const { Cell::new(false) };
    /// Why it may wait in the turn.
    static REASON: Cell<Option<WaitReason>> = const { Cell::new(None) };
}

impl LaneWait {
    /// Permits waits on this thread.
    #[inline]
    pub(crate) fn permit(reason: WaitReason) -> Self {
        match cfg!(debug_assertions) {
            true => Self(REASON.replace(Some(reason))),
            false => Self(None),
        }
    }
}

impl Drop for LaneWait {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            REASON.set(self.0);
        }
    }
}

/// Says whether this thread runs a turn of a lane.
#[inline]
pub(crate) fn set_in_turn(is_in_turn: bool) {
    if cfg!(debug_assertions) {
        debug_assert!(
            is_in_turn || REASON.get().is_none(),
            "a permission to wait ends within its turn"
        );
        IS_IN_TURN.set(is_in_turn);
    }
}

/// This thread is about to wait for another one.
#[inline]
pub(crate) fn before_wait() {
    debug_assert!(
        !IS_IN_TURN.get() || REASON.get().is_some() || std::thread::panicking(),
        "a lane waits for another thread where no reason permits it"
    );
}
