//! Kinds of records, by type byte.

use super::HEADER_LENGTH;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $row:expr,)*) => {
        /// The kind of a record: one for each known type byte, and one for all others.
        ///
        /// Versions 1 to 3 send the `tbbo` schema as [`Mbp1`](Kind::Mbp1) records.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        /// Every kind, in the order of its discriminant: `KINDS[kind as usize] == kind`.
        pub const KINDS: [Kind; 24] = [$(Kind::$kind),*];

        impl Kind {
            /// Returns the name, the type byte and the minimum length.
            const fn row(self) -> (&'static str, u8, usize) {
                match self {
                    $(Self::$kind => $row,)*
                }
            }
        }
    };
}

kinds! {
    /// Trades (`mbp-0`).
    Trade = ("mbp-0", 0x00, 48),
    /// Best level with the order event that changed it; also `tbbo`.
    Mbp1 = ("mbp-1", 0x01, 80),
    /// Ten levels with the order event that changed them.
    Mbp10 = ("mbp-10", 0x0A, 368),
    /// Bar of an unspecified interval, deprecated.
    OhlcvDeprecated = ("ohlcv-deprecated", 0x11, 56),
    /// One-second bar.
    Ohlcv1s = ("ohlcv-1s", 0x20, 56),
    /// One-minute bar.
    Ohlcv1m = ("ohlcv-1m", 0x21, 56),
    /// One-hour bar.
    Ohlcv1h = ("ohlcv-1h", 0x22, 56),
    /// One-day bar by UTC date.
    Ohlcv1d = ("ohlcv-1d", 0x23, 56),
    /// One-day bar by trading session.
    OhlcvEod = ("ohlcv-eod", 0x24, 56),
    /// Trading status.
    Status = ("status", 0x12, 40),
    /// Instrument definition.
    Definition = ("instrument-def", 0x13, 360),
    /// Auction imbalance.
    Imbalance = ("imbalance", 0x14, 112),
    /// Error from a live gateway.
    Error = ("error", 0x15, 80),
    /// Symbol of an instrument id.
    SymbolMapping = ("symbol-mapping", 0x16, 80),
    /// Message of a live gateway, including its heartbeat.
    System = ("system", 0x17, 80),
    /// Statistics of the venue.
    Statistics = ("statistics", 0x18, 64),
    /// Market by order.
    Mbo = ("mbo", 0xA0, 56),
    /// Consolidated best level.
    Cmbp1 = ("cmbp-1", 0xB1, 80),
    /// Consolidated best level, once per second.
    Cbbo1s = ("cbbo-1s", 0xC0, 80),
    /// Consolidated best level, once per minute.
    Cbbo1m = ("cbbo-1m", 0xC1, 80),
    /// Trade with the consolidated best level before it.
    Tcbbo = ("tcbbo", 0xC2, 80),
    /// Best level, once per second.
    Bbo1s = ("bbo-1s", 0xC3, 80),
    /// Best level, once per minute.
    Bbo1m = ("bbo-1m", 0xC4, 80),
    /// An unknown type byte.
    Unknown = ("unknown", 0xFF, HEADER_LENGTH),
}

impl Kind {
    /// Returns the kind of a type byte.
    #[inline]
    pub const fn of(rtype: u8) -> Self {
        KIND_OF[rtype as usize]
    }

    /// Returns Databento's name of the record type.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns the minimum length of this kind in any version, header included, in bytes.
    pub const fn length_min(self) -> usize {
        self.row().2
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Minimum length of each type byte in 4-byte words: the framing needs no other table.
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
