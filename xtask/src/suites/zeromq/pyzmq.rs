//! pyzmq as PyPI has it, with the wheel `tidewire-libzmq` installed; the environment turns that off
//! for libzmq's turn.

use super::Bindings;
use crate::conformance::copy_folder;
use crate::shell::{Failure, Program};
use crate::suites::Suite;
use crate::suites::report::{End, Report};
use crate::suites::setting::Side;
use crate::wheel;
use std::fs;
use std::path::{Path, PathBuf};

/// The suite of one version.
macro_rules! suite {
    ($name:literal, $version:literal, $not_run:expr) => {
        Suite {
            name: $name,
            version: $version,
            prepare: |bindings| prepare(bindings, $version),
            run: |bindings, side| run(bindings, $version, side),
            rival: |bindings| rival(bindings, $version),
            not_run: $not_run,
        }
    };
}
pub(super) const PYZMQ_25: Suite<Bindings> = suite!("pyzmq-25", "25.1.2", NOT_RUN_NOR_DRAFTS);
pub(super) const PYZMQ_26: Suite<Bindings> = suite!("pyzmq-26", "26.4.0", NOT_RUN_NOR_DRAFTS);
pub(super) const PYZMQ_27: Suite<Bindings> = suite!("pyzmq-27", "27.3.0", NOT_RUN);

/// Installs pyzmq, what its tests need and our wheel into an environment, and copies the tests.
fn prepare(bindings: &Bindings, version: &str) -> Result<(), Failure> {
    let folder = folder(bindings, version);
    let shell = &bindings.shell;
    let requirements = shell.root().join(REQUIREMENTS);
    let wanted = fs::read_to_string(&requirements).map_err(Failure::at(&requirements))?;
    let stamp = folder.join("installed.txt");
    if fs::read_to_string(&stamp).unwrap_or_default() != wanted {
        fs::create_dir_all(&folder).map_err(Failure::at(&folder))?;
        let program = shell.program("python3", ["-m", "venv", "--clear", "venv"]);
        program.folder(&folder).run()?;
        let program = pip(bindings, version, "install");
        let program = program.argument(format!("pyzmq=={version}"));
        program
            .argument("--only-binary=:all:")
            .argument("-r")
            .argument(&requirements)
            .run()?;
        sources(bindings, version, &folder)?;
        fs::write(&stamp, wanted).map_err(Failure::at(&stamp))?;
    }
    let wheel = wheel::pack(shell, &bindings.prefix.join("lib"), &bindings.work)?;
    let program = pip(bindings, version, "install").argument("--no-deps");
    program.argument("--force-reinstall").argument(wheel).run()
}

/// Copies the tests out of pyzmq's sources.
fn sources(bindings: &Bindings, version: &str, folder: &Path) -> Result<(), Failure> {
    let program = pip(bindings, version, "download").argument("--no-deps");
    let program = program
        .argument("--no-binary=pyzmq")
        .argument("--dest")
        .argument(folder);
    program.argument(format!("pyzmq=={version}")).run()?;
    let tar = bindings.shell.program("tar", ["-xzf"]);
    tar.argument(format!("pyzmq-{version}.tar.gz"))
        .folder(folder)
        .run()?;
    let source = folder.join(format!("pyzmq-{version}"));
    // Up to version 25 they are a part of the package.
    let tests = match source.join("tests").is_dir() {
        true => source.join("tests"),
        false => source.join("zmq/tests"),
    };
    let target = folder.join("suite");
    copy_folder(&tests, &target.join("tests")).map_err(Failure::at(&tests))?;
    fs::copy(source.join("pytest.ini"), target.join("pytest.ini")).map_err(Failure::at(&source))?;
    Ok(())
}

fn run(bindings: &Bindings, version: &str, side: Side) -> Result<Report, Failure> {
    let mark = python(bindings, version, ["-m", "tidewire_libzmq"]);
    if chosen(mark, side).succeeds() != (side == Side::Tidewire) {
        return Err(Failure::new(format!(
            "pyzmq {version} uses the wrong libzmq"
        )));
    }
    let arguments = ["-m", "pytest", "-q", "-rA", "--tb=line"];
    let mut program = chosen(python(bindings, version, arguments), side)
        .folder(&folder(bindings, version).join("suite"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("COLUMNS", "300");
    for file in ["test_mypy.py", "test_cython.py", "test_cffi_backend.py"] {
        program = program.argument(format!("--ignore=tests/{file}"));
    }
    for argument in ["-p", "no:cacheprovider", "--timeout=60", "tests"] {
        program = program.argument(argument);
    }
    let said = bindings.logged(&format!("pyzmq-{version}"), side, program)?;
    let report = parse(&said);
    if report.is_empty() {
        return Err(Failure::new(format!(
            "pyzmq {version} ran no test:\n{said}"
        )));
    }
    Ok(report)
}

fn rival(bindings: &Bindings, version: &str) -> Result<String, Failure> {
    let ask = ["-c", "import zmq; print(zmq.zmq_version())"];
    let version = chosen(python(bindings, version, ask), Side::Rival).read()?;
    Ok(format!("its own libzmq {}", version.trim()))
}

/// Turns our wheel on or off.
fn chosen(program: Program, side: Side) -> Program {
    program.env(
        "TIDEWIRE_LIBZMQ",
        match side {
            Side::Rival => "0",
            Side::Tidewire => "1",
        },
    )
}

fn pip(bindings: &Bindings, version: &str, command: &str) -> Program {
    let program = python(
        bindings,
        version,
        ["-m", "pip", "--disable-pip-version-check"],
    );
    program.argument(command).argument("--quiet")
}

fn python<const N: usize>(bindings: &Bindings, version: &str, arguments: [&str; N]) -> Program {
    let python = folder(bindings, version).join("venv/bin/python");
    bindings.shell.program(python, arguments)
}

fn folder(bindings: &Bindings, version: &str) -> PathBuf {
    bindings.work.join(format!("pyzmq-{version}"))
}

/// Parses pytest's short summary: `PASSED tests/test_a.py::test_b`, and for skipped tests their
/// number and the line that skips them: `SKIPPED [2] tests/test_a.py:7: why`.
fn parse(text: &str) -> Report {
    let mut report = Report::default();
    for line in text.lines() {
        let Some((word, rest)) = line.split_once(' ') else {
            continue;
        };
        let (name, reason) = rest.split_once(" - ").unwrap_or((rest, ""));
        match word {
            "PASSED" | "XFAIL" if name.contains("::") => report.add(name, End::Passed),
            "FAILED" | "ERROR" | "XPASS" if name.contains("::") => {
                report.add(name, End::Failed(reason.to_owned()));
            }
            "SKIPPED" => skip(&mut report, rest),
            _ => {}
        }
    }
    report
}

/// Adds `[2] tests/test_a.py:7: why`.
fn skip(report: &mut Report, rest: &str) {
    let counted = rest
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    let Some((count, rest)) = counted else {
        return;
    };
    let (place, reason) = rest.split_once(": ").unwrap_or((rest, "no reason"));
    // A file of the package, by its name alone.
    let place = place.rsplit('/').next().unwrap_or(place);
    report.skip(place, count.parse().unwrap_or(1), reason);
}

const REQUIREMENTS: &str = "tests/conformance/pyzmq-wheel-requirements.txt";
/// The same of the versions that run their tests of drafts wherever libzmq has drafts.
const NOT_RUN_NOR_DRAFTS: &str = "`test_cython` and `test_mypy`, which build or check programs against headers that the wheel does \
    not have; `test_cffi_backend`, which is for PyPy. The two tests of drafts are run because this library has drafts, and fail: \
    pyzmq's own wheel was built without. They fail alike with libzmq 4.3.6 built with drafts.";
const NOT_RUN: &str = "`test_cython` and `test_mypy`, which build or check programs against headers that the wheel does \
    not have; `test_cffi_backend`, which is for PyPy.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_summary_is_read_with_the_reasons_of_skipped_tests() {
        let text = "..F\nPASSED tests/test_a.py::TestA::test_b\nPASSED tests/test_a.py::test_c[1 - 2]\n\
            FAILED tests/test_a.py::test_d - AssertionError: x\nERROR    asyncio:base.py:1 never\n\
            SKIPPED [2] ../venv/x/utils.py:7: Skipping: green\n1 failed, 2 passed, 2 skipped\n";
        let report = parse(text);
        assert_eq!(report.counts(), [2, 1, 2]);
        assert_eq!(report.skips()["Skipping: green"], 2);
        assert_eq!(report.end("utils.py:7"), Some(&End::Skipped));
    }
}
