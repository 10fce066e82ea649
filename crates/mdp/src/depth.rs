//! Price levels of the instruments that a reader follows: the real and the implied book together.

use std::iter::Peekable;

use tidewire_book::shown::{Change, ShownSide, Total};
use tidewire_feed::client::Sink;
use tidewire_feed::wire::{Level, Message, UNDEFINED_PRICE};

use crate::channel::Channel;
use crate::figures::Scale;
use crate::levels::PriceLevel;

/// The followed instruments.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// Number of followed instruments. While it is 0, an event costs one branch.
    count: usize,
    /// By the instrument's index.
    shown: Vec<Option<Box<Shown>>>,
    changes: Vec<Change>,
}

/// What a reader was given of one instrument.
#[derive(Debug)]
struct Shown {
    /// The reader knows nothing of the book: it gets a clear and all levels.
    is_new: bool,
    bids: ShownSide,
    offers: ShownSide,
}

impl Shown {
    fn new() -> Self {
        Self {
            is_new: true,
            bids: ShownSide::new(true),
            offers: ShownSide::new(false),
        }
    }
}

impl Followed {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Gives each followed book as a whole the next time: its reader knows that entries were lost.
    pub(crate) fn renew(&mut self) {
        for shown in self.shown.iter_mut().flatten() {
            **shown = Shown::new();
        }
    }

    /// Returns whether the state changed.
    fn set(&mut self, index: usize, is_followed: bool) -> bool {
        if index >= self.shown.len() {
            if !is_followed {
                return false;
            }
            self.shown.resize_with(index + 1, || None);
        }
        let was_followed = self.shown[index].is_some();
        if was_followed == is_followed {
            return false;
        }
        self.shown[index] = is_followed.then(|| Box::new(Shown::new()));
        match is_followed {
            true => self.count += 1,
            false => self.count -= 1,
        }
        debug_assert_eq!(self.count, self.shown.iter().flatten().count());
        true
    }
}

impl Channel {
    /// Gives `sink` the levels of an instrument from now on: first the whole book, as soon as it is
    /// right, then the changed levels at the end of each event. With `is_followed` false, ends
    /// that. `symbol` is the instrument's number in the output; another number changes nothing.
    pub fn follow<S: Sink>(&mut self, symbol: u32, is_followed: bool, sink: &mut S) {
        let index = symbol.wrapping_sub(self.config.symbol_first);
        if index as usize >= self.instruments.len()
            || !self.followed.set(index as usize, is_followed)
        {
            return;
        }
        if is_followed {
            return self.show_levels(index, sink);
        }
        let end = Level {
            action: Level::END,
            is_last: 1,
            ..self.level(index)
        };
        sink.message(self.sequence, &Message::Level(end));
    }

    /// Ends the levels of an instrument whose book is not right. They are given again as a whole.
    pub(crate) fn end_levels<S: Sink>(&mut self, index: u32, sink: &mut S) {
        let shown = self.followed.shown.get_mut(index as usize);
        let Some(Some(shown)) = shown.filter(|shown| shown.as_ref().is_some_and(|one| !one.is_new))
        else {
            return;
        };
        **shown = Shown::new();
        let end = Level {
            action: Level::END,
            is_last: 1,
            ..self.level(index)
        };
        sink.message(self.sequence, &Message::Level(end));
    }

    /// Returns the number of instruments whose levels are given.
    pub fn followed_count(&self) -> usize {
        self.followed.count
    }

    /// Gives the levels of an instrument that an event has changed, if it is followed and right.
    #[inline(never)]
    pub(crate) fn show_levels<S: Sink>(&mut self, index: u32, sink: &mut S) {
        let empty = self.level(index);
        let Self {
            followed,
            instruments,
            sequence,
            ..
        } = self;
        let Some(Some(shown)) = followed.shown.get_mut(index as usize) else {
            return;
        };
        let instrument = &instruments[index as usize];
        if !instrument.is_defined || !instrument.state.is_live() {
            return;
        }
        let (book, scale) = (&instrument.book, instrument.details.scale);
        let mut last = shown.is_new.then_some(Level {
            action: Level::CLEAR,
            ..empty
        });
        shown.is_new = false;
        for (is_bid, side) in [(true, &mut shown.bids), (false, &mut shown.offers)] {
            let real = totals(book.levels(is_bid), scale);
            let implied = totals(book.implied_levels(is_bid), scale);
            let merged = Merged {
                real: real.peekable(),
                implied: implied.peekable(),
                is_bid,
            };
            followed.changes.clear();
            side.replace(merged.take(empty.depth.into()), &mut followed.changes);
            Change::sort(&mut followed.changes, is_bid);
            for &Change { total, .. } in &followed.changes {
                let next = Level {
                    price: total.price,
                    size: total.size,
                    orders: total.orders,
                    side: if is_bid { Level::BID } else { Level::ASK },
                    ..empty
                };
                if let Some(level) = last.replace(next) {
                    sink.message(*sequence, &Message::Level(level));
                }
            }
        }
        if let Some(mut level) = last {
            level.is_last = 1;
            sink.message(*sequence, &Message::Level(level));
        }
    }

    fn level(&self, index: u32) -> Level {
        Level {
            symbol: self.config.symbol_first + index,
            source: self.config.source,
            source_time_ns: self.event_time_ns,
            depth: self.instruments[index as usize].book.depth().into(),
            ..Level::default()
        }
    }
}

/// The levels of two books of one side, the best first. At one price their quantities are added.
struct Merged<R: Iterator<Item = Total>, I: Iterator<Item = Total>> {
    real: Peekable<R>,
    implied: Peekable<I>,
    is_bid: bool,
}

impl<R: Iterator<Item = Total>, I: Iterator<Item = Total>> Iterator for Merged<R, I> {
    type Item = Total;

    fn next(&mut self) -> Option<Total> {
        let (real, implied) = (self.real.peek().copied(), self.implied.peek().copied());
        let (Some(real), Some(implied)) = (real, implied) else {
            return self.real.next().or_else(|| self.implied.next());
        };
        if real.price == implied.price {
            self.real.next();
            self.implied.next();
            return Some(Total {
                size: real.size.saturating_add(implied.size),
                ..real
            });
        }
        match (real.price > implied.price) == self.is_bid {
            true => self.real.next(),
            false => self.implied.next(),
        }
    }
}

/// Returns levels in prices that traders use. Those that round to one price are one level.
fn totals(levels: &[PriceLevel], scale: Scale) -> impl Iterator<Item = Total> + '_ {
    let all = levels.iter().map(move |level| Total {
        price: scale.nanos(level.price),
        size: level.size,
        orders: level.orders,
    });
    let mut all = all
        .filter(|total| total.price != UNDEFINED_PRICE && total.size != 0)
        .peekable();
    std::iter::from_fn(move || {
        let mut total = all.next()?;
        while let Some(same) = all.next_if(|next| next.price == total.price) {
            total.size = total.size.saturating_add(same.size);
            total.orders = total.orders.saturating_add(same.orders);
        }
        Some(total)
    })
}
