//! A thread that notices a lane whose turn does not end, and says which, with what, and since when.
//!
//! A lane notes what it begins: the time of its turn, and a command or a part of the turn. That is
//! a relaxed store each to a line of its own; commands that run on their key's entry alone note
//! nothing.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidewire_lane::monotonic_ns;
use tracing::warn;

use crate::server::Server;

/// A lane whose turn has lasted long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stuck {
    pub(crate) lane: usize,
    /// Its activity: a command's name, or a part of the turn.
    pub(crate) doing: &'static str,
    /// For how long its turn has lasted, ns.
    pub(crate) ns: u64,
}

impl Server {
    /// For how long each lane's turn has lasted, ns; 0 of a lane that waits for events.
    pub(crate) fn turn_ns(&self, lane: usize) -> u64 {
        match self.lanes[lane].turn_began_ns.load(Ordering::Relaxed) {
            0 => 0,
            began_ns => monotonic_ns().saturating_sub(began_ns),
        }
    }

    /// A lane's activity in this turn, or in the last one.
    pub(crate) fn doing(&self, lane: usize) -> &'static str {
        self.turns[lane].doing.name()
    }

    fn stuck_lanes(&self) -> impl Iterator<Item = Stuck> {
        (0..self.config.lanes).filter_map(|lane| {
            let ns = self.turn_ns(lane);
            (ns >= STUCK_NS).then(|| Stuck {
                lane,
                doing: self.doing(lane),
                ns,
            })
        })
    }
}

/// Watches a hub's lanes from a thread of its own, until the hub is gone: a lane whose turn does
/// not end is logged.
pub fn watch_lanes(server: &Arc<Server>) -> std::io::Result<()> {
    let server = Arc::downgrade(server);
    let watch = move || watch(&server);
    std::thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(watch)
        .map(drop)
}

fn watch(server: &Weak<Server>) {
    let mut reported = Reported::default();
    while let Some(server) = server.upgrade() {
        let stuck: Vec<Stuck> = server.stuck_lanes().collect();
        drop(server);
        for one in reported.news(&stuck) {
            let (lane, doing, seconds) = (one.lane, one.doing, one.ns / 1_000_000_000);
            warn!(lane, doing, seconds, "a lane's turn does not end");
        }
        for lane in reported.ended(&stuck) {
            warn!(lane, "the lane's long turn has ended");
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// Lanes of which it was told that they are stuck, and from when on they are named again.
#[derive(Debug, Default)]
struct Reported(Vec<(usize, u64)>);

impl Reported {
    /// Lanes to be named now: at first, and whenever the time has doubled.
    fn news(&mut self, stuck: &[Stuck]) -> Vec<Stuck> {
        let mut news = Vec::new();
        for one in stuck {
            match self.0.iter_mut().find(|(lane, _)| *lane == one.lane) {
                Some((_, again_ns)) if one.ns < *again_ns => continue,
                Some((_, again_ns)) => *again_ns = one.ns * 2,
                None => self.0.push((one.lane, one.ns * 2)),
            }
            news.push(*one);
        }
        debug_assert!(
            self.0.len() >= news.len()
                && self.0.iter().all(|(lane, _)| {
                    let same = self.0.iter().filter(|(other, _)| other == lane);
                    same.count() == 1
                }),
            "each lane that is stuck is remembered once"
        );
        news
    }

    /// Lanes that are not stuck any more.
    fn ended(&mut self, stuck: &[Stuck]) -> Vec<usize> {
        let is_stuck = |lane: usize| stuck.iter().any(|one| one.lane == lane);
        let ended = self.0.iter().map(|(lane, _)| *lane);
        let ended = ended.filter(|&lane| !is_stuck(lane)).collect();
        self.0.retain(|&(lane, _)| is_stuck(lane));
        ended
    }
}

/// A turn of this length is logged. No command of a well-behaved client takes as long, and a long
/// script serves others from within.
const STUCK_NS: u64 = 2_000_000_000;
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{Activity, Part};
    use tidewire_keyspace::lookup;

    fn stuck(lane: usize, ns: u64) -> Stuck {
        let doing = "get";
        Stuck { lane, doing, ns }
    }

    #[test]
    fn a_stuck_lane_is_named_at_growing_intervals_and_when_it_goes_on() {
        let mut reported = Reported::default();
        let one = [stuck(1, 2)];
        assert_eq!(reported.news(&one), one);
        assert_eq!(reported.news(&[stuck(1, 3)]), []);
        let both = [stuck(0, 2), stuck(1, 5)];
        assert_eq!(reported.news(&both), both);
        assert!(reported.ended(&both).is_empty());
        assert_eq!(reported.ended(&[stuck(0, 3)]), [1]);
        assert_eq!(reported.ended(&[]), [0]);
        assert_eq!(reported.news(&one), one);
    }

    #[test]
    fn what_a_lane_does_has_a_name() {
        let doing = Activity::default();
        assert_eq!(doing.name(), "nothing");
        doing.part(Part::Mail);
        assert_eq!(doing.name(), "mail");
        let command = lookup(b"config").expect("a command");
        doing.command(command.subcommands().first().expect("it has parts"));
        assert!(doing.name().starts_with("config|"), "{}", doing.name());
    }
}
