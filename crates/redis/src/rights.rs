//! The right of a lane to lock shards.
//!
//! A script holds the shards that it has needed for as long as it runs, so that a lane that waited
//! for one of them would wait as long: it could not accept, reply -BUSY, or obey a signal.
//! Therefore a lane locks shards only while it has the *right* to. It takes the right with the
//! first thing that comes in a turn and lets it go at the turn's end; between two commands it looks
//! whether a script wants it. A lane that runs a script takes the rights of all other lanes first,
//! and locks shards after that. So a lane that has its right waits for no script, and a lane that
//! cannot get it leaves what needs shards for later: connections are parked, other work is put off.
//!
//! A right is one word on a cache line of its own. Lane and script meet there by atomic
//! read-modify-writes, so that one of both sees the other.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::time::{Duration, Instant};

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use tidewire_keyspace::order;

/// The rights of all lanes.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    lanes: Box<[Right]>,
    /// A lane has taken, or is taking, the rights of all others.
    is_taken: AtomicBool,
    /// Lanes with connections that wait until they get their right, one bit each.
    waiting: AtomicU64,
    /// Lanes that waited for a script that has ended: they go before the next one.
    owed: AtomicU64,
}

/// The right of one lane: whether it is [`HELD`], and whether a script [`WANTED`] it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Right(AtomicU8);

impl Rights {
    pub(crate) fn new(lanes: usize) -> Self {
        assert!(
            lanes <= u64::BITS as usize,
            "a word has a bit for each lane"
        );
        Rights {
            lanes: (0..lanes).map(|_| Right::default()).collect(),
            ..Rights::default()
        }
    }

    /// Whether a lane has its right, and no script wants it: one load for every command.
    #[inline]
    pub(crate) fn has(&self, lane: usize) -> bool {
        self.lanes[lane].0.load(Ordering::Relaxed) == HELD
    }

    /// Whether a lane has its right, even if a script wants it.
    pub(crate) fn holds(&self, lane: usize) -> bool {
        self.lanes[lane].0.load(Ordering::Relaxed) & HELD != 0
    }

    /// Whether a lane has taken, or is taking, the rights of all others.
    pub(crate) fn are_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }

    /// Takes a lane's right; false if a script has it. Only the lane itself calls this, and
    /// [`leave`](Self::leave).
    #[inline]
    pub(crate) fn enter(&self, lane: usize) -> bool {
        let right = &self.lanes[lane].0;
        match right.load(Ordering::Relaxed) {
            HELD => {
                // On a thread that runs several lanes, another one may have let its own go since.
                order::bar_shards(false);
                true
            }
            0 => {
                let exchanged =
                    right.compare_exchange(0, HELD, Ordering::SeqCst, Ordering::Relaxed);
                let has = exchanged.is_ok();
                if has {
                    order::bar_shards(false);
                }
                has
            }
            // Commands under way end; no new one begins.
            _ => false,
        }
    }

    /// Lets a lane's right go. The lane's stack holds no shard.
    #[inline]
    pub(crate) fn leave(&self, lane: usize) {
        let right = &self.lanes[lane].0;
        if right.load(Ordering::Relaxed) & HELD != 0 {
            order::assert_no_shard("a lane's right is let go");
            order::bar_shards(true);
            right.fetch_and(!HELD, Ordering::SeqCst);
        }
    }

    /// Releases the right for a script that wants it, and takes it again if the script ends within
    /// microseconds.
    #[cold]
    pub(crate) fn enter_soon(&self, lane: usize) -> bool {
        self.leave(lane);
        (0..ATTEMPTS).any(|attempt| {
            pause(attempt);
            self.enter(lane)
        })
    }

    /// Takes the rights of all lanes but `lane`, which has its own. False if another lane does so,
    /// or others that have waited go first, or a lane does not let go within [`PATIENCE`]: then
    /// `lane` has to do something else first.
    pub(crate) fn take_all(&self, lane: usize) -> bool {
        debug_assert!(self.holds(lane), "a lane that takes all rights has its own");
        order::assert_no_shard("a script begins");
        let own = 1 << lane;
        let owed = self.owed.load(Ordering::SeqCst);
        if owed & !own != 0 && owed & own == 0 {
            return false;
        }
        let taken =
            self.is_taken
                .compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed);
        if taken.is_err() {
            return false;
        }
        let others = || {
            let lanes = self.lanes.iter().enumerate();
            lanes.filter(|&(other, _)| other != lane)
        };
        for (_, right) in others() {
            right.0.fetch_or(WANTED, Ordering::SeqCst);
        }
        let mut patience = Patience::default();
        let has_left = |right: &Right| right.0.load(Ordering::SeqCst) & HELD == 0;
        let all_left = others().all(|(_, right)| {
            while !has_left(right) {
                if !patience.goes_on() {
                    return false;
                }
            }
            true
        });
        if !all_left {
            self.give_back(lane);
        }
        all_left
    }

    /// Gives the rights of all other lanes back.
    pub(crate) fn give_back(&self, lane: usize) {
        debug_assert!(self.are_taken(), "only rights that were taken go back");
        for (other, right) in self.lanes.iter().enumerate() {
            if other != lane {
                right.0.fetch_and(!WANTED, Ordering::SeqCst);
            }
        }
        self.is_taken.store(false, Ordering::SeqCst);
    }

    /// While a script runs, its lane serves others from within: they may lock no shard either.
    pub(crate) fn lend(&self, lane: usize) {
        debug_assert!(self.are_taken(), "only a lane that runs a script lends");
        debug_assert!(self.has(lane), "a lane lends the right that it has");
        order::bar_shards(true);
        self.lanes[lane].0.store(WANTED, Ordering::SeqCst);
    }

    /// The script goes on.
    pub(crate) fn take_back(&self, lane: usize) {
        debug_assert!(
            self.are_taken() && !self.holds(lane),
            "a lane takes back the right that it has lent"
        );
        self.lanes[lane].0.store(HELD, Ordering::SeqCst);
        order::bar_shards(false);
    }

    /// A lane has connections that wait.
    pub(crate) fn wait(&self, lane: usize) {
        debug_assert!(lane < self.lanes.len(), "each lane has a bit of its own");
        self.waiting.fetch_or(1 << lane, Ordering::SeqCst);
    }

    /// A lane's connections go on.
    pub(crate) fn go_on(&self, lane: usize) {
        self.waiting.fetch_and(!(1 << lane), Ordering::SeqCst);
    }

    /// Lanes that wait, one bit each.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::SeqCst)
    }

    /// A script of `lane` has ended: lanes that have waited go before its next one, and are
    /// returned.
    pub(crate) fn owe(&self, lane: usize) -> u64 {
        debug_assert!(
            self.are_taken(),
            "lanes are owed their turn before they get their rights"
        );
        let waiting = self.waiting() & !(1 << lane);
        self.owed.fetch_and(!(1 << lane), Ordering::SeqCst);
        self.owed.fetch_or(waiting, Ordering::SeqCst);
        waiting
    }

    /// Whether a lane goes before the next script of others.
    #[inline]
    pub(crate) fn is_owed(&self, lane: usize) -> bool {
        self.owed.load(Ordering::Relaxed) >> lane & 1 != 0
    }

    /// The connections that waited on a lane have had their turn. Returns the lanes that waited for
    /// that.
    pub(crate) fn note_turn(&self, lane: usize) -> u64 {
        let own = 1 << lane;
        self.owed.fetch_and(!own, Ordering::SeqCst);
        self.waiting() & !own
    }
}

/// How long a lane tries to get the rights of others.
#[cfg(not(loom))]
#[derive(Default)]
struct Patience {
    attempts: u32,
    until: Option<Instant>,
}

#[cfg(not(loom))]
impl Patience {
    fn goes_on(&mut self) -> bool {
        pause(self.attempts);
        self.attempts += 1;
        if self.attempts < ATTEMPTS {
            return true;
        }
        let now = Instant::now();
        now < *self.until.get_or_insert(now + PATIENCE)
    }
}

/// The model's patience ends after one more look.
#[cfg(loom)]
#[derive(Default)]
struct Patience(u32);

#[cfg(loom)]
impl Patience {
    fn goes_on(&mut self) -> bool {
        loom::thread::yield_now();
        self.0 += 1;
        self.0 < 2
    }
}

#[cfg(loom)]
fn pause(_attempt: u32) {
    loom::thread::yield_now();
}

/// A moment; first without giving the processor up. A lane never sleeps.
#[cfg(not(loom))]
fn pause(attempt: u32) {
    match attempt {
        0..SPINS => (0..1 << attempt).for_each(|_| std::hint::spin_loop()),
        _ => std::thread::yield_now(),
    }
}

/// The lane may lock shards.
const HELD: u8 = 1;
/// A script wants the right, or has it.
const WANTED: u8 = 2;

/// Attempts with a pause between them that doubles, up to a microsecond or two.
#[cfg(not(loom))]
const SPINS: u32 = 7;
/// Attempts after which a connection is parked: some ten microseconds.
const ATTEMPTS: u32 = if cfg!(loom) { 1 } else { 32 };
/// How long a script's lane waits at most for what other lanes have under way. Afterwards it does
/// something else, and tries again in its next turn.
#[cfg(not(loom))]
const PATIENCE: Duration = Duration::from_millis(2);

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// Rights, and for each lane what it does to shards while it has its right; a script does the
    /// same to those of all lanes. Loom says if two do it to one at once.
    struct Model {
        rights: Rights,
        shards: [UnsafeCell<u32>; LANES],
    }

    impl Model {
        fn new() -> Arc<Self> {
            Arc::new(Model {
                rights: Rights::new(LANES),
                shards: Default::default(),
            })
        }

        fn command(&self, lane: usize) {
            if self.rights.has(lane) {
                self.shards[lane].with_mut(|_| ());
            }
        }

        fn turn(&self, lane: usize) {
            if self.rights.enter(lane) || self.rights.enter_soon(lane) {
                self.command(lane);
                self.command(lane);
                self.rights.leave(lane);
            }
        }

        /// A turn with a script, which serves others from within.
        fn script(&self, lane: usize) {
            if !self.rights.enter(lane) {
                return;
            }
            if self.rights.take_all(lane) {
                self.shards.iter().for_each(|shard| shard.with_mut(|_| ()));
                self.rights.lend(lane);
                self.turn(lane);
                self.rights.take_back(lane);
                self.shards.iter().for_each(|shard| shard.with_mut(|_| ()));
                self.rights.owe(lane);
                self.rights.give_back(lane);
            }
            self.rights.leave(lane);
        }
    }

    fn explore(work: [fn(&Model); LANES]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let model = Model::new();
            let others = work.into_iter().skip(1).map(|work| {
                let model = model.clone();
                loom::thread::spawn(move || work(&model))
            });
            let others: Vec<_> = others.collect();
            work[0](&model);
            for other in others {
                other.join().expect("it ended");
            }
            for lane in 0..LANES {
                assert!(model.rights.enter(lane), "nobody has kept a right");
            }
        });
    }

    #[test]
    fn a_script_is_alone_in_every_order() {
        explore([
            |model| model.script(0),
            |model| {
                model.turn(1);
                model.turn(1);
            },
        ]);
    }

    #[test]
    fn of_two_scripts_one_runs_at_a_time_in_every_order() {
        explore([|model| model.script(0), |model| model.script(1)]);
    }

    const LANES: usize = 2;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI64;
    use std::thread;

    #[test]
    fn a_lane_that_kept_its_right_may_lock_after_another_lane_of_its_thread_has_ended_a_turn() {
        let rights = Rights::new(2);
        let keyspace = tidewire_keyspace::Keyspace::new(tidewire_keyspace::Options::default());
        assert!(rights.enter(0) && rights.enter(1));
        rights.leave(1);
        assert!(rights.enter(0));
        drop(keyspace.lock(tidewire_keyspace::ShardSet::all()));
    }

    #[test]
    fn nobody_has_a_right_while_a_script_has_all() {
        const LANES: usize = 4;
        let rights = Rights::new(LANES);
        // Lanes in the middle of something add 1, a script adds a thousand.
        let inside = AtomicI64::new(0);
        let scripts = AtomicU64::new(0);
        thread::scope(|scope| {
            for lane in 0..LANES {
                let (rights, inside, scripts) = (&rights, &inside, &scripts);
                scope.spawn(move || {
                    for turn in 0..4_000 {
                        if !rights.enter(lane) && !rights.enter_soon(lane) {
                            continue;
                        }
                        if turn % 3 == lane % 3 && rights.take_all(lane) {
                            assert_eq!(inside.fetch_add(1_000, Ordering::SeqCst), 0);
                            scripts.fetch_add(1, Ordering::Relaxed);
                            rights.lend(lane);
                            assert!(!rights.has(lane) && !rights.enter(lane));
                            rights.take_back(lane);
                            inside.fetch_sub(1_000, Ordering::SeqCst);
                            rights.give_back(lane);
                        } else if rights.has(lane) {
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 1_000);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                        rights.leave(lane);
                    }
                });
            }
        });
        assert!(scripts.load(Ordering::Relaxed) > 0);
        assert!((0..LANES).all(|lane| rights.enter(lane)));
    }

    /// What a lane does in the model below.
    #[derive(Clone, Copy, Debug, Default)]
    struct Lane {
        is_inside: bool,
        is_waiting: bool,
    }

    #[test]
    fn in_any_order_of_turns_scripts_are_alone_and_nobody_waits_in_vain() {
        for seed in 0..200u64 {
            let mut word = seed;
            let mut random = |end: u64| {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (word >> 33) % end
            };
            let rights = Rights::new(3);
            let mut lanes = [Lane::default(); 3];
            let mut script: Option<usize> = None;
            let mut scripts_since_wait = [0; 3];
            for _ in 0..500 {
                let lane = random(3) as usize;
                match script {
                    // The script's lane ends it; each lane that waited is owed a turn.
                    Some(owner) if owner == lane => {
                        assert!(!(0..3).any(|other| other != lane && lanes[other].is_inside));
                        let owed = rights.owe(lane);
                        let waiting = (0..3).filter(|&other| lanes[other].is_waiting);
                        assert_eq!(owed, waiting.map(|other| 1 << other).sum::<u64>());
                        rights.give_back(lane);
                        script = None;
                    }
                    Some(_) => {
                        assert!(!rights.enter(lane), "a script runs");
                        rights.wait(lane);
                        lanes[lane].is_waiting = true;
                    }
                    None if lanes[lane].is_inside && random(2) == 0 => {
                        let others = (0..3).any(|other| other != lane && lanes[other].is_inside);
                        if !others && rights.take_all(lane) {
                            script = Some(lane);
                            for (other, count) in scripts_since_wait.iter_mut().enumerate() {
                                *count += usize::from(lanes[other].is_waiting && other != lane);
                                assert!(*count <= 2, "lane {other} waits for script after script");
                            }
                        }
                    }
                    None if lanes[lane].is_inside => {
                        rights.leave(lane);
                        rights.note_turn(lane);
                        lanes[lane] = Lane::default();
                        scripts_since_wait[lane] = 0;
                    }
                    None => {
                        assert!(rights.enter(lane), "no script runs");
                        rights.go_on(lane);
                        lanes[lane] = Lane {
                            is_inside: true,
                            is_waiting: false,
                        };
                    }
                }
            }
        }
    }

    #[test]
    fn who_has_waited_goes_before_the_next_script() {
        let rights = Rights::new(2);
        assert!(rights.enter(0) && rights.take_all(0));
        assert!(!rights.enter(1));
        rights.wait(1);
        assert_eq!(rights.owe(0), 0b10);
        rights.give_back(0);
        assert!(!rights.take_all(0), "lane 1 has waited");
        assert!(rights.enter(1));
        rights.go_on(1);
        assert!(rights.has(1));
        rights.leave(1);
        assert_eq!(rights.note_turn(1), 0);
        assert!(rights.take_all(0));
    }

    #[test]
    fn a_script_does_not_wait_for_a_lane_that_takes_long() {
        let rights = Rights::new(2);
        assert!(rights.enter(0) && rights.enter(1));
        assert!(!rights.take_all(0));
        assert!(rights.has(1), "its right is not wanted any more");
    }
}
