//! Passes the commit of the sources to the program as `TIDEWIRE_COMMIT`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=TIDEWIRE_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    // Only in release builds: a development build would be rebuilt after every commit.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = std::env::var("TIDEWIRE_COMMIT").ok();
    let found = || is_release.then(commit).flatten();
    let commit = given.or_else(found).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=TIDEWIRE_COMMIT={commit}");
}

/// Returns the commit of the sources, if they are in a git tree and git is installed.
fn commit() -> Option<String> {
    // The log of HEAD grows with every commit, merge and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
