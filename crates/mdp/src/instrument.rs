//! One instrument: its book by price, its place in its own sequence, and what is known of it.

use tidewire_feed::wire::{LastValue, Quote, UNDEFINED_PRICE};

use crate::day::Event;
use crate::details::{Details, is_after};
use crate::levels::{Contradiction, IMPLIED_DEPTH_MAX, PriceLevel, PriceLevels, REAL_DEPTH_MAX};
use crate::schema::{MDEntryTypeBook, MDUpdateAction};

/// What is known of an instrument's place in its own sequence (`RptSeq`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The book is right.
    Live,
    /// The book is right, and the next number of the sequence may be any.
    LiveAnyNext,
    /// Packets were lost. If the next number follows, none of them was about this instrument.
    Doubtful,
    /// Entries were lost, or their beginning was not received. Entries wait for a snapshot.
    Recovering,
}

impl State {
    pub(crate) fn is_live(self) -> bool {
        matches!(self, State::Live | State::LiveAnyNext)
    }
}

/// One entry of an incremental refresh of the book by price, of any template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BookEntry {
    pub(crate) level: PriceLevel,
    pub(crate) rpt_seq: u32,
    pub(crate) number: u8,
    pub(crate) action: MDUpdateAction,
    pub(crate) kind: MDEntryTypeBook,
}

/// An instrument. The fields that every entry uses are in its first cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Instrument {
    pub(crate) state: State,
    /// Whether it is on the list of changed instruments.
    pub(crate) is_dirty: bool,
    pub(crate) is_defined: bool,
    /// The book is right again, and is published at the end of the event.
    pub(crate) is_confirming: bool,
    /// A change of the trading state may be lost: it has no number in the instrument's sequence.
    pub(crate) is_state_doubtful: bool,
    /// The beginning of a session may be lost: it has no number either. The figures may be of the
    /// session before.
    pub(crate) is_session_doubtful: bool,
    /// The last number of its own sequence.
    pub(crate) rpt_seq: u32,
    /// The last published top, in prices of the wire.
    published: Top,
    pub(crate) book: PriceBook,
    pub(crate) details: Box<Details>,
}

/// The real and the implied book.
#[derive(Debug)]
pub(crate) struct PriceBook {
    /// Whether the definition gave the depth: until then, levels beyond it may stand in the book.
    is_depth_known: bool,
    bids: PriceLevels<REAL_DEPTH_MAX>,
    offers: PriceLevels<REAL_DEPTH_MAX>,
    implied_bids: PriceLevels<IMPLIED_DEPTH_MAX>,
    implied_offers: PriceLevels<IMPLIED_DEPTH_MAX>,
}

/// The best level of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Top {
    pub(crate) bid: PriceLevel,
    pub(crate) offer: PriceLevel,
}

impl Top {
    pub(crate) const EMPTY: Self = Self {
        bid: PriceLevel::NONE,
        offer: PriceLevel::NONE,
    };
}

impl PriceBook {
    fn new() -> Self {
        Self {
            is_depth_known: false,
            bids: PriceLevels::new(),
            offers: PriceLevels::new(),
            implied_bids: PriceLevels::new(),
            implied_offers: PriceLevels::new(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bids.clear();
        self.offers.clear();
        self.implied_bids.clear();
        self.implied_offers.clear();
    }

    /// Sets the numbers of levels. Returns whether the book may be wrong, because it was built with
    /// more.
    pub(crate) fn set_depths(&mut self, real: u8, implied: u8) -> bool {
        self.is_depth_known = true;
        let bids = self.bids.set_depth(real);
        let offers = self.offers.set_depth(real);
        let implied_bids = self.implied_bids.set_depth(implied);
        let implied_offers = self.implied_offers.set_depth(implied);
        bids || offers || implied_bids || implied_offers
    }

    /// Applies an entry. Kinds that are no book by price change nothing.
    #[inline]
    pub(crate) fn apply(&mut self, entry: &BookEntry) -> Result<(), Contradiction> {
        let checks = self.is_depth_known;
        match entry.kind {
            MDEntryTypeBook::BID => update(&mut self.bids, entry, true, checks),
            MDEntryTypeBook::OFFER => update(&mut self.offers, entry, false, checks),
            MDEntryTypeBook::IMPLIED_BID => update(&mut self.implied_bids, entry, true, checks),
            MDEntryTypeBook::IMPLIED_OFFER => {
                update(&mut self.implied_offers, entry, false, checks)
            }
            MDEntryTypeBook::BOOK_RESET => {
                self.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Sets a level of a snapshot. Returns whether it is of a book by price.
    pub(crate) fn set(&mut self, kind: u8, number: u8, level: PriceLevel) -> bool {
        match MDEntryTypeBook(kind) {
            MDEntryTypeBook::BID => self.bids.set(number, level),
            MDEntryTypeBook::OFFER => self.offers.set(number, level),
            MDEntryTypeBook::IMPLIED_BID => self.implied_bids.set(number, level),
            MDEntryTypeBook::IMPLIED_OFFER => self.implied_offers.set(number, level),
            _ => return false,
        };
        true
    }

    /// Returns the best levels of the real and the implied book together: the better price, and
    /// the sum of both quantities at the same price.
    #[inline]
    pub(crate) fn top(&self) -> Top {
        Top {
            bid: better(self.bids.best(), self.implied_bids.best(), 1),
            offer: better(self.offers.best(), self.implied_offers.best(), -1),
        }
    }

    /// Returns the number of levels of a real side at most.
    pub(crate) fn depth(&self) -> u8 {
        self.bids.depth()
    }

    /// Returns whether every side has all levels up to its last, in the order of their prices.
    pub(crate) fn is_in_order(&self) -> bool {
        is_in_order(self.bids.as_slice(), true)
            && is_in_order(self.offers.as_slice(), false)
            && is_in_order(self.implied_bids.as_slice(), true)
            && is_in_order(self.implied_offers.as_slice(), false)
    }

    pub(crate) fn levels(&self, is_bid: bool) -> &[PriceLevel] {
        match is_bid {
            true => self.bids.as_slice(),
            false => self.offers.as_slice(),
        }
    }

    pub(crate) fn implied_levels(&self, is_bid: bool) -> &[PriceLevel] {
        match is_bid {
            true => self.implied_bids.as_slice(),
            false => self.implied_offers.as_slice(),
        }
    }
}

fn is_in_order(levels: &[PriceLevel], is_bid: bool) -> bool {
    let is_better = |pair: &[PriceLevel]| match is_bid {
        true => pair[0].price > pair[1].price,
        false => pair[0].price < pair[1].price,
    };
    levels.iter().all(|level| level.price != UNDEFINED_PRICE) && levels.windows(2).all(is_better)
}

#[inline(always)]
fn update<const N: usize>(
    levels: &mut PriceLevels<N>,
    entry: &BookEntry,
    is_bid: bool,
    checks: bool,
) -> Result<(), Contradiction> {
    let (number, price) = (entry.number, entry.level.price);
    let is_possible = match entry.action {
        _ if !checks => true,
        MDUpdateAction::NEW => price != UNDEFINED_PRICE && levels.takes_new(number, price, is_bid),
        MDUpdateAction::CHANGE => {
            price != UNDEFINED_PRICE && levels.takes_change(number, price, is_bid)
        }
        // Overlays of several levels may be out of order between two of them.
        MDUpdateAction::OVERLAY => price != UNDEFINED_PRICE,
        MDUpdateAction::DELETE => price == UNDEFINED_PRICE || levels.has(number, price),
        _ => true,
    };
    if !is_possible {
        return Err(Contradiction);
    }
    match entry.action {
        MDUpdateAction::CHANGE | MDUpdateAction::OVERLAY => {
            levels.change(entry.number, entry.level)
        }
        MDUpdateAction::NEW => levels.insert(entry.number, entry.level),
        MDUpdateAction::DELETE => levels.remove(entry.number),
        MDUpdateAction::DELETE_THRU => levels.remove_through(entry.number),
        MDUpdateAction::DELETE_FROM => levels.remove_from(entry.number),
        _ => Err(Contradiction),
    }
}

/// Returns the better of two levels; `sign` is 1 for bids and −1 for offers.
#[inline(always)]
fn better(real: PriceLevel, implied: PriceLevel, sign: i64) -> PriceLevel {
    if implied.price == UNDEFINED_PRICE {
        return real;
    }
    if real.price == UNDEFINED_PRICE {
        return implied;
    }
    match (real.price.cmp(&implied.price) as i64 * sign).signum() {
        1 => real,
        -1 => implied,
        _ => PriceLevel {
            size: real.size.saturating_add(implied.size),
            ..real
        },
    }
}

impl Instrument {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state,
            is_dirty: false,
            is_defined: false,
            is_confirming: false,
            is_state_doubtful: !state.is_live(),
            is_session_doubtful: !state.is_live(),
            rpt_seq: 0,
            published: Top::EMPTY,
            book: PriceBook::new(),
            details: Box::default(),
        }
    }

    /// Returns whether all values are right.
    pub(crate) fn is_right(&self) -> bool {
        !self.has_doubtful_figures() && !self.is_state_doubtful && !self.is_confirming
    }

    /// Returns whether entries about it may be lost, or the beginning of a session.
    #[inline]
    pub(crate) fn has_doubtful_figures(&self) -> bool {
        !self.state.is_live() || self.is_session_doubtful
    }

    /// Returns whether no entry about it may be missing.
    pub(crate) fn has_all_entries(&self) -> bool {
        self.state.is_live() && !self.details.needs_snapshot
    }

    /// Returns whether nothing has come about it.
    pub(crate) fn is_blank(&self) -> bool {
        let day = &self.details.day;
        let has_traded = day.statistics.last.is_some() || !day.is_blank();
        self.rpt_seq == 0 && self.details.figures_at == 0 && !has_traded
    }

    /// Applies what changes its figures. Returns whether a session begins with it.
    #[inline]
    pub(crate) fn apply(&mut self, sequence: u64, event: Event) -> bool {
        self.details.figures_at = sequence;
        let is_doubtful = self.has_doubtful_figures();
        self.details.apply(sequence, event, is_doubtful)
    }

    /// Forgets what waits for a snapshot of the figures, if they are right.
    pub(crate) fn settle_figures(&mut self) {
        if !self.has_doubtful_figures() {
            self.details.forget_waiting();
        }
    }

    /// Applies the entries that have waited to the book of a snapshot. Returns the last number of
    /// the instrument's own sequence.
    ///
    /// # Errors
    /// An entry contradicts the book, which is empty then.
    pub(crate) fn apply_queue(&mut self, mut rpt_seq: u32) -> Result<u32, Contradiction> {
        let queue = std::mem::take(&mut self.details.queue);
        let later = queue
            .iter()
            .filter(|entry| is_after(entry.rpt_seq, rpt_seq));
        for entry in later {
            if let Err(Contradiction) = self.book.apply(entry) {
                self.book.clear();
                self.details.clear_queue();
                return Err(Contradiction);
            }
        }
        if let Some(last) = queue
            .last()
            .filter(|entry| is_after(entry.rpt_seq, rpt_seq))
        {
            rpt_seq = last.rpt_seq;
        }
        Ok(rpt_seq)
    }

    /// Empties the book and begins the instrument's own sequence again.
    pub(crate) fn reset(&mut self, state: State) {
        self.state = state;
        self.is_confirming = false;
        self.rpt_seq = 0;
        self.book.clear();
        self.details.clear_queue();
    }

    /// Returns the quote of `top` if it differs from the last published one.
    #[inline]
    pub(crate) fn changed_quote(
        &mut self,
        top: Top,
        symbol: u32,
        source: u16,
        time_ns: u64,
    ) -> Option<Quote> {
        if top == self.published {
            return None;
        }
        self.published = top;
        self.details.time_ns = time_ns;
        let scale = self.details.scale;
        Some(Quote {
            symbol,
            source,
            source_time_ns: time_ns,
            bid: scale.nanos(top.bid.price),
            ask: scale.nanos(top.offer.price),
            bid_size: top.bid.size,
            ask_size: top.offer.size,
            bid_orders: top.bid.orders,
            ask_orders: top.offer.orders,
        })
    }

    /// Returns all that is known, as a record that replaces earlier values. Without `top`, the
    /// quote stays.
    pub(crate) fn record(
        &mut self,
        top: Option<Top>,
        symbol: u32,
        source: u16,
        sequence: u64,
    ) -> LastValue {
        let top = top.unwrap_or(self.published);
        self.published = top;
        let details = &mut *self.details;
        let (scale, statistics) = (details.scale, &details.day.statistics);
        details.volume_shown = statistics.volume;
        let (last, last_size) = statistics.last.unwrap_or((UNDEFINED_PRICE, 0));
        LastValue {
            source,
            source_time_ns: details.time_ns,
            sequence,
            bid: scale.nanos(top.bid.price),
            ask: scale.nanos(top.offer.price),
            bid_size: top.bid.size,
            ask_size: top.offer.size,
            bid_orders: top.bid.orders,
            ask_orders: top.offer.orders,
            last: scale.nanos(last),
            last_size,
            state: details.trading_state,
            volume: statistics.volume,
            open: scale.nanos_of(details.day.session.open),
            figures: Some(details.figures()),
            ..LastValue::new(symbol)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_no_right_book_can_have_is_a_contradiction() {
        let entry = |action, number, price| BookEntry {
            level: PriceLevel {
                price,
                size: 5,
                orders: 1,
            },
            rpt_seq: 1,
            number,
            action,
            kind: MDEntryTypeBook::BID,
        };
        let (new, change, delete) = (
            MDUpdateAction::NEW,
            MDUpdateAction::CHANGE,
            MDUpdateAction::DELETE,
        );
        let mut book = PriceBook::new();
        assert!(!book.set_depths(10, 2));
        for (number, price) in [(1, 50), (2, 40), (2, 45)] {
            assert_eq!(book.apply(&entry(new, number, price)), Ok(()));
        }
        let before: Vec<_> = book.levels(true).to_vec();
        for (action, number, price) in [
            (new, 2, 60),
            (new, 2, 50),
            (new, 1, 45),
            (new, 1, UNDEFINED_PRICE),
            (change, 2, 51),
            (change, 1, UNDEFINED_PRICE),
            (delete, 1, 45),
            (MDUpdateAction(255), 1, 50),
        ] {
            let applied = book.apply(&entry(action, number, price));
            assert_eq!(applied, Err(Contradiction), "{action:?} {number} {price}");
        }
        assert_eq!(book.levels(true), before);
        for (action, number, price) in [(change, 1, 50), (delete, 1, 50), (delete, 1, i64::MAX)] {
            assert_eq!(book.apply(&entry(action, number, price)), Ok(()));
        }
    }

    #[test]
    fn the_top_is_the_better_of_real_and_implied() {
        let level = |price, size| PriceLevel {
            price,
            size,
            orders: 1,
        };
        let (worse, best) = (level(9, 1), level(10, 2));
        assert_eq!(better(worse, best, 1), best);
        assert_eq!(better(worse, best, -1), worse);
        assert_eq!(better(best, level(10, 3), 1), level(10, 5));
        assert_eq!(better(PriceLevel::NONE, best, 1), best);
        assert_eq!(better(best, PriceLevel::NONE, -1), best);
    }
}
