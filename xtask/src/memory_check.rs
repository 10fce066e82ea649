//! `cargo xtask memory-check`: tests of what is `unsafe` under Miri, which interprets them and
//! looks at each access: `docs/checks-of-memory.md`.

use crate::shell::{Failure, Shell};
use std::path::Path;

/// Package, and the names of its unit tests that are run.
const TESTS: [(&str, &[&str]); 2] = [
    (
        "tidewire-keyspace",
        &[
            "entry::tests",
            "table::tests",
            "table::groups",
            "lock::tests",
        ],
    ),
    ("tidewire-memory", &["spans::tests"]),
];

/// Runs them, one package after the other; fails at the first that Miri objects to.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let shell = Shell::new(root);
    let nightly = || shell.program("rustup", ["run", "nightly", "cargo", "miri"]);
    if nightly().argument("--version").read().is_err() {
        return Err(Failure::new(
            "Miri is absent: rustup toolchain install nightly --component miri,rust-src",
        ));
    }
    for (package, names) in TESTS {
        let arguments = ["test", "--lib", "--package", package, "--"];
        // `commands::table` has tests too, of what is no pointer.
        let arguments = arguments
            .iter()
            .chain(names)
            .chain(&["--skip", "commands::"]);
        arguments
            .fold(nightly(), |miri, argument| miri.argument(argument))
            // Tests ask the system for random numbers and for the time.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .run()?;
    }
    Ok(())
}
