//! `tidewire-bench`: throughput, latency and cost of the hub, compared with rivals and with the
//! limits of the machine, in one run.

/// Prints to standard output. Replaces the macro of the standard library, which panics if the
/// reader has closed the pipe.
macro_rules! print {
    ($($text:tt)*) => { tidewire::output::print(format_args!($($text)*)) };
}

/// The same with a line end.
macro_rules! println {
    () => { tidewire::output::print(format_args!("\n")) };
    ($($text:tt)*) => { tidewire::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// A line on the standard error.
macro_rules! eprintln {
    ($($text:tt)*) => { tidewire::output::complain(format_args!($($text)*)) };
}

mod cache;
mod contest;
mod echo;
mod end_to_end;
mod eviction;
mod expiry;
mod fanout;
mod feed;
mod floor;
mod itch;
mod load;
mod load_threads;
mod loss;
mod mdp;
mod memory;
mod mix;
mod mx;
mod open_loop;
mod options;
mod page;
mod plant;
mod plot;
mod processor_time;
mod publish;
mod publish_floor;
mod publish_flow;
mod reconnect;
mod report;
mod requests;
mod resp;
mod scenario;
mod servers;
mod subscriber;
mod timing;
mod types;
mod web;
mod web_load;
mod zmq;

use std::path::Path;

use clap::Parser;
use tidewire::failure::Failure;
use tidewire_memory::counting::OnDemand;

use options::{BenchOptions, BenchSubject};
use processor_time::Cores;
use report::Setting;
use scenario::Bench;

/// The program's allocator; `mx` counts its allocations.
#[global_allocator]
static ALLOCATOR: OnDemand<tidewire_memory::Allocator> = OnDemand(tidewire_memory::Allocator);

fn main() {
    tidewire::output::end_in_order();
    let result = match zmq::run_child() {
        Some(result) => result,
        None => BenchOptions::try_parse()
            .map_err(Failure::from)
            .and_then(|options| run(&options)),
    };
    if let Err(failure) = result {
        failure.exit();
    }
}

/// Measures the selected subject and prints the result.
fn run(options: &BenchOptions) -> Result<(), Failure> {
    let setting = Setting::look();
    let is_all = options.subject == BenchSubject::All;
    if options.subject == BenchSubject::Report {
        return page::write();
    }
    if options.subject != BenchSubject::Mx {
        println!("{}", setting.headline());
    }
    let bench = Bench {
        options,
        setting,
        cores: Cores::new(options.pin),
        // One file holds one subject: with `all` each has its default file.
        json: options.json.as_deref().filter(|_| !is_all),
    };
    for (subject, is_usual, measure) in SUBJECTS {
        if options.subject == subject || is_all && is_usual {
            measure(&bench)?;
        }
    }
    if is_all && Path::new(report::RUNS).is_dir() {
        page::write()?;
    }
    Ok(())
}

/// Converts an error of a measurement to a failure of the program.
fn failed(what: &str) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| Failure::running(format!("{what}: {error}"))
}

/// Measures a subject, prints its tables, and keeps its raw run.
type Measure = fn(&Bench<'_>) -> Result<(), Failure>;

/// The subjects in their order, and whether `all` includes them.
const SUBJECTS: [(BenchSubject, bool, Measure); 15] = [
    (BenchSubject::Cache, true, cache::run),
    (BenchSubject::Mx, true, mx::run),
    (BenchSubject::Feed, true, feed::run),
    (BenchSubject::Itch, false, feed::run_itch),
    // A thousand connections need more descriptors than some machines allow.
    (BenchSubject::Fanout, false, fanout::run),
    (BenchSubject::Web, false, web::run),
    (BenchSubject::Loss, false, loss::run),
    (BenchSubject::Resp, true, resp::run),
    (BenchSubject::Types, true, types::run),
    (BenchSubject::Publish, true, publish::run),
    (BenchSubject::Memory, true, memory::run),
    // Needs a library that not every machine has.
    (BenchSubject::Zmq, false, zmq::run),
    (BenchSubject::Plant, false, plant::run),
    (BenchSubject::Eviction, false, eviction::run),
    (BenchSubject::Expiry, true, expiry::run),
];
