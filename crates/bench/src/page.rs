//! `docs/PERFORMANCE.md`: the last raw run of each subject, as tables and plots, with its goals.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::plot::{Bar, bars};
use super::report::{RUNS, Spread, TABLES, Table};
use super::scenario::OURS;
use tidewire::failure::Failure;

/// Writes the page and its plots; the command must be given in the checkout's root.
///
/// # Errors
/// There is no such checkout; a run cannot be read, or a file not be written.
pub(crate) fn write() -> Result<(), Failure> {
    if !Path::new(RUNS).is_dir() {
        return Err(Failure::usage(format!(
            "there is no {RUNS} here: give the command in the root of a checkout"
        )));
    }
    let mut runs = Vec::new();
    for section in &SECTIONS {
        if let Some(path) = newest(section.subject)? {
            let text = fs::read_to_string(&path).map_err(|error| cannot(&path, &error))?;
            let run = serde_json::from_str(&text).map_err(|error| cannot(&path, &error))?;
            runs.push((section, path, run));
        }
    }
    let mut page = HEAD.to_owned();
    let goals = judged(&runs);
    page.push_str("\n## What was asked, and what came out\n\n");
    page.push_str(GOALS_HEAD);
    page.push_str(&goals.text());
    fs::create_dir_all(PLOTS).map_err(|error| cannot(Path::new(PLOTS), &error))?;
    for (section, path, run) in &runs {
        write_section(&mut page, section, path, run)?;
    }
    page.push_str(TAIL);
    fs::write(PAGE, page).map_err(|error| cannot(Path::new(PAGE), &error))?;
    println!("\n{PAGE}");
    Ok(())
}

/// A subject of `bench` on the page.
struct Section {
    subject: &'static str,
    title: &'static str,
}

/// The goal of one of our figures divided by a rival's.
struct Goal {
    subject: &'static str,
    case: &'static str,
    figure: &'static str,
    what: &'static str,
    /// Maximum, against rivals whose names begin with this.
    limits: [(&'static str, f64); 2],
}

type Found<'a> = (&'a Section, PathBuf, Value);

/// Returns the newest run of a subject: the names begin with the date.
fn newest(subject: &str) -> Result<Option<PathBuf>, Failure> {
    let ending = format!("-{subject}.json");
    let mut found: Option<PathBuf> = None;
    for entry in fs::read_dir(RUNS).map_err(|error| cannot(Path::new(RUNS), &error))? {
        let path = entry
            .map_err(|error| cannot(Path::new(RUNS), &error))?
            .path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(&ending) && found.as_ref().is_none_or(|newest| *newest < path) {
            found = Some(path.clone());
        }
    }
    Ok(found)
}

fn write_section(
    page: &mut String,
    section: &Section,
    path: &Path,
    run: &Value,
) -> Result<(), Failure> {
    let setting = |name: &str| {
        run["setting"][name]
            .as_str()
            .unwrap_or("unknown")
            .to_owned()
    };
    let rivals = run["rivals"].as_array().map(|rivals| {
        let names = rivals.iter().filter_map(Value::as_str);
        format!(" · beside {}", names.collect::<Vec<_>>().join(", "))
    });
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Writing into a string cannot fail.
    let _ = write!(
        page,
        "\n## {}\n\n`tidewire-bench {}` · {} · commit {} · load average {} at the start{} · \
         [raw run](../{RUNS}/{name})\n\n",
        section.title,
        section.subject,
        setting("date"),
        setting("commit"),
        setting("load_average"),
        rivals.unwrap_or_default(),
    );
    if let Some(plot) = plot(section, run) {
        let file = format!("{PLOTS}/{}.svg", section.subject);
        fs::write(&file, plot).map_err(|error| cannot(Path::new(&file), &error))?;
        let _ = write!(
            page,
            "![{}](bench/{}.svg)\n\n",
            section.title, section.subject
        );
    }
    match run[TABLES].as_array() {
        Some(tables) => {
            let texts = tables.iter().filter_map(Value::as_str);
            page.push_str(&texts.collect::<Vec<_>>().join("\n"));
        }
        None => page.push_str("Its tables are in [bench/README.md](../bench/README.md).\n"),
    }
    Ok(())
}

/// Returns the plot of server time per operation, ours divided by each rival's.
fn plot(section: &Section, run: &Value) -> Option<String> {
    let mut rows = Vec::new();
    let mut cases: Vec<&str> = samples(run).filter_map(|s| s["case"].as_str()).collect();
    cases.dedup();
    let rivals = rivals(run);
    for case in cases {
        for rival in &rivals {
            for figure in ["processor_ns_an_operation", "bytes_a_key"] {
                if let Some(ratio) = ratio(run, case, rival, figure) {
                    let label = format!("{case} ÷ {rival}");
                    rows.push(Bar { label, ratio });
                }
            }
        }
    }
    let of = match section.subject {
        "memory" => "resident bytes a key",
        _ => "server time on a processor an operation",
    };
    (!rows.is_empty()).then(|| bars(&format!("{}: {of}, tidewire ÷ rival", section.title), &rows))
}

fn judged(runs: &[Found<'_>]) -> Table {
    let mut table = Table::new(&["case", "of", "÷", "at most", "measured", "met"]);
    for goal in &GOALS {
        let Some((_, _, run)) = runs.iter().find(|(s, _, _)| s.subject == goal.subject) else {
            continue;
        };
        for (rival, limit) in goal.limits {
            let named = rivals(run).into_iter().find(|name| name.starts_with(rival));
            let case = goal
                .case
                .replace("RIVAL", named.as_deref().unwrap_or(rival));
            let measured = named.and_then(|named| ratio(run, &case, &named, goal.figure));
            let met = measured.map(|ratio| match ratio.median <= limit {
                true => "yes",
                false => "**no**",
            });
            table.push(vec![
                case,
                goal.what.to_owned(),
                rival.to_owned(),
                format!("{limit}"),
                measured.map_or("not measured".to_owned(), |ratio| ratio.text(2)),
                met.unwrap_or("").to_owned(),
            ]);
        }
    }
    table
}

/// Ours divided by a rival's, round by round.
fn ratio(run: &Value, case: &str, rival: &str, figure: &str) -> Option<Spread> {
    let figures = |server: &str| -> Vec<f64> {
        let own = samples(run).filter(|s| {
            let is_case = s["case"].as_str() == Some(case);
            is_case && s["server"].as_str() == Some(server)
        });
        own.filter_map(|sample| sample[figure].as_f64()).collect()
    };
    let (ours, theirs) = (figures(OURS), figures(rival));
    if ours.is_empty() || ours.len() != theirs.len() {
        return None;
    }
    let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs);
    Some(Spread::of(ratios))
}

fn samples(run: &Value) -> impl Iterator<Item = &Value> {
    run["samples"].as_array().into_iter().flatten()
}

/// Names of the rivals in the samples.
fn rivals(run: &Value) -> Vec<String> {
    let rivals = run["rivals"].as_array().into_iter().flatten();
    let names = rivals.filter_map(|rival| rival.as_str()?.split(' ').next());
    names.map(str::to_owned).collect()
}

fn cannot(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::running(format!("{}: {error}", path.display()))
}

const PAGE: &str = "docs/PERFORMANCE.md";
const PLOTS: &str = "docs/bench";

const SECTIONS: [Section; 13] = [
    section("resp", "GET and SET"),
    section("types", "Commands of every data type"),
    section("publish", "PUBLISH to 100 subscribers"),
    section("memory", "Bytes a key"),
    section("expiry", "Expiry among a million deadlines"),
    section("eviction", "Memory at its limit"),
    section("web", "Web pages beside Pub/Sub"),
    section("cache", "The last-value cache"),
    section("feed", "Market data"),
    section("zmq", "ZeroMQ beside libzmq"),
    section("libzmq", "The drop-in libzmq beside libzmq"),
    section("mx", "The NMX codec"),
    section("plant", "Plant tags, from the peer to the last value"),
];

const fn section(subject: &'static str, title: &'static str) -> Section {
    Section { subject, title }
}

const fn goal(
    subject: &'static str,
    case: &'static str,
    (figure, what): (&'static str, &'static str),
    redis: f64,
    valkey: f64,
) -> Goal {
    let limits = [("redis", redis), ("valkey", valkey)];
    Goal {
        subject,
        case,
        figure,
        what,
        limits,
    }
}

const MOST_RESP: &str = "GET, 70 % of RIVAL's most";
const CPU: (&str, &str) = ("processor_ns_an_operation", "server CPU");
const P99: (&str, &str) = ("p99_ns", "p99");
const P999: (&str, &str) = ("p999_ns", "p99.9");
const WIRE: (&str, &str) = ("bytes_an_update", "bytes to the client");
const RESIDENT: (&str, &str) = ("bytes_a_key", "resident bytes");

const fn cost(subject: &'static str, case: &'static str, redis: f64, valkey: f64) -> Goal {
    goal(subject, case, CPU, redis, valkey)
}

const fn bytes(case: &'static str, redis: f64, valkey: f64) -> Goal {
    goal("memory", case, RESIDENT, redis, valkey)
}

/// The project's own goals.
const GOALS: [Goal; 33] = [
    cost("resp", "GET P=1", 0.95, 0.95),
    cost("resp", "SET P=1", 0.95, 0.95),
    cost("resp", "GET P=16", 0.60, 0.65),
    cost("resp", "SET P=16", 0.60, 0.65),
    cost("resp", "GET P=64", 0.45, 0.50),
    cost("resp", "SET P=64", 0.45, 0.50),
    cost("types", "INCR P=16", 0.65, 0.70),
    cost("types", "LPUSH P=16", 0.65, 0.70),
    cost("types", "SADD P=16", 0.65, 0.70),
    cost("types", "HSET P=16", 0.65, 0.70),
    cost("types", "ZADD P=16", 0.65, 0.70),
    cost("types", "MSET of 10 P=16", 0.65, 0.70),
    cost("types", "LRANGE of 100 P=16", 0.65, 0.70),
    cost("types", "XADD P=16", 0.65, 0.70),
    goal("resp", MOST_RESP, P99, 0.9, 0.9),
    goal("resp", MOST_RESP, P999, 0.9, 0.9),
    cost("resp", "GET P=1, 500 clients", 0.95, 0.95),
    cost("resp", "SET P=1, 500 clients", 0.95, 0.95),
    cost("publish", "1 at once", 0.6, 0.6),
    cost("publish", "16 at once", 0.6, 0.6),
    cost("publish", "1 publisher", 0.6, 0.6),
    cost("publish", "8 publishers", 0.6, 0.6),
    bytes("string of 3 bytes", 0.55, 0.85),
    bytes("string of 16 bytes", 0.55, 0.85),
    bytes("string of 64 bytes", 0.55, 0.85),
    bytes("hash of 100 fields", 0.9, 0.95),
    bytes("sorted set of 100 members", 0.9, 0.95),
    bytes("stream of 1,000 entries", 0.9, 0.95),
    goal("resp", "GET P=1", P99, 1.0, 1.0),
    cost("web", "one by one", 0.5, 0.5),
    cost("web", "all topics at once", 0.5, 0.5),
    goal("web", "one by one", WIRE, 0.25, 0.25),
    goal("web", "all topics at once", WIRE, 0.25, 0.25),
];

const HEAD: &str = "# Performance

Written by `tidewire-bench report` from the raw runs in `bench/runs`; `tidewire-bench all` measures,
and writes it at its end. How each figure is measured, and how to repeat it: [bench/README.md](../bench/README.md).
In short: all servers run all the time and are loaded in turn, round by round (A B C, B C A, …); tables have the
median of the rounds, and the least and greatest in parentheses; ratios are taken round by round. Server CPU an
operation is the time that the server's threads were on a processor, user and kernel. The echo floor is a server that
parses nothing and answers `+OK`.
";

const GOALS_HEAD: &str = "Ours divided by the rival's: less is better.\n\n";

const TAIL: &str = "
## What was tried

What each optimisation gave, and what failed, stands beside its reasons in [decisions/](decisions/): prefetching a
pipeline's keys ([0006](decisions/0006-prefetch-a-pipeline.md)), sockets that their caller drives
([0014](decisions/0014-the-caller-drives.md)), what commands that are looked at cost
([0012](decisions/0012-looking-at-commands.md)).
";
