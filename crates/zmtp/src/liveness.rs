//! Heartbeats: when to send a PING, and when to close the connection.

use crate::config::Heartbeat;
use crate::error::Error;

/// The timers of a connection after its handshake. Times are nanoseconds of the driver's clock.
#[derive(Debug, Clone)]
pub(crate) struct Liveness {
    heartbeat: Option<Heartbeat>,
    /// When the next PING is due.
    ping_at_ns: u64,
    /// When the answer to our oldest unanswered PING is overdue.
    answer_by_ns: u64,
    /// When the TTL of the peer's last PING ends.
    silent_until_ns: u64,
}

impl Liveness {
    pub(crate) fn new(heartbeat: Option<Heartbeat>) -> Liveness {
        Liveness {
            heartbeat,
            ping_at_ns: NEVER,
            answer_by_ns: NEVER,
            silent_until_ns: NEVER,
        }
    }

    /// Notes that the handshake is complete.
    pub(crate) fn start(&mut self, now_ns: u64) {
        if let Some(heartbeat) = self.heartbeat {
            self.ping_at_ns = now_ns.saturating_add(heartbeat.interval_ns.max(INTERVAL_NS_MIN));
        }
    }

    /// Notes that octets arrived: the peer is alive.
    #[inline]
    pub(crate) fn traffic(&mut self) {
        self.answer_by_ns = NEVER;
        self.silent_until_ns = NEVER;
    }

    /// Notes the TTL of the peer's PING, in tenths of a second.
    pub(crate) fn promised(&mut self, ttl_deciseconds: u16, now_ns: u64) {
        if ttl_deciseconds > 0 {
            let ttl_ns = u64::from(ttl_deciseconds) * DECISECOND_NS;
            self.silent_until_ns = now_ns.saturating_add(ttl_ns);
        }
    }

    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        let first = self
            .ping_at_ns
            .min(self.answer_by_ns)
            .min(self.silent_until_ns);
        (first != NEVER).then_some(first)
    }

    /// Returns the TTL for a PING, if one is due.
    pub(crate) fn timeout(&mut self, now_ns: u64) -> Result<Option<u16>, Error> {
        if self.answer_by_ns <= now_ns {
            return Err(Error::HeartbeatTimeout);
        }
        if self.silent_until_ns <= now_ns {
            return Err(Error::TimeToLiveExpired);
        }
        let Some(heartbeat) = self.heartbeat.filter(|_| self.ping_at_ns <= now_ns) else {
            return Ok(None);
        };
        self.start(now_ns);
        if heartbeat.timeout_ns > 0 && self.answer_by_ns == NEVER {
            self.answer_by_ns = now_ns.saturating_add(heartbeat.timeout_ns);
        }
        Ok(Some(heartbeat.ttl_deciseconds))
    }
}

const NEVER: u64 = u64::MAX;
const DECISECOND_NS: u64 = 100_000_000;
/// An interval of zero would send PINGs endlessly.
const INTERVAL_NS_MIN: u64 = 1_000_000;
