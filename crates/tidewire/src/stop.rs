//! SIGINT, SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

/// Whether the program has been asked to end.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    signal: Arc<AtomicBool>,
    /// The signal was SIGINT.
    interrupt: Arc<AtomicBool>,
    own: Arc<AtomicBool>,
}

impl Stop {
    /// Listens for the signals from now on. A second one ends the program at once.
    pub fn on_signals() -> Result<Self, Failure> {
        let stop = Self::default();
        // Before the flag that says that there was one.
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

    /// Whether to end.
    pub fn is_asked(&self) -> bool {
        self.signal.load(Ordering::Relaxed) || self.own.load(Ordering::Relaxed)
    }

    /// Whether SIGINT has asked.
    pub fn is_interrupt(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// The signal has been answered and the program goes on: another one does not end it at once.
    pub fn forget(&self) {
        self.interrupt.store(false, Ordering::Relaxed);
        self.signal.store(false, Ordering::Relaxed);
    }

    /// One that follows this one's signals, and can be asked on its own.
    pub fn child(&self) -> Self {
        Self {
            signal: self.signal.clone(),
            interrupt: self.interrupt.clone(),
            own: Arc::default(),
        }
    }

    /// Asks, without a signal.
    pub fn ask(&self) {
        self.own.store(true, Ordering::Relaxed);
    }
}

/// SIGHUP: whether files are to be opened anew.
#[derive(Clone, Debug, Default)]
pub struct Reload(Arc<AtomicBool>);

impl Reload {
    /// Listens for the signal from now on; it does not end the program any more.
    pub fn on_signal() -> Result<Self, Failure> {
        let reload = Self::default();
        signal_hook::flag::register(SIGHUP, reload.0.clone()).map_err(cannot_handle)?;
        Ok(reload)
    }

    /// Whether the signal has come since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

/// What becomes of signals that ask for the end: the first is answered by saving and waiting, and
/// may be refused; the second ends the program in any case.
#[derive(Debug, Default)]
pub struct Ending {
    is_under_way: bool,
    /// Until when the next signal is the second.
    armed_until: Option<Armed>,
}

#[derive(Clone, Copy, Debug)]
enum Armed {
    /// What had to be saved could not be.
    Always,
    /// Nothing came of a wait for replicas, or it was taken back.
    Until(Instant),
}

/// What to do about a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Ask the hub to end, as its parameters say.
    Ask,
    /// End, saved or not.
    End,
}

impl Ending {
    /// A signal has come, or is being answered.
    pub fn answer(&self, now: Instant) -> Answer {
        match self.armed_until {
            Some(Armed::Always) => Answer::End,
            Some(Armed::Until(end)) if now < end => Answer::End,
            _ => Answer::Ask,
        }
    }

    /// The hub was asked; whether it is ending.
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

/// How long another signal counts as the second one, after an end that was taken back or that
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
