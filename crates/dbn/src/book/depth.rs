//! The best price levels of a stream's symbols, as messages of the native feed.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use tidewire_book::shown::{Change, ShownSide, Total};
use tidewire_feed::wire::Level;

use super::Books;
use crate::{BidAsk, Record, RecordRef, UNDEFINED_PRICE, flag};

/// Turns the events of a stream into changes of the best price levels: those of orders, and
/// `mbp-10` records. Other records have no levels.
///
/// The work for an event of orders grows with the number of levels that it changes, not with the
/// number of levels that are shown.
#[derive(Debug)]
pub struct Depth {
    levels_max: u16,
    /// By publisher and symbol.
    shown: HashMap<(u16, u32), Shown>,
    /// The result, and what leads to it: the sides and prices of an event, and the changes of one
    /// side.
    levels: Vec<Level>,
    places: Vec<(bool, i64)>,
    changes: Vec<Change>,
}

/// What was given of one symbol at one publisher.
#[derive(Debug)]
struct Shown {
    /// The instrument id whose book of orders is shown; `None` if another record came last.
    book_of: Option<u32>,
    bids: ShownSide,
    asks: ShownSide,
}

impl Depth {
    /// Creates a follower of the best `levels_max` levels of each side.
    pub fn new(levels_max: u16) -> Self {
        Self {
            levels_max,
            shown: HashMap::new(),
            levels: Vec::new(),
            places: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Returns what a record has changed among the best levels, after `books` has applied it. A
    /// symbol's first levels begin with a clear.
    pub fn after(&mut self, record: &RecordRef<'_>, books: &mut Books) -> &[Level] {
        self.levels.clear();
        if self.levels_max == 0 {
            return &self.levels;
        }
        match record.mbo() {
            Some(order) if order.flags & flag::LAST != 0 => {
                let header = order.header;
                let (publisher, instrument) = (header.publisher_id, header.instrument_id);
                self.after_order(publisher, instrument, order.source_time_ns(), books);
            }
            Some(_) => {}
            None => self.after_other(record, books),
        }
        if let Some(last) = self.levels.last_mut() {
            last.is_last = 1;
        }
        &self.levels
    }

    fn after_order(
        &mut self,
        publisher: u16,
        instrument: u32,
        source_time_ns: u64,
        books: &mut Books,
    ) {
        let Some((symbol, book)) = books.book_to_show(publisher, instrument) else {
            return;
        };
        let mut is_all = book.take_changes(symbol, &mut self.places);
        let depth = usize::from(self.levels_max);
        let empty = self.empty(publisher, symbol, source_time_ns);
        let shown = show(&mut self.shown, &mut self.levels, &empty);
        is_all |= shown.book_of.replace(instrument) != Some(instrument);
        for (is_bid, side) in shown.sides() {
            let levels = book.sides.side(is_bid);
            self.changes.clear();
            if is_all {
                let best = levels.iter().take(depth).map(Total::of);
                side.replace(best, &mut self.changes);
            } else {
                let places = self.places.iter().filter(|place| place.0 == is_bid);
                for &(_, price) in places {
                    let total = levels.get(price).map(Total::of);
                    side.set(price, total, &mut self.changes);
                }
                side.trim(depth, &mut self.changes);
                let missing = depth.saturating_sub(side.len());
                let next = levels.iter_from(side.len()).take(missing);
                side.append(next.map(Total::of), &mut self.changes);
            }
            debug_assert_eq!(side.len(), levels.len().min(depth), "the best levels");
            tell(&mut self.changes, is_bid, &empty, &mut self.levels);
        }
    }

    fn after_other(&mut self, record: &RecordRef<'_>, books: &Books) {
        let fields = record.decode();
        let Record::Mbp10(mbp) = &fields else {
            return;
        };
        let header = record.header();
        let (publisher, instrument) = (header.publisher_id, header.instrument_id);
        let Some(symbol) = books.symbol(publisher, instrument) else {
            return;
        };
        let depth = usize::from(self.levels_max);
        let empty = self.empty(publisher, symbol, fields.source_time_ns());
        let shown = show(&mut self.shown, &mut self.levels, &empty);
        shown.book_of = None;
        for (is_bid, side) in shown.sides() {
            let totals = mbp.levels().map(|level| total_of(&level, is_bid));
            let real = totals.filter(|total| total.price != UNDEFINED_PRICE && total.size != 0);
            let mut best = Vec::from_iter(real.take(depth));
            side.sort(&mut best);
            self.changes.clear();
            side.replace(best.into_iter(), &mut self.changes);
            tell(&mut self.changes, is_bid, &empty, &mut self.levels);
        }
    }

    fn empty(&self, source: u16, symbol: u32, source_time_ns: u64) -> Level {
        Level {
            symbol,
            source,
            source_time_ns,
            depth: self.levels_max,
            ..Level::default()
        }
    }
}

impl Shown {
    fn sides(&mut self) -> [(bool, &mut ShownSide); 2] {
        [(true, &mut self.bids), (false, &mut self.asks)]
    }
}

/// Returns what was given of the symbol of `empty`. The first time, its book is cleared.
fn show<'a>(
    shown: &'a mut HashMap<(u16, u32), Shown>,
    levels: &mut Vec<Level>,
    empty: &Level,
) -> &'a mut Shown {
    shown
        .entry((empty.source, empty.symbol))
        .or_insert_with(|| {
            levels.push(Level {
                action: Level::CLEAR,
                ..*empty
            });
            Shown {
                book_of: None,
                bids: ShownSide::new(true),
                asks: ShownSide::new(false),
            }
        })
}

/// Appends the changes of a side: first the levels that are gone, then the others; the best first.
fn tell(changes: &mut [Change], is_bid: bool, empty: &Level, levels: &mut Vec<Level>) {
    let side = match is_bid {
        true => Level::BID,
        false => Level::ASK,
    };
    Change::sort(changes, is_bid);
    levels.extend(changes.iter().map(|change| Level {
        price: change.total.price,
        size: change.total.size,
        orders: change.total.orders,
        side,
        ..*empty
    }));
}

fn total_of(level: &BidAsk, is_bid: bool) -> Total {
    let (price, size, orders) = match is_bid {
        true => (level.bid, level.bid_size, level.bid_orders),
        false => (level.ask, level.ask_size, level.ask_orders),
    };
    Total {
        price,
        size,
        orders,
    }
}
