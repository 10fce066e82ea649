//! Files that a command creates.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Creates a file, or opens a device or pipe. An existing regular file is an error, so that a wrong
/// name does not destroy its content.
pub(crate) fn new_file(path: &Path) -> Result<File> {
    let is_taken = fs::metadata(path).is_ok_and(|known| known.is_file());
    if is_taken {
        let text = "it exists already; remove it or choose another name";
        return Err(Error::new(ErrorKind::AlreadyExists, text));
    }
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}
