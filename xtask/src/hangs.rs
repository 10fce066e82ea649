//! `cargo xtask hangs`: sends random commands, transactions, scripts and disconnects to a server,
//! while other clients send PING to every lane. A lane without a reply for ten seconds has failed.

mod words;

use crate::arguments::Arguments;
use crate::model::generator::{Generator, Random, Wanted, Words, encoded};
use crate::server::{self, Kind, Server};
use crate::shell::{Failure, Shell};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs `hangs` with the options of the command line.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut arguments = Arguments::new(arguments);
    let seconds = match arguments.number("--seconds", 0)? {
        0 => arguments.number("--minutes", MINUTES)? * 60,
        seconds => seconds,
    };
    let lanes = arguments.number("--lanes", 4)?;
    let seed = arguments.number("--seed", 1)?;
    let clients = arguments.number("--clients", CLIENTS)?;
    let binary = arguments.value("--binary")?.map(PathBuf::from);
    arguments.end()?;
    let shell = Shell::new(root);
    let binary = match binary {
        Some(binary) => binary,
        None => server::build(&shell)?,
    };
    let folder = std::env::temp_dir().join(format!("tidewire-hangs-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| Failure::new(error.to_string()))?;
    let lanes = u16::try_from(lanes).unwrap_or(u16::MAX).clamp(1, 64);
    let fuzzed = fuzz(&binary, &folder, lanes, seed, clients, seconds);
    let _ = fs::remove_dir_all(&folder);
    fuzzed
}

/// The state that all threads share.
#[derive(Debug)]
struct Session {
    port: u16,
    lanes: u16,
    ends: Instant,
    /// Commands of the server.
    commands: Vec<String>,
    sent: AtomicU64,
    connections: AtomicU64,
    /// Connections that were closed in the middle of something.
    left: AtomicU64,
    killed: AtomicU64,
    pings: AtomicU64,
    slowest_ms: AtomicU64,
    has_failed: AtomicBool,
    failure: Mutex<String>,
}

fn fuzz(
    binary: &Path,
    folder: &Path,
    lanes: u16,
    seed: u64,
    clients: u64,
    seconds: u64,
) -> Result<(), Failure> {
    let mut server = Server::start(&Kind::tidewire(binary, lanes), folder)?;
    let session = Session {
        port: server.port(),
        lanes,
        ends: Instant::now() + Duration::from_secs(seconds),
        commands: known_commands(server.port())?,
        sent: AtomicU64::new(0),
        connections: AtomicU64::new(0),
        left: AtomicU64::new(0),
        killed: AtomicU64::new(0),
        pings: AtomicU64::new(0),
        slowest_ms: AtomicU64::new(0),
        has_failed: AtomicBool::new(false),
        failure: Mutex::new(String::new()),
    };
    println!("{lanes} lanes, seed {seed}, {clients} clients, {seconds} s");
    thread::scope(|scope| {
        for number in 0..clients {
            let session = &session;
            scope.spawn(move || session.disturb(seed.wrapping_mul(1_000).wrapping_add(number)));
        }
        // Connections are distributed in turn, so that some of these are on each lane.
        for _ in 0..2 * lanes {
            scope.spawn(|| session.watch());
        }
        scope.spawn(|| session.kill_scripts());
    });
    session.print();
    let failure = session.failure.lock().map_or_else(
        |poisoned| poisoned.into_inner().clone(),
        |failure| failure.clone(),
    );
    let failure = match failure.is_empty() {
        true => end(&mut server, session.port).err(),
        false => Some(failure),
    };
    match failure {
        None => Ok(()),
        Some(failure) => Err(Failure::new(format!("{failure}\n{}", server.last_words()))),
    }
}

/// Sends SIGTERM while an endless script runs. The server must end.
fn end(server: &mut Server, port: u16) -> Result<(), String> {
    let mut script = Connection::open(port)?;
    script.send(&[words(&["EVAL", "while true do end", "0"])])?;
    thread::sleep(Duration::from_millis(200));
    server.terminate().map_err(|failure| failure.to_string())?;
    let begin = Instant::now();
    while begin.elapsed() < SILENCE_MAX {
        if server.ended().is_some() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err("it does not obey SIGTERM".to_owned())
}

impl Session {
    fn goes_on(&self) -> bool {
        !self.has_failed.load(Ordering::Relaxed) && Instant::now() < self.ends
    }

    fn fail(&self, text: &str) {
        if !self.has_failed.swap(true, Ordering::AcqRel)
            && let Ok(mut failure) = self.failure.lock()
        {
            text.clone_into(&mut failure);
        }
    }

    /// Sends random commands, and disconnects at random moments.
    fn disturb(&self, seed: u64) {
        let mut random = Random::new(seed);
        let mut generator = Generator::new(seed, &Wanted::newest());
        while self.goes_on() {
            let Some(mut connection) = self.open() else {
                return;
            };
            for _ in 0..1 + random.below(200) {
                if !self.goes_on() {
                    return;
                }
                let commands = self.commands(&mut random, &mut generator);
                self.sent
                    .fetch_add(commands.len() as u64, Ordering::Relaxed);
                if random.is_one_in(60) {
                    connection.send_part(&commands, &mut random);
                    self.left.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                let patience = Duration::from_millis(1 + random.below(60) as u64);
                let is_sent = connection.send(&commands).is_ok();
                if !is_sent || !connection.drain(commands.len(), patience) {
                    // The connection is closed or waits; it is then dropped, or waits a while
                    // longer.
                    if !is_sent || random.is_one_in(2) {
                        self.left.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                }
            }
        }
    }

    fn commands(&self, random: &mut Random, generator: &mut Generator) -> Vec<Words> {
        match random.below(10) {
            0 => vec![words::any(random, &self.commands)],
            1..4 => words::special(random),
            4 => {
                let many = 1 + random.below(30);
                let steps = (0..many).flat_map(|_| generator.step().commands);
                steps.collect()
            }
            _ => generator.step().commands,
        }
    }

    /// Opens a connection. Returns `None` if the server does not accept one.
    fn open(&self) -> Option<Connection> {
        let begin = Instant::now();
        loop {
            match Connection::open(self.port) {
                Ok(connection) => {
                    self.connections.fetch_add(1, Ordering::Relaxed);
                    return Some(connection);
                }
                Err(error) if begin.elapsed() > SILENCE_MAX => {
                    self.fail(&format!("no connection: {error}"));
                    return None;
                }
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Sends PING repeatedly. Any reply is accepted, but there must be one.
    fn watch(&self) {
        let mut connection: Option<Connection> = None;
        while self.goes_on() {
            let Some(mut own) = connection.take().or_else(|| self.open()) else {
                return;
            };
            let begin = Instant::now();
            let answer = own
                .send(&[words(&["PING"])])
                .map(|()| own.line(SILENCE_MAX));
            let took = begin.elapsed();
            let ms = took.as_millis() as u64;
            self.slowest_ms.fetch_max(ms, Ordering::Relaxed);
            self.pings.fetch_add(1, Ordering::Relaxed);
            match answer {
                Ok(Some(_)) => connection = Some(own),
                // The connection was killed, as others are.
                Ok(None) if took < SILENCE_MAX => {}
                Err(_) => {}
                Ok(None) => return self.fail("a lane does not answer PING"),
            }
            thread::sleep(WATCH_INTERVAL);
        }
    }

    /// Kills scripts that run too long.
    fn kill_scripts(&self) {
        while self.goes_on() {
            let Some(mut connection) = self.open() else {
                return;
            };
            let mut ask = |text: &[&str]| {
                let sent = connection.send(&[words(text)]);
                sent.ok().and_then(|()| connection.line(SILENCE_MAX))
            };
            let busy_since = Instant::now();
            while self.goes_on() {
                let Some(answer) = ask(&["PING"]) else {
                    break;
                };
                if !answer.starts_with("-BUSY") {
                    break;
                }
                if busy_since.elapsed() > SILENCE_MAX {
                    self.fail("a script does not end, and cannot be killed");
                }
                let killed = [["SCRIPT", "KILL"], ["FUNCTION", "KILL"]]
                    .iter()
                    .filter_map(|text| ask(text))
                    .any(|answer| answer.starts_with("+OK"));
                self.killed.fetch_add(u64::from(killed), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(20));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn print(&self) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        println!(
            "{} lanes: {} commands, {} connections, {} left in the middle, {} scripts killed, \
             {} PINGs, the slowest {} ms, {} hangs",
            self.lanes,
            read(&self.sent),
            read(&self.connections),
            read(&self.left),
            read(&self.killed),
            read(&self.pings),
            read(&self.slowest_ms),
            u8::from(self.has_failed.load(Ordering::Relaxed))
        );
    }
}

/// A client that ignores replies.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    fn open(port: u16) -> Result<Self, String> {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let stream = TcpStream::connect_timeout(&address, SILENCE_MAX);
        let stream = stream.map_err(|error| error.to_string())?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_write_timeout(Some(WRITE_MAX)))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            stream,
            received: Vec::new(),
        })
    }

    fn send(&mut self, commands: &[Words]) -> Result<(), String> {
        let bytes = encoded(commands);
        self.stream
            .write_all(&bytes)
            .map_err(|error| error.to_string())
    }

    /// Sends only a part of the commands.
    fn send_part(&mut self, commands: &[Words], random: &mut Random) {
        let bytes = encoded(commands);
        let part = random.below(bytes.len() + 1);
        // The client disconnects anyway.
        let _ = self.stream.write_all(&bytes[..part]);
    }

    /// Reads until about this many replies have arrived. Returns false if they do not arrive within
    /// `patience`.
    fn drain(&mut self, replies: usize, patience: Duration) -> bool {
        let mut lines = 0;
        let mut chunk = [0; 65_536];
        let _ = self.stream.set_read_timeout(Some(patience));
        while lines < replies {
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return false,
                Ok(count) => {
                    lines += chunk[..count].iter().filter(|&&byte| byte == b'\n').count();
                }
            }
        }
        true
    }

    /// Returns the next line, or `None` if the connection has ended or nothing arrived in time.
    fn line(&mut self, patience: Duration) -> Option<String> {
        let mut chunk = [0; 4_096];
        self.stream.set_read_timeout(Some(patience)).ok()?;
        loop {
            if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}

fn words(text: &[&str]) -> Words {
    text.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn known_commands(port: u16) -> Result<Vec<String>, Failure> {
    let mut connection = Connection::open(port).map_err(Failure::new)?;
    let asked = connection.send(&[
        words(&["CONFIG", "SET", "busy-reply-threshold", "50"]),
        words(&["COMMAND", "LIST"]),
    ]);
    asked.map_err(Failure::new)?;
    let mut line = || connection.line(SILENCE_MAX);
    let count = line()
        .filter(|answer| answer == "+OK")
        .and_then(|_| line()?.strip_prefix('*')?.parse::<usize>().ok());
    let count = count.ok_or_else(|| Failure::new("COMMAND LIST is not answered"))?;
    let names = (0..count).map_while(|_| line().and_then(|_| line()));
    let is_allowed = |name: &String| !words::LEFT_OUT.contains(&name.to_lowercase().as_str());
    Ok(names.filter(is_allowed).collect())
}

const MINUTES: u64 = 10;
const CLIENTS: u64 = 12;
/// A lane without a reply for longer than this hangs.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const WATCH_INTERVAL: Duration = Duration::from_millis(10);
/// How long a client tries to send to a server that does not read.
const WRITE_MAX: Duration = Duration::from_millis(200);
