//! Names that clients have requested, until the plant has answered.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use parking_lot::Mutex;

/// Names requested from the plant, and names it has refused.
#[derive(Debug)]
pub(crate) struct NameRequests {
    state: Mutex<Requests>,
    pending_max: usize,
}

#[derive(Debug, Default)]
struct Requests {
    by_name: HashMap<Box<str>, Answer, RandomState>,
    /// Names that the link has not taken yet.
    queue: Vec<Box<str>>,
    /// Refused names in order; a name requested again is in the list twice.
    refused: VecDeque<Box<str>>,
    pending: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Pending,
    /// Time of the refusal, nanoseconds since the UNIX epoch.
    Refused(u64),
}

impl NameRequests {
    pub(crate) fn new(pending_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            pending_max,
        }
    }

    /// Requests a name. Returns true if the link must be notified, because its queue was empty.
    pub(crate) fn add(&self, name: &str, unix_ns: u64) -> bool {
        let mut state = self.state.lock();
        match state.by_name.get(name) {
            Some(Answer::Pending) => return false,
            Some(Answer::Refused(at_ns)) if unix_ns.saturating_sub(*at_ns) < ASK_AGAIN_NS => {
                return false;
            }
            _ => {}
        }
        if state.pending >= self.pending_max {
            return false;
        }
        state.pending += 1;
        state.by_name.insert(name.into(), Answer::Pending);
        state.queue.push(name.into());
        debug_assert!(
            state.queue.len() <= state.pending,
            "what is queued waits for an answer"
        );
        debug_assert!(
            state.pending <= state.by_name.len(),
            "each name has its answer"
        );
        state.queue.len() == 1
    }

    /// Takes the names that the link has not taken yet.
    pub(crate) fn take(&self) -> Vec<Box<str>> {
        std::mem::take(&mut self.state.lock().queue)
    }

    /// Returns whether the plant has refused the name recently.
    pub(crate) fn is_refused(&self, name: &str) -> bool {
        matches!(
            self.state.lock().by_name.get(name),
            Some(Answer::Refused(_))
        )
    }

    /// Notes that the plant has the name.
    pub(crate) fn granted(&self, name: &str) {
        let mut state = self.state.lock();
        if state.by_name.remove(name) == Some(Answer::Pending) {
            debug_assert!(state.pending > 0, "a pending name was counted");
            state.pending -= 1;
        }
    }

    /// Notes that the plant refused the name; it is not requested again for a while.
    pub(crate) fn refused(&self, name: &str, unix_ns: u64) {
        let mut state = self.state.lock();
        let refused = Answer::Refused(unix_ns);
        if state.by_name.insert(name.into(), refused) == Some(Answer::Pending) {
            debug_assert!(state.pending > 0, "a pending name was counted");
            state.pending -= 1;
        }
        state.refused.push_back(name.into());
        while state.refused.len() > REFUSED_MAX {
            if let Some(oldest) = state.refused.pop_front()
                && matches!(state.by_name.get(&oldest), Some(Answer::Refused(_)))
            {
                state.by_name.remove(&oldest);
            }
        }
        debug_assert!(
            state.refused.len() <= REFUSED_MAX,
            "refused names have their bound"
        );
    }
}

/// Delay before a refused name is requested again: it may have been deployed since.
const ASK_AGAIN_NS: u64 = 5_000_000_000;
/// Maximum refused names remembered.
const REFUSED_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_asked_for_once_and_again_some_time_after_it_was_refused() {
        let asked = NameRequests::new(2);
        assert!(asked.add("A.a", 0), "the link is told");
        assert!(!asked.add("A.a", 0) && !asked.add("A.b", 0), "it knows");
        assert!(!asked.add("A.c", 0), "too many");
        let names: Vec<_> = asked.take().into_iter().map(String::from).collect();
        assert_eq!(names, ["A.a", "A.b"]);
        asked.refused("A.a", 0);
        asked.granted("A.b");
        assert!(!asked.add("A.a", ASK_AGAIN_NS - 1));
        assert!(asked.add("A.a", ASK_AGAIN_NS));
    }

    #[test]
    fn refused_names_take_only_so_much_memory() {
        let asked = NameRequests::new(10);
        for number in 0..2 * REFUSED_MAX {
            let name = format!("A.{number}");
            asked.add(&name, 0);
            asked.take();
            asked.refused(&name, 0);
        }
        let state = asked.state.lock();
        assert_eq!(
            (state.by_name.len(), state.refused.len()),
            (REFUSED_MAX, REFUSED_MAX)
        );
        assert_eq!(state.pending, 0);
    }
}
