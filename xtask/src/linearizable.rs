//! `cargo xtask linearizable`: runs many clients concurrently. An external checker (porcupine)
//! decides whether one order of operations explains all their replies: `tests/linearizable`. With
//! `--quorum` the clients call hubs that share their keys, amid faults.

use crate::arguments::Arguments;
use crate::counts::number_before;
use crate::python;
use crate::server::{self, Kind, Server};
use crate::shell::{Failure, Shell};
use std::fs;
use std::path::{Path, PathBuf};

/// Runs with the options of the command line.
pub(crate) fn run(root: &Path, mut arguments: Arguments) -> Result<(), Failure> {
    let shell = Shell::new(root);
    if arguments.flag("--quorum") {
        return run_quorum(&shell, arguments);
    }
    let lanes = arguments.values("--lanes")?;
    let policies = arguments.values("--appendonly")?;
    let length = match arguments.value("--seconds")? {
        Some(seconds) => Length::Seconds(number("--seconds", &seconds)?),
        None => Length::Operations(arguments.number("--operations", OPERATIONS)?),
    };
    let seed = arguments.number("--seed", 1)?;
    let binary = arguments.value("--binary")?.map(PathBuf::from);
    arguments.end()?;
    let lanes = match lanes.as_slice() {
        [] => LANES.to_vec(),
        given => given
            .iter()
            .map(|lanes| number("--lanes", lanes))
            .collect::<Result<_, _>>()?,
    };
    let policies = match policies.as_slice() {
        [] => POLICIES.map(str::to_owned).to_vec(),
        given => given.to_vec(),
    };
    if !has_go(&shell) {
        return Err(Failure::new("go is needed: install it (https://go.dev/dl)"));
    }
    let binary = match binary {
        Some(binary) => binary,
        None => server::build(&shell)?,
    };
    let checker = Checker::build(&shell)?;
    let runs: Vec<(u16, &str)> = lanes
        .iter()
        .flat_map(|&lanes| policies.iter().map(move |policy| (lanes, policy.as_str())))
        .collect();
    let part = length.part(runs.len());
    let mut operations = 0;
    for (lanes, policy) in runs {
        operations += checker.check(&shell, &binary, (lanes, policy), &part, seed)?;
    }
    println!("{operations} operations: no violation");
    Ok(())
}

/// Runs clients against two hubs with `durability = "quorum"` on three NATS servers, which are
/// stopped and killed in turn: `tests/python/test_quorum_order.py`.
fn run_quorum(shell: &Shell, mut arguments: Arguments) -> Result<(), Failure> {
    let operations = arguments.number("--operations", OPERATIONS)?;
    let seed = arguments.number("--seed", 1)?;
    let binary = arguments.value("--binary")?.map(PathBuf::from);
    arguments.end()?;
    if !has_go(shell) {
        return Err(Failure::new("go is needed: install it (https://go.dev/dl)"));
    }
    let requirements = shell.root().join("tests/python/requirements.txt");
    let python = python::environment(shell, &requirements)?;
    let binary = match binary {
        Some(binary) => binary,
        None => server::build(shell)?,
    };
    let words = ["-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"];
    shell
        .program(python, words)
        .argument("tests/python/test_quorum_order.py")
        .env("TIDEWIRE_BINARY", &binary)
        .env("TIDEWIRE_QUORUM_OPERATIONS", operations.to_string())
        .env("TIDEWIRE_QUORUM_SEED", seed.to_string())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .run()
}

/// Runs for one minute over all lanes and policies.
pub(crate) fn short(shell: &Shell) -> Result<(), Failure> {
    if !has_go(shell) {
        println!("go is absent: nothing checks the order of what concurrent clients see");
        return Ok(());
    }
    let binary = server::build_checked(shell)?;
    let words = ["--seconds", "60", "--binary", &binary.to_string_lossy()];
    run(shell.root(), Arguments::new(&words))
}

fn has_go(shell: &Shell) -> bool {
    shell.program("go", ["version"]).succeeds()
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Failure> {
    let plain = value.replace('_', "");
    let wrong = |_| Failure::new(format!("{name} {value}: not a number that fits"));
    plain.parse().map_err(wrong)
}

/// The length of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Length {
    Operations(u64),
    Seconds(f64),
}

impl Length {
    /// Returns the part of one of `runs` runs.
    fn part(self, runs: usize) -> [String; 2] {
        let runs = u32::try_from(runs.max(1)).unwrap_or(u32::MAX);
        let (operations, seconds) = match self {
            Self::Operations(all) => (all.div_ceil(runs.into()), 0.0),
            Self::Seconds(all) => (u64::MAX, all / f64::from(runs)),
        };
        [
            format!("-operations={operations}"),
            format!("-seconds={seconds}"),
        ]
    }
}

/// The program that calls the server and checks the replies.
#[derive(Debug)]
struct Checker {
    program: PathBuf,
    work: PathBuf,
}

impl Checker {
    /// Builds the program, and checks it with a few histories whose result is known.
    fn build(shell: &Shell) -> Result<Self, Failure> {
        let source = shell.root().join("tests/linearizable");
        let work = shell.target().join("linearizable");
        fs::create_dir_all(&work).map_err(Failure::at(&work))?;
        let program = work.join("linearizable");
        let go = |arguments: [&str; 2]| {
            let program = shell.program("go", arguments).folder(&source);
            program.env("GOFLAGS", "-mod=readonly")
        };
        go(["test", "-count=1"]).argument(".").run()?;
        go(["build", "-o"]).argument(&program).argument(".").run()?;
        Ok(Self { program, work })
    }

    /// Runs it against its own server. Returns how many operations were in order.
    fn check(
        &self,
        shell: &Shell,
        binary: &Path,
        (lanes, policy): (u16, &str),
        part: &[String; 2],
        seed: u64,
    ) -> Result<u64, Failure> {
        println!("--- {lanes} lanes, append-only file: {policy}");
        let folder = self.work.join(format!("{lanes}-{policy}"));
        let failed = Failure::at(&folder);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed)?;
        }
        fs::create_dir_all(&folder).map_err(failed)?;
        let server = Server::start(&Kind::tidewire(binary, lanes), &folder)?;
        let [operations, seconds] = part;
        let output = shell
            .program(&self.program, ["-report"])
            .argument(&self.work)
            .argument(format!("-address=127.0.0.1:{}", server.port()))
            .argument(format!("-appendonly={policy}"))
            .argument(format!("-seed={seed}"))
            .argument(operations)
            .argument(seconds)
            .capture()?;
        if output.code != Some(0) {
            return Err(Failure::new(format!(
                "{lanes} lanes, append-only file {policy}: see {}",
                self.work.display()
            )));
        }
        let last = output.text.lines().next_back().unwrap_or_default();
        number_before(last, " operations").ok_or_else(|| Failure::new("the checker ran nothing"))
    }
}

const OPERATIONS: u64 = 1_000_000;
const LANES: [u16; 2] = [2, 4];
/// No append-only file, and two values of `appendfsync`.
const POLICIES: [&str; 3] = ["no", "everysec", "always"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_gets_its_part() {
        assert_eq!(
            Length::Operations(10).part(4),
            ["-operations=3", "-seconds=0"]
        );
        let [operations, seconds] = Length::Seconds(60.0).part(6);
        assert_eq!(seconds, "-seconds=10");
        assert_eq!(operations, format!("-operations={}", u64::MAX));
    }
}
