//! Trading sessions: when the day of a symbol begins, and from which price its change is measured.

use std::collections::HashMap;

use tidewire_calendar::date_number;
use tidewire_feed::wire::{ReferenceKind, SessionStart};

use crate::{OhlcvRecord, Publisher, StatisticsRecord, UNDEFINED_PRICE, UNDEFINED_TIME};

#[cfg(test)]
mod tests;

/// The sessions of all symbols of a stream, each symbol at each publisher for itself.
///
/// * A session begins with the first record in a later trading day of the publisher
///   ([`Publisher::calendar`]). A late record of an earlier day changes nothing.
/// * Its reference price is the newest one of the days before it: a settlement or close of a
///   statistics record, else the close of a daily bar. One that is older than the session before
///   is not used. In one day the settlement comes first, then the close, then the bar.
/// * Without such a price there is no reference: the receiver measures from the session's open,
///   which is its first trade unless a statistics record gives an opening price.
#[derive(Debug, Default)]
pub struct Sessions {
    places: HashMap<SymbolKey, u32>,
    states: Vec<SessionState>,
    /// Key and place of the session used last.
    last: Option<(SymbolKey, usize)>,
}

/// A publisher and a symbol.
type SymbolKey = (u16, u32);

#[derive(Debug)]
struct SessionState {
    /// No trade of the day has been told.
    awaits_trade: bool,
    /// End of the day, ns since the UNIX epoch; 0 before the first one, 1 if it is unknown.
    end_ns: u64,
    /// The day and the one before it that had a session, in days since 1970-01-01; `i32::MIN` for
    /// none.
    day: i32,
    day_before: i32,
    /// The reference that the receiver knows.
    told: Reference,
    /// The opening price that the receiver knows, or `UNDEFINED_PRICE`.
    told_open: i64,
    /// What the stream has said of prices; `None` before the first one.
    prices: Option<Box<[DayPrices; DAYS_KEPT]>>,
}

/// A reference price and its kind; no price is `ReferenceKind::NONE`.
type Reference = (ReferenceKind, i64);

/// What a stream has said of one trading day, in units of 1e-9.
#[derive(Debug, Clone, Copy)]
struct DayPrices {
    /// In days since 1970-01-01.
    day: i32,
    /// By [`PriceKind`].
    prices: [i64; 4],
}

/// A price that a stream says of a day, the best reference first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PriceKind {
    Settlement,
    Close,
    BarClose,
    Open,
}

impl Sessions {
    /// Creates an empty set of sessions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether [`enter`](Self::enter) may have a start to tell.
    #[inline]
    pub fn is_due(&mut self, source: u16, symbol: u32, time_ns: u64, is_trade: bool) -> bool {
        let place = match self.last {
            Some((key, place)) if key == (source, symbol) => place,
            _ => self.find_or_make(source, symbol),
        };
        let state = &self.states[place];
        time_ns >= state.end_ns || is_trade && state.awaits_trade
    }

    /// Returns the start of a session if `time_ns` (ns since the UNIX epoch) is in a later trading
    /// day than all times of the symbol before, or if this is the first trade of the day.
    ///
    /// The receiver may have got another file of the day before. So the first message of a day
    /// begins it only there where it has not begun ([`SessionStart::BEGINS_DAY`]), and the first
    /// trade also where the same trades come again ([`SessionStart::BEGINS_DAY_OR_AGAIN`]).
    pub fn enter(
        &mut self,
        source: u16,
        symbol: u32,
        time_ns: u64,
        is_trade: bool,
    ) -> Option<SessionStart> {
        let place = self.find_or_make(source, symbol);
        let is_later = time_ns >= self.states[place].end_ns;
        if is_later && !self.begin(place, source, time_ns) {
            return None;
        }
        let state = &mut self.states[place];
        let rolls = match (is_later, is_trade && state.awaits_trade) {
            (true, _) if state.day == i32::MIN => SessionStart::BEGINS,
            (_, true) => SessionStart::BEGINS_DAY_OR_AGAIN,
            (true, false) => SessionStart::BEGINS_DAY,
            (false, false) => return None,
        };
        state.awaits_trade = rolls == SessionStart::BEGINS_DAY;
        // The receiver may forget the open with the session: the caller asks for it.
        state.told_open = UNDEFINED_PRICE;
        Some(SessionStart {
            rolls,
            ..state.message(source, symbol, time_ns)
        })
    }

    /// Returns whether a statistics record gives an opening price, settlement or close, of a day
    /// that can be meant. `time_ns` is the record's time.
    pub(crate) fn uses(statistic: &StatisticsRecord, time_ns: u64) -> bool {
        price_of(statistic, time_ns).is_some()
    }

    /// Takes the price of a statistics record. The caller then enters the record's time
    /// (`time_ns`), and asks for the [`changed`](Self::changed) reference.
    pub(crate) fn note_statistic(
        &mut self,
        symbol: u32,
        statistic: &StatisticsRecord,
        time_ns: u64,
    ) {
        if let Some((day, kind, price)) = price_of(statistic, time_ns) {
            self.note(statistic.header.publisher_id, symbol, day, kind, price);
        }
    }

    /// Takes the close of a daily bar.
    pub(crate) fn note_bar(&mut self, symbol: u32, bar: &OhlcvRecord) {
        let day = (bar.header.ts_event / DAY_NS) as i32;
        let source = bar.header.publisher_id;
        self.note(source, symbol, day, PriceKind::BarClose, bar.close);
    }

    /// Returns what the receiver of a symbol's session does not know yet: another reference, or
    /// that there is none, and another open, or that there is none. `time_ns` is the time of the
    /// record that says it.
    pub(crate) fn changed(
        &mut self,
        source: u16,
        symbol: u32,
        time_ns: u64,
    ) -> impl Iterator<Item = SessionStart> + use<> {
        let place = self.find_or_make(source, symbol);
        let state = &mut self.states[place];
        let mut changes = [None; 2];
        if state.day != i32::MIN {
            let reference = state.reference();
            if reference != std::mem::replace(&mut state.told, reference) {
                changes[0] = Some(state.message(source, symbol, time_ns));
            }
            let open = state.price(state.day, PriceKind::Open);
            let open = open.unwrap_or(UNDEFINED_PRICE);
            if open != std::mem::replace(&mut state.told_open, open) {
                changes[1] = Some(SessionStart {
                    kind: ReferenceKind::OPEN,
                    reference: open,
                    ..state.message(source, symbol, time_ns)
                });
            }
        }
        changes.into_iter().flatten()
    }

    fn note(&mut self, source: u16, symbol: u32, day: i32, kind: PriceKind, price: i64) {
        let place = self.find_or_make(source, symbol);
        let state = &mut self.states[place];
        let days = state
            .prices
            .get_or_insert_with(|| Box::new([DayPrices::EMPTY; DAYS_KEPT]));
        let found = match days.iter().position(|prices| prices.day == day) {
            Some(found) => found,
            // It is not known here.
            None if price == UNDEFINED_PRICE => return,
            None => {
                // The oldest day goes, if it is older than this one.
                let oldest = (0..DAYS_KEPT).min_by_key(|&place| days[place].day);
                let Some(oldest) = oldest.filter(|&place| days[place].day < day) else {
                    return;
                };
                days[oldest] = DayPrices {
                    day,
                    ..DayPrices::EMPTY
                };
                oldest
            }
        };
        days[found].prices[kind as usize] = price;
    }

    /// Begins the day of a time. Returns whether one begins.
    #[cold]
    fn begin(&mut self, place: usize, source: u16, time_ns: u64) -> bool {
        let state = &mut self.states[place];
        if matches!(time_ns, 0 | UNDEFINED_TIME) {
            if state.end_ns > 0 {
                return false;
            }
            // The first known time ends it.
            state.end_ns = 1;
        } else {
            let day = Publisher::calendar(source).day_of(time_ns);
            debug_assert!(day.days > state.day, "the days of a symbol ascend");
            state.day_before = state.day;
            state.day = day.days;
            state.end_ns = day.end_ns;
            state.told = state.reference();
        }
        state.awaits_trade = true;
        true
    }

    fn find_or_make(&mut self, source: u16, symbol: u32) -> usize {
        let key = (source, symbol);
        let place = *self.places.entry(key).or_insert_with(|| {
            self.states.push(SessionState::new());
            (self.states.len() - 1) as u32
        }) as usize;
        debug_assert!(place < self.states.len(), "a place is that of a state");
        self.last = Some((key, place));
        place
    }
}

impl SessionState {
    fn new() -> Self {
        Self {
            awaits_trade: false,
            end_ns: 0,
            day: i32::MIN,
            day_before: i32::MIN,
            told: NO_REFERENCE,
            told_open: UNDEFINED_PRICE,
            prices: None,
        }
    }

    /// Returns a message with the reference that is told.
    fn message(&self, source: u16, symbol: u32, time_ns: u64) -> SessionStart {
        SessionStart {
            symbol,
            source,
            source_time_ns: time_ns,
            reference: self.told.1,
            trading_day: date_number(self.day.into()),
            kind: self.told.0,
            rolls: SessionStart::KEEPS,
        }
    }

    /// Returns the best reference for the day that is known, besides its open.
    fn reference(&self) -> Reference {
        let known = self.prices.iter().flat_map(|days| days.iter());
        let before = known.filter(|prices| (self.day_before..self.day).contains(&prices.day));
        let newest = before
            .filter_map(|prices| Some((prices.day, prices.reference()?)))
            .max_by_key(|&(day, _)| day);
        newest.map_or(NO_REFERENCE, |(_, reference)| reference)
    }

    fn price(&self, day: i32, kind: PriceKind) -> Option<i64> {
        let days = self.prices.as_deref()?;
        days.iter().find(|prices| prices.day == day)?.price(kind)
    }
}

impl DayPrices {
    const EMPTY: DayPrices = DayPrices {
        day: i32::MIN,
        prices: [UNDEFINED_PRICE; 4],
    };

    fn price(&self, kind: PriceKind) -> Option<i64> {
        Some(self.prices[kind as usize]).filter(|&price| price != UNDEFINED_PRICE)
    }

    /// Returns what the day's prices are to the day behind it.
    fn reference(&self) -> Option<Reference> {
        let close = || {
            self.price(PriceKind::Close)
                .or_else(|| self.price(PriceKind::BarClose))
        };
        match self.price(PriceKind::Settlement) {
            Some(price) => Some((ReferenceKind::PREVIOUS_SETTLEMENT, price)),
            None => Some((ReferenceKind::PREVIOUS_CLOSE, close()?)),
        }
    }
}

/// Returns what a statistics record says: a day in days since 1970-01-01, and its price, undefined
/// if the venue takes it back.
fn price_of(statistic: &StatisticsRecord, time_ns: u64) -> Option<(i32, PriceKind, i64)> {
    let kind = match statistic.statistic {
        OPENING_PRICE => PriceKind::Open,
        SETTLEMENT_PRICE => PriceKind::Settlement,
        CLOSE_PRICE => PriceKind::Close,
        _ => return None,
    };
    let price = match (statistic.update_action, statistic.price) {
        (DELETED, _) => UNDEFINED_PRICE,
        (_, UNDEFINED_PRICE) => return None,
        (_, price) => price,
    };
    let calendar = Publisher::calendar(statistic.header.publisher_id);
    let today = (time_ns != 0).then(|| calendar.day_of(time_ns).days);
    let day = match statistic.ts_reference {
        0 | UNDEFINED_TIME => today?,
        // Databento gives a date as its midnight in UTC.
        date_ns if date_ns.is_multiple_of(DAY_NS) => (date_ns / DAY_NS) as i32,
        reference_ns => calendar.day_of(reference_ns).days,
    };
    let is_possible = today.is_none_or(|today| day <= today.saturating_add(AHEAD_DAYS_MAX));
    is_possible.then_some((day, kind, price))
}

const NO_REFERENCE: Reference = (ReferenceKind::NONE, UNDEFINED_PRICE);
/// Days of which prices are kept: the session's, the one before it, and one between or behind.
const DAYS_KEPT: usize = 3;
const DAY_NS: u64 = 86_400_000_000_000;

/// Days from a statistic to the day that it speaks of: a holiday is between them.
const AHEAD_DAYS_MAX: i32 = 7;

/// Databento's numbers of statistics.
const OPENING_PRICE: u16 = 1;
const SETTLEMENT_PRICE: u16 = 3;
const CLOSE_PRICE: u16 = 11;
/// Databento's number of a statistic that is deleted.
const DELETED: u8 = 2;
