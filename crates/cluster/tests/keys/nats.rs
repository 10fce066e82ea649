//! A stream and a lease as JetStream has them: one number is checked, and nothing else.

use std::collections::BTreeSet;

use tidewire_cluster::Entry;
use tidewire_cluster::keys::{KeysExtent, KeysPosition};

/// How long an entry of the bucket stays, ms.
const LEASE_MS: u64 = 3_000;

/// The servers.
#[derive(Debug, Default)]
pub(crate) struct Nats {
    pub(crate) stream: Vec<Vec<u8>>,
    /// Messages whose senders did not name the one before.
    pub(crate) unfenced: BTreeSet<u64>,
    /// Messages whose bytes are damaged in the files: they are not read, and not missed.
    pub(crate) damaged: BTreeSet<u64>,
    /// The first so many messages are gone.
    pub(crate) gone: usize,
    /// The newest snapshot: where the stream is read on, and the log up to there.
    pub(crate) snapshot: Option<(KeysPosition, Vec<u8>)>,
    /// Revision of the bucket's last write, the value, and when it was written.
    entry: Option<(u64, u64, u64)>,
    revision: u64,
    /// No server leads until then, ms.
    pub(crate) without_leader_until: u64,
    /// The copy that answers reads is behind by so many messages.
    pub(crate) behind: usize,
}

impl Nats {
    pub(crate) fn has_leader(&self, now_ms: u64) -> bool {
        now_ms >= self.without_leader_until
    }

    pub(crate) fn extent(&self) -> KeysExtent {
        KeysExtent {
            origin: 1,
            missing: self.gone as u64,
            last: self.stream.len() as u64,
        }
    }

    /// Stores a message if the stream's last sequence is the expected one.
    pub(crate) fn store(&mut self, expected: u64, message: Vec<u8>) -> Option<u64> {
        (self.stream.len() as u64 == expected).then(|| {
            self.stream.push(message);
            self.stream.len() as u64
        })
    }

    /// Writes the entry if its revision is the expected one, 0 for none.
    pub(crate) fn write(&mut self, expected: u64, value: u64, now_ms: u64) -> Option<u64> {
        self.expire(now_ms);
        let found = self.entry.map_or(0, |(revision, ..)| revision);
        (found == expected).then(|| {
            self.revision += 1;
            self.entry = Some((self.revision, value, now_ms));
            self.revision
        })
    }

    pub(crate) fn read(&mut self, value: u64, now_ms: u64) -> Option<Entry> {
        self.expire(now_ms);
        self.entry.map(|(revision, found, _)| Entry {
            revision,
            is_ours: found == value,
        })
    }

    pub(crate) fn delete(&mut self, expected: u64) {
        self.entry.take_if(|(revision, ..)| *revision == expected);
    }

    fn expire(&mut self, now_ms: u64) {
        self.entry
            .take_if(|(_, _, written)| now_ms >= *written + LEASE_MS);
    }
}
