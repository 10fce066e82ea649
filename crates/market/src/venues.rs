//! Venues: their names, and the hub's own number of each.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::RwLock;
use tidewire_feed::wire::VenueName;
use tidewire_retry::Seldom;
use tracing::warn;

use crate::board::VENUE_SEPARATOR;

/// The venues of all sources, with the hub's numbers.
///
/// A venue keeps its number while a topic has it. Afterwards it keeps it until all other numbers
/// have been given: then the number that has been idle for the longest time gets another venue.
/// Without a free number a venue shares [`UNNUMBERED`], so its values are never refused.
#[derive(Debug, Default)]
pub struct VenueTable {
    state: RwLock<State>,
}

/// A venue that a source needs a number for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Venue<'a> {
    pub(crate) name: &'a str,
    /// The source's own number of it.
    pub(crate) wanted: u16,
    /// Whether the source itself has named it. The others have a share of all numbers.
    pub(crate) is_named: bool,
}

/// The number of a venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) number: u16,
    /// Whether the number has become this venue's now.
    pub(crate) is_new: bool,
    /// Whether the number had another venue before.
    pub(crate) is_reused: bool,
}

#[derive(Debug)]
struct State {
    entries: HashMap<u16, Entry, RandomState>,
    numbers: HashMap<Arc<str>, u16, RandomState>,
    /// Numbers whose names the hub's own feed has been told, in the order of the messages.
    told: Vec<u16>,
    /// Number of times that a number has become that of a venue.
    changes: u64,
    /// The next number to give where the wanted one is taken.
    next_given: u16,
    /// Numbers that lost their last topic, the first to do so first. Some have one again.
    idle: VecDeque<u16>,
    /// Venues with a topic that no source has named.
    unnamed: u32,
    /// Venues that had to share a number.
    shared: u64,
}

#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    /// Topics of this venue.
    topics: u32,
    is_named: bool,
    /// Whether the number is in [`State::idle`].
    is_queued: bool,
}

impl VenueTable {
    /// Returns the name of a venue.
    pub fn name(&self, number: u16) -> Option<Arc<str>> {
        let state = self.state.read();
        state.entries.get(&number).map(|entry| entry.name.clone())
    }

    /// Returns the number of a venue, if a source has named it.
    pub fn number(&self, name: &str) -> Option<u16> {
        self.state.read().numbers.get(name).copied()
    }

    /// Returns the names with their numbers, in order of the numbers.
    pub fn all(&self) -> Vec<(u16, Arc<str>)> {
        let state = self.state.read();
        let entries = state.entries.iter();
        let mut all: Vec<_> = entries
            .map(|(number, entry)| (*number, entry.name.clone()))
            .collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all
    }

    /// Notes that the hub's own feed is told the name of a new number.
    pub(crate) fn note_told(&self, number: u16) {
        let mut state = self.state.write();
        debug_assert!(state.entries.contains_key(&number), "it has a name");
        // It may have had another venue.
        state.told.retain(|told| *told != number);
        state.told.push(number);
    }

    /// Returns the names with their numbers that the hub's own feed has been told, in the order of
    /// the messages.
    pub(crate) fn told(&self) -> Vec<(u16, Arc<str>)> {
        let state = self.state.read();
        let named = |number: &u16| Some((*number, state.entries.get(number)?.name.clone()));
        state.told.iter().filter_map(named).collect()
    }

    /// Returns how many times a number has become that of a venue.
    pub(crate) fn changes(&self) -> u64 {
        self.state.read().changes
    }

    /// Returns how many venues have a number of their own, idle ones included.
    pub fn count(&self) -> u64 {
        let state = self.state.read();
        let is_own = |number: &&u16| **number < UNNUMBERED;
        state.entries.keys().filter(is_own).count() as u64
    }

    /// Returns how many times a venue had to share a number because none was free.
    pub fn shared(&self) -> u64 {
        self.state.read().shared
    }

    /// Returns the number of a venue. A new venue gets the wanted number if no other venue has it:
    /// publishers whose numbers are public, as Databento's, keep them. A source that has named too
    /// many venues (`has_room` is false) gets no further number of its own. Consolidated values
    /// have the same number, of every hub.
    pub(crate) fn take(&self, venue: Venue<'_>, has_room: bool) -> Taken {
        if is_consolidated(venue.name) {
            return Taken {
                number: CONSOLIDATED,
                is_new: false,
                is_reused: false,
            };
        }
        let mut state = self.state.write();
        if let Some(&number) = state.numbers.get(venue.name) {
            return Taken {
                number,
                is_new: false,
                is_reused: false,
            };
        }
        let own = match (has_room, venue.is_named) {
            // Another hub's venues without a number.
            _ if venue.name == UNNUMBERED_NAME => Err(None),
            (false, _) => Err(Some("the source has named too many venues")),
            (true, false) if state.unnamed >= UNNAMED_MAX => {
                Err(Some("too many venues that no source has named"))
            }
            (true, _) => state
                .free_number(venue.wanted)
                .ok_or(Some("no number is free")),
        };
        let taken = match own {
            Ok((number, is_reused)) => state.insert(number, venue, is_reused),
            Err(reason) => {
                reason
                    .into_iter()
                    .for_each(|reason| state.note_shared(venue, reason));
                state.share()
            }
        };
        debug_assert_eq!(
            state.entries.len(),
            state.numbers.len(),
            "names and numbers belong together"
        );
        taken
    }

    /// Notes that a topic has this venue from now on, and no longer the one that it had.
    pub(crate) fn hold(&self, number: u16, before: Option<u16>) {
        if before == Some(number) {
            return;
        }
        let mut state = self.state.write();
        state.count_topic(number, 1);
        if let Some(before) = before {
            state.count_topic(before, -1);
        }
    }
}

impl State {
    /// Returns a free number, and whether it had a venue before. Numbers that are given are far
    /// from the small ones that sources use themselves.
    fn free_number(&mut self, wanted: u16) -> Option<(u16, bool)> {
        if wanted < UNNUMBERED && !self.entries.contains_key(&wanted) {
            return Some((wanted, false));
        }
        while self.next_given < UNNUMBERED {
            let number = self.next_given;
            self.next_given += 1;
            if !self.entries.contains_key(&number) {
                return Some((number, false));
            }
        }
        while let Some(number) = self.idle.pop_front() {
            let Some(entry) = self.entries.get_mut(&number) else {
                continue;
            };
            entry.is_queued = false;
            if entry.topics > 0 {
                continue;
            }
            if let Some(entry) = self.entries.remove(&number) {
                self.numbers.remove(&entry.name);
            }
            return Some((number, true));
        }
        None
    }

    #[cold]
    fn note_shared(&mut self, venue: Venue<'_>, reason: &'static str) {
        self.shared += 1;
        if let Some(left_out) = SHARED.note_now() {
            let (name, numbers) = (venue.name, self.entries.len());
            warn!(
                venue = name,
                reason,
                numbers,
                left_out,
                "a venue has no number of its own: feed clients see it as 'unnumbered'"
            );
        }
    }

    /// Returns the number of the venues without one of their own.
    fn share(&mut self) -> Taken {
        let shared = Venue {
            name: UNNUMBERED_NAME,
            wanted: UNNUMBERED,
            is_named: true,
        };
        match self.entries.contains_key(&UNNUMBERED) {
            true => Taken {
                number: UNNUMBERED,
                is_new: false,
                is_reused: false,
            },
            false => self.insert(UNNUMBERED, shared, false),
        }
    }

    fn insert(&mut self, number: u16, venue: Venue<'_>, is_reused: bool) -> Taken {
        let name: Arc<str> = venue.name.into();
        let entry = Entry {
            name: name.clone(),
            topics: 0,
            is_named: venue.is_named,
            is_queued: false,
        };
        let other = self.entries.insert(number, entry);
        debug_assert!(other.is_none(), "a number has one venue");
        self.numbers.insert(name, number);
        self.changes += 1;
        Taken {
            number,
            is_new: true,
            is_reused,
        }
    }

    /// Adds `change` to the topics of a venue. Shared numbers always stay.
    fn count_topic(&mut self, number: u16, change: i32) {
        if number >= UNNUMBERED {
            return;
        }
        let Some(entry) = self.entries.get_mut(&number) else {
            debug_assert!(false, "a topic's venue is known");
            return;
        };
        debug_assert!(
            change > 0 || entry.topics > 0,
            "a venue loses the topics that it has"
        );
        let before = entry.topics;
        entry.topics = before.saturating_add_signed(change);
        if !entry.is_named {
            let (had, has) = (before > 0, entry.topics > 0);
            self.unnamed = self.unnamed + u32::from(has) - u32::from(had);
        }
        if entry.topics == 0 && !std::mem::replace(&mut entry.is_queued, true) {
            self.idle.push_back(number);
        }
        debug_assert!(
            self.idle.len() < usize::from(u16::MAX),
            "a number is queued once"
        );
    }
}

impl Default for State {
    fn default() -> Self {
        let mut state = Self {
            entries: HashMap::default(),
            numbers: HashMap::default(),
            told: Vec::new(),
            changes: 0,
            next_given: GIVEN_MIN,
            idle: VecDeque::new(),
            unnamed: 0,
            shared: 0,
        };
        let consolidated = Venue {
            name: CONSOLIDATED_NAME,
            wanted: CONSOLIDATED,
            is_named: true,
        };
        state.insert(CONSOLIDATED, consolidated, false);
        state
    }
}

/// The venues of one source: what its numbers mean.
#[derive(Debug, Default)]
pub(crate) struct SourceVenues {
    /// The source's own name: the venue of messages without a number.
    feed: Arc<str>,
    named: HashMap<u16, VenueName, RandomState>,
    /// How many numbers have each name.
    names: HashMap<VenueName, u32, RandomState>,
    /// How many times a number has got another name, for those that have.
    renames: HashMap<u16, u32, RandomState>,
}

/// A venue of a source: a number, as long as it has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VenueKey {
    number: u16,
    renames: u32,
}

impl VenueKey {
    /// Returns whether another venue has, or had, the same number.
    pub(crate) fn has_number_of(self, other: Self) -> bool {
        self.number == other.number
    }
}

impl SourceVenues {
    /// Creates the venues of the source `feed`, none of them named yet.
    pub(crate) fn new(feed: &str) -> Self {
        Self {
            feed: feed_name(feed).into(),
            named: HashMap::default(),
            names: HashMap::default(),
            renames: HashMap::default(),
        }
    }

    /// Returns the source's name.
    pub(crate) fn feed(&self) -> &Arc<str> {
        &self.feed
    }

    /// Replaces the source's name.
    pub(crate) fn set_feed(&mut self, feed: &str) {
        self.feed = feed_name(feed).into();
    }

    /// Notes the name of a number. Returns whether it is another than before.
    pub(crate) fn set(&mut self, number: u16, name: VenueName) -> bool {
        let is_other = match number {
            CONSOLIDATED => name.as_str() != CONSOLIDATED_NAME,
            _ => is_consolidated(name.as_str()),
        };
        if name.is_empty() || is_other || name.as_str() != plain_name(name.as_str()) {
            note_bad_name(&self.feed, number, name.as_str());
            return false;
        }
        let before = self.named.insert(number, name);
        if before == Some(name) {
            return false;
        }
        *self.names.entry(name).or_default() += 1;
        if before.is_some() {
            let renames = self.renames.entry(number).or_default();
            *renames = renames.wrapping_add(1);
        }
        if let Some(before) = before
            && let Some(count) = self.names.get_mut(&before)
        {
            *count -= 1;
            if *count == 0 {
                self.names.remove(&before);
            }
        }
        true
    }

    /// Forgets the names of a hub's numbers, except that of consolidated values.
    pub(crate) fn forget_names(&mut self) {
        debug_assert!(self.is_hub(), "others name their numbers once");
        self.named.retain(|number, _| *number == CONSOLIDATED);
        self.names = self.named.values().map(|name| (*name, 1)).collect();
    }

    /// Returns the venue that has a number now.
    pub(crate) fn key(&self, number: u16) -> VenueKey {
        VenueKey {
            number,
            renames: self.renames.get(&number).copied().unwrap_or(0),
        }
    }

    /// Returns whether the source has named a number.
    pub(crate) fn is_named(&self, number: u16) -> bool {
        self.named.contains_key(&number)
    }

    /// Returns whether the source has named any venue.
    pub(crate) fn has_names(&self) -> bool {
        !self.named.is_empty()
    }

    /// Returns whether the source has named the venue `name`, or has it for messages without a
    /// number.
    pub(crate) fn may_give(&self, name: &str) -> bool {
        let is_named = VenueName::new(name).is_ok_and(|name| self.names.contains_key(&name));
        is_named || !self.is_named(0) && *self.feed == *name
    }

    /// Returns whether messages of the source may be of the venue `name`, or of the one that is
    /// called so because another source has it too.
    pub(crate) fn gives(&self, name: &str) -> bool {
        let is_number = |number: u16| !self.is_named(number) && number != 0;
        let is_own = |name: &str| {
            self.may_give(name) || name.parse().is_ok_and(|number: u16| is_number(number))
        };
        is_own(name) || name.rsplit_once('#').is_some_and(|(name, _)| is_own(name))
    }

    /// Returns whether the source is a hub: those have a number for consolidated values.
    pub(crate) fn is_hub(&self) -> bool {
        let name = self.named.get(&CONSOLIDATED);
        name.is_some_and(|name| name.as_str() == CONSOLIDATED_NAME)
    }

    /// Returns the venue's name, and whether the source has named it.
    pub(crate) fn name(&self, number: u16) -> (String, bool) {
        match (self.named.get(&number), number) {
            (Some(name), _) => (name.as_str().to_owned(), true),
            (None, CONSOLIDATED) => (CONSOLIDATED_NAME.to_owned(), true),
            (None, 0) => (self.feed.to_string(), false),
            (None, number) => (number.to_string(), false),
        }
    }
}

/// Logs that a source gave a number a name that is none.
#[cold]
fn note_bad_name(feed: &str, number: u16, name: &str) {
    if let Some(left_out) = BAD_NAMES.note_now() {
        let name = name.escape_debug();
        let text = "the source's name of a venue has other characters than ASCII letters, digits \
                    and .:_-#, or is for consolidated values, which have a number of their own: it is \
                    ignored";
        warn!(source = feed, number, %name, left_out, "{text}");
    }
}

/// Returns `name` in the characters that a venue's name may have: ASCII letters, digits and
/// `.:_-#`; others become `-`. At most 32 bytes.
fn plain_name(name: &str) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | ':' | '_' | '-' | '#' => c,
        _ => '-',
    };
    let text: String = name.chars().map(plain).take(NAME_LENGTH_MAX).collect();
    debug_assert!(text.is_ascii(), "all other characters were replaced");
    match text.is_empty() {
        true => UNNAMED.to_owned(),
        false => text,
    }
}

/// Returns the venue of a source's messages without a number: the source's own name. That of
/// consolidated values is none.
fn feed_name(name: &str) -> String {
    let plain = plain_name(name);
    let Some(rest) = plain
        .strip_prefix(CONSOLIDATED_NAME)
        .filter(|_| is_consolidated(&plain))
    else {
        return plain;
    };
    let rest = rest.strip_prefix('#').unwrap_or(rest);
    format!("{CONSOLIDATED_NAME}-{rest}")
}

/// Returns whether a symbol's name is one for a value that a hub has consolidated.
pub(crate) fn is_of_sum(symbol: &str) -> bool {
    let venue = symbol.rsplit_once(VENUE_SEPARATOR);
    venue.is_some_and(|(_, venue)| is_consolidated(venue))
}

/// Returns whether this is the name of consolidated values: that of the first hub with them, or
/// that of a further one (`consolidated#2`), which gives the same symbol. A hub behind this one may
/// add a number of its own (`consolidated#2#2`).
pub(crate) fn is_consolidated(venue: &str) -> bool {
    let rest = venue.strip_prefix(CONSOLIDATED_NAME);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// Limits the log lines about names, of which a source may send any number.
static BAD_NAMES: Seldom = Seldom::new(5, 10);
/// The venue number of consolidated prices.
pub const CONSOLIDATED: u16 = u16::MAX;
/// The name of the writer of consolidated topics; no source has it.
pub(crate) const CONSOLIDATED_WRITER: u32 = 0;
pub(crate) const CONSOLIDATED_NAME: &str = "consolidated";
/// The name of a source that has none.
const UNNAMED: &str = "unnamed";
/// Maximum bytes of a venue's name, as on the native feed.
const NAME_LENGTH_MAX: usize = 32;
/// The number of all venues without one of their own.
pub(crate) const UNNUMBERED: u16 = CONSOLIDATED - 1;
const UNNUMBERED_NAME: &str = "unnumbered";
/// Numbers from here on are given to venues whose wanted number is taken. The lower half stays for
/// sources that number their venues themselves.
pub(crate) const GIVEN_MIN: u16 = 32_768;
/// Maximum venues that no source has named and that have topics: publishers under a new name at
/// each start leave numbers for the venues that have a name.
const UNNAMED_MAX: u32 = 16_384;
/// Maximum number of venues that one publisher gives a number.
pub(crate) const PUBLISHER_VENUES_MAX: u32 = 4_096;
/// Limits the log lines about venues that share a number.
static SHARED: Seldom = Seldom::new(3, 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn take(table: &VenueTable, name: &str, wanted: u16, is_named: bool) -> Taken {
        let venue = Venue {
            name,
            wanted,
            is_named,
        };
        table.take(venue, true)
    }

    fn number(table: &VenueTable, name: &str, wanted: u16) -> (u16, bool) {
        let taken = take(table, name, wanted, true);
        (taken.number, taken.is_new)
    }

    #[test]
    fn a_venue_keeps_its_number_and_a_number_has_one_venue() {
        let table = VenueTable::default();
        assert_eq!(number(&table, "XNAS", 2), (2, true));
        assert_eq!(number(&table, "XNAS", 9), (2, false));
        assert_eq!(number(&table, "XNYS", 2), (GIVEN_MIN, true));
        assert_eq!(number(&table, "XBOS", 2), (GIVEN_MIN + 1, true));
        assert_eq!(table.name(2).as_deref(), Some("XNAS"));
        assert_eq!(table.number("XBOS"), Some(GIVEN_MIN + 1));
        assert_eq!(table.number("XLON"), None);
        assert_eq!(table.all().len(), 4, "with the consolidated one");
        assert_eq!((table.count(), table.shared()), (3, 0));
    }

    /// Databento's `ALL_SYMBOLS` had the trades of `consolidated#2` beside those of its venues.
    #[test]
    fn the_consolidated_values_of_all_hubs_have_one_number() {
        let table = VenueTable::default();
        for name in ["consolidated", "consolidated#2", "consolidated#2#2"] {
            assert_eq!(number(&table, name, 7), (CONSOLIDATED, false), "{name}");
        }
        assert_eq!(number(&table, "consolidated-7", 7), (7, true));
        let name = table.name(CONSOLIDATED);
        assert_eq!(name.as_deref(), Some(CONSOLIDATED_NAME));
    }

    #[test]
    fn without_a_free_number_venues_share_one_and_an_idle_number_is_given_again() {
        let table = VenueTable::default();
        let first = take(&table, "first", 1, true).number;
        table.hold(first, None);
        for own in GIVEN_MIN..UNNUMBERED {
            let taken = take(&table, &own.to_string(), 1, true);
            assert_eq!(taken.number, own);
            table.hold(own, None);
        }
        let shared = take(&table, "one more", 1, true);
        assert_eq!((shared.number, shared.is_new), (UNNUMBERED, true));
        let another = take(&table, "another", 1, true);
        assert_eq!((another.number, another.is_new), (UNNUMBERED, false));
        assert_eq!(table.name(UNNUMBERED).as_deref(), Some(UNNUMBERED_NAME));
        assert_eq!(
            (number(&table, "first", 1), table.shared()),
            ((1, false), 2)
        );
        // Topics go on under another venue: the number that was idle first is used again first.
        let idle = [GIVEN_MIN + 7, GIVEN_MIN + 3];
        idle.into_iter()
            .for_each(|idle| table.hold(first, Some(idle)));
        assert_eq!(
            number(&table, "32775", 1),
            (idle[0], false),
            "it is still the venue's"
        );
        let reused = take(&table, "one more", 1, true);
        assert_eq!((reused.number, reused.is_reused), (idle[0], true));
        assert_eq!(table.number("32775"), None);
        assert_eq!(take(&table, "another", 1, true).number, idle[1]);
        assert_eq!(take(&table, "a third", 1, true).number, UNNUMBERED);
        assert_eq!(number(&table, "by its own number", 9), (9, true));
    }

    /// A publisher with its process id in its name: after 32,768 of them no later one had values.
    #[test]
    fn publishers_under_a_new_name_each_leave_numbers_for_named_venues() {
        let table = VenueTable::default();
        for publisher in 0..100_000 {
            let taken = take(&table, &format!("pid-{publisher}"), 0, false);
            assert_eq!(taken.number == UNNUMBERED, publisher >= UNNAMED_MAX);
            table.hold(taken.number, None);
        }
        assert_eq!(
            number(&table, "XNAS", 0),
            (GIVEN_MIN + UNNAMED_MAX as u16 - 1, true)
        );
        let venue = Venue {
            name: "of a publisher with many",
            wanted: 3,
            is_named: true,
        };
        assert_eq!(table.take(venue, false).number, UNNUMBERED);
    }

    /// One topic, whose publisher restarts under a new name each time.
    #[test]
    fn a_topic_under_ever_new_venues_needs_one_number_at_a_time() {
        let table = VenueTable::default();
        let mut before = None;
        for publisher in 0..200_000 {
            let taken = take(&table, &format!("pid-{publisher}"), 0, false);
            assert!(taken.is_new && taken.number != UNNUMBERED, "{publisher}");
            table.hold(taken.number, before);
            before = Some(taken.number);
        }
        assert_eq!(table.shared(), 0);
        assert!(table.state.read().idle.len() <= usize::from(u16::MAX));
    }

    #[test]
    fn a_source_names_its_numbers_and_has_a_name_for_the_others() {
        let mut venues = SourceVenues::new("my feed/1");
        assert_eq!(venues.name(0), ("my-feed-1".to_owned(), false));
        assert_eq!(venues.name(7), ("7".to_owned(), false));
        let name = |text: &str| VenueName::new(text).unwrap();
        assert!(venues.set(7, name("XNAS")));
        assert!(!venues.set(7, name("XNAS")));
        assert!(
            !venues.set(7, name("X@Y")),
            "'@' separates symbol and venue"
        );
        assert!(!venues.set(7, name("")));
        // Clients took it for the sum of a hub.
        assert!(!venues.set(7, name("consolidated")) && !venues.set(7, name("consolidated#2")));
        assert_eq!(venues.name(7), ("XNAS".to_owned(), true));
        assert!(venues.may_give("XNAS") && venues.may_give("my-feed-1"));
        assert!(!venues.may_give("7") && !venues.may_give(""));
        // Two numbers may have one name.
        assert!(venues.set(8, name("XNAS")) && venues.set(7, name("XNYS")));
        assert!(venues.may_give("XNAS") && venues.may_give("XNYS"));
        assert!(venues.set(8, name("ARCX")) && !venues.may_give("XNAS"));
        assert!(venues.set(0, name("BATS")) && !venues.may_give("my-feed-1"));
        assert_eq!(SourceVenues::new("").name(0).0, UNNAMED);
        let feeds = ["consolidated", "consolidated#2", "consolidated-2"];
        let own = feeds.map(|feed| SourceVenues::new(feed).name(0).0);
        assert_eq!(own, ["consolidated-", "consolidated-2", "consolidated-2"]);
        assert_eq!(SourceVenues::new(&"é".repeat(40)).name(0).0.len(), 32);
    }
}
