//! The best levels of one side, as its receiver knows them.

use std::collections::VecDeque;

use crate::Level;

/// A price, its size, and its number of orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// The price, 1 unit = 1e-9.
    pub price: i64,
    /// Total size of the orders.
    pub size: u32,
    /// Number of orders; 0 if unknown.
    pub orders: u32,
}

/// The new total of a price; size 0 if it is shown no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The total after the event.
    pub total: Total,
    /// The receiver knew this price before the event.
    was_shown: bool,
}

/// The best levels of one side.
#[derive(Debug)]
pub struct ShownSide {
    is_bid: bool,
    /// The best last, as nearly all changes are close to it. Invariant: [`key`] ascends.
    totals: VecDeque<Total>,
    /// Empty; only its memory is used.
    spare: VecDeque<Total>,
}

impl ShownSide {
    /// Creates a side without levels.
    pub fn new(is_bid: bool) -> Self {
        Self {
            is_bid,
            totals: VecDeque::new(),
            spare: VecDeque::new(),
        }
    }

    /// Returns whether no level is shown.
    pub fn is_empty(&self) -> bool {
        self.totals.is_empty()
    }

    /// Returns the number of levels that are shown.
    pub fn len(&self) -> usize {
        self.totals.len()
    }

    /// Replaces all levels by `new`, the best first, each price once.
    pub fn replace(&mut self, new: impl Iterator<Item = Total>, changes: &mut Vec<Change>) {
        let mut before = std::mem::take(&mut self.totals);
        let mut totals = std::mem::take(&mut self.spare);
        debug_assert!(totals.is_empty(), "only its memory is used");
        let mut old = before.drain(..).rev().peekable();
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
        (self.totals, self.spare) = (totals, before);
    }

    /// Sets the total of a price; `None` if its level is gone. A level that is worse than all is
    /// left to [`append`](Self::append).
    pub fn set(&mut self, price: i64, total: Option<Total>, changes: &mut Vec<Change>) {
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
    pub fn trim(&mut self, depth: usize, changes: &mut Vec<Change>) {
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
    pub fn sort(&self, totals: &mut Vec<Total>) {
        totals.sort_by_key(|total| !self.key(total.price));
        totals.dedup_by_key(|total| total.price);
    }

    /// Adds levels that are worse than all others, the best first.
    pub fn append(&mut self, next: impl Iterator<Item = Total>, changes: &mut Vec<Change>) {
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
    pub fn of(level: Level) -> Self {
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

    /// Sorts changes in the order in which they are told: what is gone first, then the best first.
    pub fn sort(changes: &mut [Self], is_bid: bool) {
        changes.sort_unstable_by_key(|change| change.order(is_bid));
    }

    fn order(&self, is_bid: bool) -> (bool, i64) {
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
