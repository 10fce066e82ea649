//! One side of one connection.

mod encrypted;
mod handshake;
mod traffic;

use crate::command::{CANCEL, JOIN, LEAVE, PING, SUBSCRIBE, encode_command, encode_error};
use crate::config::Config;
use crate::curve::{self, Cipher, Randomness};
use crate::error::Error;
use crate::frame::{FLAGS_3, encode_frame, frame_header};
use crate::greeting::{Greeting, Version};
use crate::liveness::Liveness;
use crate::mechanism::{Mechanism, own_metadata};
use crate::metadata::Metadata;
use crate::socket_type::SocketType;

/// One side of one ZeroMQ connection: greeting, handshake, then traffic.
///
/// The driver owns the bytes. In a loop it
/// * hands what it has read to [`receive`](Self::receive), drops `consumed` bytes of it and acts
///   on the event, until a step has neither;
/// * writes [`outgoing`](Self::outgoing) out, at the latest then. After the handshake it does so
///   between two messages, never between two frames of one;
/// * calls [`timeout`](Self::timeout) at [`deadline_ns`](Self::deadline_ns).
///
/// Times are nanoseconds of any clock that does not go back.
#[derive(Debug)]
pub struct Connection {
    phase: Phase,
    /// The flags that a frame of the agreed version may have.
    known_flags: u8,
    /// What the peer's frames are to us.
    audience: Audience,
    /// The rest of a body that comes in pieces; 0: a frame's header is next.
    body_left: u64,
    /// The pieces are dropped.
    body_skipped: bool,
    /// Octets at the front of the driver's buffer that the last step already saw.
    seen: usize,
    liveness: Liveness,
    outgoing: Vec<u8>,
    /// What encrypts traffic, in `Phase::Encrypted`.
    cipher: Option<Box<Cipher>>,
    config: Config,
    version: Version,
    peer: Option<Peer>,
    /// What only the handshake needs; freed at its end.
    handshake: Option<Box<Handshake>>,
    handshake_deadline_ns: Option<u64>,
}

/// What [`Connection::receive`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'b> {
    /// Bytes at the front of the input that are consumed; the event may borrow from them.
    pub consumed: usize,
    /// What happened, if anything did. With neither bytes consumed nor an event, more bytes are
    /// wanted (or an answer, after [`Event::Authenticate`]).
    pub event: Option<Event<'b>>,
    /// How long the input must be at least, behind what was consumed, to bring the next step.
    /// A hint for the size of the next read; 0 where bytes alone bring nothing.
    pub needed: usize,
}

/// What came from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'b> {
    /// The peer wants to be let in: answer by [`Connection::accept`] or [`Connection::refuse`].
    Authenticate(Credentials<'b>),
    /// The handshake is done: [`Connection::peer`] is known and messages may flow, behind what
    /// is [`outgoing`](Connection::outgoing) now: the end of our own part of the handshake.
    Ready,
    /// A frame of a message, whole.
    Frame {
        /// Its body.
        body: &'b [u8],
        /// Further frames of the same message follow.
        more: bool,
    },
    /// A frame that comes in pieces, because it is longer than
    /// [`Config::stream_above_bytes`] and not all here. Its body follows as
    /// [`Event::FrameChunk`]s, or is read past the machine
    /// ([`Connection::body_received`]).
    FrameStart {
        /// Octets of the whole body; within
        /// [`Limits::frame_bytes_max`](crate::Limits::frame_bytes_max).
        length: u64,
        /// Further frames of the same message follow.
        more: bool,
    },
    /// The next piece of the body.
    FrameChunk {
        /// The piece; never empty.
        bytes: &'b [u8],
        /// The body is complete with it.
        last: bool,
    },
    /// On PUB and XPUB: the peer wants what begins with these bytes.
    Subscribe(&'b [u8]),
    /// On PUB and XPUB: it wants it no more.
    Cancel(&'b [u8]),
    /// On RADIO: the peer joins this group.
    Join(&'b [u8]),
    /// On RADIO: the peer leaves this group.
    Leave(&'b [u8]),
    /// The peer refuses us, with this reason (a ZAP status code such as `400` from libzmq, see
    /// [`status_code`](crate::status_code)). The connection is over; do not come back with the
    /// same credentials.
    PeerError(&'b [u8]),
}

/// How a peer says who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credentials<'b> {
    /// It does not: NULL, where [`Config::authenticate_null`] asks for a judgement by address.
    Null,
    /// PLAIN.
    Plain {
        /// User name, at most 255 bytes.
        username: &'b [u8],
        /// Password, at most 255 bytes.
        password: &'b [u8],
    },
    /// CURVE: it has proved to hold the secret key to this public key.
    Curve {
        /// The peer's permanent public key.
        public_key: [u8; 32],
    },
}

/// What is known of the peer once the connection is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The version spoken: the lower of the two announced.
    pub version: Version,
    /// Its socket type, if it named one; compatible with ours.
    pub socket_type: Option<SocketType>,
    /// Its routing id; empty if it named none. Only REQ, DEALER and ROUTER have one.
    pub routing_id: Vec<u8>,
    /// All that it announced, the two above included; empty from a 2.0 peer.
    pub metadata: Metadata,
}

/// There was nothing to accept or refuse: a mistake of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer has not requested admission")]
pub struct NotAsked;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Greeting,
    /// The routing id of a 2.0 peer is next.
    RoutingId(SocketType),
    Handshake,
    /// The driver is judging credentials.
    Judgement,
    Traffic,
    /// The same through the cipher.
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
        /// The next frame belongs to the message before it.
        amid_message: bool,
        /// A frame amid a message may be a subscription.
        later_frames_subscribe: bool,
    },
}

#[derive(Debug)]
struct Handshake {
    greeting: Greeting,
    mechanism: Mechanism,
    own_metadata: Vec<u8>,
}

impl Connection {
    /// Begins a connection; the first bytes to send are at once in [`outgoing`](Self::outgoing).
    pub fn new(config: Config, now_ns: u64) -> Connection {
        Connection::with_randomness(config, now_ns, curve::system_randomness)
    }

    /// With random numbers that a test can foresee.
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
            // 2.0 has no mechanism: announcing it would drop the security that was asked for.
            config.version = config.version.max(Version::V3_0);
        }
        let mut outgoing = Vec::with_capacity(128);
        let handshake = Handshake {
            greeting: Greeting::begin(&config, &mut outgoing),
            mechanism: Mechanism::new(&config, randomness),
            own_metadata: own_metadata(&config),
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
            phase: Phase::Greeting,
            known_flags: FLAGS_3,
            audience,
            body_left: 0,
            body_skipped: false,
            seen: 0,
            liveness: Liveness::new(config.heartbeat),
            outgoing,
            cipher: None,
            version: config.version,
            config,
            peer: None,
            handshake: Some(Box::new(handshake)),
            handshake_deadline_ns: (timeout_ns > 0).then(|| now_ns.saturating_add(timeout_ns)),
        }
    }

    /// Takes one step over the bytes read and not yet consumed. Call it in a loop.
    ///
    /// The event borrows from the input, or from the machine itself where the peer's traffic is
    /// encrypted ([`encrypts`](Self::encrypts)).
    ///
    /// # Errors
    /// The peer broke the protocol or a limit: write what is outgoing and close.
    #[inline]
    pub fn receive<'b>(&'b mut self, input: &'b [u8], now_ns: u64) -> Result<Step<'b>, Error> {
        if input.len() > self.seen {
            self.liveness.traffic();
        }
        let step = match self.phase {
            Phase::Traffic => self.receive_traffic(input, now_ns),
            Phase::Encrypted => return self.receive_encrypted(input, now_ns),
            _ => self.receive_handshake(input, now_ns),
        };
        match &step {
            Ok(step) => self.seen = input.len() - step.consumed,
            Err(_) => self.phase = Phase::Closed,
        }
        step
    }

    /// The short way of a message of one frame of at most 255 bytes, not encrypted, that is at the
    /// front of the input: its body, behind a header of [`SHORT_HEADER_BYTES`], all of which is
    /// consumed. `None`: nothing was, [`receive`](Self::receive) says what there is.
    #[inline]
    pub fn receive_short<'b>(&mut self, input: &'b [u8]) -> Option<&'b [u8]> {
        let ([flags, length], rest) = input.split_first_chunk()?;
        let is_plain = self.phase == Phase::Traffic
            && self.audience == Audience::Receiver
            && self.body_left == 0;
        if *flags != 0 || !is_plain || u64::from(*length) > self.config.limits.frame_bytes_max {
            return None;
        }
        let body = rest.get(..usize::from(*length))?;
        if input.len() > self.seen {
            self.liveness.traffic();
        }
        self.seen = rest.len() - body.len();
        Some(body)
    }

    /// What the machine itself wants to send. The driver takes it out from the front.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// When [`timeout`](Self::timeout) is to be called, if nothing comes before.
    pub fn deadline_ns(&self) -> Option<u64> {
        match self.phase {
            Phase::Closed => None,
            Phase::Traffic | Phase::Encrypted => self.liveness.deadline_ns(),
            _ => self.handshake_deadline_ns,
        }
    }

    /// The deadline came. Asking too early does no harm.
    ///
    /// # Errors
    /// The peer is given up: close.
    pub fn timeout(&mut self, now_ns: u64) -> Result<(), Error> {
        let result = match self.phase {
            Phase::Closed => Err(Error::Closed),
            Phase::Traffic | Phase::Encrypted => self.ping_if_due(now_ns),
            _ if self
                .handshake_deadline_ns
                .is_some_and(|deadline| deadline <= now_ns) =>
            {
                Err(Error::HandshakeTimeout)
            }
            _ => Ok(()),
        };
        if result.is_err() {
            self.phase = Phase::Closed;
        }
        result
    }

    /// Whether the handshake is done and the connection alive: messages may be sent.
    #[inline]
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Traffic | Phase::Encrypted)
    }

    /// The peer, from [`Event::Ready`] on.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// Lets the peer in whose credentials came by [`Event::Authenticate`]. Then
    /// [`receive`](Self::receive) goes on with what input there is, even none.
    ///
    /// # Errors
    /// There was no such event.
    pub fn accept(&mut self) -> Result<(), NotAsked> {
        let (Phase::Judgement, Some(handshake)) = (self.phase, self.handshake.as_mut()) else {
            return Err(NotAsked);
        };
        handshake
            .mechanism
            .answer(&handshake.own_metadata, &mut self.outgoing);
        self.phase = Phase::Handshake;
        Ok(())
    }

    /// Sends the peer away with a reason, which is the status code of ZAP by custom: `400` (it is
    /// not let in) and `500` (the judge failed) are told by an ERROR command, `300` (not now) is
    /// not told at all, so that the peer comes back. The driver writes what is outgoing, then
    /// closes.
    ///
    /// # Errors
    /// There was no peer to refuse.
    pub fn refuse(&mut self, reason: &str) -> Result<(), NotAsked> {
        if self.phase != Phase::Judgement {
            return Err(NotAsked);
        }
        if reason != TEMPORARY_FAILURE {
            encode_error(&mut self.outgoing, reason);
        }
        self.phase = Phase::Closed;
        Ok(())
    }

    /// Whether what is sent and received after the handshake is encrypted, message by message:
    /// then only [`encode_message_frame`](Self::encode_message_frame) makes frames that the peer
    /// can read, in the order in which they will be sent, and no bytes encoded for one peer are
    /// of use to another.
    #[inline]
    pub fn encrypts(&self) -> bool {
        self.cipher.is_some()
    }

    /// Appends one message frame as this peer is to have it: plain, or encrypted under the next
    /// number of the connection. `more`: further frames of the same message follow.
    ///
    /// Where the connection [`encrypts`](Self::encrypts), what is [`outgoing`](Self::outgoing)
    /// goes out before the frame, because its numbers are lower.
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

    /// Appends a subscription: a command to a 3.1 peer, a message to an older one.
    pub fn encode_subscribe(&mut self, out: &mut Vec<u8>, topic: &[u8]) {
        self.encode_subscription(out, topic, SUBSCRIBE, 1);
    }

    /// Appends the end of a subscription.
    pub fn encode_cancel(&mut self, out: &mut Vec<u8>, topic: &[u8]) {
        self.encode_subscription(out, topic, CANCEL, 0);
    }

    /// Appends a DISH's wish to join a group, which has at most 255 bytes.
    pub fn encode_join(&mut self, out: &mut Vec<u8>, group: &[u8]) {
        self.encode_command(out, JOIN, group);
    }

    /// Appends a DISH's wish to leave a group.
    pub fn encode_leave(&mut self, out: &mut Vec<u8>, group: &[u8]) {
        self.encode_command(out, LEAVE, group);
    }

    /// Octets that are still to come of a body begun by [`Event::FrameStart`]; else 0.
    #[inline]
    pub fn body_left(&self) -> u64 {
        if self.body_skipped { 0 } else { self.body_left }
    }

    /// Says that the driver has read `count` octets of the body from the transport straight to
    /// where they belong, past [`receive`](Self::receive). The input given to `receive` before
    /// must have been used up. Returns whether the body is complete.
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

    /// Appends a command as this peer is to have it.
    fn encode_command(&mut self, out: &mut Vec<u8>, name: &[u8], data: &[u8]) {
        if self.cipher.is_some() {
            out.append(&mut self.outgoing);
        }
        encode_command_for(&mut self.cipher, out, name, data);
    }

    /// Says a command of the machine's own, unless the last ones are still unsent: the driver
    /// cannot write, or the peer does not read.
    fn say(&mut self, name: &[u8], data: &[u8]) {
        if self.outgoing.len() >= OUTGOING_BYTES_MAX {
            return;
        }
        if self.config.websocket {
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

/// A command, through the cipher if there is one.
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

/// The header of a frame of at most 255 bytes: flags, and its length.
pub const SHORT_HEADER_BYTES: usize = 2;
/// The longest routing id of the RFC.
const ROUTING_ID_BYTES_MAX: usize = 255;
/// The status code of ZAP for a refusal that may not last: the peer is not to be told.
const TEMPORARY_FAILURE: &str = "300";
/// PINGs and PONGs are not added to more than this: the driver cannot write, or the peer does
/// not read.
const OUTGOING_BYTES_MAX: usize = 4096;
