//! MIGRATE: keys move to another server, without a moment in which they are nowhere.
//!
//! A thread of its own sends what the keys were, and removes each once the other server has it;
//! but only what was sent: a key that was changed meanwhile is sent again. No shard is locked while
//! the other server is waited for.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use tidewire_keyspace::{Locked, ShardSet, lookup};
use tidewire_resp::number::parse_integer;
use tidewire_resp::{ArgumentList, Protocol, Writer, write_request};

use super::socket::MasterSocket;
use crate::live::LiveObserver;
use crate::parameters::TLS_CLUSTER;
use crate::server::Server;
use crate::waiting::WaitId;
use tidewire_lane::unix_ms;

/// What MIGRATE asks for.
#[derive(Clone, Debug)]
pub(crate) struct Migration {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) database: usize,
    /// The one of the other server.
    pub(crate) to_database: i64,
    pub(crate) timeout: Duration,
    pub(crate) copies: bool,
    pub(crate) replaces: bool,
    /// A password, perhaps behind a user's name.
    pub(crate) authentication: Vec<Vec<u8>>,
    pub(crate) keys: Vec<Vec<u8>>,
}

/// A key as it is: its payload, and when it ends, ms since the UNIX epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    payload: Vec<u8>,
    deadline_ms: Option<i64>,
}

impl Migration {
    /// Whether any of the keys is there.
    pub(crate) fn finds_any(&self, server: &Server) -> bool {
        let is_there = |key: &Vec<u8>| {
            let found = self.with_key(server, key, |own, locked| {
                own.execute(server, locked, &[b"EXISTS", key])
            });
            found == b":1\r\n"
        };
        self.keys.iter().any(is_there)
    }

    /// Moves the keys on a thread, and mails the reply to the client's lane.
    pub(crate) fn begin(self, server: &Server, wait: WaitId) -> io::Result<()> {
        let Some(server) = server.own.upgrade() else {
            return Ok(());
        };
        let thread = std::thread::Builder::new().name("migrate".into());
        let run = move || {
            let reply = match self.run(&server) {
                Ok(true) => "+OK\r\n".to_owned(),
                Ok(false) => "+NOKEY\r\n".to_owned(),
                Err(text) => format!("-{text}\r\n"),
            };
            let failed = reply.starts_with('-');
            server.answer_wait(wait, reply.into_bytes(), failed);
        };
        thread.spawn(run).map(drop)
    }

    /// Returns whether there was a key to move, or the text of the error. Keys that have arrived
    /// stay moved even after an error.
    fn run(&self, server: &Server) -> Result<bool, String> {
        let sockets = &server.replication.migration;
        let address = (self.host.clone(), self.port, self.authentication.clone());
        let has_tls = server.parameters.read(TLS_CLUSTER);
        let kept = sockets.take(&address);
        let kept = kept.filter(|socket| socket.is_secure() == has_tls);
        let is_kept = kept.is_some();
        let mut peer = match kept {
            Some(socket) => Peer::new(socket),
            None => self.connect(server)?,
        };
        let mut moved = self.move_keys(server, &mut peer);
        if is_kept && !peer.has_answered && moved.is_err() {
            // The peer had closed it since it was last used.
            peer = self.connect(server)?;
            moved = self.move_keys(server, &mut peer);
        }
        match moved {
            Ok(outcome) => {
                sockets.keep(address, peer.socket);
                outcome
            }
            Err(error) => Err(error),
        }
    }

    /// The inner result is that of the other server; the outer one is that of the connection.
    fn move_keys(&self, server: &Server, peer: &mut Peer) -> Result<Result<bool, String>, String> {
        peer.set_timeout(self.timeout)?;
        let mut heads: Vec<Vec<u8>> = Vec::new();
        if !self.authentication.is_empty() {
            let mut words = vec![&b"AUTH"[..]];
            words.extend(self.authentication.iter().map(Vec::as_slice));
            heads.push(request(&words));
        }
        let database = self.to_database.to_string();
        heads.push(request(&[b"SELECT", database.as_bytes()]));
        peer.send(&heads.concat())?;
        let mut errors = Vec::new();
        for _ in &heads {
            errors.extend(peer.error()?);
        }
        if let Some(error) = errors.first() {
            return Ok(Err(refused(error)));
        }
        let mut outcome = Ok(false);
        for keys in self.keys.chunks(KEYS_AT_ONCE) {
            let found = keys
                .iter()
                .filter_map(|key| Some((key, self.find(server, key)?)));
            let found: Vec<(&Vec<u8>, Found)> = found.collect();
            for (key, found) in &found {
                self.restore(peer, key, found, self.replaces)?;
            }
            let mut arrived = Vec::new();
            for (key, found) in found {
                match peer.error()? {
                    None => arrived.push((key, found)),
                    Some(error) if outcome.is_ok() => outcome = Err(refused(&error)),
                    Some(_) => {}
                }
            }
            for (key, found) in arrived {
                match self.remove(server, peer, key, found)? {
                    Ok(()) => outcome = outcome.map(|_| true),
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
        }
        Ok(outcome)
    }

    /// Removes a key that has arrived. One that is another now is sent again before.
    fn remove(
        &self,
        server: &Server,
        peer: &mut Peer,
        key: &[u8],
        mut sent: Found,
    ) -> Result<Result<(), String>, String> {
        if self.copies {
            return Ok(Ok(()));
        }
        let until = Instant::now() + self.timeout;
        loop {
            match self.remove_if_same(server, key, &sent) {
                Ok(After::Removed) => return Ok(Ok(())),
                Ok(After::Gone) => {
                    // A client has removed it and got its reply: it must not exist there either.
                    peer.send(&request(&[b"DEL", key]))?;
                    return Ok(peer.error()?.map_or(Ok(()), |error| Err(refused(&error))));
                }
                Ok(After::Changed(now)) => sent = now,
                Err(RemovalRefusal::Later) if Instant::now() < until => {
                    std::thread::sleep(LOOK_EVERY);
                    continue;
                }
                Err(refusal) => return Ok(Err(refusal.text())),
            }
            if Instant::now() >= until {
                return Ok(Err(CHANGES.to_owned()));
            }
            self.restore(peer, key, &sent, true)?;
            if let Some(error) = peer.error()? {
                return Ok(Err(refused(&error)));
            }
        }
    }

    /// Removes a key that is what was sent.
    fn remove_if_same(
        &self,
        server: &Server,
        key: &[u8],
        sent: &Found,
    ) -> Result<After, RemovalRefusal> {
        // No other part is taken meanwhile, and what a replica must have for that is all told.
        let _stream = server.replication.hold_stream();
        if server.replication.master().is_some() {
            return Err(RemovalRefusal::Never(READ_ONLY.to_owned()));
        }
        if server.replication.failover.is_on() || server.pause.until_ms(unix_ms()).is_some() {
            return Err(RemovalRefusal::Later);
        }
        let mut reply = Vec::new();
        let after = self.with_key(server, key, |own, locked| {
            match own.look(server, locked, key) {
                None => After::Gone,
                Some(now) if now == *sent => {
                    reply = own.execute(server, locked, &[b"DEL", key]);
                    After::Removed
                }
                Some(now) => After::Changed(now),
            }
        });
        match reply.strip_prefix(b"-") {
            Some(text) => {
                let text = String::from_utf8_lossy(text);
                Err(RemovalRefusal::Never(text.trim_end().to_owned()))
            }
            None => Ok(after),
        }
    }

    fn find(&self, server: &Server, key: &[u8]) -> Option<Found> {
        self.with_key(server, key, |own, locked| own.look(server, locked, key))
    }

    fn with_key<R>(
        &self,
        server: &Server,
        key: &[u8],
        run: impl FnOnce(&Self, &mut Locked<'_>) -> R,
    ) -> R {
        let request: ArgumentList = [&b"DEL"[..], key].into_iter().collect();
        let keyspace = &server.keyspace;
        let mut shards = ShardSet::empty();
        if let Some(command) = lookup(b"del") {
            shards = keyspace.shards_of_queued(command, request.as_arguments());
        }
        let mut locked = keyspace.lock(shards);
        let result = run(self, &mut locked);
        keyspace.release(locked, unix_ms(), &mut LiveObserver(server));
        result
    }

    fn look(&self, server: &Server, locked: &mut Locked<'_>, key: &[u8]) -> Option<Found> {
        let dumped = self.execute(server, locked, &[b"DUMP", key]);
        let payload = bulk(&dumped)?;
        let deadline = self.execute(server, locked, &[b"PEXPIRETIME", key]);
        let deadline = deadline.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
        Some(Found {
            payload: payload.to_vec(),
            deadline_ms: parse_integer(deadline).filter(|&deadline_ms| deadline_ms >= 0),
        })
    }

    /// The reply to a command of keys that are locked.
    fn execute(&self, server: &Server, locked: &mut Locked<'_>, words: &[&[u8]]) -> Vec<u8> {
        let request: ArgumentList = words.iter().copied().collect();
        let mut reply = Vec::new();
        let name = words[0].to_ascii_lowercase();
        if let Some(command) = lookup(&name) {
            let _ = server.keyspace.run_locked(
                locked,
                command,
                request.as_arguments(),
                self.database,
                unix_ms(),
                &mut Writer::new(&mut reply, Protocol::Resp2),
                &mut LiveObserver(server),
            );
        }
        reply
    }

    fn restore(
        &self,
        peer: &mut Peer,
        key: &[u8],
        found: &Found,
        replaces: bool,
    ) -> Result<(), String> {
        let left_ms = found.deadline_ms.map_or(0, |ms| (ms - unix_ms()).max(1));
        let left_ms = left_ms.to_string();
        let mut words = vec![&b"RESTORE"[..], key, left_ms.as_bytes(), &found.payload];
        words.extend(replaces.then_some(&b"REPLACE"[..]));
        peer.send(&request(&words))
    }

    fn connect(&self, server: &Server) -> Result<Peer, String> {
        let has_tls = server.parameters.read(TLS_CLUSTER);
        let connected = || -> io::Result<MasterSocket> {
            let mut addresses = (&*self.host, self.port).to_socket_addrs()?;
            let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
            let socket = TcpStream::connect_timeout(&address, self.timeout)?;
            socket.set_nodelay(true)?;
            let socket = MasterSocket::Tcp(socket);
            if !has_tls {
                return Ok(socket);
            }
            let client = server.certificates.client();
            let client = client.ok_or_else(|| io::Error::other("no TLS settings are loaded"))?;
            socket.secure(&client, &self.host, self.timeout)
        };
        match connected() {
            Ok(socket) => Ok(Peer::new(socket)),
            // A refusal comes after the attempt has begun: Redis finds out by its first write, and
            // with TLS by the handshake.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && !has_tls => {
                Err(failed("writing"))
            }
            Err(error) => {
                let (host, port) = (&*self.host, self.port);
                tracing::warn!(host, port, %error, "MIGRATE cannot connect");
                Err("IOERR error or timeout connecting to the client".to_owned())
            }
        }
    }
}

/// The fate here of a key that has arrived there.
enum After {
    Removed,
    /// It was not there any more.
    Gone,
    /// It is another now.
    Changed(Found),
}

/// Why a key is not removed.
enum RemovalRefusal {
    /// Writes wait just now.
    Later,
    Never(String),
}

impl RemovalRefusal {
    fn text(self) -> String {
        match self {
            RemovalRefusal::Later => PAUSED.to_owned(),
            RemovalRefusal::Never(text) => text,
        }
    }
}

/// The other server.
struct Peer {
    socket: MasterSocket,
    /// What has come and was not read.
    buffer: Vec<u8>,
    has_answered: bool,
}

impl Peer {
    fn new(socket: MasterSocket) -> Self {
        Peer {
            socket,
            buffer: Vec::new(),
            has_answered: false,
        }
    }

    fn set_timeout(&mut self, timeout: Duration) -> Result<(), String> {
        let set = self.socket.set_timeouts(timeout);
        set.map_err(|_| failed("writing"))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket.write_all(bytes).map_err(|_| failed("writing"))
    }

    /// The next reply: the text of an error, or nothing if it is none.
    fn error(&mut self) -> Result<Option<String>, String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                self.has_answered = true;
                let line = String::from_utf8_lossy(&line);
                let line = line.trim_end();
                return match line.strip_prefix('-') {
                    Some(text) => Ok(Some(text.to_owned())),
                    None if line.starts_with(['+', ':']) => Ok(None),
                    None => Err(failed("reading")),
                };
            }
            let mut part = [0; READ_BYTES];
            match self.socket.read(&mut part) {
                Ok(count @ 1..) if self.buffer.len() < LINE_BYTES_MAX => {
                    self.buffer.extend_from_slice(&part[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return Err(failed("reading")),
            }
        }
    }
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    write_request(&mut out, words);
    out
}

/// The text of a bulk reply.
fn bulk(reply: &[u8]) -> Option<&[u8]> {
    let end = reply.iter().position(|&byte| byte == b'\n')?;
    let length = reply[..end].strip_prefix(b"$")?.strip_suffix(b"\r")?;
    let length = usize::try_from(parse_integer(length)?).ok()?;
    reply.get(end + 1..end + 1 + length)
}

fn failed(doing: &str) -> String {
    format!("IOERR error or timeout {doing} to target instance")
}

fn refused(error: &str) -> String {
    format!("ERR Target instance replied with error: {error}")
}

const READ_ONLY: &str = "READONLY the server became a replica while its keys were moved";
const PAUSED: &str = "ERR writes are paused, so a key that the target has was not removed here";
const CHANGES: &str =
    "ERR a key changes faster than it can be sent; the target has it as it was, and so it is here";
/// How many keys are on their way at once.
const KEYS_AT_ONCE: usize = 64;
const LOOK_EVERY: Duration = Duration::from_millis(5);
const READ_BYTES: usize = 4 << 10;
/// The longest reply to a request of ours.
const LINE_BYTES_MAX: usize = 64 << 10;
