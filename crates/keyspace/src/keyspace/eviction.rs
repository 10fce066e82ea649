//! Eviction: removing keys when memory is full.
//!
//! As in Redis, the best key to evict is chosen from a few samples, and the best of the others are
//! remembered for the next eviction. Locked shards are skipped, so that a lane never waits for
//! another lane's eviction.

use std::sync::atomic::Ordering;

use super::Keyspace;
use crate::access::{self, Access};
use crate::entry::Entry;
use crate::hash;
use crate::key::{DATABASES, Key, SHARDS, shard_of};
use crate::locks::Locked;
use crate::observer::{Event, Observer};
use crate::shard::Dictionary;
use crate::view::View;

/// The keys to evict and their order: the settings `maxmemory-policy` and `maxmemory-samples`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionRules {
    /// The order.
    pub order: EvictionOrder,
    /// Whether only keys with a TTL are evicted.
    pub expiring_only: bool,
    /// Number of keys to sample per evicted key.
    pub samples: usize,
}

/// Which of the sampled keys is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrder {
    /// The key that was not used for the longest time.
    LeastRecentlyUsed,
    /// The key that was not changed for the longest time.
    LeastRecentlyModified,
    /// The key that is used least often.
    LeastFrequentlyUsed,
    /// A random key.
    Random,
    /// The key with the earliest deadline.
    SoonestToExpire,
}

/// The state of one caller of [`Keyspace::evict`] between calls.
#[derive(Debug, Default)]
pub struct Evictor {
    /// Best candidate for eviction first.
    candidates: Vec<Candidate>,
    random: u64,
    name: Vec<u8>,
}

/// The result of [`Keyspace::evict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// A key was removed.
    Key,
    /// No key may be evicted.
    Nothing,
    /// No key was found in the unlocked shards.
    Busy,
}

/// A sampled key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    /// The higher the score, the sooner the key is evicted.
    score: u64,
    hash: u64,
    database: usize,
}

impl Evictor {
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        hash::mixed(self.random)
    }

    /// Remembers a key, if it is among the best candidates.
    fn add(&mut self, candidate: Candidate) {
        let full = self.candidates.len() >= CANDIDATES_MAX;
        if full && candidate.score <= self.candidates[0].score
            || self
                .candidates
                .iter()
                .any(|known| (known.hash, known.database) == (candidate.hash, candidate.database))
        {
            return;
        }
        if full {
            self.candidates.remove(0);
        }
        let at = self
            .candidates
            .partition_point(|known| known.score < candidate.score);
        self.candidates.insert(at, candidate);
        debug_assert!(self.candidates.len() <= CANDIDATES_MAX);
        debug_assert!(self.candidates.is_sorted_by_key(|known| known.score));
    }
}

impl Keyspace {
    /// Evicts one key, the best of a few candidates. The caller holds no shard.
    pub fn evict(
        &self,
        evictor: &mut Evictor,
        rules: EvictionRules,
        now_ms: i64,
        observer: &mut dyn Observer,
    ) -> Evicted {
        if evictor.random == 0 {
            evictor.random = self.random() | 1;
        }
        let scores = CandidateScores {
            rules,
            access: self.access(),
            now_ms,
        };
        let mut busy = false;
        for _ in 0..TRIES {
            let mut seen = 0;
            busy |= self.look_for_candidates(evictor, scores, &mut seen);
            while let Some(candidate) = evictor.candidates.pop() {
                match self.evict_candidate(evictor, candidate, scores, observer) {
                    Evicted::Key => return Evicted::Key,
                    Evicted::Nothing => {}
                    Evicted::Busy => busy = true,
                }
            }
            if seen == 0 && !busy {
                return Evicted::Nothing;
            }
        }
        Evicted::Busy
    }

    /// Returns the number of evicted keys since the last [`reset_totals`](Self::reset_totals).
    pub fn evicted_keys(&self) -> u64 {
        self.evicted_keys.load(Ordering::Relaxed)
    }

    /// Samples keys in unlocked shards and counts the keys there. Returns whether a shard was
    /// skipped.
    fn look_for_candidates(
        &self,
        evictor: &mut Evictor,
        scores: CandidateScores,
        seen: &mut usize,
    ) -> bool {
        let random = evictor.random();
        let wanted = match scores.rules.order {
            EvictionOrder::Random => 1,
            _ => scores.rules.samples,
        };
        let mut busy = false;
        for number in 0..SHARDS {
            let Some(shard) = self.shards[(random as usize + number) % SHARDS].try_lock() else {
                busy = true;
                continue;
            };
            for number in 0..DATABASES {
                let database = ((random >> 32) as usize + number) % DATABASES;
                let dictionary = &shard.databases[database];
                if dictionary.table.len() > 0 {
                    *seen += scores.sample(dictionary, database, wanted, evictor);
                }
            }
            if *seen >= wanted {
                break;
            }
        }
        busy
    }

    fn evict_candidate(
        &self,
        evictor: &mut Evictor,
        candidate: Candidate,
        scores: CandidateScores,
        observer: &mut dyn Observer,
    ) -> Evicted {
        let Candidate { hash, database, .. } = candidate;
        let shard = shard_of(hash);
        let Some(mut locked) = Locked::try_one(self, shard) else {
            return Evicted::Busy;
        };
        let table = &locked.shard(shard).databases[database].table;
        let is_it = |entry: &Entry| hash::of(entry.key()) == hash;
        let Some(place) = table.find_by(hash, is_it) else {
            return Evicted::Nothing;
        };
        let entry = table.entry(place);
        if !scores.holds(entry, candidate) {
            return Evicted::Nothing;
        }
        let mut name = std::mem::take(&mut evictor.name);
        name.clear();
        name.extend_from_slice(entry.key());
        let key = Key { bytes: &name, hash };
        let mut view = View::new(self, &mut locked, database, scores.now_ms, observer);
        let entry = view.remove(key, place, Event::Evicted);
        view.dispose(entry, crate::reclaim::Cause::Eviction);
        self.evicted_keys.fetch_add(1, Ordering::Relaxed);
        self.release(locked, scores.now_ms, observer);
        if name.capacity() <= NAME_BYTES_KEPT {
            evictor.name = name;
        }
        Evicted::Key
    }
}

/// Computes the scores of candidates.
#[derive(Clone, Copy)]
struct CandidateScores {
    rules: EvictionRules,
    access: Access,
    now_ms: i64,
}

impl CandidateScores {
    /// Adds up to `count` keys of a dictionary to the candidates. Returns the number of sampled
    /// keys.
    fn sample(
        self,
        dictionary: &Dictionary,
        database: usize,
        count: usize,
        evictor: &mut Evictor,
    ) -> usize {
        let (random, mut seen) = (evictor.random(), 0);
        let mut add = |score, hash| {
            seen += 1;
            evictor.add(Candidate {
                score,
                hash,
                database,
            });
        };
        if !self.rules.expiring_only {
            dictionary.table.sample(random, count, |entry| {
                add(self.of(entry), hash::of(entry.key()));
            });
        } else if let Some(wheel) = dictionary.wheel() {
            wheel.sample(random, count, |hash, timer, deadline_ms| {
                let score = match self.rules.order {
                    EvictionOrder::SoonestToExpire => score_of_deadline(deadline_ms),
                    _ => {
                        let is_it = |entry: &Entry| entry.timer() == Some(timer);
                        let place = dictionary.table.find_by(hash, is_it);
                        place.map_or(0, |place| self.of(dictionary.table.entry(place)))
                    }
                };
                add(score, hash);
            });
        }
        seen
    }

    fn of(self, entry: &Entry) -> u64 {
        match self.rules.order {
            EvictionOrder::LeastRecentlyUsed | EvictionOrder::LeastRecentlyModified => {
                access::idle_s(entry.access(), self.now_ms).into()
            }
            EvictionOrder::LeastFrequentlyUsed => {
                let frequency = self.access.frequency(entry.access(), self.now_ms);
                u64::from(u8::MAX - frequency)
            }
            EvictionOrder::Random => 0,
            EvictionOrder::SoonestToExpire => entry.deadline_ms().map_or(0, score_of_deadline),
        }
    }

    /// Returns whether a candidate's entry is unchanged: it was not used since, and its deadline is
    /// not later.
    fn holds(self, entry: &Entry, candidate: Candidate) -> bool {
        let may_go = !self.rules.expiring_only || entry.deadline_ms().is_some();
        may_go && self.of(entry) >= candidate.score
    }
}

/// Returns a score that is higher for an earlier deadline.
fn score_of_deadline(deadline_ms: i64) -> u64 {
    u64::MAX - deadline_ms.max(0) as u64
}

/// Maximum number of remembered candidates.
const CANDIDATES_MAX: usize = 16;
/// How often to sample again if all candidates are gone or locked.
const TRIES: usize = 8;
/// The buffer of a longer name is freed.
const NAME_BYTES_KEPT: usize = 4096;
