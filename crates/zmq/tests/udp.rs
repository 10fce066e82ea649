//! RADIO, DISH and DGRAM over UDP.

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use support::{LAST, MORE, last_endpoint, receive, send, set, set_int, socket};
use tidewire_zmq::{Context, Dgram, Error, Message, Multipart, PollItem, Socket, SocketType, poll};

const IPV6: i32 = 42;
const RCVHWM: i32 = 24;
const BINDTODEVICE: i32 = 92;

fn has_ipv6() -> bool {
    std::path::Path::new("/proc/net/if_inet6").exists()
}

fn send_to(radio: &Socket, group: &[u8], body: &[u8]) {
    let mut message = Message::from_slice(body);
    message.set_group(group).unwrap();
    radio.send(&mut message, LAST).unwrap();
}

#[track_caller]
fn assert_next(dish: &Socket, group: &[u8], body: &[u8]) {
    let message = dish.receive(false).unwrap();
    assert_eq!((message.group(), message.as_slice()), (group, body));
    assert!(!message.more());
}

/// A dish in group `g`, and where it is bound to.
fn dish_at(context: &Context, endpoint: &str) -> (Socket, SocketAddr) {
    let dish = socket(context, SocketType::Dish);
    dish.bind(endpoint).unwrap();
    dish.join("g").unwrap();
    let place = last_endpoint(&dish);
    (dish, place["udp://".len()..].parse().unwrap())
}

fn plain_socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    socket
}

fn malformed(socket: &Socket) -> u64 {
    socket.peers().unwrap()[0].malformed
}

fn dropped(socket: &Socket) -> u64 {
    socket.peers().unwrap()[0].dropped
}

#[test]
fn a_dish_gets_what_radios_send_to_its_groups() {
    let context = Context::new();
    for (ipv6, bound) in [(0, "udp://127.0.0.1:*"), (1, "udp://[::1]:*")] {
        if ipv6 == 1 && !has_ipv6() {
            continue;
        }
        let dish = socket(&context, SocketType::Dish);
        set_int(&dish, IPV6, ipv6);
        dish.bind(bound).unwrap();
        for group in [&b"films"[..], b"", &[b'A'; 255]] {
            dish.join(group).unwrap();
        }
        for _ in 0..2 {
            let radio = socket(&context, SocketType::Radio);
            set_int(&radio, IPV6, ipv6);
            radio.connect(&last_endpoint(&dish)).unwrap();
            send_to(&radio, b"film", b"no");
            send_to(&radio, b"films of yesterday", b"no");
            for group in [&b"films"[..], b"", &[b'A'; 255]] {
                for size in [0, 1, 64, 1_000, 7_936] {
                    send_to(&radio, group, &vec![7; size]);
                    assert_next(&dish, group, &vec![7; size]);
                }
            }
        }
        dish.leave("films").unwrap();
        assert_eq!(dish.receive(true).unwrap_err(), Error::Again);
        assert_eq!(malformed(&dish), 0);
    }
}

#[test]
fn the_bytes_are_those_of_libzmq() {
    let context = Context::new();
    let peer = plain_socket();
    let radio = socket(&context, SocketType::Radio);
    let place = format!("udp://{}", peer.local_addr().unwrap());
    radio.connect(&place).unwrap();
    let mut room = [0; 9_000];
    for (group, body, expected) in [
        (&b"TV"[..], &b"Friends"[..], &b"\x02TVFriends"[..]),
        (b"", b"x", b"\0x"),
        (b"g", b"", b"\x01g"),
    ] {
        send_to(&radio, group, body);
        let length = peer.recv(&mut room).unwrap();
        assert_eq!(&room[..length], expected);
    }
    radio.send_bytes(b"without a group", LAST).unwrap();
    let length = peer.recv(&mut room).unwrap();
    assert_eq!(&room[..length], b"\0without a group");
    assert_eq!(radio.send_bytes(b"x", MORE), Err(Error::InvalidArgument));
    // One byte more than a datagram of libzmq has is dropped and counted.
    send_to(&radio, b"g", &[1; 8_190]);
    assert_eq!(peer.recv(&mut room).unwrap(), 8_192);
    send_to(&radio, b"g", &[1; 8_191]);
    send_to(&radio, &[b'g'; 255], &[1; 7_937]);
    assert_eq!(dropped(&radio), 2);
    send_to(&radio, b"g", b"next");
    assert_eq!(peer.recv(&mut room).unwrap(), 6);
    radio.disconnect(&place).unwrap();
    send_to(&radio, b"g", b"to nobody");
    assert_eq!(radio.disconnect(&place), Err(Error::NoSuchEndpoint));
}

#[test]
fn a_datagram_that_is_no_message_is_dropped_and_counted_and_changes_nothing() {
    let context = Context::new();
    let (dish, place) = dish_at(&context, "udp://127.0.0.1:*");
    dish.join("").unwrap();
    let peer = plain_socket();
    let mut count = 0;
    for wrong in [&b""[..], b"\x01", b"\x05TV", &[255; 255], &[200; 200]] {
        peer.send_to(wrong, place).unwrap();
        peer.send_to(b"\x01gnext", place).unwrap();
        assert_next(&dish, b"g", b"next");
        count += 1;
        assert_eq!(malformed(&dish), count);
    }
    // A group ends with a zero, as libzmq has it.
    peer.send_to(b"\x03g\0xbody", place).unwrap();
    assert_next(&dish, b"g", b"body");
    peer.send_to(b"\x02\0xbody", place).unwrap();
    assert_next(&dish, b"", b"body");
    assert_eq!(malformed(&dish), count);
}

#[test]
fn of_a_long_datagram_comes_as_much_as_with_libzmq() {
    let context = Context::new();
    let (dish, place) = dish_at(&context, "udp://127.0.0.1:*");
    let peer = plain_socket();
    for length in [8_192, 8_193, 20_000, 65_000] {
        let mut datagram = vec![5; length];
        datagram[..2].copy_from_slice(b"\x01g");
        peer.send_to(&datagram, place).unwrap();
        assert_next(&dish, b"g", &[5; 8_190]);
    }
    let dgram = socket(&context, SocketType::Dgram);
    dgram.bind("udp://127.0.0.1:*").unwrap();
    let place = last_endpoint(&dgram);
    peer.send_to(&[5; 20_000], &place["udp://".len()..])
        .unwrap();
    assert_eq!(receive(&dgram)[1], [5; 8_192]);
}

#[test]
fn a_dgram_names_its_peers_and_answers_them() {
    let context = Context::new();
    for (ipv6, bound) in [(0, "udp://127.0.0.1:*"), (1, "udp://[::1]:*")] {
        if ipv6 == 1 && !has_ipv6() {
            continue;
        }
        let [one, other] = [(), ()].map(|()| {
            let dgram = socket(&context, SocketType::Dgram);
            set_int(&dgram, IPV6, ipv6);
            dgram.bind(bound).unwrap();
            dgram
        });
        let [at_one, at_other] = [&one, &other].map(|dgram| last_endpoint(dgram).split_off(6));
        for body in [&b""[..], b"question", &[3; 8_192]] {
            send(&one, &[at_other.as_bytes(), body]);
            let question = receive(&other);
            let sender = [at_one.as_bytes(), b"\0"].concat();
            assert_eq!(question, [&sender[..], body]);
            send(&other, &[&question[0], b"answer"]);
            let sender = [at_other.as_bytes(), b"\0"].concat();
            assert_eq!(receive(&one), [&sender[..], b"answer"]);
        }
    }
}

#[test]
fn a_dgram_of_both_families_names_peers_of_ipv4_as_they_are() {
    if !has_ipv6() {
        return;
    }
    let context = Context::new();
    let dgram = socket(&context, SocketType::Dgram);
    set_int(&dgram, IPV6, 1);
    dgram.bind("udp://*:*").unwrap();
    let port = last_endpoint(&dgram).rsplit_once(':').unwrap().1.to_owned();
    let peer = plain_socket();
    peer.send_to(b"hello", format!("127.0.0.1:{port}")).unwrap();
    let question = receive(&dgram);
    let sender = format!("{}\0", peer.local_addr().unwrap());
    assert_eq!(question, [sender.as_bytes(), b"hello"]);
    send(&dgram, &[&question[0], b"answer"]);
    assert_eq!(peer.recv(&mut [0; 9]).unwrap(), 6);
}

#[test]
fn a_message_of_a_dgram_is_an_address_and_a_body() {
    let context = Context::new();
    let dgram = socket(&context, SocketType::Dgram);
    dgram.bind("udp://127.0.0.1:*").unwrap();
    let own = last_endpoint(&dgram).split_off(6);
    let invalid = Err(Error::InvalidArgument);
    assert_eq!(dgram.send_bytes(b"alone", LAST), invalid);
    dgram.send_bytes(own.as_bytes(), MORE).unwrap();
    assert_eq!(dgram.send_bytes(b"a third", MORE), invalid);
    dgram.send_bytes(b"body", LAST).unwrap();
    assert_eq!(receive(&dgram)[1], b"body");
    for count in [1, 3] {
        let mut message: Multipart = vec![own.as_str(); count].into();
        assert_eq!(dgram.send_parts(&mut message, false), invalid);
    }
    let mut count = 0;
    for address in [
        "",
        "x",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:0",
        "127.0.0.1:x",
        ":5",
        "localhost:5",
        "256.0.0.1:5",
        "[::1]:5",
        "[fe80::1%1]:5",
    ] {
        send(&dgram, &[address.as_bytes(), b"x"]);
        count += 1;
        assert_eq!(dropped(&dgram), count, "{address}");
    }
    send(&dgram, &[own.as_bytes(), &[0; 8_193]]);
    assert_eq!(dropped(&dgram), count + 1);
    send(&dgram, &[own.as_bytes(), b"still here"]);
    assert_eq!(receive(&dgram)[1], b"still here");
}

#[test]
fn a_dgram_is_bound_once() {
    let context = Context::new();
    let dgram = socket(&context, SocketType::Dgram);
    let events = dgram.events().unwrap();
    assert!(!events.readable && !events.writable);
    let mut message = Multipart::from(["127.0.0.1:5", "x"]);
    assert_eq!(dgram.send_parts(&mut message, true), Err(Error::Again));
    dgram.bind("udp://127.0.0.1:*").unwrap();
    assert!(dgram.events().unwrap().writable);
    let first = last_endpoint(&dgram);
    dgram.bind("udp://127.0.0.1:*").unwrap();
    let second = last_endpoint(&dgram);
    let peer = plain_socket();
    for place in [&second, &first] {
        let _ = peer.send_to(place.as_bytes(), &place["udp://".len()..]);
    }
    assert_eq!(receive(&dgram)[1], first.as_bytes());
    assert_eq!(dgram.receive(true).unwrap_err(), Error::Again);
    dgram.unbind(&first).unwrap();
    dgram.unbind(&second).unwrap();
    assert_eq!(dgram.unbind(&second), Err(Error::NoSuchEndpoint));
    dgram.bind(&second).unwrap();
    peer.send_to(b"again", &second["udp://".len()..]).unwrap();
    assert_eq!(receive(&dgram)[1], b"again");
}

#[test]
fn other_types_and_the_other_direction_are_refused() {
    let context = Context::new();
    let refused = Err(Error::IncompatibleTransport);
    let endpoint = "udp://127.0.0.1:5";
    for number in 0..=20 {
        let Some(kind) = SocketType::from_number(number) else {
            continue;
        };
        let tested = socket(&context, kind);
        let receives = matches!(kind, SocketType::Dish | SocketType::Dgram);
        if !receives {
            // Before it is looked at.
            assert_eq!(tested.bind("udp://no-such-device"), refused, "{kind:?}");
        }
        if kind != SocketType::Radio {
            assert_eq!(tested.connect("udp://*:*"), refused, "{kind:?}");
        }
        let undone = match receives || kind == SocketType::Radio {
            true => Err(Error::NoSuchEndpoint),
            false => refused,
        };
        assert_eq!(tested.unbind(endpoint), undone, "{kind:?}");
        assert_eq!(tested.disconnect(endpoint), undone, "{kind:?}");
        assert_eq!(tested.bind("udp://"), Err(Error::InvalidArgument));
    }
    let dgram = socket(&context, SocketType::Dgram);
    for endpoint in [
        "tcp://127.0.0.1:*",
        "ipc://*",
        "shm://*",
        "inproc://a",
        "ws://*:*",
    ] {
        assert_eq!(dgram.bind(endpoint), refused);
        assert_eq!(dgram.connect(endpoint), refused);
    }
    assert!(Dgram::connect(&context, endpoint).is_err());
}

#[test]
fn what_the_system_refuses_is_told() {
    let context = Context::new();
    let taken = plain_socket();
    let dish = socket(&context, SocketType::Dish);
    let place = format!("udp://{}", taken.local_addr().unwrap());
    assert_eq!(dish.bind(&place), Err(Error::AddressInUse));
    // Of the documentation's network: no machine has it.
    let elsewhere = dish.bind("udp://203.0.113.9:*");
    assert_eq!(elsewhere, Err(Error::AddressNotAvailable));
    assert_eq!(
        dish.bind("udp://no-such-device:*"),
        Err(Error::NoSuchDevice)
    );
    drop(taken);
    dish.bind(&place).unwrap();
    set(&dish, BINDTODEVICE, b"no-such-device");
    assert!(dish.bind("udp://127.0.0.1:*").is_err());
}

#[test]
fn a_datagram_comes_by_the_device_that_is_bound_to() {
    let context = Context::new();
    let dish = socket(&context, SocketType::Dish);
    set(&dish, BINDTODEVICE, b"lo");
    match dish.bind("udp://*:*") {
        // It is a privilege on old kernels.
        Err(Error::System(_)) => return,
        other => other.unwrap(),
    }
    dish.join("g").unwrap();
    let port = last_endpoint(&dish).rsplit_once(':').unwrap().1.to_owned();
    let radio = socket(&context, SocketType::Radio);
    set(&radio, BINDTODEVICE, b"lo");
    radio.connect(&format!("udp://127.0.0.1:{port}")).unwrap();
    send_to(&radio, b"g", b"by lo");
    assert_next(&dish, b"g", b"by lo");
}

#[test]
fn every_dish_of_a_multicast_group_gets_a_message_and_no_other_dish() {
    let context = Context::new();
    let bound = |endpoint: &str| {
        let dish = socket(&context, SocketType::Dish);
        dish.bind(endpoint).unwrap();
        dish.join("g").unwrap();
        dish
    };
    let first = bound("udp://lo;239.192.7.1:*");
    let place = last_endpoint(&first);
    assert!(place.starts_with("udp://lo;239.192.7.1:"), "{place}");
    let second = bound(&place);
    let other = bound(&place.replace("239.192.7.1", "239.192.7.2"));
    let both = bound(&place);
    both.bind(&place.replace("239.192.7.1", "239.192.7.2"))
        .unwrap();
    let radio = socket(&context, SocketType::Radio);
    radio.connect(&place.replace("lo;", "127.0.0.1;")).unwrap();
    send_to(&radio, b"g", b"one");
    for dish in [&first, &second, &both] {
        assert_next(dish, b"g", b"one");
        assert_eq!(dish.receive(true).unwrap_err(), Error::Again);
    }
    assert_eq!(other.receive(true).unwrap_err(), Error::Again);
    // A radio may have several places.
    radio
        .connect(&place.replace("239.192.7.1", "239.192.7.2"))
        .unwrap();
    send_to(&radio, b"g", b"two");
    for dish in [&first, &second, &other] {
        assert_next(dish, b"g", b"two");
    }
    first.unbind(&place).unwrap();
    send_to(&radio, b"g", b"three");
    assert_next(&second, b"g", b"three");
    assert_eq!(first.receive(true).unwrap_err(), Error::Again);
}

#[test]
fn a_radio_has_dishes_by_udp_and_by_tcp() {
    let context = Context::new();
    let (near, place) = dish_at(&context, "udp://127.0.0.1:*");
    let radio = socket(&context, SocketType::Radio);
    radio.bind("tcp://127.0.0.1:*").unwrap();
    let far = socket(&context, SocketType::Dish);
    far.connect(&last_endpoint(&radio)).unwrap();
    far.join("g").unwrap();
    radio.connect(&format!("udp://{place}")).unwrap();
    // Until the radio has heard of the group.
    while far.receive(true).is_err() {
        send_to(&radio, b"g", b"settle");
        assert_next(&near, b"g", b"settle");
        std::thread::yield_now();
    }
    send_to(&radio, b"g", b"both");
    assert_next(&near, b"g", b"both");
    while far.receive(false).unwrap().as_slice() != b"both" {}
}

/// What the program does not take waits within its mark here, and in the kernel.
#[test]
fn a_dish_that_is_not_asked_loses_nothing_that_there_is_room_for() {
    let context = Context::new();
    let dish = socket(&context, SocketType::Dish);
    set_int(&dish, RCVHWM, 5);
    dish.bind("udp://127.0.0.1:*").unwrap();
    dish.join("g").unwrap();
    let place = last_endpoint(&dish);
    let peer = plain_socket();
    for number in 0..100_u8 {
        let datagram = [1, b'g', number];
        peer.send_to(&datagram, &place["udp://".len()..]).unwrap();
        if number % 10 == 0 {
            std::thread::yield_now();
        }
    }
    for number in 0..100_u8 {
        assert_next(&dish, b"g", &[number]);
    }
}

#[test]
fn who_polls_is_told_of_a_datagram() {
    let context = Context::new();
    let (dish, place) = dish_at(&context, "udp://127.0.0.1:*");
    let peer = plain_socket();
    let mut items = [PollItem::readable(&dish)];
    assert_eq!(poll(&mut items, 0), Ok(0));
    for _ in 0..20 {
        peer.send_to(b"\x01gnews", place).unwrap();
        assert_eq!(poll(&mut items, 5_000), Ok(1));
        assert!(items[0].ready.readable);
        assert_next(&dish, b"g", b"news");
    }
    // One that is not wanted wakes it, and is nothing to receive.
    peer.send_to(b"\x01hnews", place).unwrap();
    assert_eq!(poll(&mut items, 20), Ok(0));
}

#[test]
fn a_call_that_is_not_to_wait_comes_back_while_useless_datagrams_come() {
    let context = Context::new();
    let (dish, place) = dish_at(&context, "udp://127.0.0.1:*");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let peer = plain_socket();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = peer.send_to(b"\x01hno", place);
                let _ = peer.send_to(b"\x09no", place);
            }
        });
        let begin = Instant::now();
        for _ in 0..100 {
            assert_eq!(dish.receive(true).unwrap_err(), Error::Again);
        }
        set_int(&dish, support::RCVTIMEO, 50);
        assert_eq!(dish.receive(false).unwrap_err(), Error::Again);
        assert!(begin.elapsed() < Duration::from_secs(30));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(malformed(&dish) > 0);
}

#[test]
fn a_context_that_ends_wakes_who_waits_for_a_datagram() {
    let context = Context::new();
    let (dish, _) = dish_at(&context, "udp://127.0.0.1:*");
    set_int(&dish, support::RCVTIMEO, -1);
    let other = context.clone();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| dish.receive(false).unwrap_err());
        other.shutdown();
        assert_eq!(waiting.join().unwrap(), Error::Terminated);
    });
}
