//! The socket options: one record each, and what a program has set. Defaults are libzmq's.
//!
//! A record is `NAME: Kind = number => field: Type = default, values;`. `Kind` is the type of the
//! option's value in Rust; without it the option has no public name. An option without a field is
//! not stored under its own name. `values` is the range of an option that C passes as an `int`
//! and that needs no other check; the rest are set and read in `option_table`.

use std::ops::RangeInclusive;

use tidewire_rings::Patience;

use crate::error::Error;
use crate::kind::SocketType;
use crate::option_kinds::{Interval, Key, Limit, Long, Number, Octets, SocketOption, Switch, Text};
use crate::own_options as own;
use crate::topic_queue::Limits;

macro_rules! options {
    ($(
        $(#[$docs:meta])*
        $name:ident $(: $kind:ident)? = $number:expr
        $(=> $field:ident: $type:ty = $default:expr $(, $values:expr)?)?;
    )*) => {
        /// The options by name, each with the type of its value.
        pub(crate) mod names {
            use super::*;
            $(name! { $(#[$docs])* $name $($kind)? })*
        }

        /// libzmq's numbers of the options.
        pub(crate) mod number {
            use super::own;
            $(pub(crate) const $name: i32 = $number;)*
        }

        /// The settings of one socket. Times are in milliseconds; -1 means "no timeout" or
        /// "not set".
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct Options {
            $($(pub(crate) $field: $type,)?)*
        }

        impl Default for Options {
            fn default() -> Options {
                Options {
                    $($($field: $default,)?)*
                }
            }
        }

        const INTS: &[IntOption] = &[$($($(IntOption {
            number: number::$name,
            values: $values,
            read: |options| i32::from(options.$field),
            write: |options, value| options.$field.write(value),
        },)?)?)*];

        #[cfg(test)]
        pub(crate) const NUMBERS: &[(&str, i32)] = &[$((stringify!($name), number::$name)),*];
    };
}

/// The public constant of an option, if it has a kind.
macro_rules! name {
    ($(#[$docs:meta])* $name:ident) => {};
    ($(#[$docs:meta])* $name:ident $kind:ident) => {
        $(#[$docs])*
        pub const $name: SocketOption<$kind> = SocketOption::new(super::number::$name);
    };
}

options! {
    /// The name under which a ROUTER files this socket.
    ROUTING_ID: Octets = 5 => routing_id: Vec<u8> = Vec::new();
    /// The name under which a ROUTER or STREAM files the next peer that it connects to.
    CONNECT_ROUTING_ID: Octets = 61 => connect_routing_id: Vec<u8> = Vec::new();
    /// SUB, and XPUB in manual mode: subscribes to messages that begin with this.
    SUBSCRIBE: Octets = 6;
    /// Cancels a subscription.
    UNSUBSCRIBE: Octets = 7;
    /// ROUTER, DEALER, REQ: sends an empty message to every new peer.
    PROBE_ROUTER: Switch = 51 => probe_router: bool = false, 0..=MAX;
    /// REQ: replies must carry the number of the request.
    REQ_CORRELATE: Switch = 52 => request_correlate: bool = false, 0..=MAX;
    /// REQ: the next request may come before the reply.
    REQ_RELAXED: Switch = 53 => request_relaxed: bool = false, 0..=MAX;
    /// ROUTER: a message that cannot be delivered is an error.
    ROUTER_MANDATORY: Switch = 33 => router_mandatory: bool = false, 0..=MAX;
    /// ROUTER: a new peer takes over a name that is in use.
    ROUTER_HANDOVER: Switch = 56 => router_handover: bool = false, 0..=MAX;
    /// ROUTER: bytes without any framing.
    ROUTER_RAW: Switch = 41 => router_raw: bool = false, 0..=MAX;
    /// ROUTER: an empty message for a peer that comes (1), goes (2), or both (3).
    ROUTER_NOTIFY: Number = 97 => router_notify: i32 = 0, 0..=3;
    /// XPUB: the program receives every subscription, also repeated ones.
    XPUB_VERBOSE: Switch = 40 => xpub_verbose: bool = false, 0..=MAX;
    /// XPUB: the program receives every subscription and every cancellation.
    XPUB_VERBOSER: Switch = 78 => xpub_verboser: bool = false, 0..=1;
    /// PUB and XPUB: a send waits for subscribers that are full.
    XPUB_NODROP: Switch = 69 => xpub_no_drop: bool = false, 0..=MAX;
    /// XPUB: manual mode, in which the program itself subscribes its peers.
    XPUB_MANUAL: Switch = 71 => xpub_manual: bool = false, 0..=MAX;
    /// XPUB in manual mode: the next message is for the last subscriber alone.
    XPUB_MANUAL_LAST_VALUE: Switch = 98 => xpub_manual_last_value: bool = false, 0..=MAX;
    /// PUB and XPUB: the first message to every subscriber.
    XPUB_WELCOME_MSG: Octets = 72 => xpub_welcome: Option<Vec<u8>> = None;
    /// XSUB: every cancellation is passed on.
    XSUB_VERBOSE_UNSUBSCRIBE: Switch = 115 => xsub_verbose_unsubscribe: bool = false, MIN..=MAX;
    /// XPUB and XSUB: only the first frame of a message may be a subscription.
    ONLY_FIRST_SUBSCRIBE: Switch = 108 => only_first_subscribe: bool = false, 0..=MAX;
    /// PUB, XPUB and SUB: a subscription excludes messages instead of selecting them.
    INVERT_MATCHING: Switch = 74 => invert_matching: bool = false, MIN..=MAX;
    /// Publishers and subscribers: the number of topics subscribed to.
    TOPICS_COUNT: Number = 116;
    /// Only the last message of each peer is kept.
    CONFLATE: Switch = 54 => conflate: bool = false, 0..=1;
    /// STREAM, and ROUTER in raw mode: an empty message for a peer that comes or goes.
    STREAM_NOTIFY: Switch = 73 => stream_notify: bool = true, 0..=1;
    /// ROUTER and DEALER: the first message to every peer.
    HELLO_MSG: Octets = 110 => hello_message: Vec<u8> = Vec::new();
    /// ROUTER: the message that is received when a peer disconnects.
    DISCONNECT_MSG: Octets = 111 => disconnect_message: Vec<u8> = Vec::new();
    /// DEALER: the message that is received when the connection is lost.
    HICCUP_MSG: Octets = 114 => hiccup_message: Vec<u8> = Vec::new();

    /// Further frames of the message follow.
    RCVMORE: Switch = 13;
    /// The socket's type.
    TYPE: Number = 16;
    /// The endpoint of the last bind or connect.
    LAST_ENDPOINT: Text = 32;
    /// 0: NULL, 1: PLAIN, 2: CURVE.
    MECHANISM: Number = 43 => security: Security = Security::default();

    /// Messages that may wait for a peer; 0: any number.
    SNDHWM: Number = 23 => send_high_water: i32 = 1000, 0..=MAX;
    /// Messages that may wait for the program; 0: any number.
    RCVHWM: Number = 24 => receive_high_water: i32 = 1000, 0..=MAX;
    /// Bytes of the kernel's buffer; -1: the system's default.
    SNDBUF: Number = 11 => send_buffer_bytes: i32 = -1, -1..=MAX;
    /// Bytes of the kernel's buffer; -1: the system's default.
    RCVBUF: Number = 12 => receive_buffer_bytes: i32 = -1, -1..=MAX;
    /// The longest frame that a peer may send; -1: any.
    MAXMSGSIZE: Long = 22 => message_bytes_max: i64 = -1;
    /// Timeout of a send.
    SNDTIMEO: Limit = 28 => send_timeout_ms: i32 = -1, -1..=MAX;
    /// Timeout of a receive.
    RCVTIMEO: Limit = 27 => receive_timeout_ms: i32 = -1, -1..=MAX;
    /// How long messages are still sent after the close.
    LINGER: Limit = 17 => linger_ms: i32 = -1, -1..=MAX;
    /// Timeout of the handshake.
    HANDSHAKE_IVL: Interval = 66 => handshake_interval_ms: i32 = 30_000, 0..=MAX;
    /// Interval between PINGs to a peer.
    HEARTBEAT_IVL: Interval = 75 => heartbeat_interval_ms: i32 = 0, 0..=MAX;
    /// Time of silence after which the peer closes the connection; in steps of 0.1 s.
    HEARTBEAT_TTL: Interval = 76 => heartbeat_ttl_deciseconds: u16 = 0;
    /// Timeout of the answer to a PING.
    HEARTBEAT_TIMEOUT: Interval = 77 => heartbeat_timeout_ms: i32 = -1, 0..=MAX;

    /// Connections that may wait to be accepted.
    BACKLOG: Number = 19 => backlog: i32 = 100, 0..=MAX;
    /// Messages go only to peers that are connected.
    IMMEDIATE: Switch = 39 => immediate: bool = false, 0..=1;
    /// Interval before the next attempt to connect; `None`: no further attempt.
    RECONNECT_IVL: Limit = 18 => reconnect_interval_ms: i32 = 100, -1..=MAX;
    /// The longest interval between attempts; zero: the interval does not grow.
    RECONNECT_IVL_MAX: Interval = 21 => reconnect_interval_max_ms: i32 = 0, 0..=MAX;
    /// What ends the attempts: 1 a refusal, 2 a failed handshake; the sum for both.
    RECONNECT_STOP: Number = 109 => reconnect_stop: i32 = 0, MIN..=MAX;
    /// Timeout of an attempt to connect.
    CONNECT_TIMEOUT: Interval = 79 => connect_timeout_ms: i32 = 0, 0..=MAX;
    /// IPv6 beside IPv4.
    IPV6: Switch = 42 => ipv6: bool = false, 0..=1;
    /// 1: on, 0: off, -1: the system's default.
    TCP_KEEPALIVE: Number = 34 => tcp_keepalive: i32 = -1, -1..=1;
    /// Number of probes; -1: the system's default.
    TCP_KEEPALIVE_CNT: Number = 35 => tcp_keepalive_count: i32 = -1, -1..=MAX;
    /// Seconds before the first probe; -1: the system's default.
    TCP_KEEPALIVE_IDLE: Number = 36 => tcp_keepalive_idle: i32 = -1, -1..=MAX;
    /// Seconds between probes; -1: the system's default.
    TCP_KEEPALIVE_INTVL: Number = 37 => tcp_keepalive_interval: i32 = -1, -1..=MAX;
    /// How long sent bytes may stay unacknowledged.
    TCP_MAXRT: Interval = 80 => tcp_retransmit_ms: i32 = 0, 0..=MAX;
    /// The type of service in the packets.
    TOS: Number = 57 => type_of_service: i32 = 0, 0..=MAX;
    /// The priority of the packets in this machine.
    PRIORITY: Number = 112 => priority: i32 = 0, 0..=MAX;
    /// Microseconds that the kernel polls the device.
    BUSY_POLL: Number = 113 => busy_poll: i32 = 0, MIN..=MAX;
    /// The network device to use.
    BINDTODEVICE: Text = 92 => device: Vec<u8> = Vec::new();
    /// Host and port of a SOCKS5 proxy.
    SOCKS_PROXY: Text = 68 => socks_proxy: Vec<u8> = Vec::new();
    /// The user name at the proxy.
    SOCKS_USERNAME: Text = 99 => socks_username: Vec<u8> = Vec::new();
    /// The password at the proxy.
    SOCKS_PASSWORD: Text = 100 => socks_password: Vec<u8> = Vec::new();
    /// `X-name:value`, sent to every peer; may be set several times.
    METADATA: Text = 95 => metadata: Vec<(String, Vec<u8>)> = Vec::new();

    /// The domain of ZAP requests.
    ZAP_DOMAIN: Text = 55 => zap_domain: Vec<u8> = Vec::new();
    /// Whether peers are refused if no ZAP domain is set.
    ZAP_ENFORCE_DOMAIN: Switch = 93 => zap_enforce_domain: bool = false, MIN..=MAX;
    /// This side is the server of PLAIN.
    PLAIN_SERVER: Switch = 44;
    /// The user name of PLAIN.
    PLAIN_USERNAME: Text = 45;
    /// The password of PLAIN.
    PLAIN_PASSWORD: Text = 46;
    /// This side is the server of CURVE.
    CURVE_SERVER: Switch = 47;
    /// Our public key.
    CURVE_PUBLICKEY: Key = 48;
    /// Our secret key.
    CURVE_SECRETKEY: Key = 49;
    /// The public key of the server that we connect to.
    CURVE_SERVERKEY: Key = 50;

    /// The private key of a server's certificate over `wss://`, in PEM.
    WSS_KEY_PEM: Text = 103 => wss_key_pem: Vec<u8> = Vec::new();
    /// The certificate of a server over `wss://`, in PEM, with those that lead to its issuer.
    WSS_CERT_PEM: Text = 104 => wss_certificate_pem: Vec<u8> = Vec::new();
    /// The certificates that are trusted over `wss://`, in PEM.
    WSS_TRUST_PEM: Text = 105 => wss_trust_pem: Vec<u8> = Vec::new();
    /// The name that a server's certificate must be valid for; the endpoint's host if it is empty.
    WSS_HOSTNAME: Text = 106 => wss_hostname: Vec<u8> = Vec::new();
    /// The certificates that the system trusts are trusted too.
    WSS_TRUST_SYSTEM: Switch = 107 => wss_trust_system: bool = false, 0..=1;

    /// [`own_options::SNDHWM_BYTES`](crate::own_options::SNDHWM_BYTES).
    SNDHWM_BYTES: Number = own::SNDHWM_BYTES => send_high_water_bytes: i32 = 0, 0..=MAX;
    /// [`own_options::RCVHWM_BYTES`](crate::own_options::RCVHWM_BYTES).
    RCVHWM_BYTES: Number = own::RCVHWM_BYTES => receive_high_water_bytes: i32 = 0, 0..=MAX;
    /// [`own_options::HANDSHAKES_MAX`](crate::own_options::HANDSHAKES_MAX).
    HANDSHAKES_MAX: Number = own::HANDSHAKES_MAX => handshakes_max: i32 = 0, 0..=MAX;
    /// [`own_options::LAST_VALUES`](crate::own_options::LAST_VALUES).
    LAST_VALUES: Number = own::LAST_VALUES => last_values_max: i32 = 0, 0..=MAX;
    /// [`own_options::CONFLATE_TOPICS`](crate::own_options::CONFLATE_TOPICS).
    CONFLATE_TOPICS: Switch = own::CONFLATE_TOPICS => conflate_topics: bool = false, 0..=1;
    /// [`own_options::CONFLATE_TOPICS_MAX`](crate::own_options::CONFLATE_TOPICS_MAX).
    CONFLATE_TOPICS_MAX: Number = own::CONFLATE_TOPICS_MAX
        => conflate_topics_max: i32 = 1_000_000, 1..=MAX;
    /// [`own_options::SPIN_NS`](crate::own_options::SPIN_NS).
    SPIN_NS: Number = own::SPIN_NS => spin_ns: i32 = 50_000, 0..=MAX;

    // For C alone: they have no name in Rust.
    AFFINITY = 4 => affinity: u64 = 0;
    RATE = 8 => rate: i32 = 100, 1..=MAX;
    RECOVERY_IVL = 9 => recovery_interval: i32 = 10_000, 0..=MAX;
    FD = 14;
    EVENTS = 15;
    MULTICAST_HOPS = 25 => multicast_hops: i32 = 1, 1..=MAX;
    IPV4ONLY = 31;
    TCP_ACCEPT_FILTER = 38 => accept_filters: Vec<(std::net::IpAddr, u8)> = Vec::new();
    IPC_FILTER_PID = 58 => ipc_processes: Vec<i32> = Vec::new();
    IPC_FILTER_UID = 59 => ipc_users: Vec<u32> = Vec::new();
    IPC_FILTER_GID = 60 => ipc_groups: Vec<u32> = Vec::new();
    THREAD_SAFE = 81;
    MULTICAST_MAXTPDU = 84 => multicast_packet_bytes: i32 = 1500, 1..=MAX;
    USE_FD = 89 => use_descriptor: i32 = -1, -1..=MAX;
    LOOPBACK_FASTPATH = 94 => loopback_fastpath: bool = false, MIN..=MAX;
    MULTICAST_LOOP = 96 => multicast_loop: bool = true, MIN..=MAX;
    IN_BATCH_SIZE = 101 => in_batch_bytes: i32 = 8192, 1..=MAX;
    OUT_BATCH_SIZE = 102 => out_batch_bytes: i32 = 8192, 1..=MAX;
}

/// An option that C passes as an `int`, and its values.
struct IntOption {
    number: i32,
    values: RangeInclusive<i32>,
    read: fn(&Options) -> i32,
    write: fn(&mut Options, i32),
}

/// A field that keeps an `int`.
trait IntField {
    fn write(&mut self, value: i32);
}

impl IntField for i32 {
    fn write(&mut self, value: i32) {
        *self = value;
    }
}

/// Every number but zero means yes.
impl IntField for bool {
    fn write(&mut self, value: i32) {
        *self = value != 0;
    }
}

impl Options {
    /// The limits of what waits for a peer where topics are conflated; `None`: they are not.
    pub(crate) fn topics_out(&self, kind: SocketType) -> Option<Limits> {
        self.topics(kind.is_publisher(), self.send_high_water_bytes)
    }

    /// The same for what waits for the program.
    pub(crate) fn topics_in(&self, kind: SocketType) -> Option<Limits> {
        self.topics(kind.is_subscriber(), self.receive_high_water_bytes)
    }

    fn topics(&self, is_conflated: bool, bytes_max: i32) -> Option<Limits> {
        let bytes_max = usize::try_from(bytes_max).unwrap_or_default();
        (self.conflate_topics && is_conflated).then(|| Limits {
            topics_max: self.conflate_topics_max.max(1) as usize,
            bytes_max: if bytes_max > 0 { bytes_max } else { usize::MAX },
        })
    }

    /// How long a thread that waits stays awake: nothing is known yet.
    pub(crate) fn patience(&self) -> Patience {
        Patience::new(u32::try_from(self.spin_ns).unwrap_or_default())
    }

    /// Sets an option that C passes as an `int`, if the value is in its range.
    pub(crate) fn set_int(&mut self, number: i32, value: i32) -> Result<(), Error> {
        let option = IntOption::of(number)?;
        if !option.values.contains(&value) {
            return Err(Error::InvalidArgument);
        }
        (option.write)(self, value);
        Ok(())
    }

    /// The value of an option that C reads as an `int`.
    pub(crate) fn int(&self, number: i32) -> Result<i32, Error> {
        Ok((IntOption::of(number)?.read)(self))
    }
}

impl IntOption {
    fn of(number: i32) -> Result<&'static IntOption, Error> {
        let known = INTS.iter().find(|option| option.number == number);
        known.ok_or(Error::InvalidArgument)
    }
}

/// The mechanism, and our part in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Security {
    pub(crate) mechanism: Mechanism,
    pub(crate) is_server: bool,
    pub(crate) username: Vec<u8>,
    pub(crate) password: Vec<u8>,
    pub(crate) public_key: [u8; 32],
    pub(crate) secret_key: [u8; 32],
    pub(crate) server_key: [u8; 32],
}

impl Security {
    /// Whether this side is the server of that mechanism.
    pub(crate) fn serves(&self, mechanism: Mechanism) -> bool {
        self.is_server && self.mechanism == mechanism
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mechanism {
    #[default]
    Null = 0,
    Plain = 1,
    Curve = 2,
}

const MIN: i32 = i32::MIN;
const MAX: i32 = i32::MAX;
