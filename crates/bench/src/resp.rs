//! GET and SET at several pipeline depths, with many connections, and at several rates: our server,
//! rivals and the echo floor, in turn.

use std::num::NonZeroU64;

use super::contest::{self, CONNECTIONS, LoadCase, LoadFigures, Pace};
use super::load::fill;
use super::requests::{Requests, VALUE_BYTES, Workset};
use super::scenario::{Bench, Samples};
use super::servers::Rival;
use crate::options::BenchOptions;
use tidewire::failure::Failure;

/// Measures, prints, and stores the raw run.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let set = Workset::of(bench.options.value_bytes);
    let ready = |address| fill(address, set);
    if is_usual(bench.options) {
        let cases = usual_cases(bench.options, set);
        let more = |samples: &_, rivals: &_| below_saturation(samples, rivals, set);
        return contest::run(bench, "resp", set, ready, &cases, more);
    }
    // Not the run that docs/PERFORMANCE.md shows.
    let cases = chosen_cases(bench.options, set);
    contest::run(bench, "resp-chosen", set, ready, &cases, |_, _| Vec::new())
}

/// Returns whether the selection is that of [`usual_cases`].
fn is_usual(options: &BenchOptions) -> bool {
    options.connections.is_empty()
        && options.pipeline.is_empty()
        && options.mix.is_none()
        && options.value_bytes == VALUE_BYTES
        && options.load_threads == 1
}

/// Returns closed loops with every depth and number of connections; for a mix also open loops.
fn chosen_cases(options: &BenchOptions, set: Workset) -> Vec<LoadCase> {
    let operations = match options.mix {
        Some(mix) => vec![(mix.name(), Requests::mixed(set, mix.gets))],
        None => vec![
            ("GET".to_owned(), Requests::get(set)),
            ("SET".to_owned(), Requests::set(set)),
        ],
    };
    let or = |chosen: &[usize], usual: &[usize]| match chosen {
        [] => usual.to_vec(),
        chosen => chosen.to_vec(),
    };
    let depths = or(&options.pipeline, &PIPELINES);
    let mut cases = Vec::new();
    for connections in or(&options.connections, &[CONNECTIONS]) {
        for (operation, requests) in &operations {
            cases.extend(depths.iter().map(|&depth| LoadCase {
                connections,
                ..LoadCase::new(
                    format!("{operation} P={depth}, {connections} clients"),
                    requests.clone(),
                    Pace::Pipeline(depth),
                )
            }));
            if options.mix.is_some() {
                let loops = open_loops(options, operation, requests);
                cases.extend(loops.into_iter().map(|case| LoadCase {
                    name: format!("{}, {connections} clients", case.name),
                    connections,
                    ..case
                }));
            }
        }
    }
    cases
}

/// Closed loops at every depth, then with many connections, then open loops at the rates asked for.
fn usual_cases(options: &BenchOptions, set: Workset) -> Vec<LoadCase> {
    let mut cases = Vec::new();
    let operations = [("GET", Requests::get(set)), ("SET", Requests::set(set))];
    for (operation, requests) in &operations {
        cases.extend(PIPELINES.map(|depth| {
            let name = format!("{operation} P={depth}");
            LoadCase::new(name, requests.clone(), Pace::Pipeline(depth))
        }));
    }
    cases.extend(operations.map(|(operation, requests)| LoadCase {
        connections: MANY_CONNECTIONS,
        ..LoadCase::new(
            format!("{operation} P=1, {MANY_CONNECTIONS} clients"),
            requests,
            Pace::Pipeline(1),
        )
    }));
    cases.extend(open_loops(options, "GET", &Requests::get(set)));
    cases
}

/// Returns one open loop for each requested rate.
fn open_loops(options: &BenchOptions, operation: &str, requests: &Requests) -> Vec<LoadCase> {
    let rates = options.rate.iter().copied().filter_map(NonZeroU64::new);
    let case = |rate: NonZeroU64| {
        let rate_text = match rate.get() {
            thousands if thousands.is_multiple_of(1_000) => format!("{}k/s", thousands / 1_000),
            rate => format!("{rate}/s"),
        };
        let name = format!("{operation} {rate_text}");
        LoadCase::new(name, requests.clone(), Pace::Rate(rate))
    };
    rates.map(case).collect()
}

/// Returns, for each rival, an open loop at 70 % of its closed-loop rate without pipelining.
fn below_saturation(
    samples: &Samples<LoadFigures>,
    rivals: &[Rival],
    set: Workset,
) -> Vec<LoadCase> {
    let cases = rivals.iter().filter_map(|Rival { name, .. }| {
        let most = samples.spread("GET P=1", name, |figures| figures.operations_a_second);
        let rate = NonZeroU64::new((most.median * 0.7) as u64)?;
        let name = format!("GET, 70 % of {name}'s most");
        Some(LoadCase::new(name, Requests::get(set), Pace::Rate(rate)))
    });
    cases.collect()
}

const PIPELINES: [usize; 3] = [1, 16, 64];
const MANY_CONNECTIONS: usize = 500;
