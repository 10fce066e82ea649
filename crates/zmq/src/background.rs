//! Threads of a context: their names, and how the kernel schedules them.

use std::io;
use std::thread::JoinHandle;

use tidewire_readiness::{Scheduling, spawn_without_signals};

use crate::option_table::until_zero;

/// A thread to be started.
#[derive(Debug, Clone)]
pub(crate) struct BackgroundThread {
    name: String,
    scheduling: Scheduling,
}

impl BackgroundThread {
    /// A thread whose name is `role` behind the prefix of its context, as the system shows it: of
    /// the name it keeps the first 15 bytes.
    pub(crate) fn new(prefix: &[u8], role: &str, scheduling: &Scheduling) -> BackgroundThread {
        let prefix = String::from_utf8_lossy(until_zero(prefix));
        let slash = if prefix.is_empty() { "" } else { "/" };
        BackgroundThread {
            name: format!("{prefix}{slash}{role}"),
            scheduling: scheduling.clone(),
        }
    }

    /// Starts it. It also runs if the system refuses its policy, priority or processors, where
    /// libzmq ends the process.
    pub(crate) fn spawn(&self, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        let builder = std::thread::Builder::new().name(self.name.clone());
        let scheduling = self.scheduling.clone();
        spawn_without_signals(builder, move || {
            let _ = scheduling.apply();
            run();
        })
    }
}
