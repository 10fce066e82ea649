//! Files that appear complete or not at all: written under another name, made durable, then
//! renamed.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::process::{Pid, test_kill_process};

use crate::Disk;
use crate::disk::Handle;

/// A file being written. Dropping it removes the file, unless it is [finished](Self::finish).
#[derive(Debug)]
pub struct WholeFile {
    disk: Disk,
    handle: Handle,
    path: PathBuf,
    number: u64,
    target: PathBuf,
    unsynced: usize,
    written: u64,
    syncs_often: bool,
    is_placed: bool,
}

impl WholeFile {
    pub(crate) fn create(disk: Disk, target: &Path, label: &str, kind: &str) -> io::Result<Self> {
        let (pid, number) = begin(&disk);
        let dash = if label.is_empty() { "" } else { "-" };
        let path = target.with_file_name(format!("temp-{label}{dash}{pid}-{number}.{kind}"));
        let handle = disk.create(&path);
        let handle = handle.inspect_err(|_| forget(&disk, number))?;
        Ok(Self {
            disk,
            handle,
            path,
            number,
            target: target.to_path_buf(),
            unsynced: 0,
            written: 0,
            syncs_often: false,
            is_placed: false,
        })
    }

    /// Makes writes start syncing every 32 MiB, to spread the disk's work over time.
    #[must_use]
    pub fn syncing_often(mut self, on: bool) -> Self {
        self.syncs_often = on;
        self
    }

    /// Appends bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk does not accept them. The file is then unusable.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.handle.write_all(bytes)?;
        self.written += bytes.len() as u64;
        self.unsynced += bytes.len();
        if self.syncs_often && self.unsynced >= SYNC_BYTES {
            self.handle.sync()?;
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Opens what was written so far, from the first byte, even if the file was removed.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be opened.
    pub fn read_back(&self) -> io::Result<Box<dyn Read + Send>> {
        self.disk.read(&self.path)
    }

    /// Makes the file durable and renames it to its target. Returns its length in bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be made durable or renamed: the old file stays. It also
    /// returns an error if only the new name could not be made durable. The new file is then in
    /// place, but the caller must rely on neither.
    pub fn finish(mut self) -> io::Result<u64> {
        self.handle.sync()?;
        self.disk.rename(&self.path, &self.target)?;
        self.is_placed = true;
        self.disk.sync_folder_of(&self.target)?;
        Ok(self.written)
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = self.disk.remove(&self.path);
        }
        forget(&self.disk, self.number);
    }
}

/// Removes unfinished files of ended processes from a folder, or only those of `target` if it is
/// given. Returns how many were removed. Files that this process is writing stay.
pub fn remove_stale(disk: &Disk, folder: &Path, target: Option<&str>) -> usize {
    let is_stale = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.and_then(parse).is_some_and(|(label, pid, number)| {
            target.is_none_or(|target| target == label) && !is_written(disk, pid, number)
        })
    };
    let stale = disk.names(folder).into_iter().filter(is_stale);
    stale.filter(|path| disk.remove(path).is_ok()).count()
}

/// Parses label, process id and number from an unfinished file's name.
fn parse(name: &str) -> Option<(&str, u32, u64)> {
    let (stem, kind) = name.strip_prefix("temp-")?.rsplit_once('.')?;
    if !["rdb", "aof", "tmp"].contains(&kind) {
        return None;
    }
    let (rest, number) = stem.rsplit_once('-')?;
    let number = number.parse().ok()?;
    let (label, pid) = rest.rsplit_once('-').unwrap_or(("", rest));
    Some((label, pid.parse().ok()?, number))
}

/// Returns process id and number for a new file's name. Numbers are unique in a process, and the
/// process id separates processes. A simulated disk has its own numbers, so that a simulation does
/// not depend on earlier ones.
fn begin(disk: &Disk) -> (u32, u64) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    if let Some(disk) = disk.as_simulated() {
        return (SIMULATED_PROCESS, disk.begin_whole());
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    BEGUN.lock().push(number);
    (std::process::id(), number)
}

/// Returns whether a process may still be writing this file. In a container, an earlier process may
/// have had our process id.
fn is_written(disk: &Disk, pid: u32, number: u64) -> bool {
    if let Some(disk) = disk.as_simulated() {
        return disk.writes_whole(number);
    }
    if pid == std::process::id() {
        return BEGUN.lock().contains(&number);
    }
    let other = i32::try_from(pid).ok().and_then(Pid::from_raw);
    other.is_some_and(|pid| {
        let tested = test_kill_process(pid);
        !matches!(tested, Err(rustix::io::Errno::SRCH))
    })
}

fn forget(disk: &Disk, number: u64) {
    if let Some(disk) = disk.as_simulated() {
        return disk.end_whole(number);
    }
    BEGUN.lock().retain(|one| *one != number);
}

/// Numbers of the unfinished files of this process.
static BEGUN: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Process id in file names on a simulated disk.
const SIMULATED_PROCESS: u32 = 1;
const SYNC_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_ended_processes_are_removed() {
        let folder = std::env::temp_dir().join(format!("tidewire-stale-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // PID 1 is running; a number above the largest PID belongs to no process.
        let own = std::process::id();
        let stale = [
            "temp-4194999-0.rdb".to_owned(),
            "temp-rewriteaof-bg-4194999-7.aof".to_owned(),
            "temp-users.acl-4194999-1.tmp".to_owned(),
            format!("temp-{own}-99.rdb"),
        ];
        let others = [
            "temp-1-0.rdb",
            "temp-x-0.rdb",
            "temp-4194999.rdb",
            "dump.rdb",
            "temp-a-b.tmp",
        ];
        for name in stale.iter().map(String::as_str).chain(others) {
            std::fs::write(folder.join(name), "x").unwrap();
        }
        assert_eq!(
            remove_stale(&Disk::default(), &folder, Some("users.acl")),
            1
        );
        assert_eq!(remove_stale(&Disk::default(), &folder, None), 3);
        let left = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(left, others.len());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn two_unfinished_files_for_one_target_have_different_names() {
        let folder = std::env::temp_dir().join(format!("tidewire-whole-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (disk, target) = (Disk::default(), folder.join("dump.rdb"));
        let mut one = disk.whole(&target, "", "rdb").unwrap();
        let mut other = disk.whole(&target, "", "rdb").unwrap();
        one.write(b"one").unwrap();
        let mut read = Vec::new();
        one.read_back().unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, b"one");
        // Both are still being written.
        assert_eq!(remove_stale(&disk, &folder, None), 0);
        other.write(b"other").unwrap();
        assert_eq!(one.finish().unwrap(), 3);
        drop(disk.whole(&target, "", "rdb").unwrap());
        assert_eq!(other.finish().unwrap(), 5);
        assert_eq!(std::fs::read(&target).unwrap(), b"other");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
