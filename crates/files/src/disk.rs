//! Where files are: on the system's disk, or on a simulated one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::simulated::{OpenFile, SimulatedDisk};
use crate::{AppendFile, DirectoryLock, WholeFile};

/// A disk with folders and files. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Disk(Kind);

#[derive(Clone, Debug, Default)]
enum Kind {
    #[default]
    System,
    Simulated(Arc<SimulatedDisk>),
}

impl Disk {
    /// Returns a disk that exists only in memory, with configurable faults.
    pub fn simulated(disk: Arc<SimulatedDisk>) -> Self {
        Self(Kind::Simulated(disk))
    }

    pub(crate) fn as_simulated(&self) -> Option<&Arc<SimulatedDisk>> {
        match &self.0 {
            Kind::System => None,
            Kind::Simulated(disk) => Some(disk),
        }
    }

    /// Opens a file to append to it; it is created if it is missing.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be opened.
    pub fn append(&self, path: &Path) -> io::Result<AppendFile> {
        let handle = match &self.0 {
            Kind::System => {
                let mut options = OpenOptions::new();
                Handle::System(options.create(true).read(true).append(true).open(path)?)
            }
            Kind::Simulated(disk) => Handle::Simulated(disk.open(path, true)?),
        };
        AppendFile::new(self.clone(), path.to_path_buf(), handle)
    }

    /// Creates a file that will replace `target`. Until then, its name contains `label` and ends in
    /// `kind`.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be created.
    pub fn whole(&self, target: &Path, label: &str, kind: &str) -> io::Result<WholeFile> {
        WholeFile::create(self.clone(), target, label, kind)
    }

    /// Replaces a small file atomically.
    ///
    /// # Errors
    ///
    /// Returns an error if the new file cannot be written; the old file stays.
    pub fn replace(&self, target: &Path, bytes: &[u8]) -> io::Result<()> {
        let label = target.file_name().unwrap_or_default().to_string_lossy();
        let mut file = self.whole(target, &label, "tmp")?;
        file.write(bytes)?;
        file.finish().map(|_| ())
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be opened.
    pub fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(match &self.0 {
            Kind::System => Box::new(File::open(path)?),
            Kind::Simulated(disk) => Box::new(io::Cursor::new(disk.contents(path)?)),
        })
    }

    /// Returns the length of a file in bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such file.
    pub fn length(&self, path: &Path) -> io::Result<u64> {
        match &self.0 {
            Kind::System => fs::metadata(path).map(|metadata| metadata.len()),
            Kind::Simulated(disk) => disk.contents(path).map(|bytes| bytes.len() as u64),
        }
    }

    /// Returns whether a file or a folder has this name.
    pub fn has(&self, path: &Path) -> bool {
        self.length(path).is_ok()
    }

    /// Returns whether a file (not a folder) has this name.
    pub fn has_file(&self, path: &Path) -> bool {
        match &self.0 {
            Kind::System => path.is_file(),
            Kind::Simulated(_) => self.has(path),
        }
    }

    /// Returns a folder's path without symbolic links, if the folder exists.
    pub fn canonical(&self, path: PathBuf) -> PathBuf {
        match &self.0 {
            Kind::System => path.canonicalize().unwrap_or(path),
            Kind::Simulated(_) => path,
        }
    }

    /// Locks a folder for this process, as [`DirectoryLock::take`] does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`DirectoryLock::take`]. A simulated disk has one process and never
    /// fails here.
    pub fn lock_folder(&self, path: &Path) -> io::Result<DirectoryLock> {
        match &self.0 {
            Kind::System => DirectoryLock::take(path),
            Kind::Simulated(_) => Ok(DirectoryLock::simulated(path)),
        }
    }

    /// Creates a folder and its missing parents.
    ///
    /// # Errors
    ///
    /// Returns an error if a folder cannot be created.
    pub fn make_folder(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::System => fs::create_dir_all(path),
            Kind::Simulated(_) => Ok(()),
        }
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be removed.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::System => fs::remove_file(path),
            Kind::Simulated(disk) => disk.remove(path),
        }
    }

    /// Renames a file; a file with the new name is replaced.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be renamed.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::System => fs::rename(from, to),
            Kind::Simulated(disk) => disk.rename(from, to),
        }
    }

    /// Makes the names in the folder of a file durable.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk does not accept them.
    pub fn sync_folder_of(&self, file: &Path) -> io::Result<()> {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        match &self.0 {
            Kind::System => File::open(folder)?.sync_all(),
            Kind::Simulated(disk) => disk.sync_folder(folder),
        }
    }

    /// Returns the names of the files in a folder; none if the folder does not exist.
    pub(crate) fn names(&self, folder: &Path) -> Vec<PathBuf> {
        match &self.0 {
            Kind::System => {
                let entries = fs::read_dir(folder).into_iter().flatten().flatten();
                entries.map(|entry| entry.path()).collect()
            }
            Kind::Simulated(disk) => disk.names(folder),
        }
    }

    /// Creates a file, or truncates an existing one.
    pub(crate) fn create(&self, path: &Path) -> io::Result<Handle> {
        Ok(match &self.0 {
            Kind::System => Handle::System(File::create(path)?),
            Kind::Simulated(disk) => {
                let file = disk.open(path, true)?;
                file.set_length(0)?;
                Handle::Simulated(file)
            }
        })
    }

    /// Opens an existing file for writing in the middle.
    pub(crate) fn in_place(&self, path: &Path) -> io::Result<Handle> {
        Ok(match &self.0 {
            Kind::System => Handle::System(OpenOptions::new().write(true).open(path)?),
            Kind::Simulated(disk) => Handle::Simulated(disk.open(path, false)?),
        })
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) enum Handle {
    System(File),
    Simulated(OpenFile),
}

impl Handle {
    /// Writes at the end, or where the last write ended. Returns the number of bytes written.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Handle::System(file) => (&*file).write(bytes),
            Handle::Simulated(file) => file.append(bytes),
        }
    }

    pub(crate) fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Overwrites existing bytes.
    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Handle::System(file) => file.write_all_at(bytes, offset),
            Handle::Simulated(file) => file.write_at(bytes, offset),
        }
    }

    pub(crate) fn set_length(&self, length: u64) -> io::Result<()> {
        match self {
            Handle::System(file) => file.set_len(length),
            Handle::Simulated(file) => file.set_length(length),
        }
    }

    pub(crate) fn length(&self) -> io::Result<u64> {
        match self {
            Handle::System(file) => file.metadata().map(|metadata| metadata.len()),
            Handle::Simulated(file) => Ok(file.length()),
        }
    }

    /// Waits until the contents are on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        match self {
            Handle::System(file) => file.sync_data(),
            Handle::Simulated(file) => file.sync(),
        }
    }
}
