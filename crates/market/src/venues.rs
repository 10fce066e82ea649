//! Venues: their names, and the hub's own number of each.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::RwLock;
use tidewire_feed::wire::VenueName;

/// The venues of all sources. A venue keeps its number while the hub runs.
#[derive(Debug)]
pub struct VenueTable {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    names: HashMap<u16, Arc<str>, RandomState>,
    numbers: HashMap<Arc<str>, u16, RandomState>,
    /// Numbers whose names the hub's own feed has been told, in the order of the messages.
    told: Vec<u16>,
    /// The last number given where the wanted one was taken.
    last_given: u16,
}

/// Error: every number has a venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VenuesFull;

impl VenueTable {
    /// Returns the name of a venue.
    pub fn name(&self, number: u16) -> Option<Arc<str>> {
        self.state.read().names.get(&number).cloned()
    }

    /// Returns the number of a venue, if a source has named it.
    pub fn number(&self, name: &str) -> Option<u16> {
        self.state.read().numbers.get(name).copied()
    }

    /// Returns the names with their numbers, in order of the numbers.
    pub fn all(&self) -> Vec<(u16, Arc<str>)> {
        let state = self.state.read();
        let names = state.names.iter();
        let mut all: Vec<_> = names
            .map(|(number, name)| (*number, name.clone()))
            .collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all
    }

    /// Notes that the hub's own feed is told the name of a new number.
    pub(crate) fn note_told(&self, number: u16) {
        let mut state = self.state.write();
        debug_assert!(state.names.contains_key(&number), "it has a name");
        state.told.push(number);
    }

    /// Returns the names with their numbers that the hub's own feed has been told, in the order of
    /// the messages.
    pub(crate) fn told(&self) -> Vec<(u16, Arc<str>)> {
        let state = self.state.read();
        let named = |number: &u16| Some((*number, state.names.get(number)?.clone()));
        state.told.iter().filter_map(named).collect()
    }

    /// Returns the number of the venue `name`, and whether it is new. A new venue gets `wanted` if
    /// no other venue has it: publishers whose numbers are public, as Databento's, keep them.
    pub(crate) fn take(&self, name: &str, wanted: u16) -> Result<(u16, bool), VenuesFull> {
        let mut state = self.state.write();
        if let Some(&number) = state.numbers.get(name) {
            return Ok((number, false));
        }
        let number = match state.names.contains_key(&wanted) {
            false => wanted,
            true => state.next_given().ok_or(VenuesFull)?,
        };
        let name: Arc<str> = name.into();
        let other = state.names.insert(number, name.clone());
        debug_assert!(other.is_none(), "a number has one venue");
        state.numbers.insert(name, number);
        debug_assert_eq!(
            state.names.len(),
            state.numbers.len(),
            "names and numbers belong together"
        );
        Ok((number, true))
    }
}

impl State {
    /// Returns a free number, far from the small ones that sources use themselves.
    fn next_given(&mut self) -> Option<u16> {
        let number = (self.last_given.max(GIVEN_MIN)..CONSOLIDATED)
            .find(|number| !self.names.contains_key(number))?;
        self.last_given = number;
        Some(number)
    }
}

impl Default for VenueTable {
    fn default() -> Self {
        let mut state = State::default();
        let name: Arc<str> = CONSOLIDATED_NAME.into();
        state.names.insert(CONSOLIDATED, name.clone());
        state.numbers.insert(name, CONSOLIDATED);
        Self {
            state: RwLock::new(state),
        }
    }
}

/// The venues of one source: what its numbers mean.
#[derive(Debug, Default)]
pub(crate) struct SourceVenues {
    /// The source's own name: the venue of messages without a number.
    feed: Arc<str>,
    named: HashMap<u16, VenueName, RandomState>,
}

impl SourceVenues {
    /// Creates the venues of the source `feed`, none of them named yet.
    pub(crate) fn new(feed: &str) -> Self {
        Self {
            feed: plain_name(feed).into(),
            named: HashMap::default(),
        }
    }

    /// Returns the source's name.
    pub(crate) fn feed(&self) -> &Arc<str> {
        &self.feed
    }

    /// Replaces the source's name.
    pub(crate) fn set_feed(&mut self, feed: &str) {
        self.feed = plain_name(feed).into();
    }

    /// Notes the name of a number. Returns whether it is another than before.
    pub(crate) fn set(&mut self, number: u16, name: VenueName) -> bool {
        if name.is_empty() || name.as_str() != plain_name(name.as_str()) {
            return false;
        }
        self.named.insert(number, name) != Some(name)
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

/// The venue number of consolidated prices.
pub const CONSOLIDATED: u16 = u16::MAX;
pub(crate) const CONSOLIDATED_NAME: &str = "consolidated";
/// The name of a source that has none.
const UNNAMED: &str = "unnamed";
/// Maximum bytes of a venue's name, as on the native feed.
const NAME_LENGTH_MAX: usize = 32;
/// Numbers from here on are given to venues whose wanted number is taken.
const GIVEN_MIN: u16 = 32_768;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_venue_keeps_its_number_and_a_number_has_one_venue() {
        let table = VenueTable::default();
        assert_eq!(table.take("XNAS", 2), Ok((2, true)));
        assert_eq!(table.take("XNAS", 9), Ok((2, false)));
        assert_eq!(table.take("XNYS", 2), Ok((GIVEN_MIN, true)));
        assert_eq!(table.take("XBOS", 2), Ok((GIVEN_MIN + 1, true)));
        assert_eq!(table.name(2).as_deref(), Some("XNAS"));
        assert_eq!(table.number("XBOS"), Some(GIVEN_MIN + 1));
        assert_eq!(table.number("XLON"), None);
        assert_eq!(table.all().len(), 4, "with the consolidated one");
    }

    #[test]
    fn without_a_free_number_a_venue_is_refused() {
        let table = VenueTable::default();
        table.take("first", 1).unwrap();
        for number in GIVEN_MIN..CONSOLIDATED {
            table.take(&number.to_string(), 1).unwrap();
        }
        assert_eq!(table.take("one more", 1), Err(VenuesFull));
        assert_eq!(table.take("first", 1), Ok((1, false)));
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
        assert_eq!(venues.name(7), ("XNAS".to_owned(), true));
        assert_eq!(SourceVenues::new("").name(0).0, UNNAMED);
        assert_eq!(SourceVenues::new(&"é".repeat(40)).name(0).0.len(), 32);
    }
}
