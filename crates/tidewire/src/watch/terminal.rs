//! The terminal, which is restored however the program ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::DefaultTerminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::stop::Stop;

/// A terminal in raw mode; dropping it restores the terminal. A panic restores it too, through the
/// hook of [`ratatui::init`], before the message is printed.
pub(super) struct Screen {
    pub(super) terminal: DefaultTerminal,
}

impl Screen {
    /// Takes over the terminal. From now on SIGINT, SIGTERM and SIGHUP set `stop`. If the program
    /// cannot end because the terminal accepts no output, the next signal or a short wait ends it.
    pub(super) fn take(stop: &Stop) -> Result<Self, Failure> {
        let failed =
            |error: std::io::Error| Failure::running(format!("cannot handle signals: {error}"));
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
        let asked = Arc::new(AtomicBool::new(false));
        let stop = stop.clone();
        let watching = move || {
            for signal in signals.forever() {
                stop.ask();
                let code = 128 + signal;
                if asked.swap(true, Ordering::AcqRel) {
                    give_up(code);
                }
                std::thread::spawn(move || {
                    std::thread::sleep(PATIENCE);
                    give_up(code);
                });
            }
        };
        std::thread::Builder::new()
            .spawn(watching)
            .map_err(failed)?;
        let terminal =
            ratatui::try_init().map_err(|error| Failure::running(format!("terminal: {error}")))?;
        Ok(Self { terminal })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A closed terminal needs no restoring.
        let _ = ratatui::try_restore();
    }
}

/// Ends the program without waiting for the thread that draws.
fn give_up(code: i32) -> ! {
    // Raw mode is a setting and can be restored even if nothing can be written any more.
    let _ = crossterm::terminal::disable_raw_mode();
    std::process::exit(code)
}

const PATIENCE: Duration = Duration::from_secs(2);
