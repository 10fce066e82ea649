//! Hubs, servers, clients and faults, millisecond by millisecond.

use std::collections::BTreeMap;

use tidewire_cluster::LeaseAction;
use tidewire_cluster::keys::{
    Effect, KeysAction, KeysEntry, KeysExtent, KeysFault, KeysHeader, KeysPosition, Outcome,
};

use crate::hub::{Hub, WRITE_BYTES};
use crate::nats::Nats;

const HUBS: usize = 3;
/// After this a request counts as without an answer, ms.
const TIMEOUT_MS: u64 = 2_000;

/// Chances of 10,000, each millisecond or for each message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    lost_request: u64,
    lost_answer: u64,
    late: u64,
    leader: u64,
    stop: u64,
    end: u64,
    behind: u64,
    reorders: bool,
}

impl Faults {
    pub(crate) fn all() -> Faults {
        Faults {
            lost_request: 60,
            lost_answer: 60,
            late: 300,
            leader: 2,
            stop: 3,
            end: 2,
            behind: 50,
            reorders: true,
        }
    }
}

/// What happens at a later time.
#[derive(Debug)]
enum Step {
    /// A request reaches the servers.
    Arrives(Request),
    /// An answer reaches a hub.
    Answers(Request, Answer),
}

#[derive(Clone, Debug)]
struct Request {
    hub: usize,
    process: u64,
    action: KeysAction,
    message: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Answer {
    Outcome(Outcome),
    Written(Option<u64>),
    Read(Option<tidewire_cluster::Entry>),
    End(KeysExtent),
    Entries(Vec<(u64, Vec<u8>)>),
    Nothing,
}

#[derive(Debug)]
pub(crate) struct World {
    seed: u64,
    random: u64,
    faults: Faults,
    rests: bool,
    now_ms: u64,
    nats: Nats,
    hubs: Vec<Hub>,
    processes: u64,
    steps: BTreeMap<(u64, u64), Step>,
    number: u64,
    written: u64,
    /// Numbers of the writes that clients were told of.
    acknowledged: Vec<u64>,
    /// Of hubs that have ended.
    reigns: u64,
    /// How long a snapshot takes, ms, and since when one is needed.
    snapshot_ms: u64,
    needed_since: Option<u64>,
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults) -> World {
        World {
            seed,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            faults,
            rests: false,
            now_ms: 0,
            nats: Nats::default(),
            hubs: (0..HUBS)
                .map(|hub| Hub::new(hub as u64 + 1, 0, &Nats::default()))
                .collect(),
            processes: HUBS as u64,
            steps: BTreeMap::new(),
            number: 0,
            written: 0,
            acknowledged: Vec::new(),
            reigns: 0,
            snapshot_ms: 0,
            needed_since: None,
        }
    }

    /// Snapshots take so long from now on.
    pub(crate) fn slow_snapshots(&mut self, ms: u64) {
        self.snapshot_ms = ms;
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn happens(&mut self, chance: u64) -> bool {
        self.draw(10_000) < chance
    }

    fn now_ns(&self) -> u64 {
        self.now_ms * 1_000_000
    }

    pub(crate) fn run(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            self.now_ms += 1;
            self.faults();
            while let Some(entry) = self.steps.first_entry()
                && entry.key().0 <= self.now_ms
            {
                match entry.remove() {
                    Step::Arrives(request) => self.arrives(request),
                    Step::Answers(request, answer) => self.answers(&request, answer),
                }
            }
            for hub in 0..HUBS {
                self.turn(hub);
            }
        }
    }

    fn faults(&mut self) {
        let faults = self.faults;
        if self.happens(faults.leader) {
            let ms = 500 + self.draw(7_000);
            self.lose_leader(ms);
        }
        if self.happens(faults.behind) {
            self.nats.behind = self.draw(20) as usize;
        }
        if self.now_ms.is_multiple_of(1_000) {
            self.nats.behind = 0;
        }
        for hub in 0..HUBS {
            if self.happens(faults.stop) {
                self.hubs[hub].stopped_until = self.now_ms + self.draw(6_000);
            }
            if self.happens(faults.end) {
                self.end(hub);
            }
        }
    }

    pub(crate) fn lose_leader(&mut self, ms: u64) {
        self.nats.without_leader_until = self.now_ms + ms;
    }

    fn end(&mut self, hub: usize) {
        self.processes += 1;
        self.reigns += self.hubs[hub].reigns;
        self.hubs[hub] = Hub::new(self.processes, self.now_ms, &self.nats);
    }

    pub(crate) fn end_all(&mut self) {
        (0..HUBS).for_each(|hub| self.end(hub));
    }

    fn primary(&self) -> usize {
        let now_ns = self.now_ns();
        let mut hubs = self.hubs.iter();
        hubs.position(|hub| hub.may_serve(now_ns))
            .expect("a primary")
    }

    pub(crate) fn end_primary(&mut self) {
        let primary = self.primary();
        self.end(primary);
    }

    /// Starts all hubs again, and lets them fail.
    pub(crate) fn end_all_amid_damage(&mut self) {
        self.end_all();
        self.hubs.iter_mut().for_each(|hub| hub.may_fail = true);
    }

    pub(crate) fn stop_primary(&mut self, ms: u64) {
        let primary = self.primary();
        self.hubs[primary].stopped_until = self.now_ms + ms;
    }

    fn turn(&mut self, at: usize) {
        let now_ns = self.now_ns();
        if self.hubs[at].stopped_until > self.now_ms {
            return;
        }
        self.clients(at);
        let hub = &mut self.hubs[at];
        let end = hub.log.len() as u64;
        let end = if hub.is_primary() { end } else { 0 };
        hub.member.handle_timeout(end, now_ns);
        hub.follow(now_ns, &self.nats);
        self.follow_snapshots(at);
        self.follow_complaint(at);
        self.acknowledge(at);
        while let Some(action) = self.hubs[at].member.next_action() {
            self.send(at, action);
        }
    }

    /// A client reads and writes at the hub, if that lets it.
    fn clients(&mut self, at: usize) {
        let now_ns = self.now_ns();
        if self.rests || !self.hubs[at].may_serve(now_ns) {
            return;
        }
        // The lease is looked at behind what was read, as a lane does at the end of its turn. With
        // nothing unacknowledged the answer leaves at once.
        self.check_read(at);
        for _ in 0..self.draw(4) {
            self.written += 1;
            let (number, hub) = (self.written, &mut self.hubs[at]);
            hub.log.extend_from_slice(&number.to_le_bytes());
            hub.waiting.push((hub.log.len() as u64, number));
        }
    }

    /// What is read now has every write that was acknowledged before, by any hub.
    fn check_read(&self, at: usize) {
        let log = &self.hubs[at].log;
        if let Some(last) = self.acknowledged.last() {
            let mut writes = log.rchunks_exact(WRITE_BYTES);
            let has = writes.any(|write| write == last.to_le_bytes());
            assert!(has, "seed {}: an old read at {} ms", self.seed, self.now_ms);
        }
    }

    fn acknowledge(&mut self, at: usize) {
        let hub = &mut self.hubs[at];
        let durable = hub.member.durable();
        while let Some(&(end, number)) = hub.waiting.first()
            && end <= durable
        {
            hub.waiting.remove(0);
            self.acknowledged.push(number);
        }
    }

    fn send(&mut self, hub: usize, action: KeysAction) {
        let message = match &action {
            KeysAction::Append { header, end, .. } => {
                let log = &self.hubs[hub].log;
                header.with_body(&log[header.offset as usize..*end as usize])
            }
            KeysAction::Fence { header, .. } => header.with_body(b"hub"),
            _ => Vec::new(),
        };
        let process = self.hubs[hub].process;
        let request = Request {
            hub,
            process,
            action,
            message,
        };
        // The messages of one connection keep their order, until it is made again.
        let reorder = self.faults.reorders && self.draw(2) == 0;
        let delay = if reorder { 1 + self.draw(4) } else { 2 };
        let faults = self.faults;
        if self.happens(faults.lost_request) {
            return self.later(TIMEOUT_MS, Step::Answers(request, Answer::Nothing));
        }
        // One that comes late overtakes nothing and is overtaken by all.
        let late = self.happens(faults.late);
        let delay = delay + if late { self.draw(4_000) } else { 0 };
        if delay > TIMEOUT_MS {
            self.later(TIMEOUT_MS, Step::Answers(request.clone(), Answer::Nothing));
        }
        self.later(delay, Step::Arrives(request));
    }

    /// A primary looks at the snapshots, and stores one if it must.
    fn follow_snapshots(&mut self, at: usize) {
        let hub = &mut self.hubs[at];
        let position = hub.member.position();
        let is_due = match hub.member.needs_snapshot() {
            true => {
                let since = *self.needed_since.get_or_insert(self.now_ms);
                self.now_ms - since >= self.snapshot_ms
            }
            false => false,
        };
        if is_due && position.whole == position.end {
            self.needed_since = None;
            let log = hub.log[..position.whole as usize].to_vec();
            self.nats.snapshot = Some((position, log));
        }
        let stored = self.nats.snapshot.as_ref();
        hub.member
            .has_snapshot(stored.map_or(0, |(position, _)| position.sequence));
    }

    /// What a hub lacks is told to all.
    fn follow_complaint(&mut self, at: usize) {
        let Some(sequence) = self.hubs[at].complains_of.take() else {
            return;
        };
        let now_ns = self.now_ns();
        for other in (0..HUBS).filter(|other| *other != at) {
            let is_awake = self.hubs[other].stopped_until <= self.now_ms;
            if is_awake && self.hubs[other].member.complained(sequence, now_ns) {
                self.hubs[at].member.primary_answers(now_ns);
            }
        }
    }

    /// Messages of the stream are damaged in the files: so many before the last so many.
    pub(crate) fn damage(&mut self, count: u64, behind: u64) {
        let end = self.nats.stream.len() as u64 - behind;
        self.nats.damaged.extend(end - count + 1..=end);
    }

    /// An operator purges the stream, but for the newest messages.
    pub(crate) fn purge(&mut self, kept: usize) {
        self.nats.gone = self.nats.stream.len() - kept;
    }

    /// Another program writes into the primary's reign, at the end of what counts.
    pub(crate) fn forge(&mut self) {
        let position = self.hubs[self.primary()].member.position();
        assert_eq!(position.whole, position.end, "no group is under way");
        let header = KeysHeader {
            is_fence: false,
            is_whole: true,
            epoch: position.epoch,
            offset: position.end,
            history: position.history,
        };
        let end = self.nats.stream.len() as u64;
        let forged = header.with_body(&u64::MAX.to_le_bytes());
        assert!(self.nats.store(end, forged).is_some());
    }

    /// Another program writes something; as a hub, if it names the message before it.
    pub(crate) fn write_wrong(&mut self, message: &[u8], is_fenced: bool) {
        let end = self.nats.stream.len() as u64;
        let sequence = self.nats.store(end, message.to_vec()).unwrap();
        if !is_fenced {
            self.nats.unfenced.insert(sequence);
        }
    }

    /// A message of a hub's form in a reign without a fence.
    pub(crate) fn message_of_no_reign(&self) -> Vec<u8> {
        let header = KeysHeader {
            is_whole: true,
            epoch: u64::MAX,
            ..KeysHeader::default()
        };
        header.with_body(b"x")
    }

    /// Another program writes a fence.
    pub(crate) fn forge_fence(&mut self, epoch: u64) {
        let header = KeysHeader {
            is_fence: true,
            is_whole: true,
            epoch,
            offset: self.log().len() as u64,
            history: [7; 20],
        };
        let end = self.nats.stream.len() as u64;
        assert!(self.nats.store(end, header.with_body(b"x")).is_some());
    }

    /// Clients write no more.
    pub(crate) fn rest(&mut self, rests: bool) {
        self.rests = rests;
    }

    /// An operator has a hub store the keys of its memory again. Returns whether it may.
    pub(crate) fn rebuild(&mut self, at: usize) -> bool {
        let now_ns = self.now_ns();
        self.hubs[at].begin_rebuilding(now_ns);
        self.run(3_500);
        let (now_ns, hub) = (self.now_ns(), &mut self.hubs[at]);
        let Some(epoch) = hub.member.may_rebuild(now_ns) else {
            return false;
        };
        // Sequences go on higher, and nothing of before is left.
        let nats = &mut self.nats;
        (0..10).for_each(|_| nats.stream.push(b"gone".to_vec()));
        nats.gone = nats.stream.len();
        let end = hub.log.len() as u64;
        let position = KeysPosition {
            sequence: nats.gone as u64,
            epoch: epoch - 1,
            history: [9; 20],
            whole: end,
            end,
        };
        nats.snapshot = Some((position, hub.log.clone()));
        hub.member.rebuilt(position, now_ns);
        true
    }

    /// Starts the hubs again but for this one.
    pub(crate) fn end_others(&mut self, at: usize) {
        (0..HUBS)
            .filter(|hub| *hub != at)
            .for_each(|hub| self.end(hub));
    }

    pub(crate) fn a_standby(&self) -> usize {
        (self.primary() + 1) % HUBS
    }

    /// Starts the primary again, and returns a hub that is none.
    pub(crate) fn end_primary_amid_damage(&mut self) -> usize {
        let primary = self.primary();
        self.end(primary);
        self.hubs.iter_mut().for_each(|hub| hub.may_fail = true);
        (primary + 1) % HUBS
    }

    /// A hub other than the primary.
    pub(crate) fn stop_standby(&mut self, ms: u64) {
        let standby = (self.primary() + 1) % HUBS;
        self.hubs[standby].stopped_until = self.now_ms + ms;
    }

    fn later(&mut self, delay: u64, step: Step) {
        self.number += 1;
        self.steps.insert((self.now_ms + delay, self.number), step);
    }

    fn arrives(&mut self, request: Request) {
        let now_ms = self.now_ms;
        let nats = &mut self.nats;
        if !nats.has_leader(now_ms) && !matches!(request.action, KeysAction::Fetch { .. }) {
            return self.later(TIMEOUT_MS, Step::Answers(request, Answer::Nothing));
        }
        let stored = |sequence: Option<u64>| {
            Answer::Outcome(sequence.map_or(Outcome::Refused, Outcome::Stored))
        };
        let answer = match request.action.clone() {
            KeysAction::Append { expected, .. } | KeysAction::Fence { expected, .. } => {
                stored(nats.store(expected, request.message.clone()))
            }
            KeysAction::AskEnd { .. } => Answer::End(nats.extent()),
            KeysAction::Fetch { after, .. } => {
                let end = nats.stream.len().saturating_sub(nats.behind);
                let from = (after as usize).max(nats.gone).min(end);
                let part = nats.stream[from..end].iter().take(50);
                let numbered = part.enumerate();
                let entries = numbered.map(|(at, one)| ((from + at) as u64 + 1, one.clone()));
                let entries = entries.filter(|(at, _)| !nats.damaged.contains(at));
                Answer::Entries(entries.collect())
            }
            KeysAction::Lease(action) => match action {
                LeaseAction::Create { .. } => {
                    Answer::Written(nats.write(0, request.process, now_ms))
                }
                LeaseAction::Renew { revision, .. } => {
                    Answer::Written(nats.write(revision, request.process, now_ms))
                }
                LeaseAction::Read { .. } => Answer::Read(nats.read(request.process, now_ms)),
                LeaseAction::Delete { revision } => return nats.delete(revision),
            },
        };
        let faults = self.faults;
        let (delay, answer) = match self.happens(faults.lost_answer) {
            true => (TIMEOUT_MS, Answer::Nothing),
            false => (1 + self.draw(3), answer),
        };
        self.later(delay, Step::Answers(request, answer));
    }

    fn answers(&mut self, request: &Request, answer: Answer) {
        let now_ns = self.now_ns();
        let hub = &mut self.hubs[request.hub];
        if hub.process != request.process {
            return;
        }
        if hub.stopped_until > self.now_ms {
            // It reads this from its socket when it goes on.
            let delay = hub.stopped_until - self.now_ms;
            return self.later(delay, Step::Answers(request.clone(), answer));
        }
        let member = &mut hub.member;
        match (&request.action, answer) {
            (
                KeysAction::Append { request, .. } | KeysAction::Fence { request, .. },
                Answer::Outcome(outcome),
            ) => member.stored(*request, outcome, now_ns),
            (KeysAction::Append { request, .. } | KeysAction::Fence { request, .. }, _) => {
                member.stored(*request, Outcome::Unknown, now_ns);
            }
            (KeysAction::AskEnd { request }, Answer::End(extent)) => {
                member.ends_at(*request, extent, now_ns);
            }
            (KeysAction::Fetch { request, .. }, Answer::Entries(entries)) => {
                let entries = entries.iter().map(|(at, one)| KeysEntry {
                    sequence: *at,
                    is_fenced: !self.nats.unfenced.contains(at),
                    message: one,
                });
                member.fetched(*request, entries, now_ns);
            }
            (KeysAction::AskEnd { request } | KeysAction::Fetch { request, .. }, _) => {
                member.failed(*request, now_ns);
            }
            (KeysAction::Lease(action), answer) => answer_lease(hub, *action, answer, now_ns),
        }
        hub.follow(now_ns, &self.nats);
        self.acknowledge(request.hub);
    }

    /// Reads the stream from its beginning.
    fn log(&self) -> Vec<u8> {
        let (mut position, mut log, mut part) = (KeysPosition::default(), Vec::new(), Vec::new());
        for (at, message) in self.nats.stream.iter().enumerate() {
            let sequence = at as u64 + 1;
            match position.read(sequence, message) {
                Ok(Effect::None) => {}
                Ok(Effect::Bytes(bytes)) => part.extend_from_slice(bytes),
                Ok(Effect::Fence { .. }) => part.clear(),
                // The primary has passed it over.
                Err(KeysFault::Damaged { .. } | KeysFault::Contradiction { .. }) => {
                    position.pass_over(sequence).unwrap();
                }
                Err(fault) => panic!("{fault}"),
            }
            if position.whole == position.end {
                log.append(&mut part);
            }
        }
        log
    }

    pub(crate) fn check(&self) {
        let log = self.log();
        let mut writes: Vec<&[u8]> = log.chunks_exact(WRITE_BYTES).collect();
        writes.sort_unstable();
        let all = writes.len();
        writes.dedup();
        assert_eq!(
            all,
            writes.len(),
            "seed {}: a write counts twice",
            self.seed
        );
        for number in &self.acknowledged {
            let found = writes.binary_search(&number.to_le_bytes().as_slice());
            assert!(found.is_ok(), "seed {}: write {number} is lost", self.seed);
        }
    }

    /// With nothing under way every hub has the same keys.
    pub(crate) fn assert_all_equal(&self) {
        let log = self.log();
        for hub in &self.hubs {
            let length = hub.log.len().min(log.len());
            let behind = log.len() - length;
            assert!(
                hub.log[..length] == log[..length] && behind < 1_000,
                "{behind}"
            );
        }
    }

    pub(crate) fn reigns(&self) -> u64 {
        let hubs = self.hubs.iter();
        self.reigns + hubs.map(|hub| hub.reigns).sum::<u64>()
    }

    /// Losses that the hubs that run have seen.
    pub(crate) fn losses(&self) -> u64 {
        let losses = |hub: &Hub| hub.member.figures().losses;
        self.hubs.iter().map(losses).sum()
    }

    pub(crate) fn deposed(&self) -> u64 {
        self.hubs.iter().map(|hub| hub.deposed).sum()
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.len() as u64
    }

    /// Writes whose clients do not wait any more, or had no reason to.
    pub(crate) fn written(&self) -> u64 {
        let waiting = self.hubs.iter().map(|hub| hub.waiting.len());
        self.written - waiting.sum::<usize>() as u64
    }
}

fn answer_lease(hub: &mut Hub, action: LeaseAction, answer: Answer, now_ns: u64) {
    let lease = hub.member.lease();
    match (action, answer) {
        (
            LeaseAction::Create { request } | LeaseAction::Renew { request, .. },
            Answer::Written(Some(revision)),
        ) => lease.written(request, revision, now_ns),
        (
            LeaseAction::Create { request } | LeaseAction::Renew { request, .. },
            Answer::Written(None),
        ) => lease.refused(request, now_ns),
        (LeaseAction::Read { request }, Answer::Read(entry)) => {
            lease.read(request, entry, now_ns);
        }
        (
            LeaseAction::Create { request }
            | LeaseAction::Renew { request, .. }
            | LeaseAction::Read { request },
            _,
        ) => lease.failed(request, now_ns),
        (LeaseAction::Delete { .. }, _) => {}
    }
}
