//! `maxmemory`: eviction of keys, or refusal of writes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidewire_keyspace::{
    Changer, Event, Evicted, EvictionRules, Observer, Outcome, Trackers, ValueRef, Waiter,
};
use tidewire_lane::{CloseReason, Context};

use crate::attention::Obstacles;
use crate::live::LiveObserver;
use crate::mail::RedisMail;
use crate::memory::{resident_bytes, used_bytes};
use crate::parameters::{MAXMEMORY, MAXMEMORY_COUNTS_RESIDENT, REPLICA_IGNORE_MAXMEMORY};
use crate::parts::Room;
use crate::server::Server;
use tidewire_lane::unix_ms;

impl Server {
    /// Evicts keys until less than `maxmemory` is used, for as long as
    /// `maxmemory-eviction-tenacity` allows. To be called where no shard is held.
    #[inline]
    pub(crate) fn make_room(&self, context: &mut Context) -> Room {
        let bytes_max = self.parameters.memory_bytes_max.load(Ordering::Relaxed);
        if bytes_max == 0 || used_bytes() <= bytes_max {
            if self.parameters.memory_is_full.load(Ordering::Relaxed) {
                self.note_room(Room::Enough);
            }
            return Room::Enough;
        }
        // Before keys go those buffers do that the lane only keeps in case.
        context.free_spares();
        self.evict(context.lane(), bytes_max)
    }

    #[cold]
    fn evict(&self, lane: usize, bytes_max: u64) -> Room {
        // While a script of another lane runs no shard is locked, and a pause keeps keys as they
        // are.
        let paused =
            self.attention.has(Obstacles::PAUSED) && self.pause.until_ms(unix_ms()).is_some();
        if paused || !self.scripting.rights.has(lane) || self.keyspace.is_loading() {
            return Room::Enough;
        }
        if self.replication.master().is_some() && self.parameters.read(REPLICA_IGNORE_MAXMEMORY) {
            // The master says which keys go.
            return Room::Enough;
        }
        // What waits for replicas, for the disk, and on its way to other lanes' clients goes by
        // itself: keys that gave way to it would only add to it. Other lanes add to it and take
        // from it at this moment, so it is read before and after the memory in use.
        let uncounted = self.uncounted_bytes();
        let used = used_bytes();
        let uncounted = uncounted.max(self.uncounted_bytes());
        let bytes_max = bytes_max.saturating_add(uncounted);
        let rules = self.parameters.eviction();
        let room = match rules {
            _ if used <= bytes_max => Room::Enough,
            Some(rules) => self.evict_by(rules, lane, bytes_max),
            None => Room::Full,
        };
        self.note_room(room);
        room
    }

    /// Bytes that `maxmemory` does not count.
    pub(crate) fn uncounted_bytes(&self) -> u64 {
        self.replication.stream_bytes(self)
            + self.durability.log.buffer_bytes(self)
            + self.post.waiting_bytes()
    }

    fn evict_by(&self, rules: EvictionRules, lane: usize, bytes_max: u64) -> Room {
        let time_max_ns = self.parameters.eviction_ns_max();
        let started = Instant::now();
        let is_late = || started.elapsed() > Duration::from_nanos(time_max_ns);
        debug_assert!(
            self.scripting.rights.has(lane),
            "only who may lock shards evicts"
        );
        let mut evictor = self.evictions.lanes[lane].lock();
        let mut observer = Evicting::new(self);
        for count in 1u64.. {
            match self
                .keyspace
                .evict(&mut evictor, rules, unix_ms(), &mut observer)
            {
                Evicted::Key => {}
                // Others hold the shards: they go on, and so does this lane.
                Evicted::Busy => return Room::Clearing,
                // Room is being made in the background: the lane looks again in its next turn, for
                // as long as one round of evictions may last.
                Evicted::Nothing
                    if self.keyspace.lazily_freed().0 > 0
                        && self.evictions.waits_no_longer_than(time_max_ns) =>
                {
                    return Room::Clearing;
                }
                Evicted::Nothing => return Room::Full,
            }
            if used_bytes().saturating_sub(observer.untold_bytes) <= bytes_max {
                return Room::Enough;
            }
            if count % KEYS_A_LOOK == 0 && is_late() {
                return Room::Clearing;
            }
        }
        Room::Clearing
    }

    /// The system gives more memory than is held, because freed blocks lie between others. Where
    /// keys may give way, and `maxmemory-counts-resident` is on, so many of them do that the
    /// process takes little more from the system than `maxmemory`: those who limit memory mean
    /// that. To be called a few times a second.
    pub(crate) fn follow_resident(&self) {
        let parameters = &self.parameters;
        let bytes_max = parameters.read(MAXMEMORY);
        let counts = parameters.read(MAXMEMORY_COUNTS_RESIDENT)
            && bytes_max >= RESIDENT_BYTES_MIN
            && parameters.eviction().is_some();
        let wanted = match counts {
            false => 0,
            // Nothing is evicted: a reserve would be useless.
            true if parameters.memory_is_full.load(Ordering::Relaxed) => 0,
            true => reserve_for(resident_bytes(), used_bytes(), bytes_max),
        };
        if wanted != parameters.memory_reserve.load(Ordering::Relaxed) {
            debug_assert!(wanted <= bytes_max / 8, "most of the limit stays for keys");
            parameters.reserve_memory(bytes_max, wanted);
        }
    }

    /// `maxmemory-clients`: cuts off the clients that hold most, if all together hold too much.
    #[inline]
    pub(crate) fn evict_clients(&self, context: &mut Context) {
        let bytes_max = self.parameters.clients_bytes_max.load(Ordering::Relaxed);
        let held_bytes = || self.clients.memory_bytes() + self.other_clients.pages_bytes();
        if bytes_max != 0 && held_bytes() > bytes_max {
            self.evict_clients_now(context, bytes_max);
        }
    }

    #[cold]
    fn evict_clients_now(&self, context: &mut Context, bytes_max: u64) {
        let clients = &self.clients;
        if !clients.tries_to_evict(context.now_ns()) {
            return;
        }
        let eviction = clients.evict(&self.other_clients, bytes_max);
        for (lane, connection) in eviction.connections {
            match lane == context.lane() {
                true => context.cut_off(connection, CloseReason::Requested),
                false => self.mail.send(lane, RedisMail::CutOff(connection)),
            }
        }
        if !eviction.is_enough {
            clients.put_off_eviction(context.now_ns() + USELESS_EVICTION_NS);
            if let Some(left_out) = OVER_LIMIT.note_now() {
                let held = clients.memory_bytes() + self.other_clients.pages_bytes();
                let text = "clients hold more than maxmemory-clients, and the rest must stay: \
                            raise the limit, or end clients that have CLIENT NO-EVICT";
                tracing::warn!(left_out, held, limit = bytes_max, "{text}");
            }
        }
    }

    fn note_room(&self, room: Room) {
        let is_full = &self.parameters.memory_is_full;
        let now = room == Room::Full;
        if is_full.load(Ordering::Relaxed) != now {
            is_full.store(now, Ordering::Relaxed);
        }
        self.evictions.note(room);
    }
}

/// How much of `maxmemory` to keep free, up to an eighth, so that resident memory exceeds it by at
/// most 2 %.
/// What lies unused grows as keys give way, so that this goes on until new values find their place
/// there.
fn reserve_for(resident: u64, used: u64, bytes_max: u64) -> u64 {
    let unused = resident.saturating_sub(used);
    debug_assert!(bytes_max >= 1_000, "a step is a thousandth of the limit");
    let step = bytes_max / 1_000;
    let excess = unused.saturating_sub(bytes_max / 50).min(bytes_max / 8);
    excess - excess % step
}

/// Keeps the words to those who have read keys that give way until the round is over. They take
/// memory, and must not drive out more keys.
struct Evicting<'h> {
    live: LiveObserver<'h>,
    untold: Vec<Untold>,
    untold_bytes: u64,
}

/// A key that has gone: those who have read it, or, if there is none of them, all who want to hear
/// of every change.
type Untold = (Box<[u8]>, Option<Trackers>);

impl<'h> Evicting<'h> {
    fn new(server: &'h Server) -> Self {
        Evicting {
            live: LiveObserver(server),
            untold: Vec::new(),
            untold_bytes: 0,
        }
    }

    fn keep(&mut self, key: &[u8], trackers: Option<&Trackers>) {
        let readers = trackers.map_or(0, |trackers| size_of_val(trackers.clients()));
        self.untold_bytes += (key.len() + readers + size_of::<Untold>()) as u64;
        self.untold.push((Box::from(key), trackers.cloned()));
        debug_assert!(
            self.untold_bytes >= (self.untold.len() * size_of::<Untold>()) as u64,
            "what is kept is counted"
        );
    }
}

impl Observer for Evicting<'_> {
    fn changed(&mut self, database: usize, key: &[u8], event: Event, value: Option<ValueRef<'_>>) {
        self.live.changed(database, key, event, value);
    }

    fn notified(&mut self, database: usize, key: &[u8], event: Event) {
        self.live.notified(database, key, event);
    }

    fn modified(&mut self, key: &[u8], _: Changer) {
        self.keep(key, None);
    }

    fn invalidated(&mut self, key: &[u8], trackers: &Trackers, _: Changer) {
        self.keep(key, Some(trackers));
    }

    fn served(&mut self, waiter: &Arc<Waiter>, reply: Vec<u8>, outcome: &Outcome) {
        self.live.served(waiter, reply, outcome);
    }
}

impl Drop for Evicting<'_> {
    fn drop(&mut self) {
        for (key, trackers) in self.untold.drain(..) {
            match trackers {
                Some(trackers) => self.live.invalidated(&key, &trackers, Changer::Server),
                None => self.live.modified(&key, Changer::Server),
            }
        }
    }
}

/// With less than this the program itself is a part of what the system gives that no key can
/// make up for.
const RESIDENT_BYTES_MIN: u64 = 128 << 20;
/// How long after an eviction of clients that was not enough there is another one: each looks at
/// all clients.
const USELESS_EVICTION_NS: u64 = 20_000_000;
static OVER_LIMIT: tidewire_retry::Seldom = tidewire_retry::Seldom::new(1, 60);
/// Keys that go between two looks at the clock.
const KEYS_A_LOOK: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_unused_between_keys_is_kept_free() {
        let limit = 1_000_000;
        let reserve = |resident, used| reserve_for(resident, used, limit);
        assert_eq!(reserve(500_000, 490_000), 0);
        assert_eq!(reserve(1_020_000, 1_000_000), 0);
        assert_eq!(reserve(570_500, 500_000), 50_000);
        assert_eq!(reserve(1_020_000, 950_000), 50_000);
        assert_eq!(reserve(1_500_000, 800_000), 125_000);
        assert_eq!(reserve(1, 1_000_000), 0);
    }
}
