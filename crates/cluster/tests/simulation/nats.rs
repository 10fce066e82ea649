//! A NATS server in memory: a log with an expected last sequence, the last message of each snapshot
//! subject, and a bucket whose entry expires.

use std::collections::{BTreeMap, HashMap};

use tidewire_cluster::{Frame, FrameHeader, FrameId};

use super::source::Bytes;

const ENTRY_AGE_NS: u64 = 3_000_000_000;

/// The state behind all answers.
#[derive(Default)]
pub(crate) struct Nats {
    log: BTreeMap<u64, Bytes>,
    pub(crate) log_last: u64,
    names: HashMap<FrameId, u64>,
    pages: BTreeMap<u32, Bytes>,
    head: Option<Bytes>,
    entry: Option<KeyEntry>,
    revisions: u64,
    /// No stream answers until then.
    pub(crate) outage_until_ns: u64,
}

struct KeyEntry {
    /// Nothing if the entry was deleted: what is left of it keeps its revision.
    holder: Option<u64>,
    revision: u64,
    expires_ns: u64,
}

impl Nats {
    pub(crate) fn is_out(&self, now_ns: u64) -> bool {
        now_ns < self.outage_until_ns
    }

    /// Returns the sequence of the message, or nothing if it is refused.
    pub(crate) fn publish(&mut self, id: FrameId, expected_last: u64, bytes: Bytes) -> Option<u64> {
        // In this order, as nats-server does.
        if self.log_last != expected_last {
            return None;
        }
        if let Some(&known) = self.names.get(&id) {
            return Some(known);
        }
        self.log_last += 1;
        self.log.insert(self.log_last, bytes);
        self.names.insert(id, self.log_last);
        Some(self.log_last)
    }

    pub(crate) fn log_end(&self) -> (u64, Option<FrameHeader>) {
        let header = |bytes: &Bytes| Frame::decode(bytes).unwrap().header;
        (self.log_last, self.log.get(&self.log_last).map(header))
    }

    /// Returns the messages behind one; nothing if the next one is gone.
    pub(crate) fn read_log(&self, after: u64) -> Option<Vec<(u64, Bytes)>> {
        let oldest = self.log.keys().next().copied().unwrap_or(self.log_last + 1);
        if after > 0 && after + 1 < oldest {
            return None;
        }
        let behind = self.log.range(after + 1..);
        Some(
            behind
                .map(|(&sequence, bytes)| (sequence, bytes.clone()))
                .collect(),
        )
    }

    /// Loses the last messages, as after a crash of servers that had not synced them.
    pub(crate) fn forget(&mut self, count: u64) {
        self.log_last = self.log_last.saturating_sub(count);
        self.log.split_off(&(self.log_last + 1));
        self.names.retain(|_, sequence| *sequence <= self.log_last);
    }

    pub(crate) fn truncate(&mut self, keep: u64) {
        self.log = self.log.split_off(&self.log_last.saturating_sub(keep));
    }

    pub(crate) fn store_page(&mut self, page: u32, bytes: Bytes) {
        self.pages.insert(page, bytes);
    }

    pub(crate) fn store_head(&mut self, bytes: Bytes) {
        self.head = Some(bytes);
    }

    pub(crate) fn snapshot(&self) -> (Option<Bytes>, Vec<Bytes>) {
        (self.head.clone(), self.pages.values().cloned().collect())
    }

    /// Returns whether the entry has expired now.
    pub(crate) fn expire(&mut self, now_ns: u64) -> bool {
        self.entry
            .take_if(|entry| now_ns >= entry.expires_ns)
            .is_some()
    }

    /// Writes the entry if there is none, or if it has this revision.
    pub(crate) fn write_entry(
        &mut self,
        holder: u64,
        revision: Option<u64>,
        now_ns: u64,
    ) -> Option<u64> {
        if self.entry.as_ref().map(|entry| entry.revision) != revision {
            return None;
        }
        self.revisions += 1;
        self.entry = Some(KeyEntry {
            holder: Some(holder),
            revision: self.revisions,
            expires_ns: now_ns + ENTRY_AGE_NS,
        });
        Some(self.revisions)
    }

    /// Returns the holder, unless the entry was deleted, and the revision.
    pub(crate) fn read_entry(&self) -> Option<(Option<u64>, u64)> {
        self.entry
            .as_ref()
            .map(|entry| (entry.holder, entry.revision))
    }

    pub(crate) fn delete_entry(&mut self, revision: u64, now_ns: u64) {
        let is_there = |entry: &KeyEntry| entry.revision == revision;
        if self.entry.as_ref().is_some_and(is_there) {
            self.revisions += 1;
            self.entry = Some(KeyEntry {
                holder: None,
                revision: self.revisions,
                expires_ns: now_ns + ENTRY_AGE_NS,
            });
        }
    }
}
