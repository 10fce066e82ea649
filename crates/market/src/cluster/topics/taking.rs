//! Writes of other hubs' clients to topics of this one.

use std::sync::atomic::Ordering;

use tidewire_cluster::writes::{
    Admission, REPLY_LENGTH_MAX, TakenWrites, WriteAnswer, WriteId, WriteOutcome, WriteRequest,
    decode_words,
};
use tidewire_fanout::{OwnWrite, WriteAction, WriteEnd};
use tidewire_feed::wire::TopicKind;
use tidewire_lane::unix_ns;
use tidewire_nats::{Answer, Link, Message};
use tidewire_resp::{ArgumentList, Protocol};
use tidewire_retry::Seldom;
use tracing::{debug, warn};

use super::SharedTopics;
use super::asking::{NOTHING_WRITTEN, count};
use super::audit::{Audit, AuditLine};
use super::own::Own;
use crate::cluster::config::{ClusterConfig, ClusterName};
use crate::cluster::requests::Requests;
use crate::cluster::subjects;

/// The owner's side of writes.
pub(super) struct Taking {
    cluster: ClusterName,
    hub: ClusterName,
    table: TakenWrites<Taken>,
    audit: Audit,
    shared: SharedTopics,
}

/// A request that has not ended.
struct Taken {
    id: WriteId,
    /// Where the edge waits for the answer.
    reply: String,
    edge: Box<str>,
    name: Box<[u8]>,
    user: Box<[u8]>,
    address: Box<[u8]>,
    is_command: bool,
    value: Box<[u8]>,
    kind: TopicKind,
    came_ns: u64,
}

impl Taking {
    pub(super) fn new(config: &ClusterConfig, shared: SharedTopics) -> Self {
        Self {
            cluster: config.name.clone(),
            hub: config.hub.clone(),
            table: TakenWrites::new(GIVEN_UP_NS),
            audit: Audit::new(config, shared.writes.clone()),
            shared,
        }
    }

    /// Returns the pattern of the requests' subjects.
    pub(super) fn subject(&self) -> String {
        subjects::write(&self.cluster, self.hub.as_str(), "*")
    }

    /// Handles a request of the hub `edge`.
    pub(super) fn request(
        &mut self,
        own: &Own,
        edge: &str,
        message: &Message,
        link: (&Link, &mut Requests),
        now_ns: u64,
    ) {
        let request = WriteRequest::decode(&message.payload);
        let reply = message.reply.as_deref().filter(|reply| {
            let of = (self.hub.as_str(), edge);
            subjects::is_for_answers(reply, &self.cluster, of)
        });
        let (request, reply) = match (request, reply) {
            (Ok(request), Some(reply)) => (request, reply),
            (request, _) => {
                let counter = &self.shared.writes.counters.unreadable;
                counter.fetch_add(1, Ordering::Relaxed);
                if let Some(left_out) = UNREADABLE.note_now() {
                    let error = request.err().map(|error| error.to_string());
                    warn!(
                        edge,
                        error, left_out, "a write of another hub cannot be read"
                    );
                }
                return;
            }
        };
        let mut taken = Taken::new(&request, reply, edge);
        let hub = &self.hub;
        let reign = own.reign(now_ns);
        let admission = self
            .table
            .admit(edge, (request.id, request.ticket), reign, now_ns);
        let refusal = match admission {
            Admission::Take => match own.kind(request.name) {
                Some(kind) => {
                    taken.kind = kind;
                    return self.take(taken, link, now_ns);
                }
                None => format!("ERR hub '{hub}' does not share this topic: {NOTHING_WRITTEN}"),
            },
            Admission::OtherReign => {
                format!("TRYAGAIN hub '{hub}' has begun a new reign: {NOTHING_WRITTEN}")
            }
            Admission::Full => {
                format!("BUSY too many writes wait at hub '{hub}': {NOTHING_WRITTEN}")
            }
            Admission::Again => {
                let answer = (WriteOutcome::Again, "", &[][..]);
                return answer_to(&taken, answer, link.0, now_ns);
            }
            Admission::Repeated => {
                debug!(edge, "a write of another hub came again, or late");
                let counter = &self.shared.writes.counters.repeated;
                counter.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Admission::NoOwner => {
                return debug!(
                    edge,
                    "a write of another hub came to a hub that owns nothing"
                );
            }
        };
        self.finish(&taken, &Err(refusal), link.0, now_ns);
    }

    /// Begins a request: notes it first if that is required.
    fn take(&mut self, taken: Taken, (link, requests): (&Link, &mut Requests), now_ns: u64) {
        let line = self
            .audit
            .needs_beginnings()
            .then(|| self.line(&taken, None));
        let number = self.table.begin(taken, now_ns);
        match line {
            None => self.execute(number),
            Some(line) => self.audit.begin(number, &line, (link, requests)),
        }
    }

    /// Gives the write to the plant or the keys; the end comes from there.
    fn execute(&mut self, number: u64) {
        let Some(taken) = self.table.get(number) else {
            return;
        };
        let is_given = match (taken.kind, &self.shared.tags) {
            (TopicKind::Tag, _) if taken.is_command => false,
            (TopicKind::Tag, Some(tags)) => tags.write_tag(number, &taken.name, &taken.value),
            (TopicKind::Value, _) => {
                self.shared.keys.write_own(OwnWrite {
                    number,
                    name: taken.name.clone(),
                    action: taken.action(),
                    from: format!("hub:{}", taken.edge).into(),
                });
                true
            }
            _ => false,
        };
        if !is_given {
            let text = format!("ERR the topic cannot be written so: {NOTHING_WRITTEN}");
            self.shared.writes.end(number, Err(text));
        }
    }

    /// Handles what NATS has answered about a line of the audit.
    pub(super) fn audited(&mut self, own: &Own, line: u64, answer: &Answer, now_ns: u64) {
        let Some((number, is_stored)) = self.audit.answered(line, answer, now_ns) else {
            return;
        };
        let Some(taken) = self.table.get(number) else {
            return;
        };
        let result = match (is_stored, own.reign(now_ns)) {
            (true, Some(reign)) if reign == taken.id.epoch => return self.execute(number),
            (true, _) => format!("TRYAGAIN hub '{}' owns its topics no more", self.hub),
            (false, _) => "NOAUDIT the audit stream cannot be written".to_owned(),
        };
        let text = format!("{result}: {NOTHING_WRITTEN}");
        self.shared.writes.end(number, Err(text));
    }

    pub(super) fn audit_stream_made(&mut self, answer: &Answer, now_ns: u64) {
        self.audit.made(answer, now_ns);
    }

    /// Answers what has ended, and gives up what has not.
    pub(super) fn turn(&mut self, (link, requests): (&Link, &mut Requests), now_ns: u64) {
        for ended in self.shared.writes.take_ended() {
            if let Some(taken) = self.table.end(ended.number) {
                self.finish(&taken, &ended.result, link, now_ns);
            }
        }
        for number in self.table.due(now_ns) {
            if let Some(taken) = self.table.end(number) {
                let hub = &self.hub;
                let text = format!("UNKNOWN hub '{hub}' does not know the end of the write");
                self.finish(&taken, &Err(text), link, now_ns);
            }
        }
        self.audit.turn((link, requests), now_ns);
        let waiting = &self.shared.writes.counters.taken_waiting;
        waiting.store(self.table.waiting() as u64, Ordering::Relaxed);
    }

    fn finish(&mut self, taken: &Taken, result: &WriteEnd, link: &Link, now_ns: u64) {
        match result {
            Ok(Some(reply)) if reply.len() <= REPLY_LENGTH_MAX => {
                answer_to(taken, (WriteOutcome::Replied, "", reply), link, now_ns);
            }
            Ok(Some(reply)) => {
                let (hub, bytes) = (&self.hub, reply.len());
                let reply = format!(
                    "-ERR hub '{hub}' has run the command, but its reply has {bytes} bytes: at most \
                     {REPLY_LENGTH_MAX} can be carried\r\n"
                );
                let answer = (WriteOutcome::Replied, "", reply.as_bytes());
                answer_to(taken, answer, link, now_ns);
            }
            result => {
                let text = result.as_ref().err().map_or("", String::as_str);
                // A reply is one line.
                let text = text.replace(char::is_control, " ");
                let answer = (WriteOutcome::of(result), &*text, &[][..]);
                answer_to(taken, answer, link, now_ns);
            }
        }
        count(&self.shared.writes.counters.taken, result);
        let line = self.line(taken, Some(result));
        self.audit.end(&line);
    }

    /// Returns a line of the audit: of the end of a write, or of its beginning.
    fn line(&self, taken: &Taken, result: Option<&WriteEnd>) -> AuditLine {
        AuditLine::new(
            [self.cluster.as_str(), self.hub.as_str(), &taken.edge],
            &WriteRequest {
                id: taken.id,
                ticket: 0,
                name: &taken.name,
                user: &taken.user,
                address: &taken.address,
                is_command: taken.is_command,
                value: &taken.value,
            },
            taken.came_ns,
            result,
        )
    }

    /// Returns when [`Taking::turn`] must be called.
    pub(super) fn deadline_ns(&self) -> u64 {
        self.table.deadline_ns().min(self.audit.deadline_ns())
    }
}

impl Taken {
    fn new(request: &WriteRequest<'_>, reply: &str, edge: &str) -> Self {
        Self {
            id: request.id,
            reply: reply.to_owned(),
            edge: edge.into(),
            name: request.name.into(),
            user: request.user.into(),
            address: request.address.into(),
            is_command: request.is_command,
            value: request.value.into(),
            kind: TopicKind::Value,
            came_ns: unix_ns(),
        }
    }

    fn action(&self) -> WriteAction {
        let words = match self.is_command {
            true => decode_words(&self.value),
            false => None,
        };
        let Some((protocol, words)) = words else {
            debug_assert!(!self.is_command, "a request with other words was not read");
            return WriteAction::Value(self.value.clone());
        };
        WriteAction::Command {
            words: ArgumentList::from_slices(&words),
            protocol: match protocol {
                3 => Protocol::Resp3,
                _ => Protocol::Resp2,
            },
        }
    }
}

fn answer_to(
    taken: &Taken,
    (outcome, text, reply): (WriteOutcome, &str, &[u8]),
    link: &Link,
    now_ns: u64,
) {
    let answer = WriteAnswer {
        id: taken.id,
        ticket: TakenWrites::<Taken>::ticket(now_ns),
        outcome,
        takes_commands: true,
        text,
        reply,
    };
    // An answer that has no room is missing at the edge, which does not know the end then.
    let _ = link.publish(&taken.reply, answer.encode().into());
}

/// Longest time until the plant or the keys say how a write has ended: above the plant's own limit.
const GIVEN_UP_NS: u64 = 120_000_000_000;
static UNREADABLE: Seldom = Seldom::new(5, 10);
