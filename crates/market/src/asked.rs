//! Names of venues (`SYMBOL@VENUE`) that clients have asked for before the symbol has that venue.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The newest names that clients have asked for. A symbol's first venue gets a topic of its own if
/// its name is among them.
#[derive(Debug, Default)]
pub(crate) struct AskedVenues {
    names: Mutex<Names>,
    /// Whether there has been any: most hubs have none, and a million symbols.
    is_any: AtomicBool,
}

#[derive(Debug, Default)]
struct Names {
    all: HashSet<Arc<str>>,
    /// The oldest first.
    order: VecDeque<Arc<str>>,
}

impl AskedVenues {
    /// Notes a name. The caller then looks whether the symbol has got the venue meanwhile.
    pub(crate) fn add(&self, name: &str) {
        let mut names = self.names.lock();
        let name: Arc<str> = name.into();
        if names.all.insert(name.clone()) {
            names.order.push_back(name);
        }
        if names.all.len() > NAMES_MAX
            && let Some(oldest) = names.order.pop_front()
        {
            names.all.remove(&oldest);
        }
        debug_assert_eq!(names.all.len(), names.order.len(), "each name has a place");
        drop(names);
        self.is_any.store(true, Ordering::Release);
    }

    /// Takes a name out. Returns whether it was asked for. The symbol has the venue already, so who
    /// asks now finds it.
    pub(crate) fn take(&self, name: &str) -> bool {
        let mut names = self.names.lock();
        let is_asked = names.all.remove(name);
        if is_asked {
            names.order.retain(|other| &**other != name);
        }
        is_asked
    }

    /// Returns whether any name was asked for.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }
}

/// Maximum names that are kept.
const NAMES_MAX: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_names_are_kept_and_each_is_taken_once() {
        let asked = AskedVenues::default();
        assert!(!asked.is_any());
        for number in 0..NAMES_MAX + 2 {
            asked.add(&format!("S{number}@V"));
            asked.add(&format!("S{number}@V"));
        }
        assert!(!asked.take("S1@V") && asked.take("S2@V"));
        assert!(!asked.take("S2@V"));
        asked.add("S2@V");
        assert!(asked.take("S3@V") && asked.take("S2@V"));
        assert_eq!(asked.names.lock().order.len(), NAMES_MAX - 2);
    }
}
