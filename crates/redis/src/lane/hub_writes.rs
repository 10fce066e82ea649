//! Writes of other hubs to live keys of this one: values, and commands on one key.
//!
//! Such a write has no connection: its end is told when a client's reply would leave, after the
//! append-only file or the quorum has it.

use std::collections::VecDeque;

use tidewire_fanout::{OwnWrite, WriteAction, WriteEnd};
use tidewire_lane::{Context, monotonic_ns};

use super::RedisLane;
use crate::durability::FileMark;
use crate::foreign_write::Ran;
use crate::quorum::{Acknowledged, QuorumMark};
use crate::server::Server;

/// One lane's writes for other hubs.
#[derive(Debug, Default)]
pub(super) struct HubWrites {
    /// Those that have not been executed, with the time when they came.
    waiting: VecDeque<(u64, OwnWrite)>,
    /// Those that were executed in this turn, with what their clients get.
    executed: Vec<(u64, Option<Box<[u8]>>)>,
    /// Executed ones whose end is not told yet.
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    number: u64,
    reply: Option<Box<[u8]>>,
    file: Option<FileMark>,
    quorum: Option<QuorumMark>,
}

impl HubWrites {
    pub(super) fn push(&mut self, write: OwnWrite) {
        // Their number is limited by who sends them.
        self.waiting.push_back((monotonic_ns(), write));
    }

    /// Whether the end of a write is to be told.
    pub(super) fn is_holding(&self) -> bool {
        !self.executed.is_empty() || !self.held.is_empty()
    }
}

impl RedisLane {
    /// Executes writes of other hubs. The lane has its right. Returns when to go on.
    pub(super) fn write_for_hubs(&mut self, context: &mut Context) -> Option<u64> {
        let server = self.server.clone();
        for _ in 0..WRITES_A_TURN {
            let (came_ns, write) = self.hub_writes.waiting.pop_front()?;
            if monotonic_ns() >= came_ns + GATE_WAIT_NS {
                // Also behind a long script: its client may have been told that the end is unknown.
                tell(&server, write.number, Err(GATE_CLOSED.to_owned()));
                continue;
            }
            let ran = match &write.action {
                WriteAction::Value(value) => server
                    .write_plain(context, &write.from, &write.name, value)
                    .into(),
                WriteAction::Command { words, protocol } => {
                    let words = words.as_arguments();
                    server.run_for_hub(context, (&write.from, &write.name), words, *protocol)
                }
            };
            let result = match ran {
                Ran::Done(reply) => {
                    self.hub_writes.executed.push((write.number, reply));
                    continue;
                }
                Ran::Failed(text) => Err(text),
                Ran::Waits => {
                    self.hub_writes.waiting.push_front((came_ns, write));
                    return Some(context.now_ns() + LOOK_AGAIN_NS);
                }
                Ran::Refused(refusal) => {
                    server.note_plain_refused(self.lane, refusal);
                    Err(refusal.text().to_owned())
                }
            };
            tell(&server, write.number, result);
        }
        (!self.hub_writes.waiting.is_empty()).then(|| context.now_ns())
    }

    /// Tells the ends of writes that are as safe as a client's would be. Returns when to look
    /// again.
    pub(super) fn settle_hub_writes(&mut self, context: &Context) -> Option<u64> {
        if !self.hub_writes.is_holding() {
            return None;
        }
        let server = self.server.clone();
        for (number, reply) in std::mem::take(&mut self.hub_writes.executed) {
            let quorum = match server.quorum.mark(&server) {
                Ok(quorum) => quorum,
                Err(()) => {
                    tell(&server, number, Err(NOT_ACKNOWLEDGED.to_owned()));
                    continue;
                }
            };
            let file = server.durability.log.mark(&server);
            self.hub_writes.held.push(Held {
                number,
                reply,
                file,
                quorum,
            });
        }
        self.hub_writes.held.retain_mut(|held| {
            let result = match held.quorum.map(|mark| server.quorum.has(mark)) {
                Some(Acknowledged::NotYet) => return true,
                Some(Acknowledged::GivenUp) => Err(NOT_ACKNOWLEDGED.to_owned()),
                Some(Acknowledged::Yes) | None => {
                    let is_safe = |mark| server.durability.log.has(&server, mark);
                    if !held.file.is_none_or(is_safe) {
                        return true;
                    }
                    Ok(held.reply.take())
                }
            };
            tell(&server, held.number, result);
            false
        });
        self.hub_writes
            .is_holding()
            .then(|| context.now_ns() + LOOK_AGAIN_NS)
    }
}

fn tell(server: &Server, number: u64, result: WriteEnd) {
    if let Some(writes) = server.hub_writes.get() {
        writes.end(number, result);
    }
}

const WRITES_A_TURN: usize = 256;
const LOOK_AGAIN_NS: u64 = 5_000_000;
/// Longest wait for keys that cannot be written just now.
const GATE_WAIT_NS: u64 = 5_000_000_000;
const GATE_CLOSED: &str = "BUSY the hub's keys could not be written for 5 s: nothing was written";
const NOT_ACKNOWLEDGED: &str = "UNKNOWN the quorum has not acknowledged the write: it may take \
                                effect, or not";
