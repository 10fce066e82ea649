//! The names that a client may read.

use std::fmt;
use std::sync::Arc;

/// Names of symbols that a client may read. They never change: other rights are another value.
pub trait Names: fmt::Debug + Send + Sync {
    /// Returns whether a name is among them.
    fn contains(&self, name: &str) -> bool;

    /// Returns about how many comparisons that takes.
    fn steps(&self) -> u64 {
        1
    }
}

/// What a client may read; `None` for everything, which costs nothing.
pub type Readable = Option<Arc<dyn Names>>;
