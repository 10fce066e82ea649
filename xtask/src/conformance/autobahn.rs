//! `cargo xtask conformance autobahn`: the Autobahn test suite against `web`'s WebSocket machine.

use crate::arguments::Arguments;
use crate::shell::{Failure, Shell};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Runs with the options of the command line.
pub(super) fn run(root: &Path, mut arguments: Arguments) -> Result<(), Failure> {
    let shell = Shell::new(root);
    let python = arguments.value("--python")?;
    let python = python.ok_or_else(|| {
        Failure::new("--python FILE is needed: a Python 2.7, which is all that the suite runs on")
    })?;
    let scratch = arguments.value("--scratch")?.map(PathBuf::from);
    let scratch = scratch.unwrap_or_else(|| shell.target().join("conformance/autobahn"));
    arguments.end()?;

    let suite = install(&shell, Path::new(&python), &scratch)?;
    let build = [
        "build",
        "--quiet",
        "-p",
        "tidewire-web",
        "--example",
        "echo",
    ];
    shell.cargo(build).run()?;
    let (mut echo, address) = start(&shell.target().join("debug/examples/echo"))?;
    let outcome = fuzz(&shell, Path::new(&python), &suite, &scratch, &address);
    let ended = echo.kill().and_then(|()| echo.wait());
    ended.map_err(|error| Failure::new(format!("the echo server: {error}")))?;
    outcome?;
    let report = fs::read(scratch.join("report/index.json"));
    let report = report.map_err(Failure::at(&scratch))?;
    let report: Value = serde_json::from_slice(&report).map_err(Failure::at(&scratch))?;
    let cases = Cases::read(&report)?;
    let page = root.join(PAGE);
    fs::write(&page, cases.page()).map_err(Failure::at(&page))?;
    println!("{}", cases.summary());
    match cases.failed() {
        0 => Ok(()),
        count => Err(Failure::new(format!("{count} cases of the suite fail"))),
    }
}

/// Installs the suite beside the interpreter, unless it is there.
fn install(shell: &Shell, python: &Path, scratch: &Path) -> Result<PathBuf, Failure> {
    let folder = scratch.join("packages");
    let program = folder.join("bin/wstest");
    if !program.exists() {
        let pip = ["-m", "pip", "install", "--quiet", "--target"];
        let wanted = format!("autobahntestsuite=={VERSION}");
        let install = shell.program(python, pip);
        install.argument(&folder).argument(wanted).run()?;
        // A folder that is no site directory needs it to find `zope.interface`.
        let marker = folder.join("zope/__init__.py");
        fs::write(&marker, "").map_err(Failure::at(&marker))?;
    }
    Ok(folder)
}

/// Starts the echo server. Returns it with its address.
fn start(program: &Path) -> Result<(Child, String), Failure> {
    let failed = Failure::at(program);
    let mut echo = Command::new(program)
        .arg("127.0.0.1:0")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(output) = echo.stdout.take() {
        BufReader::new(output)
            .read_line(&mut line)
            .map_err(failed)?;
    }
    match line.trim().strip_prefix("listening on ") {
        Some(address) => Ok((echo, address.to_owned())),
        None => Err(Failure::new(
            "the echo server does not say where it listens",
        )),
    }
}

fn fuzz(
    shell: &Shell,
    python: &Path,
    suite: &Path,
    scratch: &Path,
    address: &str,
) -> Result<(), Failure> {
    let specification = json!({
        "outdir": scratch.join("report"),
        "servers": [{"agent": AGENT, "url": format!("ws://{address}")}],
        "cases": ["*"],
        "exclude-cases": LEFT_OUT,
        "exclude-agent-cases": {},
    });
    let file = scratch.join("fuzzingclient.json");
    fs::write(&file, specification.to_string()).map_err(Failure::at(&file))?;
    let wstest = shell
        .program(python, [])
        .argument(suite.join("bin/wstest"))
        .argument("--mode=fuzzingclient")
        .argument("--spec")
        .argument(&file);
    let ends = wstest
        .env("PYTHONPATH", suite)
        .log(&scratch.join("wstest.log"))?;
    match ends {
        true => Ok(()),
        false => Err(Failure::new(
            "wstest fails: see wstest.log in the scratch folder",
        )),
    }
}

/// The cases by their number: behaviour, and behaviour at the close.
#[derive(Debug)]
struct Cases(BTreeMap<Vec<u32>, (String, String)>);

impl Cases {
    fn read(report: &Value) -> Result<Self, Failure> {
        let cases = report[AGENT].as_object();
        let cases = cases.ok_or_else(|| Failure::new("the report has no cases"))?;
        let read = |(number, case): (&String, &Value)| {
            let parts = number.split('.').filter_map(|part| part.parse().ok());
            let text = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
            (parts.collect(), (text("behavior"), text("behaviorClose")))
        };
        Ok(Self(cases.iter().map(read).collect()))
    }

    /// Counts the cases of a group with this behaviour; of all groups without one.
    fn count(&self, group: Option<u32>, behaviour: &str) -> usize {
        let cases = self.0.iter();
        let cases = cases.filter(|(number, _)| group.is_none_or(|group| number[0] == group));
        cases.filter(|(_, case)| case.0 == behaviour).count()
    }

    fn failed(&self) -> usize {
        let is_fine = |text: &str| matches!(text, "OK" | "INFORMATIONAL" | "NON-STRICT");
        let cases = self.0.values();
        cases
            .filter(|(one, close)| !is_fine(one) || !is_fine(close))
            .count()
    }

    fn summary(&self) -> String {
        format!(
            "{} cases: {} OK, {} not strict, {} informational, {} failed",
            self.0.len(),
            self.count(None, "OK"),
            self.count(None, "NON-STRICT"),
            self.count(None, "INFORMATIONAL"),
            self.failed()
        )
    }

    fn page(&self) -> String {
        let mut page = HEAD.to_owned();
        let _ = write!(page, "{}.\n\n", self.summary());
        page += "| group | OK | not strict | informational | failed |\n|---|---:|---:|---:|---:|\n";
        for (group, title) in GROUPS {
            let [ok, loose, told] = ["OK", "NON-STRICT", "INFORMATIONAL"]
                .map(|behaviour| self.count(Some(*group), behaviour));
            let all = self.0.keys().filter(|number| number[0] == *group).count();
            let failed = all - ok - loose - told;
            let _ = writeln!(
                page,
                "| {group} {title} | {ok} | {loose} | {told} | {failed} |"
            );
        }
        let loose = self.0.iter().filter(|(_, case)| case.0 == "NON-STRICT");
        let name = |number: &[u32]| {
            let parts: Vec<String> = number.iter().map(u32::to_string).collect();
            parts.join(".")
        };
        let loose: Vec<String> = loose.map(|(number, _)| name(number)).collect();
        let _ = write!(
            page,
            "\nNot strict: {}. {WHY_NOT_STRICT}\n",
            loose.join(", ")
        );
        page
    }
}

const AGENT: &str = "Tidewire";
const VERSION: &str = "25.10.1";
const PAGE: &str = "docs/conformance-websocket.md";
/// Per-message deflate, which the hub does not offer.
const LEFT_OUT: [&str; 2] = ["12.*", "13.*"];
const GROUPS: &[(u32, &str)] = &[
    (1, "framing"),
    (2, "pings and pongs"),
    (3, "reserved bits"),
    (4, "opcodes"),
    (5, "fragmentation"),
    (6, "UTF-8"),
    (7, "close"),
    (9, "limits and performance"),
    (10, "miscellaneous"),
];
const HEAD: &str = "\
# Conformance with WebSocket (RFC 6455)

The [Autobahn test suite](https://github.com/crossbario/autobahn-testsuite) 25.10.1 against an echo server over `web`'s request reader and
message machine (`crates/web/examples/echo.rs`), which are those of the hub's web port; the ZeroMQ ports share its frames. Groups 12 and 13 are left out: they test
per-message deflate, which is not offered. This page is made by

```sh
cargo xtask conformance autobahn --python FILE   # a Python 2.7: the suite runs on nothing newer
```

";
const WHY_NOT_STRICT: &str = "A text that is not UTF-8 is refused at the end of its frame. Strict would be at the first wrong octet.";
