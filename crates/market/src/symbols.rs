//! Maps a source's symbol numbers to topics.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidewire_feed::wire::{Definition, UNDEFINED_PRICE};
use tidewire_lastvalue::NumberSet;

use crate::topic::Topic;
use crate::venues::VenueKey;

/// Topics by a source's symbol number, in pages. A source may number its symbols as it likes; a
/// high number costs one page, not everything below it.
#[derive(Debug, Default)]
pub(crate) struct SymbolMap {
    pages: Vec<Option<Box<Page>>>,
    /// Number of defined symbols.
    len: usize,
    /// Number of times that the source has left them. A symbol of an earlier time waits until it is
    /// taken again.
    time: u32,
    /// Opens that the definitions declare, by symbol number. Few sources declare any.
    opens: HashMap<u32, Vec<DeclaredOpen>, RandomState>,
    /// Venue numbers, as the source has them, with a message about any symbol.
    used: NumberSet,
    /// Symbols without a meaning here, because they only repeat others.
    left_out: NumberSet,
}

/// The open of a session, as a source's newest definition of a symbol at a venue declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredOpen {
    /// The venue; `None` for all venues of the source.
    venue: Option<VenueKey>,
    /// 1 unit = 1e-9; never [`UNDEFINED_PRICE`].
    pub(crate) price: i64,
    /// Source time of the definition, ns since the UNIX epoch.
    pub(crate) source_time_ns: u64,
}

type Page = [Option<Symbol>; PAGE_SYMBOLS];

/// A symbol of a source.
#[derive(Debug)]
pub(crate) struct Symbol {
    /// The topic that the symbol's name stands for.
    name: Arc<Topic>,
    /// The topic of the venue whose value came first; `name` before.
    topic: Arc<Topic>,
    /// That venue, as the source numbers it; [`NO_SOURCE`] before the first value.
    source: u32,
    /// [`SymbolMap::time`] when it was defined or taken again.
    time: u32,
    /// Other venues of the symbol.
    others: Option<Box<Others>>,
}

/// What is rare of a symbol.
#[derive(Debug, Default)]
struct Others {
    /// Topics of venues, as the source numbers them.
    topics: Vec<(u16, Arc<Topic>)>,
    /// What the source has said of the certainty of venues before their first values.
    told: Vec<(VenueKey, u8)>,
    /// The venue of the newest state or session without a value.
    stated: Option<u16>,
}

/// Error: the number is [`SYMBOL_NUMBERS_MAX`] or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberTooHigh;

impl Symbol {
    /// Returns the topic that the symbol's name stands for.
    pub(crate) fn name(&self) -> &Arc<Topic> {
        &self.name
    }

    /// Returns the topic of a venue that has had a value.
    #[inline]
    pub(crate) fn of_venue(&self, source: u16) -> Option<&Arc<Topic>> {
        if self.source == u32::from(source) {
            return Some(&self.topic);
        }
        let mut others = self.others.as_ref()?.topics.iter();
        others
            .find(|(other, _)| *other == source)
            .map(|(_, topic)| topic)
    }

    /// Returns the topic of the first venue, if any has had a value.
    pub(crate) fn first(&self) -> Option<&Arc<Topic>> {
        (self.source != NO_SOURCE).then_some(&self.topic)
    }

    /// Returns the topic of the first venue; that of the name if none has had a value.
    pub(crate) fn first_or_name(&self) -> &Arc<Topic> {
        self.first().unwrap_or_else(|| self.name())
    }

    /// Returns whether no venue has had a value.
    pub(crate) fn is_unbound(&self) -> bool {
        self.source == NO_SOURCE
    }

    /// Returns the topics of all venues that have had a value.
    pub(crate) fn venues(&self) -> impl Iterator<Item = (u16, &Arc<Topic>)> {
        let others = self.others.iter().flat_map(|others| &others.topics);
        let first = self.first().map(|topic| (self.source as u16, topic));
        let others = others.map(|(source, topic)| (*source, topic));
        first.into_iter().chain(others)
    }

    /// Returns the venue of the newest state or session without a value.
    pub(crate) fn stated(&self) -> Option<u16> {
        self.others.as_ref()?.stated
    }

    /// Returns whether the source has given no state or session of another venue than `source`.
    pub(crate) fn has_stated_no_other(&self, source: u16) -> bool {
        self.stated().is_none_or(|stated| stated == source)
    }

    /// Notes the topic of a venue.
    fn bind(&mut self, source: u16, topic: Arc<Topic>) {
        if self.source == NO_SOURCE || self.source == u32::from(source) {
            (self.source, self.topic) = (source.into(), topic);
            return;
        }
        let others = &mut self.others.get_or_insert_default().topics;
        match others.iter_mut().find(|(other, _)| *other == source) {
            Some((_, known)) => *known = topic,
            None => others.push((source, topic)),
        }
    }

    /// Notes what the source says of a venue before its first value. Beyond [`TOLD_MAX`] venues the
    /// oldest is forgotten.
    fn note_told(&mut self, venue: VenueKey, certainty: u8) {
        let told = &mut self.others.get_or_insert_default().told;
        told.retain(|(other, _)| !other.has_number_of(venue));
        if told.len() >= TOLD_MAX {
            told.remove(0);
        }
        told.push((venue, certainty));
    }

    /// Forgets the topic of a venue.
    fn unbind(&mut self, source: u16) {
        if self.source == u32::from(source) {
            (self.source, self.topic) = (NO_SOURCE, self.name.clone());
        }
        if let Some(others) = &mut self.others {
            others.topics.retain(|(other, _)| *other != source);
        }
    }

    /// Keeps the venues that `keep` accepts.
    fn retain(&mut self, keep: &mut impl FnMut(&Topic) -> bool) {
        if self.source != NO_SOURCE && !keep(&self.topic) {
            (self.source, self.topic) = (NO_SOURCE, self.name.clone());
        }
        if let Some(others) = &mut self.others {
            others.topics.retain(|(_, topic)| keep(topic));
        }
    }
}

impl SymbolMap {
    /// Returns a symbol; `None` if the source did not define it.
    #[inline]
    pub(crate) fn get(&self, symbol: u32) -> Option<&Symbol> {
        let page = self.pages.get(symbol as usize / PAGE_SYMBOLS)?.as_ref()?;
        page[symbol as usize % PAGE_SYMBOLS].as_ref()
    }

    /// Defines a symbol as the name of a topic, or ends its meaning. Defining it again as the same
    /// name keeps its venues.
    pub(crate) fn define(
        &mut self,
        symbol: u32,
        name: Option<Arc<Topic>>,
    ) -> Result<(), NumberTooHigh> {
        if symbol >= SYMBOL_NUMBERS_MAX {
            return Err(NumberTooHigh);
        }
        self.left_out.remove(symbol);
        if name.is_none() {
            self.opens.remove(&symbol);
        }
        let index = symbol as usize / PAGE_SYMBOLS;
        if index >= self.pages.len() {
            self.pages.resize_with(index + 1, || None);
        }
        debug_assert!(
            self.pages.len() <= SYMBOL_NUMBERS_MAX as usize / PAGE_SYMBOLS,
            "the pages have their bound"
        );
        let page =
            self.pages[index].get_or_insert_with(|| Box::new([const { None }; PAGE_SYMBOLS]));
        let place = &mut page[symbol as usize % PAGE_SYMBOLS];
        match (place.as_ref(), name) {
            (Some(known), Some(name)) if Arc::ptr_eq(&known.name, &name) => {}
            (_, name) => {
                let was_defined = place.is_some();
                *place = name.map(|name| Symbol {
                    topic: name.clone(),
                    name,
                    source: NO_SOURCE,
                    time: self.time,
                    others: None,
                });
                self.len -= usize::from(was_defined);
                self.len += usize::from(place.is_some());
            }
        }
        Ok(())
    }

    /// Ends the meaning of a symbol that only repeats another one.
    pub(crate) fn leave_out(&mut self, symbol: u32) -> Result<(), NumberTooHigh> {
        self.define(symbol, None)?;
        self.left_out.insert(symbol);
        Ok(())
    }

    /// Returns whether a symbol is left out because it only repeats another one.
    pub(crate) fn leaves_out(&self, symbol: u32) -> bool {
        self.left_out.contains(symbol)
    }

    /// Notes the open that the newest definition of a defined symbol declares. One that declares
    /// none changes nothing. It is that of `venue` if the source has named the definition's number,
    /// else of all venues of the source.
    pub(crate) fn set_open(&mut self, definition: &Definition, venue: Option<VenueKey>) {
        debug_assert!(self.get(definition.symbol).is_some(), "it is defined");
        let open = DeclaredOpen {
            venue,
            price: definition.open,
            source_time_ns: definition.source_time_ns,
        };
        if open.price == UNDEFINED_PRICE {
            return;
        }
        let opens = self.opens.entry(definition.symbol).or_default();
        // An open of all venues replaces those of each.
        opens.retain(|known| match (open.venue, known.venue) {
            (Some(venue), Some(known)) => !known.has_number_of(venue),
            (Some(_), None) => true,
            (None, _) => false,
        });
        if opens.len() >= TOLD_MAX {
            opens.remove(0);
        }
        opens.push(open);
    }

    /// Returns the open that the newest definition of a symbol at a venue declares.
    pub(crate) fn open(&self, symbol: u32, venue: VenueKey) -> Option<DeclaredOpen> {
        let opens = self.opens.get(&symbol)?;
        let of_venue = opens.iter().find(|open| open.venue == Some(venue));
        let found = of_venue.or_else(|| opens.iter().find(|open| open.venue.is_none()));
        found.copied()
    }

    /// Notes the topic of a venue of a defined symbol.
    pub(crate) fn bind(&mut self, symbol: u32, source: u16, topic: Arc<Topic>) {
        self.used.insert(source.into());
        if let Some(known) = self.get_mut(symbol) {
            known.bind(source, topic);
        }
    }

    /// Notes what the source says of a value's certainty before the venue's first one.
    pub(crate) fn note_told(&mut self, symbol: u32, venue: VenueKey, certainty: u8) {
        if let Some(known) = self.get_mut(symbol) {
            known.note_told(venue, certainty);
        }
    }

    /// Notes that the source has given a state or session of a venue without a value.
    pub(crate) fn note_stated(&mut self, symbol: u32, source: u16) {
        self.used.insert(source.into());
        if let Some(known) = self.get_mut(symbol) {
            known.others.get_or_insert_default().stated = Some(source);
        }
    }

    /// Forgets which topics all other venues of a symbol have.
    pub(crate) fn unbind_others(&mut self, symbol: u32, source: u16) {
        let Some(known) = self.get_mut(symbol) else {
            return;
        };
        if known.source != NO_SOURCE && known.source != u32::from(source) {
            known.unbind(known.source as u16);
        }
        if let Some(others) = &mut known.others {
            others.topics.retain(|(other, _)| *other == source);
        }
    }

    /// Takes what the source has said of a venue before its first value; 0 for nothing.
    pub(crate) fn take_told(&mut self, symbol: u32, venue: VenueKey) -> u8 {
        let known = self.get_mut(symbol);
        let Some(others) = known.and_then(|known| known.others.as_mut()) else {
            return 0;
        };
        let place = others.told.iter().position(|(other, _)| *other == venue);
        place.map_or(0, |place| others.told.remove(place).1)
    }

    fn get_mut(&mut self, symbol: u32) -> Option<&mut Symbol> {
        let page = self
            .pages
            .get_mut(symbol as usize / PAGE_SYMBOLS)?
            .as_mut()?;
        page[symbol as usize % PAGE_SYMBOLS].as_mut()
    }

    /// Forgets which topics the venues of a symbol with these numbers have.
    pub(crate) fn unbind(&mut self, symbol: u32, numbers: &[u16]) {
        if let Some(known) = self.get_mut(symbol) {
            numbers.iter().for_each(|&number| known.unbind(number));
        }
    }

    /// Returns whether there may be a topic for messages with a venue number.
    pub(crate) fn has_used(&self, source: u16) -> bool {
        self.used.contains(source.into())
    }

    /// Returns the defined symbols with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &Symbol)> {
        let pages = (0u32..).step_by(PAGE_SYMBOLS).zip(&self.pages);
        pages.flat_map(|(first, page)| {
            let places = (first..).zip(page.iter().flat_map(|page| page.iter()));
            places.filter_map(|(number, symbol)| Some((number, symbol.as_ref()?)))
        })
    }

    /// Keeps the venues of a symbol that `keep` accepts. Its name stays.
    pub(crate) fn retain_of(&mut self, symbol: u32, mut keep: impl FnMut(&Topic) -> bool) {
        if let Some(known) = self.get_mut(symbol) {
            known.retain(&mut keep);
        }
    }

    /// Returns the number of defined symbols.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the first defined symbol that is `from` or more.
    pub(crate) fn next_from(&self, from: u32) -> Option<u32> {
        let mut place = from as usize % PAGE_SYMBOLS;
        let first = from as usize / PAGE_SYMBOLS;
        for (number, page) in self.pages.iter().enumerate().skip(first) {
            let symbols = page.iter().flat_map(|page| page[place..].iter());
            if let Some(found) = symbols.enumerate().find(|(_, symbol)| symbol.is_some()) {
                return Some((number * PAGE_SYMBOLS + place + found.0) as u32);
            }
            place = 0;
        }
        None
    }

    /// Notes that the source leaves all symbols.
    pub(crate) fn leave(&mut self) {
        self.time = self.time.wrapping_add(1);
    }

    /// Takes a symbol again that the source has left. Returns false if it is not one.
    pub(crate) fn come_back(&mut self, symbol: u32) -> bool {
        let time = self.time;
        let known = self.get_mut(symbol);
        known.is_some_and(|known| std::mem::replace(&mut known.time, time) != time)
    }

    /// Returns how many pages must be freed.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len() + self.opens.len() / PAGE_SYMBOLS
    }

    /// Frees a page of symbols that are not used any more. Returns whether there are more.
    pub(crate) fn discard_page(&mut self) -> bool {
        let opens: Vec<u32> = self.opens.keys().take(PAGE_SYMBOLS).copied().collect();
        for symbol in &opens {
            self.opens.remove(symbol);
        }
        if opens.is_empty() {
            drop(self.pages.pop());
        }
        !self.opens.is_empty() || !self.pages.is_empty()
    }
}

/// Maximum venues of a symbol of which something is kept that was said before their first values.
const TOLD_MAX: usize = 32;
/// [`Symbol::source`] before the first value.
const NO_SOURCE: u32 = u32::MAX;
const PAGE_SYMBOLS: usize = 256;
/// Number of symbol numbers that a source may use, from 0. It limits the list of pages to 512 KiB.
pub(crate) const SYMBOL_NUMBERS_MAX: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use tidewire_feed::wire::{Definition, Name};

    fn topics<const N: usize>(names: [&str; N]) -> [Arc<Topic>; N] {
        let board = Board::new(N, 1);
        names.map(|name| {
            let definition = Definition::new(0, Name::new(name).unwrap());
            board.define(&definition).unwrap()
        })
    }

    #[test]
    fn numbers_may_be_sparse_but_not_without_bound() {
        let [topic] = topics(["A"]);
        let mut map = SymbolMap::default();
        assert!(map.get(7).is_none());
        for symbol in [0, 7, 300_000, SYMBOL_NUMBERS_MAX - 1] {
            map.define(symbol, Some(topic.clone())).unwrap();
            assert_eq!(map.get(symbol).unwrap().name().number, topic.number);
        }
        assert!(map.get(299_999).is_none());
        assert_eq!(map.define(SYMBOL_NUMBERS_MAX, None), Err(NumberTooHigh));
        map.define(7, None).unwrap();
        assert!(map.get(7).is_none());
    }

    #[test]
    fn each_venue_of_a_symbol_has_its_topic() {
        let [name, first, second] = topics(["A", "A@X", "A@Y"]);
        let mut map = SymbolMap::default();
        map.define(1, Some(name.clone())).unwrap();
        let number = |map: &SymbolMap, source: u16| {
            let symbol = map.get(1).unwrap();
            symbol.of_venue(source).map(|topic| topic.number)
        };
        assert_eq!(
            (number(&map, 0), map.get(1).unwrap().first().is_none()),
            (None, true)
        );
        map.bind(1, 5, first.clone());
        map.bind(1, 0, second.clone());
        assert_eq!((number(&map, 5), number(&map, 0)), (Some(1), Some(2)));
        map.define(1, Some(name.clone())).unwrap();
        assert_eq!(number(&map, 5), Some(1), "defined again as the same");
        map.bind(1, 0, first.clone());
        assert_eq!(number(&map, 0), Some(1));
        map.retain_of(1, |topic| topic.number != 1);
        assert_eq!((number(&map, 5), number(&map, 0)), (None, None));
        map.bind(1, 5, second);
        map.define(1, Some(first)).unwrap();
        assert_eq!(number(&map, 5), None, "another name has no venue yet");
        map.bind(2, 5, name);
        assert!(map.get(2).is_none(), "not defined");
    }
}
