//! Black-box tests: third-party clients in Python against the program.

use crate::counts::Counts;
use crate::server;
use crate::shell::{Failure, Shell};
use std::fs;
use std::path::{Path, PathBuf};

/// Builds the program and runs `tests/python` against it.
pub(crate) fn run(shell: &Shell, counts: &mut Counts) -> Result<(), Failure> {
    let tests = shell.root().join("tests/python");
    if !has_test(&tests) {
        println!("tests/python has no test yet: nothing to run");
        return Ok(());
    }
    let python = environment(shell, &tests.join("requirements.txt"))?;
    let binary = server::build_checked(shell)?;
    let pytest = shell
        .program(
            python,
            [
                "-m",
                "pytest",
                "tests/python",
                "-q",
                "-p",
                "no:cacheprovider",
                "--dist",
                "worksteal",
            ],
        )
        .argument(format!("-n{WORKERS}"))
        .argument(format!("--timeout={TEST_TIMEOUT_S}"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TIDEWIRE_BINARY", binary);
    counts.pytest(&pytest.capture()?)
}

/// Returns the nats-server that comes with the environment.
pub(crate) fn nats_server(shell: &Shell) -> Result<PathBuf, Failure> {
    let requirements = shell.root().join("tests/python/requirements.txt");
    let python = environment(shell, &requirements)?;
    Ok(python.with_file_name("nats-server"))
}

/// Creates the virtual environment, unless it exists with the same requirements. Returns its
/// interpreter.
pub(crate) fn environment(shell: &Shell, requirements: &Path) -> Result<PathBuf, Failure> {
    let folder = shell.target().join("venv");
    let python = folder.join("bin/python");
    let wanted = fs::read_to_string(requirements).map_err(Failure::at(requirements))?;
    let stamp = folder.join("requirements-installed.txt");
    let installed = fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted);
    if installed && shell.program(&python, ["-c", "import pytest"]).succeeds() {
        return Ok(python);
    }
    println!(
        "installing tests/python/requirements.txt into {}",
        folder.display()
    );
    shell
        .program("python3", ["-m", "venv", "--clear"])
        .argument(&folder)
        .run()?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
    ];
    shell.program(&python, pip).argument(requirements).run()?;
    fs::write(&stamp, wanted).map_err(Failure::at(&stamp))?;
    Ok(python)
}

/// Returns whether the folder has a file that pytest would collect.
fn has_test(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_test = name.starts_with("test_") || name.ends_with("_test.py");
        entry.path().is_dir() && has_test(&entry.path()) || is_test && name.ends_with(".py")
    })
}

/// A test that takes longer counts as hung. A test that needs more has its own marker.
const TEST_TIMEOUT_S: u32 = 120;

/// Tests that run at the same time. Most tests wait most of the time: three of them keep two
/// cores busy.
const WORKERS: u32 = 3;
