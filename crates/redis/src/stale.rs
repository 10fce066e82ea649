//! What processes that have ended left of writing one file.

use std::path::Path;

use tidewire_files::{Disk, remove_stale};

/// Removes what processes that have ended left of writing one file.
pub(crate) fn remove_stale_of(path: &Path) {
    let label = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(folder) = path.parent() {
        remove_stale(&Disk::default(), folder, Some(&label));
    }
}
