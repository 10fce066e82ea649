//! What a replay carries over from before its start: the newest quote, the last trade and the
//! trading state of each topic.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use tidewire_dbn::UNDEFINED_TIME;
use tidewire_feed::wire::{LastValue, Message, Quote, Trade, TradingStatus, UNDEFINED_PRICE};

use super::super::stream::{quote_of, status_of};

/// The state of all topics at a place of the recording.
#[derive(Debug, Default)]
pub(super) struct Carried {
    topics: HashMap<u32, Carry, RandomState>,
}

/// The state of one topic.
#[derive(Debug, Default)]
struct Carry {
    /// The run of the hub that it is of.
    run: u32,
    quote: Option<Quote>,
    /// The last trade, with its sequence. Its source time is [`UNDEFINED_TIME`] if it is known from
    /// a whole value only.
    last: Option<(u64, Trade)>,
    status: Option<TradingStatus>,
}

impl Carried {
    /// Takes a quote, a trade, a state or a whole value of the stream of this run of the hub. What
    /// a topic had in an earlier one ends.
    pub(super) fn note(&mut self, run: u32, sequence: u64, message: &Message) {
        match message {
            Message::Quote(quote) => self.of(quote.symbol, run).quote = Some(*quote),
            Message::Trade(trade) if trade.price != UNDEFINED_PRICE => {
                self.of(trade.symbol, run).last = Some((sequence, *trade));
            }
            Message::Status(status) => self.of(status.symbol, run).status = Some(*status),
            Message::LastValue(value) => self.of(value.symbol, run).note_value(sequence, value),
            _ => {}
        }
    }

    /// Gives a symbol's last trade to the topic `to` of its first venue, numbered `venue`, which
    /// continues it.
    pub(super) fn split(&mut self, (from, to): (u32, u32), venue: u16) {
        let last = self.topics.get(&from);
        let last = last.and_then(|carry| Some((carry.run, carry.last?)));
        if let Some((run, (sequence, trade))) = last
            && trade.source == venue
        {
            let own = Trade {
                symbol: to,
                ..trade
            };
            self.of(to, run).last = Some((sequence, own));
        }
    }

    /// Takes all quotes, trades and states, with their runs and sequences. A topic's quote precedes
    /// its trade.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (u32, u64, Message)> + use<> {
        let topics = std::mem::take(&mut self.topics).into_values();
        topics.flat_map(|carry| {
            let quote = carry.quote.map(|quote| (0, Message::Quote(quote)));
            let last = carry.last;
            let last = last.map(|(sequence, trade)| (sequence, Message::Trade(trade)));
            let status = carry.status.map(|status| (0, Message::Status(status)));
            let all = quote.into_iter().chain(last).chain(status);
            all.map(move |(sequence, message)| (carry.run, sequence, message))
        })
    }

    fn of(&mut self, number: u32, run: u32) -> &mut Carry {
        let carry = self.topics.entry(number).or_default();
        if carry.run != run {
            *carry = Carry {
                run,
                ..Carry::default()
            };
        }
        carry
    }
}

impl Carry {
    fn note_value(&mut self, sequence: u64, value: &LastValue) {
        self.quote = Some(quote_of(value));
        self.status = Some(status_of(value));
        let is_same =
            |(_, trade): &(u64, Trade)| (trade.price, trade.size) == (value.last, value.last_size);
        // The value of a source that begins has no last trade.
        if value.last == UNDEFINED_PRICE || self.last.as_ref().is_some_and(is_same) {
            return;
        }
        let trade = Trade {
            symbol: value.symbol,
            source: value.source,
            source_time_ns: UNDEFINED_TIME,
            price: value.last,
            size: value.last_size,
            condition: value.figures.map_or(0, |figures| figures.condition),
        };
        self.last = Some((sequence, trade));
    }
}

/// Values of a snapshot that are newer than the place in the stream at which it is. Each holds from
/// the sequence of its last change on.
#[derive(Debug, Default)]
pub(super) struct Later {
    /// By sequence, topic, and whether it is of a venue without a topic of its own.
    values: BTreeMap<(u64, u32, bool), LastValue>,
}

impl Later {
    /// Adds a value of this hub's topic, or of its venue.
    pub(super) fn add(&mut self, value: LastValue, is_of_venue: bool) {
        let key = (value.sequence, value.symbol, is_of_venue);
        self.values.insert(key, value);
    }

    /// Takes the next value that holds before the message with this sequence, and whether it is of
    /// a venue.
    #[inline]
    pub(super) fn take_before(&mut self, sequence: u64) -> Option<(LastValue, bool)> {
        let first = self.values.first_entry()?;
        let is_of_venue = first.key().2;
        (first.key().0 < sequence).then(|| (first.remove(), is_of_venue))
    }

    /// Forgets all values, because the stream goes on elsewhere.
    pub(super) fn clear(&mut self) {
        self.values.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trade(symbol: u32, source: u16, price: i64) -> Message {
        Message::Trade(Trade {
            symbol,
            source,
            source_time_ns: 5,
            price,
            size: 1,
            condition: 0,
        })
    }

    fn value(symbol: u32, last: i64) -> LastValue {
        LastValue {
            source: 2,
            sequence: 9,
            bid: 3,
            last,
            last_size: 1,
            ..LastValue::new(symbol)
        }
    }

    fn all(carried: &mut Carried) -> Vec<(u64, Message)> {
        let all = carried.drain();
        let all = all.filter(|(_, _, message)| !matches!(message, Message::Status(_)));
        let mut all: Vec<_> = all.map(|(_, at, message)| (at, message)).collect();
        all.sort_by_key(|(_, message)| message.symbol());
        all
    }

    #[test]
    fn the_last_trade_before_a_start_keeps_its_time_unless_only_a_value_has_it() {
        let mut carried = Carried::default();
        carried.note(1, 7, &trade(1, 2, 10));
        carried.note(1, 9, &Message::LastValue(value(1, 10)));
        carried.note(1, 9, &Message::LastValue(value(2, 11)));
        carried.note(1, 9, &trade(2, 2, UNDEFINED_PRICE));
        carried.note(1, 9, &Message::LastValue(value(3, UNDEFINED_PRICE)));
        carried.note(1, 8, &trade(4, 2, 12));
        carried.note(1, 9, &Message::LastValue(value(4, UNDEFINED_PRICE)));
        let all = all(&mut carried);
        let last = |symbol: u32| {
            all.iter().find_map(|(sequence, message)| match message {
                Message::Trade(trade) if trade.symbol == symbol => {
                    Some((*sequence, trade.price, trade.source_time_ns))
                }
                _ => None,
            })
        };
        assert_eq!(last(1), Some((7, 10, 5)));
        assert_eq!(last(2), Some((9, 11, UNDEFINED_TIME)));
        assert_eq!(last(3), None);
        assert_eq!(last(4), Some((8, 12, 5)));
        let quotes = all
            .iter()
            .filter(|(_, one)| matches!(one, Message::Quote(quote) if quote.bid == 3));
        assert_eq!(quotes.count(), 4);
    }

    #[test]
    fn the_last_trade_before_a_start_goes_to_the_topic_of_its_venue() {
        let mut carried = Carried::default();
        carried.note(1, 7, &trade(1, 2, 10));
        carried.split((1, 5), 2);
        carried.split((1, 6), 9);
        let all = all(&mut carried);
        let symbols: Vec<_> = all.iter().map(|(at, one)| (*at, one.symbol())).collect();
        assert_eq!(symbols, [(7, Some(1)), (7, Some(5))]);
    }

    #[test]
    fn a_value_of_a_snapshot_holds_behind_its_last_change() {
        let mut later = Later::default();
        later.add(value(1, 10), false);
        later.add(value(1, 11), true);
        assert!(later.take_before(9).is_none());
        assert_eq!(later.take_before(10), Some((value(1, 10), false)));
        assert_eq!(later.take_before(10), Some((value(1, 11), true)));
        later.add(value(1, 10), false);
        later.clear();
        assert!(later.take_before(u64::MAX).is_none());
    }
}
