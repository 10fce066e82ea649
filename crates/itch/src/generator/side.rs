//! The resting orders of one side of one security.

/// A resting order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resting {
    pub(super) reference: u64,
    /// 1 unit = 1e-4.
    pub(super) price: u32,
    pub(super) shares: u32,
}

/// Unsorted orders, and their best price.
#[derive(Debug)]
pub(super) struct Side {
    orders: Vec<Resting>,
    best: Option<u32>,
    is_bids: bool,
    depth: usize,
}

impl Side {
    pub(super) fn bids(depth: usize) -> Self {
        Self {
            orders: Vec::new(),
            best: None,
            is_bids: true,
            depth,
        }
    }

    pub(super) fn asks(depth: usize) -> Self {
        Self {
            is_bids: false,
            ..Self::bids(depth)
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.orders.len() >= self.depth
    }

    pub(super) fn best(&self) -> Option<u32> {
        self.best
    }

    pub(super) fn insert(&mut self, order: Resting) {
        let best = self.best.unwrap_or(order.price);
        self.best = Some(self.better(best, order.price));
        self.orders.push(order);
    }

    /// Removes and returns the order that `at` selects. There must be one.
    pub(super) fn take(&mut self, at: u64) -> Resting {
        let index = self.select(at);
        self.remove(index)
    }

    /// Returns the index of an order: 15 of 16 times of the newest four, else of any.
    fn select(&self, at: u64) -> usize {
        let (len, at, is_old) = (self.orders.len(), (at >> 4) as usize, at & 15 == 0);
        if is_old {
            at % len
        } else {
            len - 1 - at % len.min(NEWEST)
        }
    }

    /// Reduces the order that `at` selects, if it has more than one share. Returns its number and
    /// the shares removed.
    pub(super) fn reduce(&mut self, at: u64) -> Option<(u64, u32)> {
        let index = self.select(at);
        let order = &mut self.orders[index];
        let gone = order.shares / 2;
        order.shares -= gone;
        (gone > 0).then_some((order.reference, gone))
    }

    /// Executes up to `wanted` shares of the oldest order at the best price. Returns its number,
    /// the shares and the price. There must be an order.
    pub(super) fn execute(&mut self, wanted: u32) -> (u64, u32, u32) {
        let best = self.best;
        let oldest = (0..self.orders.len())
            .filter(|&index| Some(self.orders[index].price) == best)
            .min_by_key(|&index| self.orders[index].reference);
        let index = oldest.unwrap_or_default();
        let order = &mut self.orders[index];
        let shares = order.shares.min(wanted);
        order.shares -= shares;
        let executed = (order.reference, shares, order.price);
        if order.shares == 0 {
            self.remove(index);
        }
        executed
    }

    fn remove(&mut self, index: usize) -> Resting {
        let gone = self.orders.swap_remove(index);
        if Some(gone.price) == self.best {
            let prices = self.orders.iter().map(|order| order.price);
            self.best = prices.reduce(|one, other| self.better(one, other));
        }
        gone
    }

    fn better(&self, one: u32, other: u32) -> u32 {
        if self.is_bids {
            one.max(other)
        } else {
            one.min(other)
        }
    }
}

/// Orders are short-lived: most of those that are deleted are among the newest of their side.
const NEWEST: usize = 4;
