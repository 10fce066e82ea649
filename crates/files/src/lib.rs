//! Every file that the program writes, and reading of those that others may replace.
//!
//! There are two kinds of file. An [`AppendFile`] grows at its end: after a failed write, it has
//! its previous length, or is not written any more. A [`WholeFile`] replaces another file
//! atomically. A [`Disk`] is the system's, or a [`SimulatedDisk`] in memory with faults from a
//! seed: short writes, no space, I/O errors, an fsync that fails and loses data, and crashes of the
//! process or the machine.

#![forbid(unsafe_code)]

mod append;
mod bounded;
pub use append::{AppendFile, Syncer};
pub use bounded::read_bounded;

mod disk;
pub use disk::Disk;

mod lock;
pub use lock::{DirectoryLock, FileLock};

mod simulated;
pub use simulated::{FaultRates, SimulatedDisk};

mod whole;
pub use whole::{WholeFile, remove_stale};
