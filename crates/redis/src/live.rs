//! Live keys: sends their values and removals to subscribers.
//!
//! A write publishes the key's new value, and a removal [`GONE`], while the key's shard is locked:
//! the news are put into the mailboxes there and then, the own lane's too, so that every lane hears
//! of a key in the order of its changes. What changes many keys at once (FLUSHALL, SWAPDB, a full
//! sync) hands over their names instead. Each lane owes them to its subscribers, some at a time
//! (`fanout`'s `renewal.rs`), and looks at a key's state only when it writes it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_fanout::{GONE, GONE_CHANNEL, Origin, Publication, SNAPSHOT_CHANNEL};
use tidewire_keyspace::{
    Changer, Event, LIVE_CHANNEL, LiveNames, Observer, Outcome, Trackers, ValueRef, Waiter,
};
use tidewire_resp::number::DoubleText;

use crate::attention::Obstacles;
use crate::mail::RedisMail;
use crate::server::Server;
use tidewire_fanout::write_json_text;

/// Whether the hub alone publishes under a name.
pub fn is_reserved_channel(name: &[u8]) -> bool {
    [SNAPSHOT_CHANNEL, GONE_CHANNEL, LIVE_CHANNEL].contains(&name)
}

/// Publishes changes of live keys.
#[derive(Debug)]
pub(crate) struct LiveObserver<'a>(pub(crate) &'a Server);

impl Observer for LiveObserver<'_> {
    fn changed(&mut self, database: usize, key: &[u8], _: Event, value: Option<ValueRef<'_>>) {
        if database != 0 {
            return;
        }
        self.0.note_shared(key);
        let route = self.0.post.subscriptions.route(key);
        if route.lanes == 0 {
            return;
        }
        let mut publication = Publication::default();
        // Under the key's lock: so versions of one key grow in the order of its changes.
        let version = self.0.live_version.fetch_add(1, Ordering::AcqRel) + 1;
        publication.push_with(key, Origin::Live, version, |out| {
            write_published(value, out);
        });
        self.0.post.send(route.lanes, &Arc::new(publication));
    }

    fn renewed(&mut self, names: LiveNames) {
        self.0.note_all_shared();
        if !names.is_empty() && !self.0.post.subscriptions.is_empty() {
            self.0.post.renew(names);
        }
    }

    fn notified(&mut self, database: usize, key: &[u8], event: Event) {
        crate::notifications::publish(self.0, database, key, event);
    }

    fn modified(&mut self, key: &[u8], by: Changer) {
        self.0.note_changed(key, by);
    }

    fn invalidated(&mut self, key: &[u8], trackers: &Trackers, by: Changer) {
        self.0.invalidate(key, trackers, by);
    }

    fn flushed(&mut self) {
        self.0.invalidate_everything();
    }

    fn reader(&mut self) -> Option<u64> {
        self.0.tracking_reader()
    }

    fn serving(&mut self, waiter: Option<&Arc<Waiter>>) {
        if self.0.attention.has(Obstacles::TRACKED) {
            self.0.serve_for(waiter.map(|waiter| waiter.client.client));
        }
    }

    fn served(&mut self, waiter: &Arc<Waiter>, reply: Vec<u8>, outcome: &Outcome) {
        let client = waiter.client;
        debug_assert!(
            client.lane < self.0.turns.len(),
            "a client is on a lane that there is"
        );
        self.0.mail.send(
            client.lane,
            RedisMail::Served {
                client: client.client,
                reply,
                failed: matches!(outcome, Outcome::Failed(_)),
            },
        );
    }
}

/// Appends what is published of a live key: its value, or [`GONE`] if it has none. A string that
/// is [`GONE`] itself, whether or not spaces follow it, gets one more space at its end, so that no
/// value is taken for a removal.
pub(crate) fn write_published(value: Option<ValueRef<'_>>, out: &mut Vec<u8>) {
    let start = out.len();
    let is_written = value.is_some_and(|value| write_value(value, out));
    debug_assert_eq!(
        is_written,
        value.is_some_and(has_form),
        "values that have a form are those that can be written"
    );
    if !is_written {
        debug_assert_eq!(out.len(), start, "a value without a form writes nothing");
        out.extend_from_slice(GONE);
        return;
    }
    let is_string = value.is_some_and(|value| value.text().is_some());
    let rest = out[start..].strip_prefix(GONE);
    if is_string && rest.is_some_and(|rest| rest.iter().all(|&byte| byte == b' ')) {
        out.push(b' ');
    }
}

/// Whether [`write_value`] has a form for it.
pub(crate) fn has_form(value: ValueRef<'_>) -> bool {
    value.value_type() != tidewire_keyspace::ValueType::Stream || value.newest_entry().is_some()
}

/// A live key's value as it is published: a string as it is, a hash as a JSON object of its fields,
/// a list or a set as a JSON array, a sorted set as one of pairs of member and score, a stream as
/// its newest entry. False of a stream without entries, which has no such form.
pub fn write_value(value: ValueRef<'_>, out: &mut Vec<u8>) -> bool {
    if let Some(text) = value.text() {
        out.extend_from_slice(text.as_bytes());
    } else if let Some(fields) = value.fields() {
        out.push(b'{');
        for (number, (field, value)) in fields.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            write_json_text(out, field);
            out.push(b':');
            write_json_text(out, value);
        }
        out.push(b'}');
    } else if let Some(items) = value.items() {
        out.push(b'[');
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            write_json_text(out, item.as_bytes());
        }
        out.push(b']');
    } else if let Some(scores) = value.scored() {
        out.push(b'[');
        for (number, (member, score)) in scores.iter().enumerate() {
            out.extend_from_slice(if number > 0 { b",[" } else { b"[" });
            write_json_text(out, member.as_bytes());
            out.push(b',');
            let score = DoubleText::new(score);
            match score.as_bytes() {
                text @ (b"inf" | b"-inf") => write_json_text(out, text),
                text => out.extend_from_slice(text),
            }
            out.push(b']');
        }
        out.push(b']');
    } else if let Some(entry) = value.newest_entry() {
        out.extend_from_slice(b"{\"id\":");
        write_json_text(out, entry.id().as_bytes());
        out.extend_from_slice(b",\"fields\":[");
        for (number, (name, value)) in entry.fields().enumerate() {
            out.extend_from_slice(if number > 0 { b",[" } else { b"[" });
            write_json_text(out, name.as_bytes());
            out.push(b',');
            write_json_text(out, value.as_bytes());
            out.push(b']');
        }
        out.extend_from_slice(b"]}");
    } else {
        return false;
    }
    true
}
