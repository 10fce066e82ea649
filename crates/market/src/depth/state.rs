//! The state of one `book:` topic, and its published form.

use tidewire_fanout::write_json_text;
use tidewire_feed::wire::{Level, UNDEFINED_PRICE};

use super::book::{BookLevel, Ladders};
use crate::decimal::{write_price, write_unsigned};

/// What is known of a book.
#[derive(Debug, Default)]
pub(crate) struct BookState {
    /// As of the end of the last event.
    ladders: Ladders,
    /// The levels of an event whose end has not arrived.
    pending: Vec<Level>,
    /// Whether the book has been given from its start.
    is_known: bool,
    /// Levels on each side that the source shows; 0 for all.
    depth: u16,
    /// Number of changes published so far.
    version: u64,
    /// Sequence of the last event's last level in the hub's own feed.
    sequence: u64,
    /// Time of the last event at the source, nanoseconds since the UNIX epoch.
    source_time_ns: u64,
    /// Sides and prices that the last event changed, each once.
    changed: Vec<(bool, i64)>,
    /// Whether the last event replaced the book.
    is_replaced: bool,
    /// Levels left out because a side was full.
    refused: u64,
    /// The source that sends the levels; 0 before the first.
    writer: u32,
}

/// A book as a client reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookView {
    /// Sequence of the last change in the hub's own feed; 0 before the first.
    pub sequence: u64,
    /// Time of the last change at the source, nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// Levels on each side that the source shows: 0 if the book is unknown, [`DEPTH_ALL`] for all.
    pub depth: u32,
    /// 0 current, 1 not connected, 2 messages are missing.
    pub stale: u64,
    /// Bids, the best first.
    pub bids: Vec<BookLevel>,
    /// Asks, the best first.
    pub asks: Vec<BookLevel>,
}

/// The depth of a source that shows all levels.
pub const DEPTH_ALL: u32 = 65_536;

impl BookState {
    /// Takes the next level. Returns whether it ends an event; the change is visible from then on.
    pub(crate) fn push(&mut self, level: &Level, sequence: u64) -> bool {
        self.pending.push(*level);
        if level.is_last == 0 && self.pending.len() < PENDING_MAX {
            return false;
        }
        self.changed.clear();
        self.is_replaced = false;
        let mut pending = std::mem::take(&mut self.pending);
        for level in pending.drain(..) {
            self.apply(&level);
        }
        self.pending = pending;
        self.pending.shrink_to(PENDING_KEPT);
        self.changed.sort_unstable();
        self.changed.dedup();
        (self.sequence, self.source_time_ns) = (sequence, level.source_time_ns);
        self.version += 1;
        true
    }

    fn apply(&mut self, level: &Level) {
        let is_both = level.side == 0;
        match level.action {
            Level::CLEAR => {
                self.is_known |= is_both;
                self.is_replaced = true;
            }
            Level::END => {
                self.is_known = false;
                self.is_replaced = true;
            }
            // Levels without their book say nothing about the others.
            _ if !self.is_known || level.price == UNDEFINED_PRICE => return,
            _ => self.changed.push((level.side == Level::BID, level.price)),
        }
        self.depth = level.depth;
        self.refused += u64::from(!self.ladders.apply(level));
        debug_assert!(
            self.is_known || self.ladders.len() == 0,
            "an unknown book has no levels"
        );
    }

    /// Forgets the book, because messages were lost or another session has begun. Returns whether
    /// there was one.
    pub(crate) fn forget(&mut self) -> bool {
        self.pending.clear();
        if !std::mem::take(&mut self.is_known) {
            return false;
        }
        self.ladders = Ladders::default();
        (self.is_replaced, self.depth) = (true, 0);
        self.version += 1;
        true
    }

    /// Makes `writer` the source of the levels. Those of another say nothing about its book.
    /// Returns whether a known book was forgotten.
    pub(crate) fn take_over(&mut self, writer: u32) -> bool {
        std::mem::replace(&mut self.writer, writer) != writer && self.forget()
    }

    /// Gives the book to the source `writer`: the connection of a publisher that continues.
    pub(crate) fn adopt(&mut self, writer: u32) {
        self.writer = writer;
    }

    /// Takes the book of a topic that becomes this one.
    pub(crate) fn take_from(&mut self, other: &mut Self) {
        let version = self.version.max(other.version) + 1;
        *self = Self {
            is_replaced: true,
            version,
            ..std::mem::take(other)
        };
        other.version = version;
        (other.is_replaced, other.sequence) = (true, self.sequence);
    }

    /// Makes the whole book the next thing that is published.
    pub(crate) fn renew(&mut self) {
        self.is_replaced = true;
        self.version += 1;
    }

    /// Returns the number of changes published so far.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the time of the last event at the source, nanoseconds since the UNIX epoch.
    pub(crate) fn source_time_ns(&self) -> u64 {
        self.source_time_ns
    }

    /// Returns whether the levels are known.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns the committed levels, and those of an unfinished event.
    pub(crate) fn parts(&self) -> (&Ladders, &[Level], bool) {
        (&self.ladders, &self.pending, self.is_known)
    }

    fn shown_depth(&self) -> u32 {
        match (self.is_known, self.depth) {
            (false, _) => 0,
            (true, 0) => DEPTH_ALL,
            (true, depth) => depth.into(),
        }
    }

    /// Returns up to `levels` levels of each side.
    pub(crate) fn view(&self, levels: usize, stale: u64) -> BookView {
        let side = |is_bid| self.ladders.best(is_bid).take(levels).copied().collect();
        BookView {
            sequence: self.sequence,
            source_time_ns: self.source_time_ns,
            depth: self.shown_depth(),
            stale,
            bids: side(true),
            asks: side(false),
        }
    }

    /// Appends the JSON text of the last change: its levels, or the whole book if that was
    /// replaced or a `snapshot` is wanted.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>, symbol: &[u8], snapshot: bool, stale: u64) {
        out.extend_from_slice(b"{\"symbol\":");
        write_json_text(out, symbol);
        let is_whole = snapshot || self.is_replaced;
        if is_whole {
            out.extend_from_slice(b",\"snapshot\":true");
        }
        let unsigned = |out: &mut Vec<u8>, name: &str, value: u64| {
            out.extend_from_slice(name.as_bytes());
            write_unsigned(out, value);
        };
        unsigned(out, ",\"update\":", self.version);
        unsigned(out, ",\"seq\":", self.sequence);
        unsigned(out, ",\"ts\":", self.source_time_ns);
        unsigned(out, ",\"stale\":", stale);
        if is_whole {
            unsigned(out, ",\"depth\":", self.shown_depth().into());
        }
        for (is_bid, name) in [(true, ",\"bids\":["), (false, ",\"asks\":[")] {
            if is_whole {
                write_levels(out, name, self.ladders.best(is_bid).copied());
            } else if self.changed.iter().any(|(side, _)| *side == is_bid) {
                let changed = self.changed.iter().filter(|(side, _)| *side == is_bid);
                let changed = changed.map(|(_, price)| self.ladders.at(is_bid, *price));
                write_levels(out, name, changed);
            }
        }
        out.push(b'}');
    }
}

fn write_levels(out: &mut Vec<u8>, name: &str, levels: impl Iterator<Item = BookLevel>) {
    out.extend_from_slice(name.as_bytes());
    for (position, level) in levels.enumerate() {
        out.extend_from_slice(if position == 0 { b"[" } else { b",[" });
        write_price(out, level.price);
        out.push(b',');
        write_unsigned(out, level.size.into());
        out.push(b',');
        write_unsigned(out, level.orders.into());
        out.push(b']');
    }
    out.push(b']');
}

/// Room for the levels of an event that is kept for the next.
const PENDING_KEPT: usize = 64;
/// Maximum levels of an unfinished event: a whole book and some. Then it counts as finished.
const PENDING_MAX: usize = 2 * super::book::LEVELS_MAX + 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn level(side: u8, price: i64, size: u32, is_last: u8) -> Level {
        Level {
            side,
            price: price * 1_000_000_000,
            size,
            orders: 1,
            is_last,
            source_time_ns: 5,
            ..Level::default()
        }
    }

    fn clear(is_last: u8) -> Level {
        Level {
            action: Level::CLEAR,
            is_last,
            ..Level::default()
        }
    }

    fn json(state: &BookState, snapshot: bool) -> String {
        let mut out = Vec::new();
        state.write_json(&mut out, b"A", snapshot, 0);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn levels_before_a_clear_are_no_book() {
        let mut state = BookState::default();
        assert!(state.push(&level(Level::BID, 1, 1, 1), 1));
        assert_eq!(state.view(10, 0).depth, 0);
        assert!(state.view(10, 0).bids.is_empty());
    }

    #[test]
    fn an_event_is_visible_at_its_end_and_tells_what_changed() {
        let mut state = BookState::default();
        assert!(!state.push(&clear(0), 1));
        assert!(!state.push(&level(Level::BID, 10, 5, 0), 2));
        assert!(!state.is_known(), "the event has not ended");
        assert!(state.push(&level(Level::ASK, 11, 6, 1), 3));
        let whole = "{\"symbol\":\"A\",\"snapshot\":true,\"update\":1,\"seq\":3,\"ts\":5,\
            \"stale\":0,\"depth\":65536,\"bids\":[[10,5,1]],\"asks\":[[11,6,1]]}";
        assert_eq!(json(&state, false), whole);
        state.push(&level(Level::BID, 10, 0, 0), 4);
        state.push(&level(Level::BID, 9, 3, 0), 5);
        state.push(&level(Level::BID, 9, 4, 1), 6);
        let change = "{\"symbol\":\"A\",\"update\":2,\"seq\":6,\"ts\":5,\"stale\":0,\
            \"bids\":[[9,4,1],[10,0,0]]}";
        assert_eq!(json(&state, false), change);
        assert!(json(&state, true).contains("\"bids\":[[9,4,1]],\"asks\":[[11,6,1]]"));
        assert!(state.forget() && !state.forget());
        assert!(json(&state, false).contains("\"depth\":0,\"bids\":[],\"asks\":[]"));
    }
}
