//! Splits Rust source into code, comments and literals: enough of a lexer for the rules.

use std::ops::Range;

/// The kind of a character in a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// A source file in three layers of equal length. Each has its own characters and spaces for the
/// others, so that a position means the same in all of them.
#[derive(Debug)]
pub(crate) struct Source {
    /// Without comments and without the content of literals.
    pub(crate) code: Vec<String>,
    /// Only comments.
    pub(super) comments: Vec<String>,
    /// Number of characters of each line inside literals.
    pub(super) literal_lens: Vec<usize>,
    /// Lines (from 0) of `#[cfg(test)]` items.
    tests: Vec<Range<usize>>,
}

impl Source {
    pub(crate) fn new(content: &str) -> Self {
        let characters: Vec<char> = content.chars().collect();
        let kinds = kinds(&characters);
        let layer = |kept: Kind| -> Vec<String> {
            let masked = characters.iter().zip(&kinds).map(|(&character, &kind)| {
                if kind == kept || character == '\n' {
                    character
                } else {
                    ' '
                }
            });
            masked
                .collect::<String>()
                .split('\n')
                .map(str::to_owned)
                .collect()
        };
        let literal_lens = characters
            .iter()
            .zip(&kinds)
            .collect::<Vec<_>>()
            .split(|(character, _)| **character == '\n')
            .map(|line| {
                line.iter()
                    .filter(|(_, kind)| **kind == Kind::Literal)
                    .count()
            })
            .collect();
        let code = layer(Kind::Code);
        let tests = test_items(&code);
        Self {
            comments: layer(Kind::Comment),
            code,
            literal_lens,
            tests,
        }
    }

    /// Returns whether line `line` (from 0) is part of a test.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|lines| lines.contains(&line))
    }
}

/// Returns whether `line` contains `word` as a whole word.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

fn kinds(characters: &[char]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Code; characters.len()];
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        let (kind, len) = match (rest[0], rest.get(1).copied()) {
            ('/', Some('/')) => (Kind::Comment, line_len(rest)),
            ('/', Some('*')) => (Kind::Comment, block_comment_len(rest)),
            ('r', _) if !follows_name(characters, at) && raw_string_len(rest).is_some() => {
                (Kind::Literal, raw_string_len(rest).unwrap_or(1))
            }
            ('"', _) => (Kind::Literal, string_len(rest)),
            ('\'', _) => match character_len(rest) {
                Some(len) => (Kind::Literal, len),
                None => (Kind::Code, 1),
            },
            _ => (Kind::Code, 1),
        };
        let end = (at + len).min(characters.len());
        kinds[at..end].fill(kind);
        if kind == Kind::Literal {
            // The quotes are code; the text between them is not.
            kinds[at] = Kind::Code;
            kinds[end - 1] = Kind::Code;
        }
        at = end;
    }
    kinds
}

/// Returns whether the `r` at this place ends a name (`br"…"` and `cr"…"` are not names).
fn follows_name(characters: &[char], at: usize) -> bool {
    let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
    let before = characters[..at]
        .iter()
        .rev()
        .take_while(|c| is_part(c))
        .count();
    !(before == 0 || before == 1 && matches!(characters[at - 1], 'b' | 'c'))
}

fn line_len(rest: &[char]) -> usize {
    rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())
}

fn block_comment_len(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at + 1 < rest.len() {
        match (rest[at], rest[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Returns the length of `"…"` including its quotes.
fn string_len(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of `r"…"` or `r#"…"#`, or `None` if it is something else (`r#name`).
fn raw_string_len(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let begin = hashes + 2;
    let is_end = |at: &usize| {
        let after = &rest[*at..];
        after[0] == '"' && after.len() > hashes && after[1..=hashes].iter().all(|c| *c == '#')
    };
    Some(
        (begin..rest.len())
            .find(is_end)
            .map_or(rest.len(), |at| at + 1 + hashes),
    )
}

/// Returns the length of `'…'` including its quotes, or `None` if the quote begins a lifetime.
fn character_len(rest: &[char]) -> Option<usize> {
    if rest.get(1) == Some(&'\\') {
        let end = rest.iter().skip(3).position(|c| *c == '\'')?;
        return Some(end + 4);
    }
    (rest.get(2) == Some(&'\'')).then_some(3)
}

/// Returns the lines of items under `#[cfg(test)]`, from the attribute to the closing bracket.
fn test_items(code: &[String]) -> Vec<Range<usize>> {
    let is_attribute = |line: &str| line.contains("#[cfg(") && has_word(line, "test");
    let begins = (0..code.len()).filter(|line| is_attribute(&code[*line]));
    begins.map(|begin| begin..item_end(code, begin)).collect()
}

fn item_end(code: &[String], begin: usize) -> usize {
    let mut depth = 0_usize;
    for (number, line) in code.iter().enumerate().skip(begin + 1) {
        for character in line.chars() {
            match character {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if depth == 0 {
                return number + 1;
            }
        }
        if depth == 0 && line.trim_end().ends_with(';') {
            return number + 1;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(content: &str) -> String {
        Source::new(content).code.join("\n")
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(code("a // b\nc"), "a     \nc");
        assert_eq!(code("a /* b /* c */ d */ e"), "a                   e");
        assert_eq!(Source::new("a // b").comments, ["  // b"]);
        assert_eq!(code("\"//\" a"), "\"  \" a");
    }

    #[test]
    fn what_stands_in_literals_is_not_code() {
        assert_eq!(code(r#"f("a\"b") c"#), r#"f("    ") c"#);
        assert_eq!(code(r###"r#"a"b"# c"###), "r      # c");
        assert_eq!(code("br\"a\" + bar\"b\""), "br  \" + bar\" \"");
        assert_eq!(code(r"'\'' + '\u{1}' + 'x'"), "'  ' + '     ' + ' '");
        assert_eq!(code("r#type"), "r#type");
    }

    #[test]
    fn a_lifetime_begins_no_literal() {
        assert_eq!(
            code("fn f<'a>(x: &'a str) {} // b"),
            "fn f<'a>(x: &'a str) {}     "
        );
    }

    #[test]
    fn lines_of_tests_are_known() {
        let source = Source::new(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod d;\nx",
        );
        let tests: Vec<usize> = (0..9).filter(|line| source.is_test(*line)).collect();
        assert_eq!(tests, [1, 2, 3, 4, 6, 7]);
    }

    #[test]
    fn a_word_is_not_a_part_of_another() {
        assert!(has_word("unsafe { f() }", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
    }
}
