//! The folder of an append-only file.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tidewire_files::{AppendFile, Disk};

use super::manifest::ManifestError;
use super::{LogFile, Manifest};

/// Where the files of an append-only file are, and how they begin.
#[derive(Clone, Debug)]
pub(crate) struct LogFolder {
    disk: Disk,
    folder: PathBuf,
    prefix: String,
}

impl LogFolder {
    /// The files in `folder` whose names begin with `prefix`.
    pub(crate) fn new(disk: Disk, folder: PathBuf, prefix: String) -> Self {
        Self {
            disk,
            folder,
            prefix,
        }
    }

    /// Makes the folder if it is missing.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub(crate) fn make(&self) -> io::Result<()> {
        self.disk.make_folder(&self.folder)
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// What the names of its files begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Where a file of the manifest is.
    pub(crate) fn path_of(&self, file: &LogFile) -> PathBuf {
        self.folder.join(&file.name)
    }

    /// The manifest on the disk, if there is one.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is none.
    pub(crate) fn read_manifest(&self) -> io::Result<Option<Manifest>> {
        let mut bytes = Vec::new();
        match self.disk.read(&self.manifest_path()) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let broken = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let manifest = Manifest::parse(&bytes).map_err(broken)?;
        match manifest.leaves_room() {
            true => Ok(Some(manifest)),
            false => Err(broken(ManifestError::Format)),
        }
    }

    /// Replaces the manifest.
    ///
    /// # Errors
    ///
    /// If it cannot be made durable. Either manifest may be on the disk then: the files of both
    /// must stay as they are, but for the last increment of each, which may grow.
    pub(crate) fn write_manifest(&self, manifest: &Manifest) -> io::Result<()> {
        let text = manifest.text();
        // A server does not start with one that it cannot read.
        let read = Manifest::parse(text.as_bytes());
        assert!(
            matches!(read, Err(ManifestError::TooLong)) || read.as_ref() == Ok(manifest),
            "a manifest reads as it was written"
        );
        self.disk.replace(&self.manifest_path(), text.as_bytes())
    }

    /// Adds an increment that is empty to a manifest, and opens it. The manifest is to be written
    /// before the increment.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub(crate) fn add_increment(&self, manifest: &mut Manifest) -> io::Result<AppendFile> {
        let name = manifest.add_increment(&self.prefix, |name| self.is_free(name));
        self.disk.append(&self.folder.join(name))
    }

    /// The name that the next base will have.
    pub(crate) fn next_base(&self, manifest: &Manifest) -> LogFile {
        manifest.next_base(&self.prefix, |name| self.is_free(name))
    }

    /// Opens the last increment to go on with it; one is added if there is none. What is in all
    /// of them is on the disk then: a process that was killed may not have waited for that.
    ///
    /// # Errors
    ///
    /// If it cannot be opened or made durable, or the manifest not be written.
    pub(crate) fn open_last(&self, manifest: &mut Manifest) -> io::Result<AppendFile> {
        let mut last = None;
        for increment in &manifest.increments {
            let file = self.disk.append(&self.path_of(increment))?;
            file.sync()?;
            last = Some(file);
        }
        if let Some(last) = last {
            debug_assert_eq!(
                Some(last.path()),
                manifest
                    .increments
                    .last()
                    .map(|file| self.path_of(file))
                    .as_deref(),
                "the last increment is the one that grows"
            );
            // The manifest too: it may have been renamed, and the folder not made durable.
            self.disk.sync_folder_of(&self.manifest_path())?;
            return Ok(last);
        }
        let file = self.add_increment(manifest)?;
        self.write_manifest(manifest)?;
        Ok(file)
    }

    /// Puts a new base in the place of the one before and of all increments but the last: the
    /// manifest first, then the files that it does not need any more go.
    ///
    /// # Errors
    ///
    /// If the manifest cannot be written; see [`write_manifest`](Self::write_manifest).
    pub(crate) fn replace_base(&self, manifest: &mut Manifest, base: LogFile) -> io::Result<()> {
        manifest.replace_base(base);
        debug_assert!(
            manifest.base.is_some(),
            "there is a base in the place of the files that go"
        );
        self.write_manifest(manifest)?;
        for file in std::mem::take(&mut manifest.history) {
            let _ = self.disk.remove(&self.path_of(&file));
        }
        // What it says of files that are gone does no harm until the next time.
        let _ = self.write_manifest(manifest);
        Ok(())
    }

    /// Bytes of a manifest's base and increments.
    pub(crate) fn bytes_of(&self, manifest: &Manifest) -> u64 {
        let listed = manifest.base.iter().chain(&manifest.increments);
        listed.filter_map(|file| self.length_of(file).ok()).sum()
    }

    /// The length of a file of the manifest, bytes.
    ///
    /// # Errors
    ///
    /// If it is not there.
    pub(crate) fn length_of(&self, file: &LogFile) -> io::Result<u64> {
        self.disk.length(&self.path_of(file))
    }

    fn is_free(&self, name: &str) -> bool {
        !self.disk.has(&self.folder.join(name))
    }

    fn manifest_path(&self) -> PathBuf {
        self.folder.join(format!("{}.manifest", self.prefix))
    }
}
