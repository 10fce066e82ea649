//! Messages of the stream and of snapshots.

use super::bytes::{Field, array_at, i64_at, put, u16_at, u32_at, u64_at};
use super::last_value::LastValue;
use super::level::Level;
use super::reference::{SessionStart, Venue};
use super::topic::{Deletion, TopicPart, TopicStamp};
use super::{MessageError, Name, PREFIX_LENGTH, RecordPart, UNDEFINED_PRICE};

/// The type byte of a message; its high nibble is the length in 16-byte units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageKind(pub u8);

impl MessageKind {
    /// [`Skip`], 16 bytes.
    pub const SKIP: u8 = 0x10;
    /// [`Trade`], 32 bytes.
    pub const TRADE: u8 = 0x21;
    /// [`SnapshotMark`] at the beginning, 32 bytes.
    pub const SNAPSHOT_BEGIN: u8 = 0x22;
    /// [`SnapshotMark`] at the end, 32 bytes.
    pub const SNAPSHOT_END: u8 = 0x23;
    /// [`TradingStatus`], 32 bytes.
    pub const TRADING_STATUS: u8 = 0x24;
    /// [`Certainty`], 32 bytes.
    pub const CERTAINTY: u8 = 0x25;
    /// [`Quote`], 48 bytes.
    pub const QUOTE: u8 = 0x31;
    /// [`Venue`], 48 bytes.
    pub const VENUE: u8 = 0x32;
    /// [`Level`], 48 bytes.
    pub const LEVEL: u8 = 0x33;
    /// [`SessionStart`], 48 bytes.
    pub const SESSION_START: u8 = 0x34;
    /// [`LastValue`], 96 bytes.
    pub const LAST_VALUE: u8 = 0x61;
    /// [`LastValue`] with its figures, 176 bytes.
    pub const LAST_VALUE_LONG: u8 = 0xb1;
    /// [`Definition`], 112 bytes.
    pub const DEFINITION: u8 = 0x71;
    /// Low nibble of [`RecordPart`], 32 to 240 bytes.
    pub const RECORD_PART: u8 = 0x0d;
    /// Low nibble of a [`TopicPart`] of a name, 32 to 240 bytes.
    pub const TOPIC_NAME: u8 = 0x08;
    /// Low nibble of a [`TopicPart`] of a value, 32 to 240 bytes.
    pub const TOPIC_VALUE: u8 = 0x09;
    /// Low nibble of a [`TopicPart`] of a plant tag, 32 to 240 bytes.
    pub const TOPIC_TAG: u8 = 0x0a;
    /// [`TopicStamp`], 32 bytes.
    pub const TOPIC_STAMP: u8 = 0x2b;
    /// [`Deletion`], 16 bytes.
    pub const DELETION: u8 = 0x1c;

    /// Returns the bytes of a message of this type; 0 for an impossible type.
    #[inline(always)]
    pub const fn encoded_length(self) -> usize {
        (self.0 >> 4) as usize * 16
    }
}

/// One message, copied from its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "only a borrowed or stack value, never in a queue"
)]
pub enum Message {
    /// A trade.
    Trade(Trade),
    /// Best bid and ask.
    Quote(Quote),
    /// A symbol's id, name and reference data.
    Definition(Definition),
    /// A symbol's trading state.
    Status(TradingStatus),
    /// How certain a symbol's value is.
    Certainty(Certainty),
    /// The name of a venue number.
    Venue(Venue),
    /// One price level of a book.
    Level(Level),
    /// A symbol's trading session begins, or its reference price changes.
    SessionStart(SessionStart),
    /// A part of a DBN record.
    Record(RecordPart),
    /// A part of a topic's name or value.
    Topic(TopicPart),
    /// A topic is gone.
    Deletion(Deletion),
    /// A snapshot's block of a topic.
    TopicStamp(TopicStamp),
    /// A snapshot's record.
    LastValue(LastValue),
    /// A snapshot begins.
    SnapshotBegin(SnapshotMark),
    /// A snapshot ends.
    SnapshotEnd(SnapshotMark),
    /// Sequences outside the receiver's selection.
    Skip(Skip),
    /// A type of a later version, skipped by its length; takes one sequence.
    Unknown(UnknownMessage),
}

impl Message {
    /// Decodes one message at the front of `bytes`; returns it and the rest.
    #[inline(always)]
    pub fn decode(bytes: &[u8]) -> Result<(Message, &[u8]), MessageError> {
        let Some(&kind) = bytes.first() else {
            return Err(MessageError::Truncated);
        };
        match kind {
            MessageKind::TRADE => split(bytes, Trade::from_bytes, Message::Trade),
            MessageKind::QUOTE => split(bytes, Quote::from_bytes, Message::Quote),
            _ => Message::decode_rare(kind, bytes),
        }
    }

    /// Decodes one message at the front of `bytes` and passes it to `visit`. Returns the result
    /// of `visit` and the rest of the bytes.
    #[inline(always)]
    pub(super) fn visit<T>(
        bytes: &[u8],
        visit: impl FnOnce(&Message) -> T,
    ) -> Result<(T, &[u8]), MessageError> {
        let Some(&kind) = bytes.first() else {
            return Err(MessageError::Truncated);
        };
        match kind {
            MessageKind::TRADE => {
                let (head, rest) = bytes.split_first_chunk().ok_or(MessageError::Truncated)?;
                Ok((visit(&Message::Trade(Trade::from_bytes(head))), rest))
            }
            MessageKind::QUOTE => {
                let (head, rest) = bytes.split_first_chunk().ok_or(MessageError::Truncated)?;
                Ok((visit(&Message::Quote(Quote::from_bytes(head))), rest))
            }
            _ => {
                let (message, rest) = Message::decode_rare(kind, bytes)?;
                Ok((visit(&message), rest))
            }
        }
    }

    /// Decodes everything except trades and quotes, outside the hot loop.
    #[inline(never)]
    fn decode_rare(kind: u8, bytes: &[u8]) -> Result<(Message, &[u8]), MessageError> {
        match kind {
            MessageKind::SKIP => split(bytes, Skip::from_bytes, Message::Skip),
            MessageKind::TRADING_STATUS => split(bytes, TradingStatus::from_bytes, Message::Status),
            MessageKind::CERTAINTY => split(bytes, Certainty::from_bytes, Message::Certainty),
            MessageKind::SNAPSHOT_BEGIN => {
                split(bytes, SnapshotMark::from_bytes, Message::SnapshotBegin)
            }
            MessageKind::SNAPSHOT_END => {
                split(bytes, SnapshotMark::from_bytes, Message::SnapshotEnd)
            }
            MessageKind::LAST_VALUE => split(bytes, LastValue::from_bytes, Message::LastValue),
            MessageKind::LAST_VALUE_LONG => {
                split(bytes, LastValue::from_long_bytes, Message::LastValue)
            }
            MessageKind::LEVEL => split(bytes, Level::from_bytes, Message::Level),
            MessageKind::SESSION_START => {
                split(bytes, SessionStart::from_bytes, Message::SessionStart)
            }
            MessageKind::VENUE => {
                let (head, rest) = bytes.split_first_chunk().ok_or(MessageError::Truncated)?;
                Ok((Message::Venue(Venue::from_bytes(head)?), rest))
            }
            _ if RecordPart::is_kind(kind) => {
                let length = MessageKind(kind).encoded_length();
                let (head, rest) = bytes
                    .split_at_checked(length)
                    .ok_or(MessageError::Truncated)?;
                Ok((Message::Record(RecordPart::from_bytes(head)?), rest))
            }
            MessageKind::DELETION => split(bytes, Deletion::from_bytes, Message::Deletion),
            MessageKind::TOPIC_STAMP => split(bytes, TopicStamp::from_bytes, Message::TopicStamp),
            MessageKind::DEFINITION => {
                let (head, rest) = bytes.split_first_chunk().ok_or(MessageError::Truncated)?;
                Ok((Message::Definition(Definition::from_bytes(head)?), rest))
            }
            _ if let Some(part) = TopicPart::kind_of(kind) => {
                let length = MessageKind(kind).encoded_length();
                let (head, rest) = bytes
                    .split_at_checked(length)
                    .ok_or(MessageError::Truncated)?;
                Ok((Message::Topic(TopicPart::from_bytes(part, head)?), rest))
            }
            _ => {
                let length = MessageKind(kind).encoded_length();
                if length == 0 {
                    return Err(MessageError::BadType(kind));
                }
                let rest = bytes.get(length..).ok_or(MessageError::Truncated)?;
                Ok((
                    Message::Unknown(UnknownMessage {
                        kind: MessageKind(kind),
                    }),
                    rest,
                ))
            }
        }
    }

    /// Appends the encoded message. An [`UnknownMessage`] is written as zeros of its length.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Message::Trade(trade) => out.extend_from_slice(&trade.to_bytes()),
            Message::Quote(quote) => out.extend_from_slice(&quote.to_bytes()),
            Message::Definition(definition) => out.extend_from_slice(&definition.to_bytes()),
            Message::Status(status) => out.extend_from_slice(&status.to_bytes()),
            Message::LastValue(value) => value.encode(out),
            Message::Venue(venue) => out.extend_from_slice(&venue.to_bytes()),
            Message::Level(level) => out.extend_from_slice(&level.to_bytes()),
            Message::Certainty(certainty) => out.extend_from_slice(&certainty.to_bytes()),
            Message::SessionStart(start) => out.extend_from_slice(&start.to_bytes()),
            Message::Record(part) => part.encode(out),
            Message::Topic(part) => part.encode(out),
            Message::Deletion(deletion) => out.extend_from_slice(&deletion.to_bytes()),
            Message::TopicStamp(stamp) => out.extend_from_slice(&stamp.to_bytes()),
            Message::SnapshotBegin(mark) => {
                out.extend_from_slice(&mark.to_bytes(MessageKind::SNAPSHOT_BEGIN));
            }
            Message::SnapshotEnd(mark) => {
                out.extend_from_slice(&mark.to_bytes(MessageKind::SNAPSHOT_END));
            }
            Message::Skip(skip) => skip.encode(out),
            Message::Unknown(unknown) => {
                out.push(unknown.kind.0);
                out.resize(
                    out.len() + unknown.kind.encoded_length().saturating_sub(1),
                    0,
                );
            }
        }
    }

    /// Returns the type byte.
    #[inline]
    pub fn kind(&self) -> MessageKind {
        MessageKind(match self {
            Message::Trade(_) => MessageKind::TRADE,
            Message::Quote(_) => MessageKind::QUOTE,
            Message::Definition(_) => MessageKind::DEFINITION,
            Message::Status(_) => MessageKind::TRADING_STATUS,
            Message::LastValue(value) if value.figures.is_some() => MessageKind::LAST_VALUE_LONG,
            Message::LastValue(_) => MessageKind::LAST_VALUE,
            Message::Venue(_) => MessageKind::VENUE,
            Message::Level(_) => MessageKind::LEVEL,
            Message::Certainty(_) => MessageKind::CERTAINTY,
            Message::SessionStart(_) => MessageKind::SESSION_START,
            Message::Record(part) => part.kind().0,
            Message::Topic(part) => part.message_kind().0,
            Message::Deletion(_) => MessageKind::DELETION,
            Message::TopicStamp(_) => MessageKind::TOPIC_STAMP,
            Message::SnapshotBegin(_) => MessageKind::SNAPSHOT_BEGIN,
            Message::SnapshotEnd(_) => MessageKind::SNAPSHOT_END,
            Message::Skip(_) => MessageKind::SKIP,
            Message::Unknown(unknown) => unknown.kind.0,
        })
    }

    /// Returns the encoded length in bytes.
    #[inline]
    pub fn encoded_length(&self) -> usize {
        self.kind().encoded_length()
    }

    /// Returns the number of sequences the message takes in a stream: one, or the count of a
    /// [`Skip`].
    #[inline]
    pub fn sequence_count(&self) -> u64 {
        match self {
            Message::Skip(skip) => skip.count,
            _ => 1,
        }
    }

    /// Returns the venue number; 0 for a message without one.
    #[inline]
    pub fn source(&self) -> u16 {
        match self {
            Message::Trade(trade) => trade.source,
            Message::Quote(quote) => quote.source,
            Message::Definition(definition) => definition.source,
            Message::Status(status) => status.source,
            Message::LastValue(value) => value.source,
            Message::Venue(venue) => venue.source,
            Message::Level(level) => level.source,
            Message::Certainty(certainty) => certainty.source,
            Message::SessionStart(start) => start.source,
            Message::Record(part) => part.source,
            _ => 0,
        }
    }

    /// Returns the symbol the message is about, if any.
    #[inline]
    pub fn symbol(&self) -> Option<u32> {
        match self {
            Message::Trade(trade) => Some(trade.symbol),
            Message::Quote(quote) => Some(quote.symbol),
            Message::Definition(definition) => Some(definition.symbol),
            Message::Status(status) => Some(status.symbol),
            Message::LastValue(value) => Some(value.symbol),
            Message::Level(level) => Some(level.symbol),
            Message::Certainty(certainty) => Some(certainty.symbol),
            Message::SessionStart(start) => Some(start.symbol),
            Message::Record(part) => Some(part.symbol),
            _ => None,
        }
    }

    /// Replaces the symbol of a message that has one.
    pub fn set_symbol(&mut self, symbol: u32) {
        match self {
            Message::Trade(trade) => trade.symbol = symbol,
            Message::Quote(quote) => quote.symbol = symbol,
            Message::Definition(definition) => definition.symbol = symbol,
            Message::Status(status) => status.symbol = symbol,
            Message::LastValue(value) => value.symbol = symbol,
            Message::Level(level) => level.symbol = symbol,
            Message::Certainty(certainty) => certainty.symbol = symbol,
            Message::SessionStart(start) => start.symbol = symbol,
            Message::Record(part) => part.symbol = symbol,
            _ => debug_assert!(self.symbol().is_none(), "every symbol is replaced"),
        }
    }
}

/// Length, type and layout of a message about a symbol: a prefix, then each field at its offset.
macro_rules! layout {
    ($name:ident: $length:literal, $kind:expr, { $($field:ident: $offset:literal),* $(,)? }) => {
        impl $name {
            /// Bytes on the wire.
            pub const LENGTH: usize = $length;

            #[inline(always)]
            pub(super) fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
                Self {
                    symbol: u32_at(bytes, 4),
                    source: u16_at(bytes, 2),
                    source_time_ns: u64_at(bytes, 8),
                    $($field: Field::read(bytes, $offset),)*
                }
            }

            /// Encodes the message.
            #[inline(always)]
            pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
                let mut bytes = prefix($kind, self.source, self.symbol, self.source_time_ns);
                $(self.$field.write(&mut bytes, $offset);)*
                bytes
            }
        }
    };
}

pub(super) use layout;

impl Field for TradingState {
    #[inline(always)]
    fn read<const N: usize>(bytes: &[u8; N], offset: usize) -> Self {
        TradingState(bytes[offset])
    }

    #[inline(always)]
    fn write<const N: usize>(self, bytes: &mut [u8; N], offset: usize) {
        bytes[offset] = self.0;
    }
}

/// A trade: 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trade {
    /// The symbol's id, as its [`Definition`] says.
    pub symbol: u32,
    /// Venue or publisher number, chosen by the sender.
    pub source: u16,
    /// Time of the event at the source, nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// Price, 1 unit = 1e-9.
    pub price: i64,
    /// Quantity.
    pub size: u32,
    /// Condition bits, chosen by the sender.
    pub condition: u32,
}

layout!(Trade: 32, MessageKind::TRADE, { price: 16, size: 24, condition: 28 });

/// Best bid and ask: 48 bytes. An empty side has [`UNDEFINED_PRICE`] and size 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// The symbol's id, as its [`Definition`] says.
    pub symbol: u32,
    /// Venue or publisher number, chosen by the sender.
    pub source: u16,
    /// Time of the event at the source, nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// Best bid price, 1 unit = 1e-9.
    pub bid: i64,
    /// Best ask price, 1 unit = 1e-9.
    pub ask: i64,
    /// Quantity at the best bid.
    pub bid_size: u32,
    /// Quantity at the best ask.
    pub ask_size: u32,
    /// Orders at the best bid; 0 if unknown.
    pub bid_orders: u32,
    /// Orders at the best ask; 0 if unknown.
    pub ask_orders: u32,
}

layout!(Quote: 48, MessageKind::QUOTE, {
    bid: 16,
    ask: 24,
    bid_size: 32,
    ask_size: 36,
    bid_orders: 40,
    ask_orders: 44,
});

impl Default for Quote {
    /// Returns a quote with both sides empty.
    fn default() -> Self {
        Quote {
            symbol: 0,
            source: 0,
            source_time_ns: 0,
            bid: UNDEFINED_PRICE,
            ask: UNDEFINED_PRICE,
            bid_size: 0,
            ask_size: 0,
            bid_orders: 0,
            ask_orders: 0,
        }
    }
}

/// A symbol's id, name and reference data: 112 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Id of the symbol's messages in this session.
    pub symbol: u32,
    /// Venue or publisher number, chosen by the sender.
    pub source: u16,
    /// Time at which the definition became valid, nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// The session's open or reference price, 1 unit = 1e-9.
    pub open: i64,
    /// Smallest price step, 1 unit = 1e-9; 0 or [`UNDEFINED_PRICE`] if unknown.
    pub price_tick: i64,
    /// Smallest quantity; 0 if unknown.
    pub lot_size: u32,
    /// ISO 4217 code, zero-padded; zeros if unknown.
    pub currency: [u8; 4],
    /// The symbol's name, at most 72 bytes.
    pub name: Name,
    /// Whether the symbol only repeats another one for now: `SYMBOL@VENUE` repeats `SYMBOL`.
    pub repeats: bool,
}

impl Definition {
    /// Bytes on the wire.
    pub const LENGTH: usize = 112;
    /// The flag of a symbol that only repeats another one.
    const REPEATS: u8 = 1;

    /// Creates the definition of a symbol of which only the name is known.
    pub fn new(symbol: u32, name: Name) -> Self {
        Definition {
            symbol,
            source: 0,
            source_time_ns: 0,
            open: UNDEFINED_PRICE,
            price_tick: UNDEFINED_PRICE,
            lot_size: 0,
            currency: [0; 4],
            name,
            repeats: false,
        }
    }

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Definition, MessageError> {
        Ok(Definition {
            symbol: u32_at(bytes, 4),
            source: u16_at(bytes, 2),
            source_time_ns: u64_at(bytes, 8),
            open: i64_at(bytes, 16),
            price_tick: i64_at(bytes, 24),
            lot_size: u32_at(bytes, 32),
            currency: plain_currency(array_at(bytes, 36)),
            name: Name::from_padded(array_at(bytes, 40)).map_err(|_| MessageError::BadText)?,
            repeats: bytes[1] & Self::REPEATS != 0,
        })
    }

    /// Encodes the definition.
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(
            MessageKind::DEFINITION,
            self.source,
            self.symbol,
            self.source_time_ns,
        );
        put(&mut bytes, 16, self.open.to_le_bytes());
        put(&mut bytes, 24, self.price_tick.to_le_bytes());
        put(&mut bytes, 32, self.lot_size.to_le_bytes());
        put(&mut bytes, 36, self.currency);
        put(&mut bytes, 40, self.name.to_padded());
        if self.repeats {
            bytes[1] |= Self::REPEATS;
        }
        bytes
    }
}

/// Returns a currency if it is an ASCII code, zero-padded; none otherwise.
fn plain_currency(code: [u8; 4]) -> [u8; 4] {
    let length = code.iter().position(|&byte| byte == 0).unwrap_or(4);
    let (text, rest) = code.split_at(length);
    let is_plain = text.iter().all(u8::is_ascii_alphanumeric) && rest.iter().all(|&byte| byte == 0);
    if is_plain { code } else { [0; 4] }
}

/// The trading state of a symbol: a byte, so that an unknown state of a later version is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TradingState(pub u8);

impl TradingState {
    /// Unknown.
    pub const UNKNOWN: TradingState = TradingState(0);
    /// Orders are accepted, but nothing trades yet.
    pub const PRE_OPEN: TradingState = TradingState(1);
    /// Continuous trading.
    pub const OPEN: TradingState = TradingState(2);
    /// A call auction.
    pub const AUCTION: TradingState = TradingState(3);
    /// Halted temporarily.
    pub const HALTED: TradingState = TradingState(4);
    /// Closed until the next session.
    pub const CLOSED: TradingState = TradingState(5);
    /// Paused for a short time, as after a sudden change of the price.
    pub const PAUSED: TradingState = TradingState(6);

    /// Returns the name as clients see it.
    pub fn name(self) -> &'static str {
        match self {
            TradingState::PRE_OPEN => "pre-open",
            TradingState::OPEN => "open",
            TradingState::AUCTION => "auction",
            TradingState::HALTED => "halted",
            TradingState::PAUSED => "paused",
            TradingState::CLOSED => "closed",
            _ => "unknown",
        }
    }
}

/// A symbol's trading state changed: 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TradingStatus {
    /// The symbol's id.
    pub symbol: u32,
    /// Venue or publisher number.
    pub source: u16,
    /// Time of the event at the source, nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// The new state.
    pub state: TradingState,
    /// Reason code, chosen by the sender; 0 for none.
    pub reason: u32,
}

/// How certain a symbol's value is has changed: 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Certainty {
    /// The symbol's id.
    pub symbol: u32,
    /// Venue or publisher number.
    pub source: u16,
    /// Time of the value's last change at the source, nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// [`Figures::STALE`](super::Figures::STALE), [`Figures::IN_DOUBT`](super::Figures::IN_DOUBT),
    /// [`Figures::AWAY`](super::Figures::AWAY) and [`Certainty::LOST`]; 0 if the value is certain.
    pub flags: u8,
    /// With [`Certainty::LOST`]: trades that are known to be among the lost messages, and that the
    /// value before does not show; 0 if unknown.
    pub lost_trades: u32,
}

impl Certainty {
    /// Messages until this one's time are lost for good, trades perhaps among them. It says nothing
    /// of what the value is from now on.
    pub const LOST: u8 = 4;
    /// The value is another one from now on, which only has the same name: bars of it begin again.
    pub const OTHER: u8 = 16;
}

layout!(Certainty: 32, MessageKind::CERTAINTY, { flags: 16, lost_trades: 20 });

layout!(TradingStatus: 32, MessageKind::TRADING_STATUS, { state: 16, reason: 20 });

/// Beginning or end of a snapshot: 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMark {
    /// The snapshot includes everything up to this stream sequence; live messages continue after
    /// it. Single records may be newer.
    pub as_of: u64,
    /// Number of [`LastValue`] records: an estimate in the beginning mark, exact in the end mark.
    pub records: u64,
}

impl SnapshotMark {
    /// Bytes on the wire.
    pub const LENGTH: usize = 32;

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> SnapshotMark {
        SnapshotMark {
            as_of: u64_at(bytes, 16),
            records: u64_at(bytes, 24),
        }
    }

    fn to_bytes(self, kind: u8) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(kind, 0, 0, 0);
        put(&mut bytes, 16, self.as_of.to_le_bytes());
        put(&mut bytes, 24, self.records.to_le_bytes());
        bytes
    }
}

/// Sequences outside the receiver's selection: 16 bytes.
///
/// Keeps a selection contiguous, so that a loss is as visible as in the whole stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skip {
    /// Number of sequences; in the place of the source time of other messages.
    pub count: u64,
}

impl Skip {
    /// Bytes on the wire.
    pub const LENGTH: usize = PREFIX_LENGTH;

    #[inline(always)]
    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Skip {
        Skip {
            count: u64_at(bytes, 8),
        }
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&prefix::<{ Self::LENGTH }>(
            MessageKind::SKIP,
            0,
            0,
            self.count,
        ));
    }
}

/// A message of an unknown type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMessage {
    /// The type byte.
    pub kind: MessageKind,
}

/// Returns a message's bytes with the prefix filled in.
#[inline(always)]
pub(super) fn prefix<const N: usize>(kind: u8, source: u16, symbol: u32, time_ns: u64) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[0] = kind;
    put(&mut bytes, 2, source.to_le_bytes());
    put(&mut bytes, 4, symbol.to_le_bytes());
    put(&mut bytes, 8, time_ns.to_le_bytes());
    bytes
}

#[inline(always)]
fn split<const N: usize, T>(
    bytes: &[u8],
    read: impl FnOnce(&[u8; N]) -> T,
    wrap: impl FnOnce(T) -> Message,
) -> Result<(Message, &[u8]), MessageError> {
    let (head, rest) = bytes.split_first_chunk().ok_or(MessageError::Truncated)?;
    Ok((wrap(read(head)), rest))
}
