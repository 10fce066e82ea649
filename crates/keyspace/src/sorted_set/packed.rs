//! Small sorted sets: pairs of member and score, in order, in one run of bytes.
//!
//! ```text
//!  ┌───────────┬────────┬───────┬────────┬───────┬───     a member is an element, see `elements`,
//!  │ count u16 │ member │ score │ member │ score │ …      without the length behind it
//!  └───────────┴────────┴───────┴────────┴───────┴───
//!
//!  0vvvvvvv                whole, below 128           1111 1110 0vvvvvvv …  below zero: its amount
//!  10vvvvvv v              whole, below 2^14          1111 1111             the 8 bytes of an f64
//!  … 1111 110v v v v v v v whole, below 2^49
//! ```
//!
//! A pair cannot be found from its end. The sets are short, so a backwards iterator first scans
//! forwards.

use std::ops::Range;

use crate::elements::{self, Encoded};
use crate::encoding::CompactBytes;
use crate::text::Text;

/// A read-only view of a small sorted set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedScores<'a> {
    bytes: &'a [u8],
}

impl<'a> PackedScores<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        PackedScores { bytes }
    }

    pub(super) fn len(self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[0], self.bytes[1]]))
    }

    pub(super) fn iter(self) -> PackedPairs<'a> {
        let run = self.run();
        PackedPairs::new(run, 0..run.len())
    }

    /// Iterates over the pairs of these ranks.
    pub(super) fn range(self, ranks: Range<usize>) -> PackedPairs<'a> {
        let run = self.run();
        if ranks.is_empty() {
            return PackedPairs::new(run, 0..0);
        }
        let start = (0..ranks.start).fold(0, |at, _| pair_end(run, at));
        let end = match ranks.end >= self.len() {
            true => run.len(),
            false => ranks.fold(start, |at, _| pair_end(run, at)),
        };
        PackedPairs::new(run, start..end)
    }

    /// Returns the rank of a member, the span of its pair, and its score.
    pub(super) fn find(self, member: &[u8]) -> Option<(usize, Range<usize>, f64)> {
        let run = self.run();
        let wanted = Encoded::new(member);
        let (mut rank, mut at) = (0, 0);
        while at < run.len() {
            // The head contains the length, so an equal beginning means an equal member.
            if wanted.begins(&run[at..]) {
                let middle = at + elements::front_length(run, at);
                let (score, end) = read_score(run, middle);
                return Some((rank, at..end, score));
            }
            at = pair_end(run, at);
            rank += 1;
        }
        None
    }

    fn run(self) -> &'a [u8] {
        &self.bytes[COUNT..]
    }
}

/// Adds a new member.
pub(super) fn insert(entry: &mut impl CompactBytes, member: &[u8], score: f64) {
    debug_assert_eq!(entry.kind(), crate::encoding::Kind::PackedSortedSet);
    let run = PackedScores::new(entry.bytes()).run();
    let mut at = 0;
    while at < run.len() {
        let (other, end) = read_score(run, at + elements::front_length(run, at));
        if other > score || other == score && elements::read(run, at).as_bytes() > member {
            break;
        }
        at = end;
    }
    let score = Score::new(score);
    let member = Encoded::new(member);
    let [head, text] = member.front();
    entry.splice(COUNT + at, 0, &[head, text, score.as_bytes()]);
    add_to_count(entry, 1);
}

/// Removes `count` adjacent pairs.
pub(super) fn remove(entry: &mut impl CompactBytes, span: Range<usize>, count: usize) {
    entry.splice(COUNT + span.start, span.len(), &[]);
    add_to_count(entry, -(count as i32));
}

/// Removes the pairs of these ranks.
pub(super) fn remove_ranks(entry: &mut impl CompactBytes, ranks: Range<usize>) {
    let pairs = PackedScores::new(entry.bytes()).range(ranks.clone());
    remove(entry, pairs.start..pairs.end, ranks.len());
}

fn add_to_count(entry: &mut impl CompactBytes, change: i32) {
    let count = PackedScores::new(entry.bytes()).len() as i32 + change;
    let count = u16::try_from(count).expect("the caller checks COUNT_MAX");
    debug_assert_eq!(count == 0, entry.bytes().len() == COUNT);
    entry.bytes_mut()[..COUNT].copy_from_slice(&count.to_le_bytes());
}

/// Iterator over members and scores of a part of a run, from either end.
#[derive(Clone, Debug)]
pub(crate) struct PackedPairs<'a> {
    run: &'a [u8],
    start: usize,
    end: usize,
    /// Starts of the pairs that are left; computed when the first one is read from the end.
    starts: Vec<u32>,
}

impl<'a> PackedPairs<'a> {
    fn new(run: &'a [u8], part: Range<usize>) -> Self {
        PackedPairs {
            run,
            start: part.start,
            end: part.end,
            starts: Vec::new(),
        }
    }
}

impl<'a> Iterator for PackedPairs<'a> {
    type Item = (Text<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        (self.start < self.end).then(|| {
            let at = self.start;
            let (score, end) = read_score(self.run, at + elements::front_length(self.run, at));
            self.start = end;
            debug_assert!(self.start <= self.end, "a part ends at the end of a pair");
            (elements::read(self.run, at), score)
        })
    }
}

impl DoubleEndedIterator for PackedPairs<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.start >= self.end {
            return None;
        }
        if self.starts.is_empty() {
            let mut at = self.start;
            while at < self.end {
                self.starts.push(at as u32);
                at = pair_end(self.run, at);
            }
        }
        let at = self.starts.pop()? as usize;
        self.end = at;
        let (score, _) = read_score(self.run, at + elements::front_length(self.run, at));
        Some((elements::read(self.run, at), score))
    }
}

#[inline]
fn pair_end(run: &[u8], at: usize) -> usize {
    score_end(run, at + elements::front_length(run, at))
}

/// A score in encoded form.
struct Score {
    bytes: [u8; 9],
    length: usize,
}

impl Score {
    fn new(score: f64) -> Self {
        let mut bytes = [0; 9];
        let length = match as_integer(score) {
            Some(whole) if whole < 0 => {
                bytes[0] = BELOW_ZERO;
                1 + write_amount(&mut bytes[1..], whole.unsigned_abs())
            }
            Some(whole) => write_amount(&mut bytes, whole.unsigned_abs()),
            None => {
                bytes[0] = DOUBLE;
                bytes[1..].copy_from_slice(&score.to_le_bytes());
                9
            }
        };
        Score { bytes, length }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Encodes an amount: the first byte has one leading 1 bit per following byte, then a 0 bit, then
/// the upper bits of the amount. Returns the number of bytes, at most seven.
fn write_amount(bytes: &mut [u8], amount: u64) -> usize {
    debug_assert!(amount < 1 << 49, "larger ones are written as doubles");
    let more = (0..6).find(|more| amount >> (7 + 7 * more) == 0);
    let more = more.unwrap_or(6);
    let ones = !(u8::MAX >> more);
    bytes[0] = ones | (amount >> (8 * more)) as u8;
    bytes[1..=more].copy_from_slice(&amount.to_le_bytes()[..more]);
    more + 1
}

/// Decodes the amount that begins at `at`; returns it and its end.
fn read_amount(run: &[u8], at: usize) -> (u64, usize) {
    let first = run[at];
    let more = first.leading_ones() as usize;
    debug_assert!(more <= 6, "the first bytes of other forms are greater");
    let mut bytes = [0; 8];
    bytes[..more].copy_from_slice(&run[at + 1..=at + more]);
    let upper = u64::from(first & (0x7F >> more));
    (
        upper << (8 * more) | u64::from_le_bytes(bytes),
        at + 1 + more,
    )
}

/// Decodes the score that begins at `at`; returns it and its end.
#[inline]
fn read_score(run: &[u8], at: usize) -> (f64, usize) {
    match run[at] {
        first @ 0..0x80 => (f64::from(first), at + 1),
        first @ 0x80..0xC0 => {
            let amount = u16::from(first & 0x3F) << 8 | u16::from(run[at + 1]);
            (f64::from(amount), at + 2)
        }
        DOUBLE => {
            let bytes = run[at + 1..at + 9].try_into().expect("eight bytes");
            (f64::from_le_bytes(bytes), at + 9)
        }
        BELOW_ZERO => {
            let (amount, end) = read_amount(run, at + 1);
            (-(amount as f64), end)
        }
        _ => {
            let (amount, end) = read_amount(run, at);
            (amount as f64, end)
        }
    }
}

/// Returns the end of the score that begins at `at`.
#[inline]
fn score_end(run: &[u8], at: usize) -> usize {
    match run[at] {
        DOUBLE => at + 9,
        BELOW_ZERO => at + 2 + run[at + 1].leading_ones() as usize,
        first => at + 1 + first.leading_ones() as usize,
    }
}

/// Returns an integral score (including minus zero) if the short form represents it exactly.
fn as_integer(score: f64) -> Option<i64> {
    let whole = score as i64;
    (score.abs() < WHOLE_END && whole as f64 == score).then_some(whole)
}

const COUNT: usize = 2;
/// Integral scores from here on are stored as doubles.
const WHOLE_END: f64 = (1u64 << 49) as f64;
/// The first byte of a negative integral score.
const BELOW_ZERO: u8 = 0xFE;
/// The first byte of any other score.
const DOUBLE: u8 = 0xFF;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Kind;
    use crate::entry::{Entry, NewValue};

    #[test]
    fn every_score_reads_back() {
        let mut scores = vec![
            0.5,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e300,
            -1e-300,
            f64::MAX,
        ];
        for bits in 0..64 {
            let power = (bits as f64).exp2();
            scores.extend([power - 1.0, power, power + 1.0, -power, 1.0 - power]);
        }
        for score in scores {
            let written = Score::new(score);
            let mut run = written.as_bytes().to_vec();
            run.push(0xFF);
            assert_eq!(read_score(&run, 0), (score, written.length), "{score}");
            assert_eq!(score_end(&run, 0), written.length, "{score}");
        }
        let length = |score| Score::new(score).length;
        assert_eq!([0.0, 127.0, 128.0, 16_383.0].map(length), [1, 1, 2, 2]);
        assert_eq!([1_763_800_000.0, 1_763_800_000_123.0].map(length), [5, 6]);
        assert_eq!([-1.0, -0.0, 1.5, WHOLE_END].map(length), [2, 1, 9, 9]);
    }

    #[test]
    fn a_short_score_takes_two_bytes_and_a_length_one() {
        let empty = NewValue::Compact(Kind::PackedSortedSet, &[0, 0]);
        let mut entry = Entry::new(1, b"zset:00000000001", empty, false);
        for member in 0..100 {
            let score = f64::from(member * 7_919 % 10_007);
            insert(&mut entry, format!("member:{member:05}").as_bytes(), score);
        }
        assert!(entry.bytes().len() <= COUNT + 100 * (1 + 12 + 2));
        assert_eq!(entry.block_bytes(), 1_536);
    }

    #[test]
    fn a_part_can_be_read_from_both_ends_at_once() {
        let empty = NewValue::Compact(Kind::PackedSortedSet, &[0, 0]);
        let mut entry = Entry::new(1, b"k", empty, false);
        for member in 0..10 {
            insert(&mut entry, &[b'a' + member], f64::from(member) - 4.5);
        }
        let mut pairs = PackedScores::new(entry.bytes()).range(2..8);
        let mut shown = Vec::new();
        while let Some((text, _)) = pairs.next() {
            shown.extend_from_slice(text.as_bytes());
            shown.extend(pairs.next_back().map(|(text, _)| text.as_bytes()[0]));
        }
        assert_eq!(shown, b"chdgef");
    }
}
