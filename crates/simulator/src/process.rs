//! One life of the hub's process.

use std::sync::Arc;

use tidewire_files::{Disk, SimulatedDisk};
use tidewire_hub::{Hub, HubConfig, HubLane};
use tidewire_lane::{Lanes, SteppedLanes, unix_ns};
use tidewire_plant::PlantOptions;
use tidewire_redis::background::{Background, Tasks};
use tidewire_redis::{Durability, RedisConfig};

use crate::plan::Plan;

/// A hub whose lanes and tasks take a turn when they are told to.
pub(crate) struct Process {
    pub(crate) hub: Arc<Hub>,
    pub(crate) lanes: SteppedLanes<HubLane>,
    pub(crate) tasks: Arc<Tasks>,
}

impl Process {
    /// Starts as the program does, without listeners.
    pub(crate) fn start(plan: &Plan, disk: &Arc<SimulatedDisk>) -> Result<Self, String> {
        let tasks = Arc::new(Tasks::default());
        let redis = RedisConfig {
            lanes: plan.lanes,
            parameters: plan.parameters.clone(),
            disk: Disk::simulated(disk.clone()),
            background: Background::simulated(tasks.clone()),
            ..RedisConfig::default()
        };
        let plant = plan.has_plant.then(|| {
            let endpoint = "127.0.0.1:5026".parse().expect("an endpoint");
            PlantOptions::new(endpoint)
        });
        let mut config = HubConfig {
            redis,
            plant,
            io_uring: false,
            ..HubConfig::default()
        };
        // Another one each time the process starts, and the same in each run of a seed.
        config.market.session = (unix_ns().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32 | 1;
        // The thread may have run lanes of another process: it is a lane's from then on.
        let hub = on_another_thread(|| Self::begin(plan.lanes, config))?;
        let mailboxes = hub.mailboxes().clone();
        let lanes = SteppedLanes::new(mailboxes, &hub.server.lanes, |lane| {
            HubLane::new(hub.clone(), lane, None)
        });
        let lanes = lanes.map_err(failed)?;
        Ok(Self { hub, lanes, tasks })
    }

    /// What comes before the lanes.
    fn begin(lanes: usize, config: HubConfig) -> Result<Arc<Hub>, String> {
        let mailboxes = Lanes::mailboxes(lanes).map_err(failed)?;
        let hub = Hub::new(config, mailboxes);
        // A thread that frees would answer FLUSHDB when the machine lets it.
        hub.server.keyspace.free_at_once();
        hub.server.load_users()?;
        hub.server.take_configured_part()?;
        Durability::load_in_background(&hub.server).map_err(failed)?;
        hub.server.follow_configured_master();
        Ok(hub)
    }

    /// Whether keys are still being loaded.
    pub(crate) fn is_loading(&self) -> bool {
        self.hub.server.durability.is_loading()
    }

    /// When a lane or a task goes on by itself, monotonic ns.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        let lanes = (0..self.lanes.count()).filter_map(|lane| self.lanes.deadline_ns(lane));
        lanes.chain(self.tasks.deadline_ns()).min()
    }

    /// What shows that the process cannot go on.
    pub(crate) fn failure(&self) -> Option<String> {
        if self.tasks.panics() > 0 {
            return Some("a task has panicked".to_owned());
        }
        let failure = self.hub.server.durability.load_failure();
        failure.map(|text| format!("the files cannot be loaded: {text}"))
    }

    /// Whether SIGTERM ends it now. It waits for the first base of an append-only file.
    pub(crate) fn may_finish(&self) -> bool {
        !self.hub.server.durability.is_first_base_under_way()
    }

    /// Ends as by SIGTERM.
    pub(crate) fn finish(self) -> Result<(), String> {
        self.hub.server.stop_listening();
        self.lanes.stop();
        let server = &self.hub.server;
        let finished = on_another_thread(|| server.durability.finish(server));
        self.tasks.kill();
        finished
    }

    /// Ends where it stands. Its disk must be of no use to anybody any more.
    pub(crate) fn kill(self) {
        self.tasks.kill();
    }
}

/// Runs something on a thread that has run no lanes, and waits for it.
fn on_another_thread<R: Send>(
    work: impl FnOnce() -> Result<R, String> + Send,
) -> Result<R, String> {
    std::thread::scope(|scope| {
        let done = scope.spawn(work).join();
        done.unwrap_or_else(|_| Err("the process has panicked".to_owned()))
    })
}

fn failed(error: std::io::Error) -> String {
    format!("the process does not start: {error}")
}
