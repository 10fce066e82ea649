//! The program's newest log lines, for web pages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The newest log lines: up to 1,000 of them, and up to 256 KiB. Any thread adds lines; lanes read.
#[derive(Debug, Default)]
pub struct LogLines {
    kept: Mutex<Kept>,
    /// Number of lines since the start.
    count: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<Line>,
    bytes: usize,
    /// Number of lines since the start.
    count: u64,
}

#[derive(Clone, Debug)]
struct Line {
    level: LogLevel,
    json: Arc<str>,
}

/// How grave a log line is; the gravest is the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// TRACE.
    Trace,
    /// DEBUG.
    Debug,
    /// INFO.
    #[default]
    Info,
    /// WARN.
    Warn,
    /// ERROR.
    Error,
}

/// Lines that were read.
#[derive(Debug, Default)]
pub(crate) struct ReadLines {
    /// Each as a JSON object, the oldest first.
    pub(crate) lines: Vec<Arc<str>>,
    /// Number of lines that were no longer there, of any level.
    pub(crate) lost: u64,
    /// Where the next read begins.
    pub(crate) next: u64,
}

impl LogLines {
    /// Adds a line, which is a JSON object. Threads that log wait for each other, and for the copy
    /// of one message of a page, but never for a page.
    pub fn push(&self, level: LogLevel, json: &str) {
        let json = json.trim_ascii_end();
        let json: Arc<str> = match json.len() > LINE_BYTES_MAX {
            true => TOO_LONG.into(),
            false => json.into(),
        };
        let mut kept = self.kept.lock();
        kept.bytes += json.len();
        kept.lines.push_back(Line { level, json });
        kept.count += 1;
        while kept.lines.len() > LINES_MAX || kept.bytes > BYTES_MAX {
            let oldest = kept.lines.pop_front();
            kept.bytes -= oldest.map_or(0, |line| line.json.len());
        }
        self.count.store(kept.count, Ordering::Release);
    }

    /// Returns the number of lines since the start.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns where to begin so that the newest `most` lines of this level or a graver one are
    /// read.
    pub(crate) fn start_of_newest(&self, level: LogLevel, most: usize) -> u64 {
        let kept = self.kept.lock();
        let mut newest = kept.lines.iter().enumerate().rev();
        let first = match most {
            0 => None,
            most => newest
                .by_ref()
                .filter(|(_, line)| line.level >= level)
                .take(most)
                .last(),
        };
        match first {
            Some((at, _)) => kept.first() + at as u64,
            None => kept.count,
        }
    }

    /// Returns up to `most` lines of this level or a graver one, from number `from` on.
    pub(crate) fn read(&self, from: u64, level: LogLevel, most: usize) -> ReadLines {
        let kept = self.kept.lock();
        let first = kept.first();
        let start = from.max(first);
        let mut read = ReadLines {
            lost: start - from.min(start),
            next: start,
            ..ReadLines::default()
        };
        let begin = usize::try_from(start - first).unwrap_or(usize::MAX);
        for line in kept.lines.iter().skip(begin) {
            if read.lines.len() >= most {
                break;
            }
            read.next += 1;
            if line.level >= level {
                read.lines.push(line.json.clone());
            }
        }
        debug_assert!(read.next <= kept.count, "no line is read before it is kept");
        read
    }
}

impl Kept {
    /// Number of the oldest line that is kept.
    fn first(&self) -> u64 {
        debug_assert!(
            self.count >= self.lines.len() as u64,
            "each line is counted"
        );
        self.count - self.lines.len() as u64
    }
}

impl LogLevel {
    /// Returns the level of a word such as `warn`.
    pub(crate) fn of(word: &[u8]) -> Option<Self> {
        let levels = [
            (LogLevel::Trace, "trace"),
            (LogLevel::Debug, "debug"),
            (LogLevel::Info, "info"),
            (LogLevel::Warn, "warn"),
            (LogLevel::Error, "error"),
        ];
        let mut levels = levels.into_iter();
        let found = levels.find(|(_, name)| name.as_bytes().eq_ignore_ascii_case(word));
        found.map(|(level, _)| level)
    }
}

const LINES_MAX: usize = 1_000;
const BYTES_MAX: usize = 256 << 10;
/// Longest line that is kept, in bytes.
const LINE_BYTES_MAX: usize = 16 << 10;
const TOO_LONG: &str = r#"{"level":"warn","target":"tidewire","message":"a log line above 16 KiB is left out here: see the log"}"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(read: &ReadLines) -> Vec<&str> {
        read.lines.iter().map(|line| &**line).collect()
    }

    #[test]
    fn lines_are_read_from_a_place_and_by_level() {
        let log = LogLines::default();
        log.push(LogLevel::Info, "{\"a\":1}\n");
        log.push(LogLevel::Warn, "{\"b\":2}\n");
        log.push(LogLevel::Debug, "{\"c\":3}\n");
        let read = log.read(0, LogLevel::Info, 10);
        assert_eq!(texts(&read), ["{\"a\":1}", "{\"b\":2}"]);
        assert_eq!((read.next, read.lost, log.count()), (3, 0, 3));
        assert_eq!(texts(&log.read(0, LogLevel::Trace, 1)), ["{\"a\":1}"]);
        assert_eq!(log.start_of_newest(LogLevel::Warn, 5), 1);
        assert_eq!(log.start_of_newest(LogLevel::Trace, 2), 1);
        assert_eq!(log.start_of_newest(LogLevel::Trace, 0), 3);
        assert_eq!(log.start_of_newest(LogLevel::Error, 5), 3);
    }

    #[test]
    fn memory_is_bounded_by_lines_and_by_bytes() {
        let log = LogLines::default();
        for _ in 0..3 * LINES_MAX {
            log.push(LogLevel::Info, "{}");
        }
        let read = log.read(0, LogLevel::Info, usize::MAX);
        assert_eq!((read.lines.len(), read.lost), (LINES_MAX, 2_000));
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(10_000));
        for _ in 0..100 {
            log.push(LogLevel::Info, &long);
        }
        assert!(log.kept.lock().bytes <= BYTES_MAX);
        log.push(LogLevel::Info, &"x".repeat(LINE_BYTES_MAX + 1));
        let read = log.read(log.count() - 1, LogLevel::Info, 1);
        assert_eq!(texts(&read), [TOO_LONG]);
    }
}
