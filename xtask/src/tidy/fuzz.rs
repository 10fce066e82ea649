//! Checks that every fuzz entry of a crate has a corpus, which ordinary tests run, and a fuzz
//! target.

use super::Violation;

/// Checks the entries that `content`, a crate's `fuzzing.rs`, declares against all `paths`.
pub(super) fn check(path: &str, content: &str, paths: &[String]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in (1..).zip(content.lines()) {
        let Some(decoder) = entry(line) else {
            continue;
        };
        let target = format!("fuzz/fuzz_targets/{decoder}.rs");
        if !paths.contains(&target) {
            let rule = format!("'{target}' is missing, and its [[bin]] in fuzz/Cargo.toml");
            violations.push(Violation::new(path, number, rule));
        }
        let corpus = format!("fuzz/corpus/{decoder}/");
        if !paths.iter().any(|path| path.starts_with(&corpus)) {
            let rule = format!("'{corpus}' has no file");
            violations.push(Violation::new(path, number, rule));
        }
    }
    violations
}

/// Returns the decoder's name in `pub fn fuzz_<decoder>(…`.
fn entry(line: &str) -> Option<&str> {
    Some(line.strip_prefix("pub fn fuzz_")?.split_once('(')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(paths: &[&str]) -> usize {
        let content = "/// Parses.\npub fn fuzz_line(data: &[u8]) {\n    parse(data);\n}\n";
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        check("crates/a/src/fuzzing.rs", content, &paths).len()
    }

    #[test]
    fn an_entry_needs_a_target_and_a_corpus() {
        assert_eq!(
            rules(&["fuzz/fuzz_targets/line.rs", "fuzz/corpus/line/empty"]),
            0
        );
        assert_eq!(
            rules(&["fuzz/fuzz_targets/line.rs", "fuzz/corpus/lines/empty"]),
            1
        );
        assert_eq!(rules(&[]), 2);
    }
}
