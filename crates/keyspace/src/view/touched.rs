//! The keys that a command has touched, which tests compare with the checked ones. Outside of
//! tests, this records nothing and costs nothing.

use crate::key::Key;

/// Records that a command accesses a key, or that it has changed it.
#[inline(always)]
pub(super) fn note(key: Key<'_>, changes: bool) {
    #[cfg(test)]
    noted::add(key.bytes, changes);
    #[cfg(not(test))]
    let _ = (key, changes);
}

#[cfg(test)]
pub(crate) use noted::{Touched, take};

#[cfg(test)]
mod noted {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// Keys, with whether each was changed.
    pub(crate) type Touched = BTreeMap<Vec<u8>, bool>;

    thread_local! {
        static TOUCHED: RefCell<Touched> = RefCell::default();
    }

    pub(super) fn add(key: &[u8], changes: bool) {
        TOUCHED.with_borrow_mut(|touched| *touched.entry(key.to_vec()).or_default() |= changes);
    }

    /// Returns the keys that this thread has touched since the last call.
    pub(crate) fn take() -> Touched {
        TOUCHED.take()
    }
}
