//! Rules for third-party crates: licences, sources and versions. They need only cargo and no
//! network service.

use crate::shell::{Failure, Shell};
use crate::spdx;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Licences that the program may include: permissive, and compatible with Apache-2.0.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Licences of crates that only tests use. Their code is not distributed with the program.
const LICENCES_TESTS: &[&str] = &["MPL-2.0"];

/// Prints violations, and crates that occur in several versions.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let shell = Shell::new(root);
    let tree = |edges| -> Result<String, Failure> {
        let arguments = [
            "tree",
            "--workspace",
            "--locked",
            "--prefix=none",
            "--format={p}|{l}",
        ];
        shell
            .cargo(arguments)
            .argument(format!("--edges={edges}"))
            .read()
    };
    let (with_tests, shipped) = (tree("normal,build,dev")?, tree("normal,build")?);
    let (with_tests, shipped) = (Crates::parse(&with_tests), Crates::parse(&shipped));
    for (name, versions) in with_tests.duplicates() {
        println!("note: {name} occurs in versions {}", versions.join(", "));
    }
    let mut violations = with_tests.violations(&shipped);
    let arguments = ["metadata", "--format-version=1", "--no-deps", "--locked"];
    violations.extend(wildcards(&shell.cargo(arguments).read()?)?);
    for violation in &violations {
        println!("{violation}");
    }
    println!(
        "{} crates, {} of them in the program",
        with_tests.0.len(),
        shipped.0.len()
    );
    if violations.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} crates or versions are not allowed",
        violations.len()
    )))
}

/// Crates by name and version, as `cargo tree` lists them for this platform.
#[derive(Debug)]
struct Crates<'a>(BTreeMap<(&'a str, &'a str), Origin<'a>>);

#[derive(Debug)]
struct Origin<'a> {
    licence: &'a str,
    /// Empty for the registry, otherwise an address or a folder.
    source: &'a str,
}

impl<'a> Crates<'a> {
    /// Parses `name v1.0.0 (source)|licence`, one crate per line.
    fn parse(tree: &'a str) -> Self {
        let lines = tree.lines().filter_map(|line| {
            let (package, licence) = line.trim_end_matches(" (*)").split_once('|')?;
            let package = package.trim_end_matches(" (proc-macro)");
            let (name, rest) = package.split_once(" v")?;
            let (version, source) = rest.split_once(' ').unwrap_or((rest, ""));
            Some(((name, version), Origin { licence, source }))
        });
        Self(lines.collect())
    }

    fn violations(&self, shipped: &Self) -> Vec<String> {
        let mut violations = Vec::new();
        for (&(name, version), origin) in &self.0 {
            // The project's own crates have a folder as their source.
            if origin.source.starts_with("(/") {
                continue;
            }
            let for_tests = !shipped.0.contains_key(&(name, version));
            let allowed = |licence: &str| {
                LICENCES.contains(&licence) || for_tests && LICENCES_TESTS.contains(&licence)
            };
            let licence = origin.licence;
            if !spdx::is_met(licence, allowed) {
                violations.push(format!(
                    "{name} {version}: licence '{licence}' is not allowed"
                ));
            }
            if !origin.source.is_empty() {
                let source = origin.source;
                violations.push(format!(
                    "{name} {version}: comes from {source}, not the registry"
                ));
            }
        }
        violations
    }

    /// Returns crates that occur in more than one version; each costs build time and size.
    fn duplicates(&self) -> Vec<(&'a str, Vec<&'a str>)> {
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for &(name, version) in self.0.keys() {
            versions.entry(name).or_default().push(version);
        }
        versions
            .into_iter()
            .filter(|(_, versions)| versions.len() > 1)
            .collect()
    }
}

/// Returns the project's dependencies that accept any version, from `cargo metadata --no-deps`.
fn wildcards(metadata: &str) -> Result<Vec<String>, Failure> {
    let metadata: Value = serde_json::from_str(metadata)
        .map_err(|error| Failure::new(format!("cargo metadata: {error}")))?;
    let mut violations = Vec::new();
    for package in list(&metadata["packages"]) {
        let any = |dependency: &&Value| dependency["path"].is_null() && dependency["req"] == "*";
        for dependency in list(&package["dependencies"]).filter(any) {
            let (of, name) = (text(&package["name"]), text(&dependency["name"]));
            violations.push(format!("{of}: takes any version of {name}"));
        }
    }
    Ok(violations)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(tree: &str, shipped: &str) -> Vec<String> {
        Crates::parse(tree).violations(&Crates::parse(shipped))
    }

    #[test]
    fn permissive_crates_of_the_registry_and_ours_are_allowed() {
        let tree = "ours v0.1.0 (/home/ours)|Proprietary\n\nserde v1.0.0|MIT OR Apache-2.0 (*)\n\
                    derive v2.0.0 (proc-macro)|MIT/Apache-2.0\n";
        assert_eq!(violations(tree, tree), [""; 0]);
    }

    #[test]
    fn a_licence_for_tests_is_refused_in_the_program() {
        let tree = "oracle v1.0.0|MPL-2.0\n";
        assert_eq!(violations(tree, ""), [""; 0]);
        let refused = ["oracle 1.0.0: licence 'MPL-2.0' is not allowed"];
        assert_eq!(violations(tree, tree), refused);
        assert_eq!(
            violations("nothing v1.0.0|\n", "").len(),
            1,
            "no licence allows nothing"
        );
    }

    #[test]
    fn crates_from_elsewhere_are_refused() {
        let tree = "a v1.0.0 (https://example.org/a#1234)|MIT\n";
        let refused = ["a 1.0.0: comes from (https://example.org/a#1234), not the registry"];
        assert_eq!(violations(tree, tree), refused);
    }

    #[test]
    fn crates_in_two_versions_are_named_once() {
        let crates = Crates::parse("a v1.0.0|MIT\na v2.0.0|MIT\nb v1.0.0|MIT\nb v1.0.0|MIT (*)\n");
        assert_eq!(crates.duplicates(), [("a", vec!["1.0.0", "2.0.0"])]);
    }

    #[test]
    fn any_version_is_refused_but_of_our_own() {
        let metadata = r#"{"packages": [{"name": "ours", "dependencies": [
            {"name": "any", "req": "*"}, {"name": "sister", "req": "*", "path": "/sister"},
            {"name": "good", "req": "^1"}]}]}"#;
        assert_eq!(
            wildcards(metadata).unwrap(),
            ["ours: takes any version of any"]
        );
    }
}
