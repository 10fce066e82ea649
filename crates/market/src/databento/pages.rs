//! Values by topic number, in pages that exist only where a topic of them is used.

/// A sparse table. It grows by a page, so no call copies what is there.
#[derive(Debug)]
pub(super) struct Pages<T> {
    pages: Vec<Option<Box<[T]>>>,
}

impl<T: Copy> Pages<T> {
    /// Returns the value of a topic, if its page is in use.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        let page = self.pages.get(number as usize / PAGE_TOPICS)?;
        page.as_ref()?.get(number as usize % PAGE_TOPICS)
    }

    /// Returns the value of a topic. Those of a new page are `initial`.
    #[inline]
    pub(super) fn get_or(&mut self, number: u32, initial: T) -> &mut T {
        let place = number as usize / PAGE_TOPICS;
        if place >= self.pages.len() {
            self.pages.resize_with(place + 1, || None);
        }
        let page = self.pages[place].get_or_insert_with(|| vec![initial; PAGE_TOPICS].into());
        &mut page[number as usize % PAGE_TOPICS]
    }
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

/// Topics of a page: some kilobytes of values.
const PAGE_TOPICS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_in_use_have_values() {
        let mut pages = Pages::default();
        assert_eq!(pages.get(0), None);
        *pages.get_or(1_000_000, 7) = 8;
        assert_eq!(pages.pages.iter().flatten().count(), 1);
        let read = [1_000_000, 999_999, 5].map(|number| pages.get(number).copied());
        assert_eq!(read, [Some(8), Some(7), None]);
        assert_eq!(*pages.get_or(1_000_000, 9), 8);
    }
}
