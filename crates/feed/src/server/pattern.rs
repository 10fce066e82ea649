//! Patterns of symbol names.

use std::collections::HashSet;

use crate::wire::PatternText;

use super::readable::Readable;
use super::steps::Steps;

/// Maximum patterns of a client.
pub const PATTERNS_MAX: usize = 1_024;
/// Maximum `*` in one pattern; limits the time of a match.
pub const WILDCARDS_MAX: usize = 8;

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
    Glob {
        /// Bytes before the first wildcard.
        literal: u8,
    },
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
        let literal = bytes.iter().position(|byte| b"*?".contains(byte));
        let kind = match bytes {
            b"" => return Err(PatternError::Empty),
            _ if stars > WILDCARDS_MAX => return Err(PatternError::TooManyWildcards),
            b"*" => Kind::All,
            _ => match literal {
                None => Kind::Exact,
                Some(literal) => Kind::Glob {
                    literal: literal as u8,
                },
            },
        };
        Ok(Pattern { text, kind })
    }

    /// Returns whether every name matches.
    pub fn matches_all(&self) -> bool {
        self.kind == Kind::All
    }

    /// Returns the name that the pattern is, if it is one.
    pub(crate) fn exact(&self) -> Option<&str> {
        (self.kind == Kind::Exact).then(|| self.text.as_str())
    }

    /// Returns whether `name` matches, and counts the work.
    pub fn matches(&self, name: &str, steps: &mut Steps) -> bool {
        steps.spend(1);
        match self.kind {
            Kind::All => true,
            Kind::Exact => self.text.as_bytes() == name.as_bytes(),
            Kind::Glob { literal } => {
                // Wildcards are ASCII, so the text before one ends between characters.
                let (literal, rest) = self.text.as_str().split_at(literal.into());
                let name = name.strip_prefix(literal);
                name.is_some_and(|name| glob(rest, name, steps))
            }
        }
    }

    /// Returns the pattern's text.
    pub fn text(&self) -> &PatternText {
        &self.text
    }
}

/// Patterns of which one must match a name that the client may read. Exact names are found by
/// their hash, however many they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatternSet {
    all: bool,
    /// The hash has a secret, as the names are the peer's choice.
    names: HashSet<Box<str>>,
    globs: Vec<Pattern>,
    readable: Readable,
}

impl PatternSet {
    /// Creates a set without patterns.
    pub(crate) fn of(readable: Readable) -> PatternSet {
        PatternSet {
            readable,
            ..PatternSet::default()
        }
    }

    /// Replaces what the client may read.
    pub(crate) fn restrict(&mut self, readable: Readable) {
        self.readable = readable;
    }

    pub(crate) fn readable(&self) -> &Readable {
        &self.readable
    }

    /// Returns whether the client may read a name, and counts the work.
    pub(crate) fn may_read(&self, name: &str, steps: &mut Steps) -> bool {
        let Some(names) = &self.readable else {
            return true;
        };
        steps.spend(names.steps());
        names.contains(name)
    }

    /// Adds a pattern that the set does not have.
    pub(crate) fn insert(&mut self, pattern: &Pattern) {
        match pattern.kind {
            Kind::All => self.all = true,
            Kind::Exact => {
                self.names.insert(pattern.text.as_str().into());
            }
            Kind::Glob { .. } => self.globs.push(*pattern),
        }
    }

    pub(crate) fn remove(&mut self, pattern: &Pattern) {
        match pattern.kind {
            Kind::All => self.all = false,
            Kind::Exact => {
                self.names.remove(pattern.text.as_str());
            }
            Kind::Glob { .. } => self.globs.retain(|glob| glob != pattern),
        }
    }

    pub(crate) fn matches_all(&self) -> bool {
        self.all && self.readable.is_none()
    }

    /// Returns whether the board need not be searched.
    pub(crate) fn has_only_names(&self) -> bool {
        !self.all && self.globs.is_empty()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    pub(crate) fn matches(&self, name: &str, steps: &mut Steps) -> bool {
        let is_name = || !self.names.is_empty() && self.names.contains(name);
        let mut globs = self.globs.iter();
        let matches = self.all || is_name() || globs.any(|glob| glob.matches(name, steps));
        matches && self.may_read(name, steps)
    }
}

/// Matches a glob with one step of backtracking: the last star takes one more character.
fn glob(pattern: &str, name: &str, steps: &mut Steps) -> bool {
    let mut wanted = pattern.chars();
    let mut given = name.chars();
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        steps.spend(1);
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
            .matches(name, &mut Steps::unlimited())
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
