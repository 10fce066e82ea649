//! SIGINT and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;

/// Whether the program has been asked to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    signal: Arc<AtomicBool>,
    /// The signal was SIGINT.
    interrupt: Arc<AtomicBool>,
    own: Arc<AtomicBool>,
}

impl Stop {
    /// Listens for the signals from now on. A second one ends the program at once.
    pub(crate) fn on_signals() -> Result<Self, Failure> {
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
    pub(crate) fn is_asked(&self) -> bool {
        self.signal.load(Ordering::Relaxed) || self.own.load(Ordering::Relaxed)
    }

    /// Whether SIGINT has asked.
    pub(crate) fn is_interrupt(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// The signal has come to nothing: the next one is the first again.
    pub(crate) fn forget(&self) {
        self.interrupt.store(false, Ordering::Relaxed);
        self.signal.store(false, Ordering::Relaxed);
    }

    /// One that follows this one's signals, and can be asked on its own.
    pub(crate) fn child(&self) -> Self {
        Self {
            signal: self.signal.clone(),
            interrupt: self.interrupt.clone(),
            own: Arc::default(),
        }
    }

    /// Asks, without a signal.
    pub(crate) fn ask(&self) {
        self.own.store(true, Ordering::Relaxed);
    }
}

fn cannot_handle(error: std::io::Error) -> Failure {
    Failure::running(format!("cannot handle signals: {error}"))
}
