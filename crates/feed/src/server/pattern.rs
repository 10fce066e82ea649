//! The symbols a client selects.

use crate::journal::Filter;
use crate::wire::PatternText;

use super::Board;

/// Maximum patterns of a client.
pub const PATTERNS_MAX: usize = 1_024;
/// Maximum `*` in one pattern; limits the time of a match.
pub const WILDCARDS_MAX: usize = 8;
/// Symbol ids from here on cannot be selected one by one. Limits a client's bit set to 2 MiB.
pub const SELECTABLE_SYMBOLS_MAX: u32 = 1 << 24;

/// A pattern of names: `*`, an exact name, or a glob with `*` (any run) and `?` (any character).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: PatternText,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    All,
    Exact,
    Glob,
}

/// Why a pattern is refused: the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The text is empty.
    #[error("the pattern is empty")]
    Empty,
    /// More than [`WILDCARDS_MAX`] stars.
    #[error("the pattern has more than {WILDCARDS_MAX} '*'")]
    TooManyWildcards,
}

impl Pattern {
    /// Parses a pattern.
    pub fn new(text: PatternText) -> Result<Pattern, PatternError> {
        let bytes = text.as_bytes();
        let stars = bytes.iter().filter(|&&byte| byte == b'*').count();
        let kind = match bytes {
            b"" => return Err(PatternError::Empty),
            _ if stars > WILDCARDS_MAX => return Err(PatternError::TooManyWildcards),
            b"*" => Kind::All,
            _ if stars == 0 && !bytes.contains(&b'?') => Kind::Exact,
            _ => Kind::Glob,
        };
        Ok(Pattern { text, kind })
    }

    /// Returns whether every name matches.
    pub fn matches_all(&self) -> bool {
        self.kind == Kind::All
    }

    /// Returns whether `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        match self.kind {
            Kind::All => true,
            Kind::Exact => self.text.as_bytes() == name.as_bytes(),
            Kind::Glob => glob(self.text.as_str(), name),
        }
    }

    /// Returns the pattern's text.
    pub fn text(&self) -> &PatternText {
        &self.text
    }
}

/// A client's patterns and the matching symbols.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    patterns: Vec<Pattern>,
    all: bool,
    /// One bit per symbol id.
    symbols: Vec<u64>,
    /// Number of board entries matched so far.
    board_length: usize,
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

    /// Adds a pattern. The caller enforces [`PATTERNS_MAX`].
    pub fn insert(&mut self, pattern: Pattern) {
        if !self.holds(&pattern) {
            self.patterns.push(pattern);
            self.forget_matches();
        }
    }

    /// Removes a pattern by its exact text. Returns whether it existed.
    pub fn remove(&mut self, text: &PatternText) -> bool {
        let before = self.patterns.len();
        self.patterns.retain(|pattern| pattern.text() != text);
        self.forget_matches();
        self.patterns.len() != before
    }

    /// Matches the entries that the board has added since the last call.
    pub fn update(&mut self, board: &impl Board) {
        if self.all || self.patterns.is_empty() {
            return;
        }
        for index in self.board_length..board.len() {
            let Some(definition) = board.definition(index) else {
                continue;
            };
            let name = definition.name.as_str();
            if self.patterns.iter().any(|pattern| pattern.matches(name)) {
                self.select(definition.symbol);
            }
        }
        self.board_length = board.len();
    }

    fn select(&mut self, symbol: u32) {
        if symbol >= SELECTABLE_SYMBOLS_MAX {
            return;
        }
        let word = symbol as usize / 64;
        if self.symbols.len() <= word {
            self.symbols.resize(word + 1, 0);
        }
        self.symbols[word] |= 1 << (symbol % 64);
    }

    fn forget_matches(&mut self) {
        self.all = self.patterns.iter().any(Pattern::matches_all);
        self.symbols.fill(0);
        self.board_length = 0;
    }
}

impl Filter for Selection {
    fn passes_all(&self) -> bool {
        self.all
    }

    #[inline]
    fn passes(&self, symbol: u32) -> bool {
        self.all
            || self
                .symbols
                .get(symbol as usize / 64)
                .is_some_and(|word| word & (1 << (symbol % 64)) != 0)
    }
}

/// Matches a glob with one step of backtracking: the last star takes one more character.
fn glob(pattern: &str, name: &str) -> bool {
    let mut wanted = pattern.chars();
    let mut given = name.chars();
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let before_given = given.clone();
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                given = before_given;
                retry = Some((wanted.clone(), given.clone()));
                continue;
            }
            (Some('?'), Some(_)) => continue,
            (Some(one), Some(other)) if one == other => continue,
            _ => {}
        }
        let Some((after_star, start)) = &mut retry else {
            return false;
        };
        if start.next().is_none() {
            return false;
        }
        wanted = after_star.clone();
        given = start.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(PatternText::new(pattern).unwrap())
            .unwrap()
            .matches(name)
    }

    #[test]
    fn globs_match_as_a_shell_would() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("AAPL", "AAPL", true),
            ("AAPL", "AAPLX", false),
            ("A*L", "AAPL", true),
            ("A*L", "AL", true),
            ("A*L", "ALx", false),
            ("?APL", "AAPL", true),
            ("?APL", "APL", false),
            ("*é?", "caféx", true),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
            ("ES*", "ESH4", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn empty_and_explosive_patterns_are_refused() {
        assert_eq!(Pattern::new(PatternText::EMPTY), Err(PatternError::Empty));
        let stars = PatternText::new("*a*a*a*a*a*a*a*a*").unwrap();
        assert_eq!(Pattern::new(stars), Err(PatternError::TooManyWildcards));
    }
}
