//! ZeroMQ sockets beside a libzmq: round trips, rates, processor time.

use serde_json::json;
use tidewire_zmq_bench::{Contest, Subject};

use super::failed;
use super::report::Table;
use super::scenario::Bench;
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

/// Measures, prints, and stores the raw run.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let contest = contest(bench.options)?;
    println!("\nOurs: {}; the rival: {}\n", contest.ours, contest.rival);
    let report = tidewire_zmq_bench::run(&contest, |row| {
        eprintln!("{} {} {}", row.subject.name(), row.transport, row.bytes);
    })
    .map_err(Failure::running)?;
    let figure = |subject: Subject, figure: f64| match subject.is_latency() {
        true => format!("{figure:.2}"),
        false => format!("{figure:.0}"),
    };
    let table = Table::of(
        &report.rows,
        &[
            ("subject", &|row| row.subject.name().to_owned()),
            ("over", &|row| row.transport.clone()),
            ("bytes", &|row| row.bytes.to_string()),
            ("ours", &|row| figure(row.subject, row.ours)),
            ("rival", &|row| figure(row.subject, row.rival)),
            ("ratio", &|row| format!("{:.2}", row.ratio)),
            ("spread", &|row| {
                format!("{:.2} to {:.2}", row.ratio_spread[0], row.ratio_spread[1])
            }),
            ("CPU ratio", &|row| format!("{:.2}", row.processor_ratio)),
            ("CPU us", &|row| format!("{:.2}", row.processor_us)),
        ],
    );
    println!("latency and request-reply: us one way; the others: messages a second\n");
    print!("{}", table.text());
    let kind = match bench.options.zmq_library {
        Some(_) => "libzmq",
        None => "zmq",
    };
    bench.keep(kind, json!(report), &[&table])
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
