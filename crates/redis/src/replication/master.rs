//! This server as a replica: it follows another one's stream on a thread of its own.
//!
//! The thread connects, asks to go on where it was or for everything, and executes what comes as
//! any lane would. Byte for byte it is passed on to the replicas of this server, so that they share
//! the master's history. While there is a master, clients may only read.

use std::io::{self, Read, Write};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidewire_keyspace::{Audience, DATABASES, FileReader, FileRecord, LoadOptions, Loaded};
use tidewire_resp::number::parse_integer;
use tidewire_resp::write_request;
use tracing::{info, warn};

use super::NEWEST_FILES;
use super::applying::StreamApplier;
use super::fence::Fence;
use super::log_of;
use super::socket::MasterSocket;
use super::state::{LinkState, Master, StreamPosition, is_history_id, parse_offset};
use super::transfer::Transfer;
use crate::durability::load_slowly;
use crate::live::LiveObserver;
use crate::parameters::{
    BIND_SOURCE_ADDR, KEY_LOAD_DELAY, MASTERAUTH, MASTERUSER, PORT, REPL_TIMEOUT,
    REPLICA_ANNOUNCE_IP, REPLICA_ANNOUNCE_PORT, TLS_PORT, TLS_REPLICATION,
};
use crate::replication::state::Arriving;
use crate::server::Server;
use tidewire_lane::{instant, unix_ms};
use tidewire_retry::Repeated;

impl Master {
    pub(crate) fn new(host: String, port: u16, is_successor: bool) -> Self {
        Master {
            host,
            port,
            state: AtomicU8::new(LinkState::Connecting as u8),
            heard_ms: AtomicI64::new(unix_ms()),
            down_since_ms: AtomicI64::new(0),
            is_successor,
            is_over: AtomicBool::new(false),
            is_handing_over: AtomicBool::new(false),
            owes_conf: AtomicBool::new(false),
            is_replacing: AtomicBool::new(false),
            unexecuted: AtomicU64::new(0),
            arriving: Arriving::default(),
            socket: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> LinkState {
        match self.state.load(Ordering::Acquire) {
            0 => LinkState::Connecting,
            1 => LinkState::Handshake,
            2 => LinkState::Loading,
            _ => LinkState::Connected,
        }
    }

    /// Whether its keys are being loaded in the place of those that were here.
    pub(crate) fn is_replacing(&self) -> bool {
        self.is_replacing.load(Ordering::Acquire)
    }

    /// Bytes of its stream that are here and not executed yet.
    pub(crate) fn unexecuted_bytes(&self) -> u64 {
        self.unexecuted.load(Ordering::Relaxed)
    }

    /// As the parameter `replicaof` has it.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.host, self.port)
    }

    /// Since it was last heard of, seconds.
    pub(crate) fn silent_s(&self) -> i64 {
        ((unix_ms() - self.heard_ms.load(Ordering::Relaxed)) / 1_000).max(0)
    }

    /// Since the link went down, seconds; -1 if it was never up.
    pub(crate) fn down_s(&self) -> i64 {
        match self.down_since_ms.load(Ordering::Relaxed) {
            0 => -1,
            since_ms => ((unix_ms() - since_ms) / 1_000).max(0),
        }
    }

    /// Notes that the link is down from now on.
    pub(super) fn note_down(&self) {
        self.down_since_ms.store(unix_ms(), Ordering::Relaxed);
    }

    /// It is followed no more.
    pub(crate) fn leave(&self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(socket) = self.socket.lock().take() {
            socket.shut_down();
        }
    }

    /// CLIENT KILL: closes the connection if `is_it` accepts its address; the link then reconnects.
    /// Returns whether it was closed.
    pub(crate) fn reconnect(&self, is_it: impl FnOnce(&str) -> bool) -> bool {
        let socket = self.socket.lock();
        let Some(socket) = socket.as_ref() else {
            return false;
        };
        let address = socket.peer_address();
        let is_it = address.is_some_and(|it| is_it(&it.to_string()));
        if is_it {
            socket.shut_down();
        }
        is_it
    }

    /// Follows it until [`leave`](Self::leave), over any number of connections.
    pub(crate) fn follow(self: Arc<Self>, server: Arc<Server>) {
        let background = server.durability.background.clone();
        let run = move || {
            let mut link = Link {
                master: &self,
                server: &server,
                applier: StreamApplier::new(&server, &self),
                buffer: Vec::new(),
                on_disk: 0,
                unsynced: None,
            };
            let mut lost = Repeated::default();
            self.wait_for_start(&server);
            while !self.is_over() {
                server.sleep_along();
                let result = link.run();
                if self.state() == LinkState::Connected {
                    lost.works();
                    self.note_down();
                }
                if let Err(error) = result
                    && !self.is_over()
                    && let Some((times, lasts)) = lost.failed(instant())
                {
                    let seconds = lasts.as_secs();
                    let (host, port) = (&self.host, self.port);
                    warn!(%host, port, %error, times, seconds, "the master is lost");
                }
                self.set_state(LinkState::Connecting);
                if !self.is_over() {
                    server.durability.background.pause(RETRY_AFTER);
                }
            }
            let background = &server.durability.background;
            let _applying = background.lock(&server.replication.applying);
            if server.replication.master().is_none() {
                server.durability.resume_log(&server);
            }
        };
        if let Err(error) = background.spawn("master", run) {
            warn!(%error, "no thread to follow the master");
        }
    }

    /// Waits until the keys are loaded, and until what lanes have begun as a master's is done; from
    /// then on the stream is the new master's.
    fn wait_for_start(&self, server: &Server) {
        while server.durability.is_loading() && !self.is_over() {
            server.durability.background.pause(LOOK_EVERY);
        }
        if Fence::new(server).wait(server, || self.is_over()) {
            // Those whose commands were under way when this server was demoted.
            server.replication.unblock_clients(server);
            let _stream = server.replication.hold_stream();
            if !self.is_over() && log_of(server).is_open() {
                server.keyspace.propagation().relay(Audience::Replicas);
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn set_state(&self, state: LinkState) {
        debug_assert!(
            state == LinkState::Connecting || self.state() as u8 <= state as u8,
            "the states of a connection follow each other"
        );
        self.state.store(state as u8, Ordering::Release);
    }
}

/// One connection to the master after the other.
struct Link<'a> {
    master: &'a Master,
    server: &'a Server,
    applier: StreamApplier<'a>,
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
        self.master.set_state(LinkState::Handshake);
        self.greet(&mut socket)?;
        // The link to the master before may still be at its last commands.
        let server = self.server;
        let background = &server.durability.background;
        let _applying = background.lock(&server.replication.applying);
        if self.master.is_over() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let has_stream = log_of(server).is_open();
        let answer = self.ask_for_stream(&mut socket)?;
        let words: Vec<&str> = answer.split(' ').collect();
        if words.get(1).is_some_and(|id| !is_history_id(id.as_bytes())) {
            return Err(unexpected(&answer));
        }
        match words.as_slice() {
            // Of what it would go on, there is nothing here.
            ["+CONTINUE", ..] if !has_stream => return Err(unexpected(&answer)),
            ["+CONTINUE"] => {}
            ["+CONTINUE", id] if *id != server.replication.id() => {
                server.replication.rename_history(server, (*id).to_owned());
                // Those that follow this server must hear of the name.
                server.replication.disconnect(server);
            }
            ["+CONTINUE", _] => {}
            ["+FULLRESYNC", id, offset] => {
                let offset = parse_offset(offset.as_bytes()).ok_or_else(|| unexpected(&answer))?;
                self.take_everything(&mut socket, id, offset)?;
            }
            _ => return Err(unexpected(&answer)),
        }
        // A full sync that came to nothing may have ended the append-only file.
        server.durability.resume_log(server);
        self.applier.restart(log_of(server).database().unwrap_or(0));
        info!(host = %self.master.host, port = self.master.port, "the master is followed");
        self.master.set_state(LinkState::Connected);
        self.acknowledge(&mut socket)?;
        self.follow_stream(&mut socket)
    }

    /// Asks to go on where the stream is here; for everything if there is none.
    fn ask_for_stream(&mut self, socket: &mut MasterSocket) -> io::Result<String> {
        let (server, replication) = (self.server, &self.server.replication);
        let (id, next) = match log_of(server).is_open() {
            true => (replication.id(), log_of(server).end() as i64 + 1),
            false => ("?".to_owned(), -1),
        };
        let next = next.to_string();
        let is_told = self.master.is_successor && replication.failover.is_under_way();
        if !is_told {
            return self.ask(socket, &["PSYNC", &id, &next]);
        }
        let answer = self.ask(socket, &["PSYNC", &id, &next, "FAILOVER"])?;
        let accepts = answer.starts_with("+CONTINUE") || answer.starts_with("+FULLRESYNC");
        let result = match accepts {
            true => Ok(()),
            false => Err("Failover target rejected psync request"),
        };
        replication.end_failover(server, result);
        match accepts {
            true => Ok(answer),
            false => Err(unexpected(&answer)),
        }
    }

    /// A full sync: all keys in the place of those that are here, and the stream behind them.
    fn take_everything(
        &mut self,
        socket: &mut MasterSocket,
        id: &str,
        offset: u64,
    ) -> io::Result<()> {
        let server = self.server;
        self.master.arriving.announce();
        self.master.set_state(LinkState::Loading);
        let file = self.receive(socket)?;
        (self.on_disk, self.unsynced) = (0, None);
        let database = self.load(socket, file)?;
        let stream = server.replication.hold_stream();
        if self.master.is_over() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let id = id.to_owned();
        let position = StreamPosition {
            id,
            offset,
            database,
        };
        server.replication.adopt(server, position);
        drop(stream);
        server.durability.resume_log(server);
        Ok(())
    }

    fn connect(&mut self) -> io::Result<MasterSocket> {
        self.buffer.clear();
        let timeout = Duration::from_secs(self.server.parameters.read(REPL_TIMEOUT).max(1));
        let timeout = timeout.min(CONNECT_TIME_MAX);
        let (host, port) = (&self.master.host, self.master.port);
        let mut socket = dial_with(self.server, host, port, timeout, |socket| {
            *self.master.socket.lock() = Some(socket.try_clone()?);
            Ok(())
        })?;
        socket.set_read_timeout(ACKNOWLEDGE_EVERY)?;
        match self.master.is_over() {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(socket),
        }
    }

    /// Sends the handshake: AUTH, PING, and REPLCONF with this server's port and capabilities.
    fn greet(&mut self, socket: &mut MasterSocket) -> io::Result<()> {
        let parameters = &self.server.parameters;
        let password = parameters.read(MASTERAUTH);
        if !password.is_empty() {
            let user = parameters.read(MASTERUSER);
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
        let port = announced_port(self.server).to_string();
        let answer = self.ask(socket, &["REPLCONF", "listening-port", &port])?;
        expect_ok(&answer)?;
        let announced = parameters.read(REPLICA_ANNOUNCE_IP);
        if !announced.is_empty() {
            // A master that does not know it refuses it, and shows the address that it sees.
            let _ = self.ask(socket, &["REPLCONF", "ip-address", &announced])?;
        }
        let request = [
            "REPLCONF",
            "capa",
            "eof",
            "capa",
            "psync2",
            "capa",
            NEWEST_FILES,
        ];
        expect_ok(&self.ask(socket, &request)?)?;
        self.ask(socket, &["REPLCONF", "version", VALKEY_VERSION])?;
        Ok(())
    }

    /// Receives the file of all keys and checks its form. The old keys stay, and are served,
    /// until it is loaded.
    fn receive(&mut self, socket: &mut MasterSocket) -> io::Result<Box<dyn Read + Send>> {
        let head = self.line(socket)?;
        let transfer = Transfer::begin(self.server, self.master, &head)?;
        let mut transfer = transfer.ok_or_else(|| unexpected(&head))?;
        while !transfer.take(&mut self.buffer)? {
            self.fill(socket)?;
        }
        transfer.finish()
    }

    /// Puts the keys of a file in the place of those that are here; returns the database that the
    /// stream behind it begins in.
    fn load(&mut self, socket: &mut MasterSocket, file: Box<dyn Read + Send>) -> io::Result<usize> {
        let stream = self.server.replication.hold_stream();
        if self.master.is_over() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // The gate closes before the keyspace, and opens behind it.
        let was_replacing = self.master.is_replacing.swap(true, Ordering::AcqRel);
        debug_assert!(!was_replacing, "one file is loaded at a time");
        drop(stream);
        // The append-only file does not record what is loaded: it restarts with a new base.
        self.server.durability.suspend_log(self.server);
        self.server.replication.disconnect(self.server);
        self.server.keyspace.propagation().close(Audience::Replicas);
        self.server.keyspace.set_loading(true);
        let replaced = self.replace_all(socket, file);
        if replaced.is_err() {
            let _stream = self.server.replication.hold_stream();
            if !self.master.is_over() {
                // A part of the keys is useless: no client must take it for all of them.
                self.server.keyspace.clear(&mut LiveObserver(self.server));
                self.server.scripting.libraries.flush();
            }
        }
        self.server.keyspace.set_loading(false);
        self.master.is_replacing.store(false, Ordering::Release);
        self.server.post.owe_all_values();
        replaced
    }

    fn replace_all(
        &mut self,
        socket: &mut MasterSocket,
        mut file: Box<dyn Read + Send>,
    ) -> io::Result<usize> {
        info!("MASTER <-> REPLICA sync: Loading DB in memory");
        self.server.keyspace.clear(&mut LiveObserver(self.server));
        self.server.scripting.libraries.flush();
        let mut reader = FileReader::new(true);
        let left_out = self.server.keyspace.mounted_left_out();
        let (mut keys, mut database) = (0u64, 0);
        let mut part = vec![0; READ_BYTES];
        let mut told = instant();
        while !self.read_records(&mut reader, &mut keys, &mut database)? {
            match file.read(&mut part)? {
                0 => reader.finish(),
                count => reader.push(&part[..count]),
            }
            self.server.durability.background.let_others_run();
            // An empty line says that this server is there: it acknowledges nothing meanwhile.
            if instant() - told >= ACKNOWLEDGE_EVERY {
                told = instant();
                let _ = socket.write_all(b"\n");
            }
        }
        info!(keys, "the master's keys are loaded");
        let left_out = self.server.keyspace.mounted_left_out() - left_out;
        if left_out > 0 {
            warn!(
                left_out,
                "keys of the master are left out: a live source has their names"
            );
        }
        Ok(database)
    }

    /// Takes what there is of the file; true at its end.
    fn read_records(
        &mut self,
        reader: &mut FileReader,
        keys: &mut u64,
        database: &mut usize,
    ) -> io::Result<bool> {
        let mut stream = self.server.replication.hold_stream();
        if self.master.is_over() {
            return Err(io::ErrorKind::Interrupted.into());
        }
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
                    let loaded = self.server.keyspace.load(&record, options);
                    let loaded = loaded.map_err(|error| broken(error.to_string()))?;
                    *keys += u64::from(loaded == Loaded::Kept);
                    if self.server.parameters.read(KEY_LOAD_DELAY) > 0 {
                        drop(stream);
                        load_slowly(self.server);
                        stream = self.server.replication.hold_stream();
                    }
                }
                FileRecord::Library(code) => self.applier.load_library(&code, true),
                FileRecord::Aux { name, value } if *name == *b"repl-stream-db" => {
                    let number = parse_integer(&value).and_then(|one| usize::try_from(one).ok());
                    let number = number.filter(|&number| number < DATABASES);
                    *database = number.unwrap_or(0);
                }
                FileRecord::End => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Executes the stream, and acknowledges the offset.
    fn follow_stream(&mut self, socket: &mut MasterSocket) -> io::Result<()> {
        self.master.heard_ms.store(unix_ms(), Ordering::Relaxed);
        let mut acknowledged_ms = unix_ms();
        loop {
            let now_ms = unix_ms();
            let is_paused = self.server.pause.until_ms(now_ms).is_some();
            if !is_paused {
                let taken = self.applier.take(&self.buffer);
                let taken = taken.map_err(|error| unexpected(&error.to_string()))?;
                self.buffer.drain(..taken);
            }
            let unexecuted = self.buffer.len();
            let counter = &self.master.unexecuted;
            counter.store(unexecuted as u64, Ordering::Relaxed);
            let is_asked = std::mem::take(&mut self.applier.is_asked);
            if is_asked || now_ms - acknowledged_ms >= ACKNOWLEDGE_EVERY.as_millis() as i64 {
                acknowledged_ms = now_ms;
                self.acknowledge(socket)?;
            }
            self.check_silence()?;
            if is_paused && unexecuted > 0 {
                // The pause may end while nothing comes.
                self.server.durability.background.pause(LOOK_EVERY);
                if unexecuted > PAUSED_BYTES_MAX {
                    self.master.heard_ms.store(now_ms, Ordering::Relaxed);
                    continue;
                }
                socket.set_read_timeout(LOOK_EVERY)?;
                self.fill_or_wait(socket)?;
                socket.set_read_timeout(ACKNOWLEDGE_EVERY)?;
                continue;
            }
            self.fill_or_wait(socket)?;
        }
    }

    fn acknowledge(&mut self, socket: &mut MasterSocket) -> io::Result<()> {
        let (log, offset) = (&self.server.durability.log, log_of(self.server).end());
        let text = offset.to_string();
        if !log.is_on() {
            return socket.write_all(&request(&["REPLCONF", "ACK", &text]));
        }
        if let Some((offset, _)) = self.unsynced.take_if(|(_, end)| log.has_synced(*end)) {
            self.on_disk = offset;
        }
        let end = self
            .server
            .keyspace
            .propagation()
            .log(Audience::File)
            .changed();
        match log.has_synced(end) {
            true => self.on_disk = offset,
            false => _ = self.unsynced.get_or_insert((offset, end)),
        }
        debug_assert!(
            self.on_disk <= offset,
            "what is on the disk has been executed"
        );
        let on_disk = self.on_disk.to_string();
        socket.write_all(&request(&["REPLCONF", "ACK", &text, "FACK", &on_disk]))
    }

    fn ask(&mut self, socket: &mut MasterSocket, words: &[&str]) -> io::Result<String> {
        socket.write_all(&request(words))?;
        self.line(socket)
    }

    /// The next line that is not empty: empty ones only say that the master is there.
    fn line(&mut self, socket: &mut MasterSocket) -> io::Result<String> {
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
    fn fill(&mut self, socket: &mut MasterSocket) -> io::Result<()> {
        self.master.heard_ms.store(unix_ms(), Ordering::Relaxed);
        while !self.fill_or_wait(socket)? {
            self.check_silence()?;
        }
        Ok(())
    }

    /// Returns an error if the master was silent for `repl-timeout`, which may change at any time.
    fn check_silence(&self) -> io::Result<()> {
        let silent_s_max = self.server.parameters.read(REPL_TIMEOUT) as i64;
        match self.master.silent_s() > silent_s_max {
            true => Err(self.timed_out()),
            false => Ok(()),
        }
    }

    /// The error for a master that was silent for `repl-timeout`.
    fn timed_out(&self) -> io::Error {
        let text = match self.master.state() {
            LinkState::Loading => {
                "Timeout receiving bulk data from MASTER... If the problem persists try to set \
                 the 'repl-timeout' parameter to a larger value"
            }
            LinkState::Connected => "MASTER timeout: no data nor PING received...",
            _ => "Timeout connecting to the MASTER...",
        };
        io::Error::new(io::ErrorKind::TimedOut, text)
    }

    /// Reads more; false if nothing has come for a while.
    fn fill_or_wait(&mut self, socket: &mut MasterSocket) -> io::Result<bool> {
        self.server.sleep_along();
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

/// Connects to a master, with TLS if `tls-replication` is set.
pub(super) fn dial(
    server: &Server,
    host: &str,
    port: u16,
    timeout: Duration,
) -> io::Result<MasterSocket> {
    dial_with(server, host, port, timeout, |_| Ok(()))
}

/// The same; `connected` gets the connection before a handshake of TLS.
fn dial_with(
    server: &Server,
    host: &str,
    port: u16,
    timeout: Duration,
    connected: impl FnOnce(&MasterSocket) -> io::Result<()>,
) -> io::Result<MasterSocket> {
    let mut addresses = (host, port).to_socket_addrs()?;
    let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
    let source = server.parameters.read(BIND_SOURCE_ADDR).parse().ok();
    let background = &server.durability.background;
    let socket = MasterSocket::connect(background, source, address, timeout)?;
    connected(&socket)?;
    if !server.parameters.read(TLS_REPLICATION) {
        return Ok(socket);
    }
    let client = server.certificates.client();
    let client = client.ok_or_else(|| io::Error::other("no TLS settings are loaded"))?;
    socket.secure(&client, host, timeout)
}

/// The port that a master shows for this server.
pub(super) fn announced_port(server: &Server) -> u64 {
    let parameters = &server.parameters;
    match parameters.read(REPLICA_ANNOUNCE_PORT) {
        0 if parameters.read(TLS_REPLICATION) && parameters.read(TLS_PORT) != 0 => {
            parameters.read(TLS_PORT)
        }
        0 => parameters.read(PORT),
        announced => announced,
    }
}

fn expect_ok(answer: &str) -> io::Result<()> {
    match answer.starts_with('+') {
        true => Ok(()),
        false => Err(unexpected(answer)),
    }
}

fn unexpected(text: &str) -> io::Error {
    let text: String = text.chars().take(UNEXPECTED_CHARACTERS_MAX).collect();
    io::Error::new(io::ErrorKind::InvalidData, format!("it said: {text}"))
}

fn request(words: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    write_request(&mut out, words);
    out
}

/// How often the master gets an acknowledgement.
const ACKNOWLEDGE_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);
const RETRY_AFTER: Duration = Duration::from_millis(500);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// The version of Valkey that this server announces: the first that reads TTLs of fields.
/// A Redis does not ask, and refuses to hear it.
const VALKEY_VERSION: &str = "9.0.0";
const READ_BYTES: usize = 64 << 10;
/// While CLIENT PAUSE holds the master's changes no more than this is read ahead.
const PAUSED_BYTES_MAX: usize = 256 << 20;
/// Characters that are shown of an unexpected answer.
const UNEXPECTED_CHARACTERS_MAX: usize = 200;
/// The longest answer to a request of ours.
const LINE_BYTES_MAX: usize = 64 << 10;
