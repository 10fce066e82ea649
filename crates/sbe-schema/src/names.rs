//! Names of the schema as Rust names.

/// Returns `MDEntryPx` as `md_entry_px`.
pub(crate) fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (at, &letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let next_is_lower = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
        let begins_word = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || (before.is_ascii_uppercase() && next_is_lower)
            });
        if begins_word {
            out.push('_');
        }
        out.push(match letter {
            letter if letter.is_ascii_alphanumeric() => letter.to_ascii_lowercase(),
            _ => '_',
        });
    }
    if KEYWORDS.contains(&out.as_str()) {
        out.push('_');
    }
    out
}

/// Returns the name of a group's accessor: `NoMDEntries` as `md_entries`.
pub(crate) fn group(name: &str) -> String {
    snake(without_no(name))
}

/// Returns `NoMDEntries` as `MDEntries`.
pub(crate) fn without_no(name: &str) -> &str {
    match name.strip_prefix("No") {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_uppercase()) => rest,
        _ => name,
    }
}

/// Returns `groupSize` as `GroupSize`.
pub(crate) fn camel(name: &str) -> String {
    let mut letters = name.chars();
    match letters.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + letters.as_str(),
        None => String::new(),
    }
}

/// Returns `NoAggressor` as `NO_AGGRESSOR`.
pub(crate) fn constant(name: &str) -> String {
    let upper = snake(name).to_ascii_uppercase();
    match upper.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("VALUE_{upper}"),
        false => upper,
    }
}

/// Keywords that a schema may use as names.
const KEYWORDS: &[&str] = &[
    "as", "async", "await", "box", "break", "const", "continue", "crate", "dyn", "else", "enum",
    "extern", "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move",
    "mut", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true", "type",
    "unsafe", "use", "where", "while", "yield",
];
