//! The best levels of one side, as its receiver knows them.

use std::collections::VecDeque;

use tidewire_book::Level;

/// A price, its size, and its number of orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) price: i64,
    pub(super) size: u32,
    pub(super) orders: u32,
}

/// The new total of a price; size 0 if it is shown no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) total: Total,
    /// The receiver knew this price before the event.
    was_shown: bool,
}

/// The best levels of one side.
#[derive(Debug)]
pub(super) struct ShownSide {
    is_bid: bool,
    /// The best last, as nearly all changes are close to it. Invariant: [`key`] ascends.
    totals: VecDeque<Total>,
}

impl ShownSide {
    pub(super) fn new(is_bid: bool) -> Self {
        Self {
            is_bid,
            totals: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.totals.len()
    }

    /// Replaces all levels by `new`, the best first, each price once.
    pub(super) fn replace(&mut self, new: impl Iterator<Item = Total>, changes: &mut Vec<Change>) {
        let old = std::mem::take(&mut self.totals);
        let mut old = old.into_iter().rev().peekable();
        let mut totals = VecDeque::new();
        for total in new {
            let key = self.key(total.price);
            while let Some(gone) = old.next_if(|old| self.key(old.price) > key) {
                changes.push(Change::gone(gone.price));
            }
            let before = old.next_if(|old| old.price == total.price);
            if before != Some(total) {
                changes.push(Change {
                    total,
                    was_shown: before.is_some(),
                });
            }
            totals.push_front(total);
        }
        changes.extend(old.map(|gone| Change::gone(gone.price)));
        self.totals = totals;
    }

    /// Sets the total of a price; `None` if its level is gone. A level that is worse than all is
    /// left to [`append`](Self::append).
    pub(super) fn set(&mut self, price: i64, total: Option<Total>, changes: &mut Vec<Change>) {
        let key = self.key(price);
        let is_bid = self.is_bid;
        let found = self
            .totals
            .binary_search_by_key(&key, |total| side_key(total.price, is_bid));
        let (total, was_shown) = match (found, total) {
            (Ok(place), Some(total)) if self.totals[place] == total => return,
            (Ok(place), Some(total)) => {
                self.totals[place] = total;
                (total, true)
            }
            (Ok(place), None) => {
                self.totals.remove(place);
                return changes.push(Change::gone(price));
            }
            (Err(0), _) | (Err(_), None) => return,
            (Err(place), Some(total)) => {
                self.totals.insert(place, total);
                (total, false)
            }
        };
        changes.push(Change { total, was_shown });
    }

    /// Removes the worst levels while there are more than `depth`.
    pub(super) fn trim(&mut self, depth: usize, changes: &mut Vec<Change>) {
        while self.totals.len() > depth
            && let Some(Total { price, .. }) = self.totals.pop_front()
        {
            let place = changes
                .iter()
                .position(|change| change.total.price == price);
            match place {
                Some(place) if changes[place].was_shown => changes[place] = Change::gone(price),
                Some(place) => drop(changes.swap_remove(place)),
                None => changes.push(Change::gone(price)),
            }
        }
    }

    /// Sorts levels, the best first, and removes all but one of a price.
    pub(super) fn sort(&self, totals: &mut Vec<Total>) {
        totals.sort_by_key(|total| !self.key(total.price));
        totals.dedup_by_key(|total| total.price);
    }

    /// Adds levels that are worse than all others, the best first.
    pub(super) fn append(&mut self, next: impl Iterator<Item = Total>, changes: &mut Vec<Change>) {
        for total in next {
            debug_assert!(
                self.totals
                    .front()
                    .is_none_or(|worst| self.key(worst.price) > self.key(total.price)),
                "the levels of a book descend"
            );
            self.totals.push_front(total);
            changes.push(Change {
                total,
                was_shown: false,
            });
        }
    }

    fn key(&self, price: i64) -> i64 {
        side_key(price, self.is_bid)
    }
}

impl Total {
    /// Returns a level's total. A size above `u32::MAX` is shown as `u32::MAX`.
    pub(super) fn of(level: Level) -> Self {
        Self {
            price: level.price,
            size: u32::try_from(level.size).unwrap_or(u32::MAX),
            orders: level.orders,
        }
    }
}

impl Change {
    fn gone(price: i64) -> Self {
        Self {
            total: Total {
                price,
                size: 0,
                orders: 0,
            },
            was_shown: true,
        }
    }

    /// Returns the order in which changes are told: what is gone first, then the best first.
    pub(super) fn order(&self, is_bid: bool) -> (bool, i64) {
        // Unlike a negation, this cannot overflow.
        (self.total.size != 0, !side_key(self.total.price, is_bid))
    }
}

/// Returns a number that is greater for a better price.
fn side_key(price: i64, is_bid: bool) -> i64 {
    match is_bid {
        true => price,
        false => !price,
    }
}
