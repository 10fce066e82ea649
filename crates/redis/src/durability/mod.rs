//! What outlives the process: snapshots (RDB files) and the append-only file.
//!
//! Nothing is saved unless it is asked for: by `save`, `appendonly`, or a command. The formats are
//! Redis's own. No process is forked: a thread walks the keys while the lanes go on
//! (`tidewire_keyspace::Snapshot`), another writes what changes to the append-only file.

mod append_only;
mod apply;
mod files;
mod loading;
pub(crate) mod log_files;
mod rewriting;
mod saving;
pub(crate) mod state;
mod tick;
mod writing;

use std::path::PathBuf;

use crate::durability::log_files::SavePoints;
pub(crate) use append_only::FileMark;
pub(crate) use loading::load_slowly;
pub(crate) use saving::dawdle;
pub use state::Durability;
pub(crate) use state::{Hold, LOADING_TEXT, Requested, SaveJob};

use crate::parameters::{DBFILENAME, DIR, SAVE};
use crate::server::Server;

/// Where files are: the parameter `dir`.
pub(crate) fn directory(server: &Server) -> PathBuf {
    PathBuf::from(server.parameters.read(DIR))
}

pub(crate) fn snapshot_path(server: &Server) -> PathBuf {
    directory(server).join(server.parameters.read(DBFILENAME))
}

/// When snapshots are taken by themselves.
fn save_points(server: &Server) -> SavePoints {
    SavePoints::parse(&server.parameters.read(SAVE))
}
