//! Threads that handle no signal of the process.

use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow};

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

#[cfg(test)]
mod tests {
    use nix::sys::signal::Signal;

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
