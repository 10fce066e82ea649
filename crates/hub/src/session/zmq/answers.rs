//! Replies on the ROUTER port, from keys and live topics.

use std::sync::Arc;

use tidewire_keyspace::{Mount, lookup};
use tidewire_resp::{ArgumentList, Protocol, Value, Writer, decode};

use super::request::{Cursor, Question};
use tidewire_redis::{Identity, write_value};

use crate::hub::Hub;

/// The frames of a reply.
#[derive(Debug, Default)]
pub(super) struct Answer {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Answer {
    fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        debug_assert!(
            self.ends.last() <= Some(&self.bytes.len()),
            "frames follow each other"
        );
        self.ends.push(self.bytes.len());
    }

    /// Adds a frame with the bytes that `write` appends. Adds nothing and returns false if `write`
    /// returns false.
    fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let start = self.bytes.len();
        let is_there = write(&mut self.bytes);
        debug_assert!(self.bytes.len() >= start, "a frame is only appended");
        match is_there {
            true => self.ends.push(self.bytes.len()),
            false => self.bytes.truncate(start),
        }
        is_there
    }

    pub(super) fn frames(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|at| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[at]]
        })
    }

    /// Replaces the reply by an error.
    pub(super) fn fail(&mut self, text: &str) {
        self.clear();
        self.push(b"ERR");
        self.push(text.as_bytes());
    }

    /// Clears the reply for the next request, and frees unusually large memory.
    pub(super) fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            *self = Self::default();
        }
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Answers a request of this peer. Returns whether the reply is an error.
pub(super) fn answer(
    hub: &Hub,
    peer: &mut Identity,
    now_ms: i64,
    question: &Question<'_>,
    answer: &mut Answer,
) -> bool {
    answer.clear();
    let done = check(hub, peer, question).and_then(|()| {
        match question {
            Question::Get(key) => get(hub, now_ms, key, answer)?,
            Question::GetMany(keys) => get_many(hub, now_ms, keys, answer)?,
            Question::List(prefix, cursor) => {
                let mut page = Page::take(hub, now_ms, prefix, *cursor, NAMES_A_STEP, |_| 0);
                page.names.retain(|name| peer.may_read(&hub.server, name));
                answer.push(b"OK");
                answer.push(page.cursor_text().as_bytes());
                page.names.iter().for_each(|name| answer.push(name));
            }
            Question::Snapshot(prefix, cursor) => {
                snapshot(hub, peer, now_ms, prefix, *cursor, answer)?;
            }
        }
        Ok(())
    });
    if let Err(text) = &done {
        answer.fail(text);
    }
    done.is_err()
}

/// Returns why the request cannot be answered now, or not for this peer.
fn check(hub: &Hub, peer: &mut Identity, question: &Question<'_>) -> Result<(), String> {
    if hub.server.is_gated()
        && let Some(wait) = hub.server.load_wait()
    {
        return Err(wait.text().to_owned());
    }
    if let Some(text) = hub.server.keys_refusal() {
        return Err(text);
    }
    if let Some(text) = hub.server.busy_text() {
        return Err(text.to_owned());
    }
    match question {
        Question::Get(key) => peer.check(&hub.server, &[b"GET", key]),
        Question::GetMany(keys) => peer.check(&hub.server, &[&[&b"MGET"[..]], &keys[..]].concat()),
        Question::List(..) | Question::Snapshot(..) => peer.check(&hub.server, &[b"SCAN", b"0"]),
    }
}

fn get(hub: &Hub, now_ms: i64, key: &[u8], answer: &mut Answer) -> Result<(), String> {
    answer.push(b"OK");
    let mut found = Found::Missing;
    answer.push_with(|out| {
        found = write_current(hub, key, now_ms, out);
        found == Found::Value
    });
    match found {
        Found::Value => within_bounds(answer),
        Found::Missing => {
            answer.clear();
            answer.push(b"NIL");
            Ok(())
        }
    }
}

/// Adds each name that has a value, with the value; missing names are left out.
fn get_many(hub: &Hub, now_ms: i64, keys: &[&[u8]], answer: &mut Answer) -> Result<(), String> {
    answer.push(b"OK");
    for key in keys {
        push_record(hub, now_ms, key, answer);
        within_bounds(answer)?;
    }
    Ok(())
}

fn snapshot(
    hub: &Hub,
    peer: &mut Identity,
    now_ms: i64,
    prefix: &[u8],
    cursor: Cursor,
    answer: &mut Answer,
) -> Result<(), String> {
    let mut records = Answer::default();
    let page = Page::take(hub, now_ms, prefix, cursor, RECORDS_A_STEP, |name| {
        if !peer.may_read(&hub.server, name) {
            return 0;
        }
        let before = records.bytes.len();
        // A reply that is far too long becomes an error below; until then nothing more is added.
        if before <= ANSWER_BYTES_MAX {
            push_record(hub, now_ms, name, &mut records);
        }
        records.bytes.len() - before
    });
    answer.push(b"OK");
    answer.push(page.cursor_text().as_bytes());
    within_bounds(&records)?;
    records.frames().for_each(|frame| answer.push(frame));
    Ok(())
}

/// Adds a name and its value, if there is a value that can be shown.
fn push_record(hub: &Hub, now_ms: i64, name: &[u8], answer: &mut Answer) {
    answer.push(name);
    let is_there = answer.push_with(|out| write_current(hub, name, now_ms, out) == Found::Value);
    if !is_there {
        answer.ends.pop();
        let end = answer.ends.last().copied().unwrap_or(0);
        answer.bytes.truncate(end);
    }
}

fn within_bounds(answer: &Answer) -> Result<(), String> {
    match answer.bytes.len() > ANSWER_BYTES_MAX {
        true => Err(format!(
            "ERR the answer is longer than {ANSWER_BYTES_MAX} bytes"
        )),
        false => Ok(()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Value,
    /// The name does not exist, or is a stream without entries.
    Missing,
}

/// Appends the current value of a name in the form that its subscribers get.
fn write_current(hub: &Hub, name: &[u8], now_ms: i64, out: &mut Vec<u8>) -> Found {
    if hub.server.write_shared(name, out) {
        return Found::Value;
    }
    if hub.server.is_mounted(name) {
        // The plant is asked for a tag whose value it has not sent yet.
        hub.topics.want(name, false);
        let topic = hub.topics.find(name);
        let version = topic.and_then(|topic| hub.topics.write(topic.id(), true, out));
        return version.map_or(Found::Missing, |_| Found::Value);
    }
    let mut found = Found::Missing;
    hub.server.keyspace.value(name, now_ms, &mut |value| {
        found = match write_value(value, out) {
            true => Found::Value,
            false => Found::Missing,
        };
    });
    found
}

/// One page of a scan over names.
struct Page {
    names: Vec<Vec<u8>>,
    next: Cursor,
}

impl Page {
    /// Continues from `cursor` until the page is full or enough names were visited. `show` gets
    /// each name and returns how many bytes it used for it.
    fn take(
        hub: &Hub,
        now_ms: i64,
        prefix: &[u8],
        cursor: Cursor,
        names_a_step: usize,
        mut show: impl FnMut(&[u8]) -> usize,
    ) -> Self {
        let mut page = Page {
            names: Vec::new(),
            next: cursor,
        };
        let mounts = hub.server.keyspace.mounts();
        let mount = mounts
            .iter()
            .find(|mount| prefix.starts_with(mount.prefix()));
        // Names under a prefix that keys and mounts share are found as SCAN finds them.
        let is_shared =
            |mount: &Arc<dyn Mount>| mount.is_shared() && prefix.starts_with(mount.prefix());
        let mount = mount.filter(|_| !mounts.iter().any(is_shared));
        let mount = mount.map(|mount| &**mount);
        let (mut bytes, mut looked_at) = (0, 0);
        loop {
            let first = page.names.len();
            page.next = match mount {
                Some(mount) => page.take_topics(mount, prefix, names_a_step),
                None => page.take_keys(hub, now_ms, prefix, names_a_step),
            };
            for name in &page.names[first..] {
                bytes += name.len() + show(name);
            }
            debug_assert!(names_a_step > 0, "each step gets on");
            looked_at += names_a_step;
            let is_full = page.names.len() >= PAGE_NAMES || bytes >= PAGE_BYTES;
            if page.next == Cursor::Start || is_full || looked_at >= PAGE_LOOKED_AT {
                return page;
            }
        }
    }

    /// Adds names of one live source, whose positions never change.
    fn take_topics(&mut self, mount: &dyn Mount, prefix: &[u8], count: usize) -> Cursor {
        let start = match self.next {
            Cursor::Topics(position) => position,
            _ => 0,
        };
        let mut name = Vec::new();
        for position in start..start.saturating_add(count) {
            name.clear();
            if !mount.name(position, &mut name) {
                return Cursor::Start;
            }
            if name.starts_with(prefix) {
                self.names.push(name.clone());
            }
        }
        Cursor::Topics(start.saturating_add(count))
    }

    /// Adds names of all keys and live sources, as SCAN returns them.
    fn take_keys(&mut self, hub: &Hub, now_ms: i64, prefix: &[u8], count: usize) -> Cursor {
        let start = match self.next {
            Cursor::Keys(position) => position,
            _ => 0,
        };
        let Some(command) = lookup(b"scan") else {
            return Cursor::Start;
        };
        let (start, count) = (start.to_string(), count.to_string());
        let pattern = pattern_of(prefix);
        let words: [&[u8]; 6] = [
            b"SCAN",
            start.as_bytes(),
            b"MATCH",
            &pattern,
            b"COUNT",
            count.as_bytes(),
        ];
        let request = ArgumentList::from_slices(&words);
        let mut reply = Vec::new();
        let mut writer = Writer::new(&mut reply, Protocol::Resp2);
        let arguments = request.as_arguments();
        // A refusal is a reply without names.
        hub.server.read(command, arguments, now_ms, &mut writer);
        match self.add_reply(&reply) {
            Some(position) if position != 0 => Cursor::Keys(position),
            _ => Cursor::Start,
        }
    }

    /// Adds the names of a reply to SCAN. Returns its cursor.
    fn add_reply(&mut self, reply: &[u8]) -> Option<u64> {
        let (Value::Array(parts), _) = decode(reply).ok()?? else {
            return None;
        };
        let [Value::Bulk(next), Value::Array(names)] = <[Value; 2]>::try_from(parts).ok()? else {
            return None;
        };
        self.names
            .extend(names.into_iter().filter_map(|name| match name {
                Value::Bulk(name) => Some(name),
                _ => None,
            }));
        std::str::from_utf8(&next).ok()?.parse().ok()
    }

    fn cursor_text(&self) -> String {
        self.next.to_string()
    }
}

/// Returns the pattern that matches all names with this prefix.
fn pattern_of(prefix: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(prefix.len() + 8);
    for &byte in prefix {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^' | b'-') {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

/// Maximum total size of the values in a reply: the default maximum of a frame from a peer.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A page of LIST or SNAPSHOT ends with the step that reaches one of these.
const PAGE_NAMES: usize = 1_000;
const PAGE_BYTES: usize = 1 << 20;
const PAGE_LOOKED_AT: usize = 20_000;
/// Names visited in one step of LIST, and of SNAPSHOT, whose values may be long.
const NAMES_A_STEP: usize = 500;
const RECORDS_A_STEP: usize = 16;
/// Memory that a session keeps between two replies.
const KEPT_BYTES_MAX: usize = 64 << 10;
