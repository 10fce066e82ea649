//! `cargo xtask complexity`: counts the instructions of commands at sizes N and 10 N with valgrind,
//! and compares their growth with COMMAND DOCS.

use crate::arguments::Arguments;
use crate::shell::{Failure, Shell};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Counts, and writes the page. Fails if a command grows faster than documented.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut arguments = Arguments::new(arguments);
    let only = arguments.value("--command")?;
    let profile = arguments.value("--profile")?;
    arguments.end()?;
    let profile = profile.unwrap_or_else(|| "release".into());
    let shell = Shell::new(root);
    let cases = measure(&shell, &profile, only.as_deref())?;
    let page = page(&cases, &profile);
    if only.is_some() {
        print!("{page}");
    } else {
        let path = root.join(PAGE);
        fs::write(&path, &page).map_err(|error| Failure::new(format!("{PAGE}: {error}")))?;
        println!("{PAGE}: {} cases", cases.len());
    }
    let beyond: Vec<&str> = cases
        .iter()
        .filter(|case| !case.is_within())
        .map(|case| case.request.as_str())
        .collect();
    match beyond.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "these grow faster than they may: {}",
            beyond.join("; ")
        ))),
    }
}

/// One request at two sizes.
#[derive(Debug)]
struct Case {
    growth: Growth,
    command: String,
    what: String,
    request: String,
    promise: String,
    instructions: [u64; 2],
}

/// How the number of instructions may grow with N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Constant,
    Logarithm,
    Linear,
    LinearLogarithm,
}

impl Growth {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "1" => Growth::Constant,
            "log" => Growth::Logarithm,
            "n" => Growth::Linear,
            "nlog" => Growth::LinearLogarithm,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Growth::Constant => "1",
            Growth::Logarithm => "log(N)",
            Growth::Linear => "N",
            Growth::LinearLogarithm => "N*log(N)",
        }
    }

    /// Returns the most that 10 N may cost, given the cost of N: the rule, plus a margin, because
    /// tables are filled differently and memory grows in steps.
    fn limit(self) -> f64 {
        match self {
            Growth::Constant => 1.5,
            Growth::Logarithm => 2.0,
            Growth::Linear => 15.0,
            Growth::LinearLogarithm => 20.0,
        }
    }
}

impl Case {
    fn ratio(&self) -> f64 {
        self.instructions[1] as f64 / self.instructions[0].max(1) as f64
    }

    fn is_within(&self) -> bool {
        let allowed = self.instructions[0] as f64 * self.growth.limit() + SLACK;
        self.instructions[1] as f64 <= allowed
    }
}

fn measure(shell: &Shell, profile: &str, only: Option<&str>) -> Result<Vec<Case>, Failure> {
    let build = [
        "build",
        "-p",
        "tidewire-keyspace",
        "--example",
        "complexity",
        "--profile",
    ];
    // Function names are enough; they also mark the begin and end of the count.
    let build = shell.cargo(build).argument(profile);
    build.env("CARGO_PROFILE_RELEASE_STRIP", "false").run()?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let program = shell.target().join(folder).join("examples/complexity");
    let scratch = shell.target().join("complexity");
    let failed = Failure::at(&scratch);
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).map_err(failed)?;
    let mut valgrind = shell
        .program("valgrind", ["--tool=callgrind", "--collect-atstart=no"])
        .argument(format!("--toggle-collect=*{MEASURED}"))
        .argument(format!("--dump-before={MEASURED}"))
        .argument(format!(
            "--callgrind-out-file={}",
            scratch.join("out").display()
        ))
        .argument(&program);
    if let Some(only) = only {
        valgrind = valgrind.argument(only);
    }
    let told = valgrind.read()?;
    let mut cases = Vec::new();
    let mut dump = 0;
    for line in told.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        match parts[..] {
            ["missing", command] if only.is_none() => {
                return Err(Failure::new(format!(
                    "there is no case of '{command}' in cases.txt"
                )));
            }
            [growth, command, what, request, promise] => {
                let growth = Growth::read(growth)
                    .ok_or_else(|| Failure::new(format!("'{growth}' is no growth")))?;
                let mut instructions = [0; 2];
                for count in &mut instructions {
                    dump += 1;
                    *count = counted(&dump_of(&scratch, dump))?;
                }
                cases.push(Case {
                    growth,
                    command: command.to_owned(),
                    what: what.to_owned(),
                    request: request.to_owned(),
                    promise: promise.to_owned(),
                    instructions,
                });
            }
            _ => {}
        }
    }
    Ok(cases)
}

/// Returns the file with the counts of a call. Counts are dumped before the next call, and at the
/// end.
fn dump_of(scratch: &Path, call: usize) -> PathBuf {
    let next = scratch.join(format!("out.{}", call + 1));
    if next.is_file() {
        next
    } else {
        scratch.join("out")
    }
}

/// Returns the instructions of a dump.
fn counted(path: &Path) -> Result<u64, Failure> {
    let failed =
        |reason: &dyn std::fmt::Display| Failure::new(format!("{}: {reason}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let totals = text.lines().find_map(|line| {
        let rest = line
            .strip_prefix("totals:")
            .or_else(|| line.strip_prefix("summary:"));
        rest?.trim().parse().ok()
    });
    totals.ok_or_else(|| failed(&"no totals"))
}

fn page(cases: &[Case], profile: &str) -> String {
    let mut text = format!(
        "# Complexity\n\n\
         What a command costs where one thing is N = 1,000, and where it is 10,000: instructions\n\
         in the keyspace (profile `{profile}`), counted by valgrind. *May grow with* is the rule\n\
         for that thing, which follows from what COMMAND DOCS promises; a command that grows\n\
         faster fails the chore that makes this page:\n\n\
         ```sh\n\
         cargo xtask complexity   # needs valgrind\n\
         ```\n\n\
         Commands that sessions run (WATCH, SUBSCRIBE, EVAL and others) are not in it.\n\n\
         | command | N is | request | instructions at N | at 10 N | times | may grow with |\
         \x20COMMAND DOCS |\n\
         |---|---|---|---:|---:|---:|---|---|\n",
    );
    for case in cases {
        let [few, many] = case.instructions;
        let mark = if case.is_within() { "" } else { " **beyond**" };
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | `{}` | {} | {} | {:.2}{mark} | {} | {} |",
            case.command.replace('|', " "),
            case.what,
            case.request,
            grouped(few),
            grouped(many),
            case.ratio(),
            case.growth.name(),
            case.promise.replace('|', "\\|"),
        );
    }
    text
}

fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

const PAGE: &str = "docs/complexity.md";
/// The counted function of `crates/keyspace/examples/complexity`. Valgrind uses only the last of
/// two options with the same pattern, so one of them begins with a star.
const MEASURED: &str = "complexity::measured*";
/// Number of instructions that do not matter, such as those of a table that is just being split.
const SLACK: f64 = 30_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_grows_faster_than_it_may_is_found() {
        let case = |growth, instructions| Case {
            growth,
            command: "hrandfield".to_owned(),
            what: "fields".to_owned(),
            request: "HRANDFIELD h 5".to_owned(),
            promise: "O(N)".to_owned(),
            instructions,
        };
        assert!(case(Growth::Constant, [2_000, 2_500]).is_within());
        assert!(!case(Growth::Constant, [200_000, 2_000_000]).is_within());
        assert!(case(Growth::Linear, [200_000, 2_000_000]).is_within());
        assert!(
            !case(Growth::Linear, [200_000, 20_000_000]).is_within(),
            "quadratic"
        );
        let text = page(&[case(Growth::Constant, [200_000, 2_000_000])], "dev");
        assert!(
            text.contains("2,000,000 | 10.00 **beyond** | 1 | O(N) |"),
            "{text}"
        );
    }
}
