//! pebbe/zmq4, Go's binding to libzmq, with libzmq and with our library.

use super::Bindings;
use crate::shell::Failure;
use crate::suites::Suite;
use crate::suites::report::{Report, go_test};
use crate::suites::setting::Side;
use std::path::PathBuf;

pub(super) const SUITE: Suite<Bindings> = Suite {
    name: "zmq4",
    version: "1.4.0",
    prepare,
    run,
    rival: Bindings::libzmq_version,
    not_run: "`draft`, which needs a libzmq with its draft interface.",
};

fn prepare(bindings: &Bindings) -> Result<(), Failure> {
    compile(bindings, Side::Rival)?;
    compile(bindings, Side::Tidewire)
}

/// Builds the tests. The binding refuses a library whose version differs from its header.
fn compile(bindings: &Bindings, side: Side) -> Result<(), Failure> {
    let mut program = bindings.shell.program("go", ["test", "-c", "-o"]);
    if let Some(library) = bindings.library(side) {
        // Go caches builds by its flags and not by the output of pkg-config.
        let headers = library.with_file_name("include");
        program = program
            .env("PKG_CONFIG_PATH", library.join("pkgconfig"))
            .env("CGO_CFLAGS", format!("-O2 -g -I{}", headers.display()));
    }
    let program = program.argument(built(bindings, side));
    let folder = bindings.go_module(MODULE)?;
    program
        .folder(&folder)
        .env("GOFLAGS", "-mod=readonly")
        .run()
}

fn built(bindings: &Bindings, side: Side) -> PathBuf {
    let name = format!("zmq4-{side:?}.test").to_lowercase();
    bindings.work.join(name)
}

fn run(bindings: &Bindings, side: Side) -> Result<Report, Failure> {
    let folder = bindings.go_module(MODULE)?;
    let options = ["-test.v", "-test.timeout=10m"];
    let mut program = bindings.shell.program(built(bindings, side), options);
    if let Some(library) = bindings.library(side) {
        program = program.env("LD_LIBRARY_PATH", library);
    }
    let said = bindings.logged("zmq4", side, program.folder(&folder))?;
    let report = go_test(&said);
    if report.is_empty() {
        return Err(Failure::new(format!("zmq4 ran no test:\n{said}")));
    }
    Ok(report)
}

const MODULE: &str = "github.com/pebbe/zmq4@v1.4.0";
