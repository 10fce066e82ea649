//! Writes logged changes to the last increment, and makes them durable.
//!
//! **A write that fails** leaves the file as it was before, and what was to be written stays to be
//! written: the file always ends where a unit of commands ends.
//!
//! **An fsync that fails** may have dropped what it had to write, and the next one says nothing of
//! that. So what was written since the last good fsync is kept in memory, and written once more, to
//! the same place, before the next one: a process that is killed meanwhile finds its file whole. If
//! more was written than is kept, only a new base makes the log durable again: the log is in doubt
//! until then.

use std::io;

use tidewire_files::{AppendFile, Syncer};

/// What is to be written: bytes by offset, in units that belong together.
pub(crate) trait LogSource {
    /// Adds at most about `bytes_max` bytes from an offset on to `out`. Returns the offset behind
    /// them; `Err` is the oldest offset that is kept, if that is a later one.
    fn read(&self, from: u64, bytes_max: usize, out: &mut Vec<u8>) -> Result<u64, u64>;
}

/// The end of an append-only file, where it grows.
#[derive(Debug)]
pub(crate) struct LogWriter {
    file: AppendFile,
    /// The offset in the source that is written next.
    at: u64,
    unsynced: Unsynced,
    /// Of increments before this one.
    retired: Vec<Unsynced>,
    /// What is written is kept until it is durable.
    keeps: bool,
    in_doubt: bool,
}

/// A part of a file that no fsync has covered.
#[derive(Debug)]
struct Unsynced {
    syncer: Syncer,
    /// Where it begins in the file.
    from: u64,
    bytes: Vec<u8>,
    /// All of it is in `bytes`.
    is_kept: bool,
    /// An fsync of it has failed: it is written again before the next one.
    has_failed: bool,
}

/// An fsync that is due: run without the writer, which may go on writing.
#[derive(Debug)]
pub(crate) struct SyncJob {
    parts: Vec<Unsynced>,
    at: u64,
}

impl LogWriter {
    /// Writes to `file` what the source has from `at` on.
    pub(crate) fn new(file: AppendFile, at: u64) -> Self {
        Self {
            unsynced: Unsynced::after(&file),
            file,
            at,
            retired: Vec::new(),
            keeps: true,
            in_doubt: false,
        }
    }

    /// The offset in the source that is written next: all before it is in the file.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The name of the file, and its bytes.
    pub(crate) fn file(&self) -> (String, u64) {
        let name = self.file.path().file_name().unwrap_or_default();
        (name.to_string_lossy().into_owned(), self.file.length())
    }

    /// Bytes of the file.
    #[cfg(test)]
    pub(crate) fn length(&self) -> u64 {
        self.file.length()
    }

    /// Whether an fsync has failed and only a new base makes the log durable again.
    pub(crate) fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Whether what is written is kept until it is durable: not where no fsync is waited for.
    pub(crate) fn set_keeping(&mut self, keeps: bool) {
        self.keeps = keeps;
    }

    /// Writes until an offset at which a unit ends, with `note` before it: all of it, or nothing.
    /// Returns how many bytes were written.
    ///
    /// # Errors
    ///
    /// If the disk does not take it. The file is as it was.
    pub(crate) fn write(
        &mut self,
        source: &impl LogSource,
        end: u64,
        note: &[u8],
    ) -> io::Result<u64> {
        debug_assert!(self.at <= end, "what is in the file is not written again");
        let unwritten = end - self.at;
        let before = self.file.length();
        let kept = self.unsynced.bytes.len();
        self.unsynced.bytes.extend_from_slice(note);
        let mut written = kept;
        let mut at = self.at;
        loop {
            if self.unsynced.bytes.len() > written {
                let appended = self.file.append(&self.unsynced.bytes[written..]);
                if let Err(error) = appended {
                    self.file.cut(before);
                    self.unsynced.bytes.truncate(kept);
                    self.assert_invariants();
                    return Err(error);
                }
            }
            if !self.keeps || self.unsynced.bytes.len() > KEPT_BYTES_MAX {
                self.unsynced.drop_bytes();
            }
            written = self.unsynced.bytes.len();
            if at >= end {
                break;
            }
            let bytes_max = COPY_BYTES.min((end - at) as usize);
            match source.read(at, bytes_max, &mut self.unsynced.bytes) {
                Ok(next) => {
                    debug_assert!(next > at, "the source has all bytes before the end");
                    at = next;
                }
                Err(oldest) => {
                    // Only this writer trims the source. The next base has what is missing here.
                    debug_assert!(false, "commands before offset {oldest} are gone");
                    (at, self.in_doubt) = (oldest, true);
                }
            }
        }
        debug_assert_eq!(at, end, "it is written until where a unit ends");
        self.at = at;
        let grown = self.file.length() - before;
        debug_assert_eq!(
            grown,
            unwritten + note.len() as u64,
            "the file grows by what was to be written"
        );
        self.assert_invariants();
        Ok(grown)
    }

    /// Goes on in another file. The one before must be [mended](Self::mend), and then durable: were
    /// it torn, and the other one not, nothing could be loaded.
    pub(crate) fn switch(&mut self, file: AppendFile) {
        debug_assert!(
            !self.file.is_torn(),
            "a torn file would be followed by another"
        );
        debug_assert_ne!(
            file.path(),
            self.file.path(),
            "the next increment is another file"
        );
        let next = Unsynced::after(&file);
        self.retired
            .push(std::mem::replace(&mut self.unsynced, next));
        self.file = file;
        self.assert_invariants();
    }

    /// Begins an fsync of all that is written.
    pub(crate) fn begin_sync(&mut self) -> SyncJob {
        let next = Unsynced::after(&self.file);
        let mut parts = std::mem::take(&mut self.retired);
        parts.push(std::mem::replace(&mut self.unsynced, next));
        self.assert_invariants();
        SyncJob { parts, at: self.at }
    }

    /// An fsync has failed: the next try is to cover what was written since it began as well, of
    /// which it may have dropped some.
    pub(crate) fn extend_sync(&mut self, job: &mut SyncJob) {
        let newer = self.begin_sync();
        debug_assert!(
            job.at <= newer.at,
            "the next try covers all that the failed one did"
        );
        job.parts.extend(newer.parts);
        job.at = newer.at;
        job.parts.iter_mut().for_each(|part| part.has_failed = true);
        self.in_doubt |= job.parts.iter().any(|part| !part.is_kept);
    }

    /// A new base has taken the place of all increments before this one: they are needed no more,
    /// and nothing is in doubt. `job` is an fsync that has failed and is to be tried again.
    pub(crate) fn end_doubt(&mut self, job: Option<&mut SyncJob>) {
        self.in_doubt = false;
        self.retired.clear();
        if let Some(job) = job {
            let path = self.file.path();
            job.parts.retain(|part| part.syncer.path() == path);
            self.in_doubt = job.parts.iter().any(|part| !part.is_kept);
        }
        self.assert_invariants();
    }

    /// Cuts off what a failed write has left, if the disk lets it.
    ///
    /// # Errors
    ///
    /// As [`AppendFile::mend`].
    pub(crate) fn mend(&mut self) -> io::Result<()> {
        self.file.mend()
    }

    fn assert_invariants(&self) {
        let (own, length) = (&self.unsynced, self.file.length());
        debug_assert!(
            own.from <= length,
            "the part that no fsync has covered begins in the file"
        );
        debug_assert!(
            !own.is_kept || own.from + own.bytes.len() as u64 == length,
            "a part that is kept ends where the file ends"
        );
        debug_assert!(
            !own.has_failed,
            "a part whose fsync has failed belongs to a job"
        );
        debug_assert!(
            self.retired
                .iter()
                .all(|part| part.syncer.path() != self.file.path()),
            "the increments before this one are other files"
        );
    }
}

impl SyncJob {
    /// Waits for the disk. Returns the offset of the source before which all is on it.
    ///
    /// # Errors
    ///
    /// If the disk reports one. Then [`LogWriter::extend_sync`] comes before the next try.
    pub(crate) fn run(&mut self) -> io::Result<u64> {
        for part in &mut self.parts {
            if part.has_failed && part.is_kept {
                part.syncer.write_again(&part.bytes, part.from)?;
            }
        }
        for part in &self.parts {
            part.syncer.sync()?;
        }
        Ok(self.at)
    }
}

impl Unsynced {
    fn after(file: &AppendFile) -> Self {
        Self {
            syncer: file.syncer(),
            from: file.length(),
            bytes: Vec::new(),
            is_kept: true,
            has_failed: false,
        }
    }

    fn drop_bytes(&mut self) {
        self.is_kept &= self.bytes.is_empty();
        self.bytes.clear();
        self.bytes.shrink_to(COPY_BYTES * 2);
    }
}

/// Bytes that one call writes.
const COPY_BYTES: usize = 256 << 10;
/// Bytes that are kept until they are durable: more than a second of a busy server.
const KEPT_BYTES_MAX: usize = 32 << 20;
