//! Options of sockets by name, each with the type of its value. What they do and their defaults:
//! `docs/zeromq-options.md`. Those of [`own_options`](crate::own_options) are what libzmq does not
//! have.
//!
//! ```
//! use std::time::Duration;
//! use tidewire_zmq::{Context, Router, socket_options as option};
//!
//! let context = Context::new();
//! let router = Router::new(&context)?;
//! let socket = router.socket();
//! socket.set(option::ROUTER_MANDATORY, true)?;
//! socket.set(option::MAXMSGSIZE, 1 << 20)?;
//! socket.set(option::HEARTBEAT_IVL, Duration::from_secs(5))?;
//! socket.set(option::LINGER, Some(Duration::from_millis(100)))?;
//! assert_eq!(socket.get(option::LINGER)?, Some(Duration::from_millis(100)));
//! # Ok::<(), tidewire_zmq::Error>(())
//! ```
//!
//! Those of connections hold for what is bound or connected after they are set.

use std::marker::PhantomData;
use std::time::Duration;

use crate::error::Error;
use crate::own_options as own;
use crate::socket::Socket;

/// An option of a socket, and the type of its value.
#[derive(Debug, Clone, Copy)]
pub struct SocketOption<K> {
    number: i32,
    kind: PhantomData<K>,
}

/// How the values of an option are given and kept. There are those of this module, and no others.
pub trait Kind: sealed::Sealed {
    /// As it is given.
    type Given<'v>;
    /// As it is told.
    type Told;
    #[doc(hidden)]
    fn encode(
        given: Self::Given<'_>,
        put: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error>;
    #[doc(hidden)]
    fn decode(bytes: &[u8]) -> Option<Self::Told>;
    /// The longest value that is told.
    #[doc(hidden)]
    const BYTES_MAX: usize;
}

mod sealed {
    pub trait Sealed {}
}

impl<K> SocketOption<K> {
    const fn new(number: i32) -> SocketOption<K> {
        let kind = PhantomData;
        SocketOption { number, kind }
    }

    /// libzmq's number.
    pub const fn number(self) -> i32
    where
        K: Copy,
    {
        self.number
    }
}

impl Socket {
    /// Sets an option.
    ///
    /// # Errors
    /// It is not this type's, or the value is out of its range.
    pub fn set<K: Kind>(&self, option: SocketOption<K>, value: K::Given<'_>) -> Result<(), Error> {
        K::encode(value, &mut |bytes| self.set_option(option.number, bytes))
    }

    /// Reads an option.
    ///
    /// # Errors
    /// It can only be set, or its value is longer than 1,024 bytes.
    pub fn get<K: Kind>(&self, option: SocketOption<K>) -> Result<K::Told, Error> {
        let mut room = [0; ROOM_BYTES];
        let length = self.option(option.number, &mut room[..K::BYTES_MAX])?;
        K::decode(&room[..length]).ok_or(Error::InvalidArgument)
    }
}

/// The kinds of values.
macro_rules! kind {
    ($(#[$docs:meta])* $name:ident($given:ty) -> $told:ty, $bytes_max:expr,
     $encode:expr, $decode:expr) => {
        $(#[$docs])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}

        impl sealed::Sealed for $name {}

        impl Kind for $name {
            type Given<'v> = $given;
            type Told = $told;
            const BYTES_MAX: usize = $bytes_max;

            fn encode(
                given: Self::Given<'_>,
                put: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
            ) -> Result<(), Error> {
                let encode: fn(Self::Given<'_>, &mut dyn FnMut(&[u8]) -> Result<(), Error>)
                    -> Result<(), Error> = $encode;
                encode(given, put)
            }

            fn decode(bytes: &[u8]) -> Option<Self::Told> {
                let decode: fn(&[u8]) -> Option<Self::Told> = $decode;
                decode(bytes)
            }
        }
    };
}

kind! {
    /// On or off.
    Switch(bool) -> bool, 4,
    |given, put| put(&i32::from(given).to_ne_bytes()),
    |bytes| Some(int(bytes)? != 0)
}
kind! {
    /// A number of 32 bits.
    Number(i32) -> i32, 4,
    |given, put| put(&given.to_ne_bytes()),
    int
}
kind! {
    /// A number of 64 bits.
    Long(i64) -> i64, 8,
    |given, put| put(&given.to_ne_bytes()),
    |bytes| Some(i64::from_ne_bytes(bytes.try_into().ok()?))
}
kind! {
    /// A time in milliseconds, rounded up; zero switches it off.
    Interval(Duration) -> Duration, 4,
    |given, put| put(&milliseconds(given).to_ne_bytes()),
    |bytes| Some(Duration::from_millis(int(bytes)?.max(0) as u64))
}
kind! {
    /// A time in milliseconds, rounded up; `None` means no timeout, or off.
    Limit(Option<Duration>) -> Option<Duration>, 4,
    |given, put| put(&given.map_or(-1, milliseconds).to_ne_bytes()),
    |bytes| Some(u64::try_from(int(bytes)?).ok().map(Duration::from_millis))
}
kind! {
    /// Any bytes.
    Octets(&'v [u8]) -> Vec<u8>, ROOM_BYTES,
    |given, put| put(given),
    |bytes| Some(bytes.to_vec())
}
kind! {
    /// A text.
    Text(&'v str) -> String, ROOM_BYTES,
    |given, put| put(given.as_bytes()),
    |bytes| String::from_utf8(bytes.strip_suffix(&[0]).unwrap_or(bytes).to_vec()).ok()
}
kind! {
    /// A key of CURVE.
    Key(&'v [u8; 32]) -> [u8; 32], 32,
    |given, put| put(given),
    |bytes| bytes.try_into().ok()
}

fn int(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(bytes.try_into().ok()?))
}

/// A time that is not zero does not become zero.
fn milliseconds(time: Duration) -> i32 {
    let milliseconds = time.as_nanos().div_ceil(1_000_000);
    i32::try_from(milliseconds).unwrap_or(i32::MAX)
}

const ROOM_BYTES: usize = 1024;

macro_rules! options {
    ($($(#[$docs:meta])* $name:ident: $kind:ty = $number:expr;)*) => {
        $($(#[$docs])* pub const $name: SocketOption<$kind> = SocketOption::new($number);)*

        #[cfg(test)]
        const NUMBERS: &[(&str, i32)] = &[$((stringify!($name), $number)),*];
    };
}

options! {
    /// The name under which a ROUTER files this socket.
    ROUTING_ID: Octets = 5;
    /// The name under which a ROUTER or STREAM files the next peer that it connects to.
    CONNECT_ROUTING_ID: Octets = 61;
    /// SUB, and XPUB in manual mode: what begins with this is wanted.
    SUBSCRIBE: Octets = 6;
    /// Takes a subscription back.
    UNSUBSCRIBE: Octets = 7;
    /// ROUTER, DEALER, REQ: an empty message greets every peer.
    PROBE_ROUTER: Switch = 51;
    /// REQ: replies must carry the number of the request.
    REQ_CORRELATE: Switch = 52;
    /// REQ: the next request may come before the reply.
    REQ_RELAXED: Switch = 53;
    /// ROUTER: a message that cannot be delivered is an error.
    ROUTER_MANDATORY: Switch = 33;
    /// ROUTER: a new peer of a name that is taken has it.
    ROUTER_HANDOVER: Switch = 56;
    /// ROUTER: bytes without any framing.
    ROUTER_RAW: Switch = 41;
    /// ROUTER: an empty message for a peer that comes (1), goes (2), or both (3).
    ROUTER_NOTIFY: Number = 97;
    /// XPUB: every subscription is told, known or not.
    XPUB_VERBOSE: Switch = 40;
    /// XPUB: every subscription and every cancellation is told.
    XPUB_VERBOSER: Switch = 78;
    /// PUB and XPUB: a send waits for subscribers that are full.
    XPUB_NODROP: Switch = 69;
    /// XPUB: the program itself subscribes its peers.
    XPUB_MANUAL: Switch = 71;
    /// XPUB in manual mode: the next message is for the last subscriber alone.
    XPUB_MANUAL_LAST_VALUE: Switch = 98;
    /// PUB and XPUB: every subscriber is greeted with this.
    XPUB_WELCOME_MSG: Octets = 72;
    /// XSUB: every cancellation is passed on.
    XSUB_VERBOSE_UNSUBSCRIBE: Switch = 115;
    /// XPUB and XSUB: only the first frame of a message may be a subscription.
    ONLY_FIRST_SUBSCRIBE: Switch = 108;
    /// PUB, XPUB and SUB: what is subscribed to is what is not wanted.
    INVERT_MATCHING: Switch = 74;
    /// Publishers and subscribers: how many topics are asked for.
    TOPICS_COUNT: Number = 116;
    /// Only the last message of each peer is kept.
    CONFLATE: Switch = 54;
    /// STREAM, and ROUTER in raw mode: an empty message for a peer that comes or goes.
    STREAM_NOTIFY: Switch = 73;
    /// ROUTER and DEALER: every peer is greeted with this.
    HELLO_MSG: Octets = 110;
    /// ROUTER: what is received for a peer that has gone.
    DISCONNECT_MSG: Octets = 111;
    /// DEALER: what is received when the connection is lost.
    HICCUP_MSG: Octets = 114;

    /// Further frames of the message follow.
    RCVMORE: Switch = 13;
    /// The socket's type.
    TYPE: Number = 16;
    /// Where the last bind or connect led.
    LAST_ENDPOINT: Text = 32;
    /// 0: NULL, 1: PLAIN, 2: CURVE.
    MECHANISM: Number = 43;

    /// Messages that may wait for a peer; 0: any number.
    SNDHWM: Number = 23;
    /// Messages that may wait for the program; 0: any number.
    RCVHWM: Number = 24;
    /// Bytes of the kernel's buffer; -1: as the system has it.
    SNDBUF: Number = 11;
    /// Bytes of the kernel's buffer; -1: as the system has it.
    RCVBUF: Number = 12;
    /// The longest frame that a peer may send; -1: any.
    MAXMSGSIZE: Long = 22;
    /// How long a send waits.
    SNDTIMEO: Limit = 28;
    /// How long a receive waits.
    RCVTIMEO: Limit = 27;
    /// How long to go on sending after the close.
    LINGER: Limit = 17;
    /// How long a handshake may take.
    HANDSHAKE_IVL: Interval = 66;
    /// How often a peer is pinged.
    HEARTBEAT_IVL: Interval = 75;
    /// After how long without a word the peer is to give us up; to a tenth of a second.
    HEARTBEAT_TTL: Interval = 76;
    /// How long the answer to a ping may take.
    HEARTBEAT_TIMEOUT: Interval = 77;

    /// Connections that may wait to be accepted.
    BACKLOG: Number = 19;
    /// Only peers that are connected are sent to.
    IMMEDIATE: Switch = 39;
    /// How long to wait before the next attempt to connect; `None`: there is none.
    RECONNECT_IVL: Limit = 18;
    /// The longest that it grows to; zero: it does not grow.
    RECONNECT_IVL_MAX: Interval = 21;
    /// What ends the attempts: 1 a refusal, 2 a handshake that fails.
    RECONNECT_STOP: Number = 109;
    /// How long an attempt to connect may take.
    CONNECT_TIMEOUT: Interval = 79;
    /// IPv6 beside IPv4.
    IPV6: Switch = 42;
    /// 1, 0, or -1: as the system has it.
    TCP_KEEPALIVE: Number = 34;
    /// Probes; -1: as the system has it.
    TCP_KEEPALIVE_CNT: Number = 35;
    /// Seconds before the first probe; -1: as the system has it.
    TCP_KEEPALIVE_IDLE: Number = 36;
    /// Seconds between probes; -1: as the system has it.
    TCP_KEEPALIVE_INTVL: Number = 37;
    /// How long sent bytes may stay unacknowledged.
    TCP_MAXRT: Interval = 80;
    /// The type of service in the packets.
    TOS: Number = 57;
    /// The priority of the packets in this machine.
    PRIORITY: Number = 112;
    /// Microseconds that the kernel polls the device.
    BUSY_POLL: Number = 113;
    /// The network device to use.
    BINDTODEVICE: Text = 92;
    /// Host and port of a SOCKS5 proxy.
    SOCKS_PROXY: Text = 68;
    /// Who we are to the proxy.
    SOCKS_USERNAME: Text = 99;
    /// And by what password.
    SOCKS_PASSWORD: Text = 100;
    /// `X-name:value`, told to every peer; may be set several times.
    METADATA: Text = 95;

    /// What ZAP is asked about.
    ZAP_DOMAIN: Text = 55;
    /// Whether peers are refused if no ZAP domain is set.
    ZAP_ENFORCE_DOMAIN: Switch = 93;
    /// This side judges names and passwords.
    PLAIN_SERVER: Switch = 44;
    /// Who we are.
    PLAIN_USERNAME: Text = 45;
    /// And by what password.
    PLAIN_PASSWORD: Text = 46;
    /// This side is the server of CURVE.
    CURVE_SERVER: Switch = 47;
    /// Our public key.
    CURVE_PUBLICKEY: Key = 48;
    /// Our secret key.
    CURVE_SECRETKEY: Key = 49;
    /// The public key of the server that we connect to.
    CURVE_SERVERKEY: Key = 50;

    /// [`own_options::SNDHWM_BYTES`](crate::own_options::SNDHWM_BYTES).
    SNDHWM_BYTES: Number = own::SNDHWM_BYTES;
    /// [`own_options::RCVHWM_BYTES`](crate::own_options::RCVHWM_BYTES).
    RCVHWM_BYTES: Number = own::RCVHWM_BYTES;
    /// [`own_options::HANDSHAKES_MAX`](crate::own_options::HANDSHAKES_MAX).
    HANDSHAKES_MAX: Number = own::HANDSHAKES_MAX;
    /// [`own_options::LAST_VALUES`](crate::own_options::LAST_VALUES).
    LAST_VALUES: Number = own::LAST_VALUES;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, SocketType};

    const PAGE: &str = include_str!("../../../docs/zeromq-options.md");

    #[test]
    fn the_numbers_are_those_of_the_page() {
        let is_own = |number: i32| number > 10_000;
        for (name, number) in NUMBERS {
            let row = format!("| `{name}` | {number} |");
            assert!(is_own(*number) || PAGE.contains(&row), "{name}");
        }
    }

    #[test]
    fn what_is_set_is_told() {
        let context = Context::new();
        let socket = context.socket(SocketType::Router).unwrap();
        let half_a_millisecond = Duration::from_micros(500);
        socket.set(LINGER, Some(half_a_millisecond)).unwrap();
        assert_eq!(socket.get(LINGER), Ok(Some(Duration::from_millis(1))));
        socket.set(LINGER, None).unwrap();
        assert_eq!(socket.get(LINGER), Ok(None));
        socket.set(CONNECT_TIMEOUT, Duration::MAX).unwrap();
        let longest = Duration::from_millis(i32::MAX as u64);
        assert_eq!(socket.get(CONNECT_TIMEOUT), Ok(longest));
        socket.set(MAXMSGSIZE, 1 << 40).unwrap();
        assert_eq!(socket.get(MAXMSGSIZE), Ok(1 << 40));
        socket.set(ROUTER_MANDATORY, true).unwrap();
        assert_eq!(socket.get(ROUTER_MANDATORY), Ok(true));
        socket.set(ROUTING_ID, b"me").unwrap();
        assert_eq!(socket.get(ROUTING_ID), Ok(b"me".to_vec()));
        socket.set(PLAIN_USERNAME, "somebody").unwrap();
        assert_eq!(socket.get(PLAIN_USERNAME), Ok("somebody".to_owned()));
        socket.set(CURVE_PUBLICKEY, &[7; 32]).unwrap();
        assert_eq!(socket.get(CURVE_PUBLICKEY), Ok([7; 32]));
        assert_eq!(socket.get(TYPE), Ok(SocketType::Router.number()));
        socket.bind("tcp://127.0.0.1:*").unwrap();
        assert!(
            socket
                .get(LAST_ENDPOINT)
                .unwrap()
                .starts_with("tcp://127.0.0.1:")
        );
    }

    #[test]
    fn a_value_out_of_range_is_refused() {
        let context = Context::new();
        let socket = context.socket(SocketType::Pull).unwrap();
        let refused = Err(Error::InvalidArgument);
        assert_eq!(socket.set(SNDHWM, -1), refused);
        assert_eq!(socket.set(XPUB_NODROP, true), refused, "of another type");
        assert_eq!(socket.set(ROUTING_ID, b""), refused);
        assert_eq!(
            socket.get(METADATA),
            Err(Error::InvalidArgument),
            "only set"
        );
    }
}
