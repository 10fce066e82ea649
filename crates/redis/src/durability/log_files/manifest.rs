//! The manifest: which files make up the append-only file, in which order.
//!
//! ```text
//! file appendonly.aof.2.base.rdb seq 2 type b      all keys at one moment; at most one
//! file appendonly.aof.4.incr.aof seq 4 type i      the commands since then, in files that follow
//! file appendonly.aof.5.incr.aof seq 5 type i      each other
//! file appendonly.aof.1.base.rdb seq 1 type h      not needed any more, and not removed yet
//! ```
//!
//! An increment with `unsynced N` at the end of its line has N bytes, of which the disk may have
//! fewer after a failure of the machine. Redis ignores what it does not know.

use crate::redis_conf::{quoted, split};

/// The files of an append-only file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// All keys at one moment.
    pub(crate) base: Option<LogFile>,
    /// Commands since then, in their order; the last one grows.
    pub(crate) increments: Vec<LogFile>,
    /// Files that are not needed any more.
    pub(crate) history: Vec<LogFile>,
}

/// A file of a manifest, in the same folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFile {
    /// Its name, no path.
    pub(crate) name: String,
    /// Greater than that of the file before.
    pub(crate) sequence: u64,
    /// Of an increment that is followed by another although an fsync of it has failed: its length,
    /// bytes. If the disk has less of it, what follows it is worth nothing.
    pub(crate) unsynced: Option<u64>,
}

/// Why a manifest cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ManifestError {
    /// There is nothing in it.
    #[error("Found an empty AOF manifest")]
    Empty,
    /// A line is too long.
    #[error("The AOF manifest file contains too long line")]
    TooLong,
    /// A line is in no form that is known.
    #[error("Invalid AOF manifest file format")]
    Format,
    /// A name has a folder in it.
    #[error("File can't be a path, just a filename")]
    Path,
    /// A kind of file that is not known.
    #[error("Unknown AOF file type")]
    Kind,
    /// There are two bases.
    #[error("Found duplicate base file information")]
    TwoBases,
    /// An increment's number is not above that of the one before.
    #[error("Found a non-monotonic sequence number")]
    Order,
}

impl Manifest {
    /// Reads a manifest.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.is_empty() {
            return Err(ManifestError::Empty);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| ManifestError::Format)?;
        let mut manifest = Manifest::default();
        for line in text.split_inclusive('\n') {
            if line.len() > LINE_BYTES_MAX {
                return Err(ManifestError::TooLong);
            }
            if line.starts_with('#') {
                continue;
            }
            let line = line.trim_matches([' ', '\t', '\r', '\n']);
            if line.is_empty() {
                return Err(ManifestError::Format);
            }
            manifest.add(line)?;
        }
        manifest.assert_invariants();
        match manifest == Manifest::default() {
            true => Err(ManifestError::Empty),
            false => Ok(manifest),
        }
    }

    /// As it stands in its file.
    pub(crate) fn text(&self) -> String {
        let lines = |files: &[LogFile], kind: char| {
            let lines = files.iter().map(|file| file.line(kind));
            lines.collect::<String>()
        };
        let base = self.base.as_slice();
        lines(base, 'b') + &lines(&self.history, 'h') + &lines(&self.increments, 'i')
    }

    /// Adds the next increment, which is empty, and returns its name: the first one that `is_free`.
    pub(crate) fn add_increment(&mut self, prefix: &str, is_free: impl Fn(&str) -> bool) -> String {
        let last = self.increments.iter().map(|file| file.sequence);
        let history = self
            .history
            .iter()
            .filter(|file| file.name.ends_with(INCREMENT));
        let last = last.chain(history.map(|file| file.sequence)).max();
        let next = first_free(prefix, INCREMENT, last.unwrap_or(0) + 1, is_free);
        let name = next.name.clone();
        self.increments.push(next);
        self.assert_invariants();
        name
    }

    /// The name that the next base will have: the first one that `is_free`.
    pub(crate) fn next_base(&self, prefix: &str, is_free: impl Fn(&str) -> bool) -> LogFile {
        let sequence = self.base.as_ref().map_or(0, |base| base.sequence) + 1;
        first_free(prefix, BASE, sequence, is_free)
    }

    /// A new base stands for the old one and for all increments but the last.
    pub(crate) fn replace_base(&mut self, base: LogFile) {
        debug_assert!(
            self.base
                .as_ref()
                .is_none_or(|old| old.sequence < base.sequence),
            "a new base has a higher number than the old one"
        );
        let old_base = self.base.replace(base);
        self.history.extend(old_base);
        let last = self.increments.len().saturating_sub(1);
        let old: Vec<LogFile> = self.increments.drain(..last).collect();
        self.retire(old);
        debug_assert!(
            self.increments.len() <= 1,
            "the last increment alone follows a new base"
        );
        self.assert_invariants();
    }

    /// Whether the numbers of its files leave room for those of the files that follow.
    pub(crate) fn leaves_room(&self) -> bool {
        let mut files = self
            .base
            .iter()
            .chain(&self.increments)
            .chain(&self.history);
        files.all(|file| file.sequence <= SEQUENCE_MAX)
    }

    /// Moves files that are needed no more into the history, where no fsync of them matters.
    pub(crate) fn retire(&mut self, files: impl IntoIterator<Item = LogFile>) {
        let retired = files.into_iter().map(|file| LogFile {
            unsynced: None,
            ..file
        });
        self.history.extend(retired);
    }

    fn assert_invariants(&self) {
        debug_assert!(
            self.increments
                .is_sorted_by(|one, next| one.sequence < next.sequence),
            "increments are numbered in ascending order"
        );
        let mut files = self.base.iter().chain(&self.increments);
        debug_assert!(
            files.all(|file| file.sequence > 0 && !file.name.is_empty()),
            "every file has a name and a number from 1"
        );
        let mut others = self.base.iter().chain(&self.history);
        debug_assert!(
            others.all(|file| file.unsynced.is_none()),
            "only increments may be torn"
        );
    }

    /// Notes how long an increment is that may not be on the disk. False if there is no such one.
    pub(crate) fn note_unsynced(&mut self, name: &str, length: u64) -> bool {
        let mut increments = self.increments.iter_mut();
        let found = increments.find(|file| file.name == name);
        found.map(|file| file.unsynced = Some(length)).is_some()
    }

    /// Gives up all increments behind one of them.
    pub(crate) fn end_with(&mut self, name: &str) {
        if let Some(last) = self.increments.iter().position(|file| file.name == name) {
            let given_up: Vec<LogFile> = self.increments.drain(last + 1..).collect();
            self.retire(given_up);
            self.increments[last].unsynced = None;
        }
    }

    fn add(&mut self, line: &str) -> Result<(), ManifestError> {
        let words = words_of(line).ok_or(ManifestError::Format)?;
        let (pairs, []) = words.as_chunks::<2>() else {
            return Err(ManifestError::Format);
        };
        let (mut name, mut sequence, mut kind, mut unsynced) = (None, None, None, None);
        for [key, value] in pairs {
            match key.to_ascii_lowercase().as_str() {
                "file" if value.contains('/') => return Err(ManifestError::Path),
                "file" => name = Some(value.clone()),
                "seq" => sequence = value.parse().ok(),
                "type" => kind = value.chars().next(),
                "unsynced" => unsynced = value.parse().ok(),
                _ => {}
            }
        }
        let (Some(name), Some(sequence), Some(kind)) = (name, sequence, kind) else {
            return Err(ManifestError::Format);
        };
        if name.is_empty() || sequence == 0 {
            return Err(ManifestError::Format);
        }
        let file = LogFile {
            name,
            sequence,
            unsynced: unsynced.filter(|_| kind == 'i'),
        };
        // In quotes a name grows: one that could not be written again must not be taken.
        if file.line(kind).len() > LINE_BYTES_MAX {
            return Err(ManifestError::TooLong);
        }
        match kind {
            'b' if self.base.is_some() => return Err(ManifestError::TwoBases),
            'b' => self.base = Some(file),
            'h' => self.history.push(file),
            'i' if self
                .increments
                .last()
                .is_some_and(|last| last.sequence >= sequence) =>
            {
                return Err(ManifestError::Order);
            }
            'i' => self.increments.push(file),
            _ => return Err(ManifestError::Kind),
        }
        Ok(())
    }
}

const SEQUENCE_MAX: u64 = i64::MAX as u64;

/// A file that is there belongs to a manifest that may be on the disk, although writing it seemed
/// to fail: it must stay as it is.
fn first_free(
    prefix: &str,
    kind: &str,
    mut sequence: u64,
    is_free: impl Fn(&str) -> bool,
) -> LogFile {
    loop {
        let name = format!("{prefix}.{sequence}{kind}");
        if is_free(&name) {
            return LogFile {
                name,
                sequence,
                unsynced: None,
            };
        }
        sequence += 1;
    }
}

impl LogFile {
    fn line(&self, kind: char) -> String {
        let is_plain = |letter: char| letter.is_ascii_graphic() && !"\"'\\".contains(letter);
        let name = match self.name.chars().all(is_plain) {
            true => self.name.clone(),
            false => String::from_utf8_lossy(&quoted(self.name.as_bytes())).into_owned(),
        };
        let unsynced = self.unsynced.map(|length| format!(" unsynced {length}"));
        let unsynced = unsynced.unwrap_or_default();
        format!("file {name} seq {} type {kind}{unsynced}\n", self.sequence)
    }
}

/// The words of a line, of which some may stand in quotes.
fn words_of(line: &str) -> Option<Vec<String>> {
    // Names with a `'` were once written without quotes.
    let is_plain = || !line.contains('"');
    let plain = || line.split_ascii_whitespace().map(|word| word.into());
    let words = split(line.as_bytes()).or_else(|| is_plain().then(|| plain().collect()))?;
    let words = words.into_iter().map(String::from_utf8);
    words.collect::<Result<_, _>>().ok()
}

const INCREMENT: &str = ".incr.aof";
const BASE: &str = ".base.rdb";
/// As in Redis, with the line's end.
const LINE_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_reads_as_it_was_written() {
        let text = "file \"a b.2.base.rdb\" seq 2 type b\nfile a.1.base.aof seq 1 type h\n\
                    file a.4.incr.aof seq 4 type i\nfile a.5.incr.aof seq 5 type i\n";
        let manifest = Manifest::parse(text.as_bytes()).unwrap();
        assert_eq!(manifest.text(), text);
        assert_eq!(manifest.base.as_ref().unwrap().name, "a b.2.base.rdb");
        assert_eq!(manifest.increments.len(), 2);
        let commented = format!("# by hand\n{text}");
        assert_eq!(Manifest::parse(commented.as_bytes()), Ok(manifest));
    }

    #[test]
    fn a_name_that_is_too_long_in_quotes_is_refused() {
        let line = |letters| format!("file a{}.aof seq 1 type i\n", "\x01".repeat(letters));
        let manifest = Manifest::parse(line(200).as_bytes()).unwrap();
        assert_eq!(Manifest::parse(manifest.text().as_bytes()), Ok(manifest));
        let result = Manifest::parse(line(255).as_bytes());
        assert_eq!(result, Err(ManifestError::TooLong));
    }

    #[test]
    fn a_number_that_leaves_no_room_for_the_next_file_is_found() {
        let line = |sequence: u64| format!("file a.aof seq {sequence} type i\n");
        let leaves_room = |sequence| {
            let manifest = Manifest::parse(line(sequence).as_bytes()).unwrap();
            manifest.leaves_room()
        };
        assert!(leaves_room(SEQUENCE_MAX));
        assert!(!leaves_room(SEQUENCE_MAX + 1) && !leaves_room(u64::MAX));
    }

    #[test]
    fn a_name_may_hold_anything_but_a_slash() {
        let name = "\" file seq \n\n.aof \x01\\".to_owned();
        let manifest = Manifest {
            base: Some(LogFile {
                name,
                sequence: 1,
                unsynced: None,
            }),
            ..Manifest::default()
        };
        let text = manifest.text();
        assert_eq!(text.lines().count(), 1);
        assert_eq!(Manifest::parse(text.as_bytes()), Ok(manifest));
    }

    #[test]
    fn a_new_base_stands_for_all_but_the_last_increment() {
        let mut manifest = Manifest::default();
        assert_eq!(manifest.add_increment("a", |_| true), "a.1.incr.aof");
        let base = manifest.next_base("a", |_| true);
        manifest.replace_base(base);
        assert_eq!(manifest.add_increment("a", |_| true), "a.2.incr.aof");
        let base = manifest.next_base("a", |_| true);
        manifest.replace_base(base);
        assert_eq!(
            manifest.text(),
            "file a.2.base.rdb seq 2 type b\nfile a.1.base.rdb seq 1 type h\n\
             file a.1.incr.aof seq 1 type h\nfile a.2.incr.aof seq 2 type i\n"
        );
    }

    #[test]
    fn a_torn_increment_that_a_new_base_replaces_reads_as_it_was_written() {
        let mut manifest = Manifest::default();
        let torn = manifest.add_increment("a", |_| true);
        assert!(manifest.note_unsynced(&torn, 7));
        manifest.add_increment("a", |_| true);
        let base = manifest.next_base("a", |_| true);
        manifest.replace_base(base);
        assert_eq!(Manifest::parse(manifest.text().as_bytes()), Ok(manifest));
        let by_hand = b"file a seq 1 type h unsynced 5\nfile b seq 2 type b unsynced 6\n";
        let manifest = Manifest::parse(by_hand).unwrap();
        assert_eq!(Manifest::parse(manifest.text().as_bytes()), Ok(manifest));
    }

    #[test]
    fn an_increment_that_may_be_torn_is_noted_and_what_follows_it_can_be_given_up() {
        let text = "file a.1.incr.aof seq 1 type i\nfile a.2.incr.aof seq 2 type i\n";
        let mut manifest = Manifest::parse(text.as_bytes()).unwrap();
        assert!(manifest.note_unsynced("a.1.incr.aof", 7));
        assert!(!manifest.note_unsynced("a.3.incr.aof", 7));
        let noted = "file a.1.incr.aof seq 1 type i unsynced 7\nfile a.2.incr.aof seq 2 type i\n";
        assert_eq!(manifest.text(), noted);
        assert_eq!(Manifest::parse(noted.as_bytes()).unwrap(), manifest);
        manifest.end_with("a.1.incr.aof");
        let ended = "file a.2.incr.aof seq 2 type h\nfile a.1.incr.aof seq 1 type i\n";
        assert_eq!(manifest.text(), ended);
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let error = |text: &str| Manifest::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error(""), ManifestError::Empty);
        assert_eq!(error("\n"), ManifestError::Format);
        assert_eq!(error("file a seq 1\n"), ManifestError::Format);
        assert_eq!(error("file a seq 1 type x\n"), ManifestError::Kind);
        assert_eq!(error("file ../a seq 1 type b\n"), ManifestError::Path);
        let two = "file a seq 1 type b\nfile b seq 2 type b\n";
        assert_eq!(error(two), ManifestError::TwoBases);
        let order = "file a seq 2 type i\nfile b seq 1 type i\n";
        assert_eq!(error(order), ManifestError::Order);
        assert_eq!(error(&"a".repeat(2000)), ManifestError::TooLong);
    }
}
