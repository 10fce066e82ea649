//! Rules for Rust files.

use super::Violation;
use super::source::{Source, has_word};

const LINES_MAX: usize = 800;
const COLUMNS_MAX: usize = 100;
const HASH_TABLE: &str = "crates/keyspace/src/table";

/// Beginnings of paths where `unsafe` is allowed. Each of these files explains in its head why it
/// is needed; a new one needs a line here.
const UNSAFE_FILES: &[&str] = &[
    // The allocator: mimalloc with a counter; and one for tests that counts a thread's allocations.
    "crates/memory/",
    // Waiting on kernels before 5.11, for which there is no safe interface.
    "crates/readiness/src/",
    // One allocation per entry: tag, key and value behind one pointer.
    "crates/keyspace/src/entry",
    "crates/keyspace/src/table",
    // Memory that two processes map: pointers of mappings, and room that is not initialised.
    "crates/rings/src/memory.rs",
    // The kernel's ring of sends takes pointers.
    "crates/lane/src/ring.rs",
    // A lock that a plain store releases, behind lock_api's safe mutex.
    "crates/keyspace/src/lock.rs",
    // Lua's C interface: its own stack, which errors unwind by longjmp.
    "crates/script/src/calls",
    // Prefetching is an intrinsic function.
    "crates/book/src/cache_line.rs",
    "crates/keyspace/src/cache_line.rs",
    // C's pointers: the functions that programs linked to libzmq call.
    "crates/libzmq/src/",
    // The same pointers from the other side: libraries loaded for measurements.
    "crates/zmq-bench/src/abi.rs",
    // Calls functions compiled for processors with AVX.
    "crates/zmtp/src/curve/salsa",
];

/// Marks of unfinished work, written in two parts because this file is checked too.
const UNFINISHED_WORDS: &[&str] = &[concat!("FIX", "ME"), concat!("XX", "X")];

/// Words that say nothing about a type.
const EMPTY_WORDS: &[&str] = &["Manager", "Helper", "Util", "Utils"];

/// How many lines above an `unsafe` its reason may begin.
const SAFETY_LINES: usize = 12;

pub(super) fn check(path: &str, content: &str) -> Vec<Violation> {
    let source = Source::new(content);
    let mut violations = Vec::new();
    length(path, content, &mut violations);
    for (line, text) in content.lines().enumerate() {
        let mut broken = |rule: String| violations.push(Violation::new(path, line + 1, rule));
        columns(&source, line, text, &mut broken);
        unfinished(&source, line, &mut broken);
        type_names(&source, line, &mut broken);
        unsafe_code(path, &source, line, &mut broken);
    }
    violations
}

fn length(path: &str, content: &str, violations: &mut Vec<Violation>) {
    let lines = content.lines().count();
    // A table of declarations is as long as there are commands; a hash table is code.
    let is_table = path.contains("table") && !path.starts_with(HASH_TABLE);
    let excepted = is_test_file(path) || is_table;
    if lines > LINES_MAX && !excepted {
        let rule = format!("{lines} lines: split it where it bends ({LINES_MAX} at most)");
        violations.push(Violation::new(path, 0, rule));
    }
}

/// Checks the length of a line. A long literal or address cannot be broken; the code around it can.
fn columns(source: &Source, line: usize, text: &str, broken: &mut impl FnMut(String)) {
    let columns = text.chars().count();
    if columns - source.literal_lens[line] > COLUMNS_MAX && !text.contains("://") {
        broken(format!("{columns} columns: {COLUMNS_MAX} at most"));
    }
}

fn unfinished(source: &Source, line: usize, broken: &mut impl FnMut(String)) {
    let (code, comment) = (&source.code[line], &source.comments[line]);
    for word in UNFINISHED_WORDS {
        if has_word(code, word) || has_word(comment, word) {
            broken(format!("'{word}': finish it, or write an issue"));
        }
    }
}

fn type_names(source: &Source, line: usize, broken: &mut impl FnMut(String)) {
    let words: Vec<&str> = source.code[line]
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    for pair in words.windows(2) {
        let declares = ["struct", "enum", "trait", "type", "union"].contains(&pair[0]);
        if let Some(word) = EMPTY_WORDS
            .iter()
            .find(|word| declares && has_part(pair[1], word))
        {
            broken(format!("'{}': '{word}' does not say what it is", pair[1]));
        }
    }
}

fn unsafe_code(path: &str, source: &Source, line: usize, broken: &mut impl FnMut(String)) {
    let code = &source.code[line];
    if !has_word(code, "unsafe") {
        return;
    }
    let allowed = UNSAFE_FILES.iter().any(|allowed| path.starts_with(allowed));
    if !allowed {
        broken("'unsafe' outside of the files that tidy lists".into());
    }
    let above = &source.comments[line.saturating_sub(SAFETY_LINES)..=line];
    let has_reason = above
        .iter()
        .any(|c| c.contains("SAFETY:") || c.contains("# Safety"));
    if !has_reason && !is_pointer_type(code) {
        broken("'unsafe' without a 'SAFETY:' above it".into());
    }
}

/// Returns whether the code is a function pointer type or a linker name. `unsafe extern "C" fn(…)`
/// as a type does nothing unsafe itself, and C's header defines a linker name.
fn is_pointer_type(code: &str) -> bool {
    code.contains(": unsafe ")
        || code.contains("<unsafe ")
        || code.contains("= unsafe extern")
        || code.contains("#[unsafe(no_mangle)]")
}

fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("tests.rs")
}

/// Returns whether the CamelCase `name` has `word` as one of its words.
fn has_part(name: &str, word: &str) -> bool {
    name.match_indices(word)
        .any(|(at, _)| !name[at + word.len()..].starts_with(|c: char| c.is_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, content: &str) -> Vec<(usize, String)> {
        check(path, content)
            .into_iter()
            .map(|v| (v.line, v.rule))
            .collect()
    }

    fn lines(path: &str, content: &str) -> Vec<usize> {
        broken(path, content)
            .into_iter()
            .map(|(line, _)| line)
            .collect()
    }

    #[test]
    fn long_files_are_found_but_for_tests_and_tables() {
        let content = "\n".repeat(LINES_MAX + 1);
        assert_eq!(lines("crates/a/src/b.rs", &content), [0]);
        for path in [
            "crates/a/tests/b.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/src/table.rs",
        ] {
            assert_eq!(lines(path, &content), [0; 0], "{path}");
        }
        assert_eq!(lines("crates/keyspace/src/table.rs", &content), [0]);
        assert_eq!(lines("crates/a/src/b.rs", &"\n".repeat(LINES_MAX)), [0; 0]);
    }

    #[test]
    fn long_lines_are_found_but_for_literals_and_addresses() {
        let long = "x".repeat(101);
        assert_eq!(lines("a.rs", &format!("{long}\n// {long}\n")), [1, 2]);
        assert_eq!(
            lines(
                "a.rs",
                &format!("f(\"{long} {long}\")\n// https://{long}\n")
            ),
            [0; 0]
        );
        assert_eq!(
            lines("a.rs", &format!("{}\n", "é".repeat(100))),
            [0; 0],
            "columns, not bytes"
        );
    }

    #[test]
    fn unfinished_work_is_found() {
        let word = UNFINISHED_WORDS[0];
        let content = format!("// {word}: later\nlet s = \"{word}\";\n");
        assert_eq!(lines("a.rs", &content), [1]);
    }

    #[test]
    fn names_without_meaning_are_found() {
        assert_eq!(
            lines("a.rs", "pub struct SessionManager;\nenum Utilization {}\n"),
            [1]
        );
        assert_eq!(
            lines("a.rs", "trait Utils {}\nlet manager = HelperCall;\n"),
            [1]
        );
    }

    #[test]
    fn unsafe_needs_a_place_and_a_reason() {
        let bare = "fn f() {\n    unsafe { g() }\n}\n";
        let reasoned = "fn f() {\n    // SAFETY: g has no conditions.\n    unsafe { g() }\n}\n";
        assert_eq!(lines("crates/hub/src/a.rs", bare), [2, 2]);
        assert_eq!(lines("crates/hub/src/a.rs", reasoned), [3]);
        assert_eq!(lines("crates/keyspace/src/entry/raw.rs", bare), [2]);
        assert_eq!(lines("crates/keyspace/src/entry/raw.rs", reasoned), [0; 0]);
        assert_eq!(lines("a.rs", "#![forbid(unsafe_code)] // unsafe\n"), [0; 0]);
    }
}
