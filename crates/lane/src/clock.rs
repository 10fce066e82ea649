//! A lane's two clocks, and the simulated clock that replaces them in tests.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns monotonic time in nanoseconds: the clock of
/// [`Context::now_ns`](crate::Context::now_ns).
pub fn monotonic_ns() -> u64 {
    match simulated_ns() {
        0 => nanoseconds(clock_gettime(ClockId::Monotonic)),
        now_ns => now_ns,
    }
}

/// Returns wall-clock time, nanoseconds since the UNIX epoch.
pub fn unix_ns() -> u64 {
    match simulated_ns() {
        0 => nanoseconds(clock_gettime(ClockId::Realtime)),
        now_ns => SIMULATED_EPOCH_NS + now_ns,
    }
}

/// Returns wall-clock time, milliseconds since the UNIX epoch.
pub fn unix_ms() -> i64 {
    (unix_ns() / 1_000_000) as i64
}

/// Returns monotonic time for work that a simulation controls; [`Instant::now`] outside a
/// simulation.
pub fn instant() -> Instant {
    static BASE: OnceLock<Instant> = OnceLock::new();
    match simulated_ns() {
        0 => Instant::now(),
        now_ns => *BASE.get_or_init(Instant::now) + Duration::from_nanos(now_ns),
    }
}

/// Replaces the clocks of this process: time then passes only by [`advance_simulated_clock`]. A
/// further call resets them to the same start time. For a simulator, while no lane runs.
pub fn begin_simulated_clock() {
    SIMULATED_NS.store(1_000_000_000, Ordering::Relaxed);
    SIMULATED_WORDS.store(0, Ordering::Relaxed);
}

/// Returns an unpredictable number. In a simulation, the next number of a fixed sequence.
pub fn unguessable_word() -> u64 {
    if simulated_ns() == 0 {
        return RandomState::new().hash_one(std::process::id());
    }
    let step = SIMULATED_WORDS.fetch_add(1, Ordering::Relaxed) + 1;
    let word = step.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (word ^ word >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Advances the clocks of a simulation.
pub fn advance_simulated_clock(time: Duration) {
    let passed_ns = u64::try_from(time.as_nanos()).expect("less than 584 years");
    let before_ns = SIMULATED_NS.fetch_add(passed_ns, Ordering::Relaxed);
    assert!(before_ns > 0, "the simulation has begun");
}

#[inline]
fn simulated_ns() -> u64 {
    SIMULATED_NS.load(Ordering::Relaxed)
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since a simulation began; 0 if there is none.
static SIMULATED_NS: AtomicU64 = AtomicU64::new(0);
/// Number of random numbers the simulation has drawn.
static SIMULATED_WORDS: AtomicU64 = AtomicU64::new(0);
/// Start time of a simulation, nanoseconds since the UNIX epoch: 2027-01-15T08:00:00Z.
const SIMULATED_EPOCH_NS: u64 = 1_800_000_000_000_000_000;
