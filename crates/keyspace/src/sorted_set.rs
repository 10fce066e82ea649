//! Sorted sets: a few members in one run of bytes, or records found by hash and by order.
//!
//! What the rest of the crate uses, for both forms:
//!
//! * to read, [`Scored`]: of an entry by [`Scored::of`], of a key by `View::read_sorted_set`, of
//!   several keys at once by `View::value(key)?.sorted_set()`. It knows members by
//!   name ([`score`](Scored::score), [`rank`](Scored::rank)) and by rank
//!   ([`range`](Scored::range), an iterator of `(Text, f64)` from either end). A range by score
//!   or by text becomes one of ranks first: [`ranks_by_score`](Scored::ranks_by_score),
//!   [`ranks_by_text`](Scored::ranks_by_text), both O(log n) in a large set;
//! * to write, functions on the entry: [`empty`] makes the value to insert under a new key,
//!   [`insert`] adds or moves a member ([`expect`] says that many follow), [`remove`] and
//!   [`remove_ranks`] take some out, and [`Builder`] gathers a result that is not in the keyspace
//!   yet. No empty set stays: the caller removes the key. Scores are never NaN.

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

/// Up to where a sorted set stays small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortedSetLimits {
    /// Members.
    pub(crate) entries_max: usize,
    /// Bytes of a member.
    pub(crate) value_bytes_max: usize,
}

impl SortedSetLimits {
    /// Returns whether a set of `count` members, the longest `bytes` bytes, stays packed.
    pub(crate) fn fit(self, count: usize, bytes: usize) -> bool {
        count <= self.entries_max && bytes <= self.value_bytes_max
    }
}

/// A sorted set to read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scored<'a> {
    Packed(PackedScores<'a>),
    Large(&'a SortedSet),
}

/// Where a range by text begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextLimit<'a> {
    /// Before every member: `-`.
    First,
    /// Behind every member: `+`.
    Last,
    /// `[text`.
    Included(&'a [u8]),
    /// `(text`.
    Excluded(&'a [u8]),
}

impl<'a> Scored<'a> {
    /// The members of an entry that is a sorted set.
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

    /// A member's rank, from the lowest score, and its score.
    pub(crate) fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        match self {
            Scored::Packed(packed) => packed.find(member).map(|(rank, _, score)| (rank, score)),
            Scored::Large(set) => {
                let item = set.find(member)?;
                Some((set.parts.tree.rank_of(&set.parts.records, item), item.score))
            }
        }
    }

    /// Members and scores in ascending order.
    pub(crate) fn iter(self) -> ScoredIter<'a> {
        self.range(0..self.len())
    }

    /// Members and scores of these ranks, which are not beyond the length.
    pub(crate) fn range(self, ranks: Range<usize>) -> ScoredIter<'a> {
        match self {
            Scored::Packed(packed) => ScoredIter::Packed(packed.range(ranks)),
            Scored::Large(set) => {
                ScoredIter::Large(&set.parts.records, set.parts.tree.range(ranks))
            }
        }
    }

    /// The ranks of those whose scores are within these bounds.
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

    /// The ranks of those whose bytes are within these limits; all scores are taken to be equal.
    pub(crate) fn ranks_by_text(self, min: TextLimit<'_>, max: TextLimit<'_>) -> Range<usize> {
        let start = self.rank_of_bound(
            |_| true,
            |text| match min {
                TextLimit::First => false,
                TextLimit::Last => true,
                TextLimit::Included(min) => text < min,
                TextLimit::Excluded(min) => text <= min,
            },
        );
        let end = self.rank_of_bound(
            |_| true,
            |text| match max {
                TextLimit::First => false,
                TextLimit::Last => true,
                TextLimit::Included(max) => text <= max,
                TextLimit::Excluded(max) => text < max,
            },
        );
        start..end.max(start)
    }

    /// How many members are before a bound: those for which both hold.
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

    /// Members and scores, about `count` of them from a cursor on; the next cursor, or 0. All of
    /// a small set at once.
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

/// Makes a large set of a small one that more members than fit will be added to.
pub(crate) fn expect(entry: &mut Entry, count: usize, limits: SortedSetLimits) {
    if entry.kind() == Kind::PackedSortedSet && count > limits.entries_max {
        unpack(entry);
    }
}

/// Adds a member, or gives it another score; returns the one it had. A small set that outgrows its
/// limits becomes a large one and stays one.
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

/// Removes a member; returns the score it had.
pub(crate) fn remove(entry: &mut Entry, member: &[u8]) -> Option<f64> {
    if entry.kind() == Kind::PackedSortedSet {
        let (_, span, score) = PackedScores::new(entry.bytes()).find(member)?;
        packed::remove(entry, span, 1);
        return Some(score);
    }
    large_mut(entry)?.remove(member)
}

/// Removes the members of these ranks, which are not beyond the length.
pub(crate) fn remove_ranks(entry: &mut Entry, ranks: Range<usize>) {
    debug_assert!(ranks.start <= ranks.end && ranks.end <= len(entry));
    if entry.kind() == Kind::PackedSortedSet {
        packed::remove_ranks(entry, ranks);
    } else if let Some(set) = large_mut(entry) {
        ranks.clone().for_each(|_| set.remove_rank(ranks.start));
    }
}

/// How many members the sorted set has.
pub(crate) fn len(entry: &Entry) -> usize {
    Scored::of(entry).map_or(0, Scored::len)
}

/// A sorted set in the making, whose members may come in any order and again. At the end it
/// takes the form that its size asks for.
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
            // Zeros are equal, but one of them is shown with its sign: the last one counts.
            self.set.remove(member);
        }
        debug_assert!(!score.is_nan());
        self.set.insert(member, score);
    }

    /// What it has so far.
    pub(crate) fn scored(&self) -> Scored<'_> {
        Scored::Large(&self.set)
    }

    /// The entry to put in the place of a key.
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

/// A sorted set that outgrew its limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortedSet {
    // Boxed: it is one of several kinds of objects, all as big as the biggest.
    parts: Box<Parts>,
}

#[derive(Clone, Debug, Default)]
struct Parts {
    records: Records,
    index: Index,
    tree: Tree,
}

impl SortedSet {
    /// Bytes of the heap that the set takes.
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

    /// Asks the processor to fetch the part of the index that tells of this hash.
    #[inline]
    pub(crate) fn prefetch_index(&self, hash: u64) {
        self.parts.index.prefetch(hash);
    }

    /// Asks the processor to fetch the record that this hash most likely stands for.
    #[inline]
    pub(crate) fn prefetch_record(&self, hash: u64) {
        let Parts { records, index, .. } = &*self.parts;
        // The first of the hash's fragment is taken for the one.
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

/// The bytes of a small sorted set without members.
const EMPTY: &[u8] = &[0, 0];
/// Most members that a small sorted set's count can tell.
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
        fn a_small_and_a_large_set_are_alike(steps in proptest::collection::vec(step(), 1..120)) {
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
        fn ranges_by_text_are_those_of_the_texts(
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
                    scored.ranks_by_text(limits.0, limits.1).len()
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
    fn a_large_set_is_small() {
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
