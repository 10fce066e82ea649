//! `cargo xtask conformance`: runs other projects' test suites on Tidewire, mainly Redis's own;
//! [`zmq`] has those for ZeroMQ.

mod autobahn;
mod comparison;
mod output;
mod page;
pub(crate) mod records;
mod redis;
mod redis_py;
mod suite;
mod zmq;

pub(crate) use suite::copy_folder;

use crate::arguments::Arguments;
use crate::shell::Failure;
use std::path::Path;

/// Runs `conformance` with the options of the command line.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    match arguments {
        ["redis", rest @ ..] => redis::run(root, Arguments::new(rest)),
        ["redis-py", rest @ ..] => redis_py::run(root, Arguments::new(rest)),
        ["autobahn", rest @ ..] => autobahn::run(root, Arguments::new(rest)),
        ["libzmq", rest @ ..] => zmq::libzmq(root, Arguments::new(rest)),
        ["pyzmq", rest @ ..] => zmq::pyzmq(root, Arguments::new(rest)),
        ["interface", rest @ ..] => zmq::interface(root, Arguments::new(rest)),
        ["bindings", rest @ ..] => crate::suites::zeromq::run(root, Arguments::new(rest)),
        _ => Err(Failure::new(
            "conformance with what? redis, redis-py, autobahn, libzmq, pyzmq, interface or bindings",
        )),
    }
}

/// Two lanes find what one cannot: replies and wake-ups across lanes.
const LANES: u16 = 2;
