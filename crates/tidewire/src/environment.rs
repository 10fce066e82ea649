//! Checks the environment at the start for misspelt `TIDEWIRE_*` variables.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory};
use tracing::warn;

use crate::feed_login;
use crate::options::Options;
use crate::process;

/// Warns of every `TIDEWIRE_*` variable that is not an option.
pub(crate) fn warn_of_unknown_variables() {
    let variables = std::env::vars_os();
    let variables = variables.filter_map(|(name, value)| {
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    });
    for text in complaints(variables) {
        warn!("{text}");
    }
}

/// Returns one line for each variable that has no effect.
fn complaints(variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let known = known_names();
    let unknown = variables.filter(|(name, value)| {
        name.starts_with(PREFIX)
            && !known.contains(name)
            && !OTHERS.contains(&name.as_str())
            && !is_service_link(name, value)
    });
    unknown
        .map(|(name, _)| match nearest(&name, &known) {
            Some(near) => format!(
                "environment variable {name} is unknown and has no effect; did you mean {near}?"
            ),
            None => format!(
                "environment variable {name} is unknown and has no effect; 'tidewire serve --help' \
                 lists the names"
            ),
        })
        .collect()
}

/// Returns the variables that options are read from.
fn known_names() -> BTreeSet<String> {
    fn collect(command: &Command, names: &mut BTreeSet<String>) {
        let variables = command
            .get_arguments()
            .filter_map(|option| option.get_env());
        names.extend(variables.filter_map(|name| name.to_str().map(str::to_owned)));
        command
            .get_subcommands()
            .for_each(|sub| collect(sub, names));
    }
    let mut names = BTreeSet::new();
    collect(&Options::command(), &mut names);
    names
}

/// Returns whether Kubernetes made the variable for a service called `tidewire`.
fn is_service_link(name: &str, value: &str) -> bool {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    name.starts_with("SERVICE_")
        || (name == "PORT" || name.starts_with("PORT_"))
            && (value.contains("://") || name.split('_').count() > 2)
}

/// Returns the known name with the smallest edit distance, if that is small enough for a typo.
fn nearest<'a>(name: &str, known: &'a BTreeSet<String>) -> Option<&'a String> {
    let distances = known.iter().map(|each| (edit_distance(name, each), each));
    let (distance, near) = distances.min()?;
    let own_part = name.len() - PREFIX.len();
    (distance <= (own_part / 3).clamp(1, DISTANCE_MAX)).then_some(near)
}

/// Returns how many characters must be inserted, removed, replaced or swapped with a neighbour to
/// turn `a` into `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(x != y);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            let is_swap = i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y;
            if is_swap {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Variables of this project's tests and tools, the mark of a process in the background, and a
/// password that no option takes.
const OTHERS: [&str; 10] = [
    process::MARK,
    feed_login::SOURCE_VARIABLE,
    "TIDEWIRE_ACCEPT_COUNTERS",
    "TIDEWIRE_BINARY",
    "TIDEWIRE_COMMIT",
    "TIDEWIRE_DATA",
    "TIDEWIRE_DATABENTO_RUST",
    "TIDEWIRE_SEED",
    "TIDEWIRE_WRITE_CORPUS",
    "TIDEWIRE_ZMQ_PEER",
];
const PREFIX: &str = "TIDEWIRE_";
const DISTANCE_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints_of(pairs: &[(&str, &str)]) -> Vec<String> {
        let pairs = pairs.iter();
        complaints(pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn an_unknown_variable_is_named_with_the_likely_one() {
        let texts = complaints_of(&[
            ("TIDEWIRE_LANE", "2"),
            ("TIDEWIRE_RSEP", "127.0.0.1:1"),
            ("TIDEWIRE_FOO", "1"),
            ("TIDEWIRE_PORT", "6380"),
        ]);
        for (text, words) in texts.iter().zip([
            ["TIDEWIRE_LANE ", "did you mean TIDEWIRE_LANES?"],
            ["TIDEWIRE_RSEP ", "did you mean TIDEWIRE_RESP?"],
            ["TIDEWIRE_FOO ", "--help"],
            ["TIDEWIRE_PORT ", "has no effect"],
        ]) {
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
        assert_eq!(texts.len(), 4);
    }

    #[test]
    fn known_variables_and_those_of_tests_and_services_are_accepted() {
        let texts = complaints_of(&[
            ("TIDEWIRE_LOG", "info"),
            ("TIDEWIRE_MX_TAG", "A.B"),
            ("TIDEWIRE_BINARY", "/bin/tidewire"),
            ("TIDEWIRE_SERVICE_HOST", "10.0.0.1"),
            ("TIDEWIRE_PORT", "tcp://10.0.0.1:6379"),
            ("TIDEWIRE_PORT_6379_TCP_ADDR", "10.0.0.1"),
            ("HOME", "/"),
        ]);
        assert_eq!(texts, [""; 0]);
    }

    #[test]
    fn the_edit_distance_counts_a_swap_as_one() {
        assert_eq!(edit_distance("abc", "abc"), 0);
        assert_eq!(edit_distance("acb", "abc"), 1);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
