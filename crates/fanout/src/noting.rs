//! Messages to web pages: noted in the lane's table of rows, from which pages are told what has
//! changed when they ask.

use tidewire_lane::ConnectionId;
use tidewire_rows::{RowId, Table, Version};

use crate::fanout::Fanout;
use crate::frames::Dialect;
use crate::listeners::Target;
use crate::pending::PendingTopic;
use crate::publication::{GONE, News, Origin};
use crate::topic::TopicId;

impl Fanout {
    /// Notes a message for a page. Nothing waits in front of it, because the table leaves out older
    /// states. Returns whether it was noted.
    pub(crate) fn note(&mut self, target: &Target, news: &News<'_>) -> bool {
        if let Origin::Owed(id) = news.origin {
            let owed = (PendingTopic::Topic(id), target.how.clone());
            let outlet = self.outlet_of(target.connection);
            if outlet.is_some_and(|outlet| outlet.owe_version(owed, news.version)) {
                self.pump_next_turn(target.connection);
            }
            return false;
        }
        let row = match self.noted {
            Some(row) => row,
            None => {
                let row = take(&mut self.rows, news, (source_of(news.origin), false));
                self.noted = Some(row);
                row
            }
        };
        self.rows.mark(target.connection.index(), row);
        true
    }

    /// Notes a current value that a page is owed.
    pub(crate) fn note_current(&mut self, connection: ConnectionId, news: &News<'_>, source: u64) {
        let row = take(&mut self.rows, news, (source, true));
        self.rows.mark(connection.index(), row);
    }

    /// Returns whether a connection's messages are noted instead of being written.
    pub(crate) fn is_noted(&self, connection: ConnectionId) -> bool {
        let outlet = self.existing(connection);
        outlet.is_some_and(|outlet| outlet.dialect == Dialect::Rows)
    }

    /// Returns whether current values are owed to a connection.
    pub fn owes(&self, connection: ConnectionId) -> bool {
        self.existing(connection)
            .is_some_and(|outlet| !outlet.pending.is_empty() || outlet.scans.may_be_unfinished())
    }
}

/// Takes a value, or the removal of one, into the table. `is_read` tells that it was read now.
fn take(rows: &mut Table, news: &News<'_>, (source, is_read): (u64, bool)) -> RowId {
    let version = Version {
        source,
        number: news.version,
        is_read,
    };
    let Some(spaces) = news.payload.strip_prefix(GONE).filter(|_| source == LIVE) else {
        return rows.update(news.name, version, news.payload);
    };
    match spaces {
        [] => rows.remove(news.name, version),
        // A value that looks like the payload of a removal has one more space.
        [b' ', ..] if spaces.iter().all(|byte| *byte == b' ') => {
            let value = &news.payload[..news.payload.len() - 1];
            rows.update(news.name, version, value)
        }
        _ => rows.update(news.name, version, news.payload),
    }
}

/// Returns the number of what counts the states of a message's topic.
fn source_of(origin: Origin) -> u64 {
    match origin {
        Origin::Topic(id) | Origin::Owed(id) => source_of_topic(id),
        Origin::Live => LIVE,
        Origin::Channel | Origin::Shard => MESSAGES,
    }
}

/// Returns the number of a topic as what counts its states.
pub(crate) fn source_of_topic(id: TopicId) -> u64 {
    let (place, number) = id.place();
    (place as u64 + 1) << 32 | u64::from(number)
}

/// Plain messages, which have no states.
const MESSAGES: u64 = 0;
/// Live keys.
pub(crate) const LIVE: u64 = 1;
