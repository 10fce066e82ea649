//! Reference data other than definitions: venues and sessions.

use super::bytes::{Field, array_at, put, u16_at, u32_at, u64_at};
use super::message::{layout, prefix};
use super::{MessageError, MessageKind, UNDEFINED_PRICE, VenueName};

/// The name of a venue number in this stream: 48 bytes. Its prefix carries no symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Venue {
    /// The number, as in the field `source` of other messages.
    pub source: u16,
    /// Time from which the name applies, nanoseconds since the UNIX epoch; 0 for always.
    pub source_time_ns: u64,
    /// The name: an ISO 10383 code (`XNAS`) where the venue has one.
    pub name: VenueName,
}

impl Venue {
    /// Bytes on the wire.
    pub const LENGTH: usize = 48;

    pub(super) fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Venue, MessageError> {
        Ok(Venue {
            source: u16_at(bytes, 2),
            source_time_ns: u64_at(bytes, 8),
            name: VenueName::from_padded(array_at(bytes, 16)).map_err(|_| MessageError::BadText)?,
        })
    }

    /// Encodes the message.
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(MessageKind::VENUE, self.source, 0, self.source_time_ns);
        put(&mut bytes, 16, self.name.to_padded());
        bytes
    }
}

/// What a reference price is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReferenceKind(pub u8);

impl ReferenceKind {
    /// There is none.
    pub const NONE: ReferenceKind = ReferenceKind(0);
    /// The session's open: its first trade, or the auction's price.
    pub const OPEN: ReferenceKind = ReferenceKind(1);
    /// The close of the previous session.
    pub const PREVIOUS_CLOSE: ReferenceKind = ReferenceKind(2);
    /// The settlement price of the previous session.
    pub const PREVIOUS_SETTLEMENT: ReferenceKind = ReferenceKind(3);

    /// Returns whether this version knows what it means.
    pub fn is_known(self) -> bool {
        self <= ReferenceKind::PREVIOUS_SETTLEMENT
    }

    /// Returns the name as clients see it; `None` for no reference or one of a later version.
    pub fn name(self) -> Option<&'static str> {
        match self {
            ReferenceKind::OPEN => Some("open"),
            ReferenceKind::PREVIOUS_CLOSE => Some("prev_close"),
            ReferenceKind::PREVIOUS_SETTLEMENT => Some("prev_settlement"),
            _ => None,
        }
    }
}

impl Field for ReferenceKind {
    #[inline(always)]
    fn read<const N: usize>(bytes: &[u8; N], offset: usize) -> Self {
        ReferenceKind(bytes[offset])
    }

    #[inline(always)]
    fn write<const N: usize>(self, bytes: &mut [u8; N], offset: usize) {
        bytes[offset] = self.0;
    }
}

/// A symbol's trading session begins, or its reference price has become known: 48 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionStart {
    /// The symbol's id.
    pub symbol: u32,
    /// Venue or publisher number.
    pub source: u16,
    /// Time of the event at the source, nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// The reference price of `change_pct`, 1 unit = 1e-9, or [`UNDEFINED_PRICE`]. With `rolls`
    /// [`SessionStart::KEEPS`] that takes back the price of this kind.
    pub reference: i64,
    /// The session's trading day as `YYYYMMDD`; 0 if unknown.
    pub trading_day: u32,
    /// What `reference` is.
    pub kind: ReferenceKind,
    /// Whether a session begins: [`SessionStart::KEEPS`], [`SessionStart::BEGINS`],
    /// [`SessionStart::BEGINS_DAY`], [`SessionStart::BEGINS_DAY_OR_AGAIN`].
    pub rolls: u8,
}

/// What a receiver of a [`SessionStart`] knows of the symbol's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// Trading day as the number `YYYYMMDD`; 0 if unknown.
    pub trading_day: u32,
    /// The session's open, 1 unit = 1e-9, or [`UNDEFINED_PRICE`].
    pub open: i64,
    /// The session's first trade, 1 unit = 1e-9, or [`UNDEFINED_PRICE`] if there is none or it is
    /// unknown.
    pub first_trade: i64,
    /// Price from which the change is measured, 1 unit = 1e-9, or [`UNDEFINED_PRICE`] if it is
    /// the open.
    pub reference: i64,
    /// What `reference` is.
    pub kind: ReferenceKind,
    /// Source time until which the session's trades are known, nanoseconds since the UNIX epoch; 0
    /// without a trade.
    pub traded_until_ns: u64,
}

impl SessionStart {
    /// Value of `rolls`: only the reference is given.
    pub const KEEPS: u8 = 0;
    /// Value of `rolls`: a new session. Volume, trades, open, high and low begin again.
    pub const BEGINS: u8 = 1;
    /// Value of `rolls`: a new session, unless the symbol is in this trading day. A publisher that
    /// does not know what the receiver has got before sends it.
    pub const BEGINS_DAY: u8 = 2;
    /// Value of `rolls`: as [`SessionStart::BEGINS_DAY`]; also a new session if the trades of the
    /// day are not all before this message. Then the publisher gives the same trades again.
    pub const BEGINS_DAY_OR_AGAIN: u8 = 3;

    /// Returns whether this version knows what the message means, and it gives no price that is
    /// none. Another one is left out.
    pub fn is_valid(&self) -> bool {
        let is_known = self.kind.is_known() && self.rolls <= Self::BEGINS_DAY_OR_AGAIN;
        is_known && self.reference != i64::MIN
    }

    /// Returns what this message means for a session, with `rolls` [`SessionStart::KEEPS`] or
    /// [`SessionStart::BEGINS`]; `None` if it says nothing new, or is not valid
    /// ([`SessionStart::is_valid`]). A trading day that goes on, or that
    /// begins again, keeps a better reference than that of the message. An open may follow:
    /// [`SessionStart::open_beside`].
    pub fn decide(&self, state: &SessionState) -> Option<SessionStart> {
        if !self.is_valid() {
            return None;
        }
        match self.rolls {
            Self::KEEPS => return self.decide_kept(state),
            Self::BEGINS => return Some(*self),
            _ => {}
        }
        let begun = SessionStart {
            rolls: Self::BEGINS,
            ..*self
        };
        if self.trading_day == 0 || self.trading_day != state.trading_day {
            return Some(begun);
        }
        let is_open = self.kind == ReferenceKind::OPEN;
        let has_reference = !is_open
            && self.kind != ReferenceKind::NONE
            && self.reference != UNDEFINED_PRICE
            && (state.reference == UNDEFINED_PRICE || self.kind.0 >= state.kind.0);
        let is_again = self.rolls != Self::BEGINS_DAY
            && state.traded_until_ns != 0
            && self.source_time_ns <= state.traded_until_ns;
        if is_again {
            let keeps = !has_reference && state.reference != UNDEFINED_PRICE;
            return Some(match keeps {
                true => SessionStart {
                    reference: state.reference,
                    kind: state.kind,
                    ..begun
                },
                false => begun,
            });
        }
        let is_news = match is_open {
            true => ![UNDEFINED_PRICE, state.open].contains(&self.reference),
            false => has_reference && (self.reference, self.kind) != (state.reference, state.kind),
        };
        is_news.then_some(SessionStart {
            rolls: Self::KEEPS,
            ..*self
        })
    }

    /// Returns what follows `decided`, which [`SessionStart::decide`] has made of this message: the
    /// open that it declares, if the session that begins keeps another reference. Open and
    /// reference are two prices, and a message has one.
    pub fn open_beside(&self, decided: &SessionStart) -> Option<SessionStart> {
        let is_lost = decided.rolls == Self::BEGINS && decided.kind != ReferenceKind::OPEN;
        let is_declared = self.kind == ReferenceKind::OPEN && self.reference != UNDEFINED_PRICE;
        (is_lost && is_declared).then_some(SessionStart {
            rolls: Self::KEEPS,
            ..*self
        })
    }

    /// Returns what a message means that begins no session. Without a price it takes back the one
    /// of its kind: the open is then the first trade, and a close or settlement is gone.
    fn decide_kept(&self, state: &SessionState) -> Option<SessionStart> {
        debug_assert_eq!(self.rolls, Self::KEEPS, "no session begins");
        let is_absent = self.reference == UNDEFINED_PRICE;
        match self.kind {
            ReferenceKind::OPEN => {
                let open = if is_absent {
                    state.first_trade
                } else {
                    self.reference
                };
                (open != state.open).then_some(SessionStart {
                    reference: open,
                    ..*self
                })
            }
            ReferenceKind::NONE => (state.reference != UNDEFINED_PRICE).then_some(*self),
            kind if is_absent => {
                let is_known = kind == state.kind && state.reference != UNDEFINED_PRICE;
                is_known.then_some(SessionStart {
                    kind: ReferenceKind::NONE,
                    ..*self
                })
            }
            _ => Some(*self),
        }
    }
}

impl Default for SessionStart {
    fn default() -> Self {
        SessionStart {
            symbol: 0,
            source: 0,
            source_time_ns: 0,
            reference: UNDEFINED_PRICE,
            trading_day: 0,
            kind: ReferenceKind::NONE,
            rolls: Self::KEEPS,
        }
    }
}

layout!(SessionStart: 48, MessageKind::SESSION_START, {
    reference: 16,
    trading_day: 24,
    kind: 28,
    rolls: 29,
});

#[cfg(test)]
mod tests {
    use super::super::{Figures, LastValue, Message, Trade};
    use super::*;

    /// An opening price that was taken back stayed, as did a settlement where an open was known.
    #[test]
    fn a_price_that_is_taken_back_leaves_the_others() {
        let (open, close, settlement) = (
            ReferenceKind::OPEN,
            ReferenceKind::PREVIOUS_CLOSE,
            ReferenceKind::PREVIOUS_SETTLEMENT,
        );
        let state = SessionState {
            trading_day: 20_240_102,
            open: 100,
            first_trade: 98,
            reference: 90,
            kind: settlement,
            traded_until_ns: 50,
        };
        let without = |kind, state: &SessionState| {
            let start = SessionStart {
                kind,
                ..SessionStart::default()
            };
            let start = start.decide(state)?;
            assert_eq!(start.rolls, SessionStart::KEEPS);
            Some((start.kind, start.reference))
        };
        let none = (ReferenceKind::NONE, UNDEFINED_PRICE);
        assert_eq!(without(open, &state), Some((open, 98)), "the first trade");
        assert_eq!(without(settlement, &state), Some(none));
        assert_eq!(without(close, &state), None, "the settlement stays");
        assert_eq!(without(ReferenceKind::NONE, &state), Some(none));
        let untraded = SessionState {
            first_trade: UNDEFINED_PRICE,
            ..state
        };
        assert_eq!(without(open, &untraded), Some((open, UNDEFINED_PRICE)));
        let undeclared = SessionState { open: 98, ..state };
        assert_eq!(without(open, &undeclared), None);
    }

    /// One of kind 9 began a session, and gave its price as the previous close.
    #[test]
    fn a_session_start_of_an_unknown_kind_or_with_the_lowest_price_says_nothing() {
        let known = SessionStart {
            reference: 5,
            kind: ReferenceKind::PREVIOUS_CLOSE,
            rolls: SessionStart::BEGINS,
            ..SessionStart::default()
        };
        let (kind, rolls) = (ReferenceKind(4), 4);
        let others = [
            SessionStart { kind, ..known },
            SessionStart { rolls, ..known },
            SessionStart {
                reference: i64::MIN,
                ..known
            },
        ];
        let mut value = LastValue::new(0);
        assert!(value.apply(1, &Message::SessionStart(known)));
        for other in others {
            assert!(!other.is_valid());
            assert!(!value.apply(2, &Message::SessionStart(other)), "{other:?}");
        }
    }

    /// The next trade became the open of a session whose open was taken back.
    #[test]
    fn the_open_that_is_unknown_is_no_later_trade() {
        let trade = |price| {
            Message::Trade(Trade {
                symbol: 7,
                price,
                size: 1,
                ..Trade::default()
            })
        };
        let open = |reference| {
            Message::SessionStart(SessionStart {
                symbol: 7,
                reference,
                kind: ReferenceKind::OPEN,
                ..SessionStart::default()
            })
        };
        for figures in [None, Some(Figures::default())] {
            let mut value = LastValue {
                figures,
                ..LastValue::new(7)
            };
            value.apply(1, &trade(10));
            value.apply(2, &open(12));
            assert_eq!(value.open, 12);
            value.apply(3, &open(UNDEFINED_PRICE));
            let first = if figures.is_some() {
                10
            } else {
                UNDEFINED_PRICE
            };
            assert_eq!(value.open, first);
            value.apply(4, &trade(11));
            assert_eq!(value.open, first);
        }
    }
}
