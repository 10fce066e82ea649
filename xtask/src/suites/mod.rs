//! Other projects' test suites, unchanged, first with the server or library they are written for,
//! then with Tidewire: `cargo xtask clients --suites` those of Redis's clients, and `cargo xtask
//! conformance bindings` ([`zeromq`]) those of ZeroMQ's bindings.

mod comparison;
mod go_redis;
mod hiredis;
mod ioredis;
mod page;
mod redis_rs;
mod report;
mod setting;
pub(crate) mod zeromq;

use crate::arguments::Arguments;
use crate::conformance::records::Exceptions;
use crate::shell::{Failure, Shell};
use comparison::SuiteComparison;
use report::Report;
use setting::{Setting, Side};
use std::fs;
use std::path::Path;

/// Runs the suites of Redis's clients that the command line names, or all, and writes the page.
pub(crate) fn run(root: &Path, mut arguments: Arguments) -> Result<(), Failure> {
    let names = arguments.values("--suite")?;
    REDIS.check(&names)?;
    let setting = Setting::new(Shell::new(root), arguments)?;
    REDIS.run(&setting, &names)
}

/// Suites that share a page and their surroundings.
struct Group<S: 'static> {
    suites: &'static [Suite<S>],
    /// The file that names tests that may fail here, with the reasons.
    exceptions: &'static str,
    page: &'static str,
    /// Returns the beginning of the page, up to the table.
    heading: fn(&S) -> String,
}

impl<S: Workplace> Group<S> {
    /// Returns an error if a name is not one of the suites'.
    fn check(&self, names: &[String]) -> Result<(), Failure> {
        let is_unknown = |name: &&String| self.suites.iter().all(|suite| suite.name != **name);
        let Some(name) = names.iter().find(is_unknown) else {
            return Ok(());
        };
        let known: Vec<&str> = self.suites.iter().map(|suite| suite.name).collect();
        Err(Failure::new(format!(
            "--suite {name}: not known; there are {}",
            known.join(", ")
        )))
    }

    /// Runs the suites with these names, or all, and writes the page.
    fn run(&self, setting: &S, names: &[String]) -> Result<(), Failure> {
        let exceptions = Exceptions::read(&setting.root().join(self.exceptions))?;
        let mut found = Vec::new();
        for suite in self.suites {
            if names.is_empty() || names.iter().any(|name| name == suite.name) {
                let comparison = suite.compare(setting, &exceptions)?;
                println!("{comparison}");
                found.extend(comparison.faults());
            }
        }
        self.write_page(setting)?;
        if found.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{} differences:\n{}",
            found.len(),
            found.join("\n")
        )))
    }

    /// Writes the page of all suites that have been run, now or earlier.
    fn write_page(&self, setting: &S) -> Result<(), Failure> {
        let (mut kept, mut missing) = (Vec::new(), Vec::new());
        for suite in self.suites {
            match SuiteComparison::kept(setting.work(), suite.name)? {
                Some(comparison) => kept.push((suite.not_run, comparison)),
                None => missing.push(suite.name),
            }
        }
        let place = setting.root().join(self.page);
        let text = page::page((self.heading)(setting), &kept, &missing);
        fs::write(&place, text).map_err(Failure::at(&place))?;
        println!("{} is written", self.page);
        Ok(())
    }
}

/// What the suites of a group share.
trait Workplace {
    /// The project's root.
    fn root(&self) -> &Path;
    /// The folder where suites are built and results are stored.
    fn work(&self) -> &Path;
}

/// The test suite of one client or binding.
struct Suite<S> {
    name: &'static str,
    version: &'static str,
    /// Downloads and builds the suite, before any server runs.
    prepare: fn(&S) -> Result<(), Failure>,
    /// Runs all tests with one side.
    run: fn(&S, Side) -> Result<Report, Failure>,
    /// Returns the name and version of the rival.
    rival: fn(&S) -> Result<String, Failure>,
    /// Tests that are run with neither side, and why.
    not_run: &'static str,
}

impl<S: Workplace> Suite<S> {
    fn compare(&self, setting: &S, known: &Exceptions) -> Result<SuiteComparison, Failure> {
        println!("--- {} {}: prepare", self.name, self.version);
        (self.prepare)(setting)?;
        let rival = (self.rival)(setting)?;
        println!("--- {}: with {rival}", self.name);
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
        comparison.rival = rival;
        comparison.repeated = repeated;
        comparison.keep(setting.work())?;
        Ok(comparison)
    }
}

const REDIS: Group<Setting> = Group {
    suites: &[
        ioredis::SUITE,
        go_redis::SUITE,
        redis_rs::SUITE,
        hiredis::SUITE,
    ],
    exceptions: "tests/conformance/clients.toml",
    page: "docs/conformance-clients.md",
    heading: |setting| page::of_redis(setting.lanes),
};
