//! What an append-only file consists of, as Redis 7 and later have it: a manifest, a base, and
//! increments of commands; and how it is written, so that a disk that fails loses nothing.
//!
//! Files are written through `tidewire-files` alone, and nothing here has a thread or a clock:
//! tests run it on a simulated disk.

mod commands;
pub(crate) use commands::{CommandReader, LogError, Next};

mod folder;
pub(crate) use folder::LogFolder;

mod manifest;
pub(crate) use manifest::{LogFile, Manifest};

mod save_points;
pub(crate) use save_points::SavePoints;

#[cfg(test)]
mod faults;

mod writer;
pub(crate) use writer::{LogSource, LogWriter, SyncJob};
