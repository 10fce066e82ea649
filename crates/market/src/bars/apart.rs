//! The bar of a symbol's only venue, where the symbol's own bar has trades of another one.
//!
//! A symbol that another hub gives is of one venue, and after a restart of that hub perhaps of
//! another one. The symbol's bar goes on, with the trades of both. Under the name of the venue that
//! is there now it has the trades from the change on alone. The next bar is the same under both
//! names.

use super::bar::Bar;

/// The newest bar under the name of a symbol's venue, and what it lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    /// In the interval of the symbol's newest bar, and open or closed as that one is.
    bar: Option<Bar>,
    is_partial: bool,
    /// Source time until which trades may be missing, nanoseconds since the UNIX epoch; 0 if none
    /// are.
    missing_until_ns: u64,
}

impl Apart {
    pub(super) fn new(missing_until_ns: u64) -> Self {
        Self {
            bar: None,
            is_partial: false,
            missing_until_ns,
        }
    }

    /// Adds a trade that the symbol's newest bar, which has this start, has got.
    pub(super) fn trade(&mut self, start_ns: u64, price: i64, size: u32) {
        if let Some(bar) = &mut self.bar {
            debug_assert_eq!(bar.start_ns, start_ns, "the next bar is not apart");
            return bar.add(price, size);
        }
        self.bar = Some(Bar::begin(start_ns, price, size));
        self.is_partial = self.missing_until_ns != 0 && start_ns <= self.missing_until_ns;
    }

    /// Notes that trades until a source time are missing. Returns whether the open bar is partial
    /// with it.
    pub(super) fn miss(&mut self, until_ns: u64, is_open: bool) -> bool {
        self.missing_until_ns = self.missing_until_ns.max(until_ns);
        let is_new = !self.is_partial && is_open && self.bar.is_some();
        self.is_partial |= is_new;
        is_new
    }

    /// Notes that the bar may lack trades.
    pub(super) fn may_lack_trades(&mut self) {
        self.is_partial = true;
    }

    pub(super) fn bar(&self) -> Option<Bar> {
        self.bar
    }

    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    pub(super) fn missing_until_ns(&self) -> u64 {
        self.missing_until_ns
    }
}
