//! What a connection is told before it begins.

use crate::curve::{Keypair, PublicKey, SecretKey};
use crate::greeting::Version;
use crate::socket_type::SocketType;

/// How one side of a connection behaves. [`Config::new`] gives libzmq's defaults with limits.
#[derive(Debug, Clone)]
pub struct Config {
    /// Our socket type.
    pub socket_type: SocketType,
    /// The name under which a ROUTER peer files us; at most 255 bytes, not beginning with 0.
    /// Longer ones are cut. Empty: the peer invents one.
    pub routing_id: Vec<u8>,
    /// Further properties to announce, by name and value (`X-` names are the application's).
    /// A name that is empty, longer than 255 bytes or not of the RFC's characters is left out.
    pub properties: Vec<(String, Vec<u8>)>,
    /// How the peers prove who they are.
    pub security: Security,
    /// With [`Security::Null`]: ask the driver before the peer is let in
    /// ([`Credentials::Null`](crate::Credentials::Null)), as ZAP does.
    pub authenticate_null: bool,
    /// The newest version we announce.
    pub version: Version,
    /// The oldest version we accept. Below 3.0 only NULL without authentication is spoken.
    pub version_min: Version,
    /// Send the ten octets of the signature alone until the peer's have come, as libzmq does and
    /// its users' tests expect, instead of eleven (RFC 37) or the whole greeting. `false` saves
    /// half a round trip.
    pub signature_first: bool,
    /// The connection is behind a [`WebSocket`](crate::websocket::WebSocket): versions are as
    /// that makes them up, and PING and PONG are never encrypted.
    pub websocket: bool,
    /// What a peer may ask of us.
    pub limits: Limits,
    /// Bodies longer than this, in bytes, that are not yet complete come in pieces
    /// ([`Event::FrameStart`](crate::Event::FrameStart)) instead of being gathered in the
    /// driver's buffer. `None`: every body comes whole.
    pub stream_above_bytes: Option<u64>,
    /// On PUB and XPUB: once a message has begun with anything but a subscription, its later
    /// frames are no subscriptions either. libzmq's `ZMQ_ONLY_FIRST_SUBSCRIBE`, off by default.
    pub only_first_subscribe: bool,
    /// PINGs of our own; those of the peer are answered anyhow.
    pub heartbeat: Option<Heartbeat>,
    /// How long the handshake may last, in nanoseconds; 0: no limit.
    pub handshake_timeout_ns: u64,
}

impl Config {
    /// As libzmq: 30 s for the handshake.
    pub const HANDSHAKE_TIMEOUT_NS: u64 = 30_000_000_000;

    /// NULL, every version, default limits, no heartbeat.
    pub fn new(socket_type: SocketType) -> Config {
        Config {
            socket_type,
            routing_id: Vec::new(),
            properties: Vec::new(),
            security: Security::Null,
            authenticate_null: false,
            version: Version::V3_1,
            version_min: Version::V2_0,
            signature_first: true,
            websocket: false,
            limits: Limits::default(),
            stream_above_bytes: None,
            only_first_subscribe: false,
            heartbeat: None,
            handshake_timeout_ns: Config::HANDSHAKE_TIMEOUT_NS,
        }
    }

    /// Whether a peer that stops at ZMTP 2.0, which knows no security, may be talked to.
    pub(crate) fn accepts_2_0(&self) -> bool {
        self.version_min == Version::V2_0
            && matches!(self.security, Security::Null)
            && !self.authenticate_null
    }
}

/// The security mechanism and our part in it. Both peers must name the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Security {
    /// No authentication.
    Null,
    /// We show a user name and a password, in clear text; each is cut to 255 bytes.
    PlainClient {
        /// User name.
        username: Vec<u8>,
        /// Password.
        password: Vec<u8>,
    },
    /// We ask for a user name and a password
    /// ([`Credentials::Plain`](crate::Credentials::Plain)).
    PlainServer,
    /// We prove to hold a secret key, to a server whose public key we know; all traffic is
    /// encrypted.
    CurveClient {
        /// Our permanent keys.
        keys: Keypair,
        /// The server's permanent public key.
        server_key: PublicKey,
    },
    /// We hold the key that clients know us by, and ask who they are
    /// ([`Credentials::Curve`](crate::Credentials::Curve)); all traffic is encrypted.
    CurveServer {
        /// Our permanent secret key.
        secret_key: SecretKey,
    },
}

impl Security {
    pub(crate) const fn is_server(&self) -> bool {
        matches!(self, Security::PlainServer | Security::CurveServer { .. })
    }
}

/// When to ask a silent peer whether it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Time between two PINGs, in nanoseconds; at least 1 ms is taken.
    pub interval_ns: u64,
    /// The silence after which the peer should give us up, in tenths of a second; 0: none.
    pub ttl_deciseconds: u16,
    /// How long after a PING any traffic must come, in nanoseconds; 0: no limit.
    pub timeout_ns: u64,
}

impl Heartbeat {
    /// As libzmq does when only the interval is set: that is the timeout too, and no TTL.
    pub const fn every(interval_ns: u64) -> Heartbeat {
        Heartbeat {
            interval_ns,
            ttl_deciseconds: 0,
            timeout_ns: interval_ns,
        }
    }
}

/// What a peer may make us hold or do. All lengths in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest body of a message frame. A longer one is refused at its header.
    pub frame_bytes_max: u64,
    /// Longest body of a command after the handshake, subscriptions excepted.
    pub command_bytes_max: u64,
    /// Longest body of a handshake command: what a stranger may make us buffer.
    pub handshake_bytes_max: u64,
    /// Most properties in the peer's metadata.
    pub metadata_properties_max: usize,
    /// Longest topic of a subscription.
    pub subscription_bytes_max: u64,
}

impl Limits {
    /// 1 GiB: far above what is sent in one frame, far below what would exhaust a machine by one
    /// claimed length. libzmq has no limit.
    pub const FRAME_BYTES_MAX: u64 = 1 << 30;
    /// 4 KiB: the longest command we know beside a subscription, ERROR, has 262 bytes; the rest
    /// is room for commands to come, which are read over.
    pub const COMMAND_BYTES_MAX: u64 = 4 << 10;
    /// 16 KiB: a libzmq READY has some 30 to 300 bytes; the rest is room for the application's
    /// own properties.
    pub const HANDSHAKE_BYTES_MAX: u64 = 16 << 10;
    /// 64: the RFC defines three, the rest are the application's own.
    pub const METADATA_PROPERTIES_MAX: usize = 64;
    /// 64 KiB: topics are names; the index keeps every byte of them for each publisher.
    pub const SUBSCRIPTION_BYTES_MAX: u64 = 64 << 10;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame_bytes_max: Limits::FRAME_BYTES_MAX,
            command_bytes_max: Limits::COMMAND_BYTES_MAX,
            handshake_bytes_max: Limits::HANDSHAKE_BYTES_MAX,
            metadata_properties_max: Limits::METADATA_PROPERTIES_MAX,
            subscription_bytes_max: Limits::SUBSCRIPTION_BYTES_MAX,
        }
    }
}
