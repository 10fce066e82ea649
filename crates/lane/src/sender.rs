//! How a turn sends: one system call per send, or one call for many.
//!
//! Which one is cheaper depends on the kernel, its speculation mitigations and the machine. So a
//! lane measures both on real work, uses the cheaper one, and repeats the measurement from time
//! to time.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tracing::{debug, warn};

use crate::context::LaneCounters;
use crate::ring::{Ring, Sent};

/// Sends the output of a lane.
#[derive(Debug)]
pub(crate) struct Sender {
    ring: Permit,
    trial: Trial,
    /// Results of the last batch.
    outcomes: Vec<Option<Sent>>,
    counters: Arc<LaneCounters>,
}

/// Whether the lane has a ring.
#[derive(Debug)]
enum Permit {
    /// Not created yet: only the lane's own thread may do that.
    Wanted,
    Has(Box<Ring>),
    /// Not wanted, or refused by the kernel.
    None,
}

/// How the sends of a turn are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One system call per send.
    Calls,
    /// Many in one call.
    Ring,
}

impl Sender {
    pub(crate) fn new(io_uring: bool, counters: Arc<LaneCounters>) -> Self {
        Self {
            ring: if io_uring {
                Permit::Wanted
            } else {
                Permit::None
            },
            trial: Trial::default(),
            outcomes: Vec::new(),
            counters,
        }
    }

    /// Returns how to make `sends` sends now and, during a trial, the start time.
    pub(crate) fn choose(&mut self, sends: usize) -> (Way, Option<Instant>) {
        if sends < BATCH_MIN || !self.has_ring() {
            return (Way::Calls, None);
        }
        let (way, tries) = self.trial.next();
        (way, tries.then(Instant::now))
    }

    /// Notes the duration of a try.
    pub(crate) fn note(&mut self, way: Way, sends: usize, took: Duration) {
        let ns_a_send = took.as_nanos() as u64 / sends.max(1) as u64;
        if let Some(found) = self.trial.note(way, ns_a_send) {
            let counters = &self.counters;
            counters.send_ns.store(found.calls_ns, Ordering::Relaxed);
            counters
                .ring_send_ns
                .store(found.ring_ns, Ordering::Relaxed);
            let rings = found.way() == Way::Ring;
            counters.sends_by_ring.store(rings, Ordering::Relaxed);
        }
    }

    /// Sends a batch by the ring, as [`Ring::send`] does; returns the results.
    pub(crate) fn send<'b>(
        &mut self,
        sends: impl Iterator<Item = Option<(BorrowedFd<'b>, &'b [u8])>>,
    ) -> &[Option<Sent>] {
        self.outcomes.clear();
        if let Permit::Has(ring) = &mut self.ring
            && let Err(error) = ring.send(sends, &mut self.outcomes)
        {
            warn!(%error, "io_uring failed: using one system call per send from now on");
            self.ring = Permit::None;
            self.counters.sends_by_ring.store(false, Ordering::Relaxed);
        }
        &self.outcomes
    }

    fn has_ring(&mut self) -> bool {
        if matches!(self.ring, Permit::Wanted) {
            self.ring = match Ring::new() {
                Ok(ring) => Permit::Has(Box::new(ring)),
                Err(error) => {
                    debug!(%error, "no io_uring: each send is a call of its own");
                    Permit::None
                }
            };
        }
        matches!(self.ring, Permit::Has(_))
    }
}

/// Measures which way is cheaper.
#[derive(Debug, Default)]
struct Trial {
    /// Measurements of the current trial: single calls, ring.
    tried_ns: [Vec<u64>; 2],
    /// The result of the last trial, and the number of batches it is still valid for.
    found: Option<(Found, u32)>,
}

/// The medians of a trial, in nanoseconds per send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    calls_ns: u64,
    ring_ns: u64,
}

impl Found {
    fn way(self) -> Way {
        if self.ring_ns < self.calls_ns {
            Way::Ring
        } else {
            Way::Calls
        }
    }
}

impl Trial {
    /// Returns the way of the next batch, and whether it is a try.
    fn next(&mut self) -> (Way, bool) {
        if let Some((found, batches)) = &mut self.found {
            if *batches > 0 {
                *batches -= 1;
                return (found.way(), false);
            }
            self.found = None;
        }
        let [calls, ring] = &self.tried_ns;
        let way = if ring.len() < calls.len() {
            Way::Ring
        } else {
            Way::Calls
        };
        (way, true)
    }

    /// Notes a try; returns the result of the trial if this was its last try.
    fn note(&mut self, way: Way, ns_a_send: u64) -> Option<Found> {
        self.tried_ns[way as usize].push(ns_a_send);
        if self.tried_ns.iter().any(|tried| tried.len() < TRIES) {
            return None;
        }
        let [calls_ns, ring_ns] = self.tried_ns.each_mut().map(|tried| {
            tried.sort_unstable();
            let median = tried[tried.len() / 2];
            tried.clear();
            median
        });
        let found = Found { calls_ns, ring_ns };
        self.found = Some((found, BATCHES_A_TRIAL));
        Some(found)
    }
}

/// Fewer sends than this are made by single calls.
const BATCH_MIN: usize = 4;
/// Tries of each way per trial.
const TRIES: usize = 65;
/// Batches between two trials.
const BATCHES_A_TRIAL: u32 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one trial with the given durations per send; returns its result.
    fn trial(trial: &mut Trial, calls_ns: u64, ring_ns: u64) -> Option<Found> {
        loop {
            let (way, tries) = trial.next();
            assert!(tries);
            let ns = if way == Way::Ring { ring_ns } else { calls_ns };
            if let Some(found) = trial.note(way, ns) {
                return Some(found);
            }
        }
    }

    #[test]
    fn the_cheaper_way_is_taken_and_tried_anew_after_a_while() {
        let mut tried = Trial::default();
        let found = trial(&mut tried, 4000, 3000).unwrap();
        assert_eq!((found.calls_ns, found.ring_ns), (4000, 3000));
        for _ in 0..BATCHES_A_TRIAL {
            assert_eq!(tried.next(), (Way::Ring, false));
        }
        assert_eq!(trial(&mut tried, 3000, 3000).unwrap().way(), Way::Calls);
        assert_eq!(tried.next(), (Way::Calls, false));
    }

    #[test]
    fn a_few_long_pauses_do_not_decide() {
        let mut tried = Trial::default();
        for number in 0..2 * TRIES as u64 {
            let (way, _) = tried.next();
            let ns = match way {
                Way::Ring if number % 8 == 1 => 1_000_000,
                Way::Ring => 3000,
                Way::Calls => 4000,
            };
            tried.note(way, ns);
        }
        assert_eq!(tried.next(), (Way::Ring, false));
    }

    #[test]
    fn few_sends_and_lanes_without_a_ring_make_calls() {
        let counters = Arc::new(LaneCounters::default());
        let mut without = Sender::new(false, counters.clone());
        assert_eq!(without.choose(100), (Way::Calls, None));
        let mut with = Sender::new(true, counters);
        assert_eq!(with.choose(BATCH_MIN - 1), (Way::Calls, None));
    }
}
