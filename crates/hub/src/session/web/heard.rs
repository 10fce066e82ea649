//! The channels and patterns that a page hears, each once for all its subscriptions.

use std::collections::{HashMap, VecDeque};

use tidewire_fanout::{Dialect, Fanout, Kind, SubscriptionsFull};
use tidewire_lane::ConnectionId;
use tidewire_rows::Selection;

/// A channel or a pattern.
pub(super) type Name = (Kind, Box<[u8]>);

/// What a page hears. The names of a subscription that has ended are let go turn by turn: a page
/// may have hundreds of thousands, and end them with a few bytes.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// How many subscriptions name each, with those that have ended and still count.
    counts: HashMap<Name, u32>,
    patterns: u32,
    ended: VecDeque<Selection>,
    /// Names of the last one taken from there.
    leaving: Vec<Name>,
}

impl Heard {
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn patterns(&self) -> u32 {
        self.patterns
    }

    /// Adds the names of a subscription; all of them or, without room, none. As many that wait to
    /// be let go go first: a page that subscribes and ends that keeps no more than it has had.
    pub(super) fn add(
        &mut self,
        id: ConnectionId,
        fanout: &mut Fanout,
        names: &[Name],
    ) -> Result<(), SubscriptionsFull> {
        self.let_go(id, fanout, names.len());
        for (at, name) in names.iter().enumerate() {
            let is_known = self.counts.contains_key(name);
            if !is_known && let Err(full) = fanout.subscribe(id, Dialect::Rows, name.0, &name.1) {
                // Only those in front of it are counted.
                names[..at]
                    .iter()
                    .for_each(|name| self.forget(id, fanout, name));
                return Err(full);
            }
            *self.counts.entry(name.clone()).or_default() += 1;
            self.patterns += u32::from(!is_known && name.0 == Kind::Pattern);
        }
        Ok(())
    }

    /// Notes that a subscription has ended.
    pub(super) fn end(&mut self, id: ConnectionId, fanout: &mut Fanout, selection: Selection) {
        if selection.len() > NAMES_AT_ONCE {
            return self.ended.push_back(selection);
        }
        for name in names_of(&selection) {
            self.forget(id, fanout, &name);
        }
    }

    /// Returns whether names wait to be let go.
    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty() || !self.leaving.is_empty()
    }

    /// Lets some of them go. Returns whether there are more.
    pub(super) fn step(&mut self, id: ConnectionId, fanout: &mut Fanout) -> bool {
        self.let_go(id, fanout, NAMES_A_TURN);
        self.has_ended()
    }

    fn let_go(&mut self, id: ConnectionId, fanout: &mut Fanout, most: usize) {
        let mut left = most;
        while left > 0 {
            if self.leaving.is_empty() {
                let Some(selection) = self.ended.pop_front() else {
                    return;
                };
                self.leaving = names_of(&selection);
            }
            let rest = self.leaving.len().saturating_sub(left);
            for name in self.leaving.split_off(rest) {
                self.forget(id, fanout, &name);
                left -= 1;
            }
        }
    }

    /// Ends what no other subscription of the page names.
    fn forget(&mut self, id: ConnectionId, fanout: &mut Fanout, name: &Name) {
        let Some(count) = self.counts.get_mut(name) else {
            debug_assert!(false, "a name of a subscription is counted");
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(name);
            self.patterns -= u32::from(name.0 == Kind::Pattern);
            fanout.unsubscribe(id, name.0, &name.1);
        }
    }
}

/// Returns the subscriptions of fan-out that a selection needs.
pub(super) fn names_of(selection: &Selection) -> Vec<Name> {
    let names = selection
        .names()
        .map(|name| (Kind::Channel, Box::from(name)));
    let patterns = selection.patterns();
    let patterns = patterns.map(|pattern| (Kind::Pattern, Box::from(pattern)));
    names.chain(patterns).collect()
}

/// Names that are let go when their subscription ends.
const NAMES_AT_ONCE: usize = 16;
/// Names that are let go in a turn: about two milliseconds.
const NAMES_A_TURN: usize = 256;
