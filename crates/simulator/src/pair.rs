//! A master and a replica: two processes among their peers, on one thread.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use tidewire_files::SimulatedDisk;
use tidewire_hub::port;
use tidewire_lane::{Peer, advance_simulated_clock, begin_simulated_clock, monotonic_ns};

use crate::peer::{Around, Ledger, PeerOfHub, Verdict};
use crate::peers;
use crate::peers::audit::{Audit, Auditor};
use crate::plan::{End, Plan};
use crate::process::Process;
use crate::random::Random;
use crate::scenario::{
    ROUND, ROUNDS_AFTER, ROUNDS_MAX, Report, Violation, digest_of_files, pass_time,
};
use crate::wire::Wire;

/// Runs a seed of a master and a replica to its end.
pub(crate) fn run(seed: u64) -> Result<Report, Violation> {
    begin_simulated_clock();
    let mut random = Random::new(seed);
    let plan = Plan::followed(&mut random);
    let mut pair = Pair::new(random, plan);
    // What the processes keep in their thread's own storage goes with it.
    let lived = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("pair".to_owned());
        let thread = thread.spawn_scoped(scope, || pair.live());
        let lived = thread.expect("a thread").join();
        lived.unwrap_or_else(|_| Err("a process has panicked".to_owned()))
    });
    match lived {
        Ok(()) => Ok(pair.report),
        Err(text) => Err(Violation {
            seed,
            step: pair.report.steps,
            text: format!("{text}\n  {:?}", pair.sides[MASTER].plan),
        }),
    }
}

struct Pair {
    random: Random,
    sides: [Side; 2],
    wires: Vec<Wire>,
    /// For so many looks at the wires the replica does not reach its master.
    cut_off: u64,
    ledger: Ledger,
    report: Report,
}

/// One of both processes, and those who use it.
struct Side {
    plan: Plan,
    disk: Arc<SimulatedDisk>,
    process: Option<Process>,
    peers: Vec<Box<dyn PeerOfHub>>,
}

impl Side {
    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("a process that runs")
    }
}

impl Pair {
    fn new(mut random: Random, plan: Plan) -> Self {
        let replica = plan.of_replica(&mut random);
        let mut side = |plan: Plan, peers: Vec<Box<dyn PeerOfHub>>| Side {
            plan,
            disk: SimulatedDisk::new(random.next()),
            process: None,
            peers,
        };
        let followers = peers::of_replica(&replica);
        let master = side(plan, Vec::new());
        let replica = side(replica, followers);
        let mut sides = [master, replica];
        sides[MASTER].peers = peers::all(&sides[MASTER].plan, &mut random);
        Self {
            random,
            sides,
            wires: Vec::new(),
            cut_off: 0,
            ledger: Ledger::default(),
            report: Report::default(),
        }
    }

    fn live(&mut self) -> Verdict {
        self.start(MASTER)?;
        self.start(REPLICA)?;
        let steps = self.sides[MASTER].plan.steps;
        let ends = self.sides[MASTER].plan.lives as u64 - 1;
        for _ in 0..steps {
            if self.random.below(steps) < ends {
                self.end_one()?;
            }
            self.step()?;
        }
        tracing::info!(step = self.report.steps, "they have done their steps");
        self.settle()?;
        self.look_at_files()
    }

    fn start(&mut self, side: usize) -> Verdict {
        // A process takes its time to begin.
        advance_simulated_clock(Duration::from_nanos(self.random.between(1_000, 20_000_000)));
        self.report.lives += 1;
        let step = self.report.steps;
        tracing::info!(name = NAMES[side], step, "the process starts");
        let own = &mut self.sides[side];
        own.process = Some(Process::start(&own.plan, &own.disk)?);
        Ok(())
    }

    fn end_one(&mut self) -> Verdict {
        let side = self.random.place(2);
        let ends = [End::Asked, End::Killed, End::MachineFailed];
        let end = *self.random.pick(&ends);
        self.end(side, end)?;
        self.start(side)
    }

    fn end(&mut self, side: usize, end: End) -> Verdict {
        let own = &mut self.sides[side];
        let process = own.process.take().expect("a process that runs");
        let end = match end {
            End::Asked if !process.may_finish() => End::Killed,
            end => end,
        };
        tracing::info!(name = NAMES[side], ?end, "the process ends");
        match end {
            End::Asked => process.finish()?,
            End::Killed | End::MachineFailed => {
                own.disk = own.disk.fork();
                process.kill();
            }
        }
        if end == End::MachineFailed {
            own.disk.crash();
        }
        digest_of_files(&mut self.report.traffic, &own.disk);
        self.wires.clear();
        self.cut_off = self.random.below(2) * self.random.below(CUT_OFF_MAX);
        if side == MASTER {
            self.ledger.masters_ended += 1;
            self.ledger.has_lost |= end != End::Asked;
        } else {
            self.ledger.replicas_ended += 1;
        }
        for history in self.ledger.histories.values_mut() {
            match side {
                MASTER => history.master_ended(),
                _ => history.replica_ended(end == End::Asked),
            }
        }
        let plan = &own.plan;
        own.peers
            .iter_mut()
            .for_each(|peer| peer.process_ended(plan, end));
        Ok(())
    }

    /// One thing happens.
    fn step(&mut self) -> Verdict {
        self.report.steps += 1;
        let kind = self.random.below(1_000);
        let side = self.random.place(2);
        if kind < self.sides[MASTER].plan.clock_chance {
            let [master, replica] = &self.sides;
            pass_time(
                &mut self.random,
                [master, replica]
                    .into_iter()
                    .filter_map(|side| side.process.as_ref()),
            );
        } else if kind < 400 {
            let process = self.sides[side].process();
            let lane = self.random.place(process.lanes.count());
            process.lanes.turn(lane);
        } else if kind < 520 {
            let tasks = &self.sides[side].process().tasks;
            let count = tasks.count();
            if count > 0 {
                tasks.run(self.random.place(count));
            }
        } else if kind < 640 {
            self.let_wires(false)?;
        } else {
            let place = self.random.place(self.sides[side].peers.len());
            self.let_peer(side, place, false)?;
        }
        self.look_for_failures()
    }

    fn look_for_failures(&mut self) -> Verdict {
        for (side, name) in self.sides.iter_mut().zip(NAMES) {
            if let Some(failure) = side.process().failure() {
                return Err(format!("the {name}: {failure}"));
            }
        }
        Ok(())
    }

    fn let_wires(&mut self, is_quiet: bool) -> Verdict {
        let replica = self.sides[REPLICA].process();
        let mut dialed = Vec::new();
        while let Some((_, theirs)) = replica.tasks.take_dialed() {
            dialed.push(theirs);
        }
        for theirs in dialed {
            // The master may not be there.
            if !is_quiet && (self.cut_off > 0 || self.random.chance(100)) {
                continue;
            }
            let lanes = &self.sides[MASTER].process().lanes;
            let peer = Peer::Tcp(([127, 0, 0, 1], 50_000).into());
            let lane = self.random.place(lanes.count());
            let ours = lanes.connect(lane, port::RESP, peer);
            let ours = UnixStream::from(ours.map_err(|error| error.to_string())?);
            let wire = Wire::new(theirs, ours).map_err(|error| error.to_string())?;
            self.wires.push(wire);
        }
        self.cut_off = self.cut_off.saturating_sub(1);
        let (random, cut_off) = (&mut self.random, &mut self.cut_off);
        self.wires.retain_mut(|wire| {
            let breaks = !is_quiet && random.chance(5);
            if breaks && random.chance(300) {
                *cut_off = random.below(CUT_OFF_MAX);
            }
            !breaks && wire.step(random, is_quiet)
        });
        Ok(())
    }

    fn let_peer(&mut self, side: usize, place: usize, is_quiet: bool) -> Verdict {
        let own = &mut self.sides[side];
        let process = own.process.as_ref().expect("a process that runs");
        let mut around = Around {
            lanes: &process.lanes,
            random: &mut self.random,
            ledger: &mut self.ledger,
            traffic: &mut self.report.traffic,
            plan: &own.plan,
            now_ns: monotonic_ns(),
            is_quiet,
        };
        let peer = &mut own.peers[place];
        let result = peer.step(&mut around);
        result.map_err(|text| format!("{}: {text}", peer.name()))
    }

    /// Nobody begins anything any more; the replica comes to have what the master has.
    fn settle(&mut self) -> Verdict {
        let mut rounds_left = ROUNDS_AFTER;
        for _ in 0..ROUNDS_MAX {
            self.round()?;
            let mut peers = self.sides.iter().flat_map(|side| &side.peers);
            if peers.all(|peer| peer.is_settled()) {
                rounds_left -= 1;
            }
            if rounds_left == 0 {
                self.check()?;
                return self.compare();
            }
        }
        let peers = self.sides.iter().flat_map(|side| &side.peers);
        let unsettled = peers.filter(|peer| !peer.is_settled());
        let names: Vec<String> = unsettled.map(|peer| peer.name()).collect();
        Err(format!("never at rest: {}", names.join(", ")))
    }

    fn round(&mut self) -> Verdict {
        self.report.steps += 1;
        for side in [MASTER, REPLICA] {
            let process = self.sides[side].process();
            process.tasks.run_due();
            for lane in 0..process.lanes.count() {
                process.lanes.turn(lane);
            }
            for place in 0..self.sides[side].peers.len() {
                self.let_peer(side, place, true)?;
            }
        }
        self.let_wires(true)?;
        advance_simulated_clock(ROUND);
        self.look_for_failures()
    }

    /// All that the master holds, the replica holds, and both know how far they are.
    fn compare(&mut self) -> Verdict {
        for _ in 0..ROUNDS_TO_AGREE {
            // A file of all keys, for which no other peer waits, or a PING may be under way.
            if let (Ok(master), Ok(replica)) = (self.audit(MASTER), self.audit(REPLICA))
                && master == replica
            {
                return Ok(());
            }
            self.round()?;
        }
        let (master, replica) = (self.audit(MASTER)?, self.audit(REPLICA)?);
        let difference = master.difference(&replica);
        Err(format!("master and replica never agree: {difference}"))
    }

    /// Each process ends and begins again: its files hold what it held.
    fn look_at_files(&mut self) -> Verdict {
        // What a file of all keys has just brought comes to the replica's disk.
        for _ in 0..ROUNDS_AFTER {
            self.round()?;
        }
        for side in [REPLICA, MASTER] {
            let held = self.audit(side)?;
            let ends = match self.sides[side].plan.appendfsync {
                "no" => &[End::Asked, End::Killed][..],
                _ => &[End::Asked, End::Killed, End::MachineFailed],
            };
            let end = *self.random.pick(ends);
            self.end(side, end)?;
            self.start(side)?;
            self.load(side)?;
            let found = self.audit(side)?;
            if !held.has_same_keys(&found) {
                let (name, difference) = (NAMES[side], held.difference(&found));
                return Err(format!("the files of the {name} ({end:?}): {difference}"));
            }
        }
        for side in [REPLICA, MASTER] {
            self.end(side, End::Asked)?;
        }
        Ok(())
    }

    /// Goes on until a process has loaded its keys.
    fn load(&mut self, side: usize) -> Verdict {
        for _ in 0..ROUNDS_MAX {
            let process = self.sides[side].process();
            if !process.is_loading() {
                return Ok(());
            }
            process.tasks.run_due();
            for lane in 0..process.lanes.count() {
                process.lanes.turn(lane);
            }
            advance_simulated_clock(ROUND);
            self.look_for_failures()?;
        }
        Err(format!("the {} never loads its keys", NAMES[side]))
    }

    fn audit(&mut self, side: usize) -> Result<Audit, String> {
        let own = &mut self.sides[side];
        let process = own.process.as_mut().expect("a process that runs");
        let mut auditor = None;
        for _ in 0..ROUNDS_MAX {
            let around = &mut Around {
                lanes: &process.lanes,
                random: &mut self.random,
                ledger: &mut self.ledger,
                traffic: &mut self.report.traffic,
                plan: &own.plan,
                now_ns: monotonic_ns(),
                is_quiet: true,
            };
            let auditor = auditor.get_or_insert_with(|| Auditor::new(around));
            let audit = auditor.step(around);
            if let Some(audit) = audit.map_err(|text| format!("the {}: {text}", NAMES[side]))? {
                return Ok(audit);
            }
            (0..process.lanes.count()).for_each(|lane| process.lanes.turn(lane));
        }
        Err(format!("the {} does not answer an audit", NAMES[side]))
    }

    fn check(&mut self) -> Verdict {
        for side in &mut self.sides {
            let process = side.process.as_ref().expect("a process that runs");
            for peer in &mut side.peers {
                let mut around = Around {
                    lanes: &process.lanes,
                    random: &mut self.random,
                    ledger: &mut self.ledger,
                    traffic: &mut self.report.traffic,
                    plan: &side.plan,
                    now_ns: monotonic_ns(),
                    is_quiet: true,
                };
                let result = peer.check(&mut around);
                result.map_err(|text| format!("{}, at the end: {text}", peer.name()))?;
            }
        }
        Ok(())
    }
}

/// Rounds until both processes must hold the same: 20 simulated seconds.
const ROUNDS_TO_AGREE: u32 = 1_000;
/// About as many looks are an eighth of the steps.
const CUT_OFF_MAX: u64 = 400;
const MASTER: usize = 0;
const REPLICA: usize = 1;
const NAMES: [&str; 2] = ["master", "replica"];
