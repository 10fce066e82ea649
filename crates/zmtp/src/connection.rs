//! One side of one connection.

mod encrypted;
mod handshake;
mod traffic;

use crate::command::{CANCEL, JOIN, LEAVE, PING, SUBSCRIBE, encode_command, encode_error};
use crate::config::{Config, Limits};
use crate::curve::{self, Cipher, Randomness};
use crate::error::Error;
use crate::frame::{FLAGS_3, encode_frame, frame_header};
use crate::greeting::{Greeting, Version};
use crate::liveness::Liveness;
use crate::mechanism::{Mechanism, own_metadata};
use crate::metadata::Metadata;
use crate::socket_type::SocketType;
use crate::websocket;

/// One side of one ZeroMQ connection: greeting, handshake, then traffic.
///
/// The driver owns the bytes. In a loop it
/// * passes the bytes it has read to [`receive`](Self::receive), drops `consumed` bytes of them
///   and handles the event, until a step has neither;
/// * sends [`outgoing`](Self::outgoing), at the latest then. After the handshake it does so
///   between two messages, never between two frames of one;
/// * calls [`timeout`](Self::timeout) at [`deadline_ns`](Self::deadline_ns).
///
/// Times are nanoseconds of any monotonic clock.
#[derive(Debug)]
pub struct Connection {
    phase: ConnectionPhase,
    /// The flags that a frame of the agreed version may have.
    known_flags: u8,
    /// How the peer's frames are interpreted.
    audience: Audience,
    /// Remaining bytes of a body received in pieces; 0 if a frame's header is next.
    body_left: u64,
    /// Whether the pieces are discarded.
    body_skipped: bool,
    /// Octets at the front of the driver's buffer that the last step has already checked.
    seen: usize,
    liveness: Liveness,
    outgoing: Vec<u8>,
    /// The cipher of the traffic, in `ConnectionPhase::Encrypted`.
    cipher: Option<Box<Cipher>>,
    rules: Rules,
    version: Version,
    peer: Option<Peer>,
    /// State of the handshake with all settings, freed at its end.
    handshake: Option<Box<Handshake>>,
    handshake_deadline_ns: Option<u64>,
}

/// The result of [`Connection::receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'b> {
    /// Bytes at the front of the input that are consumed; the event may borrow from them.
    pub consumed: usize,
    /// The event, if there is one. Without consumed bytes and without an event, more bytes are
    /// needed (or an answer, after [`Event::Authenticate`]).
    pub event: Option<Event<'b>>,
    /// Minimum length of the input after the consumed bytes for the next step. A hint for the
    /// size of the next read; 0 if bytes alone are not enough.
    pub needed: usize,
}

/// An event from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'b> {
    /// The peer requests access: answer by [`Connection::accept`] or [`Connection::refuse`].
    Authenticate(Credentials<'b>),
    /// The handshake is complete: [`Connection::peer`] is known. Messages may be sent after the
    /// bytes that are [`outgoing`](Connection::outgoing) now, which end our part of the
    /// handshake.
    Ready,
    /// A whole frame of a message.
    Frame {
        /// The body.
        body: &'b [u8],
        /// Further frames of the same message follow.
        more: bool,
    },
    /// A frame in pieces, because it is longer than [`Config::stream_above_bytes`] and
    /// incomplete. Its body follows as [`Event::FrameChunk`]s, or the driver reads it directly
    /// from the transport ([`Connection::body_received`]).
    FrameStart {
        /// Octets of the whole body, within
        /// [`Limits::frame_bytes_max`](crate::Limits::frame_bytes_max).
        length: u64,
        /// Further frames of the same message follow.
        more: bool,
    },
    /// The next piece of the body.
    FrameChunk {
        /// The piece; never empty.
        bytes: &'b [u8],
        /// Whether it completes the body.
        last: bool,
    },
    /// On PUB and XPUB: the peer subscribes to topics with this prefix.
    Subscribe(&'b [u8]),
    /// On PUB and XPUB: the peer ends that subscription.
    Cancel(&'b [u8]),
    /// On RADIO: the peer joins this group.
    Join(&'b [u8]),
    /// On RADIO: the peer leaves this group.
    Leave(&'b [u8]),
    /// The peer refuses us for this reason (a ZAP status code such as `400` from libzmq, see
    /// [`status_code`](crate::status_code)). The connection is over; do not reconnect with the
    /// same credentials.
    PeerError(&'b [u8]),
}

/// The credentials of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credentials<'b> {
    /// None: NULL, if [`Config::authenticate_null`] requires a decision by address.
    Null,
    /// PLAIN.
    Plain {
        /// User name, at most 255 bytes.
        username: &'b [u8],
        /// Password, at most 255 bytes.
        password: &'b [u8],
    },
    /// CURVE: the peer has proved that it holds the secret key of this public key.
    Curve {
        /// The peer's permanent public key.
        public_key: [u8; 32],
    },
}

/// The properties of the peer, known once the connection is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The protocol version: the lower of the two announced.
    pub version: Version,
    /// Its socket type, if announced; compatible with ours.
    pub socket_type: Option<SocketType>,
    /// Its routing id; empty if not announced. Only REQ, DEALER and ROUTER have one.
    pub routing_id: Vec<u8>,
    /// All announced properties, including the two above; empty for a 2.0 peer.
    pub metadata: Metadata,
}

/// There was no peer to accept or refuse: an error of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer has not requested admission")]
pub struct NotAsked;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionPhase {
    Greeting,
    /// The routing id of a 2.0 peer is next.
    RoutingId(SocketType),
    Handshake,
    /// The driver is checking credentials.
    Judgement,
    Traffic,
    /// Ready, with encrypted traffic.
    Encrypted,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// Not a publisher: frames are messages.
    Receiver,
    /// PUB or XPUB: frames may be subscriptions.
    Publisher {
        /// XPUB: other frames are messages.
        hears_messages: bool,
        /// The next frame belongs to the same message as the previous one.
        amid_message: bool,
        /// A frame within a message may be a subscription.
        later_frames_subscribe: bool,
    },
}

/// The settings that hold for traffic.
#[derive(Debug)]
struct Rules {
    socket_type: SocketType,
    /// Incomplete bodies longer than this are passed on in pieces.
    stream_above_bytes: u64,
    only_first_subscribe: bool,
    whole_messages: bool,
    websocket: bool,
    limits: Limits,
}

#[derive(Debug)]
struct Handshake {
    config: Config,
    greeting: Greeting,
    mechanism: Mechanism,
    own_metadata: Vec<u8>,
}

impl Connection {
    /// Creates a connection. The first bytes to send are in [`outgoing`](Self::outgoing) at once.
    pub fn new(config: Config, now_ns: u64) -> Connection {
        Connection::with_randomness(config, now_ns, curve::system_randomness)
    }

    /// Creates a connection with random numbers that a test can predict.
    pub(crate) fn with_randomness(
        mut config: Config,
        now_ns: u64,
        randomness: Randomness,
    ) -> Connection {
        config.routing_id.truncate(ROUTING_ID_BYTES_MAX);
        if config.websocket {
            config.version_min = Version::V3_0;
            config.signature_first = false;
        }
        if !config.accepts_2_0() {
            // 2.0 has no mechanism: announcing it would drop the requested security.
            config.version = config.version.max(Version::V3_0);
        }
        let mut outgoing = Vec::with_capacity(128);
        let rules = Rules {
            socket_type: config.socket_type,
            stream_above_bytes: config.stream_above_bytes.unwrap_or(u64::MAX),
            only_first_subscribe: config.only_first_subscribe,
            whole_messages: config.whole_messages,
            websocket: config.websocket,
            limits: config.limits,
        };
        let audience = match config.socket_type.is_publisher() {
            false => Audience::Receiver,
            true => Audience::Publisher {
                hears_messages: config.socket_type == SocketType::Xpub,
                amid_message: false,
                later_frames_subscribe: true,
            },
        };
        let timeout_ns = config.handshake_timeout_ns;
        Connection {
            phase: ConnectionPhase::Greeting,
            known_flags: FLAGS_3,
            audience,
            body_left: 0,
            body_skipped: false,
            seen: 0,
            liveness: Liveness::new(config.heartbeat),
            cipher: None,
            rules,
            version: config.version,
            peer: None,
            handshake: Some(Box::new(Handshake {
                greeting: Greeting::begin(&config, &mut outgoing),
                mechanism: Mechanism::new(&config, randomness),
                own_metadata: own_metadata(&config),
                config,
            })),
            outgoing,
            handshake_deadline_ns: (timeout_ns > 0).then(|| now_ns.saturating_add(timeout_ns)),
        }
    }

    /// Takes one step over the bytes read and not consumed yet. Call it in a loop.
    ///
    /// The event borrows from the input, or from the connection if the peer's traffic is
    /// encrypted ([`encrypts`](Self::encrypts)).
    ///
    /// # Errors
    /// The peer violated the protocol or a limit: send the outgoing bytes and close.
    #[inline]
    pub fn receive<'b>(&'b mut self, input: &'b [u8], now_ns: u64) -> Result<Step<'b>, Error> {
        if input.len() > self.seen {
            self.liveness.traffic();
        }
        let step = match self.phase {
            ConnectionPhase::Traffic => self.receive_traffic(input, now_ns),
            ConnectionPhase::Encrypted => return self.receive_encrypted(input, now_ns),
            _ => self.receive_handshake(input, now_ns),
        };
        match &step {
            Ok(step) => self.seen = input.len() - step.consumed,
            Err(_) => self.phase = ConnectionPhase::Closed,
        }
        step
    }

    /// Receives an unencrypted message of one frame of at most 255 bytes at the front of the input,
    /// as a fast path. Returns its body, which follows a header of [`SHORT_HEADER_BYTES`]; header
    /// and body are consumed. `None`: nothing was consumed, call [`receive`](Self::receive).
    #[inline]
    pub fn receive_short<'b>(&mut self, input: &'b [u8]) -> Option<&'b [u8]> {
        let ([flags, length], rest) = input.split_first_chunk()?;
        let is_plain = self.phase == ConnectionPhase::Traffic
            && self.audience == Audience::Receiver
            && self.body_left == 0;
        if *flags != 0 || !is_plain || u64::from(*length) > self.rules.limits.frame_bytes_max {
            return None;
        }
        let body = rest.get(..usize::from(*length))?;
        if input.len() > self.seen {
            self.liveness.traffic();
        }
        self.seen = rest.len() - body.len();
        Some(body)
    }

    /// Returns the connection's own output. The driver removes what it has sent from the front.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Returns when [`timeout`](Self::timeout) must be called, if nothing arrives before.
    pub fn deadline_ns(&self) -> Option<u64> {
        match self.phase {
            ConnectionPhase::Closed => None,
            ConnectionPhase::Traffic | ConnectionPhase::Encrypted => self.liveness.deadline_ns(),
            _ => self.handshake_deadline_ns,
        }
    }

    /// Handles the deadline. Calling it too early is harmless.
    ///
    /// # Errors
    /// The connection timed out: close it.
    pub fn timeout(&mut self, now_ns: u64) -> Result<(), Error> {
        let result = match self.phase {
            ConnectionPhase::Closed => Err(Error::Closed),
            ConnectionPhase::Traffic | ConnectionPhase::Encrypted => self.ping_if_due(now_ns),
            _ if self
                .handshake_deadline_ns
                .is_some_and(|deadline| deadline <= now_ns) =>
            {
                Err(Error::HandshakeTimeout)
            }
            _ => Ok(()),
        };
        if result.is_err() {
            self.phase = ConnectionPhase::Closed;
        }
        result
    }

    /// Returns whether the handshake is complete and the connection alive: messages may be sent.
    #[inline]
    pub fn is_ready(&self) -> bool {
        matches!(
            self.phase,
            ConnectionPhase::Traffic | ConnectionPhase::Encrypted
        )
    }

    /// Returns the peer, from [`Event::Ready`] on.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// Takes the peer out, for a driver that keeps what it needs of it: later
    /// [`peer`](Self::peer) returns `None`.
    pub fn take_peer(&mut self) -> Option<Peer> {
        self.peer.take()
    }

    /// Accepts the peer whose credentials came by [`Event::Authenticate`]. Then call
    /// [`receive`](Self::receive) with the remaining input, even if it is empty.
    ///
    /// # Errors
    /// There was no such event.
    pub fn accept(&mut self) -> Result<(), NotAsked> {
        let (ConnectionPhase::Judgement, Some(handshake)) = (self.phase, self.handshake.as_mut())
        else {
            return Err(NotAsked);
        };
        handshake
            .mechanism
            .answer(&handshake.own_metadata, &mut self.outgoing);
        self.phase = ConnectionPhase::Handshake;
        Ok(())
    }

    /// Refuses the peer for a reason, by convention a status code of ZAP: `400` (access denied)
    /// and `500` (the check failed) are sent as an ERROR command; `300` (temporary) is not sent,
    /// so that the peer reconnects. The driver sends the outgoing bytes, then closes.
    ///
    /// # Errors
    /// There was no peer to refuse.
    pub fn refuse(&mut self, reason: &str) -> Result<(), NotAsked> {
        if self.phase != ConnectionPhase::Judgement {
            return Err(NotAsked);
        }
        if reason != TEMPORARY_FAILURE {
            encode_error(&mut self.outgoing, reason);
        }
        self.phase = ConnectionPhase::Closed;
        Ok(())
    }

    /// Returns whether traffic after the handshake is encrypted, message by message. Then only
    /// [`encode_message_frame`](Self::encode_message_frame) creates frames that the peer can
    /// read, in the order in which they are sent. Bytes encoded for one peer are useless for
    /// another.
    #[inline]
    pub fn encrypts(&self) -> bool {
        self.cipher.is_some()
    }

    /// Appends one message frame for this peer: plain, or encrypted under the next number of the
    /// connection. `more`: further frames of the same message follow.
    ///
    /// If the connection [`encrypts`](Self::encrypts), the [`outgoing`](Self::outgoing) bytes
    /// must be sent before the frame, because their numbers are lower.
    #[inline]
    pub fn encode_message_frame(&mut self, out: &mut Vec<u8>, body: &[u8], more: bool) {
        match &mut self.cipher {
            None => encode_frame(out, body, more),
            Some(cipher) => {
                out.append(&mut self.outgoing);
                cipher.seal(out, u8::from(more) * curve::MORE, &[body]);
            }
        }
    }

    /// Appends one message frame for this peer, a client of a
    /// [`WebSocket`](crate::websocket::WebSocket), as a WebSocket frame that needs no filter.
    ///
    /// The [`outgoing`](Self::outgoing) bytes before [`Event::Ready`] must be sent before it;
    /// later ones are PING and PONG, which may be sent in any order.
    #[inline]
    pub fn encode_websocket_frame(&mut self, out: &mut Vec<u8>, body: &[u8], more: bool) {
        debug_assert!(self.rules.websocket && self.is_ready(), "there is a client");
        match &mut self.cipher {
            None => websocket::encode_frame(out, body, more),
            Some(cipher) => {
                websocket::encode_header(out, curve::OVERHEAD_BYTES + body.len(), false);
                cipher.seal_body(out, u8::from(more) * curve::MORE, &[body]);
            }
        }
    }

    /// Appends a subscription: a command to a 3.1 peer, a message to an older one.
    pub fn encode_subscribe(&mut self, out: &mut Vec<u8>, topic: &[u8]) {
        self.encode_subscription(out, topic, SUBSCRIBE, 1);
    }

    /// Appends the end of a subscription.
    pub fn encode_cancel(&mut self, out: &mut Vec<u8>, topic: &[u8]) {
        self.encode_subscription(out, topic, CANCEL, 0);
    }

    /// Appends a DISH's request to join a group of at most 255 bytes.
    pub fn encode_join(&mut self, out: &mut Vec<u8>, group: &[u8]) {
        self.encode_command(out, JOIN, group);
    }

    /// Appends a DISH's request to leave a group.
    pub fn encode_leave(&mut self, out: &mut Vec<u8>, group: &[u8]) {
        self.encode_command(out, LEAVE, group);
    }

    /// Returns the missing octets of a body begun by [`Event::FrameStart`]; 0 if there is none.
    #[inline]
    pub fn body_left(&self) -> u64 {
        if self.body_skipped { 0 } else { self.body_left }
    }

    /// Notes that the driver has read `count` octets of the body from the transport directly to
    /// their destination, without [`receive`](Self::receive). All earlier input of `receive` must
    /// have been consumed. Returns whether the body is complete.
    pub fn body_received(&mut self, count: u64) -> bool {
        debug_assert!(count <= self.body_left());
        self.liveness.traffic();
        self.body_left = self.body_left.saturating_sub(count);
        self.body_left == 0
    }

    pub(crate) fn cipher_mut(&mut self) -> Option<&mut Cipher> {
        self.cipher.as_deref_mut()
    }

    fn encode_subscription(&mut self, out: &mut Vec<u8>, topic: &[u8], name: &[u8], octet: u8) {
        if self.version >= Version::V3_1 {
            self.encode_command(out, name, topic);
        } else if let Some(cipher) = &mut self.cipher {
            out.append(&mut self.outgoing);
            cipher.seal(out, 0, &[&[octet], topic]);
        } else {
            out.extend_from_slice(frame_header(1 + topic.len(), false).as_bytes());
            out.push(octet);
            out.extend_from_slice(topic);
        }
    }

    /// Appends a command in the peer's form.
    fn encode_command(&mut self, out: &mut Vec<u8>, name: &[u8], data: &[u8]) {
        if self.cipher.is_some() {
            out.append(&mut self.outgoing);
        }
        encode_command_for(&mut self.cipher, out, name, data);
    }

    /// Appends a command of the connection itself, unless earlier ones are still unsent: the
    /// driver cannot write, or the peer does not read.
    fn say(&mut self, name: &[u8], data: &[u8]) {
        if self.outgoing.len() >= OUTGOING_BYTES_MAX {
            return;
        }
        if self.rules.websocket {
            encode_command(&mut self.outgoing, name, &[data]);
        } else {
            encode_command_for(&mut self.cipher, &mut self.outgoing, name, data);
        }
    }

    fn ping_if_due(&mut self, now_ns: u64) -> Result<(), Error> {
        if let Some(ttl_deciseconds) = self.liveness.timeout(now_ns)? {
            self.say(PING, &ttl_deciseconds.to_be_bytes());
        }
        Ok(())
    }
}

/// Appends a command, through the cipher if there is one.
fn encode_command_for(
    cipher: &mut Option<Box<Cipher>>,
    out: &mut Vec<u8>,
    name: &[u8],
    data: &[u8],
) {
    match cipher {
        None => encode_command(out, name, &[data]),
        Some(cipher) => {
            let parts: [&[u8]; 3] = [&[name.len() as u8], name, data];
            cipher.seal(out, curve::COMMAND, &parts);
        }
    }
}

impl<'b> Step<'b> {
    #[inline]
    fn of(consumed: usize, event: Event<'b>) -> Step<'b> {
        Step {
            consumed,
            event: Some(event),
            needed: 2,
        }
    }

    #[inline]
    fn wants(needed: usize) -> Step<'b> {
        Step {
            consumed: 0,
            event: None,
            needed,
        }
    }
}

/// Header of a frame of at most 255 bytes: flags and length.
pub const SHORT_HEADER_BYTES: usize = 2;
/// Maximum routing id of the RFC, in bytes.
const ROUTING_ID_BYTES_MAX: usize = 255;
/// The status code of ZAP for a temporary refusal, which is not sent to the peer.
const TEMPORARY_FAILURE: &str = "300";
/// PINGs and PONGs are not added to more unsent bytes than this: the driver cannot write, or the
/// peer does not read.
const OUTGOING_BYTES_MAX: usize = 4096;
