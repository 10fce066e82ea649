//! The settings of a connection.

use crate::curve::{Keypair, PublicKey, SecretKey};
use crate::greeting::Version;
use crate::socket_type::SocketType;

/// Settings of one side of a connection. [`Config::new`] returns libzmq's defaults with limits.
#[derive(Debug, Clone)]
pub struct Config {
    /// Our socket type.
    pub socket_type: SocketType,
    /// The name by which a ROUTER peer identifies us: at most 255 bytes, not beginning with 0. A
    /// longer name is cut. If empty, the peer generates one.
    pub routing_id: Vec<u8>,
    /// Further properties to announce, by name and value (`X-` names are the application's). A
    /// name that is empty, longer than 255 bytes, or with illegal characters is left out.
    pub properties: Vec<(String, Vec<u8>)>,
    /// How the peers authenticate.
    pub security: Security,
    /// With [`Security::Null`]: whether the driver must accept the peer first
    /// ([`Credentials::Null`](crate::Credentials::Null)), as in ZAP.
    pub authenticate_null: bool,
    /// The newest version we announce.
    pub version: Version,
    /// The oldest version we accept. Below 3.0 only NULL without authentication is possible.
    pub version_min: Version,
    /// Whether to send only the ten octets of the signature until the peer's have arrived, as
    /// libzmq does and tests of its users expect, instead of eleven (RFC 37) or the whole
    /// greeting. `false` saves half a round trip.
    pub signature_first: bool,
    /// Whether the connection is behind a [`WebSocket`](crate::websocket::WebSocket), which then
    /// generates the greetings. PING and PONG are then never encrypted.
    pub websocket: bool,
    /// Limits on the peer.
    pub limits: Limits,
    /// Incomplete bodies longer than this, in bytes, are passed on in pieces
    /// ([`Event::FrameStart`](crate::Event::FrameStart)) instead of collected in the driver's
    /// buffer. `None`: every body is passed on whole.
    pub stream_above_bytes: Option<u64>,
    /// For PUB and XPUB: if a message begins with a frame that is no subscription, its later
    /// frames are no subscriptions either. libzmq's `ZMQ_ONLY_FIRST_SUBSCRIBE`, off by default.
    pub only_first_subscribe: bool,
    /// For XPUB: frames of a message that has several are passed on as they are, and the driver
    /// tells which of them are subscriptions once the message is complete. `false`: each
    /// subscription is an event of its own, and the other frames are the message.
    pub whole_messages: bool,
    /// Our own PINGs; those of the peer are always answered.
    pub heartbeat: Option<Heartbeat>,
    /// Maximum duration of the handshake in nanoseconds; 0 for no limit.
    pub handshake_timeout_ns: u64,
}

impl Config {
    /// The handshake timeout of libzmq: 30 s.
    pub const HANDSHAKE_TIMEOUT_NS: u64 = 30_000_000_000;

    /// Creates settings with NULL, every version, default limits, and no heartbeat.
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
            whole_messages: false,
            heartbeat: None,
            handshake_timeout_ns: Config::HANDSHAKE_TIMEOUT_NS,
        }
    }

    /// Returns whether a peer that stops at ZMTP 2.0, which has no security, is allowed.
    pub(crate) fn accepts_2_0(&self) -> bool {
        self.version_min == Version::V2_0
            && matches!(self.security, Security::Null)
            && !self.authenticate_null
    }
}

/// The security mechanism and our role in it. Both peers must use the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Security {
    /// No authentication.
    Null,
    /// We send a user name and a password in clear text; each is cut to 255 bytes.
    PlainClient {
        /// User name.
        username: Vec<u8>,
        /// Password.
        password: Vec<u8>,
    },
    /// We request a user name and a password ([`Credentials::Plain`](crate::Credentials::Plain)).
    PlainServer,
    /// We prove that we hold a secret key, to a server whose public key we know. All traffic is
    /// encrypted.
    CurveClient {
        /// Our permanent keys.
        keys: Keypair,
        /// The server's permanent public key.
        server_key: PublicKey,
    },
    /// We hold the server key and request the client's identity
    /// ([`Credentials::Curve`](crate::Credentials::Curve)). All traffic is encrypted.
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

/// Heartbeats for a silent peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Time between two PINGs in nanoseconds; at least 1 ms is used.
    pub interval_ns: u64,
    /// The silence after which the peer should close the connection, in tenths of a second; 0 for
    /// none.
    pub ttl_deciseconds: u16,
    /// Time after a PING until any traffic must arrive, in nanoseconds; 0 for no limit.
    pub timeout_ns: u64,
}

impl Heartbeat {
    /// Creates heartbeats as libzmq does with only an interval: the interval is also the timeout,
    /// and there is no TTL.
    pub const fn every(interval_ns: u64) -> Heartbeat {
        Heartbeat {
            interval_ns,
            ttl_deciseconds: 0,
            timeout_ns: interval_ns,
        }
    }
}

/// Limits on what a peer can make us store or do. All lengths in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum body of a message frame. A longer one is refused at its header.
    pub frame_bytes_max: u64,
    /// Maximum body of a command after the handshake, except subscriptions.
    pub command_bytes_max: u64,
    /// Maximum body of a handshake command: what an unauthenticated peer can make us buffer.
    pub handshake_bytes_max: u64,
    /// Maximum number of properties in the peer's metadata.
    pub metadata_properties_max: usize,
    /// Maximum topic of a subscription.
    pub subscription_bytes_max: u64,
}

impl Limits {
    /// 1 GiB: far above the usual frames, and far below what would exhaust a machine by one
    /// claimed length. libzmq has no limit.
    pub const FRAME_BYTES_MAX: u64 = 1 << 30;
    /// 4 KiB: the longest known command except a subscription, ERROR, has 262 bytes. The rest is
    /// room for future commands, which are skipped.
    pub const COMMAND_BYTES_MAX: u64 = 4 << 10;
    /// 16 KiB: a READY of libzmq has about 30 to 300 bytes. The rest is room for properties of
    /// the application.
    pub const HANDSHAKE_BYTES_MAX: u64 = 16 << 10;
    /// 64: the RFC defines three, the others are the application's.
    pub const METADATA_PROPERTIES_MAX: usize = 64;
    /// 64 KiB: topics are names, and the index stores all their bytes for each publisher.
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
