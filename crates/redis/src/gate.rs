//! The write gate: every condition that keeps a request of any protocol from being executed now.
//!
//! Each condition is named once, here. A protocol describes its request ([`GatedRequest`]) and asks
//! for the [`Verdict`]: the request goes, waits until a condition ends, or is refused. A protocol
//! acts on it in its own way: a Redis client gets the error's text; a ZeroMQ pusher is parked
//! (nothing more of its input is read), or its message is left out, counted and logged.
//!
//! Two conditions stand elsewhere, because they need what only the place knows: access control
//! (the rules of the request's user) and mounts (`Keyspace`, under the key's lock). The keyspace
//! also refuses each write that passes the gate just before keys begin to be loaded.
//!
//! Market data and plant tags are no keys: feeds write them in every role of this server.

use tidewire_lane::Context;

use crate::attention::Obstacles;
use crate::durability::state::{FailedFile, LOADING_TEXT};
use crate::parameters::{REPLICA_READ_ONLY, REPLICA_SERVE_STALE_DATA};
use crate::parts::Room;
use crate::replication::state::LinkState;
use crate::server::Server;

/// The properties of a request that the gate needs. Called only while some condition holds.
pub(crate) trait GatedRequest {
    /// Whether it changes keys.
    fn writes(&self, server: &Server) -> bool;
    /// Whether it may not run while files cannot be written.
    fn needs_disk(&self, server: &Server) -> bool;
    /// Whether it may not run while memory is full.
    fn needs_memory(&self, server: &Server) -> bool;
    /// Whether it runs while keys are loaded.
    fn runs_while_loading(&self) -> bool;
    /// Whether it runs on a replica that has lost its master.
    fn runs_while_stale(&self, server: &Server) -> bool;
}

/// A write of one key's value by a protocol without commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainWrite;

impl GatedRequest for PlainWrite {
    fn writes(&self, _: &Server) -> bool {
        true
    }

    fn needs_disk(&self, _: &Server) -> bool {
        true
    }

    fn needs_memory(&self, _: &Server) -> bool {
        true
    }

    fn runs_while_loading(&self) -> bool {
        false
    }

    fn runs_while_stale(&self, _: &Server) -> bool {
        false
    }
}

/// The gate's decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Verdict {
    Go,
    /// Not now, but when this has ended.
    Wait(Wait),
    Refused(Refusal),
}

/// A condition that ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// CLIENT PAUSE.
    Pause,
    /// A script holds all keys.
    Script,
    /// Keys are loaded from files.
    Loading,
    /// The keys of a master take the place of those that were here.
    Syncing,
}

impl Wait {
    /// The error of a Redis client that does not wait.
    pub fn text(self) -> &'static str {
        LOADING_TEXT
    }
}

/// Why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A message without the form `[topic][payload]`.
    Form,
    /// A topic without a name, or with one that is too long.
    Topic,
    /// The server itself publishes under this name.
    Reserved,
    /// The name belongs to a live source.
    Mounted,
    /// The peer's user may not write it.
    Permission,
    /// Snapshots cannot be saved.
    Snapshot,
    /// The append-only file cannot be written.
    Log,
    /// Memory is full, and no key may be evicted.
    Memory,
    /// This server is a replica.
    ReadOnly,
    /// Too few replicas keep up.
    FewReplicas,
    /// This replica has lost its master, and must not show what it has.
    Stale,
    /// The connection ended while the message waited.
    Lost,
    /// Other machines may have newer keys.
    NotCurrent,
}

impl Refusal {
    /// All of them, in order.
    pub const ALL: [Refusal; 13] = [
        Refusal::Form,
        Refusal::Topic,
        Refusal::Reserved,
        Refusal::Mounted,
        Refusal::Permission,
        Refusal::Snapshot,
        Refusal::Log,
        Refusal::Memory,
        Refusal::ReadOnly,
        Refusal::FewReplicas,
        Refusal::Stale,
        Refusal::Lost,
        Refusal::NotCurrent,
    ];

    /// Its name in INFO and the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Form => "form",
            Refusal::Topic => "topic",
            Refusal::Reserved => "reserved",
            Refusal::Mounted => "mounted",
            Refusal::Permission => "permission",
            Refusal::Snapshot => "snapshot",
            Refusal::Log => "aof",
            Refusal::Memory => "memory",
            Refusal::ReadOnly => "readonly",
            Refusal::FewReplicas => "noreplicas",
            Refusal::Stale => "stale",
            Refusal::Lost => "lost",
            Refusal::NotCurrent => "clusterdown",
        }
    }

    /// The error that a Redis client gets, and what the log says.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::Form => "ERR a message must be [topic][payload]",
            Refusal::Topic => "ERR the topic is empty or too long",
            Refusal::Reserved => "ERR the server itself publishes under this name",
            Refusal::Mounted => "READONLY the topic belongs to a live source",
            Refusal::Permission => "NOPERM the peer's user may not set and publish this topic",
            Refusal::Snapshot => FailedFile::Snapshot.text(),
            Refusal::Log => FailedFile::Log.text(),
            Refusal::Memory => "OOM command not allowed when used memory > 'maxmemory'.",
            Refusal::ReadOnly => "READONLY You can't write against a read only replica.",
            Refusal::FewReplicas => "NOREPLICAS Not enough good replicas to write.",
            Refusal::Stale => {
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
            }
            Refusal::Lost => "ERR the connection ended while the message waited",
            Refusal::NotCurrent => "CLUSTERDOWN this hub has no lease for the keys",
        }
    }
}

impl Server {
    /// Whether any condition of the gate may hold for a write, or a pause.
    #[inline]
    pub fn is_gated(&self) -> bool {
        self.attention.has(Obstacles::GATE | Obstacles::PAUSED)
    }

    /// Whether CLIENT PAUSE holds a request; `is_told` says whether a replica would have to hear
    /// of it, as of all writes.
    #[inline]
    pub(crate) fn is_paused_for(&self, now_ms: i64, is_told: impl FnOnce() -> bool) -> bool {
        self.attention.has(Obstacles::PAUSED)
            && self.pause.until_ms(now_ms).is_some()
            && (self.pause.is_total(now_ms) || is_told())
    }

    /// The condition that every request that changes keys waits for, if there is one.
    #[cold]
    pub fn write_wait(&self, now_ms: i64) -> Option<Wait> {
        if self.is_paused_for(now_ms, || true) {
            return Some(Wait::Pause);
        }
        if self.scripting.is_running() {
            return Some(Wait::Script);
        }
        self.load_wait()
    }

    /// Why keys may not be read now: other machines may have newer ones.
    pub fn keys_refusal(&self) -> Option<String> {
        let is_old = self.attention.has(Obstacles::NOT_CURRENT);
        is_old.then(|| self.quorum.refusal_text())
    }

    /// Whether keys are being loaded, by a file or a master.
    pub fn load_wait(&self) -> Option<Wait> {
        if self.durability.is_loading() {
            return Some(Wait::Loading);
        }
        let master = self.replication.master();
        let is_replacing = master.is_some_and(|master| master.is_replacing());
        is_replacing.then_some(Wait::Syncing)
    }

    /// Whether keys are being loaded: what a key has now says nothing yet.
    pub(crate) fn is_filling(&self) -> bool {
        self.load_wait().is_some()
    }

    /// The verdict on a request, apart from pauses and scripts: those are waited for before.
    /// Where memory is short, keys are evicted first.
    #[cold]
    #[inline(never)]
    pub(crate) fn verdict(&self, context: &mut Context, request: &impl GatedRequest) -> Verdict {
        if let Some(wait) = self.load_wait()
            && !request.runs_while_loading()
        {
            return Verdict::Wait(wait);
        }
        match self.refusal(context, request) {
            Some(refusal) => Verdict::Refused(refusal),
            None => Verdict::Go,
        }
    }

    fn refusal(&self, context: &mut Context, request: &impl GatedRequest) -> Option<Refusal> {
        if self.attention.has(Obstacles::NOT_CURRENT) && !request.runs_while_stale(self) {
            return Some(Refusal::NotCurrent);
        }
        if self.parameters.limits_memory()
            && self.make_room(context) == Room::Full
            && request.needs_memory(self)
        {
            return Some(Refusal::Memory);
        }
        if let Some(refusal) = self.disk_refusal()
            && request.needs_disk(self)
        {
            return Some(refusal);
        }
        if !self
            .attention
            .has(Obstacles::WANTS_REPLICAS | Obstacles::FOLLOWS)
        {
            return None;
        }
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        if let Some(refusal) = self.role_refusal(now_ms)
            && request.writes(self)
        {
            return Some(refusal);
        }
        (self.is_stale() && !request.runs_while_stale(self)).then_some(Refusal::Stale)
    }

    /// Why no key may be written because of files and roles, as a script's first write asks.
    pub(crate) fn write_refusal(&self, now_ms: i64) -> Option<Refusal> {
        if self.attention.has(Obstacles::NOT_CURRENT) {
            return Some(Refusal::NotCurrent);
        }
        self.disk_refusal().or_else(|| self.role_refusal(now_ms))
    }

    fn disk_refusal(&self) -> Option<Refusal> {
        match self.durability.disk_failure()? {
            FailedFile::Snapshot => Some(Refusal::Snapshot),
            FailedFile::Log => Some(Refusal::Log),
        }
    }

    /// Why no key may be written in this server's role.
    pub(crate) fn role_refusal(&self, now_ms: i64) -> Option<Refusal> {
        let parameters = &self.parameters;
        if self.replication.master().is_some() {
            // A standby that was written to would not have what the others have.
            let is_read_only = self.quorum.is_on() || parameters.read(REPLICA_READ_ONLY);
            return is_read_only.then_some(Refusal::ReadOnly);
        }
        let are_too_few = self.replication.are_too_few(parameters, now_ms);
        are_too_few.then_some(Refusal::FewReplicas)
    }

    /// Whether this server is a replica that has lost its master, and must not show what it has.
    pub(crate) fn is_stale(&self) -> bool {
        let master = self.replication.master();
        let is_down = master.is_some_and(|master| master.state() != LinkState::Connected);
        is_down && !self.parameters.read(REPLICA_SERVE_STALE_DATA)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_a_counter_and_a_name_of_its_own() {
        for (at, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, at);
            let same = Refusal::ALL
                .iter()
                .filter(|other| other.name() == refusal.name());
            assert_eq!(same.count(), 1, "{}", refusal.name());
        }
    }
}
