//! Snapshots: when they are stored, whether they are still there, and loading them.

use std::sync::atomic::Ordering;

use tidewire_cluster::keys::{KeysConfig, KeysFault, KeysHead, KeysMember, KeysPosition, KeysRole};
use tidewire_lane::monotonic_ns;
use tidewire_nats::{Answer, Entry};
use tracing::{error, info, warn};

use super::{Request, WAIT_MAX, Work};
use crate::quorum::snapshot;
use crate::quorum::state::Mode;

/// Time from a snapshot that failed to the next.
const SNAPSHOT_RETRY_NS: u64 = 60_000_000_000;
/// The same while clients wait for it.
const HEALING_RETRY_NS: u64 = 2_000_000_000;
/// Time from one look at the stored snapshots to the next.
const COVER_NS: u64 = 5_000_000_000;
/// The same of a hub that lacks messages.
const LACKING_NS: u64 = 1_000_000_000;

/// When what is done next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Upkeep {
    /// Offset of the newest snapshot, and when the next may be made.
    pub(super) offset: u64,
    /// The message behind which the snapshot goes on that was loaded.
    loaded: u64,
    next_ns: u64,
    healing_ns: u64,
    /// Number of the look at the stored snapshots. One that a snapshot has overtaken says nothing.
    round: u64,
    cover_ns: u64,
    lacking_ns: u64,
    losses: u64,
}

impl Work {
    /// Begins with the newest snapshot, or with the beginning of the stream.
    pub(super) fn begin(&mut self) {
        if let Some(position) = self.load_snapshot() {
            let now_ns = monotonic_ns();
            self.requests.clear();
            self.known = self.known.max(self.member.known_message());
            self.member = KeysMember::new(KeysConfig::of(self.seed), position, now_ns);
            self.member.know(self.known);
            self.is_loaded = true;
        }
    }

    /// Returns where the stream is to be read on. `None` if the hub ends first.
    pub(super) fn load_snapshot(&mut self) -> Option<KeysPosition> {
        while !self.is_stopped.load(Ordering::Acquire) {
            match snapshot::load(&self.server, &self.config, &self.is_stopped) {
                Ok(head) => {
                    let head = head.unwrap_or_default();
                    self.database = head.database as usize;
                    self.upkeep.offset = head.offset;
                    self.upkeep.loaded = head.sequence;
                    self.server
                        .quorum
                        .durable
                        .store(head.offset, Ordering::SeqCst);
                    return Some(head.position());
                }
                Err(text) => {
                    let answer = Answer::Failed(text);
                    self.note_error("the snapshots cannot be read", &answer);
                    std::thread::sleep(WAIT_MAX);
                }
            }
        }
        None
    }

    /// The stream ends before the snapshot that this hub has loaded, and no message behind that is
    /// known: this hub has all keys. A hub that ended while it stored its keys again leaves that.
    pub(super) fn keep_loaded_keys(&self, fault: &KeysFault) {
        let is_lost = matches!(fault, KeysFault::Lost { .. } | KeysFault::Replaced { .. });
        let sequence = self.member.position().sequence;
        let has_all = sequence > 0
            && sequence == self.upkeep.loaded
            && sequence == self.member.known_message();
        if is_lost && has_all {
            self.server.quorum.has_keys.store(true, Ordering::SeqCst);
        }
    }

    /// Messages that this hub needs are missing. It keeps what it has until there is a newer
    /// snapshot.
    pub(super) fn lacking(&mut self) {
        let (now_ns, mode) = (monotonic_ns(), self.server.quorum.mode());
        let may = matches!(mode, Mode::Loading | Mode::Standby | Mode::Suspended);
        if !may || now_ns < self.upkeep.lacking_ns {
            return;
        }
        self.upkeep.lacking_ns = now_ns.saturating_add(LACKING_NS);
        self.complain();
        let position = self.member.position();
        let is_newer =
            |head: &KeysHead| head.sequence > position.sequence && head.offset >= position.whole;
        match snapshot::newest(&self.config, &self.is_stopped) {
            Ok(Some(head)) if is_newer(&head) && mode == Mode::Suspended => {
                self.member.note_reign_of_snapshot(head.epoch, now_ns);
            }
            Ok(Some(head)) if is_newer(&head) => self.reload(),
            Ok(_) => {}
            Err(text) => {
                self.note_error("the snapshots cannot be read", &Answer::Failed(text));
            }
        }
    }

    /// A standby begins again with the newest snapshot.
    fn reload(&mut self) {
        warn!("keys: the stream goes on behind a newer snapshot: this hub loads that one");
        let (server, is_stopped) = (self.server.clone(), self.is_stopped.clone());
        server.quorum.set_mode(&server, Mode::Loading);
        server.quorum.has_keys.store(false, Ordering::SeqCst);
        let is_over = || is_stopped.load(Ordering::Acquire);
        if server.replication.leave_primary(&server, is_over) {
            server.quorum.durable.store(0, Ordering::SeqCst);
            self.begin();
        }
    }

    /// Stores a snapshot when enough was changed since the last one, or when only this hub has some
    /// of the keys.
    pub(super) fn follow_snapshots(&mut self) {
        let now_ns = monotonic_ns();
        if let Some(job) = self.snapshot_job.take_if(|job| job.is_finished()) {
            self.upkeep.round += 1;
            self.upkeep.cover_ns = now_ns;
            match job.join() {
                Ok(Ok(head)) => {
                    self.upkeep.offset = head.offset;
                    self.server.quorum.shown.lock().snapshot = head.offset;
                    self.member.has_snapshot(head.sequence);
                }
                Ok(Err(text)) => {
                    self.note_error("a snapshot cannot be stored", &Answer::Failed(text));
                    self.upkeep.next_ns = now_ns + SNAPSHOT_RETRY_NS;
                    self.upkeep.healing_ns = now_ns + HEALING_RETRY_NS;
                }
                Err(_) => (self.upkeep.next_ns, self.upkeep.healing_ns) = (u64::MAX, u64::MAX),
            }
        }
        let position = self.member.position();
        let changed = position.whole.saturating_sub(self.upkeep.offset);
        let is_due = changed >= self.config.snapshot_bytes && now_ns >= self.upkeep.next_ns;
        let heals = self.member.needs_snapshot() && now_ns >= self.upkeep.healing_ns;
        let is_primary = self.server.quorum.mode() == Mode::Primary;
        if (!is_due && !heals) || !is_primary || self.snapshot_job.is_some() {
            return;
        }
        let (server, config) = (self.server.clone(), self.config.clone());
        let (is_stopped, wrong) = (self.is_stopped.clone(), self.member.wrong_message());
        let job = std::thread::Builder::new()
            .name("keys-snapshot".to_owned())
            .spawn(move || snapshot::save(&server, &config, (position, wrong), is_stopped));
        match job {
            Ok(job) => self.snapshot_job = Some(job),
            Err(error) => {
                warn!(%error, "keys: no thread for a snapshot");
                self.upkeep.next_ns = now_ns + SNAPSHOT_RETRY_NS;
                self.upkeep.healing_ns = now_ns + HEALING_RETRY_NS;
            }
        }
    }

    /// The primary looks from time to time whether its newest snapshot is still stored.
    pub(super) fn follow_coverage(&mut self) {
        let (now_ns, figures) = (monotonic_ns(), self.member.figures());
        let before = std::mem::replace(&mut self.upkeep.losses, figures.losses);
        if figures.losses > before {
            error!(
                "keys: messages of the stream are lost or wrong, and no snapshot has them; \
                 nothing more is acknowledged until this hub has stored a snapshot"
            );
            self.mend_keys_stream();
        }
        let looks = figures.role == KeysRole::Primary && self.snapshot_job.is_none();
        if looks && now_ns >= self.upkeep.cover_ns {
            self.upkeep.cover_ns = now_ns.saturating_add(COVER_NS);
            self.mend_keys_stream();
            self.upkeep.round += 1;
            let tag = self.open(Request::Head(self.upkeep.round));
            let stream = self.config.snapshot_stream();
            self.link
                .newest(tag, &stream, Some(&self.config.head_subject()));
        }
    }

    /// A reign begins: what is stored is looked at now.
    pub(super) fn look_at_snapshots(&mut self) {
        self.upkeep.cover_ns = 0;
    }

    /// The newest head, as the stream's leader has it.
    pub(super) fn head_found(&mut self, round: u64, entry: Option<&Entry>) {
        if round != self.upkeep.round || self.snapshot_job.is_some() {
            return;
        }
        match entry.and_then(|entry| KeysHead::decode(&entry.payload)) {
            Some(head) => {
                let tag = self.open(Request::Parts(round, head.sequence, head.parts));
                let subject = self.config.part_subject(head.number);
                let stream = self.config.snapshot_stream();
                self.link.count(tag, &stream, Some(&subject));
            }
            None => self.member.has_snapshot(0),
        }
    }

    /// So many parts of it are there.
    pub(super) fn parts_found(&mut self, (round, sequence, parts): (u64, u64, u32), count: u64) {
        if round == self.upkeep.round && self.snapshot_job.is_none() {
            let is_whole = count == u64::from(parts);
            if !is_whole {
                info!(
                    count,
                    parts, "keys: the newest snapshot is not whole any more"
                );
            }
            self.member
                .has_snapshot(if is_whole { sequence } else { 0 });
        }
    }
}
