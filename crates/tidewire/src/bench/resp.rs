//! GET and SET at several pipeline depths, with many connections, and at several rates: our server,
//! rivals and the echo floor, in turn.

use std::num::NonZeroU64;

use super::Place;
use super::contest::{self, Case, Pace};
use super::load::{Requests, fill};
use super::processor_time::Cores;
use super::report::Setting;
use super::samples::{FLOOR, OURS, Run};
use crate::failure::Failure;
use crate::options::BenchOptions;

/// Measures, prints, and keeps the raw run.
pub(crate) fn run(
    options: &BenchOptions,
    setting: &Setting,
    cores: Cores,
    json: Place<'_>,
) -> Result<(), Failure> {
    contest::run(
        options,
        setting,
        cores,
        ("resp", json),
        fill,
        &cases(options),
        below_saturation,
    )
}

/// Closed loops at every depth, then with many connections, then open loops at the rates asked for.
fn cases(options: &BenchOptions) -> Vec<Case> {
    let mut cases = Vec::new();
    let operations = [("GET", Requests::get()), ("SET", Requests::set())];
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
    let rates = options
        .rate
        .iter()
        .filter_map(|&rate| NonZeroU64::new(rate));
    cases.extend(rates.map(|rate| {
        let name = match rate.get() {
            thousands if thousands.is_multiple_of(1_000) => format!("GET {}k/s", thousands / 1_000),
            rate => format!("GET {rate}/s"),
        };
        Case::new(name, Requests::get(), Pace::Rate(rate))
    }));
    cases
}

/// For each rival an open loop at 70 % of what it answers one by one.
fn below_saturation(run: &Run) -> Vec<Case> {
    let rivals = run.servers.iter().filter(|s| *s != OURS && *s != FLOOR);
    let cases = rivals.filter_map(|rival| {
        let rate = run.operations_a_second("GET P=1", rival).median * 0.7;
        let name = format!("GET, 70 % of {rival}'s most");
        let rate = NonZeroU64::new(rate as u64)?;
        Some(Case::new(name, Requests::get(), Pace::Rate(rate)))
    });
    cases.collect()
}

const PIPELINES: [usize; 3] = [1, 16, 64];
const MANY_CONNECTIONS: usize = 500;
