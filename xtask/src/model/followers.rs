//! Real Redis servers that replicate from Tidewire. After each chapter they must have the same
//! data.

use super::peer::Peer;
use super::reply::Reply;
use crate::server::Kind;
use crate::shell::Failure;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// A Redis that replicates from one of the peers.
#[derive(Debug)]
pub(crate) struct Follower {
    /// The number of the peer.
    of: usize,
    server: Peer,
}

impl Follower {
    /// Starts a Redis that replicates from peer number `of`.
    pub(crate) fn start(
        peers: &[Peer],
        of: usize,
        redis: &Kind,
        scratch: &Path,
    ) -> Result<Self, Failure> {
        let name = format!("replica of {}", peers[of].name);
        let mut server = Peer::start(&name, redis.clone(), scratch)?;
        let port = peers[of].port().to_string();
        server.ask(&["REPLICAOF", "127.0.0.1", &port])?;
        for _ in 0..ATTEMPTS {
            let reply = server.ask(&["INFO", "replication"])?;
            let text = String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned();
            if text.contains("master_link_status:up") {
                return Ok(Follower { of, server });
            }
            std::thread::sleep(PAUSE);
        }
        Err(Failure::new(format!("{name}: it does not follow")))
    }

    /// Waits until it has the same data as its master.
    pub(crate) fn check(&mut self, peers: &mut [Peer]) -> Result<(), Failure> {
        let master = &mut peers[self.of];
        forget_estimates(master)?;
        let mut digests = [String::new(), String::new()];
        // A key that expires in between is removed from both a moment later.
        for _ in 0..ATTEMPTS {
            master.ask(&["WAIT", "1", "10000"])?;
            digests = [
                master.ask(&["DEBUG", "DIGEST"])?.print(),
                self.server.ask(&["DEBUG", "DIGEST"])?.print(),
            ];
            if digests[0] == digests[1] {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        let [expected, actual] = digests;
        let name = &self.server.name;
        let mut text = format!("{name} has {actual}, its master {expected}");
        for database in DATABASES {
            text.push_str(&self.differing(master, database)?);
        }
        Err(Failure::new(text))
    }

    /// Returns the keys of a database that differ.
    fn differing(&mut self, master: &mut Peer, database: &str) -> Result<String, Failure> {
        let mut names = BTreeSet::new();
        for peer in [&mut *master, &mut self.server] {
            peer.ask(&["SELECT", database])?;
            let mut keys = peer.ask(&["KEYS", "*"])?;
            let keys = keys.parts_mut().map(std::mem::take).unwrap_or_default();
            let text = |key: &Reply| String::from_utf8(key.text()?.to_vec()).ok();
            names.extend(keys.iter().filter_map(text));
        }
        let mut text = String::new();
        for name in names {
            let mut values = Vec::new();
            for peer in [&mut *master, &mut self.server] {
                let kind = peer.ask(&["TYPE", &name])?.print();
                let value = peer.ask(&["DEBUG", "DIGEST-VALUE", &name])?.print();
                let deadline = peer.ask(&["PEXPIRETIME", &name])?.print();
                values.push(format!("{kind} {value} {deadline}"));
            }
            if values[0] != values[1] {
                let [ours, theirs] = [&values[0], &values[1]];
                text.push_str(&format!("\n{database} {name}: {ours}, {theirs}"));
            }
        }
        Ok(text)
    }
}

/// Removes HyperLogLogs, which may be stored in different forms with the same count.
fn forget_estimates(master: &mut Peer) -> Result<(), Failure> {
    for database in DATABASES {
        master.ask(&["SELECT", database])?;
        let mut keys = master.ask(&["KEYS", "count:*"])?;
        for key in keys.parts_mut().map(std::mem::take).unwrap_or_default() {
            let name = String::from_utf8_lossy(key.text().unwrap_or_default()).into_owned();
            master.ask(&["DEL", &name])?;
        }
    }
    master.ask(&["SELECT", "0"]).map(drop)
}

/// The databases that the generator uses.
const DATABASES: [&str; 3] = ["1", "2", "0"];
const ATTEMPTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);
