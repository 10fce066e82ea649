//! Delays that grow with each failure.

/// Delays between connection attempts, and the timeout of an attempt.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    /// Delay after the first failure. It doubles with each further failure.
    pub delay_ns_first: u64,
    /// Longest delay.
    pub delay_ns_max: u64,
    /// Timeout of a connection attempt.
    pub connect_ns_max: u64,
}

impl Default for BackOff {
    fn default() -> Self {
        BackOff {
            delay_ns_first: 2_000_000,
            delay_ns_max: 2_000_000_000,
            // The kernel's own timeout for a machine that is off is two minutes.
            connect_ns_max: 5_000_000_000,
        }
    }
}

impl BackOff {
    /// Returns the delay after this many earlier failures, doubling each time up to the maximum.
    /// Half of the delay is random, so that the clients of a server that restarts do not all return
    /// at the same moment. `random` may be a clock or a count.
    pub fn delay_ns(&self, failures: u32, random: u64) -> u64 {
        let mixed = (random ^ random >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32;
        let delay_ns = self
            .delay_ns_first
            .saturating_mul(1 << failures.min(16))
            .min(self.delay_ns_max);
        delay_ns / 2 + mixed % (delay_ns / 2 + 1)
    }
}
