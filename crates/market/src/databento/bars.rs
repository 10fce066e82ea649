//! The bars of one client's `ohlcv` subscriptions, from the trades that it reads.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;

use tidewire_dbn::databento::{BAR_TYPES, Ohlcv};
use tidewire_feed::wire::{REPEATED, Trade};

use super::had::{Had, Repetition};
use super::missed::Missed;
use super::pages::Pages;
use super::selection::instrument_id;
use crate::bars::{Aggregator, Bar, Interval, Outcome};
use crate::venues::CONSOLIDATED;

/// Bars by topic number and interval.
#[derive(Debug, Default)]
pub(super) struct ClientBars {
    bars: HashMap<(u32, Interval), ClientBar>,
    /// By topic: the trades before the client's first record.
    missed: Pages<Option<Missed>>,
    /// Those of topics that have none there, because they were defined later.
    missed_of_all: Option<Missed>,
    /// The end of what earlier runs of the hub have recorded, which the client does not get: the
    /// bar of that time lacks it.
    recorded_until_ns: Option<u64>,
    /// Whether trades were lost: the first bar of each topic may lack some.
    has_lost: bool,
    /// The bars that messages of a publisher close. A bar that has been closed by a trade stays
    /// until its end is passed.
    ends: HashMap<u16, BTreeSet<End>>,
    /// The bars that the wall clock closes as well, by when it looks at them, ns since the UNIX
    /// epoch: at a bar's end, and as much later as the bar's trades come late.
    live_ends: BTreeSet<(u64, End)>,
    /// Publishers of bars that a replay has left open, and which are to be checked; of the last one
    /// those behind `checked`.
    unchecked: Vec<u16>,
    checked: Option<End>,
    /// Closed bars that have not been sent: record types, and records.
    closed: VecDeque<(u8, Ohlcv)>,
    /// The publisher of the newest message that is not consolidated: a consolidated trade follows
    /// that of its venue.
    newest_publisher: Option<u16>,
}

#[derive(Clone, Debug)]
struct ClientBar {
    aggregator: Aggregator,
    publisher: u16,
    /// The publisher of its newest trade, whose messages close it.
    closer: u16,
    /// The trades that the client did not get.
    missed: Option<Missed>,
    /// See [`ClientBars::recorded_until_ns`].
    recorded_until_ns: Option<u64>,
    /// The latest time of its trades, ns since the UNIX epoch.
    newest_ns: u64,
    /// The trades that it has had, and those of them that come again.
    had: Had,
    /// The longest that a trade of the newest bar took from its source time to its receipt, ns, if
    /// the wall clock closes the bar.
    delay_ns: Option<u64>,
}

/// The end of a bar, ns since the UNIX epoch, its topic and its interval.
type End = (u64, u32, Interval);

impl ClientBars {
    /// Notes that trades of a topic came before the client's next record. The bars that may lack
    /// them are not sent.
    pub(super) fn note_missed(&mut self, number: u32, missed: Missed) {
        let noted = self.missed.get_or(number, None);
        *noted = Some(noted.map_or(missed, |before| missed.with(before)));
    }

    /// Notes trades that any topic may have had before the client's first record.
    pub(super) fn note_missed_of_all(&mut self, missed: Missed) {
        self.missed_of_all = Some(missed);
    }

    /// Notes when the recording of earlier runs of the hub ends.
    pub(super) fn note_recorded(&mut self, recorded_until_ns: u64) {
        self.recorded_until_ns = Some(recorded_until_ns);
    }

    /// Returns whether the client has had trades of a topic, or has noted that it missed some.
    pub(super) fn knows(&self, number: u32) -> bool {
        let has_bar = |interval| self.bars.contains_key(&(number, interval));
        Interval::ALL.into_iter().any(has_bar)
            || self.missed.get(number).is_some_and(Option::is_some)
    }

    /// Adds a trade, whose symbol is the topic's number, to the bars of an interval. `now_ns` is
    /// the wall clock; `None` in a replay.
    pub(super) fn trade(&mut self, interval: Interval, trade: &Trade, now_ns: Option<u64>) {
        let key = (trade.symbol, interval);
        let time_ns = trade.source_time_ns;
        if trade.condition & REPEATED != 0 {
            return self.repeated(key, time_ns);
        }
        let own = self.missed.get(trade.symbol).copied().flatten();
        let first = self.has_lost.then(|| Missed::new(time_ns, time_ns));
        let missed = [first, own, self.missed_of_all].into_iter().flatten();
        let missed = missed.reduce(Missed::with);
        let closer = match (trade.source, self.newest_publisher) {
            (CONSOLIDATED, Some(publisher)) => publisher,
            (source, _) => source,
        };
        let bar = self.bars.entry(key).or_insert_with(|| ClientBar {
            aggregator: Aggregator::new(interval),
            publisher: trade.source,
            closer,
            missed,
            recorded_until_ns: self.recorded_until_ns,
            newest_ns: 0,
            had: Had::default(),
            delay_ns: None,
        });
        match bar.had.add(closer, time_ns) {
            Repetition::New => {}
            Repetition::Repeated => return,
            Repetition::Unknown => return bar.miss(time_ns),
        }
        bar.newest_ns = bar.newest_ns.max(time_ns);
        let outcome = bar.aggregator.trade(time_ns, trade.price, trade.size);
        let began = matches!(outcome, Outcome::Began { .. });
        let delay_ns = now_ns.map(|now_ns| now_ns.saturating_sub(time_ns));
        let delay_ns = delay_ns.filter(|delay_ns| *delay_ns < LIVE_NS);
        match outcome {
            Outcome::Began { .. } => bar.delay_ns = delay_ns,
            Outcome::Added if bar.delay_ns.is_some() => bar.delay_ns = bar.delay_ns.max(delay_ns),
            Outcome::Added | Outcome::LeftOut => {}
        }
        if let Outcome::Began { closed } = outcome {
            let closed = closed.and_then(|closed| bar.finish(key, &closed));
            self.closed.extend(closed);
        }
        if let Some(end_ns) = bar.aggregator.end_ns()
            && (began || closer != bar.closer)
        {
            let end = (end_ns, key.0, interval);
            self.ends.entry(closer).or_default().insert(end);
            if began && delay_ns.is_some() {
                self.live_ends.insert((end_ns, end));
            }
        }
        (bar.publisher, bar.closer) = (trade.source, closer);
    }

    /// Notes that the trades of a topic may come again: it begins in another run of the hub.
    pub(super) fn trades_may_repeat(&mut self, number: u32) {
        for interval in Interval::ALL {
            if let Some(bar) = self.bars.get_mut(&(number, interval)) {
                bar.had.may_repeat();
            }
        }
    }

    /// Notes a trade that the hub, or one before it, has had before. The client may have come
    /// since.
    #[cold]
    fn repeated(&mut self, key: (u32, Interval), time_ns: u64) {
        match self.bars.get_mut(&key) {
            Some(bar) if time_ns > bar.newest_ns => bar.miss(time_ns),
            Some(_) => {}
            None => self.note_missed(key.0, Missed::new(time_ns, time_ns)),
        }
    }

    /// Returns whether a trade under a symbol's number belongs to the bar of `to`, the topic of its
    /// venue: an earlier run of the hub knew of several venues, and its bar has not ended yet. So
    /// has one of the symbol that has the trades of all of them.
    pub(super) fn continues(&self, interval: Interval, trade: &Trade, to: u32) -> bool {
        let start_ns = interval.start_of(trade.source_time_ns);
        let open = |number: u32| {
            let bar = self.bars.get(&(number, interval))?;
            let (newest, is_final) = bar.aggregator.newest()?;
            (newest.start_ns == start_ns && !is_final).then_some(bar.publisher)
        };
        open(to).is_some() || open(trade.symbol) == Some(CONSOLIDATED)
    }

    /// Closes the bars of a publisher that have ended at the time of its newest message. Returns
    /// whether some of them are left for the next call.
    #[inline]
    pub(super) fn pass(&mut self, publisher: u16, time_ns: u64) -> bool {
        if publisher != CONSOLIDATED {
            self.newest_publisher = Some(publisher);
        }
        let Some(ends) = self.ends.get_mut(&publisher) else {
            return false;
        };
        let (bars, closed) = (&mut self.bars, &mut self.closed);
        close_due(bars, closed, ends, time_ns, GRACE_NS)
    }

    /// Closes the live bars that have ended by the wall clock. Returns whether some of them are
    /// left for the next call.
    pub(super) fn tick(&mut self, now_ns: u64) -> bool {
        for _ in 0..CLOSED_MAX {
            let Some(&(from_ns, end)) = self.live_ends.first() else {
                return false;
            };
            if from_ns.saturating_add(WALL_GRACE_NS) > now_ns {
                return false;
            }
            self.live_ends.pop_first();
            let bar = self.bars.get(&(end.1, end.2));
            let bar = bar.filter(|bar| bar.aggregator.end_ns() == Some(end.0));
            let delay_ns = bar.and_then(|bar| bar.delay_ns);
            let until_ns = end.0.saturating_add(delay_ns.unwrap_or(0));
            if bar.is_some() && from_ns < until_ns {
                self.live_ends.insert((until_ns, end));
            } else {
                close(&mut self.bars, &mut self.closed, end);
            }
        }
        true
    }

    /// Notes that a replay has ended: the wall clock closes open bars, too, if they are live.
    pub(super) fn end_replay(&mut self) {
        self.unchecked = self.ends.keys().copied().collect();
        self.checked = None;
    }

    /// Checks some bars that a replay has left open. `delay_ns` tells of a topic how long its
    /// newest message took to arrive, if that was live. Returns whether some of them are left for
    /// the next call.
    pub(super) fn check_replayed(&mut self, delay_ns: impl Fn(u32) -> Option<u64>) -> bool {
        let mut left = CLOSED_MAX;
        while let Some(publisher) = self.unchecked.last() {
            let ends = self.ends.get(publisher);
            let from = self.checked.map_or(Bound::Unbounded, Bound::Excluded);
            let ends = ends
                .into_iter()
                .flat_map(|ends| ends.range((from, Bound::Unbounded)));
            for &end in ends.take(left) {
                (left, self.checked) = (left - 1, Some(end));
                let bar = self.bars.get_mut(&(end.1, end.2));
                let open = bar.filter(|bar| bar.aggregator.end_ns() == Some(end.0));
                if let Some(bar) = open
                    && let Some(delay_ns) = delay_ns(end.1)
                {
                    bar.delay_ns = bar.delay_ns.max(Some(delay_ns));
                    self.live_ends.insert((end.0, end));
                }
            }
            if left == 0 {
                return true;
            }
            self.unchecked.pop();
            self.checked = None;
        }
        false
    }

    /// Returns whether closed bars have not been sent.
    #[inline]
    pub(super) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Takes the next closed bar: its record type and record.
    pub(super) fn take_closed(&mut self) -> Option<(u8, Ohlcv)> {
        self.closed.pop_front()
    }

    /// Moves the open bars of a symbol to the topic `to` of its first venue, numbered `venue`,
    /// which continues its trades from now on. A bar that the symbol `keeps` goes on there as
    /// well, as the consolidated one.
    pub(super) fn split(
        &mut self,
        (from, to): (u32, u32),
        venue: u16,
        keeps: impl Fn(Interval) -> bool,
    ) {
        for interval in Interval::ALL {
            let key = (to, interval);
            let Some(bar) = self.bars.get_mut(&(from, interval)) else {
                continue;
            };
            if bar.publisher != venue {
                continue;
            }
            let mut moved = bar.clone();
            bar.publisher = CONSOLIDATED;
            if !keeps(interval) {
                self.bars.remove(&(from, interval));
            }
            let start_ns = moved.aggregator.newest().map(|(bar, _)| bar.start_ns);
            if let Some(before) = self.bars.remove(&key) {
                // The topic is of an earlier run of the hub.
                let (last, is_final) = before.aggregator.newest().unzip();
                if let Some(start_ns) = start_ns
                    && last.is_some_and(|bar| bar.start_ns == start_ns)
                {
                    moved.missed = Some(Missed::new(start_ns, start_ns));
                } else if let Some(last) = last.filter(|_| is_final == Some(false)) {
                    self.closed.extend(before.finish(key, &last));
                }
            }
            if let Some(end_ns) = moved.aggregator.end_ns() {
                self.ends
                    .entry(venue)
                    .or_default()
                    .insert((end_ns, to, interval));
                if moved.delay_ns.is_some() {
                    self.live_ends.insert((end_ns, (end_ns, to, interval)));
                }
            }
            self.bars.insert(key, moved);
        }
    }

    /// Drops the bars of a topic that have ended by `time_ns`, and which no record has shown: its
    /// records begin then.
    pub(super) fn show_from(&mut self, number: u32, time_ns: u64) {
        for interval in Interval::ALL {
            if let Some(bar) = self.bars.get_mut(&(number, interval)) {
                bar.aggregator.close(time_ns);
            }
        }
    }

    /// Takes over the trades of a symbol before the client's first record to the topic that
    /// continues its trades.
    pub(super) fn take_missed(&mut self, from: u32, to: u32) {
        if let Some(&Some(missed)) = self.missed.get(from) {
            self.missed.get_or(to, None).get_or_insert(missed);
        }
    }

    /// Ends the bar of a topic.
    pub(super) fn leave(&mut self, number: u32, interval: Interval) {
        self.bars.remove(&(number, interval));
    }

    /// Forgets all open bars, because trades are missing. The next bar of each topic may lack some
    /// too.
    pub(super) fn lose(&mut self) {
        self.has_lost = true;
        for (&(number, _), bar) in &self.bars {
            let newest = Missed::new(bar.newest_ns, bar.newest_ns);
            let noted = self.missed.get_or(number, None);
            *noted = Some(noted.map_or(newest, |before| newest.with(before)));
        }
        self.bars.clear();
        self.ends.clear();
        self.live_ends.clear();
        self.unchecked.clear();
    }
}

impl ClientBar {
    /// Notes that a trade may be missing.
    #[cold]
    fn miss(&mut self, time_ns: u64) {
        let missed = Missed::new(time_ns, time_ns);
        self.missed = Some(self.missed.map_or(missed, |before| missed.with(before)));
    }

    /// Returns the record of a closed bar, unless trades of it are missing.
    fn finish(&self, key: (u32, Interval), closed: &Bar) -> Option<(u8, Ohlcv)> {
        let (interval, start_ns) = (key.1, closed.start_ns);
        let is_missed = self
            .missed
            .is_some_and(|missed| missed.concerns(interval, start_ns));
        let is_recorded = |until_ns: u64| interval.start_of(until_ns) == start_ns;
        match is_missed || self.recorded_until_ns.is_some_and(is_recorded) {
            true => None,
            false => Some(record(key, self.publisher, closed)),
        }
    }
}

/// Closes bars that have ended, at most [`CLOSED_MAX`]. Returns whether some may be left.
#[inline]
fn close_due(
    bars: &mut HashMap<(u32, Interval), ClientBar>,
    closed: &mut VecDeque<(u8, Ohlcv)>,
    ends: &mut BTreeSet<End>,
    now_ns: u64,
    grace_ns: u64,
) -> bool {
    for _ in 0..CLOSED_MAX {
        let Some(end) = take_due(ends, now_ns, grace_ns) else {
            return false;
        };
        close(bars, closed, end);
    }
    true
}

fn take_due(ends: &mut BTreeSet<End>, now_ns: u64, grace_ns: u64) -> Option<End> {
    let first = ends.first()?;
    if first.0.saturating_add(grace_ns) > now_ns {
        return None;
    }
    ends.pop_first()
}

/// Closes a bar at its end, if it is still open.
fn close(
    bars: &mut HashMap<(u32, Interval), ClientBar>,
    closed: &mut VecDeque<(u8, Ohlcv)>,
    (end_ns, number, interval): End,
) {
    let key = (number, interval);
    let Some(bar) = bars.get_mut(&key) else {
        return;
    };
    if bar.aggregator.end_ns() == Some(end_ns)
        && let Some(last) = bar.aggregator.close(end_ns)
    {
        closed.extend(bar.finish(key, &last));
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

/// How long after its end, by the publisher's clock, a bar without a later trade is closed: trades
/// of the interval may arrive until then.
const GRACE_NS: u64 = 50_000_000;
/// The same by the wall clock.
const WALL_GRACE_NS: u64 = 250_000_000;
/// Maximum number of bars that are closed at once: a million symbols may trade in the same second.
const CLOSED_MAX: usize = 2_048;
/// A trade that arrives within this time is live: the wall clock closes its bar.
pub(super) const LIVE_NS: u64 = 60_000_000_000;

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

    fn closed(bars: &mut ClientBars) -> Vec<(u8, u64, i64)> {
        let all = std::iter::from_fn(|| bars.take_closed());
        all.map(|(rtype, bar)| (rtype, bar.start_ns, bar.open))
            .collect()
    }

    /// A message of a venue that had not traded in it closed the bar of all venues.
    #[test]
    fn a_consolidated_bar_is_closed_by_the_venues_that_have_traded_in_it() {
        let mut bars = ClientBars::default();
        let at = |ns: u64| Trade {
            source: CONSOLIDATED,
            ..trade(1, ns, 10)
        };
        bars.pass(7, SECOND);
        bars.trade(Interval::Second, &at(SECOND), None);
        bars.pass(8, 3 * SECOND);
        bars.pass(CONSOLIDATED, 3 * SECOND);
        assert!(!bars.has_closed());
        bars.pass(7, SECOND + 1);
        bars.trade(Interval::Second, &at(SECOND + 1), None);
        bars.pass(7, 3 * SECOND);
        let (_, bar) = bars.take_closed().unwrap();
        assert_eq!(
            (bar.volume, bar.publisher_id),
            (2 * u64::from(at(0).size), CONSOLIDATED)
        );
    }

    /// A file that was played twice doubled the bars of the gateway.
    #[test]
    fn trades_that_come_again_are_in_a_bar_once() {
        let mut bars = ClientBars::default();
        let second = |second: u64, condition: u32| Trade {
            condition,
            ..trade(1, second * SECOND, 10)
        };
        let add = |bars: &mut ClientBars, seconds: &[u64], condition| {
            for &at in seconds {
                bars.trade(Interval::Minute, &second(at, condition), None);
            }
        };
        add(&mut bars, &[1, 2, 4, 3], 0);
        add(&mut bars, &[1, 2, 4, 3], REPEATED);
        // Another run of the hub knows nothing of the first, and its source begins again.
        bars.trades_may_repeat(1);
        add(&mut bars, &[1, 2, 4, 3, 5, 5], 0);
        add(&mut bars, &[61], 0);
        let (_, bar) = bars.take_closed().unwrap();
        assert_eq!(bar.volume, 6 * u64::from(second(1, 0).size));
    }

    #[test]
    fn each_bar_is_sent_once_whether_a_trade_or_a_clock_ends_it() {
        let mut bars = ClientBars::default();
        bars.tick(u64::MAX);
        bars.trade(Interval::Second, &trade(1, 5 * SECOND, 10), None);
        bars.trade(Interval::Second, &trade(1, 5 * SECOND + 1, 12), None);
        bars.trade(Interval::Second, &trade(2, 5 * SECOND + 2, 3), None);
        bars.trade(Interval::Minute, &trade(2, 5 * SECOND + 2, 3), None);
        assert!(!bars.has_closed());
        bars.trade(Interval::Second, &trade(1, 6 * SECOND, 11), None);
        let (rtype, first) = bars.take_closed().unwrap();
        let prices = [first.open, first.high, first.low, first.close];
        assert_eq!((rtype, prices, first.volume), (0x20, [10, 12, 10, 12], 4));
        assert_eq!((first.start_ns, first.publisher_id), (5 * SECOND, 7));
        bars.pass(8, u64::MAX);
        assert!(!bars.has_closed(), "another publisher's clock");
        bars.pass(7, 6 * SECOND + GRACE_NS);
        assert_eq!(closed(&mut bars), [(0x20, 5 * SECOND, 3)]);
        bars.pass(7, 60 * SECOND + GRACE_NS);
        assert_eq!(closed(&mut bars), [(0x20, 6 * SECOND, 11), (0x21, 0, 3)]);
        bars.pass(7, u64::MAX);
        assert!(!bars.has_closed());
    }

    #[test]
    fn a_second_of_many_symbols_is_closed_in_parts() {
        let mut bars = ClientBars::default();
        let count = CLOSED_MAX as u32 + 1;
        for number in 0..count {
            bars.trade(Interval::Second, &trade(number, 5 * SECOND, 10), None);
        }
        assert!(bars.pass(7, 7 * SECOND));
        assert_eq!(closed(&mut bars).len(), CLOSED_MAX);
        assert!(!bars.pass(7, 7 * SECOND));
        assert_eq!(closed(&mut bars).len(), 1);
        for number in 0..count {
            let trade = trade(number, 999 * SECOND, 10);
            bars.trade(Interval::Second, &trade, Some(999 * SECOND));
        }
        assert!(bars.tick(1_001 * SECOND) && !bars.tick(1_001 * SECOND));
        assert_eq!(closed(&mut bars).len(), count as usize);
    }

    #[test]
    fn the_wall_clock_closes_live_bars_only() {
        let mut bars = ClientBars::default();
        let now_ns = 1_000 * SECOND;
        bars.trade(Interval::Second, &trade(1, now_ns - 1, 10), Some(now_ns));
        bars.trade(Interval::Second, &trade(2, 5 * SECOND, 11), Some(now_ns));
        bars.trade(Interval::Second, &trade(3, now_ns - 1, 12), None);
        bars.tick(now_ns + WALL_GRACE_NS);
        assert!(!bars.has_closed());
        bars.tick(now_ns + WALL_GRACE_NS + 1);
        assert_eq!(closed(&mut bars), [(0x20, now_ns - SECOND, 10)]);
        bars.tick(u64::MAX);
        assert!(!bars.has_closed(), "history, and a replay");
    }

    /// The trades of a source that is half a second late came behind the wall clock: each bar was
    /// sent with its first few.
    #[test]
    fn the_wall_clock_waits_for_a_source_as_long_as_its_trades_are_late() {
        let mut bars = ClientBars::default();
        let delay_ns = 4 * SECOND / 10;
        for tenth in 0..30 {
            let time_ns = 1_000 * SECOND + tenth * SECOND / 10;
            let now_ns = time_ns + delay_ns;
            bars.trade(Interval::Second, &trade(1, time_ns, 10), Some(now_ns));
            bars.tick(now_ns + SECOND / 20);
        }
        bars.tick(1_003 * SECOND + WALL_GRACE_NS + delay_ns);
        let volumes = std::iter::from_fn(|| bars.take_closed()).map(|(_, bar)| bar.volume);
        let volumes: Vec<u64> = volumes.collect();
        let of_one: u64 = u64::from(trade(1, 0, 10).size);
        assert_eq!(volumes, [10 * of_one; 3]);
    }

    #[test]
    fn a_bar_whose_first_trades_are_missing_is_not_sent() {
        let mut bars = ClientBars::default();
        bars.note_missed(1, Missed::new(5 * SECOND + 1, 5 * SECOND + 1));
        bars.note_missed(2, Missed::new(4 * SECOND, 4 * SECOND));
        for number in [1, 2, 3] {
            bars.trade(Interval::Second, &trade(number, 5 * SECOND + 2, 10), None);
        }
        bars.pass(7, 7 * SECOND);
        assert_eq!(closed(&mut bars).len(), 2);
        bars.trade(Interval::Second, &trade(1, 8 * SECOND, 10), None);
        bars.lose();
        for second in [8, 9, 10, 11] {
            let price = second as i64;
            bars.trade(Interval::Second, &trade(1, second * SECOND, price), None);
        }
        let whole = [(0x20, 9 * SECOND, 9), (0x20, 10 * SECOND, 10)];
        assert_eq!(closed(&mut bars), whole, "all but the first");
        bars.leave(1, Interval::Second);
        bars.pass(7, u64::MAX);
        assert_eq!(closed(&mut bars), []);
    }

    #[test]
    fn the_open_bar_of_the_first_venue_goes_on_under_its_own_topic() {
        for keeps in [false, true] {
            let mut bars = ClientBars::default();
            let trade_of = |symbol, source, time_ns, price| Trade {
                source,
                ..trade(symbol, time_ns, price)
            };
            let add = |bars: &mut ClientBars, trade| bars.trade(Interval::Second, &trade, None);
            add(&mut bars, trade_of(1, 7, 5 * SECOND, 10));
            bars.split((1, 2), 7, |_| keeps);
            bars.split((1, 3), 9, |_| keeps);
            add(&mut bars, trade_of(3, 9, 5 * SECOND + 1, 11));
            if keeps {
                add(&mut bars, trade_of(1, CONSOLIDATED, 5 * SECOND + 1, 11));
            }
            bars.split((1, 2), 7, |_| keeps);
            add(&mut bars, trade_of(2, 7, 5 * SECOND + 2, 12));
            bars.pass(7, 7 * SECOND);
            bars.pass(9, 7 * SECOND);
            let sent = std::iter::from_fn(|| bars.take_closed());
            let mut sent: Vec<_> = sent
                .map(|(_, bar)| (bar.instrument_id, bar.open, bar.close, bar.volume))
                .collect();
            sent.sort_unstable();
            let mut expected = vec![(instrument_id(2), 10, 12, 4), (instrument_id(3), 11, 11, 2)];
            if keeps {
                expected.insert(0, (instrument_id(1), 10, 11, 4));
            }
            assert_eq!(sent, expected, "{keeps}");
        }
    }

    #[test]
    fn a_bar_with_missing_trades_stays_one_under_the_topic_of_its_venue() {
        let mut bars = ClientBars::default();
        bars.note_missed(1, Missed::new(5 * SECOND, 5 * SECOND));
        bars.trade(Interval::Second, &trade(1, 5 * SECOND + 1, 10), None);
        bars.trade(Interval::Minute, &trade(1, 5 * SECOND + 1, 10), None);
        bars.take_missed(1, 2);
        bars.split((1, 2), 7, |_| false);
        bars.trade(Interval::Second, &trade(2, 6 * SECOND, 11), None);
        bars.trade(Interval::Hour, &trade(2, 6 * SECOND, 11), None);
        bars.pass(7, 8 * SECOND);
        assert_eq!(closed(&mut bars), [(0x20, 6 * SECOND, 11)]);
        bars.pass(7, u64::MAX);
        assert_eq!(closed(&mut bars), [], "the minute and the hour lack trades");
    }

    #[test]
    fn bars_that_ended_before_a_symbol_is_shown_are_not_sent() {
        let mut bars = ClientBars::default();
        for interval in [Interval::Second, Interval::Minute] {
            bars.trade(interval, &trade(1, 5 * SECOND, 10), None);
        }
        bars.show_from(1, 6 * SECOND);
        bars.trade(Interval::Second, &trade(1, 6 * SECOND, 11), None);
        bars.pass(7, u64::MAX);
        assert_eq!(closed(&mut bars), [(0x20, 6 * SECOND, 11), (0x21, 0, 10)]);
    }
}
