//! TIDEWIRE.KEYS REBUILD: a hub whose stream cannot be gone on with stores the keys of its memory
//! again, and is the primary then.
//!
//! ```text
//!  failed ──the operator's command──▶ it gets the lease ──▶ a snapshot is stored, the stream is
//!     ▲                                                     emptied up to a sequence that is new
//!     └── another hub has the lease, or NATS fails                  │
//!                                     primary ◀── its fence ◀───────┘
//! ```
//!
//! The snapshot comes before the stream is emptied: if the hub ends in between, no hub goes on with
//! less than there was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tidewire_cluster::keys::{KeysConfig, KeysHead, KeysMember};
use tidewire_nats::Answer;
use tracing::{error, info};

use super::streams::{Streams, first_sequence, keys_settings, snapshot_settings};
use super::{Request, Work};
use crate::quorum::snapshot;
use crate::quorum::state::Mode;

/// How long the hub tries to get the lease. An entry of a bucket that was made again counts after
/// 3 s only.
const LEASE_NS_MAX: u64 = 15_000_000_000;
/// Time from one look for another primary to the next.
const RIVAL_NS: u64 = 1_000_000_000;

/// What a failed hub does.
#[derive(Debug, Default)]
pub(super) struct Rebuilding {
    rival_ns: u64,
    /// Until when the lease must be there, and the thread that stores the keys behind that.
    step: Option<Step>,
}

#[derive(Debug)]
struct Step {
    until_ns: u64,
    job: Option<JoinHandle<Result<KeysHead, String>>>,
    /// The lease is lost, or the hub ends.
    is_over: Arc<AtomicBool>,
}

impl Work {
    /// What a failed hub does: it looks whether another one is the primary, and stores its keys
    /// again if it is told to.
    pub(super) fn follow_failure(&mut self, now_ns: u64) {
        if self.rebuilding.step.is_none() {
            if now_ns >= self.rebuilding.rival_ns {
                self.rebuilding.rival_ns = now_ns.saturating_add(RIVAL_NS);
                let tag = self.open(Request::Rival);
                let (stream, subject) = (self.config.lease_stream(), self.config.lease_subject());
                self.link.newest(tag, &stream, Some(&subject));
            }
            if self.server.quorum.is_rebuilding.load(Ordering::SeqCst) {
                self.begin_rebuilding(now_ns);
            }
            return;
        }
        self.member.handle_timeout(0, now_ns);
        let epoch = self.member.may_rebuild(now_ns);
        let Some(step) = &mut self.rebuilding.step else {
            return;
        };
        match (&mut step.job, epoch) {
            (None, Some(epoch)) => self.store_keys(epoch),
            (None, None) if now_ns >= step.until_ns => {
                let text = "another hub has the lease, or NATS does not answer";
                self.give_up_rebuilding(text);
            }
            (None, None) => {}
            (Some(job), _) if job.is_finished() => {
                let result = step.job.take().map(JoinHandle::join);
                match result {
                    Some(Ok(Ok(head))) if epoch.is_some() => self.rebuilt(&head, now_ns),
                    Some(Ok(Err(text))) => self.give_up_rebuilding(&text),
                    _ => self.give_up_rebuilding("the lease was lost meanwhile"),
                }
            }
            (Some(_), _) => step.is_over.store(epoch.is_none(), Ordering::Release),
        }
    }

    /// The lease, as it was found: whose it is.
    pub(super) fn rival_found(&mut self, answer: &Answer) {
        let rival = match answer {
            Answer::Newest(Some(entry)) if !entry.is_deletion && entry.payload != self.mark => {
                Some(String::from_utf8_lossy(&entry.payload).into_owned())
            }
            Answer::Newest(_) | Answer::NoStream => Some(String::new()),
            _ => None,
        };
        self.server.quorum.shown.lock().rival = rival;
    }

    fn begin_rebuilding(&mut self, now_ns: u64) {
        info!("keys: this hub stores the keys of its memory again, once it has the lease");
        let position = self.member.position();
        self.requests.clear();
        self.member = KeysMember::rebuild(KeysConfig::of(self.seed), position, now_ns);
        self.rebuilding.step = Some(Step {
            until_ns: now_ns.saturating_add(LEASE_NS_MAX),
            job: None,
            is_over: Arc::default(),
        });
    }

    /// Stores a snapshot, and empties the stream, on a thread of its own.
    fn store_keys(&mut self, lease_epoch: u64) {
        let Some(step) = &mut self.rebuilding.step else {
            return;
        };
        let (server, is_stopped) = (self.server.clone(), self.is_stopped.clone());
        // The keys stand still from here on.
        let is_over = || is_stopped.load(Ordering::Acquire);
        if !server.replication.rest_as_replica(&server, is_over) {
            return;
        }
        let end = server.replication.log_end(&server);
        server.quorum.durable.store(end, Ordering::SeqCst);
        server.quorum.told.store(0, Ordering::SeqCst);
        let mut history = [0; 20];
        // No fence has this name: reigns are numbered from 1.
        history[..12].copy_from_slice(&self.seed);
        let rebuilding = snapshot::Rebuilding {
            keys: keys_settings(&self.config),
            snapshots: snapshot_settings(&self.config),
            behind: first_sequence().max(self.member.known_message().max(self.known)),
            // Below that of the fence, which is the lease's.
            epoch: lease_epoch.saturating_sub(1).max(1),
            history,
        };
        let (config, is_over) = (self.config.clone(), step.is_over.clone());
        let job = std::thread::Builder::new()
            .name("keys-snapshot".to_owned())
            .spawn(move || snapshot::rebuild(&server, &config, rebuilding, is_over));
        match job {
            Ok(job) => step.job = Some(job),
            Err(error) => self.give_up_rebuilding(&error.to_string()),
        }
    }

    fn rebuilt(&mut self, head: &KeysHead, now_ns: u64) {
        info!(
            offset = head.offset,
            sequence = head.sequence,
            "keys: the keys of this hub's memory are stored again"
        );
        self.rebuilding.step = None;
        self.database = head.database as usize;
        self.upkeep.offset = head.offset;
        self.known = head.sequence;
        self.is_loaded = true;
        self.streams = Streams::Made;
        self.member.know(head.sequence);
        self.member.rebuilt(head.position(), now_ns);
        let quorum = &self.server.quorum;
        let mut shown = quorum.shown.lock();
        shown.fault.clear();
        shown.snapshot = head.offset;
        drop(shown);
        quorum.is_rebuilding.store(false, Ordering::SeqCst);
        quorum.set_mode(&self.server, Mode::Loading);
    }

    fn give_up_rebuilding(&mut self, reason: &str) {
        error!("keys: the keys of this hub's memory are not stored again: {reason}");
        self.rebuilding.step = None;
        self.member.end();
        let quorum = &self.server.quorum;
        let mut shown = quorum.shown.lock();
        shown.last_error = format!("the keys are not stored again: {reason}");
        shown.rival = None;
        drop(shown);
        quorum.is_rebuilding.store(false, Ordering::SeqCst);
    }

    /// The hub ends.
    pub(super) fn end_rebuilding(&mut self) {
        if let Some(step) = self.rebuilding.step.take() {
            step.is_over.store(true, Ordering::Release);
            if let Some(job) = step.job {
                let _ = job.join();
            }
        }
    }
}
