//! All lanes of a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::thread::{CpuSet, sched_setaffinity};
use tracing::{error, warn};

use crate::application::Application;
use crate::context::LaneCounters;
use crate::endpoint::Listener;
use crate::event_loop::Lane;
use crate::mailbox::{Mailbox, Mailboxes};

/// The cores of the lanes, and their limits.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// The core of each lane, by number; if empty, the scheduler decides.
    pub cores: Vec<usize>,
    /// A connection whose descriptor has this number or a higher one is refused. The kernel
    /// assigns the lowest free number, so all lower ones are then in use.
    pub descriptors_max: u64,
    /// Name of the threads; the lane's number is appended.
    pub name: &'static str,
    /// Whether many sends may share one io_uring call, if that is measured to be cheaper.
    pub io_uring: bool,
}

impl Default for LaneConfig {
    fn default() -> Self {
        Self {
            cores: Vec::new(),
            descriptors_max: u64::MAX,
            name: "lane",
            io_uring: true,
        }
    }
}

/// The running lanes.
#[derive(Debug)]
pub struct Lanes<M> {
    threads: Vec<JoinHandle<()>>,
    mailboxes: Mailboxes<M>,
    counters: Vec<Arc<LaneCounters>>,
    /// Whether the process ends next, so that the lanes need not free their memory.
    is_last: Arc<AtomicBool>,
}

impl<M: Send + 'static> Lanes<M> {
    /// Creates mailboxes for `lanes` lanes. They exist before the lanes, so that applications can
    /// hold them.
    pub fn mailboxes(lanes: usize) -> std::io::Result<Mailboxes<M>> {
        let mailboxes = (0..lanes)
            .map(|_| Mailbox::new())
            .collect::<Result<Vec<_>, _>>()?;
        Ok(mailboxes.into())
    }

    /// Starts one thread per lane. The first lane listens and assigns connections in turn.
    ///
    /// Starts as many lanes as there are `counters`. `application` creates each lane's
    /// application, on the calling thread.
    pub fn start<A>(
        config: &LaneConfig,
        mailboxes: Mailboxes<M>,
        listeners: Vec<Listener>,
        counters: Vec<Arc<LaneCounters>>,
        mut application: impl FnMut(usize) -> A,
    ) -> std::io::Result<Self>
    where
        A: Application<Mail = M> + Send + 'static,
    {
        let mut listeners = Some(listeners);
        let mut threads = Vec::with_capacity(counters.len());
        let is_last = Arc::new(AtomicBool::new(false));
        for (number, lane_counters) in counters.iter().enumerate() {
            let lane = Lane::new(
                number,
                mailboxes.clone(),
                listeners.take().unwrap_or_default(),
                config,
                lane_counters.clone(),
                application(number),
            )?;
            let core = config.cores.get(number).copied();
            let (all, is_last) = (mailboxes.clone(), is_last.clone());
            let thread = thread::Builder::new()
                .name(format!("{}-{number}", config.name))
                .spawn(move || run(lane, number, core, &all, &is_last))?;
            threads.push(thread);
        }
        Ok(Self {
            threads,
            mailboxes,
            counters,
            is_last,
        })
    }

    /// Returns the lanes' mailboxes.
    pub fn mail(&self) -> &Mailboxes<M> {
        &self.mailboxes
    }

    /// Returns the counters of each lane.
    pub fn counters(&self) -> &[Arc<LaneCounters>] {
        &self.counters
    }

    /// Stops every lane and waits for its end.
    pub fn stop(self) {
        self.mailboxes.iter().for_each(Mailbox::stop);
        for thread in self.threads {
            let _ = thread.join();
        }
    }

    /// Like [`stop`](Self::stop), for the end of the process. The memory of the applications is
    /// left to the system, which frees it at once; freeing millions of parts takes seconds.
    pub fn stop_for_good(self) {
        self.is_last.store(true, Ordering::Release);
        self.stop();
    }

    /// Returns whether a lane has ended by itself, which only a bug can cause.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

fn run<A: Application>(
    lane: Lane<A>,
    number: usize,
    core: Option<usize>,
    mailboxes: &Mailboxes<A::Mail>,
    is_last: &AtomicBool,
) {
    if let Some(core) = core {
        let mut set = CpuSet::new();
        if core < CpuSet::MAX_CPU {
            set.set(core);
        }
        if let Err(error) = sched_setaffinity(None, &set) {
            warn!(lane = number, core, %error, "cannot pin the lane to its core");
        }
    }
    // A lane that fails must not leave the others serving half of the clients.
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let application = lane.run();
        if is_last.load(Ordering::Acquire) {
            std::mem::forget(application);
        }
    }));
    if ended.is_err() {
        error!(lane = number, "the lane has failed; all lanes stop");
        mailboxes.iter().for_each(Mailbox::stop);
    }
}
