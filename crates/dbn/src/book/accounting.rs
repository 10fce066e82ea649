//! What happened to each record of a stream.

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
    /// Quotes published.
    pub quotes: u64,
    /// Trades published.
    pub trades: u64,
    /// Records whose publisher flagged that the book may be wrong.
    pub suspect: u64,
    first_ns: u64,
    last_ns: u64,
}

/// Why a record changed no quote, trade or symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Unused {
    /// The type byte is unknown.
    UnknownKind,
    /// The record is understood but holds no quote, trade or symbol: bars, statistics,
    /// imbalances, statuses and gateway messages.
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
    /// More instruments or symbols than the limit.
    TooManyInstruments,
    /// The instrument's name is too long for a symbol.
    NameTooLong,
    /// A trade that a record of another schema has told.
    Repeated,
    /// A trade that a record of another schema may have told: trades of its time are no longer
    /// remembered.
    Forgotten,
    /// A status that changes no trading state.
    NoChange,
}

/// Every reason, in the order of its discriminant.
const REASONS: [Unused; 13] = [
    Unused::UnknownKind,
    Unused::NoPrices,
    Unused::UnknownOrder,
    Unused::NoSide,
    Unused::NoPrice,
    Unused::UnknownAction,
    Unused::OrdersFull,
    Unused::LevelsFull,
    Unused::TooManyInstruments,
    Unused::NameTooLong,
    Unused::Repeated,
    Unused::Forgotten,
    Unused::NoChange,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    used: u64,
    unused: [u64; REASONS.len()],
}

impl Accounting {
    /// Creates an accounting with all counts at 0.
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

    /// Returns the number of records read.
    pub fn read(&self) -> u64 {
        KINDS.iter().map(|&kind| self.read_of(kind)).sum()
    }

    /// Returns the number of records of one kind read.
    pub fn read_of(&self, kind: Kind) -> u64 {
        let counts = &self.kinds[kind as usize];
        counts.used + counts.unused.iter().sum::<u64>()
    }

    /// Returns the number of records used.
    pub fn used(&self) -> u64 {
        self.kinds.iter().map(|counts| counts.used).sum()
    }

    /// Returns the number of records of one kind used.
    pub fn used_of(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize].used
    }

    /// Iterates over the unused records: kind, reason and count, where the count is not 0.
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

    /// Iterates over the records of unknown kind: type byte and count, where the count is not 0.
    pub fn unknown_types(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        (0..=u8::MAX)
            .zip(self.unknown.iter().copied())
            .filter(|&(_, count)| count > 0)
    }

    /// Returns the number of quotes and trades published.
    pub fn published(&self) -> u64 {
        self.quotes + self.trades
    }

    /// Returns the earliest and the latest source time of the records used, in nanoseconds since
    /// the UNIX epoch.
    pub fn source_times_ns(&self) -> Option<(u64, u64)> {
        (self.first_ns <= self.last_ns).then_some((self.first_ns, self.last_ns))
    }

    #[inline]
    pub(super) fn count_used(&mut self, kind: Kind) {
        self.kinds[kind as usize].used += 1;
    }

    /// Counts a record as used, or as unused for a reason.
    #[inline]
    pub(super) fn count(&mut self, kind: Kind, rtype: u8, unused: Option<Unused>) {
        match unused {
            None => self.count_used(kind),
            Some(reason) => self.count_unused(kind, rtype, reason),
        }
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
        // 0 is no time.
        if source_time_ns == 0 {
            return;
        }
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
    /// Returns the reason in words, for a report.
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
            Self::NameTooLong => "symbol of more than 72 bytes",
            Self::Repeated => "trade that another schema has told",
            Self::Forgotten => {
                "trade of a schema that was not the first to tell trades, too far behind the first \
                 one to compare"
            }
            Self::NoChange => "no change of the trading state",
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
