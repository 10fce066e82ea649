//! What an append-only file consists of, as Redis 7 and later have it: a manifest, a base, and
//! increments of commands. Nothing here reads or writes a file.

#![forbid(unsafe_code)]

mod commands;
pub use commands::{CommandReader, LogError, Next};

pub mod fuzzing;

mod manifest;
pub use manifest::{LogFile, Manifest, ManifestError};

mod save_points;
pub use save_points::SavePoints;
