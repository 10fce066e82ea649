//! The symbols a client selects.

use crate::journal::Filter;
use crate::wire::PatternText;

use super::Board;
use super::pattern::{Pattern, PatternSet};
use super::readable::Readable;
use super::steps::{ENTRY_STEPS, NAME_STEPS, Steps};

/// Symbol ids from here on cannot be selected one by one. Limits a client's bit set to 2 MiB.
pub const SELECTABLE_SYMBOLS_MAX: u32 = 1 << 24;

/// A client's patterns and the matching symbols.
///
/// Names are looked up. Globs need a walk over the board, which [`Selection::update`] does in
/// parts: meanwhile the symbols of the other patterns are selected as before.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    patterns: Vec<Pattern>,
    set: PatternSet,
    symbols: Symbols,
    /// Entries before this one have been matched with all patterns, except those still due. `None`
    /// while all patterns are due.
    seen: Option<usize>,
    /// Names to be looked up.
    names_due: Vec<Pattern>,
    /// Globs that the next walk looks for.
    globs_due: Vec<Pattern>,
    walk: Option<Walk>,
    /// Whether symbols of removed patterns may still be selected.
    is_stale: bool,
    /// Whether the stream waits for the globs that are due: the client has the values of their
    /// symbols and misses none of the messages.
    is_waited_for: bool,
}

/// A walk over the entries that were there before.
#[derive(Clone, Debug)]
struct Walk {
    set: PatternSet,
    next: usize,
    until: usize,
    /// The symbols found, if they replace the selected ones.
    replacement: Option<Symbols>,
}

/// One bit per symbol id.
#[derive(Clone, Debug, Default)]
struct Symbols(Vec<u64>);

impl Symbols {
    fn insert(&mut self, symbol: u32) {
        if symbol >= SELECTABLE_SYMBOLS_MAX {
            return;
        }
        let word = symbol as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (symbol % 64);
    }

    #[inline]
    fn contains(&self, symbol: u32) -> bool {
        let word = self.0.get(symbol as usize / 64);
        word.is_some_and(|word| word & (1 << (symbol % 64)) != 0)
    }
}

impl Selection {
    /// Returns the patterns in order of subscription.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Returns whether nothing can match.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns whether the selection has this pattern.
    pub fn holds(&self, pattern: &Pattern) -> bool {
        self.patterns.contains(pattern)
    }

    /// Adds a pattern. The stream waits until the symbols of one that `resumes` are known. The
    /// caller enforces [`PATTERNS_MAX`](super::PATTERNS_MAX).
    pub fn insert(&mut self, pattern: Pattern, resumes: bool) {
        if self.holds(&pattern) {
            return;
        }
        self.patterns.push(pattern);
        self.set.insert(&pattern);
        if self.set.matches_all() && pattern.matches_all() {
            return;
        }
        if pattern.exact().is_some() {
            self.names_due.push(pattern);
        } else {
            self.globs_due.push(pattern);
            self.is_waited_for |= resumes;
        }
    }

    /// Returns whether the client may read this name.
    pub(crate) fn may_read(&self, name: &str) -> bool {
        self.set.may_read(name, &mut Steps::unlimited())
    }

    /// Returns what the client may read.
    pub(crate) fn readable(&self) -> &Readable {
        self.set.readable()
    }

    /// Replaces what the client may read. No symbol is selected until it has been found again.
    pub(crate) fn restrict(&mut self, readable: Readable) {
        self.set.restrict(readable);
        self.symbols = Symbols::default();
        (self.seen, self.walk, self.is_stale) = (None, None, false);
        self.names_due = self.named();
        let globs = self.patterns.iter().filter(|one| one.exact().is_none());
        self.globs_due = globs.copied().collect();
    }

    /// Removes a pattern by its exact text. Returns whether it existed. Its symbols are selected
    /// until the next updates have found those of the other patterns.
    pub fn remove(&mut self, text: &PatternText) -> bool {
        let mut patterns = self.patterns.iter();
        let Some(position) = patterns.position(|pattern| pattern.text() == text) else {
            return false;
        };
        let pattern = self.patterns.remove(position);
        if self.patterns.is_empty() {
            *self = Selection {
                set: PatternSet::of(self.set.readable().clone()),
                ..Selection::default()
            };
            return true;
        }
        self.set.remove(&pattern);
        self.names_due.retain(|due| *due != pattern);
        self.globs_due.retain(|due| *due != pattern);
        self.is_stale |= !pattern.matches_all() || self.set.readable().is_some();
        true
    }

    /// Continues the search for symbols: of new patterns, and of all on new entries.
    pub fn update(&mut self, board: &impl Board, steps: &mut Steps) {
        if self.set.matches_all() || self.patterns.is_empty() {
            return;
        }
        let mut seen = *self.seen.get_or_insert(board.len());
        while !steps.are_used_up()
            && let Some(pattern) = self.names_due.pop()
        {
            steps.spend(NAME_STEPS);
            let entry = pattern.exact().and_then(|name| board.find(name));
            if let Some(definition) = entry.and_then(|index| board.definition(index))
                && self.set.may_read(definition.name.as_str(), steps)
            {
                self.select(definition.symbol);
            }
        }
        while seen < board.len() && !steps.are_used_up() {
            steps.spend(ENTRY_STEPS);
            if let Some(definition) = board.definition(seen)
                && self.set.matches(definition.name.as_str(), steps)
            {
                self.select(definition.symbol);
            }
            seen += 1;
        }
        self.seen = Some(seen);
        while !steps.are_used_up() && self.begin_walk() {
            self.continue_walk(board, steps);
        }
    }

    /// Returns whether the symbols of all patterns are known, so that their values can be sent and
    /// none of their later messages is missed.
    pub(crate) fn is_settled(&self, board_length: usize) -> bool {
        self.set.matches_all() || self.has_matched(board_length) && !self.is_finding()
    }

    /// Returns whether the stream can continue: it misses no message of a symbol whose values the
    /// client has.
    pub(crate) fn is_current(&self, board_length: usize) -> bool {
        let waits = || self.is_waited_for && self.is_finding();
        self.set.matches_all() || self.has_matched(board_length) && !waits()
    }

    /// Returns whether [`Selection::update`] has something to do.
    pub(crate) fn has_work(&self, board_length: usize) -> bool {
        let is_idle = self.is_settled(board_length) && self.walk.is_none() && !self.is_stale;
        !self.set.matches_all() && !self.patterns.is_empty() && !is_idle
    }

    /// Returns whether names are looked up and new entries matched.
    fn has_matched(&self, board_length: usize) -> bool {
        let has_seen = self.seen.is_some_and(|seen| seen >= board_length);
        self.names_due.is_empty() && (has_seen || self.patterns.is_empty())
    }

    /// Returns whether symbols of globs are still to be found.
    fn is_finding(&self) -> bool {
        let is_search = |walk: &Walk| walk.replacement.is_none();
        !self.globs_due.is_empty() || self.walk.as_ref().is_some_and(is_search)
    }

    /// Begins the next walk, if none is under way. Returns whether there is one.
    fn begin_walk(&mut self) -> bool {
        if self.walk.is_some() {
            return true;
        }
        let mut set = PatternSet::of(self.set.readable().clone());
        let replacement = if !self.globs_due.is_empty() {
            self.globs_due.drain(..).for_each(|glob| set.insert(&glob));
            None
        } else if std::mem::take(&mut self.is_stale) {
            set = self.set.clone();
            Some(Symbols::default())
        } else {
            self.is_waited_for = false;
            return false;
        };
        self.walk = Some(Walk {
            set,
            next: 0,
            until: self.seen.unwrap_or(0),
            replacement,
        });
        true
    }

    fn continue_walk(&mut self, board: &impl Board, steps: &mut Steps) {
        let Some(mut walk) = self.walk.take() else {
            return;
        };
        if walk.set.has_only_names() {
            walk.next = walk.until;
            self.names_due = self.named();
        }
        while walk.next < walk.until && !steps.are_used_up() {
            steps.spend(ENTRY_STEPS);
            if let Some(definition) = board.definition(walk.next)
                && walk.set.matches(definition.name.as_str(), steps)
            {
                match &mut walk.replacement {
                    Some(symbols) => symbols.insert(definition.symbol),
                    None => self.select(definition.symbol),
                }
            }
            walk.next += 1;
        }
        if walk.next < walk.until {
            self.walk = Some(walk);
        } else if let Some(symbols) = walk.replacement {
            self.symbols = symbols;
        }
    }

    fn named(&self) -> Vec<Pattern> {
        let names = self.patterns.iter().filter(|one| one.exact().is_some());
        names.copied().collect()
    }

    fn select(&mut self, symbol: u32) {
        self.symbols.insert(symbol);
        if let Some(walk) = &mut self.walk
            && let Some(symbols) = &mut walk.replacement
        {
            symbols.insert(symbol);
        }
    }
}

impl Filter for Selection {
    fn passes_all(&self) -> bool {
        self.set.matches_all()
    }

    #[inline]
    fn passes(&self, symbol: u32) -> bool {
        self.set.matches_all() || self.symbols.contains(symbol)
    }
}
