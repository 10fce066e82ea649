//! The lowest number as a price: it is none, as the absent price is, and has no negative.

use tidewire_feed::wire::{LastValue, Level, Message, Quote, Trade};
use tidewire_lastvalue::PRICE_UNDEFINED;

/// Returns a price, or the absent one for the lowest number.
pub(super) fn price_or_none(price: i64) -> i64 {
    match price {
        i64::MIN => PRICE_UNDEFINED,
        price => price,
    }
}

/// Returns whether a message has the lowest number where the absent price is meant. A session start
/// with it means nothing, and what a definition or whole value has is looked at where it is stored.
#[inline]
pub(super) fn has_lowest(message: &Message) -> bool {
    match message {
        Message::Trade(trade) => trade.price == i64::MIN,
        Message::Quote(quote) => lowest_of_quote(quote),
        Message::Level(level) => level.price == i64::MIN,
        _ => false,
    }
}

/// Returns whether a quote has the lowest number as a price.
#[inline]
pub(super) fn lowest_of_quote(quote: &Quote) -> bool {
    (quote.bid == i64::MIN) | (quote.ask == i64::MIN)
}

/// Returns a message with the absent price for the lowest number. A side of a quote without a price
/// is empty.
#[cold]
pub(super) fn without_lowest(message: &Message) -> Message {
    match message {
        Message::Trade(trade) => Message::Trade(Trade {
            price: price_or_none(trade.price),
            ..*trade
        }),
        Message::Quote(quote) => {
            let mut quote: Quote = *quote;
            if quote.bid == i64::MIN {
                (quote.bid, quote.bid_size, quote.bid_orders) = (PRICE_UNDEFINED, 0, 0);
            }
            if quote.ask == i64::MIN {
                (quote.ask, quote.ask_size, quote.ask_orders) = (PRICE_UNDEFINED, 0, 0);
            }
            Message::Quote(quote)
        }
        Message::Level(level) => Message::Level(Level {
            price: price_or_none(level.price),
            ..*level
        }),
        message => *message,
    }
}

/// Does the same to all prices of a whole value.
pub(super) fn leave_out_lowest(record: &mut LastValue) {
    if record.bid == i64::MIN {
        (record.bid_size, record.bid_orders) = (0, 0);
    }
    if record.ask == i64::MIN {
        (record.ask_size, record.ask_orders) = (0, 0);
    }
    if record.last == i64::MIN {
        record.last_size = 0;
    }
    let prices = [
        &mut record.bid,
        &mut record.ask,
        &mut record.last,
        &mut record.open,
    ];
    for price in prices {
        *price = price_or_none(*price);
    }
    if let Some(figures) = &mut record.figures {
        let prices = [
            &mut figures.first_trade,
            &mut figures.high,
            &mut figures.low,
            &mut figures.reference,
        ];
        for price in prices {
            *price = price_or_none(*price);
        }
    }
}
