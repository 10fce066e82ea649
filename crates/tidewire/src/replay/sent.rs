//! What a replay has given the hub, and the messages that end it before other values come.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidewire_dbn::book::ClearRecord;
use tidewire_feed::wire::{Level, Message, Quote, RecordPart, TradingStatus, UNDEFINED_PRICE};

/// What a round of a file has given, for the next one: the hub knows of no new session there.
#[derive(Debug, Default)]
pub(super) struct SentRound {
    orders: SentOrders,
    books: SentBooks,
    values: SentValues,
}

impl SentRound {
    pub(super) fn note(&mut self, message: &Message) {
        self.orders.note(message);
        self.books.note(message);
        self.values.note(message);
    }

    /// Returns the messages that end all of it, as a hub does when another replay begins.
    pub(super) fn take_ends(&mut self) -> Vec<Message> {
        let clears = self.orders.take_clears().into_iter().map(Message::Record);
        let mut ends = Vec::from_iter(clears);
        ends.extend(self.books.take_ends());
        ends.extend(self.values.take_ends());
        ends
    }
}

/// Symbols and venues whose price levels were published.
#[derive(Debug, Default)]
pub(super) struct SentBooks(BTreeSet<(u32, u16)>);

impl SentBooks {
    pub(super) fn note(&mut self, message: &Message) {
        if let Message::Level(level) = message {
            self.0.insert((level.symbol, level.source));
        }
    }

    /// Returns the messages that end all books.
    pub(super) fn take_ends(&mut self) -> Vec<Message> {
        let ends = std::mem::take(&mut self.0).into_iter();
        let end = |(symbol, source)| {
            Message::Level(Level {
                symbol,
                source,
                action: Level::END,
                is_last: 1,
                ..Level::default()
            })
        };
        ends.map(end).collect()
    }
}

/// Symbols and venues whose orders were published, each with the time of its newest one, ns since
/// the UNIX epoch.
#[derive(Debug, Default)]
pub(super) struct SentOrders(BTreeMap<(u32, u16), u64>);

impl SentOrders {
    pub(super) fn note(&mut self, message: &Message) {
        if let Message::Record(part) = message
            && part.offset() == 0
            && part.bytes().get(1) == Some(&ORDER)
        {
            let newest_ns = self.0.entry((part.symbol, part.source)).or_default();
            *newest_ns = part.source_time_ns.max(*newest_ns);
        }
    }

    /// Returns the parts of the records that clear all orders.
    pub(super) fn take_clears(&mut self) -> Vec<RecordPart> {
        let sent = std::mem::take(&mut self.0).into_iter();
        let clear = |((symbol, source), newest_ns): ((u32, u16), u64)| {
            let clear = ClearRecord::at(source, newest_ns);
            let parts = RecordPart::split(symbol, source, newest_ns, &clear.bytes);
            parts.collect::<Vec<_>>()
        };
        sent.flat_map(clear).collect()
    }
}

/// Symbols and venues whose quotes, trades and trading states were published.
#[derive(Debug, Default)]
struct SentValues(HashMap<(u32, u16), SentValue>);

/// What was published of one symbol at one venue.
#[derive(Debug, Default)]
struct SentValue {
    has_quote: bool,
    has_status: bool,
    /// Source time of the newest change, ns since the UNIX epoch.
    newest_ns: u64,
}

impl SentValues {
    fn note(&mut self, message: &Message) {
        let (symbol, source, time_ns) = match message {
            Message::Quote(quote) => (quote.symbol, quote.source, quote.source_time_ns),
            Message::Trade(trade) => (trade.symbol, trade.source, trade.source_time_ns),
            Message::Status(status) => (status.symbol, status.source, status.source_time_ns),
            _ => return,
        };
        let value = self.0.entry((symbol, source)).or_default();
        value.has_quote |= matches!(message, Message::Quote(_));
        value.has_status |= matches!(message, Message::Status(_));
        value.newest_ns = value.newest_ns.max(time_ns);
    }

    /// Returns the messages after which there is no quote, and no trading state is known.
    fn take_ends(&mut self) -> Vec<Message> {
        let mut sent = Vec::from_iter(std::mem::take(&mut self.0));
        sent.sort_unstable_by_key(|&(key, _)| key);
        let end = |((symbol, source), value): ((u32, u16), SentValue)| {
            let quote = Message::Quote(Quote {
                symbol,
                source,
                source_time_ns: value.newest_ns,
                bid: UNDEFINED_PRICE,
                ask: UNDEFINED_PRICE,
                ..Quote::default()
            });
            let status = Message::Status(TradingStatus {
                symbol,
                source,
                source_time_ns: value.newest_ns,
                ..TradingStatus::default()
            });
            let ends = [(value.has_quote, quote), (value.has_status, status)];
            ends.into_iter()
                .filter_map(|(is_due, end)| is_due.then_some(end))
        };
        sent.into_iter().flat_map(end).collect()
    }
}

/// Type byte of an order's record.
const ORDER: u8 = 0xA0;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::{Trade, TradingState};

    /// The orders of the run before stayed in the books of `mbo` clients.
    #[test]
    fn orders_are_cleared_once_at_the_next_run() {
        let mut orders = SentOrders::default();
        assert_eq!(orders.take_clears(), []);
        let mut bytes = [0; 56];
        (bytes[0], bytes[1]) = (14, ORDER);
        for (symbol, time_ns) in [(1, 5), (1, 4), (2, 6)] {
            let parts = RecordPart::split(symbol, 2, time_ns, &bytes);
            parts.for_each(|part| orders.note(&Message::Record(part)));
        }
        let clears = orders.take_clears();
        let mut firsts = clears.iter().filter(|part| part.offset() == 0);
        for (symbol, time_ns) in [(1, 5), (2, 6)] {
            let first = firsts.next().unwrap();
            let place = (first.symbol, first.source, first.source_time_ns);
            assert_eq!(place, (symbol, 2, time_ns));
        }
        assert!(firsts.next().is_none() && orders.take_clears().is_empty());
    }

    /// A book went on with the levels behind a gap, as if none were missing.
    #[test]
    fn each_book_ends_once_at_a_gap() {
        let mut books = SentBooks::default();
        assert_eq!(books.take_ends(), []);
        for (symbol, source) in [(1, 2), (1, 3), (1, 2), (4, 2)] {
            books.note(&Message::Level(Level {
                symbol,
                source,
                ..Level::default()
            }));
        }
        books.note(&Message::Quote(Quote::default()));
        let ends = books.take_ends();
        let ends = ends.iter().map(|end| match end {
            Message::Level(level) => (level.symbol, level.source, level.action, level.is_last),
            other => panic!("{other:?}"),
        });
        let end = Level::END;
        let expected = [(1, 2, end, 1), (1, 3, end, 1), (4, 2, end, 1)];
        assert_eq!(ends.collect::<Vec<_>>(), expected);
        assert_eq!(books.take_ends(), []);
    }

    /// The orders of the round before stayed open in the next one, as did levels, quotes and
    /// trading states until the file gave others.
    #[test]
    fn a_round_leaves_nothing_to_the_next_one() {
        let mut sent = SentRound::default();
        assert_eq!(sent.take_ends(), []);
        let mut bytes = [0; 56];
        (bytes[0], bytes[1]) = (14, ORDER);
        let order = RecordPart::split(1, 2, 5, &bytes).next().expect("a part");
        let quote = |bid, source_time_ns| Quote {
            symbol: 1,
            source: 2,
            source_time_ns,
            bid,
            ask: UNDEFINED_PRICE,
            ..Quote::default()
        };
        let status = |state, source_time_ns| TradingStatus {
            symbol: 3,
            source: 2,
            source_time_ns,
            state,
            ..TradingStatus::default()
        };
        let traded = |symbol, source_time_ns| Trade {
            symbol,
            source: 2,
            source_time_ns,
            ..Trade::default()
        };
        let level = |action| Level {
            symbol: 1,
            source: 2,
            action,
            is_last: 1,
            ..Level::default()
        };
        for message in [
            Message::Record(order),
            Message::Quote(quote(100, 7)),
            Message::Level(level(Level::CLEAR)),
            Message::Trade(traded(1, 9)),
            Message::Quote(quote(101, 8)),
            Message::Status(status(TradingState::OPEN, 6)),
            Message::Trade(traded(4, 9)),
        ] {
            sent.note(&message);
        }
        let ends = sent.take_ends();
        let (clear, others) = ends.split_first().expect("a clear");
        let Message::Record(part) = clear else {
            panic!("{clear:?}");
        };
        assert_eq!((part.symbol, part.source, part.source_time_ns), (1, 2, 5));
        assert_eq!(part.bytes()[38], b'R', "a clear");
        let expected = [
            Message::Level(level(Level::END)),
            Message::Quote(quote(UNDEFINED_PRICE, 9)),
            Message::Status(status(TradingState::UNKNOWN, 6)),
        ];
        assert_eq!(others, expected);
        assert_eq!(sent.take_ends(), []);
    }
}
