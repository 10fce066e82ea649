//! Project chores. `cargo xtask test` is everything that a change must pass, in order.

mod arguments;
mod check;
mod clients;
mod conformance;
mod counts;
mod dependencies;
mod fuzz;
mod libzmq;
mod model;
mod python;
mod server;
mod shell;
mod spdx;
mod tidy;
mod tools;

use counts::Counts;
use shell::{Failure, Shell};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test          every check and test that a change must pass, in order
  tidy          the style rules that rustfmt and clippy do not know
  clients       the tests of tests/clients alone
  dependencies  licences, sources and versions of all crates
  conformance redis --suite PATH
                Redis's own test suite against Tidewire; PATH is Redis's tree, built
    --unit NAME            only this file, such as type/string; may be given several times
    --lanes N              lanes of the server [2]
    --binary FILE          a tidewire that is already built
    --redis FILE           a redis-server to count beside, instead of the counts kept
    --failures FILE        writes what fails to a file, refreshed as files of the suite end
    --patience S           a test that takes longer hangs [240]
    --scratch FOLDER       where the copy of the suite is made [target/conformance/redis]
    --base-port N          where the suite looks for free ports [27111]
    --verify-exceptions    runs the exceptions: each must fail
    --baseline             measures Redis itself, and keeps its counts
  conformance redis-py --suite PATH
                redis-py's own tests against Redis and Tidewire; PATH is its sources, unpacked
    --redis FILE, --binary FILE, --lanes N, --scratch FOLDER as above
  conformance libzmq --build PATH
                libzmq's own tests with our libzmq.so.5; PATH is where CMake has built them
    --test NAME            only this one; may be given several times
    --prefix FOLDER        where `libzmq` has installed the library already
    --profile NAME         what it is built with if it is not [release]
    --stock FOLDER         another libzmq.so.5 to run first, whose results are kept
  conformance pyzmq --suite PATH
                pyzmq's own tests with our libzmq.so.5; PATH is its sources, unpacked
    --test NAME            only these, as pytest names them
    --scratch FOLDER       where it is built [target/conformance/pyzmq]
    --prefix FOLDER, --profile NAME, --stock FOLDER as above
  libzmq --prefix FOLDER
                builds and installs libzmq.so.5, zmq.h and libzmq.pc
    --profile NAME         what it is built with [release]
  fuzz [TARGET ...]
                looks for inputs that break a decoder; all targets, one after another
    --seconds N            for each [60]
    --max-length N         bytes of an input [4096]
  model         random commands to Tidewire and to a real Redis: replies must be the same
    --commands N           how many [1_000_000]
    --seed S               same seed, same commands [1]
    --lanes N              lanes of a server; may be given several times [1 and 4]
    --redis FILE           the redis-server to compare with [the one that is installed]
    --binary FILE          a tidewire that is already built
    --differences N        goes on until so many are found [1]
    --known-only           what Tidewire has no command for is no difference
    --other-redis FILE     another redis-server in Tidewire's place
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = root();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => counted(|counts| check::run(&root, counts)),
        ["clients"] => counted(|counts| clients::run(&Shell::new(&root), counts)),
        ["tidy"] => outcome(tidy::run(&root)),
        ["conformance", ref rest @ ..] => outcome(conformance::run(&root, rest)),
        ["libzmq", ref rest @ ..] => outcome(libzmq::run(&root, rest)),
        ["fuzz", ref rest @ ..] => outcome(fuzz::run(&root, rest)),
        ["model", ref rest @ ..] => outcome(model::run(&root, rest)),
        ["dependencies"] => outcome(dependencies::run(&root)),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The last line is the count alone, whatever happened before.
fn counted(run: impl FnOnce(&mut Counts) -> Result<(), Failure>) -> ExitCode {
    let mut counts = Counts::default();
    let result = run(&mut counts);
    if let Err(failure) = &result {
        eprintln!("\n{failure}");
        // A failed check is never reported as "0 failed".
        counts.failed = counts.failed.max(1);
    }
    println!("\n{counts}");
    if result.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn outcome(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// The project's root: the folder above this package.
fn root() -> PathBuf {
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| "xtask".into(), PathBuf::from);
    package
        .parent()
        .map_or_else(|| ".".into(), Path::to_path_buf)
}
