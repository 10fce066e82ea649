//! The state of one `bar:` topic, and its published forms.

use tidewire_fanout::write_json_text;

use super::apart::Apart;
use super::bar::{Aggregator, Bar, Interval};
use crate::cluster::own::REMOTE;
use crate::decimal::{write_price, write_unsigned};

/// The bars of one symbol and interval.
#[derive(Debug)]
pub(crate) struct BarState {
    pub(crate) bars: Aggregator,
    interval: Interval,
    /// Number of changes published so far.
    version: u64,
    /// Sequence of the newest trade in the hub's own feed.
    sequence: u64,
    /// Time of receipt of the newest trade, nanoseconds since the UNIX epoch.
    receive_time_ns: u64,
    /// Whether the newest trade arrived within a minute of its source time: the wall clock then
    /// closes its bar too.
    is_live: bool,
    /// The longest that a trade of the newest bar took from its source time to its receipt, ns. The
    /// wall clock waits as much longer: the source's next trades come as late.
    delay_ns: u64,
    /// Number of the source of the newest trade.
    source: u32,
    /// Whether another hub of the cluster has given a trade of the newest bar.
    is_remote: bool,
    /// Source time until which trades may be missing, nanoseconds since the UNIX epoch; 0 if none
    /// are.
    missing_until_ns: u64,
    /// Whether the newest bar may lack trades.
    is_partial: bool,
    /// End of the bar that the bar of a venue has begun as; 0 if none has.
    continued_end_ns: u64,
    /// Whether a client has read the bars under the name of the symbol's only venue.
    is_read_as_venue: bool,
    /// The bar of the symbol's only venue, while the newest one has trades of an earlier venue.
    apart: Option<Box<Apart>>,
    /// The last bars that were closed, if they are of several venues; the oldest first.
    closed: Vec<Closed>,
}

/// A closed bar, which comes to a lane's subscribers behind other sources' news if theirs are
/// faster.
#[derive(Clone, Copy, Debug)]
struct Closed {
    shown: Shown,
    version: u64,
    /// The source that closed it, and when it did, nanoseconds since the UNIX epoch.
    source: u32,
    time_ns: u64,
    /// Other sources that have published it again.
    again: [u32; AGAIN_KEPT],
}

/// A trade as bars need it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarTrade {
    pub(crate) source_time_ns: u64,
    pub(crate) receive_time_ns: u64,
    pub(crate) sequence: u64,
    pub(crate) price: i64,
    pub(crate) size: u32,
}

impl BarState {
    /// Creates bars of an interval. The symbol has traded until `traded_until_ns`; 0 if it has not.
    pub(crate) fn new(interval: Interval, traded_until_ns: u64) -> Self {
        Self {
            bars: Aggregator::new(interval),
            interval,
            version: 0,
            sequence: 0,
            receive_time_ns: 0,
            is_live: false,
            delay_ns: 0,
            source: u32::MAX,
            is_remote: false,
            missing_until_ns: traded_until_ns,
            is_partial: false,
            continued_end_ns: 0,
            is_read_as_venue: false,
            apart: None,
            closed: Vec::new(),
        }
    }

    /// Goes on with the bar of the symbol under the name of its only venue. Bars that have begun on
    /// their own stay. Returns whether there is one that it has got.
    pub(crate) fn continue_from(&mut self, symbol: &mut Self) -> bool {
        debug_assert_eq!(self.interval, symbol.interval, "bars of one interval");
        if self.bars.newest().is_some() {
            return false;
        }
        (self.missing_until_ns, self.is_partial) = (symbol.missing_until_ns, symbol.is_partial);
        self.bars = match &symbol.apart {
            None => symbol.bars.clone(),
            Some(apart) => {
                self.missing_until_ns = apart.missing_until_ns();
                self.is_partial = apart.is_partial();
                symbol.bars.with_bar(apart.bar())
            }
        };
        symbol.continued_end_ns = self.bars.end_ns().unwrap_or(0);
        (self.sequence, self.receive_time_ns) = (symbol.sequence, symbol.receive_time_ns);
        (self.is_live, self.delay_ns) = (symbol.is_live, symbol.delay_ns);
        self.is_remote = symbol.is_remote;
        self.version += 1;
        self.bars.newest().is_some()
    }

    /// Notes that the symbol is of another venue from now on. Where that is one venue, the newest
    /// bar is not that venue's, and its trades until `missing_until_ns` may be missing; 0 if none
    /// are.
    /// `None` stands for all venues: the newest bar has the trades of all.
    pub(crate) fn change_venue(&mut self, missing_until_ns: Option<u64>) {
        self.version += 1;
        self.apart = None;
        let Some(until_ns) = missing_until_ns else {
            return;
        };
        let until_ns = until_ns.max(self.missing_until_ns);
        match self.bars.newest() {
            Some(_) => self.apart = Some(Box::new(Apart::new(until_ns))),
            None => self.missing_until_ns = until_ns,
        }
    }

    /// Forgets the newest bar: the topic is another one from now on, and only has the same name.
    /// What it had traded until `until_ns` may be missing in the next bar.
    pub(crate) fn forget(&mut self, until_ns: u64) {
        if self.bars.newest().is_some() {
            self.bars = Aggregator::new(self.interval);
            (self.apart, self.continued_end_ns) = (None, 0);
            self.version += 1;
        }
        self.missing_until_ns = self.missing_until_ns.max(until_ns);
    }

    /// Notes that a client reads the bars under the name of the symbol's only venue.
    pub(crate) fn read_as_venue(&mut self) {
        self.is_read_as_venue = true;
    }

    /// Returns whether a client has read the bars under the name of the symbol's only venue.
    pub(crate) fn is_read_as_venue(&self) -> bool {
        self.is_read_as_venue
    }

    /// Returns whether the bar of a venue has begun as the one with this end.
    pub(crate) fn is_continued(&self, end_ns: u64) -> bool {
        self.continued_end_ns == end_ns
    }

    /// Notes the newest trade, which the aggregator has counted.
    pub(crate) fn note(&mut self, trade: &BarTrade) {
        if let Some(apart) = &mut self.apart {
            let start_ns = self.interval.start_of(trade.source_time_ns);
            apart.trade(start_ns, trade.price, trade.size);
        }
        let (receive_time_ns, source_time_ns) = (trade.receive_time_ns, trade.source_time_ns);
        (self.sequence, self.receive_time_ns) = (trade.sequence, receive_time_ns);
        let delay_ns = receive_time_ns.saturating_sub(source_time_ns);
        self.is_live = delay_ns < LIVE_NS;
        if self.is_live {
            self.delay_ns = self.delay_ns.max(delay_ns);
        }
        self.version += 1;
    }

    /// Notes a change of the newest bar that is no trade in it: its end, or one more late trade.
    /// Returns the version of that change.
    pub(crate) fn change(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Notes that a bar of several sources was closed by one of them at `time_ns`, as the state of
    /// the present version.
    pub(crate) fn note_closed(&mut self, shown: &Shown, source: u32, time_ns: u64) {
        debug_assert!(shown.is_final, "it is closed");
        if self.closed.len() >= CLOSED_KEPT {
            self.closed.remove(0);
        }
        self.closed.push(Closed {
            shown: *shown,
            version: self.version,
            source,
            time_ns,
            again: [source; AGAIN_KEPT],
        });
    }

    /// Returns the next bar that another source than this one has closed lately, and its version.
    /// This source publishes it once more before its own news: those of the other one may come
    /// later.
    pub(crate) fn next_closed(&mut self, source: u32, now_ns: u64) -> Option<(Shown, u64)> {
        let is_new = |closed: &&mut Closed| {
            let is_late = now_ns.saturating_sub(closed.time_ns) > ON_ITS_WAY_NS;
            !is_late && closed.source != source && !closed.again.contains(&source)
        };
        let closed = self.closed.iter_mut().find(is_new)?;
        closed.again.rotate_left(1);
        closed.again[AGAIN_KEPT - 1] = source;
        Some((closed.shown, closed.version))
    }

    /// Notes that trades until a source time are missing: those of the open bar, and of one that
    /// has begun at that time. As many as `left_out` are known to be; 0 if none. Returns whether
    /// that changes what is shown: the open bar is partial with it, or the trades may be late.
    pub(crate) fn miss(&mut self, until_ns: u64, left_out: u32) -> bool {
        self.missing_until_ns = self.missing_until_ns.max(until_ns);
        let is_open = self.bars.end_ns().is_some();
        let mut is_new = !self.is_partial && is_open;
        self.is_partial |= is_new;
        if let Some(apart) = &mut self.apart {
            is_new |= apart.miss(until_ns, is_open);
        }
        is_new |= self.bars.leave_out(left_out);
        self.version += u64::from(is_new);
        is_new
    }

    /// Notes that a bar has begun.
    pub(crate) fn begins(&mut self) {
        (self.delay_ns, self.is_remote) = (0, false);
        self.apart = None;
        let start_ns = self.bars.newest().map_or(0, |(bar, _)| bar.start_ns);
        self.is_partial = self.missing_until_ns != 0 && start_ns <= self.missing_until_ns;
    }

    /// Notes the source of the newest trade. Returns whether another one's trade came before.
    #[inline]
    pub(crate) fn traded_by(&mut self, source: u32) -> bool {
        self.is_remote |= source & REMOTE != 0;
        std::mem::replace(&mut self.source, source) != source
    }

    /// Returns whether a source has given the newest trade.
    pub(crate) fn is_last_of(&self, source: u32) -> bool {
        self.source == source
    }

    /// Notes that the newest bar may lack trades.
    pub(crate) fn may_lack_trades(&mut self) {
        self.is_partial = true;
        if let Some(apart) = &mut self.apart {
            apart.may_lack_trades();
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Closes the open bar if the wall clock is past its end, and no trade has arrived lately.
    /// Everything that other hubs of the cluster had until `heard_ns` is here: their bars wait
    /// for that, and lack trades where it does not come.
    pub(crate) fn close_by_clock(&mut self, unix_ns: u64, heard_ns: u64) -> bool {
        let quiet_ns = unix_ns.saturating_sub(self.receive_time_ns);
        if !self.is_live || quiet_ns < QUIET_NS {
            return false;
        }
        let grace_ns = CLOCK_GRACE_NS + self.delay_ns;
        let mut now_ns = unix_ns;
        let mut is_heard = true;
        if self.is_remote && heard_ns < unix_ns {
            now_ns = heard_ns.max(unix_ns.saturating_sub(UNHEARD_NS_MAX));
            let end_ns = self.bars.end_ns().unwrap_or(0);
            is_heard = heard_ns >= end_ns.saturating_add(grace_ns);
        }
        let is_closed = self.bars.close(now_ns.saturating_sub(grace_ns)).is_some();
        if is_closed && !is_heard {
            self.may_lack_trades();
        }
        is_closed
    }

    /// Appends the JSON text of a bar.
    pub(crate) fn write_json(
        &self,
        out: &mut Vec<u8>,
        symbol: &[u8],
        shown: &Shown,
        snapshot: bool,
    ) {
        out.extend_from_slice(b"{\"symbol\":");
        write_json_text(out, symbol);
        out.extend_from_slice(b",\"interval\":\"");
        out.extend_from_slice(self.interval.name().as_bytes());
        out.push(b'"');
        self.fields(shown, &mut |name, value| {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name);
            out.extend_from_slice(b"\":");
            match value {
                b"" => out.extend_from_slice(b"null"),
                value => out.extend_from_slice(value),
            }
        });
        if snapshot {
            out.extend_from_slice(b",\"snapshot\":true");
        }
        out.push(b'}');
    }

    /// Returns what is shown of the newest bar.
    pub(crate) fn shown(&self) -> Option<Shown> {
        let (bar, is_final) = self.bars.newest()?;
        Some(Shown {
            bar,
            is_final,
            is_partial: self.is_partial,
            late: self.bars.late(),
            sequence: self.sequence,
        })
    }

    /// Returns what is shown under the name of the symbol's only venue, where `shown` is shown of
    /// the symbol; `None` if the venue has not traded in that bar.
    pub(crate) fn shown_as_venue(&self, shown: &Shown) -> Option<Shown> {
        let Some(apart) = &self.apart else {
            return Some(*shown);
        };
        let bar = apart.bar()?;
        (bar.start_ns == shown.bar.start_ns).then_some(Shown {
            bar,
            is_partial: apart.is_partial(),
            ..*shown
        })
    }

    /// Returns what is shown of a bar that the next one has just closed.
    pub(crate) fn shown_closed(&self, bar: Bar, is_partial: bool) -> Shown {
        Shown {
            bar,
            is_final: true,
            is_partial,
            late: self.bars.late(),
            sequence: self.sequence,
        }
    }

    /// Passes the fields of a bar to `fields`, as text.
    pub(crate) fn fields(&self, shown: &Shown, fields: &mut dyn FnMut(&[u8], &[u8])) {
        let bar = &shown.bar;
        let mut text = Vec::with_capacity(24);
        let mut unsigned = |name: &str, value: u64, fields: &mut dyn FnMut(&[u8], &[u8])| {
            text.clear();
            write_unsigned(&mut text, value);
            fields(name.as_bytes(), &text);
        };
        unsigned("start", bar.start_ns, fields);
        let average = bar.average();
        let prices = [
            ("open", Some(bar.open)),
            ("high", Some(bar.high)),
            ("low", Some(bar.low)),
            ("close", Some(bar.close)),
            ("vwap", average),
        ];
        for (name, price) in prices {
            let mut text = Vec::with_capacity(24);
            if let Some(price) = price {
                write_price(&mut text, price);
            }
            fields(name.as_bytes(), &text);
        }
        unsigned("volume", bar.volume, fields);
        unsigned("trades", bar.trades, fields);
        unsigned("final", shown.is_final.into(), fields);
        unsigned("partial", shown.is_partial.into(), fields);
        unsigned("late", shown.late, fields);
        unsigned("seq", shown.sequence, fields);
    }
}

/// A bar as clients see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) bar: Bar,
    pub(crate) is_final: bool,
    pub(crate) is_partial: bool,
    late: u64,
    /// Sequence of the newest trade.
    sequence: u64,
}

/// An older trade is replayed history: only the source's clock closes its bar.
const LIVE_NS: u64 = 60_000_000_000;
/// How long after a bar's end the wall clock closes it. A trade takes that long at most from a
/// source with a right clock.
pub(crate) const CLOCK_GRACE_NS: u64 = 250_000_000;
/// How long the wall clock waits for other hubs of the cluster: longer than it takes until one is
/// taken for lost.
const UNHEARD_NS_MAX: u64 = 5_000_000_000;
/// How long the publication of a closed bar may take to a lane, at least.
const ON_ITS_WAY_NS: u64 = 100_000_000;
/// How many of them a symbol keeps.
const CLOSED_KEPT: usize = 4;
/// How many sources are kept that have published one again.
const AGAIN_KEPT: usize = 4;
/// How long no trade must have arrived before the wall clock closes a bar: batches that are on
/// their way to subscribers are delivered by then.
const QUIET_NS: u64 = 50_000_000;
