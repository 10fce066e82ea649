//! This server as a replica: it follows another one's stream on a thread of its own.
//!
//! The thread connects, asks to go on where it was or for everything, and executes what comes as
//! any lane would. While there is a master, clients may only read.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidewire_keyspace::{Audience, FileReader, FileRecord, LoadOptions};
use tidewire_resp::number::parse_integer;
use tracing::{info, warn};

use super::applying::Applier;
use crate::hub::{Hub, unix_ms};

/// The server that this one follows, and how that goes.
#[derive(Debug)]
pub(crate) struct Master {
    pub(crate) host: String,
    pub(crate) port: u16,
    state: AtomicU8,
    /// Offset behind the last byte that was executed.
    offset: AtomicU64,
    /// When it was last heard of, ms since the UNIX epoch.
    heard_ms: AtomicI64,
    is_over: AtomicBool,
    /// The keys that were here are gone, and not all of its own have come.
    is_replacing: AtomicBool,
    /// To end a read that waits.
    socket: Mutex<Option<TcpStream>>,
}

/// How far the link with the master is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Connecting = 0,
    /// The file of all keys is on its way.
    Loading = 1,
    Connected = 2,
}

impl LinkState {
    /// As ROLE has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LinkState::Connecting => "connect",
            LinkState::Loading => "sync",
            LinkState::Connected => "connected",
        }
    }
}

impl Master {
    pub(crate) fn new(host: String, port: u16) -> Self {
        Master {
            host,
            port,
            state: AtomicU8::new(LinkState::Connecting as u8),
            offset: AtomicU64::new(0),
            heard_ms: AtomicI64::new(unix_ms()),
            is_over: AtomicBool::new(false),
            is_replacing: AtomicBool::new(false),
            socket: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> LinkState {
        match self.state.load(Ordering::Acquire) {
            0 => LinkState::Connecting,
            1 => LinkState::Loading,
            _ => LinkState::Connected,
        }
    }

    /// Whether its keys are being loaded in the place of those that were here.
    pub(crate) fn is_replacing(&self) -> bool {
        self.is_replacing.load(Ordering::Acquire)
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset.load(Ordering::Acquire)
    }

    /// Since it was last heard of, seconds.
    pub(crate) fn silent_s(&self) -> i64 {
        ((unix_ms() - self.heard_ms.load(Ordering::Relaxed)) / 1_000).max(0)
    }

    /// It is followed no more.
    pub(crate) fn leave(&self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(socket) = self.socket.lock().take() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// CLIENT KILL: the connection is made anew. `is_it` is asked with its address; whether there
    /// was one and it was it.
    pub(crate) fn reconnect(&self, is_it: impl FnOnce(&str) -> bool) -> bool {
        let socket = self.socket.lock();
        let Some(socket) = socket.as_ref() else {
            return false;
        };
        let is_it = socket.peer_addr().is_ok_and(|it| is_it(&it.to_string()));
        if is_it {
            let _ = socket.shutdown(Shutdown::Both);
        }
        is_it
    }

    /// Follows it until [`leave`](Self::leave), whatever happens to the connection.
    pub(crate) fn follow(self: Arc<Self>, hub: Arc<Hub>) {
        let run = move || {
            let mut link = Link {
                master: &self,
                hub: &hub,
                history: None,
                applier: Applier::new(&hub),
                buffer: Vec::new(),
                on_disk: 0,
                unsynced: None,
            };
            while !self.is_over() {
                if let Err(error) = link.run()
                    && !self.is_over()
                {
                    warn!(host = %self.host, port = self.port, %error, "the master is lost");
                }
                self.set_state(LinkState::Connecting);
                if !self.is_over() {
                    std::thread::sleep(RETRY_AFTER);
                }
            }
            let _applying = hub.replication.applying.lock();
            if hub.replication.master().is_none() {
                hub.durability.resume_log(&hub);
            }
        };
        let thread = std::thread::Builder::new().name("master".into());
        if let Err(error) = thread.spawn(run) {
            warn!(%error, "no thread to follow the master");
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn set_state(&self, state: LinkState) {
        self.state.store(state as u8, Ordering::Release);
    }
}

/// One connection to the master after the other.
struct Link<'a> {
    master: &'a Master,
    hub: &'a Hub,
    /// The name of the history that was followed, to go on with it.
    history: Option<String>,
    applier: Applier<'a>,
    /// What has come and was not read.
    buffer: Vec<u8>,
    /// Offset behind all that is on this server's disk.
    on_disk: u64,
    /// What the disk is waited for: an offset, and where that is in the append-only file.
    unsynced: Option<(u64, u64)>,
}

impl Link<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut socket = self.connect()?;
        self.greet(&mut socket)?;
        let (history, next) = match &self.history {
            Some(history) => (history.clone(), self.master.offset() as i64 + 1),
            None => ("?".to_owned(), -1),
        };
        let request = ["PSYNC", &history, &next.to_string()];
        let answer = self.ask(&mut socket, &request)?;
        let words: Vec<&str> = answer.split(' ').collect();
        // The link to the master before may still be at its last commands.
        let hub = self.hub;
        let _applying = hub.replication.applying.lock();
        if self.master.is_over() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match words.as_slice() {
            ["+CONTINUE"] => {}
            ["+CONTINUE", history] => self.history = Some((*history).to_owned()),
            ["+FULLRESYNC", history, offset] => {
                let offset = offset.parse().map_err(|_| unexpected(&answer))?;
                self.history = None;
                (self.on_disk, self.unsynced) = (0, None);
                self.master.set_state(LinkState::Loading);
                // What is loaded is not told to the append-only file: it begins anew with it.
                self.hub.durability.suspend_log(self.hub);
                let loaded = self.load(&mut socket);
                self.master.is_replacing.store(false, Ordering::Release);
                loaded?;
                self.hub.durability.resume_log(self.hub);
                self.history = Some((*history).to_owned());
                self.master.offset.store(offset, Ordering::Release);
                self.applier.restart();
            }
            _ => return Err(unexpected(&answer)),
        }
        info!(host = %self.master.host, port = self.master.port, "the master is followed");
        self.master.set_state(LinkState::Connected);
        self.acknowledge(&mut socket)?;
        self.follow_stream(&mut socket)
    }

    fn connect(&mut self) -> io::Result<TcpStream> {
        self.buffer.clear();
        let timeout = Duration::from_secs(self.hub.parameters.number("repl-timeout").max(1));
        let mut addresses = (&*self.master.host, self.master.port).to_socket_addrs()?;
        let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
        let timeout = timeout.min(CONNECT_TIME_MAX);
        let source = self.hub.parameters.text("bind-source-addr").parse();
        let socket = match source {
            Ok(source) => tidewire_lane::connect_from(source, address, timeout)?,
            Err(_) => TcpStream::connect_timeout(&address, timeout)?,
        };
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(ACKNOWLEDGE_EVERY))?;
        *self.master.socket.lock() = Some(socket.try_clone()?);
        match self.master.is_over() {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(socket),
        }
    }

    /// Tells the master who comes.
    fn greet(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let parameters = &self.hub.parameters;
        let password = parameters.text("masterauth");
        if !password.is_empty() {
            let user = parameters.text("masteruser");
            let answer = match user.is_empty() {
                true => self.ask(socket, &["AUTH", &password])?,
                false => self.ask(socket, &["AUTH", &user, &password])?,
            };
            if !answer.starts_with('+') {
                warn!("Unable to AUTH to MASTER: {answer}");
                return Err(unexpected(&answer));
            }
        }
        self.ask(socket, &["PING"])?;
        let port = parameters.number("port").to_string();
        let answer = self.ask(socket, &["REPLCONF", "listening-port", &port])?;
        expect_ok(&answer)?;
        let request = ["REPLCONF", "capa", "eof", "capa", "psync2"];
        expect_ok(&self.ask(socket, &request)?)
    }

    /// Takes the file of all keys in the place of those that are here.
    fn load(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let head = self.line(socket)?;
        let size = head.strip_prefix('$').ok_or_else(|| unexpected(&head))?;
        let mark = size.strip_prefix("EOF:").map(str::to_owned);
        self.hub.replication.disconnect(self.hub);
        self.master.is_replacing.store(true, Ordering::Release);
        self.hub.keyspace.clear();
        self.hub.scripting.libraries.flush();
        let mut reader = FileReader::new(true);
        let mut keys = 0u64;
        loop {
            reader.push(&self.buffer);
            self.buffer.clear();
            if self.read_records(&mut reader, &mut keys)? {
                break;
            }
            self.fill(socket)?;
        }
        self.buffer = reader.rest().to_vec();
        if let Some(mark) = mark {
            while self.buffer.len() < mark.len() {
                self.fill(socket)?;
            }
            if !self.buffer.starts_with(mark.as_bytes()) {
                return Err(unexpected("the end of the file"));
            }
            self.buffer.drain(..mark.len());
        }
        info!(keys, "the master's keys are loaded");
        Ok(())
    }

    /// Takes what there is of the file; true at its end.
    fn read_records(&mut self, reader: &mut FileReader, keys: &mut u64) -> io::Result<bool> {
        let options = LoadOptions {
            drops_expired: false,
            replaces: true,
            now_ms: unix_ms(),
        };
        let broken = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
        while let Some(record) = reader
            .next_record()
            .map_err(|error| broken(error.to_string()))?
        {
            match record {
                FileRecord::Key(record) => {
                    let loaded = self.hub.keyspace.load(&record, options);
                    loaded.map_err(|error| broken(error.to_string()))?;
                    *keys += 1;
                }
                FileRecord::Library(code) => self.applier.load_library(&code, true),
                FileRecord::End => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Executes what comes, and says how far it has come.
    fn follow_stream(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let silent_s_max = self.hub.parameters.number("repl-timeout") as i64;
        let mut acknowledged_ms = unix_ms();
        loop {
            let taken = self.applier.take(&self.buffer);
            let taken = taken.map_err(|error| unexpected(&error.to_string()))?;
            self.buffer.drain(..taken);
            let offset = self.master.offset() + taken as u64;
            self.master.offset.store(offset, Ordering::Release);
            let now_ms = unix_ms();
            let is_asked = std::mem::take(&mut self.applier.is_asked);
            if is_asked || now_ms - acknowledged_ms >= ACKNOWLEDGE_EVERY.as_millis() as i64 {
                acknowledged_ms = now_ms;
                self.acknowledge(socket)?;
            }
            if self.master.silent_s() > silent_s_max {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.fill_or_wait(socket)?;
        }
    }

    fn acknowledge(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let (log, offset) = (&self.hub.durability.log, self.master.offset());
        let text = offset.to_string();
        if !log.is_on() {
            return socket.write_all(&request(&["REPLCONF", "ACK", &text]));
        }
        if let Some((offset, _)) = self.unsynced.take_if(|(_, end)| log.has_synced(*end)) {
            self.on_disk = offset;
        }
        let end = self
            .hub
            .keyspace
            .propagation()
            .log(Audience::File)
            .changed();
        match log.has_synced(end) {
            true => self.on_disk = offset,
            false => _ = self.unsynced.get_or_insert((offset, end)),
        }
        let on_disk = self.on_disk.to_string();
        socket.write_all(&request(&["REPLCONF", "ACK", &text, "FACK", &on_disk]))
    }

    fn ask(&mut self, socket: &mut TcpStream, words: &[&str]) -> io::Result<String> {
        socket.write_all(&request(words))?;
        self.line(socket)
    }

    /// The next line that is not empty: empty ones only say that the master is there.
    fn line(&mut self, socket: &mut TcpStream) -> io::Result<String> {
        loop {
            while let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let line = line.trim_end_matches(['\r', '\n']);
                if !line.is_empty() {
                    return Ok(line.to_owned());
                }
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(unexpected("a line without end"));
            }
            self.fill(socket)?;
        }
    }

    /// Reads more, and waits for it as long as `repl-timeout` allows.
    fn fill(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let silent_s_max = self.hub.parameters.number("repl-timeout") as i64;
        self.master.heard_ms.store(unix_ms(), Ordering::Relaxed);
        while !self.fill_or_wait(socket)? {
            if self.master.silent_s() > silent_s_max {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// Reads more; false if nothing has come for a while.
    fn fill_or_wait(&mut self, socket: &mut TcpStream) -> io::Result<bool> {
        let start = self.buffer.len();
        self.buffer.resize(start + READ_BYTES, 0);
        let read = socket.read(&mut self.buffer[start..]);
        self.buffer.truncate(start + *read.as_ref().unwrap_or(&0));
        if self.master.is_over() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                self.master.heard_ms.store(unix_ms(), Ordering::Relaxed);
                Ok(true)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(false),
                io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            },
        }
    }
}

fn expect_ok(answer: &str) -> io::Result<()> {
    match answer.starts_with('+') {
        true => Ok(()),
        false => Err(unexpected(answer)),
    }
}

fn unexpected(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it said: {text}"))
}

fn request(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len());
    for word in words {
        out.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    out.into_bytes()
}

/// The port that REPLICAOF names.
pub(crate) fn parse_port(text: &[u8]) -> Option<u16> {
    u16::try_from(parse_integer(text)?).ok()
}

/// How often the master is told how far we are.
const ACKNOWLEDGE_EVERY: Duration = Duration::from_secs(1);
const RETRY_AFTER: Duration = Duration::from_millis(500);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 << 10;
/// The longest answer to a request of ours.
const LINE_BYTES_MAX: usize = 64 << 10;
