//! Keys that options name. The commands take their own keys from here, and so do locks and access
//! control: where an option comes twice, and the last one counts, all three mean the same key.

use std::ops::Range;

use tidewire_resp::Arguments;

use super::options::is;

/// SORT: the key behind the last STORE that is an option, not a value of another.
pub(super) fn sort_store(arguments: Arguments<'_>) -> Range<usize> {
    let store = |&(_, option): &(usize, SortOption)| option == SortOption::Store;
    let last = sort_options(arguments).filter(store).last();
    last.map_or(0..0, |(at, _)| at + 1..at + 2)
}

/// Whether SORT and SORT_RO read keys that only the elements tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SortPatterns {
    /// BY has a place for the element.
    pub by: bool,
    /// There is a GET.
    pub get: bool,
    /// A BY or a GET has a place for the element: it names further keys.
    pub names_keys: bool,
}

/// Which patterns a request of SORT or SORT_RO has.
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

/// The options of SORT, each with its position; those with values have them all.
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

/// The key behind the last of both options, if it is this one.
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

/// XREAD and XREADGROUP: the first half of what follows STREAMS, where that is an option and no
/// name of a group or a consumer.
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

/// MIGRATE: its one key, if no KEYS follow.
pub(super) fn migrated_key(arguments: Arguments<'_>) -> Range<usize> {
    match keys_of_migrate(arguments) {
        None => 3..4,
        Some(_) => 0..0,
    }
}

/// MIGRATE: the keys behind KEYS, where the one key is empty: the command refuses both at once.
pub(super) fn migrated_keys(arguments: Arguments<'_>) -> Range<usize> {
    let is_alone = arguments.get(3).is_some_and(<[u8]>::is_empty);
    match keys_of_migrate(arguments) {
        Some(first) if is_alone => first..arguments.len(),
        _ => 0..0,
    }
}

/// The position behind the option KEYS.
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
