//! Limits on a subscriber's unread output.

/// Maximum unread output of one class of clients: `client-output-buffer-limit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Bytes above which a client is disconnected at once; 0 for no limit.
    pub hard_bytes: u64,
    /// Bytes above which it is disconnected after `soft_seconds`; 0 for no limit.
    pub soft_bytes: u64,
    /// Seconds for which `soft_bytes` may be exceeded.
    pub soft_seconds: u64,
}

/// Limits and forms of fan-out that do not change while it runs.
#[derive(Clone, Copy, Debug)]
pub struct FanoutConfig {
    /// Bytes of news waiting for a lane above which the lane reads only the newest values.
    pub waiting_bytes_max: usize,
    /// Unsent bytes above which a subscriber gets only the newest value of a topic.
    pub conflate_bytes: usize,
    /// Unsent bytes above which a ZeroMQ subscriber misses plain messages.
    pub zmq_high_water_bytes: usize,
    /// Whether every ZeroMQ subscriber gets removals with a frame of their own, not only those that
    /// ask for it.
    pub zmq_flags_gone: bool,
}

impl Default for FanoutConfig {
    fn default() -> Self {
        Self {
            waiting_bytes_max: 64 << 20,
            conflate_bytes: 1 << 20,
            zmq_high_water_bytes: 16 << 20,
            zmq_flags_gone: false,
        }
    }
}

/// Maximum unread output of a lane's subscribers, by protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) conflate_bytes: usize,
    pub(crate) zmq_high_water_bytes: usize,
    /// A Redis subscriber to plain messages.
    pub(crate) pubsub: OutputLimit,
}

/// Checks one client's unsent bytes against the limit of its class. The client is disconnected at
/// once above the hard limit, and after some time above the soft limit.
#[derive(Debug, Default)]
pub struct OverLimit {
    /// Time since which they exceed the soft limit, in monotonic nanoseconds.
    since_ns: Option<u64>,
}

impl OverLimit {
    /// Returns whether a client with `bytes` unsent bytes must be disconnected.
    #[inline]
    pub fn is_exceeded(&mut self, limit: OutputLimit, bytes: usize, now_ns: u64) -> bool {
        let bytes = bytes as u64;
        if limit.hard_bytes != 0 && bytes > limit.hard_bytes {
            return true;
        }
        if limit.soft_bytes == 0 || bytes <= limit.soft_bytes {
            self.since_ns = None;
            return false;
        }
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        debug_assert!(since_ns <= now_ns, "the clock is monotonic");
        now_ns - since_ns > limit.soft_seconds * 1_000_000_000
    }
}
