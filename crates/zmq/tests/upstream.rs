//! What XSUB sends up to XPUB: subscriptions and messages of several frames.

mod support;

use support::{last_endpoint, pair_at, send, set_int, socket};
use tidewire_zmq::{Context, Socket, SocketType};

const XPUB_VERBOSE: i32 = 40;
const ONLY_FIRST_SUBSCRIBE: i32 = 108;
const XSUB_VERBOSE_UNSUBSCRIBE: i32 = 115;

const ENDPOINTS: [&str; 5] = [
    "tcp://127.0.0.1:*",
    "ipc://*",
    "shm://*",
    "ws://127.0.0.1:*",
    "inproc://upstream",
];

/// An XPUB and an XSUB that have heard of each other.
fn pair(context: &Context, endpoint: &str, options: &[i32]) -> [Socket; 2] {
    let publisher = socket(context, SocketType::Xpub);
    let subscriber = socket(context, SocketType::Xsub);
    for &option in options {
        let target = match option {
            XSUB_VERBOSE_UNSUBSCRIBE => &subscriber,
            _ => &publisher,
        };
        set_int(target, option, 1);
        if option == ONLY_FIRST_SUBSCRIBE {
            set_int(&subscriber, option, 1);
        }
    }
    publisher.bind(endpoint).unwrap();
    subscriber.connect(&last_endpoint(&publisher)).unwrap();
    send(&subscriber, &[b"hello"]);
    assert_eq!(receive(&publisher, 1), [frame(b"hello", false)]);
    [publisher, subscriber]
}

fn frame(bytes: &[u8], more: bool) -> (Vec<u8>, bool) {
    (bytes.to_vec(), more)
}

fn receive(socket: &Socket, count: usize) -> Vec<(Vec<u8>, bool)> {
    let next = |_| {
        let frame = socket.receive(false).unwrap();
        (frame.to_vec(), frame.more())
    };
    (0..count).map(next).collect()
}

/// Sends messages up, and compares all frames that reach the program.
fn expect(options: &[i32], messages: &[&[&[u8]]], expected: &[(&[u8], bool)]) {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [publisher, subscriber] = pair(&context, endpoint, options);
        for message in messages {
            send(&subscriber, message);
        }
        send(&subscriber, &[b"end"]);
        let mut expected: Vec<_> = expected.iter().map(|&(b, more)| frame(b, more)).collect();
        expected.push(frame(b"end", false));
        let found = receive(&publisher, expected.len());
        assert_eq!(found, expected, "{endpoint}, {options:?}");
    }
}

/// Over TCP such a frame broke its message into two, and in process it was no subscription.
#[test]
fn a_later_frame_that_subscribes_leaves_the_flags_of_the_others_as_they_are() {
    let message: &[&[u8]] = &[b"u0", b"\x01a", b"xyz"];
    let parts: [(&[u8], bool); 3] = [(b"u0", true), (b"\x01a", false), (b"xyz", false)];
    expect(&[], &[message], &parts);
    // The second time the subscription is known.
    let once = [&parts[..], &[parts[0], parts[2]]].concat();
    expect(&[], &[message, message], &once);
    expect(
        &[XPUB_VERBOSE],
        &[message, message],
        &[parts, parts].concat(),
    );
    let whole: [(&[u8], bool); 3] = [(b"u0", true), (b"\x01a", true), (b"xyz", false)];
    expect(&[ONLY_FIRST_SUBSCRIBE], &[message], &whole);
}

#[test]
fn a_message_that_begins_with_a_subscription_goes_on_behind_it() {
    let message: &[&[u8]] = &[b"\x01a", b"", b"\x01b", b"\x02c"];
    let parts: [(&[u8], bool); 4] = [
        (b"\x01a", false),
        (b"", true),
        (b"\x01b", false),
        (b"\x02c", false),
    ];
    expect(&[], &[message], &parts);
    expect(&[ONLY_FIRST_SUBSCRIBE], &[message], &parts);
}

#[test]
fn a_subscription_within_a_message_subscribes() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [publisher, subscriber] = pair(&context, endpoint, &[]);
        send(&subscriber, &[b"say", b"\x01a", b"\x01b", b"\x00a"]);
        receive(&publisher, 4);
        send(&publisher, &[b"a1"]);
        send(&publisher, &[b"b1"]);
        assert_eq!(receive(&subscriber, 1), [frame(b"b1", false)], "{endpoint}");
    }
}

/// It ended the connection, and all that was on its way was lost.
#[test]
fn a_long_later_frame_that_begins_like_a_subscription_is_passed_on() {
    let mut long = vec![b'd'; 70_000];
    long[0] = 1;
    let parts: [(&[u8], bool); 2] = [(b"u", true), (&long, false)];
    let message: &[&[u8]] = &[b"u", &long];
    expect(&[], &[message], &parts);
    expect(&[ONLY_FIRST_SUBSCRIBE], &[message], &parts);
}

/// In process the subscription came first.
#[test]
fn a_subscription_does_not_overtake_messages_sent_before_it() {
    let messages: Vec<[&[u8]; 1]> = (0..30)
        .map(|index| match index % 3 {
            0 => [&b"\x01a"[..]],
            1 => [&b"message"[..]],
            _ => [&b"\x00a"[..]],
        })
        .collect();
    let sent: Vec<&[&[u8]]> = messages.iter().map(|message| &message[..]).collect();
    let expected: Vec<(&[u8], bool)> = messages.iter().map(|&[bytes]| (bytes, false)).collect();
    expect(&[], &sent, &expected);
}

/// More than the high-water mark, while the program receives nothing.
#[test]
fn what_goes_up_beyond_the_mark_keeps_its_order() {
    const RCVHWM: i32 = 24;
    const COUNT: u32 = 500;
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let publisher = socket(&context, SocketType::Xpub);
        set_int(&publisher, RCVHWM, 3);
        publisher.bind(endpoint).unwrap();
        let subscriber = socket(&context, SocketType::Xsub);
        set_int(&subscriber, 23, 0);
        subscriber.connect(&last_endpoint(&publisher)).unwrap();
        send(&subscriber, &[b"hello"]);
        receive(&publisher, 1);
        let mut sent = Vec::new();
        for number in 0..COUNT {
            let number = number.to_be_bytes();
            let topic = [&[1], &number[..]].concat();
            send(&subscriber, &[&[b"m", &number[..]].concat()]);
            send(&subscriber, &[&topic]);
            sent.push(frame(&[b"m", &number[..]].concat(), false));
            sent.push(frame(&topic, false));
        }
        assert_eq!(receive(&publisher, sent.len()), sent, "{endpoint}");
    }
}

#[test]
fn a_cancel_of_an_unknown_topic_is_passed_on_where_the_subscriber_is_verbose() {
    expect(&[], &[&[b"\x00a"]], &[]);
    let cancels: [(&[u8], bool); 1] = [(b"\x00a", false)];
    expect(&[XSUB_VERBOSE_UNSUBSCRIBE], &[&[b"\x00a"]], &cancels);
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [publisher, subscriber] = pair(&context, endpoint, &[XSUB_VERBOSE_UNSUBSCRIBE]);
        let other = socket(&context, SocketType::Xsub);
        other.connect(&last_endpoint(&publisher)).unwrap();
        send(&other, &[b"\x01a"]);
        assert_eq!(receive(&publisher, 1), [frame(b"\x01a", false)]);
        // It had no such subscription, and another peer keeps its own.
        send(&subscriber, &[b"\x00a"]);
        assert_eq!(receive(&publisher, 1), [frame(b"\x00a", false)]);
        send(&publisher, &[b"a1"]);
        assert_eq!(receive(&other, 1), [frame(b"a1", false)], "{endpoint}");
    }
}

/// The frame that was left out was the last one, and the message had no end.
#[test]
fn a_message_whose_last_frame_is_left_out_ends_before_it() {
    expect(
        &[],
        &[&[b"u", b"v", b"\x00a"]],
        &[(b"u", true), (b"v", false)],
    );
    expect(&[], &[&[b"\x00a", b"\x00b"]], &[]);
}

/// It had no properties and no descriptor.
#[test]
fn a_subscription_tells_of_its_peer_what_messages_do() {
    for endpoint in ENDPOINTS {
        for subscriber in [SocketType::Sub, SocketType::Xsub] {
            let context = Context::new();
            let [publisher, subscriber] = pair_at(&context, endpoint, SocketType::Xpub, subscriber);
            match subscriber.kind() {
                SocketType::Sub => support::set(&subscriber, support::SUBSCRIBE, b"a"),
                _ => send(&subscriber, &[b"\x01a"]),
            }
            let event = publisher.receive(false).unwrap();
            assert_eq!(&event[..], b"\x01a");
            if endpoint.starts_with("inproc") {
                continue;
            }
            let kind = match subscriber.kind() {
                SocketType::Sub => "SUB",
                _ => "XSUB",
            };
            assert_eq!(event.property("Socket-Type"), Some(kind), "{endpoint}");
            assert!(event.source_descriptor().is_some(), "{endpoint}");
            let address = event.property("Peer-Address").unwrap();
            let begin = match endpoint.contains("127") {
                true => "127.0.0.1",
                false => "localhost:",
            };
            assert!(address.starts_with(begin), "{endpoint}: {address}");
            if begin == "localhost:" {
                assert!(address.ends_with(&format!(":{}", std::process::id())));
            }
        }
    }
}
