//! What a hub shares with other hubs: its live keys, and the names that have changed.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tidewire_keyspace::MountWriter;
use tidewire_resp::Writer;

use crate::hub_writes::{WriteAction, WriteEnd};

/// The live keys of a hub, for the thread that shares them with other hubs. It locks shards, so no
/// lane may wait for that thread.
pub trait SharedKeys: fmt::Debug + Send + Sync {
    /// Returns whether keys may be shared now: all are loaded, and the hub is no replica.
    fn is_open(&self) -> bool;

    /// Passes the value of an own live key to `show`, in the form in which it is published; `None`
    /// if there is none.
    fn own_value(&self, name: &[u8], show: &mut dyn FnMut(Option<&[u8]>));

    /// Appends the names of own live keys that are wanted.
    fn own_names(&self, wanted: &dyn Fn(&[u8]) -> bool, names: &mut Vec<Arc<[u8]>>);

    /// Changes the topic of another hub under the lock of its name. `change` is told whether this
    /// hub has a key of this name, and returns whether subscribers must hear of the change. Clients
    /// that watch the name or have it cached hear of it too.
    fn change_remote(&self, name: &[u8], change: &mut dyn FnMut(bool) -> bool);

    /// Returns whether clients cache what they read (CLIENT TRACKING).
    fn has_caches(&self) -> bool;

    /// Has clients discard what they have cached of another hub's topic, whose value is the same as
    /// before.
    fn invalidate_remote(&self, name: &[u8]);

    /// Tells clients that hear of all changes of some names what the calling thread has changed
    /// since the last call. The thread calls it after each turn.
    fn tell_caches(&self);

    /// Tells a client of the end of its write to a topic of another hub.
    fn tell_writer(&self, writer: MountWriter, result: WriteEnd);

    /// Changes an own live key for another hub. The end goes to [`HubWrites`](crate::HubWrites).
    fn write_own(&self, write: OwnWrite);
}

/// Another hub's write to a live key of this one.
#[derive(Clone, Debug)]
pub struct OwnWrite {
    /// Number of the request.
    pub number: u64,
    /// The key.
    pub name: Box<[u8]>,
    /// What is done to it.
    pub action: WriteAction,
    /// Which hub it comes from, for MONITOR and SLOWLOG.
    pub from: Box<str>,
}

/// The state of a plant tag, as hubs tell each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagParts<'a> {
    /// The name, with its prefix.
    pub name: &'a [u8],
    /// The code of the type, and whether it is an array.
    pub data_type: (u16, bool),
    /// The type of the value's bytes.
    pub value_kind: u8,
    /// The value, as the plant's protocol encodes it.
    pub value: &'a [u8],
    /// Whether the value is no longer current.
    pub is_stale: bool,
    /// The OPC quality word.
    pub quality: u16,
    /// The plant's status of the tag.
    pub status: u32,
    /// Time of measurement, FILETIME.
    pub source_time: i64,
    /// Time of receipt, nanoseconds since the UNIX epoch.
    pub receive_time_ns: u64,
    /// Sequence of the change.
    pub sequence: u64,
}

/// The tags of a plant, for the thread that shares them with other hubs.
pub trait SharedTags: fmt::Debug + Send + Sync {
    /// Appends the names of tags that have a value and are wanted.
    fn tag_names(&self, wanted: &dyn Fn(&[u8]) -> bool, names: &mut Vec<Arc<[u8]>>);

    /// Passes the state of a tag to `show`; `None` if it has no value yet.
    fn tag_state(&self, name: &[u8], show: &mut dyn FnMut(Option<&TagParts<'_>>));

    /// Writes to a tag for another hub: the end of request `number` goes to
    /// [`HubWrites`](crate::HubWrites). Returns false if the name is none of a tag.
    fn write_tag(&self, number: u64, name: &[u8], value: &[u8]) -> bool;
}

/// A plant tag of another hub, as clients see it. `is_lost`: its hub is not heard.
pub trait TagView: fmt::Debug + Send + Sync {
    /// Appends the value as GET returns it; returns false for an array.
    fn bare(&self, out: &mut Vec<u8>) -> bool;

    /// Replies the elements of an array; returns false for another value.
    fn reply_elements(&self, reply: &mut Writer<'_>) -> bool;

    /// Passes its fields to `fields`, in order.
    fn fields(&self, is_lost: bool, fields: &mut dyn FnMut(&[u8], &[u8]));

    /// Appends its JSON.
    fn json(&self, is_lost: bool, out: &mut Vec<u8>);
}

/// Makes what clients see of tags of other hubs.
pub trait TagViews: fmt::Debug + Send + Sync {
    /// Returns the tag with this state; `None` if its name is none of a tag.
    fn view(&self, parts: &TagParts<'_>) -> Option<Arc<dyn TagView>>;
}

/// The names of own topics that have changed since the last look. Noting a name waits for nothing
/// but a lock that is held for a few instructions.
#[derive(Default)]
pub struct ChangedNames {
    waiting: Mutex<Changed>,
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Names that have changed.
#[derive(Debug, Default)]
pub struct Changed {
    /// The names.
    pub names: HashSet<Box<[u8]>, RandomState>,
    /// Whether any other name may have changed too.
    pub all: bool,
}

impl ChangedNames {
    /// Sets what is called when the first name is noted. It must not wait.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(waker));
    }

    /// Notes a name.
    pub fn note(&self, name: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.all || waiting.names.contains(name) {
            return;
        }
        let is_first = waiting.names.is_empty();
        if waiting.names.len() >= NAMES_MAX {
            waiting.names.clear();
            waiting.all = true;
        } else {
            waiting.names.insert(name.into());
        }
        drop(waiting);
        if is_first {
            self.wake();
        }
    }

    /// Notes that any name may have changed.
    pub fn note_all(&self) {
        let mut waiting = self.waiting.lock();
        waiting.names.clear();
        waiting.all = true;
        drop(waiting);
        self.wake();
    }

    /// Returns what has changed since the last call.
    pub fn take(&self) -> Changed {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// Returns whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.names.is_empty() && !waiting.all
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker();
        }
    }
}

impl fmt::Debug for ChangedNames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChangedNames")
    }
}

/// Maximum names that wait. Beyond them all names count as changed.
const NAMES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn the_thread_is_woken_once_for_many_names() {
        let names = ChangedNames::default();
        let woken = Arc::new(AtomicU64::new(0));
        let counter = woken.clone();
        names.set_waker(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        for name in [b"a", b"b", b"a"] {
            names.note(name);
        }
        let taken = names.take();
        assert!(taken.names.len() == 2 && !taken.all && names.is_empty());
        names.note(b"a");
        assert_eq!(woken.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn beyond_the_limit_all_names_count_as_changed() {
        let names = ChangedNames::default();
        for number in 0..=NAMES_MAX {
            names.note(&number.to_le_bytes());
        }
        let taken = names.take();
        assert!(taken.names.is_empty() && taken.all);
    }
}
