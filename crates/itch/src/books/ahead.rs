//! Prefetching: what the next messages need is fetched while the previous ones are applied.
//!
//! A message needs its order, its book, a price level of it, and what the sink stores about the
//! symbol. The level's address is known only when order and book are in the cache. So messages
//! are announced twice: [`AHEAD`] to twice that number of messages before their turn, the order
//! and the book are fetched, and up to [`AHEAD`] before it the rest.

use super::Books;
use crate::sequenced::AHEAD;
use crate::{
    AddAttributedOrder, AddOrder, OrderCancel, OrderDelete, OrderExecuted, OrderExecutedAtPrice,
    OrderReplace, Price, frame,
};
use tidewire_book::prefetch;
use tidewire_feed::client::Sink;

/// The messages whose orders and books are being fetched.
#[derive(Debug)]
pub(super) struct Ahead {
    messages: [Expected; AHEAD],
    count: usize,
    /// The address behind the last of them; only compared.
    until: usize,
}

/// What a message needs.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    reference: u64,
    /// The order that replaces it; 0 if none does.
    new_reference: u64,
    /// The level of a new order, 1 unit = 1e-9; [`NO_PRICE`] if an order is changed.
    price: i64,
    locate: u16,
    is_bid: bool,
}

impl Books {
    /// Prefetches the data of the next messages, so that their cache misses overlap with each
    /// other and with work. `frames` are messages after their lengths, as in packets and files.
    /// It is best called before each [`AHEAD`] messages. No bytes change nothing.
    #[inline]
    pub fn expect<S: Sink>(&mut self, frames: &[u8], sink: &S) {
        if frames.is_empty() {
            return;
        }
        let from_start = self.ahead.until.wrapping_sub(frames.as_ptr().addr());
        let mut rest = match frames.get(from_start..) {
            Some(rest) if self.ahead.count > 0 => rest,
            // Other messages than announced.
            _ => self.announce(frames),
        };
        for place in 0..self.ahead.count {
            self.expect_levels(self.ahead.messages[place], sink);
        }
        rest = self.announce(rest);
        self.ahead.until = rest.as_ptr().addr();
    }

    /// Prefetches orders and books of the first [`AHEAD`] messages, and returns the others.
    #[inline]
    fn announce<'a>(&mut self, frames: &'a [u8]) -> &'a [u8] {
        for line in frames.iter().skip(BYTES_AHEAD).step_by(64).take(LINES) {
            prefetch(line);
        }
        let (mut rest, mut count) = (frames, 0);
        for _ in 0..AHEAD {
            let Some((message, used)) = frame(rest) else {
                break;
            };
            rest = &rest[used..];
            let Some(expected) = Expected::of(message) else {
                continue;
            };
            self.orders.touch(expected.reference);
            if expected.new_reference != 0 {
                self.orders.touch(expected.new_reference);
            }
            self.securities.touch(expected.locate);
            self.ahead.messages[count] = expected;
            count += 1;
        }
        self.ahead.count = count;
        rest
    }

    /// Prefetches the levels of a message, and what the sink stores about its symbol.
    #[inline]
    fn expect_levels<S: Sink>(&self, expected: Expected, sink: &S) {
        sink.expect_symbol(self.config.symbol_first + u32::from(expected.locate));
        let Some(sides) = self.securities.sides(expected.locate) else {
            return;
        };
        if expected.price != NO_PRICE {
            sides.side(expected.is_bid).touch(expected.price);
        } else if let Some(order) = self.orders.get(expected.reference) {
            sides.side(order.is_bid).touch(order.price);
        }
    }
}

impl Expected {
    /// Returns what a message needs, if it changes an order.
    #[inline(always)]
    fn of(message: &[u8]) -> Option<Self> {
        let [kind, high, low, ..] = *message else {
            return None;
        };
        let mut expected = Self {
            reference: u64_at(message, REFERENCE)?,
            new_reference: 0,
            price: NO_PRICE,
            locate: u16::from_be_bytes([high, low]),
            is_bid: false,
        };
        match kind {
            AddOrder::KIND | AddAttributedOrder::KIND => {
                let price = message.get(PRICE)?.try_into().ok()?;
                expected.price = Price(u32::from_be_bytes(price)).nanos();
                expected.is_bid = message[SIDE] == b'B';
            }
            OrderReplace::KIND => expected.new_reference = u64_at(message, NEW_REFERENCE)?,
            OrderExecuted::KIND
            | OrderExecutedAtPrice::KIND
            | OrderCancel::KIND
            | OrderDelete::KIND => {}
            _ => return None,
        }
        Some(expected)
    }
}

#[inline(always)]
fn u64_at(message: &[u8], range: std::ops::Range<usize>) -> Option<u64> {
    Some(u64::from_be_bytes(message.get(range)?.try_into().ok()?))
}

impl Default for Ahead {
    fn default() -> Self {
        Self {
            messages: [Expected::default(); AHEAD],
            count: 0,
            until: 0,
        }
    }
}

/// The bytes of the order's number in messages about an order.
const REFERENCE: std::ops::Range<usize> = 11..19;
/// The bytes of the new order's number in a message that replaces one.
const NEW_REFERENCE: std::ops::Range<usize> = 19..27;
/// The side in a message that adds an order, and its price.
const SIDE: usize = 19;
const PRICE: std::ops::Range<usize> = 32..36;
/// No ITCH price is negative.
const NO_PRICE: i64 = -1;
/// How far ahead the messages themselves are fetched, and how much of them: those of a file are
/// not in the cache, and the processor's own prefetching ends at each page.
const BYTES_AHEAD: usize = 2_048;
const LINES: usize = 10;
