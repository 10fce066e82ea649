//! Redis's own test suite, run file by file from a copy of its tree.

use super::output::Outcome;
use crate::server::{Kind, Server, pid};
use crate::shell::Failure;
use rustix::process::{Signal, kill_process_group};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How a file of the suite gets its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// We start the server, the harness connects.
    External,
    /// The file refuses servers that the harness did not start itself: it is given a program
    /// named `redis-server` that starts ours.
    Spawned,
}

/// The files that judge Tidewire: every data type, what goes across types, scripts, access control,
/// and what the server tells and limits.
pub(crate) const UNITS: &[(&str, Mode)] = &[
    ("unit/type/string", Mode::External),
    ("unit/type/incr", Mode::External),
    ("unit/type/list", Mode::External),
    ("unit/type/list-2", Mode::External),
    ("unit/type/list-3", Mode::External),
    // One test ends its server's child, and leaves settings behind where it cannot.
    ("unit/type/set", Mode::Spawned),
    ("unit/type/zset", Mode::External),
    ("unit/type/hash", Mode::External),
    ("unit/type/hash-field-expire", Mode::Spawned),
    ("unit/type/stream", Mode::External),
    ("unit/type/stream-cgroups", Mode::External),
    ("unit/expire", Mode::External),
    ("unit/keyspace", Mode::External),
    ("unit/scan", Mode::External),
    ("unit/multi", Mode::External),
    ("unit/pubsub", Mode::External),
    ("unit/pubsubshard", Mode::Spawned),
    ("unit/protocol", Mode::External),
    ("unit/bitops", Mode::External),
    ("unit/bitfield", Mode::External),
    ("unit/hyperloglog", Mode::External),
    ("unit/geo", Mode::External),
    ("unit/sort", Mode::External),
    ("unit/dump", Mode::External),
    ("unit/other", Mode::External),
    ("unit/pause", Mode::External),
    // With a server from outside none of its tests would run.
    ("unit/wait", Mode::Spawned),
    ("unit/quit", Mode::External),
    ("unit/scripting", Mode::Spawned),
    ("unit/functions", Mode::Spawned),
    ("unit/tracking", Mode::External),
    ("unit/maxmemory", Mode::Spawned),
    ("unit/introspection", Mode::Spawned),
    ("unit/introspection-2", Mode::External),
    ("unit/slowlog", Mode::External),
    ("unit/latency-monitor", Mode::External),
    ("unit/querybuf", Mode::External),
    ("unit/limits", Mode::Spawned),
    ("unit/client-eviction", Mode::Spawned),
    ("unit/obuf-limits", Mode::Spawned),
    ("unit/lazyfree", Mode::Spawned),
    ("unit/info-command", Mode::External),
    ("unit/info-keysizes", Mode::Spawned),
    ("unit/networking", Mode::Spawned),
    ("unit/replybufsize", Mode::External),
    ("unit/violations", Mode::External),
    ("unit/acl", Mode::Spawned),
    ("unit/acl-v2", Mode::Spawned),
    ("unit/auth", Mode::Spawned),
    ("unit/info", Mode::Spawned),
];

/// A copy of the suite's tree, in which it may write.
#[derive(Debug)]
pub(crate) struct Suite {
    folder: PathBuf,
    version: String,
    /// Where the harness looks for free ports.
    base_port: u16,
}

impl Suite {
    /// Copies what the harness needs from the built tree at `source` to `folder`.
    pub(crate) fn copy(source: &Path, folder: &Path, base_port: u16) -> Result<Self, Failure> {
        let version = version(source)?;
        let failed = |error: std::io::Error| {
            Failure::new(format!("copying {} failed: {error}", source.display()))
        };
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(failed)?;
        }
        for name in ["tests", "utils"] {
            copy_folder(&source.join(name), &folder.join(name)).map_err(failed)?;
        }
        for name in ["runtest", "redis.conf"] {
            fs::copy(source.join(name), folder.join(name)).map_err(failed)?;
        }
        fs::create_dir_all(folder.join("src")).map_err(failed)?;
        fs::create_dir_all(folder.join("server")).map_err(failed)?;
        go_on_without_refused_settings(&folder.join("tests/support/server.tcl"))?;
        go_on_without_debugger(&folder.join("tests/unit/scripting.tcl"))?;
        let source = source.canonicalize().map_err(failed)?;
        for name in ["redis-cli", "redis-benchmark"] {
            symlink(source.join("src").join(name), folder.join("src").join(name))
                .map_err(failed)?;
        }
        Ok(Self {
            folder: folder.to_path_buf(),
            version,
            base_port,
        })
    }

    /// Redis's version.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Runs one file against a server of its own, but for the tests to skip.
    pub(crate) fn run(
        &self,
        (unit, mode): (&str, Mode),
        kind: &Kind,
        skip: &[&str],
        patience_s: u64,
    ) -> Result<Outcome, Failure> {
        self.link_server(kind)?;
        let mut arguments: Vec<String> = ["--durable", "--single", unit, "--baseport"]
            .map(str::to_owned)
            .to_vec();
        arguments.push(self.base_port.to_string());
        arguments.extend(["--timeout".into(), patience_s.to_string()]);
        for name in skip {
            arguments.extend(["--skiptest".into(), (*name).to_owned()]);
        }
        let mut server = None;
        if mode == Mode::External {
            let folder = self.folder.join("server");
            let started = Server::start(kind, &folder)?;
            arguments.extend(["--host".into(), "127.0.0.1".into()]);
            arguments.extend(["--port".into(), started.port().to_string()]);
            server = Some(started);
        } else {
            arguments.extend(["--clients".into(), "1".into()]);
        }
        let text = self.harness(unit, &arguments)?;
        let mut outcome = Outcome::parse(&text);
        if let Some(mut server) = server
            && let Some(status) = server.ended()
        {
            let said = server.last_words();
            outcome.ended_early = Some(format!("the server ended ({status}):\n{said}"));
        }
        Ok(outcome)
    }

    /// Runs the harness and returns what it printed. Whatever it started ends with it.
    fn harness(&self, unit: &str, arguments: &[String]) -> Result<String, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("runtest: {error}"));
        let path = self
            .folder
            .join(format!("{}.output", unit.replace('/', "-")));
        let output = File::create(&path).map_err(failed)?;
        let mut child = Command::new("./runtest")
            .args(arguments)
            .current_dir(&self.folder)
            .env("TERM", "dumb")
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let is_in_time = wait(&mut child)?;
        // Nobody is left where it ended well.
        let _ = kill_process_group(pid(&child)?, Signal::KILL);
        child.wait().map_err(failed)?;
        let text = fs::read(&path).map_err(failed)?;
        let mut text = String::from_utf8_lossy(&text).into_owned();
        if !is_in_time {
            text.push_str("\n[TIMEOUT]: the whole file took too long\n");
        }
        Ok(text)
    }

    /// Puts the server where the harness starts one.
    fn link_server(&self, kind: &Kind) -> Result<(), Failure> {
        let failed = |error| Failure::new(format!("src/redis-server: {error}"));
        let folder = self.folder.join("src");
        let place = folder.join("redis-server");
        let ours = folder.join("tidewire");
        for old in [&place, &ours] {
            if old.symlink_metadata().is_ok() {
                fs::remove_file(old).map_err(failed)?;
            }
        }
        let binary = kind.binary().canonicalize().map_err(failed)?;
        if matches!(kind, Kind::Redis { .. }) {
            return symlink(binary, place).map_err(failed);
        }
        symlink(binary, ours).map_err(failed)?;
        fs::write(&place, wrapper(kind)).map_err(failed)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).map_err(failed)
    }
}

/// A script with the manners of `redis-server`: it takes a redis.conf and options as that does,
/// and says in the words that the harness waits for that the server runs.
fn wrapper(kind: &Kind) -> String {
    let options = kind.options_beside_conf().join(" ");
    format!(
        r#"#!/usr/bin/env bash
here=$(cd "$(dirname "$0")" && pwd)
settings=()
if [[ $# -gt 0 && $1 != -* ]]; then
    settings=(--redis-conf "$1")
    port=$(awk '$1 == "port" {{ print $2 }}' "$1")
    shift
    echo " PID: $$ Server initialized"
    (
        while kill -0 $$ 2>/dev/null; do
            if "$here/redis-cli" -p "$port" PING 2>&1 |
                grep -Eq 'PONG|NOAUTH|NOPERM|MASTERDOWN|MISCONF|DENIED'; then
                echo "Ready to accept connections"
                exit
            fi
            sleep 0.05
        done
    ) &
fi
exec "$here/tidewire" {options} "${{settings[@]}}" -- "$@" 2>&1
"#
    )
}

/// Waits for the end; whether it came in time.
fn wait(child: &mut Child) -> Result<bool, Failure> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return Ok(true),
            Ok(None) if begin.elapsed() > UNIT_TIME_MAX => return Ok(false),
            Ok(None) => std::thread::sleep(POLL_INTERVAL),
            Err(error) => return Err(Failure::new(format!("runtest: {error}"))),
        }
    }
}

fn version(source: &Path) -> Result<String, Failure> {
    let place = source.join("src/version.h");
    let text = fs::read_to_string(&place)
        .map_err(|error| Failure::new(format!("{}: {error}", place.display())))?;
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("#define REDIS_VERSION \""))
        .and_then(|rest| rest.split('"').next());
    version
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(format!("{}: no version", place.display())))
}

/// Lets a group of tests run although the server refuses a setting that the group asks for, such
/// as `appendonly yes`. The harness would end the whole file; so each of the group's tests shows
/// whether it needs the setting.
fn go_on_without_refused_settings(harness: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", harness.display()));
    let text = fs::read_to_string(harness).map_err(failed)?;
    let changed = text.replacen(SETTING, SETTING_IF_TAKEN, 1);
    if changed == text {
        return Err(Failure::new(format!(
            "{}: no setting found",
            harness.display()
        )));
    }
    fs::write(harness, changed).map_err(failed)
}

/// Leaves out what the file on scripts asks of the debugger between its tests, where a refusal
/// would end the file. The tests that need the debugger are exceptions.
fn go_on_without_debugger(file: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", file.display()));
    let text = fs::read_to_string(file).map_err(failed)?;
    fs::write(file, text.replacen(DEBUGGER, "", 1)).map_err(failed)
}

const DEBUGGER: &str = "    r script debug sync\n    r eval {return 'hello'} 0\n    r eval {return \
    'hello'} 0\n";

/// Where the harness sets what a group asks for, and with what it is replaced.
const SETTING: &str = "foreach {param val} $overrides {\n        r config set $param $val\n";
const SETTING_IF_TAKEN: &str = "foreach {param val} $overrides {\n        \
    if {[catch {r config set $param $val}]} continue\n";

pub(super) fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&from, &to)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_file() {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

/// Where the harness looks for free ports, if nothing else is said.
pub(crate) const BASE_PORT: u16 = 27_111;
/// The slowest file takes five minutes on a small machine.
const UNIT_TIME_MAX: Duration = Duration::from_secs(3_600);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
