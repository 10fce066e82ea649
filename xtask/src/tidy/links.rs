//! Checks that links between documentation pages have a target.

use super::Violation;
use std::path::{Component, Path, PathBuf};

/// Checks links to files of the project; `exists` takes a path from the root.
pub(super) fn check(path: &str, content: &str, exists: impl Fn(&Path) -> bool) -> Vec<Violation> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut violations = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(content.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in targets(line).filter(|target| is_file(target)) {
            let file = target.split('#').next().unwrap_or_default();
            let found = normal(&folder.join(file)).is_some_and(|file| exists(&file));
            if !found {
                let rule = format!("the link to '{target}' leads nowhere");
                violations.push(Violation::new(path, number, rule));
            }
        }
    }
    violations
}

/// Returns the targets of `[text](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split_once(')')?.0;
        // Without the title of `[text](target "title")`.
        target.split_whitespace().next()
    })
}

fn is_file(target: &str) -> bool {
    !target.starts_with('#') && !target.contains("://") && !target.starts_with("mailto:")
}

/// Returns the path without `.` and `..`, or `None` if it leaves the project.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::Normal(name) => normal.push(name),
            Component::Prefix(_) | Component::RootDir => return None,
        }
    }
    Some(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &str) -> Vec<usize> {
        let exists = |target: &Path| {
            ["docs/feed.md", "README.md"]
                .iter()
                .any(|file| target == Path::new(file))
        };
        let violations = check("docs/page.md", content, exists);
        violations.iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn links_are_followed_from_the_page() {
        assert_eq!(
            lines("[a](feed.md) [b](../README.md#start) [c](./feed.md \"title\")"),
            [0; 0]
        );
        assert_eq!(
            lines("[a](feed.md) [b](README.md)\n\n[c](../../feed.md)\n[d](/etc)"),
            [1, 3, 4]
        );
    }

    #[test]
    fn addresses_anchors_and_code_are_none_of_ours() {
        let content = "[a](https://example.org/x) [b](#here) [c](mailto:a@b)\n```\nf[0](x)\n```\n";
        assert_eq!(lines(content), [0; 0]);
    }
}
