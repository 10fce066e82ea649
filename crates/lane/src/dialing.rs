//! An outgoing connection that a lane makes, and makes again after it ends.

use std::io::ErrorKind;
use std::time::Instant;

use tidewire_retry::{BackOff, LinkLog};
use tracing::{debug, warn};

use crate::application::CloseReason;
use crate::connection::ConnectionId;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::secure::TlsConnector;

/// The connection to one address, or the time of the next attempt.
#[derive(Debug)]
pub struct Dialing {
    endpoint: Endpoint,
    /// The connection's tag for the application.
    port: u16,
    /// What TLS is made with, and the name that the peer's certificate must have.
    tls: Option<(TlsConnector, String)>,
    connection: Option<ConnectionId>,
    /// Whether the connection is established.
    is_standing: bool,
    /// When to connect; during an attempt, when to give it up.
    due_ns: u64,
    /// Connections that have ended since the peer last answered.
    failures: u32,
    log: LinkLog,
    /// Why the application closes the connection.
    reason: Option<String>,
}

impl Dialing {
    /// Creates a dialing without a connection.
    pub fn new(endpoint: Endpoint, port: u16) -> Self {
        Self {
            endpoint,
            port,
            tls: None,
            connection: None,
            is_standing: false,
            due_ns: 0,
            failures: 0,
            log: LinkLog::default(),
            reason: None,
        }
    }

    /// Uses TLS, if it is given: what it is made with, and the name that the peer's certificate
    /// must have.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<(TlsConnector, String)>) -> Self {
        self.tls = tls;
        self
    }

    /// Notes why TLS has failed, if it has, before [`Dialing::closed`].
    pub fn fails(&mut self, context: &Context) {
        if let Some(failure) = context.failure() {
            self.reason.get_or_insert_with(|| failure.to_owned());
        }
    }

    /// Returns the connection, whether established or in progress.
    pub fn connection(&self) -> Option<ConnectionId> {
        self.connection
    }

    /// Returns the connection if it is established.
    pub fn standing(&self) -> Option<ConnectionId> {
        self.connection.filter(|_| self.is_standing)
    }

    /// Connects, or gives up an attempt that timed out. Returns the connection once it is
    /// established.
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

    /// Returns when [`Dialing::turn`] must be called; never while a connection is established.
    pub fn deadline_ns(&self) -> u64 {
        match self.is_standing {
            true => u64::MAX,
            false => self.due_ns,
        }
    }

    /// Notes that the connection is established.
    pub fn connected(&mut self) {
        self.is_standing = true;
    }

    /// Resets the backoff, because the peer has answered as expected. A connection alone does not
    /// reset it, so a wrong port, or a peer that hangs, is retried with backoff. Returns whether to
    /// log that the peer is connected.
    pub fn answered(&mut self) -> bool {
        self.failures = 0;
        self.log.answers(Instant::now())
    }

    /// Closes the connection, if there is one, and notes why.
    pub fn close(&mut self, context: &mut Context, reason: String) {
        if let Some(id) = self.connection {
            self.reason = Some(reason);
            context.close(id, CloseReason::Requested);
        }
    }

    /// Notes the end of the connection. Returns whether it was established.
    pub fn closed(&mut self, now_ns: u64, reason: CloseReason) -> bool {
        let was_standing = std::mem::take(&mut self.is_standing);
        let text = match self.log.has_answered() {
            true => "disconnected; reconnecting",
            false => "cannot connect; retrying",
        };
        let why = self.reason.take().unwrap_or_else(|| reason.text());
        if let Some((attempts, lasts)) = self.log.ends(Instant::now())
            && reason != CloseReason::Stopping
        {
            let seconds = lasts.as_secs();
            warn!(peer = %self.endpoint, reason = %why, attempts, seconds, "{text}");
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
        let connected = match &self.tls {
            None => context.connect(address, self.port),
            Some((connector, host)) => match connector.current() {
                Some(client) => context.connect_secure(address, self.port, &client, host),
                None => Err(std::io::Error::other("no TLS settings are loaded")),
            },
        };
        match connected {
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

/// Backoff for a peer that is usually available, on this machine or nearby.
pub const BACK_OFF: BackOff = BackOff {
    delay_ns_first: 10_000_000,
    delay_ns_max: 2_000_000_000,
    // The kernel alone would try an offline machine for two minutes, at growing intervals.
    connect_ns_max: 5_000_000_000,
};
