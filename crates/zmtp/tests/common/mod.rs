//! Two connections in memory, with a controlled clock and controlled cuts of the stream.

#![allow(dead_code, reason = "each test program uses its own part")]

use tidewire_zmtp::{Config, Connection, Credentials, Error, Event, SHORT_HEADER_BYTES};

/// An event that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    AuthenticateNull,
    AuthenticatePlain(Vec<u8>, Vec<u8>),
    Ready,
    Frame(Vec<u8>, bool),
    FrameStart(u64, bool),
    FrameChunk(Vec<u8>, bool),
    Subscribe(Vec<u8>),
    Cancel(Vec<u8>),
    PeerError(Vec<u8>),
    AuthenticateCurve([u8; 32]),
    Join(Vec<u8>),
    Leave(Vec<u8>),
}

impl Seen {
    fn of(event: Event<'_>) -> Seen {
        match event {
            Event::Authenticate(Credentials::Plain { username, password }) => {
                Seen::AuthenticatePlain(username.into(), password.into())
            }
            Event::Authenticate(Credentials::Curve { public_key }) => {
                Seen::AuthenticateCurve(public_key)
            }
            Event::Authenticate(_) => Seen::AuthenticateNull,
            Event::Ready => Seen::Ready,
            Event::Frame { body, more } => Seen::Frame(body.into(), more),
            Event::FrameStart { length, more } => Seen::FrameStart(length, more),
            Event::FrameChunk { bytes, last } => Seen::FrameChunk(bytes.into(), last),
            Event::Subscribe(topic) => Seen::Subscribe(topic.into()),
            Event::Cancel(topic) => Seen::Cancel(topic.into()),
            Event::Join(group) => Seen::Join(group.into()),
            Event::Leave(group) => Seen::Leave(group.into()),
            Event::PeerError(reason) => Seen::PeerError(reason.into()),
            other => panic!("unknown event {other:?}"),
        }
    }
}

/// A connection with its driver: the receive buffer and the events.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) connection: Connection,
    pub(crate) input: Vec<u8>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) error: Option<Error>,
    /// Whether every peer is accepted.
    pub(crate) accepts: bool,
    /// Whether short messages use the fast path.
    pub(crate) takes_short: bool,
}

impl Side {
    pub(crate) fn new(config: Config) -> Side {
        Side {
            connection: Connection::new(config, 0),
            input: Vec::new(),
            seen: Vec::new(),
            error: None,
            accepts: true,
            takes_short: false,
        }
    }

    /// Creates a side that has read `bytes` at once.
    pub(crate) fn fed(config: Config, bytes: &[u8]) -> Side {
        let mut side = Side::new(config);
        side.feed(bytes, 0);
        side
    }

    /// Reads bytes and handles all their events.
    pub(crate) fn feed(&mut self, bytes: &[u8], now_ns: u64) {
        self.input.extend_from_slice(bytes);
        while self.error.is_none() {
            if self.takes_short
                && let Some(body) = self.connection.receive_short(&self.input)
            {
                self.seen.push(Seen::Frame(body.into(), false));
                let consumed = SHORT_HEADER_BYTES + body.len();
                self.input.drain(..consumed);
                continue;
            }
            let refused = self.has_refusal();
            let step = match self.connection.receive(&self.input, now_ns) {
                Ok(step) => step,
                Err(error) if refused && error == Error::Closed => return,
                Err(error) => {
                    self.error = Some(error);
                    return;
                }
            };
            let idle = step.consumed == 0 && step.event.is_none();
            assert!(
                !idle || step.needed == 0 || step.needed > self.input.len(),
                "{step:?}"
            );
            let asks = matches!(step.event, Some(Event::Authenticate(_)));
            let event = step.event.map(Seen::of);
            let consumed = step.consumed;
            self.input.drain(..consumed);
            self.seen.extend(event);
            if asks && self.accepts {
                self.connection.accept().unwrap();
            }
            if idle {
                return;
            }
        }
    }

    pub(crate) fn sent(&mut self) -> Vec<u8> {
        std::mem::take(self.connection.outgoing())
    }

    fn has_refusal(&self) -> bool {
        matches!(self.seen.last(), Some(Seen::PeerError(_)))
    }
}

/// Carries bytes both ways, in pieces of the sizes from `piece`, until nothing moves.
pub(crate) fn wire(left: &mut Side, right: &mut Side, mut piece: impl FnMut() -> usize) {
    let mut to_right = Vec::new();
    let mut to_left = Vec::new();
    loop {
        to_right.append(left.connection.outgoing());
        to_left.append(right.connection.outgoing());
        if to_right.is_empty() && to_left.is_empty() {
            return;
        }
        let count = piece().clamp(1, 1 << 20).min(to_right.len());
        let bytes: Vec<u8> = to_right.drain(..count).collect();
        right.feed(&bytes, 0);
        let count = piece().clamp(1, 1 << 20).min(to_left.len());
        let bytes: Vec<u8> = to_left.drain(..count).collect();
        left.feed(&bytes, 0);
    }
}

/// Returns two sides with a completed handshake.
pub(crate) fn ready_pair(left: Config, right: Config) -> (Side, Side) {
    let (mut left, mut right) = (Side::new(left), Side::new(right));
    wire(&mut left, &mut right, || 1 << 20);
    assert!(left.connection.is_ready(), "{:?}", left.error);
    assert!(right.connection.is_ready(), "{:?}", right.error);
    left.seen.clear();
    right.seen.clear();
    (left, right)
}

/// The greeting of a libzmq 4.3 peer, as captured.
pub(crate) fn libzmq_greeting(mechanism: &str, minor: u8) -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, minor];
    bytes.extend_from_slice(mechanism.as_bytes());
    bytes.resize(64, 0);
    bytes
}

/// A READY command of a socket type without routing id.
pub(crate) fn ready(socket_type: &str) -> Vec<u8> {
    let name = socket_type.as_bytes();
    let mut bytes = vec![4, 22 + name.len() as u8];
    bytes.extend_from_slice(b"\x05READY\x0bSocket-Type\0\0\0");
    bytes.push(name.len() as u8);
    bytes.extend_from_slice(name);
    bytes
}
