//! The hottest keys and channels: each lane looks at one command in [`SAMPLED_EVERY`] and keeps a
//! small sketch of the names that it sees (space-saving: a new name takes the place of the least
//! seen one, and its count). Counts fade, so that they tell the rates of the last seconds.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// What all lanes have seen.
#[derive(Debug)]
pub(crate) struct HotNames {
    lanes: Vec<Mutex<Sketch>>,
    /// When the first was seen, monotonic ns.
    started_ns: AtomicU64,
}

/// What a name is.
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
    entries: Vec<Entry>,
    faded_ns: u64,
}

#[derive(Debug)]
struct Entry {
    kind: HotKind,
    name: Box<[u8]>,
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

    /// A name was used, in a command that is looked at.
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
                let is = |name: &&mut HotName| name.kind == entry.kind && name.name == entry.name;
                match names.iter_mut().find(is) {
                    Some(name) => {
                        name.rate += rate;
                        name.error += error;
                    }
                    None => names.push(HotName {
                        kind: entry.kind,
                        name: entry.name.clone(),
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
        let is = |entry: &&mut Entry| entry.kind == kind && *entry.name == *name;
        if let Some(entry) = self.entries.iter_mut().find(is) {
            entry.count += 1.0;
            return;
        }
        if self.entries.len() < NAMES_MAX {
            self.entries.push(Entry {
                kind,
                name: name.into(),
                count: 1.0,
                error: 0.0,
            });
            return;
        }
        let least = self
            .entries
            .iter_mut()
            .min_by(|one, other| one.count.total_cmp(&other.count));
        if let Some(least) = least {
            *least = Entry {
                kind,
                name: name.into(),
                count: least.count + 1.0,
                error: least.count,
            };
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
    }
}

/// What is left of a count after so many seconds.
fn fade(seconds: f64) -> f64 {
    (-seconds / HALF_LIFE_S).exp2()
}

/// One command in so many is looked at.
pub(crate) const SAMPLED_EVERY: u32 = 16;
/// Names of one lane's sketch.
const NAMES_MAX: usize = 64;
/// What is kept of a name.
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
}
