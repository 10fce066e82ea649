//! Parent symbols, found by the root of an instrument's name.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use super::class::{is_expiry, split_dated, split_option};

/// A set of parent symbols. The cost of a look does not depend on their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parents {
    /// As the client wrote them: `ES.FUT`.
    texts: HashSet<Box<str>, RandomState>,
    /// By class, a bit for each length of a root in bytes, also of removed ones.
    lengths: [u128; Class::ALL.len()],
}

/// All instruments of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent<'a> {
    pub(super) root: &'a str,
    pub(super) class: Class,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Futures,
    Options,
    Spot,
}

impl Class {
    pub(super) const ALL: [Self; 3] = [Self::Futures, Self::Options, Self::Spot];

    /// Returns the end of its parent symbols.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Futures => ".FUT",
            Self::Options => ".OPT",
            Self::Spot => ".SPOT",
        }
    }
}

impl Parents {
    /// Returns the number of parent symbols.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns the number of lookups for a name.
    pub(super) fn lookups(&self) -> usize {
        let lengths = self.lengths.iter();
        lengths.map(|lengths| lengths.count_ones() as usize).sum()
    }

    /// Adds a parent symbol. Returns whether `text` is one.
    #[must_use]
    pub(super) fn insert(&mut self, text: &str) -> bool {
        const { assert!(NAME_LENGTH_MAX < u128::BITS as usize) };
        let Some(parent) = Parent::parse(text) else {
            return false;
        };
        debug_assert!(text.len() <= NAME_LENGTH_MAX, "it was checked");
        self.lengths[parent.class as usize] |= 1 << parent.root.len();
        self.texts.insert(text.into());
        true
    }

    /// Adds the parents of another set.
    pub fn add(&mut self, other: &Self) {
        self.texts.extend(other.texts.iter().cloned());
        for (own, other) in self.lengths.iter_mut().zip(other.lengths) {
            *own |= other;
        }
    }

    /// Removes the parents of another set.
    pub fn remove(&mut self, other: &Self) {
        for text in &other.texts {
            self.texts.remove(text);
        }
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Returns the parent of the instrument `name`, as the client wrote it.
    pub(super) fn find(&self, name: &str) -> Option<&str> {
        if self.is_empty() {
            return None;
        }
        Class::ALL
            .into_iter()
            .find_map(|class| self.find_of(class, name))
    }

    fn find_of(&self, class: Class, name: &str) -> Option<&str> {
        let mut text = [0; NAME_LENGTH_MAX];
        let mut lengths = self.lengths[class as usize];
        while lengths != 0 {
            let length = lengths.trailing_zeros() as usize;
            lengths &= lengths - 1;
            let Some(root) = name.get(..length) else {
                continue;
            };
            let end = class.text().as_bytes();
            text[..length].copy_from_slice(root.as_bytes());
            text[length..length + end.len()].copy_from_slice(end);
            let text = std::str::from_utf8(&text[..length + end.len()]).unwrap_or_default();
            if let Some(found) = self.texts.get(text)
                && (Parent { root, class }).holds(name)
            {
                return Some(found);
            }
        }
        None
    }

    /// Removes the parents of the instrument `name`.
    pub fn remove_of(&mut self, name: &str) {
        while let Some(found) = self.find(name) {
            let found: Box<str> = found.into();
            self.texts.remove(&found);
        }
    }

    /// Returns the parents as the client wrote them.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }
}

impl<'a> Parent<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut classes = Class::ALL.into_iter();
        classes.find_map(|class| {
            let root = text.strip_suffix(class.text())?;
            (!root.is_empty()).then_some(Self { root, class })
        })
    }

    /// Returns whether `name` belongs to this root and class. CME's forms: `ESH4`, `ESH4-ESM4`,
    /// `ESH4 C4800`. OCC's form of options: `AAPL  240119C00150000`.
    pub(super) fn holds(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(self.root) else {
            return false;
        };
        match self.class {
            Class::Spot => rest.is_empty(),
            Class::Futures => {
                let (first, second) = match rest.split_once('-') {
                    Some((first, second)) => (first, Some(second)),
                    None => (rest, None),
                };
                let is_leg = |name: &str| name.strip_prefix(self.root).is_some_and(is_expiry);
                is_expiry(first) && second.is_none_or(is_leg)
            }
            Class::Options => {
                let is_of_month = rest.split_once(' ').is_some_and(|(expiry, option)| {
                    is_expiry(expiry) && split_option(option).is_some()
                });
                is_of_month || split_dated(name).is_some_and(|(root, _)| root == self.root)
            }
        }
    }
}

/// Longest symbol name in bytes, as in the native feed.
pub(super) const NAME_LENGTH_MAX: usize = 72;

#[cfg(test)]
mod tests {
    use super::*;

    fn parents(texts: &[&str]) -> Parents {
        let mut parents = Parents::default();
        for text in texts {
            assert!(parents.insert(text));
        }
        parents
    }

    /// The topic of one venue of an option was an option too, so each trade came twice.
    #[test]
    fn an_option_at_one_venue_does_not_belong_to_the_parent_beside_the_option() {
        let all = parents(&["ES.FUT", "ES.OPT", "AAPL.OPT", "ES.SPOT"]);
        for (name, parent) in [
            ("ESH4", Some("ES.FUT")),
            ("ESH4 C4800", Some("ES.OPT")),
            ("ESH4 P4700.5", Some("ES.OPT")),
            ("ESH4  C4800", Some("ES.OPT")),
            ("AAPL  240119C00150000", Some("AAPL.OPT")),
            ("ESH4@XCME", None),
            ("ESH4-ESM4@XCME", None),
            ("ESH4 C4800@XCME", None),
            ("AAPL  240119C00150000@OPRA", None),
            ("ES@XCME", None),
            // What stands behind the class is a strike.
            ("ESH4 C", None),
            ("ESH4 CHEAP", None),
            ("ESH4 P4700 X", None),
        ] {
            assert_eq!(all.find(name), parent, "{name}");
        }
    }

    #[test]
    fn an_instrument_is_found_under_each_length_of_a_root() {
        let all = parents(&["E.FUT", "ES.FUT", "ES.OPT", "ES.FUT", "ESH4.SPOT", "é.SPOT"]);
        assert_eq!((all.len(), all.lookups()), (5, 5));
        let text = |name| all.find(name);
        assert_eq!(text("EH4"), Some("E.FUT"));
        assert_eq!(text("ESM4"), Some("ES.FUT"));
        assert_eq!(text("ESM4 C4800"), Some("ES.OPT"));
        assert_eq!(
            (text("é"), text("ë"), text("")),
            (Some("é.SPOT"), None, None)
        );
        let mut rest = all.clone();
        rest.remove_of("ESH4");
        assert_eq!(rest.len(), 3, "of ESH4.SPOT and of ES.FUT");
        rest.remove(&all);
        assert!(rest.is_empty() && rest.lookups() == 0 && rest.find("EH4").is_none());
        rest.add(&all);
        assert_eq!(rest, all);
    }
}
