//! A small file in the hub's folder: the stream KEYS of this group had this message.
//!
//! NATS may lose the stream. A hub that starts without this file, and with an empty NATS, cannot
//! tell that from a group that begins.

use std::io::{self, Read};
use std::path::PathBuf;
use std::thread::JoinHandle;

use tidewire_files::Disk;
use tracing::warn;

use crate::quorum::QuorumConfig;

/// Time from one write to the next. The file says at least that there were messages.
const WRITE_NS: u64 = 10_000_000_000;
const LENGTH_MAX: u64 = 1_000;

#[derive(Debug)]
pub(super) struct Mark {
    disk: Disk,
    path: PathBuf,
    written: u64,
    next_ns: u64,
    /// A disk that hangs must not hold up the lease.
    job: Option<JoinHandle<io::Result<()>>>,
    has_warned: bool,
}

impl Mark {
    pub(super) fn new(disk: Disk, folder: PathBuf, config: &QuorumConfig) -> Mark {
        let (cluster, group, hub) = (&config.cluster, &config.group, &config.hub);
        Mark {
            disk,
            path: folder.join(format!("keys-{cluster}-{group}-{hub}.mark")),
            written: 0,
            next_ns: 0,
            job: None,
            has_warned: false,
        }
    }

    /// Returns the message that the file names, 0 if there is no file.
    pub(super) fn read(&mut self) -> Result<u64, String> {
        let unreadable = |reason: &str| {
            let path = self.path.display();
            format!(
                "cannot read {path}, which says whether the group has had keys: {reason}; remove \
                 it if the stream of the keys is complete"
            )
        };
        let mut text = String::new();
        match self.disk.read(&self.path) {
            Ok(file) => {
                let mut file = file.take(LENGTH_MAX);
                let read = file.read_to_string(&mut text);
                read.map_err(|error| unreadable(&error.to_string()))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(unreadable(&error.to_string())),
        }
        self.written = parse(&text).ok_or_else(|| unreadable("no line with a message's number"))?;
        Ok(self.written)
    }

    /// Notes the last message that is known, from time to time.
    pub(super) fn note(&mut self, message: u64, now_ns: u64) {
        let is_due = self.written == 0 || now_ns >= self.next_ns;
        if message <= self.written || !is_due || self.job.as_ref().is_some_and(is_running) {
            return;
        }
        self.finish();
        self.next_ns = now_ns.saturating_add(WRITE_NS);
        self.written = message;
        let (disk, path) = (self.disk.clone(), self.path.clone());
        let job = std::thread::Builder::new()
            .name("keys-mark".to_owned())
            .spawn(move || disk.replace(&path, text(message).as_bytes()));
        match job {
            Ok(job) => self.job = Some(job),
            Err(error) => self.warn(&error),
        }
    }

    /// Waits for a write that goes on.
    pub(super) fn finish(&mut self) {
        if let Some(Ok(Err(error))) = self.job.take().map(JoinHandle::join) {
            self.warn(&error);
        }
    }

    fn warn(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.has_warned, true) {
            let path = self.path.display();
            warn!(%path, %error, "keys: it is not noted that the group has keys");
        }
    }
}

fn is_running<T>(job: &JoinHandle<T>) -> bool {
    !job.is_finished()
}

fn text(message: u64) -> String {
    format!("the stream of the keys has had message {message}\n")
}

fn parse(text: &str) -> Option<u64> {
    let number = text.strip_prefix("the stream of the keys has had message ")?;
    number.strip_suffix('\n')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_a_damaged_one_is_refused() {
        let disk = Disk::simulated(tidewire_files::SimulatedDisk::new(1));
        let mark = || Mark {
            disk: disk.clone(),
            path: PathBuf::from("keys-desk-main-a.mark"),
            written: 0,
            next_ns: 0,
            job: None,
            has_warned: false,
        };
        assert_eq!(mark().read(), Ok(0));
        let mut first = mark();
        first.note(17_000_000_000_001, 5);
        first.finish();
        assert_eq!(mark().read(), Ok(17_000_000_000_001));
        // Not each message is a write.
        first.note(17_000_000_000_002, 6);
        first.finish();
        assert_eq!(mark().read(), Ok(17_000_000_000_001));
        first.note(17_000_000_000_003, 5 + WRITE_NS);
        first.finish();
        assert_eq!(mark().read(), Ok(17_000_000_000_003));
        for damaged in ["", "the stream of the keys has had message 17", "x\n"] {
            disk.replace(&mark().path, damaged.as_bytes()).unwrap();
            let error = mark().read().unwrap_err();
            assert!(error.contains("keys-desk-main-a.mark"), "{error}");
        }
    }
}
