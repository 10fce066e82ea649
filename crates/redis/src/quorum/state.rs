//! What the lanes and the thread share.

use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};

use parking_lot::Mutex;
use tidewire_cluster::keys::KeysFigures;
use tidewire_fanout::bits;
use tidewire_lane::monotonic_ns;

use super::Inbox;
use crate::attention::Obstacles;
use crate::registry::line;
use crate::server::Server;
use crate::waiting::WaitId;

/// What this hub is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Keys are this hub's alone.
    #[default]
    Off = 0,
    /// It reads the stream from its beginning.
    Loading = 1,
    /// It follows the stream, and may be asked for what it has.
    Standby = 2,
    /// It is the primary, as long as its lease lasts.
    Primary = 3,
    /// It was the primary, and does not know whether it still is.
    Suspended = 4,
    /// The stream cannot be gone on with.
    Failed = 5,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Loading => "loading",
            Mode::Standby => "standby",
            Mode::Primary => "primary",
            Mode::Suspended => "suspended",
            Mode::Failed => "failed",
        }
    }
}

/// The state of `durability = "quorum"`.
#[derive(Debug, Default)]
pub(crate) struct Quorum {
    mode: AtomicU8,
    /// How often this hub has begun to serve as the primary.
    pub(super) spells: AtomicU64,
    /// Until when it may answer as the primary, monotonic ns.
    pub(super) serves_until_ns: AtomicU64,
    /// Offset before which everything is acknowledged by the stream.
    pub(super) durable: AtomicU64,
    /// Counts the times that held replies were given up.
    pub(super) cuts: AtomicU64,
    /// Lanes that hold replies back, a bit each.
    pub(super) holding: AtomicU64,
    /// End of the log of which the thread was told.
    pub(super) told: AtomicU64,
    /// The quorum has not answered for [`STALL_SECONDS`].
    pub(super) is_stalled: AtomicBool,
    /// All keys that were acknowledged are in memory, or were when the stream could not be gone on
    /// with.
    pub(super) has_keys: AtomicBool,
    /// An operator has told this hub to store its keys again.
    pub(super) is_rebuilding: AtomicBool,
    /// Clients that have told it so, and wait until it has the lease.
    rebuilders: Mutex<Vec<WaitId>>,
    pub(super) inbox: OnceLock<Inbox>,
    pub(super) shown: Mutex<ShownQuorum>,
}

/// What INFO shows.
#[derive(Debug, Default)]
pub(super) struct ShownQuorum {
    pub(super) group: String,
    pub(super) is_linked: bool,
    pub(super) figures: Option<KeysFigures>,
    pub(super) primary: String,
    pub(super) reigns: u64,
    pub(super) deposed: u64,
    pub(super) stalls: u64,
    pub(super) snapshot: u64,
    pub(super) fault: String,
    /// Why it is not noted which message the stream has had.
    pub(super) mark_fault: String,
    pub(super) last_error: String,
    /// To a hub that has failed: what the hub calls itself that has the lease, empty if none has
    /// it. `None`: that is not known.
    pub(super) rival: Option<String>,
}

/// A place in the log, between two times that held replies were given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuorumMark {
    end: u64,
    cuts: u64,
}

/// Whether the stream has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    Yes,
    NotYet,
    /// It may have it, or not, and this hub will not know.
    GivenUp,
}

impl Quorum {
    pub(crate) fn new(is_on: bool) -> Self {
        let mode = if is_on { Mode::Loading } else { Mode::Off };
        Quorum {
            mode: AtomicU8::new(mode as u8),
            ..Quorum::default()
        }
    }

    /// Whether keys are in the stream KEYS. One load.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.mode.load(Ordering::Acquire) != Mode::Off as u8
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.mode.load(Ordering::SeqCst) {
            0 => Mode::Off,
            1 => Mode::Loading,
            2 => Mode::Standby,
            3 => Mode::Primary,
            4 => Mode::Suspended,
            _ => Mode::Failed,
        }
    }

    /// Changes what this hub is. The gate closes before, and opens behind it.
    pub(super) fn set_mode(&self, server: &Server, mode: Mode) {
        let is_open = matches!(mode, Mode::Standby | Mode::Primary);
        if !is_open {
            server.attention.set(Obstacles::NOT_CURRENT, true);
        }
        if mode == Mode::Primary && self.mode() != Mode::Primary {
            self.spells.fetch_add(1, Ordering::SeqCst);
        }
        self.mode.store(mode as u8, Ordering::SeqCst);
        if is_open && !self.is_stalled.load(Ordering::SeqCst) {
            server.attention.set(Obstacles::NOT_CURRENT, false);
        }
    }

    /// The bytes of the log from this offset on are needed.
    pub(crate) fn needed_from(&self) -> u64 {
        match self.is_on() {
            true => self.durable.load(Ordering::Acquire),
            false => u64::MAX,
        }
    }

    /// Returns what the stream must have for everything so far to be acknowledged; `None` if no
    /// quorum is asked for. An error says that this hub may not answer as the primary any more.
    pub(crate) fn mark(&self, server: &Server) -> Result<Option<QuorumMark>, ()> {
        if !self.is_on() {
            return Ok(None);
        }
        let cuts = self.cuts.load(Ordering::SeqCst);
        let until_ns = self.serves_until_ns.load(Ordering::SeqCst);
        if self.mode() != Mode::Primary || monotonic_ns() >= until_ns {
            return Err(());
        }
        let end = server.replication.log_end(server);
        Ok(Some(QuorumMark { end, cuts }))
    }

    /// Returns whether the stream has everything before the mark.
    pub(crate) fn has(&self, mark: QuorumMark) -> Acknowledged {
        // Before the look at the cuts: after a cut the numbers begin again.
        let durable = self.durable.load(Ordering::SeqCst);
        if self.cuts.load(Ordering::SeqCst) != mark.cuts {
            return Acknowledged::GivenUp;
        }
        match durable >= mark.end {
            true => Acknowledged::Yes,
            false => Acknowledged::NotYet,
        }
    }

    /// Why a request for keys is refused.
    pub(crate) fn refusal_text(&self) -> String {
        let shown = self.shown.lock();
        match self.mode() {
            Mode::Failed => format!("CLUSTERDOWN the keys are not available: {}", shown.fault),
            Mode::Primary => format!(
                "CLUSTERDOWN the quorum has not answered for {STALL_SECONDS} s; nothing was done"
            ),
            _ if shown.primary.is_empty() => {
                "CLUSTERDOWN this hub has no lease for the keys; nothing was done".to_owned()
            }
            _ => format!(
                "CLUSTERDOWN this hub has no lease for the keys; nothing was done; the last known \
                 primary is {}",
                shown.primary
            ),
        }
    }

    /// What clients are told whose replies are given up.
    pub(super) fn cut_text(&self) -> String {
        let reason = match self.mode() {
            Mode::Failed => "the keys are not available".to_owned(),
            _ if self.is_stalled.load(Ordering::SeqCst) => {
                format!("the quorum has not answered for {STALL_SECONDS} s")
            }
            _ => "another hub is the primary".to_owned(),
        };
        format!("-CLUSTERDOWN {reason}; the write may or may not take effect\r\n")
    }

    /// Returns why this hub may not store the keys of its memory again (TIDEWIRE.KEYS REBUILD), as
    /// far as it knows without the lease.
    pub(crate) fn rebuilding_misfit(&self) -> Option<String> {
        let mode = self.mode();
        if mode == Mode::Off {
            return Some("ERR durability is not \"quorum\"".to_owned());
        }
        if mode != Mode::Failed {
            let mode = mode.name();
            return Some(format!(
                "ERR this hub can go on with the stream of the keys (role {mode}): nothing is to \
                 be rebuilt"
            ));
        }
        if !self.has_keys.load(Ordering::SeqCst) {
            return Some("ERR this hub had not loaded all keys when it failed".to_owned());
        }
        if self.is_rebuilding.load(Ordering::SeqCst) {
            return Some("ERR the keys are being stored already".to_owned());
        }
        match self.shown.lock().rival.as_deref() {
            None => Some("TRYAGAIN it is not known whether another hub is the primary".to_owned()),
            Some("") => None,
            Some(rival) => Some(format!("ERR another hub is the primary: {rival}")),
        }
    }

    /// Has this hub store the keys of its memory again. The client gets its reply when the hub has
    /// the lease, or cannot have it.
    pub(crate) fn rebuild(&self, wait: WaitId) {
        let mut rebuilders = self.rebuilders.lock();
        rebuilders.push(wait);
        self.is_rebuilding.store(true, Ordering::SeqCst);
        drop(rebuilders);
        self.inbox.get().into_iter().for_each(Inbox::wake);
    }

    /// The hub has the lease, and no other hub has gone on with the stream: it stores its keys.
    pub(super) fn rebuilding_began(&self, server: &Server) {
        let waits = std::mem::take(&mut *self.rebuilders.lock());
        for wait in waits {
            server.answer_wait(wait, b"+OK\r\n".to_vec(), false);
        }
    }

    /// The keys are stored again, or the hub gives that up, for this reason.
    pub(super) fn rebuilding_ended(&self, server: &Server, reason: Option<&str>) {
        let mut rebuilders = self.rebuilders.lock();
        self.is_rebuilding.store(false, Ordering::SeqCst);
        let waits = std::mem::take(&mut *rebuilders);
        drop(rebuilders);
        let reply = match reason {
            Some(reason) => {
                let reason = reason.replace(['\r', '\n'], " ");
                format!("-TRYAGAIN the keys are not stored again: {reason}\r\n")
            }
            None => "+OK\r\n".to_owned(),
        };
        for wait in waits {
            server.answer_wait(wait, reply.clone().into_bytes(), reason.is_some());
        }
    }

    /// Whether this hub serves no keys because of a fault.
    pub(crate) fn has_fault(&self) -> bool {
        self.mode() == Mode::Failed
    }

    /// Whether this hub cannot note which message the stream has had.
    pub(crate) fn has_mark_fault(&self) -> bool {
        self.is_on() && !self.shown.lock().mark_fault.is_empty()
    }

    /// Why a standby refuses a write.
    pub(crate) fn read_only_text(&self) -> String {
        let shown = self.shown.lock();
        match shown.primary.as_str() {
            "" => "READONLY this hub is a standby; no primary is known".to_owned(),
            primary => format!("READONLY this hub is a standby; the primary is {primary}"),
        }
    }

    /// What keeps this hub from answering for its keys.
    pub(crate) fn missing(&self) -> Option<String> {
        match self.mode() {
            Mode::Off | Mode::Standby | Mode::Primary => None,
            other => Some(format!("keys of the cluster: {}", other.name())),
        }
    }

    /// Tells the thread that the log has grown.
    pub(super) fn tell(&self, end: u64) {
        if self.told.swap(end, Ordering::AcqRel) < end
            && let Some(inbox) = self.inbox.get()
        {
            inbox.wake();
        }
    }

    /// Wakes the lanes that hold replies back.
    pub(super) fn wake_lanes(&self, server: &Server) {
        fence(Ordering::SeqCst);
        let lanes = self.holding.swap(0, Ordering::SeqCst);
        bits(lanes).for_each(|lane| server.mail.wake(lane));
    }

    /// Writes the fields of INFO.
    pub(crate) fn show(&self, server: &Server, out: &mut String) {
        if !self.is_on() {
            return;
        }
        let shown = self.shown.lock();
        let role = match self.is_rebuilding.load(Ordering::SeqCst) {
            true => "rebuilding",
            false => self.mode().name(),
        };
        let mut text = format!("group={},role={role}", shown.group);
        let end = server.replication.log_end(server);
        let durable = self.durable.load(Ordering::Acquire);
        let _ = write!(
            text,
            ",linked={},offset={end},durable={durable}",
            u8::from(shown.is_linked)
        );
        if let Some(figures) = shown.figures {
            let _ = write!(
                text,
                ",epoch={},sequence={},unacknowledged={},uncertain={},losses={}",
                figures.position.epoch,
                figures.position.sequence,
                figures.in_flight,
                figures.uncertain,
                figures.losses
            );
        }
        let _ = write!(
            text,
            ",primary={},snapshot={},reigns={},deposed={},stalls={},stalled={}",
            shown.primary,
            shown.snapshot,
            shown.reigns,
            shown.deposed,
            shown.stalls,
            u8::from(self.is_stalled.load(Ordering::Acquire))
        );
        line(out, "cluster_keys", text);
        line(out, "cluster_keys_fault", &shown.fault);
        line(out, "cluster_keys_mark_fault", &shown.mark_fault);
        line(out, "cluster_keys_last_error", &shown.last_error);
    }
}

/// How long clients wait for the quorum before they are told.
pub(super) const STALL_SECONDS: u64 = 10;
