//! Small sorted sets: member and score after member and score, in their order, in one run of bytes.
//!
//! ```text
//!  ┌───────────┬────────┬───────┬────────┬───────┬───     both are elements, see `elements`; a
//!  │ count u16 │ member │ score │ member │ score │ …      whole score is an integer, another one
//!  └───────────┴────────┴───────┴────────┴───────┴───     the eight bytes of an f64
//! ```

use std::ops::Range;

use crate::elements::{self, Encoded};
use crate::entry::Entry;
use crate::value::Text;

/// A small sorted set to read.
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
        PackedPairs {
            run,
            start: 0,
            end: run.len(),
        }
    }

    /// The pairs of these ranks.
    pub(super) fn range(self, ranks: Range<usize>) -> PackedPairs<'a> {
        let run = self.run();
        let start = self.start_of(ranks.start);
        let end = if ranks.end >= self.len() {
            run.len()
        } else {
            (ranks.start..ranks.end).fold(start, |at, _| pair_end(run, at))
        };
        PackedPairs { run, start, end }
    }

    /// The rank of a member, where its pair lies, and its score.
    pub(super) fn find(self, member: &[u8]) -> Option<(usize, Range<usize>, f64)> {
        let run = self.run();
        let wanted = Encoded::new(member);
        let (mut rank, mut at) = (0, 0);
        while at < run.len() {
            let middle = elements::end_of(run, at);
            if wanted.is_at(run, at..middle) {
                let end = elements::end_of(run, middle);
                return Some((rank, at..end, read_score(run, middle)));
            }
            at = elements::end_of(run, middle);
            rank += 1;
        }
        None
    }

    fn run(self) -> &'a [u8] {
        &self.bytes[COUNT..]
    }

    fn start_of(self, rank: usize) -> usize {
        let run = self.run();
        if rank <= self.len() / 2 {
            return (0..rank).fold(0, |at, _| pair_end(run, at));
        }
        (rank..self.len()).fold(run.len(), |end, _| pair_start(run, end))
    }
}

/// Adds a member that is not there.
pub(super) fn insert(entry: &mut Entry, member: &[u8], score: f64) {
    let packed = PackedScores::new(entry.bytes());
    let before =
        |other: f64, text: &Text<'_>| other < score || other == score && text.as_bytes() < member;
    let mut pairs = packed.iter();
    let at = loop {
        let at = pairs.start;
        match pairs.next() {
            Some((text, other)) if before(other, &text) => {}
            _ => break at,
        }
    };
    let bytes = score.to_le_bytes();
    let score = match as_integer(score) {
        Some(score) => Encoded::integer(score),
        None => Encoded::opaque(&bytes),
    };
    let member = Encoded::new(member);
    let [a, b, c] = member.parts();
    let [d, e, f] = score.parts();
    entry.splice(COUNT + at, 0, &[a, b, c, d, e, f]);
    add_to_count(entry, 1);
}

/// Removes `count` pairs that lie together.
pub(super) fn remove(entry: &mut Entry, span: Range<usize>, count: usize) {
    entry.splice(COUNT + span.start, span.len(), &[]);
    add_to_count(entry, -(count as i32));
}

/// Removes the pairs of these ranks.
pub(super) fn remove_ranks(entry: &mut Entry, ranks: Range<usize>) {
    let pairs = PackedScores::new(entry.bytes()).range(ranks.clone());
    remove(entry, pairs.start..pairs.end, ranks.len());
}

fn add_to_count(entry: &mut Entry, change: i32) {
    let count = PackedScores::new(entry.bytes()).len() as i32 + change;
    let count = u16::try_from(count).expect("the caller minds COUNT_MAX");
    entry.bytes_mut()[..COUNT].copy_from_slice(&count.to_le_bytes());
}

/// Members and scores of a part of a run, from either end.
#[derive(Clone, Debug)]
pub(crate) struct PackedPairs<'a> {
    run: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> Iterator for PackedPairs<'a> {
    type Item = (Text<'a>, f64);

    fn next(&mut self) -> Option<Self::Item> {
        (self.start < self.end).then(|| {
            let at = self.start;
            let middle = elements::end_of(self.run, at);
            self.start = elements::end_of(self.run, middle);
            (elements::read(self.run, at), read_score(self.run, middle))
        })
    }
}

impl DoubleEndedIterator for PackedPairs<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        (self.start < self.end).then(|| {
            let middle = elements::start_of(self.run, self.end);
            self.end = elements::start_of(self.run, middle);
            let member = elements::read(self.run, self.end);
            (member, read_score(self.run, middle))
        })
    }
}

fn pair_end(run: &[u8], at: usize) -> usize {
    elements::end_of(run, elements::end_of(run, at))
}

fn pair_start(run: &[u8], end: usize) -> usize {
    elements::start_of(run, elements::start_of(run, end))
}

fn read_score(run: &[u8], at: usize) -> f64 {
    match elements::read_integer(run, at) {
        Ok(score) => score as f64,
        Err(bytes) => f64::from_le_bytes(bytes.try_into().expect("eight bytes")),
    }
}

/// A whole score, minus zero included, that an integer element tells exactly.
fn as_integer(score: f64) -> Option<i64> {
    let whole = score as i64;
    (score.abs() <= WHOLE_MAX && whole as f64 == score).then_some(whole)
}

const COUNT: usize = 2;
/// Integers up to here are doubles as well.
const WHOLE_MAX: f64 = (1u64 << 53) as f64;
