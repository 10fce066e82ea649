//! hiredis: one program with all tests.

use super::Suite;
use super::report::{End, Report};
use super::setting::{Setting, Side};
use crate::server::free_port;
use crate::shell::Failure;
use std::path::PathBuf;

pub(super) const SUITE: Suite<Setting> = Suite {
    name: "hiredis",
    version: "1.4.1",
    prepare,
    run,
    rival: Setting::redis_version,
    not_run: "tests of TLS, with which hiredis is not built.",
};

fn source(setting: &Setting) -> Result<PathBuf, Failure> {
    let url = "https://github.com/redis/hiredis";
    setting.source("hiredis-1.4.1", "v1.4.1", url)
}

fn prepare(setting: &Setting) -> Result<(), Failure> {
    let folder = source(setting)?;
    let make = setting.shell.program("make", ["--silent", "hiredis-test"]);
    make.folder(&folder).run()
}

/// Returns the run that got furthest: the program ends itself if a reply takes longer than 10 ms.
fn run(setting: &Setting, side: Side) -> Result<Report, Failure> {
    let mut best = Report::default();
    for _ in 0..ATTEMPTS {
        let (report, is_whole) = attempt(setting, side)?;
        if best.is_empty() || best.counts()[0] < report.counts()[0] {
            best = report;
        }
        if is_whole {
            break;
        }
    }
    Ok(best)
}

fn attempt(setting: &Setting, side: Side) -> Result<(Report, bool), Failure> {
    let folder = source(setting)?;
    let port = free_port()?;
    let socket = setting.work.join(format!("server-{port}/socket"));
    let more = [
        "--unixsocket".to_owned(),
        socket.display().to_string(),
        "--unixsocketperm".to_owned(),
        "777".to_owned(),
    ];
    let _server = setting.server_with(side, port, &more)?;
    let test = folder.join("hiredis-test");
    let program = setting
        .shell
        // Line by line, so that nothing is lost if it ends early.
        .program("timeout", [TIME_MAX_S, "stdbuf", "-oL"])
        .argument(test)
        .argument("-h")
        .argument("127.0.0.1")
        .argument("-p")
        .argument(port.to_string())
        .argument("-s")
        .argument(socket)
        .folder(&folder);
    let said = setting.logged("hiredis", side, program)?;
    let is_whole = said.contains("ALL TESTS PASSED") || said.contains("TESTS FAILED");
    Ok((parse(&said), is_whole))
}

/// Parses `#07 Format command: PASSED`, with colours. A test that runs over TCP and over a Unix
/// socket has the same name in both, and gets a number.
fn parse(text: &str) -> Report {
    let mut report = Report::default();
    for line in text.lines() {
        let Some((name, said)) = line
            .strip_prefix('#')
            .and_then(|line| line.split_once(' '))
            .and_then(|(_, line)| line.rsplit_once(": "))
        else {
            continue;
        };
        let end = match said {
            said if said.contains("PASSED") => End::Passed,
            said if said.contains("SKIPPED") => End::Skipped,
            _ => End::Failed("failed".into()),
        };
        report.add(name, end);
    }
    report
}

const ATTEMPTS: usize = 5;
const TIME_MAX_S: &str = "300";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_program_are_read() {
        let text = "#01 redisReader uses: \x1b[0;32mPASSED\x1b[0;0m\n\nTesting against (1.2.3.4):\n\
            #02 Sets: x: \x1b[0;31mFAILED\x1b[0;0m\n#03 Sets: x: \x1b[01;33mSKIPPED\x1b[0;0m\n";
        let report = parse(text);
        assert_eq!(report.counts(), [1, 1, 1]);
        assert_eq!(report.end("Sets: x (2)"), Some(&End::Skipped));
    }
}
