//! Whole values of symbols, in a snapshot or in the stream, and the trades in them that bars have
//! not had one by one.

use std::sync::Arc;

use tidewire_feed::wire::{Figures, LastValue, Message, UNDEFINED_PRICE};
use tidewire_lastvalue::MarketValue;

use super::Batch;
use super::apply::Work;
use crate::bars::traded_until_ns;
use crate::topic::Topic;

/// What a topic has traded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traded {
    /// Of its session.
    volume: u64,
    trades: u32,
    turnover: i128,
    high: i64,
    low: i64,
    trading_day: u32,
    /// Price and size of the last trade of any session.
    last: Option<(i64, u32)>,
    /// The latest source time of any trade, ns since the UNIX epoch; 0 if unknown.
    until_ns: u64,
}

impl Traded {
    pub(super) fn new(value: &MarketValue, until_ns: u64) -> Self {
        Self {
            volume: value.volume,
            trades: value.trades,
            turnover: value.turnover,
            high: value.high,
            low: value.low,
            trading_day: value.trading_day,
            last: (value.last != UNDEFINED_PRICE).then_some((value.last, value.last_size)),
            until_ns,
        }
    }

    pub(super) fn has_last(&self) -> bool {
        self.last.is_some()
    }

    /// Returns whether the last trade is a later one than that of the value `before`.
    pub(super) fn has_newer_last(&self, before: &Self) -> bool {
        self.last != before.last || self.trades > before.trades || self.until_ns > before.until_ns
    }

    /// Returns whether there are trades that the value `before` does not have. A volume that goes
    /// back is that of a hub that has restarted, whose trades come again.
    fn has_more_than(&self, before: &Self) -> bool {
        if self.only_rolls(before) {
            return false;
        }
        let is_more = self.volume > before.volume
            || self.trades > before.trades
            || self.until_ns > before.until_ns;
        let has_other_last = self.last.is_some() && self.last != before.last;
        is_more || has_other_last && (self.volume == before.volume || before.last.is_none())
    }

    /// Returns whether the hubs behind this one find more trades in it than in the value `before`,
    /// which they have, too.
    fn shows_more_than(&self, before: &Self) -> bool {
        !self.only_rolls(before) && (self.volume > before.volume || self.trades > before.trades)
    }

    /// Returns whether it has another trading day than the value `before`, or follows the begin of
    /// one, and no newer trade. The sum of several venues goes back to a day, and forward again,
    /// when one of them leaves and returns: its figures are then those of trades that were told.
    fn only_rolls(&self, before: &Self) -> bool {
        let rolls = self.trading_day != before.trading_day || before.trades == 0;
        rolls && self.until_ns != 0 && (self.until_ns, self.last) == (before.until_ns, before.last)
    }

    /// Returns the same with the last trade of the value `now`.
    fn with_last_of(&self, now: &Self) -> Self {
        Self {
            trades: self.trades.saturating_add(1),
            last: now.last,
            until_ns: now.until_ns,
            ..*self
        }
    }

    /// Returns whether these are the trades of the value `before`, as far as a record tells: one
    /// without figures gives the volume alone.
    fn is_same_as(&self, before: &Self, figures: Option<&Figures>) -> bool {
        match figures {
            Some(_) => {
                let trading_day = before.trading_day;
                Self {
                    trading_day,
                    ..*self
                } == *before
            }
            None => self.volume == before.volume,
        }
    }
}

/// What a topic has traded before a whole value replaces it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    own: Traded,
    /// The same of the symbol that the topic is a venue of.
    parent: Option<Traded>,
    /// Whether this session of the source has given the topic no value yet.
    is_first: bool,
}

impl Batch<'_> {
    /// Applies a whole value.
    #[cold]
    pub(super) fn update_whole(&mut self, record: &LastValue) {
        let (symbol, venue, message) = (record.symbol, record.source, Message::LastValue(*record));
        let Some(known) = self.symbols.get(symbol) else {
            return;
        };
        // A hub has had no value of the symbol, and names no venue. A recording of a hub says so
        // too, which is known to be one only from its first consolidated value on.
        if known.is_unbound() && is_nothing(record) {
            let only = self.only_topic(known);
            let Some(topic) = only.clone().or_else(|| self.own_name(known)) else {
                return;
            };
            let before = self.work.before(&topic);
            match only {
                Some(topic) => self.nothing(&topic, &message),
                None => self.note_traded_until(&topic, record),
            }
            return self.work.note_whole(&topic, record, &before);
        }
        if let Some(topic) = known.of_venue(venue).cloned() {
            let before = self.work.before(&topic);
            if self.work.apply(&topic, &message) {
                return self.work.note_whole(&topic, record, &before);
            }
        }
        self.work.whole_before = None;
        self.update_unbound(symbol, venue, &message);
    }

    /// Empties the topic of a symbol of which a hub has no value. The topic's venue stays.
    fn nothing(&mut self, topic: &Arc<Topic>, message: &Message) {
        topic.begin();
        topic.valued_in(*self.work.session);
        self.take_over_book(topic, 0);
        self.work.revive(topic, 0, (0, true));
        self.work.apply(topic, message);
    }

    /// Notes until when a symbol without a value has traded: its hub has restarted since, or one
    /// before that.
    fn note_traded_until(&self, topic: &Topic, record: &LastValue) {
        if self.work.is_own_or_left(topic) {
            let until_ns = record.figures.map_or(0, |figures| figures.traded_until_ns);
            if until_ns <= self.work.possible_until_ns {
                topic.traded_until(until_ns);
            }
        }
    }
}

impl Work<'_> {
    /// Returns what a topic has traded, before a whole value of it is applied.
    pub(super) fn before(&mut self, topic: &Topic) -> Before {
        self.is_last_told = false;
        let own = self.traded(topic);
        self.whole_before = Some((topic.number, own));
        Before {
            own,
            parent: topic.parent().map(|parent| self.traded(parent)),
            is_first: topic.valued_session() != *self.session,
        }
    }

    fn traded(&self, topic: &Topic) -> Traded {
        let value = self.market.board.value(topic.number).unwrap_or_default();
        Traded::new(&value, topic.newest_trade_ns())
    }

    /// Notes the trades of a whole value of a topic that have not come one by one: bars lack them.
    /// Tells the hubs behind this one, unless they find more trades in the value themselves.
    ///
    /// Of a further value in a session, all trades so far are known:
    ///
    /// * One of the stream has missed none, also if it has fewer. A venue gets a topic of its own
    ///   with those that have come as the symbol's, and a trading day may begin.
    /// * One of a snapshot has missed some if it has others. The messages before it are lost.
    ///
    /// In its first value of a session, no trade is known, unless all are those of the session
    /// before. The hub that gives it may have restarted, and its volume says nothing: it may be
    /// less than before, or the same by chance.
    pub(super) fn note_whole(&mut self, topic: &Arc<Topic>, record: &LastValue, before: &Before) {
        let new = self.traded(topic);
        let has_more = new.has_more_than(&before.own);
        let is_same = new.is_same_as(&before.own, record.figures.as_ref());
        let is_missing = match before.is_first {
            true => has_traded(record) && !(is_same && ends_at(record, before.own.until_ns)),
            false => self.is_snapshot && !is_same,
        };
        if !has_more && !is_missing {
            return;
        }
        let value = self.market.board.value(topic.number);
        let until_ns = traded_until_ns(topic, value.as_ref());
        // Without a time they are in no bar.
        if until_ns == 0 {
            return;
        }
        // As the hubs behind this one have it.
        let parent_now = topic.parent().map(|parent| self.traded(parent));
        if let Some(parent) = topic.parent() {
            parent.traded_until(until_ns);
        }
        // In another session of the source all of them are new. The figures may have none of them,
        // as where a trading day has begun since.
        let more = new.trades.saturating_sub(before.own.trades);
        let left_out = match (before.is_first, self.is_snapshot) {
            (true, _) => new.trades.max(1),
            (false, true) => more.max(1),
            (false, false) => more,
        };
        self.miss_trades(topic, until_ns, left_out);
        // Hubs behind this one find the trades that a value has more than the one before.
        if !new.shows_more_than(&before.own) || left_out > more {
            self.append_lost(topic, until_ns, left_out - more);
        }
        if let (Some(parent), Some(old), Some(now)) =
            (topic.parent().cloned(), before.parent, parent_now)
        {
            let told = match self.is_last_told {
                true => old.with_last_of(&now),
                false => old,
            };
            let shown = match now.only_rolls(&told) {
                true => 0,
                false => now.trades.saturating_sub(told.trades),
            };
            self.append_lost(&parent, until_ns, left_out.saturating_sub(shown));
        }
    }
}

/// Returns whether a hub's record is of a symbol without a value, and perhaps without a venue: that
/// has the number 0. Before a first value a venue with this number sends such a record too.
pub(super) fn is_nothing(record: &LastValue) -> bool {
    let nothing = LastValue {
        sequence: record.sequence,
        updates: record.updates,
        figures: record.figures.map(|figures| Figures {
            flags: figures.flags,
            traded_until_ns: figures.traded_until_ns,
            ..Figures::default()
        }),
        ..LastValue::new(record.symbol)
    };
    *record == nothing
}

/// Returns whether a record has trades.
fn has_traded(record: &LastValue) -> bool {
    let trades = record.figures.map_or(0, |figures| figures.trades);
    record.volume > 0 || trades > 0 || record.last != UNDEFINED_PRICE
}

/// Returns whether the latest trade of a record is known to be of this time.
fn ends_at(record: &LastValue, until_ns: u64) -> bool {
    let figures = record.figures.as_ref();
    figures.is_some_and(|figures| figures.traded_until_ns == until_ns)
}
