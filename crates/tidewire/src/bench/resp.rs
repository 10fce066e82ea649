//! GET and SET at several pipeline depths, and at several rates: our server, rivals and the echo
//! floor, in turn.

use std::num::NonZeroU64;

use super::Place;
use super::contest::{self, Case, Pace};
use super::load::{Requests, fill};
use super::processor_time::Cores;
use super::report::Setting;
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
    )
}

/// Closed loops at every depth, then open loops at the rates asked for.
fn cases(options: &BenchOptions) -> Vec<Case> {
    let mut cases = Vec::new();
    for (operation, requests) in [("GET", Requests::get()), ("SET", Requests::set())] {
        cases.extend(PIPELINES.map(|depth| Case {
            name: format!("{operation} P={depth}"),
            requests: requests.clone(),
            pace: Pace::Pipeline(depth),
        }));
    }
    let rates = options
        .rate
        .iter()
        .filter_map(|&rate| NonZeroU64::new(rate));
    cases.extend(rates.map(|rate| Case {
        name: match rate.get() {
            thousands if thousands.is_multiple_of(1_000) => format!("GET {}k/s", thousands / 1_000),
            rate => format!("GET {rate}/s"),
        },
        requests: Requests::get(),
        pace: Pace::Rate(rate),
    }));
    cases
}

const PIPELINES: [usize; 3] = [1, 16, 64];
