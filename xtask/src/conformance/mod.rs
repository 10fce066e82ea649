//! `cargo xtask conformance`: other people's suites judge Tidewire, first of all Redis's own;
//! [`zmq`] has those for ZeroMQ.

mod output;
mod page;
mod records;
mod redis_py;
mod suite;
mod tally;
mod zmq;

use crate::arguments::Arguments;
use crate::server::{self, Kind};
use crate::shell::{Failure, Shell};
use output::Outcome;
use records::{Baseline, Counted, Exceptions};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use suite::{BASE_PORT, Mode, Suite, UNITS};
use tally::Tally;

/// Runs `conformance` with what stands behind it on the command line.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    match arguments {
        ["redis", rest @ ..] => Run::new(root, Arguments::new(rest))?.run(),
        ["redis-py", rest @ ..] => redis_py::run(root, Arguments::new(rest)),
        ["libzmq", rest @ ..] => zmq::libzmq(root, Arguments::new(rest)),
        ["pyzmq", rest @ ..] => zmq::pyzmq(root, Arguments::new(rest)),
        _ => Err(Failure::new(
            "conformance with what? redis, redis-py, libzmq or pyzmq",
        )),
    }
}

/// What was asked for.
#[derive(Debug)]
struct Run {
    shell: Shell,
    suite: Suite,
    source: PathBuf,
    units: Vec<(&'static str, Mode)>,
    is_whole: bool,
    binary: Option<PathBuf>,
    redis: Option<PathBuf>,
    lanes: u16,
    patience_s: u64,
    failures: Option<PathBuf>,
    baseline: bool,
    verify_exceptions: bool,
}

impl Run {
    fn new(root: &Path, mut arguments: Arguments) -> Result<Self, Failure> {
        let source = arguments.value("--suite")?.map(PathBuf::from);
        let source = source.ok_or_else(|| {
            Failure::new("--suite PATH is needed: the tree of Redis's sources, built")
        })?;
        let names = arguments.values("--unit")?;
        let path = |value: Option<String>| value.map(PathBuf::from);
        let shell = Shell::new(root);
        let binary = path(arguments.value("--binary")?);
        let redis = path(arguments.value("--redis")?);
        let lanes = arguments.number("--lanes", LANES)?;
        let patience_s = arguments.number("--patience", PATIENCE_S)?;
        let failures = path(arguments.value("--failures")?);
        let scratch = path(arguments.value("--scratch")?)
            .unwrap_or_else(|| shell.target().join("conformance/redis"));
        let base_port = arguments.number("--base-port", BASE_PORT)?;
        let baseline = arguments.flag("--baseline");
        let verify_exceptions = arguments.flag("--verify-exceptions");
        arguments.end()?;
        Ok(Self {
            suite: Suite::copy(&source, &scratch, base_port)?,
            units: units(&names)?,
            is_whole: names.is_empty(),
            shell,
            source,
            binary,
            redis,
            lanes,
            patience_s,
            failures,
            baseline,
            verify_exceptions,
        })
    }

    fn run(&self) -> Result<(), Failure> {
        if self.baseline {
            return self.measure_redis();
        }
        let exceptions = Exceptions::read(&self.kept(EXCEPTIONS))?;
        let baseline = Baseline::read(&self.kept(BASELINE))?;
        if baseline.version != self.suite.version() {
            println!(
                "note: the counts kept are those of Redis {}, the suite is {}'s",
                baseline.version,
                self.suite.version()
            );
        }
        is_few(exceptions.exception.len(), &baseline)?;
        let binary = match &self.binary {
            Some(binary) => binary.clone(),
            None => server::build(&self.shell)?,
        };
        let kind = Kind::tidewire(&binary, self.lanes);
        if self.verify_exceptions {
            return self.verify(&kind, &exceptions);
        }
        self.judge(&kind, &exceptions, &baseline)
    }

    /// Runs every file against Tidewire and says what fails.
    fn judge(
        &self,
        kind: &Kind,
        exceptions: &Exceptions,
        baseline: &Baseline,
    ) -> Result<(), Failure> {
        let mut tallies = Vec::new();
        let mut report = String::new();
        for &(unit, mode) in &self.units {
            let counted = match &self.redis {
                Some(redis) => self.count_redis(redis, (unit, mode))?,
                None => baseline.unit.get(unit).copied().unwrap_or_default(),
            };
            let skip = exceptions.of(unit);
            let outcome = self.suite.run((unit, mode), kind, &skip, self.patience_s)?;
            let tally = Tally::new(unit, &outcome, skip.len(), counted);
            let told = describe(&tally, &outcome);
            print!("{told}");
            report.push_str(&told);
            tallies.push(tally);
            if let Some(path) = &self.failures {
                write(path, &report)?;
            }
        }
        if self.is_whole {
            let page = page::page(self.suite.version(), self.lanes, &tallies, exceptions);
            let path = self.shell.root().join(PAGE);
            let old = fs::read_to_string(&path).unwrap_or_default();
            let others = old.find(OTHERS).map_or("", |at| &old[at..]);
            write(&path, &format!("{page}{others}"))?;
        }
        let mut sum = Tally {
            unit: "all".into(),
            ..Tally::default()
        };
        tallies.iter().for_each(|tally| sum.add(tally));
        println!("\n{sum}");
        if self.is_whole {
            is_few(sum.skipped, baseline)?;
        }
        match sum.failed {
            0 => Ok(()),
            failed => Err(Failure::new(format!(
                "{failed} tests fail that are no exceptions"
            ))),
        }
    }

    /// An exception that would pass is none any more.
    fn verify(&self, kind: &Kind, exceptions: &Exceptions) -> Result<(), Failure> {
        let mut wrong = Vec::new();
        for &(unit, mode) in &self.units {
            let names = exceptions.of(unit);
            if names.is_empty() {
                continue;
            }
            let absent = exceptions.absent(unit);
            let run = |skip: &[&str]| self.suite.run((unit, mode), kind, skip, self.patience_s);
            let together = run(&[])?;
            for &name in &names {
                let mut state = State::of(name, &together);
                if state == State::NotReached {
                    // Another one kept the file from coming so far.
                    let others: Vec<&str> = names
                        .iter()
                        .copied()
                        .filter(|&other| other != name)
                        .collect();
                    state = State::of(name, &run(&others)?);
                }
                println!("{unit}: {name}: {}", state.text());
                let is_right = match state {
                    State::Fails | State::EndsTheFile => !absent.contains(&name),
                    State::Unknown => absent.contains(&name),
                    State::Passes | State::NotReached => false,
                };
                if !is_right {
                    wrong.push(format!("{unit}: {name}: {}", state.text()));
                }
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "these are no exceptions:\n{}",
            wrong.join("\n")
        )))
    }

    /// Counts what Redis itself passes, and keeps it.
    fn measure_redis(&self) -> Result<(), Failure> {
        let redis = self.redis.clone();
        let redis = redis.unwrap_or_else(|| self.source.join("src/redis-server"));
        let path = self.kept(BASELINE);
        let mut baseline = if path.exists() {
            Baseline::read(&path)?
        } else {
            Baseline::default()
        };
        if self.is_whole {
            baseline.unit.clear();
        }
        self.suite.version().clone_into(&mut baseline.version);
        for &unit in &self.units {
            let counted = self.count_redis(&redis, unit)?;
            baseline.unit.insert(unit.0.to_owned(), counted);
            baseline.write(&path)?;
        }
        println!("{} tests", baseline.tests());
        Ok(())
    }

    fn count_redis(&self, redis: &Path, unit: (&str, Mode)) -> Result<Counted, Failure> {
        let outcome = self
            .suite
            .run(unit, &Kind::redis(redis), &[], self.patience_s)?;
        let tally = Tally::new(unit.0, &outcome, 0, Counted::default());
        let counted = Counted {
            passed: tally.passed,
            failed: tally.failed,
            ignored: tally.ignored,
        };
        print!("Redis: {}", describe(&tally, &outcome));
        Ok(counted)
    }

    fn kept(&self, path: &str) -> PathBuf {
        self.shell.root().join(path)
    }
}

/// What became of an exception that was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fails,
    EndsTheFile,
    Passes,
    NotReached,
    Unknown,
}

impl State {
    fn of(name: &str, outcome: &Outcome) -> Self {
        if outcome.failed.iter().any(|failure| failure.name == name) {
            return Self::Fails;
        }
        if outcome.hung.as_deref() == Some(name) {
            return Self::EndsTheFile;
        }
        if outcome.passed.iter().any(|passed| passed == name) {
            return Self::Passes;
        }
        let skips = !outcome.skipped.is_empty();
        match (&outcome.ended_early, outcome.broken_groups.is_empty()) {
            (None, true) => Self::Unknown,
            // With every other exception skipped, it is this one that ends the file.
            _ if skips => Self::EndsTheFile,
            _ => Self::NotReached,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Fails => "fails",
            Self::EndsTheFile => "ends the file",
            Self::Passes => "passes: it is no exception any more",
            Self::NotReached => "was not reached",
            Self::Unknown => "there is no such test",
        }
    }
}

/// The files of these names, or all.
fn units(names: &[String]) -> Result<Vec<(&'static str, Mode)>, Failure> {
    if names.is_empty() {
        return Ok(UNITS.to_vec());
    }
    let of = |name: &String| {
        let short = name.trim_start_matches("unit/");
        let found = UNITS
            .iter()
            .find(|(unit, _)| unit.trim_start_matches("unit/") == short);
        found
            .copied()
            .ok_or_else(|| Failure::new(format!("no file '{name}' among those that are run")))
    };
    names.iter().map(of).collect()
}

/// Exceptions are few, or they are not exceptions.
fn is_few(left_out: usize, baseline: &Baseline) -> Result<(), Failure> {
    let tests = baseline.tests();
    if left_out * 1_000 < tests * EXCEPTIONS_MAX_PER_MILLE || left_out == 0 {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{left_out} exceptions of {tests} tests: fewer than 2 % are allowed"
    )))
}

/// A file's numbers, and each failure with the first lines of its reason.
fn describe(tally: &Tally, outcome: &Outcome) -> String {
    let mut text = format!("{tally}\n");
    // Writing into a string cannot fail.
    for failure in &outcome.failed {
        let _ = writeln!(text, "  failed: {}", failure.name);
        first_lines(&mut text, &failure.reason);
    }
    for reason in &outcome.broken_groups {
        let _ = writeln!(text, "  a group of tests ended early");
        first_lines(&mut text, reason);
    }
    if let Some(reason) = &outcome.ended_early {
        let _ = writeln!(text, "  the file ended early");
        first_lines(&mut text, reason);
    }
    if let Some(name) = &outcome.hung {
        let _ = writeln!(text, "  hung: {name}");
    }
    text
}

fn first_lines(text: &mut String, reason: &str) {
    let lines = reason.lines().filter(|line| !line.trim().is_empty());
    for line in lines.take(REASON_LINES) {
        let line: String = line.trim().chars().take(REASON_COLUMNS).collect();
        let _ = writeln!(text, "    {line}");
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

const EXCEPTIONS: &str = "tests/conformance/redis.toml";
const BASELINE: &str = "tests/conformance/redis8-baseline.toml";
/// From here on the page is written by hand.
const OTHERS: &str = "\n## Other judges\n";
const PAGE: &str = "docs/conformance-redis.md";
/// Two lanes find what one cannot: replies and wake-ups across lanes.
const LANES: u16 = 2;
/// No test of these files takes half as long on a small machine.
const PATIENCE_S: u64 = 240;
const EXCEPTIONS_MAX_PER_MILLE: usize = 20;
const REASON_LINES: usize = 3;
const REASON_COLUMNS: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_long_and_its_short_name() {
        let names = ["unit/type/zset".to_owned(), "expire".to_owned()];
        let found = units(&names).unwrap();
        assert_eq!(found[0].0, "unit/type/zset");
        assert_eq!(found[1].0, "unit/expire");
        assert!(units(&["zset".to_owned()]).is_err());
    }

    #[test]
    fn exceptions_are_fewer_than_two_in_a_hundred() {
        let counted = Counted {
            passed: 99,
            failed: 1,
            ignored: 0,
        };
        let baseline = Baseline {
            version: "8".into(),
            unit: [("unit/a".to_owned(), counted)].into(),
        };
        assert!(is_few(1, &baseline).is_ok());
        assert!(is_few(2, &baseline).is_err());
        assert!(is_few(0, &Baseline::default()).is_ok());
    }

    #[test]
    fn an_exception_that_passes_is_found() {
        let ok = "[ok]: a (1 ms)\n[err]: b in tests/x.tcl\nwrong\n[1/1 done]: x (1 seconds)\n";
        let outcome = Outcome::parse(ok);
        assert_eq!(State::of("a", &outcome), State::Passes);
        assert_eq!(State::of("b", &outcome), State::Fails);
        assert_eq!(State::of("c", &outcome), State::Unknown);
        let early = Outcome::parse("[ok]: a (1 ms)\n");
        assert_eq!(State::of("c", &early), State::NotReached);
        let alone = Outcome::parse("[skip]: a\n");
        assert_eq!(State::of("c", &alone), State::EndsTheFile);
    }
}
