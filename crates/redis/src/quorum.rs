//! `durability = "quorum"`: keys that survive a machine.
//!
//! The primary appends its propagation log to the stream KEYS of NATS, and a reply leaves when the
//! stream has what it tells of. Standbys follow the stream. `tidewire_cluster::keys` decides what
//! counts; here is the thread that talks to NATS, and what lanes look at. Without `--cluster`, or
//! without that line in its file, [`Mode::Off`] is all that a lane sees.

mod lanes;
#[cfg(not(loom))]
mod snapshot;
mod state;
#[cfg(not(loom))]
mod store;
#[cfg(not(loom))]
mod work;

#[cfg(not(loom))]
pub use work::QuorumThread;

pub(crate) use lanes::LaneQuorum;
pub(crate) use state::{Acknowledged, Quorum, QuorumMark};

use crate::parameters::{APPENDONLY, REPLICAOF};
use crate::server::Server;
#[cfg(loom)]
use absent::{Inbox, Settings};
#[cfg(not(loom))]
use tidewire_nats::{Inbox, Settings};

/// NATS's client cannot be built with loom.
#[cfg(loom)]
mod absent {
    #[derive(Clone, Debug)]
    pub struct Settings;

    #[derive(Debug)]
    pub struct Inbox;

    impl Inbox {
        pub fn wake(&self) {}
    }
}

impl Server {
    /// Returns why the server cannot start with its parameters and `durability = "quorum"`.
    pub(crate) fn quorum_misfit(&self) -> Option<&'static str> {
        let log = if self.parameters.read(APPENDONLY) {
            "yes"
        } else {
            "no"
        };
        let master = self.parameters.read(REPLICAOF);
        let pairs = [
            (APPENDONLY.name(), log),
            (REPLICAOF.name(), master.as_str()),
        ];
        misfit(pairs.map(|(name, value)| (name.as_bytes(), value.as_bytes())))
    }
}

/// Returns why parameters cannot be had with `durability = "quorum"`: the keys are those of the
/// stream, and the primary is chosen by a lease. The start and CONFIG SET ask the same.
pub(crate) fn misfit<'a>(
    parameters: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> Option<&'static str> {
    parameters.into_iter().find_map(|(name, value)| {
        if APPENDONLY.is_named(name) && value.eq_ignore_ascii_case(b"yes") {
            return Some(NOT_WITH_LOG);
        }
        let is_master = REPLICAOF.is_named(name) && !value.is_empty();
        is_master.then_some(NOT_WITH_MASTER)
    })
}

const NOT_WITH_LOG: &str = "durability = \"quorum\" and appendonly yes exclude each other: keys \
                            are loaded from the stream KEYS; remove one of them";
const NOT_WITH_MASTER: &str = "durability = \"quorum\" chooses the primary: remove replicaof";
/// Why DEBUG RELOAD and LOADAOF are refused.
pub(crate) const NO_RELOAD: &str = "ERR durability is \"quorum\": keys are loaded from the stream \
                                    KEYS, and a file would have others";

/// How a hub takes part in keys that survive a machine.
#[derive(Clone, Debug)]
pub struct QuorumConfig {
    /// The cluster; a part of each subject and of each stream's name.
    pub cluster: String,
    /// This hub, among those of the cluster.
    pub hub: String,
    /// The keys that these hubs share, one of them as the primary.
    pub group: String,
    /// Address of this hub for clients that are to write, as `HOST:PORT`.
    pub address: String,
    /// How NATS is reached.
    pub link: Settings,
    /// Copies of the stream: 1, 3 or 5.
    pub replicas: usize,
    /// Bytes of changes after which the primary stores a snapshot.
    pub snapshot_bytes: u64,
}

/// Bytes of a message beside its body: its own header, and that of NATS.
#[cfg(not(loom))]
const OVERHEAD_BYTES: usize = 512;
#[cfg(not(loom))]
const BODY_BYTES_MIN: usize = 1_024;

/// Returns the bytes of a body for servers that take messages of this length.
#[cfg(not(loom))]
fn body_bytes_max(payload_max: usize) -> Result<usize, String> {
    let bytes = payload_max.saturating_sub(OVERHEAD_BYTES);
    match bytes >= BODY_BYTES_MIN {
        true => Ok(bytes),
        false => Err(format!(
            "NATS takes messages of {payload_max} bytes only (max_payload); {} are needed",
            BODY_BYTES_MIN + OVERHEAD_BYTES
        )),
    }
}

impl QuorumConfig {
    fn subject(&self) -> String {
        format!("tw.{}.keys.{}", self.cluster, self.group)
    }

    fn stream(&self) -> String {
        format!("TW_{}_KEYS_{}", self.cluster, self.group)
    }

    /// Where hubs ask each other whether the group has had keys.
    fn mark_subject(&self) -> String {
        format!("tw.{}.keysmark.{}", self.cluster, self.group)
    }

    fn head_subject(&self) -> String {
        format!("tw.{}.keysnap.{}.head", self.cluster, self.group)
    }

    fn part_subject(&self, number: u64) -> String {
        format!("tw.{}.keysnap.{}.{number:016x}", self.cluster, self.group)
    }

    fn snapshot_subjects(&self) -> String {
        format!("tw.{}.keysnap.{}.>", self.cluster, self.group)
    }

    fn snapshot_stream(&self) -> String {
        format!("TW_{}_KEYSNAP_{}", self.cluster, self.group)
    }

    fn lease_subject(&self) -> String {
        format!("$KV.TW_{}.keys.{}", self.cluster, self.group)
    }

    fn lease_stream(&self) -> String {
        format!("KV_TW_{}", self.cluster)
    }

    fn lease_subjects(&self) -> String {
        format!("$KV.TW_{}.>", self.cluster)
    }
}
