//! The `tidewire` program: a real-time data hub, and what belongs to it.

#[macro_use]
mod output;

mod admin;
mod bench;
mod columns;
mod config;
mod curve_keys;
mod decode;
mod demo;
mod descriptors;
mod directory;
mod failure;
mod itch;
mod keys;
mod log;
mod notify;
mod options;
mod plant;
mod process;
mod replay;
mod serve;
mod server;
mod simulate;
mod startup;
mod stop;
mod table;
mod units;
mod watch;

use tidewire_counting_allocator::OnDemand;

use crate::failure::Failure;
use crate::log::{LogOptions, LogPlan};
use crate::options::{Command, Options};

/// Small replies and entries are made and dropped all the time; mimalloc serves them without a
/// lock and gives memory back; what is held is counted. `bench mx` counts what it is asked for.
#[global_allocator]
static ALLOCATOR: OnDemand<tidewire_memory::Allocator> = OnDemand(tidewire_memory::Allocator);

fn main() {
    let result = match bench::zmq_child() {
        Some(result) => result,
        None => Options::from_command_line()
            .map_err(Failure::from)
            .and_then(run),
    };
    if let Err(failure) = result {
        failure.exit();
    }
}

fn run(options: Options) -> Result<(), Failure> {
    // These have something to end in order when nobody reads their output any more.
    if let Command::Serve(_) | Command::Simulate(_) | Command::Demo(_) | Command::Bench(_) =
        options.command
    {
        output::end_in_order();
    }
    let logging = LogOptions {
        filter: options.log,
        format: options.log_format,
    };
    // What a hub logs, and where, stands in its configuration too.
    if !matches!(options.command, Command::Serve(_)) {
        log::start(LogPlan::new(&logging, "warn"))?;
    }
    match options.command {
        Command::Serve(options) => serve::run(&options, &logging),
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
