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
/// Time from one look at the settings of all streams to the next: other clients may change them.
const CHECK_NS: u64 = 5_000_000_000;
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
    /// When their settings are looked at next.
    check_ns: u64,
    /// Why one cannot be used; empty if all can.
    fault: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// They are to be asked for at this time.
    Due(u64),
    /// So many answers are to come; whether one was no success.
    Asked(usize, bool),
    Made,
    /// Their settings are looked at.
    Checked(Look),
}

/// What answers have said of the streams' settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    /// Answers that are to come.
    left: usize,
    is_gone: bool,
    is_wrong: bool,
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
            check_ns: 0,
            fault: String::new(),
        }
    }

    /// Returns why a stream cannot be used; empty if all can.
    pub(super) fn fault(&self) -> &str {
        &self.fault
    }

    /// Returns whether all have existed.
    pub(super) fn have_existed(&self) -> bool {
        self.have_existed
    }

    /// Returns the settings of the streams if they must be made, or looked at, now.
    pub(super) fn wanted(
        &mut self,
        (config, subjects): (&ClusterConfig, &Subjects),
        (now_ns, wall_ms): (u64, u64),
    ) -> Option<[StreamSettings; 3]> {
        let must_exist = match self.state {
            State::Due(at_ns) if now_ns >= at_ns => false,
            State::Made if now_ns >= self.check_ns => true,
            _ => return None,
        };
        let base = StreamSettings {
            replicas: config.replicas,
            must_exist,
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
                must_exist,
                // Above the epochs that logs and edges have seen.
                ..bucket((config, subjects), lease::first_sequence(wall_ms))
            },
        ];
        self.state = match must_exist {
            true => State::Checked(Look {
                left: streams.len(),
                is_gone: false,
                is_wrong: false,
            }),
            false => State::Asked(streams.len(), false),
        };
        Some(streams)
    }

    /// Takes the answer for one stream.
    pub(super) fn answered(&mut self, answer: &Answer, source: &str, now_ns: u64) -> Outcome {
        let (left, has_failed) = match self.state {
            State::Asked(left, has_failed) => (left, has_failed),
            State::Checked(look) => {
                self.checked(answer, look, (source, now_ns));
                return Outcome::Open;
            }
            State::Due(_) | State::Made => return Outcome::Open,
        };
        let is_made = matches!(answer, Answer::Made);
        if !is_made && !has_failed {
            let reason = why_not_made(answer);
            if let Some((failures, _)) = self.failures.failed(Instant::now()) {
                warn!(source, %reason, failures, "the source's streams cannot be made; retrying");
            }
            self.fault = reason;
        }
        match (left - 1, has_failed || !is_made) {
            (0, true) => {
                self.state = State::Due(now_ns.saturating_add(RETRY_NS));
                Outcome::Failed
            }
            (0, false) => {
                self.failures.works();
                self.fault.clear();
                self.state = State::Made;
                self.check_ns = now_ns.saturating_add(CHECK_NS);
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

    /// Takes the answer for a stream that was looked at.
    fn checked(&mut self, answer: &Answer, mut look: Look, (source, now_ns): (&str, u64)) {
        look.left -= 1;
        match answer {
            Answer::Made => {}
            Answer::NoStream => look.is_gone = true,
            Answer::Failed(reason) => {
                look.is_wrong = true;
                self.note_fault(reason, source);
            }
            _ => look.is_wrong = true,
        }
        self.state = State::Checked(look);
        if look.left > 0 {
            return;
        }
        self.check_ns = now_ns.saturating_add(CHECK_NS);
        self.state = State::Made;
        if look.is_gone {
            self.one_is_gone(now_ns);
        } else if !look.is_wrong {
            self.fault.clear();
        }
    }

    /// Notes why a stream cannot be used, as an answer about it says.
    pub(super) fn note_fault(&mut self, reason: &str, source: &str) {
        if self.fault != reason {
            warn!(source, reason, "one of the source's streams cannot be used");
            reason.clone_into(&mut self.fault);
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
            State::Made => self.check_ns,
            State::Asked(..) | State::Checked(_) => u64::MAX,
        }
    }

    /// Returns when the stream of snapshots must be looked at.
    pub(super) fn look_ns(&self) -> u64 {
        self.look_ns
    }
}

/// Returns the settings of the bucket of leases. If it is made, its first revision is this.
pub(super) fn bucket(
    (config, subjects): (&ClusterConfig, &Subjects),
    first_revision: u64,
) -> StreamSettings {
    StreamSettings {
        replicas: config.replicas,
        ..StreamSettings::leases(
            subjects.lease_stream(),
            subjects.leases(),
            lease::ENTRY_AGE,
            first_revision,
        )
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
        assert_eq!(streams.deadline_ns(), CHECK_NS);
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

    /// The hub said nothing when another program had given its stream other subjects.
    #[test]
    fn settings_are_looked_at_again_and_what_is_wrong_is_told_until_it_is_right() {
        let mut streams = made();
        let look = |left| Look {
            left,
            is_gone: false,
            is_wrong: false,
        };
        let wrong = Answer::Failed("stream LOG is in use".to_owned());
        streams.state = State::Checked(look(2));
        assert_eq!(streams.answered(&wrong, "a", S), Outcome::Open);
        assert_eq!(streams.answered(&Answer::Made, "a", S), Outcome::Open);
        assert_eq!(streams.fault(), "stream LOG is in use");
        assert_eq!(streams.deadline_ns(), S + CHECK_NS);
        streams.state = State::Checked(look(2));
        streams.answered(&Answer::TimedOut, "a", 2 * S);
        streams.answered(&Answer::Made, "a", 2 * S);
        assert_ne!(streams.fault(), "", "not every stream has answered");
        streams.state = State::Checked(look(1));
        streams.answered(&Answer::Made, "a", 3 * S);
        assert_eq!(streams.fault(), "");
        streams.state = State::Checked(look(1));
        streams.answered(&Answer::NoStream, "a", 4 * S);
        assert_eq!(streams.deadline_ns(), 4 * S + RETRY_NS, "it is made again");
    }
}
