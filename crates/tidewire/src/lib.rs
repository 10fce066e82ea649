//! The `tidewire` program: a real-time data hub and its tools.
//!
//! It is a library only so that `tidewire-bench`, which is not part of the product, can start hubs
//! and simulations as the program does.

#[macro_use]
#[doc(hidden)]
pub mod output;

mod admin;
mod columns;
mod config;
mod curve_keys;
mod decode;
mod demo;
mod descriptors;
mod directory;
#[doc(hidden)]
pub mod failure;
#[doc(hidden)]
pub mod itch;
mod keys;
mod log;
mod new_file;
mod notify;
mod options;
mod plant;
mod process;
mod replay;
mod serve;
#[doc(hidden)]
pub mod server;
#[doc(hidden)]
pub mod simulate;
mod startup;
#[doc(hidden)]
pub mod stop;
mod table;
#[doc(hidden)]
pub mod units;
mod watch;

use crate::failure::Failure;
use crate::log::{LogOptions, LogPlan};
use crate::options::{Command, Options};

/// The program, from its command line to its end.
pub fn main() {
    let options = Options::from_command_line().map_err(Failure::from);
    if let Err(failure) = options.and_then(run) {
        failure.exit();
    }
}

fn run(options: Options) -> Result<(), Failure> {
    // These have something to end in order when nobody reads their output any more.
    if let Command::Serve(_) | Command::Simulate(_) | Command::Demo(_) = options.command {
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
    }
}
