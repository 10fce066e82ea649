//! Files that are whole or not there: written under another name, made durable, then renamed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidewire_keyspace::SnapshotOptions;

use super::is_yes;
use crate::hub::{Hub, unix_ms};
use crate::session::resp::REDIS_VERSION;

/// A file in the making; removed unless it is finished.
#[derive(Debug)]
pub(super) struct NewFile {
    file: File,
    path: PathBuf,
    target: PathBuf,
    unsynced: usize,
    written: u64,
    syncs_often: bool,
}

impl NewFile {
    /// Begins a file that will replace `target`; `name` says what it is called until then.
    pub(super) fn create(target: &Path, name: &str, syncs_often: bool) -> io::Result<Self> {
        let path = target.with_file_name(name);
        let file = File::create(&path)?;
        Ok(NewFile {
            file,
            path,
            target: target.to_path_buf(),
            unsynced: 0,
            written: 0,
            syncs_often,
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        self.unsynced += bytes.len();
        if self.syncs_often && self.unsynced >= SYNC_BYTES {
            // So that the disk works all the time, not all at once at the end.
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Makes it durable and puts it in its place; returns its length.
    pub(super) fn finish(self) -> io::Result<u64> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        sync_directory(&self.target)?;
        Ok(self.written)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // Renamed, it is not there under this name.
        let _ = fs::remove_file(&self.path);
    }
}

/// Replaces a small file.
pub(super) fn replace(target: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(target, name, false)?;
    file.write(bytes)?;
    file.finish().map(|_| ())
}

/// Makes the names in a file's folder durable.
pub(super) fn sync_directory(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// How a snapshot of this hub is written.
pub(super) fn snapshot_options(hub: &Hub, is_base: bool) -> SnapshotOptions {
    let set = hub.scripting.libraries.current();
    let aux = [
        ("redis-ver", REDIS_VERSION.to_owned()),
        ("redis-bits", usize::BITS.to_string()),
        ("ctime", (unix_ms() / 1_000).to_string()),
        ("used-mem", crate::memory::resident_bytes().to_string()),
        ("aof-base", u8::from(is_base).to_string()),
    ];
    SnapshotOptions {
        compresses: is_yes(hub, "rdbcompression"),
        checks: is_yes(hub, "rdbchecksum"),
        aux: aux.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        libraries: set
            .libraries()
            .map(|library| library.code.to_vec())
            .collect(),
        usage: hub.parameters.told_usage(),
        now_ms: unix_ms(),
    }
}

/// After so many bytes the disk is waited for.
const SYNC_BYTES: usize = 32 << 20;
