//! What a seed decides before anything runs.

use tidewire_files::FaultRates;

use crate::random::Random;

/// How the process is set up, and what happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) lanes: usize,
    pub(crate) appendfsync: &'static str,
    pub(crate) parameters: Vec<(String, String)>,
    /// Faults of the disk while clients work; none while keys are loaded.
    pub(crate) faults: FaultRates,
    /// Lives of the process, one after another; the last one ends in peace.
    pub(crate) lives: usize,
    /// Steps of each.
    pub(crate) steps: u64,
    /// How often of a thousand steps the clock moves on.
    pub(crate) clock_chance: u64,
    pub(crate) writers: usize,
    /// Clients that send anything.
    pub(crate) scribblers: usize,
    /// `maxmemory` is set now and then: there are no writers, whose keys would go.
    pub(crate) evicts: bool,
    pub(crate) subscribers: usize,
    pub(crate) pushers: usize,
    pub(crate) publishers: usize,
    pub(crate) has_plant: bool,
    /// A replica follows.
    pub(crate) is_followed: bool,
}

/// How a life of the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As by SIGTERM.
    Asked,
    /// As by SIGKILL: what was written stays.
    Killed,
    /// The machine fails: what no fsync has covered may be gone.
    MachineFailed,
}

impl Plan {
    pub(crate) fn new(random: &mut Random) -> Self {
        let appendfsync = *random.pick(&["always", "everysec", "no"]);
        let rate = |random: &mut Random| random.between(0, 30) as u32;
        let faults = match random.chance(400) {
            true => FaultRates {
                short_writes: rate(random),
                io_errors: rate(random),
                failed_syncs: rate(random),
            },
            false => FaultRates::default(),
        };
        let rewrite_bytes = random.between(512, 16_384);
        let stamps = if random.chance(200) { "yes" } else { "no" };
        let pairs = [
            ("appendonly", "yes".to_owned()),
            ("appendfsync", appendfsync.to_owned()),
            ("dir", "/".to_owned()),
            ("auto-aof-rewrite-min-size", rewrite_bytes.to_string()),
            (
                "auto-aof-rewrite-percentage",
                random.between(20, 200).to_string(),
            ),
            ("aof-timestamp-enabled", stamps.to_owned()),
        ];
        let parameters = pairs.map(|(name, value)| (name.to_owned(), value));
        Self {
            lanes: random.between(1, 3) as usize,
            appendfsync,
            parameters: parameters.to_vec(),
            faults,
            lives: random.between(1, 4) as usize,
            steps: random.between(500, 12_000),
            clock_chance: random.between(5, 60),
            writers: random.between(1, 4) as usize,
            scribblers: 0,
            evicts: false,
            subscribers: random.between(0, 2) as usize,
            pushers: random.between(0, 2) as usize,
            publishers: random.between(0, 2) as usize,
            has_plant: random.chance(500),
            is_followed: false,
        }
    }

    /// A master with a replica: no disk fails, and there are no feeds.
    pub(crate) fn followed(random: &mut Random) -> Self {
        let plan = Self::new(random);
        let delay_s = random.between(0, 1) * random.between(0, 3);
        let mut parameters = plan.parameters;
        parameters.push(("repl-diskless-sync-delay".to_owned(), delay_s.to_string()));
        if random.chance(300) {
            let bytes = random.between(16_384, 40_000);
            parameters.push(("repl-backlog-size".to_owned(), bytes.to_string()));
        }
        let evicts = random.chance(150);
        if evicts {
            let policy = *random.pick(&["allkeys-random", "volatile-random", "allkeys-lru"]);
            // The order of everything is the seed's: no time limits a round of evictions, and
            // values are freed at once.
            let fixed = [
                ("maxmemory-policy", policy),
                ("maxmemory-eviction-tenacity", "100"),
                ("lazyfree-lazy-eviction", "no"),
            ];
            parameters.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        parameters.push(("enable-debug-command".to_owned(), "yes".to_owned()));
        Self {
            faults: FaultRates::default(),
            writers: if evicts { 0 } else { plan.writers },
            subscribers: if evicts { 0 } else { plan.subscribers },
            scribblers: random.between(u64::from(evicts), 2) as usize,
            evicts,
            pushers: 0,
            publishers: 0,
            has_plant: false,
            is_followed: true,
            parameters,
            ..plan
        }
    }

    /// As the replica of this master.
    pub(crate) fn of_replica(&self, random: &mut Random) -> Self {
        let mut plan = self.clone();
        plan.lanes = random.between(1, 3) as usize;
        let master = format!("127.0.0.1 {MASTER_PORT}");
        plan.parameters.push(("replicaof".to_owned(), master));
        plan
    }

    /// Whether what is replied to survives an end of this kind.
    pub(crate) fn keeps_replied(&self, end: End) -> bool {
        match end {
            End::Asked => true,
            // A page that an fsync has lost is read from the disk by the next process.
            End::Killed => self.appendfsync == "always" || self.faults.failed_syncs == 0,
            End::MachineFailed => self.appendfsync == "always",
        }
    }

    pub(crate) fn has_faults(&self) -> bool {
        let FaultRates {
            short_writes,
            io_errors,
            failed_syncs,
        } = self.faults;
        short_writes + io_errors + failed_syncs > 0
    }
}

/// The first of the ports that lead to the master.
pub(crate) const MASTER_PORT: u16 = 7_000;
