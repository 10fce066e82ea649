//! Every option of libzmq's table that is a number: its default, and what it may be.

use tidewire_zmq::{Context, Error, Socket, SocketType};

/// The name, the number, a type that has it, the default, a value it takes, and one it refuses.
type Row = (&'static str, i32, SocketType, i32, i32, Option<i32>);

#[rustfmt::skip]
const NUMBERS: &[Row] = &[
    ("RATE", 8, SocketType::Dealer, 100, 200, Some(0)),
    ("RECOVERY_IVL", 9, SocketType::Dealer, 10_000, 0, Some(-1)),
    ("SNDBUF", 11, SocketType::Dealer, -1, 65_536, Some(-2)),
    ("RCVBUF", 12, SocketType::Dealer, -1, 65_536, Some(-2)),
    ("LINGER", 17, SocketType::Dealer, -1, 100, Some(-2)),
    ("LINGER", 17, SocketType::Sub, 0, -1, Some(-2)),
    ("RECONNECT_IVL", 18, SocketType::Dealer, 100, -1, Some(-2)),
    ("BACKLOG", 19, SocketType::Dealer, 100, 1, Some(-1)),
    ("RECONNECT_IVL_MAX", 21, SocketType::Dealer, 0, 1_000, Some(-1)),
    ("SNDHWM", 23, SocketType::Dealer, 1_000, 0, Some(-1)),
    ("RCVHWM", 24, SocketType::Dealer, 1_000, 0, Some(-1)),
    ("MULTICAST_HOPS", 25, SocketType::Dealer, 1, 2, Some(0)),
    ("RCVTIMEO", 27, SocketType::Dealer, -1, 5, Some(-2)),
    ("SNDTIMEO", 28, SocketType::Dealer, -1, 5, Some(-2)),
    ("ROUTER_MANDATORY", 33, SocketType::Router, 0, 1, Some(-1)),
    ("TCP_KEEPALIVE", 34, SocketType::Dealer, -1, 1, Some(2)),
    ("TCP_KEEPALIVE_CNT", 35, SocketType::Dealer, -1, 3, Some(-2)),
    ("TCP_KEEPALIVE_IDLE", 36, SocketType::Dealer, -1, 3, Some(-2)),
    ("TCP_KEEPALIVE_INTVL", 37, SocketType::Dealer, -1, 3, Some(-2)),
    ("IMMEDIATE", 39, SocketType::Dealer, 0, 1, Some(2)),
    ("XPUB_VERBOSE", 40, SocketType::Xpub, 0, 1, Some(-1)),
    ("ROUTER_RAW", 41, SocketType::Router, 0, 1, Some(-1)),
    ("IPV6", 42, SocketType::Dealer, 0, 1, Some(2)),
    ("PLAIN_SERVER", 44, SocketType::Dealer, 0, 1, Some(2)),
    ("CURVE_SERVER", 47, SocketType::Dealer, 0, 1, Some(2)),
    ("PROBE_ROUTER", 51, SocketType::Req, 0, 1, Some(-1)),
    ("REQ_CORRELATE", 52, SocketType::Req, 0, 1, Some(-1)),
    ("REQ_RELAXED", 53, SocketType::Req, 0, 1, Some(-1)),
    ("CONFLATE", 54, SocketType::Pull, 0, 1, Some(2)),
    ("ROUTER_HANDOVER", 56, SocketType::Router, 0, 1, Some(-1)),
    ("TOS", 57, SocketType::Dealer, 0, 8, Some(-1)),
    ("HANDSHAKE_IVL", 66, SocketType::Dealer, 30_000, 0, Some(-1)),
    ("XPUB_NODROP", 69, SocketType::Xpub, 0, 1, Some(-1)),
    ("XPUB_MANUAL", 71, SocketType::Xpub, 0, 1, Some(-1)),
    ("STREAM_NOTIFY", 73, SocketType::Stream, 1, 0, Some(2)),
    ("INVERT_MATCHING", 74, SocketType::Pub, 0, 1, None),
    ("HEARTBEAT_IVL", 75, SocketType::Dealer, 0, 100, Some(-1)),
    ("HEARTBEAT_TTL", 76, SocketType::Dealer, 0, 300, Some(6_553_600)),
    ("HEARTBEAT_TIMEOUT", 77, SocketType::Dealer, -1, 100, Some(-1)),
    ("XPUB_VERBOSER", 78, SocketType::Xpub, 0, 1, Some(-1)),
    ("CONNECT_TIMEOUT", 79, SocketType::Dealer, 0, 100, Some(-1)),
    ("TCP_MAXRT", 80, SocketType::Dealer, 0, 100, Some(-1)),
    ("MULTICAST_MAXTPDU", 84, SocketType::Dealer, 1_500, 9_000, Some(0)),
    ("USE_FD", 89, SocketType::Dealer, -1, -1, Some(-2)),
];

fn number(socket: &Socket, option: i32) -> i32 {
    let mut out = [0; 4];
    assert_eq!(socket.option(option, &mut out), Ok(4), "option {option}");
    i32::from_ne_bytes(out)
}

#[test]
fn numbers_have_their_defaults_and_their_bounds() {
    let context = Context::new();
    for &(name, option, kind, default, taken, refused) in NUMBERS {
        let socket = context.socket(kind).unwrap();
        assert_eq!(number(&socket, option), default, "{name}");
        socket.set_option(option, &taken.to_ne_bytes()).unwrap();
        // Who is server has its mechanism told too, and keeps the number.
        assert_eq!(number(&socket, option), taken, "{name}");
        if let Some(refused) = refused {
            let result = socket.set_option(option, &refused.to_ne_bytes());
            assert_eq!(result, Err(Error::InvalidArgument), "{name} {refused}");
            assert_eq!(number(&socket, option), taken, "{name} after a refusal");
        }
        let odd = socket.set_option(option, &[1, 2, 3]);
        assert_eq!(odd, Err(Error::InvalidArgument), "{name} of three bytes");
    }
}

#[test]
fn options_of_one_type_are_refused_by_the_others() {
    let context = Context::new();
    let pull = context.socket(SocketType::Pull).unwrap();
    let own = [33, 40, 41, 51, 52, 53, 56, 69, 71, 72, 73, 78];
    for option in own.into_iter().chain([6, 7, 61]) {
        let result = pull.set_option(option, &1_i32.to_ne_bytes());
        assert_eq!(result, Err(Error::InvalidArgument), "option {option}");
    }
}

#[test]
fn texts_and_long_numbers_come_back() {
    let context = Context::new();
    let socket = context.socket(SocketType::Dealer).unwrap();
    let mut out = [0; 256];
    let mut get = |option: i32| {
        let length = socket.option(option, &mut out).unwrap();
        out[..length].to_vec()
    };
    assert_eq!(get(5), b"", "ROUTING_ID");
    let texts: [(i32, &[u8], &[u8]); 5] = [
        (45, b"user", b"user\0"),
        (46, b"secret", b"secret\0"),
        (55, b"domain", b"domain\0"),
        (68, b"127.0.0.1:1080", b"127.0.0.1:1080\0"),
        (92, b"lo", b"lo\0"),
    ];
    for (option, value, told) in texts {
        assert_eq!(get(option), b"\0", "option {option} is not set");
        socket.set_option(option, value).unwrap();
        assert_eq!(get(option), told, "option {option}");
    }
    socket.set_option(5, b"me").unwrap();
    assert_eq!(get(5), b"me");
    let long_number = |option: i32| {
        let mut out = [0; 8];
        assert_eq!(socket.option(option, &mut out), Ok(8), "option {option}");
        i64::from_ne_bytes(out)
    };
    assert_eq!((long_number(4), long_number(22)), (0, -1));
    socket.set_option(4, &3_u64.to_ne_bytes()).unwrap();
    socket.set_option(22, &1000_i64.to_ne_bytes()).unwrap();
    assert_eq!((long_number(4), long_number(22)), (3, 1000));
    let long = [b'x'; 256];
    for option in [5, 45, 46, 55, 99, 100] {
        let result = socket.set_option(option, &long);
        assert_eq!(result, Err(Error::InvalidArgument), "option {option}");
    }
    let wrong: [(i32, &[u8]); 3] = [(5, b""), (48, b"no key"), (999, b"1234")];
    for (option, value) in wrong {
        let result = socket.set_option(option, value);
        assert_eq!(result, Err(Error::InvalidArgument), "option {option}");
    }
}

/// What a generated comparison with libzmq found: values that it takes and we refused, and the
/// other way round.
#[test]
fn values_are_accepted_as_libzmq_accepts_them() {
    const ZAP_ENFORCE_DOMAIN: i32 = 93;
    const XSUB_VERBOSE_UNSUBSCRIBE: i32 = 115;
    let context = Context::new();
    let dealer = context.socket(SocketType::Dealer).unwrap();
    // "Relaxed" switches are on for any number but zero.
    for option in [74, ZAP_ENFORCE_DOMAIN] {
        for value in [i32::MIN, -1, 2] {
            dealer.set_option(option, &value.to_ne_bytes()).unwrap();
            assert_eq!(number(&dealer, option), 1, "option {option}, {value}");
        }
    }
    // In tenths of a second, and rounded before it is looked at.
    dealer.set_option(76, &(-99_i32).to_ne_bytes()).unwrap();
    assert_eq!(number(&dealer, 76), 0);
    // libzmq's REP is a ROUTER.
    let rep = context.socket(SocketType::Rep).unwrap();
    for option in [33, 41, 51, 56, 97] {
        rep.set_option(option, &1_i32.to_ne_bytes()).unwrap();
    }
    for name in [&b"\0peer"[..], &[7; 300]] {
        rep.set_option(61, name).unwrap();
    }
    let refused: [(SocketType, i32, &[u8]); 5] = [
        (SocketType::Dealer, 55, b""),
        (SocketType::Dealer, 61, b"peer"),
        (SocketType::Dealer, 92, &[b'e'; 17]),
        (SocketType::Sub, 108, &[1, 0, 0, 0]),
        (SocketType::Sub, XSUB_VERBOSE_UNSUBSCRIBE, &[1, 0, 0, 0]),
    ];
    for (kind, option, value) in refused {
        let socket = context.socket(kind).unwrap();
        let result = socket.set_option(option, value);
        assert_eq!(result, Err(Error::InvalidArgument), "option {option}");
    }
}

/// As in libzmq, which tells most numbers into room of their own size alone.
#[test]
fn room_for_a_number_has_its_size() {
    let context = Context::new();
    let socket = context.socket(SocketType::Dealer).unwrap();
    for (option, exact) in [(17, 4), (24, 4), (16, 4), (4, 8), (22, 8)] {
        for room in [0, 3, 5, 256] {
            let result = socket.option(option, &mut vec![0; room]);
            assert_eq!(result, Err(Error::InvalidArgument), "option {option}");
        }
        assert_eq!(socket.option(option, &mut vec![0; exact]), Ok(exact));
    }
    // RCVMORE, FD, EVENTS and THREAD_SAFE, which once were 64 bits long, fit more.
    for option in [13, 14, 15, 81] {
        assert_eq!(socket.option(option, &mut [0; 8]), Ok(4));
    }
}

/// It is kept as it was given, and means what comes before the first zero.
#[test]
fn a_text_with_a_zero_comes_back_with_it() {
    let context = Context::new();
    let socket = context.socket(SocketType::Dealer).unwrap();
    let mut out = [0; 16];
    for (option, value) in [(68, &b"\xffproxy\0"[..]), (92, b"lo\0")] {
        socket.set_option(option, value).unwrap();
        let length = socket.option(option, &mut out).unwrap();
        assert_eq!(out[..length], [value, b"\0"].concat(), "option {option}");
    }
}
