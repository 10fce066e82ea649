//! A replica that Sentinel promotes asks its master to hand over, so that no acknowledged write is
//! lost in a planned failover.
//!
//! Sentinel sends REPLICAOF NO ONE to the replica, and tells the old master only seconds later.
//! What clients write there until then would be discarded. So the replica sends FAILOVER to its
//! master, with itself as the target: the master pauses writes, waits until the replica has
//! everything, and follows it. If the master does not answer in time, or refuses, the replica takes
//! over by itself, as REPLICAOF NO ONE says.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidewire_resp::write_request;
use tracing::{info, warn};

use super::master::{announced_port, dial};
use super::socket::MasterSocket;
use super::state::{LinkState, Master, Replication};
use crate::parameters::{MASTERAUTH, MASTERUSER, REPLICA_ANNOUNCE_IP};
use crate::server::Server;
use crate::session::rewrite_redis_conf;
use tidewire_lane::instant;

impl Replication {
    /// REPLICAOF NO ONE of a Sentinel. Returns whether this server asks its master to hand over: it
    /// is the master soon, whether that one does or not.
    pub(crate) fn begin_handover(&self, server: &Server) -> bool {
        let master = self.master();
        let master = master.filter(|master| master.state() == LinkState::Connected);
        let (Some(master), Some(own)) = (master, server.own.upgrade()) else {
            return false;
        };
        if master.is_handing_over.swap(true, Ordering::AcqRel) {
            return true;
        }
        let asked = master.clone();
        let background = &server.durability.background;
        let run = move || Handover::new(&own, &asked).run();
        match background.spawn("handover", run) {
            Ok(_) => true,
            Err(error) => {
                warn!(%error, "no thread to ask the master to hand over");
                master.is_handing_over.store(false, Ordering::Release);
                false
            }
        }
    }
}

/// One promotion.
struct Handover<'a> {
    server: &'a Server,
    master: &'a Arc<Master>,
    /// What the master has sent and was not read.
    buffer: Vec<u8>,
}

impl<'a> Handover<'a> {
    fn new(server: &'a Server, master: &'a Arc<Master>) -> Self {
        Handover {
            server,
            master,
            buffer: Vec::new(),
        }
    }

    fn run(mut self) {
        let (host, port) = (&self.master.host, self.master.port);
        let asked = self.ask_to_hand_over();
        match &asked {
            Ok(_) => self.wait_for_master(),
            Err(error) => warn!(%host, port, %error, "the master does not hand over"),
        }
        let is_handed_over = self.has_left();
        self.take_over();
        if self.server.replication.master().is_some() {
            // It was told to follow another server meanwhile.
            return;
        }
        if self.master.owes_conf.load(Ordering::Acquire)
            && let Some(path) = &self.server.config.redis_conf
            && let Err(error) = rewrite_redis_conf(self.server, path, false)
        {
            warn!(%error, "the redis.conf cannot be rewritten");
        }
        info!(%host, port, is_handed_over, "this server has the part of its master");
        if let (Ok(mut socket), true) = (asked, is_handed_over) {
            // Without the right to it, the old master's clients stay connected: they may read.
            let _ = self.send_clients_away(&mut socket);
        }
    }

    /// Sends FAILOVER to the master. Ok: it has begun.
    fn ask_to_hand_over(&mut self) -> io::Result<MasterSocket> {
        let parameters = &self.server.parameters;
        let mut socket = dial(
            self.server,
            &self.master.host,
            self.master.port,
            ANSWER_TIME,
        )?;
        socket.set_timeouts(ANSWER_TIME)?;
        let password = parameters.read(MASTERAUTH);
        if !password.is_empty() {
            let user = parameters.read(MASTERUSER);
            match user.is_empty() {
                true => self.ask(&mut socket, &["AUTH", &password])?,
                false => self.ask(&mut socket, &["AUTH", &user, &password])?,
            }
        }
        let host = match parameters.read(REPLICA_ANNOUNCE_IP) {
            announced if !announced.is_empty() => announced,
            // The master shows the address that it sees, which is the same unless it is translated.
            _ => match socket.own_address() {
                Some(address) => address.ip().to_canonical().to_string(),
                None => return Err(io::ErrorKind::AddrNotAvailable.into()),
            },
        };
        let port = announced_port(self.server).to_string();
        let time_ms = HANDOVER_TIME.as_millis().to_string();
        let words = ["FAILOVER", "TO", &host, &port, "TIMEOUT", &time_ms];
        self.ask(&mut socket, &words)?;
        Ok(socket)
    }

    /// Waits until this server is the master, or it is late for that.
    fn wait_for_master(&self) {
        let begin = instant();
        while !self.has_left() && begin.elapsed() < HANDOVER_TIME + ANSWER_TIME {
            self.server.durability.background.pause(LOOK_EVERY);
        }
    }

    /// Makes this server the master, unless it has left its master already.
    fn take_over(&self) {
        while !self.has_left() && !self.server.replication.follow_nobody(self.server) {
            self.server.durability.background.pause(LOOK_EVERY);
        }
    }

    /// Whether this server follows its master no more. The link to it is over some time before: the
    /// history gets another name in between.
    fn has_left(&self) -> bool {
        let master = self.server.replication.master();
        !master.is_some_and(|master| Arc::ptr_eq(&master, self.master))
    }

    /// Does at the old master what Sentinel does at a server that it demotes: its redis.conf says
    /// what it is, and its clients connect again, so that they ask where the master is.
    fn send_clients_away(&mut self, socket: &mut MasterSocket) -> io::Result<()> {
        self.ask(socket, &["MULTI"])?;
        self.ask(socket, &["CONFIG", "REWRITE"])?;
        self.ask(socket, &["CLIENT", "KILL", "TYPE", "normal"])?;
        self.ask(socket, &["CLIENT", "KILL", "TYPE", "pubsub"])?;
        self.ask(socket, &["EXEC"])
    }

    /// Sends a request, and waits for the first line of its reply.
    fn ask(&mut self, socket: &mut MasterSocket, words: &[&str]) -> io::Result<()> {
        let mut request = Vec::new();
        write_request(&mut request, words);
        socket.write_all(&request)?;
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                return match line.trim_end().strip_prefix('-') {
                    None => Ok(()),
                    Some(error) => Err(io::Error::other(error.to_owned())),
                };
            }
            let mut part = [0; READ_BYTES];
            match socket.read(&mut part)? {
                count @ 1.. if self.buffer.len() < LINE_BYTES_MAX => {
                    self.buffer.extend_from_slice(&part[..count]);
                }
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

/// Whether a client is a Sentinel that commands servers, by the name that it gives itself:
/// `sentinel-0123abcd-cmd`.
pub(crate) fn is_sentinel(name: &str) -> bool {
    let middle = name.strip_prefix("sentinel-");
    middle.is_some_and(|rest| rest.ends_with("-cmd"))
}

/// How long the master may take to connect, and for each answer.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// How long the master may wait until this server has everything.
const HANDOVER_TIME: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const READ_BYTES: usize = 4 << 10;
/// The longest line of an answer.
const LINE_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_connection_for_commands_of_a_sentinel_is_one() {
        assert!(is_sentinel("sentinel-0123abcd-cmd"));
        for name in [
            "",
            "sentinel-0123abcd-pubsub",
            "my-sentinel-cmd",
            "sentinel",
        ] {
            assert!(!is_sentinel(name), "{name}");
        }
    }
}
