//! ZeroMQ sockets beside a libzmq: round trips, rates, processor time.

use serde::Serialize;
use tidewire_zmq_bench::{Contest, Report, Subject};

use super::report::{Setting, Table, write_run};
use super::{Place, failed};
use crate::options::BenchOptions;
use tidewire::failure::Failure;

/// The first argument of a process that measures one library.
pub(crate) const CHILD: &str = "zmq-bench-child";

/// Runs such a process, if the arguments ask for one.
pub(crate) fn run_child() -> Option<Result<(), Failure>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    (arguments.first().map(String::as_str) == Some(CHILD))
        .then(|| tidewire_zmq_bench::child(&arguments[1..]).map_err(Failure::running))
}

/// Measures, prints, and keeps the raw run.
pub(crate) fn run(
    options: &BenchOptions,
    setting: &Setting,
    json: Place<'_>,
) -> Result<(), Failure> {
    let contest = contest(options)?;
    println!("\nOurs: {}; the rival: {}\n", contest.ours, contest.rival);
    let mut table = Table::new(&[
        "subject",
        "over",
        "bytes",
        "ours",
        "rival",
        "ratio",
        "spread",
        "CPU ratio",
        "CPU us",
    ]);
    let report = tidewire_zmq_bench::run(&contest, |row| {
        let digits = if row.subject.is_latency() { 2 } else { 0 };
        eprintln!("{} {} {}", row.subject.name(), row.transport, row.bytes);
        table.push(vec![
            row.subject.name().to_owned(),
            row.transport.clone(),
            row.bytes.to_string(),
            format!("{:.digits$}", row.ours),
            format!("{:.digits$}", row.rival),
            format!("{:.2}", row.ratio),
            format!("{:.2} to {:.2}", row.ratio_spread[0], row.ratio_spread[1]),
            format!("{:.2}", row.processor_ratio),
            format!("{:.2}", row.processor_us),
        ]);
    })
    .map_err(Failure::running)?;
    println!("latency and request-reply: us one way; the others: messages a second\n");
    print!("{}", table.text());
    let kind = if options.zmq_library.is_some() {
        "libzmq"
    } else {
        "zmq"
    };
    let run = Run {
        setting: setting.clone(),
        report,
    };
    write_run(&run, setting, kind, json, &[&table])
}

#[derive(Debug, Serialize)]
struct Run {
    setting: Setting,
    #[serde(flatten)]
    report: Report,
}

fn contest(options: &BenchOptions) -> Result<Contest, Failure> {
    let rival = match options.rival.first() {
        Some(rival) => rival.path.display().to_string(),
        None => LIBRARY.to_owned(),
    };
    let mut subjects = Vec::new();
    for name in &options.zmq_subjects {
        let subject = Subject::named(name);
        subjects.push(subject.ok_or_else(|| Failure::usage(format!("no subject '{name}'")))?);
    }
    if subjects.is_empty() {
        subjects = Subject::ALL.iter().map(|&(_, subject)| subject).collect();
    }
    let ours = options.zmq_library.as_ref();
    Ok(Contest {
        program: std::env::current_exe().map_err(failed("cannot find this program"))?,
        prefix: vec![CHILD.to_owned()],
        ours: ours.map_or("rust".to_owned(), |path| path.display().to_string()),
        rival,
        subjects,
        transports: options.zmq_transports.clone(),
        sizes: options.zmq_sizes.clone(),
        pairs: options.pairs,
        pinned_to: options.pin.then_some(1),
    })
}

/// The one that the system's loader finds.
const LIBRARY: &str = "libzmq.so.5";
