//! WAIT and WAITAOF: clients that wait until replicas, or disks, have what was changed.

use std::sync::atomic::Ordering;

use tidewire_keyspace::{Audience, units_told_here};

use super::log_of;
use super::state::{ReplicaWait, Replication, Wanted, WantedFile};
use crate::mail::RedisMail;
use crate::server::Server;
use crate::waiting::WaitId;

/// Where a connection's own changes end in the streams: WAIT and WAITAOF wait for these, not for
/// what other clients change.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastChange {
    /// In the stream of replicas.
    replicas: u64,
    /// In the stream of the append-only file.
    file: u64,
    /// [`units_told_here`] when this was looked at last.
    units: u64,
}

impl LastChange {
    /// Input of the connection is about to be executed.
    #[inline]
    pub(crate) fn begin_input(&mut self) {
        self.units = units_told_here();
    }

    /// Notes what the connection has changed since its input began.
    #[inline]
    pub(crate) fn end_input(&mut self, server: &Server) {
        if units_told_here() != self.units {
            self.note(server);
        }
    }

    /// The connection's last change is among the last ones of this server.
    pub(crate) fn note(&mut self, server: &Server) {
        let propagation = server.keyspace.propagation();
        self.replicas = log_of(server).changed();
        self.file = propagation.log(Audience::File).changed();
        self.units = units_told_here();
    }
}

impl Wanted {
    /// WAIT: `replicas` replicas have the connection's changes.
    pub(crate) fn by_replicas(server: &Server, last: LastChange, replicas: usize) -> Self {
        Wanted {
            // The stream is another one after a failover, and may end before the old one did.
            offset: last.replicas.min(log_of(server).changed()),
            replicas,
            file: None,
        }
    }

    /// WAITAOF: `replicas` replicas have them on disk, and this server too if that `is_needed`.
    pub(crate) fn on_disks(
        server: &Server,
        last: LastChange,
        is_needed: bool,
        replicas: usize,
    ) -> Self {
        let end = server.keyspace.propagation().log(Audience::File).changed();
        let offset = last.file.min(end);
        let file = WantedFile { offset, is_needed };
        Wanted {
            file: Some(file),
            ..Wanted::by_replicas(server, last, replicas)
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
    pub(crate) fn wait(&self, server: &Server, id: WaitId, wanted: Wanted) {
        let mut waits = self.waits.lock();
        debug_assert!(
            waits.iter().all(|wait| wait.id.client != id.client),
            "a client waits for one thing"
        );
        waits.push(ReplicaWait { id, wanted });
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
        waits.retain(|wait| wait.id.client != client);
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
            if let Some(lane) = server.waiting.claim(client, &server.keyspace) {
                let reply = format!("-{DEMOTED}\r\n").into_bytes();
                server.serve(lane, client, reply, true);
            }
        }
    }

    /// Ends the waits for which there is a reply, an error or not.
    fn end(&self, server: &Server, reply: impl Fn(&Wanted) -> Option<(Vec<u8>, bool)>) {
        let mut served = Vec::new();
        let mut waits = self.waits.lock();
        waits.retain(|wait| {
            let reply = reply(&wait.wanted);
            let stays = reply.is_none() && server.waiting.contains_wait(wait.id);
            served.extend(reply.map(|reply| (wait.id, reply)));
            stays
        });
        self.waiting.store(waits.len(), Ordering::Release);
        drop(waits);
        for (wait, (reply, failed)) in served {
            server.answer_wait(wait, reply, failed);
        }
    }
}

impl Server {
    /// Ends one wait of a client with a reply, unless it has ended already.
    pub(crate) fn answer_wait(&self, wait: WaitId, reply: Vec<u8>, failed: bool) {
        if let Some(lane) = self.waiting.claim_wait(wait, &self.keyspace) {
            self.serve(lane, wait.client, reply, failed);
        }
    }

    /// Sends the reply to a client whose wait the caller has claimed.
    fn serve(&self, lane: usize, client: u64, reply: Vec<u8>, failed: bool) {
        let served = RedisMail::Served {
            client,
            reply,
            failed,
        };
        self.mail.send(lane, served);
    }
}

pub(crate) const NO_FILE: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
const DEMOTED: &str = "UNBLOCKED force unblock from blocking operation, instance state changed \
                       (master -> replica?)";
