//! The NMX codec: allocations, bytes and ns per operation, with a gate on the allocations.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tidewire_memory::counting::{Tally, tally_of};
use tidewire_mx::scenarios::{self, ITERATIONS, Scenario, WARM_UP};

use super::report::{Setting, Spread, Table, write_json};
use super::scenario::Bench;
use super::timing::processor_time;
use tidewire::failure::Failure;
use tidewire::units::grouped;

/// Measures, prints the table and stores it as a page; or prints only JSON.
///
/// # Errors
/// A scenario allocates more than it may.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let (samples, sample_time) = (bench.options.pairs, bench.duration() / 100);
    let operations: Vec<CodecOperation> = scenarios::all()
        .into_iter()
        .map(|scenario| CodecOperation::measure(scenario, samples, sample_time))
        .collect();
    match bench.json {
        Some(path) => write_scenarios(&operations, path)?,
        None => {
            let page = page(&operations, &bench.setting);
            println!(
                "
{page}"
            );
            keep(&page)?;
        }
    }
    gate(&operations)
}

/// The cost of one operation.
#[derive(Debug)]
struct CodecOperation {
    name: String,
    allocations_max: u64,
    goal_ns: Option<f64>,
    /// Of [`ITERATIONS`] calls.
    tally: Tally,
    ns: Spread,
}

impl CodecOperation {
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
}

/// Returns nanoseconds per call by the thread's own processor time: other programs do not count.
fn ns_a_call(scenario: &mut Scenario, sample_time: Duration) -> f64 {
    let mut calls = 64;
    loop {
        let begin = processor_time();
        scenario.run(calls);
        let spent = processor_time().saturating_sub(begin);
        if spent >= sample_time {
            return spent.as_nanos() as f64 / calls as f64;
        }
        // Reading the clock costs as much as some dozen calls: read it once per sample.
        calls *= 2;
    }
}

fn page(operations: &[CodecOperation], setting: &Setting) -> String {
    let each = |count: u64| count as f64 / ITERATIONS as f64;
    let table = Table::of(
        operations,
        &[
            ("operation", &|row| row.name.clone()),
            ("allocs/op", &|row| {
                format!("{:.2}", each(row.tally.allocations))
            }),
            ("bytes/op", &|row| format!("{:.0}", each(row.tally.bytes))),
            ("deallocs/op", &|row| {
                format!("{:.2}", each(row.tally.deallocations))
            }),
            ("ns/op", &|row| row.ns.text(1)),
            ("goal ns", &|row| {
                row.goal_ns.map(|ns| ns.to_string()).unwrap_or_default()
            }),
            ("reference allocs/op", &|row| {
                reference(&row.name).unwrap_or_default().to_owned()
            }),
        ],
    );
    let mut page = String::from("# NMX codec: allocations and time\n\n");
    let _ = writeln!(page, "`cargo xtask bench mx` writes this page. {}\n", ABOUT);
    let _ = writeln!(page, "{}\n", setting.headline());
    let _ = write!(page, "{}", table.text());
    page
}

/// Figures published by the reference implementation (`mxaccess-codec`).
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

/// Stores the page, if the command runs in a checkout.
fn keep(page: &str) -> Result<(), Failure> {
    if !Path::new("docs").is_dir() {
        return Ok(());
    }
    fs::write(PAGE, page)
        .map_err(|error| Failure::running(format!("cannot write {PAGE}: {error}")))?;
    println!("kept as {PAGE}");
    Ok(())
}

fn write_scenarios(operations: &[CodecOperation], path: &Path) -> Result<(), Failure> {
    let each = |count: u64| count as f64 / ITERATIONS as f64;
    let scenarios = operations.iter().map(|operation| {
        json!({
            "name": operation.name,
            "allocs_per_op": each(operation.tally.allocations),
            "bytes_per_op": each(operation.tally.bytes),
            "ns_per_op": operation.ns.median,
        })
    });
    let scenarios: Vec<Value> = scenarios.collect();
    write_json(&json!({"scenarios": scenarios}), path)
}

fn gate(operations: &[CodecOperation]) -> Result<(), Failure> {
    let over: Vec<String> = operations
        .iter()
        .filter(|one| one.tally.allocations > one.allocations_max * ITERATIONS)
        .map(|CodecOperation { name, tally, .. }| {
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
