//! The NMX codec: allocations, bytes and ns per operation, with a gate on the allocations.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tidewire_memory::counting::{Tally, tally_of};
use tidewire_mx::scenarios::{self, ITERATIONS, Scenario, WARM_UP};

use super::Place;
use super::report::{Setting, Spread, Table};
use crate::options::BenchOptions;
use tidewire::failure::Failure;
use tidewire::units::grouped;

/// Measures; prints the table and keeps it as a page, or prints JSON alone.
///
/// # Errors
/// A scenario allocates more than it may.
pub(crate) fn run(
    options: &BenchOptions,
    setting: &Setting,
    json: Place<'_>,
) -> Result<(), Failure> {
    let sample_time = Duration::from_secs_f64(options.seconds / 100.0);
    let figures: Vec<Figure> = scenarios::all()
        .into_iter()
        .map(|scenario| Figure::measure(scenario, options.pairs, sample_time))
        .collect();
    match json {
        Some(path) => write_json(&figures, path)?,
        None => {
            let page = page(&figures, setting);
            println!("\n{page}");
            keep(&page)?;
        }
    }
    gate(&figures)
}

/// What one operation takes.
#[derive(Debug)]
struct Figure {
    name: String,
    allocations_max: u64,
    goal_ns: Option<f64>,
    /// Of [`ITERATIONS`] calls.
    tally: Tally,
    ns: Spread,
}

impl Figure {
    fn measure(mut scenario: Scenario, samples: usize, sample_time: Duration) -> Self {
        scenario.run(WARM_UP);
        let tally = tally_of(|| scenario.run(ITERATIONS));
        Self {
            ns: Spread::of((0..samples).map(|_| ns_a_call(&mut scenario, sample_time))),
            name: scenario.name,
            allocations_max: scenario.allocations_max,
            goal_ns: scenario.goal_ns,
            tally,
        }
    }

    fn each(count: u64) -> f64 {
        count as f64 / ITERATIONS as f64
    }
}

/// By the thread's own processor time: what other programs do meanwhile is not counted.
fn ns_a_call(scenario: &mut Scenario, sample_time: Duration) -> f64 {
    let mut calls = 64;
    loop {
        let begin = thread_ns();
        scenario.run(calls);
        let spent = thread_ns() - begin;
        if u128::from(spent) >= sample_time.as_nanos() {
            return spent as f64 / calls as f64;
        }
        // Reading the clock costs as much as some dozen calls: one reading a sample.
        calls *= 2;
    }
}

fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn page(figures: &[Figure], setting: &Setting) -> String {
    let mut table = Table::new(&[
        "operation",
        "allocs/op",
        "bytes/op",
        "deallocs/op",
        "ns/op",
        "goal ns",
        "reference allocs/op",
    ]);
    for figure in figures {
        table.push(vec![
            figure.name.clone(),
            format!("{:.2}", Figure::each(figure.tally.allocations)),
            format!("{:.0}", Figure::each(figure.tally.bytes)),
            format!("{:.2}", Figure::each(figure.tally.deallocations)),
            figure.ns.text(1),
            figure.goal_ns.map(|ns| ns.to_string()).unwrap_or_default(),
            reference(&figure.name).map_or(String::new(), str::to_owned),
        ]);
    }
    let mut page = String::from("# NMX codec: allocations and time\n\n");
    let _ = writeln!(page, "`cargo xtask bench mx` writes this page. {}\n", ABOUT);
    let _ = writeln!(page, "{}\n", setting.headline());
    let _ = write!(page, "{}", table.text());
    page
}

/// What the reference implementation (`mxaccess-codec`) published of itself.
fn reference(name: &str) -> Option<&'static str> {
    Some(match name {
        "encode Int32" | "encode Float32" | "encode Float64" => "2.00",
        "encode Boolean" => "1.00",
        "encode String of 5" => "4.00",
        "encode_to_bytes_mut Int32" => "2.00",
        "encode into BytesMut, Int32" => "1.00",
        "encode into BytesMut, Boolean" => "0.00",
        "handle from names seen before" => "0.00",
        "handle from two new names of 16 characters" => "2.00",
        "parse DataUpdate of 1 Int32" => "1.00",
        _ => return None,
    })
}

/// In a checkout, the page is kept in it.
fn keep(page: &str) -> Result<(), Failure> {
    if !Path::new("docs").is_dir() {
        return Ok(());
    }
    fs::write(PAGE, page)
        .map_err(|error| Failure::running(format!("cannot write {PAGE}: {error}")))?;
    println!("kept as {PAGE}");
    Ok(())
}

fn write_json(figures: &[Figure], path: &Path) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Run<'a> {
        scenarios: Vec<Row<'a>>,
    }
    #[derive(Serialize)]
    struct Row<'a> {
        name: &'a str,
        allocs_per_op: f64,
        bytes_per_op: f64,
        ns_per_op: f64,
    }
    let scenarios = figures.iter().map(|figure| Row {
        name: &figure.name,
        allocs_per_op: Figure::each(figure.tally.allocations),
        bytes_per_op: Figure::each(figure.tally.bytes),
        ns_per_op: figure.ns.median,
    });
    let run = Run {
        scenarios: scenarios.collect(),
    };
    super::report::write_json(&run, path)
}

fn gate(figures: &[Figure]) -> Result<(), Failure> {
    let over: Vec<String> = figures
        .iter()
        .filter(|figure| figure.tally.allocations > figure.allocations_max * ITERATIONS)
        .map(|figure| {
            let Figure { name, tally, .. } = figure;
            let (count, calls) = (grouped(tally.allocations), grouped(ITERATIONS));
            format!("'{name}' allocated {count} times in {calls} calls")
        })
        .collect();
    if over.is_empty() {
        return Ok(());
    }
    Err(Failure::running(over.join("; ")))
}

const PAGE: &str = "docs/bench-mx.md";
const ABOUT: &str = "Each row is 10,000 calls after 1,000 of warm-up,
counted by the allocator; the time is the thread's processor time, as median (least–most) of several
samples, the empty loop's included. The command ends with exit code 1 if an encode into the caller's
buffer (`into`), a decode (`parse`) or a handle (`names`) allocates at all, or another encode more than
once. The last column is what `mxaccess-codec` published of itself, on another machine.";
