//! Project chores. `cargo xtask test` runs every check that a change must pass, in order.

mod arguments;
mod assertions;
mod bench;
mod check;
mod clients;
mod cluster;
mod complexity;
mod conformance;
mod counts;
mod crash;
mod dependencies;
mod fuzz;
mod hangs;
mod libzmq;
mod linearizable;
mod live;
mod loom;
mod memory_check;
mod model;
mod python;
mod server;
mod shell;
mod simulate;
mod spdx;
mod suites;
mod tidy;
mod tools;
mod web;
mod wheel;

use arguments::Arguments;
use counts::Counts;
use shell::{Failure, Shell};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test          every check and test that a change must pass, in order
  tidy          the style rules that rustfmt and clippy do not know
  assertions [CRATE]
                invariants asserted per 1,000 lines that are no tests; of each file of one crate
  clients       the tests of tests/clients alone
  clients --suites
                the clients' own suites, with Redis and with Tidewire
    --suite NAME           only this one: ioredis, go-redis, redis-rs or hiredis; repeatable
    --sources FOLDER       has ioredis-6.0.0, redis-rs-1.6.0 and hiredis-1.4.1, unpacked [git clone]
    --redis FILE           the redis-server to compare with [the one that is installed]
    --binary FILE          a tidewire that is already built
    --lanes N              lanes of the server [2]
  cluster       three NATS servers and three hubs on this machine, and what each of them has
    --test                 breaks them in turn, and compares every hub with an oracle
    --seconds N            how long [until it is interrupted; 60 with --test]
    --seed S               same seed, same faults [1]
    --binary FILE          a tidewire that is already built
  bench SUBJECT builds the program and measures it beside rivals: cargo xtask bench --help
  dependencies  licences, sources and versions of all crates
  conformance redis --suite PATH
                every file of Redis's or Valkey's test suite, with the server that it belongs to
                and with Tidewire; PATH is its tree, built
    --unit NAME            only this file, such as type/string; repeatable
    --lanes N              lanes of the server [2]
    --binary FILE          a tidewire that is already built
    --continue             files that an earlier run has ended are not run again
    --kept                 nothing is run: the page is made of what earlier runs have kept
    --results FOLDER       where the harness's output of each file is kept
    --patience S           a test that takes longer hangs [240]
    --scratch FOLDER       where the copy of the suite is made [target/conformance/NAME]
    --base-port N          where the suite looks for free ports [27111]
    --tls                  all clients and servers over TLS; needs Tcl's tls package and openssl, and writes no page
  conformance redis-py --suite PATH
                redis-py's own tests against Redis and Tidewire; PATH is its sources, unpacked
    --redis FILE, --binary FILE, --lanes N, --scratch FOLDER as above
  conformance autobahn --python FILE
                the Autobahn suite of WebSocket; FILE is a Python 2.7, for which it is installed
    --scratch FOLDER       where [target/conformance/autobahn]
  conformance libzmq --build PATH
                libzmq's own tests with our libzmq.so.5; PATH is where CMake has built them, with
                drafts (ENABLE_DRAFTS) or without
    --test NAME            only this one; repeatable
    --prefix FOLDER        where `libzmq` has installed the library already
    --profile NAME         what it is built with if it is not [release]
    --stock FOLDER         another libzmq.so.5 to run first, whose results are kept
  conformance pyzmq --suite PATH
                pyzmq's own tests with our libzmq.so.5; PATH is its sources, unpacked
    --test NAME            only these, as pytest names them
    --scratch FOLDER       where it is built [target/conformance/pyzmq]
    --prefix FOLDER, --profile NAME, --stock FOLDER as above
  conformance interface --stock FOLDER
                compares options, contexts and endpoints with the libzmq.so.5 in FOLDER, built with
                drafts
    --prefix FOLDER, --profile NAME as above
  conformance bindings
                the suites of ZeroMQ's bindings, with libzmq and with our libzmq.so.5
    --suite NAME           only this one: pyzmq-25, pyzmq-26, pyzmq-27, cppzmq, czmq, zmq4, rust-zmq or goczmq;
                           repeatable
    --sources FOLDER       has cppzmq-4.10.0 and czmq-4.2.1, unpacked [git clone]
    --stock FOLDER         has libzmq's own libzmq.so.5 and its pkgconfig [the system's]
    --prefix FOLDER, --profile NAME as above
  libzmq --prefix FOLDER
                builds and installs libzmq.so.5, zmq.h, zmq_utils.h and libzmq.pc
    --profile NAME         what it is built with [release]
  wheel         builds the Python package tidewire-libzmq, with which pyzmq uses our libzmq.so.5
    --output FOLDER        where the wheel is written [target/wheel]
    --prefix FOLDER, --profile NAME as above
  crash         kills a server with an append-only file under load: nothing acknowledged is lost
    --rounds N             kills with each policy [200]
    --policy NAME          always, everysec or no; repeatable [all]
    --pipeline N           commands that a writer sends at once, twice as many [16]
    --lanes N              lanes of the server [2]
    --seed S               when it is killed [1]
    --binary FILE          a tidewire that is already built
    --redis FILE           a redis-server in its place
    --scratch FOLDER       where the files are [target/crash]
  fuzz [TARGET ...]
                looks for inputs that break a decoder; all targets, one after another
    --seconds N            for each [60]
    --max-length N         bytes of an input [4096]
  hangs         random commands, scripts and disconnects, while other clients ask each lane for PING
    --minutes N            how long [10]; or --seconds N
    --lanes N              lanes of the server [4]
    --seed S               same seed, same commands of each client [1]
    --clients N            clients that send them [12]
    --binary FILE          a tidewire that is already built
  linearizable  many clients at once; porcupine decides whether one order explains their replies
    --operations N         of all runs together [1_000_000]
    --seconds S            instead: how long, all runs together
    --lanes N              lanes of a server; repeatable [2 and 4]
    --appendonly P         the file's policy, or `no` (repeatable) [no, everysec, always]
    --quorum               instead: two hubs whose keys are in a quorum of three NATS servers, amid
                           faults; with --operations, --seed and --binary alone
    --seed S               same seed, same calls [1]
    --binary FILE          a tidewire that is already built
  complexity    counts the instructions of each command at N and at 10 N, for docs/complexity.md
    --command NAME         only this one, such as xgroup|create; writes no page
    --profile NAME         what it is built with [release]
  memory-check  tests of what is unsafe in keyspace and memory under Miri, which needs a nightly toolchain
  model         random commands to Tidewire and to a real Redis: replies must be the same
    --commands N           how many [1_000_000]
    --seed S               same seed, same commands [1]
    --lanes N              lanes of a server; repeatable [1 and 4]
    --redis FILE           the redis-server to compare with [the one that is installed]
    --binary FILE          a tidewire that is already built
    --differences N        goes on until so many are found [1]
    --known-only           what Tidewire has no command for is no difference
    --other-redis FILE     another redis-server in Tidewire's place
  live          random operations on live topics by all protocols, with restarts, full syncs, slow and late
                subscribers: the last message of each must be the topic's state
    --operations N         how many for each number of lanes [100_000]
    --seconds S            ends earlier, for each number of lanes
    --seed S               same seed, same operations [1]
    --lanes N              lanes of the hubs; repeatable [1, 2 and 4]
    --binary FILE          a tidewire that is already built
  loom          every order of events between threads, by the models of docs/checks-of-threads.md
  simulate      a whole hub on one thread: simulated sockets, clock and disk; faults, kills and the order of
                everything by seed; clients of every protocol that know what they may see
    --seed N               the first seed; the next ones follow it [1]
    --minutes M            how long; 0 for one seed alone [1]
    --log                  shows the hub's log with simulated times
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = root();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => counted(|counts| check::run(&root, counts)),
        ["clients"] => counted(|counts| clients::run(&Shell::new(&root), counts)),
        ["clients", "--suites", ref rest @ ..] => outcome(suites::run(&root, Arguments::new(rest))),
        ["assertions"] => outcome(assertions::run(&root, None)),
        ["assertions", name] => outcome(assertions::run(&root, Some(name))),
        ["tidy"] => outcome(tidy::run(&root)),
        ["bench", ref rest @ ..] => outcome(bench::run(&root, rest)),
        ["conformance", ref rest @ ..] => outcome(conformance::run(&root, rest)),
        ["complexity", ref rest @ ..] => outcome(complexity::run(&root, rest)),
        ["libzmq", ref rest @ ..] => outcome(libzmq::run(&root, rest)),
        ["wheel", ref rest @ ..] => outcome(wheel::run(&root, rest)),
        ["linearizable", ref rest @ ..] => outcome(linearizable::run(&root, Arguments::new(rest))),
        ["crash", ref rest @ ..] => outcome(crash::run(&root, rest)),
        ["fuzz", ref rest @ ..] => outcome(fuzz::run(&root, rest)),
        ["hangs", ref rest @ ..] => outcome(hangs::run(&root, rest)),
        ["model", ref rest @ ..] => outcome(model::run(&root, rest)),
        ["cluster", ref rest @ ..] => outcome(cluster::run(&root, rest)),
        ["live", ref rest @ ..] => outcome(live::run(&root, rest)),
        ["loom"] => counted(|counts| loom::run(&Shell::new(&root), counts)),
        ["simulate", ref rest @ ..] => outcome(simulate::run(&root, rest)),
        ["memory-check"] => outcome(memory_check::run(&root)),
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

/// Prints the counts as the last line.
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

/// Returns the project's root: the folder above this package.
fn root() -> PathBuf {
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| "xtask".into(), PathBuf::from);
    package
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .map_or_else(|| ".".into(), Path::to_path_buf)
}
