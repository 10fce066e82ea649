//! Files that grow at their end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Disk;
use crate::disk::Handle;

/// A file that is appended to: its length is always known, also after a write that failed.
#[derive(Debug)]
pub struct AppendFile {
    disk: Disk,
    path: PathBuf,
    handle: Arc<Handle>,
    /// Bytes that belong to the file.
    length: u64,
    /// Behind them may be bytes of a write that failed. Nothing is written before they are gone.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of it.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends all bytes, or none.
    ///
    /// # Errors
    ///
    /// If the disk does not take them: what was written of them is cut off, now or before the next
    /// write. The caller may try again.
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

    /// Gives up all bytes behind a length; they are cut off now or before the next write.
    pub fn cut(&mut self, length: u64) {
        debug_assert!(length <= self.length, "a file is not cut to be longer");
        self.length = length.min(self.length);
        self.is_torn = true;
        // If it fails now, the next write tries it again.
        let _ = self.mend();
    }

    /// Whether a failed write may have left something behind the end.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Cuts off what a failed write has left.
    ///
    /// # Errors
    ///
    /// If that fails, or the file has become shorter than it was: another program has changed it.
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

    /// A handle that makes the file durable, for another thread.
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
    /// If the disk reports one.
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
    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until all that was appended is on the disk.
    ///
    /// # Errors
    ///
    /// If the disk reports one. The system may have dropped what it could not write, and a second
    /// fsync that succeeds says nothing of it: [write it again](Self::write_again) first.
    pub fn sync(&self) -> io::Result<()> {
        self.handle.sync()
    }

    /// Writes bytes once more where they were written before: the next fsync has to write them.
    /// The file keeps its length, and no reader finds anything else in it meanwhile. A file that
    /// was removed needs nothing any more.
    ///
    /// # Errors
    ///
    /// If the disk does not take them.
    pub fn write_again(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.disk.in_place(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            opened => opened?.write_at(bytes, offset),
        }
    }
}
