//! A small file in the hub's folder: the stream KEYS of this group had this message.
//!
//! NATS may lose the stream. A hub that starts without this file, and with an empty NATS, cannot
//! tell that from a group that begins.

use std::io::{self, Read};
use std::path::PathBuf;
use std::thread::JoinHandle;

use tidewire_files::Disk;
use tracing::{info, warn};

use crate::quorum::QuorumConfig;

/// Time from one write to the next, while messages come. What NATS loses of the messages since the
/// last write, this hub does not notice: with the time that a write takes it is less than 1 s.
const WRITE_NS: u64 = 250_000_000;
/// Time after which a write that has not ended is a fault.
const HANGS_NS: u64 = 5_000_000_000;
const LENGTH_MAX: u64 = 1_000;

#[derive(Debug)]
pub(super) struct Mark {
    disk: Disk,
    path: PathBuf,
    /// What the file says.
    written: u64,
    next_ns: u64,
    /// The write that goes on, and of which message. A disk that hangs must not hold up the lease.
    job: Option<(u64, JoinHandle<io::Result<()>>)>,
    /// Since when there was a message that is not noted.
    behind_ns: Option<u64>,
    /// Why the last write has failed.
    failure: Option<String>,
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
            behind_ns: None,
            failure: None,
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
        if self.job.as_ref().is_none_or(|(_, job)| job.is_finished()) {
            self.finish();
        }
        if message <= self.written {
            self.behind_ns = None;
            return;
        }
        self.behind_ns.get_or_insert(now_ns);
        let is_due = self.written == 0 && self.failure.is_none() || now_ns >= self.next_ns;
        if !is_due || self.job.is_some() {
            return;
        }
        self.next_ns = now_ns.saturating_add(WRITE_NS);
        let (disk, path) = (self.disk.clone(), self.path.clone());
        let job = std::thread::Builder::new()
            .name("keys-mark".to_owned())
            .spawn(move || disk.replace(&path, text(message).as_bytes()));
        match job {
            Ok(job) => self.job = Some((message, job)),
            Err(error) => self.failed(&error),
        }
    }

    /// Waits for a write that goes on.
    pub(super) fn finish(&mut self) {
        let Some((message, job)) = self.job.take() else {
            return;
        };
        match job.join() {
            Ok(Ok(())) => {
                if self.failure.take().is_some() {
                    info!("keys: it is noted again which message the stream has had");
                }
                // Younger messages wait for the next write.
                (self.written, self.behind_ns) = (message, None);
            }
            Ok(Err(error)) => self.failed(&error),
            Err(_) => self.failed(&io::Error::other("the thread that writes has ended")),
        }
    }

    /// Returns why the file is not what it should be: a write has failed, or hangs.
    pub(super) fn fault(&self, now_ns: u64) -> Option<String> {
        let path = self.path.display();
        let reason = match (&self.failure, self.behind_ns) {
            (Some(failure), _) => failure.as_str(),
            (None, Some(since_ns)) if now_ns.saturating_sub(since_ns) >= HANGS_NS => {
                "the disk does not answer"
            }
            (None, _) => return None,
        };
        Some(format!(
            "cannot write {path}: {reason}; if NATS loses messages now, this hub may not notice"
        ))
    }

    fn failed(&mut self, error: &io::Error) {
        if self.failure.is_none() {
            let path = self.path.display();
            warn!(%path, %error, "keys: it is not noted which message the stream has had");
        }
        self.failure = Some(error.to_string());
    }
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
    use tidewire_files::SimulatedDisk;

    use super::*;

    fn mark_on(disk: &Disk) -> Mark {
        Mark {
            disk: disk.clone(),
            path: PathBuf::from("keys-desk-main-a.mark"),
            written: 0,
            next_ns: 0,
            job: None,
            behind_ns: None,
            failure: None,
        }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_a_damaged_one_is_refused() {
        let disk = Disk::simulated(SimulatedDisk::new(1));
        let mark = || mark_on(&disk);
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

    /// 150 writes of the last ten seconds were lost, and hubs went on without them.
    #[test]
    fn a_mark_is_less_than_a_second_behind_what_was_acknowledged() {
        let disk = Disk::simulated(SimulatedDisk::new(2));
        let mut mark = mark_on(&disk);
        for turn in 0..100 {
            let now_ns = turn * 100_000_000;
            mark.note(1_000 + turn, now_ns);
            mark.finish();
            let noted = mark_on(&disk).read().unwrap();
            let behind_ns = (1_000 + turn - noted) * 100_000_000;
            assert!(behind_ns < 1_000_000_000, "{noted} at turn {turn}");
            assert_eq!(mark.fault(now_ns), None);
        }
    }

    /// A folder that was full took no mark any more, and only the log said so.
    #[test]
    fn a_mark_that_cannot_be_written_is_a_fault_until_it_can() {
        let simulated = SimulatedDisk::new(3);
        let disk = Disk::simulated(simulated.clone());
        let mut mark = mark_on(&disk);
        simulated.set_bytes_max(0);
        mark.note(7, 1);
        mark.finish();
        let fault = mark.fault(1).expect("a fault");
        assert!(fault.contains("keys-desk-main-a.mark"), "{fault}");
        // It is tried again, also if no further message comes.
        simulated.set_bytes_max(u64::MAX);
        mark.note(7, 2);
        assert!(mark.fault(2).is_some(), "not at once");
        mark.note(7, 1 + WRITE_NS);
        mark.finish();
        assert_eq!(mark.fault(1 + WRITE_NS), None);
        assert_eq!(mark_on(&disk).read(), Ok(7));
    }
}
