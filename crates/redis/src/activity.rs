//! The current activity of a lane, for the watchdog and INFO: a relaxed store to a cache line of
//! its own.

use std::sync::atomic::{AtomicUsize, Ordering};

use tidewire_keyspace::{Command, commands};

/// What a lane does in its turn.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Activity(AtomicUsize);

/// A part of a lane's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Reading a connection's input, and what runs on one entry alone.
    Input = 1,
    /// Taking mail of other lanes.
    Mail,
    /// Ending a connection.
    Closing,
    /// What is due, at the turn's end.
    Upkeep,
    /// Waiting until other lanes let go what a script needs.
    ScriptBegins,
}

impl Activity {
    #[inline]
    pub(crate) fn command(&self, command: &'static Command) {
        let address = std::ptr::from_ref(command).addr();
        self.0.store(address, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn part(&self, part: Part) {
        self.0.store(part as usize, Ordering::Relaxed);
    }

    /// A command's full name, or a part of the turn.
    pub(crate) fn name(&self) -> &'static str {
        let doing = self.0.load(Ordering::Relaxed);
        let parts = [
            (Part::Input, "input"),
            (Part::Mail, "mail"),
            (Part::Closing, "closing"),
            (Part::Upkeep, "upkeep"),
            (Part::ScriptBegins, "waiting to begin a script"),
        ];
        let part = parts.iter().find(|(part, _)| *part as usize == doing);
        let mut all = commands::table::with_parts().iter();
        let command = all.find(|&command| std::ptr::from_ref(command).addr() == doing);
        match (part, command) {
            (Some((_, name)), _) => name,
            (None, Some(command)) => command.full_name,
            (None, None) => "nothing",
        }
    }
}
