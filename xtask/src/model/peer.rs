//! A server under comparison, and the connections to it.

use super::generator::{CONNECTIONS, Step, Words, encoded};
use super::normal_form::normal;
use super::reply::Reply;
use crate::server::{Kind, Server};
use crate::shell::Failure;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server and the connections to it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: String,
    kind: Kind,
    folder: PathBuf,
    server: Server,
    connections: Vec<Connection>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The reason why there are no replies.
#[derive(Debug)]
pub(crate) struct Silence(pub(crate) String);

impl Peer {
    pub(crate) fn start(name: &str, kind: Kind, scratch: &Path) -> Result<Self, Failure> {
        let folder = scratch.join(name.replace(' ', "-"));
        fs::create_dir_all(&folder).map_err(Failure::at(&folder))?;
        let server = Server::start(&kind, &folder)?;
        let mut peer = Self {
            name: name.to_owned(),
            kind,
            folder,
            server,
            connections: Vec::new(),
        };
        peer.connect()?;
        Ok(peer)
    }

    /// Empties the server and opens fresh connections. A server that has ended, or does not reply
    /// any more, is restarted.
    pub(crate) fn reset(&mut self) -> Result<(), Failure> {
        let flush = vec![vec![b"FLUSHALL".to_vec()]];
        if self.server.ended().is_none() && !self.connections.is_empty() {
            let answered = self.send(0, &flush).and_then(|()| self.read(0));
            if answered.is_ok() {
                return Ok(());
            }
        }
        self.connections.clear();
        self.server = Server::start(&self.kind, &self.folder)?;
        self.connect()
    }

    /// Connects. Half of the connections use RESP3, and one uses another database.
    fn connect(&mut self) -> Result<(), Failure> {
        let failed = |what: &str| Failure::new(format!("{}: {what}", self.name));
        let mut connections = Vec::new();
        for number in 0..CONNECTIONS {
            let stream = TcpStream::connect(("127.0.0.1", self.server.port()));
            let stream = stream.map_err(|error| failed(&error.to_string()))?;
            stream
                .set_nodelay(true)
                .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
                .map_err(|error| failed(&error.to_string()))?;
            let mut connection = Connection {
                stream,
                received: Vec::new(),
            };
            let protocol = if number % 2 == 0 { "2" } else { "3" };
            let database = if number == 2 { "1" } else { "0" };
            for words in [["HELLO", protocol], ["SELECT", database]] {
                let words = words.map(|word| word.as_bytes().to_vec()).to_vec();
                let reply = connection
                    .send(&[words])
                    .and_then(|()| connection.read())
                    .map_err(|silence| failed(&silence.0))?;
                if reply.is_error() {
                    return Err(failed(&reply.print()));
                }
            }
            connections.push(connection);
        }
        self.connections = connections;
        Ok(())
    }

    pub(crate) fn send(&mut self, connection: usize, commands: &[Words]) -> Result<(), Silence> {
        self.connections[connection].send(commands)
    }

    pub(crate) fn read(&mut self, connection: usize) -> Result<Reply, Silence> {
        let reply = self.connections[connection].read();
        reply.map_err(|Silence(reason)| match self.server.ended() {
            Some(status) => Silence(format!("ended ({status}): {}", self.server.last_words())),
            None => Silence(reason),
        })
    }

    /// Returns the replies to a step, in normal form.
    pub(crate) fn replies(&mut self, step: &Step) -> Vec<Result<Reply, Silence>> {
        let mut replies = Vec::new();
        let mut queued: Vec<&Words> = Vec::new();
        for words in &step.commands {
            let reply = self.read(step.connection).map(|mut reply| {
                if reply == Reply::Leaf(b"+QUEUED\r\n".to_vec()) {
                    queued.push(words);
                } else if words[0] == b"EXEC"
                    && let Some(parts) = reply.parts_mut()
                {
                    for (part, words) in parts.iter_mut().zip(&queued) {
                        *part = normal(words, part.clone());
                    }
                    return reply;
                }
                normal(words, reply)
            });
            let is_silent = reply.is_err();
            replies.push(reply);
            if is_silent {
                break;
            }
        }
        replies
    }

    /// Returns the names of its commands, in lower case.
    pub(crate) fn commands(&mut self) -> Result<BTreeSet<String>, Failure> {
        let mut reply = self.ask(&["COMMAND", "LIST"])?;
        let names = reply.parts_mut().map(std::mem::take).unwrap_or_default();
        let name = |reply: &Reply| {
            let text = String::from_utf8_lossy(reply.text().unwrap_or_default());
            text.to_lowercase()
        };
        Ok(names.iter().map(name).collect())
    }

    /// Returns the port that it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Reply, Failure> {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let reply = self.send(0, &[words]).and_then(|()| self.read(0));
        reply.map_err(|Silence(reason)| Failure::new(reason))
    }

    /// Returns its version from INFO.
    pub(crate) fn version(&mut self) -> Result<String, Failure> {
        let reply = self.ask(&["INFO", "server"])?;
        let text = String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned();
        let version = text
            .lines()
            .find_map(|line| line.strip_prefix("redis_version:"));
        Ok(version.unwrap_or("0").trim().to_owned())
    }
}

impl Connection {
    fn send(&mut self, commands: &[Words]) -> Result<(), Silence> {
        self.stream
            .write_all(&encoded(commands))
            .map_err(|error| Silence(error.to_string()))
    }

    fn read(&mut self) -> Result<Reply, Silence> {
        let mut chunk = [0; 65_536];
        loop {
            match Reply::read(&self.received) {
                Ok(Some((reply, len))) => {
                    self.received.drain(..len);
                    return Ok(reply);
                }
                Ok(None) => {}
                Err(_) => {
                    let bytes = self.received.escape_ascii().to_string();
                    return Err(Silence(format!("that is no reply: {bytes}")));
                }
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Silence("the connection was closed".into())),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) => return Err(Silence(format!("no reply: {error}"))),
            }
        }
    }
}

/// Timeout for a reply.
const PATIENCE: Duration = Duration::from_secs(10);
