//! One instrument: its book by price, its place in its own sequence, and what is known of it.

use tidewire_calendar::date_number;
use tidewire_feed::wire::{
    Definition, Figures, LastValue, Name, Quote, ReferenceKind, TradingState, UNDEFINED_PRICE,
};

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

/// What is used rarely.
#[derive(Debug, Default)]
pub(crate) struct Details {
    pub(crate) symbol: Option<Name>,
    pub(crate) group: [u8; 6],
    pub(crate) asset: [u8; 6],
    pub(crate) currency: [u8; 4],
    pub(crate) tick: Option<i64>,
    pub(crate) lot_size: u32,
    pub(crate) scale: Scale,
    pub(crate) trading_state: TradingState,
    pub(crate) halt_reason: u32,
    pub(crate) statistics: Statistics,
    pub(crate) session: Session,
    /// Trading day of the session, in days since 1970-01-01.
    pub(crate) trade_date: Option<u16>,
    /// Volume that the published trades add up to since the last published total.
    pub(crate) volume_shown: u64,
    /// Sequences of the packets that last changed trade and volume, and the statistics.
    pub(crate) trades_at: u64,
    pub(crate) statistics_at: u64,
    /// Sequences of the packets in which the exchange last gave open, high and low; 0 for none.
    pub(crate) range_at: [u64; 3],
    /// The reference price of the last definition.
    pub(crate) defined_reference: Option<i64>,
    pub(crate) time_ns: u64,
    /// Entries that wait for a snapshot, in order of their own sequence without a hole.
    pub(crate) queue: Vec<BookEntry>,
    /// The first number of the queue, and the one after the last; equal if it is empty.
    pub(crate) queue_first: u32,
    pub(crate) queue_next: u32,
    /// Sequence of the packet of the queue's last entry.
    pub(crate) queue_at: u64,
    /// The snapshot loop that had it last.
    pub(crate) seen_in_loop: u64,
    /// Sequence of the packet with which the instrument appeared.
    pub(crate) made_at: u64,
    /// Sequence of the packet with which the session began. Figures of earlier snapshots are of the
    /// session before.
    pub(crate) session_from: u64,
    /// Number of the status of the channel that was the instrument's last.
    pub(crate) status_number: u64,
}

/// The session as it is shown: the exchange's statistics where it gives them, and the trades since.
/// Prices are the wire's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) open: Option<i64>,
    pub(crate) high: Option<i64>,
    pub(crate) low: Option<i64>,
    /// Received trades, without those that were cancelled.
    trades: u32,
    /// Their quantity.
    volume: u64,
    /// Sum of their price of the wire times quantity, 1 unit = 1e-9.
    turnover: i128,
    /// Condition of the last trade.
    pub(crate) condition: u32,
}

impl Session {
    /// Adds a trade.
    pub(crate) fn add(&mut self, price: i64, size: u32) {
        self.include(price);
        self.trades = self.trades.saturating_add(1);
        self.volume += u64::from(size);
        self.turnover += i128::from(price) * i128::from(size);
    }

    /// Extends open, high and low by the price of a trade.
    pub(crate) fn include(&mut self, price: i64) {
        self.open.get_or_insert(price);
        self.high = self.high.max(Some(price));
        self.low = Some(self.low.map_or(price, |low| low.min(price)));
    }

    /// Forgets the received trades if they have more quantity than the session: they are of the
    /// session before.
    pub(crate) fn forget_trades_beyond(&mut self, volume: u64) {
        if self.volume > volume {
            (self.trades, self.volume, self.turnover) = (0, 0, 0);
        }
    }

    /// Removes a trade that the exchange has cancelled. Its statistics say what that changes of
    /// open, high and low.
    pub(crate) fn cancel(&mut self, price: i64, size: u32) {
        if u64::from(size) > self.volume || self.trades == 0 {
            return; // a trade that was not received
        }
        self.trades -= 1;
        self.volume -= u64::from(size);
        self.turnover -= i128::from(price) * i128::from(size);
    }

    /// Returns the turnover in traders' prices of a session of this volume, if these are its
    /// trades.
    fn turnover_of(&self, volume: u64, scale: Scale) -> i128 {
        match volume {
            0 => 0,
            volume if volume == self.volume => scale.turnover(self.turnover),
            _ => TURNOVER_UNKNOWN,
        }
    }
}

/// Statistics of the session, as the exchange gives them. Prices are in units of 1e-9 in the
/// exchange's display format; [`Scale`] converts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Price and quantity of the last trade.
    pub last: Option<(i64, u32)>,
    /// Contracts traded in the session.
    pub volume: u64,
    /// Opening price of the session.
    pub open: Option<i64>,
    /// Indicative opening price, before the opening.
    pub indicative_open: Option<i64>,
    /// Highest traded price.
    pub high: Option<i64>,
    /// Lowest traded price.
    pub low: Option<i64>,
    /// Settlement price of the previous session: the reference of the change.
    pub reference: Option<i64>,
    /// Newest settlement price; it becomes the reference when the session ends.
    pub settlement: Option<i64>,
    /// Contracts cleared in the previous session.
    pub cleared_volume: Option<u64>,
    /// Open contracts at the end of the previous session.
    pub open_interest: Option<u64>,
    /// Highest price at which orders are accepted.
    pub high_limit: Option<i64>,
    /// Lowest price at which orders are accepted.
    pub low_limit: Option<i64>,
}

/// Converts prices of the wire into those that traders use: the product with the definition's
/// display factor. A corn future has 45,025 on the wire, and the factor 0.01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The display factor, 1 unit = 1e-9.
    factor: i64,
    /// `1e9 / factor`, if that is a whole number; otherwise 0.
    divisor: i64,
}

impl Default for Scale {
    fn default() -> Self {
        Self::new(UNIT)
    }
}

impl Scale {
    /// Creates the scale of a display factor, 1 unit = 1e-9. A factor of 0 or less means 1.
    pub fn new(factor: i64) -> Self {
        let factor = if factor > 0 { factor } else { UNIT };
        let divisor = if UNIT % factor == 0 { UNIT / factor } else { 0 };
        Self { factor, divisor }
    }

    /// Returns the price in units of 1e-9, rounded half away from zero. An undefined price stays
    /// undefined, and so does one that does not fit.
    #[inline]
    pub fn nanos(self, price: i64) -> i64 {
        if price == UNDEFINED_PRICE || self.divisor == 1 {
            return price;
        }
        if self.divisor != 0 {
            let half = if price < 0 {
                -(self.divisor / 2)
            } else {
                self.divisor / 2
            };
            return price.saturating_add(half) / self.divisor;
        }
        let product = i128::from(price) * i128::from(self.factor);
        let half = i128::from(if price < 0 { -(UNIT / 2) } else { UNIT / 2 });
        i64::try_from((product + half) / i128::from(UNIT)).unwrap_or(UNDEFINED_PRICE)
    }

    /// Returns a turnover of the wire in traders' prices.
    fn turnover(self, turnover: i128) -> i128 {
        let unit = i128::from(UNIT);
        let product = turnover.checked_mul(self.factor.into());
        let half = if turnover < 0 { -(unit / 2) } else { unit / 2 };
        product.map_or(TURNOVER_UNKNOWN, |product| {
            product.saturating_add(half) / unit
        })
    }

    pub(crate) fn nanos_of(self, price: Option<i64>) -> i64 {
        price.map_or(UNDEFINED_PRICE, |price| self.nanos(price))
    }
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
            rpt_seq: 0,
            published: Top::EMPTY,
            book: PriceBook::new(),
            details: Box::default(),
        }
    }

    /// Returns whether all values are right.
    pub(crate) fn is_right(&self) -> bool {
        self.state.is_live() && !self.is_state_doubtful && !self.is_confirming
    }

    /// Returns whether nothing has come about it.
    pub(crate) fn is_blank(&self) -> bool {
        let statistics = &self.details.statistics;
        let has_traded = statistics.last.is_some() || statistics.volume > 0;
        self.rpt_seq == 0 && self.details.figures_at() == 0 && !has_traded
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

    /// Returns all that is known, as a record that replaces earlier values.
    pub(crate) fn record(
        &mut self,
        top: Top,
        symbol: u32,
        source: u16,
        sequence: u64,
    ) -> LastValue {
        self.published = top;
        let details = &mut *self.details;
        let (scale, statistics) = (details.scale, &details.statistics);
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
            open: scale.nanos_of(details.session.open),
            figures: Some(details.figures()),
            ..LastValue::new(symbol)
        }
    }
}

impl Details {
    pub(crate) fn clear_queue(&mut self) {
        self.queue.clear();
        self.queue_first = 0;
        self.queue_next = 0;
    }

    /// Keeps an entry of the packet `sequence` until a snapshot arrives.
    pub(crate) fn keep(&mut self, entry: &BookEntry, sequence: u64) {
        let is_empty = self.queue_first == self.queue_next;
        if is_empty || entry.rpt_seq != self.queue_next || self.queue.len() >= QUEUE_MAX {
            // Only a snapshot of after the hole helps. A lower number has a wrong one before it.
            self.queue.clear();
            self.queue_first = entry.rpt_seq;
        }
        self.queue_next = entry.rpt_seq.wrapping_add(1);
        self.queue_at = sequence;
        self.queue.push(*entry);
    }

    /// Begins a session: its figures are empty, and the last settlement is its reference.
    /// `sequence` is that of the packet with which it begins.
    pub(crate) fn begin_session(&mut self, sequence: u64) {
        let statistics = &mut self.statistics;
        statistics.reference = statistics.settlement.or(statistics.reference);
        (statistics.open, statistics.indicative_open) = (None, None);
        (statistics.high, statistics.low) = (None, None);
        statistics.volume = 0;
        // The last trade stays.
        self.session = Session {
            condition: self.session.condition,
            ..Session::default()
        };
        self.session_from = sequence;
    }

    /// Returns the sequence of the packet that last changed a figure.
    pub(crate) fn figures_at(&self) -> u64 {
        self.trades_at.max(self.statistics_at)
    }

    /// The sequence of the packets begins again.
    pub(crate) fn forget_sequences(&mut self) {
        (self.made_at, self.session_from) = (0, 0);
        (self.trades_at, self.statistics_at) = (0, 0);
        self.range_at = [0; 3];
    }

    /// Returns the session's figures. The exchange does not give turnover and number of trades:
    /// they are those of the received trades.
    fn figures(&self) -> Figures {
        let (scale, statistics, session) = (self.scale, &self.statistics, &self.session);
        Figures {
            high: scale.nanos_of(session.high),
            low: scale.nanos_of(session.low),
            turnover: session.turnover_of(statistics.volume, scale),
            reference: scale.nanos_of(statistics.reference),
            trades: session.trades,
            condition: session.condition,
            reason: self.halt_reason,
            trading_day: self.trade_date.map_or(0, |days| date_number(days.into())),
            reference_kind: match statistics.reference {
                Some(_) => ReferenceKind::PREVIOUS_SETTLEMENT,
                None => ReferenceKind::NONE,
            },
            flags: 0,
            first_trade: UNDEFINED_PRICE,
        }
    }

    /// Returns the definition as the native feed has it, if the name is known.
    pub(crate) fn definition(&self, symbol: u32, source: u16) -> Option<Definition> {
        Some(Definition {
            symbol,
            source,
            source_time_ns: self.time_ns,
            open: self.scale.nanos_of(self.statistics.open),
            price_tick: self.scale.nanos_of(self.tick),
            lot_size: self.lot_size,
            currency: self.currency,
            name: self.symbol?,
        })
    }
}

/// The turnover of a session of which only the volume is known, as receivers of the native feed
/// take it.
const TURNOVER_UNKNOWN: i128 = i128::MIN / 2;
/// Entries of an instrument that wait for a snapshot at most, 32 bytes each.
const QUEUE_MAX: usize = 1 << 16;

/// One, in units of 1e-9.
const UNIT: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_multiplied_by_the_display_factor() {
        let scale = Scale::new(10_000_000);
        assert_eq!(scale.nanos(475_025_000_000_000), 4_750_250_000_000);
        assert_eq!(scale.nanos(-37_630_000_000_000), -376_300_000_000);
        assert_eq!(scale.nanos(UNDEFINED_PRICE), UNDEFINED_PRICE);
        assert_eq!(scale.nanos(150), 2, "half away from zero");
        assert_eq!(scale.nanos(-150), -2);
        assert_eq!(Scale::new(UNIT).nanos(7), 7);
        assert_eq!(Scale::new(0), Scale::default());
        let odd = Scale::new(3 * UNIT);
        assert_eq!(
            (odd.nanos(5), odd.nanos(i64::MAX - 1)),
            (15, UNDEFINED_PRICE)
        );
    }

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
