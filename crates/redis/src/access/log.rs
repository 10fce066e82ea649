//! Recent refusals, for ACL LOG.

use std::collections::VecDeque;

use super::{Origin, Reason};

/// The newest refusals, newest first.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Numbered>,
    next_number: i64,
}

/// A refusal.
#[derive(Clone, Debug)]
pub(crate) struct AclLogEntry {
    pub(crate) reason: Reason,
    pub(crate) origin: Origin,
    /// The command, key or channel that was refused.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Box<[u8]>,
    /// The client, as CLIENT INFO describes it.
    pub(crate) client: String,
    /// Ms since the UNIX epoch.
    pub(crate) unix_ms: i64,
}

/// A refusal and how often it came.
#[derive(Clone, Debug)]
pub(crate) struct Numbered {
    pub(crate) number: i64,
    pub(crate) count: i64,
    /// When it came first, ms since the UNIX epoch; the entry has when it came last.
    pub(crate) created_unix_ms: i64,
    pub(crate) entry: AclLogEntry,
}

impl Log {
    /// Keeps a refusal, or counts it with one of the newest that is like it.
    pub(super) fn add(&mut self, entry: AclLogEntry, entries_max: usize) {
        let mut newest = self.entries.iter().take(SEARCHED_MAX);
        let like = newest.position(|other| other.entry.is_like(&entry));
        if entries_max == 0 {
            self.entries.clear();
        } else if let Some(mut known) = like.and_then(|at| self.entries.remove(at)) {
            debug_assert!(known.count > 0, "an entry stands for an event at least");
            known.count += 1;
            known.entry.client = entry.client;
            known.entry.unix_ms = entry.unix_ms;
            self.entries.push_front(known);
        } else {
            self.entries.push_front(Numbered {
                number: self.next_number,
                count: 1,
                created_unix_ms: entry.unix_ms,
                entry,
            });
            self.next_number += 1;
            self.entries.truncate(entries_max);
            debug_assert!(
                self.entries
                    .front()
                    .is_some_and(|newest| newest.number + 1 == self.next_number),
                "the newest entry is the first"
            );
        }
    }

    /// Returns up to `count` refusals, newest first.
    pub(crate) fn newest(&self, count: usize) -> Vec<Numbered> {
        self.entries.iter().take(count).cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

impl AclLogEntry {
    fn is_like(&self, other: &AclLogEntry) -> bool {
        self.reason == other.reason
            && self.origin == other.origin
            && self.unix_ms.abs_diff(other.unix_ms) <= ALIKE_MS_MAX
            && self.object == other.object
            && self.user == other.user
    }
}

/// How many entries are searched for an equal one.
const SEARCHED_MAX: usize = 10;
/// Refusals further apart than this count separately.
const ALIKE_MS_MAX: u64 = 60_000;
