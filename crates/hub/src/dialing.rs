//! A connection that the hub makes by itself, and makes again whenever it ends.

use tidewire_lane::{CloseReason, ConnectionId, Context, Endpoint};
use tracing::{debug, warn};

use crate::hub::Mail;

/// Of one address: the connection, or when to try again.
#[derive(Debug)]
pub(crate) struct Dialing {
    endpoint: Endpoint,
    /// What the connection is to the application.
    port: u16,
    retry_ns_min: u64,
    connection: Option<ConnectionId>,
    /// The connection is made.
    is_standing: bool,
    /// When to connect; while a connection is being made, when to give it up.
    due_ns: u64,
    /// Connections that ended since the peer last answered.
    failures: u32,
}

impl Dialing {
    pub(crate) fn new(endpoint: Endpoint, port: u16, retry_ns_min: u64) -> Self {
        Self {
            endpoint,
            port,
            retry_ns_min,
            connection: None,
            is_standing: false,
            due_ns: 0,
            failures: 0,
        }
    }

    /// The connection, made or being made.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        self.connection
    }

    /// The connection once it is made.
    pub(crate) fn standing(&self) -> Option<ConnectionId> {
        self.connection.filter(|_| self.is_standing)
    }

    /// Connects, or gives a connection up that is not made, if it is time. Gives the connection
    /// once it is made.
    pub(crate) fn turn(&mut self, context: &mut Context<Mail>) -> Option<ConnectionId> {
        let is_due = context.now_ns() >= self.due_ns;
        match self.connection {
            Some(id) if self.is_standing => return Some(id),
            Some(id) if is_due => context.close(id, CloseReason::ConnectFailed),
            None if is_due => self.connect(context),
            _ => {}
        }
        None
    }

    /// When [`Dialing::turn`] has something to do; never while a connection stands.
    pub(crate) fn deadline_ns(&self) -> u64 {
        match self.is_standing {
            true => u64::MAX,
            false => self.due_ns,
        }
    }

    pub(crate) fn connected(&mut self) {
        self.is_standing = true;
    }

    /// The peer is who it should be: only now the next failure is the first one, so that a wrong
    /// port is not asked without a pause.
    pub(crate) fn answered(&mut self) {
        self.failures = 0;
    }

    /// The connection has ended; whether it was made.
    pub(crate) fn closed(&mut self, now_ns: u64, reason: CloseReason) -> bool {
        let was_standing = std::mem::take(&mut self.is_standing);
        if was_standing && reason != CloseReason::Stopping {
            warn!(peer = %self.endpoint, ?reason, "disconnected");
        }
        self.connection = None;
        self.due_ns = now_ns + retry_delay_ns(self.retry_ns_min, self.failures, now_ns);
        self.failures = self.failures.saturating_add(1);
        was_standing
    }

    fn connect(&mut self, context: &mut Context<Mail>) {
        let Some(address) = self.endpoint.tcp() else {
            warn!(peer = %self.endpoint, "left out: it can be reached over TCP only");
            self.due_ns = u64::MAX;
            return;
        };
        match context.connect(address, self.port) {
            Ok(id) => {
                self.connection = Some(id);
                self.due_ns = context.now_ns() + CONNECT_NS_MAX;
            }
            Err(error) => {
                debug!(peer = %self.endpoint, %error, "cannot connect");
                self.due_ns = context.now_ns() + RETRY_NS_MAX;
            }
        }
    }
}

/// Soon at first, then doubling up to two seconds, with jitter so that the clients of a server that
/// restarts do not all come back in the same instant.
pub(crate) fn retry_delay_ns(least_ns: u64, failures: u32, now_ns: u64) -> u64 {
    let delay_ns = least_ns
        .saturating_mul(1 << failures.min(16))
        .clamp(2, RETRY_NS_MAX);
    let jitter = now_ns.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    delay_ns / 2 + jitter % (delay_ns / 2)
}

/// The kernel alone would ask a machine that is off for two minutes, at ever longer intervals.
pub(crate) const CONNECT_NS_MAX: u64 = 5_000_000_000;
const RETRY_NS_MAX: u64 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_gone_is_asked_soon_and_then_ever_less_up_to_every_two_seconds() {
        for now_ns in [1, 1_000_000_007, u64::MAX] {
            let delays = [0, 1, 5, 16, u32::MAX].map(|n| retry_delay_ns(10_000_000, n, now_ns));
            let ranges_ms = [5..10, 10..20, 160..320, 1_000..2_000, 1_000..2_000];
            for (delay_ns, range_ms) in delays.iter().zip(ranges_ms) {
                assert!(range_ms.contains(&(delay_ns / 1_000_000)), "{delay_ns}");
            }
        }
    }
}
