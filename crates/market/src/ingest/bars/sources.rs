//! Whose clock closes a bar.
//!
//! The sources of a bar are those that have traded in it, and those that are in the place of such a
//! source, which has left:
//!
//! * A source is in the place of another one at a venue if it writes to the venue's topic, or if no
//!   source does and this one defines the symbol and may give the venue.
//! * The bar of a symbol of several venues has such places at the venues that have traded in its
//!   interval, and at no other.
//! * A place is lost when another source writes to the venue's topic. So places are looked at when
//!   the bar is due, and not when they are taken.
//!
//! The first source whose clock is past the end of the bar closes it. It does not wait for the
//! others, and no other source closes it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use super::{Batch, GRACE_NS};
use crate::bars::BarTopic;
use crate::topic::Topic;

/// The open bars of one source.
#[derive(Debug)]
pub(crate) struct OpenBars {
    /// Source time at which the first of them may be closed, nanoseconds since the UNIX epoch;
    /// `u64::MAX` if there are none.
    pub(super) due_ns: u64,
    /// Source time by which bars are due that batches have not come to yet; 0 if there are none.
    pub(super) closing_ns: u64,
    /// The earliest end first.
    open: BinaryHeap<Reverse<Key>>,
    /// Those of them that another source or session has traded in, too.
    shared: HashMap<Key, Role>,
}

/// End of a bar, and the number of its topic.
type Key = (u64, u32);

/// Why a source may close a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It has traded in it.
    Trader,
    /// It may be in the place of a source that has.
    Successor,
}

/// A bar that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) end_ns: u64,
    pub(super) number: u32,
    pub(super) role: Role,
}

impl Default for OpenBars {
    fn default() -> Self {
        Self {
            due_ns: u64::MAX,
            closing_ns: 0,
            open: BinaryHeap::new(),
            shared: HashMap::new(),
        }
    }
}

impl OpenBars {
    /// Adds a bar that the source has begun.
    pub(super) fn begin(&mut self, end_ns: u64, number: u32) {
        self.open.push(Reverse((end_ns, number)));
        self.due_ns = self.due_ns.min(end_ns.saturating_add(GRACE_NS));
    }

    /// Adds a bar of another source or session. A source may say so again and again.
    pub(super) fn share(&mut self, end_ns: u64, number: u32, role: Role) {
        let key = (end_ns, number);
        let before = self.shared.get(&key).copied();
        if before != Some(Role::Trader) {
            self.shared.insert(key, role);
        }
        if before.is_none() {
            self.begin(end_ns, number);
        }
    }

    /// Returns whether bars are due that batches have not come to.
    #[inline]
    pub(in crate::ingest) fn is_closing(&self) -> bool {
        self.closing_ns > 0
    }

    /// Takes out the bar that is due first, if one is at `now_ns`.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<Due> {
        if self.due_ns > now_ns {
            return None;
        }
        let Reverse(bar) = self.open.pop()?;
        let role = match self.shared.is_empty() {
            true => None,
            false => self.shared.remove(&bar),
        };
        let next = self.open.peek();
        self.due_ns = next.map_or(u64::MAX, |Reverse(next)| next.0.saturating_add(GRACE_NS));
        Some(Due {
            end_ns: bar.0,
            number: bar.1,
            role: role.unwrap_or(Role::Trader),
        })
    }
}

impl Batch<'_> {
    /// Notes the open bars of a symbol that this source defines, or gives a first value at a venue:
    /// it may be in the place of a source that has left.
    pub(in crate::ingest) fn succeed_in_bars(&mut self, topic: &Arc<Topic>) {
        if self.work.market.bars.is_empty() {
            return;
        }
        let symbol = topic.parent().unwrap_or(topic);
        let mut all = vec![symbol.clone()];
        symbol.with_members(|venues| all.extend(venues.iter().map(|venue| venue.topic.clone())));
        all.extend(symbol.namesake());
        for topic in all {
            let is_another = !topic.is_consolidated() && !self.work.is_own_or_left(&topic);
            let Some(bars) = topic.derived.bars().filter(|_| !is_another) else {
                continue;
            };
            for bars in bars.iter() {
                if let Some(end_ns) = bars.state.lock().bars.end_ns() {
                    let number = bars.number();
                    self.open_bars.share(end_ns, number, Role::Successor);
                }
            }
        }
    }

    /// Returns whether the source is one of those of a bar.
    pub(super) fn may_close(&self, due: &Due) -> bool {
        due.role == Role::Trader || {
            let topic = self.work.market.bars.topic_of(due.number);
            topic.is_some_and(|topic| self.is_successor(&topic, due))
        }
    }

    /// Returns whether the source is in the place of one that has traded in a topic's bar.
    fn is_successor(&self, topic: &Topic, due: &Due) -> bool {
        if !topic.is_consolidated() {
            return self.has_place(topic);
        }
        let length_ns = self.work.market.bars.interval_of(due.number).length_ns();
        let interval_ns = due.end_ns.saturating_sub(length_ns)..due.end_ns;
        topic.with_members(|venues| {
            venues.iter().any(|venue| {
                let traded_ns = venue.topic.newest_trade_ns();
                interval_ns.contains(&traded_ns) && self.has_place(&venue.topic)
            })
        })
    }

    /// Returns whether the source writes to a topic of one venue, or may do so next.
    fn has_place(&self, topic: &Topic) -> bool {
        match self.work.slot_owner(topic) {
            Some(owner) => owner == self.work.source,
            None => {
                let facts = topic.facts();
                // Without names of venues it is another feed under the same name.
                let is_any = !facts.is_named || !self.venues.has_names();
                self.venues.may_give(&facts.venue_name) || is_any && topic.parent().is_none()
            }
        }
    }

    /// Returns the bars that have begun as the symbol's bar that is `due`, and that the source may
    /// close.
    pub(super) fn continued_as(&self, due: &Due) -> Vec<Arc<BarTopic>> {
        let linked = self.work.market.bars.linked(due.number).into_iter();
        let own = linked.filter(|(topic, _)| self.has_place(topic));
        own.map(|(_, bars)| bars).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_taken_out_when_their_source_is_past_them() {
        let mut open = OpenBars::default();
        assert_eq!(open.due_ns, u64::MAX);
        open.begin(2_000, 1);
        open.begin(1_000, 2);
        assert_eq!(open.due_ns, 1_000 + GRACE_NS);
        let due = |end_ns, number, role| {
            Some(Due {
                end_ns,
                number,
                role,
            })
        };
        let first = open.take_due(1_000 + GRACE_NS);
        assert_eq!(first, due(1_000, 2, Role::Trader));
        assert_eq!(open.take_due(1_000 + GRACE_NS), None);
        assert_eq!(open.due_ns, 2_000 + GRACE_NS);
        assert_eq!(open.take_due(u64::MAX), due(2_000, 1, Role::Trader));
        assert_eq!(open.due_ns, u64::MAX);
        assert_eq!(open.take_due(u64::MAX), None);
    }

    #[test]
    fn a_source_that_trades_in_the_bar_of_another_stays_one_of_its_sources() {
        let mut open = OpenBars::default();
        let roles = [Role::Successor, Role::Trader, Role::Successor];
        for role in roles {
            open.share(1_000, 1, role);
        }
        let due = open.take_due(u64::MAX).unwrap();
        assert_eq!((due.number, due.role), (1, Role::Trader));
        assert_eq!(open.take_due(u64::MAX), None, "it is there once");
        open.share(2_000, 1, Role::Successor);
        assert_eq!(open.take_due(u64::MAX).unwrap().role, Role::Successor);
    }
}
