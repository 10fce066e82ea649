//! ITCH 5.0: the messages of Nasdaq's full order book, their file format, and the order books.
//!
//! [`Message`] decodes and encodes each of the 23 types; messages are decoded in place from the
//! receive buffer, without allocation. [`Books`] takes messages from a file ([`Frames`],
//! [`frame`]), MoldUDP64 ([`mold`]) or SoupBinTCP ([`soup`]), and gives a
//! [`Sink`](tidewire_feed::client::Sink) quotes, trades, statuses and definitions in one pass.
//! [`Generator`] generates valid days of any size.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod books;
pub mod capture;
mod field;
mod file;
pub mod fuzzing;
mod generator;
mod message;
pub mod mold;
pub mod sequenced;
pub mod soup;

#[cfg(test)]
mod tests;

pub use books::{Books, BooksConfig, Counters, Locality};
pub use field::{DayTime, Letters, Price};
pub use file::{
    FrameError, Frames, frame, looks_like_file, midnight_of_unix_ns, midnight_unix_ns,
    parse_midnight_unix_ns,
};
pub use generator::{Generator, GeneratorConfig, GeneratorError};
pub use message::{
    AddAttributedOrder, AddOrder, AuctionCollar, BreakerLevels, BreakerStatus, BrokenTrade,
    CrossTrade, DirectListing, Head, Imbalance, IpoQuotation, Message, MessageError,
    OperationalHalt, OrderCancel, OrderDelete, OrderExecuted, OrderExecutedAtPrice, OrderReplace,
    ParticipantPosition, RetailInterest, ShortSaleRestriction, StockDirectory, SystemEvent, Trade,
    TradingAction,
};
