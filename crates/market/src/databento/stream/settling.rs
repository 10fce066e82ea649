//! What a session does once for each topic after its subscriptions have changed: it finds out what
//! is wanted of the topic, and takes the current values of what was not followed before.
//!
//! A lane does a slice of it in a turn, so a board of a million symbols holds up no other client.
//! The client's records wait meanwhile.

use tidewire_dbn::databento::{Schema, error_code};
use tidewire_feed::journal::Journal;
use tidewire_feed::wire::TradingState;

use super::super::missed::Missed;
use super::super::selection::{Chosen, Concerned};
use super::derived::BARS;
use super::{PRICED, Stream};
use crate::bars::Interval;
use crate::market::Market;
use crate::topic::Topic;

/// The topics that are still to be visited.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// All topics from this one on.
    from: Option<u32>,
    /// And these.
    listed: Vec<u32>,
    /// Whether they are sorted, the first one last, and each is there once.
    is_sorted: bool,
}

/// The state of the work.
#[derive(Debug, Default)]
pub(super) struct Settling {
    walk: Walk,
    /// The next topic of the search for futures.
    sought: u32,
    /// Whether continuous symbols are looked at again, because messages were skipped.
    is_refresh: bool,
    /// At the start of a replay: from when on its trades are known, ns since the UNIX epoch.
    known_from_ns: Option<u64>,
    /// Whether new symbols may be unknown.
    is_new: bool,
    /// The next sequence of the journal when this work began: what the client has asked for begins
    /// there, and not at its position, which may be an earlier one.
    begins_at: Option<u64>,
}

impl Walk {
    /// Adds topics.
    pub(super) fn add(&mut self, concerned: Concerned) {
        match concerned {
            Concerned::All => (self.from, self.listed) = (Some(0), Vec::new()),
            Concerned::Listed(_) if self.from == Some(0) => {}
            Concerned::Listed(numbers) if self.listed.len() + numbers.len() <= LISTED_MAX => {
                self.listed.extend(numbers);
                self.is_sorted = false;
            }
            Concerned::Listed(_) => self.add(Concerned::All),
        }
    }

    /// Adds all topics from this one on.
    fn add_from(&mut self, first: u32) {
        self.from = Some(self.from.map_or(first, |from| from.min(first)));
        self.is_sorted = false;
    }

    /// Takes the next of the board's `count` topics.
    pub(super) fn next(&mut self, count: u32) -> Option<u32> {
        if !std::mem::replace(&mut self.is_sorted, true) {
            // Several subscriptions may name a topic, and all topics are visited anyway.
            let from = self.from.unwrap_or(u32::MAX);
            self.listed.retain(|&number| number < from);
            self.listed.sort_unstable_by(|one, other| other.cmp(one));
            self.listed.dedup();
        }
        if let Some(number) = self.listed.pop() {
            return Some(number);
        }
        let number = self.from?;
        self.from = (number < count).then_some(number + 1);
        (number < count).then_some(number)
    }

    pub(super) fn is_over(&self) -> bool {
        self.from.is_none() && self.listed.is_empty()
    }
}

impl Settling {
    fn is_over(&self) -> bool {
        self.walk.is_over() && !self.is_new && !self.is_refresh
    }
}

impl Stream {
    /// Visits topics after a subscription was added or removed.
    pub(super) fn settle_later(&mut self, concerned: Concerned, is_new: bool) {
        self.settling.walk.add(concerned);
        self.settling.is_new |= is_new;
    }

    /// Visits the topics that the subscriptions concern, at the start of the session. The first
    /// slice is taken at once: small boards are known as of this place in the journal.
    pub(super) fn settle_at_start(
        &mut self,
        market: &Market,
        known_from_ns: Option<u64>,
        journal: &Journal,
    ) {
        self.settling.known_from_ns = known_from_ns;
        self.settling.begins_at = Some(journal.next_sequence());
        match known_from_ns {
            Some(from_ns) => self.bars.note_missed_of_all(missed_before(from_ns)),
            None => {
                if let Some(&until_ns) = market.recording.recorded_until_ns.get() {
                    self.bars.note_recorded(until_ns);
                }
            }
        }
        self.settling.is_new = true;
        self.visit_new(market);
        self.settle(market);
    }

    /// Visits all topics that are followed, after messages were skipped, and those that may have
    /// been defined in them.
    pub(super) fn settle_again(&mut self, market: &Market, journal: &Journal) {
        self.selection.catch_up();
        self.settling.begins_at = Some(journal.next_sequence());
        self.settling.is_refresh = true;
        let followed = self.selection.followed();
        self.settling.walk.add(Concerned::Listed(followed.clone()));
        self.opening.add(Concerned::Listed(followed));
        self.visit_new(market);
        self.settle(market);
    }

    /// Visits the topics that the board has got since the last call.
    fn visit_new(&mut self, market: &Market) {
        let count = market.board.count();
        let first = self.looked_until.replace(count).unwrap_or(count);
        if first < count {
            self.settling.walk.add_from(first);
            self.opening.add_from(first);
        }
    }

    /// Does the next slice. Returns whether more is left.
    pub(super) fn settle(&mut self, market: &Market) -> bool {
        let begins = self.settling.is_new && self.settling.begins_at.is_none();
        // What the first slice takes is of this place.
        let journal = begins.then(|| market.journal.lock());
        if let Some(journal) = &journal {
            self.settling.begins_at = Some(journal.next_sequence());
        }
        if self.selection.is_seeking() && self.seek(market) || self.resolve_found() {
            return true;
        }
        if self.settling.is_over() {
            return false;
        }
        if self.visit(market) || self.selection.look_at_continuous(SLICE_TOPICS as usize) {
            return true;
        }
        if self.settling.is_new
            && let Some(text) = self.selection.take_unknown()
        {
            self.note_error(error_code::SYMBOL_RESOLUTION_FAILED, text);
        }
        self.settling = Settling::default();
        false
    }

    /// Looks for futures of continuous symbols. Returns whether more topics are left.
    fn seek(&mut self, market: &Market) -> bool {
        let (board, first) = (&market.board, self.settling.sought);
        let until = board.count().min(first + SLICE_TOPICS);
        for number in first..until {
            if let Some(topic) = board.topic(number) {
                self.selection.seek(board, &topic);
            }
        }
        self.settling.sought = until;
        let more = until < board.count();
        if !more {
            self.settling.sought = 0;
            self.selection.end_seeking();
        }
        more
    }

    /// Resolves the continuous symbols whose futures have been found. Returns whether more are
    /// left.
    fn resolve_found(&mut self) -> bool {
        for _ in 0..SLICE_TOPICS / 4 {
            let Some(found) = self.selection.resolve_found() else {
                return false;
            };
            self.settling.walk.add(Concerned::Listed(found.clone()));
            self.opening.add(Concerned::Listed(found));
        }
        true
    }

    /// Visits the next topics. Returns whether more are left.
    fn visit(&mut self, market: &Market) -> bool {
        let (board, mut left) = (&market.board, SLICE_LOOKUPS);
        let (count, lookups) = (board.count(), self.selection.lookups() + TOPIC_LOOKUPS);
        while left > 0
            && let Some(number) = self.settling.walk.next(count)
        {
            if let Some(topic) = board.topic(number) {
                self.settle_topic(market, &topic);
            }
            left = left.saturating_sub(lookups);
        }
        !self.settling.walk.is_over()
    }

    fn settle_topic(&mut self, market: &Market, topic: &Topic) {
        let number = topic.number;
        let before = self.selection.of(number);
        let now = self.selection.resolve(topic);
        if (before, now) == (Chosen::default(), Chosen::default()) {
            return;
        }
        let begins = |schemas: u16| now.follows(schemas) && !before.follows(schemas);
        let known_from_ns = self.settling.known_from_ns;
        // A replay computes its own prices.
        let is_replayed = known_from_ns.is_some() && now.replayed | now.watched != 0;
        if begins(PRICED) && !is_replayed {
            self.take_prices_of(market, number, u64::MAX);
        } else if begins(PRICED) && self.past.is_none() {
            // What has not changed within the journal was the same before it.
            self.take_prices_of(market, number, self.cursor);
        }
        let status = Schema::Status.bit();
        let is_current = known_from_ns.is_none() || now.replayed & status == 0;
        if begins(status) && is_current {
            let state = board_state(market, number);
            let _ = self.note_state(number, state, now.schemas | now.watched);
        }
        if begins(BARS) {
            match known_from_ns {
                Some(from_ns) if (now.replayed | now.watched) & BARS != 0 => {
                    self.bars.note_missed(number, missed_before(from_ns));
                }
                _ => self.note_traded(market, number),
            }
        }
        if before != now && before.follows(u16::MAX) {
            self.leave(number, now);
        }
        let new = now.schemas & !before.schemas & !now.replayed & !BARS;
        match self.settling.begins_at {
            Some(first) if first > self.cursor && known_from_ns.is_none() => {
                self.told_until.note(number, new, first - 1);
            }
            _ => self.told_until.begin(number, new & now.snapshots),
        }
    }

    /// Takes what the client knows of a topic from the board, after messages were skipped. It is
    /// of one place in the journal, whose lock the caller has.
    pub(super) fn settle_at(&mut self, market: &Market, number: u32, _: &Journal) {
        let chosen = self.selection.of(number);
        if chosen.follows(PRICED) {
            self.take_prices_of(market, number, u64::MAX);
        }
        let state = board_state(market, number);
        let _ = self.note_state(number, state, chosen.schemas | chosen.watched);
        if chosen.follows(BARS) {
            self.note_traded(market, number);
        }
    }

    /// Ends the book and the bars of a topic that are no longer wanted.
    pub(super) fn leave(&mut self, number: u32, now: Chosen) {
        if !self.wants_book(now) {
            self.depth.leave(number);
        }
        for interval in Interval::ALL {
            if !now.follows(Schema::BARS[interval as usize].bit()) {
                self.bars.leave(number, interval);
            }
        }
    }
}

/// Returns the trades before the start of a replay.
fn missed_before(from_ns: u64) -> Missed {
    let last_ns = from_ns.saturating_sub(1);
    Missed::new(last_ns, last_ns)
}

fn board_state(market: &Market, number: u32) -> TradingState {
    let value = market.board.value(number);
    TradingState(value.map_or(0, |value| value.status.state))
}

/// Maximum number of listed topics; where there are more, all are visited.
const LISTED_MAX: usize = 1 << 20;
/// Topics looked at in a slice. A lane does a few slices in a turn, each in less than 2 ms.
pub(super) const SLICE_TOPICS: u32 = 4_096;
/// What a topic costs beside the lookups of its name, in lookups.
const TOPIC_LOOKUPS: usize = 4;
/// Lookups of a slice: those of [`SLICE_TOPICS`] topics with one subscription.
const SLICE_LOOKUPS: usize = (TOPIC_LOOKUPS + 1) * SLICE_TOPICS as usize;

#[cfg(test)]
mod tests;
