//! A hierarchical timer wheel: timers fire with millisecond precision at O(1) cost each, for any
//! number of timers. Nodes are linked in a slab and cancelled in place, so a TTL that changes a
//! million times still needs one node.

use std::fmt;

/// Timers of one database in one shard.
pub(crate) struct Wheel {
    /// Timers up to this time have fired, ms since the UNIX epoch.
    now_ms: i64,
    nodes: Vec<TimerNode>,
    /// Head of the list of unused nodes.
    free: u32,
    len: usize,
    levels: Box<[Level; LEVELS]>,
    /// Number of steps so far: each cascade or expiry is one. For tests and INFO.
    steps: u64,
}

impl Wheel {
    pub(crate) fn new(now_ms: i64) -> Self {
        Wheel {
            now_ms,
            nodes: Vec::new(),
            free: NONE,
            len: 0,
            levels: Box::new([const { Level::new() }; LEVELS]),
            steps: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a timer for the key with this hash. Returns its node.
    pub(crate) fn insert(&mut self, hash: u64, deadline_ms: i64) -> u32 {
        let index = if self.free == NONE {
            self.nodes.push(TimerNode {
                hash,
                deadline_ms,
                previous: NONE,
                next: NONE,
            });
            u32::try_from(self.nodes.len() - 1).expect("a shard has fewer than 2^32 timers")
        } else {
            let index = self.free;
            debug_assert_eq!(
                self.nodes[index as usize].previous, NONE,
                "a free node belongs to no timer"
            );
            let node = &mut self.nodes[index as usize];
            self.free = node.next;
            *node = TimerNode {
                hash,
                deadline_ms,
                previous: NONE,
                next: NONE,
            };
            index
        };
        debug_assert!(index < NONE, "a node's number has 31 bits");
        self.len += 1;
        self.link(index);
        index
    }

    /// Passes up to `count` timers, from a place chosen by `random`, to `show`: hash, node and
    /// deadline.
    pub(crate) fn sample(&self, random: u64, count: usize, mut show: impl FnMut(u64, u32, i64)) {
        let (nodes, mut left) = (self.nodes.len(), count.min(self.len));
        for number in 0..nodes {
            if left == 0 {
                return;
            }
            let at = (random as usize % nodes + number) % nodes;
            let node = &self.nodes[at];
            if node.previous != NONE {
                show(node.hash, at as u32, node.deadline_ms);
                left -= 1;
            }
        }
    }

    /// Removes a timer.
    pub(crate) fn cancel(&mut self, index: u32) {
        self.unlink(index);
        self.release(index);
    }

    /// Returns the deadline of a timer.
    pub(crate) fn deadline_ms(&self, index: u32) -> i64 {
        self.nodes[index as usize].deadline_ms
    }

    /// Returns when the wheel next has work; never later than the earliest deadline.
    pub(crate) fn next_ms(&self) -> Option<i64> {
        let now = self.now_ms as u64;
        // The minimum of all levels, not just of the first one: a slot whose timers move down the
        // levels may be due now, together with timers that are already below it.
        let starts = self.levels.iter().enumerate().filter_map(|(level, slots)| {
            let slot = slots.first_from(slot_of(now, level))?;
            let shift = SLOT_BITS * level as u32;
            // Bits above this level equal those of now; an earlier slot belongs to the next turn.
            let above = now.checked_shr(shift + SLOT_BITS).unwrap_or(0);
            let base = above.checked_shl(shift + SLOT_BITS).unwrap_or(0);
            let start = base | ((slot as u64) << shift);
            Some((start as i64).max(self.now_ms))
        });
        starts.min()
    }

    /// Removes one timer that is due at `now_ms`. Returns its hash and its node, which is free
    /// again.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<(u64, u32)> {
        loop {
            let next = self.next_ms().filter(|&next| next <= now_ms);
            let Some(next) = next else {
                self.now_ms = self.now_ms.max(now_ms);
                return None;
            };
            debug_assert!(next >= self.now_ms, "the wheel turns forward");
            self.now_ms = next;
            // At the start of an upper level's slot, its timers move down; a timer in a slot of the
            // lowest level is due.
            let now = next as u64;
            let level = (0..LEVELS)
                .find(|&level| self.levels[level].heads[slot_of(now, level)] != NONE)
                .expect("the next time has a timer");
            let index = self.levels[level].heads[slot_of(now, level)];
            self.steps += 1;
            let TimerNode {
                hash, deadline_ms, ..
            } = self.nodes[index as usize];
            self.unlink(index);
            if deadline_ms <= now_ms {
                self.release(index);
                return Some((hash, index));
            }
            debug_assert!(level > 0, "a timer of the lowest level is due");
            self.link(index);
        }
    }

    /// Returns the number of steps so far.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    fn link(&mut self, index: u32) {
        let (level, slot) = self.place(self.nodes[index as usize].deadline_ms);
        debug_assert_eq!(
            self.levels[level].heads[slot] != NONE,
            self.levels[level].occupied >> slot & 1 == 1,
            "the bits say which lists have timers"
        );
        let head = self.levels[level].heads[slot];
        let node = &mut self.nodes[index as usize];
        node.next = head;
        // The head of a list identifies the list.
        node.previous = HEAD | (level * SLOTS + slot) as u32;
        if head != NONE {
            self.nodes[head as usize].previous = index;
        }
        self.levels[level].set(slot, index);
    }

    fn unlink(&mut self, index: u32) {
        let TimerNode { previous, next, .. } = self.nodes[index as usize];
        debug_assert_ne!(previous, NONE, "a timer is in a list");
        if next != NONE {
            self.nodes[next as usize].previous = previous;
        }
        if previous & HEAD == 0 {
            self.nodes[previous as usize].next = next;
        } else {
            let list = (previous & !HEAD) as usize;
            self.levels[list / SLOTS].set(list % SLOTS, next);
        }
    }

    fn release(&mut self, index: u32) {
        debug_assert!(self.len > 0);
        let node = &mut self.nodes[index as usize];
        node.next = self.free;
        // Marks a free node: a used one has a node or a list before it.
        node.previous = NONE;
        self.free = index;
        self.len -= 1;
        if self.len == 0 {
            self.nodes = Vec::new();
            self.free = NONE;
        }
    }

    /// Returns the slot of a deadline. The level is that of the highest bit in which deadline and
    /// now differ.
    fn place(&self, deadline_ms: i64) -> (usize, usize) {
        let now = self.now_ms as u64;
        let deadline = deadline_ms.max(self.now_ms) as u64;
        let difference = (deadline ^ now) | (SLOTS as u64 - 1);
        let level = ((63 - difference.leading_zeros()) / SLOT_BITS) as usize;
        debug_assert!(level < LEVELS);
        (level, slot_of(deadline, level))
    }
}

impl fmt::Debug for Wheel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Wheel")
            .field("now_ms", &self.now_ms)
            .field("len", &self.len)
            .finish()
    }
}

#[derive(Clone, Copy)]
struct TimerNode {
    hash: u64,
    deadline_ms: i64,
    /// The previous node, or the list (`HEAD
    /// level * SLOTS + slot`).
    previous: u32,
    next: u32,
}

struct Level {
    /// Bit n is set if slot n has timers.
    occupied: u64,
    heads: [u32; SLOTS],
}

impl Level {
    const fn new() -> Self {
        Level {
            occupied: 0,
            heads: [NONE; SLOTS],
        }
    }

    fn set(&mut self, slot: usize, head: u32) {
        self.heads[slot] = head;
        if head == NONE {
            self.occupied &= !(1 << slot);
        } else {
            self.occupied |= 1 << slot;
        }
    }

    /// Returns the first used slot from `slot` on. Slots behind the current one are empty: their
    /// time has passed.
    fn first_from(&self, slot: usize) -> Option<usize> {
        debug_assert!(slot < SLOTS);
        let ahead = self.occupied & (u64::MAX << slot);
        (ahead != 0).then(|| ahead.trailing_zeros() as usize)
    }
}

fn slot_of(time: u64, level: usize) -> usize {
    (time >> (SLOT_BITS * level as u32)) as usize % SLOTS
}

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Eleven levels of six bits cover all 64 bits of a time: no deadline is too far away.
const LEVELS: usize = 11;
const NONE: u32 = 0x7FFF_FFFF;
const HEAD: u32 = 0x8000_0000;

const _: () = assert!(
    SLOT_BITS as usize * LEVELS >= 64,
    "the levels reach to the farthest deadline"
);
const _: () = assert!(SLOTS * LEVELS < NONE as usize, "a head identifies its list");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_timers_fire_exactly_and_in_few_steps() {
        let mut wheel = Wheel::new(1_000);
        let mut seed = 1u64;
        let count = 1_000_000u64;
        for index in 0..count {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            wheel.insert(index, 1_001 + (seed >> 40) as i64);
        }
        let mut fired = 0;
        let mut now = 1_000;
        while let Some(next) = wheel.next_ms() {
            assert!(next >= now);
            now = next;
            while let Some((_, _)) = wheel.pop_due(now) {
                fired += 1;
            }
        }
        assert_eq!((fired, wheel.len()), (count, 0));
        assert!(wheel.steps() <= count * 5, "{} steps", wheel.steps());
    }

    #[test]
    fn no_timer_fires_early_or_late() {
        let mut wheel = Wheel::new(0);
        let mut seed = 7u64;
        let mut deadlines = std::collections::BTreeMap::new();
        for hash in 0..5_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let deadline = (seed >> (34 + seed % 20)) as i64;
            let node = wheel.insert(hash, deadline);
            if seed.is_multiple_of(3) {
                wheel.cancel(node);
            } else {
                deadlines.insert(hash, deadline);
            }
        }
        let mut now = 0;
        while !deadlines.is_empty() {
            let earliest = *deadlines.values().min().unwrap();
            assert!(wheel.next_ms().unwrap() <= earliest.max(now));
            now = earliest;
            while let Some((hash, _)) = wheel.pop_due(now) {
                assert!(deadlines.remove(&hash).unwrap() <= now);
            }
            assert!(deadlines.values().all(|&deadline| deadline > now));
        }
    }

    #[test]
    fn repeated_changes_of_one_deadline_leak_no_node() {
        let mut wheel = Wheel::new(0);
        let keeper = wheel.insert(0, 1 << 40);
        let mut node = wheel.insert(1, 10);
        for deadline in 0..100_000 {
            wheel.cancel(node);
            node = wheel.insert(1, deadline);
        }
        assert_eq!((wheel.len(), wheel.nodes.len()), (2, 2));
        wheel.cancel(keeper);
        wheel.cancel(node);
        assert_eq!((wheel.next_ms(), wheel.nodes.capacity()), (None, 0));
    }

    #[test]
    fn a_sample_contains_only_active_timers() {
        let mut wheel = Wheel::new(0);
        let nodes: Vec<u32> = (0..100).map(|hash| wheel.insert(hash, 1_000)).collect();
        for &node in nodes.iter().filter(|&node| node % 10 != 3) {
            wheel.cancel(node);
        }
        for random in 0..300 {
            let mut seen = Vec::new();
            wheel.sample(random, 4, |hash, node, deadline_ms| {
                assert_eq!(deadline_ms, 1_000);
                seen.push((hash, node));
            });
            assert_eq!(seen.len(), 4);
            assert!(
                seen.iter()
                    .all(|&(hash, node)| hash % 10 == 3 && u64::from(node) == hash)
            );
        }
    }

    #[test]
    fn far_and_past_deadlines_are_stored() {
        let mut wheel = Wheel::new(50);
        wheel.insert(1, i64::MAX - 1);
        wheel.insert(2, -5);
        assert_eq!(wheel.pop_due(50).map(|due| due.0), Some(2));
        assert_eq!(wheel.pop_due(1 << 60), None);
        assert_eq!(wheel.pop_due(i64::MAX).map(|due| due.0), Some(1));
    }
}
