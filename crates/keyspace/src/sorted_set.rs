//! Sorted sets: a few members in one run of bytes, or records indexed by hash and by order.
//!
//! The interface to the rest of the crate, for both encodings:
//!
//! * Reading: [`Scored`]. [`Scored::of`] views an entry, `View::read_sorted_set` a key, and
//!   `View::value(key)?.sorted_set()` one of several keys. It finds members by name
//!   ([`score`](Scored::score), [`rank`](Scored::rank)) and by rank ([`range`](Scored::range), an
//!   iterator of `(Text, f64)` from either end). A range by score or by text is first converted to
//!   ranks: [`ranks_by_score`](Scored::ranks_by_score), [`ranks_by_text`](Scored::ranks_by_text),
//!   both O(log n) in a large set.
//! * Writing: functions on the entry. [`empty`] makes the value for a new key, [`insert`] adds or
//!   moves a member (call [`expect`] before adding many), and [`remove`] and [`remove_ranks`]
//!   remove members. [`Builder`] collects a result outside of the keyspace. The caller removes the
//!   key of an empty set. Scores are never NaN.

use std::ops::{Bound, Range};

use crate::encoding::Kind;
use crate::entry::{Entry, NewValue};
use crate::hash;
use crate::text::Text;
use crate::value::Object;

mod index;
use index::Index;

mod node;
use node::Item;

mod packed;
use packed::{PackedPairs, PackedScores};

mod records;
use records::Records;

mod tree;
use tree::{Tree, TreeRange};

/// Limits of a small sorted set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortedSetLimits {
    /// Maximum number of members.
    pub(crate) entries_max: usize,
    /// Maximum bytes of a member.
    pub(crate) value_bytes_max: usize,
}

impl SortedSetLimits {
    /// Returns whether a set of `count` members, the longest `bytes` bytes, stays packed.
    pub(crate) fn fit(self, count: usize, bytes: usize) -> bool {
        count <= self.entries_max && bytes <= self.value_bytes_max
    }
}

/// A read-only view of a sorted set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scored<'a> {
    Packed(PackedScores<'a>),
    Large(&'a SortedSet),
}

/// A limit of a range by text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextLimit<'a> {
    /// Before every member: `-`.
    First,
    /// After every member: `+`.
    Last,
    /// `[text`.
    Included(&'a [u8]),
    /// `(text`.
    Excluded(&'a [u8]),
}

impl<'a> Scored<'a> {
    /// Returns the members of an entry, if it is a sorted set.
    pub(crate) fn of(entry: &'a Entry) -> Option<Self> {
        match entry.kind() {
            Kind::PackedSortedSet => Some(Scored::Packed(PackedScores::new(entry.bytes()))),
            Kind::Object => match entry.object()? {
                Object::SortedSet(set) => Some(Scored::Large(set)),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Scored::Packed(packed) => packed.len(),
            Scored::Large(set) => set.parts.tree.len(),
        }
    }

    pub(crate) fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Scored::Packed(packed) => packed.find(member).map(|(_, _, score)| score),
            Scored::Large(set) => set.find(member).map(|item| item.score),
        }
    }

    /// Returns a member's rank, counted from the lowest score, and its score.
    pub(crate) fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        match self {
            Scored::Packed(packed) => packed.find(member).map(|(rank, _, score)| (rank, score)),
            Scored::Large(set) => {
                let item = set.find(member)?;
                Some((set.parts.tree.rank_of(&set.parts.records, item), item.score))
            }
        }
    }

    /// Iterates over members and scores in ascending order.
    pub(crate) fn iter(self) -> ScoredIter<'a> {
        self.range(0..self.len())
    }

    /// Iterates over the members and scores of these ranks, which must exist.
    pub(crate) fn range(self, ranks: Range<usize>) -> ScoredIter<'a> {
        match self {
            Scored::Packed(packed) => ScoredIter::Packed(packed.range(ranks)),
            Scored::Large(set) => {
                ScoredIter::Large(&set.parts.records, set.parts.tree.range(ranks))
            }
        }
    }

    /// Returns the ranks of the members with scores within these bounds.
    pub(crate) fn ranks_by_score(self, min: Bound<f64>, max: Bound<f64>) -> Range<usize> {
        let start = self.rank_of_bound(
            |score| match min {
                Bound::Included(min) => score < min,
                Bound::Excluded(min) => score <= min,
                Bound::Unbounded => false,
            },
            |_| true,
        );
        let end = self.rank_of_bound(
            |score| match max {
                Bound::Included(max) => score <= max,
                Bound::Excluded(max) => score < max,
                Bound::Unbounded => true,
            },
            |_| true,
        );
        start..end.max(start)
    }

    /// Returns the ranks of the members within these limits. Redis leaves the result open unless
    /// all scores are equal. In a small set with unequal scores it is what Redis finds from the
    /// first member on, or with `reverse` from the last one.
    pub(crate) fn ranks_by_text(
        self,
        min: TextLimit<'_>,
        max: TextLimit<'_>,
        reverse: bool,
    ) -> Range<usize> {
        let is_before = |text: &[u8]| match min {
            TextLimit::First => false,
            TextLimit::Last => true,
            TextLimit::Included(min) => text < min,
            TextLimit::Excluded(min) => text <= min,
        };
        let is_within_max = |text: &[u8]| match max {
            TextLimit::First => false,
            TextLimit::Last => true,
            TextLimit::Included(max) => text <= max,
            TextLimit::Excluded(max) => text < max,
        };
        if !self.has_equal_scores() {
            return match is_empty_range(min, max) {
                true => 0..0,
                false => self.ranks_found(is_before, is_within_max, reverse),
            };
        }
        let start = self.rank_of_bound(|_| true, is_before);
        let end = self.rank_of_bound(|_| true, is_within_max);
        start..end.max(start)
    }

    /// Returns the ranks that a search by text finds in a set whose scores differ: from the first
    /// member that is within the limits up to the next one that is not. In a large set the first
    /// one is found as if all scores were equal.
    fn ranks_found(
        self,
        is_before: impl Fn(&[u8]) -> bool,
        is_within_max: impl Fn(&[u8]) -> bool,
        reverse: bool,
    ) -> Range<usize> {
        let (mut members, count) = (self.iter(), self.len());
        let first = members
            .next()
            .is_some_and(|(text, _)| is_within_max(text.as_bytes()));
        let last = members
            .next_back()
            .is_some_and(|(text, _)| !is_before(text.as_bytes()));
        if !first || !last {
            return 0..0;
        }
        if reverse {
            let end = match self {
                Scored::Packed(_) => {
                    let mut members = self.iter().rev();
                    let found = members.position(|(text, _)| is_within_max(text.as_bytes()));
                    found.map_or(0, |behind| count - behind)
                }
                Scored::Large(_) => self.rank_of_bound(|_| true, is_within_max),
            };
            let mut members = self.range(0..end).rev();
            let beyond = members.position(|(text, _)| is_before(text.as_bytes()));
            return end - beyond.unwrap_or(end)..end;
        }
        let start = self.rank_of_bound(|_| true, is_before);
        let mut members = self.range(start..count);
        let beyond = members.position(|(text, _)| !is_within_max(text.as_bytes()));
        start..beyond.map_or(count, |beyond| start + beyond)
    }

    /// Returns whether all scores are equal.
    pub(crate) fn has_equal_scores(self) -> bool {
        let mut members = self.iter();
        let first = members.next().map(|(_, score)| score);
        let last = members.next_back().map(|(_, score)| score);
        last.is_none_or(|last| first == Some(last))
    }

    /// Returns how many members are before a bound. Both predicates return whether a member is.
    #[inline]
    fn rank_of_bound(self, score: impl Fn(f64) -> bool, text: impl Fn(&[u8]) -> bool) -> usize {
        match self {
            Scored::Packed(packed) => packed
                .iter()
                .position(|(member, own)| !(score(own) && text(member.as_bytes())))
                .unwrap_or(packed.len()),
            Scored::Large(set) => {
                let records = &set.parts.records;
                let before = |item: Item| score(item.score) && text(records.member(item.record));
                set.parts.tree.rank(before)
            }
        }
    }

    /// Passes about `count` members and scores from a cursor on to `show`; a small set all at once.
    /// Returns the next cursor, or 0 at the end.
    pub(crate) fn scan(self, cursor: u64, count: usize, mut show: impl FnMut(&[u8], f64)) -> u64 {
        match self {
            Scored::Packed(packed) => {
                packed
                    .iter()
                    .for_each(|(member, score)| show(member.as_bytes(), score));
                0
            }
            Scored::Large(set) => {
                let records = &set.parts.records;
                let hash_of = |record| hash::of(records.member(record));
                set.parts.index.scan(cursor, count, hash_of, |record| {
                    show(records.member(record), records.score(record));
                })
            }
        }
    }
}

/// Returns whether no text can be within two limits.
fn is_empty_range(min: TextLimit<'_>, max: TextLimit<'_>) -> bool {
    use TextLimit::{Excluded, First, Included, Last};
    match (min, max) {
        (Last, _) | (_, First) => true,
        (First, _) | (_, Last) => false,
        (Included(min), Included(max)) => min > max,
        (Included(min) | Excluded(min), Included(max) | Excluded(max)) => min >= max,
    }
}

/// Iterator over members and scores, from either end.
#[derive(Clone, Debug)]
pub(crate) enum ScoredIter<'a> {
    Packed(PackedPairs<'a>),
    Large(&'a Records, TreeRange<'a>),
}

impl<'a> Iterator for ScoredIter<'a> {
    type Item = (Text<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            ScoredIter::Packed(pairs) => pairs.next(),
            ScoredIter::Large(records, items) => items.next().map(|item| pair(records, item)),
        }
    }
}

impl DoubleEndedIterator for ScoredIter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            ScoredIter::Packed(pairs) => pairs.next_back(),
            ScoredIter::Large(records, items) => items.next_back().map(|item| pair(records, item)),
        }
    }
}

fn pair(records: &Records, item: Item) -> (Text<'_>, f64) {
    (Text::bytes(records.member(item.record)), item.score)
}

/// Returns an empty set for `count` members, the longest `bytes` bytes.
pub(crate) fn empty(count: usize, bytes: usize, limits: SortedSetLimits) -> NewValue<'static> {
    if limits.fit(count, bytes) {
        NewValue::Compact(Kind::PackedSortedSet, EMPTY)
    } else {
        NewValue::Object(Box::new(Object::SortedSet(SortedSet::default())))
    }
}

/// Converts a small set to a large one if it will not hold `count` more members.
pub(crate) fn expect(entry: &mut Entry, count: usize, limits: SortedSetLimits) {
    if entry.kind() == Kind::PackedSortedSet && count > limits.entries_max {
        unpack(entry);
    }
}

/// Adds a member or changes its score. Returns the old score. A small set that outgrows its limits
/// becomes a large one and stays one.
pub(crate) fn insert(
    entry: &mut Entry,
    member: &[u8],
    score: f64,
    limits: SortedSetLimits,
) -> Option<f64> {
    debug_assert!(!score.is_nan(), "members are in the order of their scores");
    if entry.kind() == Kind::PackedSortedSet {
        let packed = PackedScores::new(entry.bytes());
        if let Some((_, span, old)) = packed.find(member) {
            if old != score {
                packed::remove(entry, span, 1);
                packed::insert(entry, member, score);
            }
            return Some(old);
        }
        if limits.fit(packed.len() + 1, member.len()) {
            packed::insert(entry, member, score);
            return None;
        }
        unpack(entry);
    }
    large_mut(entry)?.insert(member, score)
}

/// Removes a member; returns its score.
pub(crate) fn remove(entry: &mut Entry, member: &[u8]) -> Option<f64> {
    if entry.kind() == Kind::PackedSortedSet {
        let (_, span, score) = PackedScores::new(entry.bytes()).find(member)?;
        packed::remove(entry, span, 1);
        return Some(score);
    }
    large_mut(entry)?.remove(member)
}

/// Removes the members of these ranks, which must exist.
pub(crate) fn remove_ranks(entry: &mut Entry, ranks: Range<usize>) {
    debug_assert!(ranks.start <= ranks.end && ranks.end <= len(entry));
    if entry.kind() == Kind::PackedSortedSet {
        packed::remove_ranks(entry, ranks);
    } else if let Some(set) = large_mut(entry) {
        ranks.clone().for_each(|_| set.remove_rank(ranks.start));
    }
}

/// Returns the number of members.
pub(crate) fn len(entry: &Entry) -> usize {
    Scored::of(entry).map_or(0, Scored::len)
}

/// A sorted set under construction. Members may come in any order and repeatedly. At the end, it
/// gets the encoding for its size.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    set: SortedSet,
    bytes_max: usize,
}

impl Builder {
    pub(crate) fn len(&self) -> usize {
        self.set.parts.tree.len()
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        Scored::Large(&self.set).score(member)
    }

    pub(crate) fn insert(&mut self, member: &[u8], score: f64) {
        self.bytes_max = self.bytes_max.max(member.len());
        if score == 0.0 {
            // Zero and minus zero compare equal but print differently: the last one counts.
            self.set.remove(member);
        }
        debug_assert!(!score.is_nan());
        self.set.insert(member, score);
    }

    /// Returns the members so far.
    pub(crate) fn scored(&self) -> Scored<'_> {
        Scored::Large(&self.set)
    }

    /// Returns the entry to store under a key.
    pub(crate) fn finish(self, hash: u64, key: &[u8], limits: SortedSetLimits) -> Entry {
        if !limits.fit(self.len(), self.bytes_max) {
            let object = Box::new(Object::SortedSet(self.set));
            return Entry::new(hash, key, NewValue::Object(object), false);
        }
        let mut entry = Entry::new(hash, key, empty(0, 0, limits), false);
        for (member, score) in self.scored().iter() {
            packed::insert(&mut entry, member.as_bytes(), score);
        }
        debug_assert_eq!(len(&entry), self.len());
        entry
    }
}

/// A sorted set that has outgrown its limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortedSet {
    // Boxed: all object variants are as large as the largest.
    parts: Box<Parts>,
}

#[derive(Clone, Debug, Default)]
struct Parts {
    records: Records,
    index: Index,
    tree: Tree,
}

impl SortedSet {
    /// Returns the heap memory in bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        let Parts {
            records,
            index,
            tree,
        } = &*self.parts;
        let parts = records.memory_bytes() + index.memory_bytes() + tree.memory_bytes();
        parts + size_of::<Parts>()
    }

    /// Prefetches the part of the index for this hash.
    #[inline]
    pub(crate) fn prefetch_index(&self, hash: u64) {
        self.parts.index.prefetch(hash);
    }

    /// Prefetches the record that this hash most likely refers to.
    #[inline]
    pub(crate) fn prefetch_record(&self, hash: u64) {
        let Parts { records, index, .. } = &*self.parts;
        // Takes the first record with the hash's fragment.
        if let Some(record) = index.find(hash, |_| true) {
            records.prefetch(record);
        }
    }

    fn find(&self, member: &[u8]) -> Option<Item> {
        self.find_hashed(hash::of(member), member)
    }

    #[inline]
    fn find_hashed(&self, hash: u64, member: &[u8]) -> Option<Item> {
        let records = &self.parts.records;
        let is = |record| records.member(record) == member;
        let record = self.parts.index.find(hash, is)?;
        let score = records.score(record);
        Some(Item { score, record })
    }

    fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let hash = hash::of(member);
        let old = self.find_hashed(hash, member);
        let Parts {
            records,
            index,
            tree,
        } = &mut *self.parts;
        match old {
            None => {
                let record = records.add(member, score);
                index.insert(hash, record, |other| hash::of(records.member(other)));
                tree.insert(records, Item { score, record });
            }
            Some(item) if item.score != score => {
                tree.change(records, item, score);
                records.set_score(item.record, score);
            }
            Some(_) => {}
        }
        old.map(|item| item.score)
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let item = self.find(member)?;
        self.parts.tree.remove(&self.parts.records, item);
        self.forget(item.record);
        Some(item.score)
    }

    fn remove_rank(&mut self, rank: usize) {
        let item = self.parts.tree.remove_rank(rank);
        self.forget(item.record);
    }

    fn forget(&mut self, record: u32) {
        let Parts { records, index, .. } = &mut *self.parts;
        let hash = hash::of(records.member(record));
        debug_assert_eq!(
            index.find(hash, |other| other == record),
            Some(record),
            "every record is in the index"
        );
        index.remove(hash, record);
        records.remove(record);
    }
}

fn large_mut(entry: &mut Entry) -> Option<&mut SortedSet> {
    match entry.object_mut() {
        Some(Object::SortedSet(set)) => Some(set),
        _ => None,
    }
}

fn unpack(entry: &mut Entry) {
    let mut set = SortedSet::default();
    for (member, score) in PackedScores::new(entry.bytes()).iter() {
        set.insert(member.as_bytes(), score);
    }
    debug_assert_eq!(set.parts.tree.len(), len(entry), "a member is there once");
    entry.set_value(NewValue::Object(Box::new(Object::SortedSet(set))));
}

/// The bytes of an empty small sorted set.
const EMPTY: &[u8] = &[0, 0];
/// The greatest count that a small sorted set can store.
pub(crate) const COUNT_MAX: usize = u16::MAX as usize;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const LIMITS: SortedSetLimits = SortedSetLimits {
        entries_max: 20,
        value_bytes_max: 8,
    };

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Vec<u8>, f64),
        Remove(Vec<u8>),
        RemoveRanks(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let member = || "[a-e0-9]{0,2}|longer-[0-9]".prop_map(String::into_bytes);
        let score = prop_oneof![
            (-3i32..300).prop_map(f64::from),
            (0i32..8).prop_map(|eighths| f64::from(eighths) / 8.0),
            Just(f64::INFINITY),
            Just(-1e300),
            Just(9_007_199_254_740_993.0),
        ];
        prop_oneof![
            6 => (member(), score).prop_map(|(member, score)| Step::Insert(member, score)),
            2 => member().prop_map(Step::Remove),
            1 => (0usize..40, 0usize..4).prop_map(|(at, count)| Step::RemoveRanks(at, count)),
        ]
    }

    fn ordered(model: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
        let mut pairs: Vec<_> = model.clone().into_iter().collect();
        pairs.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
        pairs
    }

    fn check(scored: Scored<'_>, model: &BTreeMap<Vec<u8>, f64>) {
        let pairs = ordered(model);
        let owned = |(member, score): (Text<'_>, f64)| (member.as_bytes().to_vec(), score);
        assert_eq!(scored.iter().map(owned).collect::<Vec<_>>(), pairs);
        let middle = pairs.len() / 3..pairs.len() - pairs.len() / 3;
        let mut part: Vec<_> = scored.range(middle.clone()).rev().map(owned).collect();
        part.reverse();
        assert_eq!(part, pairs[middle]);
        for (rank, (member, score)) in pairs.iter().enumerate() {
            assert_eq!(scored.rank(member), Some((rank, *score)));
        }
        assert_eq!(scored.rank(b"missing"), None);
        for (min, max) in [
            (0.0, 100.0),
            (0.125, 0.125),
            (5.0, f64::INFINITY),
            (7.0, 2.0),
        ] {
            let wide = scored.ranks_by_score(Bound::Included(min), Bound::Included(max));
            let tight = scored.ranks_by_score(Bound::Excluded(min), Bound::Excluded(max));
            let count = |inside: &dyn Fn(f64) -> bool| {
                pairs.iter().filter(|(_, score)| inside(*score)).count()
            };
            assert_eq!(wide.len(), count(&|score| min <= score && score <= max));
            assert_eq!(tight.len(), count(&|score| min < score && score < max));
            assert!(
                pairs[wide]
                    .iter()
                    .all(|(_, score)| (min..=max).contains(score))
            );
        }
    }

    proptest! {
        #[test]
        fn small_and_large_sets_are_equal(steps in proptest::collection::vec(step(), 1..120)) {
            let large = SortedSetLimits { entries_max: 0, ..LIMITS };
            let new = |limits| Entry::new(1, b"k", empty(1, 1, limits), false);
            let mut forms = [(new(LIMITS), LIMITS), (new(large), large)];
            let mut model = BTreeMap::new();
            for step in steps {
                let before = ordered(&model);
                for (entry, limits) in &mut forms {
                    match &step {
                        Step::Insert(member, score) => {
                            let old = insert(entry, member, *score, *limits);
                            prop_assert_eq!(old, model.get(member).copied());
                        }
                        Step::Remove(member) => {
                            prop_assert_eq!(remove(entry, member), model.get(member).copied());
                        }
                        Step::RemoveRanks(at, count) => {
                            let start = (*at).min(before.len());
                            remove_ranks(entry, start..(start + count).min(before.len()));
                        }
                    }
                }
                match step {
                    Step::Insert(member, score) => drop(model.insert(member, score)),
                    Step::Remove(member) => drop(model.remove(&member)),
                    Step::RemoveRanks(at, count) => {
                        for (member, _) in before.iter().skip(at).take(count) {
                            model.remove(member);
                        }
                    }
                }
                for (entry, _) in &forms {
                    check(Scored::of(entry).expect("a sorted set"), &model);
                }
            }
        }

        #[test]
        fn ranges_by_text_match_the_sorted_texts(
            texts in proptest::collection::btree_set("[a-c]{0,3}", 0..60),
            min in "[a-c]{0,3}",
            max in "[a-c]{0,3}",
        ) {
            for limits in [LIMITS, SortedSetLimits { entries_max: 128, ..LIMITS }] {
                let mut entry = Entry::new(1, b"k", empty(1, 1, limits), false);
                for text in &texts {
                    insert(&mut entry, text.as_bytes(), 0.0, limits);
                }
                let scored = Scored::of(&entry).expect("a sorted set");
                let (low, high) = (min.as_bytes(), max.as_bytes());
                let count = |limits: (TextLimit<'_>, TextLimit<'_>)| {
                    scored.ranks_by_text(limits.0, limits.1, false).len()
                };
                let inside = texts.iter().filter(|text| **text >= min && **text < max).count();
                prop_assert_eq!(
                    count((TextLimit::Included(low), TextLimit::Excluded(high))),
                    inside
                );
                let inside = texts.iter().filter(|text| **text > min).count();
                prop_assert_eq!(count((TextLimit::Excluded(low), TextLimit::Last)), inside);
                prop_assert_eq!(count((TextLimit::First, TextLimit::Last)), texts.len());
                prop_assert_eq!(count((TextLimit::Last, TextLimit::First)), 0);
            }
        }
    }

    #[test]
    fn a_large_set_takes_little_memory() {
        let mut set = SortedSet::default();
        let mut word = 1u64;
        for number in 0..100_000 {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            set.insert(
                format!("member:{number:05}").as_bytes(),
                (word >> 40) as f64,
            );
        }
        let bytes = set.memory_bytes() as f64 / 100_000.0;
        assert!(bytes < 56.0, "{bytes}");
    }
}
