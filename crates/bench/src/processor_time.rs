//! Processor time of processes and threads, and their cores.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

/// The processor time of a process or of a thread.
#[derive(Clone, Debug)]
pub(crate) enum ProcessorClock {
    /// All threads of a process that run now.
    Process(u32),
    /// One thread of this process.
    Thread(u32),
}

impl ProcessorClock {
    /// Returns the clock of the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        Self::Thread(gettid().as_raw_nonzero().get() as u32)
    }

    /// Returns the time used so far.
    ///
    /// # Errors
    /// The process has ended.
    pub(crate) fn read(&self) -> io::Result<ProcessorTime> {
        match self {
            Self::Thread(thread) => {
                ProcessorTime::read(format!("/proc/self/task/{thread}/schedstat"))
            }
            Self::Process(process) => {
                let mut sum = ProcessorTime::default();
                for task in fs::read_dir(format!("/proc/{process}/task"))? {
                    let path = task?.path().join("schedstat");
                    let thread = ProcessorTime::read(path)?;
                    sum.used_ns += thread.used_ns;
                    sum.waited_ns += thread.waited_ns;
                }
                Ok(sum)
            }
        }
    }
}

/// Time on a processor, and time spent waiting for one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessorTime {
    /// User and kernel.
    pub(crate) used_ns: u64,
    /// Ready to run while other threads ran: above a few per cent the machine was disturbed.
    pub(crate) waited_ns: u64,
}

impl ProcessorTime {
    /// Returns the time used since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            used_ns: self.used_ns.saturating_sub(before.used_ns),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
        }
    }

    /// Reads the first two numbers of `schedstat`, in nanoseconds.
    fn read(path: impl AsRef<Path>) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(used_ns), Some(waited_ns)) => Ok(Self { used_ns, waited_ns }),
            _ => Err(io::Error::other("schedstat is not as expected")),
        }
    }
}

/// Pins the calling thread, and threads it starts later, to one core while this value lives.
#[derive(Debug)]
pub(crate) struct OnCore {
    before: CpuSet,
}

impl OnCore {
    /// # Errors
    /// There is no such core.
    pub(crate) fn new(core: usize) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut set = CpuSet::new();
        set.set(core);
        sched_setaffinity(None::<Pid>, &set)?;
        Ok(Self { before })
    }
}

impl Drop for OnCore {
    fn drop(&mut self) {
        // The earlier affinity is still allowed.
        let _ = sched_setaffinity(None::<Pid>, &self.before);
    }
}

/// The cores of the two sides of a measurement; `None` leaves them to the scheduler.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Cores {
    pub(crate) server: Option<usize>,
    pub(crate) load: Option<usize>,
    /// Number of cores, before any pinning.
    #[serde(skip)]
    processors: usize,
}

impl Cores {
    /// Selects core 0 for servers and core 1 for load, if `pin` is set.
    pub(crate) fn new(pin: bool) -> Self {
        Self {
            server: pin.then_some(0),
            load: pin.then_some(1),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    pub(crate) fn enter_server(self) -> io::Result<Option<OnCore>> {
        self.server.map(OnCore::new).transpose()
    }

    pub(crate) fn enter_load(self) -> io::Result<Option<OnCore>> {
        self.load.map(OnCore::new).transpose()
    }

    /// Returns the core of one of several load threads: from the load's core on, round-robin.
    pub(crate) fn enter_load_of(self, thread: usize) -> io::Result<Option<OnCore>> {
        let Some(first) = self.load else {
            return Ok(None);
        };
        let cores = self.processors.saturating_sub(first).max(1);
        OnCore::new(first + thread % cores).map(Some)
    }
}
