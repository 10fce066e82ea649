//! A publication: encoded once, shared by every lane.

use std::ops::Range;
use std::sync::Arc;

use crate::topic::TopicId;

/// A batch of messages, each with the name it is published under.
///
/// Names and small payloads are stored one after another in one buffer. Large payloads are held
/// by reference, so that subscribers can share them.
#[derive(Debug, Default)]
pub struct Publication {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    name: Range<usize>,
    payload: Payload,
    origin: Origin,
    version: u64,
    is_final: bool,
}

#[derive(Debug)]
enum Payload {
    Inline(Range<usize>),
    Shared(Arc<[u8]>),
}

/// A publication, and the lanes it is for (one bit each).
pub type Dispatch = (Publication, u64);

/// The origin of a message, which decides what a slow subscriber may miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An update of a topic that a live source writes: a newer one replaces it.
    Topic(TopicId),
    /// A topic has changed whose value is too long to be published with each change. Its
    /// subscribers are owed the current value; the message has no payload.
    Owed(TopicId),
    /// A write to a live key: a newer one replaces it.
    Live,
    /// A plain message (PUBLISH): each counts.
    Channel,
    /// A plain message to a shard channel (SPUBLISH).
    Shard,
}

/// One message of a publication.
#[derive(Clone, Copy, Debug)]
pub struct News<'a> {
    /// The name it is published under.
    pub name: &'a [u8],
    /// Its body.
    pub payload: &'a [u8],
    /// The body again, if it is large enough to be shared.
    pub shared: Option<&'a Arc<[u8]>>,
    /// The origin of the message.
    pub origin: Origin,
    /// The state of its topic, growing with each write; 0 for plain messages. A subscriber that
    /// got a newer state as current value does not get this one.
    pub version: u64,
    /// Whether it counts by itself, also behind a newer state of its topic: a bar that has closed.
    pub is_final: bool,
}

impl Publication {
    /// Creates a publication of one message.
    pub fn single(name: &[u8], payload: &[u8], origin: Origin) -> Self {
        let mut publication = Publication::default();
        publication.bytes.extend_from_slice(name);
        let name = 0..name.len();
        let payload = if payload.len() >= SHARE_BYTES_MIN {
            Payload::Shared(payload.into())
        } else {
            publication.bytes.extend_from_slice(payload);
            Payload::Inline(name.end..publication.bytes.len())
        };
        publication.entries.push(Entry {
            name,
            payload,
            origin,
            version: 0,
            is_final: false,
        });
        publication
    }

    /// Adds a message whose payload `write` appends.
    pub fn push_with(
        &mut self,
        name: &[u8],
        origin: Origin,
        version: u64,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        let middle = self.bytes.len();
        write(&mut self.bytes);
        debug_assert!(middle <= self.bytes.len(), "a payload is only appended");
        debug_assert!(
            matches!(origin, Origin::Topic(_) | Origin::Live) || version == 0,
            "only a state has a version"
        );
        let payload = Payload::Inline(middle..self.bytes.len());
        self.entries.push(Entry {
            name: start..middle,
            payload,
            origin,
            version,
            is_final: false,
        });
    }

    /// Notes that the last message counts by itself, also behind a newer state of its topic.
    pub fn finalize(&mut self) {
        debug_assert!(!self.entries.is_empty(), "there is a last message");
        if let Some(entry) = self.entries.last_mut() {
            entry.is_final = true;
        }
    }

    /// Adds that the subscribers of a topic are owed its current value, of `version` or later.
    pub fn push_owed(&mut self, name: &[u8], id: TopicId, version: u64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        let end = self.bytes.len();
        self.entries.push(Entry {
            name: start..end,
            payload: Payload::Inline(end..end),
            origin: Origin::Owed(id),
            version,
            is_final: false,
        });
    }

    /// Appends the messages of another publication.
    pub fn append(&mut self, other: Publication) {
        if self.entries.is_empty() {
            *self = other;
            return;
        }
        let shift = self.bytes.len();
        let is_within = |entry: &Entry| entry.name.end <= shift;
        debug_assert!(
            self.entries.iter().all(is_within),
            "names lie in the buffer"
        );
        let moved = |range: Range<usize>| range.start + shift..range.end + shift;
        self.bytes.extend_from_slice(&other.bytes);
        self.entries
            .extend(other.entries.into_iter().map(|entry| Entry {
                name: moved(entry.name),
                payload: match entry.payload {
                    Payload::Inline(range) => Payload::Inline(moved(range)),
                    shared => shared,
                },
                ..entry
            }));
    }

    /// Returns the approximate memory in bytes; constant once published.
    pub fn memory_bytes(&self) -> usize {
        let shared = |entry: &Entry| match &entry.payload {
            Payload::Shared(bytes) => bytes.len(),
            Payload::Inline(_) => 0,
        };
        let shared: usize = self.entries.iter().map(shared).sum();
        shared + self.bytes.len() + self.entries.len() * size_of::<Entry>()
    }

    /// Returns whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over the messages in order.
    pub fn news(&self) -> impl Iterator<Item = News<'_>> {
        self.entries.iter().map(|entry| {
            let (payload, shared) = match &entry.payload {
                Payload::Inline(range) => (&self.bytes[range.clone()], None),
                Payload::Shared(bytes) => (&bytes[..], Some(bytes)),
            };
            News {
                name: &self.bytes[entry.name.clone()],
                payload,
                shared,
                origin: entry.origin,
                version: entry.version,
                is_final: entry.is_final,
            }
        })
    }
}

/// Payload for a live key that no longer has a value. No value has this form.
pub const GONE: &[u8] = b"{\"gone\":true}";

/// Payloads from this length on are shared rather than copied (the lane's outbox copies below it).
const SHARE_BYTES_MIN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_went_in() {
        let mut publication = Publication::default();
        publication.push_with(b"one", Origin::Topic(TopicId::Tag(3)), 1, |out| {
            out.extend_from_slice(b"first")
        });
        publication.push_with(b"two", Origin::Live, 2, |_| {});
        let news: Vec<_> = publication
            .news()
            .map(|n| (n.name, n.payload, n.origin))
            .collect();
        let first = (&b"one"[..], &b"first"[..], Origin::Topic(TopicId::Tag(3)));
        assert_eq!(news, [first, (&b"two"[..], &b""[..], Origin::Live)]);
    }

    #[test]
    fn an_owed_value_is_a_message_without_payload() {
        let mut all = Publication::default();
        all.push_owed(b"one", TopicId::Book(3), 7);
        let mut second = Publication::default();
        second.push_owed(b"two", TopicId::Book(4), 8);
        all.append(second);
        let news: Vec<_> = all.news().map(|n| (n.name, n.origin, n.version)).collect();
        let of = |number| Origin::Owed(TopicId::Book(number));
        assert_eq!(news, [(&b"one"[..], of(3), 7), (&b"two"[..], of(4), 8)]);
        assert!(all.news().all(|news| news.payload.is_empty()));
    }

    #[test]
    fn publications_are_put_behind_each_other() {
        let mut all = Publication::default();
        for text in [&b"one"[..], &[7; SHARE_BYTES_MIN], b"three"] {
            all.append(Publication::single(text, text, Origin::Channel));
        }
        assert_eq!(all.news().count(), 3);
        assert!(all.news().all(|news| news.name == news.payload));
    }

    #[test]
    fn only_a_large_payload_is_shared() {
        let small = Publication::single(b"n", &[1; SHARE_BYTES_MIN - 1], Origin::Channel);
        assert!(small.news().next().unwrap().shared.is_none());
        let large = Publication::single(b"n", &[1; SHARE_BYTES_MIN], Origin::Channel);
        assert_eq!(
            large.news().next().unwrap().shared.unwrap().len(),
            SHARE_BYTES_MIN
        );
    }
}
