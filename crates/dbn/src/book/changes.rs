//! The price levels that orders have changed.

/// The levels changed since they were last taken.
#[derive(Debug, Clone)]
pub(super) struct Changes {
    /// Sides (whether it is the bid side) and prices, in order of the changes.
    places: Vec<(bool, i64)>,
    /// Any level may have changed; `places` is empty.
    is_all: bool,
    /// The symbol for which they were last taken.
    symbol: u32,
}

impl Changes {
    /// Creates the changes of a book of which nothing is known.
    pub(super) fn new() -> Self {
        Self {
            places: Vec::new(),
            is_all: true,
            symbol: u32::MAX,
        }
    }

    pub(super) fn note(&mut self, is_bid: bool, price: i64) {
        match self.is_all {
            true => {}
            false if self.places.len() >= PLACES_MAX => self.note_all(),
            false => self.places.push((is_bid, price)),
        }
    }

    pub(super) fn note_all(&mut self) {
        self.is_all = true;
        self.places.clear();
    }

    /// Moves the changes to `places`, each once. Returns whether any other level may have changed
    /// too, or is unknown to the receiver of this symbol.
    pub(super) fn take(&mut self, symbol: u32, places: &mut Vec<(bool, i64)>) -> bool {
        places.clear();
        places.append(&mut self.places);
        places.sort_unstable();
        places.dedup();
        let is_all = self.is_all || self.symbol != symbol;
        (self.is_all, self.symbol) = (false, symbol);
        is_all
    }
}

/// Changes kept of one event. Where there are more, both sides are compared as a whole.
const PLACES_MAX: usize = 256;
