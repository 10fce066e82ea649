//! The receiving side.

use thiserror::Error;

use super::packet::{self, HEARTBEAT_INTERVAL_NS, Login, Reject, SILENCE_NS_MAX, kind};
use crate::sequenced::{SequencedSink, SessionName};
use tidewire_feed::client::{Gap, LossReason};

/// Login data of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// User name, at most six characters.
    pub user: String,
    /// Password, at most ten characters.
    pub password: String,
    /// Session; blank for the server's current one.
    pub session: SessionName,
}

/// Why a connection cannot continue: a fault of the server or the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The login was rejected. The same login fails again, unless the session did not exist yet.
    #[error("the login was rejected: {0}")]
    Rejected(Reject),
    /// The bytes cannot be split into packets, or an answer is invalid.
    #[error("the framing is lost")]
    FramingLost,
    /// A packet that is only allowed after the login arrived before it.
    #[error("a packet before the login was accepted")]
    OutOfOrder,
    /// The server would send messages again that were delivered. They cannot be told from new ones.
    #[error("the server begins with message {given}, but {asked} was asked for")]
    TooEarly {
        /// The sequence of the login.
        asked: u64,
        /// The sequence of the answer.
        given: u64,
    },
}

/// Counters of a client; every field only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages delivered.
    pub messages: u64,
    /// Sequences that the server no longer had.
    pub lost: u64,
    /// Unsequenced messages, which are ignored.
    pub unsequenced: u64,
    /// Accepted logins.
    pub logins: u64,
}

/// The receiver of one stream, over all its connections.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    /// The session, once a login was accepted.
    session: Option<SessionName>,
    /// Sequence of the next message.
    expected: u64,
    is_accepted: bool,
    is_ended: bool,
    outgoing: Vec<u8>,
    /// When the present connection was made, and the login sent.
    connected_ns: u64,
    last_received_ns: u64,
    next_heartbeat_ns: u64,
    counters: Counters,
}

impl Client {
    /// Creates a client that wants everything from the first message on.
    pub fn new(config: ClientConfig) -> Self {
        Self {
            config,
            session: None,
            expected: 1,
            is_accepted: false,
            is_ended: false,
            outgoing: Vec::new(),
            connected_ns: 0,
            last_received_ns: 0,
            next_heartbeat_ns: u64::MAX,
            counters: Counters::default(),
        }
    }

    /// Handles a new connection: logs in and resumes the stream where it stopped.
    pub fn connected(&mut self, now_ns: u64) {
        self.outgoing.clear();
        self.is_accepted = false;
        let (user, password) = (&self.config.user, &self.config.password);
        let session = self.session.unwrap_or(self.config.session);
        Login::new(user, password, session, self.expected).write(&mut self.outgoing);
        (self.connected_ns, self.last_received_ns) = (now_ns, now_ns);
        self.next_heartbeat_ns = now_ns.saturating_add(HEARTBEAT_INTERVAL_NS);
    }

    /// Receives bytes and returns how many were used. The rest is the beginning of a packet.
    ///
    /// # Errors
    /// [`ClientError`]: disconnect. After [`Reject::NoSession`] the next login requests the
    /// server's current session.
    pub fn receive<S: SequencedSink>(
        &mut self,
        input: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) -> Result<usize, ClientError> {
        let mut used = 0;
        loop {
            match packet::read(&input[used..]) {
                Ok(None) => return Ok(used),
                Err(packet::NoLength) => return Err(ClientError::FramingLost),
                Ok(Some((kind, body, length))) => {
                    self.last_received_ns = now_ns;
                    self.packet(kind, body, sink)?;
                    used += length;
                }
            }
        }
    }

    /// Sends a heartbeat if one is due.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        if now_ns >= self.next_heartbeat_ns {
            packet::write(&mut self.outgoing, kind::CLIENT_HEARTBEAT, b"");
            self.next_heartbeat_ns = now_ns.saturating_add(HEARTBEAT_INTERVAL_NS);
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) must be called even if nothing
    /// arrives.
    pub fn deadline_ns(&self) -> u64 {
        let silent_ns = self.last_received_ns.saturating_add(SILENCE_NS_MAX);
        self.next_heartbeat_ns.min(silent_ns)
    }

    /// Returns whether the server has been silent too long.
    pub fn is_silent(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_received_ns) >= SILENCE_NS_MAX
    }

    /// Returns whether the server has not answered the login for too long. Its heartbeats are no
    /// answer.
    pub fn is_unanswered(&self, now_ns: u64) -> bool {
        !self.is_accepted && now_ns.saturating_sub(self.connected_ns) >= ANSWER_NS_MAX
    }

    /// Moves the output to the end of `out`.
    pub fn drain_outgoing(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.outgoing);
    }

    /// Returns whether the server has accepted the login on the present connection.
    pub fn is_accepted(&self) -> bool {
        self.is_accepted
    }

    /// Returns the stream's session, once known.
    pub fn session(&self) -> Option<SessionName> {
        self.session
    }

    /// Returns the sequence of the next message.
    pub fn next_sequence(&self) -> u64 {
        self.expected
    }

    /// Returns whether the server has ended the session.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Returns the client's counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    #[inline]
    fn packet<S: SequencedSink>(
        &mut self,
        kind: u8,
        body: &[u8],
        sink: &mut S,
    ) -> Result<(), ClientError> {
        match kind {
            kind::SEQUENCED if self.is_accepted => {
                let sequence = self.expected;
                self.expected += 1;
                self.counters.messages += 1;
                sink.message(sequence, body);
            }
            kind::SEQUENCED | kind::UNSEQUENCED if !self.is_accepted => {
                return Err(ClientError::OutOfOrder);
            }
            kind::UNSEQUENCED => self.counters.unsequenced += 1,
            kind::LOGIN_ACCEPTED => return self.accepted(body, sink),
            kind::LOGIN_REJECTED => {
                let reject = Reject::of(body.first().copied().unwrap_or_default());
                if reject == Reject::NoSession {
                    self.session = None;
                    self.expected = 1;
                }
                return Err(ClientError::Rejected(reject));
            }
            kind::END_OF_SESSION if self.is_accepted && !self.is_ended => {
                self.is_ended = true;
                sink.end_of_session(self.expected);
            }
            // Heartbeats, debug texts, and types of later versions.
            kind::SERVER_HEARTBEAT | kind::DEBUG => {}
            _ => {}
        }
        Ok(())
    }

    fn accepted<S: SequencedSink>(&mut self, body: &[u8], sink: &mut S) -> Result<(), ClientError> {
        let possible = 1..SEQUENCE_MAX;
        let accepted = packet::read_accepted(body).filter(|(_, next)| possible.contains(next));
        let (session, sequence) = accepted.ok_or(ClientError::FramingLost)?;
        let is_same = self
            .session
            .is_some_and(|known| known.trimmed() == session.trimmed());
        if is_same && sequence < self.expected {
            return Err(ClientError::TooEarly {
                asked: self.expected,
                given: sequence,
            });
        }
        self.is_accepted = true;
        self.counters.logins += 1;
        if !is_same {
            self.expected = 1;
            self.is_ended = false;
            self.session = Some(session);
            sink.session(session);
        }
        if sequence > self.expected {
            let (from, count) = (self.expected, sequence - self.expected);
            self.counters.lost += count;
            self.expected = sequence;
            let reason = LossReason::TooOld;
            sink.gap(Gap::Lost {
                from,
                count,
                reason,
            });
        }
        Ok(())
    }
}

/// Upper limit of a stream's sequence, so that counting never overflows.
const SEQUENCE_MAX: u64 = 1 << 63;
/// Maximum time until the server answers a login.
const ANSWER_NS_MAX: u64 = SILENCE_NS_MAX;
