//! The sections of lanes and threads, which Redis does not have.

use std::sync::atomic::Ordering;

use tidewire_lane::LaneCounters;

use super::{line, read};
use crate::server::Server;

pub(super) fn lanes(server: &Server, _: u64, out: &mut String) {
    line(out, "lanes", server.config.lanes);
    line(out, "pinned", u8::from(server.config.pinned));
    for (number, lane) in server.lanes.iter().enumerate() {
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
            server.turn_ns(number) / 1_000,
            server.doing(number).replace(' ', "_")
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

/// The process's threads, lanes, inputs and all others: what each takes of one processor.
pub(super) fn shares(server: &Server, _: u64, out: &mut String) {
    for share in server.threads.shares() {
        let text = format!(
            "name={},cpu_percent={:.1},cpu_msec={}",
            share.name,
            share.percent,
            share.used_ns / 1_000_000
        );
        line(out, &format!("thread{}", share.id), text);
    }
}
