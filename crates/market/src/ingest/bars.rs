//! Adds trades to bars, and closes bars by the source's clock.

use std::sync::Arc;

use tidewire_feed::server::Steps;
use tidewire_feed::wire::{Certainty, Trade};

use super::Batch;
use super::apply::Work;
use super::venues::{all_numbered, numbered};
use crate::bars::{BarState, BarTopic, BarTrade, Outcome, Shown, TopicBars, publish};
use crate::board::VENUE_SEPARATOR;
use crate::topic::Topic;
use crate::venues::{is_consolidated, is_of_sum};
pub(crate) use sources::OpenBars;
use sources::{Due, Role};

mod sources;

impl Batch<'_> {
    /// Adds a trade that has been applied to the bars of its symbol.
    #[inline(never)]
    pub(super) fn update_bars(&mut self, trade: &Trade) {
        if self.work.is_repeated {
            return;
        }
        let Some(symbol) = self.symbols.get(trade.symbol) else {
            return;
        };
        let Some(topic) = symbol.of_venue(trade.source).cloned() else {
            return;
        };
        let trade = BarTrade {
            source_time_ns: trade.source_time_ns,
            receive_time_ns: self.work.receive_time_ns,
            sequence: self.work.journal.next_sequence() - 1,
            price: trade.price,
            size: trade.size,
        };
        self.add_to_bars(&topic, &trade);
        if topic.is_consolidated() {
            // With this trade its only venue got a topic of its own.
            let venue = topic.with_members(|venues| Some(venues.first()?.topic.clone()));
            if let Some(venue) = venue {
                self.add_to_bars(&venue, &trade);
            }
        }
        let parent = topic
            .parent()
            .filter(|parent| !self.gives_sum(&topic, parent));
        if let Some(other) = parent.cloned().or_else(|| topic.namesake()) {
            self.add_to_bars(&other, &trade);
        }
    }

    /// Closes the source's bars that have ended by a time of its stream, ns since the UNIX epoch; 0
    /// if the message has none.
    #[inline]
    pub(super) fn pass_time(&mut self, source_time_ns: u64) {
        if source_time_ns >= self.open_bars.due_ns {
            self.close_bars(source_time_ns);
        }
    }

    /// Returns whether the source gives the trades of a symbol's venue once more, as those of all
    /// venues: a hub does, and a recording of one.
    fn gives_sum(&self, venue: &Topic, symbol: &Topic) -> bool {
        if symbol.derived.bars().is_none() {
            return false;
        }
        symbol.with_members(|venues| {
            let is_own = |topic: &Topic| self.work.slot_owner(topic) == Some(self.work.source);
            let mut sums = venues
                .iter()
                .map(|other| &*other.topic)
                .filter(|other| other.is_consolidated_upstream() && is_own(other));
            // A hub before that one may give it a consolidated value, too, as one of its venues.
            sums.next().is_some_and(|sum| !std::ptr::eq(sum, venue))
        })
    }

    /// Notes that the bars of a venue, which has just got a topic at the hub before this one, lack
    /// its trades of before: they are in those of the symbol. Another source's symbol, or one of a
    /// publisher, may have the name of a venue's topic and be no venue. In a recording of a hub, a
    /// whole value begins a venue (`is_replaced`).
    pub(super) fn begin_behind_symbol(&mut self, topic: &Topic, is_replaced: bool) {
        let may_be_venue = self.venues.is_hub() || is_replaced;
        if !may_be_venue || topic.newest_trade_ns() != 0 {
            return;
        }
        let name = topic.definition().name;
        if let Some((symbol, venue)) = name.as_str().rsplit_once(VENUE_SEPARATOR)
            && let Some(symbol) = self.work.market.board.named(symbol)
            && topic.is_of(venue)
        {
            let is_only = symbol.is_of(venue) && self.work.is_own_or_left(&symbol);
            let until_ns = match is_only && !symbol.is_consolidated() {
                true => symbol.newest_trade_ns(),
                false => symbol.left_until_ns(venue),
            };
            if !is_only && until_ns != 0 {
                // Its trades of that time may come again.
                topic.traded_until(until_ns);
                topic.trades_may_repeat();
            }
            self.work.begin_behind(topic, until_ns);
        }
    }

    /// Notes that all trades of a venue of before a hub's restart may come again, if the hub has
    /// had several publishers of the venue: each may have the name `VENUE`, `VENUE#2` and so on in
    /// the next run. Which of the trades come again is not known then.
    pub(super) fn doubt_numbered(&mut self, topic: &Arc<Topic>) {
        let board = &self.work.market.board;
        let name = topic.definition().name;
        let Some((symbol, venue)) = name.as_str().rsplit_once(VENUE_SEPARATOR) else {
            return;
        };
        let first = venue.split_once('#').map_or(venue, |(first, _)| first);
        let first = format!("{symbol}{VENUE_SEPARATOR}{first}");
        let is_numbered = venue.contains('#') || board.has_name(&numbered(&first, 2));
        if !is_numbered || is_consolidated(venue) {
            return;
        }
        let symbol = board.named(symbol);
        let all = all_numbered(&first).filter_map(|name| board.named(&name));
        let until_ns = all.map(|topic| self.had_until_ns(&topic)).max();
        let symbol_ns = symbol.as_ref().map_or(0, |symbol| symbol.had_until_ns());
        let until_ns = until_ns.unwrap_or(0).max(symbol_ns);
        if until_ns == 0 {
            return;
        }
        topic.traded_until(until_ns);
        topic.trades_may_repeat();
        self.work.tell_lost(topic, until_ns);
        let Some(symbol) = symbol else { return };
        symbol.trades_may_repeat_again();
        self.work.tell_lost(&symbol, until_ns);
    }

    /// Returns the source time until which the trades of a topic may come again. If the source has
    /// given it no value in this session yet, these are all that it had.
    fn had_until_ns(&self, topic: &Topic) -> u64 {
        let is_of_before = topic.valued_session() != *self.work.session
            && topic.facts().source_name == *self.venues.feed()
            && self.work.is_own_or_left(topic);
        match is_of_before {
            true => topic.newest_trade_ns(),
            false => topic.had_until_ns(),
        }
    }

    /// Begins the bars of a topic again if its name may stand for another value than before: a hub
    /// gives such names in the order in which its sources come, and may have restarted.
    pub(super) fn renew_bars(&mut self, topic: &Topic) {
        if !self.venues.is_hub() || topic.newest_trade_ns() == 0 {
            return;
        }
        let name = topic.definition().name;
        let Some((_, venue)) = name.as_str().rsplit_once(VENUE_SEPARATOR) else {
            return;
        };
        let board = &self.work.market.board;
        let has_second = || board.has_name(&format!("{}#2", name.as_str()));
        let is_meant = venue.contains('#') || is_consolidated(venue) || has_second();
        if topic.parent().is_none() && is_meant {
            self.work.append_certainty(topic, 0, Certainty::OTHER, 0);
            self.work.forget_bars(topic);
        }
    }

    fn add_to_bars(&mut self, topic: &Topic, trade: &BarTrade) {
        let Some(all) = topic.derived.bars() else {
            return;
        };
        for bars in all.iter() {
            let mut state = bars.state.lock();
            if self.open_bars.is_closing() {
                self.close_if_due(bars, &mut state);
            }
            let was_partial = state.is_partial();
            let late = state.bars.late();
            match state
                .bars
                .trade(trade.source_time_ns, trade.price, trade.size)
            {
                Outcome::LeftOut if state.bars.late() == late => continue,
                Outcome::LeftOut => {
                    // The number of late trades is shown with the newest bar.
                    let version = state.change();
                    if let Some(shown) = state.shown() {
                        self.work
                            .publish_behind(bars, (&mut state, &shown), version);
                    }
                    continue;
                }
                Outcome::Added => {
                    if state.traded_by(self.work.source)
                        && let Some(end_ns) = state.bars.end_ns()
                    {
                        let number = bars.number();
                        self.open_bars.share(end_ns, number, Role::Trader);
                    }
                }
                Outcome::Began { closed } => {
                    if let Some(bar) = closed {
                        let shown = state.shown_closed(bar, was_partial);
                        let version = state.change();
                        self.work
                            .publish_behind(bars, (&mut state, &shown), version);
                    }
                    state.begins();
                    state.traded_by(self.work.source);
                    if let Some(end_ns) = state.bars.end_ns() {
                        self.open_bars.begin(end_ns, bars.number());
                    }
                }
            }
            state.note(trade);
            if let Some(shown) = state.shown() {
                let version = state.version();
                self.work
                    .publish_behind(bars, (&mut state, &shown), version);
            }
        }
    }

    /// Closes the bars of this source that have ended by its clock, some hundred in a batch. The
    /// others are closed before their own next trades, by later batches, or by sweeps.
    #[cold]
    fn close_bars(&mut self, now_ns: u64) {
        let now_ns = now_ns.max(self.open_bars.closing_ns);
        while self.bars_left > 0
            && let Some(due) = self.open_bars.take_due(now_ns)
        {
            self.bars_left -= 1;
            self.close_due(&due);
        }
        let is_left = self.open_bars.due_ns <= now_ns;
        self.open_bars.closing_ns = if is_left { now_ns } else { 0 };
    }

    /// Closes the bars that were due by the source's clock in its batches, which have not come to
    /// them.
    pub(super) fn close_left_bars(&mut self, steps: &mut Steps) {
        if self.open_bars.is_closing() && !steps.are_used_up() {
            let before = self.bars_left;
            self.close_bars(0);
            steps.spend(u64::from(before - self.bars_left) * BAR_STEPS);
        }
    }

    /// Closes a bar that is due, and those that have begun as this one, if they are the source's.
    fn close_due(&mut self, due: &Due) {
        let Some(bars) = self.work.market.bars.existing(due.number) else {
            return;
        };
        let is_continued = bars.state.lock().is_continued(due.end_ns);
        if self.may_close(due) {
            self.close_bar(&bars, &mut bars.state.lock(), due.end_ns);
        }
        if is_continued {
            for bars in self.continued_as(due) {
                self.close_bar(&bars, &mut bars.state.lock(), due.end_ns);
            }
        }
    }

    /// Closes a bar of this source that has a trade before its batch has come to it.
    #[cold]
    fn close_if_due(&mut self, bars: &BarTopic, state: &mut BarState) {
        if state.is_last_of(self.work.source)
            && let Some(end_ns) = state.bars.end_ns()
            && end_ns.saturating_add(GRACE_NS) <= self.open_bars.closing_ns
        {
            self.close_bar(bars, state, end_ns);
        }
    }

    /// Returns whether bars are those of a hub's sum beside other sources, and that hub, or one
    /// before it, is away. Its trades of meanwhile may never be told as those of the sum: if it
    /// comes back with a single venue, they are that venue's.
    fn is_sum_of_away(&self, bars: &BarTopic) -> bool {
        let symbol = std::str::from_utf8(bars.symbol());
        let topic = || self.work.market.bars.topic_of(bars.number());
        symbol.is_ok_and(is_of_sum)
            && topic().is_some_and(|topic| self.work.market.board.is_away(&topic))
    }

    fn close_bar(&mut self, bars: &BarTopic, state: &mut BarState, end_ns: u64) {
        // The next trade or the wall clock may have closed it.
        if state.bars.end_ns() != Some(end_ns) || state.bars.close(end_ns).is_none() {
            return;
        }
        if self.is_sum_of_away(bars) {
            state.may_lack_trades();
        }
        let version = state.change();
        if let Some(shown) = state.shown() {
            self.bars_left = self.bars_left.saturating_sub(CLOSED_COST);
            self.work.publish_behind(bars, (state, &shown), version);
        }
    }
}

impl Work<'_> {
    /// Returns whether no other source writes to a topic.
    pub(super) fn is_own_or_left(&self, topic: &Topic) -> bool {
        let owner = self.slot_owner(topic);
        owner.is_none_or(|owner| owner == self.source)
    }

    /// Begins the bars of a topic with the name `SYMBOL@VENUE` again if it is that venue's from now
    /// on, and was another symbol's before, or the other way round: the venue of its values changes
    /// from `before` to `now`.
    #[cold]
    pub(super) fn renew_named(&mut self, topic: &Topic, (before, now): (&str, &str)) {
        let name = topic.definition().name;
        let Some((_, venue)) = name.as_str().rsplit_once(VENUE_SEPARATOR) else {
            return;
        };
        let is_other = (before == venue) != (now == venue);
        if is_other && !before.is_empty() && topic.newest_trade_ns() != 0 {
            self.append_certainty(topic, 0, Certainty::OTHER, 0);
            self.forget_bars(topic);
        }
    }

    /// Notes that the bars of a topic, and of those with the same trades, miss trades until a
    /// source time, as many as `left_out` if that is not 0. Publishes those that change with it.
    #[cold]
    pub(super) fn miss_trades(&mut self, topic: &Topic, until_ns: u64, left_out: u32) {
        let namesake = topic.namesake();
        let parent = topic.parent().map(|parent| &**parent);
        let all = [Some(topic), parent, namesake.as_deref()];
        for topic in all.into_iter().flatten() {
            self.miss_own_trades(topic, until_ns, left_out);
        }
    }

    /// Notes that the bars of a topic, with which a hub's value goes on beside other sources, lack
    /// the trades of the topics that the value was in before.
    #[cold]
    pub(super) fn begin_behind_left(&mut self, topic: &Topic, left: &[Arc<Topic>]) {
        let Some(symbol) = topic.parent().filter(|_| self.is_hub_value(topic, left)) else {
            return;
        };
        let left = left.iter().map(|left| left.newest_trade_ns());
        let until_ns = self.hub_traded.entry(symbol.number).or_default();
        *until_ns = left.fold(*until_ns, u64::max);
        let until_ns = *until_ns;
        if topic.is_consolidated_upstream() {
            self.begin_behind(topic, until_ns);
        }
    }

    /// Returns whether a topic goes on with the value of a hub from other ones, or is all of it.
    fn is_hub_value(&self, topic: &Topic, left: &[Arc<Topic>]) -> bool {
        !left.is_empty() || topic.is_consolidated_upstream()
    }

    /// Notes that the bars of a topic, which is about to get its first value, lack trades until a
    /// source time; 0 if they do not. The hubs behind this one are told with that value.
    fn begin_behind(&mut self, topic: &Topic, until_ns: u64) {
        if until_ns != 0 {
            topic.begin_behind(until_ns);
            self.miss_own_trades(topic, until_ns, 0);
            self.untold_loss = Some((topic.number, until_ns));
        }
    }

    /// Tells the hubs behind this one what a topic lacks that has got its first value.
    pub(super) fn tell_behind(&mut self, topic: &Topic) {
        if let Some((number, until_ns)) = self.untold_loss.take()
            && number == topic.number
        {
            self.append_lost(topic, until_ns, 0);
        }
    }

    /// Notes that the open bars of a topic may lack trades from now on. Publishes those that are
    /// partial with it.
    #[cold]
    pub(super) fn may_lack_trades(&mut self, topic: &Topic) {
        self.miss_own_trades(topic, 0, 0);
    }

    fn miss_own_trades(&mut self, topic: &Topic, until_ns: u64, left_out: u32) {
        for bars in topic.derived.bars().into_iter().flat_map(TopicBars::iter) {
            let mut state = bars.state.lock();
            if state.miss(until_ns, left_out)
                && let Some(shown) = state.shown()
            {
                let version = state.version();
                self.publish_behind(bars, (&mut state, &shown), version);
            }
        }
    }

    /// Begins the bars of a topic again, which is another one from now on under the same name.
    #[cold]
    pub(super) fn forget_bars(&self, topic: &Topic) {
        for bars in topic.derived.bars().into_iter().flat_map(TopicBars::iter) {
            bars.state.lock().forget(topic.newest_trade_ns());
        }
    }

    /// Publishes a bar, and before it those that other sources have closed, whose news may come to
    /// the subscribers later than this one's.
    fn publish_behind(
        &mut self,
        bars: &BarTopic,
        (state, shown): (&mut BarState, &Shown),
        version: u64,
    ) {
        let (source, now_ns) = (self.source, self.receive_time_ns);
        while let Some((closed, version)) = state.next_closed(source, now_ns) {
            self.publish_bar(bars, state, &closed, version);
        }
        if shown.is_final && self.market.bars.has_venues(bars.number()) {
            state.note_closed(shown, source, now_ns);
        }
        self.publish_bar(bars, state, shown, version);
    }

    /// Publishes a bar, if a lane has subscribers.
    pub(super) fn publish_bar(
        &mut self,
        bars: &BarTopic,
        state: &BarState,
        shown: &Shown,
        version: u64,
    ) {
        let board = &self.market.board;
        publish(board, bars, (state, shown), version, &mut self.dispatch);
    }
}

/// Maximum bars that a batch looks at to close them by the source's clock.
pub(super) const BARS_A_BATCH: u32 = 4_096;
/// How many of them a bar costs that is closed: 512 bars take about a millisecond with subscribers.
const CLOSED_COST: u32 = 7;
/// Steps of a sweep that each of them takes.
const BAR_STEPS: u64 = 50;
/// How long after its end a bar is closed by other messages of its source: trades of one source
/// may be out of order by that.
const GRACE_NS: u64 = 50_000_000;
