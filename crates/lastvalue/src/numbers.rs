//! A set of slot numbers, one bit each.

/// A set of slot numbers. It lists them in ascending order, and from any number on, so that a walk
/// over many of them can stop and go on while the set changes.
///
/// Numbers are kept in pages of 4,096, each of 520 bytes; an empty page costs 8 bytes.
#[derive(Clone, Debug, Default)]
pub struct NumberSet {
    pages: Vec<Option<Box<Page>>>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Page {
    words: [u64; PAGE_WORDS],
    /// Number of bits that are set.
    len: u32,
}

impl Page {
    const EMPTY: Self = Self {
        words: [0; PAGE_WORDS],
        len: 0,
    };

    fn count(&mut self) {
        self.len = self.words.iter().map(|word| word.count_ones()).sum();
    }

    /// Returns the first number of the page that is `from` or more, both counted from its begin.
    fn next_from(&self, from: usize) -> Option<usize> {
        let first = from / WORD_BITS;
        let masked = self.words[first] & u64::MAX << (from % WORD_BITS);
        let rest = self.words.iter().enumerate().skip(first + 1);
        let mut words = std::iter::once((first, &masked)).chain(rest);
        let (place, word) = words.find(|(_, word)| **word != 0)?;
        Some(place * WORD_BITS + word.trailing_zeros() as usize)
    }
}

impl NumberSet {
    /// Returns how many numbers are in the set.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no number is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether a number is in the set.
    #[inline]
    pub fn contains(&self, number: u32) -> bool {
        let (page, word, bit) = place(number);
        let page = self.pages.get(page).and_then(Option::as_ref);
        page.is_some_and(|page| page.words[word] & bit != 0)
    }

    /// Adds a number. Returns whether it is new.
    pub fn insert(&mut self, number: u32) -> bool {
        let (page, word, bit) = place(number);
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new(Page::EMPTY));
        let is_new = page.words[word] & bit == 0;
        page.words[word] |= bit;
        page.len += u32::from(is_new);
        self.len += usize::from(is_new);
        is_new
    }

    /// Removes a number. Returns whether it was in the set.
    pub fn remove(&mut self, number: u32) -> bool {
        let (place, word, bit) = place(number);
        let Some(Some(page)) = self.pages.get_mut(place) else {
            return false;
        };
        if page.words[word] & bit == 0 {
            return false;
        }
        page.words[word] &= !bit;
        page.len -= 1;
        if page.len == 0 {
            self.pages[place] = None;
        }
        self.len -= 1;
        true
    }

    /// Adds or removes a number.
    pub fn set(&mut self, number: u32, is_in: bool) {
        match is_in {
            true => self.insert(number),
            false => self.remove(number),
        };
    }

    /// Returns the lowest number that is `from` or more.
    pub fn next_from(&self, from: u32) -> Option<u32> {
        let first = from as usize / PAGE_NUMBERS;
        for (place, page) in self.pages.iter().enumerate().skip(first) {
            let begin = match place == first {
                true => from as usize % PAGE_NUMBERS,
                false => 0,
            };
            let found = page.as_ref().and_then(|page| page.next_from(begin));
            if let Some(found) = found {
                return Some((place * PAGE_NUMBERS + found) as u32);
            }
        }
        None
    }

    /// Returns the numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let mut next = self.next_from(0);
        std::iter::from_fn(move || {
            let number = next?;
            next = number.checked_add(1).and_then(|from| self.next_from(from));
            Some(number)
        })
    }

    /// Adds all numbers of another set.
    pub fn add_all(&mut self, other: &Self) {
        if self.pages.len() < other.pages.len() {
            self.pages.resize(other.pages.len(), None);
        }
        self.combine(other, |word, other| word | other, Option::clone);
    }

    /// Removes all numbers of another set.
    pub fn remove_all(&mut self, other: &Self) {
        self.combine(other, |word, other| word & !other, |_| None);
    }

    /// Removes all numbers that are not in another set.
    pub fn keep_all(&mut self, other: &Self) {
        self.pages.truncate(other.pages.len());
        for (own, other) in self.pages.iter_mut().zip(&other.pages) {
            if other.is_none() {
                *own = None;
            }
        }
        self.combine(other, |word, other| word & other, |_| None);
    }

    /// Combines each word with that of another set, where this one has a page; elsewhere takes what
    /// `make` says. Pages beyond this set's stay out.
    fn combine(
        &mut self,
        other: &Self,
        words: impl Fn(u64, u64) -> u64,
        make: impl Fn(&Option<Box<Page>>) -> Option<Box<Page>>,
    ) {
        for (own, other) in self.pages.iter_mut().zip(&other.pages) {
            match (own.as_mut(), other) {
                (Some(page), Some(other)) => {
                    for (word, other) in page.words.iter_mut().zip(&other.words) {
                        *word = words(*word, *other);
                    }
                    page.count();
                    if page.len == 0 {
                        *own = None;
                    }
                }
                (None, other) => *own = make(other),
                (Some(_), None) => {}
            }
        }
        let pages = self.pages.iter().flatten();
        self.len = pages.map(|page| page.len as usize).sum();
    }
}

impl FromIterator<u32> for NumberSet {
    fn from_iter<T: IntoIterator<Item = u32>>(numbers: T) -> Self {
        let mut set = Self::default();
        numbers.into_iter().for_each(|number| {
            set.insert(number);
        });
        set
    }
}

/// Returns the page of a number, the word in it, and the bit in that.
#[inline]
fn place(number: u32) -> (usize, usize, u64) {
    let number = number as usize;
    let within = number % PAGE_NUMBERS;
    let bit = 1 << (within % WORD_BITS);
    (number / PAGE_NUMBERS, within / WORD_BITS, bit)
}

const WORD_BITS: usize = u64::BITS as usize;
const PAGE_WORDS: usize = 64;
const PAGE_NUMBERS: usize = PAGE_WORDS * WORD_BITS;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn assert_same(set: &NumberSet, model: &BTreeSet<u32>) {
        assert!(set.iter().eq(model.iter().copied()));
        assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
    }

    #[test]
    fn a_walk_goes_on_from_any_number_while_the_set_changes() {
        let mut set: NumberSet = [0, 63, 64, 4_095, 4_096, 1 << 24].into_iter().collect();
        assert_eq!((set.next_from(0), set.next_from(1)), (Some(0), Some(63)));
        assert_eq!(set.next_from(65), Some(4_095));
        assert!(set.remove(4_096) && !set.remove(4_096));
        assert_eq!(set.next_from(4_096), Some(1 << 24));
        assert_eq!(set.next_from((1 << 24) + 1), None);
        assert_eq!((set.next_from(u32::MAX), set.len()), (None, 5));
        assert!(!set.contains(u32::MAX) && set.contains(63));
    }

    proptest! {
        #[test]
        fn a_set_of_numbers_is_like_any_set(
            steps in prop::collection::vec((0..20_000_u32, any::<bool>()), 0..200),
            others in prop::collection::btree_set(0..20_000_u32, 0..200),
            from in 0..21_000_u32,
        ) {
            let (mut set, mut model) = (NumberSet::default(), BTreeSet::new());
            for (number, is_in) in steps {
                let number = number / 97 * 97;
                prop_assert_eq!(set.contains(number), model.contains(&number));
                set.set(number, is_in);
                match is_in {
                    true => model.insert(number),
                    false => model.remove(&number),
                };
            }
            assert_same(&set, &model);
            prop_assert_eq!(set.next_from(from), model.range(from..).next().copied());
            let other: NumberSet = others.iter().copied().collect();
            let mut both = set.clone();
            both.add_all(&other);
            assert_same(&both, &model.union(&others).copied().collect());
            both.remove_all(&other);
            assert_same(&both, &model.difference(&others).copied().collect());
            let mut shared = set.clone();
            shared.keep_all(&other);
            assert_same(&shared, &model.intersection(&others).copied().collect());
            set.remove_all(&other);
            assert_same(&set, &model.difference(&others).copied().collect());
        }
    }
}
