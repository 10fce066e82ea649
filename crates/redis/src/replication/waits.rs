//! WAIT and WAITAOF: clients that wait until replicas, or disks, have what was changed.

use std::sync::atomic::Ordering;

use tidewire_keyspace::Audience;

use super::log_of;
use super::state::{ReplicaWait, Replication, Wanted, WantedFile};
use crate::mail::RedisMail;
use crate::server::Server;

impl Wanted {
    /// WAIT: `replicas` replicas have all changes made until now.
    pub(crate) fn by_replicas(server: &Server, replicas: usize) -> Self {
        Wanted {
            offset: log_of(server).changed(),
            replicas,
            file: None,
        }
    }

    /// WAITAOF: `replicas` replicas have them on disk, and this server too if that `is_needed`.
    pub(crate) fn on_disks(server: &Server, is_needed: bool, replicas: usize) -> Self {
        let offset = server.keyspace.propagation().log(Audience::File).changed();
        let file = WantedFile { offset, is_needed };
        Wanted {
            file: Some(file),
            ..Wanted::by_replicas(server, replicas)
        }
    }

    /// Whether it is so.
    pub(crate) fn is_met(&self, server: &Server) -> bool {
        let (local, replicas) = self.found(server);
        let is_needed = self.file.is_some_and(|file| file.is_needed);
        replicas >= self.replicas && (local || !is_needed)
    }

    /// The reply, whether the wait is met or not.
    pub(crate) fn reply(&self, server: &Server) -> Vec<u8> {
        let (local, replicas) = self.found(server);
        let text = match self.file {
            Some(_) => format!("*2\r\n:{}\r\n:{replicas}\r\n", u8::from(local)),
            None => format!(":{replicas}\r\n"),
        };
        text.into_bytes()
    }

    fn needs_file(&self) -> bool {
        self.file.is_some_and(|file| file.is_needed)
    }

    /// Returns whether this server's disk has the changes, and how many replicas do.
    fn found(&self, server: &Server) -> (bool, usize) {
        let replicas = server.replication.replicas.lock();
        let Some(file) = self.file else {
            let have = replicas.iter().filter(|replica| replica.has(self.offset));
            return (false, have.count());
        };
        let have = replicas
            .iter()
            .filter(|replica| replica.has_on_disk(self.offset));
        (server.durability.log.has_synced(file.offset), have.count())
    }
}

impl Replication {
    /// A client waits; it has been told to its lane.
    pub(crate) fn wait(&self, server: &Server, client: u64, wanted: Wanted) {
        let mut waits = self.waits.lock();
        debug_assert!(
            waits.iter().all(|wait| wait.client != client),
            "a client waits for one thing"
        );
        waits.push(ReplicaWait { client, wanted });
        self.waiting.store(waits.len(), Ordering::Release);
        drop(waits);
        if self.count() > 0 {
            log_of(server).append_aside(&[b"REPLCONF", b"GETACK", b"*"]);
        }
        // It may have come true between the look and this.
        self.serve_waits(server);
    }

    /// A client's wait has ended without this: what it waits for next must not get the reply.
    pub(crate) fn forget_wait(&self, client: u64) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut waits = self.waits.lock();
        waits.retain(|wait| wait.client != client);
        self.waiting.store(waits.len(), Ordering::Release);
    }

    /// Answers the clients whose waits are met, after an acknowledgement or an fsync.
    pub(crate) fn serve_waits(&self, server: &Server) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        self.end(server, |wanted| {
            wanted.is_met(server).then(|| (wanted.reply(server), false))
        });
    }

    /// Ends the waits that need the append-only file, which has been turned off, with an error.
    pub(crate) fn refuse_file_waits(&self, server: &Server) {
        let refusal = format!("-{NO_FILE}\r\n").into_bytes();
        self.end(server, |wanted| {
            wanted.needs_file().then(|| (refusal.clone(), true))
        });
    }

    /// Ends all waits with an error: this server is a replica now.
    pub(super) fn refuse_waits(&self, server: &Server) {
        let refusal = format!("-{DEMOTED}\r\n").into_bytes();
        self.end(server, |_| Some((refusal.clone(), true)));
    }

    /// Ends waits for keys with an error: this server is a replica now, and must not pop elements
    /// by itself.
    pub(super) fn unblock_clients(&self, server: &Server) {
        for client in server.waiting.waiting_for_keys() {
            serve(server, client, format!("-{DEMOTED}\r\n").into_bytes(), true);
        }
    }

    /// Ends the waits for which there is a reply, an error or not.
    fn end(&self, server: &Server, reply: impl Fn(&Wanted) -> Option<(Vec<u8>, bool)>) {
        let mut served = Vec::new();
        let mut waits = self.waits.lock();
        waits.retain(|wait| {
            let reply = reply(&wait.wanted);
            let stays = reply.is_none() && server.waiting.contains(wait.client);
            served.extend(reply.map(|reply| (wait.client, reply)));
            stays
        });
        self.waiting.store(waits.len(), Ordering::Release);
        drop(waits);
        for (client, (reply, failed)) in served {
            serve(server, client, reply, failed);
        }
    }
}

/// Ends a client's wait with a reply, if it still waits.
pub(super) fn serve(server: &Server, client: u64, reply: Vec<u8>, failed: bool) {
    if let Some(lane) = server.waiting.claim(client, &server.keyspace) {
        let served = RedisMail::Served {
            client,
            reply,
            failed,
        };
        server.mail.send(lane, served);
    }
}

pub(crate) const NO_FILE: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
const DEMOTED: &str = "UNBLOCKED force unblock from blocking operation, instance state changed \
                       (master -> replica?)";
