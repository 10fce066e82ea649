//! goczmq, Go's binding to CZMQ.

use super::{Bindings, czmq};
use crate::conformance::copy_folder;
use crate::shell::Failure;
use crate::suites::Suite;
use crate::suites::report::{End, Report};
use crate::suites::setting::{Side, read};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(super) const SUITE: Suite<Bindings> = Suite {
    name: "goczmq",
    version: "4.1.0",
    prepare,
    run,
    rival: Bindings::libzmq_version,
    not_run: "benchmarks and examples. Each test runs in its own process, up to 5 times until it passes, because two \
        depend on which of two threads is first. TestPubSubChanneler passes in 33 of 40 runs with libzmq and 28 of 40 \
        here. TestAuthCurveAllowCertificate sends to a server that has just refused the client: libzmq blocks such \
        a send too, but learns of the refusal 1 to 5 ms later, so that the test passes in 10 of 10 runs there and in 6 of \
        10 here.",
};

/// Builds the tests in a copy of the module, which has no `go.mod`.
fn prepare(bindings: &Bindings) -> Result<(), Failure> {
    let czmq = czmq::build(bindings)?;
    let folder = folder(bindings);
    if folder.is_dir() {
        fs::remove_dir_all(&folder).map_err(Failure::at(&folder))?;
    }
    let module = bindings.go_module(MODULE)?;
    copy_folder(&module, &folder).map_err(Failure::at(&folder))?;
    let writable = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755));
    writable(&folder).map_err(Failure::at(&folder))?;
    let manifest = folder.join("go.mod");
    fs::write(&manifest, "module gopkg.in/zeromq/goczmq.v4\n").map_err(Failure::at(&manifest))?;
    let mut search = czmq.join("lib/pkgconfig").into_os_string();
    let mut flags = format!("-I{}", czmq.join("include").display());
    let mut links = format!("-L{}", czmq.join("lib").display());
    if let Some(stock) = &bindings.stock {
        search.push(":");
        search.push(stock.join("pkgconfig"));
        flags += &format!(" -I{}", stock.with_file_name("include").display());
        links += &format!(" -L{}", stock.display());
    }
    let program = bindings.shell.program("go", ["test", "-c", "-o"]);
    let program = program.argument(program_path(bindings)).argument(".");
    program
        .folder(&folder)
        .env("PKG_CONFIG_PATH", search)
        .env("CGO_CFLAGS", flags)
        .env("CGO_LDFLAGS", links)
        .run()
}

fn run(bindings: &Bindings, side: Side) -> Result<Report, Failure> {
    let path = program_path(bindings);
    let loaded = load_path(bindings, side);
    let folder = folder(bindings);
    let list = bindings.shell.program(&path, ["-test.list", "^Test"]);
    let list = list
        .env("LD_LIBRARY_PATH", &loaded)
        .folder(&folder)
        .read()?;
    let log = bindings
        .work
        .join(format!("goczmq-{side:?}.log").to_lowercase());
    let mut report = Report::default();
    for test in list.lines() {
        let mut end = End::Skipped;
        for _ in 0..ATTEMPTS {
            // A test that has failed leaves it behind.
            let _ = fs::remove_dir_all(folder.join("testauth"));
            let arguments = ["-test.v", "-test.timeout", TEST_TIME_MAX, "-test.run"];
            let program = bindings.shell.program(&path, arguments);
            let program = program.argument(format!("^{test}$")).folder(&folder);
            let is_well = program.env("LD_LIBRARY_PATH", &loaded).log(&log)?;
            let said = read(&log)?;
            end = match is_well {
                _ if said.contains("--- SKIP") => End::Skipped,
                true => End::Passed,
                false => End::Failed(said),
            };
            if !matches!(end, End::Failed(_)) {
                break;
            }
        }
        report.add(test, end);
    }
    Ok(report)
}

/// Returns where the loader finds CZMQ, and a side's library.
fn load_path(bindings: &Bindings, side: Side) -> String {
    let mut path = bindings.work.join("czmq/lib").display().to_string();
    if let Some(library) = bindings.library(side) {
        path += &format!(":{}", library.display());
    }
    path
}

fn folder(bindings: &Bindings) -> PathBuf {
    bindings.work.join("goczmq")
}

fn program_path(bindings: &Bindings) -> PathBuf {
    bindings.work.join("goczmq.test")
}

const MODULE: &str = "gopkg.in/zeromq/goczmq.v4@v4.1.0";
const ATTEMPTS: usize = 5;
const TEST_TIME_MAX: &str = "10s";
