//! The test suite of Redis or of Valkey, run file by file from a copy of its tree.

use crate::server::{Kind, pid};
use crate::shell::Failure;
use rustix::process::{Signal, kill_process_group};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The project that a suite belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flavour {
    pub(crate) name: &'static str,
    /// The program that the harness starts.
    pub(crate) server: &'static str,
    client: &'static str,
    /// The name of the version in `src/version.h`.
    version: &'static str,
    pub(crate) records: &'static str,
    /// The page's name without `.md`.
    pub(crate) page: &'static str,
    /// The version that Tidewire reports.
    home: &'static str,
}

// Valkey's version.h also has Redis's name, so Valkey comes first.
static FLAVOURS: [Flavour; 2] = [
    Flavour {
        name: "Valkey",
        server: "valkey-server",
        client: "valkey-cli",
        version: "#define VALKEY_VERSION \"",
        records: "tests/conformance/valkey.toml",
        page: "conformance-valkey",
        home: "9.1.",
    },
    Flavour {
        name: "Redis",
        server: "redis-server",
        client: "redis-cli",
        version: "#define REDIS_VERSION \"",
        records: "tests/conformance/redis.toml",
        page: "conformance-redis",
        home: "8.0.",
    },
];

/// A copy of the suite's tree, which it may write to.
#[derive(Debug)]
pub(crate) struct Suite {
    folder: PathBuf,
    flavour: &'static Flavour,
    version: String,
    /// The port from which the harness looks for free ports.
    base_port: u16,
    /// The changes in the copy.
    changes: Vec<&'static Change>,
    /// Whether the suite's clients and servers talk over TLS.
    is_tls: bool,
}

/// Returns the suite's name and version, such as `redis-8.0.6`.
pub(crate) fn name(source: &Path) -> Result<String, Failure> {
    let (flavour, version) = version(source)?;
    Ok(format!("{}-{version}", flavour.name.to_lowercase()))
}

impl Suite {
    /// Copies the files that the harness needs from the built tree at `source` to `folder`. With
    /// `is_tls` the suite's own script makes certificates there.
    pub(crate) fn copy(
        source: &Path,
        folder: &Path,
        base_port: u16,
        is_tls: bool,
    ) -> Result<Self, Failure> {
        let (flavour, version) = version(source)?;
        let failed = |error: std::io::Error| {
            Failure::new(format!("copying {} failed: {error}", source.display()))
        };
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(failed)?;
        }
        for name in ["tests", "utils"] {
            copy_folder(&source.join(name), &folder.join(name)).map_err(failed)?;
        }
        for entry in fs::read_dir(source).map_err(failed)?.flatten() {
            let name = entry.file_name();
            let text = name.to_string_lossy();
            if text == "runtest" || text.ends_with(".conf") {
                fs::copy(entry.path(), folder.join(name)).map_err(failed)?;
            }
        }
        fs::create_dir_all(folder.join("src")).map_err(failed)?;
        let source = source.canonicalize().map_err(failed)?;
        for entry in fs::read_dir(source.join("src")).map_err(failed)?.flatten() {
            let name = entry.file_name();
            let text = name.to_string_lossy();
            let is_program = ["redis-", "valkey-"]
                .iter()
                .any(|head| text.starts_with(head));
            if text == "version.h" || is_program && !text.contains('.') {
                symlink(entry.path(), folder.join("src").join(name)).map_err(failed)?;
            }
        }
        let mut suite = Self {
            folder: folder.to_path_buf(),
            flavour,
            version,
            base_port,
            changes: Vec::new(),
            is_tls,
        };
        if is_tls {
            let mut script = Command::new("utils/gen-test-certs.sh");
            let output = script.current_dir(&suite.folder).output().map_err(failed)?;
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stderr);
                return Err(Failure::new(format!("utils/gen-test-certs.sh: {text}")));
            }
        }
        for change in CHANGES {
            if suite.change(change)? {
                suite.changes.push(change);
            }
        }
        Ok(suite)
    }

    pub(crate) fn flavour(&self) -> &'static Flavour {
        self.flavour
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Returns whether it has the version that Tidewire reports.
    pub(crate) fn is_home(&self) -> bool {
        self.version.starts_with(self.flavour.home)
    }

    /// Returns every file of tests, in the folders that the harness uses.
    pub(crate) fn units(&self) -> Result<Vec<String>, Failure> {
        let mut units = Vec::new();
        for folder in FOLDERS {
            for path in self.files(folder)? {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                if !name.is_empty() && path.extension().is_some_and(|end| end == "tcl") {
                    units.push(format!("{folder}/{name}"));
                }
            }
        }
        Ok(units)
    }

    /// Returns how many tests the sources of a file, or of a folder of files, have.
    pub(crate) fn tests_in(&self, files: &str) -> Result<usize, Failure> {
        let one = self.folder.join("tests").join(format!("{files}.tcl"));
        let paths = if one.is_file() {
            vec![one]
        } else if self.folder.join("tests").join(files).is_dir() {
            self.files(files)?
        } else {
            Vec::new()
        };
        let mut tests = 0;
        for path in paths
            .iter()
            .filter(|path| path.extension().is_some_and(|end| end == "tcl"))
        {
            let text = fs::read(path).map_err(Failure::at(path))?;
            let text = String::from_utf8_lossy(&text);
            let is_test = |line: &&str| {
                let rest = line.trim_start().strip_prefix("test ");
                rest.is_some_and(|rest| rest.starts_with(['{', '"']))
            };
            tests += text.lines().filter(is_test).count();
        }
        Ok(tests)
    }

    fn files(&self, folder: &str) -> Result<Vec<PathBuf>, Failure> {
        let place = self.folder.join("tests").join(folder);
        let entries = fs::read_dir(&place).map_err(Failure::at(&place))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        Ok(paths)
    }

    /// Returns descriptions of the changes in the copy.
    pub(crate) fn changes(&self) -> Vec<String> {
        let tell = |change: &&Change| format!("`{}`: {}", change.file, change.why);
        self.changes.iter().map(tell).collect()
    }

    /// Makes a change. Returns false if the text to change is not there.
    fn change(&self, change: &Change) -> Result<bool, Failure> {
        let file = self.folder.join(change.file);
        let failed = Failure::at(&file);
        if !file.exists() {
            return Ok(false);
        }
        let text = fs::read_to_string(&file).map_err(failed)?;
        if !text.contains(change.from) {
            return Ok(false);
        }
        fs::write(&file, text.replacen(change.from, change.to, 1)).map_err(failed)?;
        Ok(true)
    }

    /// Runs one file without the tests to skip. Returns the harness's output.
    pub(crate) fn run(
        &self,
        unit: &str,
        kind: &Kind,
        skip: &[&str],
        patience_s: u64,
    ) -> Result<String, Failure> {
        self.link_server(kind)?;
        let numbers = [
            ("--clients", 1),
            ("--baseport", u64::from(self.base_port)),
            ("--portcount", PORTS),
            ("--timeout", patience_s),
        ];
        let mut arguments: Vec<String> = ["--durable", "--single", unit].map(str::to_owned).into();
        arguments.extend(self.is_tls.then(|| "--tls".to_owned()));
        for (name, number) in numbers {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
        for name in skip {
            arguments.extend(["--skiptest".into(), (*name).to_owned()]);
        }
        self.harness(&arguments)
    }

    /// Runs the harness and returns its output. All processes that it started end with it.
    fn harness(&self, arguments: &[String]) -> Result<String, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("runtest: {error}"));
        let path = self.folder.join("output");
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
        // After a normal end no process is left.
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
        let server = self.flavour.server;
        let failed = |error| Failure::new(format!("src/{server}: {error}"));
        let folder = self.folder.join("src");
        let place = folder.join(server);
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
        let mut options = kind.options_beside_conf();
        if self.is_tls {
            // As in Redis: the suite's certificates name no host.
            options.push("--set tls-verify-hostname=no".to_owned());
        }
        if self.flavour.name == "Valkey" {
            options.push("--set compatibility=valkey".to_owned());
        }
        let script = wrapper(&options.join(" "), self.flavour.client);
        fs::write(&place, script).map_err(failed)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).map_err(failed)
    }
}

/// Returns a script that behaves like `redis-server`: it accepts a redis.conf and options, and
/// prints the line that the harness waits for.
fn wrapper(options: &str, client: &str) -> String {
    format!(
        r#"#!/usr/bin/env bash
here=$(cd "$(dirname "$0")" && pwd)
settings=()
if [[ $# -gt 0 && $1 != -* ]]; then
    settings=(--redis-conf "$1")
    port=$(awk '$1 == "port" {{ print $2 }}' "$1")
    shift
    (
        # It is initialized when it listens, if it does on a port, and ready when keys are loaded.
        tries=0
        while kill -0 $$ 2>/dev/null; do
            said=$("$here/{client}" -p "$port" PING 2>&1)
            if [[ $tries -ge 0 && ( $said != *"Could not connect"* || $tries -ge 40 ) ]]; then
                echo " PID: $$ Server initialized"
                tries=-1
            fi
            if grep -Eq 'PONG|NOAUTH|NOPERM|MASTERDOWN|MISCONF|DENIED' <<<"$said"; then
                echo "Ready to accept connections"
                exit
            fi
            [[ $tries -ge 0 ]] && tries=$((tries + 1))
            sleep 0.05
        done
        # One that cannot start has said so before in Redis too.
        [[ $tries -ge 0 ]] && echo " PID: $$ Server initialized"
    ) &
fi
exec "$here/tidewire" {options} "${{settings[@]}}" -- "$@" 2>&1
"#
    )
}

/// Waits for the end. Returns false on a timeout.
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

fn version(source: &Path) -> Result<(&'static Flavour, String), Failure> {
    let place = source.join("src/version.h");
    let text = fs::read_to_string(&place).map_err(Failure::at(&place))?;
    let of = |flavour: &'static Flavour| {
        let mut lines = text.lines();
        let rest = lines.find_map(|line| line.strip_prefix(flavour.version))?;
        Some((flavour, rest.split('"').next()?.to_owned()))
    };
    let found = FLAVOURS.iter().find_map(of);
    found.ok_or_else(|| Failure::new(format!("{}: no version", place.display())))
}

/// A change in a file of the copy.
#[derive(Debug)]
struct Change {
    file: &'static str,
    from: &'static str,
    to: &'static str,
    why: &'static str,
}

const CHANGES: &[Change] = &[Change {
    file: "tests/unit/scripting.tcl",
    from: "    r script debug sync\n    r eval {return 'hello'} 0\n    r eval {return 'hello'} 0\n",
    to: "",
    why: "three lines between the tests start the debugger for scripts; a refusal would end \
              the file. They are taken out. The tests that need the debugger are exceptions.",
}];

pub(crate) fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
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

/// Folders from which the harness takes files if none is named, the largest first.
const FOLDERS: [&str; 3] = ["unit", "unit/type", "integration"];
/// The default port from which the harness looks for free ports.
pub(crate) const BASE_PORT: u16 = 27_111;
const PORTS: u64 = 400;
/// The slowest file takes ten minutes on a small machine.
const UNIT_TIME_MAX: Duration = Duration::from_secs(1_800);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_known_by_its_version() {
        let folder = std::env::temp_dir().join(format!("suite-version-{}", std::process::id()));
        fs::create_dir_all(folder.join("src")).unwrap();
        let named = |text: &str| {
            fs::write(folder.join("src/version.h"), text).unwrap();
            name(&folder)
        };
        assert_eq!(
            named("#define REDIS_VERSION \"8.0.6\"\n").unwrap(),
            "redis-8.0.6"
        );
        let valkey = "#define VALKEY_VERSION \"9.1.2\"\n#define REDIS_VERSION \"7.2.4\"\n";
        assert_eq!(named(valkey).unwrap(), "valkey-9.1.2");
        assert!(named("").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
