//! The file of all keys that a replica begins with.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidewire_keyspace::{Audience, Keyspace, Options, SnapshotOptions};
use tracing::{info, warn};

use super::log_of;
use super::replica::{Phase, Replica};
use super::state::new_id;
use crate::durability::dawdle;
use crate::parameters::{
    REPL_DISKLESS_SYNC, REPL_DISKLESS_SYNC_DELAY, REPL_DISKLESS_SYNC_MAX_REPLICAS,
};
use crate::server::Server;
use tidewire_lane::{instant, unix_ms};

/// Makes a replica's file on a thread of its own.
pub(crate) struct FileMaker {
    server: Arc<Server>,
    replica: Arc<Replica>,
}

impl FileMaker {
    /// Begins; the replica's lane is told when there is something to send.
    pub(crate) fn begin(server: Arc<Server>, replica: Arc<Replica>) {
        let maker = FileMaker { server, replica };
        let background = maker.server.durability.background.clone();
        if let Err(error) = background.spawn("replica-file", move || maker.run()) {
            warn!(%error, "no thread for a replica's file");
        }
    }

    fn run(&self) {
        let (server, replica) = (&self.server, &self.replica);
        // Without keys it is a file of a keyspace that has none.
        let none = replica
            .wanted
            .without_keys
            .then(|| Keyspace::new(Options::default()));
        let keyspace = none.as_ref().unwrap_or(&server.keyspace);
        self.wait_for_others();
        let (mut snapshot, position) = loop {
            if replica.has_left() || server.durability.is_ending() {
                return;
            }
            let options = SnapshotOptions {
                version: replica
                    .wanted
                    .version
                    .unwrap_or(server.parameters.file_version()),
                compresses: true,
                checks: true,
                aux: Vec::new(),
                libraries: Vec::new(),
                usage: server.parameters.told_usage(),
                now_ms: unix_ms(),
            };
            // On a replica the master's stream stands still meanwhile.
            let stream = server.replication.hold_stream();
            let begun = keyspace.begin_snapshot(options, || {
                let propagation = server.keyspace.propagation();
                if !log_of(server).is_open() && server.replication.master().is_none() {
                    propagation.open(Audience::Replicas);
                }
                let offset = log_of(server).begin();
                replica.begin_at(offset);
                let libraries = server.scripting.libraries.current();
                (server.replication.position(server), libraries)
            });
            drop(stream);
            match begun {
                Some((mut snapshot, (Some(position), libraries))) => {
                    if !replica.wanted.without_libraries {
                        snapshot.set_libraries(libraries.texts());
                    }
                    break (snapshot, position);
                }
                // The master's own keys are on their way.
                Some((_, (None, _))) => return self.give_up("this replica has lost its master"),
                // Another one is being made.
                None => server.durability.background.pause(RETRY_AFTER),
            }
        };
        if let Some(misfit) = snapshot.misfit() {
            return self.give_up(&misfit.to_string());
        }
        for (name, value) in position.fields() {
            snapshot.tell(name, value);
        }
        let offset = position.offset;
        if replica.acknowledges {
            let id = position.id;
            self.send(format!("+FULLRESYNC {id} {offset}\r\n").into_bytes());
        }
        if replica.wanted.takes_mark {
            let mark = new_id();
            self.send(format!("$EOF:{mark}\r\n").into_bytes());
            let mut goes_on = true;
            while goes_on {
                let mut part = Vec::with_capacity(PART_BYTES);
                while goes_on && part.len() < PART_BYTES {
                    let before = snapshot.written();
                    goes_on = snapshot.step(&mut part);
                    let background = &server.durability.background;
                    background.let_others_run_between(before, snapshot.written());
                    dawdle(server, snapshot.written() - before, &|| replica.has_left());
                    if server.durability.is_ending() {
                        return self.cut_short();
                    }
                }
                if !self.send(part) {
                    return;
                }
            }
            self.finish(mark.into_bytes());
        } else {
            // Its length comes first.
            let mut file = Vec::new();
            let mut goes_on = true;
            while goes_on && !replica.has_left() {
                let before = snapshot.written();
                goes_on = snapshot.step(&mut file);
                dawdle(server, snapshot.written() - before, &|| replica.has_left());
                if server.durability.is_ending() {
                    return self.cut_short();
                }
            }
            self.send(format!("${}\r\n", file.len()).into_bytes());
            self.finish(file);
        }
        info!(address = %replica.client.address, offset, "a replica has its file");
    }

    /// Waits for `repl-diskless-sync-delay`, or until `repl-diskless-sync-max-replicas` wait.
    fn wait_for_others(&self) {
        let (server, replica) = (&self.server, &self.replica);
        let begin = instant();
        let enough_before = server.replication.enough_came.load(Ordering::Acquire);
        let mut told = None;
        while server.parameters.read(REPL_DISKLESS_SYNC)
            && (instant() - begin).as_secs() < server.parameters.read(REPL_DISKLESS_SYNC_DELAY)
            && !replica.has_left()
            && !server.durability.is_ending()
        {
            let enough = server.parameters.read(REPL_DISKLESS_SYNC_MAX_REPLICAS) as usize;
            if enough > 0 && server.replication.count_in(Phase::Waiting) >= enough {
                // The others need not find it out: some may have begun by then.
                server
                    .replication
                    .enough_came
                    .fetch_add(1, Ordering::AcqRel);
            }
            if server.replication.enough_came.load(Ordering::Acquire) != enough_before {
                return;
            }
            // An empty line says that this server is there.
            if told.replace((instant() - begin).as_secs()) != Some((instant() - begin).as_secs()) {
                replica.push(b"\n".to_vec(), false);
                self.tell();
            }
            server.durability.background.pause(LOOK_EVERY);
        }
    }

    /// The replica gets no file: it may come again.
    fn give_up(&self, reason: &str) {
        warn!(address = %self.replica.client.address, reason, "a replica gets no file");
        self.replica
            .refuse(format!("-ERR Can't sync: {reason}\r\n").into_bytes());
        self.tell();
    }

    /// The process ends, and does not wait for the rest of a file: the replica goes on with the
    /// keys and the history that it has.
    fn cut_short(&self) {
        self.replica.cut_short();
        self.tell();
    }

    fn send(&self, part: Vec<u8>) -> bool {
        let is_there = self.replica.push(part, true);
        self.tell();
        is_there
    }

    fn finish(&self, part: Vec<u8>) {
        self.replica.push(part, false);
        self.replica.finish();
        self.tell();
    }

    fn tell(&self) {
        let lane = self.replica.client.lane;
        self.server.mail.wake(lane);
    }
}

/// How long to wait until the snapshot that is being made may have ended.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// How often to look whether a file may be begun.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bytes of a file that are handed to the lane at once.
const PART_BYTES: usize = 256 << 10;
