//! What became of every record of a stream.

use crate::{KINDS, Kind};
use tidewire_book::BookError;

/// Counts of a stream's records by kind: read, used, and unused by reason.
///
/// For every kind, `read == used + the sum of unused`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accounting {
    kinds: [Counts; KINDS.len()],
    /// Records of unknown kind, by type byte.
    unknown: Box<[u64; 256]>,
    /// Quotes given out.
    pub quotes: u64,
    /// Trades given out.
    pub trades: u64,
    /// Records whose publisher said the book may be wrong.
    pub suspect: u64,
    first_ns: u64,
    last_ns: u64,
}

/// Why a record gave nothing to the market's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Unused {
    /// Its type byte is not known.
    UnknownKind,
    /// It is understood, and carries neither quote nor trade nor symbol: bars, statistics,
    /// imbalances, statuses and messages of a gateway.
    NoPrices,
    /// See [`BookError::UnknownOrder`].
    UnknownOrder,
    /// See [`BookError::NoSide`].
    NoSide,
    /// See [`BookError::NoPrice`]; also a trade without a price.
    NoPrice,
    /// See [`BookError::UnknownAction`].
    UnknownAction,
    /// See [`BookError::OrdersFull`].
    OrdersFull,
    /// See [`BookError::LevelsFull`].
    LevelsFull,
    /// There are more instruments or symbols than the limit.
    TooManyInstruments,
}

/// Every reason, in the order of its number.
const REASONS: [Unused; 9] = [
    Unused::UnknownKind,
    Unused::NoPrices,
    Unused::UnknownOrder,
    Unused::NoSide,
    Unused::NoPrice,
    Unused::UnknownAction,
    Unused::OrdersFull,
    Unused::LevelsFull,
    Unused::TooManyInstruments,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    used: u64,
    unused: [u64; REASONS.len()],
}

impl Accounting {
    /// Nothing counted.
    pub fn new() -> Self {
        Self {
            kinds: [Counts::default(); KINDS.len()],
            unknown: Box::new([0; 256]),
            quotes: 0,
            trades: 0,
            suspect: 0,
            first_ns: u64::MAX,
            last_ns: 0,
        }
    }

    /// All records read.
    pub fn read(&self) -> u64 {
        KINDS.iter().map(|&kind| self.read_of(kind)).sum()
    }

    /// Records of one kind read.
    pub fn read_of(&self, kind: Kind) -> u64 {
        let counts = &self.kinds[kind as usize];
        counts.used + counts.unused.iter().sum::<u64>()
    }

    /// All records that were used.
    pub fn used(&self) -> u64 {
        self.kinds.iter().map(|counts| counts.used).sum()
    }

    /// Records of one kind that were used.
    pub fn used_of(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize].used
    }

    /// What was not used: kind, reason and count, where the count is not 0.
    pub fn unused(&self) -> impl Iterator<Item = (Kind, Unused, u64)> + '_ {
        KINDS.iter().flat_map(move |&kind| {
            let counts = self.kinds[kind as usize].unused;
            REASONS
                .into_iter()
                .zip(counts)
                .filter(|&(_, count)| count > 0)
                .map(move |(reason, count)| (kind, reason, count))
        })
    }

    /// Records of unknown kind: type byte and count, where the count is not 0.
    pub fn unknown_types(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        (0..=u8::MAX)
            .zip(self.unknown.iter().copied())
            .filter(|&(_, count)| count > 0)
    }

    /// Quotes and trades given out.
    pub fn published(&self) -> u64 {
        self.quotes + self.trades
    }

    /// Earliest and latest source time of the records used, nanoseconds since the UNIX epoch.
    pub fn source_times_ns(&self) -> Option<(u64, u64)> {
        (self.first_ns <= self.last_ns).then_some((self.first_ns, self.last_ns))
    }

    #[inline]
    pub(super) fn count_used(&mut self, kind: Kind) {
        self.kinds[kind as usize].used += 1;
    }

    #[cold]
    pub(super) fn count_unused(&mut self, kind: Kind, rtype: u8, reason: Unused) {
        self.kinds[kind as usize].unused[reason as usize] += 1;
        if reason == Unused::UnknownKind {
            self.unknown[usize::from(rtype)] += 1;
        }
    }

    #[inline]
    pub(super) fn note_time(&mut self, source_time_ns: u64) {
        self.first_ns = self.first_ns.min(source_time_ns);
        self.last_ns = self.last_ns.max(source_time_ns);
    }
}

impl Default for Accounting {
    fn default() -> Self {
        Self::new()
    }
}

impl Unused {
    /// The reason in words, for a report.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::UnknownKind => "unknown record type",
            Self::NoPrices => "neither quote nor trade",
            Self::UnknownOrder => "cancel of an order that is not in the book",
            Self::NoSide => "no side",
            Self::NoPrice => "no price",
            Self::UnknownAction => "unknown action",
            Self::OrdersFull => "book full of orders",
            Self::LevelsFull => "book full of price levels",
            Self::TooManyInstruments => "too many instruments",
        }
    }
}

impl From<BookError> for Unused {
    fn from(error: BookError) -> Self {
        match error {
            BookError::UnknownOrder => Self::UnknownOrder,
            BookError::NoSide => Self::NoSide,
            BookError::NoPrice => Self::NoPrice,
            BookError::UnknownAction => Self::UnknownAction,
            BookError::OrdersFull => Self::OrdersFull,
            BookError::LevelsFull => Self::LevelsFull,
        }
    }
}
