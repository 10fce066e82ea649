//! CZMQ, the high-level C binding: its selftest, one class after another.

use super::{Bindings, ctest};
use crate::shell::Failure;
use crate::suites::Suite;
use std::path::PathBuf;

pub(super) const SUITE: Suite<Bindings> = Suite {
    name: "czmq",
    version: "4.2.1",
    prepare: |bindings| build(bindings).map(drop),
    run: |bindings, side| -> Result<_, Failure> {
        ctest::run(bindings, "czmq", &bindings.work.join(BUILD), side)
    },
    rival: Bindings::libzmq_version,
    not_run: "draft classes, which the build leaves out.",
};

/// Builds CZMQ, and installs it. Returns its prefix, which goczmq's tests need too.
pub(super) fn build(bindings: &Bindings) -> Result<PathBuf, Failure> {
    let url = "https://github.com/zeromq/czmq";
    let source = bindings.source("czmq-4.2.1", "v4.2.1", url)?;
    let prefix = bindings.work.join("czmq");
    let place = format!("-DCMAKE_INSTALL_PREFIX={}", prefix.display());
    let options = ["-DENABLE_DRAFTS=OFF", "-DBUILD_TESTING=ON", place.as_str()];
    let build = bindings.cmake(BUILD, &source, &options)?;
    let install = bindings.shell.program("cmake", ["--install"]);
    // The list of what is installed is long.
    install.argument(build).read()?;
    Ok(prefix)
}

const BUILD: &str = "czmq-build";
