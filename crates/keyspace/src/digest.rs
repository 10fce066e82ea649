//! Digests of values, computed as Redis's DEBUG DIGEST does, to compare two servers.
//!
//! Ordered parts are mixed; unordered parts are XORed.

use sha1::{Digest as _, Sha1};

use crate::entry::Entry;
use crate::fields::Fields;
use crate::stream::StreamId;
use crate::value::{ValueRef, ValueType};

/// The digest of a server or a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest([u8; 20]);

impl Digest {
    /// Adds a part whose order matters.
    pub(crate) fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = sha1(&self.0);
    }

    /// Adds a part whose order does not matter.
    pub(crate) fn xor(&mut self, bytes: &[u8]) {
        let hash = sha1(bytes);
        self.0
            .iter_mut()
            .zip(hash)
            .for_each(|(own, byte)| *own ^= byte);
    }

    /// Adds a value, and whether its key has a TTL.
    pub(crate) fn add_value(&mut self, entry: &Entry) {
        let value = ValueRef::new(entry);
        let kind: u32 = match value.value_type() {
            ValueType::String => 0,
            ValueType::List => 1,
            ValueType::Set => 2,
            ValueType::SortedSet => 3,
            ValueType::Hash => 4,
            ValueType::Stream => 6,
        };
        self.mix(&kind.to_be_bytes());
        if let Some(text) = value.text() {
            self.mix(text.as_bytes());
        } else if let Some(list) = value.list() {
            list.iter_from(0, false)
                .for_each(|element| self.mix(element.as_bytes()));
        } else if let Some(members) = value.members() {
            members
                .iter()
                .for_each(|member| self.xor(member.as_bytes()));
        } else if let Some(scored) = value.sorted_set() {
            for (member, score) in scored.iter() {
                let mut own = Digest::default();
                own.mix(member.as_bytes());
                own.mix(tidewire_resp::number::DoubleText::shortest(score).as_bytes());
                self.xor(&own.0);
            }
        } else if let Some(stream) = value.stream() {
            for logged in stream.log.range(StreamId::MIN, StreamId::MAX) {
                let id = logged.id();
                self.mix(format!("{}.{}", id.time_ms, id.sequence).as_bytes());
                for (name, text) in logged.fields() {
                    self.mix(name);
                    self.mix(text.as_bytes());
                }
            }
        } else if let Some(fields) = Fields::of(entry, i64::MIN) {
            self.add_fields(fields);
        }
        if entry.deadline_ms().is_some() {
            self.xor(b"!!expire!!");
        }
    }

    /// Returns the digest in hexadecimal digits.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn xor_digest(&mut self, other: Digest) {
        self.xor(&other.0);
    }

    fn add_fields(&mut self, fields: Fields<'_>) {
        for pair in fields.pairs() {
            let mut own = Digest::default();
            own.mix(pair.field);
            own.mix(pair.value);
            if pair.deadline_ms.is_some() {
                own.xor(b"!!hexpire!!");
            }
            self.xor(&own.0);
        }
    }
}

fn sha1(message: &[u8]) -> [u8; 20] {
    Sha1::digest(message).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: [u8; 20]) -> String {
        Digest(bytes).text()
    }

    #[test]
    fn sha1_matches_the_test_vectors_of_the_standard() {
        assert_eq!(hex(sha1(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(
            hex(sha1(b"abc")),
            "a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(sha1(long)), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        let million = vec![b'a'; 1_000_000];
        assert_eq!(
            hex(sha1(&million)),
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f"
        );
    }
}
