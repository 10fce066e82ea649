//! Handling of SIGINT, SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

/// A flag that asks the program to end.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    signal: Arc<AtomicBool>,
    /// Whether the signal was SIGINT.
    interrupt: Arc<AtomicBool>,
    own: Arc<AtomicBool>,
}

impl Stop {
    /// Listens for the signals from now on. A second signal ends the program immediately.
    pub fn on_signals() -> Result<Self, Failure> {
        let stop = Self::default();
        // Registered before the flag that reports a signal.
        signal_hook::flag::register(SIGINT, stop.interrupt.clone()).map_err(cannot_handle)?;
        for signal in [SIGINT, SIGTERM] {
            // Order matters: the conditional exit looks at the flag before the next line sets it.
            let registered = signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                stop.signal.clone(),
            )
            .and_then(|_| signal_hook::flag::register(signal, stop.signal.clone()));
            registered.map_err(cannot_handle)?;
        }
        Ok(stop)
    }

    /// Returns whether the program has been asked to end.
    pub fn is_asked(&self) -> bool {
        self.signal.load(Ordering::Relaxed) || self.own.load(Ordering::Relaxed)
    }

    /// Returns whether SIGINT asked for it.
    pub fn is_interrupt(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// Resets the flag after a signal that did not end the program, so that the next signal does
    /// not end it immediately.
    pub fn forget(&self) {
        self.interrupt.store(false, Ordering::Relaxed);
        self.signal.store(false, Ordering::Relaxed);
    }

    /// Returns a flag that follows the same signals and can also be set on its own.
    pub fn child(&self) -> Self {
        Self {
            signal: self.signal.clone(),
            interrupt: self.interrupt.clone(),
            own: Arc::default(),
        }
    }

    /// Sets the flag without a signal.
    pub fn ask(&self) {
        self.own.store(true, Ordering::Relaxed);
    }
}

/// A flag that SIGHUP sets, to have files reopened.
#[derive(Clone, Debug, Default)]
pub struct Reload(Arc<AtomicBool>);

impl Reload {
    /// Listens for the signal from now on. It no longer ends the program.
    pub fn on_signal() -> Result<Self, Failure> {
        let reload = Self::default();
        signal_hook::flag::register(SIGHUP, reload.0.clone()).map_err(cannot_handle)?;
        Ok(reload)
    }

    /// Returns whether the signal has arrived since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

/// The progress of a shutdown. The first signal makes the hub save and wait, and may be refused;
/// the second ends the program in any case.
#[derive(Debug, Default)]
pub struct Ending {
    is_under_way: bool,
    /// Until when the next signal counts as the second.
    armed_until: Option<Armed>,
}

#[derive(Clone, Copy, Debug)]
enum Armed {
    /// Saving failed.
    Always,
    /// The wait for replicas ended without result, or the shutdown was aborted.
    Until(Instant),
}

/// The reaction to a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Ask the hub to shut down as its parameters say.
    Ask,
    /// Shut down even if nothing was saved.
    End,
}

impl Ending {
    /// Returns how to react to a signal now.
    pub fn answer(&self, now: Instant) -> Answer {
        match self.armed_until {
            Some(Armed::Always) => Answer::End,
            Some(Armed::Until(end)) if now < end => Answer::End,
            _ => Answer::Ask,
        }
    }

    /// Notes that the hub was asked, and whether it is shutting down.
    pub fn asked(&mut self, is_ending: bool, now: Instant) {
        let was_under_way = std::mem::replace(&mut self.is_under_way, is_ending);
        if !is_ending {
            self.armed_until = Some(match was_under_way {
                true => Armed::Until(now + ARMED_FOR),
                false => Armed::Always,
            });
        }
    }
}

/// How long the next signal counts as the second one after a shutdown that was aborted or that
/// waited for replicas without result.
const ARMED_FOR: Duration = Duration::from_secs(60);

fn cannot_handle(error: std::io::Error) -> Failure {
    Failure::running(format!("cannot handle signals: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_signal_ends_what_the_first_could_not() {
        let now = Instant::now();
        let mut ending = Ending::default();
        assert_eq!(ending.answer(now), Answer::Ask);
        ending.asked(false, now);
        assert_eq!(ending.answer(now + 10 * ARMED_FOR), Answer::End);
    }

    #[test]
    fn an_end_that_was_taken_back_is_not_held_against_a_later_signal() {
        let now = Instant::now();
        let mut ending = Ending::default();
        ending.asked(true, now);
        assert_eq!(ending.answer(now), Answer::Ask);
        ending.asked(false, now);
        assert_eq!(ending.answer(now), Answer::End);
        assert_eq!(ending.answer(now + ARMED_FOR), Answer::Ask);
    }
}
