//! Finds the keys that options name. Commands, locks and access control all use these functions. If
//! an option comes twice, all three take the last one.

use std::ops::Range;

use tidewire_resp::Arguments;

use super::options::is;

/// Finds SORT's destination: the key after the last STORE that is an option and not the value of
/// one.
pub(super) fn sort_store(arguments: Arguments<'_>) -> Range<usize> {
    let store = |&(_, option): &(usize, SortOption)| option == SortOption::Store;
    let last = sort_options(arguments).filter(store).last();
    last.map_or(0..0, |(at, _)| at + 1..at + 2)
}

/// Which patterns a SORT or SORT_RO request has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SortPatterns {
    /// BY contains a placeholder for the element.
    pub by: bool,
    /// There is a GET.
    pub get: bool,
    /// A BY or a GET contains a placeholder for the element, and so names further keys.
    pub names_keys: bool,
}

/// Returns the patterns of a SORT or SORT_RO request.
pub fn sort_patterns(arguments: Arguments<'_>) -> SortPatterns {
    let mut patterns = SortPatterns::default();
    for (at, option) in sort_options(arguments) {
        if matches!(option, SortOption::By | SortOption::Get) {
            let has_place = arguments[at + 1].contains(&b'*');
            patterns.by |= option == SortOption::By && has_place;
            patterns.get |= option == SortOption::Get;
            patterns.names_keys |= has_place;
        }
    }
    patterns
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SortOption {
    By,
    Get,
    Store,
    Limit,
    Word,
}

/// Returns the options of SORT, each with its position. An option without its value is left out.
fn sort_options(arguments: Arguments<'_>) -> impl Iterator<Item = (usize, SortOption)> {
    let mut next = 2;
    std::iter::from_fn(move || {
        let at = next;
        let word = arguments.get(at)?;
        let values = arguments.len() - at - 1;
        let option = match word {
            _ if values >= 1 && is(word, "by") => SortOption::By,
            _ if values >= 1 && is(word, "get") => SortOption::Get,
            _ if values >= 1 && is(word, "store") => SortOption::Store,
            _ if values >= 2 && is(word, "limit") => SortOption::Limit,
            _ => SortOption::Word,
        };
        next += match option {
            SortOption::By | SortOption::Get | SortOption::Store => 2,
            SortOption::Limit => 3,
            SortOption::Word => 1,
        };
        Some((at, option))
    })
}

/// Returns the key after the last STORE or STOREDIST, if that option is `wanted`.
pub(super) fn geo_store(arguments: Arguments<'_>, first: usize, wanted: &str) -> Range<usize> {
    let (mut at, mut found) = (first, 0..0);
    while at + 1 < arguments.len() {
        let word = &arguments[at];
        if is(word, "store") || is(word, "storedist") {
            let key = at + 1..at + 2;
            found = if is(word, wanted) { key } else { 0..0 };
            at += 2;
        } else {
            at += if is(word, "count") { 2 } else { 1 };
        }
    }
    found
}

/// Finds the keys of XREAD and XREADGROUP: the first half of the arguments after the option
/// STREAMS. A group or a consumer may also have that name.
pub(super) fn streams(arguments: Arguments<'_>) -> Range<usize> {
    let mut at = 1;
    while at + 1 < arguments.len() {
        let word = &arguments[at];
        if is(word, "streams") {
            let first = at + 1;
            return first..first + (arguments.len() - first) / 2;
        }
        at += match word {
            _ if is(word, "block") || is(word, "count") => 2,
            _ if is(word, "group") => 3,
            _ => 1,
        };
    }
    0..0
}

/// Finds MIGRATE's single key, unless KEYS follows.
pub(super) fn migrated_key(arguments: Arguments<'_>) -> Range<usize> {
    match keys_of_migrate(arguments) {
        None => 3..4,
        Some(_) => 0..0,
    }
}

/// Finds MIGRATE's keys after KEYS, if the single key is empty; the command refuses both at once.
pub(super) fn migrated_keys(arguments: Arguments<'_>) -> Range<usize> {
    let is_alone = arguments.get(3).is_some_and(<[u8]>::is_empty);
    match keys_of_migrate(arguments) {
        Some(first) if is_alone => first..arguments.len(),
        _ => 0..0,
    }
}

/// Returns the position after the option KEYS.
fn keys_of_migrate(arguments: Arguments<'_>) -> Option<usize> {
    let mut at = 6;
    while let Some(word) = arguments.get(at) {
        at += match word {
            _ if is(word, "keys") => return Some(at + 1),
            _ if is(word, "auth") => 2,
            _ if is(word, "auth2") => 3,
            _ => 1,
        };
    }
    None
}
