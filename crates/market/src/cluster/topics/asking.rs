//! Writes of this hub's clients to topics of other hubs.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidewire_cluster::writes::{
    AskedWrites, WriteAnswer, WriteId, WriteOutcome, WriteRequest, encode_words,
};
use tidewire_fanout::{AskedWrite, Outcomes, WriteAction, WriteEnd};
use tidewire_lane::unix_ns;
use tidewire_nats::{Answer, Asking as NatsRequest, Link};
use tidewire_resp::{Progress, Protocol, ReplyKind, ReplyParser};
use tidewire_retry::Seldom;
use tracing::warn;

use super::SharedTopics;
use super::remote::Remote;
use crate::cluster::config::{ClusterConfig, ClusterName};
use crate::cluster::requests::{Request, Requests};
use crate::cluster::subjects;
use crate::remote_board::BUSY;

/// The edge's side of writes.
pub(super) struct Asking {
    cluster: ClusterName,
    hub: ClusterName,
    timeout: Duration,
    table: AskedWrites<Asked>,
    /// Messages of pushers by their hub: they keep their order, and wait until none that was sent
    /// before may have to be sent again.
    held: BTreeMap<Box<str>, VecDeque<Asked>>,
    /// Whether answers are listened to: from the first write on.
    listens: bool,
    /// Whether NATS lets this hub hear no answers.
    is_deaf: bool,
    shared: SharedTopics,
}

/// A write that waits.
struct Asked {
    write: AskedWrite,
    /// Whether it was sent before, without a ticket or with an old one.
    is_repeated: bool,
    /// Whether others wait until it is answered, if it is a message of a pusher.
    leads: bool,
    due_ns: u64,
}

impl Asking {
    pub(super) fn new(config: &ClusterConfig, shared: SharedTopics) -> Self {
        // Its keys are of the system's source of random numbers.
        let session = RandomState::new().hash_one(unix_ns()).max(1);
        Self {
            cluster: config.name.clone(),
            hub: config.hub.clone(),
            timeout: config.writes.timeout,
            table: AskedWrites::new(session),
            held: BTreeMap::new(),
            listens: false,
            is_deaf: false,
            shared,
        }
    }

    /// Returns the pattern of the answers' subjects.
    fn answers(&self) -> String {
        subjects::answers(&self.cluster, self.hub.as_str())
    }

    /// Sends what clients have asked for, and gives up what has waited too long.
    pub(super) fn turn(
        &mut self,
        (remote, is_linked): (&Remote, bool),
        (link, requests): (&Link, &mut Requests),
        now_ns: u64,
    ) {
        let due_ns = now_ns.saturating_add(self.timeout.as_nanos() as u64);
        self.release((remote, is_linked), (link, requests), now_ns);
        for write in self.shared.writes.take_asked() {
            let asked = Asked {
                write,
                is_repeated: false,
                leads: false,
                due_ns,
            };
            self.ask(asked, (remote, is_linked), (link, requests), now_ns);
        }
        let ms = self.timeout.as_millis();
        self.give_up(self.table.due(now_ns), |hub| {
            format!("hub '{hub}' has not answered within {ms} ms")
        });
        let held = self.held.values().flatten();
        let (count, bytes) = held.fold((0, 0), |(count, bytes), held| {
            (count + 1, bytes + held.bytes())
        });
        let counters = &self.shared.writes.counters;
        let (waiting, bytes) = (self.table.waiting() + count, self.table.bytes() + bytes);
        if waiting == 0 {
            self.shared.writes.forget_unblocked();
        }
        counters
            .asked_waiting
            .store(waiting as u64, Ordering::Relaxed);
        counters.asked_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Sends messages of pushers that need not wait any more.
    fn release(
        &mut self,
        (remote, is_linked): (&Remote, bool),
        (link, requests): (&Link, &mut Requests),
        now_ns: u64,
    ) {
        let hubs: Vec<Box<str>> = self.held.keys().cloned().collect();
        for hub in hubs {
            let reign = remote.reign(&hub);
            if reign.is_some_and(|epoch| self.table.must_wait((&hub, epoch), now_ns)) {
                continue;
            }
            // What must wait again keeps its order.
            for asked in self.held.remove(&hub).unwrap_or_default() {
                self.ask(asked, (remote, is_linked), (link, requests), now_ns);
            }
        }
    }

    fn ask(
        &mut self,
        mut asked: Asked,
        (remote, is_linked): (&Remote, bool),
        (link, requests): (&Link, &mut Requests),
        now_ns: u64,
    ) {
        let hub = asked.write.hub.clone();
        if !is_linked {
            let text = format!("NOLINK there is no link to NATS: {NOTHING_WRITTEN}");
            return self.tell(&asked, Err(text));
        }
        if self.is_deaf {
            let text = self.deafness();
            return self.tell(&asked, Err(text));
        }
        let Some(epoch) = remote.reign(&hub) else {
            let text = format!("NOLINK hub '{hub}' is not heard: {NOTHING_WRITTEN}");
            return self.tell(&asked, Err(text));
        };
        let owner = (&*hub, epoch);
        if asked.due_ns <= now_ns {
            let text = format!("NOLINK hub '{hub}' has not answered in time: {NOTHING_WRITTEN}");
            return self.tell(&asked, Err(text));
        }
        if asked.is_push() && !asked.is_repeated {
            let must_wait = self.table.must_wait(owner, now_ns);
            if must_wait || self.held.contains_key(&hub) {
                self.held.entry(hub).or_default().push_back(asked);
                return;
            }
            asked.leads = !self.table.is_fresh(owner, now_ns);
        }
        let takes_commands = self.table.takes_commands(owner);
        if asked.is_command() && takes_commands == Some(false) {
            let text = format!(
                "READONLY hub '{hub}' has an earlier version, which takes a plain SET only: \
                 {NOTHING_WRITTEN}"
            );
            return self.tell(&asked, Err(text));
        }
        let (bytes, due_ns) = (asked.bytes(), asked.due_ns);
        let (id, payload) = match self.table.begin(asked, owner, bytes, due_ns) {
            Ok((id, ticket)) => (id, self.request(id, ticket)),
            Err(asked) => return self.tell(&asked, Err(BUSY.to_owned())),
        };
        if !std::mem::replace(&mut self.listens, true) {
            link.listen(&self.answers());
        }
        let tag = requests.open(Request::Write(id.number));
        let of = (&*hub, self.hub.as_str());
        let left_ns = due_ns.saturating_sub(now_ns);
        link.ask(
            tag,
            NatsRequest {
                subject: subjects::write(&self.cluster, &hub, self.hub.as_str()),
                reply: subjects::answer(&self.cluster, of, id),
                payload: payload.into(),
                // The table ends it before.
                timeout: Duration::from_nanos(left_ns) + Duration::from_secs(1),
            },
        );
    }

    fn request(&self, id: WriteId, ticket: u64) -> Vec<u8> {
        let Some(Asked { write, .. }) = self.table.get(id.number) else {
            return Vec::new();
        };
        let plain = WriteRequest {
            id,
            ticket,
            name: &write.name,
            user: &write.user,
            address: write.address.as_bytes(),
            is_command: false,
            value: &[],
        };
        match &write.action {
            WriteAction::Value(value) => WriteRequest { value, ..plain }.encode(),
            // The owner may not know commands. A request without a ticket takes no effect, and its
            // answer says so.
            WriteAction::Command { .. } if ticket == 0 => plain.encode(),
            WriteAction::Command { words, protocol } => {
                let protocol = match protocol {
                    Protocol::Resp2 => 2,
                    Protocol::Resp3 => 3,
                };
                WriteRequest {
                    is_command: true,
                    value: &encode_words(protocol, words.as_arguments().iter()),
                    ..plain
                }
                .encode()
            }
        }
    }

    /// Handles what NATS has answered to a request.
    pub(super) fn answered(
        &mut self,
        number: u64,
        answer: Answer,
        remote: (&Remote, bool),
        link: (&Link, &mut Requests),
        now_ns: u64,
    ) {
        let reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::NotHeard => {
                return self.end_with(number, |hub| {
                    format!(
                        "READONLY hub '{hub}' takes no writes of other hubs, or has ended: \
                         {NOTHING_WRITTEN}"
                    )
                });
            }
            Answer::TimedOut => {
                return self.give_up(vec![number], |hub| {
                    format!("hub '{hub}' has not answered in time")
                });
            }
            answer => {
                return self.give_up(vec![number], |hub| {
                    format!("the request to hub '{hub}' failed ({})", why(&answer))
                });
            }
        };
        match WriteAnswer::decode(&reply) {
            Ok(answer) if self.table.is_answer(number, &answer, now_ns) => match answer.outcome {
                WriteOutcome::Again => self.ask_again(number, remote, link, now_ns),
                WriteOutcome::Done => self.end(number, Ok(None)),
                WriteOutcome::Replied if is_reply(answer.reply) => {
                    self.end(number, Ok(Some(answer.reply.into())));
                }
                WriteOutcome::Replied => self.not_understood(number),
                WriteOutcome::Refused | WriteOutcome::Unknown => {
                    self.end(number, Err(answer.text.to_owned()));
                }
            },
            _ => self.not_understood(number),
        }
    }

    fn not_understood(&mut self, number: u64) {
        self.give_up(vec![number], |hub| {
            format!("the answer of hub '{hub}' is not understood")
        });
    }

    /// Sends a request once more, with the ticket that has come.
    fn ask_again(
        &mut self,
        number: u64,
        remote: (&Remote, bool),
        link: (&Link, &mut Requests),
        now_ns: u64,
    ) {
        let Some((asked, hub)) = self.table.end(number) else {
            return;
        };
        // Messages of the same pusher may have been sent behind it.
        if asked.is_repeated || asked.is_push() && !asked.leads {
            let text = format!("NOLINK hub '{hub}' is too slow to take a write: {NOTHING_WRITTEN}");
            return self.tell(&asked, Err(text));
        }
        let asked = Asked {
            is_repeated: true,
            ..asked
        };
        self.ask(asked, remote, link, now_ns);
    }

    /// The link to NATS is lost.
    pub(super) fn disconnected(&mut self) {
        self.give_up(self.table.all(), |hub| {
            format!("the link to NATS was lost before hub '{hub}' answered")
        });
    }

    /// A hub is not heard any more.
    pub(super) fn lost(&mut self, hub: &str) {
        self.give_up(self.table.of_owner(hub), |hub| {
            format!("hub '{hub}' is not heard any more, and has not answered")
        });
    }

    /// The link to NATS is made, and with it the subscription to answers.
    pub(super) fn connected(&mut self) {
        self.is_deaf = false;
    }

    /// This hub's user of NATS may not subscribe to a pattern.
    pub(super) fn not_hearing(&mut self, pattern: &str) {
        if pattern != self.answers() {
            return;
        }
        self.is_deaf = true;
        let (lost, doubtful) = self.sort(self.table.all());
        let text = self.deafness();
        for number in lost {
            self.end_with(number, |_| text.clone());
        }
        self.give_up(doubtful, |_| "answers cannot be heard any more".to_owned());
    }

    /// This hub's user of NATS may not publish to a subject.
    pub(super) fn denied(&mut self, subject: &str) {
        let Some(hub) = subjects::owner_of_write(subject) else {
            return;
        };
        let (lost, doubtful) = self.sort(self.table.of_owner(hub));
        for number in lost {
            self.end_with(number, |hub| {
                format!(
                    "NOPERM the NATS user of this hub may not write to topics of hub '{hub}': \
                     {NOTHING_WRITTEN}"
                )
            });
        }
        // The right was there before: a request may have been passed on.
        self.give_up(doubtful, |hub| {
            format!("the NATS user of this hub may not write to topics of hub '{hub}' any more")
        });
    }

    /// Parts writes that have no effect from those that may have one.
    fn sort(&self, numbers: Vec<u64>) -> (Vec<u64>, Vec<u64>) {
        let is_lost = |&number: &u64| self.table.is_without_effect(number);
        numbers.into_iter().partition(is_lost)
    }

    /// Returns what a client is told while no answer can be heard.
    fn deafness(&self) -> String {
        format!(
            "NOPERM the NATS user of this hub may not subscribe to {}: {NOTHING_WRITTEN}",
            self.answers()
        )
    }

    fn give_up(&mut self, numbers: Vec<u64>, why: impl Fn(&str) -> String) {
        for number in numbers {
            let has_no_effect = self.table.is_without_effect(number);
            self.end_with(number, |hub| match has_no_effect {
                true => format!("NOLINK {}: {NOTHING_WRITTEN}", why(hub)),
                false => format!("UNKNOWN {}: it may have taken the value, or not", why(hub)),
            });
        }
    }

    fn end_with(&mut self, number: u64, text: impl Fn(&str) -> String) {
        if let Some((asked, hub)) = self.table.end(number) {
            self.tell(&asked, Err(text(&hub)));
        }
    }

    fn end(&mut self, number: u64, result: WriteEnd) {
        if let Some((asked, _)) = self.table.end(number) {
            self.tell(&asked, result);
        }
    }

    fn tell(&self, asked: &Asked, result: WriteEnd) {
        let writes = &self.shared.writes;
        // What is counted is what the client was told.
        let is_unblocked = |writer| writes.take_unblocked(writer);
        match asked.write.writer.is_some_and(is_unblocked) {
            true => {
                let unknown = &writes.counters.asked.unknown;
                unknown.fetch_add(1, Ordering::Relaxed);
            }
            false => count(&writes.counters.asked, &result),
        }
        match (asked.write.writer, result) {
            (Some(writer), result) => self.shared.keys.tell_writer(writer, result),
            (None, Ok(_)) => {}
            (None, Err(reason)) => {
                if let Some(left_out) = PUSH_LOST.note_now() {
                    let topic = String::from_utf8_lossy(&asked.write.name);
                    warn!(
                        %topic,
                        reason,
                        left_out,
                        "a ZeroMQ message for a topic of another hub is not written"
                    );
                }
            }
        }
    }

    /// Returns when [`Asking::turn`] must be called.
    pub(super) fn deadline_ns(&self) -> u64 {
        self.table.deadline_ns()
    }
}

impl Asked {
    /// Whether it is a message of a pusher: its sender hears nothing of its end.
    fn is_push(&self) -> bool {
        self.write.writer.is_none()
    }

    fn is_command(&self) -> bool {
        matches!(self.write.action, WriteAction::Command { .. })
    }

    fn bytes(&self) -> usize {
        self.write.name.len() + self.write.action.bytes()
    }
}

/// Returns whether bytes are exactly one reply.
fn is_reply(bytes: &[u8]) -> bool {
    let mut parser = ReplyParser::new();
    let whole = parser.skip(bytes);
    matches!(whole, Ok(Progress::Complete { consumed }) if consumed == bytes.len())
        && parser.kind() != ReplyKind::Push
}

/// Counts the end of a write.
pub(super) fn count(outcomes: &Outcomes, result: &WriteEnd) {
    let counter = match WriteOutcome::of(result) {
        WriteOutcome::Done | WriteOutcome::Replied => &outcomes.done,
        WriteOutcome::Unknown => &outcomes.unknown,
        WriteOutcome::Refused | WriteOutcome::Again => &outcomes.refused,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Returns why NATS has not done something, in words on one line.
pub(super) fn why(answer: &Answer) -> String {
    let words = match answer {
        Answer::Failed(text) => text.clone(),
        Answer::NoStream => "there is no such stream".to_owned(),
        Answer::TimedOut => "no answer came in time".to_owned(),
        other => format!("{other:?}"),
    };
    words.replace(char::is_control, " ")
}

static PUSH_LOST: Seldom = Seldom::new(5, 10);

pub(super) const NOTHING_WRITTEN: &str = "nothing was written";
