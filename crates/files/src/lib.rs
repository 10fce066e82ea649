//! Every file that the program writes goes through here.
//!
//! Two kinds of file are enough. An [`AppendFile`] grows at its end: after a write that failed, its
//! length is what it was before, or nothing more is written to it. A [`WholeFile`] replaces another
//! one, whole or not at all. A [`Disk`] is the system's, or a [`SimulatedDisk`] in memory that
//! fails as its seed says: short writes, no space, I/O errors, an fsync that fails and forgets what
//! it had to write, and crashes of the process or of the machine.

#![forbid(unsafe_code)]

mod append;
pub use append::{AppendFile, Syncer};

mod disk;
pub use disk::Disk;

mod lock;
pub use lock::{DirectoryLock, FileLock};

mod simulated;
pub use simulated::{FaultRates, SimulatedDisk};

mod whole;
pub use whole::{WholeFile, remove_stale};
