//! Files that grow at their end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Disk;
use crate::disk::Handle;

/// A file that grows by appending. Its length is always known, even after a failed write.
#[derive(Debug)]
pub struct AppendFile {
    disk: Disk,
    path: PathBuf,
    handle: Arc<Handle>,
    /// Bytes that belong to the file.
    length: u64,
    /// True while bytes of a failed write may follow `length`. They are cut off before the next
    /// write.
    is_torn: bool,
}

impl AppendFile {
    pub(crate) fn new(disk: Disk, path: PathBuf, handle: Handle) -> io::Result<Self> {
        Ok(Self {
            length: handle.length()?,
            disk,
            path,
            handle: Arc::new(handle),
            is_torn: false,
        })
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file's length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends all bytes, or none.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk does not accept the bytes. A partial write is cut off, now or
    /// before the next write. The caller may try again.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.mend()?;
        match self.handle.write_all(bytes) {
            Ok(()) => {
                self.length += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.cut(self.length);
                Err(error)
            }
        }
    }

    /// Drops all bytes after `length`. They are cut off now or before the next write.
    pub fn cut(&mut self, length: u64) {
        debug_assert!(length <= self.length, "cutting does not lengthen a file");
        self.length = length.min(self.length);
        self.is_torn = true;
        // If this fails, the next write tries again.
        let _ = self.mend();
    }

    /// Returns whether a failed write may have left bytes after the end.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Cuts off what a failed write left.
    ///
    /// # Errors
    ///
    /// Returns an error if that fails, or if the file is shorter than before: another program
    /// changed it.
    pub fn mend(&mut self) -> io::Result<()> {
        if !self.is_torn {
            return Ok(());
        }
        let found = self.handle.length()?;
        if found < self.length {
            let text = format!(
                "{} has {found} bytes and had {}: another program has changed it",
                self.path.display(),
                self.length
            );
            return Err(io::Error::other(text));
        }
        if found > self.length {
            self.handle.set_length(self.length)?;
        }
        self.is_torn = false;
        Ok(())
    }

    /// Returns a handle with which another thread can make the file durable.
    pub fn syncer(&self) -> Syncer {
        Syncer {
            disk: self.disk.clone(),
            path: self.path.clone(),
            handle: self.handle.clone(),
        }
    }

    /// Waits until the file is on the disk. After a failure see [`Syncer::sync`].
    ///
    /// # Errors
    ///
    /// Returns an error if the disk reports one.
    pub fn sync(&self) -> io::Result<()> {
        self.handle.sync()
    }
}

/// Makes a file durable while another thread appends to it.
#[derive(Clone, Debug)]
pub struct Syncer {
    disk: Disk,
    path: PathBuf,
    handle: Arc<Handle>,
}

impl Syncer {
    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until all appended bytes are on the disk.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk reports one. The system may have dropped what it could not
    /// write. A second fsync may then succeed without these bytes: [write them
    /// again](Self::write_again) first.
    pub fn sync(&self) -> io::Result<()> {
        self.handle.sync()
    }

    /// Writes bytes again at their old place, so that the next fsync has to write them. The file
    /// keeps its length, and readers see the same content meanwhile. Does nothing if the file was
    /// removed.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk does not accept them.
    pub fn write_again(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.disk.in_place(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            opened => opened?.write_at(bytes, offset),
        }
    }
}
