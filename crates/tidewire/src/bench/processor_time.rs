//! What a process or a thread has used of the processors, and where it may run.

use std::fs;
use std::io;
use std::path::PathBuf;

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
    /// That of the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        Self::Thread(gettid().as_raw_nonzero().get() as u32)
    }

    /// Processor time used so far, ns.
    ///
    /// # Errors
    /// The process has ended.
    pub(crate) fn read_ns(&self) -> io::Result<u64> {
        match self {
            Self::Thread(thread) => {
                let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"))?;
                first_number(&text)
            }
            Self::Process(process) => {
                let mut sum_ns = 0;
                for task in fs::read_dir(format!("/proc/{process}/task"))? {
                    let path: PathBuf = task?.path().join("schedstat");
                    sum_ns += first_number(&fs::read_to_string(path)?)?;
                }
                Ok(sum_ns)
            }
        }
    }
}

/// Time on a processor stands first in `schedstat`, in ns.
fn first_number(text: &str) -> io::Result<u64> {
    let number = text.split_whitespace().next().and_then(|n| n.parse().ok());
    number.ok_or_else(|| io::Error::other("schedstat is not as expected"))
}

/// Keeps the calling thread, and what it starts from now on, on one core while it lives.
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
        // What was allowed before is allowed now.
        let _ = sched_setaffinity(None::<Pid>, &self.before);
    }
}

/// Where the two sides of a measurement run; `None` leaves it to the scheduler.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Cores {
    pub(crate) server: Option<usize>,
    pub(crate) load: Option<usize>,
}

impl Cores {
    /// Core 0 for servers and core 1 for load, if asked for.
    pub(crate) fn new(pin: bool) -> Self {
        Self {
            server: pin.then_some(0),
            load: pin.then_some(1),
        }
    }

    pub(crate) fn enter_server(self) -> io::Result<Option<OnCore>> {
        self.server.map(OnCore::new).transpose()
    }

    pub(crate) fn enter_load(self) -> io::Result<Option<OnCore>> {
        self.load.map(OnCore::new).transpose()
    }
}
