//! An outgoing connection that a lane makes, and remakes whenever it ends.

use std::io::ErrorKind;
use std::time::Instant;

use tidewire_retry::{BackOff, Repeated};
use tracing::{debug, warn};

use crate::application::CloseReason;
use crate::connection::ConnectionId;
use crate::context::Context;
use crate::endpoint::Endpoint;

/// Of one address: the connection, or when to try again.
#[derive(Debug)]
pub struct Dialing {
    endpoint: Endpoint,
    /// What the connection is to the application.
    port: u16,
    connection: Option<ConnectionId>,
    /// The connection is made.
    is_standing: bool,
    /// When to connect; while a connection is being made, when to give it up.
    due_ns: u64,
    /// Connections that ended since the peer last answered.
    failures: u32,
    /// It cannot be connected to.
    unreachable: Repeated,
}

impl Dialing {
    /// Nothing is connected yet.
    pub fn new(endpoint: Endpoint, port: u16) -> Self {
        Self {
            endpoint,
            port,
            connection: None,
            is_standing: false,
            due_ns: 0,
            failures: 0,
            unreachable: Repeated::default(),
        }
    }

    /// The connection, made or being made.
    pub fn connection(&self) -> Option<ConnectionId> {
        self.connection
    }

    /// The connection once it is made.
    pub fn standing(&self) -> Option<ConnectionId> {
        self.connection.filter(|_| self.is_standing)
    }

    /// Connects, or gives a connection up that is not made, if it is time. Gives the connection
    /// once it is made.
    pub fn turn(&mut self, context: &mut Context) -> Option<ConnectionId> {
        let is_due = context.now_ns() >= self.due_ns;
        match self.connection {
            Some(id) if self.is_standing => return Some(id),
            Some(id) if is_due => {
                context.close(id, CloseReason::ConnectFailed(ErrorKind::TimedOut));
            }
            None if is_due => self.connect(context),
            _ => {}
        }
        None
    }

    /// When [`Dialing::turn`] has something to do; never while a connection stands.
    pub fn deadline_ns(&self) -> u64 {
        match self.is_standing {
            true => u64::MAX,
            false => self.due_ns,
        }
    }

    /// The connection is made.
    pub fn connected(&mut self) {
        self.is_standing = true;
        self.unreachable.works();
    }

    /// The peer is who it should be: only now the next failure is the first one, so that a wrong
    /// port is not asked without a pause.
    pub fn answered(&mut self) {
        self.failures = 0;
    }

    /// The connection has ended; whether it was made.
    pub fn closed(&mut self, now_ns: u64, reason: CloseReason) -> bool {
        let was_standing = std::mem::take(&mut self.is_standing);
        if was_standing && reason != CloseReason::Stopping {
            warn!(peer = %self.endpoint, ?reason, "disconnected");
        } else if reason != CloseReason::Stopping
            && let Some((times, lasts)) = self.unreachable.failed(Instant::now())
        {
            let (error, seconds) = (reason.text(), lasts.as_secs());
            warn!(
                peer = %self.endpoint, %error, attempts = times, seconds,
                "cannot connect; retrying"
            );
        }
        self.connection = None;
        self.due_ns = now_ns + BACK_OFF.delay_ns(self.failures, now_ns);
        self.failures = self.failures.saturating_add(1);
        was_standing
    }

    fn connect(&mut self, context: &mut Context) {
        let Some(address) = self.endpoint.tcp() else {
            warn!(peer = %self.endpoint, "ignored: only TCP addresses are supported");
            self.due_ns = u64::MAX;
            return;
        };
        match context.connect(address, self.port) {
            Ok(id) => {
                self.connection = Some(id);
                self.due_ns = context.now_ns() + BACK_OFF.connect_ns_max;
            }
            Err(error) => {
                debug!(peer = %self.endpoint, %error, "cannot connect");
                self.due_ns = context.now_ns() + BACK_OFF.delay_ns_max;
            }
        }
    }
}

/// For a peer that is most often there, on this machine or the next.
pub const BACK_OFF: BackOff = BackOff {
    delay_ns_first: 10_000_000,
    delay_ns_max: 2_000_000_000,
    // The kernel alone would ask a machine that is off for two minutes, at ever longer intervals.
    connect_ns_max: 5_000_000_000,
};
