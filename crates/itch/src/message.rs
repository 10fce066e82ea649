//! The messages of ITCH 5.0, each with its fields in wire order.

use thiserror::Error;

use super::field::Field;
use super::{DayTime, Letters, Price};

/// Why bytes are not a message: the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// There are no bytes.
    #[error("an empty message")]
    Empty,
    /// A known type with a wrong length.
    #[error("message '{}' of {length} bytes has {expected}", char::from(*kind))]
    WrongLength {
        /// The type byte.
        kind: u8,
        /// The length in bytes.
        length: usize,
        /// The length of this type in bytes.
        expected: usize,
    },
}

/// The fields after the type of every message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The security's number of the day; 0 if the message is about no security.
    pub locate: u16,
    /// The exchange's tracking number.
    pub tracking: u16,
    /// Time of the message at the exchange.
    pub time: DayTime,
}

impl Head {
    /// Reads the head of any message of at least [`Head::LENGTH`] bytes.
    #[inline(always)]
    pub fn read(message: &[u8]) -> Option<Head> {
        Some(Head::of(message.first_chunk::<{ Head::LENGTH }>()?))
    }

    /// Bytes of the type and the head.
    pub const LENGTH: usize = 11;

    #[inline(always)]
    fn of(bytes: &[u8]) -> Head {
        Head {
            locate: Field::read(bytes, 1),
            tracking: Field::read(bytes, 3),
            time: Field::read(bytes, 5),
        }
    }
}

/// Declares the messages: a type for each, the enum of all types, decoders and encoders.
macro_rules! messages {
    ($(
        $(#[$doc:meta])*
        $name:ident $kind:literal $length:literal {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name {
                /// Security, tracking number and time.
                pub head: Head,
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl $name {
                /// The type byte.
                pub const KIND: u8 = $kind;
                /// Bytes on the wire.
                pub const LENGTH: usize = $length;

                /// Decodes the fields; the type byte is ignored.
                #[inline(always)]
                #[allow(unused_assignments)]
                pub fn from_bytes(bytes: &[u8; $length]) -> Self {
                    let mut at = Head::LENGTH;
                    $(
                        let $field = <$type as Field>::read(bytes, at);
                        at += <$type as Field>::LENGTH;
                    )*
                    Self { head: Head::of(bytes), $($field,)* }
                }

                /// Encodes the message.
                #[inline(always)]
                #[allow(unused_assignments)]
                pub fn to_bytes(&self) -> [u8; $length] {
                    let mut bytes = [0; $length];
                    bytes[0] = $kind;
                    self.head.locate.write(&mut bytes, 1);
                    self.head.tracking.write(&mut bytes, 3);
                    self.head.time.write(&mut bytes, 5);
                    let mut at = Head::LENGTH;
                    $(
                        self.$field.write(&mut bytes, at);
                        at += <$type as Field>::LENGTH;
                    )*
                    bytes
                }
            }

            const _: () = assert!(
                $length == Head::LENGTH $(+ <$type as Field>::LENGTH)*,
                "the fields fill the message"
            );
        )*

        /// Any message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Message {
            $($(#[$doc])* $name($name),)*
            /// An unknown type.
            Unknown(u8),
        }

        impl Message {
            /// Every type byte, with its name and its bytes on the wire.
            pub const KINDS: &[(u8, &str, usize)] = &[$(($kind, stringify!($name), $length),)*];

            /// Decodes one message without its length.
            ///
            /// # Errors
            /// [`MessageError`]; an unknown type is not an error.
            #[inline]
            pub fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
                let Some(&kind) = bytes.first() else {
                    return Err(MessageError::Empty);
                };
                match kind {
                    $($kind => sized(bytes).map(|bytes| Message::$name($name::from_bytes(bytes))),)*
                    other => Ok(Message::Unknown(other)),
                }
            }

            /// Appends the message without its length; nothing for an unknown type.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Message::$name(message) => out.extend_from_slice(&message.to_bytes()),)*
                    Message::Unknown(_) => {}
                }
            }

            /// Returns the type byte.
            pub fn kind(&self) -> u8 {
                match self {
                    $(Message::$name(_) => $kind,)*
                    Message::Unknown(kind) => *kind,
                }
            }

            /// Returns security, tracking number and time.
            pub fn head(&self) -> Option<&Head> {
                match self {
                    $(Message::$name(message) => Some(&message.head),)*
                    Message::Unknown(_) => None,
                }
            }
        }
    };
}

/// Checks the length of a message of a known type.
#[inline(always)]
pub(super) fn sized<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], MessageError> {
    bytes.try_into().map_err(|_| MessageError::WrongLength {
        kind: bytes.first().copied().unwrap_or_default(),
        length: bytes.len(),
        expected: N,
    })
}

messages! {
    /// `S`: an event of the day.
    SystemEvent b'S' 12 {
        /// `O` messages begin, `S` system opens, `Q` market opens, `M` market closes, `E` system
        /// closes, `C` messages end.
        event: u8,
    }
    /// `R`: a security and its number of the day.
    StockDirectory b'R' 39 {
        /// Its symbol.
        stock: Letters<8>,
        /// `Q` Global Select, `G` Global Market, `S` Capital Market, `N` NYSE, `A` NYSE American,
        /// `P` Arca, `Z` Cboe, `V` IEX, space for none.
        market_category: u8,
        /// `N` normal, `D` deficient, `E` delinquent, `Q` bankrupt, `S` suspended, others.
        financial_status: u8,
        /// Shares of a round lot.
        round_lot_size: u32,
        /// `Y` if only round lots are accepted.
        round_lots_only: u8,
        /// Kind of security.
        issue_classification: u8,
        /// Subtype of the security.
        issue_sub_type: Letters<2>,
        /// `P` live, `T` test.
        authenticity: u8,
        /// `Y` restricted, `N`, space for none.
        short_sale_threshold: u8,
        /// `Y` for a new listing, `N`, space for none.
        ipo: u8,
        /// `1`, `2`, space for none.
        price_band_tier: u8,
        /// `Y` for an exchange-traded product.
        exchange_traded: u8,
        /// Leverage of an exchange-traded product.
        leverage: u32,
        /// `Y` for an inverse product.
        inverse: u8,
    }
    /// `H`: trading state of a security.
    TradingAction b'H' 25 {
        /// Its symbol.
        stock: Letters<8>,
        /// `H` halted, `P` paused, `Q` quotation only, `T` trading.
        state: u8,
        /// Not used.
        reserved: u8,
        /// Reason code.
        reason: Letters<4>,
    }
    /// `Y`: short sale restriction.
    ShortSaleRestriction b'Y' 20 {
        /// Its symbol.
        stock: Letters<8>,
        /// `0` none, `1` in effect, `2` remains in effect.
        action: u8,
    }
    /// `L`: a market participant's position in a security.
    ParticipantPosition b'L' 26 {
        /// The participant.
        participant: Letters<4>,
        /// The security's symbol.
        stock: Letters<8>,
        /// `Y` primary market maker.
        primary: u8,
        /// `N` normal, `P` passive, `S` syndicate, `R` pre-syndicate, `L` penalty.
        mode: u8,
        /// `A` active, `E` excused, `W` withdrawn, `S` suspended, `D` deleted.
        state: u8,
    }
    /// `V`: levels of the market-wide circuit breaker; 1 unit = 1e-8.
    BreakerLevels b'V' 35 {
        /// Level 1.
        level1: u64,
        /// Level 2.
        level2: u64,
        /// Level 3.
        level3: u64,
    }
    /// `W`: the market-wide circuit breaker has tripped.
    BreakerStatus b'W' 12 {
        /// Level `1`, `2` or `3`.
        level: u8,
    }
    /// `K`: quotation time of a new listing.
    IpoQuotation b'K' 28 {
        /// Its symbol.
        stock: Letters<8>,
        /// Seconds since midnight.
        release_time_s: u32,
        /// `A` anticipated, `C` cancelled or postponed.
        qualifier: u8,
        /// Price of the listing.
        price: Price,
    }
    /// `J`: the collar of an auction after a volatility pause.
    AuctionCollar b'J' 35 {
        /// Its symbol.
        stock: Letters<8>,
        /// Reference price.
        reference: Price,
        /// Upper limit.
        upper: Price,
        /// Lower limit.
        lower: Price,
        /// Number of extensions of the auction.
        extensions: u32,
    }
    /// `h`: a halt of one market only.
    OperationalHalt b'h' 21 {
        /// Its symbol.
        stock: Letters<8>,
        /// `Q` Nasdaq, `B` BX, `X` PSX.
        market: u8,
        /// `H` halted, `T` resumed.
        action: u8,
    }
    /// `A`: a new anonymous order.
    AddOrder b'A' 36 {
        /// The order's number of the day.
        reference: u64,
        /// `B` buy, `S` sell.
        side: u8,
        /// Shares.
        shares: u32,
        /// The security's symbol.
        stock: Letters<8>,
        /// Limit price.
        price: Price,
    }
    /// `F`: a new order with the participant's name.
    AddAttributedOrder b'F' 40 {
        /// The order's number of the day.
        reference: u64,
        /// `B` buy, `S` sell.
        side: u8,
        /// Shares.
        shares: u32,
        /// The security's symbol.
        stock: Letters<8>,
        /// Limit price.
        price: Price,
        /// The participant.
        attribution: Letters<4>,
    }
    /// `E`: an order was fully or partly executed at its price.
    OrderExecuted b'E' 31 {
        /// The order.
        reference: u64,
        /// Shares of this execution.
        shares: u32,
        /// The execution's number of the day.
        match_number: u64,
    }
    /// `C`: an order was executed at a different price.
    OrderExecutedAtPrice b'C' 36 {
        /// The order.
        reference: u64,
        /// Shares of this execution.
        shares: u32,
        /// The execution's number of the day.
        match_number: u64,
        /// `Y` if it counts as a trade, `N` if a cross trade counts it.
        printable: u8,
        /// Execution price.
        price: Price,
    }
    /// `X`: a part of an order's shares was cancelled.
    OrderCancel b'X' 23 {
        /// The order.
        reference: u64,
        /// Cancelled shares.
        shares: u32,
    }
    /// `D`: an order was deleted.
    OrderDelete b'D' 19 {
        /// The order.
        reference: u64,
    }
    /// `U`: an order was replaced by another one on the same side.
    OrderReplace b'U' 35 {
        /// The replaced order.
        original: u64,
        /// The new order.
        reference: u64,
        /// Shares of the new order.
        shares: u32,
        /// Limit price of the new order.
        price: Price,
    }
    /// `P`: a trade of a hidden order.
    Trade b'P' 44 {
        /// 0, or the hidden order.
        reference: u64,
        /// Always `B` since 2014.
        side: u8,
        /// Shares.
        shares: u32,
        /// The security's symbol.
        stock: Letters<8>,
        /// Trade price.
        price: Price,
        /// The trade's number of the day.
        match_number: u64,
    }
    /// `Q`: a trade of an auction.
    CrossTrade b'Q' 40 {
        /// Shares; 0 if the auction had no match.
        shares: u64,
        /// The security's symbol.
        stock: Letters<8>,
        /// Trade price.
        price: Price,
        /// The trade's number of the day.
        match_number: u64,
        /// `O` opening, `C` closing, `H` after a halt or for a new listing.
        cross: u8,
    }
    /// `B`: a trade was broken.
    BrokenTrade b'B' 19 {
        /// The number of the trade or execution.
        match_number: u64,
    }
    /// `I`: the expected result of an auction.
    Imbalance b'I' 50 {
        /// Shares that would be matched.
        paired: u64,
        /// Shares that would remain.
        imbalance: u64,
        /// `B` buy, `S` sell, `N` none, `O` too few orders, `P` paused.
        direction: u8,
        /// The security's symbol.
        stock: Letters<8>,
        /// Price at which the auction's orders alone would match.
        far: Price,
        /// Price at which they would match together with the book's.
        near: Price,
        /// Current reference price.
        reference_price: Price,
        /// `O` opening, `C` closing, `H` after a halt, `A` extended trading close.
        cross: u8,
        /// Difference of near price and reference price.
        variation: u8,
    }
    /// `N`: retail price improvement interest.
    RetailInterest b'N' 20 {
        /// The security's symbol.
        stock: Letters<8>,
        /// `B` buy, `S` sell, `A` both, `N` none.
        interest: u8,
    }
    /// `O`: price discovery of a direct listing with a capital raise.
    DirectListing b'O' 48 {
        /// The security's symbol.
        stock: Letters<8>,
        /// `Y` if the listing may be released.
        open_eligible: u8,
        /// 20 % below the registration's lowest price.
        minimum: Price,
        /// 80 % above the registration's highest price.
        maximum: Price,
        /// Expected opening price.
        near_execution: Price,
        /// Time of that price, nanoseconds since midnight.
        near_execution_time_ns: u64,
        /// Lower limit of the collar.
        lower_collar: Price,
        /// Upper limit of the collar.
        upper_collar: Price,
    }
}
