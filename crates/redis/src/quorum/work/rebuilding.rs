//! TIDEWIRE.KEYS REBUILD: a hub whose stream cannot be gone on with stores the keys of its memory
//! again, and is the primary then.
//!
//! ```text
//!  failed ──the operator's command──▶ it gets the lease ──▶ the stream is as it was at the command
//!     ▲                                                             │ the client gets its OK
//!     │                    a snapshot is stored, the stream is closed behind its last message and
//!     │                    emptied up to a sequence that is new     ◀┘
//!     └── another hub has the lease, has written,                   │
//!         or can go on; or NATS fails                 primary ◀── its fence
//! ```
//!
//! The lease says which of several hubs stores its keys. The stream says whether another hub has
//! begun a reign since the command: then this hub gives up, because it lacks what that one has
//! acknowledged. A message that closes the stream, and is refused if anything was written since,
//! comes before all that removes something.
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
/// How long other hubs have to say that they can go on with the stream.
const ANSWER_NS: u64 = 1_000_000_000;
/// Time from one look for another primary to the next.
const RIVAL_NS: u64 = 1_000_000_000;

/// What a failed hub does.
#[derive(Debug, Default)]
pub(super) struct Rebuilding {
    rival_ns: u64,
    /// What the stream had when it was looked at last; `None` if that is not known.
    stream: Option<StreamState>,
    step: Option<Step>,
}

/// What the stream of the keys has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamState {
    Absent,
    Has { origin: u64, last: u64 },
}

#[derive(Debug)]
struct Step {
    /// Before that, other hubs may say that they can go on with the stream.
    listen_until_ns: u64,
    /// Until when the lease must be there.
    until_ns: u64,
    /// What the stream had at the command.
    before: StreamState,
    /// The lease under which the keys are stored.
    epoch: Option<u64>,
    /// The thread that stores them.
    job: Option<JoinHandle<Result<KeysHead, String>>>,
    /// The lease is lost, or the hub ends.
    is_over: Arc<AtomicBool>,
}

impl StreamState {
    fn of(answer: &Answer) -> Option<StreamState> {
        match answer {
            Answer::NoStream => Some(StreamState::Absent),
            Answer::Extent(extent) => Some(StreamState::Has {
                origin: extent.origin,
                last: extent.last,
            }),
            _ => None,
        }
    }

    /// Fails if something was written since: another hub may have acknowledged it.
    fn is_unchanged_since(self, before: StreamState) -> Result<(), String> {
        match self {
            StreamState::Absent => Ok(()),
            now if now == before => Ok(()),
            StreamState::Has { origin, last } if before == StreamState::Absent && last < origin => {
                Ok(())
            }
            StreamState::Has { last, .. } => Err(format!(
                "the stream has changed since the command and ends at message {last}: another hub \
                 has begun to write; start this hub again, so that it loads what that one has"
            )),
        }
    }

    fn last(self) -> Option<u64> {
        match self {
            StreamState::Absent => None,
            StreamState::Has { last, .. } => Some(last),
        }
    }
}

impl Work {
    /// What a failed hub does: it looks whether another one is the primary, and stores its keys
    /// again if it is told to.
    pub(super) fn follow_failure(&mut self, now_ns: u64) {
        if self.rebuilding.step.is_none() {
            return self.await_command(now_ns);
        }
        self.member.handle_timeout(0, now_ns);
        let epoch = self.member.may_rebuild(now_ns);
        let Some(step) = &mut self.rebuilding.step else {
            return;
        };
        match (&mut step.job, step.epoch) {
            (Some(job), _) if job.is_finished() => {
                let is_same = epoch == step.epoch;
                match step.job.take().map(JoinHandle::join) {
                    Some(Ok(Ok(head))) if is_same => self.rebuilt(&head, now_ns),
                    Some(Ok(Err(text))) if is_same => self.give_up_rebuilding(&text),
                    Some(Err(_)) => self.give_up_rebuilding("the thread has ended"),
                    _ => self.give_up_rebuilding(LEASE_LOST),
                }
            }
            (Some(_), _) if epoch != step.epoch => step.is_over.store(true, Ordering::Release),
            (Some(_), _) => {}
            (None, Some(_)) if epoch != step.epoch => self.give_up_rebuilding(LEASE_LOST),
            // The stream is looked at.
            (None, Some(_)) => {}
            (None, None) if epoch.is_some() && now_ns >= step.listen_until_ns => {
                step.epoch = epoch;
                self.look_at_failed_stream();
            }
            (None, None) if now_ns >= step.until_ns => {
                self.give_up_rebuilding("another hub has the lease, or NATS does not answer");
            }
            (None, None) => {}
        }
    }

    fn await_command(&mut self, now_ns: u64) {
        if now_ns >= self.rebuilding.rival_ns {
            self.rebuilding.rival_ns = now_ns.saturating_add(RIVAL_NS);
            let tag = self.open(Request::Rival);
            let (stream, subject) = (self.config.lease_stream(), self.config.lease_subject());
            self.link.newest(tag, &stream, Some(&subject));
            self.look_at_failed_stream();
        }
        if self.server.quorum.is_rebuilding.load(Ordering::SeqCst) {
            self.begin_rebuilding(now_ns);
        }
    }

    fn look_at_failed_stream(&mut self) {
        let tag = self.open(Request::FailedStream);
        self.link.extent(tag, &self.config.stream());
    }

    /// What the stream has: before the command, or when this hub has got the lease.
    pub(super) fn failed_stream_found(&mut self, answer: &Answer, now_ns: u64) {
        let found = StreamState::of(answer);
        let Some(step) = &self.rebuilding.step else {
            self.rebuilding.stream = found;
            return;
        };
        let (epoch, before) = (step.epoch, step.before);
        if epoch.is_none() || step.job.is_some() {
            return;
        }
        let Some(found) = found else {
            return self.give_up_rebuilding("NATS does not say what the stream has");
        };
        if let Err(text) = found.is_unchanged_since(before) {
            return self.give_up_rebuilding(&text);
        }
        match epoch.filter(|_| self.member.may_rebuild(now_ns) == epoch) {
            Some(epoch) => self.store_keys(epoch, found),
            None => self.give_up_rebuilding(LEASE_LOST),
        }
    }

    /// Another hub has the lease: it is the primary, or stores its keys again.
    pub(super) fn lease_is_anothers(&mut self, payload: &[u8]) {
        if self
            .rebuilding
            .step
            .as_ref()
            .is_some_and(|step| step.job.is_none())
        {
            let other = String::from_utf8_lossy(payload);
            let text = format!("another hub is the primary, or stores its keys again: {other}");
            self.give_up_rebuilding(&text);
        }
    }

    /// Another hub has all keys of the stream.
    pub(super) fn another_goes_on(&mut self, hub: &[u8]) {
        if self
            .rebuilding
            .step
            .as_ref()
            .is_some_and(|step| step.job.is_none())
        {
            let hub = String::from_utf8_lossy(hub);
            let text = format!("hub {hub} can go on with the stream; start this hub again");
            self.give_up_rebuilding(&text);
        }
    }

    /// The command came when the keys were stored already.
    pub(super) fn is_rebuilt(&self) {
        let reason = Some("this hub can go on with the stream");
        self.server.quorum.rebuilding_ended(&self.server, reason);
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
        let Some(before) = self.rebuilding.stream else {
            return self.give_up_rebuilding("it is not known what the stream has");
        };
        info!("keys: this hub stores the keys of its memory again, once it has the lease");
        let position = self.member.position();
        self.requests.clear();
        self.member = KeysMember::rebuild(KeysConfig::of(self.seed), position, now_ns);
        self.rebuilding.step = Some(Step {
            listen_until_ns: now_ns.saturating_add(ANSWER_NS),
            until_ns: now_ns.saturating_add(LEASE_NS_MAX),
            before,
            epoch: None,
            job: None,
            is_over: Arc::default(),
        });
        self.ask_who_goes_on();
    }

    /// Stores a snapshot, and empties the stream, on a thread of its own.
    fn store_keys(&mut self, lease_epoch: u64, stream: StreamState) {
        let Some(step) = &mut self.rebuilding.step else {
            return;
        };
        let (server, is_stopped) = (self.server.clone(), self.is_stopped.clone());
        server.quorum.rebuilding_began(&server);
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
            last: stream.last(),
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
        quorum.rebuilding_ended(&self.server, None);
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
        (self.rebuilding.stream, self.rebuilding.rival_ns) = (None, 0);
        quorum.rebuilding_ended(&self.server, Some(reason));
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

const LEASE_LOST: &str = "the lease was lost meanwhile";

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two hubs that were told to store their keys, one acknowledged writes and died. The other
    /// one then removed them.
    #[test]
    fn a_stream_that_was_written_to_since_the_command_is_not_emptied() {
        let absent = StreamState::Absent;
        let has = |origin, last| StreamState::Has { origin, last };
        for (before, now) in [
            (absent, absent),
            // Made by a hub that began to store its keys, and ended.
            (absent, has(100, 99)),
            (has(100, 120), has(100, 120)),
            (has(100, 120), absent),
        ] {
            assert_eq!(now.is_unchanged_since(before), Ok(()), "{before:?}");
        }
        for (before, now) in [
            (absent, has(100, 100)),
            (has(100, 120), has(100, 121)),
            (has(100, 120), has(200, 199)),
            // Restored meanwhile.
            (has(100, 120), has(100, 110)),
        ] {
            let text = now.is_unchanged_since(before).unwrap_err();
            assert!(text.contains("has changed since the command"), "{text}");
        }
    }
}
