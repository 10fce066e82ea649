//! What an append-only file consists of, as Redis 7 and later have it: a manifest, a base, and
//! increments of commands; and how it is written, so that a disk that fails loses nothing.
//!
//! Files are written through `tidewire-files` alone, and nothing here has a thread or a clock:
//! tests run it on a simulated disk.

#![forbid(unsafe_code)]

mod commands;
pub use commands::{CommandReader, LogError, Next};

mod folder;
pub use folder::LogFolder;

pub mod fuzzing;

mod manifest;
pub use manifest::{LogFile, Manifest, ManifestError};

mod save_points;
pub use save_points::SavePoints;

mod writer;
pub use writer::{LogWriter, Source, SyncJob};
