//! Files that are whole or not there: written under another name, made durable, then renamed.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::process::{Pid, test_kill_process};

use crate::Disk;
use crate::disk::Handle;

/// A file in the making. It is removed unless it is [finished](Self::finish).
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

    /// Waits for the disk every 32 MiB, so that it works all the time and not all at once.
    #[must_use]
    pub fn syncing_often(mut self, on: bool) -> Self {
        self.syncs_often = on;
        self
    }

    /// Appends to it.
    ///
    /// # Errors
    ///
    /// If the disk does not take it: the file is of no use any more.
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

    /// Reads what was written so far, from its first byte; also once the file is removed.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn read_back(&self) -> io::Result<Box<dyn Read + Send>> {
        self.disk.read(&self.path)
    }

    /// Makes it durable and puts it in its place; returns its length, bytes.
    ///
    /// # Errors
    ///
    /// If it cannot be made durable or renamed, the old file is in place. If only the new name
    /// could not be made durable, the new one is: the caller must not rely on either.
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

/// Removes what processes that have ended left of unfinished files in a folder; of one target alone
/// if it is named. Returns how many there were. Those that this process writes just now stay.
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

/// Label, process and number of an unfinished file's name.
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

/// The process and the number in a new file's name. No two files of a process have the same name,
/// and those of other processes have another process in it. A simulated disk has numbers of its
/// own: what a simulation does must not depend on those before it.
fn begin(disk: &Disk) -> (u32, u64) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    if let Some(disk) = disk.as_simulated() {
        return (SIMULATED_PROCESS, disk.begin_whole());
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    BEGUN.lock().push(number);
    (std::process::id(), number)
}

/// Whether a process may still write this file. In a container the process before had our number.
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

/// Numbers of the files that this process has begun and not ended.
static BEGUN: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// In the names on a simulated disk.
const SIMULATED_PROCESS: u32 = 1;
const SYNC_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_processes_that_have_ended_are_removed() {
        let folder = std::env::temp_dir().join(format!("tidewire-stale-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // Init runs; a number above the largest has no process.
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
    fn two_files_for_one_target_do_not_meet() {
        let folder = std::env::temp_dir().join(format!("tidewire-whole-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (disk, target) = (Disk::default(), folder.join("dump.rdb"));
        let mut one = disk.whole(&target, "", "rdb").unwrap();
        let mut other = disk.whole(&target, "", "rdb").unwrap();
        one.write(b"one").unwrap();
        let mut read = Vec::new();
        one.read_back().unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, b"one");
        // Both are being written.
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
