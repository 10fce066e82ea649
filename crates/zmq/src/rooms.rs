//! Room of long bodies that were let go, kept for the next ones.
//!
//! One thread makes a body and another lets it go. An allocator takes locks for both, and gives
//! memory of this length back to the kernel, from which it comes page by page. Here each thread
//! keeps a handful of rooms, and handfuls pass from thread to thread.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tidewire_readiness as readiness;

/// The bytes of a body. If they are many, their room is kept when they are let go.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room(Vec<u8>);

impl Room {
    #[inline]
    pub(crate) const fn of(bytes: Vec<u8>) -> Room {
        Room(bytes)
    }

    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Room {
    #[inline]
    fn drop(&mut self) {
        if is_kept(self.0.capacity()) {
            give(std::mem::take(&mut self.0));
        }
    }
}

impl Deref for Room {
    type Target = Vec<u8>;

    #[inline]
    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Room {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

/// Takes a room for `length` bytes, with the bytes that were in it last. `None`: there is none.
#[inline]
pub(crate) fn take(length: usize) -> Option<Vec<u8>> {
    match is_kept(length) {
        true => take_up_to(length, usize::MAX),
        false => None,
    }
}

#[inline(never)]
fn take_up_to(length: usize, length_max: usize) -> Option<Vec<u8>> {
    if !is_kept(length) {
        return None;
    }
    let range = length..=length_max;
    let room = OWN.try_with(|own| own.try_borrow_mut().ok()?.take(range, &SHARED));
    room.ok().flatten()
}

/// An empty room for `length` bytes, and for no more than `more` further ones. A new one has both,
/// or nothing if there is no memory.
pub(crate) fn empty(length: usize, more: usize) -> Vec<u8> {
    match take_up_to(length, length + more) {
        None => {
            let mut room = Vec::new();
            let _ = room.try_reserve_exact(length + more);
            room
        }
        Some(mut room) => {
            room.clear();
            room
        }
    }
}

#[inline]
fn give(room: Vec<u8>) {
    // A thread that ends keeps nothing: then the room goes back to the allocator.
    let _ = OWN.try_with(|own| own.try_borrow_mut().map(|mut own| own.give(room, &SHARED)));
}

/// Lets all go that lies between the threads.
pub(crate) fn let_go() {
    if let Some(mut shared) = try_lock(&SHARED) {
        let all = std::mem::replace(&mut *shared, Shared::new());
        drop(shared);
        drop(all);
    }
}

/// Lets all go that lies between the threads, if none has come or gone since the last look of such
/// a thread. Whether there is something to look at again.
pub(crate) fn let_go_unused() -> bool {
    match try_lock(&SHARED) {
        None => true,
        Some(mut shared) => {
            let unused = shared.take_unused();
            let is_some_left = shared.bytes > 0;
            IS_SOME_LEFT.store(is_some_left, Ordering::Relaxed);
            LIMIT.store(shared.bytes_max, Ordering::Relaxed);
            drop(shared);
            drop(unused);
            is_some_left
        }
    }
}

/// The most bytes that lie between the threads, at the moment.
#[inline]
pub(crate) fn bytes_max() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Two threads take turns so quickly that they would do little else: more may lie between them,
/// until the program is at rest. Bodies that are filled take long enough that this is not needed.
pub(crate) fn widen() {
    if bytes_max() < BYTES_MOST
        && let Some(mut shared) = try_lock(&SHARED)
    {
        shared.bytes_max = (shared.bytes_max * 2).min(BYTES_MOST);
        LIMIT.store(shared.bytes_max, Ordering::Relaxed);
    }
}

/// Whether something may lie between the threads.
pub(crate) fn is_some_left() -> bool {
    IS_SOME_LEFT.load(Ordering::Relaxed)
}

/// Rooms of one class, which a thread keeps for itself.
struct Own {
    class: usize,
    rooms: Vec<Vec<u8>>,
}

/// Rooms that any thread may take.
struct Shared {
    /// By class; those of the longest that was ever kept are the last.
    shelves: Vec<Shelf>,
    bytes: usize,
    bytes_max: usize,
    /// Calls since the shelves were last looked through.
    calls: u32,
    /// There was one since it was last asked whether the program is at rest.
    is_in_use: bool,
}

#[derive(Default)]
struct Shelf {
    rooms: Vec<Vec<u8>>,
    /// As many as were never wanted since the shelves were last looked through.
    least: usize,
}

thread_local! {
    static OWN: RefCell<Own> = const { RefCell::new(Own::new()) };
}

static SHARED: Mutex<Shared> = Mutex::new(Shared::new());
static IS_SOME_LEFT: AtomicBool = AtomicBool::new(false);
static LIMIT: AtomicUsize = AtomicUsize::new(BYTES_MAX);

/// The lock is held for moments, and without a room a thread would be longer. But in the child of
/// a fork a thread may hold it that is not there: then the allocator has to do.
fn try_lock(shared: &Mutex<Shared>) -> Option<MutexGuard<'_, Shared>> {
    if readiness::forks() == 0 {
        return shared.try_lock_for(PATIENCE);
    }
    for _ in 0..TRIES {
        if let Some(guard) = shared.try_lock() {
            return Some(guard);
        }
        std::hint::spin_loop();
    }
    None
}

impl Own {
    const fn new() -> Own {
        Own {
            class: 0,
            rooms: Vec::new(),
        }
    }

    #[inline]
    fn take(&mut self, range: RangeInclusive<usize>, place: &Mutex<Shared>) -> Option<Vec<u8>> {
        let class = class_of(*range.start());
        if class != self.class || self.rooms.is_empty() {
            self.fetch(class, place);
        }
        let fits = |room: &Vec<u8>| range.contains(&room.capacity());
        let found = self.rooms.iter().rposition(fits)?;
        Some(self.rooms.swap_remove(found))
    }

    #[inline]
    fn give(&mut self, room: Vec<u8>, place: &Mutex<Shared>) {
        let class = class_of(room.capacity());
        if class != self.class {
            self.pass_on(0, place);
            self.class = class;
        }
        self.rooms.push(room);
        let most = own_max(class);
        if self.rooms.len() >= most {
            self.pass_on(most / 2, place);
        }
    }

    #[cold]
    fn fetch(&mut self, class: usize, place: &Mutex<Shared>) {
        self.pass_on(0, place);
        self.class = class;
        if let Some(mut shared) = try_lock(place) {
            shared.move_to(class, own_max(class).div_ceil(2), &mut self.rooms);
            let surplus = shared.look_through();
            drop(shared);
            drop(surplus);
        }
        debug_assert!(self.rooms.len() <= own_max(class), "a handful");
    }

    /// Leaves all but some to the other threads.
    #[cold]
    fn pass_on(&mut self, kept: usize, place: &Mutex<Shared>) {
        if self.rooms.len() <= kept {
            return;
        }
        if let Some(mut shared) = try_lock(place) {
            shared.add(self.class, kept, &mut self.rooms);
            IS_SOME_LEFT.store(true, Ordering::Relaxed);
            let surplus = shared.look_through();
            drop(shared);
            drop(surplus);
        }
        // What was not taken goes, without the lock.
        self.rooms.truncate(kept);
    }
}

impl Shared {
    const fn new() -> Shared {
        Shared {
            shelves: Vec::new(),
            bytes: 0,
            bytes_max: BYTES_MAX,
            calls: 0,
            is_in_use: false,
        }
    }

    /// Moves up to `count` rooms of a class to the end of `rooms`.
    fn move_to(&mut self, class: usize, count: usize, rooms: &mut Vec<Vec<u8>>) {
        let Some(shelf) = self.shelves.get_mut(class) else {
            return;
        };
        let from = shelf.rooms.len().saturating_sub(count);
        for room in shelf.rooms.drain(from..) {
            debug_assert!(self.bytes >= room.capacity(), "what lies here was counted");
            self.bytes -= room.capacity();
            rooms.push(room);
        }
        shelf.least = shelf.least.min(shelf.rooms.len());
    }

    /// Takes rooms of a class that are beyond the first `kept`, as far as there is place.
    fn add(&mut self, class: usize, kept: usize, rooms: &mut Vec<Vec<u8>>) {
        if class >= self.shelves.len() {
            self.shelves.resize_with(class + 1, Shelf::default);
        }
        while rooms.len() > kept
            && let Some(room) = rooms.pop_if(|room| self.bytes + room.capacity() <= self.bytes_max)
        {
            debug_assert_eq!(class_of(room.capacity()), class, "a shelf is of one class");
            self.bytes += room.capacity();
            self.shelves[class].rooms.push(room);
        }
        debug_assert!(self.bytes <= BYTES_MOST, "what lies here has a limit");
    }

    /// Takes out everything if there was no call since this was asked before.
    fn take_unused(&mut self) -> Vec<Shelf> {
        if std::mem::take(&mut self.is_in_use) {
            return Vec::new();
        }
        self.bytes = 0;
        self.bytes_max = BYTES_MAX;
        std::mem::take(&mut self.shelves)
    }

    /// After some calls, takes out half of what none of them has wanted.
    fn look_through(&mut self) -> Vec<Vec<u8>> {
        let mut surplus = Vec::new();
        self.is_in_use = true;
        self.calls += 1;
        if self.calls < CALLS_MAX {
            return surplus;
        }
        self.calls = 0;
        for shelf in &mut self.shelves {
            surplus.extend(shelf.rooms.drain(..shelf.least.div_ceil(2)));
            shelf.least = shelf.rooms.len();
        }
        let bytes: usize = surplus.iter().map(Vec::capacity).sum();
        debug_assert!(bytes <= self.bytes, "what lies here was counted");
        self.bytes -= bytes;
        surplus
    }
}

#[inline]
pub(crate) fn is_kept(bytes: usize) -> bool {
    (BYTES_MIN..=ROOM_BYTES_MAX).contains(&bytes)
}

/// Four classes lie between powers of two.
#[inline]
fn class_of(bytes: usize) -> usize {
    debug_assert!(is_kept(bytes), "others have no class");
    let power = bytes.ilog2();
    let quarter = (bytes >> (power - 2)) & 3;
    (power - BYTES_MIN.ilog2()) as usize * 4 + quarter
}

/// The most rooms of a class that a thread keeps for itself.
#[inline]
fn own_max(class: usize) -> usize {
    let bytes_min = (BYTES_MIN << (class / 4)) / 4 * (4 + class % 4);
    (OWN_BYTES_MAX / bytes_min).clamp(1, OWN_ROOMS_MAX)
}

/// Shorter bodies are the allocator's: it is as fast with these.
pub(crate) const BYTES_MIN: usize = 4 << 10;
/// Longer ones too: few of them would fill the place.
const ROOM_BYTES_MAX: usize = 4 << 20;
/// Room that lies between the threads, at most, unless a program needs more to go on.
const BYTES_MAX: usize = 32 << 20;
/// What this limit grows to.
const BYTES_MOST: usize = 256 << 20;
/// Room that a thread keeps for itself; one room is kept in any case.
const OWN_BYTES_MAX: usize = 512 << 10;
const OWN_ROOMS_MAX: usize = 16;
/// Handfuls that come and go before what was not wanted meanwhile is let go.
const CALLS_MAX: u32 = 4_096;
/// How long a thread waits for one that has what lies between them.
const PATIENCE: Duration = Duration::from_millis(10);
/// Tries to get at it where the thread that has it may not be there.
const TRIES: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn shelved(shared: &Shared) -> usize {
        let shelves = shared.shelves.iter().flat_map(|shelf| &shelf.rooms);
        let bytes = shelves.map(Vec::capacity).sum();
        assert_eq!(shared.bytes, bytes);
        bytes
    }

    #[test]
    fn each_length_has_a_class_and_longer_ones_no_lower_one() {
        let mut before = 0;
        for bytes in BYTES_MIN..=100_000 {
            let class = class_of(bytes);
            assert!(class == before || class == before + 1, "{bytes}");
            before = class;
        }
        assert_eq!(class_of(BYTES_MIN), 0);
        assert_eq!(class_of(64 << 10), 16);
        assert_eq!(own_max(class_of(64 << 10)), 8);
        assert_eq!(own_max(class_of(ROOM_BYTES_MAX)), 1);
    }

    #[test]
    fn a_room_that_one_thread_gives_another_one_takes() {
        let place = Mutex::new(Shared::new());
        let (mut giver, mut taker) = (Own::new(), Own::new());
        for length in [5_000, 64 << 10, 777_777, 1 << 20] {
            let count = own_max(class_of(length));
            (0..count).for_each(|_| giver.give(vec![7; length], &place));
            let passed = count - count / 2;
            assert_eq!(giver.rooms.len(), count / 2);
            assert_eq!(
                taker.take(length + 1..=usize::MAX, &place),
                None,
                "they are too short"
            );
            for _ in 0..passed {
                let room = taker.take(length..=length, &place).unwrap();
                assert_eq!((room.capacity(), room[0]), (length, 7));
            }
            assert_eq!(taker.take(length..=length, &place), None);
        }
    }

    #[test]
    fn a_thread_keeps_a_handful_and_the_rest_lies_within_the_limit() {
        let place = Mutex::new(Shared::new());
        let mut own = Own::new();
        for length in [64 << 10, 100_000, 1 << 20, 64 << 10] {
            for _ in 0..1_000 {
                own.give(Vec::with_capacity(length), &place);
                let kept: usize = own.rooms.iter().map(Vec::capacity).sum();
                assert!(kept <= OWN_BYTES_MAX.max(length) * 5 / 4);
            }
        }
        assert!(shelved(&place.lock()) > BYTES_MAX / 2);
    }

    #[test]
    fn a_thread_that_cannot_get_at_the_others_does_without() {
        let place = Mutex::new(Shared::new());
        let mut own = Own::new();
        let held = place.lock();
        assert_eq!(own.take(100_000..=200_000, &place), None);
        for _ in 0..100 {
            own.give(Vec::with_capacity(100_000), &place);
        }
        assert!(own.rooms.len() <= own_max(class_of(100_000)));
        drop(held);
    }

    #[test]
    fn the_room_of_a_long_body_serves_again() {
        let room = Room::of(Vec::with_capacity(500_000));
        let place = room.as_ptr();
        drop(room);
        // Other threads may have taken it meanwhile.
        let next = empty(499_999, 2);
        assert_eq!(next.len(), 0);
        assert!(next.as_ptr() == place || next.capacity() >= 500_001);
    }

    #[test]
    fn what_is_not_wanted_for_long_is_let_go_and_what_is_wanted_stays() {
        let mut shared = Shared::new();
        let class = class_of(64 << 10);
        let mut rooms: Vec<_> = (0..100).map(|_| Vec::with_capacity(64 << 10)).collect();
        shared.add(class, 0, &mut rooms);
        let full = shelved(&shared);
        for _ in 0..20 * CALLS_MAX {
            shared.move_to(class, 4, &mut rooms);
            shared.add(class, 0, &mut rooms);
            assert!(rooms.is_empty());
            shared.look_through();
        }
        let wanted = shelved(&shared);
        assert!((4 * (64 << 10)..full / 10).contains(&wanted), "{wanted}");
    }

    #[test]
    fn a_program_at_rest_keeps_nothing_between_its_threads() {
        let place = Mutex::new(Shared::new());
        let mut own = Own::new();
        for _ in 0..3 {
            (0..40).for_each(|_| own.give(Vec::with_capacity(1 << 20), &place));
            let mut shared = place.lock();
            assert!(shared.take_unused().is_empty(), "it was at work");
            assert!(shelved(&shared) > 0);
            shared.take_unused();
            assert_eq!(shelved(&shared), 0);
        }
    }

    #[test]
    fn there_is_a_limit_to_what_lies_between_threads() {
        let mut shared = Shared::new();
        let mut rooms: Vec<_> = (0..100).map(|_| Vec::with_capacity(1 << 20)).collect();
        shared.add(class_of(1 << 20), 10, &mut rooms);
        assert_eq!(shelved(&shared), BYTES_MAX);
        assert_eq!(rooms.len(), 100 - (BYTES_MAX >> 20));
    }
}
