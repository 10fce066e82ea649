//! cppzmq, the C++ binding: its unit tests, with Catch2.

use super::{Bindings, ctest};
use crate::shell::Failure;
use crate::suites::Suite;

pub(super) const SUITE: Suite<Bindings> = Suite {
    name: "cppzmq",
    version: "4.10.0",
    prepare: |bindings| {
        let url = "https://github.com/zeromq/cppzmq";
        let source = bindings.source("cppzmq-4.10.0", "v4.10.0", url)?;
        let drafts = match bindings.has_drafts()? {
            true => "-DENABLE_DRAFTS=ON",
            false => "-DENABLE_DRAFTS=OFF",
        };
        let options = [drafts, "-DCMAKE_BUILD_TYPE=Debug"];
        bindings.cmake(BUILD, &source, &options).map(drop)
    },
    run: |bindings, side| -> Result<_, Failure> {
        ctest::run(bindings, "cppzmq", &bindings.work.join(BUILD), side)
    },
    rival: Bindings::libzmq_version,
    not_run: "nothing is left out. With a libzmq that has its draft functions, those of cppzmq are tested too.",
};

const BUILD: &str = "cppzmq-build";
