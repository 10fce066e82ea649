//! The `tidewire` program: a real-time data hub, and what belongs to it.

mod admin;
mod bench;
mod config;
mod curve_keys;
mod decode;
mod demo;
mod failure;
mod itch;
mod options;
mod plant;
mod replay;
mod server;
mod simulate;
mod stop;
mod table;
mod units;
mod watch;

use std::io::IsTerminal;

use clap::Parser;
use tidewire_counting_allocator::OnDemand;

use crate::failure::Failure;
use crate::options::{Command, Options};

/// Small replies and entries are made and dropped all the time; mimalloc serves them without a
/// lock and gives memory back; what is held is counted. `bench mx` counts what it is asked for.
#[global_allocator]
static ALLOCATOR: OnDemand<tidewire_memory::Allocator> = OnDemand(tidewire_memory::Allocator);

fn main() {
    let result = match bench::zmq_child() {
        Some(result) => result,
        None => Options::try_parse().map_err(Failure::from).and_then(run),
    };
    if let Err(failure) = result {
        failure.exit();
    }
}

fn run(options: Options) -> Result<(), Failure> {
    start_log(&options.log)?;
    match options.command {
        Command::Serve(options) => server::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::Decode(options) => decode::run(&options),
        Command::CurveKeys => curve_keys::run(),
        Command::Replay(options) => replay::run(&options),
        Command::Watch(options) => watch::run(&options),
        Command::Itch(options) => itch::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Bench(options) => bench::run(&options),
    }
}

/// Logs go to the standard error, so that output can be piped.
fn start_log(filter: &str) -> Result<(), Failure> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter).map_err(|_| {
        Failure::usage(format!("'{filter}' is no log filter (--log, TIDEWIRE_LOG)"))
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}
