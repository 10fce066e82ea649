//! pebbe/zmq4, Go's binding to libzmq, with libzmq and with our library.

use super::Suite;
use super::report::{Report, go_test};
use super::setting::{Setting, Side};
use crate::libzmq::install;
use crate::shell::Failure;
use std::path::PathBuf;

pub(super) const SUITE: Suite = Suite {
    name: "zmq4",
    version: "1.4.0",
    prepare,
    run,
    not_run: "`draft`, which needs a libzmq with its draft interface.",
};

fn prepare(setting: &Setting) -> Result<(), Failure> {
    install(&setting.shell, &setting.work.join("libzmq"), "release")?;
    compile(setting, Side::Rival)?;
    compile(setting, Side::Tidewire)
}

/// Builds the tests. The binding refuses a library whose version differs from its header.
fn compile(setting: &Setting, side: Side) -> Result<(), Failure> {
    let mut program = setting.shell.program("go", ["test", "-c", "-o"]);
    if let Some(library) = library(setting, side) {
        // Go caches builds by its flags and not by the output of pkg-config.
        let headers = library.with_file_name("include");
        program = program
            .env("PKG_CONFIG_PATH", library.join("pkgconfig"))
            .env("CGO_CFLAGS", format!("-O2 -g -I{}", headers.display()));
    }
    let program = program.argument(built(setting, side));
    let folder = setting.go_module(MODULE)?;
    program
        .folder(&folder)
        .env("GOFLAGS", "-mod=readonly")
        .run()
}

fn built(setting: &Setting, side: Side) -> PathBuf {
    let name = format!("zmq4-{side:?}.test").to_lowercase();
    setting.work.join(name)
}

/// Returns the library's folder, if it is not the system's.
fn library(setting: &Setting, side: Side) -> Option<PathBuf> {
    match side {
        Side::Rival => setting.stock.clone(),
        Side::Tidewire => Some(setting.work.join("libzmq/lib")),
    }
}

fn run(setting: &Setting, side: Side) -> Result<Report, Failure> {
    let folder = setting.go_module(MODULE)?;
    let options = ["-test.v", "-test.timeout=10m"];
    let mut program = setting.shell.program(built(setting, side), options);
    if let Some(library) = library(setting, side) {
        program = program.env("LD_LIBRARY_PATH", library);
    }
    let said = setting.logged("zmq4", side, program.folder(&folder))?;
    let report = go_test(&said);
    if report.is_empty() {
        return Err(Failure::new(format!("zmq4 ran no test:\n{said}")));
    }
    Ok(report)
}

const MODULE: &str = "github.com/pebbe/zmq4@v1.4.0";
