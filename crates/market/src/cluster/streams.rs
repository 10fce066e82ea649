//! The streams of an owner as far as this hub knows them: whether they exist, and when they are
//! made. Without I/O: answers and times come in.
//!
//! A message to a stream that is gone may go unanswered: other hubs hear its subject, so NATS does
//! not say that there is no stream. So the stream of snapshots is looked at when a reign begins,
//! again and again, and soon after a page was not stored.

use std::time::Instant;

use tidewire_cluster::lease;
use tidewire_nats::{Answer, StreamSettings};
use tidewire_retry::Repeated;
use tracing::warn;

use super::config::ClusterConfig;
use super::subjects::Subjects;

/// Delay until streams that could not be made, or that are gone, are asked for again.
pub(super) const RETRY_NS: u64 = 1_000_000_000;
/// Time from one look at the stream of snapshots to the next.
const LOOK_NS: u64 = 5_000_000_000;
/// The same after a page that was not stored.
const SOON_NS: u64 = 500_000_000;

/// What is known of the streams.
#[derive(Debug)]
pub(super) struct Streams {
    state: State,
    /// Whether all have existed. One that is gone since then stops nothing.
    have_existed: bool,
    /// When the stream of snapshots is looked at next.
    look_ns: u64,
    /// For how long they cannot be made.
    failures: Repeated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// They are to be asked for at this time.
    Due(u64),
    /// So many answers are to come; whether one was no success.
    Asked(usize, bool),
    Made,
}

/// What follows from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// More answers are to come.
    Open,
    /// The streams exist for the first time.
    Exist,
    /// They exist again: one may be without what it had.
    ExistAgain,
    /// One could not be made. They are asked for again.
    Failed,
}

impl Streams {
    pub(super) fn new(now_ns: u64) -> Self {
        Self {
            state: State::Due(now_ns),
            have_existed: false,
            look_ns: now_ns,
            failures: Repeated::default(),
        }
    }

    /// Returns whether all have existed.
    pub(super) fn have_existed(&self) -> bool {
        self.have_existed
    }

    /// Returns the settings of the streams if they must be asked for now.
    pub(super) fn wanted(
        &mut self,
        (config, subjects): (&ClusterConfig, &Subjects),
        (now_ns, wall_ms): (u64, u64),
    ) -> Option<[StreamSettings; 3]> {
        if !matches!(self.state, State::Due(at_ns) if now_ns >= at_ns) {
            return None;
        }
        let base = StreamSettings {
            replicas: config.replicas,
            ..StreamSettings::default()
        };
        let streams = [
            StreamSettings {
                name: subjects.log_stream(),
                subjects: vec![subjects.logs()],
                age_max: config.log_age,
                bytes_max: Some(config.log_bytes),
                ..base.clone()
            },
            StreamSettings {
                name: subjects.snapshot_stream(),
                subjects: vec![subjects.snapshot()],
                per_subject_max: Some(1),
                ..base
            },
            StreamSettings {
                replicas: config.replicas,
                // Above the epochs that logs and edges have seen.
                ..StreamSettings::leases(
                    subjects.lease_stream(),
                    subjects.leases(),
                    lease::ENTRY_AGE,
                    lease::first_sequence(wall_ms),
                )
            },
        ];
        self.state = State::Asked(streams.len(), false);
        Some(streams)
    }

    /// Takes the answer for one stream.
    pub(super) fn answered(&mut self, answer: &Answer, source: &str, now_ns: u64) -> Outcome {
        let State::Asked(left, has_failed) = self.state else {
            return Outcome::Open;
        };
        let is_made = matches!(answer, Answer::Made);
        if !is_made
            && !has_failed
            && let Some((failures, _)) = self.failures.failed(Instant::now())
        {
            let reason = why_not_made(answer);
            warn!(source, %reason, failures, "the source's streams cannot be made; retrying");
        }
        match (left - 1, has_failed || !is_made) {
            (0, true) => {
                self.state = State::Due(now_ns.saturating_add(RETRY_NS));
                Outcome::Failed
            }
            (0, false) => {
                self.failures.works();
                self.state = State::Made;
                match std::mem::replace(&mut self.have_existed, true) {
                    true => Outcome::ExistAgain,
                    false => Outcome::Exist,
                }
            }
            (left, failed) => {
                self.state = State::Asked(left, failed);
                Outcome::Open
            }
        }
    }

    /// Has the streams made again: one is gone.
    pub(super) fn one_is_gone(&mut self, now_ns: u64) {
        if self.state == State::Made {
            self.state = State::Due(now_ns.saturating_add(RETRY_NS));
        }
    }

    /// Has the stream of snapshots looked at now: a reign begins.
    pub(super) fn reign_begins(&mut self, now_ns: u64) {
        self.look_ns = now_ns;
    }

    /// Has the stream of snapshots looked at soon: something was not stored in it.
    pub(super) fn not_stored(&mut self, now_ns: u64) {
        self.look_ns = self.look_ns.min(now_ns.saturating_add(SOON_NS));
    }

    /// Returns whether the stream of snapshots must be looked at now.
    pub(super) fn looks(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.look_ns;
        if is_due {
            self.look_ns = now_ns.saturating_add(LOOK_NS);
        }
        is_due
    }

    /// Returns when the streams must be asked for.
    pub(super) fn deadline_ns(&self) -> u64 {
        match self.state {
            State::Due(at_ns) => at_ns,
            State::Asked(..) | State::Made => u64::MAX,
        }
    }

    /// Returns when the stream of snapshots must be looked at.
    pub(super) fn look_ns(&self) -> u64 {
        self.look_ns
    }
}

/// Returns why a stream was not made, in words for the log.
fn why_not_made(answer: &Answer) -> String {
    match answer {
        Answer::Failed(reason) if reason == UNAVAILABLE => {
            "the NATS servers have no JetStream; enable it".to_owned()
        }
        Answer::Failed(reason) => reason.clone(),
        _ => "no answer; may this hub's NATS user publish to $JS.API?".to_owned(),
    }
}

/// What the client says if no server answers for JetStream.
const UNAVAILABLE: &str = "jetstream unavailable";

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Streams that have been made at the time 0.
    fn made() -> Streams {
        let mut streams = Streams::new(0);
        streams.state = State::Asked(3, false);
        assert_eq!(streams.answered(&Answer::Made, "a", 0), Outcome::Open);
        assert_eq!(streams.answered(&Answer::Made, "a", 0), Outcome::Open);
        assert_eq!(streams.answered(&Answer::Made, "a", 0), Outcome::Exist);
        streams
    }

    /// The next owner looked only once its snapshot was stored, which never was.
    #[test]
    fn a_stream_of_snapshots_that_is_gone_is_looked_for_when_a_reign_begins() {
        let mut streams = made();
        assert!(streams.looks(0) && !streams.looks(1));
        streams.reign_begins(2);
        assert!(streams.looks(2));
        // A page goes unanswered: other hubs hear its subject.
        streams.not_stored(3);
        assert!(!streams.looks(3) && streams.looks(3 + SOON_NS));
        assert!(!streams.looks(LOOK_NS), "the next look is later");
        assert!(streams.looks(3 + SOON_NS + LOOK_NS));
    }

    #[test]
    fn streams_are_made_again_after_one_is_gone_and_asked_for_until_they_are() {
        let mut streams = made();
        assert_eq!(streams.deadline_ns(), u64::MAX);
        streams.one_is_gone(S);
        streams.one_is_gone(9 * S);
        assert_eq!(streams.deadline_ns(), 2 * S);
        streams.state = State::Asked(1, true);
        let answer = Answer::TimedOut;
        assert_eq!(streams.answered(&answer, "a", 3 * S), Outcome::Failed);
        assert!(streams.have_existed());
        assert_eq!(streams.deadline_ns(), 4 * S);
        streams.state = State::Asked(1, false);
        assert_eq!(
            streams.answered(&Answer::Made, "a", 4 * S),
            Outcome::ExistAgain
        );
    }
}
