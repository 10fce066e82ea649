//! The `tidewire` program: a real-time data hub and its tools.
//!
//! It is a library only so that `tidewire-bench`, which is not part of the product, can start hubs
//! and simulations as the program does.

#[macro_use]
#[doc(hidden)]
pub mod output;

mod admin;
#[cfg(test)]
#[path = "../../tls/tests/support/certificates.rs"]
mod certificates;
mod certs;
mod cluster_file;
mod columns;
mod config;
mod curve_keys;
mod decode;
mod demo;
mod descriptors;
mod directory;
mod environment;
#[doc(hidden)]
pub mod failure;
mod feed_login;
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
mod target;
mod tls_ports;
#[doc(hidden)]
pub mod units;
mod watch;
mod web;

use crate::failure::Failure;
use crate::log::{LogOptions, LogPlan};
use crate::options::{Command, Options};

/// Runs the program with the arguments of this process.
pub fn main() {
    let options = Options::from_command_line().map_err(Failure::from);
    if let Err(failure) = options.and_then(run) {
        failure.exit();
    }
}

fn run(options: Options) -> Result<(), Failure> {
    // These commands still have to shut down in order after their output is closed.
    if let Command::Serve(_) | Command::Simulate(_) | Command::Demo(_) = options.command {
        output::end_in_order();
    }
    let logging = LogOptions {
        filter: options.log,
        format: options.log_format,
    };
    // The configuration of a hub also says what to log and where, so `serve` starts the log itself.
    if !matches!(options.command, Command::Serve(_)) {
        log::start(LogPlan::new(&logging, "warn"))?;
    }
    match options.command {
        Command::Serve(options) => serve::run(&options, &logging),
        Command::Simulate(options) => simulate::run(&options),
        Command::Decode(options) => decode::run(&options),
        Command::Certs(options) => certs::run(&options),
        Command::CurveKeys => curve_keys::run(),
        Command::Replay(options) => replay::run(&options),
        Command::Watch(options) => watch::run(&options),
        Command::Itch(options) => itch::run(&options),
        Command::Demo(options) => {
            environment::warn_of_unknown_variables();
            demo::run(&options)
        }
    }
}
