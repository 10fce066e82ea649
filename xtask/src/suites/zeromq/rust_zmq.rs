//! rust-zmq, the crate `zmq`: its integration tests.

use super::Bindings;
use crate::conformance::copy_folder;
use crate::shell::{Failure, Program};
use crate::suites::Suite;
use crate::suites::report::{End, Report};
use crate::suites::setting::Side;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

pub(super) const SUITE: Suite<Bindings> = Suite {
    name: "rust-zmq",
    version: "0.10.0",
    prepare,
    run,
    rival: Bindings::libzmq_version,
    not_run: "`compile-tests`, which compares messages of the compiler; examples in the documentation. The crate links \
        a libzmq of its own; here it is told to link a shared one.",
};

/// Copies the crate's sources, which cargo has downloaded, and builds the tests.
fn prepare(bindings: &Bindings) -> Result<(), Failure> {
    let folder = folder(bindings);
    if !folder.is_dir() {
        copy_folder(&downloaded(bindings)?, &folder).map_err(Failure::at(&folder))?;
        // It is no part of the workspace around it.
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(Failure::at(&manifest))?;
        let text = text + "\n[workspace]\n";
        fs::write(&manifest, text).map_err(Failure::at(&manifest))?;
    }
    let program = cargo_test(bindings, Side::Rival)?;
    program.argument("--no-run").run()
}

/// Returns the folder where cargo keeps the crate, by a package that depends on it.
fn downloaded(bindings: &Bindings) -> Result<PathBuf, Failure> {
    let folder = bindings.work.join("rust-zmq-asks");
    let manifest = folder.join("Cargo.toml");
    let text = "[package]\nname = \"asks\"\nedition = \"2021\"\n\n[lib]\npath = \"lib.rs\"\n\n\
                [dependencies]\nzmq = \"=0.10.0\"\n\n[workspace]\n";
    fs::create_dir_all(&folder).map_err(Failure::at(&folder))?;
    fs::write(&manifest, text).map_err(Failure::at(&manifest))?;
    fs::write(folder.join("lib.rs"), "").map_err(Failure::at(&folder))?;
    let metadata = ["metadata", "--format-version=1"];
    let text = bindings.shell.cargo(metadata).folder(&folder).read()?;
    let metadata: Value = serde_json::from_str(&text).map_err(Failure::at(&manifest))?;
    let packages = metadata["packages"].as_array();
    let found = packages
        .into_iter()
        .flatten()
        .find(|one| one["name"] == "zmq");
    let path = found.and_then(|package| package["manifest_path"].as_str());
    let path = path
        .map(PathBuf::from)
        .and_then(|path| Some(path.parent()?.to_owned()));
    path.ok_or_else(|| Failure::new("cargo does not say where the crate `zmq` is"))
}

fn run(bindings: &Bindings, side: Side) -> Result<Report, Failure> {
    let said = bindings.logged("rust-zmq", side, cargo_test(bindings, side)?)?;
    let report = parse(&said);
    if report.is_empty() {
        return Err(Failure::new(format!("rust-zmq ran no test:\n{said}")));
    }
    Ok(report)
}

/// Returns `cargo test` with libzmq's shared library in place of what the crate builds.
fn cargo_test(bindings: &Bindings, side: Side) -> Result<Program, Failure> {
    let told = bindings.shell.program("rustc", ["-vV"]).read()?;
    let target = told.lines().find_map(|line| line.strip_prefix("host: "));
    let target = target.ok_or_else(|| Failure::new("rustc does not name its host"))?;
    let mut program = bindings.shell.cargo(["--config"]);
    program = program.argument(format!("target.{target}.zmq.rustc-link-lib=[\"zmq\"]"));
    if let Some(library) = bindings.library(Side::Rival) {
        program = program.argument("--config").argument(format!(
            "target.{target}.zmq.rustc-link-search=[\"{}\"]",
            library.display()
        ));
    }
    for argument in ["test", "--no-fail-fast", "-j2"] {
        program = program.argument(argument);
    }
    for test in TESTS {
        program = program.argument("--test").argument(test);
    }
    let program = bindings.with(side, program);
    let program = program.env("CARGO_TARGET_DIR", bindings.work.join("rust-zmq-target"));
    Ok(program.folder(&folder(bindings)))
}

/// Parses `test name ... ok`, after a line with the program's name.
fn parse(text: &str) -> Report {
    let mut report = Report::default();
    let mut program = "";
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Running tests/") {
            program = rest.split('.').next().unwrap_or_default();
        }
        let Some((name, ended)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "))
        else {
            continue;
        };
        let end = match ended.trim() {
            "ok" => End::Passed,
            ended if ended.starts_with("ignored") => End::Skipped,
            _ => End::Failed("failed".into()),
        };
        report.add(&format!("{program} {name}"), end);
    }
    report
}

fn folder(bindings: &Bindings) -> PathBuf {
    bindings.work.join("rust-zmq-0.10.0")
}

const TESTS: [&str; 12] = [
    "connection",
    "context",
    "curve",
    "error",
    "gssapi",
    "has",
    "message",
    "message_from_boxed_slice",
    "monitor",
    "poll",
    "test",
    "z85",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_programs_are_read() {
        let text = "     Running tests/poll.rs (target/debug/deps/poll-1)\n\ntest a ... ok\n\
                    test b ... FAILED\n     Running tests/z85.rs (x)\ntest a ... ignored, why\n\
                    test result: FAILED. 1 passed; 1 failed\n";
        let report = parse(text);
        assert_eq!(report.counts(), [1, 1, 1]);
        assert_eq!(report.end("z85 a"), Some(&End::Skipped));
    }
}
