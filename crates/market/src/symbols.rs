//! Maps a source's symbol numbers to topics.

use std::sync::Arc;

use crate::board::Topic;

/// Topics by a source's symbol number, in pages. A source may number its symbols as it likes; a
/// high number costs one page, not everything below it.
#[derive(Debug, Default)]
pub(crate) struct SymbolMap {
    pages: Vec<Option<Box<Page>>>,
}

type Page = [Option<Arc<Topic>>; PAGE_SYMBOLS];

/// Error: the number is [`SYMBOL_NUMBERS_MAX`] or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberTooHigh;

impl SymbolMap {
    /// Returns the topic of a symbol; `None` if the source did not define one or may not write it.
    #[inline]
    pub(crate) fn get(&self, symbol: u32) -> Option<&Arc<Topic>> {
        let page = self.pages.get(symbol as usize / PAGE_SYMBOLS)?.as_ref()?;
        page[symbol as usize % PAGE_SYMBOLS].as_ref()
    }

    /// Binds a symbol to a topic, or to none.
    pub(crate) fn set(
        &mut self,
        symbol: u32,
        topic: Option<Arc<Topic>>,
    ) -> Result<(), NumberTooHigh> {
        if symbol >= SYMBOL_NUMBERS_MAX {
            return Err(NumberTooHigh);
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
        page[symbol as usize % PAGE_SYMBOLS] = topic;
        Ok(())
    }

    /// Returns the topics that symbols are bound to.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        let pages = self.pages.iter().flatten();
        pages.flat_map(|page| page.iter().flatten())
    }

    /// Keeps the topics that `keep` accepts.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Topic) -> bool) {
        for slot in self
            .pages
            .iter_mut()
            .flatten()
            .flat_map(|page| page.iter_mut())
        {
            *slot = slot.take().filter(|topic| keep(topic));
        }
    }
}

const PAGE_SYMBOLS: usize = 256;
/// Number of symbol numbers that a source may use, from 0. It limits the list of pages to 512 KiB.
pub(crate) const SYMBOL_NUMBERS_MAX: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use tidewire_feed::wire::{Definition, Name};

    #[test]
    fn numbers_may_be_sparse_but_not_without_bound() {
        let board = Board::new(4, 1);
        let definition = Definition {
            symbol: 0,
            source: 0,
            source_time_ns: 0,
            open: 0,
            price_tick: 0,
            lot_size: 0,
            currency: [0; 4],
            name: Name::new("A").unwrap(),
        };
        let topic = board.define(&definition).unwrap();
        let mut map = SymbolMap::default();
        assert!(map.get(7).is_none());
        for symbol in [0, 7, 300_000, SYMBOL_NUMBERS_MAX - 1] {
            map.set(symbol, Some(topic.clone())).unwrap();
            assert_eq!(map.get(symbol).unwrap().number, topic.number);
        }
        assert!(map.get(299_999).is_none());
        assert_eq!(map.set(SYMBOL_NUMBERS_MAX, None), Err(NumberTooHigh));
        map.retain(|_| false);
        assert!(map.get(7).is_none());
    }
}
