//! The state of one `book:` topic, and its published form.

use tidewire_fanout::write_json_text;
use tidewire_feed::wire::{Level, UNDEFINED_PRICE};

use super::book::{BookLevel, Ladders, Outcome};
use crate::decimal::{write_price, write_unsigned};

/// What is known of a book.
#[derive(Clone, Debug, Default)]
pub(crate) struct BookState {
    /// As of the end of the last event.
    book: Book,
    /// What the last event changed.
    changes: Changes,
    /// The levels of an event whose end has not arrived.
    pending: Vec<Level>,
    /// The book with all `pending` levels, once there are many. So the end of an event is not more
    /// work than any of its levels.
    draft: Option<Box<Draft>>,
    /// Number of changes published so far.
    version: u64,
    /// Sequence of the last level of the last event that changed anything, in the hub's own feed.
    sequence: u64,
    /// Time of that event at the source, nanoseconds since the UNIX epoch.
    source_time_ns: u64,
    /// The source that sends the levels; 0 before the first.
    writer: u32,
    /// The field `stale` as subscribers were told it last.
    stale: u64,
}

#[derive(Clone, Debug, Default)]
struct Book {
    ladders: Ladders,
    /// Whether the book has been given from its start.
    is_known: bool,
    /// Levels on each side that the source shows; 0 for all.
    depth: u16,
}

#[derive(Clone, Debug, Default)]
struct Draft {
    book: Book,
    changes: Changes,
}

/// What an event changes.
#[derive(Clone, Debug, Default)]
struct Changes {
    /// Empty if the whole book is told.
    levels: Vec<Changed>,
    /// Whether the book was replaced, or so much of it that the whole book is told.
    is_whole: bool,
    /// Whether the shown depth is another.
    is_depth: bool,
}

/// A level that an event changes.
#[derive(Clone, Copy, Debug)]
struct Changed {
    is_bid: bool,
    price: i64,
    /// Whether this change made the level.
    is_new: bool,
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
    /// Takes the next level. Returns whether it ends an event that changes anything; the change is
    /// visible from then on.
    pub(crate) fn push(&mut self, level: &Level, sequence: u64) -> bool {
        self.pending.push(*level);
        if let Some(draft) = &mut self.draft {
            draft.book.apply(level, &mut draft.changes);
        }
        if level.is_last == 0 && self.pending.len() < PENDING_MAX {
            if self.pending.len() == DRAFT_LEVELS_MIN {
                self.draft = Some(self.begin_draft());
            }
            return false;
        }
        let depth_before = self.shown_depth();
        if let Some(draft) = self.draft.take() {
            (self.book, self.changes) = (draft.book, draft.changes);
        } else {
            self.changes.clear();
            for level in &self.pending {
                self.book.apply(level, &mut self.changes);
            }
        }
        self.pending.clear();
        self.pending.shrink_to(PENDING_KEPT);
        self.changes.settle(&self.book.ladders);
        self.changes.is_depth = self.shown_depth() != depth_before;
        if !self.changes.is_any() {
            return false;
        }
        (self.sequence, self.source_time_ns) = (sequence, level.source_time_ns);
        self.version += 1;
        true
    }

    #[cold]
    fn begin_draft(&self) -> Box<Draft> {
        let mut draft = Box::<Draft>::default();
        let replaces = |level: &Level| level.action == Level::CLEAR && level.side == 0;
        draft.book = match self.pending.iter().any(replaces) {
            // What was before is not needed.
            true => Book {
                is_known: self.book.is_known,
                ..Book::default()
            },
            false => self.book.clone(),
        };
        for level in &self.pending {
            draft.book.apply(level, &mut draft.changes);
        }
        draft
    }

    /// Forgets the book, because messages were lost or another session has begun. Returns whether
    /// there was one.
    pub(crate) fn forget(&mut self) -> bool {
        self.pending.clear();
        self.draft = None;
        if !self.book.is_known {
            return false;
        }
        self.book = Book::default();
        self.renew();
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
        let version = self.version.max(other.version);
        *self = std::mem::take(other);
        (self.version, other.version) = (version, version);
        other.sequence = self.sequence;
        self.renew();
        other.renew();
    }

    /// Begins as the book of another topic, which goes on with it too. Returns whether there is
    /// something to tell.
    pub(crate) fn copy_from(&mut self, other: &Self) -> bool {
        let version = self.version.max(other.version);
        *self = Self {
            version,
            ..other.clone()
        };
        // Nothing is shown of a book that has never been known.
        let is_shown = version > 0;
        if is_shown {
            self.renew();
        }
        is_shown
    }

    /// Counts on from the `version` of a book whose subscribers hear this one from now on.
    pub(crate) fn count_on(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    /// Makes the whole book the next thing that is published.
    pub(crate) fn renew(&mut self) {
        self.changes.clear();
        self.changes.is_whole = true;
        self.version += 1;
    }

    /// Notes the field `stale` that subscribers are told. Returns whether it is another.
    pub(crate) fn note_staleness(&mut self, stale: u64) -> bool {
        std::mem::replace(&mut self.stale, stale) != stale
    }

    /// Returns whether the next thing to publish is a book of so many levels that each subscriber
    /// is owed it, rather than given it with every event.
    pub(crate) fn is_owed(&self) -> bool {
        self.changes.is_whole && self.book.ladders.len() > TOLD_LEVELS_MAX
    }

    /// Returns whether the book has too many levels to write its text while it is locked.
    pub(crate) fn is_long(&self) -> bool {
        self.book.ladders.len() > LOCKED_LEVELS_MAX
    }

    /// Returns a copy of all that [`write_json`](Self::write_json) tells.
    pub(crate) fn told(&self) -> Self {
        Self {
            book: self.book.clone(),
            changes: self.changes.clone(),
            version: self.version,
            sequence: self.sequence,
            source_time_ns: self.source_time_ns,
            ..Self::default()
        }
    }

    /// Returns the sequence of the last level of the last event that changed anything, in the hub's
    /// own feed; 0 before the first.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
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
        self.book.is_known
    }

    /// Returns the committed levels, and those of an unfinished event.
    pub(crate) fn parts(&self) -> (&Ladders, &[Level], bool) {
        (&self.book.ladders, &self.pending, self.book.is_known)
    }

    /// Returns the levels on each side that are certain. Those of a source that shows all are not
    /// all any more once the hub left some out.
    fn shown_depth(&self) -> u32 {
        let depth = match (self.book.is_known, self.book.depth) {
            (false, _) => return 0,
            (true, 0) => DEPTH_ALL,
            (true, depth) => depth.into(),
        };
        let certain = self.book.ladders.certain();
        certain.map_or(depth, |certain| {
            depth.min(certain as u32).min(DEPTH_ALL - 1)
        })
    }

    /// Returns up to `levels` levels of each side.
    pub(crate) fn view(&self, levels: usize, stale: u64) -> BookView {
        let side = |is_bid| {
            self.book
                .ladders
                .best(is_bid)
                .take(levels)
                .copied()
                .collect()
        };
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
        let is_whole = snapshot || self.changes.is_whole;
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
        if is_whole || self.changes.is_depth {
            unsigned(out, ",\"depth\":", self.shown_depth().into());
        }
        for (is_bid, name) in [(true, ",\"bids\":["), (false, ",\"asks\":[")] {
            let ladders = &self.book.ladders;
            if is_whole {
                write_levels(out, name, ladders.best(is_bid).copied());
                continue;
            }
            let changed = self
                .changes
                .levels
                .iter()
                .filter(|one| one.is_bid == is_bid);
            let mut levels = changed.map(|one| ladders.at(is_bid, one.price)).peekable();
            if levels.peek().is_some() {
                write_levels(out, name, levels);
            }
        }
        out.push(b'}');
    }
}

impl Book {
    fn apply(&mut self, level: &Level, changes: &mut Changes) {
        match level.action {
            Level::CLEAR => self.is_known |= level.side == 0,
            _ if level.price == UNDEFINED_PRICE && level.action != Level::END => return,
            _ => {}
        }
        // Levels without their book say nothing about the others, and the end of an unknown book
        // nothing at all.
        if !self.is_known {
            return;
        }
        self.is_known = level.action != Level::END;
        self.depth = level.depth;
        let (is_bid, price) = (level.side == Level::BID, level.price);
        match self.ladders.apply(level) {
            Outcome::Nothing => {}
            Outcome::Cleared => changes.tell_whole(),
            Outcome::Added => changes.note(is_bid, price, true),
            Outcome::Changed => changes.note(is_bid, price, false),
            Outcome::Displaced(worst) => {
                changes.note(is_bid, price, true);
                changes.note(is_bid, worst, false);
            }
        }
        debug_assert!(
            self.is_known || self.ladders.len() == 0,
            "an unknown book has no levels"
        );
    }
}

impl Changes {
    fn clear(&mut self) {
        self.levels.clear();
        self.levels.shrink_to(PENDING_KEPT);
        (self.is_whole, self.is_depth) = (false, false);
    }

    fn note(&mut self, is_bid: bool, price: i64, is_new: bool) {
        if self.levels.len() >= CHANGED_LEVELS_MAX {
            self.tell_whole();
        }
        if !self.is_whole {
            self.levels.push(Changed {
                is_bid,
                price,
                is_new,
            });
        }
    }

    fn tell_whole(&mut self) {
        self.is_whole = true;
        self.levels.clear();
    }

    /// Keeps each level once, and none that the event both made and removed.
    fn settle(&mut self, ladders: &Ladders) {
        let place = |one: &Changed| (one.is_bid, one.price);
        // Stable: the first change of a level tells whether it is new.
        self.levels.sort_by_key(place);
        self.levels.dedup_by_key(|one| place(one));
        self.levels
            .retain(|one| !one.is_new || ladders.at(one.is_bid, one.price).size != 0);
    }

    fn is_any(&self) -> bool {
        self.is_whole || self.is_depth || !self.levels.is_empty()
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

/// Levels of an unfinished event from which on they are applied as they arrive.
const DRAFT_LEVELS_MIN: usize = 4_096;
/// Maximum changed levels that an event tells one by one. With more it tells the whole book.
const CHANGED_LEVELS_MAX: usize = 4_096;
/// Maximum levels of both sides of a whole book that is written with every event: a packet of
/// 64 KiB may have 1,300 events that replace a book.
const TOLD_LEVELS_MAX: usize = 64;
/// Maximum levels of both sides of a book whose text is written while it is locked. The text of the
/// longest book takes 4 ms.
const LOCKED_LEVELS_MAX: usize = 512;

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
        let one_side = Level {
            side: Level::BID,
            ..clear(1)
        };
        let end = Level {
            action: Level::END,
            ..clear(1)
        };
        for message in [level(Level::BID, 1, 1, 1), one_side, end] {
            assert!(!state.push(&message, 1), "there is nothing to publish");
        }
        assert_eq!(state.version(), 0);
        assert_eq!(state.view(10, 0), BookView::default());
        assert!(state.push(&clear(1), 2));
        assert!(json(&state, false).contains("\"snapshot\":true,\"update\":1,"));
    }

    #[test]
    fn the_removal_of_a_level_that_is_not_there_is_not_told() {
        let mut state = BookState::default();
        state.push(&clear(0), 1);
        state.push(&level(Level::BID, 10, 5, 1), 2);
        let before = state.view(10, 0);
        assert!(!state.push(&level(Level::BID, 9, 0, 1), 3));
        assert!(!state.push(&level(Level::ASK, 11, 4, 0), 4));
        assert!(
            !state.push(&level(Level::ASK, 11, 0, 1), 5),
            "made and removed"
        );
        assert_eq!((state.view(10, 0), state.version()), (before, 1));
        state.push(&level(Level::BID, 9, 0, 0), 6);
        state.push(&level(Level::BID, 10, 0, 0), 7);
        state.push(&level(Level::BID, 10, 2, 0), 8);
        assert!(state.push(&level(Level::ASK, 12, 0, 1), 9));
        let change = "{\"symbol\":\"A\",\"update\":2,\"seq\":9,\"ts\":5,\"stale\":0,\
            \"bids\":[[10,2,1]]}";
        assert_eq!(json(&state, false), change);
    }

    #[test]
    fn a_book_that_left_levels_out_does_not_say_that_it_has_all() {
        let mut state = BookState::default();
        state.push(&clear(0), 1);
        let full = i64::from(DEPTH_ALL);
        for price in 1..=full {
            state.push(&level(Level::BID, price, 1, u8::from(price == full)), 2);
        }
        assert_eq!(state.view(0, 0).depth, DEPTH_ALL);
        assert!(!state.push(&level(Level::BID, full + 1, 1, 0), 3));
        assert!(state.push(&level(Level::BID, full + 2, 1, 1), 4));
        let (depth, levels) = ("\"depth\":65535", "[1,0,0],[2,0,0],[65537,1,1],[65538,1,1]");
        assert!(json(&state, false).contains(&format!("{depth},\"bids\":[{levels}]")));
        for price in 4..=full + 2 {
            state.push(&level(Level::BID, price, 0, u8::from(price == full + 2)), 5);
        }
        let view = state.view(10, 0);
        assert_eq!((view.depth, view.bids.len()), (1, 1));
        assert!(
            !state.push(&level(Level::BID, 2, 8, 1), 6),
            "not next to the best"
        );
        state.push(&level(Level::BID, 3, 0, 1), 7);
        assert_eq!(state.view(10, 0).depth, 0, "no level is certain");
        state.push(&clear(1), 8);
        assert_eq!(state.view(10, 0).depth, DEPTH_ALL);
    }

    #[test]
    fn a_long_event_is_visible_at_its_end_and_tells_the_whole_book() {
        let mut state = BookState::default();
        state.push(&clear(0), 1);
        state.push(&level(Level::BID, -1, 7, 1), 2);
        assert!(!state.is_owed(), "a short book is written with its event");
        let many = 2 * DRAFT_LEVELS_MIN as i64;
        for price in 0..many {
            assert!(!state.push(&level(Level::BID, price, 1, 0), 3));
        }
        assert_eq!(state.view(10, 0).bids.len(), 1, "the event has not ended");
        assert!(state.push(&level(Level::BID, 0, 0, 1), 4));
        assert_eq!(state.view(usize::MAX, 0).bids.len() as i64, many);
        assert!(state.is_owed() && json(&state, false).contains("\"snapshot\":true"));
        assert!(state.is_long() && json(&state.told(), true) == json(&state, true));
        for price in 0..many {
            state.push(&level(Level::ASK, price, 1, 0), 5);
        }
        state.push(&clear(0), 6);
        assert!(state.push(&level(Level::BID, 3, 1, 1), 7));
        let view = state.view(10, 0);
        assert_eq!((view.bids.len(), view.asks.len()), (1, 0));
        for price in 0..many {
            state.push(&level(Level::ASK, price, 1, 0), 8);
        }
        assert!(state.forget(), "the unfinished event is forgotten, too");
        assert!(!state.push(&level(Level::ASK, 1, 1, 1), 9));
        assert_eq!(state.view(10, 0).depth, 0);
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
