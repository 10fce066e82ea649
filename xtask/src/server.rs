//! Servers for Redis's protocol, started on a free port and ended with the chore.

use crate::shell::{Failure, Program, Shell};
use rustix::process::Pid;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Builds Tidewire in release mode.
pub(crate) fn build(shell: &Shell) -> Result<PathBuf, Failure> {
    shell
        .cargo(["build", "--release", "-p", "tidewire"])
        .run()?;
    Ok(shell.target().join("release/tidewire"))
}

/// Builds all programs that `cargo xtask test` runs: optimised, with assertions, and without the
/// linker's optimisation, which takes minutes. One command for all, because other packages beside
/// it give a crate other features, and then it is built once more.
pub(crate) fn build_checked(shell: &Shell) -> Result<PathBuf, Failure> {
    let build = shell.cargo(["build", "--profile", CHECKED, "--lib", "--bins"]);
    let build = build.argument("--example").argument("peer");
    let add = |build: Program, package| build.argument("-p").argument(package);
    CHECKED_PACKAGES.into_iter().fold(build, add).run()?;
    Ok(shell.target().join(CHECKED).join("tidewire"))
}

/// The profile of [`build_checked`], and its folder.
pub(crate) const CHECKED: &str = "checked";
const CHECKED_PACKAGES: [&str; 4] = [
    "tidewire",
    "tidewire-bench",
    "tidewire-libzmq",
    "tidewire-zmq",
];

/// The kind of server to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A Tidewire program with this many lanes.
    Tidewire { binary: PathBuf, lanes: u16 },
    /// Tidewire with known ZeroMQ ports: PUB, PULL and ROUTER.
    Hub { binary: PathBuf, zmq: [u16; 3] },
    /// A `redis-server`.
    Redis { binary: PathBuf },
    /// Either of them, with an append-only file in its working directory.
    Durable {
        binary: PathBuf,
        lanes: u16,
        is_redis: bool,
        policy: String,
    },
}

/// A running server, which is killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Kind {
    pub(crate) fn tidewire(binary: &Path, lanes: u16) -> Self {
        Self::Tidewire {
            binary: binary.to_path_buf(),
            lanes,
        }
    }

    pub(crate) fn redis(binary: impl Into<PathBuf>) -> Self {
        Self::Redis {
            binary: binary.into(),
        }
    }

    /// Returns its options: everything that tests need is allowed, and nothing is kept on disk.
    pub(crate) fn options(&self, port: &str) -> Vec<String> {
        let (fixed, of_port): (&[&str], _) = match self {
            Self::Tidewire { lanes, .. } => {
                let resp = format!("127.0.0.1:{port}");
                (
                    &TIDEWIRE_OPTIONS,
                    vec!["--lanes".into(), lanes.to_string(), "--resp".into(), resp],
                )
            }
            Self::Hub { zmq, .. } => {
                let names = ["--zmq-pub", "--zmq-pull", "--zmq-router"];
                let ports = names.iter().zip(zmq);
                let mut options: Vec<String> = ports
                    .flat_map(|(name, port)| {
                        [(*name).to_owned(), format!("tcp://127.0.0.1:{port}")]
                    })
                    .collect();
                options.extend(["--resp".to_owned(), format!("127.0.0.1:{port}")]);
                (&HUB_OPTIONS, options)
            }
            Self::Redis { .. } => (&REDIS_OPTIONS, vec!["--port".into(), port.into()]),
            Self::Durable {
                is_redis: true,
                policy,
                ..
            } => {
                let own = [
                    "--port",
                    port,
                    "--appendonly",
                    "yes",
                    "--appendfsync",
                    policy,
                ];
                (&REDIS_OPTIONS, own.map(str::to_owned).to_vec())
            }
            Self::Durable { lanes, policy, .. } => {
                let sets = [
                    "save=".to_owned(),
                    "appendonly=yes".to_owned(),
                    format!("appendfsync={policy}"),
                ];
                let mut own: Vec<String> = sets
                    .into_iter()
                    .flat_map(|set| ["--set".to_owned(), set])
                    .collect();
                let resp = format!("127.0.0.1:{port}");
                let lanes = lanes.to_string();
                own.extend(["--dir", ".", "--resp", &resp, "--lanes", &lanes].map(str::to_owned));
                (&TIDEWIRE_OPTIONS, own)
            }
        };
        fixed
            .iter()
            .map(|&option| option.to_owned())
            .chain(of_port)
            .collect()
    }

    /// Returns its options when a redis.conf has the rest.
    pub(crate) fn options_beside_conf(&self) -> Vec<String> {
        let mut options = self.options("0").into_iter();
        let mut kept = Vec::new();
        while let Some(option) = options.next() {
            match option.as_str() {
                "--set" | "--resp" => {
                    options.next();
                }
                _ => kept.push(option),
            }
        }
        kept
    }

    pub(crate) fn binary(&self) -> &Path {
        match self {
            Self::Tidewire { binary, .. }
            | Self::Hub { binary, .. }
            | Self::Redis { binary }
            | Self::Durable { binary, .. } => binary,
        }
    }
}

impl Server {
    /// Starts it in `folder` and waits until it answers.
    pub(crate) fn start(kind: &Kind, folder: &Path) -> Result<Self, Failure> {
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port()?;
            let mut server = Self::spawn(kind, port, folder, &[])?;
            if server.answers_in_time() {
                return Ok(server);
            }
            let said = server.last_words();
            if server.ended().is_none() || !said.to_lowercase().contains("in use") {
                return Err(server.does_not_start(kind));
            }
        }
        Err(Failure::new("no free port"))
    }

    /// Starts it on this port, with more arguments after its own, and waits until it answers.
    pub(crate) fn start_at(
        kind: &Kind,
        port: u16,
        folder: &Path,
        more: &[String],
    ) -> Result<Self, Failure> {
        let mut server = Self::spawn(kind, port, folder, more)?;
        match server.answers_in_time() {
            true => Ok(server),
            false => Err(server.does_not_start(kind)),
        }
    }

    fn answers_in_time(&mut self) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < START_TIME_MAX && self.ended().is_none() {
            if answers(self.port) {
                return true;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        false
    }

    fn does_not_start(&self, kind: &Kind) -> Failure {
        let (name, said) = (kind.binary().display(), self.last_words());
        Failure::new(format!("{name} does not start:\n{said}"))
    }

    fn spawn(kind: &Kind, port: u16, folder: &Path, more: &[String]) -> Result<Self, Failure> {
        let log = folder.join("server.log");
        let failed = Failure::at(kind.binary());
        let file = File::create(&log).map_err(failed)?;
        let mut command = Command::new(kind.binary());
        for (name, _) in std::env::vars_os() {
            // The user's own settings must not change the test.
            if name.to_string_lossy().starts_with("TIDEWIRE_") {
                command.env_remove(name);
            }
        }
        let child = command
            .args(kind.options(&port.to_string()))
            .args(more)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(failed)?)
            .stderr(file)
            .spawn()
            .map_err(failed)?;
        Ok(Self { child, port, log })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) -> Result<(), Failure> {
        rustix::process::kill_process(pid(&self.child)?, rustix::process::Signal::TERM)
            .map_err(|error| Failure::new(error.to_string()))
    }

    /// Returns the end of its log.
    pub(crate) fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the PID of the process.
pub(crate) fn pid(child: &Child) -> Result<Pid, Failure> {
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| Failure::new("a process without a number"))
}

/// Returns a port that is free now.
pub(crate) fn free_port() -> Result<u16, Failure> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| Failure::new(format!("no free port: {error}")))
}

fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let mut reply = [0; 7];
    stream.set_read_timeout(Some(START_TIME_MAX)).is_ok()
        && stream.write_all(b"PING\r\n").is_ok()
        && stream.read_exact(&mut reply).is_ok()
        && &reply == b"+PONG\r\n"
}

/// The other ports are chosen by the system.
const TIDEWIRE_OPTIONS: [&str; 15] = [
    "serve",
    "--set",
    "enable-debug-command=yes",
    "--set",
    "enable-protected-configs=yes",
    "--set",
    "enable-module-command=yes",
    "--zmq-pub",
    "tcp://127.0.0.1:0",
    "--zmq-pull",
    "tcp://127.0.0.1:0",
    "--zmq-router",
    "tcp://127.0.0.1:0",
    "--feed",
    "127.0.0.1:0",
];
const HUB_OPTIONS: [&str; 5] = ["serve", "--lanes", "2", "--feed", "127.0.0.1:0"];
const REDIS_OPTIONS: [&str; 8] = [
    "--save",
    "",
    "--enable-debug-command",
    "yes",
    "--enable-protected-configs",
    "yes",
    "--enable-module-command",
    "yes",
];
const PORT_ATTEMPTS: usize = 5;
const START_TIME_MAX: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const LAST_LINES: usize = 20;
