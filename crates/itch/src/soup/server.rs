//! The side that sends, one [`Server`] a connection.

use thiserror::Error;

use super::packet::{
    self, HEARTBEAT_INTERVAL_NS, LOGIN_TIMEOUT_NS, Login, Reject, SILENCE_NS_MAX, kind,
};
use crate::sequenced::{SessionName, Store};

/// Who is let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerConfig {
    /// User and password; `None` for anybody.
    pub user: Option<(String, String)>,
}

/// Why a connection ends: the client's fault. What is left to be produced says so to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// What follows cannot be told apart into packets.
    #[error("the framing is lost")]
    FramingLost,
    /// Something else came before the login, or a login came twice.
    #[error("a packet out of the protocol's order")]
    OutOfOrder,
    /// The client has logged out.
    #[error("the client has logged out")]
    LoggedOut,
}

/// One client of a stream.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    state: State,
    /// Next sequence to be sent.
    cursor: u64,
    /// Said that the session has ended.
    has_ended: bool,
    last_received_ns: u64,
    next_heartbeat_ns: u64,
    started_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    LoginAwaited,
    LoginUnanswered(Login),
    Joined,
    Rejected,
}

impl Server {
    /// A client that has just connected.
    pub fn new(config: ServerConfig, now_ns: u64) -> Self {
        Self {
            config,
            state: State::LoginAwaited,
            cursor: 0,
            has_ended: false,
            last_received_ns: now_ns,
            next_heartbeat_ns: u64::MAX,
            started_ns: now_ns,
        }
    }

    /// Takes bytes from the client; returns how many were used.
    ///
    /// # Errors
    /// [`ServerError`]: produce once more, then close.
    pub fn receive(&mut self, input: &[u8], now_ns: u64) -> Result<usize, ServerError> {
        let mut used = 0;
        loop {
            let read = packet::read(&input[used..]).map_err(|_| ServerError::FramingLost)?;
            let Some((kind, body, length)) = read else {
                // No packet of a client is longer than a login but unsequenced data.
                return Ok(used);
            };
            self.last_received_ns = now_ns;
            match (kind, self.state) {
                (kind::LOGIN_REQUEST, State::LoginAwaited) => {
                    let login = Login::read(body).ok_or(ServerError::FramingLost)?;
                    self.state = State::LoginUnanswered(login);
                }
                (kind::LOGOUT, _) => return Err(ServerError::LoggedOut),
                (kind::DEBUG, _) => {}
                (kind::CLIENT_HEARTBEAT | kind::UNSEQUENCED, state)
                    if state != State::LoginAwaited => {}
                _ => return Err(ServerError::OutOfOrder),
            }
            used += length;
        }
    }

    /// Appends what is to be said now to `out`, about `budget_bytes` at most. Returns whether
    /// there is more to say at once.
    pub fn produce(
        &mut self,
        store: &Store,
        now_ns: u64,
        out: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> bool {
        let start = out.len();
        if let State::LoginUnanswered(login) = self.state {
            self.answer(store, &login, out);
        }
        if self.state != State::Joined {
            return false;
        }
        if self.cursor < store.oldest_sequence() {
            // It does not read: what it misses cannot be told to it but by a new login.
            self.state = State::Rejected;
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

    /// When [`produce`](Self::produce) must be called although nothing happened, and
    /// [`is_silent`](Self::is_silent) be looked at.
    pub fn deadline_ns(&self) -> u64 {
        let silent_ns = match self.state {
            State::LoginAwaited => self.started_ns.saturating_add(LOGIN_TIMEOUT_NS),
            _ => self.last_received_ns.saturating_add(SILENCE_NS_MAX),
        };
        self.next_heartbeat_ns.min(silent_ns)
    }

    /// Whether nothing came from the client for too long.
    pub fn is_silent(&self, now_ns: u64) -> bool {
        match self.state {
            State::LoginAwaited => now_ns.saturating_sub(self.started_ns) >= LOGIN_TIMEOUT_NS,
            _ => now_ns.saturating_sub(self.last_received_ns) >= SILENCE_NS_MAX,
        }
    }

    /// Whether the connection is over once what was produced has left.
    pub fn is_closing(&self) -> bool {
        self.state == State::Rejected
    }

    /// Whether the client is logged in, has everything and was told that the session ended.
    pub fn has_everything(&self) -> bool {
        self.has_ended
    }

    /// Next sequence to be sent.
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
            self.state = State::Rejected;
            return;
        }
        self.cursor = match login.sequence {
            0 => store.next_sequence(),
            sequence => sequence.max(store.oldest_sequence()),
        };
        self.state = State::Joined;
        packet::write_accepted(out, session_of(store), self.cursor);
    }

    fn is_authorized(&self, login: &Login) -> bool {
        self.config.user.as_ref().is_none_or(|(user, password)| {
            let wanted = Login::new(user, password, SessionName::default(), 0);
            (wanted.user, wanted.password) == (login.user, login.password)
        })
    }
}

/// Right-aligned, as the protocol has it.
fn session_of(store: &Store) -> SessionName {
    let session = store.session();
    let name = session.trimmed();
    let mut bytes = [b' '; SessionName::LENGTH];
    bytes[SessionName::LENGTH - name.len()..].copy_from_slice(name);
    SessionName::from_bytes(bytes)
}
