//! The bars of one client's `ohlcv` subscriptions, from the trades that it reads.

use std::collections::{HashMap, VecDeque};

use tidewire_dbn::databento::{BAR_TYPES, Ohlcv};
use tidewire_feed::wire::Trade;

use super::selection::instrument_id;
use crate::bars::{Aggregator, Bar, Interval, Outcome};

/// Bars by topic number and interval.
#[derive(Debug, Default)]
pub(super) struct ClientBars {
    bars: HashMap<(u32, Interval), ClientBar>,
    /// Closed bars that have not been sent: record types, and records.
    closed: VecDeque<(u8, Ohlcv)>,
    /// End of the open bar that ends first; `None` if no bar is open.
    due_ns: Option<u64>,
}

#[derive(Debug)]
struct ClientBar {
    aggregator: Aggregator,
    publisher: u16,
}

impl ClientBars {
    /// Adds a trade, whose symbol is the topic's number, to the bars of an interval.
    pub(super) fn trade(&mut self, interval: Interval, trade: &Trade) {
        let key = (trade.symbol, interval);
        let bar = self.bars.entry(key).or_insert_with(|| ClientBar {
            aggregator: Aggregator::new(interval),
            publisher: trade.source,
        });
        let time_ns = trade.source_time_ns;
        let outcome = bar.aggregator.trade(time_ns, trade.price, trade.size);
        if let Outcome::Began { closed } = outcome {
            let end_ns = bar.aggregator.end_ns();
            let closed = closed.map(|closed| record(key, bar.publisher, &closed));
            self.closed.extend(closed);
            self.due_ns = [self.due_ns, end_ns].into_iter().flatten().min();
        }
        bar.publisher = trade.source;
    }

    /// Closes the bars whose interval has ended at `now_ns`: for live records the wall clock, in a
    /// replay the time of the record that is read.
    pub(super) fn close(&mut self, now_ns: u64) {
        let is_due = |end_ns: u64| end_ns.saturating_add(GRACE_NS) <= now_ns;
        if !self.due_ns.is_some_and(is_due) {
            return;
        }
        let mut closed = Vec::new();
        self.due_ns = None;
        for (key, bar) in &mut self.bars {
            let aggregator = &mut bar.aggregator;
            if aggregator.end_ns().is_some_and(is_due)
                && let Some(final_bar) = aggregator.close(now_ns)
            {
                closed.push(record(*key, bar.publisher, &final_bar));
            }
            self.due_ns = [self.due_ns, aggregator.end_ns()]
                .into_iter()
                .flatten()
                .min();
        }
        closed.sort_unstable_by_key(|(rtype, bar)| (bar.start_ns, *rtype, bar.instrument_id));
        self.closed.extend(closed);
    }

    /// Takes the next closed bar: its record type and record.
    pub(super) fn take_closed(&mut self) -> Option<(u8, Ohlcv)> {
        self.closed.pop_front()
    }

    /// Ends the bars of a topic and interval.
    pub(super) fn leave(&mut self, number: u32, interval: Interval) {
        self.bars.remove(&(number, interval));
    }
}

fn record((number, interval): (u32, Interval), publisher_id: u16, bar: &Bar) -> (u8, Ohlcv) {
    let record = Ohlcv {
        instrument_id: instrument_id(number),
        publisher_id,
        start_ns: bar.start_ns,
        open: bar.open,
        high: bar.high,
        low: bar.low,
        close: bar.close,
        volume: bar.volume,
    };
    (BAR_TYPES[interval as usize], record)
}

/// How long after its end a bar without a later trade is closed: trades of the interval may
/// arrive until then.
const GRACE_NS: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn trade(symbol: u32, time_ns: u64, price: i64) -> Trade {
        Trade {
            symbol,
            source: 7,
            source_time_ns: time_ns,
            price,
            size: 2,
            condition: 0,
        }
    }

    #[test]
    fn each_bar_is_sent_once_whether_a_trade_or_the_clock_ends_it() {
        let mut bars = ClientBars::default();
        bars.close(u64::MAX);
        bars.trade(Interval::Second, &trade(1, 5 * SECOND, 10));
        bars.trade(Interval::Second, &trade(1, 5 * SECOND + 1, 12));
        bars.trade(Interval::Second, &trade(2, 5 * SECOND + 2, 3));
        bars.trade(Interval::Minute, &trade(2, 5 * SECOND + 2, 3));
        assert!(bars.take_closed().is_none());
        bars.trade(Interval::Second, &trade(1, 6 * SECOND, 11));
        let (rtype, first) = bars.take_closed().unwrap();
        let prices = [first.open, first.high, first.low, first.close];
        assert_eq!((rtype, prices, first.volume), (0x20, [10, 12, 10, 12], 4));
        assert_eq!((first.start_ns, first.publisher_id), (5 * SECOND, 7));
        bars.close(6 * SECOND + GRACE_NS);
        let (_, second) = bars.take_closed().unwrap();
        assert_eq!((second.instrument_id, second.open), (instrument_id(2), 3));
        assert!(bars.take_closed().is_none(), "the others have not ended");
        bars.close(60 * SECOND + GRACE_NS);
        let ended: Vec<_> = std::iter::from_fn(|| bars.take_closed()).collect();
        let shape = ended.iter().map(|(rtype, bar)| (*rtype, bar.start_ns));
        assert!(shape.eq([(0x21, 0), (0x20, 6 * SECOND)]));
        bars.close(u64::MAX);
        assert!(bars.take_closed().is_none());
        bars.leave(1, Interval::Second);
    }
}
