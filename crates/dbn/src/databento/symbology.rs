//! The symbols of a subscription.

use std::collections::HashSet;

use super::{Subscription, SymbolType};

/// Maximum symbols of all subscriptions to a schema.
pub const NAMES_MAX: usize = 100_000;

/// The symbols of a subscription, kept to match symbols that appear later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Whether every symbol is subscribed.
    all: bool,
    names: HashSet<Box<str>>,
    parents: Vec<Parent>,
    ids: HashSet<u32>,
    /// Symbols unsubscribed after a subscription to all.
    excluded: HashSet<Box<str>>,
}

/// All instruments of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    root: Box<str>,
    /// As the client wrote it.
    text: Box<str>,
    class: Class,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Futures,
    Options,
    Spot,
}

/// Why the symbols of a subscription are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamesError {
    /// More than [`NAMES_MAX`].
    #[error("more than {NAMES_MAX} symbols")]
    TooMany,
    /// A parent symbol without root or class.
    #[error("a parent symbol must be ROOT.FUT, ROOT.OPT or ROOT.SPOT")]
    NoParent,
    /// An instrument id that is not a number.
    #[error("an instrument id must be a number")]
    NoId,
    /// A symbol longer than the limit.
    #[error("a symbol is longer than {NAME_LENGTH_MAX} bytes")]
    TooLong,
}

impl Names {
    /// Parses the symbols of a subscription.
    pub fn parse(subscription: &Subscription<'_>) -> Result<Self, NamesError> {
        let mut names = Self::default();
        for text in subscription.symbols.split(',') {
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            if text == ALL_SYMBOLS {
                names.all = true;
                continue;
            }
            if names.len() == NAMES_MAX {
                return Err(NamesError::TooMany);
            }
            if text.len() > NAME_LENGTH_MAX {
                return Err(NamesError::TooLong);
            }
            match subscription.symbol_type {
                SymbolType::RawSymbol => drop(names.names.insert(text.into())),
                SymbolType::Parent => names.parents.push(Parent::parse(text)?),
                SymbolType::InstrumentId => {
                    names
                        .ids
                        .insert(text.parse().map_err(|_| NamesError::NoId)?);
                }
            }
        }
        Ok(names)
    }

    /// Returns the number of names, parents and instrument ids.
    pub fn len(&self) -> usize {
        self.names.len() + self.parents.len() + self.ids.len()
    }

    /// Returns whether nothing is subscribed.
    pub fn is_empty(&self) -> bool {
        !self.all && self.len() == 0
    }

    /// Returns the client's own text for the subscription that covers the symbol `name` with the
    /// number `id`, if there is one.
    pub fn find<'a>(&'a self, name: &'a str, id: u32) -> Option<&'a str> {
        if self.excluded.contains(name) {
            return None;
        }
        if self.all || self.names.contains(name) || self.ids.contains(&id) {
            return Some(name);
        }
        let parent = self.parents.iter().find(|parent| parent.holds(name))?;
        Some(&parent.text)
    }

    /// Removes the symbols that `other` names. A subscription to all stays, except for those
    /// names.
    pub fn remove(&mut self, other: &Names) {
        if other.all {
            *self = Self::default();
            return;
        }
        if self.all && self.excluded.len() + other.names.len() <= NAMES_MAX {
            self.excluded.extend(other.names.iter().cloned());
        }
        self.names.retain(|name| !other.names.contains(name));
        self.ids.retain(|id| !other.ids.contains(id));
        self.parents
            .retain(|parent| !other.parents.contains(parent));
    }

    /// Returns a few of the names that `is_known` rejects, and their total number.
    pub fn unknown(&self, is_known: impl Fn(&str) -> bool) -> (Vec<&str>, usize) {
        let unknown = self.names.iter().filter(|name| !is_known(name));
        let count = unknown.clone().count();
        let mut some: Vec<&str> = unknown.map(|name| &**name).collect();
        some.sort_unstable();
        some.truncate(NAMED_MAX);
        (some, count)
    }
}

impl Parent {
    fn parse(text: &str) -> Result<Self, NamesError> {
        let (root, class) = text.rsplit_once('.').ok_or(NamesError::NoParent)?;
        let class = match class {
            "FUT" => Class::Futures,
            "OPT" => Class::Options,
            "SPOT" => Class::Spot,
            _ => return Err(NamesError::NoParent),
        };
        match root.is_empty() {
            true => Err(NamesError::NoParent),
            false => Ok(Self {
                root: root.into(),
                text: text.into(),
                class,
            }),
        }
    }

    /// Returns whether `name` belongs to this root and class. CME's forms: `ESH4`, `ESH4-ESM4`,
    /// `ESH4 C4800`.
    fn holds(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(&*self.root) else {
            return false;
        };
        match self.class {
            Class::Spot => rest.is_empty(),
            Class::Futures => {
                let (first, second) = match rest.split_once('-') {
                    Some((first, second)) => (first, Some(second)),
                    None => (rest, None),
                };
                let is_leg = |name: &str| name.strip_prefix(&*self.root).is_some_and(is_expiry);
                is_expiry(first) && second.is_none_or(is_leg)
            }
            Class::Options => rest.split_once(' ').is_some_and(|(expiry, strike)| {
                is_expiry(expiry) && strike.starts_with(['C', 'P'])
            }),
        }
    }
}

/// Returns whether `text` is a month's letter and one or two digits of a year.
fn is_expiry(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_month = bytes.first().is_some_and(|month| MONTHS.contains(month));
    is_month && matches!(bytes.len(), 2 | 3) && bytes[1..].iter().all(u8::is_ascii_digit)
}

const ALL_SYMBOLS: &str = "ALL_SYMBOLS";
/// Longest symbol name in bytes, as in the native feed.
const NAME_LENGTH_MAX: usize = 72;
const MONTHS: &[u8] = b"FGHJKMNQUVXZ";
/// Maximum unknown symbols named in one error.
const NAMED_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::databento::Schema;

    fn names(symbol_type: SymbolType, symbols: &str) -> Result<Names, NamesError> {
        Names::parse(&Subscription {
            schema: Schema::Trades,
            symbol_type,
            symbols,
            start_ns: None,
            snapshot: false,
            id: None,
        })
    }

    #[test]
    fn symbols_are_found_by_name_number_and_root() {
        let raw = names(SymbolType::RawSymbol, "A, B,,").unwrap();
        assert_eq!(
            (raw.find("A", 9), raw.find("C", 9), raw.len()),
            (Some("A"), None, 2)
        );
        assert_eq!(raw.unknown(|name| name == "A"), (vec!["B"], 1));
        let ids = names(SymbolType::InstrumentId, "7").unwrap();
        assert_eq!((ids.find("X", 7), ids.find("7", 8)), (Some("X"), None));
        let all = names(SymbolType::RawSymbol, "ALL_SYMBOLS").unwrap();
        assert_eq!(all.find("X", 0), Some("X"));
        let parent = names(SymbolType::Parent, "ES.FUT").unwrap();
        for (name, found) in [
            ("ESH4", true),
            ("ESZ24", true),
            ("ESH4-ESM4", true),
            ("ESH4 C4800", false),
            ("ESH", false),
            ("MESH4", false),
            ("ESTX", false),
            ("ES", false),
        ] {
            assert_eq!(parent.find(name, 0).is_some(), found, "{name}");
        }
        assert_eq!(parent.find("ESH4", 0), Some("ES.FUT"));
        let options = names(SymbolType::Parent, "ES.OPT,BTC.SPOT").unwrap();
        assert_eq!(options.find("ESH4 C4800", 0), Some("ES.OPT"));
        assert_eq!(options.find("BTC", 0), Some("BTC.SPOT"));
    }

    #[test]
    fn what_is_taken_back_is_not_found_again() {
        let mut all = names(SymbolType::RawSymbol, "ALL_SYMBOLS").unwrap();
        all.remove(&names(SymbolType::RawSymbol, "A").unwrap());
        assert_eq!((all.find("A", 0), all.find("B", 0)), (None, Some("B")));
        let mut some = names(SymbolType::RawSymbol, "A,B").unwrap();
        some.remove(&names(SymbolType::RawSymbol, "B,C").unwrap());
        assert_eq!((some.find("A", 0), some.find("B", 0)), (Some("A"), None));
        let mut parents = names(SymbolType::Parent, "ES.FUT,NQ.FUT").unwrap();
        parents.remove(&names(SymbolType::Parent, "ES.FUT").unwrap());
        assert_eq!((parents.find("ESH4", 0), parents.len()), (None, 1));
        some.remove(&all.clone());
        some.remove(&names(SymbolType::RawSymbol, "ALL_SYMBOLS").unwrap());
        assert!(some.is_empty());
    }

    #[test]
    fn what_cannot_be_a_symbol_is_refused() {
        assert_eq!(names(SymbolType::Parent, "ES"), Err(NamesError::NoParent));
        assert_eq!(names(SymbolType::Parent, ".FUT"), Err(NamesError::NoParent));
        assert_eq!(names(SymbolType::InstrumentId, "x"), Err(NamesError::NoId));
        let long = "A".repeat(73);
        assert_eq!(
            names(SymbolType::RawSymbol, &long),
            Err(NamesError::TooLong)
        );
        let many: Vec<String> = (0..=NAMES_MAX).map(|n| n.to_string()).collect();
        assert_eq!(
            names(SymbolType::RawSymbol, &many.join(",")),
            Err(NamesError::TooMany)
        );
    }
}
