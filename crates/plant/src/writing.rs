//! Client writes to the plant: replies, and the waiting clients.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tidewire_keyspace::MountWriter;
use tidewire_mx::session::{Doubt, WriteError, WriteFailure, WriteId};
use tidewire_mx::status::Accepted;

use crate::plant::{Plant, PlantCounters, PlantMail};

/// What waits for the end of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A client of this hub.
    Client(MountWriter),
    /// Another hub, by the number of its request.
    Hub(u64),
}

/// A request to write to a tag.
#[derive(Debug)]
pub struct WriteRequest {
    pub(crate) writer: Waiter,
    /// The name without the prefix.
    pub(crate) name: Box<str>,
    pub(crate) text: Vec<u8>,
}

/// Writes that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    sent: HashMap<WriteId, Waiter, RandomState>,
    /// Writes that wait for the tag's type, with their deadlines; oldest first.
    waiting: Vec<(u64, WriteRequest)>,
}

impl Writes {
    /// Notes that a write was sent to the plant.
    pub(crate) fn sent(&mut self, plant: &Plant, write: WriteId, writer: Waiter) {
        PlantCounters::add(&plant.counters.writes_waiting, 1);
        let other = self.sent.insert(write, writer);
        debug_assert!(other.is_none(), "the session gives a number out once");
    }

    /// Handles the result of a write.
    pub(crate) fn ended(
        &mut self,
        plant: &Plant,
        write: WriteId,
        result: Result<Accepted, WriteFailure>,
    ) {
        let Some(writer) = self.sent.remove(&write) else {
            return;
        };
        let counters = &plant.counters;
        let waiting = &counters.writes_waiting;
        let before = waiting.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        debug_assert!(before > 0, "a write that ends was counted");
        let (counter, answer) = match result {
            Ok(_) => (&counters.writes_ok, Ok(())),
            Err(failure @ WriteFailure::Refused(_)) => {
                (&counters.writes_refused, Err(failure_text(plant, &failure)))
            }
            Err(failure @ WriteFailure::Unknown(_)) => {
                (&counters.writes_unknown, Err(failure_text(plant, &failure)))
            }
        };
        PlantCounters::add(counter, 1);
        tell(plant, writer, answer);
    }

    /// Keeps a write until the plant has sent the tag's type.
    pub(crate) fn wait(&mut self, request: WriteRequest, deadline_ns: u64) {
        self.waiting.push((deadline_ns, request));
    }

    /// Takes the writes to a tag that the plant has confirmed or refused.
    pub(crate) fn take(&mut self, name: &str) -> Vec<(u64, WriteRequest)> {
        let is_it = |(_, request): &mut (u64, WriteRequest)| &*request.name == name;
        self.waiting.extract_if(.., is_it).collect()
    }

    /// Takes all writes that were not sent.
    pub(crate) fn take_waiting(&mut self) -> Vec<(u64, WriteRequest)> {
        std::mem::take(&mut self.waiting)
    }

    /// Gives up writes that have waited too long.
    pub(crate) fn expire(&mut self, plant: &Plant, now_ns: u64) {
        let is_due = |(deadline_ns, _): &mut (u64, WriteRequest)| *deadline_ns <= now_ns;
        for (_, request) in self.waiting.extract_if(.., is_due) {
            let name = &request.name;
            let text = format!("ERR the plant has not said in time what '{name}' is: {NOT_SENT}");
            not_sent(plant, request.writer, text);
        }
    }

    /// Returns when the next write must be given up.
    pub(crate) fn deadline_ns(&self) -> u64 {
        let deadlines = self.waiting.iter().map(|(deadline_ns, _)| *deadline_ns);
        deadlines.min().unwrap_or(u64::MAX)
    }
}

/// Ends a write that was not sent.
pub(crate) fn not_sent(plant: &Plant, writer: Waiter, text: String) {
    PlantCounters::add(&plant.counters.writes_not_sent, 1);
    tell(plant, writer, Err(text));
}

/// Returns the error text of a write that cannot be sent.
pub(crate) fn refusal_text(name: &str, error: &WriteError) -> String {
    match error {
        WriteError::NoLink => NO_LINK.to_owned(),
        WriteError::NoItem => no_tag_text(name),
        error => format!("ERR {error}: {NOT_SENT}"),
    }
}

pub(crate) fn no_tag_text(name: &str) -> String {
    format!("ERR the plant has no tag '{name}': {NOT_SENT}")
}

fn failure_text(plant: &Plant, failure: &WriteFailure) -> String {
    match failure {
        WriteFailure::Refused(error) => format!("REFUSED {error}"),
        WriteFailure::Unknown(doubt) => {
            let why = match doubt {
                Doubt::TimedOut => {
                    let ms = plant.options.write_timeout_ns / 1_000_000;
                    format!("no completion came within {ms} ms")
                }
                Doubt::LinkLost => "the link was lost before the completion came".to_owned(),
                Doubt::NotUnderstood => "the completion is not understood".to_owned(),
            };
            format!("UNKNOWN {why}: the plant may have taken the value, or not")
        }
    }
}

fn tell(plant: &Plant, writer: Waiter, result: Result<(), String>) {
    let writer = match writer {
        Waiter::Client(writer) => writer,
        Waiter::Hub(number) => {
            if let Some(writes) = plant.hub_writes.get() {
                writes.end(number, result.map(|()| None));
            }
            return;
        }
    };
    debug_assert!(
        writer.lane < plant.mail.lanes(),
        "a writer waits on a lane that there is"
    );
    let mail = PlantMail::Written(writer, result);
    plant.mail.send(writer.lane, mail);
}

pub(crate) const NO_LINK: &str = "NOLINK there is no link to the plant: nothing was written";
pub(crate) const NOT_SENT: &str = "nothing was written";
pub(crate) const UNBLOCKED: &str = "UNKNOWN the client was unblocked before the completion came: \
                                    the plant may have taken the value, or not";
