//! `cargo xtask conformance redis`: runs every file of the test suite of Redis or Valkey, with its
//! own server and with Tidewire. The suite's own harness starts each.

use super::comparison::{Comparison, Difference};
use super::output::Outcome;
use super::page;
use super::records::Exceptions;
use super::suite::{BASE_PORT, Suite};
use crate::arguments::Arguments;
use crate::server::{self, Kind};
use crate::shell::{Failure, Shell};
use std::fs;
use std::path::{Path, PathBuf};

/// Runs with the options of the command line.
pub(super) fn run(root: &Path, arguments: Arguments) -> Result<(), Failure> {
    SuiteRun::new(root, arguments)?.run()
}

/// The options of a run.
#[derive(Debug)]
struct SuiteRun {
    shell: Shell,
    suite: Suite,
    source: PathBuf,
    units: Vec<String>,
    is_whole: bool,
    binary: Option<PathBuf>,
    lanes: u16,
    patience_s: u64,
    /// Where the harness's output for each file is stored.
    results: PathBuf,
    /// Whether files with stored output are skipped.
    goes_on: bool,
    /// Whether nothing is run, and the page is made from stored output.
    is_kept: bool,
    /// The only server to run; its output is stored for a later `--kept`.
    only: Option<String>,
}

impl SuiteRun {
    fn new(root: &Path, mut arguments: Arguments) -> Result<Self, Failure> {
        let source = arguments.value("--suite")?.map(PathBuf::from);
        let source = source.ok_or_else(|| {
            Failure::new("--suite PATH is needed: the tree of Redis's or Valkey's sources, built")
        })?;
        let names = arguments.values("--unit")?;
        let path = |value: Option<String>| value.map(PathBuf::from);
        let shell = Shell::new(root);
        let binary = path(arguments.value("--binary")?);
        let lanes = arguments.number("--lanes", super::LANES)?;
        let patience_s = arguments.number("--patience", PATIENCE_S)?;
        let scratch = path(arguments.value("--scratch")?);
        let results = path(arguments.value("--results")?);
        let base_port = arguments.number("--base-port", BASE_PORT)?;
        let is_kept = arguments.flag("--kept");
        let goes_on = arguments.flag("--continue") || is_kept;
        let only = arguments.value("--only")?;
        let is_tls = arguments.flag("--tls");
        arguments.end()?;
        if let Some(only) = &only
            && ![REFERENCE, TIDEWIRE].contains(&only.as_str())
        {
            let error = format!("--only {only}: it is {REFERENCE} or {TIDEWIRE}");
            return Err(Failure::new(error));
        }
        let mut name = super::suite::name(&source)?;
        if is_tls {
            name.push_str("-tls");
        }
        let scratch = scratch.unwrap_or_else(|| shell.target().join("conformance").join(&name));
        let suite = Suite::copy(&source, &scratch.join("suite"), base_port, is_tls)?;
        Ok(Self {
            units: units(&suite, &names)?,
            // The page is of the suite without TLS.
            is_whole: names.is_empty() && !is_tls,
            results: results.unwrap_or_else(|| scratch.join("results")),
            suite,
            shell,
            source,
            binary,
            lanes,
            patience_s,
            goes_on,
            is_kept,
            only,
        })
    }

    fn run(&self) -> Result<(), Failure> {
        let records = self.shell.root().join(self.suite.flavour().records);
        let exceptions = Exceptions::read(&records)?;
        let binary = match &self.binary {
            Some(binary) => binary.clone(),
            None if self.is_kept => self.shell.target().join("release/tidewire"),
            None => server::build(&self.shell)?,
        };
        let reference = self.source.join("src").join(self.suite.flavour().server);
        let reference = Kind::redis(reference);
        let ours = Kind::tidewire(&binary, self.lanes);
        let (mut comparisons, mut missing) = (Vec::new(), Vec::new());
        for unit in &self.units {
            if exceptions.not_run(unit).is_some() {
                continue;
            }
            let is_there = |name| self.place(name, unit).exists();
            if self.is_kept && !(is_there(REFERENCE) && is_there(TIDEWIRE)) {
                missing.push(unit.clone());
                continue;
            }
            let skips = exceptions.skips(unit);
            if let Some(only) = &self.only {
                let outcome = match only.as_str() {
                    REFERENCE => self.outcome(only, unit, &reference, &[], true)?,
                    _ => self.outcome(only, unit, &ours, &skips, self.goes_on)?,
                };
                println!("{unit}: {} passed", outcome.passed.len());
                continue;
            }
            let theirs = self.outcome(REFERENCE, unit, &reference, &[], true)?;
            let ours = self.outcome(TIDEWIRE, unit, &ours, &skips, self.goes_on)?;
            let comparison = Comparison::new(unit, &theirs, &ours, &exceptions);
            describe(&comparison);
            comparisons.push(comparison);
        }
        if self.is_whole && self.only.is_none() {
            let path = self.shell.root().join(page::place(&self.suite));
            let old = fs::read_to_string(&path).unwrap_or_default();
            let page = page::page(
                &self.suite,
                self.lanes,
                &comparisons,
                (&exceptions, &missing),
            )?;
            let others = old.find(OTHERS).map_or("", |at| &old[at..]);
            fs::write(&path, format!("{page}{others}")).map_err(Failure::at(&path))?;
        }
        match comparisons.iter().map(|one| one.unnamed.len()).sum() {
            0 => Ok(()),
            count => Err(Failure::new(format!(
                "{count} tests pass there and not here, and {} does not name them",
                records.display()
            ))),
        }
    }

    /// Returns a file's outcome: the stored one of an earlier run, or that of a new run.
    fn outcome(
        &self,
        name: &str,
        unit: &str,
        kind: &Kind,
        skips: &[&str],
        keeps: bool,
    ) -> Result<Outcome, Failure> {
        let path = self.place(name, unit);
        let failed = Failure::at(&path);
        if keeps && let Ok(text) = fs::read(&path) {
            return Ok(Outcome::parse(&String::from_utf8_lossy(&text)));
        }
        fs::create_dir_all(self.results.join(name)).map_err(failed)?;
        let text = self.suite.run(unit, kind, skips, self.patience_s)?;
        // Written completely or not at all, so that an interrupted run can continue after it.
        let part = path.with_extension("part");
        fs::write(&part, &text).map_err(failed)?;
        fs::rename(&part, &path).map_err(failed)?;
        Ok(Outcome::parse(&text))
    }

    /// Returns where the harness's output for a file is stored.
    fn place(&self, name: &str, unit: &str) -> PathBuf {
        let file = format!("{}.output", unit.replace('/', "-"));
        self.results.join(name).join(file)
    }
}

/// Returns the files with these names, or all files of the tree.
fn units(suite: &Suite, names: &[String]) -> Result<Vec<String>, Failure> {
    let all = suite.units()?;
    if names.is_empty() {
        return Ok(all);
    }
    let of = |name: &String| {
        let is_named = |unit: &&String| *unit == name || unit.strip_prefix("unit/") == Some(name);
        let found = all.iter().find(is_named).cloned();
        found.ok_or_else(|| Failure::new(format!("no file '{name}' in the suite")))
    };
    names.iter().map(of).collect()
}

/// Prints a file's numbers, and each failure without a recorded reason, with the harness's text.
fn describe(comparison: &Comparison) {
    println!("{comparison}");
    for Difference { test, reason } in &comparison.unnamed {
        println!("  {test}");
        let lines = reason.lines().filter(|line| !line.trim().is_empty());
        for line in lines.take(REASON_LINES) {
            let line: String = line.trim().chars().take(REASON_COLUMNS).collect();
            println!("    {line}");
        }
    }
    for test in &comparison.unneeded {
        println!("  passes, although it is named as an exception: {test}");
    }
}

/// The folders of stored output, one per server.
const REFERENCE: &str = "reference";
const TIDEWIRE: &str = "tidewire";
/// The page is written by hand from this heading on.
const OTHERS: &str = "\n## Other judges\n";
/// No test of these files takes half as long on a small machine.
const PATIENCE_S: u64 = 240;
const REASON_LINES: usize = 3;
const REASON_COLUMNS: usize = 300;
