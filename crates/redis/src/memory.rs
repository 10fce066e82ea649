//! Memory use of the process.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that have been allocated and not given back: `used_memory`. Exact and cheap where the
/// program's allocator counts; of another, what the kernel says.
#[inline]
pub(crate) fn used_bytes() -> u64 {
    match tidewire_memory::used_bytes() {
        0 => resident_bytes(),
        bytes => bytes,
    }
}

/// Bytes of memory that the process holds, by the kernel's count.
pub(crate) fn resident_bytes() -> u64 {
    pages(1) * 4096
}

/// Bytes of addresses that the process has, by the kernel's count.
pub(crate) fn virtual_bytes() -> u64 {
    pages(0) * 4096
}

/// A figure of `/proc/self/statm`.
fn pages(number: usize) -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut figures = statm.split(' ');
    let figure = figures.nth(number).and_then(|pages| pages.parse().ok());
    figure.unwrap_or(0)
}

/// Samples of [`used_bytes`].
#[derive(Debug)]
pub(crate) struct Usage {
    /// When everything stood and no client had come.
    startup: AtomicU64,
    peak: AtomicU64,
}

impl Usage {
    pub(crate) const fn new() -> Self {
        Self {
            startup: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    /// Looks; to be called a few times a second.
    pub(crate) fn look(&self) -> u64 {
        let used = used_bytes();
        if self.startup.load(Ordering::Relaxed) == 0 {
            self.startup.store(used, Ordering::Relaxed);
        }
        self.peak.fetch_max(used, Ordering::Relaxed);
        used
    }

    /// The most that was seen.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn startup(&self) -> u64 {
        self.startup.load(Ordering::Relaxed)
    }
}
