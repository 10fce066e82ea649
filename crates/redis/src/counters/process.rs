//! The program, its process, and the processor time that it has taken.

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use tidewire_lane::unix_ms;

use super::{Row, ServerLook};
use crate::memory::virtual_bytes;
use crate::parameters::{BIND, HZ, PORT};
use crate::registry::{Unit, line};
use crate::{REDIS_VERSION, REDIS_VERSION_OF_VALKEY, VALKEY_VERSION};

pub(super) const SERVER: &[Row] = &[
    Row::text("redis_version", |look| redis_version(look).to_owned()),
    Row::fixed("redis_git_sha1", "00000000"),
    Row::fixed("redis_git_dirty", "0"),
    Row::fixed("redis_mode", "standalone"),
    Row::text("server_name", |look| server_name(look).to_owned()),
    Row::lines(valkey_version),
    Row::fixed("tidewire_version", env!("CARGO_PKG_VERSION")).watched("version"),
    Row::text("os", |_| format!("Linux {}", std::env::consts::ARCH)),
    Row::count("arch_bits", |_| usize::BITS.into()),
    Row::fixed("monotonic_clock", "POSIX clock_gettime"),
    Row::fixed("multiplexing_api", "epoll"),
    Row::count("process_id", |_| std::process::id().into()),
    Row::text("run_id", run_id),
    Row::count("tcp_port", |look| look.parameters.read(PORT)),
    Row::count("server_time_usec", |look| look.unix_ns / 1_000),
    Row::time("uptime_in_seconds", Unit::Seconds, uptime_ns)
        .gauge(110, "uptime_seconds")
        .help("Time since the start.")
        .watched("uptime_s"),
    Row::count("uptime_in_days", |look| uptime_ns(look) / DAY_NS),
    Row::count("hz", |look| look.parameters.read(HZ)),
    Row::count("configured_hz", |look| look.parameters.read(HZ)),
    Row::count("lru_clock", |look| {
        (look.unix_ns / 1_000_000_000) & 0xFF_FFFF
    }),
    Row::text("executable", |_| {
        let path = std::env::current_exe().unwrap_or_default();
        path.display().to_string()
    }),
    Row::fixed("config_file", ""),
    Row::flag("io_threads_active", |look| look.config.lanes > 1),
    Row::signed("shutdown_in_milliseconds", |look| {
        look.stop_in_ms(unix_ms()).unwrap_or(0)
    })
    .when(|look| look.stop_in_ms(unix_ms()).is_some()),
    Row::fixed("redis_build_id", env!("CARGO_PKG_VERSION")),
    Row::fixed("atomicvar_api", "rust-core"),
    Row::fixed("gcc_version", "0.0.0"),
    Row::fixed("process_supervised", "no"),
    Row::text("listener0", listener),
    Row::series(|_, name, page| {
        page.value(name, &[("version", env!("CARGO_PKG_VERSION"))], 1);
    })
    .gauge(100, "build_info")
    .help("The program's version."),
];

pub(super) const CPU: &[Row] = &[
    Row::decimal("used_cpu_sys", 6, |_| cpu_seconds()[1]),
    Row::decimal("used_cpu_user", 6, |_| cpu_seconds()[0]),
    Row::fixed("used_cpu_sys_children", "0.000000"),
    Row::fixed("used_cpu_user_children", "0.000000"),
    Row::fixed("used_cpu_sys_main_thread", "0.000000"),
    Row::fixed("used_cpu_user_main_thread", "0.000000"),
    Row::time("", Unit::Seconds, |_| {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
    })
    .counter(200, "process_cpu_seconds_total")
    .help("Total user and system CPU time spent in seconds."),
    Row::count("", |look| look.resident())
        .gauge(210, "process_resident_memory_bytes")
        .help("Resident memory size in bytes."),
    Row::count("", |_| virtual_bytes())
        .gauge(220, "process_virtual_memory_bytes")
        .help("Virtual memory size in bytes."),
    // One of them is the folder that is being read.
    Row::size("", |_| {
        std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count().saturating_sub(1))
    })
    .gauge(230, "process_open_fds")
    .help("Number of open file descriptors."),
    Row::decimal("", 0, |_| {
        getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) as f64
    })
    .gauge(240, "process_max_fds")
    .help("Maximum number of open file descriptors."),
    Row::time("", Unit::Seconds, |look| look.started_unix_ns)
        .gauge(250, "process_start_time_seconds")
        .help("Start time of the process since unix epoch in seconds."),
];

fn uptime_ns(look: &ServerLook<'_>) -> u64 {
    look.unix_ns.saturating_sub(look.started_unix_ns)
}

/// Forty digits of this server's own.
fn redis_version(look: &ServerLook<'_>) -> &'static str {
    match look.parameters.follows_valkey() {
        true => REDIS_VERSION_OF_VALKEY,
        false => REDIS_VERSION,
    }
}

fn server_name(look: &ServerLook<'_>) -> &'static str {
    match look.parameters.follows_valkey() {
        true => "valkey",
        false => "tidewire",
    }
}

fn valkey_version(look: &ServerLook<'_>, out: &mut String) {
    if look.parameters.follows_valkey() {
        line(out, "valkey_version", VALKEY_VERSION);
        line(out, "valkey_release_stage", "ga");
    }
}

fn run_id(look: &ServerLook<'_>) -> String {
    format!("{:024x}{:016x}", std::process::id(), look.started_unix_ns)
}

fn listener(look: &ServerLook<'_>) -> String {
    let (port, bind) = (look.parameters.read(PORT), look.parameters.read(BIND));
    let hosts: String = bind
        .split(' ')
        .map(|host| format!(",bind={host}"))
        .collect();
    format!("name=tcp{hosts},port={port}")
}

/// Seconds of processor time, in user mode and in the kernel.
pub(crate) fn cpu_seconds() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses and may hold blanks.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |index| {
        fields
            .split_whitespace()
            .nth(index)
            .and_then(|t| t.parse::<f64>().ok())
    };
    [11, 12].map(|index| ticks(index).unwrap_or(0.0) / CLOCK_TICKS_A_SECOND)
}

const DAY_NS: u64 = 86_400_000_000_000;
/// What Linux reports processor time in, on every architecture.
const CLOCK_TICKS_A_SECOND: f64 = 100.0;
