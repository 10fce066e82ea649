//! ioredis, with mocha.

use super::Suite;
use super::report::{End, Report};
use super::setting::{Setting, Side, read};
use crate::shell::Failure;
use serde::Deserialize;
use std::path::PathBuf;

pub(super) const SUITE: Suite<Setting> = Suite {
    name: "ioredis",
    version: "6.0.0",
    prepare,
    run,
    rival: Setting::redis_version,
    not_run: "`test/cluster`, which needs a Redis Cluster; `test/typing`, which needs no server. Tests of clusters \
        and Sentinel in `test/functional` run with a server that the suite itself imitates.",
};

fn source(setting: &Setting) -> Result<PathBuf, Failure> {
    let url = "https://github.com/redis/ioredis";
    setting.source("ioredis-6.0.0", "v6.0.0", url)
}

fn prepare(setting: &Setting) -> Result<(), Failure> {
    let folder = source(setting)?;
    if folder.join("node_modules/.bin/mocha").exists() {
        return Ok(());
    }
    let arguments = [
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ];
    setting
        .shell
        .program("npm", arguments)
        .folder(&folder)
        .run()
}

fn run(setting: &Setting, side: Side) -> Result<Report, Failure> {
    let folder = source(setting)?;
    let results = setting.folder("ioredis")?.join("results.json");
    let _server = setting.server(side, 6379)?;
    let mocha = folder.join("node_modules/.bin/mocha");
    let files = [
        "test/helpers/*.ts",
        "test/unit/**/*.ts",
        "test/functional/**/*.ts",
    ];
    let program = setting
        .shell
        .program(mocha, files)
        .argument(format!("--timeout={TEST_TIME_MAX_MS}"))
        .argument("--reporter=json")
        .argument(format!("--reporter-option=output={}", results.display()))
        .folder(&folder)
        .env("TS_NODE_TRANSPILE_ONLY", "true")
        .env("NODE_ENV", "test");
    let said = setting.logged("ioredis", side, program)?;
    let text = read(&results).map_err(|error| Failure::new(format!("{error}\n{said}")))?;
    parse(&text)
}

/// The output of mocha's `--reporter=json`.
#[derive(Deserialize)]
struct Mocha {
    passes: Vec<Test>,
    failures: Vec<Test>,
    pending: Vec<Test>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Test {
    full_title: String,
    err: Reason,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(default)]
    message: String,
}

fn parse(text: &str) -> Result<Report, Failure> {
    let told: Mocha =
        serde_json::from_str(text).map_err(|error| Failure::new(format!("mocha: {error}")))?;
    let mut report = Report::default();
    for test in told.failures {
        report.add(&test.full_title, End::Failed(test.err.message));
    }
    for test in told.passes {
        report.add(&test.full_title, End::Passed);
    }
    for test in told.pending {
        report.add(&test.full_title, End::Skipped);
    }
    Ok(report)
}

/// The suite's own limit of 8,000 is too short for its largest tests on a busy machine.
const TEST_TIME_MAX_MS: u32 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mocha_is_read() {
        let text = r#"{"stats": {}, "tests": [], "passes": [{"fullTitle": "a b", "err": {}}],
            "failures": [{"fullTitle": "a c", "err": {"message": "no"}}],
            "pending": [{"fullTitle": "a d", "err": {}}]}"#;
        let report = parse(text).unwrap();
        assert_eq!(report.counts(), [1, 1, 1]);
        assert_eq!(report.end("a c"), Some(&End::Failed("no".into())));
    }
}
