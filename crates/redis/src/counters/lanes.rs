//! Lanes and threads: what each has done, and what share of a processor it takes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_lane::LaneCounters;

use super::{Row, ServerLook};
use crate::rates::{Moment, Turns};
use crate::registry::{Unit, line};
use crate::server::Server;

/// What each lane has done, as Redis tells it of its threads.
pub(super) const THREADS: &[Row] = &[Row::lines(|look, out| {
    for (number, lane) in look.lanes.iter().enumerate() {
        let text = format!(
            "clients={},reads={},writes={}",
            read(&lane.connections),
            read(&lane.reads),
            read(&lane.writes)
        );
        line(out, &format!("io_thread_{number}"), text);
    }
})];

pub(super) const LANES: &[Row] = &[
    Row::size("lanes", |look| look.config.lanes),
    Row::flag("pinned", |look| look.config.pinned),
    Row::lines(lanes),
    Row::lanes("", |lane| &lane.connections)
        .gauge(360, "lane_connections")
        .help("Connections open now."),
    Row::series(|look, name, page| {
        for lane in 0..look.lanes.len() {
            let seconds = look.turn_ns(lane) as f64 / 1e9;
            page.value(name, &[("lane", &lane.to_string())], seconds);
        }
    })
    .gauge(370, "lane_turn_seconds")
    .help("For how long a lane's turn has lasted; 0 while it waits for events."),
];

/// The process's threads, lanes, inputs and all others: what each takes of one processor.
pub(super) const SHARES: &[Row] = &[
    Row::lines(|look, out| {
        for share in look.threads() {
            let text = format!(
                "name={},cpu_percent={:.1},cpu_msec={}",
                share.name,
                share.percent,
                share.used_ns / 1_000_000
            );
            line(out, &format!("thread{}", share.id), text);
        }
    }),
    Row::series(|look, name, page| {
        let mut used_ns: BTreeMap<&str, u64> = BTreeMap::new();
        for share in look.threads() {
            *used_ns.entry(&share.name).or_default() += share.used_ns;
        }
        for (thread, used_ns) in used_ns {
            page.value(name, &[("thread", thread)], used_ns as f64 / 1e9);
        }
    })
    .counter(400, "thread_cpu_seconds_total")
    .help("Processor time by thread; a lane is one."),
    Row::series(|look, name, page| {
        for share in look.threads() {
            let id = share.id.to_string();
            page.value(
                name,
                &[("thread", &share.name), ("tid", &id)],
                share.percent,
            );
        }
    })
    .gauge(410, "thread_cpu_percent")
    .help("Share of one processor that a thread takes, lately."),
];

/// How long the lanes' upkeep takes: what they do between executing commands and sending replies.
pub(super) const DEBUG: &[Row] = &[
    Row::fixed("eventloop_duration_aof_sum", "0"),
    Row::count("eventloop_duration_cron_sum", |look| {
        look.turns.iter().map(Turns::upkeep_us).sum()
    }),
    Row::time("eventloop_duration_max", Unit::Microseconds, |look| {
        let longest_ns = look.lanes.iter().map(|lane| read(&lane.busy_ns_max));
        longest_ns.max().unwrap_or(0)
    }),
    Row::count("eventloop_cmd_per_cycle_max", |look| {
        let most = look.turns.iter().map(Turns::commands_max);
        most.max().unwrap_or(0)
    }),
];

fn lanes(look: &ServerLook<'_>, out: &mut String) {
    for (number, lane) in look.lanes.iter().enumerate() {
        let text = format!(
            "connections={},turns={},busy_usec={},reads={},writes={},sends={},send_ns={},\
             io_uring_send_ns={},turn_usec={},doing={}",
            read(&lane.connections),
            read(&lane.turns),
            read(&lane.busy_ns) / 1_000,
            read(&lane.reads),
            read(&lane.writes),
            sends(lane),
            read(&lane.send_ns),
            read(&lane.ring_send_ns),
            look.turn_ns(number) / 1_000,
            look.doing(number).replace(' ', "_")
        );
        line(out, &format!("lane{number}"), text);
    }
}

/// How the sends of a lane's turns leave where there are several.
fn sends(lane: &LaneCounters) -> &'static str {
    if lane.sends_by_ring.load(Ordering::Relaxed) {
        "io_uring"
    } else {
        "calls"
    }
}

impl Server {
    /// What the lanes have done until now.
    pub(crate) fn moment(&self) -> Moment {
        let mut moment = Moment {
            now_ns: tidewire_lane::unix_ns(),
            commands: read(&self.commands),
            ..Moment::default()
        };
        for lane in &self.lanes {
            moment.read_bytes += read(&lane.read_bytes);
            moment.written_bytes += read(&lane.written_bytes);
            moment.turns += read(&lane.turns);
            moment.busy_ns += read(&lane.busy_ns);
        }
        moment
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
