//! The audit stream: a line for each write of another hub's client.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use tidewire_cluster::writes::{WriteOutcome, WriteRequest, decode_words};
use tidewire_fanout::{HubWrites, WriteEnd, write_json_text};
use tidewire_keyspace::{Command, lookup};
use tidewire_lane::unix_ns;
use tidewire_nats::{Answer, Link, Storing, StreamSettings};
use tidewire_retry::{Repeated, Seldom};
use tracing::warn;

use super::asking::why;
use crate::cluster::config::{AuditMode, ClusterConfig};
use crate::cluster::requests::{Request, Requests};
use crate::cluster::subjects;

/// Lines that wait for the stream. Further ones are left out and counted.
const LINES_MAX: usize = 4_096;
/// Bytes of a value that a line has.
const VALUE_LENGTH_MAX: usize = 256;
/// Delay until what could not be stored or made is tried again.
const RETRY_NS: u64 = 1_000_000_000;

/// One line.
#[derive(Clone, Debug)]
pub(super) struct AuditLine {
    /// By which the stream finds a line that is stored twice.
    id: String,
    text: Bytes,
}

/// The lines of this hub.
pub(super) struct Audit {
    mode: AuditMode,
    subject: String,
    stream: StreamSettings,
    stream_state: StreamState,
    lines: BTreeMap<u64, Waiting>,
    last: u64,
    failures: Repeated,
    writes: Arc<HubWrites>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamState {
    /// To be made, or looked for, at this time.
    Due(u64),
    Asked,
    Made,
}

/// A line that the stream does not have yet.
struct Waiting {
    line: AuditLine,
    /// Number of the write that begins when it is stored.
    begins: Option<u64>,
    /// When it is sent again; `None` while an answer is to come.
    due_ns: Option<u64>,
}

impl Audit {
    pub(super) fn new(config: &ClusterConfig, writes: Arc<HubWrites>) -> Self {
        let settings = &config.writes;
        Self {
            mode: settings.audit,
            subject: subjects::audit(&config.name, config.hub.as_str()),
            stream: StreamSettings {
                name: subjects::audit_stream(&config.name),
                subjects: vec![subjects::audits(&config.name)],
                replicas: config.replicas,
                age_max: settings.audit_age,
                bytes_max: Some(settings.audit_bytes),
                // All hubs share it: the first one makes it, or an administrator.
                keeps_existing: true,
                ..StreamSettings::default()
            },
            stream_state: StreamState::Due(0),
            lines: BTreeMap::new(),
            last: 0,
            failures: Repeated::default(),
            writes,
        }
    }

    /// Returns whether a write must not begin before a line of it is stored.
    pub(super) fn needs_beginnings(&self) -> bool {
        self.mode == AuditMode::Required
    }

    /// Stores the line of a write that is to begin.
    pub(super) fn begin(
        &mut self,
        number: u64,
        line: &AuditLine,
        (link, requests): (&Link, &mut Requests),
    ) {
        // Not put off: it is stored now, or the write is refused. The writes are limited.
        self.last += 1;
        let waiting = Waiting {
            line: line.clone(),
            begins: Some(number),
            due_ns: None,
        };
        self.lines.insert(self.last, waiting);
        self.store(self.last, link, requests);
    }

    /// Notes the end of a write. It is stored in the next turn.
    pub(super) fn end(&mut self, line: &AuditLine) {
        if self.mode == AuditMode::Off {
            return;
        }
        let ends = self.lines.values().filter(|line| line.begins.is_none());
        if ends.count() >= LINES_MAX {
            let counter = &self.writes.counters.unaudited;
            counter.fetch_add(1, Ordering::Relaxed);
            if let Some(left_out) = LEFT_OUT.note_now() {
                warn!(left_out, "writes are missing in the audit stream");
            }
            return;
        }
        self.last += 1;
        let waiting = Waiting {
            line: line.clone(),
            begins: None,
            due_ns: Some(0),
        };
        self.lines.insert(self.last, waiting);
    }

    /// Does what is due. The link is up.
    pub(super) fn turn(&mut self, (link, requests): (&Link, &mut Requests), now_ns: u64) {
        if self.mode == AuditMode::Off {
            return;
        }
        if matches!(self.stream_state, StreamState::Due(at_ns) if now_ns >= at_ns) {
            self.stream_state = StreamState::Asked;
            link.make_stream(requests.open(Request::AuditStream), self.stream.clone());
        }
        if self.stream_state != StreamState::Made {
            return;
        }
        let lines = self.lines.iter_mut();
        let due = lines.filter(|(_, line)| line.due_ns.is_some_and(|due_ns| due_ns <= now_ns));
        let numbers: Vec<u64> = due
            .map(|(&number, line)| {
                line.due_ns = None;
                number
            })
            .collect();
        for number in numbers {
            self.store(number, link, requests);
        }
    }

    fn store(&self, number: u64, link: &Link, requests: &mut Requests) {
        let Some(Waiting { line, .. }) = self.lines.get(&number) else {
            return;
        };
        let storing = Storing {
            subject: self.subject.clone(),
            stream: self.stream.name.clone(),
            id: line.id.clone(),
            payload: line.text.clone(),
            ..Storing::default()
        };
        link.store(requests.open(Request::AuditLine(number)), storing);
    }

    /// Handles the answer about the stream.
    pub(super) fn made(&mut self, answer: &Answer, now_ns: u64) {
        self.stream_state = match answer {
            Answer::Made => StreamState::Made,
            answer => {
                self.failed(answer);
                StreamState::Due(now_ns.saturating_add(RETRY_NS))
            }
        };
    }

    /// Handles the answer about a line. Returns the write that waits for it, if one does, and
    /// whether the line is stored.
    pub(super) fn answered(
        &mut self,
        number: u64,
        answer: &Answer,
        now_ns: u64,
    ) -> Option<(u64, bool)> {
        let line = self.lines.get_mut(&number)?;
        let is_stored = matches!(answer, Answer::Stored { .. });
        let begins = line.begins.map(|write| (write, is_stored));
        if is_stored {
            let counter = &self.writes.counters.audited;
            counter.fetch_add(1, Ordering::Relaxed);
            self.failures.works();
        } else {
            line.due_ns = Some(now_ns.saturating_add(RETRY_NS));
            self.failed(answer);
            if matches!(answer, Answer::NoStream) && self.stream_state == StreamState::Made {
                self.stream_state = StreamState::Due(now_ns);
            }
        }
        if is_stored || begins.is_some() {
            self.lines.remove(&number);
        }
        begins
    }

    fn failed(&mut self, answer: &Answer) {
        if let Some((failures, _)) = self.failures.failed(Instant::now()) {
            let reason = why(answer);
            warn!(%reason, failures, "the audit stream cannot be written; retrying");
        }
    }

    /// Returns when [`Audit::turn`] must be called.
    pub(super) fn deadline_ns(&self) -> u64 {
        match (self.mode, self.stream_state) {
            (AuditMode::Off, _) | (_, StreamState::Asked) => u64::MAX,
            (_, StreamState::Due(at_ns)) => at_ns,
            (_, StreamState::Made) => {
                let due = self.lines.values().filter_map(|line| line.due_ns);
                due.min().unwrap_or(u64::MAX)
            }
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let left = self.lines.len();
        if left > 0 {
            warn!(left, "the hub ends before the audit stream has all writes");
        }
    }
}

impl AuditLine {
    /// Returns the line of a write's end; without a result, of its beginning.
    pub(super) fn new(
        [cluster, hub, edge]: [&str; 3],
        request: &WriteRequest<'_>,
        came_ns: u64,
        result: Option<&WriteEnd>,
    ) -> Self {
        let stage = match result {
            None => "begin",
            Some(_) => "end",
        };
        let id = format!("{:016x}-{}", request.id.session, request.id.number);
        let numbers = [
            ("ts", unix_ns()),
            ("came", came_ns),
            ("epoch", request.id.epoch),
        ];
        let outcome = result.map_or("", |result| WriteOutcome::of(result).name());
        let words = result.and_then(|result| result.as_ref().err());
        let (command, value) = spoken(request);
        let (value, bytes) = (cut(&value), value.len());
        let texts: [(&str, &[u8]); 12] = [
            ("stage", stage.as_bytes()),
            ("write", id.as_bytes()),
            ("cluster", cluster.as_bytes()),
            ("hub", hub.as_bytes()),
            ("edge", edge.as_bytes()),
            ("user", request.user),
            ("client", request.address),
            ("command", command.as_bytes()),
            ("topic", request.name),
            ("value", value),
            ("outcome", outcome.as_bytes()),
            ("text", words.map_or(b"", |words| words.as_bytes())),
        ];
        let mut text = Vec::with_capacity(512);
        for (name, number) in numbers {
            text.extend_from_slice(if text.is_empty() { b"{\"" } else { b",\"" });
            text.extend_from_slice(format!("{name}\":{number}").as_bytes());
        }
        for (name, value) in texts {
            text.extend_from_slice(format!(",\"{name}\":").as_bytes());
            write_json_text(&mut text, value);
        }
        text.extend_from_slice(format!(",\"value_bytes\":{bytes}}}").as_bytes());
        Self {
            id: format!("{id}-{stage}"),
            text: text.into(),
        }
    }
}

/// Returns the command of a request, and what it is given beside the topic: words with blanks
/// between them.
fn spoken<'a>(request: &WriteRequest<'a>) -> (String, Cow<'a, [u8]>) {
    let words = match request.is_command {
        true => decode_words(request.value),
        false => None,
    };
    let Some((_, words)) = words else {
        return ("SET".to_owned(), request.value.into());
    };
    let has_parts = lookup(words[0]).is_some_and(Command::is_container);
    let (command, rest) = words.split_at((1 + usize::from(has_parts)).min(words.len()));
    let command = String::from_utf8_lossy(&command.join(&b' ')).to_uppercase();
    let mut rest = rest.to_vec();
    if let Some(topic) = rest.iter().position(|word| *word == request.name) {
        rest.remove(topic);
    }
    (command, rest.join(&b' ').into())
}

/// Returns the front of a value; whole characters of a text.
fn cut(value: &[u8]) -> &[u8] {
    if value.len() <= VALUE_LENGTH_MAX {
        return value;
    }
    let mut end = VALUE_LENGTH_MAX;
    if let Ok(text) = std::str::from_utf8(value) {
        while !text.is_char_boundary(end) {
            end -= 1;
        }
    }
    &value[..end]
}

static LEFT_OUT: Seldom = Seldom::new(5, 60);

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_cluster::writes::{WriteId, encode_words};

    fn request<'a>(value: &'a [u8]) -> WriteRequest<'a> {
        WriteRequest {
            id: WriteId {
                epoch: 7,
                session: 0xab,
                number: 3,
            },
            ticket: 1,
            name: b"mx:A.B",
            user: b"ada",
            address: b"127.0.0.1:5",
            is_command: false,
            value,
        }
    }

    fn text(value: &[u8], result: Option<&WriteEnd>) -> String {
        let line = AuditLine::new(["desk", "a", "b"], &request(value), 5, result);
        String::from_utf8(line.text.to_vec()).unwrap()
    }

    #[test]
    fn a_line_has_who_what_and_what_became_of_it() {
        let refused = Err("REFUSED \"x\"".to_owned());
        let line = text(b"21.5", Some(&refused));
        let rest = line.split_once(",\"came\"").unwrap().1;
        assert_eq!(
            rest,
            ":5,\"epoch\":7,\"stage\":\"end\",\"write\":\"00000000000000ab-3\",\
             \"cluster\":\"desk\",\"hub\":\"a\",\"edge\":\"b\",\"user\":\"ada\",\
             \"client\":\"127.0.0.1:5\",\"command\":\"SET\",\"topic\":\"mx:A.B\",\
             \"value\":\"21.5\",\"outcome\":\"refused\",\"text\":\"REFUSED \\\"x\\\"\",\
             \"value_bytes\":4}"
        );
        assert!(text(b"1", Some(&Ok(None))).contains("\"outcome\":\"done\",\"text\":\"\""));
        assert!(text(b"1", None).contains("\"stage\":\"begin\""));
    }

    #[test]
    fn a_line_of_a_command_has_its_name_and_its_words_behind_the_topic() {
        for (words, expected) in [
            (&["hset", "mx:A.B", "field", "ä"][..], ("HSET", "field ä")),
            (&["del", "mx:A.B"], ("DEL", "")),
            (&["lmpop", "1", "mx:A.B", "LEFT"], ("LMPOP", "1 LEFT")),
            (
                &["xgroup", "create", "mx:A.B", "g", "0"],
                ("XGROUP CREATE", "g 0"),
            ),
            (
                &["set", "mx:A.B", "mx:A.B", "EX", "5"],
                ("SET", "mx:A.B EX 5"),
            ),
        ] {
            let words = encode_words(2, words.iter().map(|word| word.as_bytes()));
            let request = WriteRequest {
                is_command: true,
                ..request(&words)
            };
            let (command, value) = spoken(&request);
            let value = String::from_utf8_lossy(&value);
            assert_eq!((&*command, &*value), expected);
        }
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let long = "ä".repeat(500);
        let line = text(long.as_bytes(), None);
        assert!(line.contains(&format!("\"value\":\"{}\"", "ä".repeat(128))));
        assert!(line.ends_with("\"value_bytes\":1000}"));
        assert_eq!(cut(&[b"x", long.as_bytes()].concat()).len(), 255);
        assert_eq!(cut(&[0xff; 300]).len(), 256);
    }
}
