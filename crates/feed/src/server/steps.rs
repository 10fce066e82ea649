//! How far a search may go in one call.

/// A budget of work: a step is a few nanoseconds, such as one comparison of characters in a glob.
///
/// A lane hands it out, so that searches of any length hold up no other client.
#[derive(Debug)]
pub struct Steps {
    left: u64,
}

impl Steps {
    /// Creates a budget.
    pub fn new(count: u64) -> Steps {
        Steps { left: count }
    }

    /// No step: what needs a search waits for a later call.
    pub fn none() -> Steps {
        Steps::new(0)
    }

    /// A budget without a limit, for one bounded search.
    pub(crate) fn unlimited() -> Steps {
        Steps::new(u64::MAX)
    }

    /// Takes a part of this budget, at most `count`. Give the rest back with [`Steps::give`].
    pub fn take(&mut self, count: u64) -> Steps {
        let part = count.min(self.left);
        self.left -= part;
        Steps::new(part)
    }

    /// Adds the rest of a part.
    pub fn give(&mut self, rest: Steps) {
        self.left = self.left.saturating_add(rest.left);
    }

    /// Uses steps. The last search may exceed the budget.
    #[inline]
    pub fn spend(&mut self, count: u64) {
        self.left = self.left.saturating_sub(count);
    }

    /// Returns whether no step is left.
    #[inline]
    pub fn are_used_up(&self) -> bool {
        self.left == 0
    }

    /// Returns the steps left.
    pub fn left(&self) -> u64 {
        self.left
    }
}

/// Steps of reading an entry of the board.
pub(crate) const ENTRY_STEPS: u64 = 32;
/// Steps of looking up a name on the board.
pub(crate) const NAME_STEPS: u64 = 64;
