//! GET and SET at several pipeline depths, with many connections, and at several rates: our server,
//! rivals and the echo floor, in turn.

use std::num::NonZeroU64;

use super::Place;
use super::contest::{self, CONNECTIONS, Case, Pace};
use super::load::fill;
use super::processor_time::Cores;
use super::report::Setting;
use super::requests::{Requests, VALUE_BYTES, Workset};
use super::samples::{FLOOR, OURS, Run};
use crate::options::BenchOptions;
use tidewire::failure::Failure;

/// Measures, prints, and keeps the raw run.
pub(crate) fn run(
    options: &BenchOptions,
    setting: &Setting,
    cores: Cores,
    json: Place<'_>,
) -> Result<(), Failure> {
    let set = Workset::of(options.value_bytes);
    let ready = |address| fill(address, set);
    if is_usual(options) {
        let (subject, cases) = (("resp", json), usual_cases(options, set));
        let more = |run: &Run| below_saturation(run, set);
        return contest::run(options, setting, cores, subject, set, ready, &cases, more);
    }
    // Another run than the page tells of.
    let (subject, cases) = (("resp-chosen", json), chosen_cases(options, set));
    contest::run(options, setting, cores, subject, set, ready, &cases, |_| {
        Vec::new()
    })
}

/// Whether nothing was chosen but what [`usual_cases`] has.
fn is_usual(options: &BenchOptions) -> bool {
    options.connections.is_empty()
        && options.pipeline.is_empty()
        && options.mix.is_none()
        && options.value_bytes == VALUE_BYTES
        && options.load_threads == 1
}

/// Closed loops: every depth with every number of connections; a mix also in open loops.
fn chosen_cases(options: &BenchOptions, set: Workset) -> Vec<Case> {
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
            cases.extend(depths.iter().map(|&depth| Case {
                connections,
                ..Case::new(
                    format!("{operation} P={depth}, {connections} clients"),
                    requests.clone(),
                    Pace::Pipeline(depth),
                )
            }));
            if options.mix.is_some() {
                let loops = open_loops(options, operation, requests);
                cases.extend(loops.into_iter().map(|case| Case {
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
fn usual_cases(options: &BenchOptions, set: Workset) -> Vec<Case> {
    let mut cases = Vec::new();
    let operations = [("GET", Requests::get(set)), ("SET", Requests::set(set))];
    for (operation, requests) in &operations {
        cases.extend(PIPELINES.map(|depth| {
            let name = format!("{operation} P={depth}");
            Case::new(name, requests.clone(), Pace::Pipeline(depth))
        }));
    }
    cases.extend(operations.map(|(operation, requests)| Case {
        connections: MANY_CONNECTIONS,
        ..Case::new(
            format!("{operation} P=1, {MANY_CONNECTIONS} clients"),
            requests,
            Pace::Pipeline(1),
        )
    }));
    cases.extend(open_loops(options, "GET", &Requests::get(set)));
    cases
}

/// One open loop at each rate asked for.
fn open_loops(options: &BenchOptions, operation: &str, requests: &Requests) -> Vec<Case> {
    let rates = options.rate.iter().copied().filter_map(NonZeroU64::new);
    let case = |rate: NonZeroU64| {
        let rate_text = match rate.get() {
            thousands if thousands.is_multiple_of(1_000) => format!("{}k/s", thousands / 1_000),
            rate => format!("{rate}/s"),
        };
        let name = format!("{operation} {rate_text}");
        Case::new(name, requests.clone(), Pace::Rate(rate))
    };
    rates.map(case).collect()
}

/// For each rival an open loop at 70 % of what it answers one by one.
fn below_saturation(run: &Run, set: Workset) -> Vec<Case> {
    let rivals = run.servers.iter().filter(|s| *s != OURS && *s != FLOOR);
    let cases = rivals.filter_map(|rival| {
        let rate = run.operations_a_second("GET P=1", rival).median * 0.7;
        let name = format!("GET, 70 % of {rival}'s most");
        let rate = NonZeroU64::new(rate as u64)?;
        Some(Case::new(name, Requests::get(set), Pace::Rate(rate)))
    });
    cases.collect()
}

const PIPELINES: [usize; 3] = [1, 16, 64];
const MANY_CONNECTIONS: usize = 500;
