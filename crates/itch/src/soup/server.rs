//! The sending side, one [`Server`] per connection.

use thiserror::Error;

use super::packet::{
    self, HEARTBEAT_INTERVAL_NS, LOGIN_TIMEOUT_NS, Login, Reject, SILENCE_NS_MAX, kind,
};
use crate::sequenced::{SessionName, Store};

/// Access control of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerConfig {
    /// User and password; `None` to accept every client.
    pub user: Option<(String, String)>,
}

/// Why a connection ends: the client's fault. The remaining output tells the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The bytes cannot be split into packets.
    #[error("the framing is lost")]
    FramingLost,
    /// A packet before the login, or a second login.
    #[error("a packet out of the protocol's order")]
    OutOfOrder,
    /// The client has logged out.
    #[error("the client has logged out")]
    LoggedOut,
}

/// A server's connection to one client.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    state: ServerState,
    /// Next sequence to send.
    cursor: u64,
    /// Whether the client was told that the session has ended.
    has_ended: bool,
    last_received_ns: u64,
    next_heartbeat_ns: u64,
    started_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    LoginAwaited,
    LoginUnanswered(Login),
    Joined,
    Rejected,
}

impl Server {
    /// Creates the connection of a client that has just connected.
    pub fn new(config: ServerConfig, now_ns: u64) -> Self {
        Self {
            config,
            state: ServerState::LoginAwaited,
            cursor: 0,
            has_ended: false,
            last_received_ns: now_ns,
            next_heartbeat_ns: u64::MAX,
            started_ns: now_ns,
        }
    }

    /// Receives bytes from the client and returns how many were used.
    ///
    /// # Errors
    /// [`ServerError`]: call `produce` once more, then close.
    pub fn receive(&mut self, input: &[u8], now_ns: u64) -> Result<usize, ServerError> {
        let mut used = 0;
        loop {
            let read = packet::read(&input[used..]).map_err(|_| ServerError::FramingLost)?;
            let Some((kind, body, length)) = read else {
                // A client's packets are no longer than a login, except unsequenced data.
                return Ok(used);
            };
            self.last_received_ns = now_ns;
            match (kind, self.state) {
                (kind::LOGIN_REQUEST, ServerState::LoginAwaited) => {
                    let login = Login::read(body).ok_or(ServerError::FramingLost)?;
                    self.state = ServerState::LoginUnanswered(login);
                }
                (kind::LOGOUT, _) => return Err(ServerError::LoggedOut),
                (kind::DEBUG, _) => {}
                (kind::CLIENT_HEARTBEAT | kind::UNSEQUENCED, state)
                    if state != ServerState::LoginAwaited => {}
                _ => return Err(ServerError::OutOfOrder),
            }
            used += length;
        }
    }

    /// Appends the output that is due to `out`, up to about `budget_bytes`. Returns whether more
    /// is ready.
    pub fn produce(
        &mut self,
        store: &Store,
        now_ns: u64,
        out: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> bool {
        let start = out.len();
        if let ServerState::LoginUnanswered(login) = self.state {
            self.answer(store, &login, out);
        }
        if self.state != ServerState::Joined {
            return false;
        }
        if self.cursor < store.oldest_sequence() {
            // The client reads too slowly. Only a new login can get the messages it missed.
            self.state = ServerState::Rejected;
            return false;
        }
        while out.len() - start < budget_bytes
            && let Some(block) = store.block(self.cursor)
        {
            packet::write(out, kind::SEQUENCED, &block[2..]);
            self.cursor += 1;
        }
        let more = self.cursor < store.next_sequence();
        if !more && store.is_ended() && !std::mem::replace(&mut self.has_ended, true) {
            packet::write(out, kind::END_OF_SESSION, b"");
        }
        if out.len() == start && now_ns >= self.next_heartbeat_ns {
            packet::write(out, kind::SERVER_HEARTBEAT, b"");
        }
        if out.len() > start {
            self.next_heartbeat_ns = now_ns.saturating_add(HEARTBEAT_INTERVAL_NS);
        }
        more
    }

    /// Returns when [`produce`](Self::produce) must be called, and [`is_silent`](Self::is_silent)
    /// checked, even if nothing happens.
    pub fn deadline_ns(&self) -> u64 {
        let silent_ns = match self.state {
            ServerState::LoginAwaited => self.started_ns.saturating_add(LOGIN_TIMEOUT_NS),
            _ => self.last_received_ns.saturating_add(SILENCE_NS_MAX),
        };
        self.next_heartbeat_ns.min(silent_ns)
    }

    /// Returns whether the client has been silent too long.
    pub fn is_silent(&self, now_ns: u64) -> bool {
        match self.state {
            ServerState::LoginAwaited => now_ns.saturating_sub(self.started_ns) >= LOGIN_TIMEOUT_NS,
            _ => now_ns.saturating_sub(self.last_received_ns) >= SILENCE_NS_MAX,
        }
    }

    /// Returns whether the connection ends once the produced output has been sent.
    pub fn is_closing(&self) -> bool {
        self.state == ServerState::Rejected
    }

    /// Returns whether the client is logged in, has everything, and was told that the session
    /// ended.
    pub fn has_everything(&self) -> bool {
        self.has_ended
    }

    /// Returns the next sequence to send.
    pub fn next_sequence(&self) -> u64 {
        self.cursor
    }

    fn answer(&mut self, store: &Store, login: &Login, out: &mut Vec<u8>) {
        let reject = if !self.is_authorized(login) {
            Some(Reject::NotAuthorized)
        } else if !login.session.is_blank() && login.session.trimmed() != store.session().trimmed()
            || login.sequence > store.next_sequence()
        {
            Some(Reject::NoSession)
        } else {
            None
        };
        if let Some(reject) = reject {
            packet::write(out, kind::LOGIN_REJECTED, &[reject.code()]);
            self.state = ServerState::Rejected;
            return;
        }
        self.cursor = match login.sequence {
            0 => store.next_sequence(),
            sequence => sequence.max(store.oldest_sequence()),
        };
        self.state = ServerState::Joined;
        packet::write_accepted(out, session_of(store), self.cursor);
    }

    fn is_authorized(&self, login: &Login) -> bool {
        self.config.user.as_ref().is_none_or(|(user, password)| {
            let wanted = Login::new(user, password, SessionName::default(), 0);
            (wanted.user, wanted.password) == (login.user, login.password)
        })
    }
}

/// Returns the session name, right-aligned as in the protocol.
fn session_of(store: &Store) -> SessionName {
    let session = store.session();
    let name = session.trimmed();
    let mut bytes = [b' '; SessionName::LENGTH];
    bytes[SessionName::LENGTH - name.len()..].copy_from_slice(name);
    SessionName::from_bytes(bytes)
}
