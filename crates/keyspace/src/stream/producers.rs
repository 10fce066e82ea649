//! Producers of a stream that give each entry an id of their own. An entry that is sent twice is
//! added once, as long as the stream remembers the producer's id of it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use foldhash::quality::RandomState;

use super::id::StreamId;

/// For how long, and for how many entries, a stream remembers what a producer has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProducerLimits {
    /// Seconds, from the time in the entry's id.
    pub(crate) duration_s: u32,
    /// Entries per producer.
    pub(crate) entries_max: u32,
}

impl Default for ProducerLimits {
    fn default() -> Self {
        ProducerLimits {
            duration_s: 100,
            entries_max: 100,
        }
    }
}

impl ProducerLimits {
    /// Returns the time up to which entries are forgotten at this time, ms since the UNIX epoch.
    fn forgotten_ms(self, now_ms: i64) -> u64 {
        let duration_ms = i64::from(self.duration_s) * 1_000;
        u64::try_from(now_ms.saturating_sub(duration_ms)).unwrap_or(0)
    }
}

/// The producers of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Producers {
    pub(crate) limits: ProducerLimits,
    known: Option<Box<Known>>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    by_name: BTreeMap<Box<[u8]>, Producer>,
    /// Entries ever added with an id of their producer, and those that were sent again.
    totals: ProducerTotals,
    /// When all producers are looked through next for entries to forget, ms since the UNIX epoch.
    sweep_ms: u64,
}

/// Counters of a stream since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProducerTotals {
    /// Entries added with an id of their producer.
    pub(crate) added: u64,
    /// Entries that were sent again.
    pub(crate) duplicates: u64,
}

/// What one producer has sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Producer {
    entries: HashMap<Arc<[u8]>, StreamId, RandomState>,
    /// In the order in which they were added; the first one is forgotten first.
    order: VecDeque<Arc<[u8]>>,
}

impl Producers {
    /// Returns those of a new stream.
    pub(crate) fn new(limits: ProducerLimits) -> Self {
        Producers {
            limits,
            known: None,
        }
    }

    /// Returns whether a reader that knows no producers would take the stream for the same.
    pub(crate) fn is_plain(&self) -> bool {
        self.known.is_none() && self.limits == ProducerLimits::default()
    }

    /// Returns the entry that a producer has sent with this id. `now_ms` is ms since the UNIX
    /// epoch, or 0 if nothing may be forgotten.
    pub(crate) fn find(&mut self, name: &[u8], id: &[u8], now_ms: i64) -> Option<StreamId> {
        let until_ms = self.limits.forgotten_ms(now_ms);
        let known = self.known.as_mut()?;
        let producer = known.by_name.get_mut(name)?;
        producer.forget_until(until_ms);
        producer.entries.get(id).copied()
    }

    pub(crate) fn note_duplicate(&mut self) {
        self.known.get_or_insert_default().totals.duplicates += 1;
    }

    /// Remembers an entry, which [`find`](Self::find) has not found. `now_ms` is ms since the UNIX
    /// epoch.
    pub(crate) fn add(&mut self, name: &[u8], id: &[u8], entry: StreamId, now_ms: i64) {
        let limits = self.limits;
        let known = self.known.get_or_insert_default();
        known.totals.added += 1;
        let at_ms = entry.time_ms.min(now_ms.max(0) as u64);
        known.sweep(limits, at_ms);
        let producer = match known.by_name.get_mut(name) {
            Some(producer) => producer,
            None => known.by_name.entry(name.into()).or_default(),
        };
        producer.push(id, entry);
        if producer.order.len() > limits.entries_max as usize {
            producer.pop();
        }
    }

    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        if let Some(known) = &mut self.known {
            known.by_name.clear();
        }
    }

    pub(crate) fn totals(&self) -> ProducerTotals {
        self.known
            .as_ref()
            .map_or(ProducerTotals::default(), |known| known.totals)
    }

    /// Returns how many producers have entries that are not forgotten at this time, and how many
    /// entries these are.
    pub(crate) fn count(&self, now_ms: i64) -> (usize, usize) {
        let until_ms = self.limits.forgotten_ms(now_ms);
        let counts = self.iter().map(|(_, producer)| {
            let ids = producer.iter().map(|(_, entry)| entry);
            ids.skip_while(|entry| entry.time_ms <= until_ms).count()
        });
        counts
            .filter(|&count| count > 0)
            .fold((0, 0), |(producers, entries), count| {
                (producers + 1, entries + count)
            })
    }

    /// Returns the number of producers.
    pub(crate) fn len(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.by_name.len())
    }

    /// Iterates over producers by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Producer)> {
        let known = self.known.iter().flat_map(|known| &known.by_name);
        known.map(|(name, producer)| (&**name, producer))
    }

    /// Adds a producer that was read, with its entries in order. Returns false if it is there
    /// already.
    pub(crate) fn restore(&mut self, name: &[u8], producer: Producer) -> bool {
        let known = self.known.get_or_insert_default();
        known.by_name.insert(name.into(), producer).is_none()
    }

    /// Sets the counters that were read.
    pub(crate) fn restore_totals(&mut self, totals: ProducerTotals) {
        if self.known.is_some() || totals != ProducerTotals::default() {
            self.known.get_or_insert_default().totals = totals;
        }
    }

    /// Returns the approximate memory in bytes, beside the structure itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        let each = self.iter().map(|(name, producer)| {
            let texts: usize = producer.order.iter().map(|id| id.len() + ENTRY_BYTES).sum();
            name.len() + size_of::<Producer>() + texts
        });
        each.sum::<usize>() + self.known.as_ref().map_or(0, |_| size_of::<Known>())
    }
}

impl Known {
    /// Forgets old entries of all producers, at most once per second of the entries' own time. So
    /// a replica, which gets the same entries, forgets the same ones.
    fn sweep(&mut self, limits: ProducerLimits, at_ms: u64) {
        if at_ms < self.sweep_ms {
            return;
        }
        self.sweep_ms = at_ms + SWEEP_MS;
        let until_ms = at_ms.saturating_sub(u64::from(limits.duration_s) * 1_000);
        self.by_name.retain(|_, producer| {
            producer.forget_until(until_ms);
            !producer.order.is_empty()
        });
    }
}

impl Producer {
    /// Adds an entry; returns false if its id is there already.
    pub(crate) fn push(&mut self, id: &[u8], entry: StreamId) -> bool {
        if self.entries.contains_key(id) {
            return false;
        }
        let id: Arc<[u8]> = id.into();
        self.entries.insert(id.clone(), entry);
        self.order.push_back(id);
        debug_assert_eq!(self.entries.len(), self.order.len());
        true
    }

    /// Iterates over its entries in the order in which they were added.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], StreamId)> {
        let entry = |id: &Arc<[u8]>| self.entries.get(id).copied().unwrap_or_default();
        self.order.iter().map(move |id| (&**id, entry(id)))
    }

    fn forget_until(&mut self, until_ms: u64) {
        while let Some(first) = self.order.front()
            && self
                .entries
                .get(first)
                .is_none_or(|entry| entry.time_ms <= until_ms)
        {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(first) = self.order.pop_front() {
            self.entries.remove(&first);
        }
        debug_assert_eq!(self.entries.len(), self.order.len());
    }
}

const SWEEP_MS: u64 = 1_000;
/// Approximate bytes of an entry in both structures, beside its id.
const ENTRY_BYTES: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn id(after_ms: i64) -> StreamId {
        StreamId::new((NOW_MS + after_ms) as u64, 0)
    }

    #[test]
    fn an_id_is_known_until_its_time_or_its_producer_s_room_is_over() {
        let mut producers = Producers::new(ProducerLimits {
            duration_s: 10,
            entries_max: 2,
        });
        for number in 0..3u8 {
            producers.add(b"one", &[number], id(number.into()), NOW_MS);
        }
        producers.add(b"two", b"0", id(5_000), NOW_MS + 5_000);
        assert_eq!(producers.find(b"one", &[0], NOW_MS), None, "only two fit");
        assert_eq!(producers.find(b"one", &[1], NOW_MS), Some(id(1)));
        assert_eq!(producers.count(NOW_MS + 10_001), (2, 2));
        assert_eq!(producers.find(b"one", &[1], NOW_MS + 10_001), None);
        assert_eq!(producers.find(b"one", &[2], NOW_MS + 10_001), Some(id(2)));
        assert_eq!(producers.find(b"one", &[2], 0), Some(id(2)), "told");
        assert_eq!(producers.totals().added, 4);
    }

    #[test]
    fn later_entries_free_those_of_producers_that_have_stopped() {
        let mut producers = Producers::new(ProducerLimits::default());
        for number in 0..1_000u32 {
            producers.add(&number.to_be_bytes(), b"id", id(0), NOW_MS);
        }
        assert_eq!(producers.len(), 1_000);
        producers.add(b"last", b"id", id(100_000), NOW_MS + 100_000);
        assert_eq!(producers.len(), 1);
        producers.clear();
        assert_eq!((producers.len(), producers.totals().added), (0, 1_001));
        assert!(!producers.is_plain(), "its counters are to be kept");
    }
}
