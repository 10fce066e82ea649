//! Topics that a source got without asking: another source has made one of its venues a topic.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Topic numbers by the source that writes to them now. A source claims its own before it marks
/// its topics or ends. All of it happens under the journal's lock.
#[derive(Debug, Default)]
pub(crate) struct HandedTopics {
    by_source: Mutex<BTreeMap<u32, Vec<u32>>>,
}

impl HandedTopics {
    /// Notes that a topic is `source`'s now.
    pub(crate) fn add(&self, source: u32, number: u32) {
        let mut by_source = self.by_source.lock();
        by_source.entry(source).or_default().push(number);
    }

    /// Returns the topics of a source that it does not know of yet.
    pub(crate) fn take(&self, source: u32) -> Vec<u32> {
        self.by_source.lock().remove(&source).unwrap_or_default()
    }
}
