//! The process, under the names that all Prometheus clients use.

use std::fmt::Write;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::Page;
use crate::memory::{resident_bytes, virtual_bytes};
use crate::server::Server;

pub(super) fn process(server: &Server, page: &mut Page) {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let used_s = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
    // One of them is the folder that is being read.
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count().saturating_sub(1));
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let start_s = server.started_unix_ns as f64 / 1e9;
    for (name, kind, help, value) in [
        (
            "process_cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            used_s,
        ),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory size in bytes.",
            resident_bytes() as f64,
        ),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Virtual memory size in bytes.",
            virtual_bytes() as f64,
        ),
        (
            "process_open_fds",
            "gauge",
            "Number of open file descriptors.",
            open as f64,
        ),
        (
            "process_max_fds",
            "gauge",
            "Maximum number of open file descriptors.",
            most as f64,
        ),
        (
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds.",
            start_s,
        ),
    ] {
        let _ = writeln!(
            page.0,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
        );
    }
}
