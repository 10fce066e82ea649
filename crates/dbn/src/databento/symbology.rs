//! The symbols of a subscription.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::RandomState;

use super::parents::{NAME_LENGTH_MAX, Parents};
use super::{Subscription, SymbolType};

/// Maximum symbols of all subscriptions to a schema.
pub const NAMES_MAX: usize = 100_000;

/// The symbols of subscriptions, kept to match symbols that appear later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Whether every symbol is subscribed.
    all: bool,
    names: HashSet<Box<str>, RandomState>,
    /// The symbols of which `names` has venues (`AAPL` of `AAPL@XNAS`), and of how many.
    of_venues: HashMap<Box<str>, usize, RandomState>,
    parents: Parents,
    ids: HashSet<u32, RandomState>,
    /// By root and rank, 0 for the first to expire.
    continuous: BTreeMap<(Box<str>, usize), Continuous>,
    /// The root and the rank of each instrument that a continuous symbol stands for now.
    standing: HashMap<u32, (Box<str>, usize), RandomState>,
    /// Symbols unsubscribed after a subscription to all.
    excluded: HashSet<Box<str>, RandomState>,
}

/// The future of a root that has a rank by its expiration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Continuous {
    /// As the client wrote it.
    text: Box<str>,
    /// The instrument that has the rank now, if there is one.
    id: Option<u32>,
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
                SymbolType::RawSymbol => names.insert_name(text.into()),
                SymbolType::Parent if names.parents.insert(text) => {}
                SymbolType::Parent => return Err(NamesError::NoParent),
                SymbolType::Continuous => {
                    let (root, rank) = parse_continuous(text)?;
                    names.insert_continuous((root.into(), rank), text.into());
                }
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

    /// Returns the number of lookups that [`Names::find`] makes.
    pub fn lookups(&self) -> usize {
        1 + self.parents.lookups()
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
        if let Some(place) = self.standing.get(&id) {
            return Some(&self.continuous.get(place)?.text);
        }
        self.parents.find(name)
    }

    /// Returns whether every symbol is subscribed.
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// Returns whether a venue of the symbol `name` is named, such as `AAPL@XNAS` of `AAPL`.
    pub fn has_venue_of(&self, name: &str) -> bool {
        self.of_venues.contains_key(name)
    }

    /// Returns the symbols' own names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Returns the numbers of instruments.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.ids.iter().copied()
    }

    /// Returns the parent symbols.
    pub fn parents(&self) -> &Parents {
        &self.parents
    }

    /// Returns the roots of the continuous symbols.
    pub fn roots(&self) -> impl Iterator<Item = &str> {
        let mut before = None;
        let roots = self.continuous.keys().map(|(root, _)| &**root);
        roots.filter(move |root| before.replace(*root) != Some(*root))
    }

    /// Returns whether a continuous symbol has this root.
    pub fn has_root(&self, root: &str) -> bool {
        let mut from = self.continuous.range((root.into(), 0)..);
        from.next().is_some_and(|(first, _)| *first.0 == *root)
    }

    /// Returns the continuous symbols of a root with the instruments that they stand for now. The
    /// root has at most `count` instruments.
    pub fn resolved(&self, root: &str, count: usize) -> impl Iterator<Item = (&str, u32)> {
        let all = self
            .continuous
            .range((root.into(), 0)..(root.into(), count));
        all.filter_map(|(_, one)| Some((&*one.text, one.id?)))
    }

    /// Returns the texts of the continuous symbols.
    pub fn continuous(&self) -> impl Iterator<Item = &str> {
        self.continuous.values().map(|one| &*one.text)
    }

    /// Asks `find` for the instruments of a root's continuous symbols, by rank from 0. The root has
    /// at most `count` instruments, now and at the last time. Returns whether one has changed.
    pub fn resolve(
        &mut self,
        root: &str,
        count: usize,
        find: impl Fn(usize) -> Option<u32>,
    ) -> bool {
        let mut has_changed = false;
        let ranks = (root.into(), 0)..(root.into(), count);
        for (place, one) in self.continuous.range_mut(ranks) {
            let (before, id) = (one.id, find(place.1));
            if before == id {
                continue;
            }
            has_changed = true;
            one.id = id;
            // A lower rank may stand for the instrument by now.
            if let Some(gone) = before.filter(|id| self.standing.get(id) == Some(place)) {
                self.standing.remove(&gone);
            }
            id.map(|id| self.standing.insert(id, place.clone()));
        }
        has_changed
    }

    /// Adds the symbols of a later subscription. Returns whether any was new.
    pub fn add(&mut self, other: Names) -> bool {
        let before = (self.all, self.excluded.len(), self.len());
        if other.all {
            self.all = true;
            self.excluded.clear();
        }
        for name in other.names {
            self.excluded.remove(&name);
            self.insert_name(name);
        }
        self.ids.extend(other.ids);
        self.parents.add(&other.parents);
        for (place, one) in other.continuous {
            self.insert_continuous(place, one.text);
        }
        (self.all, self.excluded.len(), self.len()) != before
    }

    fn insert_name(&mut self, name: Box<str>) {
        let symbol = name.rsplit_once(VENUE_SEPARATOR).map(|(symbol, _)| symbol);
        let symbol: Option<Box<str>> = symbol.map(Into::into);
        if self.names.insert(name)
            && let Some(symbol) = symbol
        {
            *self.of_venues.entry(symbol).or_default() += 1;
        }
    }

    fn remove_name(&mut self, name: &str) {
        if !self.names.remove(name) {
            return;
        }
        if let Some((symbol, _)) = name.rsplit_once(VENUE_SEPARATOR)
            && let Some(venues) = self.of_venues.get_mut(symbol)
        {
            debug_assert!(*venues > 0, "it counts the names");
            *venues -= 1;
            if *venues == 0 {
                self.of_venues.remove(symbol);
            }
        }
    }

    fn insert_continuous(&mut self, place: (Box<str>, usize), text: Box<str>) {
        let new = Continuous { text, id: None };
        self.continuous.entry(place).or_insert(new);
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
        for name in &other.names {
            self.remove_name(name);
        }
        for id in &other.ids {
            self.ids.remove(id);
        }
        self.parents.remove(&other.parents);
        for place in other.continuous.keys() {
            let gone = self.continuous.remove(place);
            if let Some(id) = gone.and_then(|gone| gone.id) {
                self.standing.remove(&id);
            }
        }
    }

    /// Returns the symbols that stand for no instrument: names that `is_known` rejects and ids that
    /// `has_id` rejects. Of parents and continuous symbols only the caller knows.
    pub fn unknown(
        &self,
        is_known: impl Fn(&str) -> bool,
        has_id: impl Fn(u32) -> bool,
    ) -> Unknown {
        let names = self.names.iter().filter(|name| !is_known(name));
        let ids = self.ids.iter().filter(|&&id| !has_id(id));
        let names = names.map(|name| Cow::Borrowed(&**name));
        Unknown::of(names.chain(ids.map(|id| Cow::Owned(id.to_string()))))
    }
}

/// Symbols that stand for no instrument yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The first few, sorted.
    texts: Vec<String>,
    /// The number of all.
    count: usize,
}

impl Unknown {
    /// Counts these symbols and keeps the first few of them by name.
    pub fn of<S: AsRef<str> + Ord>(texts: impl Iterator<Item = S>) -> Self {
        let mut texts: Vec<S> = texts.collect();
        let count = texts.len();
        if count > NAMED_MAX {
            texts.select_nth_unstable(NAMED_MAX);
            texts.truncate(NAMED_MAX);
        }
        texts.sort_unstable();
        Self {
            texts: texts.iter().map(|text| text.as_ref().to_owned()).collect(),
            count,
        }
    }

    /// Returns the text for the client: the first few symbols, and the number of the others; `None`
    /// if all symbols are known.
    pub fn text(&self) -> Option<String> {
        let count = self.count;
        let mut length = 0;
        let fits = |text: &&String| {
            length += text.len() + 2;
            length <= NAMED_LENGTH_MAX
        };
        let named = self.texts.iter().take_while(fits).count();
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

/// Splits a continuous symbol (`ES.c.0`) into its root and rank.
pub fn parse_continuous(text: &str) -> Result<(&str, usize), NamesError> {
    let mut parts = text.rsplitn(3, '.');
    let (rank, rule, root) = (parts.next(), parts.next(), parts.next());
    let rank = rank.and_then(|rank| rank.parse().ok());
    let root = root.filter(|root| !root.is_empty());
    match (root, rule, rank) {
        (Some(root), Some("c"), Some(rank)) => Ok((root, rank)),
        (Some(_), Some("n" | "v"), Some(_)) => Err(NamesError::RollRule),
        _ => Err(NamesError::NoContinuous),
    }
}

/// Separates a symbol from its venue, as in the hub's topics.
const VENUE_SEPARATOR: char = '@';
const ALL_SYMBOLS: &str = "ALL_SYMBOLS";
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
        let unknown = raw.unknown(|name| name == "A", |_| false);
        let text = "1 symbol is not known yet; records follow once they are: B";
        assert_eq!(unknown.text().unwrap(), text);
        assert_eq!(raw.unknown(|_| true, |_| false).text(), None);
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
        let mut childless = parent.parents().clone();
        childless.remove_of("SPY   240119C00400000");
        assert_eq!(childless.len(), 1);
        childless.remove_of("AAPL  240119C00150000");
        assert!(childless.is_empty());
    }

    #[test]
    fn unknown_symbols_of_each_kind_are_named_and_the_others_counted() {
        let ids = names(SymbolType::InstrumentId, "1,2").unwrap();
        let unknown = ids.unknown(|_| false, |id| id == 1);
        assert!(unknown.text().unwrap().ends_with("once they are: 2"));
        let parents = names(SymbolType::Parent, "ES.FUT,NQ.FUT,GC.OPT").unwrap();
        let mut childless = parents.parents().clone();
        for name in ["NQZ4", "ESX"] {
            childless.remove_of(name);
        }
        let unknown = Unknown::of(childless.texts());
        assert!(unknown.text().unwrap().ends_with(": ES.FUT, GC.OPT"));
        let many: Vec<String> = (10..25).map(|number| format!("S{number}")).collect();
        let many = names(SymbolType::RawSymbol, &many.join(",")).unwrap();
        let text = many.unknown(|_| false, |_| false).text().unwrap();
        assert!(text.starts_with("15 symbols are") && text.ends_with("S19, and 5 more"));
    }

    #[test]
    fn a_continuous_symbol_is_the_instrument_that_has_its_rank() {
        let mut chain = names(SymbolType::Continuous, "ES.c.0,ES.c.1").unwrap();
        let mut all: Vec<_> = chain.continuous().collect();
        all.sort_unstable();
        assert_eq!(all, ["ES.c.0", "ES.c.1"]);
        assert!(chain.has_root("ES") && !chain.has_root("E") && !chain.has_root("ESX"));
        assert_eq!(chain.roots().collect::<Vec<_>>(), ["ES"]);
        assert!(chain.resolve("ES", 2, |rank| Some(7 + rank as u32)));
        assert!(!chain.resolve("ES", 9, |rank| Some(7 + rank as u32)));
        assert!(!chain.resolve("NQ", 9, |_| Some(1)));
        assert_eq!(chain.find("ESH4", 7), Some("ES.c.0"));
        assert_eq!(chain.find("ESM4", 8), Some("ES.c.1"));
        assert_eq!(chain.find("ESU4", 9), None);
        assert_eq!(chain.resolved("ES", 1).collect::<Vec<_>>(), [("ES.c.0", 7)]);
        // The first expires: each instrument gets a lower rank.
        assert!(chain.resolve("ES", 2, |rank| [8, 9].get(rank).copied()));
        let found = [7, 8, 9].map(|id| chain.find("", id));
        assert_eq!(found, [None, Some("ES.c.0"), Some("ES.c.1")]);
        chain.remove(&names(SymbolType::Continuous, "ES.c.0,NQ.c.0").unwrap());
        assert_eq!((chain.find("ESM4", 8), chain.len()), (None, 1));
    }

    #[test]
    fn subscriptions_to_the_same_symbols_are_one() {
        let mut own = names(SymbolType::RawSymbol, "A").unwrap();
        assert!(!own.add(names(SymbolType::RawSymbol, "A").unwrap()));
        assert!(own.add(names(SymbolType::RawSymbol, "A,B").unwrap()) && own.len() == 2);
        assert!(own.add(names(SymbolType::RawSymbol, "ALL_SYMBOLS").unwrap()));
        assert!(!own.add(names(SymbolType::RawSymbol, "ALL_SYMBOLS").unwrap()));
        own.remove(&names(SymbolType::RawSymbol, "B,C").unwrap());
        assert_eq!(
            ["A", "B", "C"].map(|name| own.find(name, 0)),
            [Some("A"), None, None]
        );
        assert!(own.add(names(SymbolType::RawSymbol, "B").unwrap()));
        assert_eq!((own.find("B", 0), own.find("C", 0)), (Some("B"), None));
        assert!(own.add(names(SymbolType::RawSymbol, "ALL_SYMBOLS").unwrap()));
        assert_eq!(own.find("C", 0), Some("C"));
        let mut chains = names(SymbolType::Continuous, "ES.c.0").unwrap();
        chains.resolve("ES", 1, |_| Some(7));
        assert!(chains.add(names(SymbolType::Continuous, "ES.c.1,ES.c.0,NQ.c.0").unwrap()));
        assert_eq!((chains.len(), chains.find("", 7)), (3, Some("ES.c.0")));
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
