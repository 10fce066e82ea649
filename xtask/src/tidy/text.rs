//! Rules for files in any language.

use super::Violation;

/// A larger file belongs into a release or is generated, and is not committed.
const FILE_SIZE_MAX: usize = 1 << 20;

/// Endings of files that people write here. Other files are data (corpora, golden bytes).
const ENDINGS: &[&str] = &[
    "rs", "md", "toml", "py", "sh", "c", "h", "go", "java", "js", "mjs", "ts", "html", "css",
    "yml", "yaml",
];

/// Folders that exist on one person's machine, written in two parts because this file is checked
/// too.
const MACHINE_FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

pub(super) fn size(path: &str, size: usize) -> Vec<Violation> {
    if size <= FILE_SIZE_MAX {
        return Vec::new();
    }
    vec![Violation::new(
        path,
        0,
        format!("{size} bytes: no file is greater than 1 MiB"),
    )]
}

pub(super) fn is_written_here(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    ENDINGS.contains(&ending) || path.starts_with(".ci/")
}

pub(super) fn check(path: &str, content: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in (1..).zip(content.split('\n')) {
        if line.ends_with([' ', '\t', '\r']) {
            violations.push(Violation::new(path, number, "white space ends the line"));
        }
        for folder in MACHINE_FOLDERS
            .iter()
            .filter(|folder| names_folder(line, folder))
        {
            let rule = format!("'{folder}' is a folder of one machine");
            violations.push(Violation::new(path, number, rule));
        }
    }
    if !content.is_empty() && !content.ends_with('\n') {
        violations.push(Violation::new(path, 0, "the last line has no end"));
    }
    violations
}

/// Returns whether `folder` is at the beginning of a path in the line.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-}/".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &str) -> Vec<usize> {
        check("docs/page.md", content)
            .iter()
            .map(|violation| violation.line)
            .collect()
    }

    #[test]
    fn white_space_at_the_end_of_a_line_is_found() {
        assert_eq!(lines("good\nbad \nbad\t\nbad\r\n"), [2, 3, 4]);
        assert_eq!(lines("no end"), [0]);
        assert_eq!(lines(""), [0; 0]);
    }

    #[test]
    fn folders_of_one_machine_are_found() {
        let folder = MACHINE_FOLDERS[0];
        assert_eq!(lines(&format!("see {folder}main\n\"{folder}\"\n")), [1, 2]);
        assert_eq!(
            lines(&format!("docs/frame{folder}main and a..{folder}\n")),
            [0; 0]
        );
    }

    #[test]
    fn great_files_are_found() {
        assert_eq!(size("bench/runs.csv", FILE_SIZE_MAX), []);
        assert_eq!(size("bench/runs.csv", FILE_SIZE_MAX + 1).len(), 1);
    }

    #[test]
    fn data_is_left_as_it_came() {
        assert!(is_written_here("README.md") && is_written_here(".ci/run"));
        assert!(!is_written_here("fuzz/corpus/resp_request/ping") && !is_written_here("LICENSE"));
    }
}
