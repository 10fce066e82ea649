//! The symbols of a subscription.

use std::collections::HashSet;

use super::class::split_dated;
use super::{Subscription, SymbolType};

/// Maximum symbols of all subscriptions to a schema.
pub const NAMES_MAX: usize = 100_000;

/// The symbols of a subscription, kept to match symbols that appear later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Whether every symbol is subscribed.
    all: bool,
    names: HashSet<Box<str>>,
    /// The symbols of which `names` has a venue (`AAPL` of `AAPL@XNAS`).
    of_venues: HashSet<Box<str>>,
    parents: Vec<Parent>,
    ids: HashSet<u32>,
    continuous: Vec<Continuous>,
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

/// The future of a root that has a rank by its expiration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Continuous {
    root: Box<str>,
    /// 0 is the first to expire.
    rank: usize,
    /// As the client wrote it.
    text: Box<str>,
    /// The instrument that has the rank now, if there is one.
    id: Option<u32>,
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
    /// A continuous symbol of another form.
    #[error("a continuous symbol must be ROOT.c.RANK, such as ES.c.0")]
    NoContinuous,
    /// A continuous symbol by volume or open interest.
    #[error(
        "continuous symbols are served by calendar only, such as ES.c.0: definitions have no volume and no open interest"
    )]
    RollRule,
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
                SymbolType::RawSymbol => {
                    if let Some((symbol, _)) = text.rsplit_once(VENUE_SEPARATOR) {
                        names.of_venues.insert(symbol.into());
                    }
                    names.names.insert(text.into());
                }
                SymbolType::Parent => names.parents.push(Parent::parse(text)?),
                SymbolType::Continuous => names.continuous.push(Continuous::parse(text)?),
                SymbolType::InstrumentId => {
                    names
                        .ids
                        .insert(text.parse().map_err(|_| NamesError::NoId)?);
                }
            }
        }
        Ok(names)
    }

    /// Returns the number of names, parents, instrument ids and continuous symbols.
    pub fn len(&self) -> usize {
        self.names.len() + self.parents.len() + self.ids.len() + self.continuous.len()
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
        if let Some(found) = self.continuous.iter().find(|one| one.id == Some(id)) {
            return Some(&found.text);
        }
        let parent = self.parents.iter().find(|parent| parent.holds(name))?;
        Some(&parent.text)
    }

    /// Returns whether every symbol is subscribed.
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// Returns whether a venue of the symbol `name` is named, such as `AAPL@XNAS` of `AAPL`.
    pub fn has_venue_of(&self, name: &str) -> bool {
        self.of_venues.contains(name)
    }

    /// Returns the roots of the continuous symbols.
    pub fn roots(&self) -> impl Iterator<Item = &str> {
        self.continuous.iter().map(|one| &*one.root)
    }

    /// Returns the continuous symbols with the instruments that they stand for now.
    pub fn resolved(&self) -> impl Iterator<Item = (&str, u32)> {
        let all = self.continuous.iter();
        all.filter_map(|one| Some((&*one.text, one.id?)))
    }

    /// Asks `find` for the instrument of each continuous symbol: root, rank from 0. Returns whether
    /// one has changed.
    pub fn resolve(&mut self, find: impl Fn(&str, usize) -> Option<u32>) -> bool {
        let mut has_changed = false;
        for one in &mut self.continuous {
            let id = find(&one.root, one.rank);
            has_changed |= std::mem::replace(&mut one.id, id) != id;
        }
        has_changed
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
        let of_venues = self.names.iter();
        let of_venues = of_venues.filter_map(|name| name.rsplit_once(VENUE_SEPARATOR));
        self.of_venues = of_venues.map(|(symbol, _)| symbol.into()).collect();
        self.ids.retain(|id| !other.ids.contains(id));
        self.parents
            .retain(|parent| !other.parents.contains(parent));
        let is_other = |one: &Continuous| other.continuous.iter().any(|gone| gone.text == one.text);
        self.continuous.retain(|one| !is_other(one));
    }

    /// Returns the symbols that stand for no instrument: names that `is_known` rejects, ids that
    /// `has_id` rejects, parents of which no name of `all` is, unresolved continuous symbols.
    pub fn unknown<'a>(
        &self,
        is_known: impl Fn(&str) -> bool,
        has_id: impl Fn(u32) -> bool,
        all: impl Iterator<Item = &'a str>,
    ) -> Unknown {
        let mut childless: Vec<&Parent> = self.parents.iter().collect();
        for name in all {
            if childless.is_empty() {
                break;
            }
            childless.retain(|parent| !parent.holds(name));
        }
        let names = self.names.iter().filter(|name| !is_known(name));
        let ids = self.ids.iter().filter(|&&id| !has_id(id));
        let unresolved = self.continuous.iter().filter(|one| one.id.is_none());
        let mut texts: Vec<String> = names
            .map(|name| name.to_string())
            .chain(childless.into_iter().map(|parent| parent.text.to_string()))
            .chain(ids.map(u32::to_string))
            .chain(unresolved.map(|one| one.text.to_string()))
            .collect();
        texts.sort_unstable();
        Unknown { texts }
    }

    /// Returns whether there is a parent symbol.
    pub fn has_parents(&self) -> bool {
        !self.parents.is_empty()
    }
}

/// Symbols that stand for no instrument yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    texts: Vec<String>,
}

impl Unknown {
    /// Returns the text for the client: the first few symbols, and the number of the others; `None`
    /// if all symbols are known.
    pub fn text(&self) -> Option<String> {
        let count = self.texts.len();
        let mut length = 0;
        let fits = |text: &&String| {
            length += text.len() + 2;
            length <= NAMED_LENGTH_MAX
        };
        let named = self.texts.iter().take(NAMED_MAX).take_while(fits).count();
        let list = self.texts[..named].join(", ");
        let symbols = if count == 1 {
            "symbol is"
        } else {
            "symbols are"
        };
        let more = match count - named {
            0 => String::new(),
            left_out => format!(", and {left_out} more"),
        };
        (count > 0).then(|| {
            format!("{count} {symbols} not known yet; records follow once they are: {list}{more}")
        })
    }
}

impl Continuous {
    fn parse(text: &str) -> Result<Self, NamesError> {
        let mut parts = text.rsplitn(3, '.');
        let (rank, rule, root) = (parts.next(), parts.next(), parts.next());
        let rank = rank.and_then(|rank| rank.parse().ok());
        let root = root.filter(|root| !root.is_empty());
        match (root, rule, rank) {
            (Some(root), Some("c"), Some(rank)) => Ok(Self {
                root: root.into(),
                rank,
                text: text.into(),
                id: None,
            }),
            (Some(_), Some("n" | "v"), Some(_)) => Err(NamesError::RollRule),
            _ => Err(NamesError::NoContinuous),
        }
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
    /// `ESH4 C4800`. OCC's form of options: `AAPL  240119C00150000`.
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
            Class::Options => {
                let is_of_month = rest.split_once(' ').is_some_and(|(expiry, strike)| {
                    is_expiry(expiry) && strike.starts_with(['C', 'P'])
                });
                is_of_month || split_dated(name).is_some_and(|(root, _)| root == &*self.root)
            }
        }
    }
}

/// Returns whether `text` is a month's letter and one or two digits of a year.
pub(super) fn is_expiry(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_month = bytes.first().is_some_and(|month| MONTHS.contains(month));
    is_month && matches!(bytes.len(), 2 | 3) && bytes[1..].iter().all(u8::is_ascii_digit)
}

/// Separates a symbol from its venue, as in the hub's topics.
const VENUE_SEPARATOR: char = '@';
const ALL_SYMBOLS: &str = "ALL_SYMBOLS";
/// Longest symbol name in bytes, as in the native feed.
const NAME_LENGTH_MAX: usize = 72;
pub(super) const MONTHS: &[u8] = b"FGHJKMNQUVXZ";
/// Maximum unknown symbols named in one error.
const NAMED_MAX: usize = 10;
/// Maximum bytes of the unknown symbols named in one error, whose text has 301.
const NAMED_LENGTH_MAX: usize = 200;

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
        let none = std::iter::empty;
        let unknown = raw.unknown(|name| name == "A", |_| false, none());
        let text = "1 symbol is not known yet; records follow once they are: B";
        assert_eq!(unknown.text().unwrap(), text);
        assert_eq!(raw.unknown(|_| true, |_| false, none()).text(), None);
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

    /// The usual subscription to options of shares found none of them.
    #[test]
    fn a_parent_has_the_options_in_the_form_of_occ() {
        let parent = names(SymbolType::Parent, "AAPL.OPT").unwrap();
        for (name, found) in [
            ("AAPL  240119C00150000", true),
            ("AAPL  240119P00150000", true),
            ("AAPL240119P00150000", true),
            ("AAPL1 240119P00150000", false),
            ("AAP   240119C00150000", false),
            ("AAPL  241319C00150000", false),
            ("AAPL  240119X00150000", false),
            ("AAPL  240119C0015000", false),
            ("AAPL", false),
        ] {
            assert_eq!(parent.find(name, 0).is_some(), found, "{name}");
        }
        let six = names(SymbolType::Parent, "ABCDEF.OPT,SPX.FUT").unwrap();
        assert_eq!(six.find("ABCDEF240119C00150000", 0), Some("ABCDEF.OPT"));
        assert_eq!(six.find("SPX   240119C04800000", 0), None);
        let none = parent.unknown(|_| false, |_| false, ["SPY   240119C00400000"].into_iter());
        assert!(none.text().unwrap().ends_with(": AAPL.OPT"));
        let known = parent.unknown(|_| false, |_| false, ["AAPL  240119C00150000"].into_iter());
        assert_eq!(known.text(), None);
    }

    #[test]
    fn unknown_symbols_of_each_kind_are_named_and_the_others_counted() {
        let none = std::iter::empty;
        let ids = names(SymbolType::InstrumentId, "1,2").unwrap();
        let unknown = ids.unknown(|_| false, |id| id == 1, none());
        assert!(unknown.text().unwrap().ends_with("once they are: 2"));
        let parents = names(SymbolType::Parent, "ES.FUT,NQ.FUT,GC.OPT").unwrap();
        let unknown = parents.unknown(|_| false, |_| false, ["NQZ4", "ESX"].into_iter());
        assert!(unknown.text().unwrap().ends_with(": ES.FUT, GC.OPT"));
        let many: Vec<String> = (10..25).map(|number| format!("S{number}")).collect();
        let many = names(SymbolType::RawSymbol, &many.join(",")).unwrap();
        let text = many.unknown(|_| false, |_| false, none()).text().unwrap();
        assert!(text.starts_with("15 symbols are") && text.ends_with("S19, and 5 more"));
    }

    #[test]
    fn a_continuous_symbol_is_the_instrument_that_has_its_rank() {
        let mut chain = names(SymbolType::Continuous, "ES.c.0,ES.c.1").unwrap();
        assert!(
            chain
                .unknown(|_| true, |_| true, std::iter::empty())
                .text()
                .is_some()
        );
        assert_eq!(chain.roots().collect::<Vec<_>>(), ["ES", "ES"]);
        assert!(chain.resolve(|root, rank| (root == "ES").then_some(7 + rank as u32)));
        assert!(!chain.resolve(|_, rank| Some(7 + rank as u32)));
        assert_eq!(chain.find("ESH4", 7), Some("ES.c.0"));
        assert_eq!(chain.find("ESM4", 8), Some("ES.c.1"));
        assert_eq!(chain.find("ESU4", 9), None);
        chain.remove(&names(SymbolType::Continuous, "ES.c.0").unwrap());
        assert_eq!((chain.find("ESH4", 7), chain.len()), (None, 1));
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
        for (text, error) in [
            ("ES.v.0", NamesError::RollRule),
            ("ES.n.1", NamesError::RollRule),
            ("ES.c.x", NamesError::NoContinuous),
            ("ES.0", NamesError::NoContinuous),
            (".c.0", NamesError::NoContinuous),
        ] {
            assert_eq!(names(SymbolType::Continuous, text), Err(error), "{text}");
        }
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
