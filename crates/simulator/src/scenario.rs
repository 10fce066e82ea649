//! One run: lives of a process among its peers, in the order that a seed chooses.

use std::sync::Arc;
use std::time::Duration;

use tidewire_files::{FaultRates, SimulatedDisk};
use tidewire_lane::{advance_simulated_clock, begin_simulated_clock, monotonic_ns};

use crate::pair;
use crate::peer::{Around, Ledger, PeerOfHub, Verdict};
use crate::peers;
use crate::plan::{End, Plan};
use crate::process::Process;
use crate::random::Random;

/// What a run has come to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Turns of lanes, of tasks and of peers, and moves of the clock.
    pub steps: u64,
    /// Lives of the process.
    pub lives: u64,
    /// A digest of all bytes that peers have received, and of the files after each life: the same
    /// for the same seed.
    pub traffic: u64,
}

/// What a seed has found.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The seed: it finds the same again.
    pub seed: u64,
    /// After how many steps.
    pub step: u64,
    /// What is wrong, and with whom.
    pub text: String,
}

/// Runs a seed to its end. The clocks of this process are the simulation's from then on, so there
/// is one run at a time.
///
/// # Errors
/// What the oracle refuses.
pub fn run(seed: u64) -> Result<Report, Violation> {
    tidewire_keyspace::fix_hashes();
    if has_replica(seed) {
        return pair::run(seed);
    }
    let mut world = World::new(seed);
    begin_simulated_clock();
    match world.live() {
        Ok(()) => Ok(world.report),
        Err(text) => Err(Violation {
            seed,
            step: world.report.steps,
            text: format!("{text}\n  {:?}", world.plan),
        }),
    }
}

struct World {
    random: Random,
    plan: Plan,
    disk: Arc<SimulatedDisk>,
    peers: Vec<Box<dyn PeerOfHub>>,
    ledger: Ledger,
    report: Report,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::new(&mut random);
        Self {
            disk: SimulatedDisk::new(random.next()),
            peers: peers::all(&plan, &mut random),
            random,
            plan,
            ledger: Ledger::default(),
            report: Report::default(),
        }
    }

    fn live(&mut self) -> Verdict {
        for life in 1..=self.plan.lives {
            self.report.lives += 1;
            let is_last = life == self.plan.lives;
            // What a process keeps in its threads' own storage goes with it.
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().name("life".to_owned());
                let thread = thread.spawn_scoped(scope, || self.live_once(is_last));
                let lived = thread.expect("a thread").join();
                lived.unwrap_or_else(|_| Err("the process has panicked".to_owned()))
            })?;
        }
        Ok(())
    }

    fn live_once(&mut self, is_last: bool) -> Verdict {
        // A process takes its time to begin.
        advance_simulated_clock(Duration::from_nanos(self.random.between(1_000, 20_000_000)));
        let mut process = Process::start(&self.plan, &self.disk)?;
        tracing::info!(
            life = self.report.lives,
            step = self.report.steps,
            "the process starts"
        );
        let steps = match is_last {
            true => self.plan.steps,
            false => self.random.between(1, self.plan.steps),
        };
        let mut has_faults = false;
        for _ in 0..steps {
            if !has_faults && !process.is_loading() {
                has_faults = true;
                self.disk.set_rates(self.plan.faults);
            }
            self.step(&mut process)?;
        }
        self.disk.set_rates(FaultRates::default());
        tracing::info!(is_last, step = self.report.steps, "it has done its steps");
        if is_last {
            self.settle(&mut process)?;
        }
        let end = match is_last {
            true => End::Asked,
            false => *self
                .random
                .pick(&[End::Asked, End::Killed, End::MachineFailed]),
        };
        match end {
            End::Asked => process.finish()?,
            End::Killed | End::MachineFailed => {
                self.disk = self.disk.fork();
                process.kill();
            }
        }
        if end == End::MachineFailed {
            self.disk.crash();
        }
        digest_of_files(&mut self.report.traffic, &self.disk);
        let plan = &self.plan;
        self.peers
            .iter_mut()
            .for_each(|peer| peer.process_ended(plan, end));
        Ok(())
    }

    /// One thing happens.
    fn step(&mut self, process: &mut Process) -> Verdict {
        self.report.steps += 1;
        let kind = self.random.below(1_000);
        if kind < self.plan.clock_chance {
            pass_time(&mut self.random, [&*process]);
        } else if kind < 450 {
            let lane = self.random.place(process.lanes.count());
            process.lanes.turn(lane);
        } else if kind < 550 {
            let tasks = process.tasks.count();
            if tasks > 0 {
                process.tasks.run(self.random.place(tasks));
            }
        } else {
            let place = self.random.place(self.peers.len());
            self.let_peer(process, place, false)?;
        }
        process.failure().map_or(Ok(()), Err)
    }

    fn let_peer(&mut self, process: &Process, place: usize, is_quiet: bool) -> Verdict {
        let mut around = Around {
            lanes: &process.lanes,
            random: &mut self.random,
            ledger: &mut self.ledger,
            traffic: &mut self.report.traffic,
            plan: &self.plan,
            now_ns: monotonic_ns(),
            is_quiet,
        };
        let peer = &mut self.peers[place];
        let result = peer.step(&mut around);
        result.map_err(|text| format!("{}: {text}", peer.name()))
    }

    /// Everybody goes on in turn and begins nothing; what was begun comes to its end.
    fn settle(&mut self, process: &mut Process) -> Verdict {
        let mut rounds_left = ROUNDS_AFTER;
        for round in 0..ROUNDS_MAX {
            self.round(process)?;
            if self.peers.iter().all(|peer| peer.is_settled()) {
                rounds_left -= 1;
            }
            if rounds_left == 0 {
                return self.check(process);
            }
            debug_assert!(round < ROUNDS_MAX, "the loop ends");
        }
        let unsettled = self.peers.iter().filter(|peer| !peer.is_settled());
        let names: Vec<String> = unsettled.map(|peer| peer.name()).collect();
        Err(format!("never at rest: {}", names.join(", ")))
    }

    fn round(&mut self, process: &mut Process) -> Verdict {
        self.report.steps += 1;
        process.tasks.run_due();
        for lane in 0..process.lanes.count() {
            process.lanes.turn(lane);
        }
        for place in 0..self.peers.len() {
            self.let_peer(process, place, true)?;
        }
        advance_simulated_clock(ROUND);
        process.failure().map_or(Ok(()), Err)
    }

    fn check(&mut self, process: &Process) -> Verdict {
        for peer in &mut self.peers {
            let mut around = Around {
                lanes: &process.lanes,
                random: &mut self.random,
                ledger: &mut self.ledger,
                traffic: &mut self.report.traffic,
                plan: &self.plan,
                now_ns: monotonic_ns(),
                is_quiet: true,
            };
            let result = peer.check(&mut around);
            result.map_err(|text| format!("{}, at the end: {text}", peer.name()))?;
        }
        Ok(())
    }
}

/// Whether a seed is of a master and a replica.
#[must_use]
pub fn has_replica(seed: u64) -> bool {
    matches!(seed % 8, 0 | 2)
}

/// The clock moves on, often to when one of the processes has something to do.
pub(crate) fn pass_time<'a>(random: &mut Random, processes: impl IntoIterator<Item = &'a Process>) {
    let now_ns = monotonic_ns();
    let deadlines = processes.into_iter().filter_map(Process::deadline_ns);
    let next_ns = deadlines.min();
    let to_deadline_ns = next_ns.map_or(0, |next_ns| next_ns.saturating_sub(now_ns));
    let time_ns = match random.below(100) {
        0..40 => random.below(1_000_000),
        40..90 => to_deadline_ns.min(5_000_000_000),
        90..99 => random.below(100_000_000),
        _ => random.below(3_000_000_000),
    };
    advance_simulated_clock(Duration::from_nanos(time_ns));
}

/// Adds the names and lengths of all files to a digest.
pub(crate) fn digest_of_files(digest: &mut u64, disk: &SimulatedDisk) {
    tracing::info!(traffic = *digest, "what peers have received");
    for (path, bytes) in disk.listing() {
        tracing::info!(path = %path.display(), bytes, "there is a file");
        let name = path.as_os_str().as_encoded_bytes();
        for &byte in name.iter().chain(&bytes.to_le_bytes()) {
            *digest = (*digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        }
    }
}

/// How far the clock moves in a round of the end.
pub(crate) const ROUND: Duration = Duration::from_millis(20);
/// Rounds until everybody must have come to rest: ten simulated minutes.
pub(crate) const ROUNDS_MAX: u32 = 30_000;
/// Rounds in which what has settled still reaches others.
pub(crate) const ROUNDS_AFTER: u32 = 200;
