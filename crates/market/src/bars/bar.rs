//! Open, high, low and close of an interval, from trades in; arithmetic only.

use tidewire_feed::wire::UNDEFINED_PRICE;

/// The length of a bar. Bars begin at multiples of it since the UNIX epoch, so those of a day
/// begin at midnight UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interval {
    /// One second.
    Second,
    /// One minute.
    Minute,
    /// One hour.
    Hour,
    /// One day, UTC.
    Day,
}

impl Interval {
    /// All intervals, the shortest first.
    pub const ALL: [Interval; 4] = [
        Interval::Second,
        Interval::Minute,
        Interval::Hour,
        Interval::Day,
    ];

    /// Returns the name in channels, such as `1m`.
    pub fn name(self) -> &'static str {
        match self {
            Interval::Second => "1s",
            Interval::Minute => "1m",
            Interval::Hour => "1h",
            Interval::Day => "1d",
        }
    }

    /// Returns the length in nanoseconds.
    pub fn length_ns(self) -> u64 {
        let seconds = match self {
            Interval::Second => 1,
            Interval::Minute => 60,
            Interval::Hour => 3_600,
            Interval::Day => 86_400,
        };
        seconds * 1_000_000_000
    }

    /// Returns the start of the interval that a time is in.
    #[inline]
    pub fn start_of(self, time_ns: u64) -> u64 {
        time_ns - time_ns % self.length_ns()
    }
}

/// The trades of one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Start of the interval, nanoseconds since the UNIX epoch.
    pub start_ns: u64,
    /// Price of the first trade, 1 unit = 1e-9.
    pub open: i64,
    /// Highest price.
    pub high: i64,
    /// Lowest price.
    pub low: i64,
    /// Price of the last trade.
    pub close: i64,
    /// Sum of the sizes.
    pub volume: u64,
    /// Number of trades.
    pub trades: u64,
    /// Sum of price times size.
    pub turnover: i128,
}

impl Bar {
    pub(super) fn begin(start_ns: u64, price: i64, size: u32) -> Self {
        let mut bar = Self {
            start_ns,
            open: price,
            high: price,
            low: price,
            close: price,
            volume: 0,
            trades: 0,
            turnover: 0,
        };
        bar.add(price, size);
        bar
    }

    #[inline]
    pub(super) fn add(&mut self, price: i64, size: u32) {
        self.high = self.high.max(price);
        self.low = self.low.min(price);
        self.close = price;
        self.volume = self.volume.saturating_add(size.into());
        self.trades += 1;
        self.turnover = self
            .turnover
            .saturating_add(i128::from(price) * i128::from(size));
        debug_assert!(self.low <= self.open && self.open <= self.high, "a range");
    }

    /// Returns the volume-weighted average price, 1 unit = 1e-9, rounded towards zero; `None`
    /// without volume.
    pub fn average(&self) -> Option<i64> {
        let average = self.turnover.checked_div(self.volume.into())?;
        i64::try_from(average).ok()
    }
}

/// Makes the bars of one symbol and interval. Sans I/O: trades and times in, bars out.
#[derive(Clone, Debug)]
pub struct Aggregator {
    interval: Interval,
    /// The newest bar.
    bar: Option<Bar>,
    /// Whether the newest bar is closed.
    is_final: bool,
    /// Whether a bar has been closed.
    has_closed: bool,
    /// Trades left out because their bar was closed already.
    late: u64,
}

/// What a trade did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the open bar.
    Added,
    /// It began a bar. The bar before it, if that was open, is closed.
    Began {
        /// The bar that is final now.
        closed: Option<Bar>,
    },
    /// It was left out: its bar is closed already, or it has no price.
    LeftOut,
}

impl Aggregator {
    /// Creates an aggregator without a bar.
    pub fn new(interval: Interval) -> Self {
        Self {
            interval,
            bar: None,
            is_final: false,
            has_closed: false,
            late: 0,
        }
    }

    /// Returns an aggregator that goes on from here with another bar of the same interval, or
    /// without one.
    pub(super) fn with_bar(&self, bar: Option<Bar>) -> Self {
        Self {
            bar,
            is_final: self.is_final && bar.is_some(),
            ..self.clone()
        }
    }

    /// Adds a trade by its time at the source, nanoseconds since the UNIX epoch. One without a time
    /// (0) is of no bar.
    #[inline(always)]
    pub fn trade(&mut self, time_ns: u64, price: i64, size: u32) -> Outcome {
        if price == UNDEFINED_PRICE {
            return Outcome::LeftOut;
        }
        if time_ns == 0 {
            self.late += 1;
            return Outcome::LeftOut;
        }
        let start_ns = self.interval.start_of(time_ns);
        let Some(bar) = &mut self.bar else {
            self.bar = Some(Bar::begin(start_ns, price, size));
            return Outcome::Began { closed: None };
        };
        if start_ns == bar.start_ns && !self.is_final {
            bar.add(price, size);
            return Outcome::Added;
        }
        if start_ns <= bar.start_ns {
            self.late += 1;
            return Outcome::LeftOut;
        }
        let closed = (!self.is_final).then_some(*bar);
        *bar = Bar::begin(start_ns, price, size);
        (self.is_final, self.has_closed) = (false, true);
        Outcome::Began { closed }
    }

    /// Closes the open bar if its interval has ended at `now_ns`. Returns the bar that is final
    /// now.
    pub fn close(&mut self, now_ns: u64) -> Option<Bar> {
        if self.end_ns()? > now_ns {
            return None;
        }
        (self.is_final, self.has_closed) = (true, true);
        self.bar
    }

    /// Notes trades that have not come one by one. They may be of a closed bar, if there is one:
    /// then they count as late. Returns whether they do.
    pub fn leave_out(&mut self, trades: u32) -> bool {
        let counts = self.has_closed && trades > 0;
        self.late += if counts { u64::from(trades) } else { 0 };
        counts
    }

    /// Returns the end of the open bar; `None` if no bar is open.
    pub fn end_ns(&self) -> Option<u64> {
        let bar = self.bar.filter(|_| !self.is_final)?;
        Some(bar.start_ns.saturating_add(self.interval.length_ns()))
    }

    /// Returns the newest bar, and whether it is final.
    pub fn newest(&self) -> Option<(Bar, bool)> {
        Some((self.bar?, self.is_final))
    }

    /// Returns the number of trades left out because their bar was closed or may have been, or
    /// because they have no time.
    pub fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    /// It began a bar of 1970.
    #[test]
    fn a_trade_without_a_time_is_of_no_bar() {
        let mut bars = Aggregator::new(Interval::Minute);
        assert_eq!(bars.trade(0, 10, 1), Outcome::LeftOut);
        assert_eq!((bars.newest(), bars.late()), (None, 1));
        bars.trade(MINUTE + 5, 10, 1);
        assert_eq!(bars.trade(0, 10, 1), Outcome::LeftOut);
        assert_eq!((bars.end_ns(), bars.late()), (Some(2 * MINUTE), 2));
    }

    /// Its first bar was closed from its first trade on.
    #[test]
    fn bars_that_go_on_without_the_closed_bar_begin_an_open_one() {
        let mut bars = Aggregator::new(Interval::Minute);
        bars.trade(MINUTE, 10, 1);
        bars.close(2 * MINUTE);
        assert_eq!(bars.trade(MINUTE, 10, 1), Outcome::LeftOut);
        let mut other = bars.with_bar(None);
        let began = Outcome::Began { closed: None };
        assert_eq!(other.trade(2 * MINUTE, 10, 1), began);
        assert_eq!(other.trade(2 * MINUTE, 11, 1), Outcome::Added);
        assert_eq!((other.end_ns(), other.late()), (Some(3 * MINUTE), 1));
    }

    #[test]
    fn a_bar_closes_with_the_next_trade_or_at_its_end() {
        let mut bars = Aggregator::new(Interval::Minute);
        assert_eq!(bars.close(u64::MAX), None, "there is no bar");
        let began = Outcome::Began { closed: None };
        assert_eq!(bars.trade(MINUTE + 5, 10, 1), began);
        assert_eq!(bars.trade(MINUTE + 6, 12, 2), Outcome::Added);
        assert_eq!(bars.trade(MINUTE + 6, 9, 1), Outcome::Added);
        assert_eq!(bars.close(2 * MINUTE - 1), None);
        let (first, is_final) = bars.newest().unwrap();
        assert!(!is_final);
        let shape = (first.open, first.high, first.low, first.close);
        assert_eq!((shape, first.volume, first.trades), ((10, 12, 9, 9), 4, 3));
        assert_eq!(first.average(), Some(10));
        let next = bars.trade(3 * MINUTE, 11, 1);
        assert_eq!(
            next,
            Outcome::Began {
                closed: Some(first)
            }
        );
        assert_eq!(bars.trade(MINUTE, 1, 1), Outcome::LeftOut);
        assert_eq!(bars.close(4 * MINUTE).unwrap().start_ns, 3 * MINUTE);
        assert_eq!(bars.close(5 * MINUTE), None, "it is published once");
        assert_eq!(
            bars.trade(3 * MINUTE, 1, 1),
            Outcome::LeftOut,
            "it is final"
        );
        assert_eq!(bars.late(), 2);
        let no_price = bars.trade(9 * MINUTE, UNDEFINED_PRICE, 1);
        assert_eq!((no_price, bars.late()), (Outcome::LeftOut, 2));
    }

    #[test]
    fn agrees_with_a_sum_over_all_trades_of_each_interval() {
        for (interval, step_ns) in [
            (Interval::Second, 300_000_000),
            (Interval::Minute, 20_000_000_000),
            (Interval::Hour, 1_500_000_000_000),
            (Interval::Day, 30_000_000_000_000),
        ] {
            let mut bars = Aggregator::new(interval);
            let mut simple: BTreeMap<u64, Vec<(i64, u32)>> = BTreeMap::new();
            let mut closed = Vec::new();
            let (mut state, mut time_ns) = (11u64, 1_703_000_000_000_000_000);
            for _ in 0..5_000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                time_ns += (state >> 44) * (step_ns >> 20);
                let (price, size) = ((state >> 20) as i64 % 1_000 - 500, (state >> 50) as u32);
                match bars.trade(time_ns, price, size) {
                    Outcome::Began { closed: bar } => closed.extend(bar),
                    outcome => assert_eq!(outcome, Outcome::Added),
                }
                let start_ns = time_ns / interval.length_ns() * interval.length_ns();
                simple.entry(start_ns).or_default().push((price, size));
                if state >> 60 == 0 {
                    time_ns += interval.length_ns();
                    closed.extend(bars.close(time_ns));
                }
            }
            closed.extend(bars.close(u64::MAX));
            assert_eq!(closed.len(), simple.len());
            for (bar, (start_ns, trades)) in closed.iter().zip(&simple) {
                let prices = || trades.iter().map(|trade| trade.0);
                let turnover = trades
                    .iter()
                    .map(|one| i128::from(one.0) * i128::from(one.1));
                let expected = Bar {
                    start_ns: *start_ns,
                    open: trades[0].0,
                    high: prices().max().unwrap(),
                    low: prices().min().unwrap(),
                    close: prices().next_back().unwrap(),
                    volume: trades.iter().map(|trade| u64::from(trade.1)).sum(),
                    trades: trades.len() as u64,
                    turnover: turnover.sum(),
                };
                assert_eq!(*bar, expected);
            }
        }
    }
}
