//! Which peers are accepted, which are refused, and the limits for unknown peers.

mod common;

use common::{Seen, Side, libzmq_greeting, ready, wire};
use tidewire_zmtp::{
    CommandName, Config, Connection, Error, Limits, NotAsked, Security, SocketType, Version,
    status_code,
};

fn client() -> Config {
    let security = Security::PlainClient {
        username: b"user".into(),
        password: b"word".into(),
    };
    Config {
        security,
        ..Config::new(SocketType::Push)
    }
}

fn server() -> Config {
    Config {
        security: Security::PlainServer,
        ..Config::new(SocketType::Pull)
    }
}

/// Returns a PLAIN server that has read the greeting and these bytes.
fn server_after(bytes: &[u8]) -> Side {
    Side::fed(server(), &[&libzmq_greeting("PLAIN", 1), bytes].concat())
}

/// Returns a NULL socket that has read the greeting and these bytes.
fn pull_after(bytes: &[u8]) -> Side {
    Side::fed(
        Config::new(SocketType::Pull),
        &[&libzmq_greeting("NULL", 1), bytes].concat(),
    )
}

/// Returns a NULL socket that is ready and has read these bytes.
fn ready_pull_after(bytes: &[u8]) -> Side {
    pull_after(&[&ready("PUSH"), bytes].concat())
}

#[test]
fn plain_lets_in_whom_the_driver_accepts() {
    let (mut left, mut right) = (Side::new(client()), Side::new(server()));
    wire(&mut left, &mut right, || 3);
    let asked = Seen::AuthenticatePlain(b"user".into(), b"word".into());
    assert_eq!(right.seen, [asked, Seen::Ready]);
    assert_eq!(left.seen, [Seen::Ready]);
    assert_eq!(
        right.connection.peer().unwrap().socket_type,
        Some(SocketType::Push)
    );
}

#[test]
fn plain_sends_away_whom_the_driver_refuses() {
    let (mut left, mut right) = (Side::new(client()), Side::new(server()));
    right.accepts = false;
    wire(&mut left, &mut right, || 100);
    assert!(
        !right.connection.is_ready(),
        "nothing goes on without an answer"
    );
    right.connection.refuse("400").unwrap();
    assert_eq!(right.sent(), b"\x04\x0a\x05ERROR\x03400");
    left.feed(b"\x04\x0a\x05ERROR\x03400", 0);
    assert_eq!(left.seen, [Seen::PeerError(b"400".into())]);
    assert_eq!(right.connection.receive(b"", 0), Err(Error::Closed));
    assert_eq!(left.connection.receive(b"", 0), Err(Error::Closed));
    assert_eq!(right.connection.refuse("400"), Err(NotAsked));
    assert_eq!(right.connection.accept(), Err(NotAsked));
}

#[test]
fn null_can_ask_the_driver_too() {
    let config = Config {
        authenticate_null: true,
        ..Config::new(SocketType::Pull)
    };
    let mut pull = Side::new(config.clone());
    pull.accepts = false;
    pull.feed(&[libzmq_greeting("NULL", 1), ready("PUSH")].concat(), 0);
    assert_eq!(pull.seen, [Seen::AuthenticateNull]);
    assert_eq!(pull.sent().len(), 64, "READY waits for the answer");
    pull.connection.accept().unwrap();
    assert_eq!(pull.sent(), ready("PULL"));
    pull.feed(b"", 0);
    assert_eq!(pull.seen[1..], [Seen::Ready]);

    let old = Side::fed(config, b"\xff\0\0\0\0\0\0\0\x01\x7f\x01");
    let too_old = Error::VersionTooOld {
        major: 1,
        required: Version::V3_0,
    };
    assert_eq!(old.error, Some(too_old), "2.0 has no way to be asked");
}

/// A downgrade to 2.0 would drop the security.
#[test]
fn plain_is_never_downgraded() {
    let side = Side::fed(server(), b"\xff\0\0\0\0\0\0\0\x01\x7f\x01\x08\x00\x00");
    let too_old = Error::VersionTooOld {
        major: 1,
        required: Version::V3_0,
    };
    assert_eq!(side.error, Some(too_old));
    let mut forced = Connection::new(
        Config {
            version: Version::V2_0,
            signature_first: false,
            ..server()
        },
        0,
    );
    assert_eq!(forced.outgoing()[..], {
        let mut greeting = libzmq_greeting("PLAIN", 0);
        greeting[32] = 1;
        greeting
    });
}

#[test]
fn mechanisms_must_be_the_same_and_have_one_server() {
    let (mut left, mut right) = (
        Side::new(client()),
        Side::new(Config::new(SocketType::Pull)),
    );
    wire(&mut left, &mut right, || 100);
    assert_eq!(left.error, Some(Error::MechanismMismatch));
    assert_eq!(right.error, Some(Error::MechanismMismatch));
    let (mut left, mut right) = (Side::new(server()), Side::new(server()));
    wire(&mut left, &mut right, || 100);
    assert_eq!(left.error, Some(Error::BothServers));
    let mut longer = libzmq_greeting("NULL", 1);
    longer[16] = b'L';
    let side = Side::fed(Config::new(SocketType::Pull), &longer);
    assert_eq!(
        side.error,
        Some(Error::MechanismMismatch),
        "the name is compared whole"
    );
}

#[test]
fn hello_must_be_exactly_two_strings() {
    let hello = Error::MalformedCommand(CommandName::Hello);
    for (data, error) in [
        (&b"\x04\x06\x05HELLO"[..], hello),
        (b"\x04\x07\x05HELLO\x01", hello),
        (b"\x04\x08\x05HELLO\x01u", hello),
        (b"\x04\x09\x05HELLO\x01u\x01", hello),
        (b"\x04\x0b\x05HELLO\x01u\x01pX", hello),
        (b"\x04\x08\x05HELLO\xff\x00", hello),
        (b"\x04\x00", Error::MalformedCommand(CommandName::Unnamed)),
        (
            b"\x04\x02\x05H",
            Error::MalformedCommand(CommandName::Unnamed),
        ),
        (
            b"\x04\x02\x00H",
            Error::MalformedCommand(CommandName::Unnamed),
        ),
        (b"\x04\x06\x05READY", Error::UnexpectedCommand),
        (b"\x04\x09\x08INITIATE", Error::UnexpectedCommand),
        (b"\x00\x06\x05HELLO", Error::MessageBeforeReady),
        (b"\x05\x06\x05HELLO", Error::CommandWithMore),
        (b"\x08\x06\x05HELLO", Error::UnknownFlags { flags: 8 }),
    ] {
        assert_eq!(server_after(data).error, Some(error), "{data:?}");
    }
    let empty = server_after(b"\x04\x08\x05HELLO\x00\x00");
    assert_eq!(empty.seen, [Seen::AuthenticatePlain(vec![], vec![])]);
}

#[test]
fn a_client_cannot_skip_or_repeat_hello() {
    let twice = server_after(b"\x04\x08\x05HELLO\x00\x00\x04\x08\x05HELLO\x00\x00");
    assert_eq!(twice.error, Some(Error::UnexpectedCommand));
    let skipped = server_after(&[b"\x04\x1d\x08INITIATE", &ready("PUSH")[8..]].concat());
    assert_eq!(skipped.error, Some(Error::UnexpectedCommand));
}

#[test]
fn a_server_cannot_skip_welcome() {
    let greeting = libzmq_greeting("PLAIN", 1);
    let side = Side::fed(client(), &[greeting.clone(), ready("PULL")].concat());
    assert_eq!(side.error, Some(Error::UnexpectedCommand));
    let side = Side::fed(client(), &[&greeting[..], b"\x04\x09\x07WELCOMEx"].concat());
    assert_eq!(
        side.error,
        Some(Error::MalformedCommand(CommandName::Welcome))
    );
}

/// libzmq's PLAIN server misspells ERROR (a hex escape that takes one letter too many).
#[test]
fn a_refusal_by_libzmq_is_understood() {
    let bytes = [&libzmq_greeting("PLAIN", 1)[..], b"\x04\x09^RROR\x03400"].concat();
    let side = Side::fed(client(), &bytes);
    assert_eq!(side.seen, [Seen::PeerError(b"400".into())]);
}

#[test]
fn what_is_not_zmtp_is_refused_at_its_first_wrong_octet() {
    for (bytes, error) in [
        (&b"GET / HTTP/1.1\r\n"[..], Error::NotZmtp),
        (b"\r\n", Error::NotZmtp),
        (b"\x01\x00", Error::NotZmtp),
        (b"\xff\xfb\x1f\xff\xfb\x20\xff\xfb\x18\xff", Error::NotZmtp),
        (b"\xff\0\0\0\0\0\0\0\x05\x00", Error::NotZmtp),
        (
            b"\xff\0\0\0\0\0\0\0\x01\x7f\x00",
            Error::VersionTooOld {
                major: 0,
                required: Version::V2_0,
            },
        ),
    ] {
        let mut side = Side::fed(Config::new(SocketType::Rep), bytes);
        assert_eq!(side.error, Some(error), "{bytes:?}");
        assert_eq!(side.connection.receive(b"", 0), Err(Error::Closed));
    }
}

#[test]
fn handshake_commands_have_a_limit_told_at_the_header() {
    let limit = Limits::HANDSHAKE_BYTES_MAX;
    for length in [limit + 1, 1 << 40, 1 << 63, u64::MAX] {
        let header = [&[6][..], &length.to_be_bytes()].concat();
        assert_eq!(
            pull_after(&header).error,
            Some(Error::FrameTooLong { length, limit })
        );
    }
}

#[test]
fn metadata_are_counted_and_checked() {
    let mut property = Vec::new();
    for number in 0..=Limits::METADATA_PROPERTIES_MAX {
        property.extend_from_slice(&[4, b'X', b'-', b'0' + (number / 10) as u8]);
        property.extend_from_slice(&[b'0' + (number % 10) as u8, 0, 0, 0, 0]);
    }
    let mut bytes = vec![6];
    bytes.extend_from_slice(&(6 + property.len() as u64).to_be_bytes());
    bytes.extend_from_slice(b"\x05READY");
    bytes.extend_from_slice(&property);
    let limit = Limits::METADATA_PROPERTIES_MAX;
    assert_eq!(
        pull_after(&bytes).error,
        Some(Error::TooManyProperties { limit })
    );
    let bad = pull_after(b"\x04\x0d\x05READY\x01A\x7f\xff\xff\xffx");
    assert_eq!(bad.error, Some(Error::MalformedMetadata));
    let mut unknown = pull_after(&ready("STREAM"));
    assert_eq!(unknown.error, Some(Error::UnknownSocketType));
    assert!(
        unknown
            .sent()
            .ends_with(b"\x05ERROR\x13Unknown socket type")
    );
    let nameless = pull_after(b"\x04\x06\x05READY");
    assert_eq!(
        nameless.seen,
        [Seen::Ready],
        "the RFC says SHOULD name its type"
    );
    assert_eq!(nameless.connection.peer().unwrap().socket_type, None);
}

/// ROUTER generates the ids that begin with 0.
#[test]
fn a_routing_id_cannot_pass_for_an_invented_one() {
    for (id, error) in [
        (b"\0\0\0\0\x01".to_vec(), Some(Error::IllegalRoutingId)),
        (vec![b'x'; 256], Some(Error::IllegalRoutingId)),
        (vec![b'x'; 255], None),
    ] {
        let mut data = b"\x05READY".to_vec();
        data.extend_from_slice(b"\x0bSocket-Type\0\0\0\x06DEALER\x08iDENTITY\0\0");
        data.extend_from_slice(&(id.len() as u16).to_be_bytes());
        data.extend_from_slice(&id);
        let mut bytes = libzmq_greeting("NULL", 1);
        bytes.push(6);
        bytes.extend_from_slice(&(data.len() as u64).to_be_bytes());
        bytes.extend_from_slice(&data);
        let side = Side::fed(Config::new(SocketType::Router), &bytes);
        assert_eq!(side.error, error);
        if error.is_none() {
            assert_eq!(side.connection.peer().unwrap().routing_id, id);
        }
    }
}

/// CVE-2019-6250: libzmq added to an unchecked 64-bit length and wrote past its buffer.
#[test]
fn a_frame_over_the_limit_is_refused_before_its_body() {
    let limit = Limits::FRAME_BYTES_MAX;
    for length in [limit + 1, 1 << 63, u64::MAX, u64::MAX - 8] {
        let header = [&[2][..], &length.to_be_bytes()].concat();
        let side = ready_pull_after(&header);
        assert_eq!(side.error, Some(Error::FrameTooLong { length, limit }));
    }
}

#[test]
fn subscriptions_have_a_limit_in_both_forms() {
    let limits = Limits {
        subscription_bytes_max: 4,
        command_bytes_max: 9,
        ..Limits::default()
    };
    let config = Config {
        limits,
        ..Config::new(SocketType::Pub)
    };
    let start = [libzmq_greeting("NULL", 1), ready("SUB")].concat();
    for (bytes, fits) in [
        (&b"\x00\x05\x01four"[..], true),
        (b"\x00\x06\x01fi", false),
        (b"\x04\x0e\x09SUBSCRIBEfour", true),
        (b"\x04\x0f\x09SUBSCRIBEfive!", false),
        (b"\x04\x0c\x06CANCELfive!", false),
    ] {
        let side = Side::fed(config.clone(), &[&start[..], bytes].concat());
        let refused = matches!(side.error, Some(Error::FrameTooLong { .. }));
        assert_eq!((side.error.is_none(), refused), (fits, !fits), "{bytes:?}");
    }
}

#[test]
fn unknown_commands_are_read_over_and_error_ends_the_connection() {
    let side = ready_pull_after(b"\x04\x05\x04JOIN\x04\x07\x05LEAVEx\x04\x06\x05READY\x00\x01a");
    assert_eq!(side.seen, [Seen::Ready, Seen::Frame(b"a".into(), false)]);
    let side = ready_pull_after(b"\x04\x0a\x05ERROR\x03bye");
    assert_eq!(side.seen, [Seen::Ready, Seen::PeerError(b"bye".into())]);
    assert!(!side.connection.is_ready());
    let side = ready_pull_after(b"\x04\x07\x05ERROR\x03");
    assert_eq!(
        side.error,
        Some(Error::MalformedCommand(CommandName::Error))
    );
}

/// As in libzmq, a temporary failure is not sent, so that the peer reconnects.
#[test]
fn a_refusal_that_may_not_last_is_not_told() {
    for (reason, sent) in [
        ("300", &b""[..]),
        ("400", b"\x04\x0a\x05ERROR\x03400"),
        ("500", b"\x04\x0a\x05ERROR\x03500"),
    ] {
        let mut side = Side::new(server());
        side.accepts = false;
        let hello = b"\x04\x08\x05HELLO\x00\x00";
        side.feed(&[&libzmq_greeting("PLAIN", 1)[..], hello].concat(), 0);
        side.sent();
        side.connection.refuse(reason).unwrap();
        assert_eq!(side.sent(), sent, "{reason}");
        assert_eq!(side.connection.receive(b"", 0), Err(Error::Closed));
    }
    let codes: Vec<_> = [&b"300"[..], b"400", b"500", b"200", b"4000", b"no"]
        .map(status_code)
        .into();
    assert_eq!(codes, [Some(300), Some(400), Some(500), None, None, None]);
}

#[test]
fn a_dish_joins_and_leaves_groups_of_a_radio() {
    let (mut dish, mut radio) = common::ready_pair(
        Config::new(SocketType::Dish),
        Config::new(SocketType::Radio),
    );
    let mut out = Vec::new();
    dish.connection.encode_join(&mut out, b"Movies");
    dish.connection.encode_leave(&mut out, b"TV");
    assert_eq!(out, b"\x04\x0b\x04JOINMovies\x04\x08\x05LEAVETV");
    radio.feed(&out, 0);
    let seen = [Seen::Join(b"Movies".into()), Seen::Leave(b"TV".into())];
    assert_eq!(radio.seen, seen);
    out.clear();
    dish.connection.encode_join(&mut out, &[b'g'; 256]);
    radio.feed(&out, 0);
    let length = 256;
    assert_eq!(
        radio.error,
        Some(Error::FrameTooLong { length, limit: 255 })
    );
}
