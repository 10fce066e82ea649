//! The file of all keys that a replica begins with.

use std::sync::Arc;
use std::time::Duration;

use tidewire_keyspace::{Audience, Keyspace, Options, SnapshotOptions};
use tracing::{info, warn};

use super::{Replica, log_of, new_id};
use crate::hub::{Hub, Mail, unix_ms};

/// Makes a replica's file on a thread of its own.
pub(crate) struct FileMaker {
    hub: Arc<Hub>,
    replica: Arc<Replica>,
}

impl FileMaker {
    /// Begins; the replica's lane is told when there is something to send.
    pub(crate) fn begin(hub: Arc<Hub>, replica: Arc<Replica>) {
        let maker = FileMaker { hub, replica };
        let thread = std::thread::Builder::new().name("replica-file".into());
        if let Err(error) = thread.spawn(move || maker.run()) {
            warn!(%error, "no thread for a replica's file");
        }
    }

    fn run(&self) {
        let (hub, replica) = (&self.hub, &self.replica);
        // Without keys it is a file of a keyspace that has none.
        let none = replica
            .wanted
            .without_keys
            .then(|| Keyspace::new(Options::default()));
        let keyspace = none.as_ref().unwrap_or(&hub.keyspace);
        let (mut snapshot, offset) = loop {
            if replica.has_left() {
                return;
            }
            let libraries = hub.scripting.libraries.current();
            let codes = libraries.libraries().map(|one| one.code.to_vec());
            let options = SnapshotOptions {
                compresses: true,
                checks: true,
                aux: Vec::new(),
                libraries: match replica.wanted.without_libraries {
                    true => Vec::new(),
                    false => codes.collect(),
                },
                usage: hub.parameters.told_usage(),
                now_ms: unix_ms(),
            };
            let begun = keyspace.begin_snapshot(options, || {
                let propagation = hub.keyspace.propagation();
                if !log_of(hub).is_open() {
                    propagation.open(Audience::Replicas);
                }
                let offset = log_of(hub).begin();
                replica.begin_at(offset);
                let now = hub.scripting.libraries.current();
                Arc::ptr_eq(&now, &libraries).then_some(offset)
            });
            match begun {
                Some((snapshot, Some(offset))) => break (snapshot, offset),
                // Another one is being made, or a library has come in between.
                _ => std::thread::sleep(RETRY_AFTER),
            }
        };
        if replica.acknowledges {
            let id = hub.replication.id();
            self.send(format!("+FULLRESYNC {id} {offset}\r\n").into_bytes());
        }
        if replica.wanted.takes_mark {
            let mark = new_id();
            self.send(format!("$EOF:{mark}\r\n").into_bytes());
            let mut goes_on = true;
            while goes_on {
                let mut part = Vec::with_capacity(PART_BYTES);
                while goes_on && part.len() < PART_BYTES {
                    goes_on = snapshot.step(&mut part);
                }
                if !self.send(part) {
                    return;
                }
            }
            self.finish(mark.into_bytes());
        } else {
            // Its length comes first.
            let mut file = Vec::new();
            while snapshot.step(&mut file) && !replica.has_left() {}
            self.send(format!("${}\r\n", file.len()).into_bytes());
            self.finish(file);
        }
        info!(address = %replica.client.address, offset, "a replica has its file");
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
        self.hub.mailboxes()[lane].send(Mail::ReplicasAdvanced);
    }
}

/// How long to wait until the snapshot that is being made may have ended.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// Bytes of a file that are handed to the lane at once.
const PART_BYTES: usize = 256 << 10;
