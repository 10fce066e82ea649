//! The answers of two libraries to the same questions: options, contexts, endpoints.

use super::records::Interface;
use crate::shell::{Failure, Shell};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A difference that has a reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    /// Patterns, of which a question matches one.
    questions: Vec<String>,
    /// The pattern of libzmq's answer, if that matters.
    stock: Option<String>,
    ours: Option<String>,
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    exception: Vec<Exception>,
}

/// Asks both libraries and compares. Fails for a difference without a reason.
pub(super) fn compare(shell: &Shell, stock: &Path, ours: &Path) -> Result<Interface, Failure> {
    let path = shell.root().join(EXCEPTIONS);
    let text = fs::read_to_string(&path).map_err(Failure::at(&path))?;
    let exceptions: Exceptions = toml::from_str(&text).map_err(Failure::at(&path))?;
    println!("--- the interface of {}", stock.display());
    let stock = answers(shell, stock)?;
    println!("--- the interface of {}", ours.display());
    let ours = answers(shell, ours)?;
    let (interface, wrong) = judge(&stock, &ours, &exceptions);
    for (reason, count) in &interface.differing {
        println!("{count:6} {reason}");
    }
    if wrong.is_empty() && interface.questions > 0 {
        return Ok(interface);
    }
    let shown = wrong.iter().take(SHOWN_MAX).cloned();
    let shown: Vec<String> = shown.collect();
    Err(Failure::new(format!(
        "{} questions, {} answered otherwise without a reason, such as\n{}",
        interface.questions,
        wrong.len(),
        shown.join("\n")
    )))
}

/// Asks a library. Questions and answers are one per line, with a tab between.
fn answers(shell: &Shell, folder: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let scratch = shell.target().join("conformance/interface");
    let text = shell
        .program("python3", [])
        .argument(shell.root().join(PROBE))
        .argument(folder.join("libzmq.so.5"))
        .argument(&scratch)
        .read()?;
    Ok(parse(&text))
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines
        .map(|(question, answer)| (question.to_owned(), answer.to_owned()))
        .collect()
}

/// Compares what both were asked: what follows a refusal of one of them is not.
fn judge(
    stock: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
    exceptions: &Exceptions,
) -> (Interface, Vec<String>) {
    let mut interface = Interface::default();
    let mut wrong = Vec::new();
    for (question, theirs) in stock {
        let Some(own) = ours.get(question) else {
            continue;
        };
        interface.questions += 1;
        if theirs == own {
            continue;
        }
        let known = exceptions.exception.iter();
        let mut known = known.filter(|one| one.covers(question, theirs, own));
        match known.next() {
            Some(one) => *interface.differing.entry(one.reason.clone()).or_default() += 1,
            None => wrong.push(format!("{question}: libzmq {theirs}, ours {own}")),
        }
    }
    (interface, wrong)
}

impl Exception {
    fn covers(&self, question: &str, stock: &str, ours: &str) -> bool {
        let fits = |pattern: &Option<String>, text| {
            pattern
                .as_ref()
                .is_none_or(|pattern| matches(pattern, text))
        };
        self.questions
            .iter()
            .any(|pattern| matches(pattern, question))
            && fits(&self.stock, stock)
            && fits(&self.ours, ours)
    }
}

/// Whether a text has the form of a pattern, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    // The shortest text for each `*` but the last.
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = text.split_once(part) else {
            return false;
        };
        text = after;
    }
    text.ends_with(last)
}

const PROBE: &str = "tests/conformance/libzmq_interface.py";
const EXCEPTIONS: &str = "tests/conformance/libzmq-interface.toml";
const SHOWN_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("a*bc", "abcbc", true),
            ("ab*b", "ab", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn a_difference_needs_a_reason() {
        let stock = parse("a 1\tok\na 2\tok\na 3\tEINVAL\nb\tok\nonly\tok\n");
        let ours = parse("a 1\tok\na 2\tEINVAL\na 3\tok 1\nb\tEINVAL\n");
        let exceptions = "[[exception]]\nquestions = ['a *']\nstock = 'EINVAL'\nreason = 'r'\n";
        let exceptions: Exceptions = toml::from_str(exceptions).unwrap();
        let (interface, wrong) = judge(&stock, &ours, &exceptions);
        assert_eq!(interface.questions, 4);
        assert_eq!(interface.differing, [("r".to_owned(), 1)].into());
        assert_eq!(
            wrong,
            ["a 2: libzmq ok, ours EINVAL", "b: libzmq ok, ours EINVAL"]
        );
    }

    #[test]
    fn the_exceptions_can_be_read() {
        let text = include_str!("../../../../tests/conformance/libzmq-interface.toml");
        let exceptions: Exceptions = toml::from_str(text).unwrap();
        for one in exceptions.exception {
            assert!(!one.reason.is_empty() && !one.questions.is_empty());
        }
    }
}
