//! `cargo xtask fuzz`: runs the fuzz targets with the installed compiler. Coverage counters work
//! with stable Rust; only memory sanitizers need more, and these crates have little that they could
//! find.

use crate::arguments::Arguments;
use crate::shell::{Failure, Program, Shell};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Fuzzes the targets of the command line.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut arguments = Arguments::new(arguments);
    let seconds = arguments.number("--seconds", SECONDS)?;
    if seconds == 0 {
        // The fuzzer would take 0 as no limit.
        return Err(Failure::new("--seconds 0: give at least one second"));
    }
    let bytes_max = arguments.number("--max-length", BYTES_MAX)?;
    let named = arguments.names();
    arguments.end()?;
    let shell = Shell::new(root);
    let known = targets(root)?;
    if let Some(name) = named.iter().find(|name| !known.contains(name)) {
        return Err(Failure::new(format!(
            "there is no fuzz target '{name}', but {}",
            known.join(", ")
        )));
    }
    let chosen = if named.is_empty() { known } else { named };
    let session = Session::build(&shell, &chosen, seconds, bytes_max)?;
    println!("| target | seconds | executions | a second | new inputs | memory, MB |");
    println!("|---|---:|---:|---:|---:|---:|");
    let mut failed = Vec::new();
    for target in &chosen {
        if !session.fuzz(target)? {
            failed.push(target.as_str());
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "found something: {}",
            failed.join(", ")
        ))),
    }
}

/// Returns the names of all targets, in order.
fn targets(root: &Path) -> Result<Vec<String>, Failure> {
    let folder = root.join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Failure::at(&folder))? {
        let path = entry.map_err(Failure::at(&folder))?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        names.extend(stem.map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Built targets, and how to run them.
struct Session<'s> {
    shell: &'s Shell,
    programs: PathBuf,
    work: PathBuf,
    seconds: u64,
    bytes_max: u64,
}

impl<'s> Session<'s> {
    fn build(
        shell: &'s Shell,
        targets: &[String],
        seconds: u64,
        bytes_max: u64,
    ) -> Result<Self, Failure> {
        // The same versions as in the product are fuzzed.
        let (ours, theirs) = (
            shell.root().join("Cargo.lock"),
            shell.root().join("fuzz/Cargo.lock"),
        );
        fs::copy(&ours, &theirs).map_err(Failure::at(&theirs))?;
        let host = host(&shell.program("rustc", ["-vV"]).read()?)?;
        let work = shell.target().join("fuzz");
        let arguments = ["build", "--release", "--manifest-path", "fuzz/Cargo.toml"];
        let mut build = shell
            .cargo(arguments)
            .argument("--target-dir")
            .argument(&work)
            // Named, so that the flags do not apply to build scripts.
            .argument("--target")
            .argument(&host)
            .env("RUSTFLAGS", FLAGS.join(" "));
        for target in targets {
            build = build.argument("--bin").argument(target);
        }
        build.run()?;
        let programs = work.join(host).join("release");
        Ok(Self {
            shell,
            programs,
            work,
            seconds,
            bytes_max,
        })
    }

    /// Runs one target. Returns whether it found nothing.
    fn fuzz(&self, target: &str) -> Result<bool, Failure> {
        let corpus = self.work.join("corpus").join(target);
        let found = self.work.join("found").join(target);
        for folder in [&corpus, &found] {
            fs::create_dir_all(folder).map_err(Failure::at(folder))?;
        }
        let log = self.work.join(format!("{target}.log"));
        let start = Instant::now();
        let is_content = self.program(target, &corpus, &found).log(&log)?;
        let told = fs::read(&log).map_err(Failure::at(&log))?;
        let told = String::from_utf8_lossy(&told);
        println!("{}", row(target, start.elapsed(), &told));
        if !is_content {
            let lines: Vec<&str> = told.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
            eprintln!(
                "{last}\n{target} found something; all of it: {}",
                log.display()
            );
        }
        Ok(is_content)
    }

    fn program(&self, target: &str, corpus: &Path, found: &Path) -> Program {
        let seeds = self.shell.root().join("fuzz/corpus").join(target);
        self.shell
            .program(self.programs.join(target), ["-print_final_stats=1"])
            .argument(format!("-max_total_time={}", self.seconds))
            .argument(format!("-max_len={}", self.bytes_max))
            .argument(format!("-timeout={PATIENCE_SECONDS}"))
            .argument(format!("-rss_limit_mb={MEMORY_MB_MAX}"))
            .argument(format!("-artifact_prefix={}/", found.display()))
            // New inputs go into the first folder.
            .argument(corpus)
            .argument(seeds)
    }
}

/// Returns the host platform from the output of `rustc -vV`.
fn host(told: &str) -> Result<String, Failure> {
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| Failure::new("rustc -vV names no host"))
}

/// Returns a row of the table, from libFuzzer's final output.
fn row(target: &str, elapsed: Duration, told: &str) -> String {
    let statistic = |name: &str| {
        let lines = told.lines().rev();
        let mut found = lines.filter_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
        found
            .find_map(|value| value.trim_start_matches(':').trim().parse::<u64>().ok())
            .map_or_else(|| "?".to_owned(), grouped)
    };
    format!(
        "| {target} | {} | {} | {} | {} | {} |",
        elapsed.as_secs(),
        statistic("number_of_executed_units"),
        statistic("average_exec_per_sec"),
        statistic("new_units_added"),
        statistic("peak_rss_mb"),
    )
}

/// Formats a number with thousands separators.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Compiler flags that libFuzzer needs: counters for branches and comparisons. Debug assertions are
/// set in the package's own profile.
const FLAGS: [&str; 7] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];
const SECONDS: u64 = 60;
const BYTES_MAX: u64 = 4096;
/// An input that takes longer counts as a finding.
const PATIENCE_SECONDS: u64 = 10;
const MEMORY_MB_MAX: u64 = 2048;
/// Lines of a target's output that are shown after a finding.
const LINES_SHOWN: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_what_the_fuzzer_counted() {
        let told = "#5 DONE\nstat::number_of_executed_units: 1234567\n\
                    stat::average_exec_per_sec:     2057\nstat::new_units_added:          12\n\
                    stat::slowest_unit_time_sec:    0\nstat::peak_rss_mb:              44\n";
        assert_eq!(
            row("zmtp_curve", Duration::from_secs(600), told),
            "| zmtp_curve | 600 | 1,234,567 | 2,057 | 12 | 44 |"
        );
        assert_eq!(row("x", Duration::ZERO, ""), "| x | 0 | ? | ? | ? | ? |");
    }

    #[test]
    fn the_host_is_found() {
        let told = "rustc 1.95.0\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(host(told).unwrap(), "x86_64-unknown-linux-gnu");
        assert!(host("").is_err());
    }

    #[test]
    fn every_target_is_a_program_of_the_package_and_has_a_corpus() {
        let root = crate::root();
        let package = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        for name in targets(&root).unwrap() {
            assert!(
                package.contains(&format!("\"fuzz_targets/{name}.rs\"")),
                "{name}"
            );
            let corpus = root.join("fuzz/corpus").join(&name);
            assert!(fs::read_dir(corpus).unwrap().next().is_some(), "{name}");
        }
    }
}
