//! The best price levels of a stream's instruments, as messages of the native feed.

use std::collections::HashMap;

use tidewire_feed::wire::Level;

use super::{Books, key};
use crate::{BidAsk, Record, RecordRef, UNDEFINED_PRICE, flag};

/// Turns the events of a stream into changes of the best price levels: those of orders, and
/// `mbp-10` records. Other records have no levels.
#[derive(Debug)]
pub struct Depth {
    levels_max: u16,
    /// By publisher and instrument id.
    shown: HashMap<u64, Shown>,
    levels: Vec<Level>,
}

/// What was given of one book.
#[derive(Debug, Default)]
struct Shown {
    symbol: u32,
    /// Bids and asks, the best first.
    sides: [Vec<Total>; 2],
}

/// A price, its size, and its number of orders.
type Total = (i64, u32, u32);

impl Depth {
    /// Creates a follower of the best `levels_max` levels of each side.
    pub fn new(levels_max: u16) -> Self {
        Self {
            levels_max,
            shown: HashMap::new(),
            levels: Vec::new(),
        }
    }

    /// Returns what a record has changed among the best levels, after `books` has applied it. An
    /// instrument's first levels, and those after a change of its name, begin with a clear.
    pub fn after(&mut self, record: &RecordRef<'_>, books: &Books) -> &[Level] {
        self.levels.clear();
        if self.levels_max == 0 {
            return &self.levels;
        }
        match record.mbo() {
            Some(order) if order.flags & flag::LAST != 0 => {
                let header = order.header;
                let (publisher, instrument) = (header.publisher_id, header.instrument_id);
                if let Some(book) = books.book(publisher, instrument) {
                    let count = usize::from(self.levels_max);
                    let sides = [true, false].map(|is_bid| {
                        let levels = book.levels(is_bid).take(count);
                        let size = |size| u32::try_from(size).unwrap_or(u32::MAX);
                        let total = |level: tidewire_book::Level| {
                            (level.price, size(level.size), level.orders)
                        };
                        levels.map(total).collect()
                    });
                    self.show(publisher, instrument, order.source_time_ns(), sides, books);
                }
            }
            Some(_) => {}
            None => self.after_other(record, books),
        }
        &self.levels
    }

    fn after_other(&mut self, record: &RecordRef<'_>, books: &Books) {
        let fields = record.decode();
        let Record::Mbp10(mbp) = &fields else {
            return;
        };
        let count = usize::from(self.levels_max);
        let side = |total: fn(&BidAsk) -> Total| {
            let totals = mbp.levels().map(|level| total(&level));
            let real = totals.filter(|total| total.0 != UNDEFINED_PRICE && total.1 != 0);
            real.take(count).collect()
        };
        let sides = [
            side(|level| (level.bid, level.bid_size, level.bid_orders)),
            side(|level| (level.ask, level.ask_size, level.ask_orders)),
        ];
        let header = record.header();
        let (publisher, instrument) = (header.publisher_id, header.instrument_id);
        self.show(publisher, instrument, fields.source_time_ns(), sides, books);
    }

    fn show(
        &mut self,
        publisher: u16,
        instrument: u32,
        source_time_ns: u64,
        sides: [Vec<Total>; 2],
        books: &Books,
    ) {
        let Some(symbol) = books.symbol(publisher, instrument) else {
            return;
        };
        let empty = Level {
            symbol,
            source: publisher,
            source_time_ns,
            depth: self.levels_max,
            ..Level::default()
        };
        let shown = self.shown.entry(key(publisher, instrument));
        let shown = shown.or_insert_with(|| Shown {
            symbol: !symbol,
            ..Shown::default()
        });
        if shown.symbol != symbol {
            *shown = Shown {
                symbol,
                ..Shown::default()
            };
            self.levels.push(Level {
                action: Level::CLEAR,
                ..empty
            });
        }
        for (place, new) in sides.into_iter().enumerate() {
            let side = [Level::BID, Level::ASK][place];
            let old = &mut shown.sides[place];
            if *old == new {
                continue;
            }
            let level = |(price, size, orders): Total| Level {
                price,
                size,
                orders,
                side,
                ..empty
            };
            let has_price = |totals: &[Total], price| totals.iter().any(|total| total.0 == price);
            let gone = old.iter().filter(|total| !has_price(&new, total.0));
            self.levels.extend(gone.map(|total| level((total.0, 0, 0))));
            let changed = new.iter().filter(|total| !old.contains(total));
            self.levels.extend(changed.map(|total| level(*total)));
            *old = new;
        }
        if let Some(last) = self.levels.last_mut() {
            last.is_last = 1;
        }
    }
}
