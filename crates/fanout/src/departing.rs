//! Removes the subscriptions of closed connections in steps: a peer may have had a million, and
//! other clients of the lane must not wait for them.

use std::collections::hash_map::IntoKeys;
use std::collections::hash_set::IntoIter;
use std::sync::Arc;

use tidewire_lane::ConnectionId;

use crate::fanout::Fanout;
use crate::frames::How;
use crate::outlet::Outlet;
use crate::pending::{Pending, PendingTopic};
use crate::subscriptions::Kind;

/// The remaining subscriptions of a closed connection. A message that still matches one of them
/// finds no connection and is dropped.
#[derive(Debug)]
pub(crate) struct Departing {
    connection: ConnectionId,
    channels: IntoIter<Box<[u8]>>,
    shard_channels: IntoIter<Box<[u8]>>,
    patterns: IntoIter<Arc<[u8]>>,
    /// What it was owed, and what it was given lately: a million entries take tens of milliseconds
    /// to free.
    owed: Pending,
    given: IntoKeys<(PendingTopic, How), (u64, u64)>,
}

impl Departing {
    fn next(&mut self) -> Option<(Kind, Name)> {
        let channel = self.channels.next();
        if let Some(name) = channel {
            return Some((Kind::Channel, Name::Own(name)));
        }
        if let Some(name) = self.shard_channels.next() {
            return Some((Kind::Shard, Name::Own(name)));
        }
        let pattern = self.patterns.next()?;
        Some((Kind::Pattern, Name::Shared(pattern)))
    }

    /// Frees up to `most` entries. Returns whether some are left.
    fn free_some(&mut self, most: usize) -> bool {
        let owed = (0..most).take_while(|_| self.owed.pop().is_some()).count();
        let given = self.given.by_ref().take(most - owed).count();
        owed + given == most
    }
}

enum Name {
    Own(Box<[u8]>),
    Shared(Arc<[u8]>),
}

impl Name {
    fn bytes(&self) -> &[u8] {
        match self {
            Name::Own(name) => name,
            Name::Shared(name) => name,
        }
    }
}

impl Fanout {
    /// Handles the end of a connection: removes a few subscriptions at once, and the rest turn by
    /// turn.
    pub fn depart(&mut self, connection: ConnectionId) {
        if let Some(outlet) = self.take_outlet(connection) {
            debug_assert_eq!(
                outlet.connection, connection,
                "an outlet is its connection's"
            );
            self.departing.push_back(departing(outlet));
            self.take_departing_out();
        }
    }

    /// Removes a part of the subscriptions of ended connections. Returns whether some are left.
    pub fn take_departing_out(&mut self) -> bool {
        let mut left = NAMES_A_TURN;
        while left > 0
            && let Some(mut departing) = self.departing.pop_front()
        {
            let connection = departing.connection;
            debug_assert!(self.existing(connection).is_none(), "its outlet goes first");
            while left > 0
                && let Some((kind, name)) = departing.next()
            {
                self.remove_subscriber(connection, kind, name.bytes());
                left -= 1;
            }
            let has_prefixes = left == 0 || {
                left -= 1;
                self.remove_prefixes(connection, NAMES_A_TURN)
            };
            if has_prefixes || departing.free_some(ENTRIES_A_TURN) {
                self.departing.push_back(departing);
                break;
            }
        }
        !self.departing.is_empty()
    }

    /// Removes some of a connection's prefixes. Returns whether it has more.
    pub(crate) fn remove_prefixes(&mut self, connection: ConnectionId, most: usize) -> bool {
        let (ended, has_more) = self.listeners.remove_prefixes(connection, most);
        for prefix in ended {
            let shared = &self.post.subscriptions;
            shared.remove(self.lane, Kind::Prefix, &prefix);
        }
        has_more
    }
}

fn departing(outlet: Outlet) -> Departing {
    Departing {
        connection: outlet.connection,
        channels: outlet.channels.into_iter(),
        shard_channels: outlet.shard_channels.into_iter(),
        patterns: outlet.patterns.into_iter(),
        owed: outlet.pending,
        given: outlet.current.into_keys(),
    }
}

/// Maximum subscriptions removed in one turn: about a millisecond.
const NAMES_A_TURN: usize = 512;
/// Maximum entries of owed and given values freed in one turn: a few hundred microseconds.
const ENTRIES_A_TURN: usize = 4_096;
