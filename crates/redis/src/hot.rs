//! The hottest keys and channels: each lane looks at one command in [`SAMPLED_EVERY`] and keeps a
//! small sketch of the names that it sees (space-saving: a new name takes the place of the least
//! seen one, and its count). Counts fade, so that they tell the rates of the last seconds.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The names that all lanes have sampled.
#[derive(Debug)]
pub(crate) struct HotNames {
    lanes: Vec<Mutex<Sketch>>,
    /// When the first was seen, monotonic ns.
    started_ns: AtomicU64,
}

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HotKind {
    /// A key, with its database.
    Key(usize),
    /// A channel that is published to.
    Channel,
}

/// A name and how often it is used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HotName {
    pub(crate) kind: HotKind,
    /// Its first bytes.
    pub(crate) name: Box<[u8]>,
    /// Uses a second.
    pub(crate) rate: f64,
    /// By how much the rate may be too high.
    pub(crate) error: f64,
}

#[derive(Debug, Default)]
struct Sketch {
    /// A fingerprint of each entry, side by side. Most names differ in it, so that few entries are
    /// read.
    prints: Vec<u32>,
    entries: Vec<HotEntry>,
    faded_ns: u64,
    /// No entry before this one has so small a count as `least`, and none anywhere a smaller one.
    next: usize,
    least: f64,
}

#[derive(Debug)]
struct HotEntry {
    kind: HotKind,
    name: Vec<u8>,
    count: f64,
    error: f64,
}

impl HotNames {
    pub(crate) fn new(lanes: usize) -> Self {
        HotNames {
            lanes: (0..lanes).map(|_| Mutex::default()).collect(),
            started_ns: AtomicU64::new(u64::MAX),
        }
    }

    /// Counts the name of a sampled command.
    pub(crate) fn note(&self, lane: usize, kind: HotKind, name: &[u8], now_ns: u64) {
        if self.started_ns.load(Ordering::Relaxed) > now_ns {
            self.started_ns.store(now_ns, Ordering::Relaxed);
        }
        self.lanes[lane].lock().note(kind, name, now_ns);
    }

    /// The hottest names of a kind, at most `count`.
    pub(crate) fn top(&self, channels: bool, count: usize, now_ns: u64) -> Vec<HotName> {
        let age_s = now_ns.saturating_sub(self.started_ns.load(Ordering::Relaxed)) as f64 / 1e9;
        // In the long run a name that is seen once a second counts as this many.
        let seconds = (HALF_LIFE_S / std::f64::consts::LN_2) * (1.0 - fade(age_s.max(0.1)));
        debug_assert!(seconds > 0.0, "a rate is over a time");
        let scale = SAMPLED_EVERY as f64 / seconds;
        let mut names: Vec<HotName> = Vec::new();
        for lane in &self.lanes {
            let mut sketch = lane.lock();
            sketch.fade(now_ns);
            for entry in &sketch.entries {
                if (entry.kind == HotKind::Channel) != channels {
                    continue;
                }
                let (rate, error) = (entry.count * scale, entry.error * scale);
                let is = |name: &&mut HotName| name.kind == entry.kind && *name.name == *entry.name;
                match names.iter_mut().find(is) {
                    Some(name) => {
                        name.rate += rate;
                        name.error += error;
                    }
                    None => names.push(HotName {
                        kind: entry.kind,
                        name: entry.name.as_slice().into(),
                        rate,
                        error,
                    }),
                }
            }
        }
        names.sort_by(|one, other| other.rate.total_cmp(&one.rate));
        names.truncate(count);
        names
    }

    /// Forgets everything.
    pub(crate) fn reset(&self, now_ns: u64) {
        self.started_ns.store(now_ns, Ordering::Relaxed);
        for lane in &self.lanes {
            *lane.lock() = Sketch::default();
        }
    }
}

impl Sketch {
    fn note(&mut self, kind: HotKind, name: &[u8], now_ns: u64) {
        if now_ns.saturating_sub(self.faded_ns) > FADE_EVERY_NS {
            self.fade(now_ns);
        }
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        debug_assert_eq!(
            self.prints.len(),
            self.entries.len(),
            "a print for each entry"
        );
        let print = print(kind, name);
        if let Some(at) = self.find(print, kind, name) {
            self.entries[at].count += 1.0;
        } else if self.entries.len() < NAMES_MAX {
            self.prints.push(print);
            self.entries.push(HotEntry {
                kind,
                name: name.to_vec(),
                count: 1.0,
                error: 0.0,
            });
        } else {
            let at = self.least_seen();
            debug_assert!(at < self.entries.len(), "the list is full");
            self.prints[at] = print;
            let entry = &mut self.entries[at];
            entry.kind = kind;
            entry.name.clear();
            entry.name.extend_from_slice(name);
            entry.error = entry.count;
            entry.count += 1.0;
        }
    }

    #[inline]
    fn find(&self, print: u32, kind: HotKind, name: &[u8]) -> Option<usize> {
        // All are compared before any entry is read: the processor does several at once.
        let seen = |prints: &[u32]| {
            prints
                .iter()
                .fold(false, |seen, &one| seen | (one == print))
        };
        if !seen(&self.prints) {
            return None;
        }
        let mut entries = self.prints.iter().zip(&self.entries);
        entries.position(|(&one, entry)| one == print && entry.kind == kind && entry.name == name)
    }

    /// The entry with the least count. Counts only rise between two calls, or all fade, so that the
    /// search goes on where it ended: one round finds all that have the same.
    #[inline]
    fn least_seen(&mut self) -> usize {
        loop {
            let is_least = |entry: &HotEntry| entry.count <= self.least;
            if let Some(found) = self.entries[self.next..].iter().position(is_least) {
                self.next += found;
                return self.next;
            }
            let counts = self.entries.iter().map(|entry| entry.count);
            (self.next, self.least) = (0, counts.fold(f64::INFINITY, f64::min));
        }
    }

    fn fade(&mut self, now_ns: u64) {
        let seconds = now_ns.saturating_sub(self.faded_ns) as f64 / 1e9;
        self.faded_ns = now_ns;
        let part = fade(seconds);
        self.entries.iter_mut().for_each(|entry| {
            entry.count *= part;
            entry.error *= part;
        });
        self.entries.retain(|entry| entry.count > FORGOTTEN);
        let prints = self.entries.iter();
        self.prints = prints.map(|e| print(e.kind, &e.name)).collect();
        debug_assert!((0.0..=1.0).contains(&part), "time only takes away");
        (self.next, self.least) = (0, 0.0);
    }
}

/// Different for most names: made of the first eight bytes, the last eight, and the length.
#[inline]
fn print(kind: HotKind, name: &[u8]) -> u32 {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let kind = match kind {
        HotKind::Key(database) => database as u64,
        HotKind::Channel => u64::MAX,
    };
    let (first, last) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (word(name), 0),
    };
    let mixed = (first ^ last.rotate_left(29) ^ kind).wrapping_add(name.len() as u64);
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// The part of a count that is left after `seconds`.
fn fade(seconds: f64) -> f64 {
    (-seconds / HALF_LIFE_S).exp2()
}

/// One in this many commands is sampled.
pub(crate) const SAMPLED_EVERY: u32 = 16;
/// Names of one lane's sketch.
const NAMES_MAX: usize = 64;
/// Bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 256;
/// After this time a count has faded by half.
const HALF_LIFE_S: f64 = 10.0;
const FADE_EVERY_NS: u64 = 1_000_000_000;
/// Below it a name is forgotten.
const FORGOTTEN: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_key_is_found_among_many_cold_ones() {
        let hot = HotNames::new(2);
        // For a minute: one key 100 times a second on both lanes, 1,000 others as often together.
        for step in 0..6_000u64 {
            let now_ns = step * 10_000_000;
            let lane = step as usize % 2;
            hot.note(lane, HotKind::Key(0), b"hot", now_ns);
            let cold = format!("cold:{}", step * 7_919 % 1_000);
            hot.note(lane, HotKind::Key(0), cold.as_bytes(), now_ns);
        }
        let top = hot.top(false, 3, 60_000_000_000);
        assert_eq!(&*top[0].name, b"hot");
        let expected = 100.0 * f64::from(SAMPLED_EVERY);
        assert!((top[0].rate / expected - 1.0).abs() < 0.05, "{:?}", top[0]);
        assert!(top[1].rate - top[1].error < 0.1 * expected, "{:?}", top[1]);
        assert!(hot.top(true, 3, 60_000_000_000).is_empty());
        // Five minutes later nothing is hot.
        assert!(hot.top(false, 3, 360_000_000_000).is_empty());
    }

    #[test]
    fn memory_does_not_grow_with_names() {
        let mut sketch = Sketch::default();
        for number in 0..10_000u32 {
            sketch.note(HotKind::Channel, &[number as u8; 1_000], u64::from(number));
            sketch.note(HotKind::Key(3), &number.to_le_bytes(), u64::from(number));
        }
        assert_eq!(sketch.entries.len(), NAMES_MAX);
        assert!(
            sketch
                .entries
                .iter()
                .all(|e| e.name.len() <= NAME_BYTES_MAX)
        );
    }

    #[test]
    fn the_least_seen_gives_way_as_if_all_were_looked_at() {
        let mut sketch = Sketch::default();
        let mut model: Vec<(u32, f64)> = Vec::new();
        let mut state = 1u32;
        for step in 0..20_000u64 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // A few names often, many seldom; for a while nothing new.
            let number = match state >> 29 {
                0..=2 => state >> 8 & 7,
                _ if step % 5_000 < 1_000 => state >> 8 & 31,
                _ => state >> 8 & 1_023,
            };
            sketch.note(HotKind::Key(0), &number.to_le_bytes(), 1);
            if let Some((_, count)) = model.iter_mut().find(|(name, _)| *name == number) {
                *count += 1.0;
            } else if model.len() < NAMES_MAX {
                model.push((number, 1.0));
            } else {
                // Which of the least gives way is no matter to the counts.
                model.sort_by(|one, other| one.1.total_cmp(&other.1));
                let held = |name: u32| sketch.entries.iter().any(|e| e.name == name.to_le_bytes());
                let least = model[0].1;
                let gone = model
                    .iter()
                    .position(|&(name, count)| count == least && !held(name));
                model[gone.expect("one of the least has gone")] = (number, least + 1.0);
            }
        }
        let mut counts: Vec<f64> = sketch.entries.iter().map(|entry| entry.count).collect();
        let mut expected: Vec<f64> = model.iter().map(|(_, count)| *count).collect();
        counts.sort_by(f64::total_cmp);
        expected.sort_by(f64::total_cmp);
        assert_eq!(counts, expected);
    }
}
