//! Threads that handle no signal of the process, or none for a moment.

use std::io;
use std::marker::PhantomData;
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// Starts a thread with all signals blocked, from its first instruction on. The kernel hands a
/// signal of the process to any thread that does not block it. So a thread of a library could run
/// the program's handler, and the call that the signal was to interrupt would go on.
///
/// # Errors
/// The system has no further thread.
pub fn spawn_without_signals<T: Send + 'static>(
    builder: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A thread begins with the mask of the one that starts it.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = builder.spawn(run);
    before.thread_set_mask()?;
    thread
}

/// Signals that the calling thread holds back. They are handled when this value is dropped, or
/// during [`poll_releasing`](crate::poll_releasing), which they interrupt.
///
/// A thread that looks for events without sleeping would handle a signal between two looks. It
/// would then sleep, though the program expects that the signal interrupts its call.
#[derive(Debug)]
pub struct HeldSignals {
    before: SigSet,
    /// The mask is the thread's.
    of_thread: PhantomData<*const ()>,
}

impl HeldSignals {
    /// Holds back all signals but those that a fault in the thread itself raises.
    #[allow(clippy::new_without_default)]
    pub fn new() -> HeldSignals {
        let mut held = SigSet::all();
        for fault in FAULTS {
            held.remove(fault);
        }
        let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK);
        HeldSignals {
            // The call fails for a `how` that does not exist, and for nothing else.
            before: before.expect("a thread may block signals"),
            of_thread: PhantomData,
        }
    }

    /// Signals that the thread blocked before.
    pub fn mask(&self) -> &nix::libc::sigset_t {
        self.before.as_ref()
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        let restored = self.before.thread_set_mask();
        debug_assert!(restored.is_ok(), "the mask was valid: {restored:?}");
    }
}

const FAULTS: [Signal; 7] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGSYS,
    Signal::SIGABRT,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_thread_blocks_signals_and_the_old_one_does_not() {
        let is_blocked = || {
            let mask = SigSet::thread_get_mask().expect("a mask");
            [Signal::SIGTERM, Signal::SIGUSR1].map(|signal| mask.contains(signal))
        };
        let thread = spawn_without_signals(Builder::new(), is_blocked).expect("a thread");
        assert_eq!(thread.join().expect("its mask"), [true; 2]);
        assert_eq!(is_blocked(), [false; 2]);
    }
}
