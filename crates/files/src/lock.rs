//! A lock that limits a directory to one server.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A directory that belongs to this process until this value is dropped or the process ends.
#[derive(Debug)]
pub struct DirectoryLock {
    directory: PathBuf,
    /// The directory itself, where its file system can lock it. This needs no disk space.
    _folder: Option<File>,
    /// A file in the directory that holds the process id of the lock's owner.
    _file: Option<File>,
}

impl DirectoryLock {
    /// Locks a directory.
    ///
    /// # Errors
    ///
    /// Returns `ResourceBusy` with a text that names the process if another process holds the lock,
    /// or the reason why the lock cannot be taken.
    pub fn take(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        let folder = match File::open(directory) {
            Ok(folder) => try_lock(folder).map_err(|error| named(directory, &path, error))?,
            Err(error) => return Err(error),
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = match options.open(&path) {
            Ok(file) => try_lock(file).map_err(|error| named(directory, &path, error))?,
            // The disk is full or read-only: the directory's own lock is enough.
            Err(_) if folder.is_some() => None,
            Err(error) => return Err(error),
        };
        if folder.is_none() && file.is_none() {
            let text = format!("{}: its file system has no locks", path.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        if let Some(file) = &file {
            // Fixed length: it overwrites the old text in place, which works on a full disk too.
            let text = format!("{:>10}\n", std::process::id());
            let _ = file.write_all_at(text.as_bytes(), 0);
        }
        Ok(Self {
            directory: directory.to_path_buf(),
            _folder: folder,
            _file: file,
        })
    }

    /// Returns the lock of a directory that no other process can see.
    pub(crate) fn simulated(directory: &Path) -> Self {
        Self {
            directory: directory.to_path_buf(),
            _folder: None,
            _file: None,
        }
    }

    /// Returns the locked directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// A file that no other process writes until this value is dropped.
#[derive(Debug)]
pub struct FileLock(#[allow(dead_code, reason = "the lock ends with it")] Option<File>);

impl FileLock {
    /// Locks a file, and creates it if it is missing. Locks nothing if the file system has no
    /// locks.
    ///
    /// # Errors
    ///
    /// Returns `ResourceBusy` if another process holds the lock, or the reason why the file cannot
    /// be opened.
    pub fn take(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path)?;
        match try_lock(file) {
            Ok(locked) => Ok(Self(locked)),
            Err(_) => {
                let text = format!("'{}' is in use by another process", path.display());
                Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
            }
        }
    }
}

/// Locks a file; returns `None` if its file system has no locks.
fn try_lock(file: File) -> Result<Option<File>, Errno> {
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Err(Errno::WOULDBLOCK),
        Err(_) => Ok(None),
    }
}

fn named(directory: &Path, path: &Path, error: Errno) -> io::Error {
    if error != Errno::WOULDBLOCK {
        return error.into();
    }
    let mut text = String::new();
    let read = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    let holder = match read.ok().and_then(|_| text.trim().parse::<u32>().ok()) {
        Some(pid) => format!("the server with PID {pid}"),
        None => "another server".to_owned(),
    };
    let text = format!(
        "directory '{}' is in use by {holder}; stop it or choose another --dir",
        directory.display()
    );
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

const NAME: &str = "tidewire.lock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_of_a_directory_fails_and_names_its_holder() {
        let folder = std::env::temp_dir().join(format!("tidewire-lock-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let held = DirectoryLock::take(&folder).unwrap();
        let refused = DirectoryLock::take(&folder).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        let text = refused.to_string();
        let pid = std::process::id();
        assert!(text.contains(&format!("PID {pid};")), "{text}");
        assert!(text.contains(&folder.display().to_string()), "{text}");
        drop(held);
        DirectoryLock::take(&folder).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }
}
