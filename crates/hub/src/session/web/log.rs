//! The log lines of a page: it is told of those since its last message, when it asks.

use tidewire_rows::request::Log as Request;

use super::view::Step;
use crate::log_lines::{LogLevel, LogLines};

/// The log of a stream.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) number: u64,
    level: LogLevel,
    /// The line that it is told of next.
    next: u64,
    /// Lines that it missed since its last message.
    lost: u64,
    /// Whether the page has asked for the next message.
    wants: bool,
    /// Whether its first lines were written.
    is_begun: bool,
    /// When it was last looked at, monotonic ns.
    looked_ns: u64,
}

impl Log {
    /// Begins with the newest lines. An error is what is wrong with the request.
    pub(super) fn new(
        number: u64,
        request: &Request,
        lines: &LogLines,
    ) -> Result<Self, &'static str> {
        let level = match &request.level {
            None => LogLevel::Trace,
            Some(word) => LogLevel::of(word).ok_or("level is trace, debug, info, warn or error")?,
        };
        Ok(Self {
            number,
            level,
            next: lines.start_of_newest(level, request.lines),
            lost: 0,
            wants: true,
            is_begun: false,
            looked_ns: 0,
        })
    }

    /// Notes that the page asks for the next lines.
    pub(super) fn next(&mut self) {
        self.wants = true;
    }

    /// Writes the lines that are due. Lines wake no lane: they are looked at ten times a second
    /// while the page waits for some.
    pub(super) fn step(&mut self, lines: &LogLines, now_ns: u64, out: &mut Vec<u8>) -> Step {
        if !self.wants {
            return Step::Until(None);
        }
        let due_ns = self.looked_ns.saturating_add(INTERVAL_NS);
        if self.is_begun && now_ns < due_ns {
            return Step::Until(Some(due_ns));
        }
        self.looked_ns = now_ns;
        let again = Step::Until(Some(now_ns.saturating_add(INTERVAL_NS)));
        if self.is_begun && lines.count() == self.next {
            return again;
        }
        let read = lines.read(self.next, self.level, LINES_A_MESSAGE);
        self.next = read.next;
        self.lost += read.lost;
        if self.is_begun && read.lines.is_empty() {
            return again;
        }
        let head = format!("{{\"lines\":{},\"rows\":[", self.number);
        out.extend_from_slice(head.as_bytes());
        for (at, line) in read.lines.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(line.as_bytes());
        }
        out.push(b']');
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            out.extend_from_slice(format!(",\"lost\":{lost}").as_bytes());
        }
        out.push(b'}');
        (self.wants, self.is_begun) = (false, true);
        Step::Written(read.lines.len())
    }
}

/// Time between two messages.
const INTERVAL_NS: u64 = 100_000_000;
/// Maximum lines of a message; each has up to 16 KiB, all together up to 256 KiB.
const LINES_A_MESSAGE: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn step(log: &mut Log, lines: &LogLines, now_s: u64) -> Option<String> {
        let mut out = Vec::new();
        match log.step(lines, now_s * SECOND_NS, &mut out) {
            Step::Written(_) => Some(String::from_utf8(out).expect("UTF-8")),
            Step::Until(_) | Step::Busy => None,
        }
    }

    #[test]
    fn a_page_is_told_of_new_lines_when_it_asks_and_of_lost_ones() {
        let lines = LogLines::default();
        lines.push(LogLevel::Warn, "{\"n\":1}");
        lines.push(LogLevel::Info, "{\"n\":2}");
        let request = Request {
            level: Some(b"WARN".to_vec()),
            lines: 5,
        };
        let mut log = Log::new(7, &request, &lines).expect("a level");
        let first = r#"{"lines":7,"rows":[{"n":1}]}"#;
        assert_eq!(step(&mut log, &lines, 1).as_deref(), Some(first));
        lines.push(LogLevel::Error, "{\"n\":3}");
        assert_eq!(step(&mut log, &lines, 2), None, "the page has not asked");
        log.next();
        let next = r#"{"lines":7,"rows":[{"n":3}]}"#;
        assert_eq!(step(&mut log, &lines, 3).as_deref(), Some(next));
        log.next();
        lines.push(LogLevel::Info, "{\"n\":4}");
        assert_eq!(step(&mut log, &lines, 4), None, "of another level");
        for _ in 0..1_002 {
            lines.push(LogLevel::Warn, "{}");
        }
        let text = step(&mut log, &lines, 5).expect("a message");
        assert!(text.ends_with(r#"{}],"lost":2}"#), "{text}");
    }

    #[test]
    fn the_first_message_comes_without_lines_too() {
        let lines = LogLines::default();
        let mut log = Log::new(7, &Request::default(), &lines).expect("no level");
        let first = r#"{"lines":7,"rows":[]}"#;
        assert_eq!(step(&mut log, &lines, 1).as_deref(), Some(first));
        let request = Request {
            level: Some(b"loud".to_vec()),
            lines: 5,
        };
        assert!(Log::new(7, &request, &lines).is_err());
    }
}
