//! `tidewire-bench`: what the hub does a second, how long it takes, and what it costs; beside
//! rivals and beside what the machine itself allows, in one run.

/// Prints to the standard output. Shadows the one of the standard library, which panics where the
/// reader is gone.
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
mod samples;
mod servers;
mod subscriber;
mod timing;
mod types;
mod zmq;

use std::path::Path;

use clap::Parser;
use tidewire::failure::Failure;
use tidewire_memory::counting::OnDemand;

use options::{BenchOptions, BenchSubject};
use processor_time::Cores;
use report::Setting;

/// The program's own allocator; `mx` counts what it is asked for.
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

/// Measures what was asked for, and prints it.
fn run(options: &BenchOptions) -> Result<(), Failure> {
    let setting = Setting::look();
    if options.subject == BenchSubject::Report {
        return page::write();
    }
    if options.subject == BenchSubject::Mx {
        return mx::run(options, &setting, options.json.as_deref());
    }
    println!("{}", setting.headline());
    let cores = Cores::new(options.pin);
    let asked = |subject| options.subject == subject || options.subject == BenchSubject::All;
    // One file holds one subject: with `all` each goes to its own place.
    let json = match options.subject {
        BenchSubject::All => None,
        _ => options.json.as_deref(),
    };
    if asked(BenchSubject::Cache) {
        cache::run(options, &setting, json)?;
    }
    if asked(BenchSubject::Mx) {
        mx::run(options, &setting, json)?;
    }
    if asked(BenchSubject::Feed) {
        feed::run(options, &setting, cores, json)?;
    }
    // A thousand connections need more descriptors than some machines allow.
    if options.subject == BenchSubject::Fanout {
        fanout::run(options, &setting, cores, json)?;
    }
    if options.subject == BenchSubject::Loss {
        loss::run(options, &setting, json)?;
    }
    if asked(BenchSubject::Resp) {
        resp::run(options, &setting, cores, json)?;
    }
    if asked(BenchSubject::Types) {
        types::run(options, &setting, cores, json)?;
    }
    if asked(BenchSubject::Publish) {
        publish::run(options, &setting, cores, json)?;
    }
    if asked(BenchSubject::Memory) {
        memory::run(options, &setting, cores, json)?;
    }
    // Beside a library that not every machine has.
    if options.subject == BenchSubject::Zmq {
        zmq::run(options, &setting, json)?;
    }
    if options.subject == BenchSubject::Plant {
        plant::run(options, &setting, json)?;
    }
    if options.subject == BenchSubject::Eviction {
        eviction::run(options, &setting, cores, json)?;
    }
    if asked(BenchSubject::Expiry) {
        expiry::run(options, &setting, cores, json)?;
    }
    if options.subject == BenchSubject::All && Path::new(report::RUNS).is_dir() {
        page::write()?;
    }
    Ok(())
}

/// What went wrong while measuring, as a failure of the program.
fn failed(what: &str) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| Failure::running(format!("{what}: {error}"))
}

/// Where a subject's raw run goes if not to its usual place.
type Place<'a> = Option<&'a Path>;
