//! Delays that grow with each failure.

/// How long a client waits before it connects again, and how long it waits for a connection.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    /// Delay after the first failure; doubles with each further one.
    pub delay_ns_first: u64,
    /// Longest delay.
    pub delay_ns_max: u64,
    /// How long a connection may take to be made.
    pub connect_ns_max: u64,
}

impl Default for BackOff {
    fn default() -> Self {
        BackOff {
            delay_ns_first: 2_000_000,
            delay_ns_max: 2_000_000_000,
            // The kernel alone would ask a machine that is off for two minutes.
            connect_ns_max: 5_000_000_000,
        }
    }
}

impl BackOff {
    /// How long to wait after this many failures, the last one not counted: soon at first, then
    /// doubling. The second half of it is by chance, so that the clients of a server that restarts
    /// do not all come back in the same instant; `random` may be a clock or a count.
    pub fn delay_ns(&self, failures: u32, random: u64) -> u64 {
        let mixed = (random ^ random >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32;
        let delay_ns = self
            .delay_ns_first
            .saturating_mul(1 << failures.min(16))
            .min(self.delay_ns_max);
        delay_ns / 2 + mixed % (delay_ns / 2 + 1)
    }
}
