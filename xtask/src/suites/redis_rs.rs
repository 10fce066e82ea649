//! redis-rs: each test runs in its own process with its own server, as in its own project.

use super::Suite;
use super::report::{End, Report};
use super::setting::{Setting, Side, read};
use crate::shell::Failure;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(super) const SUITE: Suite<Setting> = Suite {
    name: "redis-rs",
    version: "1.6.0",
    prepare,
    run,
    rival: Setting::redis_version,
    not_run: "tests of clusters, of Sentinel, of TLS, of Entra ID and of the modules JSON and Bloom: the client is built \
        without these features. RESP2 alone; the suite runs again with RESP3 on request.",
};

fn source(setting: &Setting) -> Result<PathBuf, Failure> {
    let url = "https://github.com/redis-rs/redis-rs";
    setting.source("redis-rs-1.6.0", "redis-1.6.0", url)
}

fn prepare(setting: &Setting) -> Result<(), Failure> {
    tests(setting).map(drop)
}

/// Builds the tests. Returns the programs that contain them.
fn tests(setting: &Setting) -> Result<Vec<(String, PathBuf)>, Failure> {
    let folder = source(setting)?;
    let arguments = [
        "test", "--locked", "-p", "redis", "--lib", "--tests", "--no-run",
    ];
    let program = setting
        .shell
        .cargo(arguments)
        .argument("--message-format=json-render-diagnostics")
        .argument(format!("--features={FEATURES}"))
        .folder(&folder)
        .env("CARGO_TARGET_DIR", setting.work.join("redis-rs-target"));
    let text = program.read()?;
    let mut programs = Vec::new();
    for line in text.lines() {
        let told: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        let (name, place) = (&told["target"]["name"], &told["executable"]);
        if let (Some(name), Some(place)) = (name.as_str(), place.as_str()) {
            programs.push((name.to_owned(), PathBuf::from(place)));
        }
    }
    Ok(programs)
}

fn run(setting: &Setting, side: Side) -> Result<Report, Failure> {
    let folder = source(setting)?.join("redis");
    let server = match side {
        Side::Rival => setting.redis.clone(),
        Side::Tidewire => wrapper(setting)?,
    };
    let mut report = Report::default();
    for (program, place) in tests(setting)? {
        let list = setting.shell.program(&place, ["--list", "--format=terse"]);
        for line in list.folder(&folder).read()?.lines() {
            let Some(test) = line.strip_suffix(": test") else {
                continue;
            };
            if LEFT_OUT
                .iter()
                .any(|word| program.contains(word) || test.contains(word))
            {
                continue;
            }
            let log = setting
                .work
                .join(format!("redis-rs-{side:?}.log").to_lowercase());
            let is_well = setting
                .shell
                .program("timeout", [TEST_TIME_MAX_S])
                .argument(&place)
                .argument("--exact")
                .argument(test)
                .folder(&folder)
                .env("REDISRS_SERVER_TYPE", "tcp")
                .env("REDISRS_SERVER_BIN", &server)
                .log(&log)?;
            let said = read(&log)?;
            report.add(&format!("{program} {test}"), end(is_well, &said));
        }
    }
    Ok(report)
}

fn end(is_well: bool, said: &str) -> End {
    if !is_well {
        return End::Failed(said.trim().to_owned());
    }
    match said.contains("1 ignored") {
        true => End::Skipped,
        false => End::Passed,
    }
}

/// Creates a program that is started like a `redis-server`.
fn wrapper(setting: &Setting) -> Result<PathBuf, Failure> {
    let place = setting.folder("redis-rs-server")?.join("redis-server");
    let text = format!(
        "#!/bin/sh\n\
         if [ \"$1\" = -v ]; then echo 'Redis server v={REDIS_VERSION}'; exit; fi\n\
         exec '{}' {} -- \"$@\"\n",
        setting.tidewire.display(),
        setting.options_beside_conf().join(" ")
    );
    write(&place, &text).map_err(Failure::at(&place))?;
    Ok(place)
}

fn write(place: &Path, text: &str) -> std::io::Result<()> {
    fs::write(place, text)?;
    fs::set_permissions(place, fs::Permissions::from_mode(0o755))
}

const FEATURES: &str = "tokio-comp,smol-comp,connection-manager,cache-aio,r2d2,bb8,vector-sets,\
    bigdecimal,rust_decimal,uuid,ahash,hashbrown";
/// Tests that the suite itself skips over TCP.
const LEFT_OUT: [&str; 2] = ["tls", "test_module"];
/// The version that Tidewire reports.
const REDIS_VERSION: &str = "8.0.6";
const TEST_TIME_MAX_S: &str = "30";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_test_has_not_passed() {
        assert_eq!(
            end(true, "test result: ok. 1 passed; 0 failed; 0 ignored;"),
            End::Passed
        );
        assert_eq!(
            end(true, "test result: ok. 0 passed; 0 failed; 1 ignored;"),
            End::Skipped
        );
        assert_eq!(end(false, " no\n"), End::Failed("no".into()));
    }
}
