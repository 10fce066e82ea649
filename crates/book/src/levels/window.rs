//! The totals of the levels near the best price.

/// Size and number of orders of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) size: u64,
    pub(super) orders: u32,
}

/// The totals of 64 levels by their index. Levels that do not exist are 0.
///
/// One word holds a level: the number of orders in the upper 24 bits, their size in the lower 40.
/// Eight neighbours are in one cache line, and an order is added by one addition.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Window([u64; 64]);

impl Window {
    /// Returns the totals of a level.
    #[inline(always)]
    pub(super) fn sum(&self, index: u64) -> Sum {
        unpack(self.0[place(index)])
    }

    /// Returns where a level is stored.
    #[inline(always)]
    pub(super) fn place(&self, index: u64) -> *const u64 {
        &self.0[place(index)]
    }

    /// Adds an order. Returns false, without a change, if the totals would become too large.
    #[inline(always)]
    pub(super) fn add(&mut self, index: u64, size: u32) -> bool {
        let level = &mut self.0[place(index)];
        let total = (*level & SIZE_MAX) + u64::from(size);
        if total > SIZE_MAX || *level >> SIZE_BITS == u64::from(ORDERS_MAX) {
            return false;
        }
        *level += u64::from(size) + ORDER;
        true
    }

    /// Removes a size, and an order if it is `gone`. Returns whether no order is left; then the
    /// level is 0.
    #[inline(always)]
    pub(super) fn remove(&mut self, index: u64, size: u32, gone: bool) -> bool {
        let level = &mut self.0[place(index)];
        let size = (*level & SIZE_MAX).saturating_sub(u64::from(size));
        let orders = (*level >> SIZE_BITS).saturating_sub(u64::from(gone));
        let is_empty = orders == 0;
        *level = if is_empty {
            0
        } else {
            orders << SIZE_BITS | size
        };
        is_empty
    }

    /// Changes the size of an order. Returns false, without a change, if the total would become
    /// too large.
    #[inline(always)]
    pub(super) fn resize(&mut self, index: u64, old: u32, new: u32) -> bool {
        let level = &mut self.0[place(index)];
        let Sum { size, orders } = unpack(*level);
        let size = (size + u64::from(new)).saturating_sub(u64::from(old));
        self.put(index, Sum { size, orders })
    }

    /// Stores the totals of a level. Returns false, without a change, if they are too large.
    #[inline]
    pub(super) fn put(&mut self, index: u64, sum: Sum) -> bool {
        let fits = sum.size <= SIZE_MAX && sum.orders <= ORDERS_MAX;
        if fits {
            self.0[place(index)] = u64::from(sum.orders) << SIZE_BITS | sum.size;
        }
        fits
    }

    /// Removes a level and returns its totals.
    #[inline]
    pub(super) fn take(&mut self, index: u64) -> Sum {
        unpack(std::mem::take(&mut self.0[place(index)]))
    }

    /// Removes all levels.
    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }
}

impl Default for Window {
    fn default() -> Self {
        Self([0; 64])
    }
}

#[inline(always)]
fn place(index: u64) -> usize {
    debug_assert!(index < 64);
    (index & 63) as usize
}

#[inline(always)]
fn unpack(level: u64) -> Sum {
    Sum {
        size: level & SIZE_MAX,
        orders: (level >> SIZE_BITS) as u32,
    }
}

const SIZE_BITS: u32 = 40;
const SIZE_MAX: u64 = (1 << SIZE_BITS) - 1;
const ORDERS_MAX: u32 = (1 << (64 - SIZE_BITS)) - 1;
/// One order.
const ORDER: u64 = 1 << SIZE_BITS;
