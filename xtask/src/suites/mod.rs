//! `cargo xtask clients --suites`: runs the test suites of Redis and ZeroMQ clients, unchanged,
//! first with the server (or library) they are written for, then with Tidewire.

mod comparison;
mod go_redis;
mod hiredis;
mod ioredis;
mod page;
mod redis_rs;
mod report;
mod setting;
mod zmq4;

use crate::arguments::Arguments;
use crate::conformance::records::Exceptions;
use crate::shell::{Failure, Shell};
use comparison::SuiteComparison;
use report::Report;
use setting::{Setting, Side};
use std::fs;
use std::path::Path;

/// Runs the suites that the command line names, or all, and writes the page.
pub(crate) fn run(root: &Path, mut arguments: Arguments) -> Result<(), Failure> {
    let names = arguments.values("--suite")?;
    let setting = Setting::new(Shell::new(root), arguments)?;
    if let Some(name) = names.iter().find(|name| suite(name).is_none()) {
        return Err(Failure::new(format!(
            "--suite {name}: not known; there are {}",
            SUITES.map(|suite| suite.name).join(", ")
        )));
    }
    let exceptions = Exceptions::read(&root.join(EXCEPTIONS))?;
    let mut found = Vec::new();
    for suite in &SUITES {
        if names.is_empty() || names.iter().any(|name| name == suite.name) {
            let comparison = suite.compare(&setting, &exceptions)?;
            println!("{comparison}");
            found.extend(comparison.faults());
        }
    }
    write_page(&setting)?;
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} differences:\n{}",
        found.len(),
        found.join("\n")
    )))
}

/// The test suite of one client.
struct Suite {
    name: &'static str,
    version: &'static str,
    /// Downloads and builds the suite, before any server runs.
    prepare: fn(&Setting) -> Result<(), Failure>,
    /// Runs all tests with one side.
    run: fn(&Setting, Side) -> Result<Report, Failure>,
    /// Tests that are run with neither side, and why.
    not_run: &'static str,
}

impl Suite {
    fn compare(&self, setting: &Setting, known: &Exceptions) -> Result<SuiteComparison, Failure> {
        println!("--- {} {}: prepare", self.name, self.version);
        (self.prepare)(setting)?;
        println!("--- {}: with {}", self.name, self.rival(setting)?);
        let theirs = (self.run)(setting, Side::Rival)?;
        println!("--- {}: with Tidewire", self.name);
        let mut ours = (self.run)(setting, Side::Tidewire)?;
        let mut repeated = 0;
        if theirs.passed().any(|test| ours.failed(test)) {
            println!("--- {}: with Tidewire, what failed once more", self.name);
            repeated = ours.improve((self.run)(setting, Side::Tidewire)?);
        }
        let mut comparison = SuiteComparison::new(self.name, &theirs, &ours, known);
        comparison.version = self.version.to_owned();
        comparison.rival = self.rival(setting)?;
        comparison.repeated = repeated;
        comparison.keep(&setting.work)?;
        Ok(comparison)
    }

    fn rival(&self, setting: &Setting) -> Result<String, Failure> {
        if self.name == "zmq4" {
            setting.libzmq_version()
        } else {
            setting.redis_version()
        }
    }
}

fn suite(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| suite.name == name)
}

/// Writes the page of all suites that have been run, now or earlier.
fn write_page(setting: &Setting) -> Result<(), Failure> {
    let (mut kept, mut missing) = (Vec::new(), Vec::new());
    for suite in &SUITES {
        match SuiteComparison::kept(&setting.work, suite.name)? {
            Some(comparison) => kept.push((suite, comparison)),
            None => missing.push(suite.name),
        }
    }
    let place = setting.shell.root().join(PAGE);
    fs::write(&place, page::page(&kept, &missing, setting.lanes)).map_err(Failure::at(&place))?;
    println!("{PAGE} is written");
    Ok(())
}

const SUITES: [Suite; 5] = [
    ioredis::SUITE,
    go_redis::SUITE,
    redis_rs::SUITE,
    hiredis::SUITE,
    zmq4::SUITE,
];
const EXCEPTIONS: &str = "tests/conformance/clients.toml";
const PAGE: &str = "docs/conformance-clients.md";
