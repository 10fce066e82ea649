//! Conditions that keep a request from being executed at once: one word of bits, 0 if none holds.
//!
//! A new mode adds a bit here and sets it. The direct path (`session/direct.rs`) and the
//! ordinary one (`session.rs`) ask for the same word, so neither has to be told of it.

use std::fmt;
use std::ops::BitOr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A set of conditions, each of which keeps a request from being executed at once.
///
/// | bits | belong to | set by |
/// |---|---|---|
/// | 0 to 12 | the whole server | [`Attention::set`] |
/// | 13 to 23 | one connection | its session |
/// | 24 to 63 | a user with restrictions | [`Attention::obstacles`] |
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Obstacles(u64);

impl Obstacles {
    /// Clients track keys.
    pub(crate) const TRACKED: Self = Self(1);
    /// Clients listen to all commands.
    pub(crate) const MONITORED: Self = Self(1 << 1);
    /// CLIENT PAUSE, over or not.
    pub(crate) const PAUSED: Self = Self(1 << 2);
    /// Every call's time is taken.
    pub(crate) const TIMED: Self = Self(1 << 3);
    /// Keys are loaded from files.
    pub(crate) const LOADING: Self = Self(1 << 4);
    /// Snapshots cannot be saved.
    pub(crate) const SNAPSHOT_FAILED: Self = Self(1 << 5);
    /// The append-only file cannot be written.
    pub(crate) const LOG_FAILED: Self = Self(1 << 6);
    /// `min-replicas-to-write` is not 0.
    pub(crate) const WANTS_REPLICAS: Self = Self(1 << 7);
    /// This server is a replica.
    pub(crate) const FOLLOWS: Self = Self(1 << 8);
    /// `maxmemory` is set.
    pub(crate) const MEMORY_LIMITED: Self = Self(1 << 9);
    /// Other machines may have newer keys (`crate::quorum`).
    pub(crate) const NOT_CURRENT: Self = Self(1 << 10);
    /// HOTKEYS tracks keys.
    pub(crate) const HOT_KEYS: Self = Self(1 << 11);
    /// Each of these bits asks for every call's time.
    pub(crate) const EVERY_TIMED: Self = Self(Self::TIMED.0 | Self::HOT_KEYS.0);
    /// COMMANDLOG looks at how large requests and replies are.
    pub(crate) const SIZED: Self = Self(1 << 12);
    const SERVER: u64 = (1 << SESSION_SHIFT) - 1;

    /// The connection is about to end.
    pub(crate) const CLOSING: Self = Self(1 << SESSION_SHIFT);
    /// A command waits, or is held.
    pub(crate) const STOPPED: Self = Self(1 << (SESSION_SHIFT + 1));
    /// CLIENT REPLY leaves replies out.
    pub(crate) const MUTED: Self = Self(1 << (SESSION_SHIFT + 2));
    /// MULTI has begun.
    pub(crate) const TRANSACTION: Self = Self(1 << (SESSION_SHIFT + 3));
    /// The peer is a replica, or has begun to become one.
    pub(crate) const REPLICA: Self = Self(1 << (SESSION_SHIFT + 4));
    /// CLIENT NO-TOUCH.
    pub(crate) const NO_TOUCH: Self = Self(1 << (SESSION_SHIFT + 5));
    /// It is subscribed.
    pub(crate) const SUBSCRIBER: Self = Self(1 << (SESSION_SHIFT + 6));
    /// The command is refused, because a script has run for too long.
    pub(crate) const BUSY: Self = Self(1 << (SESSION_SHIFT + 7));
    const SESSION: u64 = (1 << USER_SHIFT) - (1 << SESSION_SHIFT);

    /// The user may not do everything, or users have changed.
    pub(crate) const USER: Self = Self(u64::MAX << USER_SHIFT);

    /// The bits that the gate (`gate.rs`) checks.
    pub(crate) const GATE: Self = Self(
        Self::LOADING.0
            | Self::SNAPSHOT_FAILED.0
            | Self::LOG_FAILED.0
            | Self::WANTS_REPLICAS.0
            | Self::FOLLOWS.0
            | Self::MEMORY_LIMITED.0
            | Self::NOT_CURRENT.0,
    );

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether any of `others` stands.
    #[inline]
    pub(crate) fn has(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    #[inline]
    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Sets bits of a connection.
    #[inline]
    pub(crate) fn set(&mut self, of_session: Self, on: bool) {
        debug_assert_eq!(of_session.0 & !Self::SESSION, 0, "not of a connection");
        match on {
            true => self.0 |= of_session.0,
            false => self.0 &= !of_session.0,
        }
    }
}

impl BitOr for Obstacles {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Obstacles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Obstacles({:#x})", self.0)
    }
}

/// The bits of the whole server, and how often users have changed. Every request reads it; it is
/// written seldom, and shares its cache line with nothing.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Attention(AtomicU64);

impl Default for Attention {
    fn default() -> Self {
        Attention(AtomicU64::new(1 << USER_SHIFT))
    }
}

impl Attention {
    /// What stands before a request of a session, whose own obstacles are `own` and whose user may
    /// do everything in the generation of users `free_in` (0 for none).
    #[inline]
    pub(crate) fn obstacles(&self, own: Obstacles, free_in: u64) -> Obstacles {
        debug_assert_eq!(own.0 & !Obstacles::SESSION, 0, "not of a connection");
        Obstacles((self.0.load(Ordering::Acquire) ^ free_in << USER_SHIFT) | own.0)
    }

    /// The obstacles of the whole server.
    #[inline]
    pub(crate) fn of_server(&self) -> Obstacles {
        Obstacles(self.0.load(Ordering::Acquire) & Obstacles::SERVER)
    }

    /// Whether any of `others` stands, which are of the whole server.
    #[inline]
    pub(crate) fn has(&self, others: Obstacles) -> bool {
        debug_assert_eq!(others.0 & !Obstacles::SERVER, 0, "not of the server");
        self.of_server().has(others)
    }

    pub(crate) fn set(&self, of_server: Obstacles, on: bool) {
        debug_assert_eq!(of_server.0 & !Obstacles::SERVER, 0, "not of the server");
        match on {
            true => self.0.fetch_or(of_server.0, Ordering::SeqCst),
            false => self.0.fetch_and(!of_server.0, Ordering::SeqCst),
        };
    }

    /// How often users have changed, from 1.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.0.load(Ordering::Acquire) >> USER_SHIFT
    }

    /// Users have changed: each session looks at its own again.
    pub(crate) fn raise_generation(&self) {
        // 0 stands for a user with restrictions.
        let next = |word: u64| {
            let next = word.wrapping_add(1 << USER_SHIFT);
            Some(if next >> USER_SHIFT == 0 {
                next | 1 << USER_SHIFT
            } else {
                next
            })
        };
        let raised = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        debug_assert!(raised.is_ok(), "there is always a next generation");
    }
}

const SESSION_SHIFT: u32 = 13;
const USER_SHIFT: u32 = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stands_before_a_user_who_may_do_everything() {
        let attention = Attention::default();
        let own = Obstacles::default();
        let free_in = attention.generation();
        assert!(attention.obstacles(own, free_in).is_none());
        assert!(attention.obstacles(own, 0).has(Obstacles::USER));
        attention.raise_generation();
        let changed = attention.obstacles(own, free_in);
        assert!(changed.has(Obstacles::USER) && !changed.without(Obstacles::USER).has(changed));
        assert!(attention.obstacles(own, free_in + 1).is_none());
    }

    #[test]
    fn a_generation_that_has_come_round_is_not_that_of_nobody() {
        let attention = Attention(AtomicU64::new(u64::MAX << USER_SHIFT));
        attention.set(Obstacles::PAUSED, true);
        attention.raise_generation();
        assert_eq!(attention.generation(), 1);
        assert_eq!(attention.of_server(), Obstacles::PAUSED);
    }

    #[test]
    fn each_obstacle_is_told_from_all_others() {
        let attention = Attention::default();
        let server = [
            Obstacles::TRACKED,
            Obstacles::MONITORED,
            Obstacles::PAUSED,
            Obstacles::TIMED,
            Obstacles::SIZED,
            Obstacles::LOADING,
            Obstacles::SNAPSHOT_FAILED,
            Obstacles::LOG_FAILED,
            Obstacles::WANTS_REPLICAS,
            Obstacles::FOLLOWS,
            Obstacles::MEMORY_LIMITED,
            Obstacles::NOT_CURRENT,
            Obstacles::HOT_KEYS,
        ];
        let session = [
            Obstacles::CLOSING,
            Obstacles::STOPPED,
            Obstacles::MUTED,
            Obstacles::TRANSACTION,
            Obstacles::REPLICA,
            Obstacles::NO_TOUCH,
            Obstacles::SUBSCRIBER,
            Obstacles::BUSY,
        ];
        let generation = attention.generation();
        for one in server {
            attention.set(one, true);
            let found = attention.obstacles(Obstacles::default(), generation);
            assert_eq!(found, one);
            assert!(attention.has(one) && found.without(one).is_none());
            attention.set(one, false);
        }
        for one in session {
            let mut own = Obstacles::default();
            own.set(one, true);
            assert_eq!(attention.obstacles(own, generation), one);
            own.set(one, false);
            assert!(own.is_none());
        }
        let count = (server.len() + session.len()) as u32;
        let all = server.iter().chain(&session);
        let bits: u32 = all.clone().map(|one| one.0.count_ones()).sum();
        let joined = all.fold(0, |joined, one| joined | one.0);
        assert_eq!((bits, joined.count_ones()), (count, count));
    }
}
