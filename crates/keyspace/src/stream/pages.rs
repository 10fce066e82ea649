//! A sorted collection of items with ids, in dense pages.
//!
//! ```text
//!  pages  ┌──────┬──────┬──────┐        page  ┌───────┬───────┬───┬───────┐
//!         │ page │ page │ page │              │ item │ item │ … │ item │  up to 64, in order
//!         └──────┴──────┴──────┘              └───────┴───────┴───┴───────┘
//! ```
//!
//! Streams grow at the end and are trimmed at the start; so are lists of pending entries. A radix
//! tree has one or two nodes per id, and a B-tree filled in order is half empty. Here, appended
//! items fill their page, the end is two steps away, and two binary searches find any other item.
//! The page size limits how many bytes an insertion or a removal moves.

use std::collections::VecDeque;

use super::id::StreamId;

/// An item with an id.
pub(crate) trait Identified {
    fn id(&self) -> StreamId;
}

impl Identified for StreamId {
    fn id(&self) -> StreamId {
        *self
    }
}

/// A sorted collection with unique ids.
#[derive(Clone, Debug)]
pub(crate) struct Pages<T> {
    /// The pages; no page is empty.
    pages: VecDeque<Vec<T>>,
    len: usize,
}

/// The position of an item; valid until the collection changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PagePlace {
    page: usize,
    at: usize,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Pages {
            pages: VecDeque::new(),
            len: 0,
        }
    }
}

impl<T: Identified> Pages<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.pages.front()?.first()
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.pages.back()?.last()
    }

    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.pages.back_mut()?.last_mut()
    }

    /// Returns the place of the first item with this id or a greater one.
    pub(crate) fn lower_bound(&self, id: StreamId) -> PagePlace {
        let page = self.page_of(id);
        let at = match self.pages.get(page) {
            Some(items) => items.partition_point(|item| item.id() < id),
            None => 0,
        };
        PagePlace { page, at }
    }

    /// Returns the place of the item with this id.
    pub(crate) fn find(&self, id: StreamId) -> Option<PagePlace> {
        let place = self.lower_bound(id);
        (self.at(place)?.id() == id).then_some(place)
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<&T> {
        self.at(self.lower_bound(id)).filter(|item| item.id() == id)
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut T> {
        let place = self.find(id)?;
        self.at_mut(place)
    }

    /// Returns the item at a place, unless the place is the end.
    pub(crate) fn at(&self, place: PagePlace) -> Option<&T> {
        self.pages.get(place.page)?.get(place.at)
    }

    pub(crate) fn at_mut(&mut self, place: PagePlace) -> Option<&mut T> {
        self.pages.get_mut(place.page)?.get_mut(place.at)
    }

    /// Returns the place before this one.
    pub(crate) fn before(&self, place: PagePlace) -> Option<PagePlace> {
        if let Some(at) = place.at.checked_sub(1) {
            return Some(PagePlace { at, ..place });
        }
        let page = place.page.checked_sub(1)?;
        debug_assert!(!self.pages[page].is_empty(), "no page is empty");
        let at = self.pages[page].len() - 1;
        Some(PagePlace { page, at })
    }

    /// Adds an item; returns false if its id already exists.
    pub(crate) fn insert(&mut self, item: T) -> bool {
        let id = item.id();
        if self.last().is_none_or(|last| last.id() < id) {
            self.push(item);
            return true;
        }
        let place = self.lower_bound(id);
        let page = &mut self.pages[place.page];
        if page[place.at].id() == id {
            return false;
        }
        debug_assert!(page.len() <= PAGE_MAX);
        debug_assert!(place.at == 0 || page[place.at - 1].id() < id, "ids ascend");
        page.insert(place.at, item);
        if page.len() > PAGE_MAX {
            let half = page.split_off(PAGE_MAX / 2);
            self.pages.insert(place.page + 1, half);
        }
        self.len += 1;
        true
    }

    /// Removes and returns the item with this id.
    pub(crate) fn remove(&mut self, id: StreamId) -> Option<T> {
        let place = self.find(id)?;
        Some(self.remove_at(place))
    }

    /// Removes the item at a place, which is not the end. The following item is then at
    /// [`lower_bound`](Self::lower_bound) of its id.
    pub(crate) fn remove_at(&mut self, place: PagePlace) -> T {
        debug_assert!(self.len > 0);
        let page = &mut self.pages[place.page];
        let item = page.remove(place.at);
        self.len -= 1;
        if page.is_empty() {
            self.pages.remove(place.page);
        } else if page.len() < page.capacity() / 4 {
            page.shrink_to(page.len() * 2);
        }
        item
    }

    pub(crate) fn iter(&self) -> PagesIter<'_, T> {
        let end = self.end();
        PagesIter {
            pages: self,
            start: PagePlace { page: 0, at: 0 },
            end,
        }
    }

    /// Iterates over the items from a place up to this id, included.
    pub(crate) fn iter_between(&self, start: PagePlace, to: StreamId) -> PagesIter<'_, T> {
        let end = match to.next() {
            Some(behind) => self.lower_bound(behind),
            None => self.end(),
        };
        PagesIter {
            pages: self,
            start,
            end,
        }
    }

    /// Iterates over the items between two ids, both included.
    pub(crate) fn range(&self, from: StreamId, to: StreamId) -> PagesIter<'_, T> {
        self.iter_between(self.lower_bound(from), to)
    }

    fn end(&self) -> PagePlace {
        let page = self.pages.len();
        PagePlace { page, at: 0 }
    }

    /// Returns the page for this id; the number of pages if the id is after all.
    fn page_of(&self, id: StreamId) -> usize {
        let ends_before = |page: &Vec<T>| page.last().is_some_and(|last| last.id() < id);
        // Most lookups are near the end.
        match self.pages.back() {
            Some(page) if page.first().is_some_and(|first| first.id() <= id) => {
                self.pages.len() - usize::from(!ends_before(page))
            }
            _ => self.pages.partition_point(ends_before),
        }
    }

    fn push(&mut self, item: T) {
        debug_assert!(self.last().is_none_or(|last| last.id() < item.id()));
        match self.pages.back_mut() {
            Some(page) if page.len() < PAGE_MAX => page.push(item),
            // With several pages, the next one will probably be full too; a single page may stay
            // small.
            Some(_) => {
                let mut page = Vec::with_capacity(PAGE_MAX);
                page.push(item);
                self.pages.push_back(page);
            }
            None => self.pages.push_back(vec![item]),
        }
        self.len += 1;
    }
}

/// Iterator over items in order, from either end.
#[derive(Clone, Debug)]
pub(crate) struct PagesIter<'a, T> {
    pages: &'a Pages<T>,
    start: PagePlace,
    end: PagePlace,
}

impl<'a, T> Iterator for PagesIter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if self.start >= self.end {
            return None;
        }
        let page = &self.pages.pages[self.start.page];
        let item = page.get(self.start.at)?;
        self.start.at += 1;
        if self.start.at == page.len() {
            self.start = PagePlace {
                page: self.start.page + 1,
                at: 0,
            };
        }
        Some(item)
    }
}

impl<'a, T> DoubleEndedIterator for PagesIter<'a, T> {
    fn next_back(&mut self) -> Option<&'a T> {
        if self.start >= self.end {
            return None;
        }
        if self.end.at == 0 {
            self.end.page -= 1;
            self.end.at = self.pages.pages[self.end.page].len();
        }
        self.end.at -= 1;
        self.pages.pages[self.end.page].get(self.end.at)
    }
}

/// Maximum number of items in a page: an insertion moves a few KiB at most.
const PAGE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn id(number: u64) -> StreamId {
        StreamId::new(number / 7, number % 7)
    }

    proptest! {
        #[test]
        fn pages_are_a_sorted_set(steps in prop::collection::vec((0u8..8, 0u64..600), 0..1500)) {
            let (mut pages, mut model) = (Pages::default(), BTreeSet::new());
            let mut end = 0;
            for (action, number) in steps {
                match action {
                    0..3 => {
                        end = end.max(number) + 1;
                        prop_assert_eq!(pages.insert(id(end)), model.insert(id(end)));
                    }
                    3..5 => {
                        end = end.max(number);
                        prop_assert_eq!(pages.insert(id(number)), model.insert(id(number)));
                    }
                    5 => {
                        let first = model.first().copied();
                        let removed = first.and_then(|first| pages.remove(first));
                        prop_assert_eq!(removed, model.pop_first());
                    }
                    _ => {
                        let there = model.remove(&id(number));
                        prop_assert_eq!(pages.remove(id(number)).is_some(), there);
                    }
                }
                prop_assert_eq!(pages.len(), model.len());
                prop_assert_eq!(pages.get(id(number)).is_some(), model.contains(&id(number)));
            }
            prop_assert_eq!(pages.first(), model.first());
            prop_assert_eq!(pages.last(), model.last());
            prop_assert!(pages.iter().eq(model.iter()));
            for (from, to) in [(0, 600), (100, 101), (300, 299), (250, 900), (50, 550)] {
                let wanted: Vec<_> = match from <= to {
                    true => model.range(id(from)..=id(to)).collect(),
                    false => Vec::new(),
                };
                let range = pages.range(id(from), id(to));
                prop_assert!(range.clone().eq(wanted.iter().copied()));
                prop_assert!(range.rev().eq(wanted.iter().rev().copied()));
                let start = pages.lower_bound(id(from));
                let before = pages.before(start).and_then(|place| pages.at(place));
                prop_assert_eq!(before, model.range(..id(from)).next_back());
            }
        }
    }
}
