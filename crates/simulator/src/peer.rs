//! What a simulated peer is, what it sees of the world, and what peers know of each other.

use std::collections::BTreeMap;

use tidewire_hub::HubLane;
use tidewire_lane::SteppedLanes;

use crate::peers::history::History;
use crate::plan::{End, Plan};
use crate::random::Random;

/// What a peer sees of the world when it takes a step.
pub(crate) struct Around<'a> {
    pub(crate) lanes: &'a SteppedLanes<HubLane>,
    pub(crate) random: &'a mut Random,
    pub(crate) ledger: &'a mut Ledger,
    /// A digest of all that peers have received: the same for the same seed.
    pub(crate) traffic: &'a mut u64,
    pub(crate) plan: &'a Plan,
    pub(crate) now_ns: u64,
    /// Nobody begins anything any more; what was begun must come to its end.
    pub(crate) is_quiet: bool,
}

/// What peers know of each other, for the last look.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The value that a live key must have in the end.
    pub(crate) live: BTreeMap<Vec<u8>, u64>,
    /// The values of live keys that a client has read last.
    pub(crate) read: BTreeMap<Vec<u8>, u64>,
    /// The bid that a market topic must have in the end, in units of 1e-9.
    pub(crate) bids: BTreeMap<String, i64>,
    /// What the keys of each writer have been, if a replica follows.
    pub(crate) histories: BTreeMap<usize, History>,
    /// How many lives of the replica have ended.
    pub(crate) replicas_ended: u64,
    /// How many lives of the master have ended, and whether one of them may have lost writes that
    /// the replica has shown.
    pub(crate) masters_ended: u64,
    pub(crate) has_lost: bool,
    /// The value of the plant's tag that is written, as the plant has it.
    pub(crate) setpoint: String,
}

/// What is wrong.
pub(crate) type Verdict = Result<(), String>;

/// One peer of the hub.
pub(crate) trait PeerOfHub: Send {
    /// Who it is, for reports.
    fn name(&self) -> String;

    /// Does a little of its work.
    fn step(&mut self, around: &mut Around<'_>) -> Verdict;

    /// The process has ended, and another one begins.
    fn process_ended(&mut self, plan: &Plan, end: End);

    /// Whether everything that it has begun has come to its end.
    fn is_settled(&self) -> bool;

    /// The last look, when all have settled and no news is under way.
    fn check(&mut self, around: &mut Around<'_>) -> Verdict;
}
