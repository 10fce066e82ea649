//! The servers that are measured: ours and rivals, each a process of its own on a free port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::options::BenchOptions;

use super::processor_time::{Cores, ProcessorClock};
use super::scenario::{FLOOR, OURS};

/// A server to compare with: `redis=/usr/bin/redis-server`.
#[derive(Clone, Debug)]
pub(crate) struct Rival {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl FromStr for Rival {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok(Self {
                name: name.to_owned(),
                path: path.into(),
            }),
            _ => Err("NAME=PATH is expected, such as redis=/usr/bin/redis-server".to_owned()),
        }
    }
}

impl Rival {
    /// Returns `redis-server`, if it is installed.
    pub(crate) fn installed() -> Option<Self> {
        let folders = std::env::var_os("PATH")?;
        let path = std::env::split_paths(&folders)
            .map(|folder| folder.join("redis-server"))
            .find(|path| path.is_file())?;
        Some(Self {
            name: "redis".to_owned(),
            path,
        })
    }

    /// Returns the requested rivals; if there are none, the installed one.
    pub(crate) fn chosen(options: &BenchOptions) -> Vec<Self> {
        if options.rival.is_empty() {
            return Self::installed().into_iter().collect();
        }
        options.rival.clone()
    }

    /// Its name and version.
    pub(crate) fn named(&self) -> String {
        format!("{} {}", self.name, self.version())
    }

    /// Returns the version that it prints, such as `7.0.15`.
    pub(crate) fn version(&self) -> String {
        let output = Command::new(&self.path).arg("--version").output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let version = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix("v="));
        version.unwrap_or("unknown").to_owned()
    }
}

/// A server's process; it ends with this value.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
}

impl ServerProcess {
    /// Starts our hub with one lane, at these addresses.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn hub(addresses: &HubAddresses, more: &[String], cores: Cores) -> io::Result<Self> {
        let mut command = own_command()?;
        command
            .args(["serve", "--lanes", "1", "--resp"])
            .arg(addresses.resp.to_string())
            .arg("--zmq-pub")
            .arg(format!("tcp://{}", addresses.zmq_pub))
            .arg("--zmq-pull")
            .arg(format!("tcp://{}", addresses.zmq_pull))
            .arg("--zmq-router")
            .arg("tcp://127.0.0.1:0")
            .arg("--feed")
            .arg(addresses.feed.to_string())
            .args(more);
        let server = Self::start(command, cores.enter_server()?)?;
        server.wait_for(addresses.resp)?;
        Ok(server)
    }

    /// Starts a rival that stores nothing on disk.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn rival(rival: &Rival, address: SocketAddr, cores: Cores) -> io::Result<Self> {
        let mut command = Command::new(absolute(&rival.path)?);
        command
            .current_dir(std::env::temp_dir())
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            // Ignores files left by another server in that folder.
            .args(["--dbfilename", "tidewire-bench-has-none.rdb"])
            .arg("--port")
            .arg(address.port().to_string());
        let server = Self::start(command, cores.enter_server()?)?;
        server.wait_for(address)?;
        Ok(server)
    }

    /// Starts a simulated exchange, on the load's core.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn exchange(
        address: SocketAddr,
        rate: u64,
        symbols: u64,
        cores: Cores,
    ) -> io::Result<Self> {
        let mut command = own_command()?;
        command
            .args(["simulate", "--feed"])
            .arg(address.to_string())
            .arg("--rate")
            .arg(rate.to_string())
            .arg("--symbols")
            .arg(symbols.to_string());
        let server = Self::start(command, cores.enter_load()?)?;
        server.wait_for(address)?;
        Ok(server)
    }

    /// Starts a process. `_core` is held until the process exists, which inherits the affinity.
    fn start<T>(mut command: Command, _core: T) -> io::Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        Ok(Self { child })
    }

    pub(crate) fn clock(&self) -> ProcessorClock {
        ProcessorClock::Process(self.child.id())
    }

    /// Returns the resident memory of the process in bytes.
    ///
    /// # Errors
    /// It has ended.
    fn resident_bytes(&self) -> io::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kibibytes = kibibytes.and_then(|text| text.trim().parse::<u64>().ok());
        kibibytes
            .map(|kibibytes| kibibytes << 10)
            .ok_or_else(|| io::Error::other("the server has ended"))
    }

    fn wait_for(&self, address: SocketAddr) -> io::Result<()> {
        let end = Instant::now() + START_TIME_MAX;
        loop {
            match TcpStream::connect(address) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() >= end => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server under measurement.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) clock: ProcessorClock,
    /// `None` for a floor, which is a thread of this process.
    process: Option<ServerProcess>,
}

impl Server {
    /// Starts a rival, or our hub.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start(rival: Option<&Rival>, cores: Cores) -> io::Result<Self> {
        let (name, address, process) = match rival {
            Some(rival) => {
                let [address] = free_addresses()?;
                let process = ServerProcess::rival(rival, address, cores)?;
                (&*rival.name, address, process)
            }
            None => {
                let addresses = HubAddresses::free()?;
                let process = ServerProcess::hub(&addresses, &[], cores)?;
                (OURS, addresses.resp, process)
            }
        };
        Ok(Self {
            name: name.to_owned(),
            address,
            clock: process.clock(),
            process: Some(process),
        })
    }

    /// Starts our hub and all rivals, ours first.
    ///
    /// # Errors
    /// One of them does not start.
    pub(crate) fn start_all(rivals: &[Rival], cores: Cores) -> io::Result<Vec<Self>> {
        let all = std::iter::once(None).chain(rivals.iter().map(Some));
        all.map(|rival| Self::start(rival, cores)).collect()
    }

    /// Wraps a running floor.
    pub(crate) fn floor(address: SocketAddr, clock: ProcessorClock) -> Self {
        Self {
            name: FLOOR.to_owned(),
            address,
            clock,
            process: None,
        }
    }

    /// Returns the names of these servers.
    pub(crate) fn names(servers: &[Self]) -> Vec<String> {
        servers.iter().map(|server| server.name.clone()).collect()
    }

    /// Returns the resident memory of the server's process in bytes.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        let process = self.process.as_ref();
        process.map_or(Ok(0), ServerProcess::resident_bytes)
    }
}

/// The address for a hub to listen on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HubAddresses {
    pub(crate) resp: SocketAddr,
    pub(crate) zmq_pub: SocketAddr,
    pub(crate) zmq_pull: SocketAddr,
    pub(crate) feed: SocketAddr,
}

impl HubAddresses {
    /// Ports that are free now.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn free() -> io::Result<Self> {
        let [resp, zmq_pub, zmq_pull, feed] = free_addresses()?;
        Ok(Self {
            resp,
            zmq_pub,
            zmq_pull,
            feed,
        })
    }
}

/// Returns distinct local addresses that are free now.
///
/// # Errors
/// Those of the system.
pub(crate) fn free_addresses<const N: usize>() -> io::Result<[SocketAddr; N]> {
    let mut listeners = Vec::with_capacity(N);
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for address in &mut addresses {
        let listener = TcpListener::bind(*address)?;
        *address = listener.local_addr()?;
        // Kept until all are found: so none is found twice.
        listeners.push(listener);
    }
    Ok(addresses)
}

/// Returns the path of the measured program: `TIDEWIRE_BINARY`, or the one beside this program.
pub(crate) fn program() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("TIDEWIRE_BINARY") {
        return Ok(path.into());
    }
    let path = std::env::current_exe()?.with_file_name("tidewire");
    match path.is_file() {
        true => Ok(path),
        false => Err(io::Error::other(format!(
            "there is no {}: build it first, or use cargo xtask bench",
            path.display()
        ))),
    }
}

fn own_command() -> io::Result<Command> {
    let mut command = Command::new(program()?);
    command.args(["--log", "error"]);
    Ok(command)
}

/// Returns a path that is valid in any folder; a bare name is searched in PATH.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    if path.components().count() == 1 {
        return Ok(path.to_owned());
    }
    std::path::absolute(path)
}

const START_TIME_MAX: Duration = Duration::from_secs(10);
