//! Two of our connections with each other, in every combination and every cut.

mod common;

use common::{Seen, Side, ready_pair, wire};
use proptest::prelude::*;
use tidewire_zmtp::{Config, Error, SocketType, Version, encode_frame};

const VERSIONS: [Version; 3] = [Version::V2_0, Version::V3_0, Version::V3_1];

#[test]
fn every_pair_of_types_meets_or_is_told_why_not() {
    for ours in SocketType::ALL {
        for theirs in SocketType::ALL {
            let mut left = Side::new(Config::new(ours));
            let mut right = Side::new(Config::new(theirs));
            wire(&mut left, &mut right, || 7);
            let legal = ours.compatible_with(theirs);
            assert_eq!(left.connection.is_ready(), legal, "{ours} {theirs}");
            assert_eq!(right.connection.is_ready(), legal, "{ours} {theirs}");
            if legal {
                assert_eq!(left.seen, [Seen::Ready]);
                assert_eq!(left.connection.peer().unwrap().socket_type, Some(theirs));
            } else {
                assert_eq!(
                    left.error,
                    Some(Error::IncompatibleSocketType { ours, theirs })
                );
            }
        }
    }
}

#[test]
fn an_incompatible_peer_gets_an_error_command() {
    let greeting = common::libzmq_greeting("NULL", 1);
    let mut side = Side::fed(Config::new(SocketType::Pull), &greeting);
    side.sent();
    side.feed(&common::ready("PULL"), 0);
    assert_eq!(
        side.sent(),
        b"\x04\x1f\x05ERROR\x18Incompatible socket type"
    );
}

#[test]
fn the_lower_version_of_the_two_is_spoken() {
    for ours in VERSIONS {
        for theirs in VERSIONS {
            let left = Config {
                version: ours,
                ..Config::new(SocketType::Xsub)
            };
            let right = Config {
                version: theirs,
                ..Config::new(SocketType::Xpub)
            };
            let (mut left, mut right) = ready_pair(left, right);
            let version = ours.min(theirs);
            assert_eq!(left.connection.peer().unwrap().version, version);
            assert_eq!(right.connection.peer().unwrap().version, version);
            let mut out = Vec::new();
            left.connection.encode_subscribe(&mut out, b"topic");
            left.connection.encode_cancel(&mut out, b"topic");
            encode_frame(&mut out, b"upstream", false);
            right.feed(&out, 0);
            let topic = b"topic".to_vec();
            let upstream = Seen::Frame(b"upstream".into(), false);
            assert_eq!(
                right.seen,
                [
                    Seen::Subscribe(topic.clone()),
                    Seen::Cancel(topic),
                    upstream
                ]
            );
            out.clear();
            encode_frame(&mut out, b"topic", true);
            encode_frame(&mut out, &[7; 300], false);
            left.feed(&out, 0);
            let seen = [
                Seen::Frame(b"topic".into(), true),
                Seen::Frame(vec![7; 300], false),
            ];
            assert_eq!(left.seen, seen);
        }
    }
}

#[test]
fn an_older_version_than_asked_for_is_refused() {
    for theirs in [Version::V2_0, Version::V3_0] {
        let config = Config {
            version_min: Version::V3_1,
            ..Config::new(SocketType::Pull)
        };
        let mut left = Side::new(config);
        let mut right = Side::new(Config {
            version: theirs,
            ..Config::new(SocketType::Push)
        });
        wire(&mut left, &mut right, || 100);
        assert!(
            matches!(left.error, Some(Error::VersionTooOld { .. })),
            "{:?}",
            left.error
        );
    }
}

/// A long conversation: greeting, metadata, subscriptions, short and long and empty frames.
fn conversation() -> Vec<u8> {
    let config = Config {
        properties: vec![("X-Desk".into(), b"rates".into())],
        ..Config::new(SocketType::Xsub)
    };
    let (mut left, mut right) = (Side::new(config), Side::new(Config::new(SocketType::Xpub)));
    let mut stream = left.sent();
    right.feed(&stream, 0);
    left.feed(&right.sent(), 0);
    let rest = left.sent();
    right.feed(&rest, 0);
    left.feed(&right.sent(), 0);
    stream.extend(rest);
    stream.extend(left.sent());
    assert!(left.connection.is_ready());
    left.connection.encode_subscribe(&mut stream, b"md:");
    encode_frame(&mut stream, b"hello", true);
    encode_frame(&mut stream, b"", true);
    encode_frame(&mut stream, &[b'x'; 260], false);
    stream.extend_from_slice(b"\x04\x0a\x04PING\x00\x00ctx");
    left.connection.encode_cancel(&mut stream, b"md:");
    encode_frame(&mut stream, b"\x01old", false);
    stream
}

#[test]
fn every_split_of_the_stream_tells_the_same_story() {
    let stream = conversation();
    let config = Config::new(SocketType::Xpub);
    let whole = Side::fed(config.clone(), &stream);
    assert_eq!(whole.error, None);
    assert_eq!(whole.seen.len(), 7);
    for cut in 0..stream.len() {
        let mut side = Side::fed(config.clone(), &stream[..cut]);
        side.feed(&stream[cut..], 0);
        assert_eq!(side.seen, whole.seen, "cut at {cut}");
        assert_eq!(side.sent(), Side::fed(config.clone(), &stream).sent());
    }
    let mut dripped = Side::new(config);
    for octet in &stream {
        dripped.feed(&[*octet], 0);
    }
    assert_eq!(dripped.seen, whole.seen);
}

#[test]
fn long_bodies_come_in_pieces_when_asked_for() {
    let config = Config {
        stream_above_bytes: Some(100),
        ..Config::new(SocketType::Pull)
    };
    let (_, mut pull) = ready_pair(Config::new(SocketType::Push), config);
    let body: Vec<u8> = (0..1000u32).map(|number| number as u8).collect();
    let mut out = Vec::new();
    encode_frame(&mut out, &body, true);
    encode_frame(&mut out, &body[..100], false);
    pull.feed(&out[..9], 0);
    pull.feed(&out[9..509], 0);
    assert_eq!(pull.connection.body_left(), 500);
    pull.feed(&out[509..], 0);
    let seen = [
        Seen::FrameStart(1000, true),
        Seen::FrameChunk(body[..500].into(), false),
        Seen::FrameChunk(body[500..].into(), true),
        Seen::Frame(body[..100].into(), false),
    ];
    assert_eq!(pull.seen, seen);

    pull.seen.clear();
    pull.feed(&out[..20], 0);
    assert_eq!(pull.connection.body_left(), 989);
    assert!(
        !pull.connection.body_received(900),
        "read straight into the message"
    );
    assert!(pull.connection.body_received(89));
    pull.feed(&out[1009..], 0);
    assert_eq!(
        pull.seen.last(),
        Some(&Seen::Frame(body[..100].into(), false))
    );
    pull.seen.clear();
    pull.feed(&out, 0);
    assert_eq!(
        pull.seen[0],
        Seen::Frame(body, true),
        "what is all there comes whole"
    );
}

#[test]
fn a_pub_hears_subscriptions_and_nothing_else() {
    let config = Config::new(SocketType::Xsub);
    let (_, mut publisher) = ready_pair(config, Config::new(SocketType::Pub));
    let mut out = Vec::new();
    encode_frame(&mut out, b"not for a publisher", false);
    encode_frame(&mut out, b"", false);
    encode_frame(&mut out, &[2; 100_000], true);
    encode_frame(&mut out, b"\x01later frames count, as in libzmq", false);
    encode_frame(&mut out, b"\x01", false);
    encode_frame(&mut out, b"\x00", false);
    for octets in out.chunks(1000) {
        publisher.feed(octets, 0);
        assert!(
            publisher.input.len() < 1000,
            "frames nobody wants are not gathered"
        );
    }
    let later = Seen::Subscribe(b"later frames count, as in libzmq".into());
    assert_eq!(
        publisher.seen,
        [later, Seen::Subscribe(vec![]), Seen::Cancel(vec![])]
    );
}

#[test]
fn with_only_first_subscribe_later_frames_are_a_message() {
    let right = Config {
        only_first_subscribe: true,
        ..Config::new(SocketType::Xpub)
    };
    let (_, mut xpub) = ready_pair(Config::new(SocketType::Xsub), right);
    xpub.feed(b"\x01\x01m\x00\x02\x01a\x01\x02\x01b\x00\x02\x01c", 0);
    let frames = [
        Seen::Frame(b"m".into(), true),
        Seen::Frame(b"\x01a".into(), false),
        Seen::Subscribe(b"b".into()),
        Seen::Subscribe(b"c".into()),
    ];
    assert_eq!(xpub.seen, frames);
}

/// Only then the driver can hand up a message whose frames keep their flags.
#[test]
fn frames_of_a_message_stay_together_where_the_driver_judges_them() {
    let right = |whole_messages| Config {
        whole_messages,
        ..Config::new(SocketType::Xpub)
    };
    let stream = b"\x01\x01m\x00\x02\x01a\x01\x02\x01b\x00\x01x\x00\x02\x01c";
    let frame = |bytes: &[u8], more| Seen::Frame(bytes.into(), more);
    let [a, b, c] = [b"a", b"b", b"c"].map(|topic| Seen::Subscribe(topic.to_vec()));
    let whole = [
        frame(b"m", true),
        frame(b"\x01a", false),
        frame(b"\x01b", true),
        frame(b"x", false),
        c.clone(),
    ];
    let apart = [frame(b"m", true), a, b, frame(b"x", false), c];
    for (whole_messages, expected) in [(true, whole), (false, apart)] {
        let left = Config::new(SocketType::Xsub);
        let (_, mut xpub) = ready_pair(left, right(whole_messages));
        xpub.feed(stream, 0);
        assert_eq!(xpub.seen, expected);
    }
}

#[test]
fn subscriptions_mean_nothing_to_other_sockets() {
    let (mut left, mut pull) =
        ready_pair(Config::new(SocketType::Push), Config::new(SocketType::Pull));
    let mut out = Vec::new();
    left.connection.encode_subscribe(&mut out, b"a");
    encode_frame(&mut out, b"\x01a", false);
    pull.feed(&out, 0);
    assert_eq!(pull.seen, [Seen::Frame(b"\x01a".into(), false)]);
}

#[test]
fn the_short_way_is_for_messages_alone_and_within_the_limit() {
    let mut config = Config::new(SocketType::Pull);
    config.limits.frame_bytes_max = 3;
    let (mut push, mut pull) = ready_pair(Config::new(SocketType::Push), config);
    pull.takes_short = true;
    encode_frame(push.connection.outgoing(), b"abc", false);
    push.connection.outgoing().extend(b"\x04\x07\x04PING\0\0");
    encode_frame(push.connection.outgoing(), b"abcd", false);
    let stream = push.sent();
    pull.feed(&stream, 0);
    assert_eq!(pull.seen, [Seen::Frame(b"abc".into(), false)]);
    assert_eq!(pull.sent(), b"\x04\x05\x04PONG");
    let too_long = Error::FrameTooLong {
        length: 4,
        limit: 3,
    };
    assert_eq!(pull.error, Some(too_long));
    assert_eq!(pull.connection.receive_short(b"\0\x01a"), None);

    let types = [SocketType::Sub, SocketType::Xpub].map(Config::new);
    let [sub, publisher] = types;
    let (_, mut publisher) = ready_pair(sub, publisher);
    publisher.takes_short = true;
    publisher.feed(b"\0\x02\x01a", 0);
    assert_eq!(publisher.seen, [Seen::Subscribe(b"a".into())]);
}

fn frame() -> impl Strategy<Value = (Vec<u8>, bool)> {
    (prop::collection::vec(any::<u8>(), 0..400), any::<bool>())
}

proptest! {
    #[test]
    fn random_chunks_carry_random_messages(
        bodies in prop::collection::vec(frame(), 1..20),
        sizes in prop::collection::vec(1..300usize, 1..20),
        version in 0..3usize,
        streamed in any::<bool>(),
        takes_short in any::<bool>(),
    ) {
        let left = Config { version: VERSIONS[version], ..Config::new(SocketType::Dealer) };
        let right = Config {
            stream_above_bytes: streamed.then_some(64),
            ..Config::new(SocketType::Router)
        };
        let (mut left, mut right) = (Side::new(left), Side::new(right));
        right.takes_short = takes_short;
        let mut turn = 0;
        let mut size = || { turn += 1; sizes[turn % sizes.len()] };
        wire(&mut left, &mut right, &mut size);
        for (body, more) in &bodies {
            encode_frame(left.connection.outgoing(), body, *more);
        }
        wire(&mut left, &mut right, &mut size);
        prop_assert_eq!(&right.error, &None);
        let mut arrived: Vec<(Vec<u8>, bool)> = Vec::new();
        for seen in &right.seen {
            match seen {
                Seen::Ready => {}
                Seen::Frame(body, more) => arrived.push((body.clone(), *more)),
                Seen::FrameStart(_, more) => arrived.push((Vec::new(), *more)),
                Seen::FrameChunk(bytes, _) => arrived.last_mut().unwrap().0.extend(bytes),
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(arrived, bodies);
    }
}
