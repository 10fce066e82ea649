//! Kinds of records, by their type byte.

use super::HEADER_LENGTH;

/// Kind of a record: one for each type byte that is known, and one for all others.
///
/// Versions 1 to 3 send the `tbbo` schema as [`Mbp1`](Kind::Mbp1) records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// Trades (`mbp-0`).
    Trade,
    /// Best level, and the order event that led to it; also `tbbo`.
    Mbp1,
    /// Ten levels, and the order event that led to them.
    Mbp10,
    /// Bar of an unstated interval, long deprecated.
    OhlcvDeprecated,
    /// One-second bar.
    Ohlcv1s,
    /// One-minute bar.
    Ohlcv1m,
    /// One-hour bar.
    Ohlcv1h,
    /// One-day bar by UTC date.
    Ohlcv1d,
    /// One-day bar by trading session.
    OhlcvEod,
    /// Trading status.
    Status,
    /// Instrument definition.
    Definition,
    /// Auction imbalance.
    Imbalance,
    /// Error from a live gateway.
    Error,
    /// Which symbol an instrument id stands for.
    SymbolMapping,
    /// Message of a live gateway, also its heartbeat.
    System,
    /// Statistics of the venue.
    Statistics,
    /// Market by order.
    Mbo,
    /// Consolidated best level.
    Cmbp1,
    /// Consolidated best level, each second.
    Cbbo1s,
    /// Consolidated best level, each minute.
    Cbbo1m,
    /// Trade with the consolidated best level before it.
    Tcbbo,
    /// Best level, each second.
    Bbo1s,
    /// Best level, each minute.
    Bbo1m,
    /// A type byte this reader does not know.
    Unknown,
}

/// Every kind, in the order of its number: `KINDS[kind as usize] == kind`.
pub const KINDS: [Kind; 24] = [
    Kind::Trade,
    Kind::Mbp1,
    Kind::Mbp10,
    Kind::OhlcvDeprecated,
    Kind::Ohlcv1s,
    Kind::Ohlcv1m,
    Kind::Ohlcv1h,
    Kind::Ohlcv1d,
    Kind::OhlcvEod,
    Kind::Status,
    Kind::Definition,
    Kind::Imbalance,
    Kind::Error,
    Kind::SymbolMapping,
    Kind::System,
    Kind::Statistics,
    Kind::Mbo,
    Kind::Cmbp1,
    Kind::Cbbo1s,
    Kind::Cbbo1m,
    Kind::Tcbbo,
    Kind::Bbo1s,
    Kind::Bbo1m,
    Kind::Unknown,
];

impl Kind {
    /// The kind of a record with this type byte.
    #[inline]
    pub const fn of(rtype: u8) -> Self {
        KIND_OF[rtype as usize]
    }

    /// Databento's name of the record type.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Shortest record of this kind in any version, header included, in bytes.
    pub const fn length_min(self) -> usize {
        self.row().2
    }

    /// One row a kind: name, type byte, shortest length.
    const fn row(self) -> (&'static str, u8, usize) {
        match self {
            Self::Trade => ("mbp-0", 0x00, 48),
            Self::Mbp1 => ("mbp-1", 0x01, 80),
            Self::Mbp10 => ("mbp-10", 0x0A, 368),
            Self::OhlcvDeprecated => ("ohlcv-deprecated", 0x11, 56),
            Self::Ohlcv1s => ("ohlcv-1s", 0x20, 56),
            Self::Ohlcv1m => ("ohlcv-1m", 0x21, 56),
            Self::Ohlcv1h => ("ohlcv-1h", 0x22, 56),
            Self::Ohlcv1d => ("ohlcv-1d", 0x23, 56),
            Self::OhlcvEod => ("ohlcv-eod", 0x24, 56),
            Self::Status => ("status", 0x12, 40),
            Self::Definition => ("instrument-def", 0x13, 360),
            Self::Imbalance => ("imbalance", 0x14, 112),
            Self::Error => ("error", 0x15, 80),
            Self::SymbolMapping => ("symbol-mapping", 0x16, 80),
            Self::System => ("system", 0x17, 80),
            Self::Statistics => ("statistics", 0x18, 64),
            Self::Mbo => ("mbo", 0xA0, 56),
            Self::Cmbp1 => ("cmbp-1", 0xB1, 80),
            Self::Cbbo1s => ("cbbo-1s", 0xC0, 80),
            Self::Cbbo1m => ("cbbo-1m", 0xC1, 80),
            Self::Tcbbo => ("tcbbo", 0xC2, 80),
            Self::Bbo1s => ("bbo-1s", 0xC3, 80),
            Self::Bbo1m => ("bbo-1m", 0xC4, 80),
            Self::Unknown => ("unknown", 0xFF, HEADER_LENGTH),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Shortest record of a type byte, in 4-byte words: the framing's only look-up.
pub(super) const WORDS_MIN: [u8; 256] = {
    let mut table = [0; 256];
    let mut rtype = 0;
    while rtype < 256 {
        table[rtype] = (KIND_OF[rtype].length_min() / 4) as u8;
        rtype += 1;
    }
    table
};

const KIND_OF: [Kind; 256] = {
    let mut table = [Kind::Unknown; 256];
    let mut number = 0;
    while number < KINDS.len() {
        table[KINDS[number].row().1 as usize] = KINDS[number];
        number += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_in_order_and_found_by_type() {
        for (number, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(Kind::of(kind.row().1), kind);
            assert_eq!(kind.length_min() % 4, 0);
        }
        assert_eq!(Kind::of(0xC5), Kind::Unknown, "version 4's own");
    }
}
