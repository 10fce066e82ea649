//! Who looks at every command: one word that each command reads once, 0 if nobody does.

use std::sync::atomic::{AtomicU32, Ordering};

/// What is to be done beside executing commands.
#[derive(Debug, Default)]
pub(crate) struct Attention(AtomicU32);

impl Attention {
    /// Clients track keys.
    pub(crate) const TRACKED: u32 = 1;
    /// Clients listen to all commands.
    pub(crate) const MONITORED: u32 = 1 << 1;

    #[inline]
    pub(crate) fn load(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn has(&self, bit: u32) -> bool {
        self.load() & bit != 0
    }

    pub(crate) fn set(&self, bit: u32, on: bool) {
        if on {
            self.0.fetch_or(bit, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!bit, Ordering::AcqRel);
        }
    }
}
