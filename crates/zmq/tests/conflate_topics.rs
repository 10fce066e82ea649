//! `CONFLATE_TOPICS`: of what waits, the newest message of each topic.

mod support;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::time::Timespec;
use support::{LAST, SUBSCRIBE, last_endpoint, pair_at, receive, send, set, set_int, socket};
use tidewire_zmq::own_options::{
    CONFLATE_TOPICS, CONFLATE_TOPICS_MAX, EVENT_DROPS_BEGIN, LAST_VALUES, RCVHWM_BYTES,
    SNDHWM_BYTES,
};
use tidewire_zmq::{Context, Error, Message, PollItem, SendFlags, Socket, SocketType, poll};
use tidewire_zmtp::curve::Keypair;

const TCP: &str = "tcp://127.0.0.1:*";
const STREAMS: [&str; 4] = [TCP, "ipc://*", "shm://*", "ws://127.0.0.1:*"];
const UNSUBSCRIBE: i32 = 7;
const SNDBUF: i32 = 11;
const RCVBUF: i32 = 12;
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const CURVE_SERVER: i32 = 47;
const CURVE_PUBLICKEY: i32 = 48;
const CURVE_SECRETKEY: i32 = 49;
const CURVE_SERVERKEY: i32 = 50;
const CONFLATE: i32 = 54;
const XPUB_NODROP: i32 = 69;
const NOW: SendFlags = SendFlags {
    dont_wait: true,
    ..LAST
};
const TOPICS: u8 = 20;
const FIVE_SECONDS: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// Waits until something is so.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn conflated(socket: &Socket) -> u64 {
    let peers = socket.peers().unwrap();
    peers.iter().map(|peer| peer.conflated).sum()
}

/// A publisher and a subscriber to all, that know each other.
fn pair(
    context: &Context,
    endpoint: &str,
    kinds: [SocketType; 2],
    prepare: impl FnOnce(&Socket, &Socket),
) -> [Socket; 2] {
    let [publisher, sub] = kinds.map(|kind| socket(context, kind));
    prepare(&publisher, &sub);
    publisher.bind(endpoint).unwrap();
    sub.connect(&last_endpoint(&publisher)).unwrap();
    match kinds[1] {
        SocketType::Sub => set(&sub, SUBSCRIBE, b""),
        _ => send(&sub, &[b"\x01"]),
    }
    eventually("a subscription", || {
        send(&publisher, &[b"are you there?"]);
        matches!(sub.receive(true), Ok(first) if first.as_slice() == b"are you there?")
    });
    while sub.receive(true).is_ok() {}
    [publisher, sub]
}

const PUB_SUB: [SocketType; 2] = [SocketType::Pub, SocketType::Sub];

/// A subscriber that reads nothing by itself.
fn deafen(publisher: &Socket, sub: &Socket) {
    set_int(publisher, SNDBUF, 10_000);
    set_int(sub, RCVBUF, 10_000);
    set_int(sub, RCVHWM, 1);
}

/// Publishes so many changes of each topic, in turn: topic, number of the change, and padding.
fn publish(publisher: &Socket, changes: u32, padding_bytes: usize) {
    publish_range(publisher, 1..=changes, padding_bytes);
}

fn publish_range(publisher: &Socket, changes: RangeInclusive<u32>, padding_bytes: usize) {
    let padding = vec![7; padding_bytes];
    for change in changes {
        for topic in 0..TOPICS {
            send(publisher, &[&[topic], &change.to_ne_bytes(), &padding]);
        }
    }
}

/// Receives until each topic has come to its last change. Returns the number of messages.
fn receive_all(sub: &Socket, changes: u32, padding_bytes: usize) -> u64 {
    let mut newest = BTreeMap::new();
    let mut count = 0;
    while newest.len() < usize::from(TOPICS) || newest.values().any(|&change| change < changes) {
        let message = receive(sub);
        if message == [b"are you there?"] {
            continue;
        }
        count += 1;
        assert_eq!(
            (message.len(), message[2].len()),
            (3, padding_bytes),
            "whole"
        );
        let change = u32::from_ne_bytes(message[1][..].try_into().unwrap());
        let before = newest.insert(message[0][0], change).unwrap_or(0);
        assert!(change > before, "{change} behind {before}");
    }
    assert_eq!(sub.receive(true).unwrap_err(), Error::Again);
    count
}

#[test]
fn a_subscriber_that_does_not_keep_up_gets_the_newest_of_each_topic() {
    let context = Context::new();
    for endpoint in STREAMS {
        for kinds in [PUB_SUB, [SocketType::Xpub, SocketType::Xsub]] {
            let [publisher, sub] = pair(&context, endpoint, kinds, |publisher, sub| {
                set_int(publisher, CONFLATE_TOPICS, 1);
                // It does not count.
                set_int(publisher, SNDHWM, 2);
                deafen(publisher, sub);
            });
            let sent_before = publisher.peers().unwrap()[0].sent;
            publish(&publisher, 300, 1_000);
            let peer = publisher.peers().unwrap().remove(0);
            assert_eq!(
                (peer.sent - sent_before, peer.dropped),
                (6_000, 0),
                "{peer:?}"
            );
            assert!(peer.conflated > 1_000, "{endpoint}: {peer:?}");
            // Up to 16 KiB that are encoded already, and one message of each topic.
            assert!(peer.queued_bytes < 16_384 + 21 * 1_100, "{peer:?}");
            let received = receive_all(&sub, 300, 1_000);
            assert_eq!(received + conflated(&publisher), 6_000, "{endpoint}");
        }
    }
}

#[test]
fn a_program_that_does_not_keep_up_gets_the_newest_of_each_topic() {
    let context = Context::new();
    for endpoint in STREAMS {
        for kinds in [PUB_SUB, [SocketType::Xpub, SocketType::Xsub]] {
            let [publisher, sub] = pair(&context, endpoint, kinds, |publisher, sub| {
                set_int(sub, CONFLATE_TOPICS, 1);
                set_int(sub, RCVHWM, 2);
                set_int(publisher, SNDHWM, 0);
            });
            publish(&publisher, 300, 100);
            eventually("all has come", || conflated(&sub) == 299 * 20);
            // In the order of the oldest change, and each once.
            for topic in 0..TOPICS {
                let message = receive(&sub);
                assert_eq!(message[..2], [&[topic][..], &300_u32.to_ne_bytes()]);
                assert_eq!(message[2].len(), 100);
            }
            assert_eq!(sub.receive(true).unwrap_err(), Error::Again);
        }
    }
}

#[test]
fn sockets_of_one_process_conflate_if_one_of_them_wants_it() {
    let context = Context::new();
    for (place, publisher_does, sub_does) in [(1, true, false), (2, false, true), (3, true, true)] {
        let endpoint = format!("inproc://{place}");
        let [publisher, sub] = pair(&context, &endpoint, PUB_SUB, |publisher, sub| {
            set_int(publisher, CONFLATE_TOPICS, i32::from(publisher_does));
            set_int(sub, CONFLATE_TOPICS, i32::from(sub_does));
            set_int(publisher, SNDHWM, 1);
            set_int(sub, RCVHWM, 1);
        });
        let before = conflated(&publisher);
        publish(&publisher, 300, 1_000);
        assert_eq!(publisher.peers().unwrap()[0].queued, u64::from(TOPICS));
        assert_eq!(conflated(&publisher) - before, 299 * 20);
        assert_eq!(conflated(&sub), conflated(&publisher), "both count it");
        for topic in 0..TOPICS {
            let message = receive(&sub);
            assert_eq!(message[..2], [&[topic][..], &300_u32.to_ne_bytes()]);
        }
        assert_eq!(sub.receive(true).unwrap_err(), Error::Again);
        assert_eq!(publisher.peers().unwrap()[0].queued, 0);
    }
}

#[test]
fn a_socket_that_binds_later_conflates_too() {
    let context = Context::new();
    let [sub, publisher] = [SocketType::Sub, SocketType::Xpub].map(|kind| socket(&context, kind));
    set_int(&sub, CONFLATE_TOPICS, 1);
    set(&sub, SUBSCRIBE, b"");
    sub.connect("inproc://later").unwrap();
    publisher.bind("inproc://later").unwrap();
    assert_eq!(receive(&publisher), [b"\x01"]);
    for change in [b"1", b"2", b"3"] {
        send(&publisher, &[b"a", change]);
        send(&publisher, &[b"b", change]);
    }
    assert_eq!(receive(&sub), [b"a", b"3"]);
    assert_eq!(receive(&sub), [b"b", b"3"]);
    assert_eq!(sub.receive(true).unwrap_err(), Error::Again);
}

#[test]
fn encrypted_connections_conflate() {
    let [server, client] = [(); 2].map(|()| Keypair::generate().unwrap());
    let context = Context::new();
    for endpoint in STREAMS {
        let [publisher, sub] = pair(&context, endpoint, PUB_SUB, |publisher, sub| {
            set_int(publisher, CURVE_SERVER, 1);
            set(publisher, CURVE_SECRETKEY, server.secret.as_bytes());
            set(sub, CURVE_SERVERKEY, &server.public);
            set(sub, CURVE_PUBLICKEY, &client.public);
            set(sub, CURVE_SECRETKEY, client.secret.as_bytes());
            set_int(publisher, CONFLATE_TOPICS, 1);
            deafen(publisher, sub);
        });
        publish(&publisher, 300, 1_000);
        let received = receive_all(&sub, 300, 1_000);
        assert!(conflated(&publisher) > 1_000, "{endpoint}");
        assert_eq!(received + conflated(&publisher), 6_000, "{endpoint}");
    }
}

/// `CONFLATE` keeps one message of all, and would leave topics out.
#[test]
fn beside_conflate_topics_count() {
    let context = Context::new();
    for endpoint in [TCP, "inproc://both"] {
        for options in [[CONFLATE, CONFLATE_TOPICS], [CONFLATE_TOPICS, CONFLATE]] {
            let [publisher, sub] = pair(&context, endpoint, PUB_SUB, |publisher, sub| {
                for socket in [publisher, sub] {
                    options
                        .iter()
                        .for_each(|&option| set_int(socket, option, 1));
                }
            });
            publish(&publisher, 100, 10);
            receive_all(&sub, 100, 10);
            publisher.unbind(&last_endpoint(&publisher)).unwrap();
        }
    }
}

#[test]
fn where_one_socket_conflates_topics_and_the_other_all_one_message_is_left() {
    let context = Context::new();
    let [publisher, sub] = pair(&context, "inproc://one", PUB_SUB, |publisher, sub| {
        set_int(publisher, CONFLATE_TOPICS, 1);
        set_int(sub, CONFLATE, 1);
    });
    publish(&publisher, 10, 10);
    assert_eq!(
        receive(&sub)[..2],
        [&[TOPICS - 1][..], &10_u32.to_ne_bytes()]
    );
    assert_eq!(sub.receive(true).unwrap_err(), Error::Again);
}

/// Fills the kernel and what is encoded, so that each further topic waits in the queue.
fn fill(publisher: &Socket) {
    let before = conflated(publisher);
    while conflated(publisher) == before {
        send(publisher, &[b"fill", &[7; 5_000]]);
    }
}

#[test]
fn at_the_limit_a_new_topic_is_dropped_and_told_and_the_others_are_replaced() {
    let context = Context::new();
    for endpoint in [TCP, "inproc://limit"] {
        let name = "inproc://drops";
        let monitor = socket(&context, SocketType::Pair);
        let [publisher, sub] = pair(&context, endpoint, PUB_SUB, |publisher, sub| {
            set_int(publisher, CONFLATE_TOPICS, 1);
            set_int(publisher, CONFLATE_TOPICS_MAX, 3);
            let events = EVENT_DROPS_BEGIN;
            publisher
                .monitor(Some(name), events, 2, SocketType::Pair)
                .unwrap();
            monitor.connect(name).unwrap();
            deafen(publisher, sub);
        });
        fill(&publisher);
        for topic in [b"a", b"b", b"c", b"d"] {
            send(&publisher, &[topic, b"1"]);
        }
        let peer = publisher.peers().unwrap().remove(0);
        assert_eq!(peer.dropped, 2, "{endpoint}: {peer:?}");
        let event = receive(&monitor);
        assert_eq!(event[0], EVENT_DROPS_BEGIN.to_ne_bytes());
        send(&publisher, &[b"a", b"2"]);
        send(&publisher, &[b"b", b"2"]);
        send(&publisher, &[b"c", b"2"]);
        let expected = [[&b"a"[..], b"2"], [&b"b"[..], b"2"]];
        let mut found = Vec::new();
        while found.len() < 2 {
            let message = receive(&sub);
            if message[0] != b"fill" && message[0] != b"are you there?" {
                found.push(message);
            }
        }
        assert_eq!(found, expected);
        assert_eq!(sub.receive(true).unwrap_err(), Error::Again);
        let peer = publisher.peers().unwrap().remove(0);
        assert_eq!(peer.dropped, 3, "{endpoint}: {peer:?}");
        send(&publisher, &[b"c", b"there is room again"]);
        assert_eq!(receive(&sub)[0], b"c");
        publisher.monitor(None, 0, 2, SocketType::Pair).unwrap();
    }
}

/// With both options the limits added up: the default of the one made the other's meaningless.
#[test]
fn in_process_the_smaller_limit_of_the_sockets_that_conflate_holds() {
    let context = Context::new();
    let cases = [
        // Whether each conflates, the limits (0: the default), the topics that are kept.
        ([0, 1], [0, 5], 5),
        ([0, 1], [5, 0], 20),
        ([1, 0], [5, 0], 5),
        ([1, 0], [0, 5], 20),
        ([1, 1], [0, 5], 5),
        ([1, 1], [5, 0], 5),
        ([1, 1], [7, 5], 5),
        ([1, 1], [5, 7], 5),
    ];
    for (conflates, limits, kept) in cases {
        let publisher = socket(&context, SocketType::Pub);
        let sub = socket(&context, SocketType::Sub);
        for (side, socket) in [&publisher, &sub].into_iter().enumerate() {
            set_int(socket, CONFLATE_TOPICS, conflates[side]);
            if limits[side] > 0 {
                set_int(socket, CONFLATE_TOPICS_MAX, limits[side]);
            }
        }
        publisher.bind("inproc://smaller").unwrap();
        sub.connect("inproc://smaller").unwrap();
        set(&sub, SUBSCRIBE, b"");
        let _ = publisher.events();
        for round in 0..3 {
            for topic in 0..20 {
                send(&publisher, &[&[topic], &[round]]);
            }
        }
        for topic in 0..kept {
            assert_eq!(receive(&sub), [[topic], [2]], "{conflates:?} {limits:?}");
        }
        assert_eq!(sub.receive(true).err(), Some(Error::Again));
        publisher.unbind("inproc://smaller").unwrap();
    }
}

#[test]
fn with_nodrop_only_a_new_topic_at_the_limit_waits() {
    let context = Context::new();
    for endpoint in [TCP, "inproc://nodrop"] {
        let [publisher, sub] = pair(&context, endpoint, PUB_SUB, |publisher, sub| {
            set_int(publisher, CONFLATE_TOPICS, 1);
            set_int(publisher, CONFLATE_TOPICS_MAX, 2);
            set_int(publisher, XPUB_NODROP, 1);
            set_int(publisher, SNDHWM, 1);
            deafen(publisher, sub);
        });
        fill(&publisher);
        send(&publisher, &[b"a", b"1"]);
        let more = SendFlags { more: true, ..NOW };
        for _ in 0..1_000 {
            send(&publisher, &[b"a", b"2"]);
            let mut topic = Message::from_slice(b"b");
            assert_eq!(
                publisher.send(&mut topic, more),
                Err(Error::Again),
                "{endpoint}"
            );
        }
        let reader = std::thread::spawn(move || {
            let mut found = Vec::new();
            while found
                .last()
                .is_none_or(|last: &Vec<Vec<u8>>| last[0] != b"b")
            {
                found.push(receive(&sub));
            }
            (found, sub)
        });
        // It waits until the subscriber has read.
        send(&publisher, &[b"b", b"3"]);
        let (found, _sub) = reader.join().unwrap();
        let a = found.iter().filter(|message| message[0] == b"a");
        assert_eq!(a.collect::<Vec<_>>(), [&[&b"a"[..], b"2"]], "{endpoint}");
        assert_eq!(publisher.peers().unwrap()[0].dropped, 0);
    }
}

#[test]
fn bytes_have_their_limit_too_and_a_topic_that_waits_is_replaced_at_any_length() {
    let context = Context::new();
    let [publisher, sub] = pair(&context, TCP, PUB_SUB, |publisher, sub| {
        set_int(publisher, CONFLATE_TOPICS, 1);
        set_int(publisher, SNDHWM_BYTES, 100_000);
        deafen(publisher, sub);
    });
    fill(&publisher);
    send(&publisher, &[b"a", &[1; 200_000]]);
    send(&publisher, &[b"b", b"1"]);
    assert_eq!(publisher.peers().unwrap()[0].dropped, 1);
    send(&publisher, &[b"a", &[2; 300_000]]);
    send(&publisher, &[b"a", b"short"]);
    send(&publisher, &[b"b", b"2"]);
    let peer = publisher.peers().unwrap().remove(0);
    assert_eq!(peer.dropped, 1, "{peer:?}");
    assert!(peer.queued_bytes < 30_000, "{peer:?}");
    let mut last = receive(&sub);
    while last[0] != b"b" {
        last = receive(&sub);
    }
    assert_eq!(last, [b"b", b"2"]);
}

/// A subscriber at its limit reads no more, and the publisher conflates in its stead.
#[test]
fn nothing_is_lost_at_the_limit_of_a_subscriber() {
    let context = Context::new();
    for limit in [CONFLATE_TOPICS_MAX, RCVHWM_BYTES] {
        let [publisher, sub] = pair(&context, TCP, PUB_SUB, |publisher, sub| {
            set_int(publisher, CONFLATE_TOPICS, 1);
            set_int(sub, CONFLATE_TOPICS, 1);
            set_int(sub, limit, 3);
            set_int(publisher, SNDBUF, 10_000);
            set_int(sub, RCVBUF, 10_000);
        });
        publish(&publisher, 300, 1_000);
        let received = receive_all(&sub, 300, 1_000);
        assert_eq!(publisher.peers().unwrap()[0].dropped, 0);
        assert_eq!(received + conflated(&publisher) + conflated(&sub), 6_000);
        assert!(conflated(&publisher) > 1_000);
    }
}

/// Looking whether there is a message kept it in hand, and it was old when it was taken.
#[test]
fn a_message_that_was_only_looked_at_is_replaced() {
    let context = Context::new();
    for endpoint in [TCP, "ws://127.0.0.1:*", "inproc://looked"] {
        let [publisher, sub] = pair(&context, endpoint, PUB_SUB, |_, sub| {
            set_int(sub, CONFLATE_TOPICS, 1);
        });
        // From here on the background thread looks too.
        sub.descriptor().unwrap();
        let mut before = conflated(&sub);
        for change in 0..100_u8 {
            send(&publisher, &[b"a", &[change]]);
            if change == 0 {
                eventually("it is readable", || sub.events().unwrap().readable);
            } else {
                before += 1;
                eventually("it was replaced", || conflated(&sub) == before);
                assert!(sub.events().unwrap().readable);
            }
        }
        assert_eq!(receive(&sub), [&b"a"[..], &[99]], "{endpoint}");
        assert!(!sub.events().unwrap().readable);
    }
}

#[test]
fn what_is_not_subscribed_to_any_more_is_not_received() {
    let context = Context::new();
    for endpoint in [TCP, "inproc://cancelled"] {
        let [publisher, sub] = pair(&context, endpoint, PUB_SUB, |_, sub| {
            set_int(sub, CONFLATE_TOPICS, 1);
        });
        set(&sub, SUBSCRIBE, b"b");
        for topic in [b"a", b"a", b"b", b"c"] {
            send(&publisher, &[topic, b"1"]);
        }
        eventually("all has come", || {
            conflated(&sub) > 0 && sub.events().unwrap().readable
        });
        set(&sub, UNSUBSCRIBE, b"");
        assert_eq!(receive(&sub), [b"b", b"1"]);
        assert!(!sub.events().unwrap().readable, "{endpoint}");
        assert_eq!(sub.receive(true).unwrap_err(), Error::Again);
    }
}

#[test]
fn a_closed_publisher_delivers_the_newest_of_each_topic() {
    let context = Context::new();
    let [publisher, sub] = pair(&context, TCP, PUB_SUB, |publisher, sub| {
        set_int(publisher, CONFLATE_TOPICS, 1);
        deafen(publisher, sub);
    });
    set_int(&publisher, support::LINGER, -1);
    publish(&publisher, 300, 1_000);
    drop(publisher);
    receive_all(&sub, 300, 1_000);
}

#[test]
fn last_values_and_the_newest_of_each_topic_go_together() {
    let context = Context::new();
    let publisher = socket(&context, SocketType::Pub);
    set_int(&publisher, CONFLATE_TOPICS, 1);
    set_int(&publisher, LAST_VALUES, 100);
    publisher.bind(TCP).unwrap();
    publish(&publisher, 3, 1_000);
    let sub = socket(&context, SocketType::Sub);
    deafen(&publisher, &sub);
    set(&sub, SUBSCRIBE, b"");
    sub.connect(&last_endpoint(&publisher)).unwrap();
    eventually("a subscription", || {
        publisher.peers().unwrap().iter().any(|peer| peer.sent > 0)
    });
    publish_range(&publisher, 4..=300, 1_000);
    receive_all(&sub, 300, 1_000);
}

/// What subscribers send to their publisher is not conflated.
#[test]
fn what_goes_the_other_way_is_kept() {
    let context = Context::new();
    for endpoint in [TCP, "inproc://upwards"] {
        let kinds = [SocketType::Xpub, SocketType::Xsub];
        let [xpub, xsub] = pair(&context, endpoint, kinds, |xpub, xsub| {
            set_int(xpub, CONFLATE_TOPICS, 1);
            set_int(xsub, CONFLATE_TOPICS, 1);
        });
        assert_eq!(receive(&xpub), [b"\x01"]);
        for number in 0..100_u8 {
            send(&xsub, &[b"same", &[b'n', number]]);
            send(&xsub, &[&[1, number]]);
        }
        let (mut messages, mut subscriptions) = (Vec::new(), Vec::new());
        while messages.len() < 100 || subscriptions.len() < 100 {
            let frames = receive(&xpub);
            match frames.len() {
                1 => subscriptions.push(frames[0][1]),
                _ => messages.push(frames[1][1]),
            }
        }
        assert!((0..100).eq(messages), "{endpoint}");
        assert!((0..100).eq(subscriptions), "{endpoint}");
    }
}

/// Those that are connected keep to what held when they came.
#[test]
fn the_option_counts_for_later_connections() {
    let context = Context::new();
    for endpoint in [TCP, "inproc://changed"] {
        let [publisher, sub] = pair(&context, endpoint, PUB_SUB, |publisher, sub| {
            set_int(publisher, SNDHWM, 0);
            set_int(sub, RCVHWM, 0);
        });
        set_int(&publisher, CONFLATE_TOPICS, 1);
        set_int(&sub, CONFLATE_TOPICS, 1);
        publish(&publisher, 100, 10);
        assert_eq!(receive_all(&sub, 100, 10), 2_000, "{endpoint}");
        set_int(&publisher, CONFLATE_TOPICS, 0);
        set_int(&sub, CONFLATE_TOPICS, 0);
        publish(&publisher, 100, 10);
        assert_eq!(receive_all(&sub, 100, 10), 2_000, "{endpoint}");
    }
}

#[test]
fn of_many_publishers_at_once_the_newest_of_each_topic_comes() {
    const CHANGES: u32 = 5_000;
    let context = Context::new();
    for endpoint in [TCP, "inproc://crowd"] {
        let sub = socket(&context, SocketType::Sub);
        set_int(&sub, CONFLATE_TOPICS, 1);
        set(&sub, SUBSCRIBE, b"");
        sub.bind(endpoint).unwrap();
        let place = last_endpoint(&sub);
        std::thread::scope(|scope| {
            for name in 0..4_u8 {
                let (context, place) = (&context, &place);
                scope.spawn(move || {
                    let publisher = socket(context, SocketType::Xpub);
                    set_int(&publisher, SNDHWM, 0);
                    set_int(&publisher, support::LINGER, -1);
                    publisher.connect(place).unwrap();
                    assert_eq!(receive(&publisher), [b"\x01"]);
                    for change in 1..=CHANGES {
                        for topic in 0..3 {
                            send(&publisher, &[&[topic], &[name], &change.to_ne_bytes()]);
                        }
                    }
                });
            }
            let mut newest = [0; 12];
            while newest != [CHANGES; 12] {
                let message = receive(&sub);
                let place = usize::from(message[1][0]) * 3 + usize::from(message[0][0]);
                let change = u32::from_ne_bytes(message[2][..].try_into().unwrap());
                assert!(change > newest[place], "{change} behind {}", newest[place]);
                newest[place] = change;
            }
        });
        sub.unbind(&place).unwrap();
    }
}

/// With `poll`, and by the descriptor that programs poll themselves.
#[test]
fn who_polls_is_woken_for_the_newest_of_each_topic() {
    const CHANGES: u32 = 3_000;
    let context = Context::new();
    for endpoint in [TCP, "inproc://polled"] {
        for by_descriptor in [false, true] {
            let [publisher, sub] = pair(&context, endpoint, PUB_SUB, |publisher, sub| {
                set_int(publisher, CONFLATE_TOPICS, 1);
                set_int(sub, CONFLATE_TOPICS, 1);
            });
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for change in 1..=CHANGES {
                        send(&publisher, &[b"topic", &change.to_ne_bytes()]);
                        if change % 16 == 0 {
                            std::thread::yield_now();
                        }
                    }
                });
                let mut newest = 0;
                while newest < CHANGES {
                    if by_descriptor {
                        let descriptor = sub.descriptor().unwrap();
                        let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
                        while !sub.events().unwrap().readable {
                            let found = rustix::event::poll(&mut polled, Some(&FIVE_SECONDS));
                            assert_eq!(found, Ok(1), "{endpoint}: {newest}");
                        }
                    } else {
                        let mut items = [PollItem::readable(&sub)];
                        assert_eq!(poll(&mut items, 5_000), Ok(1), "{endpoint}: {newest}");
                    }
                    let message = receive(&sub);
                    let change = u32::from_ne_bytes(message[1][..].try_into().unwrap());
                    assert!(change > newest, "{change} behind {newest}");
                    newest = change;
                }
            });
            publisher.unbind(&last_endpoint(&publisher)).unwrap();
        }
    }
}

#[test]
fn publishers_and_subscribers_have_the_option_and_no_others() {
    use SocketType::*;
    let context = Context::new();
    let one = 1_i32.to_ne_bytes();
    for kind in [Pub, Sub, Xpub, Xsub] {
        let socket = socket(&context, kind);
        for option in [CONFLATE_TOPICS, CONFLATE_TOPICS_MAX] {
            socket.set_option(option, &one).unwrap();
            let refused = socket.set_option(option, &(-1_i32).to_ne_bytes());
            assert_eq!(refused, Err(Error::InvalidArgument));
        }
        let none = socket.set_option(CONFLATE_TOPICS_MAX, &0_i32.to_ne_bytes());
        assert_eq!(none, Err(Error::InvalidArgument));
    }
    for kind in [Push, Pull, Dealer, Router, Req, Rep, Pair, Radio, Dish] {
        let socket = socket(&context, kind);
        let refused = socket.set_option(CONFLATE_TOPICS, &one);
        assert_eq!(refused, Err(Error::InvalidArgument), "{kind:?}");
    }
}

/// Between sockets of one process each frame was taken for a message: what waits was far off.
#[test]
fn a_conflated_message_of_several_frames_is_counted_once() {
    let context = Context::new();
    let [push, pull] = [SocketType::Push, SocketType::Pull].map(|kind| socket(&context, kind));
    set_int(&push, CONFLATE, 1);
    push.bind("inproc://frames").unwrap();
    pull.connect("inproc://frames").unwrap();
    for number in 0..10_u8 {
        send(&push, &[&[number], b"second", &[3; 10_000]]);
        assert_eq!(push.peers().unwrap()[0].queued, 1);
    }
    assert_eq!((conflated(&push), conflated(&pull)), (9, 9));
    assert_eq!(receive(&pull)[0], [9]);
    assert_eq!(push.peers().unwrap()[0].queued, 0);
    let [one, other] = pair_at(
        &context,
        "inproc://none",
        SocketType::Push,
        SocketType::Pull,
    );
    send(&one, &[b"kept"]);
    assert_eq!(
        (conflated(&other), receive(&other)),
        (0, vec![b"kept".to_vec()])
    );
}
